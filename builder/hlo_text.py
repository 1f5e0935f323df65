"""HLO text of a computation, in the form that XLA prints and its parser reads.

Most opcodes are written as they are recorded. A few say in one op what HLO says in two; they are
written as the two: a broadcast that also stretches dimensions of size 1, a constant that is one
value throughout. Ops that XLA gets wrong (`builder.workarounds`) are written in other words, the
same as those that `lowering` finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from builder import primitive_type as pt
from builder.attributes import Precision
from builder.computation import XlaComputation
from builder.literal_text import literal_text, splat_value
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, Shape, TokenShape, intern_array, nested_text
from builder.unique_names import UniqueNames
from builder.workarounds import (
    TRANSCENDENTAL,
    counts_from_negative_zero,
    is_awkward_bitcast,
    is_awkward_convert,
    is_awkward_power,
    is_narrow_dot,
    is_narrow_function,
    is_narrow_signed,
    is_of_two_bits,
    is_pred_sum,
    may_divide_by_zero,
    stride_within,
    widens_four_bits,
)
from builder.xla_op import XlaOp

__all__ = ["module_text"]

# Opcodes whose name in HLO is another than the recorded one with dashes.
_HLO_NAMES: Final = {
    "broadcast_in_dim": "broadcast",
    "dot_general": "dot",
    "optimization_barrier": "opt-barrier",
}
# Words that HLO's lexer does not take for names.
_RESERVED: Final = {t.name for t in pt.ALL} | {
    *("token", "opaque", "tuple", "HloModule", "ENTRY", "ROOT", "true", "false", "inf", "nan"),
    *("maximal", "replicated", "manual", "unreduced", "unknown", "last_tile_dim_replicate"),
    *("shard_as", "shard_like"),
}


def module_text(computation: XlaComputation, *, metadata: bool = False) -> str:
    """The text of a module whose entry is `computation`; see `XlaComputation.to_hlo_text`."""
    module = _Module(computation, metadata)
    shape = computation.program_shape
    inputs = ", ".join(_with_layout(p) for p in shape.parameters)
    layout = f"{{({inputs})->{_with_layout(shape.result)}}}"
    head = f"HloModule {_identifier(computation.name)}, entry_computation_layout={layout}\n"
    called = [_Printer(c, module).text() for c in computation.called_computations()]
    entry = "ENTRY " + _Printer(computation, module).text()
    # What a computation applies stands before it.
    return "\n".join([head, *module.combiners.values(), *called, entry])


def _hlo_name(opcode: str) -> str:
    return _HLO_NAMES.get(opcode) or opcode.replace("_", "-")


def _identifier(name: str) -> str:
    """`name` as HLO's lexer takes it."""
    text = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)
    if not text or not (text[0].isalpha() or text[0] == "_"):
        text = "_" + text
    if text.startswith("__"):  # XLA keeps these for itself
        text = "x" + text
    return text + "_" if text in _RESERVED else text


class _Module:
    """What the computations of a module share.

    Attributes:
        metadata: whether names and source lines are written.
        names: of each computation.
        combiners: the texts of computations of our own, by name.
    """

    def __init__(self, entry: XlaComputation, metadata: bool) -> None:
        self.metadata = metadata
        self.unique = UniqueNames()
        self.names = {
            computation: self.unique.claim(_identifier(computation.name))
            for computation in (entry, *entry.called_computations())
        }
        self.combiners: dict[str, str] = {}
        self._combiner_names: dict[tuple[str, PrimitiveType], str] = {}

    def combiner(self, opcode: str, element_type: PrimitiveType) -> str:
        """The reference of a computation that applies a binary opcode to two scalars."""
        name = self._combiner_names.get((opcode, element_type))
        if name is None:
            name = self.unique.claim(f"{opcode}_{element_type}")
            self._combiner_names[opcode, element_type] = name
            scalar = intern_array(element_type, ())
            self.combiners[name] = (
                f"%{name} (p0: {scalar}, p1: {scalar}) -> {scalar} {{\n"
                f"  %p0 = {scalar} parameter(0)\n"
                f"  %p1 = {scalar} parameter(1)\n"
                f"  ROOT %{opcode}.2 = {scalar} {opcode}(%p0, %p1)\n"
                f"}}\n"
            )
        return f"%{name}"


def _with_layout(shape: Shape) -> str:
    """The text of a shape with the layout of each array, as instructions carry it."""
    return nested_text(shape, _leaf_with_layout)


def _leaf_with_layout(shape: ArrayShape | TokenShape) -> str:
    if isinstance(shape, TokenShape) or not shape.rank or shape.layout is not None:
        return str(shape)
    return f"{shape}{_braces(range(shape.rank - 1, -1, -1))}"


def _braces(values: Iterable[Any]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


class _Printer:
    """Prints one computation."""

    def __init__(self, computation: XlaComputation, module: _Module) -> None:
        self.computation = computation
        self.module = module
        self.lines: list[str] = []
        self.unique = UniqueNames()
        self.op_names: list[str] = []

    def text(self) -> str:
        computation = self.computation
        for op in computation.ops:
            self.op_names.append(self.name_of(op))
        shape = computation.program_shape
        inputs = ", ".join(f"{self.op_names[p.id]}: {p.shape}" for p in computation.parameters)
        for op in computation.ops:
            self.instruction(op)
        head = f"%{self.module.names[computation]} ({inputs}) -> {shape.result} {{"
        return "\n".join([head, *self.lines, "}"]) + "\n"

    def name_of(self, op: XlaOp) -> str:
        """The instruction's name: the parameter's own, else its name or opcode and number."""
        if op.name is None:
            return self.unique.claim(f"{_hlo_name(op.opcode)}.{op.id}")
        name = _identifier(str(op.name))
        if op.opcode == "parameter" and name not in self.unique.taken:
            return self.unique.claim(name)
        return self.unique.claim(f"{name}.{op.id}")

    def operand(self, op: XlaOp) -> str:
        return f"%{self.op_names[op.id]}"

    def called(self, computation: XlaComputation) -> str:
        return f"%{self.module.names[computation]}"

    def line(
        self, name: str, shape: Shape, opcode: str, operands: str, rest: str = "", root: str = ""
    ) -> None:
        self.lines.append(f"  {root}%{name} = {_with_layout(shape)} {opcode}({operands}){rest}")

    def instruction(self, op: XlaOp) -> None:
        rule = _RULES.get(op.opcode)
        opcode = _hlo_name(op.opcode)
        operands = ", ".join(self.operand(o) for o in op.operands)
        rest = ""
        if rule is not None:
            opcode, operands, rest = rule(self, op, opcode, operands)
        rest += self.annotations(op)
        root = "ROOT " if op is self.computation.root else ""
        shape = op.attributes.get("shape_with_layout", op.shape)
        self.line(self.op_names[op.id], shape, opcode, operands, rest, root)

    def annotations(self, op: XlaOp) -> str:
        text = ""
        if op.sharding is not None:
            text += f", sharding={op.sharding}"
        if op.frontend_attributes:
            pairs = (f"{k}={_quoted(v)}" for k, v in op.frontend_attributes.items())
            text += f", frontend_attributes={_braces(pairs)}"
        if self.module.metadata:
            parts = []
            if op.name is not None:
                parts.append(f"op_name={_quoted(str(op.name))}")
            source = op.source
            if source is not None:
                parts.append(f"source_file={_quoted(source.file)} source_line={source.line}")
            if parts:
                text += f", metadata={{{' '.join(parts)}}}"
        return text

    def helper(
        self, op: XlaOp, suffix: str, shape: Shape, opcode: str, operands: str, rest: str = ""
    ) -> str:
        """Writes an instruction of our own before that of `op`; gives its reference."""
        name = self.unique.claim(f"{self.op_names[op.id]}.{suffix}")
        self.line(name, shape, opcode, operands, rest)
        return f"%{name}"


def _quoted(text: str) -> str:
    """A string as HLO's lexer takes it. What UTF-8 can't say becomes a question mark."""
    text = text.encode("utf-8", "replace").decode()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\{ord(c[0]):03o}", escaped) + '"'


_Written = tuple[str, str, str]
_Rule = Callable[[_Printer, XlaOp, str, str], _Written]
_RULES: Final[dict[str, _Rule]] = {}


def _rule(*opcodes: str) -> Callable[[_Rule], _Rule]:
    def enter(function: _Rule) -> _Rule:
        for opcode in opcodes:
            _RULES[opcode] = function
        return function

    return enter


@_rule("parameter")
def _parameter(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, str(op.attributes["number"]), ""


@_rule("constant")
def _constant(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
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
    printer: _Printer, op: XlaOp, shape: ArrayShape, array: np.ndarray[Any, Any]
) -> _Written:
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


@_rule("iota")
def _iota(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, operands, f", iota_dimension={op.attributes['iota_dimension']}"


@_rule("compare")
def _compare(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    rest = f", direction={op.attributes['comparison_direction']}"
    return (
        opcode,
        operands,
        rest + (", type=TOTALORDER" if op.attributes["compare_type"] == "TOTALORDER" else ""),
    )


@_rule(*TRANSCENDENTAL, "erf")
def _transcendental(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    if not is_narrow_function(op):
        return opcode, operands, ""
    wide = _array(op).with_element_type(pt.f32)
    source = printer.helper(op, "wide", wide, "convert", operands)
    return "convert", printer.helper(op, "result", wide, opcode, source), ""


@_rule("popcnt")
def _popcnt(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    if not is_narrow_signed(op):
        return opcode, operands, ""
    unsigned = _array(op).with_element_type(_word(op.shape.element_type.bits))
    bits = printer.helper(op, "bits", unsigned, "bitcast-convert", operands)
    return "bitcast-convert", printer.helper(op, "count", unsigned, opcode, bits), ""


@_rule("power")
def _power(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    if not is_awkward_power(op):
        return opcode, operands, ""
    shape = _array(op)
    answers = shape.with_element_type(pt.pred)
    zero, one, large = (_filled(printer, op, shape, number) for number in (0, 1, 64))
    base, exponent = (printer.operand(o) for o in op.operands)
    bit = printer.helper(op, "lowest_bit", shape, "and", f"{base}, {one}")
    is_even = printer.helper(op, "is_even", answers, "compare", f"{bit}, {zero}", ", direction=EQ")
    is_large = printer.helper(
        op, "is_large", answers, "compare", f"{exponent}, {large}", ", direction=GE"
    )
    gone = printer.helper(op, "gone", answers, "and", f"{is_even}, {is_large}")
    power = printer.helper(op, "power", shape, opcode, operands)
    return "select", f"{gone}, {zero}, {power}", ""


@_rule("convert")
def _convert(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    if not is_awkward_convert(op):
        return opcode, operands, ""
    source = _array(op.operands[0])
    element_type, target = source.element_type, op.shape.element_type
    if element_type.is_complex and target is pt.pred:
        return "compare", f"{operands}, {_filled(printer, op, source, 0)}", ", direction=NE"
    if element_type.is_complex:
        parts = source.with_element_type(element_type.real_type)
        real = printer.helper(op, "parts", parts, "real", operands)
        return opcode, real, ""
    if widens_four_bits(element_type, target):
        shape = _array(op)
        return _wrapped(printer, op, printer.helper(op, "wide", shape, opcode, operands), shape)
    wide = printer.helper(op, "wide", source.with_element_type(pt.f32), opcode, operands)
    return opcode, wide, ""


def _wrapped(printer: _Printer, op: XlaOp, wide: str, shape: ArrayShape) -> _Written:
    """A value of 8 bits made one of 4 again: shifted up and down."""
    four = _filled(printer, op, shape, 4)
    up = printer.helper(op, "up", shape, "shift-left", f"{wide}, {four}")
    down = "arithmetic" if shape.element_type.is_signed else "logical"
    return f"shift-right-{down}", f"{up}, {four}", ""


@_rule("add")
def _add(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return "or" if is_pred_sum(op) else opcode, operands, ""


@_rule("divide", "remainder")
def _divide(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    if not may_divide_by_zero(op):
        return opcode, operands, ""
    dividend, divisor = (printer.operand(o) for o in op.operands)
    hidden = printer.helper(op, "divisor", op.operands[1].shape, "opt-barrier", divisor)
    return opcode, f"{dividend}, {hidden}", ""


def _array(op: XlaOp) -> ArrayShape:
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    return op.shape


def _word(bits: int) -> PrimitiveType:
    return pt.from_name(f"u{bits}")


def _filled(printer: _Printer, op: XlaOp, shape: ArrayShape, number: int) -> str:
    """An array of one number throughout."""
    scalar = intern_array(shape.element_type, ())
    value = np.array(number).astype(scalar.element_type.dtype)
    text = literal_text(value, scalar.element_type)
    one = printer.helper(op, f"number{number}", scalar, "constant", text)
    if not shape.rank:
        return one
    return printer.helper(op, f"all{number}", shape, "broadcast", one, ", dimensions={}")


@_rule("bitcast_convert")
def _bitcast_convert(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    if not is_awkward_bitcast(op):
        return opcode, operands, ""
    source, target = _array(op.operands[0]), _array(op)
    if target.element_type is pt.pred:
        return _bits_as_preds(printer, op, source, target)
    if source.element_type is pt.pred:
        return _preds_as_bits(printer, op, source, target)
    if source.element_type is pt.c128:
        return _halved_complex(printer, op, source, target)
    return _doubled_complex(printer, op, source, target)


def _bits_as_preds(
    printer: _Printer, op: XlaOp, source: ArrayShape, target: ArrayShape
) -> _Written:
    bits = source.element_type.bits
    words = source.with_element_type(_word(bits))
    value = printer.helper(op, "bits", words, "bitcast-convert", printer.operand(op.operands[0]))
    if bits < 8:
        value = _wide(printer, op, value, words, pt.u8)
    each = target.with_element_type(_word(max(bits, 8)))
    places = f", dimensions={_braces(range(source.rank))}"
    spread = printer.helper(op, "spread", each, "broadcast", value, places)
    counted = _counted(printer, op, each)
    shifted = printer.helper(op, "shifted", each, "shift-right-logical", f"{spread}, {counted}")
    one = _filled(printer, op, each, 1)
    return "convert", printer.helper(op, "lowest", each, "and", f"{shifted}, {one}"), ""


def _preds_as_bits(
    printer: _Printer, op: XlaOp, source: ArrayShape, target: ArrayShape
) -> _Written:
    bits = target.element_type.bits
    each = source.with_element_type(_word(max(bits, 8)))
    wide = printer.helper(op, "wide", each, "convert", printer.operand(op.operands[0]))
    counted = _counted(printer, op, each)
    shifted = printer.helper(op, "shifted", each, "shift-left", f"{wide}, {counted}")
    zero = _filled(printer, op, intern_array(each.element_type, ()), 0)
    words = target.with_element_type(each.element_type)
    either = printer.module.combiner("or", each.element_type)
    rest = f", dimensions={{{source.rank - 1}}}, to_apply={either}"
    value = printer.helper(op, "bits", words, "reduce", f"{shifted}, {zero}", rest)
    if bits < 8:
        value = printer.helper(op, "word", target.with_element_type(_word(bits)), "convert", value)
    return "bitcast-convert", value, ""


def _counted(printer: _Printer, op: XlaOp, shape: ArrayShape) -> str:
    """0, 1, 2, ... along the last dimension."""
    return printer.helper(op, "place", shape, "iota", "", f", iota_dimension={shape.rank - 1}")


def _parts(printer: _Printer, op: XlaOp, shape: ArrayShape) -> list[str]:
    """The real and the imaginary part of the operand."""
    value = printer.operand(op.operands[0])
    return [printer.helper(op, name, shape, name, value) for name in ("real", "imag")]


def _halved_complex(
    printer: _Printer, op: XlaOp, source: ArrayShape, target: ArrayShape
) -> _Written:
    halves = target.with_element_type(pt.f32)
    real, imag = (
        printer.helper(op, "halves", halves, "bitcast-convert", part)
        for part in _parts(printer, op, source.with_element_type(pt.f64))
    )
    pair = [_paired(printer, op, halves, (real, imag), i) for i in (0, 1)]
    return "complex", ", ".join(pair), ""


def _doubled_complex(
    printer: _Printer, op: XlaOp, source: ArrayShape, target: ArrayShape
) -> _Written:
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
    printer: _Printer, op: XlaOp, shape: ArrayShape, values: tuple[str, str], index: int
) -> str:
    """Element `index` of the last dimension of two arrays [..., 2], side by side."""
    *outer, _ = shape.dimensions
    one = intern_array(shape.element_type, (*outer, 1))
    bounds = ", ".join([*(f"[0:{size}:1]" for size in outer), f"[{index}:{index + 1}:1]"])
    taken = [printer.helper(op, "half", one, "slice", v, f", slice={{{bounds}}}") for v in values]
    dimension = f", dimensions={{{shape.rank - 1}}}"
    return printer.helper(op, "pair", shape, "concatenate", ", ".join(taken), dimension)


@_rule("reduce_precision")
def _reduce_precision(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    bits = op.attributes
    rest = f", exponent_bits={bits['exponent_bits']}, mantissa_bits={bits['mantissa_bits']}"
    return opcode, operands, rest


@_rule("map", "reduce")
def _map(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    dimensions = _braces(op.attributes["dimensions"])
    applied = printer.called(op.attributes["to_apply"])
    return opcode, operands, f", dimensions={dimensions}, to_apply={applied}"


@_rule("broadcast_in_dim")
def _broadcast_in_dim(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    assert isinstance(op.shape, ArrayShape)
    places = op.attributes["broadcast_dimensions"]
    kept = [
        index
        for index, place in enumerate(places)
        if source.dimensions[index] == op.shape.dimensions[place]
    ]
    if len(kept) < source.rank:
        # HLO's broadcast only adds dimensions: those that are stretched are taken away first.
        shape = intern_array(
            source.element_type,
            tuple(source.dimensions[i] for i in kept),
            tuple(source.dynamic_dimensions[i] for i in kept),
        )
        operands = printer.helper(op, "squeezed", shape, "reshape", operands)
    return opcode, operands, f", dimensions={_braces(places[i] for i in kept)}"


@_rule("transpose")
def _transpose(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, operands, f", dimensions={_braces(op.attributes['permutation'])}"


@_rule("reverse")
def _reverse(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, operands, f", dimensions={_braces(op.attributes['dimensions'])}"


@_rule("concatenate")
def _concatenate(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    rest = f", dimensions={{{op.attributes['dimension']}}}"
    if not is_of_two_bits(op):
        return opcode, operands, rest
    wide = pt.s8 if op.shape.element_type is pt.s2 else pt.u8
    joined = _array(op).with_element_type(wide)
    values = _widened(printer, op, wide)
    return "convert", printer.helper(op, "joined", joined, opcode, values, rest), ""


def _widened(printer: _Printer, op: XlaOp, wide: PrimitiveType) -> str:
    """The operands, converted to a type that holds all of their values."""
    return ", ".join(_wide(printer, op, printer.operand(o), _array(o), wide) for o in op.operands)


def _wide(printer: _Printer, op: XlaOp, value: str, source: ArrayShape, wide: PrimitiveType) -> str:
    shape = source.with_element_type(wide)
    converted = printer.helper(op, "wide", shape, "convert", value)
    if not widens_four_bits(source.element_type, wide):
        return converted
    return printer.helper(op, "wrapped", shape, *_wrapped(printer, op, converted, shape))


@_rule("pad")
def _pad(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    dimensions = op.attributes["padding_config"].dimensions
    if not dimensions:
        # HLO's text has no form for the padding of a scalar, which changes nothing.
        return "copy", printer.operand(op.operands[0]), ""
    padding = "x".join(
        f"{d.edge_padding_low}_{d.edge_padding_high}_{d.interior_padding}" for d in dimensions
    )
    return opcode, operands, f", padding={padding}"


@_rule("slice")
def _slice(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    attributes = op.attributes
    parts = [
        f"[{start}:{limit}:{stride_within(start, limit, stride)}]"
        for start, limit, stride in zip(
            attributes["start_indices"],
            attributes["limit_indices"],
            attributes["strides"],
            strict=True,
        )
    ]
    return opcode, operands, f", slice={{{', '.join(parts)}}}"


@_rule("dot_general")
def _dot_general(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    numbers = op.attributes["dimension_numbers"]
    rest = ""
    for side in ("lhs", "rhs"):
        batch = getattr(numbers, f"{side}_batch_dimensions")
        if batch:
            rest += f", {side}_batch_dims={_braces(batch)}"
        contracting = getattr(numbers, f"{side}_contracting_dimensions")
        rest += f", {side}_contracting_dims={_braces(contracting)}"
    precision = op.attributes["precision"]
    if any(p is not Precision.DEFAULT for p in precision):
        rest += f", operand_precision={_braces(p.name.lower() for p in precision)}"
    algorithm = op.attributes["algorithm"]
    if algorithm is not None:
        rest += f", algorithm={algorithm.value}"
    if not is_narrow_dot(op):
        return opcode, operands, rest
    # Sums of integers in 8 bits end in the same bits as those in 2 or 4.
    source, result = op.operands[0].shape.element_type, op.shape.element_type
    wide = result if result.bits >= 8 else (pt.s8 if source.is_signed else pt.u8)
    values = _widened(printer, op, wide)
    if wide is result:
        return opcode, values, rest
    shape = _array(op).with_element_type(wide)
    return "convert", printer.helper(op, "product", shape, opcode, values, rest), ""


@_rule("get_tuple_element")
def _get_tuple_element(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, operands, f", index={op.attributes['index']}"


@_rule("call")
def _call(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, operands, f", to_apply={printer.called(op.attributes['to_apply'])}"


@_rule("while")
def _while(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    condition = printer.called(op.attributes["condition"])
    body = printer.called(op.attributes["body"])
    return opcode, operands, f", condition={condition}, body={body}"


@_rule("conditional")
def _conditional(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    branches = [printer.called(b) for b in op.attributes["branch_computations"]]
    if op.operands[0].shape.element_type is pt.pred:
        rest = f", true_computation={branches[0]}, false_computation={branches[1]}"
    else:
        rest = f", branch_computations={{{', '.join(branches)}}}"
    return opcode, operands, rest
