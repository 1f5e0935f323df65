"""From a computation to a StableHLO module.

The entry computation becomes `@main`; computations that are called become private functions, one
each however often they are called; computations that ops apply (reducers, conditions, bodies,
branches) become regions, as StableHLO has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Final

from jaxlib.mlir import ir

from builder.attributes.annotations import NO_ATTRIBUTES, meshes
from builder.errors import OperandError, brief
from builder.graph.aliasing import leaf_indices
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import ReusableFunction
from builder.graph.xla_op import NO_METADATA, XlaOp
from builder.sharding.text import leaf_texts
from builder.support.unique_names import UniqueNames
from builder.types.shape import ArrayShape, Shape, TupleShape, leaf_count, leaves
from lowering.errors import LoweringError, recorded_at
from lowering.mlir.attributes import (
    ARGUMENT_NAME,
    Attribute,
    array,
    boolean,
    dictionary,
    encodable,
    i32,
    quoted,
)
from lowering.mlir.bytecode import Pieces, Reference
from lowering.mlir.context import context_for
from lowering.mlir.donations import ALIASING, DONOR
from lowering.mlir.flattening import leaf_paths
from lowering.mlir.types import dense_attribute, mlir_type, type_text
from lowering.pjrt.entry_layouts import LAYOUT_MODE
from lowering.sharding.attributes import sharding_attribute
from lowering.stablehlo import rules as rules
from lowering.stablehlo.emitter import Emitter, LargeConstant
from lowering.stablehlo.module import StablehloModule, read_name
from lowering.stablehlo.stream_order import check_order

__all__ = ["lower"]

_CALLING: Final = frozenset(("call", "composite", "custom_call"))
"""Opcodes whose computation becomes a function, called by its name."""

MAX_DEPTH: Final = 5_000
"""How deep computations are applied inside each other; the time that MLIR takes goes with the
square of it."""

MAX_REPEATED_OPS: Final = 500_000
"""How many ops may be emitted again, since computations are applied more than once."""


def lower(computation: XlaComputation) -> StablehloModule:
    """The StableHLO module of a computation, verified.

    The same computation gives the same bytes. Names and source lines of the ops go along as MLIR
    locations.

    Args:
        computation: what `XlaBuilder.build` or ``@xb.computation`` gave.

    Returns:
        A module with a function `@main`.

    Raises:
        LoweringError: an op cannot be said in StableHLO.
        OperandError: not a computation.

    Example:
        >>> import builder as xb, lowering
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> print(lowering.lower(double))
        module @double {
          func.func public @main(%arg0: tensor<2xf32> {xlabuilder.name = "x"}) -> tensor<2xf32> {
            %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
            return %0 : tensor<2xf32>
          }
        }
        <BLANKLINE>
    """
    _need_computation(computation)
    called = computation.called_computations()
    functions = _functions(computation, called)
    emitter = Emitter(functions)
    pieces = [_function(emitter, computation, "main", entry=True)]
    pieces += [_function(emitter, one, name, entry=False) for one, name in functions.items()]
    annotations = computation.annotations
    said = NO_ATTRIBUTES if annotations is None else annotations.module
    code = emitter.module(computation.name, pieces, said, meshes(computation))
    try:
        # MLIR verifies what it reads.
        module = ir.Module.parse(code, context_for(emitter.writer.constant_bytes))
        _fill(module, emitter.large_constants)
    except ir.MLIRError as error:
        raise _unverified(computation, called, error) from None
    if emitter.has_streams:
        check_order(computation, called)
    called_in_python = tuple(function for _, function in emitter.python_functions.values())
    return StablehloModule(module, computation.program_shape, called_in_python)


def _fill(module: ir.Module, functions: Sequence[Sequence[LargeConstant]]) -> None:
    """Gives the large constants of each function their elements."""
    views = (view for view in module.body.operations if view.operation.name == "func.func")
    types: dict[ArrayShape, ir.Type] = {}  # parsing one takes 1.7 us
    context = module.context
    with context:
        for view, constants in zip(views, functions, strict=True):
            if not constants:
                continue
            # In a chain, as `iter` of MLIR's own iterator begins anew.
            operations = chain(view.operation.regions[0].blocks[0].operations)
            after = 0
            for position, elements, shape in constants:
                operation = next(islice(operations, position - after, None))
                after = position + 1
                kind = types.get(shape)
                if kind is None:
                    kind = types[shape] = mlir_type(shape, context)
                operation.attributes["value"] = dense_attribute(elements, kind)


def _need_computation(value: object) -> None:
    if isinstance(value, XlaComputation):
        return
    fix = ""
    if isinstance(value, XlaOp):
        fix = "\nfix: build it first: op.builder.build(op)"
    elif isinstance(value, ReusableFunction):
        fix = "\nfix: lower function.computation(shape, ...), with a shape for each parameter"
    raise OperandError(f"lower: expected an XlaComputation, got {brief(value)}{fix}", op="lower")


def _functions(
    computation: XlaComputation, called: tuple[XlaComputation, ...]
) -> dict[XlaComputation, str]:
    """A symbol for each computation that some op calls; the others become regions.

    A region is emitted wherever its computation is applied: one applied twice by each of 20 that
    are applied twice would be emitted a million times. XLA copies computations in the same way, so
    that calling functions from the regions would only move the waiting into the compiler.

    Raises:
        LoweringError: more than MAX_REPEATED_OPS ops would be emitted again, or regions would stand
            in each other more than MAX_DEPTH deep.
    """
    if not called:
        return {}
    # Of each: the ops to emit for it, and how deep; callees come before their callers.
    sizes: dict[XlaComputation, tuple[int, int]] = {}
    callees: set[XlaComputation] = set()
    applied: dict[XlaComputation, int] = {}
    for one in (*called, computation):
        size, depth = len(one.ops), 0
        for opcode, inside, times in one.applications():
            for inner in inside:
                if opcode in _CALLING:
                    callees.add(inner)
                    continue
                applied[inner] = applied.get(inner, 0) + times
                inner_size, inner_depth = sizes[inner]
                size, depth = size + times * inner_size, max(depth, inner_depth + 1)
        sizes[one] = size, depth
    entries = {computation, *callees}
    total = sum(sizes[one][0] for one in entries)
    repeated = total - sum(len(one.ops) for one in (*called, computation))
    if repeated > MAX_REPEATED_OPS:
        often = max(applied, key=lambda one: (applied[one] - 1) * sizes[one][0])
        raise LoweringError(
            f"lower: {computation.name!r} applies computations that apply others several times, "
            f"and so on: {repeated} ops would be emitted again, at most {MAX_REPEATED_OPS}; "
            f"{often.name!r} stands for {sizes[often][0]} ops and is applied at {applied[often]} "
            f"places\n"
            f"fix: apply it at one place, to all operands together; or, except in map, apply a "
            f"computation that gives it to xb.call, as what is called is emitted once"
        )
    deepest = max(sizes[one][1] for one in entries)
    if deepest > MAX_DEPTH:
        raise LoweringError(
            f"lower: in {computation.name!r} computations are applied inside each other, "
            f"{deepest} deep, at most {MAX_DEPTH}\n"
            f"fix: let an op in between apply xb.call of the next computation, which becomes a "
            f"function"
        )
    unique = UniqueNames(["main"], separator="_")
    return {one: unique.claim(encodable(one.name)) for one in called if one in callees}


def _unverified(
    computation: XlaComputation, called: tuple[XlaComputation, ...], error: ir.MLIRError
) -> LoweringError:
    """What to say when MLIR's verifier refuses the module."""
    reports = [str(d.message) for d in error.error_diagnostics] or [str(error)]
    detail = "\n".join(reports)
    places = [recorded_at(d.location) for d in error.error_diagnostics]
    for one in (computation, *called):
        for op in one.ops:
            if not op.shape.is_static:
                blamed = re.match(r"'\w+\.(\w+)' op", reports[0])
                where = f": in {blamed[1]}{places[0].rstrip(',')}" if blamed and places else ""
                return LoweringError(
                    f"lower: {computation.name!r} has dynamic sizes, such as {op.shape}, where "
                    f"StableHLO can't express them{where}\n"
                    f"fix: use static sizes there: the largest, and beside the array its size as "
                    f"an s32[]",
                    detail=detail,
                )
    # Inference admits of static sizes only what StableHLO admits, so this is a fault of ours.
    return LoweringError(
        f"lower: the module of {computation.name!r} does not verify: "
        f"{'; '.join(reports)}\nThis is a fault of xlabuilder; please report it.",
        detail=detail,
    )


def _function(emitter: Emitter, computation: XlaComputation, name: str, *, entry: bool) -> Pieces:
    shape = computation.program_shape
    inputs, results = (
        ", ".join(type_text(leaf) for one in shapes for leaf in leaves(one))
        for shapes in (shape.parameters, (shape.result,))
    )
    annotations = computation.annotations
    attributes: dict[str, Attribute] = {
        "sym_name": quoted(name),
        "function_type": f"({inputs}) -> ({results})",
        "sym_visibility": quoted("public" if entry else "private"),
    }
    if annotations is not None:
        attributes.update(annotations.function)
    plain = _plain_arguments(emitter, computation) if entry else None
    if plain is not None:
        entered = [*plain]
        said, locations = [one for one, _ in entered], [one for _, one in entered]
    else:
        found = _argument_attributes(emitter, computation, entry=entry)
        said = [*map(emitter.writer.dictionary, found)] if entry or any(found) else []
        locations = []
        for parameter in computation.parameters:
            locations += [emitter.location(parameter)] * leaf_count(parameter.shape)
    if said:
        attributes["arg_attrs"] = emitter.writer.array(said)
    given = [_layout_attributes(leaf) if entry else {} for leaf in leaves(shape.result)]
    if annotations is not None:
        for one, texts in zip(given, annotations.results, strict=False):
            one.update(texts)
        for one, sharding in zip(given, annotations.result_shardings, strict=False):
            one.update({} if sharding is None else sharding_attribute(sharding))
    if any(given):
        attributes["res_attrs"] = array(map(dictionary, given))
    if entry:
        # The nesting that flattening loses; see `module.py` for how it is read back.
        if any(isinstance(p, TupleShape) for p in shape.parameters):
            attributes["xlabuilder.parameters"] = array(quoted(str(p)) for p in shape.parameters)
            names = [encodable(str(p.name)) for p in computation.parameters]
            if any(read_name(n, p) != n for n, p in zip(names, shape.parameters, strict=True)):
                attributes["xlabuilder.parameter_names"] = array(map(quoted, names))
        if isinstance(shape.result, TupleShape):
            attributes["xlabuilder.result"] = quoted(str(shape.result))
    return emitter.function(attributes, computation, locations)


def _plain_arguments(
    emitter: Emitter, computation: XlaComputation
) -> Iterator[tuple[Reference, Reference]] | None:
    """The attributes and the location of each argument where all are arrays of which only the name
    is said; None where one has more.

    Networks have a thousand of them, each of which takes 3 us here and 9 us by its attributes.
    """
    if computation.annotations is not None or computation.aliases or computation.donors:
        return None
    shapes = computation.program_shape.parameters
    for parameter, shape in zip(computation.parameters, shapes, strict=True):
        if type(shape) is not ArrayShape or shape.layout is not None or parameter.metadata is None:
            return None
        if parameter.metadata[1:] != NO_METADATA[1:]:
            return None
    return map(emitter.named_argument, computation.parameters)


def _argument_attributes(
    emitter: Emitter, computation: XlaComputation, *, entry: bool
) -> list[dict[str, Attribute]]:
    """For each flat argument its annotations; where the program is entered also its parameter's
    name (with the path into a tuple), its layout, and whether its memory is given away."""
    found: list[dict[str, Attribute]] = []
    writer = emitter.writer
    for parameter, shape in zip(
        computation.parameters, computation.program_shape.parameters, strict=True
    ):
        # An array, as most parameters are, is its only leaf.
        parts = (
            [("", shape)] if shape.is_array else zip(leaf_paths(shape), leaves(shape), strict=True)
        )
        annotations = emitter.annotations(parameter)
        name = encodable(str(parameter.name)) if entry else ""
        if parameter.sharding is None:
            shardings: Iterable[dict[str, str]] = repeat({})
        else:
            each = leaf_texts(parameter.sharding, leaf_count(shape))
            shardings = map(sharding_attribute, each)
        for (path, leaf), sharding in zip(parts, shardings, strict=False):
            attributes: dict[str, Attribute] = {}
            if entry:
                attributes[ARGUMENT_NAME] = writer.text(name + path)
                attributes.update(_layout_attributes(leaf))
            attributes.update(annotations)
            attributes.update(sharding)
            found.append(attributes)
    if computation.annotations is not None:
        for one, texts in zip(found, computation.annotations.parameters, strict=False):
            one.update(texts)
    if entry and (computation.aliases or computation.donors):
        for number, said in _donations(computation).items():
            found[number].update(said)
    return found


def _donations(computation: XlaComputation) -> dict[int, dict[str, str]]:
    """Of each flat argument whose memory is given away, how that is said."""
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    for position, parameter in enumerate(computation.program_shape.parameters):
        for index in leaf_indices(parameter):
            numbers[position, index] = len(numbers)
    results = leaf_indices(computation.program_shape.result)
    found = {
        numbers[one.param_number, one.param_index]: {ALIASING: i32(results.index(one.output_index))}
        for one in computation.aliases
    }
    for donor in computation.donors:
        found[numbers[donor.param_number, donor.param_index]] = {DONOR: boolean(True)}
    return found


def _layout_attributes(leaf: Shape) -> dict[str, str]:
    """The layout, if one was asked for, of an array that enters or leaves the program."""
    if not isinstance(leaf, ArrayShape) or leaf.layout is None:
        return {}
    return {LAYOUT_MODE: quoted(str(leaf.layout))}
