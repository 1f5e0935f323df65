"""Constants and elementwise ops in HLO text."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder import primitive_type as pt
from builder.hlo_text.printer import Printer, Written, applied_along, rule
from builder.hlo_text.values import array, filled, wide, word, wrapped
from builder.hlo_text.words import braces
from builder.literal_text import literal_text, splat_value
from builder.shape import ArrayShape, intern_array
from builder.workarounds import (
    TRANSCENDENTAL,
    counts_from_negative_zero,
    is_awkward_bitcast,
    is_awkward_convert,
    is_awkward_power,
    is_narrow_function,
    is_narrow_signed,
    is_narrow_stochastic_convert,
    is_pred_sum,
    may_divide_by_zero,
    widens_four_bits,
)
from builder.xla_op import XlaOp


@rule("constant")
def _constant(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    array: np.ndarray[Any, Any] = op.attributes["value"]
    assert isinstance(op.shape, ArrayShape)
    if counts_from_negative_zero(array):
        opposite = literal_text(np.negative(array), op.shape.element_type)
        negated = printer.helper(op, "negated", op.shape, "constant", opposite)
        return "negate", printer.helper(op, "held", op.shape, "opt-barrier", negated), ""
    value = splat_value(array)
    if value is None:
        return _literal(printer, op, op.shape, array)
    scalar = intern_array(op.shape.element_type, ())
    one = printer.helper(op, "value", scalar, *_literal(printer, op, scalar, value))
    return "broadcast", one, ", dimensions={}"


def _literal(
    printer: Printer, op: XlaOp, shape: ArrayShape, array: np.ndarray[Any, Any]
) -> Written:
    element_type = shape.element_type
    if not element_type.is_complex or not np.isnan(array).any():
        return "constant", literal_text(array, element_type), ""
    # XLA's parser makes both parts NaN where the real one is, and forgets which NaN the imaginary
    # one is. So the parts go by themselves.
    half = shape.with_element_type(element_type.real_type)
    parts = [
        printer.helper(op, name, half, "constant", literal_text(part, half.element_type))
        for name, part in (("real", array.real), ("imag", array.imag))
    ]
    return "complex", ", ".join(parts), ""


@rule("compare")
def _compare(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    rest = f", direction={op.attributes['comparison_direction']}"
    return (
        opcode,
        operands,
        rest + (", type=TOTALORDER" if op.attributes["compare_type"] == "TOTALORDER" else ""),
    )


@rule(*TRANSCENDENTAL, "erf")
def _transcendental(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if not is_narrow_function(op):
        return opcode, operands, ""
    wide = array(op).with_element_type(pt.f32)
    source = printer.helper(op, "wide", wide, "convert", operands)
    return "convert", printer.helper(op, "result", wide, opcode, source), ""


@rule("popcnt")
def _popcnt(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if not is_narrow_signed(op):
        return opcode, operands, ""
    unsigned = array(op).with_element_type(word(op.shape.element_type.bits))
    bits = printer.helper(op, "bits", unsigned, "bitcast-convert", operands)
    return "bitcast-convert", printer.helper(op, "count", unsigned, opcode, bits), ""


@rule("power")
def _power(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if not is_awkward_power(op):
        return opcode, operands, ""
    shape = array(op)
    answers = shape.with_element_type(pt.pred)
    zero, one, large = (filled(printer, op, shape, number) for number in (0, 1, 64))
    base, exponent = (printer.operand(o) for o in op.operands)
    bit = printer.helper(op, "lowest_bit", shape, "and", f"{base}, {one}")
    is_even = printer.helper(op, "is_even", answers, "compare", f"{bit}, {zero}", ", direction=EQ")
    is_large = printer.helper(
        op, "is_large", answers, "compare", f"{exponent}, {large}", ", direction=GE"
    )
    gone = printer.helper(op, "gone", answers, "and", f"{is_even}, {is_large}")
    power = printer.helper(op, "power", shape, opcode, operands)
    return "select", f"{gone}, {zero}, {power}", ""


@rule("convert")
def _convert(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if not is_awkward_convert(op):
        return opcode, operands, ""
    source = array(op.operands[0])
    element_type, target = source.element_type, op.shape.element_type
    if element_type.is_complex and target is pt.pred:
        return "compare", f"{operands}, {filled(printer, op, source, 0)}", ", direction=NE"
    if element_type.is_complex:
        parts = source.with_element_type(element_type.real_type)
        real = printer.helper(op, "parts", parts, "real", operands)
        return opcode, real, ""
    if widens_four_bits(element_type, target):
        shape = array(op)
        return wrapped(printer, op, printer.helper(op, "wide", shape, opcode, operands), shape)
    wide = printer.helper(op, "wide", source.with_element_type(pt.f32), opcode, operands)
    return opcode, wide, ""


@rule("add")
def _add(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return "or" if is_pred_sum(op) else opcode, operands, ""


@rule("divide", "remainder")
def _divide(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if not may_divide_by_zero(op):
        return opcode, operands, ""
    dividend, divisor = (printer.operand(o) for o in op.operands)
    hidden = printer.helper(op, "divisor", op.operands[1].shape, "opt-barrier", divisor)
    return opcode, f"{dividend}, {hidden}", ""


@rule("bitcast_convert")
def _bitcast_convert(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if not is_awkward_bitcast(op):
        return opcode, operands, ""
    source, target = array(op.operands[0]), array(op)
    if target.element_type is pt.pred:
        return _bits_as_preds(printer, op, source, target)
    if source.element_type is pt.pred:
        return _preds_as_bits(printer, op, source, target)
    if source.element_type is pt.c128:
        return _halved_complex(printer, op, source, target)
    return _doubled_complex(printer, op, source, target)


def _bits_as_preds(printer: Printer, op: XlaOp, source: ArrayShape, target: ArrayShape) -> Written:
    bits = source.element_type.bits
    words = source.with_element_type(word(bits))
    value = printer.helper(op, "bits", words, "bitcast-convert", printer.operand(op.operands[0]))
    if bits < 8:
        value = wide(printer, op, value, words, pt.u8)
    each = target.with_element_type(word(max(bits, 8)))
    places = f", dimensions={braces(range(source.rank))}"
    spread = printer.helper(op, "spread", each, "broadcast", value, places)
    counted = _counted(printer, op, each)
    shifted = printer.helper(op, "shifted", each, "shift-right-logical", f"{spread}, {counted}")
    one = filled(printer, op, each, 1)
    return "convert", printer.helper(op, "lowest", each, "and", f"{shifted}, {one}"), ""


def _preds_as_bits(printer: Printer, op: XlaOp, source: ArrayShape, target: ArrayShape) -> Written:
    bits = target.element_type.bits
    each = source.with_element_type(word(max(bits, 8)))
    wide = printer.helper(op, "wide", each, "convert", printer.operand(op.operands[0]))
    counted = _counted(printer, op, each)
    shifted = printer.helper(op, "shifted", each, "shift-left", f"{wide}, {counted}")
    zero = filled(printer, op, intern_array(each.element_type, ()), 0)
    words = target.with_element_type(each.element_type)
    either = printer.module.combiner("or", each.element_type)
    rest = f", dimensions={{{source.rank - 1}}}, to_apply={either}"
    value = printer.helper(op, "bits", words, "reduce", f"{shifted}, {zero}", rest)
    if bits < 8:
        value = printer.helper(op, "word", target.with_element_type(word(bits)), "convert", value)
    return "bitcast-convert", value, ""


def _counted(printer: Printer, op: XlaOp, shape: ArrayShape) -> str:
    """0, 1, 2, ... along the last dimension."""
    return printer.helper(op, "place", shape, "iota", "", f", iota_dimension={shape.rank - 1}")


def _parts(printer: Printer, op: XlaOp, shape: ArrayShape) -> list[str]:
    """The real and the imaginary part of the operand."""
    value = printer.operand(op.operands[0])
    return [printer.helper(op, name, shape, name, value) for name in ("real", "imag")]


def _halved_complex(printer: Printer, op: XlaOp, source: ArrayShape, target: ArrayShape) -> Written:
    halves = target.with_element_type(pt.f32)
    real, imag = (
        printer.helper(op, "halves", halves, "bitcast-convert", part)
        for part in _parts(printer, op, source.with_element_type(pt.f64))
    )
    pair = [_paired(printer, op, halves, (real, imag), i) for i in (0, 1)]
    return "complex", ", ".join(pair), ""


def _doubled_complex(
    printer: Printer, op: XlaOp, source: ArrayShape, target: ArrayShape
) -> Written:
    halves = source.with_element_type(pt.f32)
    low, high = _parts(printer, op, halves)
    part = target.with_element_type(pt.f64)
    pair = [
        printer.helper(
            op, "part", part, "bitcast-convert", _paired(printer, op, halves, (low, high), i)
        )
        for i in (0, 1)
    ]
    return "complex", ", ".join(pair), ""


def _paired(
    printer: Printer, op: XlaOp, shape: ArrayShape, values: tuple[str, str], index: int
) -> str:
    """Element `index` of the last dimension of two arrays [..., 2], side by side."""
    *outer, _ = shape.dimensions
    one = intern_array(shape.element_type, (*outer, 1))
    bounds = ", ".join([*(f"[0:{size}:1]" for size in outer), f"[{index}:{index + 1}:1]"])
    taken = [printer.helper(op, "half", one, "slice", v, f", slice={{{bounds}}}") for v in values]
    dimension = f", dimensions={{{shape.rank - 1}}}"
    return printer.helper(op, "pair", shape, "concatenate", ", ".join(taken), dimension)


@rule("stochastic_convert")
def _stochastic_convert(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if not is_narrow_stochastic_convert(op):
        return opcode, operands, ""
    # In 32 bits: the random ones are the highest of them.
    value, random = op.operands
    shape = array(op).with_element_type(pt.f32)
    bits = array(op).with_element_type(pt.u32)
    source = printer.helper(op, "wide", shape, "convert", printer.operand(value))
    low = printer.helper(op, "low", bits, "convert", printer.operand(random))
    by = filled(printer, op, bits, 32 - random.shape.element_type.bits)
    high = printer.helper(op, "high", bits, "shift-left", f"{low}, {by}")
    return opcode, f"{source}, {high}", ""


@rule("mulhi")
def _mulhi(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    """By a product of twice the width: of HLO's own mulhi jaxlib makes no StableHLO."""
    shape = array(op)
    bits, signed = shape.element_type.bits, shape.element_type.is_signed
    if bits == 64:
        return _mulhi_of_halves(printer, op, shape)
    wide = shape.with_element_type(pt.from_name(f"{'s' if signed else 'u'}{max(2 * bits, 32)}"))
    factors = ", ".join(
        printer.helper(op, "wide", wide, "convert", printer.operand(o)) for o in op.operands
    )
    product = printer.helper(op, "product", wide, "multiply", factors)
    shift = f"shift-right-{'arithmetic' if signed else 'logical'}"
    by = filled(printer, op, wide, bits)
    return "convert", printer.helper(op, "upper", wide, shift, f"{product}, {by}"), ""


def _mulhi_of_halves(printer: Printer, op: XlaOp, shape: ArrayShape) -> Written:
    """Of 64 bits: of two halves each, lower ones unsigned, and what is carried between them."""

    def helper(suffix: str, opcode: str, *operands: str) -> str:
        return printer.helper(op, suffix, shape, opcode, ", ".join(operands))

    shift = f"shift-right-{'arithmetic' if shape.element_type.is_signed else 'logical'}"
    by = filled(printer, op, shape, 32)
    mask = filled(printer, op, shape, 2**32 - 1)
    x, y = (printer.operand(o) for o in op.operands)
    (low_x, high_x), (low_y, high_y) = (
        (helper("low", "and", o, mask), helper("high", shift, o, by)) for o in (x, y)
    )
    lowest = helper("lowest", "multiply", low_x, low_y)
    carried = helper("carried", "shift-right-logical", lowest, by)
    middle = helper("middle", "add", helper("cross", "multiply", high_x, low_y), carried)
    low_part = helper("low_part", "and", middle, mask)
    other = helper("other", "add", helper("cross", "multiply", low_x, high_y), low_part)
    highest = helper("highest", "multiply", high_x, high_y)
    above = helper("above", "add", highest, helper("high_part", shift, middle, by))
    return "add", f"{above}, {helper('rest', shift, other, by)}", ""


@rule("reduce_precision")
def _reduce_precision(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    bits = op.attributes
    rest = f", exponent_bits={bits['exponent_bits']}, mantissa_bits={bits['mantissa_bits']}"
    return opcode, operands, rest


@rule("map")
def _map(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, applied_along(printer, op)
