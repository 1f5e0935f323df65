"""Match the values of two computations, such as a port and its original, to find what differs.

Two programs of the same function have different ops, in another order. But most of their values
are the same. So values are matched by their elements, not by number: the ops whose operands occur
in the other program, but whose own value and all values computed from it do not, are those that
compute something else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, is_element, is_parameter, is_tuple, tuple_parts
from builder.inspection.parts import Column, Heading, Part, TextTable
from builder.inspection.table import count_text
from builder.support.display import Displayed
from builder.types.shape import Shape
from lowering.interpreter.tolerances import is_near, unit_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Correspondence(Displayed):
    """The result of `lowering.compare` with another computation as its reference.

    Attributes:
        name, reference: the names of the computation and of the reference.
        device: the device that ran both, as text.
        agrees: whether the results are equal, up to the errors that accumulate in them.
        pairs: a mapping from each op whose value also occurs in the reference to an op of the
            reference with this value.
        first: the first op whose operands occur in the reference, while neither its value nor any
            value computed from it does. None if the results are equal.
        counterpart: the op of the reference that is most likely meant to be `first`: one of the
            same kind on the same operands. None if there is none.
        largest: the largest difference of an element of `first` and `counterpart`; None if their
            shapes differ, or there is no counterpart.
    """

    name: str
    reference: str
    device: str
    agrees: bool
    pairs: Mapping[XlaOp, XlaOp]
    first: XlaOp | None
    counterpart: XlaOp | None
    largest: float | None

    def __repr__(self) -> str:
        found = "the results are equal" if self.agrees else f"first: {self.first!r}"
        return f"<Correspondence of {self.name!r} and {self.reference!r}: {found}>"

    def __str__(self) -> str:
        lines = [f"{self.name} and {self.reference} on {self.device}: {self._verdict()}"]
        if self.first is not None:
            lines += [f"  the first value that is not in {self.reference}:"]
            lines += [f"    {_described(self.first)}"]
            lines += [f"      operand {_described(operand)}" for operand in self.first.operands]
            if self.counterpart is not None:
                lines += [f"  {self.reference} computes from these operands:"]
                lines += [f"    {_described(self.counterpart)}{self._apart()}"]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dict for JSON; `matched` is the number of `pairs`."""

        def described(op: XlaOp | None) -> dict[str, Any] | None:
            if op is None:
                return None
            source = None if op.source is None else str(op.source)
            return {"op": op.id, "opcode": op.opcode, "shape": str(op.shape), "source": source}

        return {
            "name": self.name,
            "reference": self.reference,
            "device": self.device,
            "agrees": self.agrees,
            "matched": len(self.pairs),
            "first": described(self.first),
            "counterpart": described(self.counterpart),
            "largest": self.largest,
        }

    def _apart(self) -> str:
        if self.largest is None or self.counterpart is None or self.first is None:
            return ""
        return f", up to {self.largest:.6g} apart"

    def _verdict(self) -> str:
        same = f"{count_text(len(self.pairs), 'value')} in both"
        return f"the results are {'equal' if self.agrees else 'different'}, {same}"

    def _parts(self) -> list[Part]:
        ops = {self.name: self.first, self.reference: self.counterpart}
        rows = [[name, *_cells(op)] for name, op in ops.items() if op is not None]
        parts: list[Part] = [Heading("Correspondence", self.name, str(self).partition(": ")[2])]
        if rows:
            parts = [
                Heading("Correspondence", self.name, f"and {self.reference}: {self._verdict()}"),
                TextTable("the first value that differs", _COLUMNS, rows, self._apart()[2:]),
            ]
        return parts


_COLUMNS: Final = (
    Column("computation"),
    Column("op", no_wrap=True, style="cyan"),
    Column("shape", style="green"),
    Column("operands"),
    Column("source"),
)


def _cells(op: XlaOp) -> list[str]:
    operands = ", ".join(f"%{operand.id} {operand.shape}" for operand in op.operands)
    source = "" if op.source is None else str(op.source)
    return [f"%{op.id} {op.opcode}", str(op.shape), operands, source]


def _described(op: XlaOp) -> str:
    name = "" if op.name is None else f" {op.name!r}"
    source = "" if op.source is None else f", recorded at {op.source}"
    return f"%{op.id} {op.opcode}{name} {op.shape}{source}"


def corresponding(
    computation: XlaComputation,
    reference: XlaComputation,
    values: Mapping[XlaOp, Any],
    reference_values: Mapping[XlaOp, Any],
    device: str,
    allowed: Callable[[XlaOp, Array], Array],
) -> Correspondence:
    """Match the values of two computations.

    Args:
        computation, reference: the computations, of equal program shapes.
        values, reference_values: the values of their ops.
        device: the device that computed them, as text.
        allowed: returns, for an op and the ids of ops of the reference, the error in ulps up to
            which an array of the op is equal to an array of each of these.
    """
    (tolerance,) = allowed(computation.root, np.array([reference.root.id]))
    agrees = all(
        is_near(*pair, float(tolerance))
        for pair in zip(
            _arrays(values[computation.root]),
            _arrays(reference_values[reference.root]),
            strict=True,
        )
    )
    by_shape: dict[Shape, list[XlaOp]] = defaultdict(list)
    for op in reference.ops:
        if op.shape.is_array:
            by_shape[op.shape].append(op)
    candidates = {
        shape: Candidates(ops, [np.asarray(reference_values[op]) for op in ops])
        for shape, ops in by_shape.items()
    }
    pairs: dict[XlaOp, XlaOp] = {}
    latest = 0
    for op in computation.ops:
        others = candidates.get(op.shape)
        if others is None:
            continue
        found = others.find(op, np.asarray(values[op]), allowed(op, others.ids), latest)
        if found is not None:
            pairs[op] = found
            latest = found.id
    first = None if agrees else _first(computation, pairs, values)
    counterpart = None if first is None else _counterpart(first, pairs, reference)
    largest = None if first is None else _largest(first, counterpart, values, reference_values)
    return Correspondence(
        computation.name, reference.name, device, agrees, pairs, first, counterpart, largest
    )


def _arrays(value: Any) -> list[Array]:
    if isinstance(value, (tuple, list)):
        return [array for element in value for array in _arrays(element)]
    return [] if value is None else [np.asarray(value)]


_SAMPLES: Final = 64

_ROUNDING: Final = 1e-12
"""More than the rounding errors of a mean of `_SAMPLES` numbers, relative to the largest."""


class Candidates:
    """The ops of the reference that have arrays of one shape, to find one with a given value.

    Each array is compared first by the mean of a few elements, then by these elements, and then in
    full. All candidates are compared by their means at once, and few remain. So the time for an
    array hardly depends on the number of candidates.

    Attributes:
        ids: the ids of the ops.
    """

    def __init__(self, ops: Sequence[XlaOp], arrays: Sequence[Array]) -> None:
        self.ids: Final = np.array([op.id for op in ops])
        self._ops = ops
        self._arrays = arrays
        self._opcodes = np.array([op.opcode for op in ops])
        self._units = np.array([unit_of(array) for array in arrays])
        self._samples = np.stack([_samples(array) for array in arrays])
        with np.errstate(all="ignore"):
            self._means = _means(self._samples)
            self._rounding = _ROUNDING * np.abs(self._samples).max(axis=1, initial=0.0)

    def find(self, op: XlaOp, array: Array, ulps: Array, latest: int) -> XlaOp | None:
        """Return the op whose array is equal to `array`; None if there is none.

        Of several, it is one of the same kind rather than another one with the same value, such as
        a copy; and the one nearest to the last match, because programs compute most values in the
        same order.

        Args:
            op: the op of the computation.
            array: its value.
            ulps: the error in ulps up to which `array` is equal to the array of each candidate.
            latest: the id of the last match.
        """
        samples = _samples(array)
        with np.errstate(all="ignore"):
            errors = ulps * self._units
            # Negated, so that a candidate with a NaN remains.
            is_far = np.abs(self._means - _means(samples[None])) > errors + self._rounding
            near = np.flatnonzero(~is_far)
            distance = np.abs(self.ids[near] - latest)
            near = near[np.lexsort((distance, self._opcodes[near] != op.opcode))]
            start, count = 0, 8
            while start < len(near):
                block = near[start : start + count]
                rows = self._samples[block]
                is_equal = (rows == samples) | (np.isnan(rows) & np.isnan(samples))
                is_equal |= np.abs(rows - samples) <= errors[block, None]
                for number in map(int, block[is_equal.all(axis=1)]):
                    if is_near(array, self._arrays[number], float(ulps[number])):
                        return self._ops[number]
                start, count = start + count, count * 8
        return None


def _samples(array: Array) -> Array:
    """Return a few elements of an array."""
    flat = array.reshape(-1)
    wide: type = np.complex128 if np.iscomplexobj(array) else np.float64
    with np.errstate(all="ignore"):
        samples: Array = flat[:: max(1, flat.size // _SAMPLES)].astype(wide)
    return samples


def _means(samples: Array) -> Array:
    """Return the mean of each row; 0 for rows without elements."""
    means: Array = samples.sum(axis=1) / max(1, samples.shape[1])
    return means


def _first(
    computation: XlaComputation, pairs: Mapping[XlaOp, XlaOp], values: Mapping[XlaOp, Any]
) -> XlaOp | None:
    """Return the first op whose operands have counterparts, but no value computed from it has.

    An op with several results, such as a loop, has a counterpart if each result that is used has.
    """
    ops = computation.ops
    elements: dict[XlaOp, list[XlaOp]] = defaultdict(list)
    varies: dict[XlaOp, bool] = {}  # whether the op depends on a parameter
    for op in ops:
        varies[op] = is_parameter(op) or any(varies[o] for o in op.operands)
        if is_element(op):
            elements[op.operands[0]].append(op)

    def is_known(op: XlaOp) -> bool:
        if is_tuple(op):
            return all(map(is_known, op.operands))
        if op.shape.is_array:
            return op in pairs or not varies[op]
        return all(map(is_known, elements[op]))

    leads_on: set[XlaOp] = set()  # the ops from which a value with a counterpart is computed
    for op in reversed(ops):
        if op in leads_on or (op in pairs and _is_evidence(values[op])):
            has_no_reader = is_element(op) and op not in leads_on
            # A result that a loop passes on unchanged does not show that the others are right.
            leads_on.update(() if has_no_reader else op.operands)
    missing = [
        op
        for op in ops
        if op.opcode not in _STRUCTURE and op not in leads_on and varies[op] and not is_known(op)
    ]
    ready = (op for op in missing if all(map(is_known, op.operands)))
    return next(ready, missing[0] if missing else None)


_STRUCTURE: Final = ("tuple", "get_tuple_element")


def _is_evidence(value: Any) -> bool:
    """Whether equal values of two programs are no coincidence: an array with different elements."""
    array = np.asarray(value)
    return bool(array.size > 1 and (array != array.reshape(-1)[0]).any())


def _counterpart(
    op: XlaOp, pairs: Mapping[XlaOp, XlaOp], reference: XlaComputation
) -> XlaOp | None:
    """Return the op of the reference on the counterparts of an op's operands."""
    wanted = {pairs[operand] for operand in _arrays_in(op.operands) if operand in pairs}
    found = set(pairs.values())

    def likeness(other: XlaOp) -> tuple[int, int, int]:
        shared = len(wanted.intersection(_arrays_in(other.operands)))
        return int(other.opcode == op.opcode), shared, int(other.shape is op.shape)

    candidates = [
        other
        for other in reference.ops
        if other not in found
        and other.opcode not in _STRUCTURE
        and wanted.intersection(_arrays_in(other.operands))
    ]
    return max(candidates, key=likeness, default=None)


def _arrays_in(operands: Sequence[XlaOp]) -> list[XlaOp]:
    """Return operands, with the elements of tuples in place of the tuples."""
    return [each for operand in operands for each in tuple_parts(operand)]


def _largest(
    op: XlaOp,
    counterpart: XlaOp | None,
    values: Mapping[XlaOp, Any],
    reference_values: Mapping[XlaOp, Any],
) -> float | None:
    """Return the largest difference of two ops' elements; None if these do not correspond."""
    if counterpart is None or op.shape is not counterpart.shape or not op.shape.is_array:
        return None
    with np.errstate(all="ignore"):
        a, b = np.asarray(values[op]), np.asarray(reference_values[counterpart])
        wide: type = np.complex128 if np.iscomplexobj(a) else np.float64
        return float(np.abs(a.astype(wide) - b.astype(wide)).max(initial=0.0))
