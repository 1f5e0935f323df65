"""lowering.to_jax: a computation as a jax function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
import numpy as np
from jax import lax

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_computation
from builder.types.constant import scalar_array
from builder.types.expected_arrays import NestingError, flatten_value
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, TokenShape, intern_array
from lowering.errors import ArgumentError, LoweringError
from lowering.jax_interop import library_functions as _library_functions  # noqa: F401  # enters them
from lowering.jax_interop.evaluation import Preparation, wide_op
from lowering.jax_interop.pasting import nested as nested_value
from lowering.ops.registry import Value, place
from lowering.stablehlo.call_tree import CallTree


@explained
def to_jax(computation: XlaComputation, *, axis: str | None = None) -> Callable[..., Any]:
    """Return a computation as a jax function, evaluated op by op with functions of `jax.lax`.

    All transformations of jax apply to the function: `jax.jit`, `jax.vmap`, `jax.grad`, `jax.jvp`,
    `jax.vjp`, `jax.checkpoint`, `jax.shard_map`, `jax.export`. Call it inside `jax.jit`: otherwise
    jax compiles each op by itself.

    The function takes an argument for each parameter, in order or by the parameters' names. A tuple
    is passed as a tuple or list of values, a token as None. For a computation of a function of jax
    (`from_jax`) or `lowering.jit`, it also takes the arguments of that function, nested in the same
    way, and then its result is nested like the result of that function. Unbounded sizes are those
    of the arguments: jax traces the function anew for other sizes. Its results have the same bits
    as those of `lowering.compile`, where XLA compiles the same operations; `jax.jit` does not apply
    this library's rewrites for defects of XLA.

    Derivatives are those of `jax.lax`. A loop with a known trip count is differentiated in both
    modes; other loops only forward. These ops have no derivative: rng, rng_bit_generator and custom
    calls, except those of LAPACK and cuSOLVER to which jax lowers decompositions. Sorts are
    differentiated with any comparator: tangents move with the elements. Where an unstable sort is
    differentiated, it is evaluated as a stable one. The derivative of a computation of
    `xb.custom_gradient` is the one written by hand, in reverse mode only. What `from_jax` or
    `apply` recorded of a jax function has the derivatives of that function; see docs/jax.md.

    Not passed on: the layouts, aliases and donors of the program, and shardings; use the arguments
    of `jax.jit`. A composite is replaced by its decomposition.

    Args:
        computation: the result of `XlaBuilder.build` or ``@xb.computation``.
        axis: the name of an axis of `jax.shard_map` or `jax.vmap`. The replicas of collective ops
            are the positions along this axis.

    Returns:
        A function of jax arrays. It raises ArgumentError for arguments of other shapes or types
        than the parameters', and for 64-bit types if jax's x64 mode is off.

    Raises:
        LoweringError: jax cannot evaluate an op, or a size is bounded.
        OperandError: `computation` is not a computation; `axis` is not a string.

    Example:
        >>> import builder as xb, jax, lowering, numpy as np
        >>> @xb.computation(xb.f32[3], xb.f32[3])
        ... def loss(w, x):
        ...     error = xb.tanh(w * x) - 1
        ...     return xb.reduce(error * error, 0, xb.add, [0])
        >>> function = lowering.to_jax(loss)
        >>> w, x = np.zeros(3, np.float32), np.arange(3, dtype=np.float32)
        >>> jax.jit(jax.grad(function))(w, x + 1)
        Array([-2., -4., -6.], dtype=float32)
    """
    function = flat_function(computation, axis=axis)
    tree = computation.annotations and computation.annotations.nesting
    return function if tree is None else nested_function(function, computation, tree)


def nested_function(
    function: Callable[..., Any], computation: XlaComputation, tree: CallTree
) -> Callable[..., Any]:
    """Return a function of flat arguments as a function of arguments nested as `tree`."""
    name, names = computation.name, computation.program_shape.parameter_names

    def nested(*args: Any, **by_name: Any) -> Any:
        values, nest = tree.bind(name, args, by_name, names)
        return nest(function(*values))

    nested.__name__ = nested.__qualname__ = name
    nested.__doc__ = function.__doc__
    return nested


def flat_function(computation: XlaComputation, *, axis: str | None = None) -> Callable[..., Any]:
    """Return a computation as a jax function of one argument for each parameter; see `to_jax`."""
    need_computation("to_jax", computation)
    if axis is not None and not isinstance(axis, str):
        raise error_of(
            OperandError,
            "to_jax",
            "axis must be the name of an axis",
            "pass the name of an axis of jax.shard_map or jax.vmap, such as 'data'",
            got=brief(axis),
        )
    evaluate = Preparation(computation, axis).function(computation)
    name = computation.name
    shape = computation.program_shape
    names = tuple(shape.parameter_names)
    parameters = tuple(p.shape for p in computation.parameters)
    wide = wide_op(computation)

    def function(*args: Any, **by_name: Any) -> Any:
        if wide is not None and not _config.jax_enable_x64:
            raise _needs_x64(name, wide)
        if by_name or len(args) != len(parameters):
            args = _in_order(name, names, args, by_name)
        values = map(_argument, [name] * len(args), names, parameters, args)
        return evaluate(*values)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The computation {name!r}: {shape}."
    signature = _signature(names)
    if signature is not None:
        function.__signature__ = signature  # type: ignore[attr-defined]  # for jax and help()
    return function


_config: Any = jax.config  # jax has no types for it


def _signature(names: tuple[str, ...]) -> inspect.Signature | None:
    """Return the signature of a function with these parameters; None if Python forbids a name."""
    if not all(n.isidentifier() for n in names) or len(set(names)) < len(names):
        return None
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    try:
        return inspect.Signature([inspect.Parameter(n, kind) for n in names])
    except ValueError:  # a keyword of Python
        return None


def _needs_x64(name: str, op: XlaOp) -> LoweringError:
    return error_of(
        LoweringError,
        "to_jax",
        f"{name}: {op.opcode}{place(op)} has 64-bit numbers ({op.shape}); jax's x64 mode is off",
        'call jax.config.update("jax_enable_x64", True) first, or call the function in a block '
        "`with jax.enable_x64(True):`",
    )


def _in_order(
    name: str, names: tuple[str, ...], args: tuple[Any, ...], by_name: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments in the order of the parameters."""
    rest = names[len(args) :]
    unknown = [n for n in by_name if n not in rest]
    missing = [n for n in rest if n not in by_name]
    if len(args) > len(names) or unknown or missing:
        got = f"{len(args)} by position"
        got += f" and {', '.join(by_name)} by name" if by_name else ""
        raise ArgumentError(
            f"expected {len(names)} arguments ({', '.join(names)})",
            got=got,
            fix="pass one argument for each parameter",
            computation=name,
        )
    return (*args, *(by_name[n] for n in rest))


def _argument(name: str, parameter: str, shape: Shape, value: Any) -> Value:
    """Return an argument as the value of a parameter."""
    if isinstance(shape, ArrayShape):
        return _array(name, parameter, shape, value)
    try:
        flat = flatten_value(value, shape)
    except NestingError as error:
        raise _mismatch(name, f"{parameter}{error.path}", error.shape, error.got) from None
    values = [_array(name, f"{parameter}{path}", leaf, v) for v, leaf, path in flat]
    return nested_value(shape, [v for v in values if v is not None])


_NUMBERS: Final = (bool, int, float, complex)


def _array(name: str, path: str, shape: ArrayShape | TokenShape, value: Any) -> Value:
    """Return an argument for an array as a jax array of exactly the parameter's type."""
    if isinstance(shape, TokenShape):
        if value is not None:
            raise _mismatch(name, path, shape, brief(value))
        return None
    dtype = shape.element_type.dtype
    if type(value) in _NUMBERS and not shape.rank:
        return scalar_array(value, shape.element_type, name)
    sizes, got = getattr(value, "shape", None), getattr(value, "dtype", np.void)
    if not shape.is_static and type(sizes) is tuple and len(sizes) == shape.rank:
        pairs = zip(sizes, shape.dimensions, strict=True)
        if all(declared in (size, UNBOUNDED) for size, declared in pairs):
            shape = intern_array(shape.element_type, sizes)
    if sizes == shape.dimensions and got == dtype:
        # Python numbers that jax traces have a weak type, which changes the types of results.
        return lax.convert_element_type(value, dtype) if _is_weak(value) else value
    if _is_weak(value) and sizes == shape.dimensions and np.can_cast(got, dtype, "same_kind"):
        return lax.convert_element_type(value, dtype)
    raise _mismatch(name, path, shape, _described(value))


def _is_weak(value: Any) -> bool:
    return bool(getattr(value, "weak_type", False))


def _described(value: Any) -> str:
    sizes, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if sizes is None or dtype is None:
        return brief(value)
    return f"{dtype}[{','.join(map(str, sizes))}]"


def _mismatch(name: str, path: str, shape: Shape, got: str) -> ArgumentError:
    return ArgumentError(
        f"argument {path} must be {shape}",
        got=got,
        fix="pass an array of exactly this type and these sizes",
        computation=name,
        name=path,
        shapes={path: shape},
    )
