"""from_hlo: import HLO text, or XLA's protocol buffers, as an XlaComputation.

jaxlib's converter makes a StableHLO module, which is imported. HLO from before or after XLA's
passes is supported: a fusion becomes a call of its computation, and an asynchronous operation
becomes synchronous. The converter aborts on some HLO, and XLA's parser on deeply nested brackets,
so both run in a helper process.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Final

from jaxlib.mlir import ir

from builder.errors import OperandError, ShapeTextError, brief, error_of, statement_of
from builder.graph.aliasing import leaf_indices
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.hlo_text.printer import MAX_TUPLE_NESTING
from builder.support.names import UniqueNames
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    Shape,
    TokenShape,
    TupleShape,
    fold,
    leaf_count,
    parse_shape,
    without_layout,
)
from lowering.errors import LoweringError, ModuleFileError
from lowering.importer.hlo_repairs import (
    COMPOSITE,
    INCOMPLETE,
    restore_composites,
    with_complete_names,
    with_listed_groups,
    without_tuple_composites,
)
from lowering.importer.importing import to_computation
from lowering.importer.tables import name_of
from lowering.jaxlib_api import hlo_conversion, mlir
from lowering.jaxlib_api.lazy_jax import jax
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC, UnreadableModuleError
from lowering.mlir.attributes import ALIASING, DONOR, attribute_value
from lowering.mlir.operations import (
    argument_attributes,
    main_function,
    operations_in,
    set_argument_attributes,
)
from lowering.reading.bytecode_tables import module_strings
from lowering.reading.file_kind import BEGINNING, LARGE, complete_characters
from lowering.reading.helper_process import HelperError, in_helper
from lowering.reading.module_reader import display_name
from lowering.reading.protocol_buffers import fields_of, numbers_in, varint
from lowering.reading.text_limits import deep_brackets
from lowering.sharding.frontend_shardings import has_shardy_text, read_shardings
from lowering.stablehlo.module import Buffer, StablehloModule, read_file
from lowering.stablehlo.sources import path_of


@explained
def from_hlo(
    source: str
    | Buffer
    | os.PathLike[str]
    | jax.stages.Lowered
    | jax.stages.Traced
    | jax.stages.Compiled,
) -> XlaComputation:
    """Import HLO text, or a protocol buffer of HLO, as a computation.

    The source may be the result of `XlaComputation.to_hlo_text` or `Executable.hlo_text`, or a dump
    of XLA from before or after optimization. A fusion becomes a call of its computation, a bitcast
    a reshape or transpose; copies that only change the memory layout are omitted. An import takes
    some tenths of a second, because jaxlib's converter aborts on some HLO and therefore runs in a
    helper process. Instructions lose what has no place in StableHLO: `statistics`, and
    `backend_config` except that of custom calls.

    Args:
        source: text; bytes of an HloModuleProto or HloProto, or of text; the path of a file with
            any of these; or a `Lowered`, `Traced` or `Compiled` of jax. A string is text if it has
            a line break, or a brace after "HloModule" or "ENTRY".

    Returns:
        A computation with the name of the module and the signature of its entry, including layouts
        and nested tuples. An op has the name, the type and the source line in the instruction's
        metadata; without metadata, the name of the instruction.

    Raises:
        ModuleFileError: the file can't be read, XLA refuses its content, or it is text with elided
            constants; the error has the path, the line and the column.
        LoweringError: there is no op for an instruction.
        OperandError: `source` has another type.

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
        raise ModuleFileError("is empty", context=(name,), fix="save the HLO again", path=path)
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
        rule = f"StableHLO can't express {name}: {error.reason}"
        raise error_of(LoweringError, "from_hlo", rule, detail=error.detail) from None
    _make_synchronous(module)
    restore_composites(module)
    try:
        parameters = [_without_default_layouts(parse_shape(text)) for text in head["parameters"]]
        result = _without_default_layouts(parse_shape(head["result"]))
    except ShapeTextError as error:  # XLA's converter ignores layouts, even impossible ones
        reason = statement_of(error)
        raise ModuleFileError(
            f"not HLO: in the signature of the entry computation, {reason}",
            context=(name,),
            path=path,
        ) from None
    names = _names(module, parameters, {} if text is None else _names_in(text))
    try:
        donors = _proto_donors(data) if text is None else _text_donors(text)
        _set_donations(module, parameters, result, donors)
    except (IndexError, ValueError):  # XLA verifies donors only when it compiles
        raise ModuleFileError(
            "not HLO: an alias or a donor names an argument or result that does not exist",
            context=(name,),
            path=path,
        ) from None
    if has_shardy_text(module_strings(code)):
        read_shardings(module, parameters)
    attributes = module.operation.attributes
    for key in [key for key in attributes if key.startswith("mhlo.")]:
        if key != "mhlo.frontend_attributes":
            del attributes[key]  # XLA writes them for every module
    return to_computation(StablehloModule(module, ProgramShape(parameters, result, names)))


def is_hlo(data: bytes) -> bool:
    """Return whether the content of a file looks like HLO, not StableHLO."""
    if data.startswith(BYTECODE_MAGIC):
        return False
    if hlo_conversion.is_hlo_proto(data):
        return True
    return _BEGINNING.match(data.removeprefix(b"\xef\xbb\xbf")) is not None


_BEGINNING: Final = re.compile(rb"(?:\s|//[^\n]*\n|/\*.*?\*/)*(?:HloModule|ENTRY)\b", re.DOTALL)


def _content(source: Any) -> tuple[bytes, str | None]:
    """Return the content of the argument of `from_hlo`, and the path if it is a file, else None."""
    if path_of(source) is not None:
        return read_file(source, "from_hlo", _check_beginning)
    if isinstance(source, str):
        return source.encode("utf-8", "surrogatepass"), None
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), None
    if "jax" in sys.modules:  # else it can not be of jax
        if isinstance(source, jax.stages.Traced):
            from lowering.stablehlo.jax_stages import lowered_stage

            source = lowered_stage(source)
        # The text of large constants would be elided.
        if isinstance(source, jax.stages.Lowered):
            lowered: Any = source.compiler_ir("hlo")
            return lowered.as_serialized_hlo_module_proto(), None
        if isinstance(source, jax.stages.Compiled):
            loaded: Any = source.runtime_executable()
            (module,) = loaded.hlo_modules()
            return module.as_serialized_hlo_module_proto(), None
    rule = "source must be HLO text, bytes, a path or an object of jax"
    is_module = isinstance(source, StablehloModule)
    fix = "call lowering.to_computation for a StableHLO module" if is_module else ""
    raise error_of(OperandError, "from_hlo", rule, fix, got=brief(source))


def _check_beginning(file: BinaryIO, size: int, path: str) -> None:
    """Refuse a large file whose first bytes show that it is not HLO."""
    if size < LARGE:
        return
    name, beginning = display_name(path), file.read(BEGINNING)
    file.seek(0)
    if beginning.startswith(BYTECODE_MAGIC):
        raise _no_hlo(name, path)
    if not hlo_conversion.is_hlo_proto(beginning):
        _text(complete_characters(beginning), name, path)


def _no_hlo(name: str, path: str | None) -> ModuleFileError:
    return ModuleFileError(
        "is StableHLO, not HLO", context=(name,), fix="call lowering.to_computation", path=path
    )


def _module_inside(data: bytes) -> bytes:
    """Return the HloModuleProto in an HloProto; return other bytes unchanged.

    The module is field 1 of an HloProto. An HloModuleProto is recognized by its field 2, the name
    of the entry computation; an HloProto has no field 2.
    """
    try:
        fields = fields_of(data)
    except IndexError:
        return data
    return bytes(fields[1][0]) if 1 in fields and 2 not in fields else data


_ELIDED: Final = re.compile(r"\bconstant\(\{\.\.\.\}\)")
_MLIR: Final = re.compile(r"(?:\s|//[^\n]*\n)*(?:module\b|func\.func\b|#\w+ = )")


def _text(data: bytes, name: str, path: str | None) -> str:
    """Decode HLO text; refuse text that XLA's parser would crash on or misread."""
    reason = ""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8"
    else:
        if "\0" in text:
            reason = f"byte {data.index(0)} is zero"
    if reason:
        raise ModuleFileError(
            f"is not HLO text, nor a protocol buffer of HLO: {reason}", context=(name,), path=path
        )
    if _MLIR.match(text):
        raise _no_hlo(name, path)
    fix = "use fewer levels of nested tuples, with more elements in each"
    # The parameters of a program and the operands of an instruction have parentheses too.
    deep = deep_brackets(text, MAX_TUPLE_NESTING + 1, "the parentheses of HLO", fix, [b"()"])
    if deep is not None:
        raise ModuleFileError(
            f"line {deep.line}, column {deep.column}: {deep.reason}",
            context=(name,),
            fix=deep.fix,
            path=path,
            line=deep.line,
            column=deep.column,
        )
    elided = _ELIDED.search(text)
    if elided is not None:  # XLA's parser would invent values
        before = text[: elided.start()]
        line, column = before.count("\n") + 1, elided.start() - before.rfind("\n")
        raise ModuleFileError(
            f"line {line}, column {column}: the elements of a constant are omitted",
            context=(name,),
            fix="print them (XLA_FLAGS=--xla_dump_large_constants), or dump a protocol buffer "
            "(--xla_dump_hlo_as_proto)",
            path=path,
            line=line,
            column=column,
        )
    return text


_ABORTED: Final = "XLA's converter to StableHLO aborts on this HLO"
_MESH_GROUPS: Final = re.compile(rb"\breplica_groups=\s*mesh\b")


def _converted(data: bytes, name: str, path: str | None) -> tuple[dict[str, Any], bytes]:
    """Convert HLO to StableHLO: return the signature as a dict, and the module's bytecode."""
    try:
        is_proto = hlo_conversion.is_hlo_proto(data)
        changed = (_MESH_GROUPS, INCOMPLETE, COMPOSITE)
        if not is_proto and any(pattern.search(data) for pattern in changed):
            data, is_proto = _isolated(hlo_conversion.checked_hlo_proto, data), True
        if is_proto:
            data = without_tuple_composites(with_complete_names(with_listed_groups(data)))
        program = _isolated(hlo_conversion.hlo_program, data)
    except (HelperError, UnreadableModuleError) as error:
        place = "" if error.line is None else f"line {error.line}, column {error.column}: "
        reason = error.reason if error.reason == _ABORTED else f"not HLO: {error.reason[:300]}"
        raise ModuleFileError(
            f"{place}{reason}",
            context=(name,),
            path=path,
            line=error.line,
            column=error.column,
            detail=error.detail,
        ) from None
    head, _, code = program.partition(b"\n")
    return json.loads(head), code


def _isolated(task: Callable[[bytes], bytes], data: bytes) -> bytes:
    """Call a function of `hlo_conversion`, in a helper process if possible; return its result."""
    return in_helper(task, data, crash_reason=_ABORTED) if sys.executable else task(data)


def _without_default_layouts(shape: Shape) -> Shape:
    def leaf(part: ArrayShape | TokenShape) -> Shape:
        is_default = isinstance(part, ArrayShape) and part.layout and part.layout.is_default
        return without_layout(part) if is_default else part

    return fold(shape, leaf, TupleShape)


def _make_synchronous(module: ir.Module) -> None:
    """Replace each async_start with a synchronous operation; erase its updates and async_done."""
    for start in operations_in(module.operation, ("mhlo.async_start", "stablehlo.async_start")):
        updates: list[ir.Operation] = []  # the last is async_done
        handle = start.results[0]
        while not updates or updates[-1].name.endswith("async_update"):
            users = [use.owner for use in handle.uses]
            if len(users) != 1:
                raise LoweringError(
                    "the result must have one user, async_update or async_done",
                    got=f"{len(users)} users",
                    context=("from_hlo", start.name),
                    op=start.name,
                )
            updates.append(users[0])
            handle = users[0].results[0]
        done = updates[-1]
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
            *inner, terminator = [view.operation for view in block.operations]
            for operation in inner:
                operation.move_before(start)
            values = list(terminator.operands)
        for result, value in zip(done.results, values, strict=True):
            result.replace_all_uses_with(value)
        for operation in (*reversed(updates), start):
            operation.erase()


_ENTRY: Final = re.compile(r"^\s*ENTRY\b.*?^\s*\}", re.MULTILINE | re.DOTALL)
_PARAMETER: Final = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = .*? parameter\((\d+)\)", re.MULTILINE)


def _names_in(text: str) -> dict[int, str]:
    """Return the names of the entry's parameters in HLO text, by number."""
    entry = _ENTRY.search(text)
    parameters = _PARAMETER.findall(entry[0]) if entry is not None else []
    return {int(number): name for name, number in parameters}


def _names(module: ir.Module, parameters: list[Shape], in_text: dict[int, str]) -> list[str]:
    """Return the parameters' names: from the metadata, else from the HLO text.

    XLA adds numbers to names that occur in several computations. So the name "x" in the text is
    used for "x.1" in the metadata.
    """
    unique = UniqueNames()
    names = []
    arguments = list(main_function(module.operation).regions[0].blocks[0].arguments)
    position = 0
    for number, shape in enumerate(parameters):
        count = leaf_count(shape)
        name = in_text.get(number)
        if count:
            located = name_of(arguments[position].location)
            if located and not (name and re.fullmatch(rf"{re.escape(name)}(?:\.\d+)?", located)):
                name = located
        names.append(unique.claim(name or f"arg{number}"))
        position += count
    return names


Donor = tuple[int, tuple[int, ...]]
"""A donated leaf: the number of its parameter, and its tuple index in the parameter."""


def _set_donations(
    module: ir.Module, parameters: list[Shape], result: Shape, donors: list[Donor]
) -> None:
    """Mark the donated arguments of @main by the attributes that `lower` writes.

    Raises:
        IndexError, ValueError: an alias or a donor names a leaf that does not exist.
    """
    attributes = module.operation.attributes
    aliases = attribute_value(attributes[_ALIASES]) if _ALIASES in attributes else ()
    if not aliases and not donors:
        return
    main = main_function(module.operation)
    arguments = argument_attributes(main)

    def argument_number(number: int, index: tuple[int, ...]) -> int:
        """Return the number of the argument of @main for the array at `index` in a parameter."""
        before = sum(map(leaf_count, parameters[:number]))
        return before + leaf_indices(parameters[number]).index(index)

    with module.context:
        i32 = ir.IntegerType.get_signless(32)
        for entry in aliases:
            alias = entry["alias"]
            output = leaf_indices(result).index(entry["output_index"])
            place = argument_number(alias["parameter_number"], alias["parameter_index"])
            arguments[place][ALIASING] = ir.IntegerAttr.get(i32, output)
        for donor in donors:
            arguments[argument_number(*donor)][DONOR] = ir.BoolAttr.get(True)
    set_argument_attributes(main, "arg_attrs", arguments)


_DONORS: Final = re.compile(r"^\s*HloModule\b[^\n]*\bbuffer_donor=\{(.*?\}\)\s*)?\}", re.MULTILINE)
_DONOR_FIELD: Final = 18


def _text_donors(text: str) -> list[Donor]:
    """Return the buffer donors in HLO text, which jaxlib's converter ignores."""
    match = _DONORS.search(text)
    entries = [] if match is None else re.findall(r"\(\s*(\d+)\s*,\s*\{([^}]*)\}", match[1] or "")
    return [(int(n), tuple(map(int, re.findall(r"\d+", index)))) for n, index in entries]


def _proto_donors(data: bytes) -> list[Donor]:
    """Return the buffer donors in an HloModuleProto.

    In hlo.proto, see HloModuleProto.buffer_donor and BufferDonorProto.
    """
    donors = []
    for config in fields_of(data).get(_DONOR_FIELD, ()):
        for entry in fields_of(config).get(1, ()):
            fields = fields_of(entry)
            number = varint(fields[1][0], 0)[0] if 1 in fields else 0
            donors.append((number, tuple(numbers_in(fields.get(2, ())))))
    return donors


_ALIASES: Final = "mhlo.input_output_alias"
