"""Record a jitted function for the arguments of a call, and cache recordings and executables.

A call is looked up in up to three steps. First, jaxlib looks up calls with jax.Arrays or copies of
NumPy arrays, as it does for jax.jit, and executes their programs without Python
(`execution.tree_caller`). Each set of static values has its own jaxlib function. Second, a call is
looked up by the structure of its arguments and by descriptions of the arrays. The third and slowest
look-up determines the shape of each argument, and reports invalid arguments.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from builder.attributes.annotations import Annotations
from builder.errors import BuilderError, OperandError, brief, error_of
from builder.graph.aliasing import leaf_indices
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import append_captures, record_callable
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.types.shape import Shape
from lowering.running.jit_arguments import (
    Signature,
    TreeError,
    flatten,
    flatten_dataclasses,
    leaf_names,
    leaf_path,
)
from lowering.running.jit_devices import Placement, record_shardings
from lowering.running.program import CompiledProgram
from lowering.stablehlo.call_tree import CallTree, call_tree, plain


class Call(NamedTuple):
    """The arguments of a call; on several devices, those of the first device.

    Attributes:
        nested: the arguments that are not static, as `flatten_dataclasses` returns them.
        leaves: the leaves of `nested`.
        tree: the PyTreeDef of `nested`.
        static: the static arguments.
        static_key: a hashable key of the static arguments.
        columns: on several devices, for each leaf a value for all devices, or a list with a value
            for each.
        placement: the devices, and the shardings of global arrays; None for one device, and for
            a call with XlaOps.
        rows: the numbers of the leaves that have a row for each device.
    """

    nested: Any
    leaves: list[Any]
    tree: Any
    static: tuple[Any, ...]
    static_key: tuple[Any, ...]
    columns: Any = ()
    placement: Placement | None = None
    rows: frozenset[int] = frozenset()

    def key(self, shapes: tuple[Shape, ...]) -> tuple[Any, ...]:
        """Return the key of the call's recording; `shapes` are those of the leaves."""
        return self.tree, self.static_key, shapes, self.placement


class Recording(NamedTuple):
    """A function recorded for some arguments.

    Attributes:
        computation: the recorded computation. It has one parameter for each leaf of the arguments,
            and returns the leaves of the result, as a tuple unless there is exactly one.
        results: the structure of the function's result.
        is_tuple: whether the computation returns a tuple of leaves.
    """

    computation: XlaComputation
    results: Any
    is_tuple: bool

    def nested(self, result: Any) -> Any:
        """Return the computation's result, nested as the function's result is."""
        return self.results.unflatten(result if self.is_tuple else (result,))


def record(
    signature: Signature,
    call: Call,
    shapes: tuple[Shape, ...],
    enclosing: XlaBuilder | None = None,
    captured: list[XlaOp] | None = None,
) -> tuple[Recording, bool]:
    """Record a function for arguments of these shapes.

    Args:
        signature: the function, with the parameters that `call` binds.
        call: the arguments.
        shapes: the shapes of the arguments' leaves.
        enclosing: the builder that records a call of the function; None for a program.
        captured: a list. Values of `enclosing` that the function uses are appended to the list.

    Returns:
        The recording, and whether other calls can use it.

    Raises:
        OperandError: the function does not return XlaOps.
        PlacementError: the axes of the program's mesh can't express the sharding of an argument.
    """
    placement = call.placement
    structures: list[Any] = []

    def flat(*parameters: XlaOp) -> Any:
        result = signature.apply(call.tree.unflatten(parameters), call.static)
        ops, structure = _check_result(signature.name, result)
        structures.append(structure)
        if placement is not None and any(placement.shardings):
            record_shardings(
                parameters[0].builder, parameters, placement.shardings, placement.devices
            )
        return ops[0] if len(ops) == 1 else ops

    flat.__name__ = signature.name
    recorded = record_callable(
        "jit",
        "function",
        flat,
        shapes,
        enclosing=enclosing,
        names=leaf_names(call.nested, signature.names),
    )
    for number in signature.leaves_of(call.nested, signature.donated):
        for index in leaf_indices(shapes[number]):
            recorded.builder.add_buffer_donor(number, index)
    is_reusable = True
    if enclosing is not None and captured is not None:
        # The next call may capture other values.
        is_reusable = not recorded.builder._captured and enclosing._current_metadata is None
        captured.extend(append_captures(recorded))
    (results,) = structures
    if enclosing is None:
        annotations = recorded.builder.annotations or Annotations()
        tree = _call_tree(signature, call, results)
        recorded.builder.annotations = annotations._replace(nesting=tree)
    return Recording(recorded.build(), results, results.num_leaves != 1), is_reusable


def _call_tree(signature: Signature, call: Call, results: Any) -> CallTree | None:
    """Return the nesting of the function's arguments and results; None if there is none.

    In it, named tuples and classes among the arguments are tuples and dicts.
    """
    counter = count()
    numbered = plain(call.nested, lambda _: next(counter))
    numbers, arguments = flatten(signature.call_without_static(numbered))
    used = sorted(range(len(numbers)), key=numbers.__getitem__)
    return call_tree(arguments, results, used)


_error: Final = functools.partial(error_of, OperandError, "jit")


def _check_result(name: str, result: Any) -> tuple[list[XlaOp], Any]:
    """Return the ops in the function's result, and the structure of the result."""
    try:
        nested, ops, structure = flatten_dataclasses(result)
    except TreeError as error:
        rule = f"the result of {name}: {error.reason}"
        raise _error(rule, error.fix) from error.__cause__
    if result is None:
        fix = "return the result, or an empty tuple if there is no result"
        raise _error(f"{name} must return XlaOps", fix, got="None")
    for number, op in enumerate(ops):
        if type(op) is XlaOp:
            continue
        fix = "return XlaOps, in dicts, lists, tuples or dataclasses"
        if isinstance(op, (bool, int, float, complex, np.generic, np.ndarray)):
            is_typed = isinstance(op, (bool, np.generic, np.ndarray))
            arguments = "value" if is_typed else "value, element_type"
            fix = f"return x.builder.constant({arguments}), where x is an argument"
        place = f"the result{leaf_path(nested, number)} of {name}"
        raise _error(f"{place} must be an XlaOp", fix, got=brief(op))
    return ops, structure


MOST_KEPT: Final = 1024
"""The maximum number of cached recordings of one function.

When it is exceeded, the least recently used recording is removed.
"""


class JitCacheInfo(NamedTuple):
    """Statistics of a jitted function since it was created or its cache was cleared.

    Attributes:
        recorded: how often the function was recorded.
        compiled: how often XLA compiled a recording.
        kept: the number of recordings in the cache.
        most_kept: the limit of `kept`.
    """

    recorded: int
    compiled: int
    kept: int
    most_kept: int


@dataclass(slots=True, eq=False)
class Entry:
    """The cached recording and executables for some arguments.

    Attributes:
        key: the key of the entry in the cache.
        lock: acquired by the thread that records or compiles.
        recording: the recording; None before the function was recorded.
        executables: the executables by device, or by the first of several devices.
        executable: the Executable that was called last, or an OpenExecutable; None for several
            devices.
        of_tracers: the recording as a jax function; None before a call with tracers of jax.
    """

    key: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    recording: Recording | None = None
    executables: dict[jax.Device, Any] = field(default_factory=dict)
    executable: Any = None
    of_tracers: Callable[..., Any] | None = None


class _InProgress(threading.local):
    """The entries that this thread is recording or compiling."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []


_IN_PROGRESS: Final = _InProgress()


@contextmanager
def _locked(entry: Entry) -> Iterator[None]:
    """Prevent several threads from recording or compiling an entry at the same time.

    A thread that has acquired the lock of one entry does not wait for another lock, so that two
    functions that call each other can't deadlock; the thread may record or compile a second time
    instead.
    """
    acquired = entry.lock.acquire(blocking=not _IN_PROGRESS.entries)
    _IN_PROGRESS.entries.append(entry)
    try:
        yield
    finally:
        _IN_PROGRESS.entries.pop()
        if acquired:
            entry.lock.release()


class JitCache:
    """The cache of one function.

    Attributes:
        name: the function's name, for messages.
        quick: entries by the key of the second look-up: the structure of the arguments, the key of
            the static values, and descriptions of the arrays.
        callers: jaxlib's functions, by the key of static values; or by that key and the structure
            of the arguments, or their number if all are arrays.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.quick: Final[dict[Any, Entry]] = {}
        self.callers: Final[dict[Any, Callable[..., Any]]] = {}
        self._entries: Final[dict[Any, Entry]] = {}
        self._lock: Final = threading.Lock()
        self._recorded = 0
        self._compiled = 0

    def info(self) -> JitCacheInfo:
        with self._lock:
            return JitCacheInfo(self._recorded, self._compiled, len(self._entries), MOST_KEPT)

    def recorded(self) -> list[tuple[Recording, list[jax.Device]]]:
        """Return the recordings, and the first device of each executable compiled of them."""
        with self._lock:
            entries = list(self._entries.values())
        return [(e.recording, list(e.executables)) for e in entries if e.recording is not None]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.quick.clear()
            self.callers.clear()
            self._recorded = self._compiled = 0

    def add_quick(self, key: Any, entry: Entry) -> None:
        """Add an entry to `quick` under `key`, unless the cache has removed the entry."""
        with self._lock:
            # jax and NumPy distinguish more arrays than XLA, so there may be more of these keys
            # than entries.
            if len(self.quick) >= 4 * MOST_KEPT:
                self.quick.clear()
            if self._entries.get(entry.key) is entry:
                self.quick[key] = entry

    def caller(self, key: Any, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """Return jaxlib's function for a key; `make` creates it on the first use of the key."""
        with self._lock:
            if len(self.callers) >= 4 * MOST_KEPT:  # refused calls and calls with XlaOps add some
                self.callers.clear()
            if key not in self.callers:
                self.callers[key] = make()
            return self.callers[key]

    def entry(self, key: Any) -> Entry:
        """Return the entry for a key, and mark it as the most recently used."""
        with self._lock:
            entry = self._entries.pop(key, None) or Entry(key)
            self._entries[key] = entry
            if len(self._entries) > MOST_KEPT:
                del self._entries[next(iter(self._entries))]
                self.quick.clear()
                self.callers.clear()
            return entry

    def recording(self, entry: Entry, make: Callable[[], tuple[Recording, bool]]) -> Recording:
        """Return the recording of an entry; record the function if there is none yet.

        Args:
            entry: the entry, to which a new recording is added.
            make: records the function; returns the recording, and whether it may be reused.
        """
        if entry.recording is not None:
            return entry.recording
        if any(other is entry for other in _IN_PROGRESS.entries):
            rule = f"{self.name} calls itself endlessly with arguments of the same shapes"
            fix = "pass the depth as a static argument, or write a loop: xb.while_"
            raise error_of(BuilderError, "jit", rule, fix)
        with _locked(entry):
            if entry.recording is None:
                recording, is_reusable = make()
                with self._lock:
                    self._recorded += 1
                if not is_reusable:
                    return recording
                entry.recording = recording
            return entry.recording

    def _count_compilation(self) -> None:
        with self._lock:
            self._compiled += 1

    def executable(self, entry: Entry, device: jax.Device, make: Callable[[Recording], Any]) -> Any:
        """Return the executable of an entry for a device; `make` compiles it on the first use."""
        executable = entry.executables.get(device)
        if executable is None:
            with _locked(entry):
                executable = entry.executables.get(device)
                if executable is None:
                    assert entry.recording is not None  # recorded first
                    executable = make(entry.recording)
                    if isinstance(executable, CompiledProgram):
                        self._count_compilation()
                    else:  # compiled for the sizes of each call
                        executable._on_compile = self._count_compilation
                    entry.executables[device] = executable
        return executable
