"""Dot products in StableHLO."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from builder import primitive_type as pt
from builder.attributes import DotAlgorithm, DotDimensionNumbers, Precision
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, Shape
from builder.xla_op import XlaOp
from lowering.rules.registry import Value, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter

# Of each algorithm: the type that operands are rounded to, the number of such numbers that an
# operand is put together of, the number of products, and whether sums may be made less exactly.
_ALGORITHMS: Final = {
    DotAlgorithm.DOT_ANY_F8_ANY_F8_F32: ("f8E5M2", "f32", 1, 1, False),
    DotAlgorithm.DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM: ("f8E5M2", "f32", 1, 1, True),
    DotAlgorithm.DOT_F16_F16_F16: ("f16", "f16", 1, 1, False),
    DotAlgorithm.DOT_F16_F16_F32: ("f16", "f32", 1, 1, False),
    DotAlgorithm.DOT_BF16_BF16_BF16: ("bf16", "bf16", 1, 1, False),
    DotAlgorithm.DOT_BF16_BF16_F32: ("bf16", "f32", 1, 1, False),
    DotAlgorithm.DOT_BF16_BF16_F32_X3: ("bf16", "f32", 1, 3, False),
    DotAlgorithm.DOT_BF16_BF16_F32_X6: ("bf16", "f32", 1, 6, False),
    DotAlgorithm.DOT_BF16_BF16_F32_X9: ("bf16", "f32", 1, 9, False),
    DotAlgorithm.DOT_TF32_TF32_F32: ("tf32", "f32", 1, 1, False),
    DotAlgorithm.DOT_TF32_TF32_F32_X3: ("tf32", "f32", 1, 3, False),
    DotAlgorithm.DOT_F32_F32_F32: ("f32", "f32", 1, 1, False),
    DotAlgorithm.DOT_F64_F64_F64: ("f64", "f64", 1, 1, False),
}


@lru_cache(maxsize=65536)
def _numbers_text(numbers: DotDimensionNumbers) -> str:
    fields = {
        "lhs_batching_dimensions": numbers.lhs_batch_dimensions,
        "rhs_batching_dimensions": numbers.rhs_batch_dimensions,
        "lhs_contracting_dimensions": numbers.lhs_contracting_dimensions,
        "rhs_contracting_dimensions": numbers.rhs_contracting_dimensions,
    }
    parts = ", ".join(f"{name} = {list(values)}" for name, values in fields.items())
    return f"#stablehlo.dot<{parts}>"


@lru_cache
def _precision_text(precision: tuple[Precision, Precision]) -> str:
    return "[" + ", ".join(f"#stablehlo<precision {p.value}>" for p in precision) + "]"


@lru_cache
def _algorithm_text(algorithm: DotAlgorithm) -> str:
    operand, accumulation, components, products, imprecise = _ALGORITHMS[algorithm]
    return (
        f"#stablehlo.dot_algorithm<lhs_precision_type = {operand}, "
        f"rhs_precision_type = {operand}, accumulation_type = {accumulation}, "
        f"lhs_component_count = {components}, rhs_component_count = {components}, "
        f"num_primitive_operations = {products}, "
        f"allow_imprecise_accumulation = {str(imprecise).lower()}>"
    )


def _converted(ctx: Emitter, value: Value, shape: Shape, to: PrimitiveType) -> Value:
    assert isinstance(shape, ArrayShape)  # inference has said so
    return ctx.value("stablehlo.convert", shape.with_element_type(to), [value])


@rule("dot_general")
def dot_general(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    parsed = ctx.mlir.parsed
    attributes = {
        "dot_dimension_numbers": parsed(_numbers_text(op.attributes["dimension_numbers"]))
    }
    algorithm = op.attributes["algorithm"]
    if algorithm is not None:
        attributes["algorithm"] = parsed(_algorithm_text(algorithm))
    else:
        attributes["precision_config"] = parsed(_precision_text(op.attributes["precision"]))
    source, result = op.operands[0].shape.element_type, op.shape.element_type
    if source.bits >= 8 or source is pt.pred or (source is result and source.bits > 2):
        return ctx.value("stablehlo.dot_general", op.shape, operands, attributes)
    # XLA's CPU backend does not multiply 2-bit integers, nor 4-bit elements into wider ones. Sums
    # of integers in 8 bits end in the same bits as those in 2 or 4.
    wide = result if result.bits >= 8 else (pt.s8 if source.is_signed else pt.u8)
    values = [
        _converted(ctx, value, operand.shape, wide)
        for operand, value in zip(op.operands, operands, strict=True)
    ]
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    shape = op.shape.with_element_type(wide)
    product = ctx.value("stablehlo.dot_general", shape, values, attributes)
    return product if wide is result else _converted(ctx, product, shape, result)
