"""to_computation: a module, or a file that holds one, as an XlaComputation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jaxlib.mlir import ir

from builder.computation import XlaComputation
from builder.errors import OperandError, shown
from builder.shape import Shape, ShapeLike, TupleShape, leaves, without_layout
from builder.unique_names import UniqueNames
from builder.xla_op import XlaOp
from lowering.errors import LoweringError
from lowering.importer.bodies import Body, Holder, bodies
from lowering.importer.refinement import has_open_sizes, refined, with_argument_shapes
from lowering.importer.regions import Regions
from lowering.importer.scope import Scope, closed, failure, opened
from lowering.importer.tables import OpenSizeError, Tables
from lowering.module import StablehloModule, load, load_bytes
from lowering.types import attribute_text

if TYPE_CHECKING:
    from jax.export import Exported

__all__ = ["recorded", "to_computation"]

_CALLEES = {
    "func.call": "callee",
    "stablehlo.composite": "decomposition",
    "stablehlo.custom_call": "called_computations",
}
"""Operations that name functions, and the attribute that does."""


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
        functions stand in the place of their calls.

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
        f"{shown(source)}\nfix: lowering.load_bytes reads bytes and text",
        op="to_computation",
    )


def recorded(module: StablehloModule, *, may_refine: bool = False) -> XlaComputation:
    """The computation that a module holds.

    Raises:
        LoweringError: as `to_computation`.
        OpenSizeError: a size is left open, and `may_refine`.
    """
    tables = Tables(may_refine=may_refine)
    tables.python_functions = module.functions
    computations: dict[str, XlaComputation] = {}
    regions = Regions(tables, computations)
    for name, body, holders in _in_order(module.module):
        tables.function = name
        regions.record(holders)
        if name == "main":
            return _entry(regions, module, body)
        computations[name] = _function(regions, name, body)
    raise LoweringError("to_computation: the module has no function @main", op="to_computation")


_Function = tuple[str, Body, list[Holder]]


def _in_order(module: ir.Module) -> Iterator[_Function]:
    """The functions that @main calls, callees before their callers; @main is last."""
    functions = {
        str(attribute_text(view.operation.attributes["sym_name"])): view.operation
        for view in module.body.operations
        if view.operation.name == "func.func"
    }
    done: set[str] = set()
    entered = {"main"}
    stack = [_opened(functions, "main")]
    while stack:
        function, called = stack[-1]
        for name in called:
            if name in entered and name not in done:  # readers of files refuse it, as they read
                raise failure(
                    functions[name],
                    f"@{name} calls itself, by way of @{function[0]}, and XLA has no recursion",
                )
            if name not in done:
                entered.add(name)
                stack.append(_opened(functions, name))
                break
        else:
            stack.pop()
            done.add(function[0])
            yield function


def _opened(functions: dict[str, ir.Operation], name: str) -> tuple[_Function, Iterator[str]]:
    """A function, and the names of those that it calls."""
    if not len(functions[name].regions[0].blocks):
        raise failure(functions[name], f"@{name} has no body")
    body, holders = bodies(functions[name])
    called: dict[str, None] = {}
    inside = (body, *(one for _, inner in holders for one in inner))
    for one in inside:
        for operation, _ in one.operations:
            key = _CALLEES.get(operation.name)
            if key is None or key not in operation.attributes:
                continue
            said = operation.attributes[key]
            for symbol in said if isinstance(said, ir.ArrayAttr) else (said,):
                callee = ir.FlatSymbolRefAttr(symbol).value
                if callee not in functions:
                    raise failure(operation, f"there is no function @{callee}")
                called[callee] = None
    return (name, body, holders), iter(called)


def _function(regions: Regions, name: str, body: Body) -> XlaComputation:
    scope = regions.scope(name)
    unique = UniqueNames()
    for number, value in enumerate(body.arguments):
        shape = scope.tables.shape(value.type)
        _, said = scope.tables.place(value.location)
        named = unique.claim(said or f"arg{number}")
        scope.values[value] = scope.builder.parameter(shape, named)
        scope.placed(number, value.location)
    returned = scope.record(body)
    shapes = [op.shape for op in returned]
    return _built(scope, body, returned, shapes[0] if len(shapes) == 1 else None)


def _entry(regions: Regions, module: StablehloModule, body: Body) -> XlaComputation:
    """The computation of @main, whose parameters and result are nested as they were."""
    scope = regions.scope(module.name)
    shape = module.program_shape
    said = iter(_argument_attributes(module))
    arguments = iter(body.arguments)
    for name, parameter in zip(_names(module, scope, body), shape.parameters, strict=True):
        begin = len(scope.builder.ops)
        whole = scope.builder.parameter(parameter, name)
        inside = [(leaf, next(arguments), next(said)) for leaf in opened(whole)]
        scope.values.update((argument, leaf) for leaf, argument, _ in inside)
        if inside:  # what is noted on a parameter was noted on each of its leaves
            _, argument, attributes = inside[0]
            scope.placed(begin, argument.location)
            scope.annotate(whole, attributes)
    return _built(scope, body, scope.record(body), shape.result)


def _argument_attributes(module: StablehloModule) -> Sequence[Any]:
    """What is said of each argument of @main, besides its type."""
    (function,) = (
        view.operation
        for view in module.module.body.operations
        if view.operation.name == "func.func"
        and attribute_text(view.operation.attributes["sym_name"]) == "main"
    )
    if "arg_attrs" in function.attributes:
        return [ir.DictAttr(one) for one in ir.ArrayAttr(function.attributes["arg_attrs"])]
    return [{}] * len(function.regions[0].blocks[0].arguments)


def _names(module: StablehloModule, scope: Scope, body: Body) -> list[str]:
    """The names of the parameters: those that `lower` wrote, or else those of their locations."""
    shape = module.program_shape
    names = list(shape.parameter_names)
    if names != [f"arg{number}" for number in range(len(names))]:
        return names
    unique = UniqueNames()
    for number, value in enumerate(body.arguments):
        _, name = scope.tables.place(value.location)
        if len(names) == len(body.arguments):
            names[number] = unique.claim(name or names[number])
    return names


def _built(scope: Scope, body: Body, returned: list[XlaOp], shape: Shape | None) -> XlaComputation:
    begin = len(scope.builder.ops)
    wanted = TupleShape([op.shape for op in returned]) if shape is None else shape
    root = closed(scope.builder, without_layout(wanted), iter(returned))
    scope.placed(begin, body.operations[-1][0].location)
    has_layout = any(getattr(leaf, "layout", None) is not None for leaf in leaves(wanted))
    return scope.builder.build(root, result=wanted if has_layout else None)
