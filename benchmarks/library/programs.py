"""Programs of the library and of jax, described once for all sizes and element types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import jax
import numpy as np

import builder as xb

__all__ = [
    "SIZES",
    "Argument",
    "Case",
    "Program",
    "Prototype",
    "cases",
    "indices",
    "near_identity",
    "positive",
    "unit",
]

SIZES: Final = ("small", "large")
"""About 1,000 elements, and one to four million; fewer where the function takes much longer."""

Values = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray[Any, Any]]


def normal(rng: np.random.Generator, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers of the standard normal distribution."""
    return rng.standard_normal(sizes)


def positive(rng: np.random.Generator, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers from 0.5 to 4."""
    return rng.uniform(0.5, 4.0, sizes)


def unit(rng: np.random.Generator, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers between 0 and 1."""
    return rng.uniform(0.05, 0.95, sizes)


def indices(rng: np.random.Generator, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return integers from 0 to the last size."""
    return rng.integers(0, sizes[-1], sizes)


def near_identity(rng: np.random.Generator, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return matrices that are well-conditioned and whose determinants are near 1."""
    return np.eye(*sizes[-2:]) + rng.standard_normal(sizes) * 0.2 / np.sqrt(sizes[-1])


class Argument(NamedTuple):
    """An argument of a program.

    Attributes:
        small: its sizes in the small program.
        large: its sizes in the large program.
        values: makes its elements; None if only the sizes and the element type are passed, as a
            `Prototype` to the library and as a `jax.ShapeDtypeStruct` to jax.
        element_type: its element type; None for the floating-point type that is measured.
    """

    small: tuple[int, ...]
    large: tuple[int, ...]
    values: Values | None = normal
    element_type: xb.PrimitiveType | None = None


class Prototype(NamedTuple):
    """The builder and the shape of a result that depends on no array."""

    builder: xb.XlaBuilder
    shape: xb.ArrayShape


class Program(NamedTuple):
    """A function of the library, and an expression of jax that computes the same.

    Attributes:
        name: the name of the function in `lib`.
        ours: a function of ops and prototypes.
        theirs: a function of jax arrays and of `jax.ShapeDtypeStruct`.
        arguments: the arguments.
        types: the floating-point types to measure; one if the function has no other, if jax
            refuses bf16, or if no argument has the type.
        any_sign: whether the signs of the results are arbitrary, as those of eigenvectors are.
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arguments: tuple[Argument, ...]
    types: tuple[xb.PrimitiveType, ...] = (xb.f32, xb.bf16)
    any_sign: bool = False


class Case(NamedTuple):
    """A program at one size, with one floating-point type.

    Attributes:
        program: the program.
        size: one of `SIZES`.
        element_type: the floating-point type.
    """

    program: Program
    size: str
    element_type: xb.PrimitiveType

    def __str__(self) -> str:
        return f"lib.{self.program.name}({', '.join(map(str, self.shapes))})"

    @property
    def shapes(self) -> list[xb.ArrayShape]:
        """The shapes of the arguments."""
        return [
            xb.array_shape(a.element_type or self.element_type, getattr(a, self.size))
            for a in self.program.arguments
        ]

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Return the arguments that are arrays; the same ones in every call."""
        rng = np.random.default_rng(0)
        return [
            np.asarray(argument.values(rng, shape.dimensions), shape.element_type.dtype)
            for argument, shape in zip(self.program.arguments, self.shapes, strict=True)
            if argument.values is not None
        ]

    def recorded(self) -> xb.XlaComputation:
        """Record the function of the library on parameters."""
        b = xb.XlaBuilder(self.program.name)
        arguments = [
            Prototype(b, shape) if argument.values is None else b.parameter(shape)
            for argument, shape in zip(self.program.arguments, self.shapes, strict=True)
        ]
        result = self.program.ours(*arguments)
        return b.build(xb.tuple(*result) if isinstance(result, tuple) else result)

    def jax_function(self) -> Callable[..., Any]:
        """Return jax's function of the arguments that are arrays."""

        def function(*arrays: Any) -> Any:
            left = iter(arrays)
            return self.program.theirs(
                *[
                    jax.ShapeDtypeStruct(shape.dimensions, shape.element_type.dtype)
                    if argument.values is None
                    else next(left)
                    for argument, shape in zip(self.program.arguments, self.shapes, strict=True)
                ]
            )

        return function


def cases(program: Program) -> Iterator[Case]:
    """Yield a program with each of its types, at both sizes if they differ."""
    for element_type in program.types:
        for size in SIZES:
            case = Case(program, size, element_type)
            if size == "large" and case.shapes == Case(program, "small", element_type).shapes:
                continue
            yield case
