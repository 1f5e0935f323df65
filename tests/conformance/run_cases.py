"""Compare `builder` with the recorded results of the C++ XlaBuilder, case by case.

    python tests/conformance/run_cases.py FILE [--op NAME]...

FILE has one case per line, plain or gzipped; README.md describes the format. The program prints
every disagreement of a case that counts, then the totals: the cases that count, and the others by
the reason why they do not count. The exit status is 1 if a case that counts disagrees, or `builder`
raises an error that is not its own.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import importlib.util
import json
import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

import builder as xb

Case = dict[str, Any]
Ops = Sequence[xb.XlaOp]
Call = Callable[[xb.XlaBuilder, Ops, dict[str, Any]], Any]

# The reasons why a case does not count, in the order of their precedence. README.md explains the
# tags. "lenient" and "loose" are reasons only where the C++ builder accepts the call.
DECIDED_BY_DOCUMENT = "document"
NO_ANSWER = "no answer there"
MARKER = "unbounded"
OWN_ALGORITHM = "algorithm"
UNCOUNTED = {"changed": False, "lenient": True, "loose": True, "opaque": False}
"""The tags of cases that do not count, and whether they matter for valid cases only."""

# Cases in which the Operation Semantics document and the C++ builder differ, and builder follows
# the document: id -> the rule of the document.
DECIDED = {
    "Gather.368c624b3f": "a collapsed dimension must have a slice size of 1, not 0",
    "Scatter.4e2cadc532": "all operands must have the same dimensions",
    "Scatter.9ab2b9e459": "all operands must have the same dimensions",
    "Scatter.a2ba392d1e": "all updates must have the same dimensions",
    "Map.fc09f00aec": "the computation takes scalars of the operands' own types: floats do not mix",
    **dict.fromkeys(
        (
            "SelectAndScatterWithGeneralPadding.3c2cdfc951",
            "SelectAndScatterWithGeneralPadding.a6a95185aa",
            "SelectAndScatterWithGeneralPadding.c253fbe23f",
        ),
        "select is T, T -> pred and scatter T, T -> T for an operand of type T: floats do not mix",
    ),
    **dict.fromkeys(
        ("DynamicReshape.3e2be028fc", "DynamicReshape.745f39d730", "DynamicReshape.80bc7c7cd6"),
        "not in the document; one size for each dimension: the process crashes when XLA converts "
        "the computation of the C++ builder to HLO",
    ),
    **dict.fromkeys(
        ("DynamicReshape.12afcafdb8", "DynamicReshape.8aab7a0ffe"),
        "not in the document; each size is a scalar of type s32, as in XLA's error for other types",
    ),
    **dict.fromkeys(
        (
            "RngNormal.66e061f168",
            "RngNormal.86c5363324",
            "RngNormal.c04a26e840",
            "RngNormal.d234262e34",
        ),
        "numbers that are normally distributed are of floating-point type",
    ),
    **dict.fromkeys(
        (
            "CustomCallWithLayout.085a802abc",
            "CustomCallWithLayout.76da5fa67a",
            "CustomCallWithLayout.da68bcc1a1",
        ),
        "not in the document; the shapes with layout are the operands' own: XLA's parser refuses "
        "what the builder records here",
    ),
    **dict.fromkeys(
        (
            "ApproxTopKFallback.7c3fe46aac",
            "ApproxTopKFallback.b6130c98d0",
            "ApproxTopKFallback.bc092502ef",
            "ApproxTopKFallback.ca995bef6b",
        ),
        "the comparator of a sort takes two scalars of each operand's type, and returns a pred",
    ),
    "AllToAll.d2481b457e": "split_count should be the number of replicas in each group",
    "AllToAll.7ca93d1791": "split_count should be the number of replicas in each group",
    "AllToAll.c89646808d": "split_count should be the number of replicas in each group",
    "AllToAll.9658747cf4": "split_count should be the number of replicas in each group",
    "ReduceScatter.56d6d1a95b": "shard_count should be the number of replicas in each group",
    "Dot.ae2b2456f1": "the result is of the operands' element type, or of a wider one of its kind",
    "CustomCallWithLayout.c83bf56bff": "not in the document; the shapes with layout are the "
    "operands' own: XLA's parser refuses what the builder records here",
    **dict.fromkeys(
        ("RngNormal.84c643ec4d", "RngNormal.40070ef62d"),
        "nothing determines an unbounded size of the result, which has no operand with sizes",
    ),
}

# Cases with unbounded sizes in which the result of the C++ builder follows from its value for such
# a size, or from how it composes the op, not from a rule of the op: id -> the reason.
MARKED = {
    **dict.fromkeys(
        (
            *("Acos.d4ed7b4657", "Acos.9ac939e58f", "Acosh.04ac11a9e5", "Acosh.74d17ab1d7"),
            *("Acosh.dead4fb0aa", "Acosh.d4d23a6aa6", "Acosh.86bbcc55ee", "Acosh.14c8dcc495"),
            *("Acosh.f2d61989ef", "Atanh.945da25617", "Atanh.86c5a367bc", "Atanh.2a3a9191d7"),
            *("Atanh.4cfa688d9b", "Atanh.549ea12e0f"),
        ),
        "composed there of constants of the operand's shape, which an unbounded shape does not "
        "have; one op here",
    ),
    **dict.fromkeys(
        (
            *("Atan2.70b095182f", "Gt.724da12679", "Le.e23eaba379", "Lt.90dcede569"),
            *("Max.44aee28f58", "Max.2cc12694ce", "Or.321aacea7b", "Pow.306b14acea"),
            *("Pow.2a9e8fc92a", "Rem.76814df832", "ShiftLeft.ee8fb04338"),
            *("ShiftLeft.32f3d0672d", "ShiftRightArithmetic.4af5546d58"),
            *("ShiftRightLogical.0e05590d09", "Sub.48b8e907e1", "Xor.12f4b27733"),
        ),
        "broadcast_dimensions pass shape inference there, and the broadcast is then made of the "
        "last dimensions instead of them",
    ),
    **dict.fromkeys(
        (
            *("DynamicUpdateSlice.1a5c2cc10d", "DynamicUpdateSlice.40d90eb8de"),
            *("DynamicUpdateSlice.a20310bb39", "Scatter.0c4d615db9", "TopK.c2d2b6b704"),
            *("TopK.7805b26371", "SliceInDim.4eb7f10a22", "ApproxTopKFallback.7ab6998ebd"),
        ),
        "an unbounded size counts as less than any size there; checked at run time here",
    ),
    "ReduceScatter.8274727866": "an unbounded size counts as -2**63 there, which is divisible by "
    "2 and not by 3",
    "Collapse.08079448a1": "an unbounded size counts as -2**63 there, and the product of sizes "
    "overflows to 0",
}


# --- Calling builder ----------------------------------------------------------------------------


@cache
def public_modules() -> list[Any]:
    """Return `builder` and, if it exists, its library of composites."""
    modules: list[Any] = [xb]
    if importlib.util.find_spec("builder.lib") is not None:
        lib = importlib.import_module("builder.lib")
        names = [info.name for info in pkgutil.iter_modules(lib.__path__)]
        modules += [importlib.import_module(f"builder.lib.{name}") for name in names]
    return modules


@cache
def public(name: str) -> Any:
    """Return the public function or class `name`, or None; builder methods are named "b.name"."""
    if name.startswith("b."):
        return getattr(xb.XlaBuilder, name[2:], None)
    for module in public_modules():
        value = getattr(module, name, None)
        if value is not None:
            return value
    return None


@dataclass(frozen=True)
class Adapter:
    """The call in `builder` for an op of the corpus.

    Attributes:
        call: makes the call, and returns an op, a sequence of ops, or integers.
        needs: public names without which the op counts as not offered.
    """

    call: Call
    needs: tuple[str, ...]

    @property
    def is_offered(self) -> bool:
        return all(public(name) is not None for name in self.needs)


ADAPTERS: dict[str, Adapter] = {}


def adapter(op: str, *needs: str) -> Callable[[Call], Call]:
    """Register the decorated function as the adapter of `op`."""

    def enter(call: Call) -> Call:
        ADAPTERS[op] = Adapter(call, needs)
        return call

    return enter


def snake(op: str) -> str:
    """Return the name in `builder` of an op of the corpus."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).lower()
    return name + "_" if name in ("and", "or", "not", "while") else name


def plain(ops: str, *attributes: str, name: str = "") -> None:
    """Register adapters for ops that take their operands and then their attributes unchanged."""
    for op in ops.split():
        function = name or snake(op)

        def call(
            _: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any], function: str = function
        ) -> Any:
            return public(function)(*operands, *(attrs[a] for a in attributes))

        ADAPTERS[op] = Adapter(call, (function,))


def binary(ops: str) -> None:
    """Register adapters for ops of two operands, which may be broadcast."""
    for op in ops.split():

        def call(
            _: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any], function: str = snake(op)
        ) -> Any:
            return public(function)(*operands, attrs.get("broadcast_dimensions"))

        ADAPTERS[op] = Adapter(call, (snake(op),))


def several(ops: str, *attributes: str) -> None:
    """Register adapters like `plain`, for functions that return several ops."""
    plain(ops, *attributes)
    for op in ops.split():
        single = ADAPTERS[op]

        def call(b: xb.XlaBuilder, operands: Ops, attrs: Any, single: Adapter = single) -> Any:
            return list(single.call(b, operands, attrs))

        ADAPTERS[op] = Adapter(call, single.needs)


def keywords(attrs: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the named attributes that the case has."""
    return {name: attrs[name] for name in names if name in attrs}


def groups(operands: Ops, lengths: Sequence[int]) -> list[list[xb.XlaOp]]:
    """Divide the flat operands into consecutive groups."""
    parts, start = [], 0
    for length in lengths:
        parts.append(list(operands[start : start + length]))
        start += length
    return parts


def type_named(name: str) -> xb.PrimitiveType:
    """Return an element type. The error for "tuple" or "token" is the result of the case."""
    return xb.as_primitive_type(name)


# --- Sub-computations ---------------------------------------------------------------------------


def zeros(b: xb.XlaBuilder, shape: xb.Shape) -> xb.XlaOp:
    """Record zeros of a static shape; a tuple and a token are recorded as ops."""
    if isinstance(shape, xb.TupleShape):
        parts = [zeros(b, element) for element in shape.elements]
        return xb.tuple(*parts) if parts else b.empty_tuple()
    if isinstance(shape, xb.ArrayShape):
        return b.constant(np.zeros(shape.dimensions, shape.element_type.dtype))
    assert isinstance(shape, xb.TokenShape)
    return b.create_token()


BODY_FUNCTIONS = {
    **{n: n for n in ("add", "mul", "max", "min", "sub", "xor")},
    **{n: n for n in ("lt", "le", "gt", "ge", "eq", "ne")},
    "and": "and_",
    "or": "or_",
}


def is_floating(shape: Any) -> bool:
    return isinstance(shape, xb.ArrayShape) and shape.element_type.is_floating


def body_root(b: xb.XlaBuilder, body: str, p: Ops, result: Any) -> xb.XlaOp:
    """Record the root that README.md gives for a body, of the shape `result`; None if unknown.

    Raises:
        KeyError: README.md has no such body.
    """
    if body == "zeros":
        return zeros(b, result)
    if body in BODY_FUNCTIONS:
        x, y = p[:2]
        if x.shape is not y.shape and all(map(is_floating, (x.shape, y.shape, result))):
            # The C++ builder converts two floating-point types to the wider one.
            x, y = (xb.convert_element_type(op, result.element_type) for op in (x, y))
        return public(BODY_FUNCTIONS[body])(x, y)
    if body.startswith("param"):
        return p[int(body[len("param") :])]
    if body == "neg":
        return xb.neg(p[0])
    if body == "select_ge":
        return xb.select(p[0] >= p[1], p[0], p[1])
    half = len(p) // 2
    parts = {
        "tuple_add": lambda: [x + y for x, y in zip(p[:half], p[half:], strict=False)],
        "tuple_params": lambda: list(p),
        "tuple_first_half": lambda: list(p[:half]),
    }[body]()
    return xb.tuple(*parts) if parts else b.empty_tuple()


class BodyError(Exception):
    """A computation of a case cannot be recorded as README.md describes it."""


@cache
def _computation(text: str) -> xb.XlaComputation:
    spec = json.loads(text)
    body, result = spec["body"], spec.get("result")
    expected = None if result is None else xb.parse_shape(result)
    b = xb.XlaBuilder(body)
    try:
        root = body_root(b, body, [b.parameter(shape) for shape in spec["params"]], expected)
        built = b.build(root)
    except xb.XlaError as error:
        # Not a result of the case: its computations are valid in the C++ builder.
        raise BodyError(f"body {body} of {text}: {error}") from error
    if expected is not None and root.shape is not expected:
        raise BodyError(f"body {body} of {text}: its result is {root.shape}")
    return built


def computation(spec: dict[str, Any]) -> xb.XlaComputation:
    """Build the computation that a case describes."""
    return _computation(json.dumps(spec))


def computations(specs: Iterable[dict[str, Any]]) -> list[xb.XlaComputation]:
    return [computation(spec) for spec in specs]


# --- The ops ------------------------------------------------------------------------------------

plain(
    "Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Cbrt Ceil Clz Conj Cos Cosh Digamma "
    "Erf ErfInv Erfc Exp Expm1 Floor Imag IsFinite Lgamma Log Log1p Neg Not OptimizationBarrier "
    "PopulationCount Real Reciprocal Round Rsqrt Sign Sin Sinh Sqrt Square Tan Tanh"
)
plain("Igamma IgammaGradA Igammac RandomGammaGrad NextAfter Zeta RegularizedIncompleteBeta")
plain("Clamp Select")

binary(
    "Add And Atan2 Complex Div Eq Ge Gt Le Lt Max Min Mul Ne Or Pow Rem ShiftLeft "
    "ShiftRightArithmetic ShiftRightLogical Sub Xor"
)


@adapter("ConvertElementType", "convert_element_type")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return xb.convert_element_type(operands[0], type_named(attrs["new_element_type"]))


@adapter("BitcastConvertType", "bitcast_convert_type")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return xb.bitcast_convert_type(operands[0], type_named(attrs["new_element_type"]))


plain("ReducePrecision", "exponent_bits", "mantissa_bits")


@adapter("Map", "map")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return xb.map(operands, computation(attrs["computation"]), attrs["dimensions"])


# Control flow.


@adapter("Tuple", "tuple")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return xb.tuple(*operands) if operands else b.empty_tuple()


@adapter("GetTupleElement", "get_tuple_element")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return xb.get_tuple_element(operands[0], attrs["index"])


@adapter("While", "while_")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return xb.while_(computation(attrs["condition"]), computation(attrs["body"]), operands[0])


@adapter("Conditional", "conditional")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    if attrs["form"] == "pred":
        pred, on_true, on_false = operands
        true_computation = computation(attrs["true_computation"])
        false_computation = computation(attrs["false_computation"])
        return xb.conditional(pred, on_true, true_computation, on_false, false_computation)
    return xb.conditional(
        operands[0], computations(attrs["branch_computations"]), list(operands[1:])
    )


@adapter("Call", "call")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    called = computation(attrs["computation"])
    if not operands and public("b.call") is not None:
        return b.call(called)
    return xb.call(called, *operands)


# Ops without operands: methods of the builder.


@adapter("Parameter", "b.parameter")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    for spec in attrs["parameters"]:
        last = b.parameter(spec["shape"], number=spec["parameter_number"])
    return last


@adapter("Constant", "b.constant")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return zeros(b, xb.parse_shape(attrs["literal"]))


@adapter("Iota", "b.iota")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    if "shape" in attrs:
        return b.iota(attrs["shape"], attrs["iota_dimension"])
    return b.iota(xb.array_shape(type_named(attrs["element_type"]), [attrs["size"]]))


@adapter("ReplicaId", "b.replica_id")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return b.replica_id()


@adapter("CreateToken", "b.create_token")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return b.create_token()


# Reshaping and indexing.

plain("Broadcast", "sizes")
plain("BroadcastInDim", "shape", "broadcast_dimensions")
plain("Collapse Rev", "dimensions")
plain("Transpose", "permutation")
plain("Slice", "start_indices", "limit_indices", "strides")
plain("SliceInDim", "start_index", "limit_index", "stride", "dimno")


@adapter("Reshape", "reshape")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    if "dimensions" in attrs:
        return public("reshape")(operands[0], attrs["new_sizes"], dimensions=attrs["dimensions"])
    return public("reshape")(operands[0], attrs["new_sizes"])


@adapter("Pad", "pad")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    config = [tuple(entry) for entry in attrs["padding_config"]]
    return public("pad")(*operands, config)


@adapter("ConcatInDim", "concatenate")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("concatenate")(list(operands), attrs["dimension"])


@adapter("DynamicSlice", "dynamic_slice")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("dynamic_slice")(operands[0], list(operands[1:]), attrs["slice_sizes"])


@adapter("DynamicUpdateSlice", "dynamic_update_slice")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("dynamic_update_slice")(operands[0], operands[1], list(operands[2:]))


@adapter("Gather", "gather", "GatherDimensionNumbers")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    numbers = public("GatherDimensionNumbers")(**attrs["dimension_numbers"])
    return public("gather")(
        *operands, numbers, attrs["slice_sizes"], indices_are_sorted=attrs["indices_are_sorted"]
    )


@adapter("Scatter", "scatter", "ScatterDimensionNumbers")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    inputs, (indices, *_), updates = groups(operands, attrs["operand_groups"])
    return public("scatter")(
        *((inputs, indices, updates) if attrs["variadic"] else (*inputs, indices, *updates)),
        computation(attrs["update_computation"]),
        public("ScatterDimensionNumbers")(**attrs["dimension_numbers"]),
        indices_are_sorted=attrs["indices_are_sorted"],
        unique_indices=attrs["unique_indices"],
    )


# Contraction.


def preferred(attrs: dict[str, Any]) -> dict[str, Any]:
    name = attrs.get("preferred_element_type")
    return {} if name is None else {"preferred_element_type": type_named(name)}


@adapter("Dot", "dot")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("dot")(*operands, **preferred(attrs))


@adapter("DotGeneral", "dot_general", "DotDimensionNumbers")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    numbers = public("DotDimensionNumbers")(**attrs["dimension_numbers"])
    return public("dot_general")(*operands, numbers, **preferred(attrs))


@adapter("ConvGeneralDilated", "conv_general_dilated", "ConvolutionDimensionNumbers")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("conv_general_dilated")(
        *operands,
        window_strides=attrs["window_strides"],
        padding=[tuple(pair) for pair in attrs["padding"]],
        lhs_dilation=attrs["lhs_dilation"],
        rhs_dilation=attrs["rhs_dilation"],
        dimension_numbers=public("ConvolutionDimensionNumbers")(**attrs["dimension_numbers"]),
        **keywords(attrs, "feature_group_count", "batch_group_count", "window_reversal"),
        **preferred(attrs),
    )


# Reduction.


@adapter("Reduce", "reduce")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    arrays, inits = groups(operands, attrs["operand_groups"])
    reducer = computation(attrs["computation"])
    return public("reduce")(arrays, inits, reducer, attrs["dimensions_to_reduce"])


@adapter("ReduceWindowWithGeneralPadding", "reduce_window")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    arrays, inits = groups(operands, attrs["operand_groups"])
    return public("reduce_window")(
        *((arrays, inits) if attrs["variadic"] else (*arrays, *inits)),
        computation(attrs["computation"]),
        attrs["window_dimensions"],
        attrs["window_strides"],
        [tuple(pair) for pair in attrs["padding"]],
        base_dilations=attrs["base_dilations"],
        window_dilations=attrs["window_dilations"],
    )


@adapter("SelectAndScatterWithGeneralPadding", "select_and_scatter")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    operand, source, init_value = operands
    return public("select_and_scatter")(
        operand,
        computation(attrs["select"]),
        attrs["window_dimensions"],
        attrs["window_strides"],
        [tuple(pair) for pair in attrs["padding"]],
        source,
        init_value,
        computation(attrs["scatter"]),
    )


@adapter("Sort", "sort")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    comparator = None if attrs["comparator"] is None else computation(attrs["comparator"])
    return public("sort")(
        list(operands), comparator, dimension=attrs["dimension"], is_stable=attrs["is_stable"]
    )


plain("TopK", "k")


def approx_top_k(name: str) -> Call:
    def call(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
        arrays, inits = groups(operands, attrs["operand_groups"])
        return public(name)(
            arrays,
            inits,
            attrs["top_k"],
            attrs["reduction_dim"],
            computation(attrs["comparator"]),
            recall_target=attrs["recall_target"],
            aggregate_to_topk=attrs["aggregate_to_topk"],
            reduction_input_size_override=attrs["reduction_input_size_override"],
        )

    return call


for _op in ("ApproxTopK", "ApproxTopKFallback"):
    _name = snake(_op).replace("top_kf", "top_k_f")
    ADAPTERS[_op] = Adapter(approx_top_k(_name), (_name,))


@adapter("ApproxTopKReductionOutputSize", "approx_top_k_reduction_output_size")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return list(
        public("approx_top_k_reduction_output_size")(
            attrs["input_size"],
            attrs["rank"],
            attrs["top_k"],
            attrs["recall_target"],
            attrs["aggregate_to_topk"],
            attrs["input_size_override"],
        )
    )


# Linear algebra.

plain("Cholesky", "lower")
plain("TriangularSolve", "left_side", "lower", "unit_diagonal", "transpose_a")
plain("Fft", "fft_type", "fft_length")
several("LU QrDecomposition SVD")
several("QR", "full_matrices")
several("Eigh", "lower", "sort_eigenvalues")
plain("ProductOfElementaryHouseholderReflectors")


# Random numbers.


@adapter("RngNormal", "rng_normal")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("rng_normal")(*operands, attrs["shape"])


@adapter("RngUniform", "rng_uniform")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("rng_uniform")(*operands, attrs["shape"])


@adapter("RngBitGenerator", "rng_bit_generator")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("rng_bit_generator")(attrs["algorithm"], operands[0], attrs["shape"])


# Dynamic sizes.

plain("GetDimensionSize RemoveDynamicDimension", "dimension")
plain("SetDimensionSize", "dimension")


@adapter("DynamicReshape", "dynamic_reshape")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("dynamic_reshape")(
        operands[0], list(operands[1:]), attrs["new_size_bounds"], attrs["dims_are_dynamic"]
    )


# Collectives.


@adapter("AllGather", "all_gather")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("all_gather")(
        operands[0],
        attrs["all_gather_dimension"],
        attrs["shard_count"],
        attrs["replica_groups"],
        **keywords(attrs, "use_global_device_ids"),
    )


@adapter("AllReduce", "all_reduce")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("all_reduce")(
        operands[0],
        computation(attrs["computation"]),
        attrs["replica_groups"],
        **keywords(attrs, "use_global_device_ids"),
    )


@adapter("ReduceScatter", "reduce_scatter")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("reduce_scatter")(
        operands[0],
        computation(attrs["computation"]),
        attrs["scatter_dimension"],
        attrs["shard_count"],
        attrs["replica_groups"],
        **keywords(attrs, "use_global_device_ids"),
    )


plain("AllToAll", "split_dimension", "concat_dimension", "split_count", "replica_groups")
plain("CrossReplicaSum", "replica_groups")


@adapter("CollectivePermute", "collective_permute")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    pairs = [tuple(pair) for pair in attrs["source_target_pairs"]]
    return public("collective_permute")(operands[0], pairs)


# The host, and custom calls.


@adapter("AfterAll", "after_all")
def _(_: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return public("after_all")(*operands)


plain("InfeedWithToken", "shape", "config")
plain("OutfeedWithToken", "shape_with_layout", "outfeed_config")


def custom_call(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any], **more: Any) -> Any:
    function = b.custom_call if not operands and public("b.custom_call") else public("custom_call")
    return function(
        attrs["call_target_name"],
        *([list(operands)] if operands or function is public("custom_call") else []),
        attrs.get("shape", attrs.get("shape_with_layout")),
        **more,
        **keywords(attrs, "opaque", "has_side_effect", "api_version"),
    )


@adapter("CustomCall", "custom_call")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return custom_call(b, operands, attrs)


@adapter("CustomCallWithLayout", "custom_call")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    layouts = attrs["operand_shapes_with_layout"]
    return custom_call(b, operands, attrs, operand_shapes_with_layout=layouts)


@adapter("CustomCallWithComputation", "custom_call")
def _(b: xb.XlaBuilder, operands: Ops, attrs: dict[str, Any]) -> Any:
    return custom_call(b, operands, attrs, computation=computation(attrs["computation"]))


# --- Comparing -----------------------------------------------------------------------------------


@dataclass
class Rejection:
    """builder raised one of its own errors."""

    error: xb.XlaError

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


@dataclass
class Crash:
    """builder raised an error that is not its own."""

    error: Exception

    def __str__(self) -> str:
        return f"CRASH {type(self.error).__name__}: {self.error}"


# Cases that have a defined result, which the algorithm of the C++ library cannot compute: id ->
# the reason.
COMPUTED = {
    **dict.fromkeys(
        (
            *("SVD.a6bd825a4b", "SVD.f8e655b555", "SVD.32dc9a3999", "SVD.30e06bff8e"),
            "SVD.ce03c627f3",
        ),
        "complex matrices have singular values; the algorithm there compares an f32 with a c64",
    ),
    **dict.fromkeys(
        (
            *("SVD.2420b4d85a", "SVD.58567b5c36", "SVD.88fdc4c4c4", "SVD.d0603f2df1"),
            "SVD.ecc55d4990",
        ),
        "matrices without rows or columns have no singular values, and identities as u and v; the "
        "algorithm there slices one row or column",
    ),
}


def without_layout(shape: xb.Shape) -> xb.Shape:
    if isinstance(shape, xb.TupleShape):
        return xb.TupleShape(without_layout(element) for element in shape.elements)
    return shape.with_layout(None) if isinstance(shape, xb.ArrayShape) else shape


def answer(case: Case) -> Any:
    """Return builder's result for a case: the text of a shape, a list of texts, or an error."""
    try:
        b = xb.XlaBuilder("case")
        operands = [b.parameter(text) for text in case["operands"]]
        result = ADAPTERS[case["op"]].call(b, operands, case["attrs"])
        if isinstance(result, list):
            return [str(r.shape) if isinstance(r, xb.XlaOp) else r for r in result]
        b.build(result)
        return str(without_layout(result.shape))
    except xb.XlaError as error:
        return Rejection(error)
    except Exception as error:  # the corpus must find errors of any type
        return Crash(error)


def why_uncounted(case: Case) -> str | None:
    """Return the reason why the case does not count; None if it counts.

    README.md explains the reasons.
    """
    if "result" not in case and "error" not in case:
        return NO_ANSWER
    if case.get("id") in DECIDED:
        return DECIDED_BY_DOCUMENT
    if case.get("id") in MARKED:
        return MARKER
    if case.get("id") in COMPUTED:
        return OWN_ALGORITHM
    for tag, if_valid in UNCOUNTED.items():
        if tag in case.get("tags", ()) and ("result" in case or not if_valid):
            return tag
    return None


AGREES = "agree"
REFUSED = "refused here"
ACCEPTED = "accepted here"
OTHER_SHAPE = "of another shape here"
CRASHED = "crashed here"


def outcome(case: Case, got: Any) -> str:
    """Compare `got` with the C++ builder's result. A case without a result agrees with any."""
    if isinstance(got, Crash):
        return CRASHED
    if "error" in case:
        return AGREES if isinstance(got, Rejection) else ACCEPTED
    if "result" not in case or got == case["result"]:
        return AGREES
    return REFUSED if isinstance(got, Rejection) else OTHER_SHAPE


@dataclass
class Report:
    """The totals of a comparison.

    Attributes:
        not_offered: the number of cases of ops that `builder` does not have.
        outcomes: the number of cases by the reason why they do not count, None if they count, and
            by outcome.
        failures: the cases that count and disagree, and all that crashed, with the result.
    """

    not_offered: int = 0
    outcomes: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    failures: list[tuple[Case, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        counted = self.by_outcome(None)
        reasons = sorted({reason for reason, _ in self.outcomes if reason is not None})
        totals = (
            f"agree {counted[AGREES]} of {counted.total()} counted, "
            f"{self.outcomes.total() - counted.total()} not counted, "
            f"{self.not_offered} for ops not offered yet"
        )
        return "\n".join([totals, *map(self._uncounted_text, reasons)])

    def _uncounted_text(self, reason: str) -> str:
        counts = self.by_outcome(reason)
        agree = counts.pop(AGREES, 0)
        if reason == NO_ANSWER:
            return f"  not counted, {reason}: {agree} answered here"
        kinds = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        return (
            f"  not counted, {reason}: {agree} agree, {counts.total()} disagree"
            f"{kinds and f' ({kinds})'}"
        )

    def by_outcome(self, reason: str | None) -> Counter[str]:
        """Return the number of cases of a reason by outcome."""
        return Counter({what: n for (why, what), n in self.outcomes.items() if why == reason})


def run(cases: Iterable[Case]) -> Report:
    """Run every case."""
    report = Report()
    for case in cases:
        known = ADAPTERS.get(case["op"])
        if known is None or not known.is_offered:
            report.not_offered += 1
            continue
        got = answer(case)
        reason, result = why_uncounted(case), outcome(case, got)
        report.outcomes[reason, result] += 1
        if result == CRASHED or (reason is None and result != AGREES):
            report.failures.append((case, got))
    return report


def read(path: Path) -> Iterator[Case]:
    """Read the cases of a file."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def describe(case: Case, got: Any) -> str:
    """Describe one disagreement."""
    expected = case.get("result", case.get("error", "anything but a crash"))
    attrs = json.dumps(case["attrs"])
    return (
        f"{case.get('id', case['op'])}: {case['op']}({'; '.join(case['operands'])}) {attrs}\n"
        f"  expected {expected}\n"
        f"  got      {str(got).replace(chr(10), chr(10) + '           ')}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="cases, one per line; plain or .gz")
    parser.add_argument(
        "--op", action="append", metavar="NAME", help="only this op, as the corpus calls it"
    )
    options = parser.parse_args(arguments)
    report = run(c for c in read(options.file) if not options.op or c["op"] in options.op)
    for case, got in report.failures:
        print(describe(case, got))
    print(report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
