"""Check the texts of shardings in a module, because XLA may abort on malformed ones.

Arguments, results and operations have either GSPMD shardings, which are text, or Shardy shardings,
which are attributes of the sdy dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from jaxlib.mlir import ir

from builder.errors import XlaError, statement_of
from builder.sharding.text import is_shardy
from builder.sharding.tiling import Tiling, parse_tilings
from lowering.errors import CompileError
from lowering.jaxlib_api.hlo_conversion import serialized_sharding_count
from lowering.mlir.attributes import quoted
from lowering.mlir.operations import (
    argument_attributes,
    attribute_text,
    checked_dictionary,
    entry_text,
    functions_in,
    operations_in,
    place_of,
)

GSPMD: Final = "mhlo.sharding"
SHARDY: Final = "sdy.sharding"
SHARDINGS: Final = (GSPMD, SHARDY)


def sharding_attribute(text: str) -> dict[str, str]:
    """Return the attribute for a sharding, as a dict from its name to its value as MLIR text.

    Example:
        >>> sharding_attribute("{replicated}")
        {'mhlo.sharding': '"{replicated}"'}
    """
    return {SHARDY: text} if is_shardy(text) else {GSPMD: quoted(text)}


FRONTEND: Final = "mhlo.frontend_attributes"
MESHES: Final = "xla.sdy.meshes"
OF_PARAMETERS: Final = "mhlo.spmd_parameters_shardings"
OF_RESULT: Final = "mhlo.spmd_output_sharding"


def check_sharding_texts(module: ir.Operation, strings: bytes, name: str) -> None:
    """Raise CompileError for the text of a sharding, or of meshes, that can't be parsed.

    Args:
        module: the operation of a verified module.
        strings: the strings in its bytecode.
        name: the computation's name, for messages.
    """
    names = (GSPMD, MESHES, OF_PARAMETERS, OF_RESULT)
    if not any(f"{each}\0".encode() in strings for each in names):
        return
    frontend = module.attributes.get(FRONTEND)
    meshes = entry_text(frontend, MESHES) if isinstance(frontend, ir.DictAttr) else None
    if meshes is not None:
        with module.context:
            parse_meshes(meshes, "compile", name)
    for what, attribute, operation, types in _shardings(module):
        text = attribute_text(attribute)  # None for a protocol buffer that is not UTF-8
        reason = None if text is None else _problem(text, types)
        if text is not None and reason is not None:
            if operation is not None:
                what += f" of {operation.name.partition('.')[2]}{place_of(operation)}"
            raise CompileError(
                f"{what} must be a sharding of XLA",
                got=f"{text[:200]!r}: {reason}",
                context=("compile", name),
                fix="write a sharding such as {devices=[2,1]<=[2]}, or remove it",
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
            f"the frontend attribute {MESHES} of the module must be a dictionary of meshes",
            got=repr(text[:200]),
            context=(op, name),
            fix='write {mesh = #sdy.mesh<["x"=2]>}',
        )
    return checked_dictionary(attribute)


class _Sharding(NamedTuple):
    """A sharding in a module.

    Attributes:
        place: where it is, for messages.
        attribute: its text, or something else that is not checked.
        operation: the operation that has it, if one has it.
        types: the types of the values that it shards; none if they are not checked here.
    """

    place: str
    attribute: ir.Attribute
    operation: ir.Operation | None = None
    types: Sequence[ir.Type] = ()


def _shardings(module: ir.Operation) -> Iterator[_Sharding]:
    # The number of results is checked by `lowering/legalize/entry_attributes.py`.
    listed = module.attributes.get(OF_PARAMETERS)
    for each in listed if isinstance(listed, ir.ArrayAttr) else ():
        yield _Sharding(f"the module's {OF_PARAMETERS}", each)
    if OF_RESULT in module.attributes:
        yield _Sharding(f"the module's {OF_RESULT}", module.attributes[OF_RESULT])
    for function in functions_in(module):
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        for key, what, types in (
            ("arg_attrs", "argument", kind.inputs),
            ("res_attrs", "result", kind.results),
        ):
            named = argument_attributes(function, key)
            for number, (attributes, type_) in enumerate(zip(named, types, strict=False)):
                if GSPMD in attributes:
                    yield _Sharding(f"{GSPMD} of {what} {number}", attributes[GSPMD], None, [type_])
    for operation in operations_in(module):
        if GSPMD in operation.attributes:
            types = [result.type for result in operation.results]
            yield _Sharding(GSPMD, operation.attributes[GSPMD], operation, types)


def _problem(text: str, types: Sequence[ir.Type]) -> str | None:
    """Return why XLA can't read a sharding, which is a text or a serialized OpSharding."""
    if is_shardy(text):
        return None
    if not text.startswith("{"):
        is_valid = serialized_sharding_count(text.encode()) is not None
        return None if is_valid else "neither a text in braces nor a protocol buffer"
    try:
        tilings = parse_tilings(text)
    except XlaError as error:
        return statement_of(error)
    if isinstance(tilings, Tiling):
        tilings = (tilings,)
    elif len(types) == 1 and isinstance(types[0], ir.RankedTensorType):
        return f"it is for a tuple, not for {types[0]}"
    if len(tilings) != len(types):
        return None  # of a tuple, or not checked here
    for tiling, type_ in zip(tilings, types, strict=True):
        if isinstance(type_, ir.RankedTensorType) and tiling.rank not in (None, type_.rank):
            return f"{tiling.text} is for arrays of rank {tiling.rank}, not for {type_}"
    return None
