"""Ops that jax evaluates by the StableHLO that `lowering.lower` writes for them.

For ops without an equivalent in jax.lax: a primitive of jax whose lowering pastes the module of one
op. It can be compiled, exported and vmapped, and cannot be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from builder.errors import error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, Shape, TokenShape, fold, leaves
from lowering.errors import LoweringError
from lowering.jaxlib_api.compilation import initialize_lapack
from lowering.jaxlib_api.jax_arrays import axes_of, varying
from lowering.jaxlib_api.jaxprs import side_effect
from lowering.legalize import legalize
from lowering.mlir.modules import shared_context
from lowering.ops.registry import Step, Value, place, refusal
from lowering.stablehlo.lower import lower

Aval = Any
"""An abstract value of jax."""


@dataclass(frozen=True, eq=False)
class PastedOp:
    """An op that is pasted.

    Attributes:
        opcode: its opcode.
        place: ", recorded at FILE:LINE", for messages.
        code: the bytecode of its module.
        results: the abstract values of its result's leaves.
        has_side_effect: whether it must run even if its result is not used.
    """

    opcode: str
    place: str
    code: bytes
    results: tuple[Aval, ...]
    has_side_effect: bool

    def __repr__(self) -> str:
        return self.opcode


def pasted(computation: XlaComputation, op: XlaOp) -> Step:
    """Return a step that evaluates an op of `computation` by its StableHLO.

    Raises:
        LoweringError: the op has a token as operand or result, or applies a computation that
            calls a Python function.
    """
    shapes = [op.shape, *(operand.shape for operand in op.operands)]
    if any(isinstance(leaf, TokenShape) for shape in shapes for leaf in leaves(shape)):
        raise refusal(op, "jax can't pass a token to it", "use an op without a token")
    # A dict, because `==` of ops records a comparison.
    first_uses: dict[XlaOp, int] = {}
    for number, operand in enumerate(op.operands):
        first_uses.setdefault(operand, number)
    module = lower(computation.extract(op, inputs=list(first_uses)))
    if module.functions:
        reason = "a computation that it applies calls a Python function"
        raise refusal(op, reason, "call the function with the whole arrays")
    single = PastedOp(
        op.opcode,
        place(op),
        module.bytecode,
        abstract_values(op.shape),
        bool(op.attributes.get("has_side_effect", False)),
    )

    def step(*operands: Value) -> Value:
        arguments = jax.tree_util.tree_leaves([operands[i] for i in first_uses.values()])
        results = _PASTED.bind(*arguments, op=single)
        return nested(op.shape, varying(results, axes_of(arguments)))

    return step


def abstract_values(shape: Shape) -> tuple[Aval, ...]:
    """Return jax's abstract value of each array in a shape."""
    return tuple(
        jax.core.ShapedArray(leaf.dimensions, leaf.element_type.dtype)
        for leaf in leaves(shape)
        if isinstance(leaf, ArrayShape)
    )


def nested(shape: Shape, values: Iterable[Value]) -> Value:
    """Nest the values of arrays in tuples like `shape`, with None for tokens.

    Of an iterator, only the values of this shape are taken.
    """
    remaining = iter(values)

    def leaf(leaf_shape: ArrayShape | TokenShape) -> Value:
        return next(remaining) if isinstance(leaf_shape, ArrayShape) else None

    return fold(shape, leaf, tuple)


def _evaluate(*operands: Value, op: PastedOp) -> Any:
    return jax.jit(lambda *values: _PASTED.bind(*values, op=op))(*operands)


def _abstract(*_: Aval, op: PastedOp) -> Any:
    return list(op.results), {side_effect()} if op.has_side_effect else set()


def _lower(ctx: Any, *operands: Any, op: PastedOp) -> Any:
    return paste(ctx, op, f"xlabuilder_{op.opcode}", lambda: _legalized(op, ctx), operands)


def paste(ctx: Any, key: Any, name: str, code: Callable[[], bytes], operands: Sequence[Any]) -> Any:
    """Call @main of a module in a program that jax lowers; return the MLIR values of the results.

    Args:
        ctx: jax's context of the lowering.
        key: identifies the module, which is pasted once for a program.
        name: the name of the function in the program; a number is appended if there are several.
        code: returns the text or bytecode of the module.
        operands: the MLIR values of the arguments.
    """
    functions = ctx.module_context.cached_primitive_lowerings
    pasted_name = functions.get(key)
    if pasted_name is None:
        written = code()
        initialize_lapack(written)
        module = ir.Module.parse(written, ctx.module_context.context)
        functions_of_op: Any = module.body.operations
        main = next(f for f in functions_of_op if f.sym_name.value == "main")
        for kind in ("arg_attrs", "res_attrs"):
            if kind in main.operation.attributes:
                del main.operation.attributes[kind]
        pasted_name = functions[key] = mlir.merge_mlir_modules(
            ctx.module_context.module,
            name,
            module,
            dst_symtab=ctx.module_context.symbol_table,
        )
    types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in ctx.avals_out]
    return func.CallOp(types, ir.FlatSymbolRefAttr.get(pasted_name), operands).results


def _legalized(op: PastedOp, ctx: Any) -> bytes:
    """Return the module of an op with the rewrites for the platform that jax lowers for.

    A program that jax lowers for several platforms contains the op as it was recorded.
    """
    platforms = [p for p in (ctx.platforms or ctx.module_context.platforms) if p in _PLATFORMS]
    if len(platforms) != 1:
        return op.code
    context = shared_context(len(op.code))
    # Here the current context is jax's, which must not own operations of the module.
    with context, ir.Location.unknown():
        module = ir.Module.parse(op.code)
        return legalize(module, op.opcode, _PLATFORMS[platforms[0]]).code


_PLATFORMS: Final = {"cpu": "cpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}
"""This library's names of jax's platforms."""


def _batched(operands: Sequence[Value], dimensions: Sequence[int | None], *, op: PastedOp) -> Any:
    """Evaluate an op for each element of a batch, one after the other."""
    mapped = [
        value if dimension is None else jax.numpy.moveaxis(value, dimension, 0)
        for value, dimension in zip(operands, dimensions, strict=True)
    ]
    batches = [v for v, d in zip(mapped, dimensions, strict=True) if d is not None]

    def evaluate(elements: Sequence[Value]) -> Any:
        each = iter(elements)
        values = [v if d is None else next(each) for v, d in zip(mapped, dimensions, strict=True)]
        return _PASTED.bind(*values, op=op)

    results = jax.lax.map(evaluate, batches)
    return results, [0] * len(results)


def _derivative(_primals: Any, _tangents: Any, *, op: PastedOp) -> Any:
    raise error_of(
        LoweringError,
        "to_jax",
        f"{op.opcode}{op.place}: jax has no derivative of this op",
        "record it with differentiable ops, or in a computation with a derivative of its own: "
        "xb.custom_gradient",
    )


_PASTED: Final[Any] = Primitive("xlabuilder_op")
_PASTED.multiple_results = True
_PASTED.def_impl(_evaluate)
_PASTED.def_effectful_abstract_eval(_abstract)
mlir.register_lowering(_PASTED, _lower)
batching.primitive_batchers[_PASTED] = _batched
ad.primitive_jvps[_PASTED] = _derivative
