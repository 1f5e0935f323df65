"""Collective ops that HLO text can't always express as recorded."""

from __future__ import annotations

from collections.abc import Sequence

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Printer, Written, rule
from builder.schema.kinds import braces
from builder.types.shape import ArrayShape, intern_array


@rule("all_to_all")
def _all_to_all(printer: Printer, op: XlaOp, name: str, operands: str) -> Written:
    split, concat = op.attributes["split_dimension"], op.attributes["concat_dimension"]
    attributes = printer.attributes_of(op)
    if split == concat:
        return name, operands, attributes
    # HLO concatenates along the dimension that it splits: the blocks are moved afterwards, as
    # XlaBuilder moves them.
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    count = op.attributes["split_count"]
    exchanged = printer.helper(op, "blocks", source, name, operands, attributes)
    sizes = list(source.dimensions)
    sizes[split : split + 1] = [count, sizes[split] // count]
    cut = printer.helper(op, "cut", _with_sizes(source, sizes), "reshape", exchanged)
    order = [d for d in range(len(sizes)) if d != split]
    order.insert(concat, split)
    moved = _with_sizes(source, [sizes[d] for d in order])
    there = printer.helper(op, "moved", moved, "transpose", cut, f", dimensions={braces(order)}")
    return "reshape", there, ""


def _with_sizes(shape: ArrayShape, sizes: Sequence[int]) -> ArrayShape:
    return intern_array(shape.element_type, tuple(sizes))
