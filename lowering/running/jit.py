"""lowering.jit: Python functions of XlaOps, compiled for the arguments that they are called with.

A function is recorded once for each structure, each set of shapes and each set of static values of
its arguments, and compiled once for each device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final, overload

import jax
import numpy as np

from builder.errors import ConstantError, OperandError, XlaError, brief
from builder.graph.aliasing import leaf_indices
from builder.graph.computation import XlaComputation
from builder.graph.recording import resolve_builder, rollback_on_error
from builder.graph.subcomputations import append_captures, record_callable
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.control_flow import call
from builder.types.shape import Shape
from lowering.errors import ArgumentError
from lowering.jaxlib_api import execution, jax_arrays
from lowering.pjrt.devices import DeviceLike, device as find_device
from lowering.pjrt.host_arrays import describe
from lowering.pjrt.placement import device_put
from lowering.running.compiling import compile
from lowering.running.donation import Parameters
from lowering.running.executable import Executable
from lowering.running.jit_cache import MOST_KEPT, Entry, JitCacheInfo, Kept, Recording
from lowering.running.leaf_arguments import complaint, descriptions, given_shape, shape_of
from lowering.running.options import read_options
from lowering.running.signature import Signature
from lowering.running.trees import TreeError, flatten, leaf_names, leaf_path, opened
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import StablehloModule

__all__ = ["JittedFunction", "jit"]

_JaxArray: Final = jax_arrays.array_type
_CHANGED_BY_JAX: Final = frozenset(map(np.dtype, ("f8", "i8", "u8", "c16")))
"""Of these types jaxlib makes others, of 32 bits, where jax's x64 flag is off."""


class JittedFunction:
    """A function of XlaOps that is called with arrays. `lowering.jit` makes them.

    Called with arrays, in any trees of jax.tree_util, it runs on a device what the function
    records for them, and gives arrays in the tree that the function gave. Called with XlaOps while
    a computation is being recorded, it records a call of what the function records for them (NumPy
    arrays beside them become constants there).

    Attributes:
        function: the Python function.
        name: its name, and that of the computations.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        *,
        donate: Parameters,
        device: DeviceLike,
        static: Parameters,
        options: Mapping[str, Any] | None,
    ) -> None:
        self.function = function
        self.name = name
        self._signature = Signature(name, function, donate, static)
        self._count = self._signature.count
        self._device = device
        self._options = options
        self._kept = Kept(name)
        self._call = self._caller()
        functools.update_wrapper(self, function, updated=())

    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """The function's result for these arguments; see the class.

        Raises:
            ArgumentError: the function does not take them, or they are no arrays, or lie on
                different devices.
            XlaError: what the function records can't be recorded, lowered or compiled.
        """
        try:
            return self._call(*args, **by_name)
        except XlaError:
            raise
        except (RuntimeError, TypeError, ValueError, SystemError) as error:
            # Of the program, or of arguments that can't be taken apart; or else the function's own.
            self._explain(error, args, by_name)
            raise

    def _answer(
        self, static: tuple[Any, ...], key: tuple[Any, ...], /, *args: Any, **by_name: Any
    ) -> tuple[Any, Any]:
        """A call that jaxlib does not know yet; the result, and what lets it know the next.

        Args:
            static, key: as `Signature.bound` gives them, if there are static arguments; then it has
                bound the others too.
            args, by_name: the other arguments.
        """
        if by_name or (len(args) != self._count and not self._signature.has_static):
            args, static, key = self._signature.bound(args, by_name)
        nested: Any = args
        try:
            leaves, tree = flatten(args)
        except (TypeError, ValueError, RecursionError, SystemError):
            nested, leaves, tree = self._opened(args)  # raises, and says why
        arrays = _kept_arrays(leaves)
        if arrays is leaves:
            return self._found(nested, leaves, tree, static, key)
        if arrays is None:  # there are dataclasses, or something that is no plain array
            nested, leaves, tree = self._opened(args)
            arrays = _kept_arrays(leaves)
            if arrays is None:
                return self._found(nested, leaves, tree, static, key)[0], None
        call = self._kept.callers.get((key, tree)) or self._flat_caller(static, key, tree)
        return call(*arrays), None

    def _found(
        self,
        nested: Any,
        leaves: list[Any],
        tree: Any,
        static: tuple[Any, ...],
        key: tuple[Any, ...],
    ) -> tuple[Any, Any]:
        """`_answer` to arguments that were taken apart."""
        try:
            entry = self._kept.quick[tree, key, descriptions(leaves)]
        except (KeyError, TypeError, ValueError, RecursionError, SystemError):
            return self._run_new(nested, leaves, tree, static, key)
        executable = entry.executable
        if executable is None or not (
            self._device is not None
            or executable.device is find_device(None)
            or any(type(leaf) is _JaxArray and leaf.committed for leaf in leaves)
        ):
            return self._run(entry, nested, leaves)
        # It runs there, if all arguments lie there: on the device that was asked for, on the
        # default one, or where at least one is committed to, which then decides.
        try:
            return _executed(entry, executable, leaves)
        except ArgumentError:
            return self._run(entry, nested, leaves)

    def _explain(self, error: Exception, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> None:
        """Raises an error in words, if it is known what jaxlib means by its own."""
        bound, _, key = self._signature.bound(args, by_name)
        _, leaves, tree = self._opened(bound)
        try:
            entry = self._kept.quick.get((tree, key, descriptions(leaves)))
        except (TypeError, ValueError):  # facts of the user's classes that can't be compared
            return
        if not isinstance(error, (RuntimeError, ValueError)):
            return
        if entry is not None and entry.executable is not None:
            entry.executable.explain(error, leaves)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<JittedFunction {self.name!r}, {self._kept.info().kept} computations>"

    def computation(self, /, *args: Any, **by_name: Any) -> XlaComputation:
        """What the function records for these arguments.

        Args:
            args, by_name: as for a call; a shape, such as ``xb.f32[2, 3]``, or a
                jax.ShapeDtypeStruct may stand for any array.

        Returns:
            A computation with a parameter for each array in the arguments, named after its place,
            and a tuple of the arrays in the result, or the array if it is one alone.

        Raises:
            ArgumentError, XlaError: as a call.

        Example:
            >>> import builder as xb, lowering
            >>> step = lowering.jit(lambda state, x: {"w": state["w"] + x}, name="step")
            >>> step.computation({"w": xb.f32[3]}, xb.f32[3]).program_shape
            (state['w']: f32[3], x: f32[3]) -> f32[3]
        """
        return self._recording_of(args, by_name)[1].computation

    def lower(self, /, *args: Any, **by_name: Any) -> StablehloModule:
        """The StableHLO of `computation`, to be looked at, saved or compiled otherwise.

        Raises:
            ArgumentError, XlaError: as a call.
        """
        return lower(self.computation(*args, **by_name))

    def compile(self, /, *args: Any, **by_name: Any) -> Executable:
        """The executable of `computation`, which a call with such arguments finds compiled.

        Raises:
            ArgumentError, XlaError: as a call.
        """
        entry, _, leaves, names = self._recording_of_leaves(args, by_name)
        return self._executable(entry, self._device_for(leaves, names))

    def cache_info(self) -> JitCacheInfo:
        """How often the function was recorded and compiled, and how much of it is kept."""
        return self._kept.info()

    def cache_clear(self) -> None:
        """Forgets what was recorded and compiled; it is made again when it is called for."""
        self._kept.clear()
        self._call = self._caller()

    def _executable(self, entry: Entry, on: jax.Device) -> Executable:
        """The executable of what was recorded, for a device."""
        return self._kept.executable(
            entry, on, lambda recording: compile(recording.computation, on, options=self._options)
        )

    def _caller(self) -> Callable[..., Any]:
        """What is called: a function of jaxlib's, which asks `_answer` for what it doesn't know."""
        if self._signature.has_static:
            return self._call_with_static
        return self._asking((), ())

    def _asking(self, static: tuple[Any, ...], key: tuple[Any, ...]) -> Callable[..., Any]:
        answer = functools.partial(self._answer, static, key)
        return execution.tree_caller(self.name, MOST_KEPT, answer)

    def _call_with_static(self, /, *args: Any, **by_name: Any) -> Any:
        """A call with static arguments: there is a function of jaxlib's for each set of them.

        jaxlib would compare them by ==, that is 1 with True. A call takes 18 us so, and 36
        where its entry is looked for in Python.
        """
        dynamic, static, key = self._signature.bound(args, by_name)
        call = self._kept.callers.get(key)
        if call is None:
            call = self._kept.caller(key, lambda: self._asking(static, key))
        return call(*dynamic)

    def _flat_caller(
        self, static: tuple[Any, ...], key: tuple[Any, ...], tree: Any
    ) -> Callable[..., Any]:
        """A function of jaxlib's of the arrays in arguments of one structure.

        It has the calls that jaxlib can't take apart itself, as there are dataclasses, and those
        with NumPy arrays. These it takes to the device on the way to executing: a call with two
        takes 32 us, and 35 where its entry is looked for; jax.jit takes 19. But it may use their
        memory while the program runs, and makes 32 bits of 64 where jax's x64 flag is off. So it is
        given copies, and none of 64 bits: `_kept_arrays`.
        """

        def answer(*arrays: Any) -> tuple[Any, Any]:
            nested, leaves, same = self._opened(tree.unflatten(arrays))
            return self._found(nested, leaves, same, static, key)

        return self._kept.caller(
            (key, tree), lambda: execution.tree_caller(self.name, MOST_KEPT, answer)
        )

    # Running

    def _run_new(
        self,
        nested: Any,
        leaves: list[Any],
        tree: Any,
        static: tuple[Any, ...],
        key: tuple[Any, ...],
    ) -> tuple[Any, Any]:
        """`_found`, where nothing is."""
        nested, leaves, tree = self._opened(nested)  # raises if it can't be compared
        if any(type(leaf) is XlaOp for leaf in leaves):
            return self._apply(nested, leaves, tree, static, key), None
        shapes = self._shapes(nested, leaves)
        entry = self._kept.entry((tree, key, shapes))
        self._kept.recording(entry, lambda: self._record(nested, tree, shapes, static))
        answer = self._run(entry, nested, leaves)
        found = tree, key, descriptions(leaves)
        if None not in found[2]:
            self._kept.find_quickly(found, (tree, key, shapes), entry)
        return answer

    def _run(self, entry: Entry, nested: tuple[Any, ...], leaves: list[Any]) -> tuple[Any, Any]:
        """Runs what an entry holds on the device that the arguments lie on."""

        def names() -> list[str]:
            return leaf_names(nested, self._signature.names)

        on = self._device_for(leaves, names)
        executable = self._executable(entry, on)
        entry.executable = executable
        # What is not committed to a device goes where it is needed, as in jax.
        there = {on}
        given = [
            device_put(leaf, on)
            if type(leaf) is _JaxArray
            and not leaf.committed
            and not leaf.is_deleted()
            and leaf.sharding.device_set != there
            else leaf
            for leaf in leaves
        ]
        result, data = _executed(entry, executable, given)
        as_they_are = all(a is b for a, b in zip(given, leaves, strict=True))
        return result, data if as_they_are else None

    def _device_for(self, leaves: Sequence[Any], names: Callable[[], list[str]]) -> jax.Device:
        """The device that the arguments are committed to; the default one if they are to none."""
        if self._device is not None:
            return find_device(self._device)
        decided: tuple[jax.Device, int] | None = None
        for number, leaf in enumerate(leaves):
            if type(leaf) is not _JaxArray or not leaf.committed:
                continue
            where = leaf.sharding.device_set
            if len(where) > 1:
                raise self._refused(
                    names()[number],
                    number,
                    f"on one device, got one on {len(where)}",
                    "lowering.compile(function.computation(...), num_partitions=...) runs on "
                    "several",
                )
            (on,) = where
            if decided is None:
                decided = on, number
            elif on is not decided[0]:
                all_names = names()
                raise ArgumentError(
                    f"{self.name}: the arguments lie on different devices, got\n"
                    f"  {all_names[decided[1]]} on {decided[0]}\n  {all_names[number]} on {on}\n"
                    f"fix: lowering.device_put(array, device) copies one to the other's",
                    computation=self.name,
                    argument=number,
                    name=all_names[number],
                )
        return find_device(None) if decided is None else decided[0]

    # Arguments

    def _opened(self, args: tuple[Any, ...]) -> tuple[Any, list[Any], Any]:
        try:
            return opened(args)
        except TreeError as error:
            raise ArgumentError(f"{self.name}: {self._blamed(args)}{error}") from error.__cause__

    def _blamed(self, args: tuple[Any, ...]) -> str:
        """The argument that can't be opened, for messages."""
        for name, value in zip(self._signature.names, args, strict=True):
            try:
                opened(value)
            except TreeError:
                return f"argument {name}: "
        return ""

    def _shapes(
        self, nested: tuple[Any, ...], leaves: Sequence[Any], *, may_be_shapes: bool = False
    ) -> tuple[Shape, ...]:
        """The shapes of arguments.

        Raises:
            ArgumentError: one is no array, nor, where it may be, a shape.
        """
        found: list[Shape] = []
        for number, leaf in enumerate(leaves):
            shape: Shape | None = shape_of(leaf)
            if shape is None and may_be_shapes:
                shape = given_shape(leaf)
            if shape is None:
                name = leaf_names(nested, self._signature.names)[number]
                raise self._refused(name, number, *self._complaint(leaf, name))
            found.append(shape)
        return tuple(found)

    def _complaint(self, leaf: Any, name: str) -> tuple[str, str]:
        return complaint(leaf, name, is_whole=name in self._signature.names)

    def _refused(self, name: str, number: int, what: str, fix: str) -> ArgumentError:
        return ArgumentError(
            f"{self.name}: argument {name} must be {what}\nfix: {fix}",
            computation=self.name,
            argument=number,
            name=name,
        )

    # Recording

    def _recording_of(
        self, args: tuple[Any, ...], by_name: dict[str, Any]
    ) -> tuple[Entry, Recording]:
        entry, recording, _, _ = self._recording_of_leaves(args, by_name)
        return entry, recording

    def _recording_of_leaves(
        self, args: tuple[Any, ...], by_name: dict[str, Any]
    ) -> tuple[Entry, Recording, list[Any], Callable[[], list[str]]]:
        dynamic, static, key = self._signature.bound(args, by_name)
        nested, leaves, tree = self._opened(dynamic)
        shapes = self._shapes(nested, leaves, may_be_shapes=True)
        entry = self._kept.entry((tree, key, shapes))
        recording = self._kept.recording(entry, lambda: self._record(nested, tree, shapes, static))
        return entry, recording, leaves, lambda: leaf_names(nested, self._signature.names)

    def _record(
        self, nested: tuple[Any, ...], tree: Any, shapes: tuple[Shape, ...], static: Sequence[Any]
    ) -> tuple[Recording, bool]:
        """Records the function for arguments of these shapes, for a program of its own."""
        recorded, results, is_tuple = self._recorded_with(nested, tree, shapes, static, None)
        return Recording(recorded.build(), results, is_tuple), True

    def _recorded_with(
        self,
        nested: tuple[Any, ...],
        tree: Any,
        shapes: tuple[Shape, ...],
        static: Sequence[Any],
        enclosing: XlaBuilder | None,
    ) -> tuple[Any, Any, bool]:
        names = leaf_names(nested, self._signature.names)
        structure: list[Any] = []

        def flat(*parameters: XlaOp) -> Any:
            result = self._signature.apply(self.function, tree.unflatten(parameters), static)
            ops, results = self._checked_result(result)
            structure.append(results)
            return ops[0] if len(ops) == 1 else ops

        flat.__name__ = self.name
        recorded = record_callable(
            "jit", "function", flat, shapes, enclosing=enclosing, names=names
        )
        numbers = self._numbers_donated(nested)
        for number in numbers:
            for index in leaf_indices(shapes[number]):
                recorded.builder.add_buffer_donor(number, index)
        (results,) = structure
        return recorded, results, results.num_leaves != 1

    def _numbers_donated(self, nested: tuple[Any, ...]) -> list[int]:
        """The leaves of the arguments that are to be donated."""
        found: list[int] = []
        first = 0
        for number, argument in enumerate(nested):
            count = len(flatten(argument)[0])
            if number in self._signature.donated:
                found += range(first, first + count)
            first += count
        return found

    def _checked_result(self, result: Any) -> tuple[list[XlaOp], Any]:
        """The ops in what the function gave, and the structure of it."""
        try:
            nested, ops, structure = opened(result)
        except TreeError as error:
            raise OperandError(
                f"jit: the result of {self.name}: {error}", op="jit"
            ) from error.__cause__
        if result is None:
            raise OperandError(
                f"jit: {self.name} must return XlaOps, got None\n"
                f"fix: return the result; an empty tuple where there is none",
                op="jit",
            )
        for number, op in enumerate(ops):
            if type(op) is XlaOp:
                continue
            path = leaf_path(nested, number)
            place = f"the result{path} of {self.name}" if path else f"the result of {self.name}"
            fix = "return XlaOps, in dicts, lists, tuples or dataclasses"
            if isinstance(op, (bool, int, float, complex, np.generic, np.ndarray)):
                typed = isinstance(op, (bool, np.generic, np.ndarray))
                kind = "value" if typed else "value, element_type"
                fix = f"return x.builder.constant({kind}), where x is an argument"
            raise OperandError(
                f"jit: {place} must be an XlaOp, got {brief(op)}\nfix: {fix}", op="jit"
            )
        return ops, structure

    # Calls of it in other computations

    def _apply(
        self,
        nested: tuple[Any, ...],
        leaves: Sequence[Any],
        tree: Any,
        static: Sequence[Any],
        key: tuple[Any, ...],
    ) -> Any:
        """Records a call in the computation that the XlaOps among the arguments belong to."""
        builder = resolve_builder("jit", *[leaf for leaf in leaves if type(leaf) is XlaOp])
        with rollback_on_error(builder):
            operands = [
                leaf if type(leaf) is XlaOp else self._constant(builder, leaf, nested, number)
                for number, leaf in enumerate(leaves)
            ]
            shapes = tuple([operand.shape for operand in operands])
            captured: list[XlaOp] = []

            def make() -> tuple[Recording, bool]:
                recorded, results, is_tuple = self._recorded_with(
                    nested, tree, shapes, static, builder
                )
                # Of values from around it the next call may use others.
                is_for_all = not recorded.builder.captured and builder.current_metadata is None
                captured.extend(append_captures(recorded))
                return Recording(recorded.build(), results, is_tuple), is_for_all

            recording = self._kept.recording(self._kept.entry((tree, key, shapes)), make)
            result = call(recording.computation, *operands, *captured)
            count = recording.results.num_leaves
            return recording.nested(
                [result[i] for i in range(count)] if recording.is_tuple else result
            )

    def _constant(
        self, builder: XlaBuilder, leaf: Any, nested: tuple[Any, ...], number: int
    ) -> XlaOp:
        """An array among XlaOps, as a constant."""
        name = leaf_names(nested, self._signature.names)[number]
        if isinstance(leaf, (np.ndarray, np.generic)):
            try:
                return builder.constant(leaf)
            except ConstantError as error:
                reason, _, fix = str(error).partition("\nfix: ")
                wanted = f"one of numbers beside XlaOps: {reason}"
                fix = fix or "give a NumPy array of numbers"
        elif isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
            wanted = f"an XlaOp or a NumPy array beside XlaOps, got the jax.Array {describe(leaf)}"
            fix = "numpy.asarray(array) is taken as a constant"
        else:
            wanted, fix = self._complaint(leaf, name)
        raise self._refused(name, number, wanted, fix)


def _executed(entry: Entry, executable: Executable, leaves: Sequence[Any]) -> tuple[Any, Any]:
    """The result of a program; and what tells jaxlib how, if it can do it alone the next time."""
    recording = entry.recording
    assert recording is not None  # it is recorded first
    result, right = executable.run_and_tell(leaves)
    data = None
    if right:
        from_host = not all(type(leaf) is _JaxArray for leaf in leaves)
        data = executable.call_data(recording.results, from_host=from_host)
    return recording.nested(result), data


def _kept_arrays(leaves: list[Any]) -> list[Any] | None:
    """Arrays, those of NumPy copied: the caller may write to them while the program runs.

    `leaves` itself if there are none of NumPy; None if there is something else among them, or what
    jaxlib would convert.
    """
    arrays = []
    is_same = True
    for leaf in leaves:
        if type(leaf) is _JaxArray:
            arrays.append(leaf)
            continue
        is_same = False
        if type(leaf) is np.ndarray and leaf.dtype not in _CHANGED_BY_JAX and leaf.dtype.isnative:
            arrays.append(leaf.copy())
        elif isinstance(leaf, np.generic) and leaf.dtype not in _CHANGED_BY_JAX:
            arrays.append(np.asarray(leaf))
        else:
            return None
    return leaves if is_same else arrays


@overload
def jit(
    function: Callable[..., Any],
    *,
    donate: Parameters = (),
    device: DeviceLike = None,
    static: Parameters = (),
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> JittedFunction: ...


@overload
def jit(
    function: None = None,
    *,
    donate: Parameters = (),
    device: DeviceLike = None,
    static: Parameters = (),
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], JittedFunction]: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    donate: Parameters = (),
    device: DeviceLike = None,
    static: Parameters = (),
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> JittedFunction | Callable[[Callable[..., Any]], JittedFunction]:
    """Makes a function of XlaOps one of arrays, compiled for the shapes it is called with.

    The function is recorded and compiled when it is first called with arguments of other shapes,
    element types or nesting, or with other static values; calls after that run what was compiled.
    Calls are bound by the function's signature: it is the same whether an argument is given by
    position, by name, or by its default.

    Arguments and results may be nested in dicts, lists, tuples, named tuples, None, dataclasses,
    and in classes registered with jax.tree_util. A dataclass that is not registered is rebuilt
    field by field, without its ``__init__`` and ``__post_init__`` being run. The arrays are what an
    `Executable` takes; NumPy arrays are copied to the device.

    It runs on the device that the jax.Arrays among its arguments are committed to, as jax.jit does;
    on the default one if they are to none.

    Args:
        function: takes XlaOps where it is called with arrays, and gives XlaOps.
        donate: names or numbers of arguments whose memory results may be written to; all the arrays
            in them. Their jax.Arrays are used up, NumPy arrays are not. See `lowering.compile`.
        device: where to run; None for the arguments' device.
        static: names or numbers of arguments that the function gets as they are: hashable values,
            for each of which it is compiled anew.
        options: for the compiler; see `lowering.compile`.
        name: of the computations; the function's own if it is not given.

    Returns:
        A `JittedFunction`. Without a function, a decorator.

    Raises:
        OperandError: no function; `donate` or `static` name an argument that it does not have; the
            name is no identifier; there is no such option.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> def train_step(params, x):
        ...     return {name: p - x * 0.5 for name, p in params.items()}
        >>> step = lowering.jit(train_step, donate=["params"])
        >>> params = {"w": np.ones(2, np.float32), "b": np.zeros(2, np.float32)}
        >>> step(params, np.array([1, 2], np.float32))
        {'b': Array([-0.5, -1. ], dtype=float32), 'w': Array([0.5, 0. ], dtype=float32)}

        As a decorator, with a static argument:

        >>> @lowering.jit(static=["times"])
        ... def doubled(x, times=1):
        ...     for _ in range(times):
        ...         x = x + x
        ...     return x
        >>> doubled(np.float32(3), times=2)
        Array(12., dtype=float32)
    """
    if function is None:
        return functools.partial(
            jit, donate=donate, device=device, static=static, options=options, name=name
        )
    if not callable(function) or isinstance(function, XlaComputation):
        fix = "jit takes a function of XlaOps"
        if isinstance(function, (XlaComputation, StablehloModule)):
            fix = "lowering.compile(computation) compiles it"
        raise OperandError(f"jit: expected a function, got {brief(function)}\nfix: {fix}", op="jit")
    if name is None:
        inner = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        own = getattr(inner, "__name__", "")
        name = own if isinstance(own, str) and own.isidentifier() else "jitted"
    elif not isinstance(name, str) or not name.isidentifier():
        raise OperandError(
            f"jit: name must be an identifier, such as 'train_step', got {brief(name)}",
            op="jit",
        )
    read_options(options)  # raises if there is something wrong with them
    return JittedFunction(
        function, name, donate=donate, device=device, static=static, options=options
    )
