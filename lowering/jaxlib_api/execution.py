"""Functions that execute a LoadedExecutable on one or several devices.

Some of these functions execute repeated calls in jaxlib alone, without running Python code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from lowering.jaxlib_api.native import jax_extension
from lowering.jaxlib_api.versions import jaxlib_version


def result_handler(aval: Any, sharding: Any) -> Any:
    """Return a handler for `runner` that creates the jax.Array of one result."""
    try:
        # 0.10: the fourth argument skips checks.
        return jax_extension.array_result_handler(aval, sharding, True, True)
    except TypeError:
        return jax_extension.array_result_handler(aval, sharding, True)


def runner(
    loaded: Any, handlers: Sequence[Any], *, wait: bool = False
) -> Callable[[list[Any]], list[Any]]:
    """Return a function that executes a LoadedExecutable with a list of jax.Arrays.

    The function returns a list of jax.Arrays. It checks nothing: it may accept arguments of the
    right size in bytes, but of a wrong shape, type or layout.

    Args:
        loaded: the LoadedExecutable.
        handlers: the results of `result_handler`, one for each result.
        wait: whether to wait until the program has ended, and raise the program's errors.
    """
    execute = loaded.execute_sharded
    handlers = list(handlers)

    def run(arguments: list[Any]) -> list[Any]:
        results: list[Any] = execute(arguments).consume_with_handlers(handlers)
        return results

    def run_and_wait(arguments: list[Any]) -> list[Any]:
        done = execute(arguments, with_tokens=True)
        # The token also becomes ready for programs without results.
        token = done.consume_token()
        results: list[Any] = done.consume_with_handlers(handlers)
        token.block_until_ready()
        return results

    return run_and_wait if wait else run


class _CallData(NamedTuple):
    """The data that jaxlib needs to execute a program without running Python, by jax's names."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any]


_ONLY_LEAVES: Final[Any] = jax_extension.pytree.PyTreeRegistry(
    enable_none=False,
    enable_tuple=False,
    enable_namedtuple=False,
    enable_list=False,
    enable_dict=False,
)
"""A pytree registry for which containers are leaves: calls with container arguments run Python."""

_MAX_SIGNATURES: Final = 16
"""The number of argument signatures that a function of `array_caller` caches."""

Missed = tuple[Any, _CallData | None, bool]
"""What an `OnMiss` returns. The third element is False: no program is to be compiled again."""

OnMiss = Callable[..., Missed]
"""A function that executes a call whose signature is not cached.

It takes the arguments of the call, and returns the result and a `call_data`, with which jaxlib
executes later calls of this signature, passing the arrays unchanged. None instead of a `call_data`
makes later calls run the function too. Calls with NumPy arrays always do, so it is called directly,
and itself removes this library's frames from errors.
"""


def call_data(
    loaded: Any, sharding: Any, count: int, results: Sequence[Any], structure: Any
) -> _CallData:
    """Return the data that jaxlib needs to execute a program of one device without running Python.

    Args:
        loaded: the LoadedExecutable.
        sharding: the sharding of all arguments and results.
        count: the number of array arguments.
        results: a jax.core.ShapedArray for each result.
        structure: the PyTreeDef of the results.
    """
    result_count = len(results)
    return _CallData(
        xla_executable=loaded,
        out_pytree_def=structure,
        in_shardings=[sharding] * count,
        out_shardings=[sharding] * result_count,
        out_avals=list(results),
        out_committed=[True] * result_count,
        kept_var_bitvec=[True] * count,
        in_device_local_layouts=[None] * count,
        const_args=[],
    )


def tree_caller(name: str, capacity: int, on_miss: OnMiss) -> Callable[..., Any]:
    """Return a function of nested arguments that uses the fast path of jax.jit in jaxlib.

    jaxlib flattens the arguments like jax.tree_util and computes a signature of the structure and
    the arrays: the type, sizes, sharding and memory layout of each, and whether it is committed or
    deleted. If `on_miss` has returned a `call_data` for an equal signature, jaxlib executes the
    program without running Python. If not, jaxlib calls `on_miss`.

    Args:
        name: the name for jax's profiler.
        capacity: the number of signatures to cache.
        on_miss: see `OnMiss`.
    """
    return _fast_caller(name, capacity, jax_extension.pytree.default_registry(), on_miss)


def array_caller(name: str, on_miss: OnMiss) -> Callable[..., Any]:
    """Return a function like that of `tree_caller`, whose arguments are arrays.

    jaxlib calls `on_miss` for arguments that are containers.
    """
    return _fast_caller(name, _MAX_SIGNATURES, _ONLY_LEAVES, on_miss)


def _fast_caller(name: str, capacity: int, registry: Any, on_miss: OnMiss) -> Callable[..., Any]:
    """Return a function of jax.jit's fast path in jaxlib, with a signature cache of its own."""

    def without_jit(*arguments: Any, **by_name: Any) -> Any:  # under jax.disable_jit
        return on_miss(*arguments, **by_name)[0]

    cache = jax_extension.PjitFunctionCache(capacity=capacity)
    call: Callable[..., Any] = jax_extension.pjit(
        name, without_jit, on_miss, [], [], name, registry, _unexpected, cache
    )
    call._fun = _Named(name)  # type: ignore[attr-defined]  # a function of jaxlib
    return call


class _Named:
    """The function that jax's debug_nans reports as the producer of a NaN.

    jax would run an ordinary function again, to find the operation that produces the NaN. For a
    function marked as a single operation (`_apply_primitive`), jax raises FloatingPointError with
    the function's name.
    """

    __slots__ = ("__qualname__",)
    _apply_primitive: Final = True

    def __init__(self, name: str) -> None:
        self.__qualname__ = name


def _unexpected(*_: Any) -> Any:
    """Raise TypeError: jaxlib calls this function for an argument on several devices."""
    raise TypeError("each argument must be on one device, got an array on several devices")


def sharded_runner(
    loaded: Any, *, wait: bool
) -> Callable[[list[Any]], tuple[list[list[Any]], Callable[[], None]]]:
    """Return a function that executes a LoadedExecutable of several devices.

    The function takes a list of results of `assemble`. It returns, for each result, a list with the
    jax.Array on each device; and a second function, which waits until the program has ended, and
    raises RuntimeError if the program failed. The arguments are not checked: wrong arguments crash
    jaxlib 0.10.

    Args:
        loaded: the LoadedExecutable.
        wait: whether the caller calls the second function. If False, the second function does
            nothing, and the first function is faster.
    """
    execute = loaded.execute_sharded

    def run(arguments: list[Any]) -> tuple[list[list[Any]], Callable[[], None]]:
        done = execute(arguments, with_tokens=wait)
        ended = done.consume_token().block_until_ready if wait else _nothing
        return done.disassemble_into_single_device_arrays(), ended

    return run


def _nothing() -> None:
    pass


def joining_runner(
    loaded: Any, results: Sequence[tuple[Any, Any, Any]], replicated: Any, *, wait: bool
) -> Callable[[list[Any]], tuple[list[Any], Callable[[], None]]]:
    """Return a function that executes a program and joins the results of all devices.

    It is like that of `sharded_runner`, but for each result it returns one jax.Array, whose shards
    are the results on the devices.

    Args:
        loaded: the LoadedExecutable.
        results: for each result the jax.core.ShapedArrays of a shard and of the whole array, and
            the sharding of the whole array.
        replicated: the replicated sharding over the devices.
        wait: see `sharded_runner`.
    """
    execute = loaded.execute_sharded
    arrays_of = [(aval, sharding) for _, aval, sharding in results]
    handlers = [result_handler(aval, sharding) for aval, sharding in arrays_of]
    if not _ASSEMBLES_SHARDS:
        # First as replicated arrays, as jaxlib handles the results of replicas.
        handlers = [result_handler(shard, replicated) for shard, _, _ in results]

    def run(arguments: list[Any]) -> tuple[list[Any], Callable[[], None]]:
        done = execute(arguments, with_tokens=wait)
        ended = done.consume_token().block_until_ready if wait else _nothing
        arrays = done.consume_with_handlers(handlers)
        if not _ASSEMBLES_SHARDS:
            arrays = [
                array._rewrap_with_aval_and_sharding(aval, sharding)
                for array, (aval, sharding) in zip(arrays, arrays_of, strict=True)
            ]
        return arrays, ended

    return run


_ASSEMBLES_SHARDS: Final = tuple(map(int, jaxlib_version().split(".")[:2])) < (0, 11)
"""Whether jaxlib can assemble the results of replicas as shards of one array.

In jaxlib 0.12 such arrays can't be read. In older versions, assembling is faster than changing the
sharding of replicated results, which is faster than disassembling the results."""
