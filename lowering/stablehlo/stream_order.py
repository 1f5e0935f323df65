"""Check that the infeeds, and the outfeeds, of each computation are ordered.

XLA's Operation Semantics require that each infeed depends on the previous one, directly or through
other values; likewise each outfeed. An op that applies computations with infeeds (a loop, a
call, a conditional) counts as one infeed.
"""

from __future__ import annotations

from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import XlaOp
from lowering.errors import LoweringError


def check_order(computation: XlaComputation, called: tuple[XlaComputation, ...]) -> None:
    """Check that the infeeds, and the outfeeds, of each computation are ordered.

    Args:
        computation: the entry.
        called: the computations that are called and applied, callees before their callers.

    Raises:
        LoweringError: two infeeds, or two outfeeds, are unordered.
    """
    for stream in ("infeed", "outfeed"):
        with_stream: set[XlaComputation] = set()
        for each in (*called, computation):
            if _check(each, stream, with_stream):
                with_stream.add(each)


def _check(computation: XlaComputation, stream: str, with_stream: set[XlaComputation]) -> bool:
    """Check one computation, and return whether it contains ops of `stream`."""
    # Ops are recorded after their operands, so the only possible order is that of recording: each
    # op must depend on all `count` ops before it.
    previous: XlaOp | None = None
    count = 0
    dependencies: dict[int, int] = {}  # the number of such ops that an op depends on
    for op in computation.ops:
        depends_on = max((dependencies.get(operand.id, 0) for operand in op.operands), default=0)
        if op.opcode == stream or (
            with_stream and not with_stream.isdisjoint(called_in(op.attributes))
        ):
            if depends_on != count:
                assert previous is not None
                raise LoweringError(
                    f"{stream}s must be totally ordered, got "
                    f"{_op_text(op)} that does not depend on {_op_text(previous)}",
                    context=("lower", computation.name),
                    fix=f"pass the token of each {stream} to the next: xb.{stream}_with_token; a "
                    "loop carries the token in its state",
                    op=stream,
                )
            count += 1
            depends_on, previous = count, op
        if depends_on:
            dependencies[op.id] = depends_on
    return count > 0


def _op_text(op: XlaOp) -> str:
    place = f" at {op.source.file}:{op.source.line}" if op.source is not None else ""
    return f"{op.opcode}{place}"
