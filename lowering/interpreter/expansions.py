"""What the interpreter lacks, in words that it has, as the StableHLO specification defines it.

(Operations of CHLO are expanded by jaxlib: see `artifacts.decomposed`.)
"""

from __future__ import annotations

import math

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.legalize.op_builder import OpBuilder, array_of, attributes_of
from lowering.legalize.registry import INTERPRETER, Value, rewrite
from lowering.mlir.types import attribute_text


class _Normalization:
    """What the three batch normalizations share: in f32 at least, as f16 can't hold their sums.

    Attributes:
        words: creates the operations.
        values: the operands.
        shape: of the first of them.
        feature: the number of the dimension of features.
    """

    def __init__(self, b: OpBuilder, operation: ir.Operation) -> None:
        self.words = b
        self.values = list(operation.operands)
        self.narrow = array_of(self.values[0]).element_type
        if self.narrow.bits < 32:
            self.values = [self.words.converted(value, pt.f32) for value in self.values]
        self.shape = array_of(self.values[0])
        attributes = operation.attributes
        self.feature = ir.IntegerAttr(attributes["feature_index"]).value
        self.epsilon = ir.FloatAttr(attributes["epsilon"]).value
        self.count = 1
        for dimension, size in enumerate(self.shape.dimensions):
            self.count *= 1 if dimension == self.feature else size

    def number(self, value: float) -> Value:
        words, shape = self.words, self.shape
        return words.spread(words.number(value, shape.element_type), shape)

    def spread(self, vector: Value) -> Value:
        return self.words.spread(vector, self.shape, [self.feature])

    def said(self, name: str, *values: Value) -> Value:
        return self.words(name, array_of(values[0]), values)

    def sum(self, value: Value) -> Value:
        """The sums over all dimensions but that of features."""
        shape = self.shape
        others = [d for d in range(shape.rank) if d != self.feature]
        return self.words.reduced(value, others, 0, "add")

    def deviation(self, variance: Value) -> Value:
        """The standard deviation, throughout the array."""
        return self.said("sqrt", self.said("add", self.spread(variance), self.number(self.epsilon)))

    def normalized(self, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
        centered = self.said("subtract", self.values[0], self.spread(mean))
        normal = self.said("divide", centered, self.deviation(variance))
        scaled = self.said("multiply", self.spread(scale), normal)
        return self.said("add", scaled, self.spread(offset))

    def results(self, *values: Value) -> list[Value]:
        """The values in the element type of the operands."""
        return [self.words.converted(value, self.narrow) for value in values]


@rewrite("sdy.sharding_constraint", platforms=(INTERPRETER,))
def sharding_constraint(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    # How an array lies on devices says nothing about its elements.
    return list(operation.operands)


@rewrite("stablehlo.custom_call", platforms=(INTERPRETER,))
def custom_call(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    if attribute_text(operation.attributes["call_target_name"]) == "Sharding":
        return list(operation.operands)
    return None


@rewrite("stablehlo.batch_norm_inference", platforms=(INTERPRETER,))
def batch_norm_inference(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    ctx = _Normalization(b, operation)
    return ctx.results(ctx.normalized(*ctx.values[1:]))


@rewrite("stablehlo.batch_norm_training", platforms=(INTERPRETER,))
def batch_norm_training(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    ctx = _Normalization(b, operation)
    operand, scale, offset = ctx.values

    def mean_of(value: Value) -> Value:
        total = ctx.sum(value)
        count = ctx.words.number(ctx.count, ctx.shape.element_type)
        return ctx.said("divide", total, ctx.words.spread(count, array_of(total)))

    mean = mean_of(operand)
    centered = ctx.said("subtract", operand, ctx.spread(mean))
    variance = mean_of(ctx.said("multiply", centered, centered))
    result = ctx.normalized(scale, offset, mean, variance)
    return ctx.results(result, mean, variance)


@rewrite("stablehlo.batch_norm_grad", platforms=(INTERPRETER,))
def batch_norm_grad(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    ctx = _Normalization(b, operation)
    operand, scale, mean, variance, gradient = ctx.values
    centered = ctx.said("subtract", operand, ctx.spread(mean))
    deviation = ctx.deviation(variance)
    grad_offset = ctx.sum(gradient)
    along = ctx.sum(ctx.said("multiply", gradient, centered))
    grad_scale = ctx.sum(ctx.said("multiply", gradient, ctx.said("divide", centered, deviation)))
    square = ctx.said("add", ctx.spread(variance), ctx.number(ctx.epsilon))
    part = ctx.said("divide", ctx.said("multiply", ctx.spread(along), centered), square)
    whole = ctx.said("multiply", gradient, ctx.number(ctx.count))
    whole = ctx.said("subtract", ctx.said("subtract", whole, ctx.spread(grad_offset)), part)
    factor = ctx.said("divide", ctx.spread(scale), deviation)
    factor = ctx.said("divide", factor, ctx.number(ctx.count))
    grad_operand = ctx.said("multiply", factor, whole)
    return ctx.results(grad_operand, grad_scale, grad_offset)


@rewrite("stablehlo.triangular_solve", platforms=(INTERPRETER,))
def triangular_solve(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Of several systems each by itself: the interpreter dies of the dimensions before the last."""
    values = list(operation.operands)
    batch = array_of(values[0]).dimensions[:-2]
    if not batch:
        return None
    count = math.prod(batch)
    stacks = [_joined(b, value, (count,)) for value in values]
    solved = [
        b(
            "triangular_solve",
            _matrix(values[1]),
            [_one_of(b, stack, number) for stack in stacks],
            attributes_of(operation),
        )
        for number in range(count)
    ]
    if not solved:  # there is nothing to solve: what it gives has no elements either
        return [values[1]]
    alone = [_joined(b, one, (1,)) for one in solved]
    return [b.reshaped(b.concatenated(alone, 0), array_of(values[1]).dimensions)]


def _matrix(value: Value) -> ArrayShape:
    """The shape of the matrices in a stack of them."""
    shape = array_of(value)
    return intern_array(shape.element_type, shape.dimensions[-2:])


def _joined(b: OpBuilder, value: Value, batch: tuple[int, ...]) -> Value:
    """The matrices of a value in other dimensions before the last two."""
    return b.reshaped(value, batch + _matrix(value).dimensions)


def _one_of(b: OpBuilder, stack: Value, number: int) -> Value:
    """A matrix of a stack."""
    limits = [number + 1, *_matrix(stack).dimensions]
    return _joined(b, b.sliced(stack, [number, 0, 0], limits), ())
