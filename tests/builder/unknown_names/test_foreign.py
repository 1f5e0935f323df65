"""The suggestions for names of other libraries exist, record ops, and compute what jax computes."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.mlir.dialects import chlo, stablehlo  # type: ignore[import-untyped]
from scripts import load_script
from tables import each_row

import builder as xb
import lowering
from builder import lib
from builder.types.primitive_type import other_names
from builder.unknown_names.table import ATTRIBUTES, FUNCTIONS


def message_of(name: str, owner: object = xb) -> str:
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    return str(caught.value)


def is_explained(name: str) -> bool:
    """Whether `builder` has a name, or its error contains what to write."""
    fix = "" if name in dir(xb) else message_of(name).partition("\nfix: ")[2]
    return name in dir(xb) or fix.startswith(("use ", "b."))


def functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and not isinstance(value, type) and not name.startswith("_")
    ]


COMMON = (
    "abs absolute add all amax amin angle any append arange arccos arccosh arcsin arcsinh "
    "arctan arctan2 arctanh argmax argmin argsort around array array_split asarray astype "
    "average bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not "
    "bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to cbrt ceil clip "
    "column_stack concat concatenate conj conjugate convolve cos cosh count_nonzero cumprod "
    "cumsum deg2rad degrees diag diagonal divide dot dsplit dstack einsum empty empty_like "
    "equal exp exp2 expand_dims expm1 eye fabs fft fix flip fliplr flipud float_power floor "
    "floor_divide fmax fmin fmod full full_like greater greater_equal hsplit hstack hypot "
    "identity imag inner invert isfinite isinf isnan isneginf isposinf left_shift less "
    "less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or "
    "logical_xor matmul matrix_transpose matvec max maximum mean min minimum mod moveaxis "
    "multiply nan_to_num ndim negative not_equal ones ones_like outer pad partition "
    "permute_dims positive pow power prod ptp rad2deg radians ravel real reciprocal remainder "
    "repeat reshape resize right_shift rint rollaxis round shape sign signbit sin sinh size "
    "sort split sqrt square squeeze stack std subtract sum swapaxes take take_along_axis tan "
    "tanh tensordot tile trace transpose tril triu true_divide trunc unstack var vdot vecdot "
    "vecmat vsplit vstack where zeros zeros_like bool_ bfloat16 complex64 complex128 float16 "
    "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 inf nan pi "
)


ACTIVATIONS = (
    "elu gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax "
    "logsumexp mish one_hot relu relu6 sigmoid silu soft_sign softmax softplus swish"
)


def dialect_names(dialect: ModuleType) -> list[str]:
    """Return the names of a dialect's operations, without namespace."""
    classes = [c for n, c in vars(dialect).items() if n.endswith("Op") and isinstance(c, type)]
    return sorted(
        {c.OPERATION_NAME.partition(".")[2] for c in classes if "OPERATION_NAME" in vars(c)}
    )


FROM_HEADER = [
    row.cpp
    for _, rows in load_script("tools/xla_builder_h.py").GROUPS
    for row in rows
    if row.cpp.isidentifier() and any(name in xb.OPERATIONS for name in row.ours)
]

STABLEHLO = dialect_names(stablehlo)

SOURCES: dict[str, tuple[Iterable[str], str]] = {
    "jax.lax": (
        functions(jax.lax),
        # Trace or place computations of jax, compute shapes, are composed of many ops, or rare.
        (
            "ConvGeneralDilatedDimensionNumbers PrecisionLike axis_size broadcast_shapes composite "
            "conv_dimension_numbers conv_general_permutations conv_general_shape_tuple "
            "conv_shape_tuple conv_transpose_shape_tuple dce_sink padtype_to_pads pcast "
            "platform_dependent psum_scatter_start reduce_window_shape_tuple shape_as_value stage "
            "conv_general_dilated_local conv_general_dilated_patches polynomial precv psend "
            "pswapaxes ragged_all_to_all scaled_dot scatter_apply broadcast_to_rank "
            "one_minus_square"
        ),
    ),
    "NumPy": (COMMON.split(), "positive resize"),
    "jax.nn": (ACTIVATIONS.split(), "hard_sigmoid hard_silu hard_swish hard_tanh mish soft_sign"),
    # Asynchronous operations, terminators, quantization, and a deprecated operation.
    "StableHLO": (
        STABLEHLO,
        "async_done async_start return uniform_dequantize uniform_quantize unary_einsum",
    ),
    "classes of StableHLO": (
        ["".join(map(str.capitalize, name.split("_"))) + "Op" for name in STABLEHLO],
        "AsyncDoneOp AsyncStartOp ReturnOp UniformDequantizeOp UniformQuantizeOp UnaryEinsumOp",
    ),
    "CHLO": (
        [name for name in dialect_names(chlo) if not name.startswith(("broadcast_", "_"))],
        "constant_like",
    ),
    "xla_builder.h": (FROM_HEADER, ""),
}
"""The names of other libraries, and those without a suggestion."""


@each_row("source", SOURCES)
def test_names_of_other_libraries(source: str) -> None:
    names, unexplained = SOURCES[source]
    assert {name for name in names if not is_explained(name)} <= {*unexplained.split()}


def test_common_names_exist() -> None:
    assert all(hasattr(jnp, name) or hasattr(np, name) for name in COMMON.split())
    assert all(hasattr(jax.nn, name) for name in ACTIVATIONS.split())


@each_row("name", FUNCTIONS)
def test_each_entry_is_in_a_message(name: str) -> None:
    """No entry is hidden by another, and names of functions are extended to calls."""
    text = FUNCTIONS[name]
    message = message_of(name, lib)
    prefix, _, function = text.partition(".")
    if prefix in ("xb", "b", "lib") and function.isidentifier() and name != "named_sharding":
        table = lib.FUNCTIONS if prefix == "lib" else xb.OPERATIONS
        assert function in table
        assert f"\nfix: use {text}(" in message
    else:
        assert f"\nfix: use {text}" in message


@each_row("name", other_names())
def test_other_names_of_element_types(name: str) -> None:
    element_type = getattr(xb, other_names()[name])
    with pytest.raises(xb.ShapeTextError) as caught:
        xb.parse_shape(f"({name}[2], f32[3])")
    corrected = f"({element_type}[2], f32[3])"
    assert str(caught.value).endswith(f"\nfix: write {corrected!r}")
    assert xb.parse_shape(corrected).elements[0] is element_type[2]  # type: ignore[union-attr]
    with pytest.raises(xb.PrimitiveTypeError, match=f"'{name}'\nfix: use {element_type}\n"):
        xb.as_primitive_type(name)
    with contextlib.suppress(TypeError):  # unless NumPy has the name, too
        assert element_type.dtype == np.dtype(name) or re.fullmatch("i[0-9]", name)


VALUES = {
    "x": np.array([[-1.5, 0.25, 2.75, 7.0], [0.5, -3.5, -0.75, 4.5]] * 2, np.float32),
    "y": np.array([[2.0, 0.5, 1.25, -3.0], [1.5, -2.5, 0.75, 3.5]] * 2, np.float32),
    "pred": np.array([[True, False, True, True], [False] * 4] * 2),
}


def recorded(text: str, tmp_path: Path = Path()) -> tuple[list[Any], list[str]]:
    """Record each expression of a suggestion; return the values and the arrays that they use."""
    b = xb.XlaBuilder()
    types = {"x": xb.f32, "y": xb.f32, "pred": xb.pred}
    arrays = {n: b.parameter(types[n][4, 4], n) for n in VALUES}
    x = arrays["x"]
    is_scatter = "xb.scatter" in text
    scalar = b.parameter(xb.pred[()]) if "conditional(pred" in text else arrays["pred"]
    variables: dict[str, Any] = {
        "xb": xb,
        "lib": lib,
        "jax": jax,
        "output_index": [],
        "param_number": 0,
        "lowering": lowering,
        "math": math,
        "np": np,
        "b": b,
        **arrays,
        "pred": scalar,
        "lhs": x,
        "rhs": arrays["y"],
        "on_true": x,
        "on_false": arrays["y"],
        "operand": x,
        "operands": x,
        "function": lowering.jit(lambda x: x) if "function." in text else abs,
        "permutation": [1, 0],
        "dimensions": [0, 1],
        "dimension": 0,
        "count": 16,
        "labels": b.constant(np.array([1, 3, 0, 2], np.int32)),
        "k": 4,
        "init": b.constant(np.zeros(4, np.float32)),
        "computation": xb.add,
        "element_type": xb.f32,
        "sizes": [4, 4],
        "shape": xb.f32[4, 4],
        "shapes": [xb.f32[4], xb.s32[()]],
        "iota_dimension": 0,
        "value": 1.5,
        "indices": b.constant(np.array([1, 3, 0, 2], np.float32)),
        "update": x,
        "start_indices": [0, 0],
        "mesh": xb.Mesh((("d", 2),)),
        "axes": (("d",),),
        "condition": lambda v: xb.reduce_all(v, 0, xb.add) < 1,
        "body": lambda v: v + 1,
        "true_operand": x,
        "true_computation": xb.neg,
        "false_operand": x,
        "false_computation": xb.exp,
        "branch_index": b.constant(1, xb.s32),
        "branch_computations": [xb.neg, xb.exp],
        "branch_operands": [x, x],
        "dimension_numbers": (([1], [0]), ([], [])),
    }
    if is_scatter:
        variables |= {
            "scatter_indices": b.constant(np.array([[0], [2]], np.int32)),
            "updates": b.constant(np.ones((2, 4), np.float32)),
            "dimension_numbers": xb.ScatterDimensionNumbers((1,), (0,), (0,), 1),
        }
    variables["root"] = x
    if text.startswith(("lowering.", "computation")) and not re.search(r"b\.build|apply\(", text):
        variables["computation"] = b.build(x)
    if {*re.findall(r"\w+", text)} & {"module", "executable", "arguments", "path", "shape"}:
        other = xb.XlaBuilder()
        module = lowering.lower(other.build(other.parameter(xb.f32[()])))
        takes_all = text.startswith("lowering.compile(computation)")
        arguments = [VALUES[n] for n in VALUES] if takes_all else [1.0]
        variables |= {"module": module, "executable": lowering.compile(module)}
        variables |= {"arguments": arguments, "path": tmp_path / "file.mlir"}
    if "xb.xor" in text:
        variables["x"] = b.parameter(xb.s32[4, 4])
    if "custom_gradient" in text:
        variables["computation"] = xb.computation(xb.f32[4])(lambda x: x)
        variables["backward"] = xb.computation(*[xb.f32[4]] * 3)(lambda x, y, dy: dy)
    if "optax" in text:
        arrays = {"gradients": x, "params": x, "state": ()}
        variables |= arrays | {"optimizer": SimpleNamespace(update=lambda g, s, p: (g + p, s))}
    if "ids" in text:
        variables |= {"table": x, "ids": b.constant(np.array([1, 3], np.int32))}
    if "imag" in text:
        variables["x"] = b.parameter(xb.c64[4, 4])
    expressions = text.partition("  #")[0].split(" or ")
    values = [eval(expression, dict(variables)) for expression in expressions]
    return values, [n for n in VALUES if re.search(rf"\b{n}\b", text)]


EXPRESSIONS = {
    name: text for name, text in FUNCTIONS.items() if not re.fullmatch(r"\w+\.\w+", text)
}

ALL_TEXTS = {
    text: name for table in (EXPRESSIONS, *ATTRIBUTES.values()) for name, text in table.items()
}


NO_RESULT = ("save", "setup_alias", "cache_clear", "debug_print", "check")


@each_row("text", ALL_TEXTS)
def test_suggestions_are_valid(text: str, tmp_path: Path) -> None:
    values, _ = recorded(text, tmp_path)
    has_no_result = any(f".{n}(" in text for n in NO_RESULT)
    assert has_no_result or all(value is not None for value in values)


REFERENCES: dict[str, Callable[..., Any] | None] = {
    "approx_min_k": lambda x: jnp.stack([jnp.sort(x), jnp.argsort(x)]),
    "angle": None,
    "associative_scan": lambda x: jax.lax.associative_scan(jnp.add, x),
    "deg2rad": np.radians,
    "fix": np.trunc,
    "mod": np.fmod,  # the comment states this difference
    "one_minus_square": lambda x: 1 - x * x,
    "outer": lambda x, y: np.multiply.outer(x, y),
    "partition": jnp.sort,
    "full": lambda: jnp.full((4, 4), 1.5),
}
"""The functions that suggestions are compared with, if not those of the same name in jax."""


def reference(name: str) -> Callable[..., Any] | None:
    if name in REFERENCES:
        return REFERENCES[name]
    return next((getattr(m, name) for m in (jnp, jax.nn) if hasattr(m, name)), None)


OTHER_VARIABLES = (
    "b conditional ids element_type function lhs lowering np operands sizes while_ xor"
)

COMPARED = [
    name
    for name, text in EXPRESSIONS.items()
    if reference(name) is not None
    and not {*re.findall(r"\w+", text.partition("  #")[0])} & {*OTHER_VARIABLES.split()}
]


def test_many_suggestions_are_compared() -> None:
    assert len(COMPARED) > 30


@pytest.mark.slow
@each_row("name", COMPARED)
def test_suggestions_compute_what_jax_computes(name: str) -> None:
    text = EXPRESSIONS[name]
    (value,), used = recorded(text)
    if not isinstance(value, xb.XlaOp):
        assert text in ("math.inf", "math.nan", "math.pi") or "x.shape" in text
        return
    arguments = list(VALUES.values())
    result = lowering.compile(value.builder.build(value))(*arguments)
    got = np.stack(result) if isinstance(result, tuple) else np.asarray(result)
    function = reference(name)
    assert function is not None
    expected = np.asarray(function(*[VALUES[array] for array in used]))
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


@each_row("name", ["celu", "elu", "leaky_relu", "log_sigmoid", "logaddexp", "selu", "softplus"])
def test_suggestions_have_the_derivatives_of_jax(name: str) -> None:
    """Also where the operands are 0 or equal, and where an exponential overflows."""
    (value,), used = recorded(EXPRESSIONS[name])
    points = np.resize(np.float32([-100, -1, 0, 0.5, 100]), (4, 4))
    others = [points, points.T][: len(used)]
    function = lowering.to_jax(value.builder.build(value))

    def total(*operands: Any) -> Any:
        return function(*operands, *list(VALUES.values())[len(operands) :]).sum()

    expected = reference(name)
    assert expected is not None
    numbers = tuple(range(len(used)))
    got = jax.grad(total, numbers)(*others)
    want = jax.grad(lambda *operands: expected(*operands).sum(), numbers)(*others)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
