"""What `lowering.compare` found: differences between a device and the reference interpreter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from builder.graph.xla_op import XlaOp

__all__ = ["Comparison", "Difference"]


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one array of the device's is from that of the reference interpreter.

    Attributes:
        op: whose value it is.
        path: its place, where the value is a tuple: "[0][1]"; else empty.
        shape: the array's shape, as text.
        elements: how many elements it has.
        ulps: the largest distance of two elements, in units in the last place of the element type;
            of integers and booleans their difference. Infinite between a NaN and a number.
        tolerance: up to which distance they count as the same.
        beyond: how many elements are farther apart than that.
        index: the place of the two elements that are farthest apart; None if all are the same.
        device_value, reference_value: these elements, as text; empty if all are the same.
    """

    op: XlaOp
    path: str
    shape: str
    elements: int
    ulps: float
    tolerance: float
    beyond: int
    index: tuple[int, ...] | None
    device_value: str
    reference_value: str

    @property
    def agrees(self) -> bool:
        """Whether all elements are within the tolerance."""
        return self.beyond == 0

    @property
    def source(self) -> str | None:
        """The line that recorded the op, "file:line"; None where that isn't known."""
        found = self.op.source
        return None if found is None else str(found)

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON; an infinite distance is the text "inf"."""
        return {
            "op": self.op.id,
            "opcode": self.op.opcode,
            "name": self.op.name,
            "path": self.path,
            "shape": self.shape,
            "elements": self.elements,
            "ulps": self.ulps if math.isfinite(self.ulps) else "inf",
            "tolerance": self.tolerance,
            "beyond": self.beyond,
            "agrees": self.agrees,
            "index": None if self.index is None else list(self.index),
            "device": self.device_value or None,
            "reference": self.reference_value or None,
            "source": self.source,
        }

    def __str__(self) -> str:
        name = f" {self.op.name!r}" if self.op.name else ""
        what = f"op {self.op.id} {self.op.opcode}{name}{self.path} {self.shape}"
        if self.index is None:
            return f"{what}: the same"
        place = ", ".join(map(str, self.index))
        text = (
            f"{what}: {ulps_text(self.ulps)} ulps apart at [{place}] (tolerance "
            f"{ulps_text(self.tolerance)}): {self.device_value} on the device, "
            f"{self.reference_value} in the reference"
        )
        if self.beyond:
            text += f"; {self.beyond} of {self.elements} elements are beyond the tolerance"
        return text + (f"; recorded at {self.source}" if self.source else "")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `lowering.compare` found.

    `str(comparison)` is a few lines for people, `as_dict()` the same for programs.

    Attributes:
        name: the computation's name.
        device: the device that was compared with the interpreter, as text.
        from_reference: whether each op had the interpreter's operands on the device.
        results: a difference for each array of the result of the program as it is, compiled for
            the device as a whole.
        ops: a difference for each array that an op of the program gives, in the order of
            recording. (Parameters and constants, which are given, and what only holds values of
            others, tuples and their elements, are left out.)
        left_out: the ops that the interpreter lacks: the values of the device were taken for these,
            and so they are not compared.
    """

    name: str
    device: str
    from_reference: bool
    results: tuple[Difference, ...]
    ops: tuple[Difference, ...]
    left_out: tuple[XlaOp, ...]

    @property
    def first(self) -> Difference | None:
        """The first op whose value is beyond its tolerance; None if there is none."""
        return next((one for one in self.ops if not one.agrees), None)

    @property
    def agrees(self) -> bool:
        """Whether all ops, and the result of the program as a whole, are within the tolerances."""
        return all(one.agrees for one in (*self.ops, *self.results))

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON: numbers, texts, lists and dicts."""
        first = self.first
        return {
            "name": self.name,
            "device": self.device,
            "from_reference": self.from_reference,
            "agrees": self.agrees,
            "first": None if first is None else first.as_dict(),
            "results": [one.as_dict() for one in self.results],
            "ops": [one.as_dict() for one in self.ops],
            "left_out": [{"op": op.id, "opcode": op.opcode} for op in self.left_out],
        }

    def __str__(self) -> str:
        first = self.first
        lines = [f"{self.name} on {self.device} and on StableHLO's reference interpreter:"]
        if first is not None:
            count = sum(not one.agrees for one in self.ops)
            how = "given equal operands" if self.from_reference else "in the order of recording"
            lines += [
                f"  the first op that parts from the reference, {how}:",
                f"    {first}",
                f"  {count} of {len(self.ops)} arrays are beyond their tolerance",
            ]
        else:
            how = ", given equal operands" if self.from_reference else ""
            lines.append(f"  all {len(self.ops)} arrays are within their tolerance{how}")
            if self.ops:
                worst = max(self.ops, key=lambda one: one.ulps)
                lines.append(f"  farthest apart: {worst}")
        for one in self.results:
            lines.append(f"  result{one.path}: {_result_text(one)}")
        if self.left_out:
            listed = ", ".join(f"op {op.id} {op.opcode}" for op in self.left_out[:5])
            more = "" if len(self.left_out) <= 5 else f" and {len(self.left_out) - 5} more"
            lines.append(f"  not compared, since the interpreter lacks them: {listed}{more}")
        return "\n".join(lines)


def _result_text(one: Difference) -> str:
    if one.index is None:
        return "the same"
    verdict = "within" if one.agrees else "beyond"
    return (
        f"up to {ulps_text(one.ulps)} ulps apart, {verdict} {ulps_text(one.tolerance)}: "
        f"{one.device_value} on the device, {one.reference_value} in the reference"
    )


def ulps_text(ulps: float) -> str:
    """A number of ulps as people read it."""
    if not math.isfinite(ulps):
        return "infinitely many"
    if 0 < ulps < 10:  # of sums it need not be a whole number
        return f"{ulps:.2g}"
    return f"{ulps:.0f}" if ulps < 1e7 else f"{ulps:.2e}"
