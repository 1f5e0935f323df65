"""Elements as symbols: which elements of the operands an element of the result is computed from.

Each element of each operand has a number. An element of a result is a tuple of terms that a reducer
joins, and a term is a tuple of elements that are multiplied. An op that only moves elements has
results of one term with one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.registry import registrar
from builder.graph.xla_op import XlaOp, constant_value, is_parameter
from builder.schema.definition import SCHEMAS
from builder.types.shape import ArrayShape

Numbers = npt.NDArray[np.int64]
"""The number of an element at each index; -1 for none."""

Term = tuple[int, ...]
Value = tuple[Term, ...]
Values = npt.NDArray[np.object_]
"""The `Value` at each index."""

_SINGULAR: Final = {"*operands": "operand", "*init_values": "init_value", "*updates": "update"}


class Join(NamedTuple):
    """How the terms of an element are joined: by a symbol between them, or by a function.

    Example:
        >>> Join("+", True).text(["a0", "a1"]), Join("max", False).text(["a0", "a1"])
        ('a0 + a1', 'max(a0, a1)')
    """

    name: str
    is_symbol: bool

    def text(self, terms: Sequence[str]) -> str:
        if len(terms) == 1:
            return terms[0]
        return (
            f" {self.name} ".join(terms) if self.is_symbol else f"{self.name}({', '.join(terms)})"
        )


SUM: Final = Join("+", True)


def join_of(computation: XlaComputation) -> Join:
    """Return how a reducer joins two elements; other computations are functions with their name."""
    root = computation.root
    parameters = {op for op in root.operands if is_parameter(op)}
    if len(parameters) == 2 == len(root.operands):
        monoid = SCHEMAS[root.opcode].monoid
        if monoid is not None:
            return Join(monoid.symbol, monoid.is_infix)
    return Join(computation.name, False)


class Outcome(NamedTuple):
    """What a rule returns: the elements of each result, and how their terms are joined."""

    results: Sequence[Values]
    join: Join = SUM


@dataclass
class Context:
    """The op to explain, and what its rule reads.

    Attributes:
        op: the op.
        numbers: for each participant of a collective the numbers of the elements of each operand;
            other ops have one participant.
        given: the values of operands that the user has passed, by the operand's number.
        known: the values of operands that the rule has read.
        notes: sentences for the picture.
        groups: the groups of participants of a collective op.
    """

    op: XlaOp
    numbers: list[list[Numbers]]
    given: Mapping[int, npt.NDArray[Any]]
    known: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    groups: tuple[tuple[int, ...], ...] = ((0,),)

    @property
    def operands(self) -> list[Numbers]:
        return self.numbers[0]

    @property
    def attributes(self) -> Mapping[str, Any]:
        return self.op.attributes

    def data(self, number: int, example: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of an operand: those given, those of a constant, or the example."""
        operand = self.op.operands[number]
        values = self.given[number] if number in self.given else constant_value(operand)
        if values is None:
            values = example
            self.note(
                f"{operand_name(self.op, number)} is not a constant: its values here are an example"
            )
        self.known[number] = values
        return values

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


Rule = Callable[[Context], Outcome]

RULES: Final[dict[str, Rule]] = {}
"""The functions that compute what a picture shows, by opcode."""

drawn = registrar(RULES)
"""Decorator: ``@drawn("pad")`` registers the function for an opcode."""


def operand_name(op: XlaOp, number: int) -> str:
    """Return the name of an operand, with its number if there are several of the name."""
    names = operand_names(op)
    return names[number] if number < len(names) else f"operand {number}"


def operand_names(op: XlaOp) -> list[str]:
    """Return the name of each operand, numbered where several have one name.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> operand_names(xb.dynamic_slice(b.parameter(xb.f32[4, 4]), [0, 1], [2, 2]))
        ['operand', 'start_indices[0]', 'start_indices[1]']
    """
    schema = SCHEMAS[op.opcode].operands.split()
    count = len(op.operands)
    variadic = [name for name in schema if name.startswith("*")]
    each = (count - (len(schema) - len(variadic))) // max(len(variadic), 1)
    names = []
    for name in schema:
        if not name.startswith("*"):
            names.append(name)
        elif each == 1:
            names.append(_SINGULAR.get(name, name[1:]))
        else:
            names += [f"{name[1:]}[{index}]" for index in range(each)]
    return names


def moved(numbers: Numbers) -> Values:
    """Return elements that are copies: each has the number of its source."""
    values = np.empty(numbers.shape, object)
    flat = values.reshape(-1)
    for index, number in enumerate(numbers.reshape(-1).tolist()):
        flat[index] = () if number < 0 else ((number,),)
    return flat.reshape(numbers.shape)


def joined(sizes: Sequence[int], terms: Callable[[tuple[int, ...]], Iterable[Term]]) -> Values:
    """Return elements that are joined from the terms of each index."""
    values = np.empty(tuple(sizes), object)
    for index in np.ndindex(*sizes):
        values[index] = tuple(terms(index))
    return values


def sizes_of(op: XlaOp) -> tuple[int, ...]:
    """Return the sizes of the array that an op returns."""
    sizes: tuple[int, ...] = op.shape.dimensions  # type: ignore[union-attr]  # checked by `explain`
    return sizes


def one_operand(op: XlaOp, count: int) -> None:
    """Refuse an op with several operands that are reduced together.

    Raises:
        ShapeInferenceError: `count` is not 1.
    """
    if count != 1:
        rule = f"a {op.opcode} of several operands has no picture"
        raise error_of(
            ShapeInferenceError,
            "explain",
            rule,
            "explain the op with one operand",
            got=f"{count} operands",
        )


def checked_values(op: XlaOp, values: Mapping[str, Any] | None) -> dict[int, npt.NDArray[Any]]:
    """Return the values of operands that the user has passed, by the number of the operand.

    Raises:
        OperandError: `values` is not a mapping, has a name of no operand, or values that do not
            fit the operand's shape.
    """
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        rule = "values must be a mapping from names of operands to arrays"
        raise error_of(OperandError, "explain", rule, got=brief(values))
    names = operand_names(op)
    checked = {}
    for name, value in values.items():
        if name not in names:
            rule = f"values must have names of operands of {op.opcode}"
            fix = f"write one of {', '.join(names)}"
            raise error_of(OperandError, "explain", rule, fix, got=brief(name))
        number = names.index(name)
        shape = op.operands[number].shape
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, OverflowError):  # lists of different lengths, for instance
            array = np.empty(0, object)
        sizes = shape.dimensions if isinstance(shape, ArrayShape) else None
        if array.shape != sizes or array.dtype.kind not in "biuf":
            rule = f"the values of {name} must be numbers of the shape {shape}"
            raise error_of(OperandError, "explain", rule, got=brief(value))
        if array.dtype.kind == "f" and np.isnan(array).any():
            rule = f"the values of {name} must be numbers"
            raise error_of(
                OperandError, "explain", rule, "replace NaN by a number", got=brief(value)
            )
        checked[number] = array
    return checked
