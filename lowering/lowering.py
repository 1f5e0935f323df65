"""From a computation to a StableHLO module.

The entry computation becomes `@main`; computations that are called become private functions, one
each however often they are called; computations that ops apply (reducers, conditions, bodies,
branches) become regions, as StableHLO has them.
"""

from __future__ import annotations

from typing import Any, Final

from jaxlib.mlir import ir

from builder.computation import XlaComputation
from builder.shape import ArrayShape, TupleShape, leaves
from builder.xla_op import XlaOp
from lowering import rules as rules  # enters the rules of every family
from lowering.emitter import Emitter
from lowering.errors import LoweringError
from lowering.flattening import leaf_paths, unflatten
from lowering.mlir_context import MlirContext, shared_context
from lowering.module import StablehloModule

__all__ = ["lower"]

# MLIR keeps the bytes of every constant for as long as its context lives. From this many bytes on
# a module gets a context of its own, which goes when the module goes.
_OWN_CONTEXT_BYTES: Final = 1 << 20


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
        TypeError: not a computation.

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
    mlir = MlirContext() if _has_large_constants((computation, *called)) else shared_context()
    with mlir.context, mlir.unknown_location:
        module = ir.Module.create(mlir.unknown_location)
        module.operation.attributes["sym_name"] = mlir.string(computation.name)
        module_ip = ir.InsertionPoint(module.body)
        functions = _function_names(computation, called)
        emitter = Emitter(mlir, module_ip, functions)
        _emit_function(emitter, computation, "main", entry=True)
        for callee in called:
            if callee in functions:
                _emit_function(emitter, callee, functions[callee], entry=False)
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        # Inference admits only what StableHLO admits, so this is a fault of ours.
        diagnostics = "; ".join(str(d.message) for d in error.error_diagnostics)
        raise LoweringError(
            f"lower: the module of {computation.name!r} does not verify: "
            f"{diagnostics or error}\nThis is a fault of xlabuilder; please report it."
        ) from None
    return StablehloModule(module, computation.program_shape)


def _need_computation(value: object) -> None:
    if isinstance(value, XlaComputation):
        return
    fix = "\nfix: build it first: op.builder.build(op)" if isinstance(value, XlaOp) else ""
    raise TypeError(f"lower: expected an XlaComputation, got {value!r}{fix}")


def _has_large_constants(computations: tuple[XlaComputation, ...]) -> bool:
    """Whether the constants of these computations are large together."""
    total = 0
    for computation in computations:
        for op in computation.ops:
            if op.opcode == "constant":
                total += op.attributes["value"].nbytes
                if total >= _OWN_CONTEXT_BYTES:
                    return True
    return False


def _function_names(
    computation: XlaComputation, called: tuple[XlaComputation, ...]
) -> dict[XlaComputation, str]:
    """A symbol for each computation that some `call` op calls; the others become regions."""
    callees = {
        op.attributes["to_apply"]
        for one in (computation, *called)
        for op in one.ops
        if op.opcode == "call"
    }
    names: dict[XlaComputation, str] = {}
    taken = {"main"}
    for callee in called:
        if callee not in callees:
            continue
        name, number = callee.name, 0
        while name in taken:
            number += 1
            name = f"{callee.name}_{number}"
        taken.add(name)
        names[callee] = name
    return names


def _emit_function(
    emitter: Emitter, computation: XlaComputation, name: str, *, entry: bool
) -> None:
    mlir = emitter.mlir
    shape = computation.program_shape
    inputs = [t for s in shape.parameters for t in emitter.types(s)]
    results = emitter.types(shape.result)
    function_type = ir.FunctionType.get(inputs, results, mlir.context)
    attributes: dict[str, Any] = {
        "sym_name": mlir.string(name),
        "function_type": ir.TypeAttr.get(function_type, mlir.context),
        "sym_visibility": mlir.string("public" if entry else "private"),
    }
    if entry:
        if inputs:
            attributes["arg_attrs"] = mlir.array(_argument_attributes(emitter, computation))
        # The nesting that flattening loses; see `module.py` for how it is read back.
        if any(isinstance(p, TupleShape) for p in shape.parameters):
            texts = [mlir.string(str(p)) for p in shape.parameters]
            attributes["xlabuilder.parameters"] = mlir.array(texts)
        if isinstance(shape.result, TupleShape):
            attributes["xlabuilder.result"] = mlir.string(str(shape.result))
    function = ir.Operation.create(
        "func.func",
        attributes=attributes,
        regions=1,
        loc=mlir.unknown_location,
        ip=emitter.module_ip,
    )
    locations = [mlir.location(p) for p in computation.parameters for _ in emitter.types(p.shape)]
    block = ir.Block.create_at_start(function.regions[0], inputs, locations)
    incoming = iter(block.arguments)
    arguments = [unflatten(s, incoming) for s in shape.parameters]
    emitter.emit_block(block, computation, arguments, "func.return")


def _argument_attributes(emitter: Emitter, computation: XlaComputation) -> list[ir.Attribute]:
    """For each flat argument its parameter's name (with the path into a tuple) and annotations."""
    string = emitter.mlir.string
    found: list[ir.Attribute] = []
    for parameter, shape in zip(
        computation.parameters, computation.program_shape.parameters, strict=True
    ):
        for path, leaf in zip(leaf_paths(shape), leaves(shape), strict=True):
            attributes = emitter.annotations(parameter)
            attributes["xlabuilder.name"] = string(f"{parameter.name}{path}")
            if isinstance(leaf, ArrayShape) and leaf.layout is not None:
                # XLA's word for the layout of an entry parameter.
                attributes["mhlo.layout_mode"] = string(str(leaf.layout))
            found.append(emitter.mlir.dictionary(attributes))
    return found
