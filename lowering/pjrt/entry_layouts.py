"""Check the layouts that a program requests for its arguments and results.

The attribute `mhlo.layout_mode` of an argument or a result of ``@main`` requests a layout. XLA does
not verify the attribute: it aborts on some values, and silently ignores parts of others. It also
compiles programs that take tiled arrays for a CPU, which has no tiled arrays. So this module parses
the attributes before XLA compiles the module, and compares them with the compiled layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.errors import ShapeInferenceError, ShapeTextError, error_of, statement_of
from builder.layout.program_layouts import check_supported_layout
from builder.types.layout import COMBINE, Layout, parse_layout
from builder.types.shape import ArrayShape, ProgramShape, TokenShape
from lowering.errors import CompileError
from lowering.jaxlib_api import jax_arrays, mlir
from lowering.jaxlib_api.lazy_jax import jax
from lowering.mlir.attributes import quoted
from lowering.mlir.operations import (
    argument_attributes,
    entry_text,
    main_function,
    set_argument_attributes,
)
from lowering.pjrt.devices import Target, sharding_of
from lowering.pjrt.host_arrays import program_leaves
from lowering.reading.bytecode_tables import module_strings

LAYOUT_MODE: Final = "mhlo.layout_mode"


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """A module's request for the layout of one argument or result.

    Attributes:
        place: the argument or result, for messages: "parameter x[0]", "the result[1]".
        position: the number of the argument or result, tuples flattened.
        is_parameter: True for an argument, False for a result.
        shape: the shape of the array, with the layout; None if the compiler chooses the layout.
    """

    place: str
    position: int
    is_parameter: bool
    shape: ArrayShape | None


@dataclass(frozen=True, slots=True)
class EntryLayouts:
    """All layouts that a module requests.

    Attributes:
        name: the computation's name.
        device: the device to run on; the first one if there are several, all of the same kind.
        parameters: the shapes of all arguments, tuples flattened.
        requests: the requests for arguments, then those for results. Arrays without elements are
            omitted.
        code: the bytecode to compile: the module without requests for arrays without elements.
    """

    name: str
    device: Any
    parameters: tuple[ArrayShape | TokenShape, ...]
    requests: tuple[LayoutRequest, ...]
    code: bytes


def requested_layouts(
    module: ir.Operation, code: bytes, name: str, shape: ProgramShape, device: Any
) -> EntryLayouts | None:
    """Return the layouts that a module requests; None if it has no layout attribute.

    Args:
        module: a verified module.
        code: the module's bytecode.
        name: the computation's name.
        shape: the module's parameters and result.
        device: the device to run on.

    Raises:
        CompileError: a layout is malformed, does not fit its array, or is not supported by the
            device.
    """
    # Searching the bytes is fast: a program may have thousands of arguments.
    if LAYOUT_MODE.encode() not in module_strings(code):
        return None
    attributes = main_function(module).attributes
    requests = []
    empty: dict[str, list[int]] = {}
    parameters, results = program_leaves(shape)
    for key, places in (("arg_attrs", parameters), ("res_attrs", results)):
        if key not in attributes:
            continue
        # The arguments and results that legalization appends have no layouts.
        modes = list(ir.ArrayAttr(attributes[key]))[: len(places)]
        for position, ((place, leaf), entry) in enumerate(zip(places, modes, strict=True)):
            named = ir.DictAttr(entry)
            if LAYOUT_MODE not in named:
                continue
            text = entry_text(named, LAYOUT_MODE)
            if text == "default":
                continue
            requested = None
            if text != "auto":
                attribute = str(entry) if text is None else quoted(text)
                requested = _read(leaf, attribute, text, place, name, device)
            if isinstance(leaf, ArrayShape) and leaf.element_count == 0:
                empty.setdefault(key, []).append(position)
                continue
            requests.append(LayoutRequest(place, position, key == "arg_attrs", requested))
    if empty:
        code = _without(module, empty)
    return EntryLayouts(name, device, tuple(leaf for _, leaf in parameters), tuple(requests), code)


def _without(module: ir.Operation, positions: Mapping[str, Sequence[int]]) -> bytes:
    """Return the bytecode of a module without its layout requests at `positions`.

    When XLA changes the layout of an array without elements, it divides by zero, which ends the
    process.
    """
    copy = module.clone().operation
    main = main_function(copy)
    for key, removed in positions.items():
        entries = argument_attributes(main, key)
        for position in removed:
            del entries[position][LAYOUT_MODE]
        set_argument_attributes(main, key, entries)
    return mlir.bytecode(copy)


def _read(
    leaf: ArrayShape | TokenShape,
    attribute: str,
    text: str | None,
    place: str,
    name: str,
    device: Any,
) -> ArrayShape:
    """Return the shape of an array with the requested layout.

    Raises:
        CompileError: the layout is malformed, does not fit the array, or `device` does not support
            it.
    """

    def refuse(reason: str, fix: str) -> CompileError:
        rule = f"{place} of {name} can't be {leaf_text} on {device.platform}: {reason}"
        return error_of(CompileError, "compile", rule, fix, shapes={place: leaf})

    leaf_text = f"{leaf} in layout {attribute}"
    if text is None or not isinstance(leaf, ArrayShape):
        raise refuse(f"{LAYOUT_MODE} must be the layout of an array", "remove the attribute")
    plain = leaf.with_layout(None)
    leaf_text = f"{plain} in layout {text}"
    try:
        layout = parse_layout(text)
        requested = plain.with_layout(layout)
        check_supported_layout("compile", place, requested)
    except (ShapeTextError, ShapeInferenceError) as error:
        reason = statement_of(error, ("compile", place, "layout text", "layout"))
        raise refuse(reason, "write a layout in XLA's syntax, such as {1,0}") from None
    default = layout_from(
        jax_arrays.layout_text(
            jax_arrays.default_layout(device, plain.element_type.dtype, plain.dimensions)
        )
    )
    order = plain.with_layout(layout.minor_to_major)
    leaf_text, fix = str(requested), f"request only a dimension order, {order}, or no layout"
    if layout.tiles and not default.tiles:
        raise refuse("arrays on this device have no tiles", fix)
    if any(COMBINE in tile.dimensions for tile in layout.tiles):
        raise refuse("XLA can't pass arrays in tiles that combine dimensions", fix)
    if layout.tail_padding_alignment_in_elements != default.tail_padding_alignment_in_elements:
        raise refuse("arrays on this device have no padding at their end", fix)
    if layout.memory_space:
        raise refuse("arguments and results must be in the device's main memory, S(0)", fix)
    return requested


# Cached, like `is_same`: calls compare the same few layouts for each argument.
layout_from: Final = lru_cache(maxsize=1024)(parse_layout)


@lru_cache(maxsize=1024)
def is_same(shape: ArrayShape, first: Layout, second: Layout) -> bool:
    """Whether two layouts of an array place its elements equally.

    XLA omits the element size E(...) from a layout if it is the usual size of the element type.
    jaxlib 0.10 also omits the element size in the default layouts of 2-bit and 4-bit types.
    """
    bits = shape.element_type.bits
    usual = {0, bits if bits in (2, 4) else 8 * shape.element_type.byte_width}
    sizes = {first.element_size_in_bits, second.element_size_in_bits}
    return first.replace(element_size_in_bits=0) == second.replace(element_size_in_bits=0) and (
        len(sizes) == 1 or sizes <= usual
    )


def parameter_layouts(layouts: EntryLayouts, loaded: Any) -> list[Any]:
    """Return the layouts in which a LoadedExecutable takes its arguments.

    Raises:
        CompileError: XLA chose another layout than a requested one, or jaxlib does not report the
            layout that XLA chose.
    """
    # None where jaxlib 0.10 does not report them: in programs with tokens.
    parameters = jax_arrays.parameter_layouts(loaded)
    results = jax_arrays.result_layouts(loaded)
    for request in layouts.requests:
        actual = parameters if request.is_parameter else results
        requested = None if request.shape is None else request.shape.layout
        if actual is None and (
            # A result is a jax.Array, which has its layout.
            request.is_parameter if requested is None else requested.element_size_in_bits
        ):
            rule = "jaxlib does not report the layout that XLA has chosen"
            raise _refused(layouts, request, rule)
        if actual is None or request.shape is None or requested is None:
            continue
        layout = layout_from(jax_arrays.layout_text(actual[request.position]))
        if not requested.tiles:  # an order only; the platform determines the tiles
            requested = requested.replace(tiles=layout.tiles)
        if not is_same(request.shape, requested, layout):
            raise _refused(layouts, request, f"XLA changes it to {layout}")
    if parameters is not None:
        return parameters
    # The layouts of arrays that are copied to the device and laid out as requested.
    expected: list[Any] = [
        _layout_when_put(leaf, None, layouts.device) for leaf in layouts.parameters
    ]
    for request in layouts.requests:
        if request.is_parameter and request.shape is not None:
            expected[request.position] = _layout_when_put(
                request.shape, request.shape.layout, layouts.device
            )
    return expected


def _layout_when_put(leaf: ArrayShape | TokenShape, layout: Layout | None, device: Any) -> Any:
    if not isinstance(leaf, ArrayShape):
        return None
    target = Target(leaf.at_bounds().with_layout(None), sharding_of(device))
    if layout is None:
        return target.default
    zeros = target.put(np.zeros(target.dimensions, target.dtype))
    return jax_arrays.layout_of(put_in_layout(zeros, layout))


def put_in_layout(array: jax.Array, layout: Layout) -> jax.Array:
    """Return a copy of a jax.Array on its device, in the dimension order and tiles of `layout`."""
    major_to_minor = tuple(reversed(layout.minor_to_major))
    tiles = tuple(tile.dimensions for tile in layout.tiles)
    copy: jax.Array = jax_arrays.put_in_layout(array, major_to_minor, tiles, array.sharding)
    return copy


def _refused(layouts: EntryLayouts, request: LayoutRequest, reason: str) -> CompileError:
    target = "in a layout that XLA chooses" if request.shape is None else str(request.shape)
    return CompileError(
        f"{request.place} of {layouts.name} can't be {target} on "
        f"{layouts.device.platform}: {reason}",
        context=("compile",),
        fix="request only a dimension order, or no layout",
        shapes={} if request.shape is None else {request.place: request.shape},
    )
