"""Record the shardings of jax.Arrays as the shardings of a program's parameters.

A program uses one of two forms: tilings, or shardings by the axes of a mesh. The parameters get the
form that the program's ops use. If the ops have no sharding, the parameters get shardings by the
axes of the first array's mesh, so that the shardings of results have the names of these axes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding

from builder.errors import ShapeInferenceError
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, with_metadata
from builder.sharding.mesh import Mesh
from builder.sharding.validation import GSPMD, ShardingLike, register_sharding
from builder.types.shape import ArrayShape
from lowering.running.jit_devices import PlacementError
from lowering.running.shards import spec_of_parts

_Parts = np.ndarray[Any, Any]


def record_shardings(
    builder: XlaBuilder,
    parameters: Sequence[XlaOp],
    shardings: Sequence[Sharding | None],
    devices: Sequence[jax.Device],
) -> None:
    """Give parameters the shardings of arrays.

    Args:
        builder: the builder of the program, whose ops are recorded already.
        parameters: the parameters, which are arrays.
        shardings: for each parameter a sharding over `devices`, or None.
        devices: the devices in the order of the partitions.

    Raises:
        PlacementError: the axes of the program's mesh can't express a sharding.
    """
    numbers = [number for number, sharding in enumerate(shardings) if sharding is not None]
    parts = [_parts(shardings[n], _dimensions(parameters[n]), devices) for n in numbers]
    converted = _converted(builder, [shardings[n] for n in numbers], parts, devices)
    for number, part, sharding in zip(numbers, parts, converted, strict=True):
        if sharding is None:
            raise PlacementError(
                number,
                f"sharded along the axes of the mesh of the function's ops, got an array sharded "
                f"as {shardings[number]}",
                "copy the array with lowering.device_put(array, sharding), where sharding is over "
                "this mesh",
            )
        register_sharding(builder, "parameter", sharding)
        op = parameters[number]
        text = sharding if isinstance(sharding, str) else str(sharding.at_rank(part.shape[1]))
        op.metadata = with_metadata(op.metadata, sharding=text)


def _dimensions(parameter: XlaOp) -> tuple[int, ...]:
    shape = parameter.shape
    assert isinstance(shape, ArrayShape)  # only arrays have shardings
    return shape.dimensions


def _parts(sharding: Any, dimensions: tuple[int, ...], devices: Sequence[jax.Device]) -> _Parts:
    """Return an array with a row for each device: the index of its part along each dimension."""
    indices = sharding.devices_indices_map(dimensions)
    starts = [[part.start or 0 for part in indices[device]] for device in devices]
    columns = np.array(starts, np.int64).reshape(len(devices), len(dimensions))
    for dimension in range(len(dimensions)):
        columns[:, dimension] = np.unique(columns[:, dimension], return_inverse=True)[1]
    return columns


def _converted(
    builder: XlaBuilder,
    shardings: Sequence[Any],
    parts: Sequence[_Parts],
    devices: Sequence[jax.Device],
) -> Sequence[ShardingLike | None]:
    """Return the shardings in the form of the program; None for those that have no such form."""
    form = builder.sharding_form
    if form == GSPMD:
        return [_tiling(part) for part in parts]
    meshes = builder.annotations.meshes if form and builder.annotations is not None else {}
    for name, mesh in meshes.items():
        return [_by_axes(_read_mesh(name, str(mesh["mesh"])), part) for part in parts]
    for sharding in shardings:
        found = _mesh_of(sharding, devices)
        converted = [] if found is None else [_by_axes(found, part) for part in parts]
        if converted and None not in converted:
            return converted
    return [_tiling(part) for part in parts]


def _mesh_of(sharding: Any, devices: Sequence[jax.Device]) -> Mesh | None:
    """Return the mesh of a sharding; None without a mesh, or if MLIR does not accept its names."""
    if not isinstance(sharding, NamedSharding):
        return None
    order = [devices.index(device) for device in sharding.mesh.devices.flat]
    try:
        return Mesh(tuple(sharding.mesh.shape.items()), tuple(order))
    except ShapeInferenceError:
        return None


_AXIS: Final = re.compile(r'"([^"]+)"=(\d+)')
_ORDER: Final = re.compile(r"device_ids=\[([^\]]*)\]")


def _read_mesh(name: str, text: str) -> Mesh:
    """Return a mesh from its text, which `str` of a mesh wrote."""
    order = _ORDER.search(text)
    numbers = None if order is None else tuple(map(int, order[1].split(",")))
    return Mesh(tuple((axis, int(size)) for axis, size in _AXIS.findall(text)), numbers, name)


def _by_axes(mesh: Mesh, parts: _Parts) -> ShardingLike | None:
    """Return the sharding by the axes of a mesh; None if the axes can't express it."""
    if mesh.size != len(parts):
        return None
    order = list(mesh.devices or range(mesh.size))
    copies = np.zeros((len(parts), 1), np.int64)
    spec = spec_of_parts(np.hstack([parts, copies])[order], mesh.axes)
    return None if spec is None else mesh.sharding(*spec)


def _tiling(parts: _Parts) -> str:
    """Return the tiling in GSPMD's text."""
    counts = (parts.max(axis=0, initial=0) + 1).tolist()
    copies = len(parts) // math.prod(counts)
    if copies == len(parts):
        return "{replicated}"
    order = np.lexsort(parts.T[::-1]).tolist()
    devices = f"<=[{len(parts)}]" if order == list(range(len(parts))) else ",".join(map(str, order))
    if copies == 1:
        return f"{{devices={counts}{devices}}}".replace(" ", "")
    tiles = ",".join(map(str, (*counts, copies)))
    return f"{{devices=[{tiles}]{devices} last_tile_dim_replicate}}"
