"""Tilings: GSPMD's texts of how an array lies on devices, such as ``{devices=[2,1]<=[2]}``.

XLA's parser takes what makes no sense, too: a device twice, two kinds at once, more tiles than the
array has dimensions. It is found out much later, or not at all, and some of it ends the process. So
it is looked at where it is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

from builder.errors import OperandError, ShapeInferenceError, brief
from builder.types.shape import UNBOUNDED, ArrayShape, ShapeLike, intern_array, shape_argument
from builder.types.text_reader import TextReader, outside_quotes

__all__ = [
    "Tiling",
    "need_array",
    "parse_tiling",
    "parse_tilings",
    "shard_shape",
    "transposed",
    "whole_shape",
]

_WHOLE: Final = ("replicated", "manual", "unknown", "unreduced")
_SUBGROUPS: Final = ("replicated", "manual", "unreduced")
_MOST_DEVICES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Tiling:
    """How one array lies on devices, as a text of GSPMD's says it.

    Attributes:
        text: what was read.
        kind: "tiled", "replicated" (each device has all of it), "maximal" (one device has it),
            "manual" (each device has an array of its own), "unknown" or "unreduced".
        tiles: of "tiled" into how many tiles each dimension is cut, and then the sizes of the
            subgroups: of the dimensions of devices along which the array is not cut.
        subgroups: for each subgroup what its devices have: "replicated", "manual", "unreduced".
        devices: the numbers of the devices, in the order of the tiles; of "maximal" the one.

    Example:
        >>> import builder as xb
        >>> tiling = xb.parse_tiling("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")
        >>> tiling.kind, tiling.tiles, tiling.rank, tiling.subgroups, tiling.devices
        ('tiled', (2, 1, 2), 2, ('replicated',), (0, 1, 2, 3))
        >>> tiling.shard_shape("f32[8,4]")
        f32[4,4]
    """

    text: str
    kind: str
    tiles: tuple[int, ...] = ()
    subgroups: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()

    @property
    def rank(self) -> int | None:
        """The number of dimensions that an array must have; None where any has them."""
        return len(self.tiles) - len(self.subgroups) if self.kind == "tiled" else None

    def shard_shape(self, shape: ShapeLike) -> ArrayShape:
        """The shape of one device's part of an array.

        Args:
            shape: the shape of the whole array.

        Returns:
            The same type, with each size divided by the number of tiles, rounded up: XLA fills up
            the last tiles.

        Raises:
            ShapeInferenceError: no array, or one that the tiling does not fit.
        """
        array = need_array("shard_shape", "shape", shape)
        reason = self.misfit(array)
        if reason is not None:
            raise ShapeInferenceError(
                f"shard_shape: {reason}", op="shard_shape", shapes={"shape": array}
            )
        return shard_shape(array, self.tiles) if self.kind == "tiled" else array

    def misfit(self, shape: ArrayShape) -> str | None:
        """Why the tiling can't be that of an array of this shape; None if it can."""
        if self.rank is None or self.rank == shape.rank:
            return None
        counted = f"{self.rank} dimension" + "s" * (self.rank != 1)
        return (
            f"a tiling must have a number of tiles for each dimension of the array, got "
            f"{self.text}, which is of {counted}, for {shape}"
        )


def need_array(op: str, name: str, value: ShapeLike) -> ArrayShape:
    """The shape that `value` stands for, which must be an array's, without a layout."""
    shape = shape_argument(op, name, value)
    if not isinstance(shape, ArrayShape):
        raise ShapeInferenceError(
            f"{op}: only an array is cut up, got {shape}", op=op, shapes={name: shape}
        )
    return shape.with_layout(None)


def shard_shape(shape: ArrayShape, tiles: tuple[int, ...]) -> ArrayShape:
    """The shape of one tile, for the numbers of tiles along its dimensions."""
    sizes = tuple([_divided(*pair) for pair in zip(shape.dimensions, tiles, strict=False)])
    return intern_array(shape.element_type, sizes, shape.dynamic_dimensions)


def whole_shape(shape: ArrayShape, tiles: tuple[int, ...]) -> ArrayShape:
    """The shape of an array of which each tile is of this shape."""
    pairs = zip(shape.dimensions, tiles, strict=False)
    sizes = tuple([size if size == UNBOUNDED else size * count for size, count in pairs])
    return intern_array(shape.element_type, sizes, shape.dynamic_dimensions)


def _divided(size: int, count: int) -> int:
    return size if size == UNBOUNDED else -(-size // count)


def parse_tiling(text: str) -> Tiling:
    """Reads a sharding of one array from GSPMD's text form.

    Args:
        text: ``"{replicated}"``, ``"{manual}"``, ``"{maximal device=0}"``; or tiles, in the order
            of the array's dimensions, and the devices that have them: ``"{devices=[2,2]<=[4]}"``,
            ``"{devices=[2,2]<=[2,2]T(1,0)}"`` (the numbers 0 to 3 in two rows and columns,
            transposed) or ``"{devices=[2,2]0,2,1,3}"``. Devices that have the same tile are a last
            dimension: ``"{devices=[2,1,2]<=[4] last_tile_dim_replicate}"``; several such
            dimensions are ``last_tile_dims={manual, replicated}``.

    Raises:
        ShapeTextError: malformed text, or one that names a device twice, or another number of
            devices than there are tiles; says at which position.
        ShapeInferenceError: the tilings of a tuple.
        OperandError: no string.

    Example:
        >>> import builder as xb
        >>> xb.parse_tiling("{devices=[2,2]<=[2,2]T(1,0)}").devices
        (0, 2, 1, 3)
        >>> xb.parse_tiling("{maximal device=3}").devices
        (3,)

    XLA, HloSharding.
    """
    if not isinstance(text, str):
        raise OperandError(f"parse_tiling: expected a tiling's text, got {brief(text)}")
    found = parse_tilings(text)
    if isinstance(found, tuple):
        raise ShapeInferenceError(
            f"parse_tiling: expected the tiling of one array, got that of a tuple: {brief(text)}"
        )
    return found


@lru_cache(maxsize=4096)
def parse_tilings(text: str) -> Tiling | tuple[Tiling, ...]:
    """The tiling that a text says, or those of a tuple's arrays; raises as `parse_tiling`."""
    reader = TextReader(_without_metadata(text), "tiling text")
    reader.expect("{")
    if reader.token not in ("{", "}"):
        found = _tiling(reader, 0, text)
        reader.end()
        return found
    several: list[Tiling] = []
    while reader.token != "}":
        if several:
            reader.expect(",")
        start = reader.start
        reader.expect("{")
        several.append(_tiling(reader, start, text))
    reader.advance()
    reader.end()
    return tuple(several)


def _without_metadata(text: str) -> str:
    """The text with spaces in the places of metadata, which says nothing of devices."""
    parts: list[str] = []
    begin = 0
    while (found := text.find("metadata={", begin)) >= 0:
        end = _closed(text, found + len("metadata="))
        parts += text[begin:found], " " * (end - found)
        begin = end
    return "".join([*parts, text[begin:]])


def _closed(text: str, start: int) -> int:
    """The position behind the "}" that closes the "{" at `start`, or the end of the text."""
    depth = 0
    for position, sign in outside_quotes(text, start):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return position + 1
    return len(text)


def _tiling(reader: TextReader, start: int, text: str) -> Tiling:
    """The tiling of one array, behind whose "{" the reader stands."""
    kind = ""
    tiles: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    subgroups: tuple[str, ...] | None = None
    while reader.token != "}":
        at, word = reader.start, reader.token
        if word in (*_WHOLE, "maximal", "devices"):
            if kind:
                raise reader.fault("an array lies on devices in one way, got another", at)
            kind = "tiled" if word == "devices" else word
            reader.advance()
            if word == "maximal":
                reader.expect("device")
                reader.expect("=")
                devices = (reader.number("the number of a device"),)
            elif word == "devices":
                tiles, devices = _tiles(reader)
        elif word in ("last_tile_dim_replicate", "last_tile_dims") and subgroups is None:
            if kind != "tiled":
                raise reader.fault(f"{word} stands behind devices=[...], got it without", at)
            reader.advance()
            subgroups = ("replicated",) if word == "last_tile_dim_replicate" else _named(reader)
            if len(subgroups) > len(tiles):
                raise reader.fault(f"there are more subgroups than sizes in {list(tiles)}", at)
        elif word in ("shard_as", "shard_like"):
            reader.advance()
            reader.number("the number of a group")
        else:
            raise reader.fail("replicated, manual, maximal device=0 or devices=[...]")
    if not kind:
        raise reader.fail("replicated, manual, maximal device=0 or devices=[...]")
    end = reader.start + 1
    reader.advance()
    return Tiling(text[start:end], kind, tiles, subgroups or (), devices)


def _named(reader: TextReader) -> tuple[str, ...]:
    """What the devices of subgroups have, in braces."""
    reader.expect("=")
    reader.expect("{")
    found: list[str] = []
    while reader.token != "}" or not found:
        if found:
            reader.expect(",")
        if reader.token not in _SUBGROUPS:
            raise reader.fail(", ".join(_SUBGROUPS[:-1]) + f" or {_SUBGROUPS[-1]}")
        found.append(reader.advance())
    reader.advance()
    return tuple(found)


def _tiles(reader: TextReader) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of tiles, and the devices."""
    reader.expect("=")
    at = reader.start
    reader.expect("[")
    tiles = tuple(reader.numbers("]", "a number of tiles"))
    count = _product(reader, tiles, at)
    at = reader.start
    if reader.token == "<=":
        reader.advance()
        opening = reader.start
        reader.expect("[")
        sizes = tuple(reader.numbers("]", "a number of devices"))
        listed = _product(reader, sizes, opening)
        order = tuple(range(len(sizes)))
        if reader.token == "T":
            reader.advance()
            opening = reader.start
            reader.expect("(")
            order = tuple(reader.numbers(")", "a dimension number"))
            if sorted(order) != list(range(len(sizes))):
                raise reader.fault(
                    f"devices are transposed by a permutation of {list(range(len(sizes)))}, got "
                    f"{list(order)}",
                    opening,
                )
        devices: tuple[int, ...] | None = None
    else:
        numbers = [reader.number("a device or '<='")]
        while reader.token == ",":
            reader.advance()
            numbers.append(reader.number("a device"))
        devices = tuple(numbers)
        listed = len(devices)
        if len(set(devices)) != listed:
            twice = next(n for i, n in enumerate(devices) if n in devices[:i])
            raise reader.fault(f"a device has one tile, got device {twice} twice", at)
    if listed != count:
        raise reader.fault(
            f"there must be a device for each tile: {count} for {list(tiles)}, got {listed}", at
        )
    if count == 1:
        raise reader.fault(
            "an array that is not cut up is {replicated} or on one device, {maximal device=0}", at
        )
    return tiles, tuple(transposed(sizes, order)) if devices is None else devices


def _product(reader: TextReader, sizes: tuple[int, ...], at: int) -> int:
    """The product of sizes, each of which must be one at least."""
    count = prod(sizes) if sizes and all(sizes) else 0
    if not 0 < count <= _MOST_DEVICES:
        raise reader.fault(
            f"there must be sizes of 1 or more, of {_MOST_DEVICES} devices at most, got "
            f"{brief(list(sizes))}",
            at,
        )
    return count


def transposed(sizes: tuple[int, ...], order: tuple[int, ...]) -> Iterator[int]:
    """The numbers from 0 on, laid out in these sizes, in the order of the transposed array."""
    strides = [prod(sizes[number + 1 :]) for number in range(len(sizes))]
    found = [0]
    for number in order:
        steps = range(0, sizes[number] * strides[number], strides[number])
        found = [base + step for base in found for step in steps]
    return iter(found)
