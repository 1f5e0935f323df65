"""Meshes of devices with named axes, and shardings by these names, as Shardy has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from builder.errors import OperandError, ShapeInferenceError, brief
from builder.sharding.tiling import need_array, shard_shape, transposed
from builder.types.shape import ArrayShape, ShapeLike

__all__ = ["Mesh", "MeshSharding"]

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.$\-]*"
_MOST_DEVICES: Final = 1 << 24

AxesLike = Mapping[str, int] | Iterable[tuple[str, int]]
"""The axes of a mesh, as a mapping from names to sizes or as pairs of both."""

Entry = str | Sequence[str] | None
"""Along which axes of a mesh a dimension is cut: one, several, or none."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """Devices in rows and columns, whose axes have names.

    Shardings name the axes along which the dimensions of an array are cut: `sharding`.

    Attributes:
        axes: the name and the size of each axis, the outermost first.
        devices: the numbers of the devices, if they are in another order than 0, 1, 2, ...: they
            are those of partitions.
        name: what the mesh is called in a program. Two meshes of one program have two names.

    Raises:
        ShapeInferenceError: a name that HLO and MLIR don't take, or that is there twice; a size
            that is not 1 or more; devices that are not the numbers from 0 on.
        OperandError: axes that are not names with sizes.

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
    devices: tuple[int, ...] | None = None
    name: str = "mesh"

    def __post_init__(self) -> None:
        from builder.check import integers  # inference builds on this module

        object.__setattr__(self, "axes", _axes(self.axes))
        _need_name("name", self.name)
        if self.devices is not None:
            numbers = integers("Mesh", "devices", self.devices)
            if sorted(numbers) != list(range(self.size)):
                raise ShapeInferenceError(
                    f"Mesh: devices must be the numbers from 0 to {self.size - 1} in some order, "
                    f"one for each place of the mesh, got {brief(list(numbers))}",
                    op="Mesh",
                )
            # Shardy says the usual order by saying none.
            usual = numbers == tuple(range(self.size))
            object.__setattr__(self, "devices", None if usual else numbers)

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

    def sharding(self, *dimensions: Entry) -> MeshSharding:
        """How an array lies on the devices of the mesh.

        Args:
            dimensions: for each dimension the axis along which it is cut; several axes in a
                sequence, of which the first is the outermost; None for a dimension that is not
                cut. Those that are left out at the end are not cut. Along the axes that are not
                named here all devices have the same.

        Raises:
            ShapeInferenceError: the mesh has no such axis, or one is named twice.
            OperandError: neither names nor None.

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
        return MeshSharding(self, tuple([_entry(self, one) for one in dimensions]))


def _axes(given: Any) -> tuple[tuple[str, int], ...]:
    from builder.check import integer  # inference builds on this module

    try:
        pairs = [(name, size) for name, size in dict(given).items()]
        listed = len(given)
    except (TypeError, ValueError):
        fix = "for instance xb.Mesh({'data': 2, 'model': 4})"
        if hasattr(given, "axis_names"):  # jax's
            fix = "xb.Mesh(mesh.shape)"
        raise OperandError(
            f"Mesh: axes must be a mapping of names to sizes, got {brief(given)}\nfix: {fix}",
            op="Mesh",
        ) from None
    if len(pairs) != listed:
        raise ShapeInferenceError(
            f"Mesh: each axis must have a name of its own, got {brief(given)}", op="Mesh"
        )
    found = []
    for name, size in pairs:
        _need_name("the name of an axis", name)
        number = integer("Mesh", f"the size of axis {name!r}", size)
        if number < 1:
            raise ShapeInferenceError(
                f"Mesh: the size of an axis must be 1 or more, got {number} for {name!r}",
                op="Mesh",
            )
        found.append((name, number))
    if prod([size for _, size in found]) > _MOST_DEVICES:
        raise ShapeInferenceError(
            f"Mesh: a mesh has {_MOST_DEVICES} devices at most, got {brief(dict(found))}",
            op="Mesh",
        )
    return tuple(found)


def _need_name(what: str, given: Any) -> None:
    if not isinstance(given, str):
        raise OperandError(f"Mesh: {what} must be a string, got {brief(given)}", op="Mesh")
    if not re.fullmatch(_NAME, given):
        raise ShapeInferenceError(
            f"Mesh: {what} must be of the letters A-Z and a-z, digits, '_', '.', '$' and '-', of "
            f"which the first is a letter or '_', got {brief(given)}",
            op="Mesh",
        )


def _entry(mesh: Mesh, given: Any) -> tuple[str, ...]:
    """The axes that are given for one dimension."""
    if given is None:
        return ()
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Sequence) and all(isinstance(one, str) for one in given):
        return tuple(given)
    raise OperandError(
        f"Mesh.sharding: a dimension is cut along axes, which are given by name, or not, which is "
        f"None, got {brief(given)}\n"
        f"fix: for instance mesh.sharding({mesh.axis_names[0] if mesh.axes else 'data'!r}, None)",
        op="Mesh.sharding",
    )


@dataclass(frozen=True, slots=True)
class MeshSharding:
    """How an array lies on the devices of a mesh; `Mesh.sharding` makes them.

    Attributes:
        mesh: the mesh.
        dimensions: for each dimension of the array the axes along which it is cut; dimensions
            behind the last one are not cut.

    Its text is Shardy's.

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
    dimensions: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        mesh = self.mesh
        if not isinstance(mesh, Mesh):
            raise OperandError(
                f"MeshSharding: mesh must be an xb.Mesh, got {brief(mesh)}", op="MeshSharding"
            )
        dimensions: tuple[Entry, ...] = self.dimensions
        object.__setattr__(self, "dimensions", tuple([_entry(mesh, d) for d in dimensions]))
        named: set[str] = set()
        for axis in [axis for axes in self.dimensions for axis in axes]:
            if axis not in mesh.axis_names:
                raise ShapeInferenceError(
                    f"Mesh.sharding: there is no such axis in mesh {mesh.name!r}, got {axis!r} of "
                    f"{_names(mesh.axis_names)}",
                    op="Mesh.sharding",
                )
            if axis in named:
                raise ShapeInferenceError(
                    f"Mesh.sharding: an array is cut along an axis once, got {axis!r} twice in "
                    f"{self._list()}",
                    op="Mesh.sharding",
                )
            named.add(axis)

    def _list(self) -> str:
        parts = [f"{{{_names(axes)}}}" for axes in self.dimensions]
        return f"[{', '.join(parts)}]"

    def __str__(self) -> str:
        return f"#sdy.sharding<@{self.mesh.name}, {self._list()}>"

    def at_rank(self, rank: int) -> MeshSharding:
        """The same with an entry for each dimension of an array of this rank.

        Raises:
            ShapeInferenceError: it has more entries than that.
        """
        missing = rank - len(self.dimensions)
        if missing < 0:
            raise ShapeInferenceError(
                f"MeshSharding: {_too_many(self, f'an array of {rank} dimensions')}",
                op="MeshSharding",
            )
        return MeshSharding(self.mesh, (*self.dimensions, *[()] * missing)) if missing else self

    @property
    def tiles(self) -> tuple[int, ...]:
        """For each entry into how many parts the dimension is cut."""
        sizes = dict(self.mesh.axes)
        return tuple([prod([sizes[axis] for axis in axes]) for axes in self.dimensions])

    @property
    def tiling(self) -> str:
        """The same in GSPMD's words, for an array of as many dimensions as there are entries.

        Example:
            >>> import builder as xb
            >>> xb.Mesh({"x": 2, "y": 2}).sharding(None, "y").tiling
            '{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}'
        """
        mesh, tiles = self.mesh, self.tiles
        if prod(tiles) == 1:
            return "{replicated}"
        cut = [axis for axes in self.dimensions for axis in axes]
        order = cut + [axis for axis in mesh.axis_names if axis not in cut]
        rest = mesh.size // prod(tiles)
        counts = ",".join(map(str, tiles if rest == 1 else (*tiles, rest)))
        last = "" if rest == 1 else " last_tile_dim_replicate"
        return f"{{devices=[{counts}]{_devices(mesh, order, rest)}{last}}}"

    def shard_shape(self, shape: ShapeLike) -> ArrayShape:
        """The shape of one device's part of an array.

        Args:
            shape: the shape of the whole array.

        Returns:
            The same type, with each size divided by the number of parts, rounded up: XLA fills up
            the last parts.

        Raises:
            ShapeInferenceError: no array, or one of fewer dimensions than there are entries.

        Example:
            >>> import builder as xb
            >>> xb.Mesh({"x": 2, "y": 4}).sharding("y").shard_shape("f32[8,3]")
            f32[2,3]
        """
        array = need_array("shard_shape", "shape", shape)
        reason = self.misfit(array)
        if reason is not None:
            raise ShapeInferenceError(
                f"shard_shape: {reason}", op="shard_shape", shapes={"shape": array}
            )
        return shard_shape(array, self.at_rank(array.rank).tiles)

    def misfit(self, shape: ArrayShape) -> str | None:
        """Why it can't be the sharding of an array of this shape; None if it can."""
        if len(self.dimensions) <= shape.rank:
            return None
        return _too_many(self, str(shape))


def _too_many(sharding: MeshSharding, array: str) -> str:
    count = len(sharding.dimensions)
    return (
        f"a sharding must not have more entries than the array has dimensions, got {count}, in "
        f"{sharding}, for {array}"
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join([f'"{name}"' for name in names])


def _devices(mesh: Mesh, order: Sequence[str], same: int) -> str:
    """The devices of a mesh whose axes are put into this order, in GSPMD's words.

    Args:
        mesh: the mesh.
        order: the names of its axes.
        same: how many devices, one behind the other, have the same part.
    """
    # An axis of size 1 changes no order; those that stay beside each other are one, as XLA has it.
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
    whole = list(sizes.values())
    by_place = sorted(runs)
    counts = tuple([prod([whole[position] for position in run]) for run in by_place])
    turned = tuple([by_place.index(run) for run in runs])
    if mesh.devices is not None:
        listed = [mesh.devices[number] for number in transposed(counts, turned)]
        # Devices that have the same stand in the order of their numbers, as XLA has them.
        groups = [sorted(listed[start : start + same]) for start in range(0, len(listed), same)]
        return ",".join([str(number) for group in groups for number in group])
    text = "<=[" + ",".join(map(str, counts)) + "]"
    return text if len(runs) == 1 else f"{text}T({','.join(map(str, turned))})"
