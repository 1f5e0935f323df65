"""Execute a LoadedExecutable, on one device or several, with or without Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from lowering.jaxlib_api.native import jax_extension
from lowering.jaxlib_api.versions import jaxlib_version

__all__ = [
    "call_data",
    "direct_caller",
    "result_handler",
    "rows_runner",
    "runner",
    "sharded_runner",
    "tree_caller",
]


def result_handler(aval: Any, sharding: Any) -> Any:
    """What makes a jax.Array of one result, for `runner`."""
    try:
        # 0.10: the fourth argument leaves out checks of what is given here by ourselves.
        return jax_extension.array_result_handler(aval, sharding, True, True)
    except TypeError:
        return jax_extension.array_result_handler(aval, sharding, True)


def runner(
    loaded: Any, handlers: Sequence[Any], *, wait: bool = False
) -> Callable[[list[Any]], list[Any]]:
    """A function that executes a LoadedExecutable: jax.Arrays in, jax.Arrays out.

    It checks nothing: wrong bytes may be taken silently (the right number of bytes in a wrong
    shape, type or layout).

    Args:
        loaded: the LoadedExecutable.
        handlers: of each result, made by `result_handler`.
        wait: whether to come back only when the program has ended, and raise what it failed of.
    """
    execute = loaded.execute_sharded
    handlers = list(handlers)

    def run(arguments: list[Any]) -> list[Any]:
        results: list[Any] = execute(arguments).consume_with_handlers(handlers)
        return results

    def run_and_wait(arguments: list[Any]) -> list[Any]:
        done = execute(arguments, with_tokens=True)
        # The token tells of the end of programs without results too.
        token = done.consume_token()
        results: list[Any] = done.consume_with_handlers(handlers)
        token.block_until_ready()
        return results

    return run_and_wait if wait else run


class _CallData(NamedTuple):
    """What jaxlib asks for before it executes a program without Python: jax's own names."""

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
"""Opens no argument, not even a tuple: what is no array is left to the Python function."""

_KINDS_KEPT: Final = 16
"""For so many different kinds of arguments a function knows that they are right."""


def call_data(
    loaded: Any, sharding: Any, count: int, results: Sequence[Any], structure: Any
) -> _CallData:
    """What jaxlib needs to know of a LoadedExecutable of one device, to execute it by itself.

    Args:
        loaded: the LoadedExecutable.
        sharding: of all arrays, arguments and results.
        count: how many arrays the program takes.
        results: a jax.core.ShapedArray for each array that it gives.
        structure: the PyTreeDef that nests these.
    """
    made = len(results)
    return _CallData(
        xla_executable=loaded,
        out_pytree_def=structure,
        in_shardings=[sharding] * count,
        out_shardings=[sharding] * made,
        out_avals=list(results),
        out_committed=[True] * made,
        kept_var_bitvec=[True] * count,
        in_device_local_layouts=[None] * count,
        const_args=[],
    )


def tree_caller(
    name: str, capacity: int, otherwise: Callable[..., tuple[Any, Any]]
) -> Callable[..., Any]:
    """A function of nested arguments that executes what is known for them, as jax.jit's do.

    jaxlib takes the arguments apart as jax.tree_util does, and describes structure and arrays as
    `direct_caller` says. If `otherwise` has answered a call with the same description, and said
    how, the program is executed at once, and no Python runs. If not, `otherwise` has the call.

    Args:
        name: for jax's profiler.
        capacity: how many descriptions are kept.
        otherwise: gives the result, and the `call_data` by which all calls with arguments of this
            description may be executed, with the arrays as they are; None if they may not.
    """

    def missed(*arguments: Any, **by_name: Any) -> tuple[Any, Any, bool]:
        return *otherwise(*arguments, **by_name), False

    def called_plainly(*arguments: Any, **by_name: Any) -> Any:  # under jax.disable_jit
        return otherwise(*arguments, **by_name)[0]

    cache = jax_extension.PjitFunctionCache(capacity=capacity)
    registry = jax_extension.pytree.default_registry()
    call: Callable[..., Any] = jax_extension.pjit(
        name, called_plainly, missed, [], [], name, registry, _unexpected, cache
    )
    call._fun = _Named(name)  # type: ignore[attr-defined]  # a function of jaxlib
    return call


def direct_caller(
    loaded: Any,
    name: str,
    sharding: Any,
    count: int,
    results: Sequence[Any],
    nesting: Any,
    otherwise: Callable[..., tuple[Any, bool]],
) -> Callable[..., Any]:
    """A function that executes a LoadedExecutable of one device in the way of jax.jit's.

    jaxlib describes each argument: type, sizes, sharding, whether it is committed to that, memory
    layout; whether it has been deleted is a part of that. If the same description was found right
    before, it executes the program at once, and no Python runs. If not, `otherwise` has the call.

    Args:
        loaded: the LoadedExecutable.
        name: for jax's profiler.
        sharding: of all arrays, arguments and results.
        count: how many arguments the program takes.
        results: a jax.core.ShapedArray for each result.
        nesting: how the results are nested in tuples, a 0 in the place of each.
        otherwise: gives the result, and whether all calls with arguments of these descriptions may
            be executed at once, with the arguments as they are.
    """
    structure = jax_extension.pytree.default_registry().flatten(nesting)[1]
    data = call_data(loaded, sharding, count, results, structure)

    def missed(*arguments: Any, **by_name: Any) -> tuple[Any, _CallData | None, bool]:
        result, are_right = otherwise(*arguments, **by_name)
        return result, data if are_right else None, False

    def called_plainly(*arguments: Any, **by_name: Any) -> Any:  # under jax.disable_jit
        return otherwise(*arguments, **by_name)[0]

    # A cache of its own: those of other functions don't drive its descriptions out.
    cache = jax_extension.PjitFunctionCache(capacity=_KINDS_KEPT)
    call: Callable[..., Any] = jax_extension.pjit(
        name, called_plainly, missed, [], [], name, _ONLY_LEAVES, _unexpected, cache
    )
    call._fun = _Named(name)  # type: ignore[attr-defined]  # a function of jaxlib
    return call


class _Named:
    """What jax asks, with debug_nans, of whom a result with a NaN is.

    It would have the function run again to find the operation, but for one of a single operation,
    of which it raises FloatingPointError with the name.
    """

    __slots__ = ("__qualname__",)
    _apply_primitive: Final = True

    def __init__(self, name: str) -> None:
        self.__qualname__ = name


def _unexpected(*_: Any) -> Any:
    """What jaxlib would ask for arrays of several devices."""
    raise TypeError("an argument is on several devices")


def sharded_runner(
    loaded: Any, *, wait: bool
) -> Callable[[list[Any]], tuple[list[list[Any]], Callable[[], None]]]:
    """A function that executes a LoadedExecutable of several devices.

    It takes arrays that `assemble` made. It gives for each result of the program the jax.Arrays on
    the devices, and a function that waits for the end and raises RuntimeError if the program
    failed. Nothing is checked: of wrong arguments jaxlib 0.10 crashes.

    Args:
        loaded: the LoadedExecutable.
        wait: whether it will be waited for; if not, the second function does nothing. To be able
            to wait takes 25 us of the 350 of a call on 8 CPU devices.
    """
    execute = loaded.execute_sharded

    def run(arguments: list[Any]) -> tuple[list[list[Any]], Callable[[], None]]:
        done = execute(arguments, with_tokens=wait)
        ended = done.consume_token().block_until_ready if wait else _nothing
        return done.disassemble_into_single_device_arrays(), ended

    return run


def _nothing() -> None:
    pass


def rows_runner(
    loaded: Any, results: Sequence[tuple[Any, Any, Any]], each: Any, *, wait: bool
) -> Callable[[list[Any]], tuple[list[Any], Callable[[], None]]]:
    """As `sharded_runner`, but gives for each result one jax.Array over all devices.

    Args:
        loaded: the LoadedExecutable; what it gives on a device is that device's shard.
        results: of each result the jax.core.ShapedArrays of a shard and of the whole, and the
            sharding of the whole.
        each: the sharding over the devices that says that each has the whole.
        wait: as of `sharded_runner`.
    """
    execute = loaded.execute_sharded
    wholes = [(aval, sharding) for _, aval, sharding in results]
    handlers = [result_handler(aval, sharding) for aval, sharding in wholes]
    if not _MAKES_ROWS:
        # First as jaxlib takes the results of replicas, arrays that all devices have.
        handlers = [result_handler(shard, each) for shard, _, _ in results]

    def run(arguments: list[Any]) -> tuple[list[Any], Callable[[], None]]:
        done = execute(arguments, with_tokens=wait)
        ended = done.consume_token().block_until_ready if wait else _nothing
        arrays = done.consume_with_handlers(handlers)
        if not _MAKES_ROWS:
            arrays = [
                array._rewrap_with_aval_and_sharding(aval, sharding)
                for array, (aval, sharding) in zip(arrays, wholes, strict=True)
            ]
        return arrays, ended

    return run


_MAKES_ROWS: Final = tuple(map(int, jaxlib_version().split(".")[:2])) < (0, 11)
"""Whether results of replicas can be made shards of one array at once.

Made so by jaxlib 0.12 they can't be read. It saves 100 us of the 310 of a call with one result on
8 CPU devices; to take the results apart and put them together would take 70 more."""
