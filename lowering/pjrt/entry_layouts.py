"""The layouts in which arrays enter and leave a program: what is asked for, what a device can have.

`mhlo.layout_mode`, of an argument or a result of ``@main``, is XLA's word for them. XLA takes it as
it comes: it dies of some texts, drops parts of others without a word, and compiles for a CPU
programs that take tiled arrays, which no CPU has. So the texts are read here before XLA sees them,
and what it says afterwards is compared with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jax
import numpy as np
from jaxlib.mlir import ir

from builder.errors import ShapeInferenceError, ShapeTextError
from builder.layout.program_layouts import check_supported_layout
from builder.types.layout import COMBINE, Layout
from builder.types.layout_text import parse_layout
from builder.types.shape import ArrayShape, ProgramShape, Shape, TokenShape, leaves
from lowering.errors import CompileError
from lowering.jaxlib_api import array_layouts, mlir
from lowering.mlir.flattening import leaf_paths
from lowering.mlir.types import attribute_text
from lowering.pjrt.devices import Target, sharding_of
from lowering.reading.bytecode_tables import module_strings

__all__ = [
    "LAYOUT_MODE",
    "EntryLayouts",
    "is_same",
    "layout_from",
    "parameter_layouts",
    "put_in_layout",
    "requested_layouts",
]

LAYOUT_MODE: Final = "mhlo.layout_mode"


@dataclass(frozen=True, slots=True)
class Asked:
    """A layout that a module asks for.

    Attributes:
        place: for messages: "parameter x[0]", "the result[1]".
        position: the number of the argument or the result.
        is_parameter: whether it is an argument's.
        shape: the array, with the layout; None where the compiler is to choose one.
    """

    place: str
    position: int
    is_parameter: bool
    shape: ArrayShape | None


@dataclass(frozen=True, slots=True)
class EntryLayouts:
    """All the layouts that a module asks for.

    Attributes:
        name: the computation's name.
        device: where it is to run; of several devices, which are alike, the first.
        parameters: the shapes of all arguments, tuples opened.
        asked: in the order of the arguments, then of the results. Arrays without elements are not
            among them.
        code: the module's bytecode, for XLA.
    """

    name: str
    device: Any
    parameters: tuple[ArrayShape | TokenShape, ...]
    asked: tuple[Asked, ...]
    code: bytes


def requested_layouts(
    module: ir.Operation, code: bytes, name: str, shape: ProgramShape, device: Any
) -> EntryLayouts | None:
    """The layouts that a module asks for; None if it asks for none.

    Args:
        module: a verified module.
        code: its bytecode.
        name: the computation's name.
        shape: parameters and result, as the module has them.
        device: where it is to run.

    Raises:
        CompileError: a layout that can't be read, does not fit its array, or that arrays on the
            device can't have.
    """
    # Looked for in the bytes: a program may have thousands of arguments.
    if LAYOUT_MODE.encode() not in module_strings(code):
        return None
    (function,) = [one for one in module.regions[0].blocks[0].operations if _is_main(one)]
    asked = []
    empty: dict[str, list[int]] = {}
    places = [
        _places(f"parameter {parameter}", one)
        for parameter, one in zip(shape.parameter_names, shape.parameters, strict=True)
    ]
    parameters = [pair for found in places for pair in found]
    for key, values in (
        ("arg_attrs", parameters),
        ("res_attrs", _places("the result", shape.result)),
    ):
        if key not in function.attributes:
            continue
        # What legalization has added behind them has no layouts.
        modes = list(ir.ArrayAttr(function.attributes[key]))[: len(values)]
        for position, ((place, leaf), entry) in enumerate(zip(values, modes, strict=True)):
            given = ir.DictAttr(entry)
            if LAYOUT_MODE not in given:
                continue
            text = attribute_text(given[LAYOUT_MODE])
            if text == "default":
                continue
            wanted = None
            if text != "auto":
                wanted = _read(leaf, str(given[LAYOUT_MODE]), text, place, name, device)
            if isinstance(leaf, ArrayShape) and leaf.element_count == 0:
                empty.setdefault(key, []).append(position)
                continue
            asked.append(Asked(place, position, key == "arg_attrs", wanted))
    if empty:
        code = _without(module, empty)
    return EntryLayouts(name, device, tuple(leaf for _, leaf in parameters), tuple(asked), code)


def _without(module: ir.Operation, positions: Mapping[str, Sequence[int]]) -> bytes:
    """The bytecode of a module that does not ask for the layouts of some arguments and results.

    Any order of nothing is the same, but XLA divides by zero, and the process dies, where it copies
    an array without elements from one order to another.
    """
    copy = module.clone().operation
    (function,) = [one for one in copy.regions[0].blocks[0].operations if _is_main(one)]
    with module.context:
        for key, left_out in positions.items():
            entries = list(ir.ArrayAttr(function.attributes[key]))
            for position in left_out:
                given = ir.DictAttr(entries[position])
                pairs = [given[number] for number in range(len(given))]
                kept = {one.name: one.attr for one in pairs if one.name != LAYOUT_MODE}
                entries[position] = ir.DictAttr.get(kept)
            function.attributes[key] = ir.ArrayAttr.get(entries)
    return mlir.bytecode(copy)


def _is_main(operation: Any) -> bool:
    return bool(ir.StringAttr(operation.attributes["sym_name"]).value == "main")


def _places(what: str, shape: Shape) -> list[tuple[str, ArrayShape | TokenShape]]:
    paths = (f"{what}{path}" for path in leaf_paths(shape))
    return list(zip(paths, leaves(shape), strict=True))


def _read(
    leaf: ArrayShape | TokenShape, shown: str, text: str | None, place: str, name: str, device: Any
) -> ArrayShape:
    """The array with the layout that a text asks for, which arrays on `device` can have."""

    def refuse(reason: str, fix: str) -> CompileError:
        return CompileError(
            f"compile: {place} of {name} can't be {leaf_text} on {device.platform}: {reason}\n"
            f"fix: {fix}",
            shapes={place: leaf},
        )

    leaf_text = f"{leaf} in layout {shown}"
    if text is None or not isinstance(leaf, ArrayShape):
        raise refuse(f"{LAYOUT_MODE} is the text of an array's layout", "drop the attribute")
    plain = leaf.with_layout(None)
    leaf_text = f"{plain} in layout {text}"
    try:
        layout = parse_layout(text)
        wanted = plain.with_layout(layout)
        check_supported_layout("compile", place, wanted)
    except (ShapeTextError, ShapeInferenceError) as error:
        reason = str(error).splitlines()[0]
        for beginning in (f"compile: {place}: ", "layout text: ", "layout: "):
            reason = reason.removeprefix(beginning)
        raise refuse(reason, "write a layout as XLA does: {1,0}, {0,1}") from None
    default = layout_from(
        array_layouts.layout_text(
            array_layouts.default_layout(device, plain.element_type.dtype, plain.dimensions)
        )
    )
    order = plain.with_layout(layout.minor_to_major)
    leaf_text, fix = str(wanted), f"ask for an order alone, {order}, or for no layout"
    if layout.tiles and not default.tiles:
        raise refuse("arrays there have no tiles", fix)
    if any(COMBINE in tile.dimensions for tile in layout.tiles):
        raise refuse("XLA can't pass arrays in tiles that combine dimensions", fix)
    if layout.tail_padding_alignment_in_elements != default.tail_padding_alignment_in_elements:
        raise refuse("arrays there have no padding at their end", fix)
    if layout.memory_space:
        raise refuse("arrays are passed in the device's main memory, S(0)", fix)
    return wanted


# Kept, as is `is_same`: the same few layouts are compared for each argument of each call. Reading
# and comparing them anew took 110 of its 170 microseconds.
layout_from: Final = lru_cache(maxsize=1024)(parse_layout)


@lru_cache(maxsize=1024)
def is_same(shape: ArrayShape, one: Layout, other: Layout) -> bool:
    """Whether two layouts of an array lay it in the same way.

    XLA leaves out the size of elements where it is the usual one, and jaxlib 0.10 leaves it out of
    the default layouts of elements of less than a byte, which all arrays of them have.
    """
    usual = {0, shape.element_type.bits if shape.element_type.bits in (2, 4) else _whole(shape)}
    sizes = {one.element_size_in_bits, other.element_size_in_bits}
    return one.replace(element_size_in_bits=0) == other.replace(element_size_in_bits=0) and (
        len(sizes) == 1 or sizes <= usual
    )


def _whole(shape: ArrayShape) -> int:
    return 8 * shape.element_type.byte_width


def parameter_layouts(layouts: EntryLayouts, loaded: Any) -> list[Any]:
    """The layouts that a LoadedExecutable takes its arguments in.

    Raises:
        CompileError: XLA has made others of them, or of the results, than were asked for.
    """
    # None where jaxlib 0.10 does not tell: beside tokens.
    taken, given = array_layouts.parameter_layouts(loaded), array_layouts.result_layouts(loaded)
    for one in layouts.asked:
        found = taken if one.is_parameter else given
        if one.shape is None:
            # What leaves is a jax.Array, which knows its layout.
            if found is None and one.is_parameter:
                raise _refused(layouts, one, "jaxlib does not tell which one XLA has chosen")
            continue
        wanted = one.shape.layout
        assert wanted is not None  # only such are asked for
        if found is None:
            if wanted.element_size_in_bits:
                raise _refused(layouts, one, "jaxlib does not tell which one XLA has made of it")
            continue
        made = layout_from(array_layouts.layout_text(found[one.position]))
        if not wanted.tiles:  # an order alone: in which tiles, the platform says
            wanted = wanted.replace(tiles=made.tiles)
        if not is_same(one.shape, wanted, made):
            raise _refused(layouts, one, f"XLA makes {made} of it")
    if taken is not None:
        return taken
    # What an array put there in the layout has.
    expected: list[Any] = [
        _layout_when_put(leaf, None, layouts.device) for leaf in layouts.parameters
    ]
    for one in layouts.asked:
        if one.is_parameter and one.shape is not None:
            wanted = one.shape.layout
            expected[one.position] = _layout_when_put(one.shape, wanted, layouts.device)
    return expected


def _layout_when_put(leaf: ArrayShape | TokenShape, layout: Layout | None, device: Any) -> Any:
    if not isinstance(leaf, ArrayShape):
        return None
    target = Target(leaf.at_bounds().with_layout(None), sharding_of(device))
    if layout is None:
        return target.default
    zeros = target.put(np.zeros(target.dimensions, target.dtype))
    return array_layouts.layout_of(put_in_layout(zeros, layout))


def put_in_layout(array: jax.Array, layout: Layout) -> jax.Array:
    """A copy of a jax.Array on its device, in another order and other tiles."""
    major_to_minor = tuple(reversed(layout.minor_to_major))
    tiles = tuple(tile.dimensions for tile in layout.tiles)
    there: jax.Array = array_layouts.put_in_layout(array, major_to_minor, tiles, array.sharding)
    return there


def _refused(layouts: EntryLayouts, one: Asked, reason: str) -> CompileError:
    what = "in a layout that XLA chooses" if one.shape is None else str(one.shape)
    fix = "ask for an order of the dimensions alone, or for no layout"
    return CompileError(
        f"compile: {one.place} of {layouts.name} can't be {what} on {layouts.device.platform}: "
        f"{reason}\nfix: {fix}",
        shapes={} if one.shape is None else {one.place: one.shape},
    )
