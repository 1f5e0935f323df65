"""apply: a jax function called on ops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from threading import RLock
from types import CodeType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import jax

from builder.errors import OperandError, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import needed_ops
from builder.graph.recording import resolve_builder, rollback_on_error
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.host import observers
from builder.rewriting.copying import inlined_ops
from builder.support.frames import caller_frame
from builder.types.shape import ArrayShape, has_unbounded_sizes
from lowering.jax_interop.from_jax import abstract_array, check_function, traced_computation
from lowering.jax_interop.sizes import Sizes, SymbolicSizes
from lowering.jaxlib_api import jaxprs

_MOST_TRACES: Final = 64
"""The most traces that are cached for a function."""

_MOST_FUNCTIONS: Final = 256
"""The most functions with cached traces. A trace with the rules of jax.custom_jvp may refer to its
function, which then lives as long as the trace."""


class Trace(NamedTuple):
    """A traced function: its computation, and the structure of its result."""

    computation: XlaComputation
    results: Any


_traces: Final[WeakKeyDictionary[Any, dict[Any, Trace]]] = WeakKeyDictionary()
"""The traces of each function, in the order of the functions' latest use."""

_lock: Final = RLock()


@explained
def apply(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a jax function on ops: record the ops that it computes.

    Everything that jax can trace is available in a graph: jax.numpy, jax.nn, jax.scipy, and the
    libraries above them. jax traces the function and lowers it to StableHLO; the ops of this
    program are recorded in the builder of the operands, with the line of this call. A function that
    jax has compiled separately, by an inner `jax.jit`, becomes a called computation. `gradients`
    and `to_jax` differentiate the ops as `jax.grad` differentiates the function, `stop_gradient`,
    `jax.custom_jvp` and `jax.custom_vjp` included: see docs/jax.md. jax lowers for its default
    platform, except that decompositions such as `jnp.linalg.qr` become the composites of
    `builder.lib`, which every platform runs. The trace of a function is cached for arguments of
    equal shapes.

    Args:
        function: a function of jax arrays.
        arguments, named: its arguments, in any trees of jax.tree_util. Ops are traced as arrays of
            their shapes. Other leaves, such as ``axis=1``, are passed to the function unchanged;
            their values become part of the program. At least one leaf is an op.

    Returns:
        The function's result with an op for each array. With operands of 64-bit types the function
        is traced as in ``jax.enable_x64(True)``.

    Raises:
        OperandError: the function is not callable; no argument is an op; an op is a tuple, or has a
            dynamic size.
        LoweringError: the function has effects, such as `jax.debug.print`; an operation has no op.

    Example:
        >>> import builder as xb, jax, lowering
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 8])
        >>> lowering.apply(jax.nn.softmax, x, axis=0).shape
        f32[4,8]
    """
    check_function("apply", function)
    leaves, tree = jax.tree.flatten((arguments, named))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, XlaOp)]
    ops = [leaves[place] for place in places]
    builder = resolve_builder(
        "apply", *ops, fix="pass an op, or lowering.from_jax(function, shape)"
    )
    sizes = None
    if any(has_unbounded_sizes(op.shape) for op in ops):
        sizes = SymbolicSizes.of_builder(builder).of_arguments(ops)
    trace = _traced(function, leaves, tree, places, sizes)
    with rollback_on_error(builder):
        operands = tuple([builder._adopt("apply", op) for op in ops])
        values = record_trace(trace, operands, builder)
    return trace.results.unflatten(values)


def record_trace(trace: Trace, operands: tuple[XlaOp, ...], builder: XlaBuilder) -> list[XlaOp]:
    """Record the ops that a traced function's results depend on, and prints; return the results.

    The ops have the source line of the user's call.

    Args:
        trace: the trace.
        operands: the ops for its parameters, which `builder` owns.
        builder: the builder that records.
    """
    start = len(builder.ops)
    root = trace.computation.root
    is_one = trace.results.num_leaves == 1
    results = (root,) if is_one else root.operands  # several results are a tuple
    prints = observers(trace.computation.ops)
    needed = needed_ops([*results, *prints], trace.computation._inlined_calls)
    values = inlined_ops(trace.computation, operands, builder, needed, {})
    frame = caller_frame(sys._getframe(1))
    if frame is not None:
        set_line(builder.ops[start:], frame.f_code, frame.f_lasti)
    return [values[op] for op in results]


def _traced(
    function: Callable[..., Any],
    leaves: list[Any],
    tree: Any,
    places: list[int],
    sizes: Sequence[Sizes] | None,
) -> Trace:
    """Return the trace of a function, from the cache if there was an equal call.

    Args:
        function: the function of jax.
        leaves: its arguments, flattened.
        tree: their nesting.
        places: the indices in `leaves` of the arguments that are ops.
        sizes: the sizes of each of these ops, with symbols; None if no size is unbounded.
    """
    shapes = [_array_shape(leaves[place]) for place in places]
    arrays: list[Any] = []
    if sizes is None:
        arrays = [abstract_array("apply", shape) for shape in shapes]
    else:
        described: Any = jax.ShapeDtypeStruct  # jax has no types for it
        for shape, each in zip(shapes, sizes, strict=True):
            arrays.append(described(each, shape.element_type.dtype))
    others = [_leaf_key(leaf) for leaf in leaves if not isinstance(leaf, XlaOp)]
    # Symbols of different scopes can't be compared.
    names = None if sizes is None else str(sizes)
    key = tree, tuple(places), tuple(shapes), names, tuple(others), jaxprs.trace_context()
    try:
        with _lock:
            cached = _traces[function] = _traces.pop(function, {})  # now the latest
            while len(_traces) > _MOST_FUNCTIONS:
                _traces.pop(next(iter(_traces)), None)
            trace = cached.get(key)
    except TypeError:  # the function or an argument has no hash or no weak references
        return _trace(function, leaves, tree, places, arrays)
    if trace is None:
        trace = _trace(function, leaves, tree, places, arrays)
        with _lock:
            while len(cached) >= _MOST_TRACES:
                del cached[next(iter(cached))]
            cached[key] = trace
    return trace


def _leaf_key(leaf: Any) -> Any:
    """Return a key for a leaf that is not an op; 1 and 1.0 differ, and so do 0.0 and -0.0."""
    return type(leaf), leaf, repr(leaf) if isinstance(leaf, (float, complex)) else None


def _trace(
    function: Callable[..., Any],
    leaves: list[Any],
    tree: Any,
    places: list[int],
    arrays: Sequence[Any],
) -> Trace:
    others = list(leaves)
    for place in places:
        others[place] = None
    structure: list[Any] = []

    def on_arrays(*arrays: Any) -> list[Any]:
        values = list(others)
        for place, array in zip(places, arrays, strict=True):
            values[place] = array
        arguments, named = tree.unflatten(values)
        flat, result = jax.tree.flatten(function(*arguments, **named))
        structure.append(result)
        return flat

    on_arrays.__name__ = getattr(function, "__name__", type(function).__name__)
    on_arrays.__wrapped__ = function  # type: ignore[attr-defined]  # its place in messages of jax
    return Trace(traced_computation("apply", on_arrays, arrays, {}, may_merge=True), structure[-1])


def _array_shape(op: XlaOp) -> ArrayShape:
    shape = op.shape
    if isinstance(shape, ArrayShape):
        return shape
    fix = "pass the elements: xb.get_tuple_element(op, 0), ..." if shape.is_tuple else ""
    raise error_of(OperandError, "apply", f"jax has no arrays of shape {shape}", fix)


def set_line(ops: Sequence[XlaOp], code: CodeType, lasti: int) -> None:
    """Set the source line of ops."""
    for op in ops:
        op._code, op._lasti = code, lasti
        if op.metadata is not None and op.metadata.source is not None:
            op.metadata = op.metadata._replace(source=None)
