"""Expand operations that the interpreter does not support, by the StableHLO specification.

Operations of CHLO are decomposed by jaxlib instead; see `artifacts.decomposed`.
"""

from __future__ import annotations

import math

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.legalize.constant_folding import signed_indices
from lowering.legalize.op_builder import OpBuilder, array_of, attributes_of
from lowering.legalize.registry import INTERPRETER, Value, rewrite
from lowering.mlir.operations import attribute_text


class _Normalization:
    """The common parts of the expansions of the three batch normalization operations.

    Types with less than 32 bits are computed in f32, because f16 can't represent the sums.

    Attributes:
        builder: the OpBuilder that creates the operations.
        operands: the operands.
        shape: the shape of the first operand.
        feature: the feature dimension.
        count: the number of elements of the operand for each feature.
    """

    def __init__(self, b: OpBuilder, operation: ir.Operation) -> None:
        self.builder = b
        self.operands = list(operation.operands)
        self.element_type = array_of(self.operands[0]).element_type
        if self.element_type.bits < 32:
            self.operands = [b.converted(value, pt.f32) for value in self.operands]
        self.shape = array_of(self.operands[0])
        self.feature = ir.IntegerAttr(operation.attributes["feature_index"]).value
        self.epsilon = ir.FloatAttr(operation.attributes["epsilon"]).value
        self.reduced = [d for d in range(self.shape.rank) if d != self.feature]
        self.count = math.prod(self.shape.dimensions[d] for d in self.reduced)

    def number(self, value: float) -> Value:
        return self.builder.filled(self.shape, value)

    def broadcast(self, vector: Value) -> Value:
        return self.builder.spread(vector, self.shape, [self.feature])

    def apply(self, name: str, *operands: Value) -> Value:
        """Create an elementwise operation."""
        return self.builder(name, array_of(operands[0]), operands)

    def sum(self, value: Value) -> Value:
        """Return the sum of `value` for each feature."""
        return self.builder.reduced(value, self.reduced, 0, "add")

    def deviation(self, variance: Value) -> Value:
        """Return sqrt(variance + epsilon), broadcast to the shape of the operand."""
        return self.apply(
            "sqrt", self.apply("add", self.broadcast(variance), self.number(self.epsilon))
        )

    def normalized(self, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
        centered = self.apply("subtract", self.operands[0], self.broadcast(mean))
        normal = self.apply("divide", centered, self.deviation(variance))
        scaled = self.apply("multiply", self.broadcast(scale), normal)
        return self.apply("add", scaled, self.broadcast(offset))

    def results(self, *values: Value) -> list[Value]:
        """Convert values to the element type of the operation."""
        return [self.builder.converted(value, self.element_type) for value in values]


@rewrite("sdy.sharding_constraint", platforms=(INTERPRETER,))
def sharding_constraint(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace a sharding constraint by its operand: a sharding does not change the elements."""
    return list(operation.operands)


@rewrite("stablehlo.custom_call", platforms=(INTERPRETER,))
def custom_call(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace GSPMD's custom call "Sharding" by its operand: it does not change the elements."""
    if attribute_text(operation.attributes["call_target_name"]) == "Sharding":
        return list(operation.operands)
    return None


@rewrite("stablehlo.scatter", platforms=(INTERPRETER,))
def scatter_at_unsigned_indices(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert a scatter's unsigned indices to signed: the interpreter treats all as signed."""
    operands = list(operation.operands)
    place = len(operands) // 2
    element_type = b.array_of(operands[place]).element_type
    if element_type.is_signed:
        return None
    operands[place] = signed_indices(b, operands[place])
    return list(b.like(operation, operands).results)


@rewrite("stablehlo.ceil", "stablehlo.floor", platforms=(INTERPRETER,))
def rounding_up_or_down_of_f8e3m4(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute ceil and floor of f8e3m4 in f32: the interpreter's f8e3m4 result is mostly NaN."""
    return b.in_types(operation, {pt.f8e3m4: pt.f32})


@rewrite("stablehlo.batch_norm_inference", platforms=(INTERPRETER,))
def batch_norm_inference(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Normalize with the given mean and variance."""
    norm = _Normalization(b, operation)
    return norm.results(norm.normalized(*norm.operands[1:]))


@rewrite("stablehlo.batch_norm_training", platforms=(INTERPRETER,))
def batch_norm_training(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute mean and variance, and normalize with them."""
    norm = _Normalization(b, operation)
    operand, scale, offset = norm.operands

    def mean_of(value: Value) -> Value:
        total = norm.sum(value)
        return norm.apply("divide", total, b.filled(array_of(total), norm.count))

    mean = mean_of(operand)
    centered = norm.apply("subtract", operand, norm.broadcast(mean))
    variance = mean_of(norm.apply("multiply", centered, centered))
    result = norm.normalized(scale, offset, mean, variance)
    return norm.results(result, mean, variance)


@rewrite("stablehlo.batch_norm_grad", platforms=(INTERPRETER,))
def batch_norm_grad(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute the gradients with respect to the operand, the scale and the offset."""
    norm = _Normalization(b, operation)
    apply = norm.apply
    operand, scale, mean, variance, gradient = norm.operands
    centered = apply("subtract", operand, norm.broadcast(mean))
    deviation = norm.deviation(variance)
    grad_offset = norm.sum(gradient)
    product_sum = norm.sum(apply("multiply", gradient, centered))
    grad_scale = norm.sum(apply("multiply", gradient, apply("divide", centered, deviation)))
    square = apply("add", norm.broadcast(variance), norm.number(norm.epsilon))
    projection = apply("divide", apply("multiply", norm.broadcast(product_sum), centered), square)
    difference = apply("multiply", gradient, norm.number(norm.count))
    difference = apply("subtract", difference, norm.broadcast(grad_offset))
    difference = apply("subtract", difference, projection)
    factor = apply("divide", norm.broadcast(scale), deviation)
    factor = apply("divide", factor, norm.number(norm.count))
    return norm.results(apply("multiply", factor, difference), grad_scale, grad_offset)


@rewrite("stablehlo.triangular_solve", platforms=(INTERPRETER,))
def triangular_solve(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Solve each system of a batch separately: the interpreter aborts on batch dimensions."""
    operands = list(operation.operands)
    batch = array_of(operands[0]).dimensions[:-2]
    if not batch:
        return None
    count = math.prod(batch)
    stacks = [_with_batch(b, operand, (count,)) for operand in operands]
    solutions = [
        b(
            "triangular_solve",
            _matrix(operands[1]),
            [_matrix_at(b, stack, number) for stack in stacks],
            attributes_of(operation),
        )
        for number in range(count)
    ]
    if not solutions:  # the result has no elements either
        return [operands[1]]
    matrices = [_with_batch(b, solution, (1,)) for solution in solutions]
    return [b.reshaped(b.concatenated(matrices, 0), array_of(operands[1]).dimensions)]


def _matrix(value: Value) -> ArrayShape:
    """Return the shape of the matrices in a batch: the last two dimensions."""
    shape = array_of(value)
    return intern_array(shape.element_type, shape.dimensions[-2:])


def _with_batch(b: OpBuilder, value: Value, batch: tuple[int, ...]) -> Value:
    """Reshape a batch of matrices to the batch dimensions `batch`."""
    return b.reshaped(value, batch + _matrix(value).dimensions)


def _matrix_at(b: OpBuilder, stack: Value, number: int) -> Value:
    limits = [number + 1, *_matrix(stack).dimensions]
    return _with_batch(b, b.sliced(stack, [number, 0, 0], limits), ())
