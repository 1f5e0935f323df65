"""Infeeds, and outfeeds, of a computation are in one order: a rule of the document, checked.

Each must take, directly or through other values, what the one before gave. An op whose
computations hold infeeds counts as one of them: a loop, a call, a conditional.
"""

from __future__ import annotations

from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import XlaOp
from lowering.errors import LoweringError

__all__ = ["check_order"]


def check_order(computation: XlaComputation, called: tuple[XlaComputation, ...]) -> None:
    """Raises unless infeeds, and outfeeds, are in one order in each computation.

    Args:
        computation: the entry.
        called: the computations that are called and applied, callees before their callers.

    Raises:
        LoweringError: two are in no order.
    """
    for stream in ("infeed", "outfeed"):
        holding: set[XlaComputation] = set()
        for one in (*called, computation):
            if _check(one, stream, holding):
                holding.add(one)


def _check(computation: XlaComputation, stream: str, holding: set[XlaComputation]) -> bool:
    """Whether a computation holds such ops; raises unless they are in one order."""
    # Ops are recorded after their operands. So the order can only be that of recording: of n ops
    # before, each op that comes next must have all n behind it.
    before: XlaOp | None = None
    count = 0
    behind: dict[int, int] = {}
    for op in computation.ops:
        most = max((behind.get(operand.id, 0) for operand in op.operands), default=0)
        if op.opcode == stream or (
            holding and any(one in holding for one in called_in(op.attributes))
        ):
            if most != count:
                assert before is not None
                raise LoweringError(
                    f"lower: {computation.name}: {stream}s must be in one order, got "
                    f"{_said(op)} that does not wait for {_said(before)}\n"
                    f"fix: give it the token of the one before: xb.{stream}_with_token; a loop "
                    f"carries the token in its state",
                    op=stream,
                )
            count += 1
            most, before = count, op
        if most:
            behind[op.id] = most
    return count > 0


def _said(op: XlaOp) -> str:
    place = f" at {op.source.file}:{op.source.line}" if op.source is not None else ""
    return f"{op.opcode}{place}"
