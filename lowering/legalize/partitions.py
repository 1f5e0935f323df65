"""Programs of several partitions, each of which has arrays of its own.

XLA's partitioner would cut the arrays of a program, or keep them the same everywhere. A program
that speaks of partitions itself (by partition_id, or by operations across them) means something
else: that every partition runs all of it on its own arrays. The partitioner calls that manual, and
has to be told so of every operation.
"""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from lowering.errors import CompileError, recorded_at
from lowering.legalize.registry import Rewriter

__all__ = ["make_manual"]

_MANUAL: Final = "{manual}"
_SHARDING: Final = "mhlo.sharding"
_WITHOUT: Final = ("func.func", "func.return", "stablehlo.return", "builtin.module")


def make_manual(rewriter: Rewriter, module: ir.Operation) -> None:
    """Says of everything in a module that each partition has its own.

    Raises:
        CompileError: it is said of something already how it is cut into partitions.
    """
    context = module.context
    wrong: list[ir.Operation] = []
    texts: dict[int, ir.Attribute] = {}

    def sharding(count: int) -> ir.Attribute:
        if count not in texts:
            text = _MANUAL if count == 1 else "{" + ", ".join([_MANUAL] * count) + "}"
            texts[count] = ir.StringAttr.get(text, context)
        return texts[count]

    def mark(operation: ir.Operation) -> ir.WalkResult:
        if _SHARDING in operation.attributes:
            wrong.append(operation)
            return ir.WalkResult.INTERRUPT
        if operation.name not in _WITHOUT and len(operation.results):
            operation.attributes[_SHARDING] = sharding(len(operation.results))
        return ir.WalkResult.ADVANCE

    module.walk(mark)
    if wrong:
        raise _is_cut(rewriter, recorded_at(wrong[0].location))
    for function in module.regions[0].blocks[0].operations:
        operation = function.operation
        if operation.name != "func.func":
            continue
        is_entry = ir.StringAttr(operation.attributes["sym_name"]).value == "main"
        kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
        counts = {"arg_attrs": len(kind.inputs), "res_attrs": len(kind.results)}
        for name, count in counts.items():
            given = (
                list(ir.ArrayAttr(operation.attributes[name]))
                if (name in operation.attributes)
                else [ir.DictAttr.get({}, context)] * count
            )
            marked = []
            for one in given:
                fields = ir.DictAttr(one)
                named = [fields[position] for position in range(len(fields))]
                entries = {entry.name: entry.attr for entry in named}
                if _SHARDING in entries:
                    raise _is_cut(rewriter, "")
                if is_entry:
                    entries[_SHARDING] = sharding(1)
                marked.append(ir.DictAttr.get(entries, context))
            if marked:
                operation.attributes[name] = ir.ArrayAttr.get(marked, context)


def _is_cut(rewriter: Rewriter, where: str) -> CompileError:
    return CompileError(
        f"compile: {rewriter.name}: something{where} has a sharding, and with "
        f"num_partitions={rewriter.num_partitions} every partition has arrays of its own\n"
        f"fix: leave out the sharding, or num_partitions"
    )
