"""Modules of one operation each: every operation of StableHLO and CHLO, for every element type.

`CASES` has a template for each operation, and for each operation in a region: `reduce of power` is
a reduce whose computation applies power. `$` in a template is the element type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from lowering.mlir.types import element_type_text

__all__ = ["CASES", "ELEMENT_TYPES", "Case", "modules", "text_of"]

ELEMENT_TYPES: Final = {t.name: t for t in pt.ALL}
"""The element types by name."""


class Case(NamedTuple):
    """A template for modules of one operation.

    Attributes:
        operation: the operation's name, with its dialect.
        operands: the shapes of the operands, such as "2x3": arrays of the element type. "2xi32" has
            an element type of its own, and is 0; "2xi32=[1, 2]" is a constant.
        results: the shapes of the results. "$real" is the type of the parts of complex numbers.
        attributes: the attributes as MLIR text.
        regions: the regions as MLIR text.
        replicas, partitions: the numbers of devices.
        captured: the shape of the value %captured, which the regions use; "" if there is none.
    """

    operation: str
    operands: Sequence[str]
    results: Sequence[str]
    attributes: str = ""
    regions: Sequence[str] = ()
    replicas: int = 1
    partitions: int = 1
    captured: str = ""


def _region(computed: str, arguments: Sequence[str] = ("x", "y"), result: str = "$") -> str:
    """Return a region that returns %r, which `computed` defines from scalar arguments."""
    declared = ", ".join(f"%{name}: tensor<$>" for name in arguments)
    return f"{{\n^bb0({declared}):\n{computed}\nstablehlo.return %r : tensor<{result}>\n}}"


def _compared(direction: str) -> str:
    signature = "(tensor<$>, tensor<$>) -> tensor<i1>"
    return _region(f"%r = stablehlo.compare {direction}, %x, %y : {signature}", result="i1")


def _binary(name: str, dialect: str = "stablehlo") -> str:
    signature = "(tensor<$>, tensor<$>) -> tensor<$>"
    return _region(f'%r = "{dialect}.{name}"(%x, %y) : {signature}')


def _unary(name: str) -> str:
    return _region(f'%r = "{name}"(%x) : (tensor<$>) -> tensor<$>', ["x"])


UNARY: Final = (
    *("cbrt", "ceil", "cosine", "count_leading_zeros", "exponential", "exponential_minus_one"),
    *("floor", "log", "log_plus_one", "logistic", "negate", "not", "popcnt", "round_nearest_afz"),
    *("round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh"),
)
BINARY: Final = (
    *("add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power"),
    *("remainder", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract"),
    "xor",
)
CHLO_UNARY: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "conj", "cosh", "digamma"),
    *("erf", "erf_inv", "erfc", "lgamma", "sinh", "square", "tan"),
)
CHLO_BINARY: Final = ("mulhi", "next_after", "polygamma", "zeta")
_BROADCASTING: Final = (
    *("add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "next_after", "or"),
    *("polygamma", "power", "remainder", "shift_left", "shift_right_arithmetic"),
    *("shift_right_logical", "subtract", "xor", "zeta"),
)
_REDUCERS: Final = (*BINARY, "chlo.next_after", "chlo.polygamma", "chlo.zeta", "chlo.mulhi")


def _reducer(name: str) -> str:
    dialect, _, operation = name.rpartition(".")
    return _binary(operation, dialect or "stablehlo")


_CHANNEL: Final = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
_GROUP: Final = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
_LONE_GROUPS: Final = "replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>"
_MODES: Final = {
    "": (_GROUP, 2, 1),
    " of replicas with a channel": (f"{_GROUP}, {_CHANNEL}, use_global_device_ids", 2, 1),
    " of partitions": (f"{_GROUP}, {_CHANNEL}, use_global_device_ids", 1, 2),
    " across partitions": (
        f"replica_groups = dense<0> : tensor<1x1xi64>, {_CHANNEL}",
        1,
        2,
    ),
}
"""The ways to name the participants of a collective operation: attributes, replicas, partitions."""


def _elementwise() -> Iterator[tuple[str, Case]]:
    for name in UNARY:
        yield name, Case(f"stablehlo.{name}", ["2x3"], ["2x3"])
    for name in CHLO_UNARY:
        yield f"chlo.{name}", Case(f"chlo.{name}", ["2x3"], ["2x3"])
    for name in BINARY:
        yield name, Case(f"stablehlo.{name}", ["2x3", "2x3"], ["2x3"])
    for name in CHLO_BINARY:
        yield f"chlo.{name}", Case(f"chlo.{name}", ["2x3", "2x3"], ["2x3"])
    for name in _BROADCASTING:
        yield (
            f"chlo.broadcast_{name}",
            Case(f"chlo.broadcast_{name}", ["2x3", "3"], ["2x3"]),
        )
    for name in ("is_inf", "is_neg_inf", "is_pos_inf"):
        yield f"chlo.{name}", Case(f"chlo.{name}", ["2"], ["2xi1"])
    yield "chlo.broadcast_complex", Case("chlo.broadcast_complex", ["2x3", "3"], ["2x3xcomplex<$>"])
    yield "abs", Case("stablehlo.abs", ["2x3"], ["2x3x$real"])
    yield "real", Case("stablehlo.real", ["2"], ["2x$real"])
    yield "imag", Case("stablehlo.imag", ["2"], ["2x$real"])
    yield "complex", Case("stablehlo.complex", ["2", "2"], ["2xcomplex<$>"])
    yield "is_finite", Case("stablehlo.is_finite", ["2"], ["2xi1"])
    yield "clamp", Case("stablehlo.clamp", ["2x3", "2x3", "2x3"], ["2x3"])
    yield "clamp by scalars", Case("stablehlo.clamp", ["", "2x3", ""], ["2x3"])
    yield "select", Case("stablehlo.select", ["2xi1", "2", "2"], ["2"])
    yield "select by", Case("stablehlo.select", ["2", "2xf32", "2xf32"], ["2xf32"])
    yield "chlo.broadcast_select", Case("chlo.broadcast_select", ["2xi1", "", "2"], ["2"])
    precision = "exponent_bits = 4 : i32, mantissa_bits = 2 : i32"
    yield "reduce_precision", Case("stablehlo.reduce_precision", ["2"], ["2"], precision)
    for direction in ("EQ", "NE", "LT", "GE"):
        attribute = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
        yield (
            f"compare {direction}",
            Case("stablehlo.compare", ["2x3", "2x3"], ["2x3xi1"], attribute),
        )
        attribute = f"comparison_direction = #chlo<comparison_direction {direction}>"
        yield (
            f"chlo.broadcast_compare {direction}",
            Case("chlo.broadcast_compare", ["2x3", "3"], ["2x3xi1"], attribute),
        )
    for direction, kind in (
        ("LT", "TOTALORDER"),
        ("EQ", "TOTALORDER"),
        ("LT", "FLOAT"),
        ("LT", "SIGNED"),
        ("LT", "UNSIGNED"),
    ):
        attributes = (
            f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
            f"compare_type = #stablehlo<comparison_type {kind}>"
        )
        yield (
            f"compare {direction} {kind}",
            Case("stablehlo.compare", ["2", "2"], ["2xi1"], attributes),
        )
    for name, t in ELEMENT_TYPES.items():
        to = element_type_text(t)
        yield f"convert to {name}", Case("stablehlo.convert", ["2x3"], [f"2x3x{to}"])
        yield f"bitcast_convert to {name}", Case("stablehlo.bitcast_convert", ["2"], [f"2x{to}"])
        yield (
            f"bitcast_convert of pairs to {name}",
            Case("stablehlo.bitcast_convert", ["3x2"], [f"3x{to}"]),
        )
        yield (
            f"bitcast_convert to pairs of {name}",
            Case("stablehlo.bitcast_convert", ["3"], [f"3x2x{to}"]),
        )
    for name in ("s8", "s2", "u16", "s32"):
        to = element_type_text(ELEMENT_TYPES[name])
        for bits in (8, 16, 32, 64):
            yield (
                f"mhlo.stochastic_convert by u{bits} to {name}",
                Case("mhlo.stochastic_convert", ["2", f"2xui{bits}"], [f"2x{to}"]),
            )


def _reductions() -> Iterator[tuple[str, Case]]:
    reduced = "dimensions = array<i64: 0>"
    window = (
        "window_dimensions = array<i64: 2, 1>, padding = dense<[[1, 0], [0, 0]]> : tensor<2x2xi64>"
    )
    scatter = (
        "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [], "
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
    )
    for name in _REDUCERS:
        body = _reducer(name)
        yield f"reduce of {name}", Case("stablehlo.reduce", ["3x2", ""], ["2"], reduced, [body])
        yield (
            f"reduce of {name} to a scalar",
            Case("stablehlo.reduce", ["40", ""], [""], reduced, [body]),
        )
        yield (
            f"reduce_window of {name}",
            Case("stablehlo.reduce_window", ["3x2", ""], ["3x2"], window, [body]),
        )
        yield (
            f"scatter of {name}",
            Case("stablehlo.scatter", ["5", "2x1xi32", "2"], ["5"], scatter, [body]),
        )
        yield (
            f"map of {name}",
            Case("stablehlo.map", ["3", "3"], ["3"], reduced, [body]),
        )
        yield (
            f"select_and_scatter of {name}",
            Case(
                "stablehlo.select_and_scatter",
                ["4", "2", ""],
                ["4"],
                "window_dimensions = array<i64: 2>, window_strides = array<i64: 2>",
                [_compared("EQ"), body],
            ),
        )
        for mode, (attributes, replicas, partitions) in _MODES.items():
            if mode and name not in ("add", "and", "subtract"):
                continue
            yield (
                f"all_reduce of {name}{mode}",
                Case(
                    "stablehlo.all_reduce",
                    ["4"],
                    ["4"],
                    attributes,
                    [body],
                    replicas,
                    partitions,
                ),
            )
            count = 1 if "across" in mode else 2
            yield (
                f"reduce_scatter of {name}{mode}",
                Case(
                    "stablehlo.reduce_scatter",
                    ["4"],
                    [str(4 // count)],
                    f"scatter_dimension = 0 : i64, {attributes}",
                    [body],
                    replicas,
                    partitions,
                ),
            )
    for direction in ("EQ", "LT", "GE"):
        yield (
            f"sort by {direction}",
            Case("stablehlo.sort", ["3x2"], ["3x2"], "dimension = 0 : i64", [_compared(direction)]),
        )
        yield (
            f"select_and_scatter by {direction}",
            Case(
                "stablehlo.select_and_scatter",
                ["4", "2", ""],
                ["4"],
                "window_dimensions = array<i64: 2>, window_strides = array<i64: 2>",
                [_compared(direction), _binary("add")],
            ),
        )
        keys = "{\n^bb0(%x: tensor<$>, %y: tensor<$>, %p: tensor<i32>, %q: tensor<i32>):\n"
        signature = "(tensor<$>, tensor<$>) -> tensor<i1>"
        by_key = (
            f"{keys}%r = stablehlo.compare {direction}, %x, %y : {signature}\n"
            f"stablehlo.return %r : tensor<i1>\n}}"
        )
        yield (
            f"sort by {direction} with numbers",
            Case("stablehlo.sort", ["3", "3xi32"], ["3", "3xi32"], "dimension = 0 : i64", [by_key]),
        )
        # As jax writes argmax.
        better = "GT" if direction == "GE" else direction
        pairs = (
            "{\n^bb0(%x: tensor<$>, %i: tensor<i32>, %y: tensor<$>, %j: tensor<i32>):\n"
            f"%p = stablehlo.compare {better}, %x, %y : {signature}\n"
            "%q = stablehlo.compare EQ, %x, %y : (tensor<$>, tensor<$>) -> tensor<i1>\n"
            "%l = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            "%t = stablehlo.and %q, %l : tensor<i1>\n%f = stablehlo.or %p, %t : tensor<i1>\n"
            "%v = stablehlo.select %f, %x, %y : tensor<i1>, tensor<$>\n"
            "%n = stablehlo.select %f, %i, %j : tensor<i1>, tensor<i32>\n"
            "stablehlo.return %v, %n : tensor<$>, tensor<i32>\n}"
        )
        yield (
            f"reduce of pairs by {better}",
            Case(
                "stablehlo.reduce",
                ["2x3", "2x3xi32", "", "i32"],
                ["2", "2xi32"],
                "dimensions = array<i64: 1>",
                [pairs],
            ),
        )
    for name in UNARY:
        body = _unary(f"stablehlo.{name}")
        yield f"map of {name}", Case("stablehlo.map", ["3"], ["3"], reduced, [body])
    for name in CHLO_UNARY:
        body = _unary(f"chlo.{name}")
        yield f"map of chlo.{name}", Case("stablehlo.map", ["3"], ["3"], reduced, [body])
    clamped = _region("%r = stablehlo.clamp %y, %x, %y : tensor<$>")
    yield "reduce of clamp", Case("stablehlo.reduce", ["3x2", ""], ["2"], reduced, [clamped])
    first = "{\n^bb0(%x: tensor<$>, %y: tensor<$>):\nstablehlo.return %x : tensor<$>\n}"
    last = "{\n^bb0(%x: tensor<$>, %y: tensor<$>):\nstablehlo.return %y : tensor<$>\n}"
    yield "reduce to the first", Case("stablehlo.reduce", ["3x2", ""], ["2"], reduced, [first])
    yield (
        "reduce_window to the last",
        Case("stablehlo.reduce_window", ["3x2", ""], ["3x2"], window, [last]),
    )
    yield (
        "scatter of the update",
        Case("stablehlo.scatter", ["5", "2x1xi32", "2"], ["5"], scatter, [last]),
    )
    yield (
        "scatter at",
        Case(
            "stablehlo.scatter",
            ["5xf32", "2x1", "2xf32"],
            ["5xf32"],
            scatter,
            [last.replace("$", "f32")],
        ),
    )
    for size in ("2", "2x3"):
        yield (
            f"chlo.top_k of {size}",
            Case("chlo.top_k", [size], [size, f"{size}xi32"], f"k = {size[-1]} : i64"),
        )


def _movements() -> Iterator[tuple[str, Case]]:
    yield (
        "broadcast",
        Case("stablehlo.broadcast", ["3"], ["2x3"], "broadcast_sizes = array<i64: 2>"),
    )
    yield (
        "broadcast_in_dim",
        Case("stablehlo.broadcast_in_dim", ["3"], ["2x3"], "broadcast_dimensions = array<i64: 1>"),
    )
    yield (
        "dynamic_broadcast_in_dim",
        Case(
            "stablehlo.dynamic_broadcast_in_dim",
            ["3", "2xi64=[2, 3]"],
            ["2x3"],
            "broadcast_dimensions = array<i64: 1>",
        ),
    )
    yield (
        "dynamic_broadcast_in_dim to",
        Case(
            "stablehlo.dynamic_broadcast_in_dim",
            ["1xf32", "2x$=1"],
            ["1x1xf32"],
            "broadcast_dimensions = array<i64: 1>",
        ),
    )
    yield "concatenate", Case("stablehlo.concatenate", ["2", "3"], ["5"], "dimension = 0 : i64")
    low = "edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 0>"
    pad = f"{low}, interior_padding = array<i64: 1>"
    yield "pad", Case("stablehlo.pad", ["3", ""], ["6"], pad)
    sizes = ["1xi64=[1]", "1xi64=[0]", "1xi64=[1]"]
    yield "dynamic_pad", Case("stablehlo.dynamic_pad", ["3", "", *sizes], ["6"])
    yield "reshape", Case("stablehlo.reshape", ["2x3"], ["3x2"])
    yield "dynamic_reshape", Case("stablehlo.dynamic_reshape", ["2x3", "2xi64=[3, 2]"], ["3x2"])
    yield (
        "dynamic_reshape to",
        Case("stablehlo.dynamic_reshape", ["1xf32", "2x$=1"], ["1x1xf32"]),
    )
    yield (
        "transpose",
        Case("stablehlo.transpose", ["2x3"], ["3x2"], "permutation = array<i64: 1, 0>"),
    )
    yield "reverse", Case("stablehlo.reverse", ["2x3"], ["2x3"], "dimensions = array<i64: 1>")
    ranges = "start_indices = array<i64: 1>, limit_indices = array<i64: 5>, strides = array<i64: 2>"
    yield "slice", Case("stablehlo.slice", ["5"], ["2"], ranges)
    yield (
        "real_dynamic_slice",
        Case("stablehlo.real_dynamic_slice", ["5", *("1xi64=1", "1xi64=5", "1xi64=2")], ["2"]),
    )
    yield (
        "real_dynamic_slice at",
        Case("stablehlo.real_dynamic_slice", ["5xf32", "1x$=1", "1x$=1", "1x$=1"], ["0xf32"]),
    )
    one = "slice_sizes = array<i64: 2>"
    yield "dynamic_slice", Case("stablehlo.dynamic_slice", ["5", "i32"], ["2"], one)
    yield "dynamic_slice at", Case("stablehlo.dynamic_slice", ["5xf32", ""], ["2xf32"], one)
    yield "dynamic_update_slice", Case("stablehlo.dynamic_update_slice", ["5", "2", "i32"], ["5"])
    yield (
        "dynamic_update_slice at",
        Case("stablehlo.dynamic_update_slice", ["5xf32", "2xf32", ""], ["5xf32"]),
    )
    numbers = (
        "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1>"
    )
    gather = f"{numbers}, slice_sizes = array<i64: 1>"
    yield "gather", Case("stablehlo.gather", ["5", "2x1xi32"], ["2"], gather)
    yield "gather at", Case("stablehlo.gather", ["5xf32", "2x1"], ["2xf32"], gather)
    operands = ["5", "2x1xi32", "1xi64=[1]"]
    yield "dynamic_gather", Case("stablehlo.dynamic_gather", operands, ["2"], numbers)
    index = "dim = 0 : i64, batch_dims = 0 : i64"
    yield (
        "torch_index_select",
        Case("stablehlo.torch_index_select", ["5x2", "3xi32"], ["3x2"], index),
    )
    yield (
        "torch_index_select at",
        Case("stablehlo.torch_index_select", ["5x2xf32", "3"], ["3x2xf32"], index),
    )
    yield "iota", Case("stablehlo.iota", [], ["3"], "iota_dimension = 0 : i64")
    dimension = "iota_dimension = 0 : i64"
    yield "dynamic_iota", Case("stablehlo.dynamic_iota", ["1xi64=[3]"], ["3"], dimension)
    yield "dynamic_iota of", Case("stablehlo.dynamic_iota", ["1x$=1"], ["1xf32"], dimension)
    yield "constant", Case("stablehlo.constant", [], ["2"], "value = dense<ONE> : tensor<2x$>")
    yield "optimization_barrier", Case("stablehlo.optimization_barrier", ["2"], ["2"])
    dimension = "dimension = 0 : i64"
    yield "get_dimension_size", Case("stablehlo.get_dimension_size", ["2"], ["i32"], dimension)
    yield (
        "set_dimension_size",
        Case("stablehlo.set_dimension_size", ["2", "i32=2"], ["2"], dimension),
    )
    branches = [_CAPTURING, _CAPTURING]
    yield "if", Case("stablehlo.if", ["i1"], ["2"], regions=branches, captured="2")
    yield "case", Case("stablehlo.case", ["i32"], ["2"], regions=branches, captured="2")
    yield "case by", Case("stablehlo.case", [""], ["2"], regions=branches, captured="2")


_CAPTURING: Final = "{\nstablehlo.return %captured : tensor<2x$>\n}"
"""A branch that returns the captured value."""


def _linear_algebra() -> Iterator[tuple[str, Case]]:
    yield "cholesky", Case("stablehlo.cholesky", ["2x2"], ["2x2"], "lower = true")
    solve = (
        "left_side = true, lower = true, unit_diagonal = false, "
        "transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
    )
    yield (
        "triangular_solve",
        Case("stablehlo.triangular_solve", ["2x2", "2x2"], ["2x2"], solve),
    )
    for kind, size, result in (("FFT", "4", "4"), ("IFFT", "4", "4")):
        attributes = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = array<i64: 4>"
        yield kind.lower(), Case("stablehlo.fft", [size], [result], attributes)
    attributes = "fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 4>"
    yield "rfft", Case("stablehlo.fft", ["4"], ["3xcomplex<$>"], attributes)
    attributes = "fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 4>"
    yield "irfft", Case("stablehlo.fft", ["3"], ["4x$real"], attributes)
    dot = (
        "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], "
        "rhs_contracting_dimensions = [0]>"
    )
    convolution = (
        "batch_group_count = 1 : i64, feature_group_count = 1 : i64, "
        "dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>"
    )
    for suffix, result in (
        ("", ""),
        (" into s32", "xi32"),
        (" into f32", "xf32"),
        (" into f64", "xf64"),
        (" into c128", "xcomplex<f64>"),
    ):
        yield (
            f"dot_general{suffix}",
            Case("stablehlo.dot_general", ["2x3", "3x4"], [f"2x4{result}"], dot),
        )
        yield f"dot{suffix}", Case("stablehlo.dot", ["2x3", "3x4"], [f"2x4{result}"])
        yield (
            f"dot of vectors{suffix}",
            Case("stablehlo.dot", ["3", "3"], [result.removeprefix("x")]),
        )
        yield (
            f"convolution{suffix}",
            Case("stablehlo.convolution", ["1x6x2", "3x2x4"], [f"1x4x4{result}"], convolution),
        )
    yield (
        "dot_general with s8",
        Case("stablehlo.dot_general", ["2x3", "3x4xi8"], ["2x4xi32"], dot),
    )
    yield (
        "convolution with f32",
        Case("stablehlo.convolution", ["1x6x2", "3x2x4xf32"], ["1x4x4xf32"], convolution),
    )
    yield (
        "dynamic_conv",
        Case(
            "stablehlo.dynamic_conv",
            ["1x6x2", "3x2x4", "1x2xi64=0"],
            ["1x4x4"],
            convolution,
        ),
    )
    yield "einsum", Case("stablehlo.einsum", ["2x3", "3x4"], ["2x4"], 'einsum_config = "ab,bc->ac"')
    yield (
        "unary_einsum",
        Case("stablehlo.unary_einsum", ["2x3"], ["2"], 'einsum_config = "ab->a"'),
    )
    ragged = (
        "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], "
        "rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
        "rhs_group_dimensions = [0]>"
    )
    yield (
        "chlo.ragged_dot",
        Case("chlo.ragged_dot", ["4x3", "2x3x5", "2xi32"], ["4x5"], ragged),
    )
    yield (
        "chlo.ragged_dot in groups of",
        Case("chlo.ragged_dot", ["4x3xf32", "2x3x5xf32", "2"], ["4x5xf32"], ragged),
    )
    features = "epsilon = 1.0e-3 : f32, feature_index = 1 : i64"
    moments = ["2", "2", "2", "2"]
    yield (
        "batch_norm_inference",
        Case("stablehlo.batch_norm_inference", ["3x2", *moments], ["3x2"], features),
    )
    yield (
        "batch_norm_training",
        Case("stablehlo.batch_norm_training", ["3x2", "2", "2"], ["3x2", "2", "2"], features),
    )
    yield (
        "batch_norm_grad",
        Case(
            "stablehlo.batch_norm_grad",
            ["3x2", "2", "2", "2", "3x2"],
            ["3x2", "2", "2"],
            features,
        ),
    )
    for kind in ("UNIFORM", "NORMAL"):
        yield (
            f"rng {kind}",
            Case(
                "stablehlo.rng",
                ["", "", "1xi64=[3]"],
                ["3"],
                f"rng_distribution = #stablehlo<rng_distribution {kind}>",
            ),
        )
    for kind in ("DEFAULT", "THREE_FRY", "PHILOX"):
        algorithm = f"rng_algorithm = #stablehlo<rng_algorithm {kind}>"
        yield (
            f"rng_bit_generator {kind}",
            Case("stablehlo.rng_bit_generator", ["2xui64"], ["2xui64", "3"], algorithm),
        )
        yield (
            f"rng_bit_generator {kind} from",
            Case("stablehlo.rng_bit_generator", ["2"], ["2", "3xui32"], algorithm),
        )


def _collectives() -> Iterator[tuple[str, Case]]:
    for mode, (attributes, replicas, partitions) in _MODES.items():
        counts = {"replicas": replicas, "partitions": partitions}
        count = 1 if "across" in mode else 2
        yield (
            f"all_gather{mode}",
            Case(
                "stablehlo.all_gather",
                ["2"],
                [str(2 * count)],
                f"all_gather_dim = 0 : i64, {attributes}",
                **counts,
            ),
        )
        split = "split_dimension = 0 : i64, concat_dimension = 0 : i64"
        attributes = attributes.replace(", use_global_device_ids", "")
        yield (
            f"all_to_all{mode}",
            Case(
                "stablehlo.all_to_all",
                ["4"],
                ["4"],
                f"{split}, split_count = {count} : i64, {attributes}",
                **counts,
            ),
        )
        yield (
            f"collective_broadcast{mode}",
            Case("stablehlo.collective_broadcast", ["2"], ["2"], attributes, **counts),
        )
        pairs = "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>"
        pairs += f", {_CHANNEL}" if _CHANNEL in attributes else ""
        yield (
            f"collective_permute{mode}",
            Case("stablehlo.collective_permute", ["2"], ["2"], pairs, **counts),
        )
    yield (
        "cross-replica-sum",
        Case("stablehlo.cross-replica-sum", ["2"], ["2"], _GROUP, replicas=2),
    )


def _cases() -> dict[str, Case]:
    families = (_elementwise, _reductions, _movements, _linear_algebra, _collectives)
    return {name: case for family in families for name, case in family()}


CASES: Final = _cases()
"""The cases by name."""


_ENDS_IN_SIZE: Final = re.compile(r"(?:\d+x)*\d+")


def _type(shape: str) -> str:
    """Return the template of a tensor type: "2x3" is "tensor<2x3x$>"."""
    if _ENDS_IN_SIZE.fullmatch(shape):
        shape += "x$"
    return f"tensor<{shape or '$'}>"


def text_of(case: Case, element_type: PrimitiveType, *, constant: bool = False) -> str:
    """Return a case's module as text.

    Args:
        case: the template.
        element_type: the element type.
        constant: whether the operands are constants instead of parameters.
    """
    one = "(1.0, 1.0)" if element_type.is_complex else "1.0" if element_type.is_floating else "1"
    one = "true" if element_type is pt.pred else one
    named = {f"%{number}": shape for number, shape in enumerate(case.operands)}
    if case.captured:
        named["%captured"] = case.captured
    parameters, constants, types = [], [], {}
    for name, described in named.items():
        shape, _, value = described.partition("=")
        types[name] = _type(shape)
        if not value and not constant:
            parameters.append(f"{name}: {types[name]}")
            continue
        if types[name].endswith("$>"):
            value = one
        elif not value:
            value = "true" if shape.endswith("i1") else "0.0" if "f" in shape else "0"
        constants.append(f"{name} = stablehlo.constant dense<{value}> : {types[name]}")
    if case.operation == "stablehlo.constant":
        attributes = case.attributes.replace("ONE", one)
    else:
        attributes = case.attributes
    names = [name for name in named if name != "%captured"]
    results = [_type(shape) for shape in case.results]
    result = results[0] if len(results) == 1 else f"({', '.join(results)})"
    returned = [f"%r#{number}" for number in range(len(results))]
    regions = f" ({', '.join(case.regions)})" if case.regions else ""
    signature = f"({', '.join(types[name] for name in names)}) -> {result}"
    applied = f'"{case.operation}"({", ".join(names)})'
    lines = (
        f"func.func @main({', '.join(parameters)}) -> {result} {{",
        *constants,
        f"%r:{len(results)} = {applied}{regions} {{{attributes}}} : {signature}",
        f"return {', '.join(returned)} : {', '.join(results)}",
        "}",
    )
    text = "\n".join(lines).replace("$real", element_type_text(element_type.real_type))
    return text.replace("$", element_type_text(element_type))


def modules() -> Iterator[tuple[str, PrimitiveType, bool]]:
    """Yield each case with each element type, with parameters and with constants as operands.

    The items are the name of the case, the element type, and whether the operands are constants.
    """
    for name, case in CASES.items():
        for element_type in ELEMENT_TYPES.values():
            yield name, element_type, False
            # XLA's evaluator of constants has code of its own for each operation.
            if case.operands and case.replicas * case.partitions == 1:
                yield name, element_type, True


_INTEGER: Final = re.compile(r"(?<![\w.#%-])-?\d+(?![\w.])")
_ATTRIBUTE: Final = re.compile(r", (?=\w+ =|\w+(?:,|$))")
_OTHER_INTEGERS: Final = (-(2**63), -1, 0, 3, 2**31, 2**40, 2**63 - 1)
_OTHER_TYPES: Final = ("", "0", "1", "3", "5", "2x3", "3x2", "2x3x4", "0x3", "2xi1", "i64", "3xi64")


def malformed_cases() -> dict[str, Case]:
    """Return each case with one integer, attribute, operand or result changed or left out."""
    malformed: dict[str, Case] = {}
    for name, case in CASES.items():
        for number, match in enumerate(_INTEGER.finditer(case.attributes)):
            before, after = case.attributes[: match.start()], case.attributes[match.end() :]
            for value in _OTHER_INTEGERS:
                changed = case._replace(attributes=f"{before}{value}{after}")
                malformed[f"{name}, integer {number} = {value}"] = changed
        attributes = _ATTRIBUTE.split(case.attributes)
        for number, attribute in enumerate(attributes):
            rest = ", ".join([*attributes[:number], *attributes[number + 1 :]])
            malformed[f"{name} without {attribute}"] = case._replace(attributes=rest)
        for field in ("operands", "results"):
            types: Sequence[str] = getattr(case, field)
            for position, described in enumerate(types):
                shape, _, value = described.partition("=")
                others: list[list[str]] = [[], [described, described], *([t] for t in _OTHER_TYPES)]
                if value:
                    others += [[f"{shape}={integer}"] for integer in _OTHER_INTEGERS]
                for other in others:
                    changed_types = [*types[:position], *other, *types[position + 1 :]]
                    label = f"{name}, {field} {position} = {' and '.join(other) or 'none'}"
                    malformed[label] = case._replace(**{field: changed_types})
    return malformed
