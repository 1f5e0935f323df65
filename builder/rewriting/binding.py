"""bind: make parameters of a computation constants."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from builder.attributes.annotations import Annotations
from builder.errors import OperandError, ShapeInferenceError, XlaError, brief, error_of
from builder.graph.aliasing import BufferDonor, InputOutputAlias
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, with_metadata
from builder.ops.control_flow import call
from builder.ops.operands import need_computation
from builder.rewriting.copying import copy_parameter
from builder.rewriting.inlining import inline_into
from builder.sharding.text import leaf_texts
from builder.types.conversion_fixes import conversion_fix
from builder.types.expected_arrays import array_for, describe_array
from builder.types.foreign_arrays import UnreadableArrayError
from builder.types.nested_values import NestingError, flatten_value
from builder.types.shape import ArrayShape, TokenShape, fold, leaf_count


@explained
def bind(
    computation: XlaComputation,
    arrays: Mapping[str | int, Any] | None = None,
    /,
    **by_name: Any,
) -> XlaComputation:
    """Return the computation with some parameters replaced by constants.

    A program with its weights inside is one file, and XLA optimizes for their values. The inverse
    is `hoist_constants`.

    Args:
        computation: the computation, which does not change.
        arrays: the values by the name or the number of the parameter, such as the arrays of a
            safetensors file.
        by_name: more values by name. A value is an array of any library, a number for a scalar, or
            nested lists of numbers; for a tuple parameter, values nested like the tuple. Arrays are
            not converted to another type. Values in a dict or a list belong to the parameters with
            these paths: ``params={"w": w}`` is the value of the parameter ``params['w']``.

    Returns:
        A computation with the remaining parameters, numbered in the same order. Aliases, donors,
        layouts, shardings and attributes of the remaining parameters and of the result are
        preserved. The arguments of a jax function keep their nesting, without the bound ones. An
        array that can be written to is copied once; a read-only array is shared.

    Raises:
        OperandError: there is no parameter with such a name or number; a value is not an array or
            not nested like its parameter; `computation` is not a computation.
        ShapeInferenceError: an array has another element type or other sizes than the parameter; a
            parameter is a token or has dynamic sizes.

    Example:
        >>> import builder as xb, numpy as np
        >>> @xb.computation(xb.f32[2], xb.f32[2])
        ... def scaled(x, w):
        ...     return x * w
        >>> xb.bind(scaled, w=np.ones(2, np.float32))
        <XlaComputation 'scaled' (x: f32[2]) -> f32[2], 3 ops>
    """
    need_computation("bind", computation)
    values = _by_number(computation, arrays, by_name)
    if not values:
        return computation
    builder = XlaBuilder(computation.name)
    builder.annotations = _annotations(computation, values)
    builder.sharding_form = computation.sharding_form
    numbers: dict[int, int] = {}
    operands: list[XlaOp] = []
    names = computation.program_shape.parameter_names
    for number, parameter in enumerate(computation.parameters):
        if number in values:
            op = _record_value(builder, computation, number, values[number])
            op.metadata, op._code, op._lasti = parameter.metadata, parameter._code, parameter._lasti
        else:
            op = copy_parameter(parameter, names[number], len(numbers), builder)
            numbers[number] = len(numbers)
        operands.append(op)
    if computation.derivative is not None and operands:
        root = call(computation, *operands)  # a copy of the ops would not have the derivative
    else:
        root = inline_into(computation, tuple(operands), builder)
    for output, number, index in computation.aliases:
        if number in numbers:
            builder.setup_alias(*InputOutputAlias(output, numbers[number], index))
    for number, index in computation.donors:
        if number in numbers:
            builder.add_buffer_donor(*BufferDonor(numbers[number], index))
    result = computation.program_shape.result
    return builder.build(root, result=None if result is root.shape else result)


def _by_number(
    computation: XlaComputation,
    arrays: Mapping[str | int, Any] | None,
    by_name: Mapping[str, Any],
) -> dict[int, Any]:
    """Return the value of each bound parameter by the number of the parameter."""
    if arrays is not None and not isinstance(arrays, Mapping):
        rule = f"arrays must be a mapping of names or numbers to arrays, got {brief(arrays)}"
        fix = "write bind(computation, {'w': array}), or bind(computation, w=array)"
        raise error_of(OperandError, "bind", rule, fix)
    names = computation.program_shape.parameter_names
    values: dict[int, Any] = {}
    for key, value in [*(arrays or {}).items(), *by_name.items()]:
        for number, part in _parameters_of(computation, key, value):
            if number in values:
                rule = f"parameter {number} ({names[number]}) must have one value, got two"
                raise error_of(OperandError, "bind", rule)
            values[number] = part
    return values


def _parameters_of(computation: XlaComputation, key: Any, value: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each parameter to which a key refers."""
    names = computation.program_shape.parameter_names
    if isinstance(key, int) and not isinstance(key, bool):
        if 0 <= key < len(names):
            yield key, value
            return
    elif isinstance(key, str):
        stack = [(key, value)]
        while stack:
            path, part = stack.pop()
            if path in names:
                if names.count(path) > 1:
                    rule = f"{path!r} is the name of several parameters of {computation.name!r}"
                    fix = "bind parameters by number: bind(computation, {0: array})"
                    raise error_of(OperandError, "bind", rule, fix)
                yield names.index(path), part
                continue
            parts = _parts(part) if any(_is_inside(name, path) for name in names) else None
            if parts is None:
                raise _no_parameter(computation, path)
            stack += [(path + step, inner) for step, inner in reversed(parts)]
        return
    raise _no_parameter(computation, key)


def _is_inside(name: str, path: str) -> bool:
    return name.startswith((f"{path}[", f"{path}."))


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Return the steps to the parts of a nested value, as jax writes them; None for an array."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", part) for name, part in zip(value._fields, value, strict=True)]
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    return None


def _no_parameter(computation: XlaComputation, key: Any) -> OperandError:
    names = computation.program_shape.parameter_names
    rule = f"there is no parameter {brief(key)} of {computation.name!r}"
    listed = ", ".join(map(repr, names[:_MOST_NAMES]))
    more = f" and {len(names) - _MOST_NAMES} others" if len(names) > _MOST_NAMES else ""
    fix = f"use one of {listed}{more}, or a number" if names else "the computation has none"
    return error_of(OperandError, "bind", rule, fix)


_MOST_NAMES = 50


def _record_value(
    builder: XlaBuilder, computation: XlaComputation, number: int, value: Any
) -> XlaOp:
    """Record the value of a parameter: a constant, or a tuple of constants."""
    name = computation.program_shape.parameter_names[number]
    place = f"parameter {number} ({name})"
    shape = computation.parameters[number].shape
    try:
        leaves = flatten_value(value, shape)
    except NestingError as error:
        rule = f"{place}{error.path} must be a tuple {error.shape}, got {error.got}"
        fix = f"pass a tuple or list of length {len(error.shape.elements)}"
        raise error_of(OperandError, "bind", rule, fix, shapes={name: shape}) from None
    ops = [
        _record_array(builder, f"{place}{path}", expected, leaf) for leaf, expected, path in leaves
    ]
    sharding = computation.parameters[number].sharding
    if sharding is not None:
        for op, text in zip(ops, leaf_texts(sharding, len(ops)), strict=True):
            op.metadata = with_metadata(op.metadata, sharding=text)
    remaining = iter(ops)
    return fold(
        shape,
        lambda _: next(remaining),
        lambda parts: record_tuple(builder, parts) if parts else builder.empty_tuple(),
    )


def _record_array(
    builder: XlaBuilder, place: str, shape: ArrayShape | TokenShape, value: Any
) -> XlaOp:
    """Record the value of an array of a parameter as a constant."""

    def refusal(kind: type[XlaError], got: str, fix: str = "") -> XlaError:
        rule = f"{place} must be {shape}, got {got}"
        return error_of(kind, "bind", rule, fix, shapes={"parameter": shape})

    if isinstance(shape, TokenShape):
        rule = f"{place} is a token, which has no value"
        raise error_of(ShapeInferenceError, "bind", rule, shapes={"parameter": shape})
    if not shape.is_static:
        rule = f"{place} must have static sizes to be a constant, got {shape}"
        fix = "import the program with fixed sizes: lowering.to_computation(..., argument_shapes=)"
        raise error_of(ShapeInferenceError, "bind", rule, fix, shapes={"parameter": shape})
    try:
        array = array_for(value, shape)
    except UnreadableArrayError as error:
        raise refusal(OperandError, error.got, error.fix) from None
    if array.dtype != shape.element_type.dtype or array.shape != shape.dimensions:
        got = describe_array(value, array)
        raise refusal(ShapeInferenceError, got, conversion_fix(array, shape, value))
    return builder.constant(array)


def _annotations(computation: XlaComputation, bound: Collection[int]) -> Annotations | None:
    """Return the annotations without those of the bound parameters."""
    annotations = computation.annotations
    if annotations is None:
        return None
    if annotations.parameters:
        leaves = iter(annotations.parameters)
        kept = []
        for number, parameter in enumerate(computation.parameters):
            of_parameter = [next(leaves) for _ in range(leaf_count(parameter.shape))]
            kept += [] if number in bound else of_parameter
        annotations = annotations._replace(parameters=tuple(kept))
    if annotations.nesting is not None:
        annotations = annotations._replace(nesting=annotations.nesting.without(bound))
    return annotations
