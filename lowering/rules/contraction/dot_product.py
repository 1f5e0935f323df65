"""Dot products in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from builder import primitive_type as pt
from builder.attributes import DotAlgorithm, DotDimensionNumbers, Precision
from builder.shape import ArrayShape
from builder.workarounds import is_narrow_contraction
from builder.xla_op import XlaOp
from lowering.rules.elementwise import widened
from lowering.rules.registry import ATTRIBUTES, DIRECT, Value, direct, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter

# Of each algorithm: the type that operands are rounded to, the number of such numbers that an
# operand is put together of, the number of products, and whether sums may be made less exactly.
ALGORITHMS: Final = {
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


def dot_fields(numbers: DotDimensionNumbers) -> dict[str, tuple[int, ...]]:
    """The dimension numbers by the names that StableHLO has for them."""
    return {
        "lhs_batching_dimensions": numbers.lhs_batch_dimensions,
        "rhs_batching_dimensions": numbers.rhs_batch_dimensions,
        "lhs_contracting_dimensions": numbers.lhs_contracting_dimensions,
        "rhs_contracting_dimensions": numbers.rhs_contracting_dimensions,
    }


@lru_cache(maxsize=65536)
def _numbers_text(numbers: DotDimensionNumbers) -> str:
    fields = dot_fields(numbers)
    parts = ", ".join(f"{name} = {list(values)}" for name, values in fields.items())
    return f"#stablehlo.dot<{parts}>"


@lru_cache
def precision_text(precision: tuple[Precision, Precision]) -> str:
    """The attribute precision_config."""
    return "[" + ", ".join(f"#stablehlo<precision {p.value}>" for p in precision) + "]"


@lru_cache
def _algorithm_text(algorithm: DotAlgorithm) -> str:
    operand, accumulation, components, products, imprecise = ALGORITHMS[algorithm]
    return (
        f"#stablehlo.dot_algorithm<lhs_precision_type = {operand}, "
        f"rhs_precision_type = {operand}, accumulation_type = {accumulation}, "
        f"lhs_component_count = {components}, rhs_component_count = {components}, "
        f"num_primitive_operations = {products}, "
        f"allow_imprecise_accumulation = {str(imprecise).lower()}>"
    )


@direct("dot_general")
def dot_general(attributes: Mapping[str, Any]) -> dict[str, str]:
    numbers = _numbers_text(attributes["dimension_numbers"])
    algorithm = attributes["algorithm"]
    if algorithm is not None:
        return {
            "dot_dimension_numbers": numbers,
            "algorithm": _algorithm_text(algorithm),
        }
    precision = precision_text(attributes["precision"])
    return {"dot_dimension_numbers": numbers, "precision_config": precision}


@rule("dot_general", when=is_narrow_contraction)
@rule("convolution", when=is_narrow_contraction)
@rule("ragged_dot", when=is_narrow_contraction)
def narrow_contraction(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """In a wider type. Sums of integers in 8 bits end in the same bits as those in 2 or 4."""
    source, result = op.operands[0].shape.element_type, op.shape.element_type
    wide = result if result.bits >= 8 else (pt.s8 if source.is_signed else pt.u8)
    values = [
        widened(ctx, value, operand.shape, wide)
        for operand, value in zip(op.operands[:2], operands[:2], strict=True)
    ]
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    shape = op.shape.with_element_type(wide)
    attributes = ATTRIBUTES[op.opcode](op.attributes)
    product = ctx.value(DIRECT[op.opcode], shape, [*values, *operands[2:]], attributes)
    return product if wide is result else ctx.converted(product, shape, result)
