"""Reading the files that commands are given."""

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

__all__ = ["Program", "file_argument", "opened", "shape_option"]

file_argument: Final = click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))

shape_option: Final = click.option(
    "--shape",
    "shapes",
    metavar="NAME=SHAPE",
    multiple=True,
    help="The shape of a parameter whose sizes the file leaves open, such as x=f32[2,3]; "
    "in place of the name its number counts too. May be given several times.",
)

HLO_TEXT: Final = "HLO text"
HLO_PROTO: Final = "HLO protocol buffer"
ARTIFACT: Final = "StableHLO portable artifact"
BYTECODE: Final = "StableHLO bytecode"
TEXT: Final = "StableHLO text"
EXPORTED: Final = "jax.export"


class Program(NamedTuple):
    """A file that was read.

    Attributes:
        name: the file, or "<stdin>".
        data: its content.
        kind: what it is.
        producer: what wrote it, as it says itself, or None.
        version: the StableHLO version that it is written for, or None.
        shapes: `--shape`, as they were given.
    """

    name: str
    data: bytes
    kind: str
    producer: str | None
    version: str | None
    shapes: Sequence[str]

    @property
    def is_hlo(self) -> bool:
        """Whether it is HLO, and not StableHLO."""
        return self.kind in (HLO_TEXT, HLO_PROTO)

    def module(self) -> StablehloModule:
        """The StableHLO module in it, or what its HLO is lowered to.

        Raises:
            XlaError: it can't be read.
        """
        from lowering.stablehlo.lower import lower
        from lowering.stablehlo.module import from_bytes

        if self.is_hlo:
            return lower(self.computation())
        return from_bytes(self.data, self.name)

    def computation(self) -> XlaComputation:
        """The computation in it.

        Raises:
            XlaError: it can't be read, or an operation has no counterpart.
        """
        if self.is_hlo:
            from lowering.importer.hlo import from_hlo

            if self.shapes:
                raise click.UsageError("--shape is for StableHLO: HLO leaves no sizes open")
            is_file = self.name != STDIN
            return from_hlo(Path(self.name) if is_file else self.data)
        from lowering.errors import LoweringError
        from lowering.importer.importing import to_computation, with_file_name

        module = self.module()
        try:
            return to_computation(module, argument_shapes=_argument_shapes(module, self.shapes))
        except LoweringError as error:
            raise with_file_name(error, self.name) from error.__cause__


STDIN: Final = "<stdin>"


def opened(file: str, shapes: Sequence[str] = ()) -> Program:
    """The file that a command was given, and what kind of file it is.

    Raises:
        FailedError: nothing is on the standard input.
        ModuleFileError: it can't be read.
    """
    from lowering.importer import hlo
    from lowering.jaxlib_api import hlo_conversion, mlir
    from lowering.reading.exported import embedded_artifact
    from lowering.reading.file_kind import reject_by_prefix
    from lowering.stablehlo.module import read_file

    if file == "-":
        name, data = STDIN, sys.stdin.buffer.read()
        if not data.strip():
            raise FailedError("<stdin>: nothing came in")
    else:
        data, name = read_file(file, "load", reject_by_prefix)
    inside = embedded_artifact(data)
    producer = version = None
    code = inside or data
    if code.startswith(mlir.BYTECODE_MAGIC):
        found = _PRODUCER.match(code)
        if found:
            producer = found[1].decode(errors="replace").partition(" xlabuilder-crc32")[0]
        said = re.fullmatch(r"StableHLO_v(\d+\.\d+\.\d+)", producer or "")
        version = said[1] if said else None
        kind = ARTIFACT if said else BYTECODE
        if inside is not None:
            kind = f"{EXPORTED}, around a {kind}"
    elif hlo.is_hlo(data):
        kind = HLO_PROTO if hlo_conversion.is_hlo_proto(data) else HLO_TEXT
    else:
        kind = TEXT
    return Program(name, data, kind, producer, version, shapes)


# A number of variable width, of which the first byte says how many follow, and a text.
_PRODUCER: Final = re.compile(rb"ML\xefR[^\0]([^\0]{0,4096})\0", re.DOTALL)


def _argument_shapes(module: StablehloModule, said: Sequence[str]) -> list[Any] | None:
    """A shape for each parameter: those of `--shape`, and of the others those that they have."""
    if not said:
        return None
    from builder.types.shape import parse_shape

    names = list(module.program_shape.parameter_names)
    written = _written_names(module)
    shapes = list(module.program_shape.parameters)
    for one in said:
        name, equals, text = one.partition("=")
        if not equals:
            raise click.UsageError(f"--shape: expected NAME=SHAPE such as x=f32[2,3], got {one!r}")
        if name in names:
            number = names.index(name)
        elif name in written:
            number = written.index(name)
        elif name.isdecimal() and int(name) < len(shapes):
            number = int(name)
        else:
            raise FailedError(
                f"--shape: there is no parameter {name!r}\n"
                f"fix: give one of {', '.join(names) or 'none'}"
            )
        shapes[number] = parse_shape(text)
    return shapes


def _written_names(module: StablehloModule) -> list[str | None]:
    """What the locations of the arguments of @main call them."""
    from lowering.importer.refinement import main_function
    from lowering.importer.tables import name_of

    arguments = main_function(module.module).regions[0].blocks[0].arguments
    found = [name_of(argument.location) for argument in arguments]
    return found if len(found) == len(module.program_shape.parameters) else []
