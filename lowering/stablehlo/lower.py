"""Lower a computation to a StableHLO module, or convert it to XLA's protocol buffer.

XLA's Operation Semantics require that each infeed depends on the previous one, directly or through
other values; likewise each outfeed. An op that applies computations with infeeds (a loop, a
call, a conditional) counts as one infeed.

The entry computation becomes `@main`. A called computation becomes one private function, regardless
of the number of calls. Computations that ops apply (reducers, conditions, bodies, branches) become
regions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain, repeat
from typing import Final, Literal

from jaxlib.mlir import ir

from builder.attributes.annotations import NO_ATTRIBUTES, meshes
from builder.errors import OperandError, brief, error_of
from builder.graph.aliasing import leaf_indices
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import XlaOp, is_only_named
from builder.ops.operands import need_computation
from builder.schema import SCHEMAS
from builder.sharding.text import leaf_texts
from builder.support.names import UniqueNames
from builder.types.shape import ArrayShape, Shape, TupleShape, leaf_count, leaves
from lowering.errors import LoweringError, recorded_at
from lowering.jaxlib_api import hlo_conversion
from lowering.mlir.attributes import (
    ALIASING,
    ARGUMENT_NAME,
    DONOR,
    REPLICATION,
    Attribute,
    array,
    boolean,
    dictionary,
    encodable,
    i32,
    quoted,
)
from lowering.mlir.bytecode import Pieces, Reference
from lowering.mlir.modules import context_for
from lowering.mlir.types import dense_attribute, leaf_paths, mlir_type, type_text
from lowering.pjrt.entry_layouts import LAYOUT_MODE
from lowering.reading.protocol_buffers import replaced
from lowering.sharding.texts import sharding_attribute
from lowering.stablehlo.call_tree import NESTING
from lowering.stablehlo.emitter import Emitter, LargeConstant
from lowering.stablehlo.module import StablehloModule, read_name
from lowering.stablehlo.platforms import declared_platforms


def check_order(computation: XlaComputation, called: tuple[XlaComputation, ...]) -> None:
    """Check that the infeeds, and the outfeeds, of each computation are ordered.

    Args:
        computation: the entry.
        called: the computations that are called and applied, callees before their callers.

    Raises:
        LoweringError: two infeeds, or two outfeeds, are unordered.
    """
    for stream in ("infeed", "outfeed"):
        with_stream: set[XlaComputation] = set()
        for each in (*called, computation):
            if _check(each, stream, with_stream):
                with_stream.add(each)


def _check(computation: XlaComputation, stream: str, with_stream: set[XlaComputation]) -> bool:
    """Check one computation, and return whether it contains ops of `stream`."""
    # Ops are recorded after their operands, so the only possible order is that of recording: each
    # op must depend on all `count` ops before it.
    previous: XlaOp | None = None
    count = 0
    dependencies: dict[int, int] = {}  # the number of such ops that an op depends on
    for op in computation.ops:
        depends_on = max((dependencies.get(operand.id, 0) for operand in op.operands), default=0)
        if op.opcode == stream or (
            with_stream and not with_stream.isdisjoint(called_in(op.attributes))
        ):
            if depends_on != count:
                assert previous is not None
                raise LoweringError(
                    f"{stream}s must be totally ordered",
                    got=f"{_op_text(op)} that does not depend on {_op_text(previous)}",
                    context=("lower", computation.name),
                    fix=f"pass the token of each {stream} to the next: xb.{stream}_with_token; a "
                    "loop carries the token in its state",
                    op=stream,
                )
            count += 1
            depends_on, previous = count, op
        if depends_on:
            dependencies[op.id] = depends_on
    return count > 0


def _op_text(op: XlaOp) -> str:
    place = f" at {op.source.file}:{op.source.line}" if op.source is not None else ""
    return f"{op.opcode}{place}"


MAX_DEPTH: Final = 5_000
"""The maximum nesting of applied computations; MLIR's time grows with the square of the depth."""

MAX_REPEATED_OPS: Final = 500_000
"""The maximum number of ops emitted repeatedly, for computations applied more than once."""


@explained
def lower(
    computation: XlaComputation,
    *,
    composites: Literal["keep", "inline"] = "keep",
    without: Sequence[str] = (),
) -> StablehloModule:
    """Lower a computation to a verified StableHLO module.

    Equal computations give equal bytes. MLIR locations carry the names and source lines of the ops.

    Args:
        computation: the result of `XlaBuilder.build` or ``@xb.computation``.
        composites: "inline" replaces composites, and operations of CHLO such as `erf` and `top_k`,
            by calls of their decompositions.
        without: names of operations that are replaced by others, for backends that lack them:
            "cholesky", "triangular_solve", "fft", "batch_norm_training", "tan", ...

    Returns:
        A module with a function `@main`.

    Raises:
        LoweringError: StableHLO cannot express an op, or an operation in `without` has no
            expansion.
        OperandError: `computation` is not a computation.

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
        >>> @xb.computation(xb.f32[4, 4])
        ... def factor(x):
        ...     return xb.cholesky(x)
        >>> "stablehlo.cholesky" in lowering.lower(factor, without=["cholesky"]).text
        False
    """
    need_computation("lower", computation)
    called = computation.called_computations()
    functions = _functions(computation, called)
    emitter = Emitter(functions)
    pieces = [_function(emitter, computation, "main", entry=True)]
    pieces += [_function(emitter, callee, name, entry=False) for callee, name in functions.items()]
    annotations = computation.annotations
    attributes = NO_ATTRIBUTES if annotations is None else annotations.module
    code = emitter.module(computation.name, pieces, attributes, meshes(computation))
    try:
        # Parsing verifies the module.
        module = ir.Module.parse(code, context_for(emitter.writer.constant_bytes, len(code)))
        _fill(module, emitter.large_constants)
    except ir.MLIRError as error:
        raise _unverified(computation, called, error) from None
    if emitter.has_streams:
        check_order(computation, called)
    python_functions = [function for _, function in emitter.python_functions.values()]
    tree = None if annotations is None else annotations.nesting
    platforms = () if annotations is None else declared_platforms(module)
    shape = computation.program_shape
    lowered = StablehloModule(module, shape, python_functions, platforms=platforms, tree=tree)
    return lowered._expanded("lower", composites, without)


def _fill(module: ir.Module, functions: Sequence[Sequence[LargeConstant]]) -> None:
    """Set the elements of the large constants of each function."""
    views = (view for view in module.body.operations if view.operation.name == "func.func")
    context = module.context
    parsed_type = cache(partial(mlir_type, context=context))
    with context:
        for view, constants in zip(views, functions, strict=True):
            if not constants:
                continue
            # The last operation but one; see LARGE_CONSTANTS.
            carrier = view.operation.regions[0].blocks[0].operations[-2].operation
            # One loop after another: copying the elements displaces the rest from CPU caches.
            operations = [value.owner for value in carrier.operands]
            filled = [dense_attribute(array, parsed_type(shape)) for _, array, shape in constants]
            for operation, attribute in zip(operations, filled, strict=True):
                operation.attributes["value"] = attribute
            carrier.erase()


def _functions(
    computation: XlaComputation, called: tuple[XlaComputation, ...]
) -> dict[XlaComputation, str]:
    """Return a symbol for each computation that an op calls; the others become regions.

    A region is emitted at each application. If each of 20 computations applies the next one twice,
    the last one would be emitted a million times. XLA copies computations in the same way, so
    functions called from the regions would only move the cost into the compiler.

    Raises:
        LoweringError: more than MAX_REPEATED_OPS ops would be emitted repeatedly, or regions would
            nest more than MAX_DEPTH deep.
    """
    if not called:
        return {}
    # For each computation, the number of ops emitted for it and its depth. Callees come first.
    sizes: dict[XlaComputation, tuple[int, int]] = {}
    callees: set[XlaComputation] = set()
    applied: dict[XlaComputation, int] = {}
    for caller in (*called, computation):
        size, depth = len(caller.ops), 0
        for opcode, inner_computations, times in caller.applications():
            if any(a.stablehlo for a in SCHEMAS[opcode].computation_attributes):
                callees.update(inner_computations)
                continue
            for inner in inner_computations:
                applied[inner] = applied.get(inner, 0) + times
                inner_size, inner_depth = sizes[inner]
                size, depth = size + times * inner_size, max(depth, inner_depth + 1)
        sizes[caller] = size, depth
    functions = {computation, *callees}
    total = sum(sizes[function][0] for function in functions)
    repeated = total - sum(len(each.ops) for each in (*called, computation))
    if repeated > MAX_REPEATED_OPS:
        largest = max(applied, key=lambda inner: (applied[inner] - 1) * sizes[inner][0])
        raise LoweringError(
            f"{computation.name!r} must have at most {MAX_REPEATED_OPS} repeated ops",
            got=f"{repeated}: a nested computation is emitted at each place where it is applied; "
            f"{largest.name!r} expands to {sizes[largest][0]} ops and is applied at "
            f"{applied[largest]} places",
            context=("lower",),
            fix=f"apply {largest.name!r} once, to all operands together; or, except in map, apply "
            f"a computation whose only op is xb.call of {largest.name!r}, because called "
            "computations are emitted once",
        )
    deepest = max(sizes[function][1] for function in functions)
    if deepest > MAX_DEPTH:
        raise LoweringError(
            f"{computation.name!r} may nest applied computations at most {MAX_DEPTH} deep",
            got=deepest,
            context=("lower",),
            fix="call an inner computation with xb.call: it is then emitted once, as a function",
        )
    unique = UniqueNames(["main"], separator="_")
    return {callee: unique.claim(encodable(callee.name)) for callee in called if callee in callees}


def _unverified(
    computation: XlaComputation, called: tuple[XlaComputation, ...], error: ir.MLIRError
) -> LoweringError:
    """Return the error for a module that MLIR's verifier refuses."""
    reports = [str(d.message) for d in error.error_diagnostics] or [str(error)]
    detail = "\n".join(reports)
    locations = [recorded_at(d.location) for d in error.error_diagnostics]
    ops = chain.from_iterable(each.ops for each in (computation, *called))
    dynamic = next((op.shape for op in ops if not op.shape.is_static), None)
    if dynamic is not None:
        match = re.match(r"'\w+\.(\w+)' op", reports[0])
        where = f": in {match[1]}{locations[0].rstrip(',')}" if match and locations else ""
        return LoweringError(
            f"{computation.name!r} has dynamic sizes, such as {dynamic}, where StableHLO "
            f"can't express them{where}",
            context=("lower",),
            fix="use an array with static sizes, the bounds, and pass the actual size as s32[]",
            detail=detail,
        )
    # For static sizes, shape inference accepts only what StableHLO accepts.
    return LoweringError(
        f"the module of {computation.name!r} does not verify: "
        f"{'; '.join(reports)}\nThis is a bug in xlabuilder; please report it.",
        context=("lower",),
        detail=detail,
    )


def _function(emitter: Emitter, computation: XlaComputation, name: str, *, entry: bool) -> Pieces:
    """Emit a computation as a function."""
    shape = computation.program_shape
    inputs, results = (
        ", ".join(map(type_text, chain.from_iterable(map(leaves, shapes))))
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
    named = _named_arguments(emitter, computation) if entry else None
    if named is not None:
        argument_attributes, locations = named
    else:
        dictionaries = _argument_attributes(emitter, computation, entry=entry)
        argument_attributes = []
        if entry or any(dictionaries):
            argument_attributes += map(emitter.writer.dictionary, dictionaries)
        locations = []
        for parameter in computation.parameters:
            locations += [emitter.location(parameter)] * leaf_count(parameter.shape)
    if argument_attributes:
        attributes["arg_attrs"] = emitter.writer.array(argument_attributes)
    result_attributes = [_layout_attributes(leaf) if entry else {} for leaf in leaves(shape.result)]
    if annotations is not None:
        for values, texts in zip(result_attributes, annotations.results, strict=False):
            values.update(texts)
        for values, sharding in zip(result_attributes, annotations.result_shardings, strict=False):
            if sharding is not None:
                values.update(sharding_attribute(sharding))
    if any(result_attributes):
        attributes["res_attrs"] = array(map(dictionary, result_attributes))
    if entry:
        # `StablehloModule` restores the nesting of tuples from these attributes.
        if any(isinstance(p, TupleShape) for p in shape.parameters):
            attributes["xlabuilder.parameters"] = array(quoted(str(p)) for p in shape.parameters)
            names = [encodable(str(p.name)) for p in computation.parameters]
            if any(read_name(n, p) != n for n, p in zip(names, shape.parameters, strict=True)):
                attributes["xlabuilder.parameter_names"] = array(map(quoted, names))
        if isinstance(shape.result, TupleShape):
            attributes["xlabuilder.result"] = quoted(str(shape.result))
        if annotations is not None and annotations.nesting is not None:
            text = annotations.nesting.literal()
            if text is not None:
                attributes[NESTING] = quoted(text)
    return emitter.function(attributes, computation, locations)


def _named_arguments(
    emitter: Emitter, computation: XlaComputation
) -> tuple[list[Reference], list[Reference]] | None:
    """Return the attributes and the locations of arguments whose only attribute is a name.

    Return None if an argument has more attributes. Networks have thousands of arguments, and this
    path is several times faster than `_argument_attributes`.
    """
    annotations = computation.annotations
    has_attributes = annotations is not None and annotations.parameters
    if has_attributes or computation.aliases or computation.donors:
        return None
    shapes = computation.program_shape.parameters
    for parameter, shape in zip(computation.parameters, shapes, strict=True):
        if type(shape) is not ArrayShape or shape.layout is not None:
            return None
        if not is_only_named(parameter.metadata):
            return None
        if "replicated_at_leaf_buffers" in parameter.attributes:
            return None
    return emitter.named_arguments(computation.parameters)


def _argument_attributes(
    emitter: Emitter, computation: XlaComputation, *, entry: bool
) -> list[dict[str, Attribute]]:
    """Return the attributes of each flat argument: annotations, replication and sharding.

    Arguments of the entry also have the parameter's name (with the index into a tuple), the layout
    and the donation.
    """
    flat: list[dict[str, Attribute]] = []
    for parameter, shape in zip(
        computation.parameters, computation.program_shape.parameters, strict=True
    ):
        annotations = emitter.annotations(parameter)
        name = encodable(str(parameter.name)) if entry else ""
        shardings: Iterable[dict[str, str]] = repeat({})
        if parameter.sharding is not None:
            shardings = map(sharding_attribute, leaf_texts(parameter.sharding, leaf_count(shape)))
        replicated = parameter.attributes.get("replicated_at_leaf_buffers") or repeat(False)
        parts = zip(leaf_paths(shape), leaves(shape), strict=True)
        for (path, leaf), sharding, is_replicated in zip(
            parts, shardings, replicated, strict=False
        ):
            attributes: dict[str, Attribute] = {}
            if entry:
                attributes[ARGUMENT_NAME] = emitter.writer.text(name + path)
                attributes.update(_layout_attributes(leaf))
            attributes.update(annotations)
            if is_replicated:
                attributes[REPLICATION] = array([boolean(True)])
            attributes.update(sharding)
            flat.append(attributes)
    if computation.annotations is not None:
        for attributes, texts in zip(flat, computation.annotations.parameters, strict=False):
            attributes.update(texts)
    if entry and (computation.aliases or computation.donors):
        for number, donation in _donations(computation).items():
            flat[number].update(donation)
    return flat


def _donations(computation: XlaComputation) -> dict[int, dict[str, str]]:
    """Return the alias or donor attribute of each donated flat argument, by its number."""
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    for position, parameter in enumerate(computation.program_shape.parameters):
        for index in leaf_indices(parameter):
            numbers[position, index] = len(numbers)
    results = leaf_indices(computation.program_shape.result)
    donations = {
        numbers[alias.param_number, alias.param_index]: {
            ALIASING: i32(results.index(alias.output_index))
        }
        for alias in computation.aliases
    }
    for donor in computation.donors:
        donations[numbers[donor.param_number, donor.param_index]] = {DONOR: boolean(True)}
    return donations


def _layout_attributes(leaf: Shape) -> dict[str, str]:
    """Return the layout attribute of an argument or result whose layout is specified."""
    if not isinstance(leaf, ArrayShape) or leaf.layout is None:
        return {}
    return {LAYOUT_MODE: quoted(str(leaf.layout))}


_MODULE_ID: Final = 5
"""The number of the field `id` in HloModuleProto."""


def to_hlo_proto(computation: XlaComputation) -> bytes:
    """Return a computation as the bytes of XLA's HloModuleProto, with names and source lines.

    Tools of XLA read this form, and so does `lowering.from_hlo`. Equal computations give equal
    bytes. For programs with other versions of XLA, save a portable artifact instead, with
    `StablehloModule.save`.

    Args:
        computation: an XlaComputation.

    Raises:
        OperandError: `computation` is not an XlaComputation.
        ShapeInferenceError: tuples nest deeper than XLA's parser reads.

    Example:
        >>> import builder as xb
        >>> import lowering
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> lowering.from_hlo(lowering.to_hlo_proto(double)).program_shape
        (x: f32[2]) -> f32[2]
    """
    if not isinstance(computation, XlaComputation):
        rule = "computation must be an XlaComputation"
        raise error_of(OperandError, "to_hlo_proto", rule, got=brief(computation))
    return proto_of_text(computation.to_hlo_text(metadata=True))


def proto_of_text(text: str) -> bytes:
    """Return the HloModuleProto of HLO text that this library or XLA has printed."""
    proto = hlo_conversion.hlo_proto(text)
    # XLA numbers the modules of a process; without the number, equal modules are equal bytes.
    return replaced(memoryview(proto), (_MODULE_ID,), lambda _: b"")
