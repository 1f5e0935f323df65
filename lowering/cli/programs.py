"""Read the input files of the commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from lowering.cli.command import FailedError

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation
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
        shapes[number] = parse_shape(text)
    return shapes


def _location_names(module: StablehloModule) -> list[str | None]:
    """Return the names of the parameters from the locations of the arguments of @main."""
    from lowering.importer.tables import name_of
    from lowering.mlir.operations import main_function

    arguments = main_function(module.module.operation).regions[0].blocks[0].arguments
    names = [name_of(argument.location) for argument in arguments]
    return names if len(names) == len(module.program_shape.parameters) else []
