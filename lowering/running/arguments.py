"""Check the arguments of a compiled computation, and put them on its device.

The runtime reads the bytes of a buffer without checks: an array of another shape, element type or
layout gives wrong results, and with several devices the process may crash. So every argument is
checked here before the program is executed.

A program takes and returns arrays of bounded sizes padded to their bounds, together with the actual
sizes: see `lowering.legalize.dynamic`. The caller passes and receives arrays of the actual sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from builder.errors import ShapeTextError
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.expected_arrays import (
    NestingError,
    array_for,
    conversion_fix,
    describe_array,
    flatten_value,
)
from builder.types.foreign_arrays import UnreadableArrayError
from builder.types.layout import Layout
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    Shape,
    TokenShape,
    TupleShape,
    intern_array,
    leaves,
)
from lowering.errors import ArgumentError
from lowering.jaxlib_api import jax_arrays
from lowering.mlir.types import leaf_paths
from lowering.pjrt.devices import Target
from lowering.pjrt.entry_layouts import is_same, layout_from, put_in_layout
from lowering.pjrt.host_arrays import describe
from lowering.running.program import ProgramInfo
from lowering.stablehlo.call_tree import CallTree, unchanged
from lowering.stablehlo.platforms import PLATFORM_INDEX

SIZE: Final = intern_array(pt.s32, ())
"""The shape of the scalar that passes the actual size of a bounded dimension."""


@dataclass(frozen=True, slots=True)
class Padded:
    """An argument padded to its bounds.

    Attributes:
        array: the elements, padded with zeros.
        sizes: the actual size of each bounded dimension.
    """

    array: jax.Array
    sizes: list[jax.Array]


def too_large(shape: ArrayShape, sizes: Sequence[int]) -> str | None:
    """Return the fix for an array of `sizes` that does not fit `shape`; None if it fits."""
    if len(sizes) != shape.rank:
        return f"pass an array of {shape.rank} dimension{'s' * (shape.rank != 1)}"
    for dimension, (size, bound) in enumerate(zip(sizes, shape.dimensions, strict=True)):
        is_bounded = shape.dynamic_dimensions[dimension]
        if size > bound and is_bounded:
            index = ", ".join([":"] * dimension + [f":{bound}"])
            return f"reduce dimension {dimension} to size {bound} or less: array[{index}]"
        if size != bound and not is_bounded:
            return f"pass an array of size {bound} in dimension {dimension}"
    return None


def pad(array: Any, shape: ArrayShape) -> np.ndarray[Any, Any]:
    """Return a host or device array padded with zeros to the bounds of `shape`."""
    elements = np.asarray(array)
    padded = np.zeros(shape.dimensions, elements.dtype)
    padded[tuple(slice(size) for size in elements.shape)] = elements
    return padded


def passing_sizes(
    run: Callable[[list[Any]], list[Any]], positions: Sequence[int]
) -> Callable[[list[Any]], list[Any]]:
    """Return a function that calls `run` with arrays and sizes instead of `Padded` arguments.

    Args:
        run: executes the program.
        positions: the positions of the `Padded` arguments. Each is replaced by its array; its sizes
            are appended to the arguments.
    """

    def run_with_sizes(arguments: list[Any]) -> list[Any]:
        sizes: list[Any] = []
        for position in positions:
            padded = arguments[position]
            arguments[position] = padded.array
            sizes += padded.sizes
        return run([*arguments, *sizes])

    return run_with_sizes


def slicing_results(
    pack: Callable[[list[Any]], Any],
    bounded_dimensions: Sequence[tuple[int, int]],
    targets: Sequence[Target],
) -> Callable[[list[Any]], Any]:
    """Return a function that slices a program's padded results to actual sizes, and packs them.

    The program returns the padded results, followed by the sizes.

    Args:
        pack: packs the sliced results.
        bounded_dimensions: for each returned size, the number of the result and the dimension.
        targets: the targets of the padded results.
    """
    count = len(targets)

    def pack_sliced(results: list[Any]) -> Any:
        arrays, sizes = results[:count], results[count:]
        actual: dict[int, list[int]] = {}
        for (number, dimension), size in zip(bounded_dimensions, sizes, strict=True):
            dimensions = actual.setdefault(number, list(targets[number].dimensions))
            # A program may set a size out of bounds; there are no elements there.
            dimensions[dimension] = min(max(int(size), 0), dimensions[dimension])
        for number, dimensions in actual.items():
            if tuple(dimensions) != targets[number].dimensions:
                arrays[number] = first_elements(arrays[number], dimensions, targets[number])
        return pack(arrays)

    return pack_sliced


def first_elements(array: jax.Array, sizes: Sequence[int], target: Target) -> jax.Array:
    """Return the first `sizes` elements of an array along each dimension, on its device."""
    if is_host(target.device):
        # NumPy reads the memory of the device: one copy, and nothing is compiled.
        shape = intern_array(target.shape.element_type, tuple(sizes))
        return Target(shape, target.sharding).put(np.asarray(array)[tuple(map(slice, sizes))])
    with jax.enable_x64(True):
        return jax.lax.slice(array, [0] * len(sizes), sizes)


def is_host(device: Any) -> bool:
    """Return whether a device uses the host's memory."""
    return bool(device.platform == "cpu")


DELETED: Final = "a jax.Array that has been deleted"
DELETED_FIX: Final = (
    "pass an array that was neither donated nor deleted; donate a copy to keep an array"
)

_JaxArray: Final = jax_arrays.array_type
_layout_of: Final = jax_arrays.layout_of
_TOKEN_SHAPE: Final = pt.pred[0]
"""The shape of the empty array that the runtime passes for a token."""


class Leaf:
    """One array or token among the parameters, tuples flattened.

    Attributes:
        target: the shape, the device and the sharding of the buffers passed to the runtime.
        shape: the declared shape.
        aval: the aval of a jax.Array that is passed without a copy; None for bounded sizes, where
            every array is copied.
        is_static_array: whether the leaf is an array of fixed sizes, not a token.
        layout: the memory layout that buffers must have; None for arrays of rank 0 and 1, which
            have only one layout, unless the program requests a layout.
        requested_layout: the layout that the program requests; None for the default layout.
        number, name: the number and name of the parameter.
        path: the position within the parameter's tuple: "[0][1]".
    """

    __slots__ = (
        *("aval", "is_static_array", "layout", "name", "number", "path"),
        *("requested_layout", "shape", "target"),
    )

    def __init__(
        self, shape: ArrayShape | TokenShape, target: Target, number: int, name: str, path: str
    ) -> None:
        self.shape: Final = shape
        self.target: Final = target
        self.is_static_array: Final = isinstance(shape, ArrayShape) and shape.is_static
        self.aval: Final = target.aval if shape.is_static else None
        self.layout: Any = target.default if len(target.dimensions) > 1 else None
        self.requested_layout: Layout | None = None
        self.number: Final = number
        self.name: Final = name
        self.path: Final = path

    def request_layout(self, layout: Any) -> None:
        """Require the arrays of this leaf to have `layout`, a layout object of jaxlib."""
        requested, default = _parsed(layout), _parsed(self.target.default)
        if not is_same(self.target.shape, requested, default):
            self.layout, self.requested_layout = layout, requested


def _parsed(layout: Any) -> Layout:
    return layout_from(jax_arrays.layout_text(layout))


def target_of(leaf: ArrayShape | TokenShape, sharding: SingleDeviceSharding) -> Target:
    """Return the target of the buffers passed to the runtime for a leaf, sizes set to bounds."""
    return Target(passed_shape(leaf), sharding)


def passed_shape(leaf: ArrayShape | TokenShape) -> ArrayShape:
    """Return the shape of the buffers passed to the runtime for a leaf, sizes set to bounds."""
    return leaf.at_bounds().with_layout(None) if isinstance(leaf, ArrayShape) else _TOKEN_SHAPE


class LeafPlace(Protocol):
    """One array or token among the parameters, in messages."""

    @property
    def shape(self) -> ArrayShape | TokenShape: ...
    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...


class Parameters:
    """The parameters of a computation, to which a call binds its arguments.

    Attributes:
        name: the computation's name.
        program_shape: the parameters and the result.
        tree: the nesting of the program's arguments and results, or None; see `ProgramInfo`.
        place: text for messages that names the device, such as " for replica 3"; empty if there is
            one device.
    """

    __slots__ = ("name", "place", "program_shape", "tree")

    def __init__(
        self, name: str, program_shape: ProgramShape, tree: CallTree | None, place: str = ""
    ) -> None:
        self.name: Final = name
        self.program_shape: Final = program_shape
        self.tree: Final = tree
        self.place: Final = place

    def bind(
        self, args: tuple[Any, ...], by_name: Mapping[str, Any], *, lists: bool = False
    ) -> tuple[tuple[Any, ...], Callable[[Any], Any]]:
        """Return an argument for each parameter, and the function that nests the call's result.

        Args:
            args, by_name: the arguments of a call.
            lists: see `CallTree.bind`.
        """
        if self.tree is None:
            return self.by_position(args, by_name) if by_name else args, unchanged
        names = self.program_shape.parameter_names
        values, nest = self.tree.bind(self.name, args, by_name, names, lists=lists)
        return tuple(values), nest

    def by_position(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the positional and named arguments as one tuple, in parameter order."""
        names = self.program_shape.parameter_names
        if len(args) > len(names):
            raise self.wrong_count(len(args), args)
        for name in by_name:
            if name not in names:
                fix = f"use one of {', '.join(names)}" if names else "call it without arguments"
                raise self.error(f"there is no parameter {name!r}", fix, name=name)
            number = names.index(name)
            reason, fix = "", ""
            if number < len(args):
                reason, fix = (
                    f"is passed by position ({number}) and by name",
                    "pass the argument once",
                )
            elif names.count(name) > 1:
                reason = "is the name of several parameters"
                fix = "pass all arguments by position"
            if reason:
                raise self.error(f"parameter {name!r} {reason}", fix, number, name)
        missing = [name for name in names[len(args) :] if name not in by_name]
        if missing:
            number = names.index(missing[0])
            raise self.error(
                f"argument {number} ({missing[0]}) {self.program_shape.parameters[number]} is "
                "missing",
                f"pass {', '.join(missing)}, by position or by name",
                number,
                missing[0],
            )
        return args + tuple(by_name[name] for name in names[len(args) :])

    def flatten(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the leaves of `args`, which must be nested like the parameters."""
        if len(args) != len(self.program_shape.parameters):
            raise self.wrong_count(len(args), args)
        flat: list[Any] = []
        for number, argument in enumerate(args):
            flat.extend(self.flatten_parameter(number, argument))
        return flat

    def flatten_parameter(self, number: int, argument: Any) -> list[Any]:
        """Return the leaves of `argument`, which is passed for the parameter `number`."""
        shape: Shape = self.program_shape.parameters[number]
        if not isinstance(shape, TupleShape):
            return [argument]
        try:
            return [value for value, _, _ in flatten_value(argument, shape)]
        except NestingError as error:
            name = self.program_shape.parameter_names[number]
            raise self.error(
                f"argument {number} ({name}){error.path}{self.place} must be a tuple {error.shape}",
                f"pass a tuple or list of length {len(error.shape.elements)}",
                number,
                name,
                error.got,
            ) from None

    def wrong_count(self, passed: int, values: Sequence[Any]) -> ArgumentError:
        """Return the error for a call with `passed` arguments, too few or too many."""
        shape = self.program_shape
        takes = [f"{n} {s}" for n, s in zip(shape.parameter_names, shape.parameters, strict=True)]
        count = len(takes)
        fix = "call it without arguments"
        if passed < count:
            fix = f"pass {', '.join(takes[passed:])}" + (" as well" if passed else "")
            first = values[0] if passed == 1 and values else None
            if isinstance(first, (list, tuple)) and len(first) == count:
                fix = f"pass {count} arguments instead of one {type(first).__name__}: run(*arrays)"
            elif passed == count - 1 and shape.parameter_names[0] == PLATFORM_INDEX:
                fix = (
                    "pass the number of the platform first, in the order of the export; or load "
                    "what jax's Exported.serialize() returned, which names the platforms"
                )
        elif count:
            fix = f"pass only the first {count}" if count > 1 else "pass only the first argument"
        listed = f" ({', '.join(takes)})" if takes else ""
        rule = f"takes {count} argument{'s' * (count != 1)}{listed}"
        return self.error(rule, fix, got=str(passed))

    def error(
        self,
        rule: str,
        fix: str = "",
        argument: int | None = None,
        name: str | None = None,
        got: str | None = None,
    ) -> ArgumentError:
        shape = self.program_shape
        return ArgumentError(
            rule,
            got=got,
            fix=fix,
            computation=self.name,
            argument=argument,
            name=name,
            shapes=dict(zip(shape.parameter_names, shape.parameters, strict=True)),
        )

    def refusal(
        self, leaf: LeafPlace, got: str, fix: str = "", expected: object = None
    ) -> ArgumentError:
        """Return the error for the value passed for a leaf.

        Args:
            leaf: the leaf.
            got: the description of the value.
            fix: the fix; empty for none.
            expected: the description of a valid value; None for the leaf's shape.
        """
        return self.error(
            f"argument {leaf.number} ({leaf.name}){leaf.path}{self.place} must be "
            f"{expected or leaf.shape}",
            fix,
            leaf.number,
            leaf.name,
            got,
        )


class Arguments(Parameters):
    """The arguments that a computation takes on one device.

    Attributes:
        sharding: the sharding of arrays on the device.
        leaves: the arrays and tokens among the parameters, tuples flattened.
        donated: the numbers of the leaves whose arrays a call consumes.
    """

    __slots__ = ("donated", "leaves", "sharding")

    def __init__(
        self,
        info: ProgramInfo,
        sharding: SingleDeviceSharding,
        place: str = "",
        targets: Sequence[Target] | None = None,
    ) -> None:
        shape = info.shape
        super().__init__(info.name, shape, info.tree, place)
        self.sharding: Final = sharding
        self.donated: Final = info.donated
        flat = [
            (leaf, number, name, path)
            for number, (parameter, name) in enumerate(
                zip(shape.parameters, shape.parameter_names, strict=True)
            )
            for leaf, path in zip(leaves(parameter), leaf_paths(parameter), strict=True)
        ]
        if targets is None:
            targets = [target_of(leaf, sharding) for leaf, *_ in flat]
        self.leaves: Final = tuple(
            Leaf(leaf, target, number, name, path)
            for (leaf, number, name, path), target in zip(flat, targets, strict=True)
        )
        # Legalization appends the sizes of bounded arrays, which have layouts but no leaves.
        for parameter, layout in zip(self.leaves, info.layouts or (), strict=False):
            if isinstance(parameter.shape, ArrayShape):
                parameter.request_layout(layout)

    def check_donated_once(self, arrays: Sequence[Any]) -> None:
        """Raise ArgumentError for a donated array that is also passed as another argument.

        Arrays are compared by memory: jax.device_put may return a new array of the same buffer.
        """
        seen: dict[int, int] = {}
        for number, array in enumerate(arrays):
            if type(array) is not _JaxArray:
                continue
            first = seen.setdefault(jax_arrays.memory_of(array), number)
            if first != number and not self.donated.isdisjoint((first, number)):
                donated, second = (first, number) if first in self.donated else (number, first)
                leaf = self.leaves[donated]
                raise self.refusal(
                    self.leaves[second],
                    f"the array of argument {leaf.number} ({leaf.name}){leaf.path}, whose memory "
                    f"the program takes over",
                    "pass a copy of it: array.copy()",
                )

    def put_all(self, values: Sequence[Any], passed: int) -> list[Any]:
        """Return the values of all leaves in the form that the runtime accepts.

        Args:
            values: the value of each leaf.
            passed: the number of arguments that the caller passed, for messages.
        """
        if len(values) != len(self.leaves):
            raise self.wrong_count(passed, values)
        return [
            value if self.is_accepted(value, leaf) else self.put(value, leaf)
            for value, leaf in zip(values, self.leaves, strict=True)
        ]

    def is_accepted(self, value: Any, leaf: Leaf) -> bool:
        """Return whether `value` can be passed for a leaf without a copy or further checks."""
        return (
            type(value) is _JaxArray
            and value.aval == leaf.aval
            # Comparing shardings is slow, and they are nearly always one object.
            and ((where := value.sharding) is self.sharding or where == self.sharding)
            and (
                leaf.layout is None or (not value.is_deleted() and _layout_of(value) == leaf.layout)
            )
        )

    def put(self, value: Any, leaf: Leaf) -> Any:
        """Return the jax.Array of `value` for a leaf; a `Padded` for a leaf of bounded sizes."""
        target = leaf.target
        if (
            type(value) is np.ndarray
            and value.dtype == target.dtype
            and value.shape == target.dimensions
            and leaf.requested_layout is None
            and leaf.is_static_array
            and value.dtype.isnative
        ):
            return target.put(value)
        if not leaf.is_static_array:
            if isinstance(leaf.shape, ArrayShape):
                return self._padded(value, leaf, leaf.shape)
            if value is not None:
                raise self.refusal(leaf, describe(value), "pass None for a token")
            return target.put(np.zeros((0,), np.bool_))
        if isinstance(value, jax.Array):
            return self._check_array(value, leaf)
        array = self._read(value, leaf, target.shape)
        self._check_type(array, leaf, value)
        put = target.put(array)
        return put if leaf.requested_layout is None else self._in_layout(put, leaf)

    def _read(self, value: Any, leaf: Leaf, shape: ArrayShape) -> np.ndarray[Any, Any]:
        """Return the array of a value that is passed for a leaf, which has the shape `shape`."""
        if isinstance(value, XlaOp):
            fix = "pass an array; an op has no value before its computation is called"
            raise self.refusal(leaf, str(value), fix)
        try:
            return array_for(value, shape)
        except UnreadableArrayError as error:
            raise self.refusal(leaf, error.got, error.fix or _numpy_fix(leaf)) from None

    def _padded(self, value: Any, leaf: Leaf, shape: ArrayShape) -> Padded:
        """Return `value` padded to the bounds of `shape`, with its actual sizes."""
        array = value if isinstance(value, jax.Array) else self._read(value, leaf, shape)
        reason = too_large(shape, array.shape)
        if reason is not None:
            raise self.refusal(leaf, describe_array(value, array), reason)
        # Check it as the argument of a parameter of exactly these sizes, then of the bounds.
        passed = intern_array(shape.element_type, array.shape)
        place = leaf.number, leaf.name, leaf.path
        exact = Leaf(shape, target_of(passed, self.sharding), *place)
        if isinstance(array, jax.Array):
            array = self._check_array(array, exact)
        else:
            self._check_type(array, exact, value)
        if array.shape != shape.dimensions:
            array = pad(array, shape)
        full = Leaf(shape.at_bounds(), leaf.target, *place)
        full.layout, full.requested_layout = leaf.layout, leaf.requested_layout
        size = target_of(SIZE, self.sharding)
        return Padded(
            self.put(array, full),
            [
                size.put(np.array(n, np.int32))
                for n, dynamic in zip(passed.dimensions, shape.dynamic_dimensions, strict=True)
                if dynamic
            ],
        )

    def _in_layout(self, array: jax.Array, leaf: Leaf) -> jax.Array:
        """Return `array`, which is on the device, or a copy of the array in the layout of a leaf.

        Raise ArgumentError if the array has tiles and the device's default layout has none, because
        XLA can't read such an array.
        """
        target = leaf.target
        text = jax_arrays.layout_text(_layout_of(array))
        default = _parsed(target.default)
        requested = leaf.requested_layout or default
        try:
            layout = layout_from(text)
        except ShapeTextError:
            layout = None
        if layout is not None:
            if is_same(target.shape, layout, requested):
                return array
            if bool(layout.tiles) <= bool(default.tiles):
                copy = put_in_layout(array, requested)
                if is_same(target.shape, _parsed(_layout_of(copy)), requested):
                    return copy
        raise self.refusal(
            leaf, f"an array in layout {text}", _RETRANSFER, expected=f"in layout {requested}"
        )

    def _check_type(self, array: Any, leaf: Leaf, passed: Any) -> None:
        """Raise ArgumentError unless the array of a value that was passed fits a leaf."""
        target = leaf.target
        if array.dtype != target.dtype or array.shape != target.dimensions:
            raise self.refusal(
                leaf, describe_array(passed, array), conversion_fix(array, target.shape, passed)
            )

    def _check_array(self, value: Any, leaf: Leaf) -> jax.Array:
        """Check a jax.Array that `is_accepted` did not accept; return it in the leaf's layout."""
        if isinstance(value, jax.core.Tracer):
            fix = "call lowering.to_jax(computation) in jax.jit, jax.grad and other transformations"
            raise self.refusal(leaf, "a tracer of jax", fix)
        self._check_type(value, leaf, value)
        if value.is_deleted():
            raise self.refusal(leaf, DELETED, DELETED_FIX)
        self.check_place(value, leaf)
        if leaf.layout is not None and _layout_of(value) != leaf.layout:
            return self._in_layout(value, leaf)
        checked: jax.Array = value
        return checked

    def check_place(self, value: jax.Array, leaf: Leaf) -> None:
        """Raise ArgumentError for an array on another device or in another kind of memory."""
        target = leaf.target
        where = value.devices()
        if where != {target.device}:
            raise self.refusal(
                leaf,
                f"an array on {', '.join(sorted(str(d) for d in where)[:4])}",
                "use jax.device_put(array, device), where device is the executable's device",
                expected=f"on {target.device}",
            )
        self.check_memory_kind(value, leaf, self.sharding.memory_kind, _RETRANSFER)

    def check_memory_kind(
        self, value: jax.Array, leaf: Leaf, expected: str | None, fix: str
    ) -> None:
        kind = value.sharding.memory_kind
        if kind != expected:
            got = f"an array in memory of kind {kind!r}"
            raise self.refusal(leaf, got, fix, expected=f"in memory of kind {expected!r}")


_RETRANSFER: Final = "pass numpy.asarray(array), or lowering.device_put(array, device)"


def _numpy_fix(leaf: Leaf) -> str:
    return f"pass a NumPy array: numpy.asarray(value, {pt.dtype_text(leaf.target.dtype)})"
