"""Read the files of the commands: programs, and their arguments, which may also be random."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from lowering.cli.command import FailedError

if TYPE_CHECKING:
    import numpy as np

    from builder.graph.computation import XlaComputation
    from builder.types.shape import ArrayShape, Shape
    from lowering.stablehlo.module import StablehloModule


file_argument: Final = click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))

shape_option: Final = click.option(
    "--shape",
    "shapes",
    metavar="NAME=SHAPE",
    multiple=True,
    help="The shape of a parameter with dynamic sizes, such as x=f32[2,3]; NAME may also be the "
    "parameter's number. May be repeated.",
)


def shape_fix(name: str, shape: object) -> str:
    """Return the fix of a message about a parameter with dynamic sizes."""
    return f"pass --shape {name}={str(shape).replace('?', '8')}, with the intended sizes"


HLO_TEXT: Final = "HLO text"
HLO_PROTO: Final = "HLO protocol buffer"
ARTIFACT: Final = "StableHLO portable artifact"
BYTECODE: Final = "StableHLO bytecode"
TEXT: Final = "StableHLO text"
EXPORTED: Final = "jax.export"


class Program(NamedTuple):
    """A program in a file: the file's content and kind.

    Attributes:
        name: the path of the file, or "<stdin>".
        data: the content of the file.
        kind: the kind of file, for output, such as "HLO text".
        producer: the name of the program that wrote the file; None if the file does not have it.
        version: the StableHLO version of a portable artifact; None for other files.
        shapes: the values of the option `--shape`.
    """

    name: str
    data: bytes
    kind: str
    producer: str | None
    version: str | None
    shapes: Sequence[str]

    @property
    def is_hlo(self) -> bool:
        """Whether the file contains HLO rather than StableHLO."""
        return self.kind in (HLO_TEXT, HLO_PROTO)

    def module(self) -> StablehloModule:
        """Return the StableHLO module in the file; HLO is lowered to StableHLO.

        Raises:
            XlaError: the file cannot be read.
        """
        from lowering.stablehlo.lower import lower
        from lowering.stablehlo.module import from_bytes

        if self.is_hlo:
            return lower(self.computation())
        return from_bytes(self.data, self.name)

    def computation(self) -> XlaComputation:
        """Return the computation in the file.

        Raises:
            XlaError: the file cannot be read or imported.
        """
        if self.is_hlo:
            from lowering.importer.hlo import from_hlo

            if self.shapes:
                raise click.UsageError(
                    "--shape is for StableHLO only, because HLO has static sizes"
                )
            is_file = self.name != STDIN
            return from_hlo(Path(self.name) if is_file else self.data)
        from lowering.errors import LoweringError
        from lowering.importer.importing import to_computation, with_file_name

        module = self.module()
        try:
            return to_computation(module, argument_shapes=_argument_shapes(module, self.shapes))
        except LoweringError as error:
            with_file_name(error, self.name)
            raise


STDIN: Final = "<stdin>"


def opened(file: str, shapes: Sequence[str] = ()) -> Program:
    """Read a file and detect its kind.

    Raises:
        FailedError: the standard input is empty.
        ModuleFileError: the file cannot be read.
    """
    from lowering.importer import hlo
    from lowering.jaxlib_api import hlo_conversion, mlir
    from lowering.reading import module_reader
    from lowering.reading.exported import embedded_artifact
    from lowering.reading.file_kind import reject_by_prefix
    from lowering.stablehlo.module import read_file

    if file == "-":
        name, data = STDIN, sys.stdin.buffer.read()
        if not data.strip():
            raise FailedError("<stdin>: is empty")
    else:
        data, name = read_file(file, "load", reject_by_prefix)
    embedded = embedded_artifact(data)
    producer = version = None
    code = embedded or data
    if code.startswith(mlir.BYTECODE_MAGIC):
        written_by = _PRODUCER.match(code)
        if written_by:
            producer = written_by[1].decode(errors="replace").partition(" xlabuilder-crc32")[0]
        version = module_reader.artifact_version(code)
        kind = BYTECODE if version is None else ARTIFACT
        if embedded is not None:
            kind = f"{EXPORTED}, with a {kind}"
    elif hlo.is_hlo(data):
        kind = HLO_PROTO if hlo_conversion.is_hlo_proto(data) else HLO_TEXT
    else:
        kind = TEXT
    return Program(name, data, kind, producer, version, shapes)


# The version, a variable-width number below 128, and the producer, a zero-terminated string.
_PRODUCER: Final = re.compile(rb"ML\xefR[^\0]([^\0]{0,4096})\0", re.DOTALL)


def _argument_shapes(module: StablehloModule, options: Sequence[str]) -> list[Any] | None:
    """Return the shapes of all parameters, some set by `--shape`; None if the option is absent."""
    if not options:
        return None
    from builder.errors import ShapeTextError
    from builder.types.shape import parse_shape

    names = list(module.program_shape.parameter_names)
    location_names = _location_names(module)
    shapes = list(module.program_shape.parameters)
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise click.UsageError(
                f"--shape: expected NAME=SHAPE such as x=f32[2,3], got {option!r}"
            )
        if name in names:
            number = names.index(name)
        elif name in location_names:
            number = location_names.index(name)
        elif name.isdecimal() and int(name) < len(shapes):
            number = int(name)
        else:
            raise FailedError(
                f"--shape: there is no parameter {name!r}",
                f"use one of {', '.join(names)}" if names else "omit --shape",
            )
        try:
            shapes[number] = parse_shape(text)
        except ShapeTextError as error:
            raise FailedError(
                f"--shape {option}: {error.rule}",
                error.fix or f"write a shape with its element type, such as {name}=f32[2,3]",
            ) from None
    return shapes


def _location_names(module: StablehloModule) -> list[str | None]:
    """Return the names of the parameters from the locations of the arguments of @main."""
    from lowering.importer.tables import name_of
    from lowering.mlir.operations import main_function

    arguments = main_function(module.module.operation).regions[0].blocks[0].arguments
    names = [name_of(argument.location) for argument in arguments]
    return names if len(names) == len(module.program_shape.parameters) else []


def execution_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the file argument and the options of a command that executes a program.

    The decorated function is called with the computation, the program's arguments, the device and
    the function's other options.
    """

    @functools.wraps(function)
    def command(
        file: str, inputs: Sequence[str], seed: int | None, shapes: Sequence[str], **others: Any
    ) -> None:
        from lowering.importer.importing import for_device

        computation = for_device(opened(file, shapes).computation(), others["device"])
        function(computation, arguments_of(computation, inputs, seed), **others)

    for decorate in (_DEVICE, shape_option, _RANDOM, _INPUT, file_argument):
        command = decorate(command)
    return command


_INPUT: Final = click.option(
    "--input",
    "inputs",
    metavar="NAME=FILE",
    multiple=True,
    help="The array of a parameter x: x=FILE.npy, x=FILE.npz (its array named x, or its only "
    "array), or x=FILE.npz:KEY. FILE.npz alone selects all arrays that have a parameter's name. "
    "Elements of a tuple have names such as x[0][1]. Raw bytes (V2) get the element type of the "
    "parameter.",
)
_RANDOM: Final = click.option(
    "--random",
    "seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Use random numbers for parameters without an array: normally distributed floating-point "
    "and complex numbers, integers from 0 to 9, booleans.",
)
_DEVICE: Final = click.option(
    "--device", metavar="DEVICE", help="cpu, gpu:1 and so on; jax's default device if omitted."
)


def arguments_of(computation: XlaComputation, inputs: Sequence[str], seed: int | None) -> list[Any]:
    """Return the argument of each parameter: a NumPy array, None for a token, or a nested tuple.

    Raises:
        FailedError: an array is missing, or a file is invalid.
    """
    from builder.types.shape import ArrayShape, leaves
    from lowering.mlir.types import leaf_paths

    program = computation.program_shape
    shapes: dict[str, ArrayShape] = {}
    for name, shape in zip(program.parameter_names, program.parameters, strict=True):
        for path, leaf in zip(leaf_paths(shape), leaves(shape), strict=True):
            if isinstance(leaf, ArrayShape):
                shapes[f"{name}{path}"] = leaf
    for name, leaf in shapes.items():
        if not leaf.is_bounded:
            raise FailedError(
                f"parameter {name} is {leaf}: its sizes are dynamic", shape_fix(name, leaf)
            )
    arrays = _read(inputs, shapes)
    missing = {name: shape for name, shape in shapes.items() if name not in arrays}
    if missing and seed is None:
        listed = ", ".join(f"{name}: {shape}" for name, shape in missing.items())
        raise FailedError(
            f"arrays are missing for {listed}",
            f"pass --input {next(iter(missing))}=FILE.npy, or --random SEED",
        )
    if missing:
        arrays |= _random_arrays(missing, seed)
    parameters = zip(program.parameter_names, program.parameters, strict=True)
    return [_nested(shape, name, arrays) for name, shape in parameters]


def _nested(shape: Shape, name: str, arrays: dict[str, Any]) -> Any:
    """Return the argument of a parameter, nested like `shape`; None for leaves without an array."""
    from builder.types.shape import TupleShape

    if isinstance(shape, TupleShape):
        elements = enumerate(shape.elements)
        return tuple(_nested(element, f"{name}[{i}]", arrays) for i, element in elements)
    return arrays.get(name)


def _random_arrays(shapes: dict[str, ArrayShape], seed: int | None) -> dict[str, Any]:
    """Return an array of random numbers for each parameter.

    Raises:
        FailedError: there is no memory for them. This is checked before they are computed, because
            the operating system may end a process that uses memory beyond the host's.
    """
    from math import prod

    import numpy as np

    from builder.inspection.rendering import bytes_text
    from lowering.pjrt.failures import host_memory

    random = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    remaining = host_memory()
    for name, shape in shapes.items():
        dtype, count = shape.element_type.dtype, prod(shape.dimensions)
        generated = count * (16 if shape.element_type.is_complex else 8)
        remaining -= count * dtype.itemsize
        try:
            if generated > remaining:
                raise MemoryError
            arrays[name] = _random(random, shape)
        except MemoryError:
            raise FailedError(
                f"parameter {name} is {shape} ({bytes_text(count * dtype.itemsize)}): there is no "
                f"memory for as many random numbers",
                f"run a program of smaller arrays, or pass --input {name}=FILE.npy",
            ) from None
    return arrays


def _random(random: np.random.Generator, shape: ArrayShape) -> np.ndarray[Any, Any]:
    """Return random numbers of the element type, generated in 64 bits and rounded."""
    import numpy as np

    element_type, sizes = shape.element_type, shape.dimensions
    numbers: Any
    if element_type.name == "pred":
        numbers = random.integers(0, 2, sizes)
    elif element_type.is_complex:
        real, imaginary = random.standard_normal((2, *sizes))
        numbers = real + 1j * imaginary
    elif element_type.is_integral:
        numbers = random.integers(0, min(9, int(element_type.max)), sizes, endpoint=True)
    else:
        numbers = random.standard_normal(sizes)
        if element_type.name == "f8e8m0fnu":  # powers of two, without a sign
            numbers = abs(numbers) + 1e-3
    return np.asarray(numbers, element_type.dtype)


def _read(inputs: Sequence[str], shapes: dict[str, ArrayShape]) -> dict[str, Any]:
    """Return the arrays of `--input`, by parameter name."""
    arrays: dict[str, Any] = {}
    files: dict[str, str] = {}
    for option in inputs:
        name, equals, file = option.partition("=")
        if not equals:
            in_file = _file_arrays(option)
            if not isinstance(in_file, dict):
                raise click.UsageError(
                    f"--input: expected NAME=FILE, or an .npz file alone, got {option!r}"
                )
            selected = {key: array for key, array in in_file.items() if key in shapes}
            if not selected:
                raise FailedError(
                    f"{option}: no array has the name of a parameter, got {', '.join(in_file)}",
                    f"name the arrays after the parameters: {', '.join(shapes)}",
                )
            for key, array in selected.items():
                arrays[key] = _as_type(array, shapes[key], key, option)
            continue
        if name not in shapes:
            raise FailedError(
                f"--input: there is no parameter {name!r}",
                f"use one of {', '.join(shapes)}" if shapes else "omit --input",
            )
        if not file:
            raise click.UsageError(f"--input: expected a file after {option!r}")
        if name in files:
            raise click.UsageError(f"--input: {name} has two files: {files[name]} and {file}")
        files[name] = file
        arrays[name] = _as_type(_array(file, name), shapes[name], name, file)
    return arrays


def _array(text: str, name: str) -> Any:
    """Return the array of parameter `name`; `text` is FILE or FILE:KEY."""
    from pathlib import Path

    file, colon, key = text.rpartition(":")
    if not colon or Path(text).exists():
        file, key = text, ""
    arrays = _file_arrays(file)
    if not isinstance(arrays, dict):
        if key:
            raise FailedError(f"{file}: has one array, without a name", f"remove :{key}")
        return arrays
    listed = ", ".join(arrays) or "none"
    if key and key not in arrays:
        raise FailedError(f"{file}: has no array {key!r}, only {listed}")
    if key or name in arrays:
        return arrays[key or name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise FailedError(f"{file}: has several arrays: {listed}", f"select one: {name}={file}:KEY")


def _file_arrays(file: str) -> Any:
    """Return the array of an .npy file, or a dict of the arrays of an .npz file."""
    import zipfile
    from pathlib import Path

    import numpy as np

    try:
        with Path(file).open("rb") as content:
            beginning = content.read(6)
        if not beginning.startswith((b"\x93NUMPY", b"PK")):  # NumPy's error would be about pickles
            raise FailedError(f"{file}: is neither an .npy file nor an .npz file")
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {key: loaded[key] for key in loaded.files}
    except OSError as error:
        raise FailedError(f"{file}: {error.strerror or error}") from None
    except (EOFError, ValueError, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or ["it is truncated"])[0]
        raise FailedError(f"{file}: is not a NumPy array: {reason}") from None


def _as_type(array: Any, shape: ArrayShape, name: str, file: str) -> Any:
    """View raw bytes as the parameter's type; NumPy stores ml_dtypes types as raw bytes."""
    if array.dtype.kind != "V" or array.dtype.names is not None:
        return array
    dtype = shape.element_type.dtype
    if array.dtype.itemsize != dtype.itemsize:
        raise FailedError(
            f"{file}: parameter {name} is {shape}, with {dtype.itemsize} bytes per element, got "
            f"an array with {array.dtype.itemsize}"
        )
    return array.view(dtype)
