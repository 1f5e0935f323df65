"""Donated arguments: aliases and donors.

A program may write a result to the memory of an argument (an alias), or use an argument's memory
for any purpose (a donor). Both are properties of the entry computation: XLA ignores them in a
computation that another computation calls.

XLA, HloInputOutputAliasConfig; HloBufferDonorConfig.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from builder.errors import BuilderError, ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, Shape, TupleShape, element_at

Index = tuple[int, ...]
"""The index of a value in a nested tuple; () is the tuple or array itself."""


class InputOutputAlias(NamedTuple):
    """A result that is written to the memory of an argument.

    Attributes:
        output_index: the index of the result in the root's tuple; () if the root is an array.
        param_number: the number of the parameter.
        param_index: the index in the parameter if the parameter is a tuple, otherwise ().
    """

    output_index: Index
    param_number: int
    param_index: Index = ()


class BufferDonor(NamedTuple):
    """An argument whose memory the program may reuse.

    Attributes:
        param_number: the number of the parameter.
        param_index: the index in the parameter if the parameter is a tuple, otherwise ().
    """

    param_number: int
    param_index: Index = ()


class Donations:
    """The aliases and donors of a program that is being recorded.

    Attributes:
        aliases: the aliases, by output index.
        donors: the donors, none of them in `aliases`.
    """

    def __init__(self) -> None:
        self.aliases: dict[Index, InputOutputAlias] = {}
        self.donors: list[BufferDonor] = []

    def add_alias(self, alias: InputOutputAlias, parameter: XlaOp | None) -> None:
        """Add an alias. `parameter` is the aliased parameter, or None if it is not recorded yet.

        Raises:
            BuilderError: there is no such parameter; the result or the argument is already aliased
                or donated.
            ShapeInferenceError: the parameter has no array of fixed sizes at `alias.param_index`.
        """
        self._check_argument("setup_alias", alias.param_number, alias.param_index, parameter)
        existing = self.aliases.get(alias.output_index)
        if existing is not None:
            raise BuilderError(
                "a result can alias only one argument",
                got="two for output "
                f"{_braces(alias.output_index)}\n"
                f"  {_argument(existing.param_number, existing.param_index)}\n"
                f"  {_argument(alias.param_number, alias.param_index)}",
                op="setup_alias",
            )
        self.aliases[alias.output_index] = alias

    def add_donor(self, donor: BufferDonor, parameter: XlaOp | None) -> None:
        """Add a donor. `parameter` is the donated parameter, or None if it is not recorded yet.

        Raises:
            BuilderError: there is no such parameter; the argument is already aliased or donated.
            ShapeInferenceError: the parameter has no array of fixed sizes at `donor.param_index`.
        """
        self._check_argument("add_buffer_donor", donor.param_number, donor.param_index, parameter)
        self.donors.append(donor)

    def _check_argument(self, op: str, number: int, index: Index, parameter: XlaOp | None) -> None:
        if parameter is None:
            rule = f"there is no parameter {number} yet"
            fix = "record the parameter first; parameters are numbered from 0"
            raise error_of(BuilderError, op, rule, fix)
        _array_at(op, f"parameter {number}", parameter.shape, index)
        donated = [(alias.param_number, alias.param_index) for alias in self.aliases.values()]
        donated += [(donor.param_number, donor.param_index) for donor in self.donors]
        if (number, index) in donated:
            rule = "an argument can be donated only once"
            raise error_of(
                BuilderError,
                op,
                rule,
                got=f"{_argument(number, index)} again",
                shapes={f"parameter {number}": parameter.shape},
            )

    def check_results(self, root: Shape, parameters: dict[int, Any]) -> None:
        """Check the aliases against the shape of the program's result.

        Raises:
            ShapeInferenceError: the result has no array of fixed sizes at the output index of an
                alias, or the shape of that array differs from the argument's.
        """
        for alias in self.aliases.values():
            result = _array_at("setup_alias", "the result", root, alias.output_index)
            parameter = parameters[alias.param_number].shape
            argument = _array_at("setup_alias", "the parameter", parameter, alias.param_index)
            if result is not argument:
                raise ShapeInferenceError(
                    "a result and the argument that it aliases must have the same shape",
                    got=f"\n  output {_braces(alias.output_index)} {result}\n"
                    f"  {_argument(alias.param_number, alias.param_index)} {argument}",
                    op="setup_alias",
                    shapes={"output": result, "parameter": argument},
                )


def _array_at(op: str, what: str, shape: Shape, index: Index) -> ArrayShape:
    """Return the shape of the array at `index` of `shape`; its sizes must be fixed.

    Raises:
        ShapeInferenceError: there is no array of fixed sizes at `index`.
    """
    part = element_at(shape, index)
    if part is None:
        rule = f"{what} has no element {_braces(index)}, its shape is {shape}"
        fix = "write the index {} for an array" if isinstance(shape, ArrayShape) else ""
        raise error_of(ShapeInferenceError, op, rule, fix, shapes={what: shape})
    if not isinstance(part, ArrayShape) or not part.is_static:
        place = f"{_braces(index)} of {what}"
        rule = "only arrays of fixed sizes can be aliased or donated"
        fix = "pass the index of each element separately" if isinstance(part, TupleShape) else ""
        raise error_of(
            ShapeInferenceError, op, rule, fix, got=f"{part} at {place}", shapes={what: shape}
        )
    return part


def _braces(index: Index) -> str:
    return "{" + ",".join(map(str, index)) + "}"


def _argument(number: int, index: Index) -> str:
    return f"parameter {number}" + (f" at {_braces(index)}" if index else "")


def leaf_indices(shape: Shape) -> list[Index]:
    """Return the index of each leaf (array or token) of a shape, in order."""
    indices: list[Index] = []
    stack: list[tuple[Index, Shape]] = [((), shape)]
    while stack:
        index, part = stack.pop()
        if isinstance(part, TupleShape):
            stack.extend(((*index, i), e) for i, e in reversed([*enumerate(part.elements)]))
        else:
            indices.append(index)
    return indices
