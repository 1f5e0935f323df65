"""What the interpreter lacks, in words that it has, as the StableHLO specification defines it.

(Operations of CHLO are expanded by jaxlib: see `jaxlib_api.decomposed`.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.shape import ArrayShape, intern_array
from lowering.legalize.registry import REWRITES, Rewriter, Value, rewrite
from lowering.legalize.words import Words, array_of, attributes_of
from lowering.types import attribute_text, mlir_type

INTERPRETER: Final = "interpreter"
"""The platform under which the rewrites for it are entered."""

# XLA's CPU lacks it as well.
REWRITES.setdefault(INTERPRETER, {})["chlo.ragged_dot"] = REWRITES["cpu"]["chlo.ragged_dot"]


class _Normalization:
    """What the three batch normalizations share: in f32 at least, as f16 can't hold their sums.

    Attributes:
        words: creates the operations.
        values: the operands.
        shape: of the first of them.
        feature: the number of the dimension of features.
    """

    def __init__(self, rewriter: Rewriter, operation: ir.Operation) -> None:
        self.words = Words(rewriter, operation)
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
        vector = intern_array(shape.element_type, (shape.dimensions[self.feature],))
        others = [d for d in range(shape.rank) if d != self.feature]
        zero = self.words.number(0, shape.element_type)
        return _summed(self.words, value, zero, vector, others)

    def deviation(self, variance: Value) -> Value:
        """The standard deviation, throughout the array."""
        return self.said("sqrt", self.said("add", self.spread(variance), self.number(self.epsilon)))

    def normalized(self, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
        centered = self.said("subtract", self.values[0], self.spread(mean))
        normal = self.said("divide", centered, self.deviation(variance))
        scaled = self.said("multiply", self.spread(scale), normal)
        return self.said("add", scaled, self.spread(offset))

    def replace(self, rewriter: Rewriter, operation: ir.Operation, values: Sequence[Value]) -> None:
        rewriter.replace(operation, [self.words.converted(v, self.narrow) for v in values])


@rewrite("sdy.sharding_constraint", INTERPRETER)
def sharding_constraint(rewriter: Rewriter, operation: ir.Operation) -> None:
    # How an array lies on devices says nothing about its elements.
    rewriter.replace(operation, list(operation.operands))


@rewrite("stablehlo.custom_call", INTERPRETER)
def custom_call(rewriter: Rewriter, operation: ir.Operation) -> None:
    if attribute_text(operation.attributes["call_target_name"]) == "Sharding":
        rewriter.replace(operation, list(operation.operands))


@rewrite("stablehlo.batch_norm_inference", INTERPRETER)
def batch_norm_inference(rewriter: Rewriter, operation: ir.Operation) -> None:
    ctx = _Normalization(rewriter, operation)
    ctx.replace(rewriter, operation, [ctx.normalized(*ctx.values[1:])])


@rewrite("stablehlo.batch_norm_training", INTERPRETER)
def batch_norm_training(rewriter: Rewriter, operation: ir.Operation) -> None:
    ctx = _Normalization(rewriter, operation)
    operand, scale, offset = ctx.values

    def mean_of(value: Value) -> Value:
        total = ctx.sum(value)
        count = ctx.words.number(ctx.count, ctx.shape.element_type)
        return ctx.said("divide", total, ctx.words.spread(count, array_of(total)))

    mean = mean_of(operand)
    centered = ctx.said("subtract", operand, ctx.spread(mean))
    variance = mean_of(ctx.said("multiply", centered, centered))
    result = ctx.normalized(scale, offset, mean, variance)
    ctx.replace(rewriter, operation, [result, mean, variance])


@rewrite("stablehlo.batch_norm_grad", INTERPRETER)
def batch_norm_grad(rewriter: Rewriter, operation: ir.Operation) -> None:
    ctx = _Normalization(rewriter, operation)
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
    ctx.replace(rewriter, operation, [grad_operand, grad_scale, grad_offset])


def _summed(
    words: Words, value: Value, zero: Value, result: ArrayShape, dimensions: Sequence[int]
) -> Value:
    """The sums of an array along some dimensions."""
    context = words.before.context
    operation = words.rewriter.create(
        "stablehlo.reduce",
        [mlir_type(result, context)],
        [value, zero],
        {"dimensions": ir.DenseI64ArrayAttr.get(list(dimensions), context)},
        before=words.before,
        regions=1,
    )
    place = words.before.location
    block = operation.regions[0].blocks.append(zero.type, zero.type, arg_locs=[place, place])
    at = ir.InsertionPoint(block)
    added = ir.Operation.create(
        "stablehlo.add", [zero.type], list(block.arguments), loc=place, ip=at
    )
    ir.Operation.create("stablehlo.return", operands=list(added.results), loc=place, ip=at)
    return operation.results[0]


@rewrite("stablehlo.triangular_solve", INTERPRETER)
def triangular_solve(rewriter: Rewriter, operation: ir.Operation) -> None:
    """Of several systems each by itself: the interpreter dies of the dimensions before the last."""
    values = list(operation.operands)
    batch = array_of(values[0]).dimensions[:-2]
    if not batch:
        return
    words = Words(rewriter, operation)
    count = math.prod(batch)
    stacks = [_joined(words, value, (count,)) for value in values]
    solved = [
        words(
            "triangular_solve",
            _matrix(values[1]),
            [_one_of(words, stack, number) for stack in stacks],
            attributes_of(operation),
        )
        for number in range(count)
    ]
    if not solved:  # there is nothing to solve: what it gives has no elements either
        rewriter.replace(operation, [values[1]])
        return
    alone = [_joined(words, one, (1,)) for one in solved]
    matrix = _matrix(values[1])
    stack = intern_array(matrix.element_type, (count, *matrix.dimensions))
    whole = words("concatenate", stack, alone, {"dimension": words.parsed("0 : i64")})
    rewriter.replace(operation, [words("reshape", array_of(values[1]), [whole])])


def _matrix(value: Value) -> ArrayShape:
    """The shape of the matrices in a stack of them."""
    shape = array_of(value)
    return intern_array(shape.element_type, shape.dimensions[-2:])


def _joined(words: Words, value: Value, batch: tuple[int, ...]) -> Value:
    """The matrices of a value in other dimensions before the last two."""
    matrix = _matrix(value)
    return words("reshape", intern_array(matrix.element_type, batch + matrix.dimensions), [value])


def _one_of(words: Words, stack: Value, number: int) -> Value:
    """A matrix of a stack."""
    matrix = _matrix(stack)
    bounds = {
        "start_indices": [number, 0, 0],
        "limit_indices": [number + 1, *matrix.dimensions],
        "strides": [1, 1, 1],
    }
    context = words.before.context
    attributes: dict[str, ir.Attribute] = {
        name: ir.DenseI64ArrayAttr.get(numbers, context) for name, numbers in bounds.items()
    }
    alone = intern_array(matrix.element_type, (1, *matrix.dimensions))
    return _joined(words, words("slice", alone, [stack], attributes), ())
