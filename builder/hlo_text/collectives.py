"""Printer rules for collective ops that HLO text can't always express in one instruction."""

from __future__ import annotations

from collections.abc import Sequence

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.schema.syntax import braces
from builder.types.shape import UNBOUNDED, ArrayShape, intern_array


@rule("all_to_all")
def _all_to_all(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    split, concat = op.attributes["split_dimension"], op.attributes["concat_dimension"]
    attributes = printer.attributes_of(op)
    if split == concat:
        return name, operands, attributes
    # HLO concatenates along the dimension that it splits, so the blocks are transposed afterwards,
    # as in XLA's XlaBuilder.
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    count = op.attributes["split_count"]
    text = printer.helper(op, "blocks", source, name, operands, attributes)
    sizes = list(source.dimensions)
    size = sizes[split]
    sizes[split : split + 1] = [count, size if size == UNBOUNDED else size // count]
    text = printer.helper(op, "split", _with_sizes(source, sizes), "reshape", text)
    order = [d for d in range(len(sizes)) if d != split]
    order.insert(concat, split)
    shape = _with_sizes(source, [sizes[d] for d in order])
    dimensions = f", dimensions={braces(order)}"
    return "reshape", printer.helper(op, "moved", shape, "transpose", text, dimensions), ""


def _with_sizes(shape: ArrayShape, sizes: Sequence[int]) -> ArrayShape:
    return intern_array(shape.element_type, tuple(sizes), tuple(n == UNBOUNDED for n in sizes))
