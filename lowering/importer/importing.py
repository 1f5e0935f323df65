"""to_computation: a module, or a file that holds one, as an XlaComputation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir

from builder.errors import OperandError, XlaError, brief
from builder.graph.aliasing import leaf_indices
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.support.unique_names import UniqueNames
from builder.types.shape import ProgramShape, Shape, ShapeLike, TupleShape, leaves, without_layout
from lowering.errors import LoweringError
from lowering.importer.annotations import (
    annotate,
    annotations_of,
    argument_attributes,
    of_all_leaves,
)
from lowering.importer.bodies import Body, Holder, holders_of
from lowering.importer.by_schema import importer_of
from lowering.importer.control_flow import stands_for_op
from lowering.importer.failures import failure, unknown
from lowering.importer.garbage_collection import collector_paused
from lowering.importer.refinement import has_open_sizes, refined, with_argument_shapes
from lowering.importer.regions import Regions
from lowering.importer.scope import Scope, closed, opened
from lowering.importer.tables import OpenSizeError, Tables
from lowering.mlir.donations import ALIASING, is_donated
from lowering.mlir.types import attribute_text
from lowering.reading.module_reader import display_name
from lowering.stablehlo.module import StablehloModule, load, load_bytes

if TYPE_CHECKING:
    from jax.export import Exported

__all__ = ["recorded", "to_computation", "with_file_name"]

_CALLEES = {
    "func.call": "callee",
    "stablehlo.composite": "decomposition",
    "stablehlo.custom_call": "called_computations",
}
"""Operations that name functions, and the attribute that does."""


_BESIDE_FUNCTIONS: Final = frozenset(("sdy.mesh",))
"""What a module holds besides functions."""


def to_computation(
    source: StablehloModule | Exported | str | os.PathLike[str],
    *,
    argument_shapes: Sequence[ShapeLike] | None = None,
) -> XlaComputation:
    """The computation that a StableHLO module holds, op by op.

    Args:
        source: a module; a `jax.export.Exported`; or the path of a file: text, bytecode, a portable
            artifact, or an Exported as `serialize` wrote it.
        argument_shapes: for each parameter its shape, if the module leaves sizes open
            (`tensor<?xf32>`); of parameters without open sizes the shape that they have.

    Returns:
        A computation named like the module. Functions are called computations, regions the
        computations that ops apply; several results are a tuple. Where sizes had to be worked out,
        functions stand in the place of their calls. What is said besides is kept, and lowered
        again: names, source lines, shardings of GSPMD and of Shardy, frontend attributes and others
        on the ops (`XlaOp.metadata`), arguments whose memory is given away (`XlaComputation.aliases`,
        `donors`), the rest in `XlaComputation.annotations`.

        Of a module that `lower` made it is the computation that was lowered, but for what
        StableHLO lacks: tuples are taken apart and put together where ops need them; parameters of
        what is applied have no tuples in each other; a branch takes what it uses; and ops that
        become several operations come back as these.

    Raises:
        ModuleFileError: the file can't be read, or holds no module.
        LoweringError: an operation has no counterpart here, or gives another shape than the file
            says; names it, and where it is from.
        ArgumentError: `argument_shapes` are not those of the module's parameters.
        OperandError: neither a module nor a path; or `argument_shapes` are no shapes.

    Example:
        >>> import lowering
        >>> module = lowering.load_bytes('''
        ... func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        ...   %0 = stablehlo.add %x, %x : tensor<?xf32>
        ...   return %0 : tensor<?xf32>
        ... }''')
        >>> print(lowering.to_computation(module, argument_shapes=["f32[2]"]))
        HloModule main, entry_computation_layout={(f32[2]{0})->f32[2]{0}}
        <BLANKLINE>
        ENTRY %main (arg0: f32[2]) -> f32[2] {
          %arg0 = f32[2]{0} parameter(0)
          ROOT %add.1 = f32[2]{0} add(%arg0, %arg0)
        }
        <BLANKLINE>
    """
    module = _module(source)
    try:
        return _imported(module, argument_shapes)
    except LoweringError as error:
        if isinstance(source, (str, os.PathLike)):
            raise with_file_name(error, os.fsdecode(source)) from error.__cause__
        raise


def with_file_name(error: LoweringError, path: str) -> LoweringError:
    """The same error of a module that is from a file; names it.

    MLIR calls a text that was not given a name "-".
    """
    name, said = display_name(path), str(error)
    if ", recorded at -:" in said:
        said = said.replace(", recorded at -:", f", recorded at {name}:", 1)
    else:
        said = said.replace("to_computation: ", f"to_computation: {name}: ", 1)
    return LoweringError(said, op=error.op, detail=error.detail)


def _imported(
    module: StablehloModule, argument_shapes: Sequence[ShapeLike] | None
) -> XlaComputation:
    wanted = module if argument_shapes is None else with_argument_shapes(module, argument_shapes)
    if any(map(has_open_sizes, wanted.program_shape.parameters)):
        try:
            return recorded(wanted)
        except LoweringError as error:
            raise LoweringError(
                f"{error}\nfix: give the sizes that @main leaves open: "
                f"to_computation(module, argument_shapes=[...]), for {wanted.program_shape}",
                op=error.op,
                detail=error.detail,
            ) from error
    try:
        return recorded(wanted, may_refine=wanted is module)
    except OpenSizeError:
        return recorded(refined(wanted))


def _module(source: Any) -> StablehloModule:
    """The module that `to_computation` was given, in whatever form."""
    if isinstance(source, StablehloModule):
        return source
    if isinstance(source, (str, os.PathLike)):
        return load(source)
    # An Exported can only be there if its class is, which takes a moment to import.
    export = sys.modules.get("jax.export")
    if export is not None and isinstance(source, export.Exported):
        return load_bytes(source.mlir_module_serialized)
    raise OperandError(
        f"to_computation: expected a StablehloModule or the path of a file, got "
        f"{brief(source)}\nfix: lowering.load_bytes reads bytes and text",
        op="to_computation",
    )


def recorded(module: StablehloModule, *, may_refine: bool = False) -> XlaComputation:
    """The computation that a module holds.

    Raises:
        LoweringError: as `to_computation`.
        OpenSizeError: a size is left open, and `may_refine`.
    """
    with collector_paused():
        return _recorded(module, may_refine)


def _recorded(module: StablehloModule, may_refine: bool) -> XlaComputation:
    tables = Tables(may_refine=may_refine)
    tables.python_functions = module.functions
    computations: dict[str, XlaComputation] = {}
    regions = Regions(tables, computations)
    try:
        for name, holders in _in_order(module.module):
            tables.function = name
            *inside, (function, (body,)) = holders
            _refuse_unknown(inside)
            regions.record(inside)
            if name == "main":
                return _entry(regions, module, function, body)
            computations[name] = _function(regions, name, function, body)
    except LoweringError:
        raise
    except XlaError as error:  # not of an operation, which `Scope.record` would name
        raise LoweringError(
            f"to_computation: in @{tables.function}: {error}", op="to_computation"
        ) from error
    except RecursionError:  # of a tuple in a tuple and so on, or a list
        raise LoweringError(
            f"to_computation: in @{tables.function}: types or attributes are nested too deep",
            op="to_computation",
        ) from None
    raise LoweringError("to_computation: the module has no function @main", op="to_computation")


def _refuse_unknown(holders: Sequence[Holder]) -> None:
    """Raises LoweringError for the first operation with regions that there is no op for, rather
    than for something that stands in it."""
    for operation, _ in holders:
        if importer_of(operation.name) is None:
            raise unknown(operation)


def _in_order(module: ir.Module) -> Iterator[tuple[str, list[Holder]]]:
    """The functions that @main calls, callees before their callers; @main is last.

    Of each its name and its `holders_of`.
    """
    functions: dict[str, ir.Operation] = {}
    for view in module.body.operations:
        operation = view.operation
        if operation.name == "func.func":
            functions[str(attribute_text(operation.attributes["sym_name"]))] = operation
        elif operation.name not in _BESIDE_FUNCTIONS:
            raise failure(operation, "it stands beside the functions, where XLA does not look")
    done: set[str] = set()
    entered = {"main"}
    stack = [_opened(functions, "main")]
    while stack:
        caller, holders, called = stack[-1]
        for name in called:
            if name in entered and name not in done:  # readers of files refuse it, as they read
                raise failure(
                    functions[name],
                    f"@{name} calls itself, by way of @{caller}, and XLA has no recursion",
                )
            if name not in done:
                entered.add(name)
                stack.append(_opened(functions, name))
                break
        else:
            stack.pop()
            done.add(caller)
            yield caller, holders


def _opened(
    functions: dict[str, ir.Operation], name: str
) -> tuple[str, list[Holder], Iterator[str]]:
    """A function's name, its holders, and the names of those that it calls."""
    function = functions[name]
    _check_function(function, name)
    holders = holders_of(function)
    called: dict[str, None] = {}
    own_first = (holders[-1], *holders[:-1])
    for operation in (one for _, inner in own_first for body in inner for one in body.operations):
        key = _CALLEES.get(operation.name)
        if key is None or key not in operation.attributes or stands_for_op(operation):
            continue
        said = operation.attributes[key]
        for symbol in said if isinstance(said, ir.ArrayAttr) else (said,):
            callee = ir.FlatSymbolRefAttr(symbol).value
            if callee not in functions:
                raise failure(operation, f"there is no function @{callee}")
            if not len(functions[callee].regions[0].blocks):
                raise failure(operation, f"func.func @{callee} has no body, it is only declared")
            called[callee] = None
    return name, holders, iter(called)


_RETURNS: Final = frozenset(("func.return", "stablehlo.return"))
"""What functions end with. The second is of regions; XLA takes it, and JAX writes it where a custom
call compares."""


def _check_function(function: ir.Operation, name: str) -> None:
    """Raises LoweringError for a function that XLA would not enter, or not so as it is written."""
    blocks = function.regions[0].blocks
    if not len(blocks):
        raise failure(function, f"@{name} has no body")
    if len(blocks) > 1:
        raise failure(
            function,
            f"@{name} has {len(blocks)} blocks, and nothing in StableHLO goes from one to another",
        )
    last = blocks[0].operations[len(blocks[0].operations) - 1].operation
    if last.name not in _RETURNS:
        raise failure(last, f"@{name} must end with func.return")
    visibility = function.attributes.get("sym_visibility")
    if name == "main" and visibility is not None and attribute_text(visibility) != "public":
        raise failure(function, f"@main is {attribute_text(visibility)}, and XLA can't enter it")


def _function(regions: Regions, name: str, function: ir.Operation, body: Body) -> XlaComputation:
    scope = regions.scope(name)
    unique = UniqueNames()
    said = argument_attributes(function, "arg_attrs", len(body.arguments))
    for number, value in enumerate(body.arguments):
        shape = scope.tables.shape(value.type)
        *_, display_name = scope.tables.place(value.location)
        parameter = scope.builder.parameter(shape, unique.claim(display_name or f"arg{number}"))
        scope.values[value] = parameter
        scope.placed(number, value.location)
        _annotate_parameter(scope, function, parameter, said[number])
    returned = scope.record(body)
    shapes = [op.shape for op in returned]
    result = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    signature = ProgramShape([p.shape for p in scope.builder.parameters.values()], result)
    known = [_NOTED] * len(said)
    scope.builder.annotations = annotations_of(function, signature, said, known)
    return _built(scope, body, returned, shapes[0] if len(shapes) == 1 else None)


_NOTED: Final = frozenset(("mhlo.sharding", "sdy.sharding", "mhlo.frontend_attributes"))
"""What arguments say that is noted on their parameters."""


def _annotate_parameter(
    scope: Scope, function: ir.Operation, parameter: XlaOp, said: Mapping[str, ir.Attribute]
) -> None:
    try:
        annotate(parameter, said, [name for name in said if name in _NOTED], scope.tables)
    except LoweringError as error:
        raise failure(function, f"of its argument {parameter.name}: {error}") from None


def _entry(
    regions: Regions, module: StablehloModule, function: ir.Operation, body: Body
) -> XlaComputation:
    """The computation of @main, whose parameters and result are nested as they were."""
    scope = regions.scope(module.name)
    shape = module.program_shape
    said = argument_attributes(function, "arg_attrs", len(body.arguments))
    known: list[frozenset[str]] = []
    for name, parameter in zip(_names(module, scope, body), shape.parameters, strict=True):
        begin = len(scope.builder.ops)
        whole = scope.builder.parameter(parameter, name)
        inside = list(opened(whole))
        first = len(known)
        scope.values.update(zip(body.arguments[first:], inside, strict=False))
        if inside:
            scope.placed(begin, body.arguments[first].location)
            # What was noted on a parameter was noted on each of its leaves, or for each of them.
            of_leaves = said[first : first + len(inside)]
            shared: dict[str, Any] | None = {}
            if not all(map(_NOTED.isdisjoint, of_leaves)):
                noted = [{n: one[n] for n in one if n in _NOTED} for one in of_leaves]
                shared = of_all_leaves(noted)
            known += [frozenset() if shared is None else _NOTED] * len(inside)
            if shared:
                _annotate_parameter(scope, function, whole, shared)
    returned = scope.record(body)
    _set_up_donations(scope, function, shape, said)
    scope.builder.annotations = annotations_of(function, shape, said, known, module.module)
    return _built(scope, body, returned, shape.result)


def _set_up_donations(
    scope: Scope,
    function: ir.Operation,
    shape: ProgramShape,
    said: Sequence[Mapping[str, ir.Attribute]],
) -> None:
    """Says of the arguments that are used up that they are."""
    places = [
        (number, index)
        for number, parameter in enumerate(shape.parameters)
        for index in leaf_indices(parameter)
    ]
    outputs = leaf_indices(shape.result)
    builder = scope.builder
    for place, one in zip(places, said, strict=True):
        if not is_donated(one):
            continue
        try:
            if ALIASING not in one:
                builder.add_buffer_donor(*place)
                continue
            output = scope.tables.value(one[ALIASING])
            if not isinstance(output, int) or not 0 <= output < len(outputs):
                raise LoweringError(f"{ALIASING} = {one[ALIASING]}: there is no such result")
            builder.setup_alias(outputs[output], *place)
        except XlaError as error:
            raise failure(function, f"of its argument {place[0]}: {error}") from None


def _names(module: StablehloModule, scope: Scope, body: Body) -> list[str]:
    """The names of the parameters: those that `lower` wrote, or else those of their locations."""
    shape = module.program_shape
    names = list(shape.parameter_names)
    unique = UniqueNames()
    if names != [f"arg{number}" for number in range(len(names))]:  # in files two may be the same
        return [unique.claim(name or f"arg{number}") for number, name in enumerate(names)]
    if len(names) == len(body.arguments):
        for number, value in enumerate(body.arguments):
            *_, name = scope.tables.place(value.location)
            names[number] = unique.claim(name or names[number])
    return names


def _built(scope: Scope, body: Body, returned: list[XlaOp], shape: Shape | None) -> XlaComputation:
    begin = len(scope.builder.ops)
    wanted = TupleShape([op.shape for op in returned]) if shape is None else shape
    root = closed(scope.builder, without_layout(wanted), iter(returned))
    scope.placed(begin, body.operations[-1].location)
    has_layout = any(getattr(leaf, "layout", None) is not None for leaf in leaves(wanted))
    return scope.builder.build(root, result=wanted if has_layout else None)
