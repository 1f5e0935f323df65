"""from_jax: the computation of a jax function."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np

from builder.errors import OperandError, ShapeTextError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import ReusableFunction
from builder.support.frames import from_function
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    Shape,
    TupleShape,
    has_unbounded_sizes,
    parse_shape,
)
from lowering.errors import LoweringError
from lowering.importer import to_computation
from lowering.importer.importing import imported
from lowering.jax_interop.equations import lowered_with_calls, retraced_call, whole_call
from lowering.jax_interop.sizes import are_numbers, merged_sizes
from lowering.jaxlib_api.jaxprs import static_arguments, used_leaves
from lowering.stablehlo.jax_stages import exclude_own_frames, shared_module

_OURS: Final = (XlaComputation, ReusableFunction)

STAGES: Final = (jax.stages.Traced, jax.stages.Lowered, jax.export.Exported)


@explained
def from_jax(function: Any, *arguments: Any, **named: Any) -> XlaComputation:
    """Record a jax function as a computation, op by op.

    jax traces the function and lowers it to StableHLO, which is imported as by `to_computation`.

    Args:
        function: a function of jax arrays, or what `jax.jit` or `jax.export` make of it: a jitted
            function, a `Traced`, a `Lowered` or an `Exported`. The static arguments are those of
            ``jax.jit(function, static_argnames=...)``.
        arguments: the arguments with which the function is traced, in any trees of jax.tree_util.
            The leaves are shapes, arrays or numbers; of arrays only the shape is used. An
            xb.TupleShape is a tuple. Unbounded sizes, as in ``xb.f32["?", 3]``, are symbolic
            dimensions of jax; if jax needs some of them to be equal, those of the same dimension
            become equal. A jax.ShapeDtypeStruct with symbolic dimensions declares exactly which are
            equal, and the computation checks this, and their constraints, when it is called. A
            `Traced`, `Lowered` or `Exported` takes none.
        named: the keyword arguments.

    Returns:
        A computation with the name of the function. Each leaf of the arguments is a parameter,
        with a name such as ``params['w']``; several results are a tuple. Its nesting is that of the
        function: ``lowering.compile(computation)`` is called with the function's arguments. Unused
            arguments are parameters too, except those of a function that `jax.jit` has made without
            ``keep_unused=True``. With arguments of 64-bit types the function is traced as in
        ``jax.enable_x64(True)``. Derivatives of the computation are those of the function, except
        of a `Lowered` or `Exported`, which do not have jax's trace; see docs/jax.md.

    Raises:
        LoweringError: the function has effects, such as `jax.debug.print`; an operation has no op.
        OperandError: the function is not callable, or a leaf is neither a shape, an array nor a
            number.

    Example:
        >>> import builder as xb, jax, lowering
        >>> @jax.jit
        ... def layer(params, x):
        ...     return jax.nn.relu(x @ params["w"] + params["b"])
        >>> c = lowering.from_jax(layer, {"w": xb.f32[3, 4], "b": xb.f32[4]}, xb.f32[2, 3])
        >>> c.program_shape
        (params['b']: f32[4], params['w']: f32[3,4], x: f32[2,3]) -> f32[2,4]
    """
    if isinstance(function, STAGES):
        if arguments or named:
            rule = f"a {type(function).__name__} has its arguments"
            raise error_of(
                OperandError, "from_jax", rule, "call lowering.from_jax(stage) alone", got="others"
            )
        return computation_of_stage("from_jax", function)
    check_function("from_jax", function)
    values = jax.tree.leaves(without_static(arguments, named, *static_arguments(function)))
    if isinstance(function, jax.stages.Wrapped):  # of other libraries, it may take any values
        values = [value for value in values if _shape_of_text(value) is not None]
    _check_values(values)
    # The symbols of a user are equal exactly where they have one name.
    described = [
        leaf
        for leaf in jax.tree.leaves((arguments, named))
        if isinstance(leaf, jax.ShapeDtypeStruct)
    ]
    are_ours = are_numbers(size for leaf in described for size in leaf.shape)
    tree = _abstract("from_jax", (arguments, named))
    checks = not are_ours
    return traced_computation("from_jax", function, *tree, may_merge=are_ours, checks_sizes=checks)


def without_static(
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    numbers: Iterable[int],
    names: Iterable[str],
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments without the static ones, which have these numbers and names."""
    count = len(arguments)
    fixed = {number % count for number in numbers if -count <= number < count}
    return (
        [argument for number, argument in enumerate(arguments) if number not in fixed],
        {name: value for name, value in named.items() if name not in names},
    )


def _check_values(values: Iterable[Any]) -> None:
    """Raise OperandError unless jax or `from_jax` accepts the values as arguments."""
    for value in values:
        try:
            if not isinstance(value, Shape):
                jax.eval_shape(lambda array: array, value)
        except (TypeError, ValueError, OverflowError):
            rule = "an argument must be an array, a number or a shape"
            raise error_of(
                OperandError, "from_jax", rule, _fix_of_value(value), got=brief(value)
            ) from None


def _fix_of_value(value: Any) -> str:
    shape = _shape_of_text(value)
    return _FIX_VALUE if shape is None else f"write xb.parse_shape({str(shape)!r})"


def _shape_of_text(value: Any) -> Shape | None:
    if isinstance(value, str):
        with contextlib.suppress(ShapeTextError):
            return parse_shape(value)
    return None


_FIX_VALUE: Final = "pass the value to the function otherwise: lambda x: function(x, value)"


def check_function(op: str, function: Any) -> None:
    """Raise OperandError unless `function` is a callable that may be a function of jax arrays."""
    if callable(function) and not isinstance(function, (type, *_OURS)):
        return
    fix = "pass for instance lambda x: jax.numpy.sin(x)"
    if isinstance(function, XlaComputation):
        fix = "record xb.call(computation, ...), or pass lowering.to_jax(computation)"
    elif isinstance(function, ReusableFunction):
        fix = "call the function itself, or function.computation(shape, ...)"
    rule = "function must be a function of jax arrays"
    raise error_of(OperandError, op, rule, fix, got=brief(function))


def traced_computation(
    op: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: dict[str, Any],
    *,
    may_merge: bool = False,
    checks_sizes: bool = False,
) -> XlaComputation:
    """Return the computation of a function for arguments whose leaves jax accepts.

    Args:
        op: the name of the public function, for messages.
        function, arguments, named: the function and its arguments.
        may_merge: whether unbounded sizes of the same dimension may be taken as equal, if jax can't
            trace the function for different ones.
        checks_sizes: whether the computation checks what symbolic dimensions declare.

    Raises:
        LoweringError: see `from_jax`.
    """
    leaves, structure = jax.tree.flatten((tuple(arguments), named))
    tree: Any = structure  # jax has no types for it
    if are_numbers(size for leaf in leaves for size in np.shape(leaf)):
        return _traced(op, function, arguments, named, checks_sizes)
    declared = _described(leaves) if checks_sizes else None
    try:
        computation = _traced(op, function, arguments, named, checks_sizes)
    except Exception as error:
        # jax has different symbols for sizes that may be equal.
        is_of_jax = type(error).__module__.partition(".")[0] == "jax"
        if not (is_of_jax or isinstance(error, (TypeError, ValueError))):
            raise
        merged = merged_sizes(leaves) if may_merge else None
        if merged is None:
            error.add_note(_EQUAL_SIZES.format(op=op))
            raise
        try:
            arguments, named = tree.unflatten(merged)
            # What was taken as equal is checked.
            computation = _traced(op, function, arguments, named, checks_sizes=True)
        except Exception:
            error.add_note(_EQUAL_SIZES.format(op=op))
            raise error from None
        declared = _described(merged)
    # jax.jit removes arguments that are not used.
    takes_all = len(computation.parameters) == len(leaves)
    again = _of_leaves(function, tree) if takes_all else None
    retraced_call(computation, again, arrays=declared)
    return computation


def _traced(
    op: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: dict[str, Any],
    checks_sizes: bool,
) -> XlaComputation:
    is_jitted = isinstance(function, jax.stages.Wrapped)
    jitted: Any = function if is_jitted else jax.jit(function, keep_unused=True)
    leaves = jax.tree.leaves((arguments, named))
    is_wide = any(np.dtype(getattr(leaf, "dtype", bool)).name in _WIDE for leaf in leaves)
    with jax.enable_x64(True) if is_wide else contextlib.nullcontext():
        try:
            traced = jitted.trace(*arguments, **named)
        except Exception as error:
            from_function(error)
            raise
        return computation_of_stage(op, traced, checks_sizes=checks_sizes)


_EQUAL_SIZES: Final = (
    "{op}: jax traced the function for unbounded sizes, which may be different. Where they are "
    "equal, pass jax.ShapeDtypeStruct(jax.export.symbolic_shape('n, 3'), dtype) with the same n to "
    "from_jax."
)
"""A note to errors of functions of jax that are traced for unbounded sizes."""


def _described(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return jax's descriptions of arguments; their arrays are not kept."""
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    return tuple(
        [
            described(leaf.shape, leaf.dtype)
            if hasattr(leaf, "shape") and hasattr(leaf, "dtype")
            else jax.eval_shape(lambda number: number, leaf)
            for leaf in leaves
        ]
    )


def _of_leaves(function: Callable[..., Any], tree: Any) -> Callable[..., list[Any]]:
    """Return a function of the leaves of the arguments; it returns the leaves of the result."""

    def of_leaves(*leaves: Any) -> list[Any]:
        arguments, named = tree.unflatten(leaves)
        found: list[Any] = jax.tree.leaves(function(*arguments, **named))
        return found

    return of_leaves


_WIDE: Final = frozenset(("int64", "uint64", "float64", "complex128"))
"""The dtypes that jax replaces by narrower ones unless its x64 flag is set."""


def _abstract(op: str, tree: Any) -> Any:
    """Return a tree with shapes replaced by those of jax: unbounded sizes by symbols."""
    scope, names = jax.export.SymbolicScope(), itertools.count()

    def leaf(value: Any) -> Any:
        if not isinstance(value, Shape):
            return value
        if isinstance(value, TupleShape):
            return tuple([leaf(element) for element in value.elements])
        if not isinstance(value, ArrayShape) or not has_unbounded_sizes(value):
            return abstract_array(op, value)  # or refuse it
        dynamic = zip(value.dimensions, value.dynamic_dimensions, strict=True)
        if any(is_dynamic and size != UNBOUNDED for size, is_dynamic in dynamic):
            return abstract_array(op, value)  # refuses it
        text = [f"d{next(names)}" if n == UNBOUNDED else str(n) for n in value.dimensions]
        sizes = jax.export.symbolic_shape(", ".join(text), scope=scope)
        described: Any = jax.ShapeDtypeStruct  # jax has no types for it
        return described(sizes, value.element_type.dtype)

    # Not by jax.tree.map, whose frame would be that of an error.
    leaves, found = jax.tree.flatten(tree, is_leaf=lambda value: isinstance(value, Shape))
    structure: Any = found  # jax has no types for it
    return structure.unflatten([leaf(value) for value in leaves])


def abstract_array(op: str, shape: Shape) -> jax.ShapeDtypeStruct:
    """Return jax's description of an array of this shape.

    Raises:
        OperandError: jax has no arrays of this shape.
    """
    if not isinstance(shape, ArrayShape):
        raise error_of(OperandError, op, f"jax has no arrays of shape {shape}")
    if not shape.is_static:
        fix = "pass fixed sizes, or unbounded ones: '?'"
        raise error_of(OperandError, op, "jax has no bounded sizes", fix, got=shape)
    dtype = shape.element_type.dtype
    return jax.ShapeDtypeStruct(shape.dimensions, dtype)  # type: ignore[no-untyped-call]  # of jax


def computation_of_stage(op: str, stage: Any, *, checks_sizes: bool = True) -> XlaComputation:
    """Return the computation of a `Traced`, `Lowered` or `Exported`.

    Args:
        op: the name of the public function, for messages.
        stage: what jax has made of a function.
        checks_sizes: whether the computation checks what symbolic dimensions declare.

    Raises:
        LoweringError: see `from_jax`.
    """
    _refuse_captures(op, stage)
    _refuse_effects(op, stage)
    if not isinstance(stage, jax.stages.Traced):
        return _without_callbacks(op, to_computation(stage))
    exclude_own_frames()
    lowered, equations = lowered_with_calls(stage)
    module = shared_module(lowered, checks_sizes=checks_sizes)
    computation = _without_callbacks(op, imported(module, inlined=equations))
    whole = whole_call(stage, computation, used_leaves(lowered))
    if whole is not None:
        computation._inlined_calls = [*computation._inlined_calls, whole]
    return computation


def _refuse_captures(op: str, stage: Any) -> None:
    """Raise LoweringError if a function that was traced uses tracers that are not its arguments."""
    if not isinstance(stage, jax.stages.Traced):
        return
    tree: Any = stage.in_tree
    count = len(stage.jaxpr.in_avals) - tree.num_leaves
    if count > 0:
        values = "a value" if count == 1 else f"{count} values"
        rule = f"the function uses {values} of an enclosing jax transformation, such as jax.jit"
        raise error_of(LoweringError, op, rule, "pass each such value to the function")


def _refuse_effects(op: str, stage: Any) -> None:
    """Raise LoweringError if a function that was traced prints, or calls Python with effects."""
    jaxpr = getattr(stage, "jaxpr", None)
    effects = getattr(jaxpr, "effects", None) or getattr(stage, "ordered_effects", ())
    kinds = {type(effect).__name__ for effect in effects or ()}
    if op == "vmap":
        kinds.discard("FfiEffect")  # of prints and checks, which are recorded again
    if kinds:
        names = ", ".join(sorted(kinds))
        rule = f"the function has effects that a computation can't have: {names}"
        fix = "remove jax.debug.print, jax.debug.callback and io_callback from the function"
        if names == "NamedAxisEffect":
            rule = "the function uses an axis of an enclosing jax.vmap or jax.shard_map"
            fix = "apply jax.vmap or jax.shard_map inside the function"
        raise error_of(LoweringError, op, rule, fix)


def _without_callbacks(op: str, computation: XlaComputation) -> XlaComputation:
    """Return `computation`; raise LoweringError if it calls Python functions of jax."""
    for part in (*computation.called_computations(), computation):
        for call in part.ops:
            if call.opcode == "custom_call" and "python" in call.attributes["call_target_name"]:
                where = "" if call.source is None else f", at {call.source}"
                rule = f"the function calls Python (jax.pure_callback){where}"
                fix = "record xb.python_call beside lowering.apply, or remove the callback"
                if op == "edit_jax":
                    fix = "call jax.pure_callback outside of the function"
                elif op not in ("from_jax", "apply"):
                    rule = f"the Python call{where} has nested tuples as operands or as its result"
                    fix = "let the Python function take arrays, and return an array or a tuple"
                raise error_of(LoweringError, op, rule, fix)
    return computation
