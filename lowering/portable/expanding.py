"""Replace operations of a module by calls of functions that compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from jaxlib.mlir import ir

import builder as xb
from builder.errors import OperandError, XlaError, brief, error_of, statement_of
from builder.graph.computation import XlaComputation
from builder.graph.registry import OPERATIONS
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS, Trait
from builder.support.names import UniqueNames, did_you_mean
from lowering.errors import LoweringError
from lowering.importer.importing import imported
from lowering.importer.other_dialects import module_of_operation
from lowering.jaxlib_api import artifacts, mlir
from lowering.legalize import prepare_artifact
from lowering.legalize.artifacts import custom_call_for_mhlo
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import (
    INTERPRETER,
    Apply,
    Rewrite,
    Target,
    Value,
    rewrite,
    rewrites_for,
)
from lowering.legalize.worklist import apply_rewrites
from lowering.mlir.operations import (
    REFERRING,
    attribute_text,
    call_target,
    enclosing_function_name,
    functions_in,
    operations_in,
    place_of,
    symbol_name,
)
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import StablehloModule, program_shape_of

Expansion = Callable[[XlaOp, Sequence[XlaOp]], XlaOp | Sequence[XlaOp]]
"""Records an op by other ops: receives the op, for its attributes and shapes, and the operands of
the new ops; returns the result, or the results of an operation with several."""

EXPANSIONS: Final[dict[str, Expansion]] = {}
"""The registered expansions, by the name of the operation."""


def expansion(*names: str) -> Callable[[Expansion], Expansion]:
    """Register the decorated function as the expansion of StableHLO's operations `names`."""

    def register(function: Expansion) -> Expansion:
        for name in names:
            EXPANSIONS[f"stablehlo.{name}"] = function
        return function

    return register


_DECOMPOSED: Final = ("chlo.", "mhlo.")
"""The dialects whose operations jaxlib decomposes."""

_COMPOSITE: Final = "stablehlo.composite"
_CUSTOM_CALL: Final = "stablehlo.custom_call"
_BARRIER: Final = "stablehlo.optimization_barrier"


def expanded(module: StablehloModule, op: str, composites: Any, without: Any) -> StablehloModule:
    """Return a copy of a module without some operations.

    Args:
        module: the module; it does not change.
        op: the function that the user called, for messages.
        composites: "inline" to replace composites, and operations of CHLO and MHLO, by calls of
            their decompositions; "keep" to keep them.
        without: the names of further operations to replace.

    Raises:
        LoweringError: an operation has no expansion.
        OperandError: an argument is of another form.
    """
    if not isinstance(composites, str) or composites not in ("keep", "inline"):
        rule = "composites must be 'keep' or 'inline'"
        raise error_of(OperandError, op, rule, got=brief(composites))
    asked = _names(op, without)
    copy = ir.Module.parse(mlir.bytecode(module.module), mlir.new_context())
    inlines = composites == "inline"
    if inlines:
        prepare_artifact(copy, module.name)
    _Expander(op, module.name, copy, asked, inlines=inlines).run()
    return module.with_module(copy)


def _names(op: str, without: Any) -> frozenset[str]:
    """Return the full names of operations that are given by names of operations or ops."""
    if isinstance(without, str) or not isinstance(without, Iterable):
        rule = "without must be a list of names of operations"
        fix = f"pass without=[{without!r}]" if isinstance(without, str) else ""
        raise error_of(OperandError, op, rule, fix, got=brief(without))
    known = {
        spelling: schema.stablehlo
        for schema in SCHEMAS.values()
        if schema.stablehlo
        for spelling in (schema.opcode, schema.stablehlo, schema.stablehlo.partition(".")[2])
    }
    known.update(
        {name: info.schema.stablehlo for name, info in OPERATIONS.items() if info.schema.stablehlo}
    )
    known["composite"] = known[_COMPOSITE] = _COMPOSITE
    found = set()
    for name in without:
        if not isinstance(name, str) or name not in known:
            rule = "without must have names of operations"
            fix = did_you_mean(str(name), {spelling: repr(spelling) for spelling in known}, 0.6)
            raise OperandError(rule, got=brief(name), op=op, fix=fix)
        found.add(known[name])
    return frozenset(found)


class _Expander:
    """Replaces operations of one module, in place.

    Attributes:
        op: the function that the user called.
        name: the name of the module.
        module: the module.
        asked: the names of the operations that the user lists.
        inlines: whether to replace composites and operations of CHLO and MHLO.
        symbols: the names of the module's functions.
        functions: the name of the function for each expanded operation, by everything that
            determines it.
        lineage: for each function that was pasted, the operations whose expansions led to it.
    """

    def __init__(
        self, op: str, name: str, module: ir.Module, asked: frozenset[str], *, inlines: bool
    ) -> None:
        self.op = op
        self.name = name
        self.module = module
        self.asked = asked
        self.inlines = inlines
        self.symbols = UniqueNames(map(symbol_name, functions_in(module.operation)), separator="_")
        self.functions: dict[Any, str] = {}
        self.lineage: dict[str, frozenset[str]] = {}

    def run(self) -> None:
        """Replace operations until none remains: a pasted function may have some as well."""
        target = Target(self.name, INTERPRETER)
        while table := self._table():
            if not apply_rewrites(target, self.module.operation, table, revisit=False):
                break
        mlir.drop_unused_functions(self.module.operation)
        remaining = [o for o in operations_in(self.module.operation) if o.name in self.asked]
        if remaining:
            raise self._refusal(remaining[0])
        self.module.operation.verify()

    def _table(self) -> dict[str, list[Rewrite]]:
        """Return the rewrites of the operations that the module still has."""
        names = {operation.name for operation in operations_in(self.module.operation)}
        chosen = names & self.asked
        if self.inlines:
            chosen |= {name for name in names if name.startswith(_DECOMPOSED)}
            chosen |= names & {_COMPOSITE, _CUSTOM_CALL}
        return {name: self._rewrites(name) for name in chosen}

    def _rewrites(self, name: str) -> list[Rewrite]:
        if name == _CUSTOM_CALL and name not in self.asked:
            return [_rewrite(name, custom_call_for_mhlo)]
        if name in (_CUSTOM_CALL, "mhlo.topk"):
            return rewrites_for(INTERPRETER)[name]
        if name == _BARRIER:
            return [_rewrite(name, lambda _, barrier: list(barrier.operands))]
        return [_rewrite(name, self._call)]

    def _call(self, b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
        """Create a call of a function that computes an operation; None to keep the operation."""
        name = operation.name
        if name == _COMPOSITE:
            if operation.regions:
                return b.inline(operation, 0, list(operation.operands))
            callee = ir.FlatSymbolRefAttr(operation.attributes["decomposition"]).value
        else:
            origin = self.lineage.get(enclosing_function_name(operation), frozenset())
            if name in origin:
                raise self._refusal(operation)
            found = self._function(operation, origin)
            if found is None:
                return None
            callee = found
        types = [result.type for result in operation.results]
        attributes = {"callee": ir.FlatSymbolRefAttr.get(callee, b.context)}
        return list(b.create("func.call", types, list(operation.operands), attributes).results)

    def _function(self, operation: ir.Operation, origin: frozenset[str]) -> str | None:
        """Return the name of the function that computes an operation, pasted if it is new."""
        attributes = _own_attributes(operation)
        key = (
            operation.name,
            *(value.type for value in (*operation.operands, *operation.results)),
            *attributes.items(),
        )
        if key not in self.functions:
            if operation.name in EXPANSIONS:
                try:
                    code = recorded_code(operation)
                except XlaError as error:  # of a bounded size, for instance
                    raise self._refusal(operation, statement_of(error)) from error
            elif not operation.name.startswith(_DECOMPOSED):
                raise self._refusal(operation)
            else:
                try:
                    code = artifacts.decomposed(module_of_operation(operation, attributes, {}))
                except ValueError as error:
                    if operation.name in self.asked:
                        raise self._refusal(operation, str(error)) from None
                    return None
            pasted = mlir.read_module(self.module.context, code)
            self.functions[key] = self._pasted(operation, pasted, origin | {operation.name})
        return self.functions[key]

    def _pasted(self, operation: ir.Operation, pasted: ir.Module, origin: frozenset[str]) -> str:
        """Copy the functions of a module into this one; return the new name of @main."""
        prefix = operation.name.rpartition(".")[2]
        functions = list(functions_in(pasted.operation))
        renamed = {
            name: self.symbols.claim(prefix if name == "main" else name.replace(".", "_"))
            for name in map(symbol_name, functions)
        }
        end = ir.InsertionPoint(self.module.body)
        for function in functions:
            copy = function.clone(end).operation
            name = renamed[symbol_name(copy)]
            copy.attributes["sym_name"] = ir.StringAttr.get(name)
            copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
            for attribute in list(copy.attributes):
                if attribute in ("arg_attrs", "res_attrs") or "." in attribute:
                    del copy.attributes[attribute]
            for inner in operations_in(copy):
                _rename_references(inner, renamed)
            self.lineage[name] = origin
        return renamed["main"]

    def _refusal(self, operation: ir.Operation, reason: str = "") -> LoweringError:
        """Return the error for an operation without an expansion, or whose expansion failed."""
        name = operation.name
        target = call_target(operation)
        subject = name.partition(".")[2] + (f" of {target!r}" if target else "")
        origin = self.lineage.get(enclosing_function_name(operation), frozenset())
        if origin:
            subject += f", in the expansion of {', '.join(map(_short, sorted(origin)))}"
        rule = f"{subject}{place_of(operation)} in {self.name!r} has no expansion"
        got = f"without={sorted(map(_short, self.asked))}"
        if reason:
            got += f": {reason.splitlines()[0]}"
        known = sorted(map(_short, (*EXPANSIONS, _BARRIER)))
        fix = (
            f"omit {_short(name)!r} from without, or record the program without the operation; "
            f"composites, and these operations, have expansions: {', '.join(known)}"
        )
        return error_of(
            LoweringError,
            self.op,
            rule,
            fix,
            got=got,
            detail=reason,
        )


def _own_attributes(operation: ir.Operation) -> dict[str, ir.Attribute]:
    """Return the attributes that determine what an operation computes."""
    return {name: operation.attributes[name] for name in operation.attributes if "." not in name}


def recorded_code(operation: ir.Operation) -> bytes:
    """Record an operation by its expansion; return the text of the lowered module.

    Text has no source lines, which would be those of this library's files.

    Raises:
        XlaError: the expansion does not support the operation's types.
    """
    single = module_of_operation(operation, _own_attributes(operation), {})
    computation = imported(StablehloModule(single, program_shape_of(single, None)))
    op = next(
        each for each in computation.ops if Trait.STRUCTURE not in SCHEMAS[each.opcode].traits
    )
    return lower(recorded(op, computation)).text.encode()


def recorded(op: XlaOp, computation: XlaComputation) -> XlaComputation:
    """Return a computation with the parameters of `computation` that computes its only op `op`."""
    builder = XlaBuilder(computation.name)
    parameters = [
        builder.parameter(shape, f"operand_{number}")
        for number, shape in enumerate(computation.program_shape.parameters)
    ]
    result = EXPANSIONS[SCHEMAS[op.opcode].stablehlo](op, parameters)
    return builder.build(result if isinstance(result, XlaOp) else xb.tuple(*result))


def _short(name: str) -> str:
    """The name of an operation without its dialect."""
    return name.partition(".")[2]


@rewrite("stablehlo.custom_call", platforms=(INTERPRETER,))
def custom_call(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace GSPMD's custom call "Sharding" by its operand: it does not change the elements."""
    if attribute_text(operation.attributes["call_target_name"]) == "Sharding":
        return list(operation.operands)
    return None


def _rewrite(name: str, apply: Apply) -> Rewrite:
    return Rewrite((name,), (INTERPRETER,), apply)


def _rename_references(operation: ir.Operation, renamed: Mapping[str, str]) -> None:
    """Replace the names of functions that an operation refers to."""
    attribute = REFERRING.get(operation.name)
    if attribute is None or attribute not in operation.attributes:
        return
    value = operation.attributes[attribute]
    if isinstance(value, ir.FlatSymbolRefAttr):
        operation.attributes[attribute] = ir.FlatSymbolRefAttr.get(renamed[value.value])
