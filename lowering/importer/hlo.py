"""from_hlo: HLO text, or XLA's protocol buffers of it, as an XlaComputation.

jaxlib's converter makes StableHLO of it, which the importer reads. It takes what XLA writes, before
its passes and after them: a fusion becomes a call of what it fuses, and an operation that is begun
and waited for becomes the operation. The converter dies of some HLO, and XLA's parser of brackets
nested deep, so both are at work in a helper process.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from jaxlib.mlir import ir

from builder.errors import OperandError, ShapeTextError, brief
from builder.graph.aliasing import leaf_indices
from builder.graph.computation import XlaComputation
from builder.support.unique_names import UniqueNames
from builder.types.shape import (
    ProgramShape,
    Shape,
    TupleShape,
    leaf_count,
    parse_shape,
    without_layout,
)
from lowering.errors import LoweringError, ModuleFileError
from lowering.importer.importing import to_computation
from lowering.importer.refinement import main_function
from lowering.importer.tables import decoded, name_of
from lowering.jaxlib_api import hlo_conversion, mlir
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC, UnreadableModuleError
from lowering.mlir.donations import ALIASING, DONOR
from lowering.reading.bytecode_tables import module_strings
from lowering.reading.file_kind import BEGINNING, LARGE, complete_characters
from lowering.reading.helper_process import HelperError, in_helper
from lowering.sharding.frontend_shardings import read_shardings
from lowering.stablehlo.module import Buffer, StablehloModule, read_file

__all__ = ["from_hlo", "is_hlo"]


def from_hlo(source: str | Buffer | os.PathLike[str]) -> XlaComputation:
    """The computation that HLO text means, or a protocol buffer of HLO.

    It may be what `XlaComputation.to_hlo_text` or `Executable.hlo_text` gave, or what XLA dumped,
    before optimization or after it. A fusion becomes a call of the computation that it fuses, a
    bitcast the reshape or transpose that it stands for, and copies that only order memory are left
    out. Reading takes some tenths of a second, as it is done in a helper process first: some HLO
    ends the process that converts it.

    Args:
        source: text; bytes of an HloModuleProto or HloProto, or of text; or a `pathlib.Path` of a
            file with any of these.

    Returns:
        A computation named like the module, with the parameters, the result and the layouts of its
        entry, tuples nested as they are there. Ops have the names of the instructions, or those in
        their metadata, and the source lines of the metadata.

    Raises:
        ModuleFileError: the file can't be read, or XLA refuses what is in it; carries path, line
            and column. Text in which constants are left out is refused.
        LoweringError: an instruction has no counterpart here.
        OperandError: neither text nor bytes nor a path.

    Example:
        >>> import lowering
        >>> print(lowering.from_hlo('''
        ... HloModule doubled
        ... ENTRY main {
        ...   x = f32[2] parameter(0)
        ...   ROOT twice = f32[2] add(x, x), metadata={op_name="sum"}
        ... }'''))
        HloModule doubled, entry_computation_layout={(f32[2]{0})->f32[2]{0}}
        <BLANKLINE>
        ENTRY %doubled (x: f32[2]) -> f32[2] {
          %x = f32[2]{0} parameter(0)
          ROOT %sum.1 = f32[2]{0} add(%x, %x)
        }
        <BLANKLINE>
    """
    data, path = _content(source)
    name = path or "the HLO"
    if not data.strip():
        raise ModuleFileError(f"{name}: is empty\nfix: save the HLO again", path=path)
    if data.startswith(BYTECODE_MAGIC):
        raise _no_hlo(name, path)
    if hlo_conversion.is_hlo_proto(data):
        text = None
        data = _module_inside(data)
    else:
        text = _text(data, name, path)
        data = text.encode()
    head, code = _converted(data, name, path)
    try:
        module = mlir.read_module(mlir.new_context(), code)
    except UnreadableModuleError as error:
        raise LoweringError(
            f"from_hlo: {name} can't be said in StableHLO: {error.reason}",
            op="from_hlo",
            detail=error.detail,
        ) from None
    _wait_at_once(module)
    try:
        parameters = [_plain(parse_shape(one)) for one in head["parameters"]]
        result = _plain(parse_shape(head["result"]))
    except ShapeTextError as error:  # XLA's converter passes over layouts, also impossible ones
        reason = str(error).partition("\n")[0]
        raise ModuleFileError(
            f"{name}: not HLO: in the signature of its entry, {reason}", path=path
        ) from None
    names = _names(module, parameters, {} if text is None else _names_in(text))
    try:
        given = _given_away(data) if text is None else _given_away_in(text)
        _note_donations(module, parameters, result, given)
    except (IndexError, ValueError):  # XLA looks at no donors before it compiles
        raise ModuleFileError(
            f"{name}: not HLO: it gives away the memory of an argument that is not there", path=path
        ) from None
    if b"xla.sdy.sharding\0" in module_strings(code):
        read_shardings(module, parameters)
    attributes = module.operation.attributes
    for key in [key for key in attributes if key.startswith("mhlo.")]:
        del attributes[key]  # as XLA has them of every module
    return to_computation(StablehloModule(module, ProgramShape(parameters, result, names)))


def is_hlo(data: bytes) -> bool:
    """Whether the content of a file looks like HLO, and not like StableHLO."""
    if data.startswith(BYTECODE_MAGIC):
        return False
    if hlo_conversion.is_hlo_proto(data):
        return True
    return _BEGINNING.match(data.removeprefix(b"\xef\xbb\xbf")) is not None


_BEGINNING: Final = re.compile(rb"(?:\s|//[^\n]*\n|/\*.*?\*/)*(?:HloModule|ENTRY)\b", re.DOTALL)


def _content(source: Any) -> tuple[bytes, str | None]:
    """The bytes of what `from_hlo` was given, and the file that they are from."""
    if isinstance(source, str):
        if source and "\n" not in source and "{" not in source and Path(source).exists():
            raise OperandError(
                f"from_hlo: a string is HLO text, got the name of a file, {brief(source)}\n"
                f"fix: pathlib.Path({brief(source)})",
                op="from_hlo",
            )
        return source.encode("utf-8", "surrogatepass"), None
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), None
    if isinstance(source, os.PathLike):
        return read_file(source, "from_hlo", _look)
    fix = "\nfix: lowering.to_computation reads StableHLO modules"
    raise OperandError(
        f"from_hlo: expected HLO text, bytes or a pathlib.Path, got {brief(source)}"
        f"{fix if isinstance(source, StablehloModule) else ''}",
        op="from_hlo",
    )


def _look(file: BinaryIO, size: int, name: str, path: str) -> None:
    """Refuses a large file that is seen to be no HLO without reading all of it."""
    if size < LARGE:
        return
    beginning = file.read(BEGINNING)
    file.seek(0)
    if beginning.startswith(BYTECODE_MAGIC):
        raise _no_hlo(name, path)
    if not hlo_conversion.is_hlo_proto(beginning):
        _text(complete_characters(beginning), name, path)


def _no_hlo(name: str, path: str | None) -> ModuleFileError:
    return ModuleFileError(
        f"{name}: is StableHLO, not HLO\nfix: lowering.to_computation reads it", path=path
    )


def _module_inside(data: bytes) -> bytes:
    """The HloModuleProto in the bytes of an HloProto, whose first field it is; others as they are.

    Modules have a second field, the name of the entry, and an HloProto has none.
    """
    try:
        fields = _fields(data)
    except IndexError:
        return data
    if 1 not in fields or 2 in fields:
        return data
    begin, end = fields[1][0]
    return data[begin:end]


def _fields(data: bytes) -> dict[int, list[tuple[int, int]]]:
    """Where the values of a protocol buffer begin and end, by the numbers of their fields.

    Raises:
        IndexError: it is none.
    """
    fields: dict[int, list[tuple[int, int]]] = {}
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        if tag & 7 == _LENGTH_FIRST:
            size, at = _number(data, at)
            end = at + size
        elif tag & 7 == _NUMBER:
            _, end = _number(data, at)
        elif tag & 7 in _FIXED:
            end = at + _FIXED[tag & 7]
        else:
            raise IndexError
        fields.setdefault(tag >> 3, []).append((at, end))
        at = end
    if at != len(data):
        raise IndexError
    return fields


_NUMBER: Final = 0
_LENGTH_FIRST: Final = 2
_FIXED: Final = {1: 8, 5: 4}
"""The kinds of fields in protocol buffers; of the last the sizes."""


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable width, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


_ELIDED: Final = re.compile(r"\bconstant\(\{\.\.\.\}\)")
_MLIR: Final = re.compile(r"(?:\s|//[^\n]*\n)*(?:module\b|func\.func\b|#\w+ = )")


def _text(data: bytes, name: str, path: str | None) -> str:
    """`data` as text that XLA's parser can be given."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModuleFileError(
            f"{name}: is not HLO text, nor a protocol buffer of HLO: byte {error.start} "
            f"(0x{data[error.start]:02x}) is no text",
            path=path,
        ) from None
    if "\0" in text:
        raise ModuleFileError(
            f"{name}: is not HLO text, nor a protocol buffer of HLO: byte {data.index(0)} is zero",
            path=path,
        )
    if _MLIR.match(text):
        raise _no_hlo(name, path)
    elided = _ELIDED.search(text)
    if elided is not None:
        # XLA's parser makes up numbers in their place.
        before = text[: elided.start()]
        line, column = before.count("\n") + 1, elided.start() - before.rfind("\n")
        raise ModuleFileError(
            f"{name}: line {line}, column {column}: the elements of a constant are left out\n"
            f"fix: have them printed (XLA_FLAGS=--xla_dump_large_constants), or give the protocol "
            f"buffer (--xla_dump_hlo_as_proto)",
            path=path,
            line=line,
            column=column,
        )
    return text


def _converted(data: bytes, name: str, path: str | None) -> tuple[dict[str, Any], bytes]:
    """What `hlo_conversion.hlo_program` says of HLO, taken apart."""
    try:
        if sys.executable:
            found = in_helper(hlo_conversion.hlo_program, data, crash_reason=_DIED)
        else:
            found = hlo_conversion.hlo_program(data)
    except (HelperError, UnreadableModuleError) as error:
        place = "" if error.line is None else f"line {error.line}, column {error.column}: "
        what = error.reason[:300]
        if what != _DIED:
            what = f"not HLO: {what}"
        raise ModuleFileError(
            f"{name}: {place}{what}",
            path=path,
            line=error.line,
            column=error.column,
            detail=error.detail,
        ) from None
    head, _, code = found.partition(b"\n")
    return json.loads(head), code


_DIED: Final = "XLA's converter to StableHLO dies of it"


def _plain(shape: Shape) -> Shape:
    """A shape without the layouts that arrays have by default."""
    if isinstance(shape, TupleShape):
        return TupleShape([_plain(element) for element in shape.elements])
    layout = getattr(shape, "layout", None)
    return without_layout(shape) if layout is not None and layout.is_default else shape


def _wait_at_once(module: ir.Module) -> None:
    """Puts what is begun and waited for apart in the place where it is begun."""
    begun: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in ("mhlo.async_start", "stablehlo.async_start"):
            begun.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    for start in begun:
        waiting: list[ir.Operation] = []
        handle = start.results[0]
        while waiting[-1:] == [] or waiting[-1].name.endswith("async_update"):
            used = [use.owner for use in handle.uses]
            if len(used) != 1:
                raise LoweringError(
                    f"from_hlo: {start.name}: it is begun and not waited for once", op=start.name
                )
            waiting.append(used[0])
            handle = used[0].results[0]
        done = waiting[-1]
        if "called_computation" in start.attributes:
            call = ir.Operation.create(
                "func.call",
                [result.type for result in done.results],
                list(start.operands),
                {"callee": start.attributes["called_computation"]},
                loc=start.location,
                ip=ir.InsertionPoint(start),
            )
            values = list(call.results)
        else:
            block = start.regions[0].blocks[0]
            for argument, operand in zip(block.arguments, start.operands, strict=True):
                argument.replace_all_uses_with(operand)
            *inside, end = [view.operation for view in block.operations]
            for operation in inside:
                operation.move_before(start)
            values = list(end.operands)
        for result, value in zip(done.results, values, strict=True):
            result.replace_all_uses_with(value)
        for operation in (*reversed(waiting), start):
            operation.erase()


_ENTRY: Final = re.compile(r"^\s*ENTRY\b.*?^\s*\}", re.MULTILINE | re.DOTALL)
_PARAMETER: Final = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = .*? parameter\((\d+)\)", re.MULTILINE)


def _names_in(text: str) -> dict[int, str]:
    """The names of the entry's parameters in HLO text."""
    entry = _ENTRY.search(text)
    found = _PARAMETER.findall(entry[0]) if entry is not None else []
    return {int(number): name for name, number in found}


def _names(module: ir.Module, parameters: list[Shape], said: dict[int, str]) -> list[str]:
    """The names of the parameters: those in their metadata, or those of the instructions.

    XLA numbers names that stand in several computations: "x.1" is the x that was `said`.
    """
    unique = UniqueNames()
    names = []
    arguments = list(main_function(module).regions[0].blocks[0].arguments)
    position = 0
    for number, shape in enumerate(parameters):
        count = leaf_count(shape)
        name = said.get(number)
        if count:
            found = name_of(arguments[position].location)
            if found and not (name and re.fullmatch(rf"{re.escape(name)}(?:\.\d+)?", found)):
                name = found
        names.append(unique.claim(name or f"arg{number}"))
        position += count
    return names


def _note_donations(
    module: ir.Module,
    parameters: list[Shape],
    result: Shape,
    donors: list[tuple[int, tuple[int, ...]]],
) -> None:
    """Says of the arguments whose memory is given away that it is, as `lower` says it.

    Raises:
        IndexError, ValueError: there is no such argument.
    """
    attributes = module.operation.attributes
    listed = decoded(attributes[_ALIASES]) if _ALIASES in attributes else ()
    if not listed and not donors:
        return
    main = main_function(module)
    count = sum(map(leaf_count, parameters))
    if "arg_attrs" in main.attributes:
        said = [dict(_items(one)) for one in ir.ArrayAttr(main.attributes["arg_attrs"])]
    else:
        said = [{} for _ in range(count)]

    def leaf(number: int, place: tuple[int, ...]) -> int:
        before = sum(map(leaf_count, parameters[:number]))
        return before + leaf_indices(parameters[number]).index(place)

    with module.context:
        number_type = ir.IntegerType.get_signless(32)
        for alias in listed:
            place, number = alias["alias"]["parameter_index"], alias["alias"]["parameter_number"]
            output = leaf_indices(result).index(alias["output_index"])
            said[leaf(number, place)][ALIASING] = ir.IntegerAttr.get(number_type, output)
        for number, place in donors:
            said[leaf(number, place)][DONOR] = ir.BoolAttr.get(True)
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(one) for one in said])


_DONORS: Final = re.compile(r"^\s*HloModule\b[^\n]*\bbuffer_donor=\{(.*?\}\)\s*)?\}", re.MULTILINE)
_DONOR_FIELD: Final = 18


def _given_away_in(text: str) -> list[tuple[int, tuple[int, ...]]]:
    """The donors of HLO text, which jaxlib's converter passes over: parameters and places there."""
    said = _DONORS.search(text)
    found = [] if said is None else re.findall(r"\(\s*(\d+)\s*,\s*\{([^}]*)\}", said[1] or "")
    return [(int(n), tuple(map(int, re.findall(r"\d+", place)))) for n, place in found]


def _given_away(data: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """The same of an HloModuleProto.

    hlo.proto, HloModuleProto.buffer_donor, BufferDonorProto.
    """
    found = []
    for begin, end in _fields(data).get(_DONOR_FIELD, ()):
        inside = data[begin:end]
        for first, last in _fields(inside).get(1, ()):
            entry = inside[first:last]
            fields = _fields(entry)
            number = _number(entry, fields[1][0][0])[0] if 1 in fields else 0
            place: list[int] = []
            for at, stop in fields.get(2, ()):
                while at < stop:
                    index, at = _number(entry, at)
                    place.append(index)
            found.append((number, tuple(place)))
    return found


_ALIASES: Final = "mhlo.input_output_alias"


def _items(attributes: ir.Attribute) -> list[tuple[str, ir.Attribute]]:
    entries = ir.DictAttr(attributes)
    names = [entries[i].name for i in range(len(entries))]
    return [(name, entries[name]) for name in names]
