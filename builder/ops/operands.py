"""Arguments of ops: XlaOps, numbers used as operands, and explicit broadcasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from builder.checking import Check
from builder.errors import ConstantError, OperandError, PrimitiveTypeError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.foreign_values import RECORDING
from builder.graph.recording import append, record, resolve_builder
from builder.graph.registry import order_of_arguments
from builder.graph.subcomputations import ReusableFunction
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.support.arguments import Missing, is_function
from builder.support.caches import per_signature
from builder.types.constant import (
    as_constant_array,
    check_number,
    constant_plan,
    default_element_type,
    scalar_constant,
    wider_number,
)
from builder.types.foreign_arrays import is_array, is_tracer
from builder.types.primitive_type import PrimitiveType, dtype_text, f32, from_dtype, pred
from builder.types.shape import ArrayShape, Shape, intern_array

_NUMBERS = (int, float, complex, np.generic)

Number = int | float | complex | np.generic
"""A Python or NumPy scalar, used as an operand together with an XlaOp."""

Operand = XlaOp | Number
"""An XlaOp, or a number used as an operand."""

InitialValue = Operand | np.ndarray[Any, Any]
"""An XlaOp, or a number or NumPy array that is recorded as a constant."""

Dimensions = Sequence[int] | None
"""The type of the argument `broadcast_dimensions`; see `builder.ops.broadcasting`."""


def need_op(op: str, name: str, value: Any, beside: Any = None) -> XlaOp:
    """Return `value` if it is an XlaOp; otherwise raise an OperandError.

    `beside` is another operand, which must have the same element type, for the fix.
    """
    if type(value) is XlaOp:
        return value
    got = f"{type(value).__name__}: {brief(value, 80)}"
    if isinstance(value, Missing):
        rule = f"{name} must be an XlaOp"
        raise error_of(OperandError, op, rule, value.fix, argument=name, got=value)
    fix = _as_op(op, value, beside)
    raise error_of(OperandError, op, f"{name} must be an XlaOp", fix, argument=name, got=got)


def _as_op(op: str, value: Any, beside: Any) -> str:
    """Return the fix for an operand that is not an op, or ""."""
    if value is None:
        is_comparison = op in ("eq", "ne")
        return f"write `op is {'not ' * (op == 'ne')}None`" if is_comparison else ""
    if is_tracer(value):
        return (
            "record ops outside of jax.jit and other transformations of jax, and call "
            "lowering.to_jax(computation) in them"
        )
    if isinstance(value, list) and any(type(part) is XlaOp for part in value):
        return (
            "combine the ops with xb.tuple(...) or xb.concatenate; a function called with a list "
            "of numbers gets a list of ops, and with one array one op"
        )
    if isinstance(value, tuple) and all(type(part) is XlaOp for part in value):
        return "combine several ops into one with xb.tuple(...)"
    if not (isinstance(value, (*_NUMBERS, list)) or is_array(value)):
        return order_of_arguments(op) if callable(value) else ""
    wanted = beside.shape.element_type if type(beside) is XlaOp else None
    if wanted is not None and isinstance(value, list):
        return f"record it with builder.constant(value, xb.{wanted})"
    try:
        differs = wanted is not None and from_dtype(value.dtype) is not wanted
    except (AttributeError, PrimitiveTypeError):
        differs = False
    if differs and wanted is not None and wanted.is_array_element:
        convert = f"builder.constant(value.astype({dtype_text(wanted.dtype)}))"
        return f"record it with {convert}, because the other operand is of type {wanted}"
    if isinstance(value, list):
        return "record it with builder.constant(value, element_type), for instance with xb.s32"
    if is_number(value):
        if op == "dot":
            return f"multiply by a number with *, or xb.mul(lhs, {brief(value)})"
        kind = pred if isinstance(value, (bool, np.bool_)) else wanted or f32
        return f"record it with b.constant({brief(value)}, xb.{kind}), where b is the builder"
    return "record it with builder.constant(value), for instance x.builder.constant(...)"


def need_ops(op: str, name: str, values: Any) -> tuple[XlaOp, ...]:
    """Return `values`, a sequence of XlaOps or a single XlaOp, as a tuple."""
    if type(values) is XlaOp:
        return (values,)
    if type(values) is list or type(values) is tuple:
        # The usual case, without a call for each value.
        for value in values:
            if type(value) is not XlaOp:
                break
        else:
            return tuple(values)
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        got = f"{type(values).__name__}: {brief(values, 80)}"
        fix = order_of_arguments(op)
        if isinstance(values, Mapping):
            fix = "pass the values in a tuple, and select them by number"
        rule = f"{name} must be a sequence of XlaOps"
        raise error_of(OperandError, op, rule, fix, argument=name, got=got)
    try:
        return tuple(need_op(op, f"{name} {i}", v) for i, v in enumerate(values))
    except TypeError as error:
        if isinstance(error, OperandError) and error.op is not None:
            raise
        # An array of rank 0 has `__iter__`, which raises.
        rule = f"{name} must be a sequence of XlaOps"
        got = brief(values, 80)
        raise error_of(OperandError, op, rule, argument=name, got=got) from None


def is_number(value: Any) -> bool:
    """Whether `value` is a Python or NumPy scalar, or an array of rank 0."""
    return isinstance(value, _NUMBERS) or (isinstance(value, np.ndarray) and value.ndim == 0)


def need_ops_or_numbers(op: str, name: str, values: Any) -> tuple[Operand, ...]:
    """Return `values`, a sequence of XlaOps and numbers or one of them, as a tuple."""
    return _need_each(op, name, values, is_number)


def is_initial_value(value: Any) -> bool:
    """Whether `value` is a number or a NumPy array, which `record_constants` records."""
    return isinstance(value, (np.ndarray, *_NUMBERS))


def need_initial_values(op: str, name: str, values: Any) -> tuple[InitialValue, ...]:
    """Return `values`, a sequence of XlaOps, numbers and arrays or one of them, as a tuple."""
    return _need_each(op, name, values, is_initial_value)


def _need_each(op: str, name: str, values: Any, is_other: Callable[[Any], bool]) -> tuple[Any, ...]:
    """Return `values`, a sequence of ops and other accepted values or one value, as a tuple."""
    if type(values) is XlaOp or is_other(values):
        return (values,)
    if type(values) is not list and type(values) is not tuple:
        return need_ops(op, name, values)
    for index, value in enumerate(values):
        if type(value) is not XlaOp and not is_other(value):
            need_op(op, f"{name} {index}", value)
    return tuple(values)


def builder_of_values(op: str, name: str, values: Iterable[Any]) -> XlaBuilder:
    """Return the builder of the ops among `values`.

    Without ops, it is the builder of the innermost callable that is being recorded.

    Args:
        op, name: for messages: the op, and the argument.
        values: ops and other values.

    Raises:
        OperandError: there is no op, and no callable is being recorded.
        BuilderError: the ops belong to different builders, or their builder was already built.
    """
    ops = [value for value in values if isinstance(value, XlaOp)]
    if not ops and RECORDING.builders:
        return RECORDING.builders[-1]
    fix = f"pass one {name} as an op: b.constant(number, element_type), where b is the builder"
    return resolve_builder(op, *ops, fix=fix)


def record_constants(
    op: str,
    names: Sequence[str],
    values: Sequence[InitialValue],
    builder: XlaBuilder,
    *,
    beside: Sequence[XlaOp] = (),
    expected: Sequence[Shape] = (),
) -> tuple[XlaOp, ...]:
    """Record the numbers and arrays among `values` as constants; return all values as ops.

    A Python number has the element type of its expected shape. Without one, its type is that of
    `default_element_type` beside the ops in `values` and `beside`. NumPy scalars and arrays keep
    their type.

    Args:
        op, names: for messages: the op, and the name of each value.
        values: ops, numbers and arrays.
        builder: records the constants; see `builder_of_values`.
        beside: other operands of the op.
        expected: the shapes that `values` must have, if they are known.

    Raises:
        ConstantError: the element type can't represent a number, or no element type is the dtype of
            an array.
    """
    ops = [value for value in (*values, *beside) if isinstance(value, XlaOp)]
    types = [one.shape.element_type for one in ops if isinstance(one.shape, ArrayShape)]
    # All numbers are checked before the first is recorded.
    constants: dict[int, tuple[Shape, Mapping[str, Any]]] = {}
    for index, value in enumerate(values):
        if isinstance(value, XlaOp):
            continue
        shape = expected[index] if index < len(expected) else None
        try:
            if isinstance(value, (np.generic, np.ndarray)):
                constants[index] = constant_plan(value)
            elif isinstance(shape, ArrayShape):
                constants[index] = scalar_constant(value, shape.element_type)
            else:
                constants[index] = scalar_constant(value, default_element_type(value, types))
        except ConstantError as error:
            fix = error.fix
            if shape is None and fix.startswith("use a type such as"):
                fix = f"pass a NumPy number of a wider type, such as {wider_number(value)}"
            place = names[index]
            raise error._as_kind(
                ConstantError, op=op, argument=place, fix=fix, context=(op, place)
            ) from None
    return tuple(
        [
            value
            if isinstance(value, XlaOp)
            else append(builder, "constant", constants[index][0], (), constants[index][1])
            for index, value in enumerate(values)
        ]
    )


def number_as(op: str, value: Any, element_type: PrimitiveType, operand: XlaOp) -> XlaOp:
    """Record the number `value` as a scalar constant of `element_type`.

    Args:
        op: the public op, for messages.
        value: the number. A NumPy scalar keeps its own type, which the op then checks.
        element_type: the type of the constant.
        operand: another operand of the op; its builder records the constant.
    """
    builder = resolve_builder(op, operand)
    shape, attributes = number_constant(op, value, element_type, operand.shape)
    return append(builder, "constant", shape, (), attributes)


def number_constant(
    op: str, value: Any, element_type: PrimitiveType, operand: Shape
) -> tuple[ArrayShape, Mapping[str, Any]]:
    """Return the shape and the attributes of the constant that `number_as` records.

    An op uses these to check its rules before it records anything. `operand`, the shape of the
    other operand, is for messages.
    """
    if type(value) is not float and isinstance(value, (np.generic, np.ndarray)):
        try:
            array, shape = as_constant_array(value)
        except ConstantError as error:
            raise error._renamed(op) from None
        return shape, {"value": array}
    try:
        return scalar_constant(value, element_type, op)
    except ConstantError:
        check_number(value, element_type, op, operand)  # raises an error that shows the operand
        raise


def scalars_of(name: str, shapes: tuple[Shape, ...]) -> tuple[ArrayShape, ...]:
    """Return for each shape the scalar shape of its element type; raise unless all are arrays."""
    scalars = _scalars(tuple([shape.element_type for shape in shapes]))
    if scalars is None:
        Check.numbered(name, "operand", shapes).arrays()
    return scalars or ()


@per_signature
def _scalars(element_types: tuple[PrimitiveType, ...]) -> tuple[ArrayShape, ...] | None:
    """Return a scalar shape of each type; None if an array can't have one of the types."""
    if not all(element_type.is_array_element for element_type in element_types):
        return None
    return tuple([intern_array(element_type, ()) for element_type in element_types])


@per_signature
def dimensions_attribute(name: str, dimensions: tuple[int, ...]) -> Mapping[str, tuple[int, ...]]:
    """Return the attributes ``{name: dimensions}``; equal arguments return the same mapping."""
    return MappingProxyType({name: dimensions})


def broadcast_to(operand: XlaOp, shape: ArrayShape, dimensions: tuple[int, ...]) -> XlaOp:
    """Record a `broadcast_in_dim` to `shape`, with `dimensions` as `broadcast_dimensions`."""
    return record(
        "broadcast_in_dim",
        shape,
        (operand,),
        dimensions_attribute("broadcast_dimensions", dimensions),
    )


def need_computation(op: str, value: object) -> None:
    """Raise an OperandError that names the function `op` if a value is not a computation."""
    if isinstance(value, XlaComputation):
        return
    fix = ""
    if isinstance(value, XlaOp):
        fix = "build a computation first: op.builder.build(op)"
    elif isinstance(value, XlaBuilder):
        fix = "build a computation first: builder.build(op)"
    elif isinstance(value, ReusableFunction) or hasattr(value, "computation"):  # of jit
        fix = "pass function.computation(shape, ...), with a shape for each parameter"
    elif hasattr(value, "compiled_shape"):  # an executable, which does not contain its ops
        fix = "pass the computation that was compiled"
    elif hasattr(value, "program_shape"):  # a StablehloModule
        fix = "pass lowering.to_computation(module)"
    elif hasattr(value, "eval_shape"):  # of jax.jit
        fix = "pass lowering.from_jax(function, shape, ...)"
    elif is_function(value):
        fix = "pass xb.computation(shape, ...)(function), with a shape for each parameter"
    raise OperandError("expected an XlaComputation", got=brief(value), op=op, fix=fix)
