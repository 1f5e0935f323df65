"""Strategies for valid and almost valid calls of operations.

A `Call` has two forms: a call of `builder`, and a line of HLO without the result's shape, which XLA
infers. Each strategy draws a valid call and changes one size, type or number in some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st

import builder as xb
from builder.types.primitive_type import ALL, PrimitiveType
from builder.types.shape import intern_array

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass
class Call:
    """One call of an operation.

    Attributes:
        op: the name of the function in `builder`.
        operands: the operands' shapes.
        call: records the call on these operands.
        line: the instruction in HLO without its result: the opcode, the operands %p0, %p1, ..., and
            the attributes; None if XLA's parser infers no shape or HLO needs several instructions.
        computations: the texts of computations that the line refers to.
    """

    op: str
    operands: list[xb.Shape]
    call: Callable[..., xb.XlaOp]
    line: str | None = None
    computations: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.operands))}): {self.line}"

    def record(self) -> xb.XlaComputation:
        """Return a computation of this call.

        Raises:
            XlaError: `builder` refuses the call.
        """
        b = xb.XlaBuilder("call")
        return b.build(self.call(*[b.parameter(s, f"p{i}") for i, s in enumerate(self.operands)]))

    def text(self) -> str:
        """Return the HLO module, with the result's shape omitted."""
        assert self.line is not None
        lines = [f"  %p{i} = {shape} parameter({i})" for i, shape in enumerate(self.operands)]
        entry = "\n".join(["ENTRY %main {", *lines, f"  ROOT %root = {self.line}", "}"])
        return "\n\n".join(["HloModule call", *self.computations, entry]) + "\n"


def scalar_computation(opcode: str, t: PrimitiveType) -> str:
    """Return the text of a computation of two scalars, named %<opcode>_computation."""
    lines = [f"  %x{i} = {t}[] parameter({i})" for i in (0, 1)]
    return "\n".join(
        [f"%{opcode}_computation {{", *lines, f"  ROOT %r = {t}[] {opcode}(%x0, %x1)", "}"]
    )


def braces(values: Sequence[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


# Parts of calls.

COMMON: Final = [xb.pred, xb.s8, xb.u32, xb.s4, xb.f32, xb.bf16, xb.f8e5m2, xb.f64, xb.c64]
types = st.one_of(st.sampled_from(COMMON), st.sampled_from(ALL))
sizes = st.integers(0, 4)
INTEGERS: Final = [t for t in ALL if t.is_integral]
FLOATS: Final = [t for t in ALL if t.is_floating]
COMPLEXES: Final = [t for t in ALL if t.is_complex]


@st.composite
def arrays(
    draw: Draw, element_types: Any = types, min_rank: int = 0, max_rank: int = 3
) -> xb.ArrayShape:
    """Draw a small array shape; one in four has bounded sizes."""
    dimensions = draw(st.lists(sizes, min_size=min_rank, max_size=max_rank))
    dynamic = [False] * len(dimensions)
    if draw(st.integers(0, 3)) == 0:
        # XLA treats a bound of 0 as absent in a few places.
        dynamic = [draw(st.booleans()) and size > 0 for size in dimensions]
    return intern_array(draw(element_types), tuple(dimensions), tuple(dynamic))


def with_type(shape: xb.ArrayShape, t: PrimitiveType) -> xb.ArrayShape:
    return shape.with_element_type(t)


def scalar(t: PrimitiveType) -> xb.ArrayShape:
    return intern_array(t, ())


def resized(shape: xb.ArrayShape, dimensions: Sequence[int]) -> xb.ArrayShape:
    return intern_array(shape.element_type, tuple(dimensions))


@st.composite
def near(draw: Draw, shape: xb.ArrayShape) -> xb.ArrayShape:
    """Draw a shape that differs in one size, the rank or the element type."""
    how = draw(st.sampled_from(["size", "type", "more", "fewer"]))
    dimensions = list(shape.dimensions)
    if how == "type":
        return with_type(shape, draw(types))
    if how == "more" or not dimensions:
        dimensions.insert(draw(st.integers(0, len(dimensions))), draw(sizes))
    elif how == "fewer":
        del dimensions[draw(st.integers(0, len(dimensions) - 1))]
    else:
        place = draw(st.integers(0, len(dimensions) - 1))
        dimensions[place] = max(0, dimensions[place] + draw(st.sampled_from([-1, 1, 2])))
    return intern_array(shape.element_type, tuple(dimensions))


@st.composite
def almost(draw: Draw, shapes: list[xb.ArrayShape]) -> list[xb.Shape]:
    """Return the shapes; one of three draws changes one of them."""
    result: list[xb.Shape] = list(shapes)
    if shapes and draw(st.integers(0, 2)) == 0:
        index = draw(st.integers(0, len(shapes) - 1))
        result[index] = draw(near(shapes[index]))
    return result


@st.composite
def nudged(draw: Draw, numbers: Sequence[int]) -> list[int]:
    """Return the numbers; one of four draws changes, removes or repeats one of them."""
    result = list(numbers)
    if result and draw(st.integers(0, 3)) == 0:
        index = draw(st.integers(0, len(result) - 1))
        how = draw(st.sampled_from(["up", "down", "remove", "repeat"]))
        if how == "remove":
            del result[index]
        elif how == "repeat":
            result.insert(index, result[index])
        else:
            result[index] += 1 if how == "up" else -1
    return result


@st.composite
def some_dimensions(draw: Draw, rank: int) -> list[int]:
    """Draw distinct dimensions of an array in any order."""
    if not rank:
        return []
    chosen = draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank))
    return list(chosen)


# Elementwise.

UNARY: Final = (
    *("abs", "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "ceil", "clz", "cos", "cosh"),
    *("erf", "exp", "expm1", "floor", "imag", "is_finite", "log", "log1p", "logistic"),
    *("neg", "not_", "population_count", "real", "round", "round_nearest_even", "rsqrt"),
    *("sign", "sin", "sinh", "sqrt", "tan", "tanh"),
)
BINARY: Final = (
    *("add", "sub", "mul", "mulhi", "div", "rem", "max", "min", "and_", "or_", "xor", "pow"),
    *("atan2", "shift_left", "shift_right_arithmetic", "shift_right_logical", "complex"),
)


def hlo_opcode(name: str) -> str:
    from builder.schema import SCHEMAS

    return SCHEMAS[xb.OPERATIONS[name].opcode].hlo


@st.composite
def unary(draw: Draw) -> Call:
    name = draw(st.sampled_from(UNARY))
    return Call(name, [draw(arrays())], getattr(xb, name), f"{hlo_opcode(name)}(%p0)")


@st.composite
def binary(draw: Draw) -> Call:
    """Draw a binary op on equal shapes, on sizes of 1, or on a scalar."""
    name = draw(st.sampled_from(BINARY))
    lhs = draw(arrays())
    rhs = lhs
    how = draw(st.sampled_from(["same", "scalar", "ones"]))
    if how == "scalar":
        rhs = scalar(lhs.element_type)
    elif how == "ones":
        keep = [draw(st.booleans()) for _ in lhs.dimensions]
        kept = [s if k else 1 for s, k in zip(lhs.dimensions, keep, strict=True)]
        rhs = resized(lhs, kept)
    shapes = draw(almost([lhs, rhs]))
    if draw(st.booleans()):
        shapes.reverse()
    return Call(name, shapes, getattr(xb, name), f"{hlo_opcode(name)}(%p0, %p1)")


@st.composite
def binary_broadcast(draw: Draw) -> Call:
    """Draw a binary op with broadcast_dimensions, which HLO expresses as a separate broadcast."""
    large = draw(arrays(min_rank=1))
    places = sorted(draw(some_dimensions(large.rank)))
    small = resized(large, [large.dimensions[p] for p in places])
    shapes = draw(almost([large, small]))
    dimensions = draw(nudged(places))
    name = draw(st.sampled_from(["add", "mul", "max", "and_", "pow"]))
    function = getattr(xb, name)
    if draw(st.booleans()):
        return Call(name, shapes, lambda a, b: function(a, b, dimensions))
    return Call(name, shapes[::-1], lambda a, b: function(a, b, dimensions))


@st.composite
def compare(draw: Draw) -> Call:
    shape = draw(arrays())
    direction = draw(st.sampled_from(["EQ", "NE", "LT", "GE"]))
    line = f"compare(%p0, %p1), direction={direction}"
    shapes = draw(almost([shape, shape]))
    return Call("compare", shapes, lambda a, b: xb.compare(a, b, direction), line)


@st.composite
def clamp(draw: Draw) -> Call:
    shape = draw(arrays())
    low = scalar(shape.element_type) if draw(st.booleans()) else shape
    high = scalar(shape.element_type) if draw(st.booleans()) else shape
    return Call("clamp", draw(almost([low, shape, high])), xb.clamp, "clamp(%p0, %p1, %p2)")


@st.composite
def select(draw: Draw) -> Call:
    shape = draw(arrays())
    which = scalar(xb.pred) if draw(st.booleans()) else with_type(shape, xb.pred)
    return Call("select", draw(almost([which, shape, shape])), xb.select, "select(%p0, %p1, %p2)")


@st.composite
def conversion(draw: Draw) -> Call:
    """Draw a conversion to another type. XLA's parser does not infer their shapes."""
    shape, to = draw(arrays()), draw(types)
    how = draw(st.sampled_from(["convert_element_type", "reduce_precision", "bitcast", "random"]))
    if how == "reduce_precision":
        bits = draw(st.integers(0, 8)), draw(st.integers(-1, 8))
        return Call(how, [shape], lambda x: xb.reduce_precision(x, *bits))
    if how == "bitcast":
        return Call("bitcast_convert_type", [shape], lambda x: xb.bitcast_convert_type(x, to))
    if how == "random":
        real = with_type(shape, draw(st.sampled_from(FLOATS)))
        bits_type = xb.types.primitive_type.from_name(f"u{real.element_type.bits}")
        shapes = draw(almost([real, with_type(real, bits_type)]))
        name = "stochastic_convert_type"
        return Call(name, shapes, lambda x, r: xb.stochastic_convert_type(x, r, to))
    return Call(how, [shape], lambda x: xb.convert_element_type(x, to))


@st.composite
def mapping(draw: Draw) -> Call:
    shape = draw(arrays(st.sampled_from([xb.s32, xb.f32, xb.f64])))
    t = shape.element_type
    shapes = draw(almost([shape, shape]))
    dimensions = draw(nudged(range(shape.rank)))
    line = f"map(%p0, %p1), dimensions={braces(dimensions)}, to_apply=%add_computation"
    add = computation_of(xb.add, t)
    return Call(
        "map",
        shapes,
        lambda x, y: xb.map([x, y], add, dimensions),
        line,
        [scalar_computation("add", t)],
    )


def computation_of(function: Callable[..., xb.XlaOp], t: PrimitiveType) -> xb.XlaComputation:
    """Return a computation of a binary function of scalars."""
    b = xb.XlaBuilder("reducer")
    return b.build(function(b.parameter(scalar(t)), b.parameter(scalar(t))))


# Reshaping.


@st.composite
def transpose(draw: Draw) -> Call:
    shape = draw(arrays())
    order = draw(nudged(draw(st.permutations(range(shape.rank)))))
    line = f"transpose(%p0), dimensions={braces(order)}"
    return Call("transpose", [shape], lambda x: xb.transpose(x, order), line)


@st.composite
def rev(draw: Draw) -> Call:
    shape = draw(arrays())
    places = draw(nudged(draw(some_dimensions(shape.rank))))
    line = f"reverse(%p0), dimensions={braces(places)}"
    return Call("rev", [shape], lambda x: xb.rev(x, places), line)


@st.composite
def concatenate(draw: Draw) -> Call:
    shape = draw(arrays(min_rank=1))
    place = draw(st.integers(0, shape.rank - 1))
    shapes = [shape]
    for _ in range(draw(st.integers(0, 2))):
        dimensions = list(shape.dimensions)
        dimensions[place] = draw(sizes)
        shapes.append(resized(shape, dimensions))
    number = place + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    operands = draw(almost(shapes))
    names = ", ".join(f"%p{i}" for i in range(len(operands)))
    line = f"concatenate({names}), dimensions={braces([number])}"
    return Call("concatenate", operands, lambda *xs: xb.concatenate(xs, number), line)


@st.composite
def pad(draw: Draw) -> Call:
    shape = draw(arrays(min_rank=1))
    edges = st.integers(-2, 3)
    config = [
        (draw(edges), draw(edges), draw(st.integers(0, 2) if draw(st.integers(0, 7)) else edges))
        for _ in shape.dimensions
    ]
    text = "x".join("_".join(map(str, one)) for one in config)
    shapes = draw(almost([shape, scalar(shape.element_type)]))
    line = f"pad(%p0, %p1), padding={text}"
    return Call("pad", shapes, lambda x, v: xb.pad(x, v, config), line)


@st.composite
def moved(draw: Draw) -> Call:
    """Draw an op of this family whose shape XLA's parser does not infer."""
    shape = draw(arrays())
    name = draw(st.sampled_from(["reshape", "collapse", "slice", "broadcast", "broadcast_in_dim"]))
    if name == "reshape":
        count = math.prod(shape.dimensions)
        divisors = [d for d in range(1, count + 1) if count % d == 0] or [0]
        first = draw(st.sampled_from(divisors))
        new = draw(nudged([first, count // first if first else 2]))
        return Call(name, [shape], lambda x: xb.reshape(x, new))
    if name == "collapse":
        start = draw(st.integers(0, shape.rank))
        places = draw(nudged(range(start, draw(st.integers(start, shape.rank)))))
        return Call(name, [shape], lambda x: xb.collapse(x, places))
    if name == "slice":
        starts, limits, strides = [], [], []
        for size in shape.dimensions:
            starts.append(draw(st.integers(0, size)))
            limits.append(draw(st.integers(starts[-1], size)))
            strides.append(draw(st.integers(1, 3)))
        starts, limits = draw(nudged(starts)), draw(nudged(limits))
        strides = draw(nudged(strides))
        return Call(name, [shape], lambda x: xb.slice(x, starts, limits, strides))
    if name == "broadcast":
        more = draw(st.lists(st.integers(-1 if draw(st.integers(0, 3)) == 0 else 0, 3), max_size=2))
        return Call(name, [shape], lambda x: xb.broadcast(x, more))
    large = draw(arrays(max_rank=4))
    places = draw(nudged(sorted(draw(some_dimensions(large.rank)))))
    small = resized(large, [large.dimensions[p] for p in places if 0 <= p < large.rank])
    shapes = draw(almost([small]))
    return Call(name, shapes, lambda x: xb.broadcast_in_dim(x, large.dimensions, places))


# Contraction and reduction.


@st.composite
def dot_general(draw: Draw) -> Call:
    t = draw(st.sampled_from([xb.s8, xb.s32, xb.bf16, xb.f32, xb.f64, xb.c64]))
    batch = draw(st.lists(sizes, max_size=2))
    contracted = draw(st.lists(sizes, max_size=2))
    operands, numbers = [], []
    for _ in range(2):
        free = draw(st.lists(sizes, max_size=2))
        dimensions = [*batch, *contracted, *free]
        order = draw(st.permutations(range(len(dimensions))))
        operands.append(intern_array(t, tuple(dimensions[i] for i in order)))
        place = [order.index(i) for i in range(len(dimensions))]
        numbers += [place[len(batch) : len(batch) + len(contracted)], place[: len(batch)]]
    shapes = draw(almost(operands))
    lc, lb, rc, rb = (draw(nudged(n)) for n in numbers)
    line = "dot(%p0, %p1)"
    if lb or rb:
        line += f", lhs_batch_dims={braces(lb)}, rhs_batch_dims={braces(rb)}"
    line += f", lhs_contracting_dims={braces(lc)}, rhs_contracting_dims={braces(rc)}"

    def call(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return xb.dot_general(x, y, xb.DotDimensionNumbers(lc, rc, lb, rb))

    return Call("dot_general", shapes, call, line)


@st.composite
def reduce(draw: Draw) -> Call:
    t = draw(st.sampled_from([xb.s32, xb.f32, xb.f64, xb.s8]))
    shape = draw(arrays(st.just(t)))
    places = draw(nudged(draw(some_dimensions(shape.rank))))
    shapes = draw(almost([shape, scalar(t)]))
    add = computation_of(xb.add, t)
    line = f"reduce(%p0, %p1), dimensions={braces(places)}, to_apply=%add_computation"
    return Call(
        "reduce",
        shapes,
        lambda x, v: xb.reduce(x, v, add, places),
        line,
        [scalar_computation("add", t)],
    )


# Control flow.


@st.composite
def call(draw: Draw) -> Call:
    shape = draw(arrays(st.sampled_from([xb.s32, xb.f32])))
    b = xb.XlaBuilder("callee")
    callee = b.build(xb.neg(b.parameter(shape)))
    text = f"%callee {{\n  %x = {shape} parameter(0)\n  ROOT %r = {shape} negate(%x)\n}}"
    shapes = draw(almost([shape]))
    if draw(st.booleans()):
        line = "call(%p0), to_apply=%callee"
        return Call("call", shapes, lambda x: xb.call(callee, x), line, [text])
    condition = xb.XlaBuilder("condition")
    condition.parameter(shape)
    holds = condition.build(condition.constant(False))
    more = f"%condition {{\n  %x = {shape} parameter(0)\n  ROOT %r = pred[] constant(false)\n}}"
    line = "while(%p0), condition=%condition, body=%callee"
    return Call("while_", shapes, lambda x: xb.while_(holds, callee, x), line, [text, more])


@st.composite
def conditional(draw: Draw) -> Call:
    shape = draw(arrays(st.sampled_from([xb.s32, xb.f32])))
    text = f"%callee {{\n  %x = {shape} parameter(0)\n  ROOT %r = {shape} negate(%x)\n}}"
    b = xb.XlaBuilder("callee")
    callee = b.build(xb.neg(b.parameter(shape)))
    count = draw(st.integers(1, 3))
    shapes = draw(almost([scalar(xb.s32), *[shape] * count]))
    names = ", ".join(f"%p{i}" for i in range(count + 1))
    branches = ", ".join(["%callee"] * count)
    line = f"conditional({names}), branch_computations={{{branches}}}"

    def apply(which: xb.XlaOp, *operands: xb.XlaOp) -> xb.XlaOp:
        return xb.conditional(which, [callee] * count, list(operands))

    return Call("conditional", shapes, apply, line, [text])


@st.composite
def element(draw: Draw) -> Call:
    parts = draw(st.lists(arrays(), min_size=3, max_size=3))
    # XLA crashes on an index that is out of range, and restarting the process is slow.
    number = len(parts) if draw(st.integers(0, 19)) == 0 else draw(st.integers(0, 2))
    line = f"get-tuple-element(%p0), index={number}"
    shape = xb.TupleShape(parts)
    return Call("get_tuple_element", [shape], lambda t: xb.get_tuple_element(t, number), line)


@st.composite
def scan(draw: Draw) -> Call:
    """Draw a scan. XLA's parser does not infer its shape; StableHLO's verifier checks the loop."""
    shape = draw(arrays(st.just(xb.f32), min_rank=1))
    place = draw(st.integers(0, shape.rank - 1))
    shape = resized(shape, shape.dimensions)  # a scan of bounded sizes is not lowered
    start = resized(shape, shape.dimensions[:place] + shape.dimensions[place + 1 :])
    shapes = draw(almost([shape, start]))
    reverse = draw(st.booleans())

    def apply(x: xb.XlaOp, c: xb.XlaOp) -> xb.XlaOp:
        return xb.scan(x, c, lambda e, c: (e + c, e + c), place, is_reverse=reverse)

    return Call("scan", shapes, apply)


FAMILIES: Final[dict[str, st.SearchStrategy[Call]]] = {
    "elementwise": st.one_of(
        unary(), binary(), binary_broadcast(), compare(), clamp(), select(), conversion(), mapping()
    ),
    "reshaping": st.one_of(transpose(), rev(), concatenate(), pad(), moved()),
    "contraction": dot_general(),
    "reduction": reduce(),
    "control_flow": st.one_of(call(), conditional(), element(), scan()),
}
