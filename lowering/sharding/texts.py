"""Check the texts of shardings in a module, because XLA may abort on malformed ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jaxlib import xla_client
from jaxlib.mlir import ir

from builder.errors import XlaError
from builder.sharding.text import is_shardy
from builder.sharding.tiling import parse_tilings
from lowering.errors import CompileError
from lowering.mlir.operations import (
    argument_attributes,
    attribute_text,
    checked_dictionary,
    entry_text,
    functions_in,
    operations_in,
    place_of,
)
from lowering.sharding.attributes import GSPMD

FRONTEND: Final = "mhlo.frontend_attributes"
MESHES: Final = "xla.sdy.meshes"
_OF_PARAMETERS: Final = "mhlo.spmd_parameters_shardings"
_OF_RESULT: Final = "mhlo.spmd_output_sharding"


def check_sharding_texts(module: ir.Operation, strings: bytes, name: str) -> None:
    """Raise CompileError for the text of a sharding, or of meshes, that can't be parsed.

    Args:
        module: the operation of a verified module.
        strings: the strings in its bytecode.
        name: the computation's name, for messages.
    """
    names = (GSPMD, MESHES, _OF_PARAMETERS, _OF_RESULT)
    if not any(f"{each}\0".encode() in strings for each in names):
        return
    frontend = module.attributes.get(FRONTEND)
    meshes = entry_text(frontend, MESHES) if isinstance(frontend, ir.DictAttr) else None
    if meshes is not None:
        with module.context:
            parse_meshes(meshes, "compile", name)
    for what, text in _texts(module):
        reason = _problem(text)
        if reason is not None:
            raise CompileError(
                f"compile: {name}: {what} must be a sharding of XLA, got {text[:200]!r}: {reason}\n"
                f"fix: write a sharding such as {{devices=[2,1]<=[2]}}, or remove it"
            )


def parse_meshes(text: str, op: str, name: str) -> dict[str, ir.Attribute]:
    """Return the meshes of a frontend attribute, in the current MLIR context.

    Args:
        text: the value of the frontend attribute.
        op, name: for messages: the function that the user called, and the computation.

    Raises:
        CompileError: the text is not a dictionary of meshes.
    """
    attribute = None
    if text.lstrip().startswith("{"):  # MLIR crashes on empty text
        try:
            attribute = ir.Attribute.parse(text)
        except (ir.MLIRError, ValueError):
            attribute = None
    if not isinstance(attribute, ir.DictAttr):
        raise CompileError(
            f"{op}: {name}: the frontend attribute {MESHES} of the module must be a dictionary of "
            f'meshes, got {text[:200]!r}\nfix: write {{mesh = #sdy.mesh<["x"=2]>}}'
        )
    return checked_dictionary(attribute)


def _texts(module: ir.Operation) -> Iterator[tuple[str, str]]:
    """Yield each sharding's place, for messages, and its text."""
    listed = module.attributes.get(_OF_PARAMETERS)
    places = [
        (f"the module's {_OF_PARAMETERS}", each)
        for each in (listed if isinstance(listed, ir.ArrayAttr) else ())
    ]
    if _OF_RESULT in module.attributes:
        places.append((f"the module's {_OF_RESULT}", module.attributes[_OF_RESULT]))
    for function in functions_in(module):
        for number, attributes in enumerate(argument_attributes(function)):
            if GSPMD in attributes:
                places.append((f"{GSPMD} of argument {number}", attributes[GSPMD]))
    for operation in operations_in(module):
        if GSPMD in operation.attributes:
            op = operation.name.partition(".")[2]
            what = f"{GSPMD} of {op}{place_of(operation)}"
            places.append((what, operation.attributes[GSPMD]))
    for what, attribute in places:
        text = attribute_text(attribute)
        if text is not None:  # None for a protocol buffer that is not UTF-8
            yield what, text


def _problem(text: str) -> str | None:
    """Return why XLA can't read a sharding, which is a text or a serialized OpSharding."""
    if is_shardy(text):
        return None
    if not text.startswith("{"):
        sharding = xla_client.OpSharding()
        sharding.ParseFromString(text.encode())  # reads nothing from other bytes, without an error
        is_same = sharding.SerializeToString() == text.encode()
        return None if is_same else "neither a text in braces nor a protocol buffer"
    try:
        parse_tilings(text)
    except XlaError as error:
        return str(error).splitlines()[0]
    return None
