"""The grids of a picture: what each cell shows, and which cells have one colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Final

import numpy as np

from builder.errors import OperandError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.inspection.explaining.elements import (
    Context,
    Join,
    Numbers,
    Outcome,
    Value,
    Values,
    operand_name,
)
from builder.inspection.table import constant_text
from builder.types.shape import leaves

_MAX_LABEL: Final = 22


@dataclass(frozen=True, slots=True)
class Box:
    """A cell.

    Attributes:
        label: the text in the cell.
        hover: the text under the mouse.
        colour: the place of its colour in a circle of colours, from 0 to 1; None for no colour.
        is_outlined: whether the cell is outlined.
    """

    label: str
    hover: str
    colour: float | None
    is_outlined: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """An array: its heading, its sizes, and its cells in row-major order."""

    title: str
    sizes: tuple[int, ...]
    boxes: Sequence[Box]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a picture shows.

    Attributes:
        title: the op.
        operands, results: the grids.
        notes: sentences below the grids.
    """

    title: str
    operands: Sequence[Grid]
    results: Sequence[Grid]
    notes: Sequence[str]
    numbers: Sequence[Numbers]
    values: Sequence[Values]

    def sources(
        self, result: int, index: tuple[int, ...]
    ) -> list[list[tuple[int, tuple[int, ...]]]]:
        """Return the elements that an element is computed from; see `Explanation.sources`."""
        try:
            value: Value | None = self.values[result][index]
        except (IndexError, TypeError):
            value = None
        if type(value) is not tuple:
            shapes = [values.shape for values in self.values]
            rule = f"the results have the sizes {brief(shapes)}"
            got = f"the result {brief(result)} and the index {brief(index)}"
            raise error_of(OperandError, "sources", rule, got=got)
        return [[self._place(number) for number in term] for term in value]

    def _place(self, number: int) -> tuple[int, tuple[int, ...]]:
        for operand, numbers in enumerate(self.numbers):
            first = int(numbers.flat[0]) if numbers.size else 0
            if numbers.size and first <= number < first + numbers.size:
                return operand, tuple(map(int, np.unravel_index(number - first, numbers.shape)))
        raise AssertionError(number)  # numbers are those of operands


def scene_of(
    context: Context, operands: Sequence[XlaOp], outcome: Outcome, is_collective: bool
) -> Scene:
    """Return what the picture of an op shows."""
    op = context.op
    flat = [array for arrays in context.numbers for array in arrays]
    names, labels, titles = _labelled(context, operands, is_collective)
    moves = all(len(value) <= 1 and all(len(t) == 1 for t in value) for value in _every(outcome))
    colours, by_result = _colours(outcome, flat, moves)
    focus = _focus(outcome) if not moves and by_result is None else None
    focused = {number for term in focus[1] for number in term} if focus is not None else set()

    grids = []
    for heading, numbers in zip(titles, flat, strict=True):
        boxes = [
            Box(labels[number], names[number], colours.get(number), number in focused)
            for number in numbers.reshape(-1).tolist()
        ]
        grids.append(Grid(heading, numbers.shape, boxes))
    results = []
    notes = list(context.notes)
    place = 0
    for number, values in enumerate(outcome.results):
        boxes = []
        flat_values: list[Value] = values.reshape(-1).tolist()
        formulas = [_formula(value, labels, outcome.join) for value in flat_values]
        is_long = any(len(formula) > _MAX_LABEL for formula in formulas)
        places = np.ndindex(*values.shape)
        for index, value, formula in zip(places, flat_values, formulas, strict=True):
            is_focus = focus is not None and focus[0] == place
            colour = by_result[place] if by_result is not None else None
            if moves:
                colour = colours.get(value[0][0]) if value else None
            label = f"{len(value)} terms" if is_long and len(value) != 1 else formula
            where = f"[{', '.join(map(str, index))}]" if index else ""
            hover = f"result{where} = {formula}"
            boxes.append(Box(label, hover, colour, is_focus))
            if is_focus:
                notes.insert(0, hover)
            place += 1
        title = _result_title(op, number, len(outcome.results), context, is_collective)
        results.append(Grid(title, values.shape, boxes))
    return Scene(op.opcode, grids, results, notes, flat, outcome.results)


def _labelled(
    context: Context, operands: Sequence[XlaOp], is_collective: bool
) -> tuple[dict[int, str], dict[int, str], list[str]]:
    """Return the name and the label of each element, and the titles of the operands."""
    names: dict[int, str] = {}
    labels: dict[int, str] = {}
    titles = []
    letters = iter(_letters(sum(map(len, context.numbers))))
    for participant, arrays in enumerate(context.numbers):
        for number, (operand, array) in enumerate(zip(operands, arrays, strict=True)):
            letter = next(letters)
            name = operand_name(context.op, number)
            known = context.known.get(number)
            title = f"{name} of replica {participant}" if is_collective else name
            titles.append(f"{title}  {operand.shape}")
            for place, (index, element) in enumerate(np.ndenumerate(array)):
                key = int(element)
                label = f"{letter}{place}" if array.ndim else letter
                where = f"{name}[{', '.join(map(str, index))}]" if index else name
                if known is not None:
                    where += f" = {_number(known[index])}"
                    label = _number(known[index]) if _is_index(context, number) else label
                elif operand.opcode == "constant" and not array.ndim:
                    label = constant_text(operand.attributes["value"], operand.shape.element_type)
                names[key], labels[key] = where, label
            if known is not None and not _is_index(context, number):
                for index, element in np.ndenumerate(array):
                    labels[int(element)] += f"={_number(known[index])}"
    return names, labels, titles


def _is_index(context: Context, number: int) -> bool:
    """Return whether the elements of an operand are indices, which the result does not contain."""
    return "indices" in operand_name(context.op, number)


def _number(value: object) -> str:
    return f"{float(value):g}"  # type: ignore[arg-type]  # an element of an array of numbers


def _letters(count: int) -> list[str]:
    if count <= len(ascii_lowercase):
        return list(ascii_lowercase[:count])
    return [f"{ascii_lowercase[i // 26]}{ascii_lowercase[i % 26]}_" for i in range(count)]


def _every(outcome: Outcome) -> list[Value]:
    return [value for values in outcome.results for value in values.reshape(-1).tolist()]


def _colours(
    outcome: Outcome, operands: Sequence[Numbers], moves: bool
) -> tuple[dict[int, float], list[float | None] | None]:
    """Return the colours of operand elements, and those of results if each element has one result.

    Elements that are used everywhere, such as an init value, have no colour.
    """
    every = _every(outcome)
    scalars = {int(array) for array in operands if not array.ndim}
    if moves:
        used = sorted({term[0] for value in every for term in value} - scalars)
        return {number: place / max(len(used), 1) for place, number in enumerate(used)}, None
    # Replicas may have equal results, which have one colour.
    distinct = {value: {n for term in value for n in term} - scalars for value in every}
    uses = Counter(number for own in distinct.values() for number in own)
    if any(count > 1 for count in uses.values()):
        return {}, None
    coloured = [value for value, own in distinct.items() if own]
    of_value = {value: place / len(coloured) for place, value in enumerate(coloured)}
    colours = {n: colour for value, colour in of_value.items() for n in distinct[value]}
    return colours, [of_value.get(value) for value in every]


def _focus(outcome: Outcome) -> tuple[int, Value] | None:
    """Return the place and the value of the first element with the most terms."""
    every = list(enumerate(_every(outcome)))
    return max(every, key=lambda pair: (len(pair[1]), -pair[0]), default=None)


def _formula(value: Value, labels: Mapping[int, str], join: Join) -> str:
    if not value:
        return "0"
    return join.text(["·".join(labels[number] for number in term) for term in value])


def _result_title(op: XlaOp, number: int, count: int, context: Context, is_collective: bool) -> str:
    arrays = list(leaves(op.shape))
    shape = arrays[number % len(arrays)]
    name = f"result[{number % len(arrays)}]" if len(arrays) > 1 else "result"
    if is_collective:
        name += f" of replica {number // (count // len(context.numbers))}"
    return f"{name}  {shape}"
