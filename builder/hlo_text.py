"""HLO text of a computation, in the form that XLA prints and its parser reads.

Most opcodes are written as they are recorded. A few say in one op what HLO says in two; they are
written as the two: a broadcast that also stretches dimensions of size 1, a constant that is one
value throughout.
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
    names = _computation_names(computation)
    shape = computation.program_shape
    inputs = ", ".join(_with_layout(p) for p in shape.parameters)
    layout = f"{{({inputs})->{_with_layout(shape.result)}}}"
    parts = [f"HloModule {_identifier(computation.name)}, entry_computation_layout={layout}\n"]
    for called in computation.called_computations():
        parts.append(_Printer(called, names, metadata).text())
    parts.append("ENTRY " + _Printer(computation, names, metadata).text())
    return "\n".join(parts)


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


def _computation_names(entry: XlaComputation) -> dict[XlaComputation, str]:
    names: dict[XlaComputation, str] = {}
    taken: set[str] = set()
    for computation in (entry, *entry.called_computations()):
        base = _identifier(computation.name)
        name, number = base, 0
        while name in taken:
            number += 1
            name = f"{base}.{number}"
        taken.add(name)
        names[computation] = name
    return names


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

    def __init__(
        self, computation: XlaComputation, names: dict[XlaComputation, str], metadata: bool
    ) -> None:
        self.computation = computation
        self.names = names
        self.metadata = metadata
        self.lines: list[str] = []
        self.taken: set[str] = set()
        self.op_names: list[str] = []

    def text(self) -> str:
        computation = self.computation
        for op in computation.ops:
            self.op_names.append(self.name_of(op))
        shape = computation.program_shape
        inputs = ", ".join(f"{self.op_names[p.id]}: {p.shape}" for p in computation.parameters)
        for op in computation.ops:
            self.instruction(op)
        head = f"%{self.names[computation]} ({inputs}) -> {shape.result} {{"
        return "\n".join([head, *self.lines, "}"]) + "\n"

    def name_of(self, op: XlaOp) -> str:
        """The instruction's name: the parameter's own, else its name or opcode and number."""
        if op.opcode == "parameter" and op.name is not None:
            name = _identifier(op.name)
            if name not in self.taken:
                self.taken.add(name)
                return name
        base = _identifier(op.name) if op.name is not None else _hlo_name(op.opcode)
        name = f"{base}.{op.id}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def operand(self, op: XlaOp) -> str:
        return f"%{self.op_names[op.id]}"

    def called(self, computation: XlaComputation) -> str:
        return f"%{self.names[computation]}"

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
        if self.metadata:
            parts = []
            if op.name is not None:
                parts.append(f"op_name={_quoted(op.name)}")
            source = op.source
            if source is not None:
                parts.append(f"source_file={_quoted(source.file)} source_line={source.line}")
            if parts:
                text += f", metadata={{{' '.join(parts)}}}"
        return text

    def helper(
        self, op: XlaOp, suffix: str, shape: Shape, opcode: str, operands: str, rest: str
    ) -> str:
        """Writes an instruction of our own before that of `op`; gives its reference."""
        name = f"{self.op_names[op.id]}.{suffix}"
        self.line(name, shape, opcode, operands, rest)
        return f"%{name}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


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
    if not element_type.is_complex or not np.isnan(array.real).any():
        return "constant", literal_text(array, element_type), ""
    # XLA's parser makes both parts NaN where the real one is, so the parts go by themselves.
    half = shape.with_element_type(element_type.real_type)
    parts = [
        printer.helper(op, name, half, "constant", literal_text(part, half.element_type), "")
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


@_rule("convert")
def _convert(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    target = op.shape.element_type
    if source.element_type.is_complex and target is pt.pred:
        # HLO's convert looks at the real part alone; nonzero means either part.
        zero = _zero_of(printer, op, source)
        return "compare", f"{operands}, {zero}", ", direction=NE"
    if source.element_type is pt.f4e2m1fn and target.is_integral:
        # XLA takes the largest value, 6, for an infinity.
        wide = source.with_element_type(pt.f32)
        operands = printer.helper(op, "wide", wide, opcode, operands, "")
    return opcode, operands, ""


def _zero_of(printer: _Printer, op: XlaOp, shape: ArrayShape) -> str:
    element_type: PrimitiveType = shape.element_type
    scalar = intern_array(element_type, ())
    text = literal_text(np.zeros((), element_type.dtype), element_type)
    zero = printer.helper(op, "zero", scalar, "constant", text, "")
    if not shape.rank:
        return zero
    return printer.helper(op, "zeros", shape, "broadcast", zero, ", dimensions={}")


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
        operands = printer.helper(op, "squeezed", shape, "reshape", operands, "")
    return opcode, operands, f", dimensions={_braces(places[i] for i in kept)}"


@_rule("transpose")
def _transpose(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, operands, f", dimensions={_braces(op.attributes['permutation'])}"


@_rule("reverse")
def _reverse(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, operands, f", dimensions={_braces(op.attributes['dimensions'])}"


@_rule("concatenate")
def _concatenate(printer: _Printer, op: XlaOp, opcode: str, operands: str) -> _Written:
    return opcode, operands, f", dimensions={{{op.attributes['dimension']}}}"


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
        f"[{start}:{limit}:{stride}]"
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
    return opcode, operands, rest


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
