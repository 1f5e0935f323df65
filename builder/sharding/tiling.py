"""Tilings: shardings in the GSPMD dialect, such as ``{devices=[2,1]<=[2]}``.

XLA's parser accepts invalid tilings: repeated devices, two kinds at once, more tiled dimensions
than the array has. XLA detects some of these errors much later and some never; others abort the
process. Therefore this module refuses invalid tilings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

from builder.errors import OperandError, ShapeInferenceError, brief
from builder.support.display import Displayed
from builder.support.frames import without_internal_frames
from builder.types.shape import UNBOUNDED, ArrayShape, ShapeLike, intern_array, shape_argument
from builder.types.text_reader import TextReader, outside_quotes

_UNTILED: Final = ("replicated", "manual", "unknown", "unreduced")
_SUBGROUPS: Final = ("replicated", "manual", "unreduced")
_MAX_DEVICES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Tiling(Displayed):
    """A sharding of one array, parsed from GSPMD's text.

    Attributes:
        text: the tiling as text.
        kind: "tiled", "replicated" (each device has the array), "maximal" (one device has it),
            "manual" (each device has a different array), "unknown" or "unreduced".
        tiles: for "tiled" the number of tiles along each dimension, followed by the sizes of the
            subgroups: the device dimensions that do not shard the array.
        subgroups: the kind of each subgroup: "replicated", "manual" or "unreduced".
        devices: the device numbers in the order of the tiles; for "maximal" the only device.

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
        """The rank of the arrays that the tiling fits, or None if it fits every rank."""
        return len(self.tiles) - len(self.subgroups) if self.kind == "tiled" else None

    @without_internal_frames
    def shard_shape(self, shape: ShapeLike) -> ArrayShape:
        """Return the shape of one device's shard of an array.

        Args:
            shape: the shape of the array.

        Returns:
            The shape with each size divided by the number of tiles along its dimension, rounded up
            because XLA pads the last tile.

        Raises:
            ShapeInferenceError: `shape` is not an array shape, or does not fit the tiling.
        """
        array = sharded_array(shape, self.misfit)
        return shard_shape(array, self.tiles) if self.kind == "tiled" else array

    @without_internal_frames
    def misfit(self, shape: ShapeLike) -> str | None:
        """Return the rule that an array of this shape would break, or None if the tiling fits."""
        array = array_argument("misfit", shape)
        if self.rank is None or self.rank == array.rank:
            return None
        return (
            f"a tiling must have a number of tiles for each dimension of the array, got "
            f"{self.text}, of rank {self.rank}, for {array}"
        )


def array_argument(op: str, value: ShapeLike) -> ArrayShape:
    """Convert the argument `shape` of a method of a sharding to the shape of an array."""
    shape = shape_argument(op, "shape", value)
    if isinstance(shape, ArrayShape):
        return shape
    rule = "shape must be the shape of an array"
    raise ShapeInferenceError(rule, got=shape, op=op, shapes={"shape": shape})


def sharded_array(value: ShapeLike, misfit: Callable[[ArrayShape], str | None]) -> ArrayShape:
    """Convert the argument of `shard_shape` to the shape of an array, without its layout.

    Args:
        value: the argument.
        misfit: returns the rule that an array of a shape would break, or None if the sharding fits.
    """
    shape = array_argument("shard_shape", value).with_layout(None)
    reason = misfit(shape)
    if reason is None:
        return shape
    raise ShapeInferenceError(reason, op="shard_shape", shapes={"shape": shape})


def shard_shape(shape: ArrayShape, tiles: tuple[int, ...]) -> ArrayShape:
    """Return the shape of one tile of an array of this shape.

    Args:
        shape: the shape of the array.
        tiles: the number of tiles along each dimension.
    """
    sizes = tuple(
        [
            size if size == UNBOUNDED else -(-size // count)
            for size, count in zip(shape.dimensions, tiles, strict=False)
        ]
    )
    return intern_array(shape.element_type, sizes, shape.dynamic_dimensions)


@without_internal_frames
def parse_tiling(text: str) -> Tiling:
    """Parse a sharding of one array in GSPMD's text form.

    Args:
        text: ``"{replicated}"``, ``"{manual}"``, ``"{maximal device=0}"``, or the number of tiles
            along each dimension with the devices of the tiles: ``"{devices=[2,2]<=[4]}"``,
            ``"{devices=[2,2]<=[2,2]T(1,0)}"`` (the numbers 0 to 3 in two rows and columns,
            transposed) or ``"{devices=[2,2]0,2,1,3}"``. To replicate each tile, add a dimension:
            ``"{devices=[2,1,2]<=[4] last_tile_dim_replicate}"``. For several added dimensions,
            list their kinds: ``last_tile_dims={manual, replicated}``.

    Raises:
        ShapeTextError: the text is malformed, a device is repeated, or the number of devices is not
            the number of tiles; the error has the position.
        ShapeInferenceError: the text is the sharding of a tuple.
        OperandError: `text` is not a string.

    Example:
        >>> import builder as xb
        >>> xb.parse_tiling("{devices=[2,2]<=[2,2]T(1,0)}").devices
        (0, 2, 1, 3)
        >>> xb.parse_tiling("{maximal device=3}").devices
        (3,)

    XLA, HloSharding.
    """
    if not isinstance(text, str):
        raise OperandError("expected a tiling's text", got=brief(text), op="parse_tiling")
    tiling = parse_tilings(text)
    if isinstance(tiling, tuple):
        raise ShapeInferenceError(
            "expected the tiling of one array",
            got=f"the tiling of a tuple: {brief(text)}",
            op="parse_tiling",
        )
    return tiling


@lru_cache(maxsize=4096)
def parse_tilings(text: str) -> Tiling | tuple[Tiling, ...]:
    """Parse the tiling of an array, or the tilings of a tuple's arrays; see `parse_tiling`."""
    reader = TextReader(_without_metadata(text), "tiling text")
    reader.expect("{")
    if reader.token not in ("{", "}"):
        tiling = _tiling(reader, 0, text)
        reader.end()
        return tiling
    tilings: list[Tiling] = []
    while reader.token != "}":
        if tilings:
            reader.expect(",")
        start = reader.start
        reader.expect("{")
        tilings.append(_tiling(reader, start, text))
    reader.advance()
    reader.end()
    return tuple(tilings)


def _without_metadata(text: str) -> str:
    """Replace the metadata in the text by spaces, which preserves positions."""
    parts: list[str] = []
    end = 0
    while (start := text.find("metadata={", end)) >= 0:
        parts.append(text[end:start])
        end = _end_of_braces(text, start + len("metadata="))
        parts.append(" " * (end - start))
    return "".join([*parts, text[end:]])


def _end_of_braces(text: str, start: int) -> int:
    """Return the position after the "}" that matches the "{" at `start`, or the text's end."""
    depth = 0
    for position, character in outside_quotes(text, start):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return position + 1
    return len(text)


_EXPECTED: Final = "replicated, manual, maximal device=0 or devices=[...]"


def _tiling(reader: TextReader, start: int, text: str) -> Tiling:
    """Read the tiling of one array, after its "{"."""
    kind = ""
    tiles: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    subgroups: tuple[str, ...] | None = None
    while reader.token != "}":
        at, token = reader.start, reader.token
        if token in (*_UNTILED, "maximal", "devices"):
            if kind:
                raise reader.fault("a tiling can't have two kinds", at, got=f"{kind} and {token}")
            kind = "tiled" if token == "devices" else token
            reader.advance()
            if token == "maximal":
                reader.expect("device")
                reader.expect("=")
                devices = (reader.number("the number of a device"),)
            elif token == "devices":
                tiles, devices = _tiles(reader)
        elif token in ("last_tile_dim_replicate", "last_tile_dims") and subgroups is None:
            if kind != "tiled":
                raise reader.fault(f"{token} must follow devices=[...]", at)
            reader.advance()
            subgroups = ("replicated",) if token == "last_tile_dim_replicate" else _kinds(reader)
            if len(subgroups) > len(tiles):
                rule = f"last_tile_dims has more entries than devices={list(tiles)}"
                raise reader.fault(rule, at)
        elif token in ("shard_as", "shard_like"):
            reader.advance()
            reader.number("the number of a group")
        else:
            raise reader.fail(_EXPECTED)
    if not kind:
        raise reader.fail(_EXPECTED)
    end = reader.start + 1
    reader.advance()
    return Tiling(text[start:end], kind, tiles, subgroups or (), devices)


def _kinds(reader: TextReader) -> tuple[str, ...]:
    """Read the kinds of subgroups, in braces."""
    reader.expect("=")
    reader.expect("{")
    kinds: list[str] = []
    while reader.token != "}" or not kinds:
        if kinds:
            reader.expect(",")
        if reader.token not in _SUBGROUPS:
            raise reader.fail(", ".join(_SUBGROUPS[:-1]) + f" or {_SUBGROUPS[-1]}")
        kinds.append(reader.advance())
    reader.advance()
    return tuple(kinds)


def _tiles(reader: TextReader) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read the number of tiles along each dimension, and the devices of the tiles."""
    reader.expect("=")
    at = reader.start
    reader.expect("[")
    tiles = tuple(reader.numbers("]", "a number of tiles"))
    count = _product(reader, tiles, at)
    at = reader.start
    devices: list[int] = []
    if reader.token == "<=":
        sizes, order = _transposition(reader)
        device_count = prod(sizes)
    else:
        devices.append(reader.number("a device or '<='"))
        while reader.token == ",":
            reader.advance()
            devices.append(reader.number("a device"))
        device_count = len(devices)
        if len(set(devices)) != device_count:
            twice = next(n for i, n in enumerate(devices) if n in devices[:i])
            raise reader.fault("devices must be unique", at, got=f"device {twice} twice")
    if device_count != count:
        raise reader.fault(
            f"there must be one device for each tile: {count} for {list(tiles)}",
            at,
            got=str(device_count),
        )
    if count == 1:
        raise reader.fault(
            "a tiling must have several tiles",
            at,
            fix="write {replicated} or {maximal device=0}",
            got="one",
        )
    return tiles, tuple(devices or transposed(sizes, order))


def _transposition(reader: TextReader) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read the sizes of an array of devices, and the order of its dimensions."""
    reader.expect("<=")
    at = reader.start
    reader.expect("[")
    sizes = tuple(reader.numbers("]", "a number of devices"))
    _product(reader, sizes, at)
    dimensions = list(range(len(sizes)))
    if reader.token != "T":
        return sizes, tuple(dimensions)
    reader.advance()
    at = reader.start
    reader.expect("(")
    order = tuple(reader.numbers(")", "a dimension number"))
    if sorted(order) != dimensions:
        rule = f"the transposition must be a permutation of {dimensions}"
        raise reader.fault(rule, at, got=str(list(order)))
    return sizes, order


def _product(reader: TextReader, sizes: tuple[int, ...], at: int) -> int:
    """Return the product of the sizes, which must be positive."""
    count = prod(sizes) if sizes and all(sizes) else 0
    if not 0 < count <= _MAX_DEVICES:
        raise reader.fault(
            f"sizes must be 1 or more, with a product of {_MAX_DEVICES} at most",
            at,
            got=brief(list(sizes)),
        )
    return count


def transposed(sizes: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """Return the elements of ``arange(prod(sizes)).reshape(sizes).transpose(order)``."""
    strides = [prod(sizes[number + 1 :]) for number in range(len(sizes))]
    result = [0]
    for number in order:
        steps = range(0, sizes[number] * strides[number], strides[number])
        result = [base + step for base in result for step in steps]
    return result
