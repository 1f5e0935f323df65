"""Reductions along dimensions.

Operation Semantics: Reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import copysign, prod
from types import FunctionType, MappingProxyType
from typing import Any, Final, NamedTuple

from builder.checking import Check, operand_names, same_sizes
from builder.graph.computation import XlaComputation
from builder.graph.recording import (
    append,
    record,
    resolve_builder,
    rollback_on_error,
    shared_attributes,
)
from builder.graph.subcomputations import as_computation, available_computation, is_library_function
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.ops.operands import (
    Operand,
    is_number,
    need_op,
    need_ops,
    number_constant,
    scalars_of,
)
from builder.schema import Trait
from builder.schema.definition import ANY, Attribute, CostClass, Tolerance, define
from builder.schema.equal_sizes import Pairs, SizedOp, pairs
from builder.schema.kinds import COMPUTATION, INTEGERS
from builder.support.caches import SignatureTable, per_signature
from builder.types.shape import ArrayShape, ProgramShape, Shape, TupleShape, intern_array

Planned = tuple[Shape, Mapping[str, Any]]


def reduction_operands(
    op: str, operands: Sequence[Shape], init_values: Sequence[Shape]
) -> tuple[Check, list[ArrayShape]]:
    """Return the `Check` of a reduction, and its operands after checking that they are arrays."""
    check = Check.numbered(op, "operand", operands)
    check.shapes.update(
        zip(operand_names("init value", len(init_values)), init_values, strict=True)
    )
    # StableHLO reduce (C3), reduce_window (C1)
    check.that(bool(operands), "at least one operand is needed", got="none")
    check.one_for_each(init_values, len(operands), of="operand", name="init_values")
    return check, [check.array(name) for name in operand_names("operand", len(operands))]


def reducer(
    check: Check,
    computation: ProgramShape,
    operands: Sequence[ArrayShape],
    init_values: Sequence[Shape],
) -> None:
    """Check that `computation` can reduce `operands`, starting with `init_values`.

    For N operands of element types T_0, ..., T_N-1 the reducer has 2N scalar parameters, first the
    accumulated values and then the new values, T_0, ..., T_N-1, T_0, ..., T_N-1. It returns N
    scalars of types T_0, ..., T_N-1: a scalar for one operand, a tuple for several operands.
    """
    scalars = [intern_array(o.element_type, ()) for o in operands]
    # StableHLO reduce (C2), reduce_window (C3)
    for index, (init, scalar) in enumerate(zip(init_values, scalars, strict=True)):
        if init is not scalar:
            check.fail(
                f"init value {index} must be a scalar of the type of operand {index}, {scalar}",
                got=init,
                fix=_init_fix(init, scalar),
            )
    # StableHLO reduce (C6), reduce_window (C13). The result of a reducer that returns a tuple of
    # one is a tuple of one.
    check.applied("computation", computation, [*scalars, *scalars], scalars, or_tuple=True)


def _init_fix(init: Shape, scalar: ArrayShape) -> str:
    """Return the fix for an init value that is not a `scalar`."""
    if isinstance(init, ArrayShape) and not init.rank:
        return (
            f"write a Python number, or convert the init value with "
            f"xb.convert(init_value, xb.{scalar.element_type})"
        )
    constant = f"builder.constant(value, xb.{scalar.element_type})"
    return f"write a Python number, or record a scalar with {constant}"


def equal_sizes(check: Check, arrays: Sequence[ArrayShape]) -> None:
    """Check that the operands have the same sizes. An unbounded size matches any size."""
    first = arrays[0]
    # StableHLO reduce (C1), reduce_window (C2), sort (C3)
    for index, array in enumerate(arrays):
        if not same_sizes(array, first):
            check.fail(f"operands must have the same sizes; operand {index} differs from operand 0")


def _reduce_shape(
    operands: Sequence[Shape],
    init_values: Sequence[Shape],
    computation: ProgramShape,
    dimensions: Sequence[int],
    *,
    op: str,
) -> Shape:
    check, arrays = reduction_operands(op, operands, init_values)
    first = arrays[0]
    equal_sizes(check, arrays)
    # StableHLO reduce (C4), (C5)
    check.dimensions_in_range(dimensions, of="operand 0", name="dimensions")
    check.unique(dimensions, name="dimensions")
    reducer(check, computation, arrays, init_values)
    # Like XLA, take dynamic sizes from operand 0 alone.
    left = [d for d in range(first.rank) if d not in dimensions]
    sizes = tuple([first.dimensions[d] for d in left])
    dynamic = tuple([first.dynamic_dimensions[d] for d in left])
    results = [intern_array(array.element_type, sizes, dynamic) for array in arrays]
    return results[0] if computation.result.is_array else TupleShape(results)


def _reduced(op: Any) -> int:
    """Return the number of operand elements that are reduced to one element of the result."""
    sizes = op.operands[0].shape.dimensions
    return prod(sizes[d] for d in op.attributes["dimensions"])


def _reduce_equal_sizes(op: SizedOp) -> Pairs:
    arrays = op.operands[: len(op.results)]
    yield from pairs(arrays[1:], arrays[0])
    kept = [size for d, size in enumerate(arrays[0]) if d not in op.attributes["dimensions"]]
    for result in op.results:
        yield from zip(result, kept, strict=True)


REDUCE: Final = define(
    "reduce",
    "*operands *init_values",
    (
        Attribute("dimensions", INTEGERS),
        Attribute("to_apply", COMPUTATION, parameter="computation"),
    ),
    element_types={"operands": ANY, "init_values": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(applications=_reduced),
    traits=Trait.ON_ELEMENTS,
    equal_sizes=_reduce_equal_sizes,
)


class Reduction(NamedTuple):
    """A public function that records a reduction. Its argument is the dimensions or the window.

    Attributes:
        opcode: the opcode that the function records.
        name: the name of the function, which no other reduction has.
        rule: its shape inference, a function of the operand shapes, the init shapes, the signature
            of the reducer and the argument.
        attributes: a function of the name, the operand shapes, the reducer and the argument that
            returns the recorded attributes.
    """

    opcode: str
    name: str
    rule: Callable[..., Shape]
    attributes: Callable[..., Mapping[str, Any]]


_Single = tuple[Shape, Mapping[str, Any], Shape, Mapping[str, Any] | None]
"""The shape and the attributes of a reduction, and of the constant for its init value, if any."""


def recorder(reduction: Reduction) -> Callable[..., XlaOp]:
    """Return the function that checks the rules of a reduction and records the op.

    Its parameters are the name of the function, which it does not use; the first three parameters
    of `reduce`; and the argument, which is hashable, because it is in the keys of caches.
    """
    opcode, name = reduction.opcode, reduction.name
    singles = SignatureTable[_Single]()

    def record_reduction(
        _name: str, operands: Any, init_values: Any, computation: Any, argument: Any
    ) -> XlaOp:
        # The usual case, without lists: an array, a number or an op, and a function like xb.add.
        init: Any = None
        if type(operands) is XlaOp and type(computation) is FunctionType:
            kind = type(init_values)
            if kind is float:  # 0.0 and -0.0 are equal
                init = init_values or ("0.0" if copysign(1.0, init_values) > 0.0 else "-0.0")
            elif kind is XlaOp:
                init = init_values.shape
            elif kind is int:
                init = int, init_values  # 1 and 1.0 are equal
        if init is None:
            return _record_lists(reduction, operands, init_values, computation, argument)
        key = operands.shape, init, computation, argument
        single = singles.get(key)
        if single is None:
            if init != init or not is_library_function(computation):  # a NaN is never found
                return _record_lists(reduction, operands, init_values, computation, argument)
            plan = _single_plan(reduction, operands.shape, init_values, computation, argument)
            single = singles.add(key, plan)
        shape, attributes, init_shape, constant = single
        if constant is None:
            return record(opcode, shape, (operands, init_values), attributes, 3)
        # The rules are checked before the constant is recorded.
        builder = operands.builder
        if not builder._is_open:
            builder = resolve_builder(name, operands)
        value = record("constant", init_shape, (), constant, 3, builder)
        # The operand may be a value of an enclosing builder.
        of_both = builder if operands.builder is builder else None
        return record(opcode, shape, (operands, value), attributes, 3, of_both, value)

    return record_reduction


def _single_plan(
    reduction: Reduction, array: Shape, init: Any, function: Callable[..., Any], argument: Any
) -> _Single:
    """Return the plan of a reduction of one array by a library function."""
    name, constant = reduction.name, None
    (scalar,) = scalars_of(name, (array,))
    if type(init) is XlaOp:
        init_shape = init.shape
    else:
        init_shape, constant = number_constant(name, init, scalar.element_type, array)
    planned = _library_plan(reduction, (array,), (init_shape,), function, argument)
    return (*planned, init_shape, constant)


def _record_lists(
    reduction: Reduction, operands: Any, init_values: Any, computation: Any, argument: Any
) -> XlaOp:
    """Record a reduction of any arguments; see `recorder`."""
    name = reduction.name
    arrays = need_ops(name, "operand", operands)
    if not arrays:
        Check(name).fail("at least one operand is needed", got="none")
    inits = init_values if isinstance(init_values, (list, tuple)) else (init_values,)
    shapes = tuple([array.shape for array in arrays])
    if is_library_function(computation):
        init_shapes, constants = _init_shapes(name, shapes, inits)
        planned = _cached_library_plan(reduction, shapes, init_shapes, computation, argument)
        return _record(reduction, arrays, inits, init_shapes, constants, planned)

    def reduced_by(reducer: XlaComputation) -> XlaOp:
        init_shapes, constants = _init_shapes(name, shapes, inits)
        planned = reducer._planned(_plan, reduction, shapes, init_shapes, reducer, argument)
        return _record(reduction, arrays, inits, init_shapes, constants, planned)

    scalars = scalars_of(name, shapes) * 2
    available = available_computation(name, "computation", computation, scalars)
    if available is not None:
        return reduced_by(available)
    with rollback_on_error(_builder(name, arrays, inits)):
        return reduced_by(as_computation(name, "computation", computation, scalars))


def _infer(
    reduction: Reduction,
    shapes: tuple[Shape, ...],
    init_shapes: tuple[Shape, ...],
    reducer: ProgramShape,
    argument: Any,
) -> Shape:
    return reduction.rule(shapes, init_shapes, reducer, argument, op=reduction.name)


# The key is the reducer's signature, so that callables that are recorded again share an entry.
_cached_shape = per_signature(_infer)


def _plan(
    reduction: Reduction,
    shapes: tuple[Shape, ...],
    init_shapes: tuple[Shape, ...],
    reducer: XlaComputation,
    argument: Any,
) -> Planned:
    """Return the shape and the attributes of a reduction by a user's computation."""
    shape = _cached_shape(reduction, shapes, init_shapes, reducer.signature, argument)
    return shape, MappingProxyType(reduction.attributes(reduction.name, shapes, reducer, argument))


def _library_plan(
    reduction: Reduction,
    shapes: tuple[Shape, ...],
    init_shapes: tuple[Shape, ...],
    function: Callable[..., Any],
    argument: Any,
) -> Planned:
    """Return the shape and the attributes of a reduction by a library function such as `xb.add`."""
    name = reduction.name
    reducer = as_computation(name, "computation", function, scalars_of(name, shapes) * 2)
    shape = _infer(reduction, shapes, init_shapes, reducer.signature, argument)
    return shape, shared_attributes(**reduction.attributes(name, shapes, reducer, argument))


_cached_library_plan = per_signature(_library_plan)


def _record(
    reduction: Reduction,
    arrays: tuple[XlaOp, ...],
    inits: Sequence[Any],
    init_shapes: tuple[Shape, ...],
    constants: Mapping[int, Mapping[str, Any]],
    planned: Planned,
) -> XlaOp:
    if constants:
        builder = _builder(reduction.name, arrays, inits)
        inits = [*inits]
        for index, constant in constants.items():
            inits[index] = append(builder, "constant", init_shapes[index], (), constant, 5)
    shape, attributes = planned
    return record(reduction.opcode, shape, (*arrays, *inits), attributes, 5)


def _builder(name: str, arrays: tuple[XlaOp, ...], inits: Sequence[Any]) -> XlaBuilder:
    return resolve_builder(name, *arrays, *[v for v in inits if type(v) is XlaOp])


def _init_shapes(
    name: str, shapes: tuple[Shape, ...], inits: Sequence[Any]
) -> tuple[tuple[Shape, ...], Mapping[int, Mapping[str, Any]]]:
    """Return the shapes of the init values, and the attributes of a constant for each number.

    The attributes are a mapping from the index of the init value. No constant is recorded yet,
    because the caller checks the rules of the reduction first.
    """
    constants: dict[int, Mapping[str, Any]] = {}
    init_shapes: list[Shape] = []
    for index, value in enumerate(inits):
        if type(value) is XlaOp:
            init_shapes.append(value.shape)
            continue
        if not is_number(value) or index >= len(shapes):
            need_op(name, f"init value {index}", value)
        scalar = scalars_of(name, shapes)[index]
        shape, constants[index] = number_constant(name, value, scalar.element_type, shapes[0])
        init_shapes.append(shape)
    return tuple(init_shapes), constants


def _attributes(
    _name: str, _operands: Sequence[Shape], reducer: XlaComputation, dimensions: tuple[int, ...]
) -> Mapping[str, Any]:
    return {"to_apply": reducer, "dimensions": dimensions}


@op(
    REDUCE,
    _reduce_shape,
    by=recorder(Reduction("reduce", "reduce", _reduce_shape, _attributes)),
    operands=None,
    init_values=None,
    computation=None,
)
def reduce(
    operands: XlaOp | Sequence[XlaOp],
    init_values: Operand | Sequence[Operand],
    computation: XlaComputation | Callable[..., Any],
    dimensions: Sequence[int],
) -> XlaOp:
    """Reduce one or more arrays along dimensions with a computation.

    The order of the reduction is not defined: the computation should be associative, up to
    rounding, and the init value its identity.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        init_values: the initial scalar for each operand; a Python number is a constant of the
            operand's type.
        computation: a reducer. For one operand: ``(accumulated, value) -> new``, scalars of its
            type. For N operands: it takes N accumulated values and then N new ones, and returns a
            tuple of N. Pass a computation, or a callable such as ``xb.add`` or a lambda. Functions
            of this library and functions decorated with ``@xb.computation`` are recorded once per
            signature; any other callable is recorded each time it is passed.
        dimensions: the dimensions to reduce, in any order; an empty sequence keeps the sizes.

    Returns:
        An array of the operand's remaining dimensions; for several operands a tuple of such arrays.

    Raises:
        ShapeInferenceError: sizes differ; a dimension is out of range or duplicated; an init value
            is not a scalar of its operand's type; the numbers of operands and init values differ.
        SignatureError: the computation is not a reducer for these operands.
        ConstantError: a number does not fit the type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reduce(x, 0.0, xb.add, dimensions=[0, 1]).shape
        f32[3]
        >>> i = x.builder.iota(xb.s32[4, 2, 3], 2)
        >>> def argmax(best, best_at, value, at):
        ...     better = value > best
        ...     return xb.select(better, value, best), xb.select(better, at, best_at)
        >>> xb.reduce([x, i], [float("-inf"), 0], argmax, dimensions=[2]).shape
        (f32[4,2], s32[4,2])

    Operation Semantics: Reduce.
    """


def _reduce_all_shape(operand: Shape, init_value: Shape, computation: ProgramShape) -> Shape:
    dimensions = _all_dimensions(operand)
    return _reduce_shape((operand,), (init_value,), computation, dimensions, op="reduce_all")


def _all_dimensions(operand: Shape) -> tuple[int, ...]:
    return tuple(range(Check("reduce_all", operand=operand).array("operand").rank))


_record_all = recorder(Reduction("reduce", "reduce_all", _reduce_shape, _attributes))


def _record_reduce_all(name: str, operand: XlaOp, init_value: Any, computation: Any) -> XlaOp:
    return _record_all(name, operand, init_value, computation, _all_dimensions(operand.shape))


@op(
    REDUCE,
    _reduce_all_shape,
    by=_record_reduce_all,
    init_value=None,
    computation=None,
    cpp_name="ReduceAll",
    section="Reduce (XlaBuilder's ReduceAll)",
)
def reduce_all(
    operand: XlaOp, init_value: Operand, computation: XlaComputation | Callable[..., Any]
) -> XlaOp:
    """Reduce all elements of an array: `reduce` along every dimension.

    Args:
        operand: an array.
        init_value: the initial scalar, or a Python number.
        computation: a reducer ``(accumulated, value) -> new``; see `reduce`.

    Returns:
        A scalar of the operand's element type.

    Raises:
        ShapeInferenceError, SignatureError, ConstantError: see `reduce`.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reduce_all(x, 0.0, xb.add).shape
        f32[]

    Operation Semantics: Reduce.
    """
