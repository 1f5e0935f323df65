"""Which arguments a program takes over the memory of.

A program's argument may lie in the memory that one of its results is written to (an alias), or be
left to the program to use as it likes (a donor). Both are facts of the entry: of a computation that
another applies XLA does not look at them.

XLA, HloInputOutputAliasConfig; HloBufferDonorConfig.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from builder.errors import BuilderError, ShapeInferenceError
from builder.types.shape import ArrayShape, Shape, TupleShape

__all__ = ["BufferDonor", "Donations", "InputOutputAlias", "leaf_indices"]

Index = tuple[int, ...]
"""A place in a nested tuple; () is the whole."""


class InputOutputAlias(NamedTuple):
    """A result that is written to the memory of an argument.

    Attributes:
        output_index: the place of the result in the root's tuple; () where the root is an array.
        param_number: the number of the parameter.
        param_index: the place in the parameter, if that is a tuple.
    """

    output_index: Index
    param_number: int
    param_index: Index = ()


class BufferDonor(NamedTuple):
    """An argument whose memory the program may use.

    Attributes:
        param_number: the number of the parameter.
        param_index: the place in the parameter, if that is a tuple.
    """

    param_number: int
    param_index: Index = ()


class Donations:
    """The aliases and donors of a program that is being recorded.

    Attributes:
        aliases: by the places of their results.
        donors: the donors, none of them in `aliases`.
    """

    __slots__ = ("aliases", "donors")

    def __init__(self) -> None:
        self.aliases: dict[Index, InputOutputAlias] = {}
        self.donors: list[BufferDonor] = []

    def add_alias(self, alias: InputOutputAlias, parameter: Shape | None) -> None:
        """Takes in an alias; `parameter` is the shape of the parameter, None if there is none.

        Raises:
            BuilderError: there is no such parameter; the result or the argument is taken already.
            ShapeInferenceError: the parameter has no such place.
        """
        self._need_free("setup_alias", alias.param_number, alias.param_index, parameter)
        taken = self.aliases.get(alias.output_index)
        if taken is not None:
            raise BuilderError(
                f"setup_alias: a result is written to the memory of one argument, got for output "
                f"{_braces(alias.output_index)}\n"
                f"  {_argument(taken.param_number, taken.param_index)}\n"
                f"  {_argument(alias.param_number, alias.param_index)}",
                op="setup_alias",
            )
        self.aliases[alias.output_index] = alias

    def add_donor(self, donor: BufferDonor, parameter: Shape | None) -> None:
        """Takes in a donor; raises as `add_alias`."""
        self._need_free("add_buffer_donor", donor.param_number, donor.param_index, parameter)
        self.donors.append(donor)

    def _need_free(self, op: str, number: int, index: Index, parameter: Shape | None) -> None:
        if parameter is None:
            raise BuilderError(
                f"{op}: there is no parameter {number} yet\n"
                f"fix: record the parameter first; parameters are numbered from 0",
                op=op,
            )
        _array_at(op, f"parameter {number}", parameter, index)
        said = [(one.param_number, one.param_index) for one in self.aliases.values()]
        said += [(one.param_number, one.param_index) for one in self.donors]
        if (number, index) in said:
            raise BuilderError(
                f"{op}: an argument is given away once, got {_argument(number, index)} again",
                op=op,
                shapes={f"parameter {number}": parameter},
            )

    def check_results(self, root: Shape, parameters: dict[int, Any]) -> None:
        """Holds the aliases against the shape of the program's result.

        Raises:
            ShapeInferenceError: the result has no such place, or the array there is of another
                shape than the argument.
        """
        for alias in self.aliases.values():
            result = _array_at("setup_alias", "the result", root, alias.output_index)
            whole = parameters[alias.param_number].shape
            argument = _array_at("setup_alias", "the parameter", whole, alias.param_index)
            if result is not argument:
                raise ShapeInferenceError(
                    f"setup_alias: a result and the argument whose memory it is written to must "
                    f"have one shape, got\n"
                    f"  output {_braces(alias.output_index)} {result}\n"
                    f"  {_argument(alias.param_number, alias.param_index)} {argument}",
                    op="setup_alias",
                    shapes={"output": result, "parameter": argument},
                )

    def sorted_aliases(self) -> tuple[InputOutputAlias, ...]:
        return tuple(sorted(self.aliases.values()))

    def sorted_donors(self) -> tuple[BufferDonor, ...]:
        return tuple(sorted(self.donors))


def _array_at(op: str, what: str, shape: Shape, index: Index) -> ArrayShape:
    """The array of fixed sizes at a place of a shape.

    Raises:
        ShapeInferenceError: there is none.
    """
    part: Shape | None = shape
    for number in index:
        inside = part.elements if isinstance(part, TupleShape) else ()
        part = inside[number] if 0 <= number < len(inside) else None
    if part is None:
        raise ShapeInferenceError(
            f"{op}: {what} has no place {_braces(index)}, got {shape}", op=op, shapes={what: shape}
        )
    if not isinstance(part, ArrayShape) or not part.is_static:
        fix = "\nfix: name its elements one by one" if isinstance(part, TupleShape) else ""
        raise ShapeInferenceError(
            f"{op}: only the memory of an array of fixed sizes is given away, got {part} at "
            f"{_braces(index)} of {what}{fix}",
            op=op,
            shapes={what: shape},
        )
    return part


def _braces(index: Index) -> str:
    return "{" + ",".join(map(str, index)) + "}"


def _argument(number: int, index: Index) -> str:
    return f"parameter {number}" + (f" at {_braces(index)}" if index else "")


def leaf_indices(shape: Shape) -> list[Index]:
    """For each leaf of a shape its place in the nested tuple."""
    found: list[Index] = []
    stack: list[tuple[Index, Shape]] = [((), shape)]
    while stack:
        index, part = stack.pop()
        if isinstance(part, TupleShape):
            stack.extend(((*index, i), e) for i, e in reversed([*enumerate(part.elements)]))
        else:
            found.append(index)
    return found
