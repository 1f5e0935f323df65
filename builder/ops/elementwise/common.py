"""What elementwise ops share: their data, and how ops of two arrays are inferred and recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from builder.checking import Check, integers
from builder.errors import OperandError, brief, error_of
from builder.graph.recording import record, resolve_builder
from builder.graph.registry import register
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.broadcasting import RuntimeSizes, needs_runtime_sizes, record_broadcast, sizes_from
from builder.ops.definition import made
from builder.ops.operands import dimensions_attribute, is_number, need_op, number_constant
from builder.schema import ResultType, Schema, define, definition
from builder.schema.definition import CostClass, ElementTypes, Tolerance
from builder.schema.equal_sizes import all_equal_sizes
from builder.support.caches import SignatureTable
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, intern_array

F = TypeVar("F", bound=Callable[..., Any])


def within(ulps: float, complex_ulps: float = 0) -> Tolerance:
    """Return the tolerance of arithmetic, which devices may apply to flushed operands."""
    return Tolerance(ulps, complex_ulps, flushes=True)


# The cost of an opcode, and its tolerance: 1 ulp if IEEE 754 requires correct rounding, since
# hardware may compute in another precision and round again; 2 if hardware approximates; more for
# functions, whose accuracy StableHLO leaves to the implementation. Complex numbers are computed
# from functions and products of their parts, which may cancel.
Computed = tuple[CostClass, Tolerance]
EXACT: Final[Computed] = CostClass.ELEMENTWISE, definition.EXACT
ORDERING: Final[Computed] = CostClass.ELEMENTWISE, within(0)
SIGN: Final[Computed] = CostClass.ELEMENTWISE, within(0, 16)
ROUNDED: Final[Computed] = CostClass.ELEMENTWISE, within(1, 8)
APPROXIMATED: Final[Computed] = CostClass.ELEMENTWISE, within(2, 16)
ROOT: Final[Computed] = CostClass.TRANSCENDENTAL, within(2, 16)
SMOOTH: Final[Computed] = CostClass.TRANSCENDENTAL, within(8, 64)
PERIODIC: Final[Computed] = CostClass.TRANSCENDENTAL, within(8, 256)
STEEP: Final[Computed] = CostClass.TRANSCENDENTAL, within(16, 256)


def define_elementwise(
    opcode: str,
    operands: str,
    element_types: ElementTypes,
    computed: Computed,
    section: str,
    *,
    result: ResultType = ResultType.OPERAND,
    **data: Any,
) -> Schema:
    """Define an opcode whose operands have one element type.

    Args:
        opcode, operands, section, result: see `Schema`.
        element_types: the element types that the operands may have.
        computed: the cost class, and the tolerance.
        data: other fields of the schema.
    """
    cost, allowed = computed
    return define(
        opcode,
        operands,
        section=section,
        element_types=dict.fromkeys(operands.split(), element_types),
        result=result,
        cost=cost,
        tolerance=allowed,
        equal_sizes=all_equal_sizes,
        **data,
    )


def result_type(schema: Schema, element_type: PrimitiveType) -> PrimitiveType:
    """Return the element type of the result, from that of the operands; see `Schema.result`."""
    match schema.result:
        case ResultType.OPERAND:  # the usual case
            return element_type
        case ResultType.REAL_PART:
            return element_type.real_type
        case ResultType.COMPLEX:
            return element_type.complex_type or element_type
        case _:
            return pt.pred


def element_type_of(name: str, operand: XlaOp) -> PrimitiveType:
    """Return the element type of `operand`; raise if `operand` is not an array."""
    shape = operand.shape
    if not isinstance(shape, ArrayShape):
        Check(name, operand=shape).array("operand")
    return shape.element_type


def constant_of(name: str, lhs: Any, rhs: Any) -> tuple[XlaBuilder, ArrayShape, Any, bool]:
    """Return the constant for the operand that is a number, without recording the constant.

    The caller infers the result's shape first, so that an op that raises records no constant.

    Returns:
        The builder, the shape and the attributes of the constant, and whether the number is
        `lhs`.

    Raises:
        OperandError: the operands are not one XlaOp and one number.
        ConstantError: the element type of the other operand can't represent the number.
    """
    is_left = type(lhs) is not XlaOp
    number, operand = (lhs, rhs) if is_left else (rhs, lhs)
    if type(operand) is not XlaOp:
        for argument, value in (("lhs", lhs), ("rhs", rhs)):
            if not is_number(value):
                need_op(name, argument, value)
        rule = "at least one operand must be an XlaOp"
        raise error_of(
            OperandError,
            name,
            rule,
            "record one operand with builder.constant(...)",
            got=f"{brief(lhs)} and {brief(rhs)}",
        )
    builder, shape, kind = operand.builder, operand.shape, type(number)
    if not builder._is_open:
        builder = resolve_builder(name, operand)
    if kind is not float and kind is not int and not is_number(number):
        need_op(name, "lhs" if is_left else "rhs", number, operand)
    # The usual operand is an array, whose type is read without a call.
    is_array = type(shape) is ArrayShape
    element_type = shape.element_type if is_array else element_type_of(name, operand)
    scalar, attributes = number_constant(name, number, element_type, shape)
    return builder, scalar, attributes, is_left


Broadcast = tuple[ArrayShape, Mapping[str, tuple[int, ...]], RuntimeSizes | None]
"""The shape that an operand is broadcast to, the attributes of the op, and the runtime sizes.

The runtime sizes are None for `broadcast_in_dim`, which has no operand for sizes."""

Broadcasts = tuple[Broadcast | None, Broadcast | None]
"""The broadcast of each operand; None for an operand that has the result's sizes."""

Plan = tuple[ArrayShape, Mapping[str, Any], Broadcasts | None]
"""The result's shape, the attributes, and the broadcasts; None if no operand is broadcast."""


def _broadcasts(lhs: Shape, rhs: Shape, result: ArrayShape, dimensions: Any) -> Broadcasts | None:
    """Return the broadcasts of operands of these shapes."""
    assert isinstance(lhs, ArrayShape)  # checked by inference
    assert isinstance(rhs, ArrayShape)
    if lhs.dimensions == rhs.dimensions == result.dimensions:
        return None
    left, right = (
        (a, tuple(range(a.rank)) if a.rank == result.rank else dimensions if a.rank else ())
        for a in (lhs, rhs)
    )
    return _broadcast(left, right, result), _broadcast(right, left, result)


_Placed = tuple[ArrayShape, tuple[int, ...]]
"""An operand, and for each of its dimensions the dimension of the result."""


def _broadcast(placed: _Placed, other: _Placed, result: ArrayShape) -> Broadcast | None:
    """Return the broadcast of an operand; None if it has the result's sizes."""
    operand, places = placed
    if operand.dimensions == result.dimensions:
        return None
    attributes = dimensions_attribute("broadcast_dimensions", places)
    if operand.is_static and result.is_static:
        return intern_array(operand.element_type, result.dimensions), attributes, None
    # A dimension that is not expanded is dynamic if it is dynamic in the operand.
    dynamic = list(result.dynamic_dimensions)
    for index, place in enumerate(places):
        if operand.dimensions[index] == result.dimensions[place]:
            dynamic[place] = operand.dynamic_dimensions[index]
    target = intern_array(operand.element_type, result.dimensions, tuple(dynamic))
    if needs_runtime_sizes(operand, target, places):
        return target, attributes, sizes_from(target, [placed, other])
    return target, attributes, None


def _record_broadcast_op(
    opcode: str,
    lhs: XlaOp,
    rhs: XlaOp,
    plan: Plan,
    builder: XlaBuilder | None,
    helper: XlaOp | None = None,
) -> XlaOp:
    """Record the broadcasts of a plan, then the op; the arguments are those of `record`."""
    shape, attributes, broadcasts = plan
    if broadcasts is not None:
        # The usual broadcast, which has no runtime sizes, is recorded without a further call.
        operands = lhs, rhs
        to_left, to_right = broadcasts
        if to_left is not None:
            target, places, sizes = to_left
            if sizes is None:
                lhs = helper = record(
                    "broadcast_in_dim", target, (lhs,), places, 3, builder, helper
                )
            else:
                lhs = record_broadcast(operands, target, places, sizes)
        if to_right is not None:
            target, places, sizes = to_right
            if sizes is None:
                rhs = helper = record(
                    "broadcast_in_dim", target, (rhs,), places, 3, builder, helper
                )
            else:
                rhs = record_broadcast(operands[::-1], target, places, sizes)
    return record(opcode, shape, (lhs, rhs), attributes, 3, builder, helper)


_WithNumber = tuple[ArrayShape, Mapping[str, Any], Plan]
"""The shape and the attributes of the constant for a number, and the plan of the op."""

Rule = Callable[[Shape, Shape, tuple[int, ...] | None], ArrayShape]
"""The shape inference of an op: a function of `lhs`, `rhs` and `broadcast_dimensions`."""

Recorder = Callable[[Any, Any, Any], XlaOp]
"""A function of `lhs`, `rhs` and `broadcast_dimensions` that records an op."""


def recorder(
    name: str,
    opcode: str,
    rule: Rule,
    attributes: Callable[[PrimitiveType], Mapping[str, Any]],
    plans: SignatureTable[Plan],
) -> Recorder:
    """Return the function that records an op of two arrays; one may be a number.

    Args:
        name, opcode: those of the op.
        rule: its shape inference.
        attributes: returns the recorded attributes for an element type of the operands.
        plans: the table of plans. The key is the pair of operand shapes, with the
            `broadcast_dimensions` if there are any; for equal shapes it is the shape, which saves
            creating and hashing a tuple.
    """

    numbers: SignatureTable[_WithNumber] = SignatureTable()

    def plan_of(left: Shape, right: Shape, broadcast_dimensions: Any) -> Plan:
        dimensions = None
        key: Any = left if left is right else (left, right)
        if broadcast_dimensions is not None:
            dimensions = integers(name, "broadcast_dimensions", broadcast_dimensions)
            key = left, right, dimensions
        plan = plans.get(key)
        if plan is None:
            result = rule(left, right, dimensions)
            broadcasts = _broadcasts(left, right, result, dimensions)
            plan = plans.add(key, (result, attributes(left.element_type), broadcasts))
        return plan

    def record_op(lhs: Any, rhs: Any, broadcast_dimensions: Any) -> XlaOp:
        is_left = type(lhs) is not XlaOp
        if not is_left and type(rhs) is XlaOp:
            builder: XlaBuilder | None = lhs.builder
            if rhs.builder is not builder or not builder._is_open:
                resolve_builder(name, lhs, rhs)  # raises before a broadcast is recorded
                builder = None
            plan = plan_of(lhs.shape, rhs.shape, broadcast_dimensions)
            return _record_broadcast_op(opcode, lhs, rhs, plan, builder)
        number, operand = (lhs, rhs) if is_left else (rhs, lhs)
        kind, key, found = type(number), None, None
        is_usual = (kind is float or kind is int) and broadcast_dimensions is None
        if is_usual and type(operand) is XlaOp and operand.builder._is_open:
            # 1 and 1.0 are equal, and so are 0.0 and -0.0.
            key = kind, number or str(number), operand.shape, is_left
            found = numbers.get(key)
        if found is None:
            builder, scalar, value, _ = constant_of(name, lhs, rhs)
            left, right = (scalar, rhs.shape) if is_left else (lhs.shape, scalar)
            found = scalar, value, plan_of(left, right, broadcast_dimensions)
            if key is not None and number == number:  # a NaN is not found again
                numbers.add(key, found)
        else:
            builder = operand.builder
        scalar, value, plan = found
        constant = record("constant", scalar, (), value, 3, builder)
        if operand.builder is not builder:
            builder = None  # the operand is a value of an enclosing builder
        lhs, rhs = (constant, rhs) if is_left else (lhs, constant)
        return _record_broadcast_op(opcode, lhs, rhs, plan, builder, constant)

    return record_op


# Most ops of a graph have two arrays of one signature that was recorded before.
_BODY: Final = """\
if type(p0) is XlaOp and type(p1) is XlaOp and p2 is None:
    left, right = p0.shape, p1.shape
    found = plans.get(left if left is right else (left, right))
    if found is not None:
        builder = p0.builder
        if p1.builder is builder and builder._is_open:
            if found[2] is None:
                return record(opcode, found[0], (p0, p1), found[1], 2, builder)
            return record_broadcast_op(opcode, p0, p1, found, builder)
return record_op(p0, p1, p2)"""


def function_of_two_arrays(
    declared: F,
    name: str,
    opcode: str,
    rule: Rule,
    attributes: Callable[[PrimitiveType], Mapping[str, Any]],
    *,
    instead: str = "",
    refuse: Callable[[Any, Any], None] | None = None,
) -> F:
    """Return the function with the signature and the docstring of `declared` that records an op.

    The parameters are `lhs`, `rhs` and `broadcast_dimensions`. Numbers become constants, and
    operands of other sizes than the result are broadcast.

    Args:
        declared: a function with only a docstring.
        name, opcode, rule, attributes: see `recorder`.
        instead: see `made`.
        refuse: raises an error for operands of element types that the function does not accept,
            although the rule accepts them.
    """
    plans: SignatureTable[Plan] = SignatureTable()
    record_op = recorder(name, opcode, rule, attributes, plans)

    def checked(lhs: Any, rhs: Any, broadcast_dimensions: Any) -> XlaOp:
        assert refuse is not None
        refuse(lhs, rhs)
        return record_op(lhs, rhs, broadcast_dimensions)

    constants = {
        "opcode": opcode,
        "plans": plans,
        "record_broadcast_op": _record_broadcast_op,
        "record_op": record_op if refuse is None else checked,
    }
    return cast("F", made(declared, "two_arrays", lambda: _BODY, constants, instead))


def op_of_two_arrays(
    schema: Schema,
    rule: Rule,
    attributes: Callable[[PrimitiveType], Mapping[str, Any]],
    *,
    cpp_name: str = "",
    instead: str = "",
) -> Callable[[F], F]:
    """Return a decorator that makes the body of a function with only a docstring, a public op.

    Args:
        schema: the data of the op.
        rule, attributes: see `recorder`.
        cpp_name: see `register`.
        instead: see `made`.
    """

    def enter(declared: F) -> F:
        name = declared.__name__
        function = function_of_two_arrays(
            declared, name, schema.opcode, rule, attributes, instead=instead
        )
        register(function, schema, rule, cpp_name=cpp_name, family="elementwise")
        return function

    return enter
