"""The result of `lowering.compare`: differences between a device and the interpreter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from builder.graph.xla_op import XlaOp
from builder.inspection.table import count_text
from builder.support.display import Column, Displayed, Heading, Part, TextTable


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between an array on the device and in the reference interpreter.

    Attributes:
        op: the op with this value.
        path: the array's index in a tuple, such as `[0][1]`; empty if the value is an array.
        shape: the array's shape, as text.
        elements: the number of elements.
        ulps: the largest distance between an element on the device and in the interpreter, in units
            in the last place of the element type. For integers and booleans the distance is the
            difference; for computed complex numbers, the magnitude of the difference. The distance
            between a NaN and a finite number is infinite.
        tolerance: the largest distance of elements that count as equal.
        beyond: the number of elements whose distance exceeds the tolerance.
        index: the index of the elements with the largest distance; None if all are equal.
        device_value, reference_value: the elements at `index`, as text; empty if all are equal.
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
        """The source line of the op, "file:line"; None if unknown."""
        return None if self.op.source is None else str(self.op.source)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dict for JSON; an infinite distance is the text "inf"."""
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
        array = f"op {self.op.id} {self.op.opcode}{name}{self.path} {self.shape}"
        if self.index is None:
            return f"{array}: equal"
        index = ", ".join(map(str, self.index))
        text = (
            f"{array}: {ulps_text(self.ulps)} ulps apart at [{index}] (tolerance "
            f"{ulps_text(self.tolerance)}): {self.device_value} on the device, "
            f"{self.reference_value} in the reference"
        )
        if self.beyond:
            text += f"; {self.beyond} of {self.elements} elements are beyond the tolerance"
        return text + (f"; recorded at {self.source}" if self.source else "")


@dataclass(frozen=True, slots=True)
class Comparison(Displayed):
    """The result of `lowering.compare`.

    `str(comparison)` is a summary for people; `as_dict()` returns the data for programs.

    Attributes:
        name: the computation's name.
        device: the compared device, as text.
        from_reference: whether each op on the device had the interpreter's operands.
        results: a `Difference` for each array of the program's result, equal or not.
        ops: a `Difference` for each array in the value of an op, equal or not, in the order of
            recording. Parameters, constants, tuples and get_tuple_elements are omitted.
        left_out: the ops that the interpreter does not support. They are not compared: their values
            on the device were used on both sides.
    """

    name: str
    device: str
    from_reference: bool
    results: tuple[Difference, ...]
    ops: tuple[Difference, ...]
    left_out: tuple[XlaOp, ...]

    @property
    def first(self) -> Difference | None:
        """The first entry of `ops` that exceeds its tolerance; None if all ops agree."""
        return next((each for each in self.ops if not each.agrees), None)

    @property
    def agrees(self) -> bool:
        """Whether all ops, and the result of the program, are within the tolerances."""
        return all(each.agrees for each in (*self.ops, *self.results))

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dict for JSON."""
        first = self.first
        return {
            "name": self.name,
            "device": self.device,
            "from_reference": self.from_reference,
            "agrees": self.agrees,
            "first": None if first is None else first.as_dict(),
            "results": [each.as_dict() for each in self.results],
            "ops": [each.as_dict() for each in self.ops],
            "left_out": [{"op": op.id, "opcode": op.opcode} for op in self.left_out],
        }

    def _of_ops(self) -> str:
        """Return how many of the arrays in `ops` agree, as text."""
        arrays = count_text(len(self.ops), "array")
        beyond = sum(not each.agrees for each in self.ops)
        if beyond:
            are = "is beyond its" if beyond == 1 else "are beyond their"
            return f"{beyond:,} of {arrays} {are} tolerance"
        if not self.ops:
            return "no arrays of ops were compared"
        is_one = len(self.ops) == 1
        found = "within its tolerance" if is_one else "within their tolerance"
        if not any(each.ulps for each in self.ops):
            found = "equal"
        return f"{arrays} is {found}" if is_one else f"all {arrays} are {found}"

    def _verdict(self) -> str:
        if not self.agrees and self.first is None:
            return "a result is beyond its tolerance"
        return self._of_ops()

    def _parts(self) -> list[Part]:
        beyond = [each for each in self.ops if not each.agrees]
        worst = sorted(self.ops, key=lambda difference: -difference.ulps)
        # In the order of recording, because the first op that differs is often the cause.
        shown = beyond[:_SHOWN] if beyond else worst[:1]
        rows = [["", *_cells(each)] for each in shown]
        rows += [[f"result{each.path}", *_cells(each)] for each in self.results]
        more = len(beyond) - len(shown) if beyond else 0
        notes = [f"{count_text(more, 'more array')} beyond the tolerance"] if more else []
        if self.left_out:
            notes.append(f"not compared: {len(self.left_out)} ops, which the interpreter omits")
        reference = f"{self.device} and StableHLO's reference interpreter: {self._verdict()}"
        return [
            Heading("Comparison", self.name, reference),
            TextTable("", _COLUMNS, rows, "\n".join(notes)),
        ]

    def __repr__(self) -> str:
        return f"<Comparison {self.name!r} on {self.device}: {self._verdict()}>"

    def __str__(self) -> str:
        first = self.first
        lines = [f"{self.name} on {self.device} and on StableHLO's reference interpreter:"]
        if first is not None:
            how = "given equal operands" if self.from_reference else "in the order of recording"
            lines += [
                f"  the first op that differs from the reference, {how}:",
                f"    {first}",
                f"  {self._verdict()}",
            ]
        else:
            how = ", given equal operands" if self.from_reference else ""
            lines.append(f"  {self._of_ops()}{how}")
            worst = max(self.ops, key=lambda difference: difference.ulps, default=None)
            if worst is not None and worst.ulps:
                lines.append(f"  largest difference: {worst}")
        for difference in self.results:
            lines.append(f"  result{difference.path}: {_result_text(difference)}")
        if self.left_out:
            listed = ", ".join(f"op {op.id} {op.opcode}" for op in self.left_out[:5])
            more = "" if len(self.left_out) <= 5 else f" and {len(self.left_out) - 5} more"
            lines.append(
                f"  not compared, since the interpreter does not support these: {listed}{more}"
            )
        return "\n".join(lines)


_SHOWN: Final = 20

_COLUMNS: Final = (
    Column(""),
    Column("op", no_wrap=True, style="cyan"),
    Column("shape", style="green"),
    Column("ulps", is_number=True),
    Column("tolerance", is_number=True),
    Column("index", no_wrap=True),
    Column("on the device"),
    Column("reference"),
    Column("beyond", is_number=True),
    Column("source"),
)


def _cells(difference: Difference) -> list[str]:
    op, index = difference.op, difference.index
    name = "" if op.name is None else f" {op.name!r}"
    return [
        f"%{op.id}{name} {op.opcode}{difference.path}",
        difference.shape,
        ulps_text(difference.ulps),
        ulps_text(difference.tolerance),
        "" if index is None else f"[{', '.join(map(str, index))}]",
        difference.device_value,
        difference.reference_value,
        f"{difference.beyond:,} of {difference.elements:,}" if difference.beyond else "",
        (difference.source or "").replace("\\", "/").rpartition("/")[2],
    ]


def _result_text(result: Difference) -> str:
    if result.index is None:
        return "equal"
    verdict = "within" if result.agrees else "beyond"
    return (
        f"up to {ulps_text(result.ulps)} ulps apart, {verdict} the tolerance "
        f"{ulps_text(result.tolerance)}: "
        f"{result.device_value} on the device, {result.reference_value} in the reference"
    )


def ulps_text(ulps: float) -> str:
    """Format a number of ulps, such as "2.5" or "infinitely many"."""
    if not math.isfinite(ulps):
        return "infinitely many"
    if 0 < ulps < 10:  # for sums it may be a fraction
        return f"{ulps:.2g}"
    return f"{ulps:.0f}" if ulps < 1e7 else f"{ulps:.2e}"
