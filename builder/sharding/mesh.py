"""Meshes of devices with named axes, and shardings along these axes, as in Shardy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any, Final

from builder.checking import integer, integers, refusal
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.sharding.tiling import array_argument, shard_shape, sharded_array, transposed
from builder.support.bundles import Bundle, bundle, set_fields
from builder.support.display import Displayed
from builder.support.frames import without_internal_frames
from builder.types.layout import MAX_DIMENSIONS
from builder.types.shape import ArrayShape, ShapeLike

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.$\-]*"
_MAX_DEVICES: Final = 1 << 24

AxesLike = Mapping[str, int] | Iterable[tuple[str, int]]
"""The axes of a mesh: a mapping from axis names to sizes, or pairs (name, size)."""

Entry = str | Sequence[str] | None
"""The mesh axes that shard a dimension: one axis name, a sequence of names, or None."""


@bundle
class Mesh(Displayed, Bundle):
    """An array of devices with named axes.

    The method `sharding` assigns mesh axes to the dimensions of an array.

    Attributes:
        axes: the name and the size of each axis, the outermost first.
        devices: the partition numbers of the devices; None for 0, 1, 2, ...
        name: the name of the mesh, which must be unique in a program.

    Raises:
        ShapeInferenceError: a name is repeated or invalid in HLO or MLIR, a size is less than 1, or
            the devices are not a permutation of the numbers from 0.
        OperandError: the axes are not names with sizes.

    Example:
        >>> import builder as xb
        >>> mesh = xb.Mesh({"data": 2, "model": 4})
        >>> print(mesh)
        #sdy.mesh<["data"=2, "model"=4]>
        >>> mesh.size, mesh.axis_names
        (8, ('data', 'model'))
        >>> print(mesh.sharding("data", None))
        #sdy.sharding<@mesh, [{"data"}, {}]>

    Shardy, MeshAttr.
    """

    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] | None
    name: str

    def __init__(
        self, axes: AxesLike, devices: Sequence[int] | None = None, name: str = "mesh"
    ) -> None:
        pairs = _axes(axes)
        _check_name("name", name)
        if devices is not None:
            numbers = integers("Mesh", "devices", devices)
            default = tuple(range(prod([size for _, size in pairs])))
            if sorted(numbers) != list(default):
                raise ShapeInferenceError(
                    f"devices must be a permutation of the numbers from 0 to {len(default) - 1}",
                    got=brief(list(numbers)),
                    op="Mesh",
                )
            # Shardy omits the default order.
            devices = None if numbers == default else numbers
        set_fields(self, pairs, devices, name)

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple([name for name, _ in self.axes])

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple([size for _, size in self.axes])

    @property
    def size(self) -> int:
        """The number of devices."""
        return prod(self.axis_sizes)

    def __str__(self) -> str:
        axes = ", ".join([f'"{name}"={size}' for name, size in self.axes])
        order = "" if self.devices is None else f", device_ids={list(self.devices)}"
        return f"#sdy.mesh<[{axes}]{order}>"

    @without_internal_frames
    def sharding(self, *dimensions: Entry) -> MeshSharding:
        """Return a sharding of an array over the devices of the mesh.

        Args:
            dimensions: the mesh axis that shards each dimension: a name, a sequence of names with
                the outermost first, or None. Omitted trailing dimensions are not sharded. The array
                is replicated along the other axes of the mesh.

        Raises:
            ShapeInferenceError: the mesh has no such axis, or an axis is used twice.
            OperandError: an entry is neither None nor names.

        Example:
            >>> import builder as xb
            >>> mesh = xb.Mesh({"data": 2, "model": 4})
            >>> rows = mesh.sharding(("data", "model"), None)
            >>> rows.shard_shape("f32[32,3]")
            f32[4,3]
            >>> rows.tiling, mesh.sharding(None, "model").tiling
            ('{devices=[8,1]<=[8]}', '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}')

        Shardy, TensorShardingAttr; jax.sharding.PartitionSpec.
        """
        return MeshSharding(self, tuple([_entry(self, entry) for entry in dimensions]))


def _axes(value: Any) -> tuple[tuple[str, int], ...]:
    try:
        pairs = list(dict(value).items())
        count = len(value)
    except (TypeError, ValueError):
        is_jax_mesh = hasattr(value, "axis_names")
        fix = "xb.Mesh(mesh.shape)" if is_jax_mesh else "xb.Mesh({'data': 2, 'model': 4})"
        rule = "axes must be a mapping of names to sizes"
        raise error_of(OperandError, "Mesh", rule, f"write {fix}", got=brief(value)) from None
    if len(pairs) != count:
        rule = "the names of axes must be unique"
        raise error_of(ShapeInferenceError, "Mesh", rule, got=brief(value))
    axes = []
    for name, size in pairs:
        _check_name("the name of an axis", name)
        number = integer("Mesh", f"the size of axis {name!r}", size)
        if number < 1:
            rule = "the size of an axis must be 1 or more"
            raise error_of(ShapeInferenceError, "Mesh", rule, got=f"{number} for {name!r}")
        axes.append((name, number))
    if prod([size for _, size in axes]) > _MAX_DEVICES:
        rule = f"a mesh can have {_MAX_DEVICES} devices at most"
        raise error_of(ShapeInferenceError, "Mesh", rule, got=brief(dict(axes)))
    return tuple(axes)


def _check_name(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise OperandError(f"{what} must be a string", got=brief(value), op="Mesh")
    if not re.fullmatch(_NAME, value):
        raise ShapeInferenceError(
            f"{what} must consist of letters A-Z and a-z, digits, '_', '.', '$' and '-', and "
            "start with a letter or '_'",
            got=brief(value),
            op="Mesh",
        )


def _entry(mesh: Mesh, value: Any) -> tuple[str, ...]:
    """Convert one argument of `Mesh.sharding` to a tuple of axis names."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence) and all(isinstance(name, str) for name in value):
        return tuple(value)
    rule = "dimensions must be names of axes, sequences of names or None"
    fix = f"write mesh.sharding({mesh.axis_names[0] if mesh.axes else 'data'!r}, None)"
    raise error_of(OperandError, "Mesh.sharding", rule, fix, got=brief(value))


@bundle
class MeshSharding(Displayed, Bundle):
    """A sharding of an array over the devices of a mesh, returned by `Mesh.sharding`.

    Attributes:
        mesh: the mesh.
        dimensions: the mesh axes that shard each dimension of the array; trailing dimensions
            without an entry are not sharded.

    ``str(sharding)`` is the attribute of the Shardy dialect.

    Example:
        >>> import builder as xb
        >>> both = xb.Mesh({"x": 2, "y": 2}).sharding(("y", "x"))
        >>> both.dimensions
        (('y', 'x'),)
        >>> print(both.at_rank(2))
        #sdy.sharding<@mesh, [{"y", "x"}, {}]>

    Shardy, TensorShardingAttr.
    """

    mesh: Mesh
    dimensions: tuple[tuple[str, ...], ...]

    def __init__(self, mesh: Mesh, dimensions: Sequence[Entry] = ()) -> None:
        if not isinstance(mesh, Mesh):
            rule = "mesh must be an xb.Mesh"
            raise error_of(OperandError, "MeshSharding", rule, got=brief(mesh))
        if not isinstance(dimensions, (list, tuple)):
            rule = "dimensions must be a list or tuple"
            raise error_of(OperandError, "MeshSharding", rule, got=brief(dimensions))
        set_fields(self, mesh, tuple([_entry(mesh, d) for d in dimensions]))
        used: set[str] = set()
        for axis in chain.from_iterable(self.dimensions):
            if axis not in mesh.axis_names:
                names = _names(mesh.axis_names)
                rule = f"each axis must be one of mesh {mesh.name!r}, {names}"
                raise error_of(ShapeInferenceError, "Mesh.sharding", rule, got=brief(axis))
            if axis in used:
                rule = "an axis can be used only once"
                raise error_of(
                    ShapeInferenceError,
                    "Mesh.sharding",
                    rule,
                    got=f"{axis!r} twice in {self._list()}",
                )
            used.add(axis)

    def _list(self) -> str:
        parts = [f"{{{_names(axes)}}}" for axes in self.dimensions]
        return f"[{', '.join(parts)}]"

    def __str__(self) -> str:
        return f"#sdy.sharding<@{self.mesh.name}, {self._list()}>"

    @without_internal_frames
    def at_rank(self, rank: int) -> MeshSharding:
        """Return the sharding with an entry for each dimension of an array of this rank.

        Raises:
            ShapeInferenceError: the sharding has more than `rank` entries.
        """
        missing = integer("at_rank", "rank", rank) - len(self.dimensions)
        if rank > MAX_DIMENSIONS:
            raise refusal("at_rank", f"rank must be at most {MAX_DIMENSIONS}", rank)
        if missing < 0:
            rule = self._too_many(f"an array of rank {rank}")
            raise error_of(ShapeInferenceError, "at_rank", rule)
        return MeshSharding(self.mesh, (*self.dimensions, *[()] * missing)) if missing else self

    @property
    def tiles(self) -> tuple[int, ...]:
        """The number of parts of each dimension that has an entry in `dimensions`."""
        sizes = dict(self.mesh.axes)
        return tuple([prod([sizes[axis] for axis in axes]) for axes in self.dimensions])

    @property
    def tiling(self) -> str:
        """The sharding in the GSPMD dialect, for an array of rank ``len(dimensions)``.

        Example:
            >>> import builder as xb
            >>> xb.Mesh({"x": 2, "y": 2}).sharding(None, "y").tiling
            '{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}'
        """
        mesh, tiles = self.mesh, self.tiles
        if prod(tiles) == 1:
            return "{replicated}"
        used = list(chain.from_iterable(self.dimensions))
        order = used + [axis for axis in mesh.axis_names if axis not in used]
        replicas = mesh.size // prod(tiles)
        counts = ",".join(map(str, tiles if replicas == 1 else (*tiles, replicas)))
        last = "" if replicas == 1 else " last_tile_dim_replicate"
        return f"{{devices=[{counts}]{_devices(mesh, order, replicas)}{last}}}"

    @without_internal_frames
    def shard_shape(self, shape: ShapeLike) -> ArrayShape:
        """Return the shape of one device's shard of an array.

        Args:
            shape: the shape of the array.

        Returns:
            The shape with each size divided by the number of parts along its dimension, rounded up
            because XLA pads the last part.

        Raises:
            ShapeInferenceError: `shape` is not an array shape, or has fewer dimensions than the
                sharding has entries.

        Example:
            >>> import builder as xb
            >>> xb.Mesh({"x": 2, "y": 4}).sharding("y").shard_shape("f32[8,3]")
            f32[2,3]
        """
        array = sharded_array(shape, self.misfit)
        return shard_shape(array, self.at_rank(array.rank).tiles)

    @without_internal_frames
    def misfit(self, shape: ShapeLike) -> str | None:
        """Return the rule that an array of this shape would break, or None if the sharding fits."""
        array = array_argument("misfit", shape)
        return self._too_many(str(array)) if len(self.dimensions) > array.rank else None

    def _too_many(self, array: str) -> str:
        return (
            f"a sharding can't have more entries than the array has dimensions, got "
            f"{len(self.dimensions)} entries, in {self}, for {array}"
        )


def _names(names: Iterable[str]) -> str:
    return ", ".join([f'"{name}"' for name in names])


def _devices(mesh: Mesh, order: Sequence[str], replicas: int) -> str:
    """Return the device list of a GSPMD tiling for a mesh with transposed axes.

    Args:
        mesh: the mesh.
        order: the names of the mesh's axes, in the transposed order.
        replicas: the number of consecutive devices with the same part of the array.
    """
    # As in XLA, axes of size 1 are omitted, and axes that remain adjacent are merged.
    sizes = {name: size for name, size in mesh.axes if size > 1}
    positions = {name: number for number, name in enumerate(sizes)}
    runs: list[list[int]] = []
    for name in order:
        if name in positions:
            position = positions[name]
            if runs and runs[-1][-1] + 1 == position:
                runs[-1].append(position)
            else:
                runs.append([position])
    axis_sizes = list(sizes.values())
    merged = sorted(runs)
    counts = tuple([prod([axis_sizes[position] for position in run]) for run in merged])
    permutation = tuple([merged.index(run) for run in runs])
    if mesh.devices is not None:
        devices = [mesh.devices[number] for number in transposed(counts, permutation)]
        # As in XLA, devices with the same part are sorted.
        groups = [sorted(devices[i : i + replicas]) for i in range(0, len(devices), replicas)]
        return ",".join(map(str, chain.from_iterable(groups)))
    text = "<=[" + ",".join(map(str, counts)) + "]"
    return text if len(runs) == 1 else f"{text}T({','.join(map(str, permutation))})"
