"""The arguments of a compiled computation: what may be given, and what is said otherwise.

The runtime itself takes bytes as they come, and would read an array of another shape, type or
layout without a word; with several devices it dies of some of them. So everything is checked here
before it executes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from builder.errors import ConstantError, ShapeTextError, brief
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.constant import scalar_array
from builder.types.layout import Layout
from builder.types.shape import (
    ArrayShape,
    Shape,
    TokenShape,
    TupleShape,
    intern_array,
    leaves,
)
from lowering.errors import ArgumentError
from lowering.jaxlib_api import array_layouts, jax_arrays
from lowering.mlir.flattening import leaf_paths
from lowering.pjrt.devices import Target
from lowering.pjrt.entry_layouts import is_same, layout_from, put_in_layout
from lowering.pjrt.host_arrays import describe, host_array
from lowering.running import bounded_arrays as bounded
from lowering.running.program import ProgramInfo

__all__ = ["DELETED", "DELETED_FIX", "Arguments", "Leaf", "passed_shape", "target_of"]

_JaxArray: Final = jax_arrays.array_type
_layout_of: Final = array_layouts.layout_of
_TOKEN_SHAPE: Final = pt.pred[0]
"""What the runtime passes in place of a token: an array without elements."""


class Leaf:
    """One array argument: where it stands, and what may be given there.

    Attributes:
        target: where its arrays go.
        shape: what is asked for there.
        aval: what a jax.Array given there has to be, if it is to be used as it is.
        is_plain: an array of fixed sizes; neither a token nor of bounded sizes.
        layout: the memory layout that it has to have; None where there is but one.
        wanted: that layout where the program asks for another than arrays have by default.
        number, name: of the parameter that it is (a part of).
        path: its place within the parameter's tuple: "[0][1]".
    """

    __slots__ = (
        "aval",
        "is_plain",
        "layout",
        "name",
        "number",
        "path",
        "shape",
        "target",
        "wanted",
    )

    def __init__(
        self, shape: ArrayShape | TokenShape, target: Target, number: int, name: str, path: str
    ) -> None:
        self.shape: Final = shape
        self.target: Final = target
        self.is_plain: Final = isinstance(shape, ArrayShape) and shape.is_static
        # Nothing equals None: of a bounded size no array is used as it is.
        self.aval: Final = target.aval if shape.is_static else None
        self.layout: Any = target.default if len(target.dimensions) > 1 else None
        self.wanted: Layout | None = None
        self.number: Final = number
        self.name: Final = name
        self.path: Final = path

    def take_in(self, layout: Any) -> None:
        """Has the arrays given be in a layout of the runtime's."""
        shape = self.target.shape
        wanted = layout_from(array_layouts.layout_text(layout))
        if not is_same(shape, wanted, layout_from(array_layouts.layout_text(self.target.default))):
            self.layout, self.wanted = layout, wanted


def target_of(leaf: ArrayShape | TokenShape, sharding: SingleDeviceSharding) -> Target:
    """Where the arrays go that are passed for a leaf, in their largest sizes."""
    return Target(passed_shape(leaf), sharding)


def passed_shape(leaf: ArrayShape | TokenShape) -> ArrayShape:
    """The shape of the arrays that are passed for a leaf."""
    return leaf.at_bounds().with_layout(None) if isinstance(leaf, ArrayShape) else _TOKEN_SHAPE


class Arguments:
    """The arguments that a computation takes on one device.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result.
        sharding: of the arrays on the device.
        leaves: for each array argument what may be given there.
        place: for messages, where there are several devices: " for replica 3"; else empty.
        donated: the numbers of the leaves whose arrays a call uses up.
    """

    __slots__ = ("donated", "leaves", "name", "place", "program_shape", "sharding")

    def __init__(
        self,
        info: ProgramInfo,
        sharding: SingleDeviceSharding,
        place: str = "",
        targets: Sequence[Target] | None = None,
    ) -> None:
        self.name: Final = info.name
        self.program_shape: Final = info.shape
        self.sharding: Final = sharding
        self.place: Final = place
        self.donated: Final = info.donated
        found: list[Leaf] = []
        for number, (parameter, parameter_name) in enumerate(
            zip(info.shape.parameters, info.shape.parameter_names, strict=True)
        ):
            for leaf, path in zip(leaves(parameter), leaf_paths(parameter), strict=True):
                target = target_of(leaf, sharding) if targets is None else targets[len(found)]
                found.append(Leaf(leaf, target, number, parameter_name, path))
        for leaf_taken, layout in zip(found, info.layouts or (), strict=False):
            if isinstance(leaf_taken.shape, ArrayShape):
                leaf_taken.take_in(layout)
        self.leaves: Final = tuple(found)

    def in_order(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> tuple[Any, ...]:
        """Arguments by position and by name, all by position."""
        names = self.program_shape.parameter_names
        if len(args) > len(names):
            raise self.wrong_count(len(args))
        for name in by_name:
            if name not in names:
                known = f"the parameters are {', '.join(names)}" if names else "it has none"
                raise self.error(f"there is no parameter {name!r}\nfix: {known}", name=name)
            number = names.index(name)
            if number < len(args) or names.count(name) > 1:
                reason = (
                    f"is given by position ({number}) and by name\nfix: give it once"
                    if number < len(args)
                    else "is the name of several parameters\nfix: give all by position"
                )
                raise self.error(f"parameter {name!r} {reason}", number, name)
        missing = [n for n in names[len(args) :] if n not in by_name]
        if missing:
            number = names.index(missing[0])
            shape = self.program_shape.parameters[number]
            rest = "".join(f", {n}" for n in missing[1:])
            raise self.error(
                f"argument {number} ({missing[0]}) {shape} is missing\n"
                f"fix: give {missing[0]}{rest}, by position or by name",
                number,
                missing[0],
            )
        return args + tuple(by_name[n] for n in names[len(args) :])

    def check_given_once(self, arrays: Sequence[Any]) -> None:
        """Raises ArgumentError for an array that the call uses up, and is given again beside.

        Its memory is what counts: jax.device_put may give another array of the same.
        """
        seen: dict[int, int] = {}
        for number, array in enumerate(arrays):
            if type(array) is not _JaxArray:
                continue
            other = seen.setdefault(jax_arrays.memory_of(array), number)
            if other != number and not self.donated.isdisjoint((other, number)):
                if other not in self.donated:
                    other, number = number, other
                taken, leaf = self.leaves[other], self.leaves[number]
                raise self.refused(
                    leaf,
                    f"the array that is given as argument {taken.number} ({taken.name})"
                    f"{taken.path} too, whose memory the program takes over",
                    "give a copy of it: array.copy()",
                )

    def error(
        self, message: str, argument: int | None = None, name: str | None = None
    ) -> ArgumentError:
        shape = self.program_shape
        return ArgumentError(
            f"{self.name}: {message}",
            computation=self.name,
            argument=argument,
            name=name,
            shapes=dict(zip(shape.parameter_names, shape.parameters, strict=True)),
        )

    def wrong_count(self, given: int) -> ArgumentError:
        shape = self.program_shape
        takes = [f"{n} {s}" for n, s in zip(shape.parameter_names, shape.parameters, strict=True)]
        count, listed = len(takes), ", ".join(takes)
        if given < count:
            fix = f"give {', '.join(takes[given:])} as well"
        else:
            fix = f"leave out the last {given - count}" if count else "call it without arguments"
        return self.error(
            f"takes {count} argument{'s' * (count != 1)}"
            f"{f' ({listed})' if takes else ''}, got {given}\nfix: {fix}"
        )

    def flattened(self, args: tuple[Any, ...]) -> list[Any]:
        """The leaves of the arguments, tuples opened as the parameters are nested."""
        if len(args) != len(self.program_shape.parameters):
            raise self.wrong_count(len(args))
        flat: list[Any] = []
        for number, argument in enumerate(args):
            flat.extend(self.flattened_parameter(number, argument))
        return flat

    def flattened_parameter(self, number: int, argument: Any) -> list[Any]:
        """The leaves of one argument."""
        shape = self.program_shape
        flat: list[Any] = []
        stack: list[tuple[Any, Shape, str]] = [(argument, shape.parameters[number], "")]
        while stack:
            value, wanted, path = stack.pop()
            if not isinstance(wanted, TupleShape):
                flat.append(value)
                continue
            if not isinstance(value, (tuple, list)) or len(value) != len(wanted.elements):
                got = describe(value)
                if isinstance(value, (tuple, list)):
                    got = f"a {type(value).__name__} of {len(value)}"
                name = shape.parameter_names[number]
                raise self.error(
                    f"argument {number} ({name}){path}{self.place} must be a tuple {wanted}, "
                    f"got {got}\nfix: give a tuple or list of {len(wanted.elements)}",
                    number,
                    name,
                )
            pairs = list(zip(value, wanted.elements, strict=True))
            for index in range(len(pairs) - 1, -1, -1):
                stack.append((*pairs[index], f"{path}[{index}]"))
        return flat

    def on_device(self, values: Sequence[Any], given: int) -> list[Any]:
        """What the runtime is given for all leaves, of values of which some are not on the device.

        Args:
            values: one for each leaf, if there are as many as there should be.
            given: how many arguments they are of, for messages.
        """
        if len(values) != len(self.leaves):
            raise self.wrong_count(given)
        return [
            value if self.is_taken_as_it_is(value, leaf) else self.argument(value, leaf)
            for value, leaf in zip(values, self.leaves, strict=True)
        ]

    def is_taken_as_it_is(self, value: Any, leaf: Leaf) -> bool:
        """Whether `value` is an array that the runtime may be given for a leaf."""
        return (
            type(value) is _JaxArray
            and value.aval == leaf.aval
            # By identity first: comparing takes five times as long.
            and ((where := value.sharding) is self.sharding or where == self.sharding)
            and (
                leaf.layout is None or (not value.is_deleted() and _layout_of(value) == leaf.layout)
            )
        )

    def argument(self, value: Any, leaf: Leaf) -> Any:
        """`value` as the jax.Array that the runtime is given for a leaf; or as a `Filled`."""
        target = leaf.target
        if (
            type(value) is np.ndarray
            and value.dtype == target.dtype
            and value.shape == target.dimensions
            and leaf.wanted is None
            and leaf.is_plain
            and value.dtype.isnative
        ):
            return target.put(value)
        if not leaf.is_plain:
            if isinstance(leaf.shape, ArrayShape):
                return self._filled(value, leaf, leaf.shape)
            if value is not None:
                raise self.refused(leaf, describe(value), "give None for a token")
            return target.put(np.zeros((0,), np.bool_))
        if isinstance(value, jax.Array):
            return self._checked(value, leaf)
        if type(value) in (bool, int, float, complex):
            if target.dimensions:
                raise self.refused(leaf, f"the Python number {brief(value)}", self._numpy_fix(leaf))
            try:
                return target.put(scalar_array(value, target.shape.element_type, self.name))
            except ConstantError as error:
                reason = str(error).split(": ", 2)[-1]
                raise self.refused(leaf, f"the Python number {brief(value)}: {reason}") from None
        array = host_array(value)
        if array is None:
            fix = self._numpy_fix(leaf)
            if isinstance(value, np.ma.MaskedArray):
                fix = "there are no masks in XLA; fill it: array.filled(value)"
            elif isinstance(value, XlaOp):
                fix = "an op has no value before its computation is called; give an array"
            raise self.refused(leaf, describe(value), fix)
        if array.dtype != target.dtype or array.shape != target.dimensions:
            raise self.refused(leaf, describe(array), _conversion(array, target))
        return target.put(array) if leaf.wanted is None else self._laid_out(target.put(array), leaf)

    def _filled(self, value: Any, leaf: Leaf, shape: ArrayShape) -> bounded.Filled:
        """`value`, of any sizes up to the bounds, in the largest size, and its sizes."""
        array = value if isinstance(value, jax.Array) else host_array(value)
        if array is None or type(value) in (bool, int, float, complex):
            raise self.refused(leaf, describe(value), self._numpy_fix(leaf))
        wrong = bounded.too_large(shape, array.shape)
        if wrong is not None:
            raise self.refused(leaf, describe(array), wrong)
        # From here on as for a parameter of these very sizes, then of the largest.
        given = intern_array(shape.element_type, array.shape)
        exact = Leaf(shape, target_of(given, self.sharding), leaf.number, leaf.name, leaf.path)
        if isinstance(array, jax.Array):
            array = self._checked(array, exact)
        elif array.dtype != exact.target.dtype:
            raise self.refused(leaf, describe(array), _conversion(array, exact.target))
        whole = Leaf(shape.at_bounds(), leaf.target, leaf.number, leaf.name, leaf.path)
        whole.layout, whole.wanted = leaf.layout, leaf.wanted
        size = target_of(bounded.SIZE, self.sharding)
        full = array if array.shape == shape.dimensions else bounded.fill_up(array, shape)
        return bounded.Filled(
            self.argument(full, whole),
            [
                size.put(np.array(n, np.int32))
                for n, dynamic in zip(array.shape, shape.dynamic_dimensions, strict=True)
                if dynamic
            ],
        )

    def _laid_out(self, array: jax.Array, leaf: Leaf) -> jax.Array:
        """An array of the device in the layout that the parameter is taken in: a copy, if need be.

        Refused is an array in tiles where arrays have none by default: what it holds is not known.
        """
        target = leaf.target
        text = array_layouts.layout_text(_layout_of(array))
        default = layout_from(array_layouts.layout_text(target.default))
        wanted = default if leaf.wanted is None else leaf.wanted
        made = None
        try:
            given = layout_from(text)
        except ShapeTextError:
            given = None
        if given is not None and is_same(target.shape, given, wanted):
            return array
        if given is not None and bool(given.tiles) <= bool(default.tiles):
            made = put_in_layout(array, wanted)
            text = array_layouts.layout_text(_layout_of(made))
        if made is None or not is_same(target.shape, layout_from(text), wanted):
            raise self.refused(
                leaf,
                f"one in layout {text}",
                "give numpy.asarray(array), or lowering.device_put(array, device)",
                wanted=f"in layout {wanted}",
            )
        return made

    def _checked(self, value: Any, leaf: Leaf) -> jax.Array:
        """A jax.Array that the quick test did not let through."""
        if isinstance(value, jax.core.Tracer):
            raise self.refused(
                leaf,
                "a tracer of jax",
                "call it outside of jax.jit, jax.grad and other transformations",
            )
        target = leaf.target
        if value.dtype != target.dtype or value.shape != target.dimensions:
            raise self.refused(leaf, describe(value), _conversion(value, target))
        if value.is_deleted():
            raise self.refused(leaf, DELETED, DELETED_FIX)
        self.check_place(value, leaf)
        if leaf.layout is not None and _layout_of(value) != leaf.layout:
            return self._laid_out(value, leaf)
        checked: jax.Array = value
        return checked

    def check_place(self, value: jax.Array, leaf: Leaf) -> None:
        """Raises ArgumentError for an array that is somewhere else than the program takes it."""
        target = leaf.target
        where = value.devices()
        if where != {target.device}:
            names = ", ".join(sorted(str(d) for d in where)[:4])
            raise self.refused(
                leaf,
                f"one on {names}",
                "jax.device_put(array, device), where device is the executable's",
                wanted=f"on {target.device}",
            )
        memory = value.sharding.memory_kind
        if memory != self.sharding.memory_kind:
            raise self.refused(
                leaf,
                f"one in memory of kind {memory!r}",
                "give numpy.asarray(array), or lowering.device_put(array, device)",
                wanted=f"in memory of kind {self.sharding.memory_kind!r}",
            )

    def _numpy_fix(self, leaf: Leaf) -> str:
        return f"give a NumPy array: numpy.asarray(value, {pt.dtype_text(leaf.target.dtype)})"

    def refused(self, leaf: Leaf, got: str, fix: str = "", wanted: str = "") -> ArgumentError:
        return self.error(
            f"argument {leaf.number} ({leaf.name}){leaf.path}{self.place} must be "
            f"{wanted or leaf.shape}, got {got}" + (f"\nfix: {fix}" if fix else ""),
            leaf.number,
            leaf.name,
        )


DELETED: Final = "a jax.Array that has been deleted"
DELETED_FIX: Final = "give one that was neither donated to another program nor deleted, or a copy"


def _conversion(array: Any, target: Target) -> str:
    """What turns an array into one that is taken; nothing where that would be a guess."""
    wanted = f"numpy.asarray(values, {pt.dtype_text(target.dtype)}), of sizes {target.dimensions}"
    try:
        pt.from_dtype(array.dtype)
    except ValueError:
        return f"give an array of numbers: {wanted}"
    verb, change = _rearrangement(array.shape, target.dimensions)
    if change is None:
        return f"give an array of the parameter's sizes: {target.dimensions}"
    if array.dtype != target.dtype:
        verb = f"convert and {verb}" if verb else "convert"
        change += f".astype({pt.dtype_text(target.dtype)})"
    return f"{verb} it: array{change}"


def _rearrangement(given: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[str, str | None]:
    """How an array of some sizes gets others: verb and code; the code is None if not known."""
    if given == wanted:
        return "", ""
    if sorted(given) == sorted(wanted):
        # A reshape would be taken too, with the elements in other places than the caller means.
        remaining = list(enumerate(given))
        order: list[int] = []
        for size in wanted:
            found = next(pair for pair in remaining if pair[1] == size)
            remaining.remove(found)
            order.append(found[0])
        return "transpose", f".transpose({tuple(order)})"
    borders, others = _borders(given), _borders(wanted)
    if 0 not in given and max(borders) == max(others) and (borders <= others or others <= borders):
        # Neighbouring dimensions are put together, or one is split: no element moves.
        return "reshape", f".reshape({wanted})"
    return "", None


def _borders(sizes: tuple[int, ...]) -> set[int]:
    """The numbers of elements in the first dimensions: equal ones stay where they are."""
    return {math.prod(sizes[:end]) for end in range(len(sizes) + 1)}
