"""Bounded and unbounded sizes, and operations with sizes as operands.

StableHLO's verifier accepts broadcasts and reshapes to at most one bounded dimension. A broadcast
to several is lowered to a broadcast to the bounds, whose sizes are then set; a reshape to several
is lowered to a `dynamic_reshape` with sizes computed at run time.

Operations in files that take sizes as operands become static ops if the result has static sizes and
the operands for sizes are constants. If not, the sizes may follow from the sizes of the module's
arguments (see `lowering.importer.refinement`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.errors import error_of
from builder.graph.xla_op import XlaOp, constant_value, is_constant
from builder.ops.dynamic import set_to_bound
from builder.ops.reshaping import equal_products
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, has_unbounded_sizes, intern_array
from lowering.errors import LoweringError
from lowering.jaxlib_api.lazy_jax import jax, lax
from lowering.mlir.attributes import i64
from lowering.ops.emitting import constant
from lowering.ops.importing import failure
from lowering.ops.registry import Context, Step, Value, array_of, importer, jax_rule, stablehlo_rule
from lowering.ops.reshaping import broadcast_as_imported, jax_broadcast_in_dim

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


def is_bounded_broadcast(op: XlaOp) -> bool:
    """Return whether an op broadcasts to several bounded dimensions."""
    shape = op.shape
    return (
        not shape.is_static
        and isinstance(shape, ArrayShape)
        and shape.is_bounded
        and sum(shape.dynamic_dimensions) > 1
    )


def broadcast_sizes(op: XlaOp) -> dict[int, int | None]:
    """Map each bounded dimension of a broadcast's result to the operand dimension with its size.

    The value is None if the operand's dimension is static, so that the size is the bound.
    """
    source, shape = op.operands[0].shape, op.shape
    assert isinstance(source, ArrayShape)  # checked by inference
    assert isinstance(shape, ArrayShape)
    origins = {
        place: index
        for index, place in enumerate(op.attributes["broadcast_dimensions"])
        if source.dynamic_dimensions[index]
    }
    return {d: origins.get(d) for d in range(shape.rank) if shape.dynamic_dimensions[d]}


@dataclass(frozen=True, slots=True)
class ReshapedSize:
    """A size of a reshape's result: a product of operand sizes, times `factor` / `divisor`.

    Attributes:
        dimensions: the bounded dimensions of the operand whose sizes are multiplied.
        factor: the product of the operand's static sizes in the same part (see `_parts`).
        divisor: the product of the result's static sizes in this part. Both are divided by their
            greatest common divisor.
    """

    dimensions: tuple[int, ...]
    factor: int
    divisor: int


def is_bounded_reshape(op: XlaOp) -> bool:
    """Return whether an op reshapes to several bounded dimensions."""
    source, shape = op.operands[0].shape, op.shape
    if shape.is_static or not isinstance(shape, ArrayShape) or not isinstance(source, ArrayShape):
        return False
    return sum(shape.dynamic_dimensions) > 1 and reshaped_sizes(source, shape) is not None


def loses_a_size(source: ArrayShape, shape: ArrayShape) -> bool:
    """Return whether a reshape makes a bounded dimension static, so that its size is lost."""
    if source.is_static or not (source.is_bounded and shape.is_bounded):
        return False
    return any(
        any(source.dynamic_dimensions[d] for d in old)
        and not any(shape.dynamic_dimensions[d] for d in new)
        for old, new in _parts(source, shape)
    )


@per_signature
def reshaped_sizes(source: ArrayShape, shape: ArrayShape) -> tuple[int | ReshapedSize, ...] | None:
    """Return the sizes of a reshape's result; bounded sizes as functions of the operand's sizes.

    Return None if the sizes are not determined, or if a dimension is unbounded.
    """
    if not (source.is_bounded and shape.is_bounded):
        return None
    sizes: list[int | ReshapedSize] = list(shape.dimensions)
    for old, new in _parts(source, shape):
        bounded = [d for d in old if source.dynamic_dimensions[d]]
        results = [d for d in new if shape.dynamic_dimensions[d]]
        if len(results) > 1 or bool(bounded) != bool(results):
            return None
        if results:
            factor = math.prod(source.dimensions[d] for d in old if d not in bounded)
            divisor = math.prod(shape.dimensions[d] for d in new if d not in results)
            common = math.gcd(factor, divisor) or 1
            sizes[results[0]] = ReshapedSize(tuple(bounded), factor // common, divisor // common)
    return tuple(sizes)


def _parts(source: ArrayShape, shape: ArrayShape) -> list[tuple[range, range]]:
    """Split the dimensions of operand and result into minimal parts with the same elements.

    A part of size 1 is joined with its neighbor if one of the two does not satisfy `_matches`.
    """
    cuts = equal_products(source.dimensions, shape.dimensions)
    parts: list[tuple[range, range]] = []
    for (i, j), (i_end, j_end) in pairwise(cuts):
        part = range(i, i_end), range(j, j_end)
        if parts and not (_matches(source, shape, parts[-1]) and _matches(source, shape, part)):
            joined = range(parts[-1][0].start, i_end), range(parts[-1][1].start, j_end)
            if any(
                math.prod(source.dimensions[d] for d in old) == 1 for old in (parts[-1][0], part[0])
            ):
                parts[-1] = joined
                continue
        parts.append(part)
    return parts


def _matches(source: ArrayShape, shape: ArrayShape, part: tuple[range, range]) -> bool:
    """Return whether the result has the required number of bounded dimensions in `part`.

    The required number is 1 if the operand has bounded dimensions in `part`, else 0.
    """
    old, new = part
    bounded = any(source.dynamic_dimensions[d] for d in old)
    return sum(shape.dynamic_dimensions[d] for d in new) == bounded


_SIZE = intern_array(pt.s32, ())


def resized(ctx: Emitter, value: Value, source: ArrayShape, shape: ArrayShape) -> Value:
    """Convert an array from type `source` to `shape`; they differ in which sizes are unbounded.

    The sizes at run time are equal.
    """
    sizes = []
    for dimension in range(shape.rank):
        known = [
            array.dimensions[dimension]
            for array in (shape, source)
            if not array.dynamic_dimensions[dimension]
        ]
        size = constant(ctx, _SIZE, known[0]) if known else _size_of(ctx, value, dimension)
        sizes.append(size)
    return _reshaped(ctx, value, shape, sizes)


def _reshaped(ctx: Emitter, value: Value, shape: ArrayShape, sizes: list[Value]) -> Value:
    return ctx.value("stablehlo.dynamic_reshape", shape, [value, _joined(ctx, sizes)])


def _joined(ctx: Emitter, sizes: list[Value]) -> Value:
    """Emit the concatenation of scalar sizes to a vector."""
    row = intern_array(pt.s32, (1,))
    rows = [ctx.value("stablehlo.reshape", row, [size]) for size in sizes]
    vector = intern_array(pt.s32, (len(rows),))
    return ctx.value("stablehlo.concatenate", vector, rows, {"dimension": i64(0)})


def _resized(ctx: Emitter, value: Value, shape: ArrayShape, sizes: dict[int, Value]) -> Value:
    """Set dimension sizes of an array to `sizes`; other bounded dimensions get their bounds."""
    bounded = list(shape.dynamic_dimensions)
    for dimension, bound in enumerate(shape.dimensions):
        if bounded[dimension] or dimension in sizes:
            size = sizes[dimension] if dimension in sizes else constant(ctx, _SIZE, bound)
            bounded[dimension] = dimension in sizes
            result = intern_array(shape.element_type, shape.dimensions, tuple(bounded))
            attributes = {"dimension": i64(dimension)}
            value = ctx.value("stablehlo.set_dimension_size", result, [value, size], attributes)
    return value


def _size_of(ctx: Emitter, value: Value, dimension: int) -> Value:
    attributes = {"dimension": i64(dimension)}
    return ctx.value("stablehlo.get_dimension_size", _SIZE, [value], attributes)


def static_result(scope: Scope, operation: ir.Operation) -> ArrayShape:
    """Return the shape of the result; raise LoweringError if it does not have static sizes."""
    shape = scope.result_array(operation)
    if not shape.is_static:
        raise _dynamic(scope, operation, f"the result has static sizes, got {shape}")
    return shape


def _dynamic(scope: Scope, operation: ir.Operation, rule: str) -> Exception:
    """Return the error for an operation whose sizes the imported module does not determine."""
    scope.tables.need_sizes()
    return failure(operation, f"the operation is dynamic, which XLA supports only if {rule}")


def constants_of(
    scope: Scope, operation: ir.Operation, numbers: Sequence[int]
) -> dict[int, ir.Attribute]:
    """Return the values, by number, of the operands `numbers`, which must be constants."""
    constants = {}
    for number in numbers:
        owner = getattr(operation.operands[number].owner, "operation", None)
        if owner is None or owner.name != "stablehlo.constant":
            raise _dynamic(scope, operation, f"operand {number} is a constant")
        constants[number] = owner.attributes["value"]
    return constants


def _integers(scope: Scope, operation: ir.Operation, numbers: Sequence[int]) -> list[list[int]]:
    constants = constants_of(scope, operation, numbers).values()
    return [np.array(value).reshape(-1).tolist() for value in constants]


@jax_rule("get_dimension_size")
def jax_get_dimension_size(ctx: Context, op: XlaOp) -> Step:
    dimension = op.attributes["dimension"]

    def size(operand: Value) -> Value:
        found = np.shape(operand)[dimension]
        # jax's symbolic dimensions are Python objects.
        return np.array(found, np.int32 if isinstance(found, int) else object)

    return size


@importer("stablehlo.set_dimension_size")
def import_set_dimension_size(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> XlaOp:
    """Record a set_dimension_size; or, if the dimension is static in the result, the op that sets
    the size to the bound, or a remove_dynamic_dimension."""
    operand, size = operands
    dimension = scope.attribute(operation, "dimension")
    result = scope.result_array(operation)
    if result.dynamic_dimensions[dimension]:
        return scope.by_schema("set_dimension_size", operation, operands)
    bound = result.dimensions[dimension]
    if constant_value(size) == bound:
        return set_to_bound(operand, dimension, size)
    return xb.remove_dynamic_dimension(operand, dimension)


@jax_rule("set_dimension_size")
def jax_set_dimension_size(ctx: Context, op: XlaOp) -> Step:
    # A static size cannot be set to another one.
    return lambda operand, _: operand


@stablehlo_rule("dynamic_reshape")
def emit_dynamic_reshape(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a dynamic_reshape with the sizes as one vector; a reshape if the result is a scalar."""
    shape = array_of(op.shape)
    if not shape.rank:
        return ctx.value("stablehlo.reshape", shape, operands)
    return _reshaped(ctx, operands[0], shape, operands[1:])


@importer("stablehlo.dynamic_reshape")
def import_dynamic_reshape(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    shape, source = scope.result_array(operation), operands[0].shape
    if shape.is_static and (is_constant(operands[1]) or has_unbounded_sizes(source)):
        return xb.reshape(operands[0], shape.dimensions)
    sizes = _scalars(scope, operation, operands[1], shape.rank)
    return xb.dynamic_reshape(operands[0], sizes, shape.dimensions, shape.dynamic_dimensions)


def _scalars(scope: Scope, operation: ir.Operation, sizes: XlaOp, count: int) -> list[XlaOp]:
    """Return the elements of a vector of sizes, as s32.

    If the vector is a concatenation of s32 scalars, as in the lowering of dynamic_reshape, return
    the scalars, and remove the reshapes and the concatenation unless they have other users.
    """
    if sizes.opcode == "concatenate":
        scalars = [part.operands[0] for part in sizes.operands if part.opcode == "reshape"]
        if len(scalars) == count and all(scalar.shape is pt.s32[()] for scalar in scalars):
            joined = operation.operands[1]
            scope.drop_last([*sizes.operands, sizes], [joined, *joined.owner.operands])
            return scalars
    elements = [xb.slice_in_dim(sizes, number, number + 1, 1, 0) for number in range(count)]
    return [xb.convert_element_type(xb.reshape(element, []), pt.s32) for element in elements]


@jax_rule("dynamic_reshape")
def jax_dynamic_reshape(ctx: Context, op: XlaOp) -> Step:
    shape = array_of(op.shape)
    if shape.is_bounded:
        return lambda operand, *_: lax.reshape(operand, shape.dimensions)
    return lambda operand, *sizes: lax.reshape(operand, size_numbers(sizes))


def size_numbers(sizes: Iterable[Any]) -> tuple[Any, ...]:
    """Return sizes as numbers; jax's symbolic dimensions, Python objects, as they are."""
    try:
        return tuple([size.item() if hasattr(size, "item") else size for size in sizes])
    except jax.errors.ConcretizationTypeError:
        rule = "a size depends on values of arrays, and jax's arrays have known sizes"
        fix = "compute sizes from constants and xb.get_dimension_size"
        raise error_of(LoweringError, "to_jax", rule, fix) from None


@stablehlo_rule("reshape", when=is_bounded_reshape)
def emit_bounded_reshape(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a dynamic_reshape: StableHLO's reshape supports at most one bounded size."""
    source, shape = array_of(op.operands[0].shape), array_of(op.shape)
    sizes = []
    for size in reshaped_sizes(source, shape) or ():
        if not isinstance(size, ReshapedSize):
            sizes.append(constant(ctx, _SIZE, size))
            continue
        product = constant(ctx, _SIZE, size.factor)
        for dimension in size.dimensions:
            factors = [product, _size_of(ctx, operands[0], dimension)]
            product = ctx.value("stablehlo.multiply", _SIZE, factors)
        divisor = constant(ctx, _SIZE, size.divisor)
        sizes.append(ctx.value("stablehlo.divide", _SIZE, [product, divisor]))
    return _reshaped(ctx, operands[0], shape, sizes)


@importer("stablehlo.dynamic_broadcast_in_dim")
def import_dynamic_broadcast_in_dim(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> XlaOp:
    """Record a broadcast: broadcast_in_dim if its sizes are constant."""
    operand, sizes = operands
    shape = scope.result_array(operation)
    if shape.is_static and operand.shape.is_static and is_constant(sizes):
        return broadcast_as_imported(scope, operation, operand)
    return scope.by_schema("dynamic_broadcast_in_dim", operation, operands)


@jax_rule("dynamic_broadcast_in_dim")
def jax_dynamic_broadcast_in_dim(ctx: Context, op: XlaOp) -> Step:
    if array_of(op.shape).is_bounded:
        step = jax_broadcast_in_dim(ctx, op)
        return lambda operand, _: step(operand)
    dimensions = op.attributes["broadcast_dimensions"]
    return lambda operand, sizes: lax.broadcast_in_dim(operand, size_numbers(sizes), dimensions)


@stablehlo_rule("broadcast_in_dim", when=is_bounded_broadcast)
def emit_bounded_broadcast(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a broadcast to the bounds, and set the sizes of the result.

    StableHLO's broadcast_in_dim supports at most one bounded size.
    """
    source, shape = array_of(op.operands[0].shape), array_of(op.shape)
    value = _resized(ctx, operands[0], source, {})
    value = ctx.value(
        "stablehlo.broadcast_in_dim", shape.at_bounds(), [value], ctx.attributes_of(op)
    )
    sizes = {
        dimension: constant(ctx, _SIZE, shape.dimensions[dimension])
        if origin is None
        else _size_of(ctx, operands[0], origin)
        for dimension, origin in broadcast_sizes(op).items()
    }
    return _resized(ctx, value, shape.at_bounds(), sizes)


def _reaches_an_unbounded_size(op: XlaOp) -> bool:
    return UNBOUNDED in op.attributes["limit_indices"]


@stablehlo_rule("slice", when=_reaches_an_unbounded_size)
def emit_unbounded_slice(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a slice with its indices as operands, because a limit is an unbounded size."""
    shape = array_of(op.shape)
    vector = intern_array(pt.s32, (shape.rank,))
    limits = [
        _size_of(ctx, operands[0], dimension) if limit == UNBOUNDED else constant(ctx, _SIZE, limit)
        for dimension, limit in enumerate(op.attributes["limit_indices"])
    ]
    starts, strides = (
        constant(ctx, vector, op.attributes[name]) for name in ("start_indices", "strides")
    )
    values = [operands[0], starts, _joined(ctx, limits), strides]
    return ctx.value("stablehlo.real_dynamic_slice", shape, values)


@importer("stablehlo.real_dynamic_slice")
def import_real_dynamic_slice(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> XlaOp:
    if not scope.result_array(operation).is_static:
        limits = _limits(scope, operation, operands)
        if limits is not None:
            starts, strides = _integers(scope, operation, (1, 3))
            return xb.slice(operands[0], starts, limits, strides)
    elif all(is_constant(operand) for operand in operands[1:]):
        return xb.slice(operands[0], *_integers(scope, operation, (1, 2, 3)))
    else:
        scope.tables.need_sizes()  # the operands may follow from them
    return scope.by_schema("real_dynamic_slice", operation, operands)


@jax_rule("real_dynamic_slice")
def jax_real_dynamic_slice(ctx: Context, op: XlaOp) -> Step:
    return lambda operand, *limits: lax.slice(operand, *map(size_numbers, limits))


def _limits(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> list[int] | None:
    """Return the limits of a slice that `lower` wrote as real_dynamic_slice.

    The limit of a dimension is a constant, or UNBOUNDED for the size of an unbounded dimension.
    Return None if the limits do not have this form. Remove the ops that compute the indices, unless
    they have other users.
    """
    operand, starts, joined, strides = operands
    rows = joined.operands if joined.opcode == "concatenate" else ()
    scalars = [row.operands[0] for row in rows if row.opcode == "reshape"]
    limits = []
    for dimension, scalar in enumerate(scalars):
        if is_constant(scalar) and not scalar.attributes["value"].ndim:
            limits.append(int(scalar.attributes["value"]))
        elif scalar.opcode == "get_dimension_size" and scalar.operands[0] is operand:
            if scalar.attributes["dimension"] != dimension:
                return None
            limits.append(UNBOUNDED)
    if len(limits) != len(rows) or not limits:
        return None
    indices = [operation.operands[number] for number in (1, 2, 3)]
    parts = _operands_of(indices[1])
    values = [*indices, *parts, *(value for part in parts for value in _operands_of(part))]
    made = [*scalars, starts, strides, *rows, joined]
    # HLO text has another order of them than `lower`.
    scope.drop_last(sorted(made, key=lambda op: op.id), values)
    return limits


def _operands_of(value: ir.Value[Any]) -> list[ir.Value[Any]]:
    """Return the operands of the operation that defines a value; none for a block argument."""
    return [] if isinstance(value.owner, ir.Block) else list(value.owner.operands)


@importer("stablehlo.dynamic_iota")
def import_dynamic_iota(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record an iota of sizes at run time: an iota if they are constant."""
    dimension, shape = scope.attribute(operation, "iota_dimension"), scope.result_array(operation)
    if shape.is_static and is_constant(operands[0]):
        return scope.builder.iota(shape, dimension)
    return scope.by_schema("dynamic_iota", operation, operands)


@jax_rule("dynamic_iota")
def jax_dynamic_iota(ctx: Context, op: XlaOp) -> Step:
    dtype, dimension = array_of(op.shape).element_type.dtype, op.attributes["iota_dimension"]
    return lambda sizes: lax.broadcasted_iota(dtype, size_numbers(sizes), dimension)


@importer("stablehlo.dynamic_pad")
def import_dynamic_pad(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if scope.result_array(operation).is_static:
        if all(is_constant(operand) for operand in operands[2:]):
            amounts = _integers(scope, operation, (2, 3, 4))
            return xb.pad(operands[0], operands[1], list(zip(*amounts, strict=True)))
        scope.tables.need_sizes()  # the operands may follow from them
    return scope.by_schema("dynamic_pad", operation, operands)


@jax_rule("dynamic_pad")
def jax_dynamic_pad(ctx: Context, op: XlaOp) -> Step:
    def pad(operand: Value, value: Value, *amounts: Value) -> Value:
        return lax.pad(operand, value, tuple(zip(*map(size_numbers, amounts), strict=True)))

    return pad


@importer("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize")
def import_quantized(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    raise failure(operation, "XLA has no quantized types")
