"""Shardy's shardings that are said as frontend attributes, in Shardy's own words.

HLO has no others, and so do modules that were made of HLO. XLA reads them where it is told the
meshes; a module that names a mesh which nobody has said ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.sharding.text import as_per_value, leaf_texts
from builder.types.shape import Shape, leaf_count
from lowering.errors import CompileError, LoweringError
from lowering.jaxlib_api import mlir
from lowering.mlir.types import attribute_text
from lowering.reading.bytecode_tables import module_strings

__all__ = ["check_meshes", "read_shardings", "with_shardings"]

_FRONTEND: Final = "mhlo.frontend_attributes"
_MESHES: Final = "xla.sdy.meshes"
_SHARDING: Final = "xla.sdy.sharding"
_CONSTRAINT: Final = "Sharding"
_RESULT: Final = "xla.sdy.FuncResultSharding"


def check_meshes(words: bytes, name: str) -> None:
    """Refuses a module with these words in its bytecode whose meshes are said nowhere.

    Raises:
        CompileError: it names some in frontend attributes.
    """
    if f"{_SHARDING}\0".encode() in words and f"{_MESHES}\0".encode() not in words:
        raise CompileError(
            f"compile: {name} has shardings in frontend attributes, {_SHARDING}, and says nowhere "
            f"which meshes there are\n"
            f"fix: say them in {_MESHES}, a frontend attribute of the module, or leave them out"
        )


def with_shardings(module: ir.Module, parameters: Sequence[Shape]) -> ir.Module:
    """A module whose shardings are in Shardy's own words: a copy, if need be.

    Args:
        module: is not changed.
        parameters: the shapes of the entry's.

    Raises:
        LoweringError: as `read_shardings`.
    """
    code = mlir.bytecode(module)
    if f"{_SHARDING}\0".encode() not in module_strings(code):
        return module
    copy = ir.Module.parse(code, mlir.new_context())
    read_shardings(copy, parameters, "compile")
    return copy


def read_shardings(module: ir.Module, parameters: Sequence[Shape], op: str = "from_hlo") -> None:
    """Has a module say its meshes and shardings in Shardy's own words, in place.

    Args:
        module: as jaxlib's converter gives it, of HLO.
        parameters: the shapes of the entry's, whose tuples are opened in the module.
        op: who asks, for messages.

    Raises:
        LoweringError: they can't be read, or name a mesh that there isn't.
    """
    operations = [view.operation for view in module.body.operations]
    found = [operation for operation in operations if operation.name == "func.func"]
    saying: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if _said(operation.attributes):
            saying.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    with module.context, ir.Location.unknown():
        try:
            _say_meshes(module)
            for function in found:
                is_entry = attribute_text(function.attributes["sym_name"]) == "main"
                _say_of_arguments(function, parameters if is_entry else ())
            for operation in saying:
                _say(operation)
            module.operation.verify()
        except (ir.MLIRError, ValueError) as error:
            report = str(error).strip().splitlines()
            reason = next((line for line in report if "error:" in line), report[-1])
            raise LoweringError(
                f"{op}: a sharding does not fit the module: {reason.partition('error: ')[2]}\n"
                f"fix: name a mesh that the module has among its frontend attributes, {_MESHES}",
                op=op,
                detail=str(error),
            ) from None


def _said(attributes: ir.OpAttributeMap | ir.DictAttr) -> str:
    """Shardy's sharding among frontend attributes; empty if there is none."""
    if _FRONTEND not in attributes:
        return ""
    given = ir.DictAttr(attributes[_FRONTEND])
    return attribute_text(given[_SHARDING]) or "" if _SHARDING in given else ""


def _others(attributes: ir.DictAttr, without: str) -> ir.DictAttr:
    named = [attributes[n] for n in range(len(attributes))]
    return ir.DictAttr.get({one.name: one.attr for one in named if one.name != without})


def _keep(operation: ir.Operation, left: ir.DictAttr) -> None:
    """Leaves these frontend attributes of an operation."""
    del operation.attributes[_FRONTEND]
    if len(left):
        operation.attributes[_FRONTEND] = left


def _say_meshes(module: ir.Module) -> None:
    attributes = module.operation.attributes
    if _FRONTEND not in attributes:
        return
    given = ir.DictAttr(attributes[_FRONTEND])
    if _MESHES not in given:
        return
    meshes = ir.DictAttr(ir.Attribute.parse(attribute_text(given[_MESHES]) or ""))
    _keep(module.operation, _others(given, _MESHES))
    before = ir.InsertionPoint.at_block_begin(module.body)
    for number in range(len(meshes)):
        mesh = meshes[number]
        name = ir.StringAttr.get(mesh.name)
        ir.Operation.create("sdy.mesh", attributes={"sym_name": name, "mesh": mesh.attr}, ip=before)


def _say_of_arguments(function: ir.Operation, parameters: Sequence[Shape]) -> None:
    """Of the arguments of a function; those of the entry are the arrays of `parameters`."""
    if "arg_attrs" not in function.attributes:
        return
    arguments = [ir.DictAttr(one) for one in ir.ArrayAttr(function.attributes["arg_attrs"])]
    # Of a tuple each array has the shardings of all.
    places = [(n, count) for count in map(leaf_count, parameters) for n in range(count)]
    said = []
    for number, one in enumerate(arguments):
        text = _said(one)
        if not text:
            said.append(one)
            continue
        position, count = places[number] if places else (0, 1)
        given = _others(one, _FRONTEND)
        named = {given[n].name: given[n].attr for n in range(len(given))}
        left = _others(ir.DictAttr(one[_FRONTEND]), _SHARDING)
        if len(left):
            named[_FRONTEND] = left
        named["sdy.sharding"] = ir.Attribute.parse(leaf_texts(text, count)[position])
        said.append(ir.DictAttr.get(named))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(said)


def _say(operation: ir.Operation) -> None:
    text = _said(operation.attributes)
    _keep(operation, _others(ir.DictAttr(operation.attributes[_FRONTEND]), _SHARDING))
    target = ""
    if operation.name == "stablehlo.custom_call":
        target = attribute_text(operation.attributes["call_target_name"]) or ""
    if target not in (_CONSTRAINT, _RESULT):
        operation.attributes["sdy.sharding"] = ir.Attribute.parse(as_per_value(text))
        return
    sharding = ir.Attribute.parse(leaf_texts(text, 1)[0])
    (value,) = operation.operands
    if target == _RESULT:
        _say_of_results(operation, sharding)
    else:
        constraint = ir.Operation.create(
            "sdy.sharding_constraint",
            [operation.results[0].type],
            [value],
            {"sharding": sharding},
            loc=operation.location,
            ip=ir.InsertionPoint(operation),
        )
        value = constraint.results[0]
    operation.results[0].replace_all_uses_with(value)
    operation.erase()


def _say_of_results(operation: ir.Operation, sharding: ir.Attribute) -> None:
    """Of the results of a function that are what an operation gives."""
    for use in operation.results[0].uses:
        function = use.owner.parent
        if use.owner.name != "func.return" or function is None:
            continue
        count = len(use.owner.operands)
        given = [ir.DictAttr.get({})] * count
        if "res_attrs" in function.attributes:
            given = [ir.DictAttr(one) for one in ir.ArrayAttr(function.attributes["res_attrs"])]
        before = given[use.operand_number]
        named = {before[n].name: before[n].attr for n in range(len(before))}
        given[use.operand_number] = ir.DictAttr.get({**named, "sdy.sharding": sharding})
        function.attributes["res_attrs"] = ir.ArrayAttr.get(given)
