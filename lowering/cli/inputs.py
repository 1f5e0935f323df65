"""The arguments that a program is run with: from files, or random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from lowering.cli.command import FailedError

if TYPE_CHECKING:
    import numpy as np

    from builder.graph.computation import XlaComputation
    from builder.types.primitive_type import PrimitiveType
    from builder.types.shape import ArrayShape, Shape

__all__ = ["arguments_of", "input_options"]


def input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what a program is run with."""
    for option in (_RANDOM, _INPUT):
        function = option(function)
    return function


_INPUT: Final = click.option(
    "--input",
    "inputs",
    metavar="NAME=FILE",
    multiple=True,
    help="A parameter's array: x=FILE.npy, x=FILE.npz (the array of that name, or the only one), "
    "x=FILE.npz:KEY; FILE.npz alone gives all arrays that have a parameter's name. Parts of a "
    "tuple are called x[0][1]. Bytes of types that NumPy lacks (V2) are taken as the parameter's.",
)
_RANDOM: Final = click.option(
    "--random",
    "seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Fill the other parameters: floating-point and complex numbers of the normal "
    "distribution, whole numbers from 0 to 9, booleans.",
)


def arguments_of(computation: XlaComputation, inputs: Sequence[str], seed: int | None) -> list[Any]:
    """A NumPy array for each parameter, nested in tuples as that is; None for a token.

    Raises:
        FailedError: one is missing, or a file is not right.
    """
    from builder.types.shape import ArrayShape
    from lowering.mlir.flattening import leaf_paths

    shape = computation.program_shape
    wanted: dict[str, ArrayShape] = {}
    for name, one in zip(shape.parameter_names, shape.parameters, strict=True):
        for path, leaf in zip(leaf_paths(one), _leaves(one), strict=True):
            if isinstance(leaf, ArrayShape):
                wanted[f"{name}{path}"] = leaf
    for name, leaf in wanted.items():
        if not leaf.is_bounded:
            raise FailedError(
                f"parameter {name} is {leaf}: the file leaves sizes open\n"
                f"fix: --shape {name}={str(leaf).replace('?', '8')}, with the sizes that you want"
            )
    arrays = _read(inputs, wanted)
    missing = {name: one for name, one in wanted.items() if name not in arrays}
    if missing and seed is None:
        listed = ", ".join(f"{name}: {one}" for name, one in missing.items())
        raise FailedError(
            f"no arrays are given for {listed}\n"
            f"fix: --input {next(iter(missing))}=FILE.npy, or --random SEED"
        )
    if missing:
        import numpy as np

        random = np.random.default_rng(seed)
        arrays |= {name: _random(random, one) for name, one in missing.items()}
    parameters = zip(shape.parameter_names, shape.parameters, strict=True)
    return [_nested(one, name, arrays) for name, one in parameters]


def _leaves(shape: Shape) -> Iterator[Any]:
    from builder.types.shape import leaves

    return leaves(shape)


def _nested(shape: Shape, name: str, arrays: dict[str, Any]) -> Any:
    """The argument of a parameter."""
    from builder.types.shape import TupleShape

    if isinstance(shape, TupleShape):
        parts = enumerate(shape.elements)
        return tuple(_nested(one, f"{name}[{number}]", arrays) for number, one in parts)
    return arrays.get(name)


def _random(random: np.random.Generator, shape: ArrayShape) -> np.ndarray[Any, Any]:
    """Numbers that suit most programs: 64-bit ones, rounded to the type."""
    import numpy as np

    kind, sizes = shape.element_type, shape.dimensions
    dtype = kind.dtype
    if kind.name == "pred":
        return np.asarray(random.integers(0, 2, sizes), dtype)
    if kind.is_complex:
        parts = random.standard_normal((2, *sizes))
        return np.asarray(parts[0] + 1j * parts[1], dtype)
    if kind.is_integral:
        whole = random.integers(0, min(9, int(kind.max)), sizes, endpoint=True)
        return np.asarray(whole, dtype)
    numbers = random.standard_normal(sizes)
    if kind.name == "f8e8m0fnu":  # powers of two, and no sign
        numbers = abs(numbers) + 1e-3
    return np.asarray(numbers, dtype)


def _read(inputs: Sequence[str], wanted: dict[str, ArrayShape]) -> dict[str, Any]:
    """The arrays of `--input`, by the parameters' names."""
    found: dict[str, Any] = {}
    named: dict[str, str] = {}
    for said in inputs:
        name, equals, rest = said.partition("=")
        if not equals:
            given = _file_arrays(said)
            if not isinstance(given, dict):
                raise click.UsageError(
                    f"--input: expected NAME=FILE, or a file .npz by itself, got {said!r}"
                )
            known = {key: array for key, array in given.items() if key in wanted}
            if not known:
                raise FailedError(
                    f"{said}: none of its arrays has a parameter's name: {', '.join(given)}\n"
                    f"fix: the parameters are {', '.join(wanted)}"
                )
            found |= {key: _as_type(a, wanted[key], key, said) for key, a in known.items()}
            continue
        if name not in wanted:
            raise FailedError(
                f"--input: there is no parameter {name!r}\n"
                f"fix: give one of {', '.join(wanted) or 'none'}"
            )
        if not rest:
            raise click.UsageError(f"--input: expected a file behind {said!r}")
        if name in named:
            raise click.UsageError(f"--input: {name} is given twice: {named[name]} and {rest}")
        named[name] = rest
        found[name] = _as_type(_one(rest, name), wanted[name], name, rest)
    return found


def _one(text: str, name: str) -> Any:
    """The array that FILE or FILE:KEY stands for."""
    from pathlib import Path

    file, colon, key = text.rpartition(":")
    if not colon or Path(text).exists():
        file, key = text, ""
    given = _file_arrays(file)
    if not isinstance(given, dict):
        if key:
            raise FailedError(f"{file}: holds one array, and none called {key!r}")
        return given
    if key or name in given:
        if (key or name) not in given:
            raise FailedError(f"{file}: holds no array {key!r}, but {', '.join(given) or 'none'}")
        return given[key or name]
    if len(given) == 1:
        return next(iter(given.values()))
    raise FailedError(
        f"{file}: holds several arrays: {', '.join(given) or 'none'}\n"
        f"fix: say which: {name}={file}:KEY"
    )


def _file_arrays(file: str) -> Any:
    """The array of a file .npy, or a dict of those of a file .npz."""
    import zipfile
    from pathlib import Path

    import numpy as np

    try:
        with Path(file).open("rb") as content:
            beginning = content.read(6)
        if not beginning.startswith((b"\x93NUMPY", b"PK")):  # NumPy would speak of pickles
            raise FailedError(f"{file}: is neither a file .npy nor a file .npz")
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {key: loaded[key] for key in loaded.files}
    except OSError as error:
        raise FailedError(f"{file}: {error.strerror or error}") from None
    except (EOFError, ValueError, zipfile.BadZipFile) as error:
        said = (str(error).splitlines() or ["it ends early"])[0]
        raise FailedError(f"{file}: is no array of NumPy's: {said}") from None


def _as_type(array: Any, shape: ArrayShape, name: str, file: str) -> Any:
    """An array of a file as the parameter's, whose type NumPy may not have known."""
    kind: PrimitiveType = shape.element_type
    if array.dtype.kind == "V" and array.dtype.names is None:
        if array.dtype.itemsize != kind.dtype.itemsize:
            raise FailedError(
                f"{file}: {name} is {shape}, of {kind.dtype.itemsize} bytes an element, and the "
                f"file has {array.dtype.itemsize}"
            )
        return array.view(kind.dtype)
    return array
