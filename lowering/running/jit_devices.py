"""The arguments of a jitted function on several devices: their devices, rows and shardings.

With several replicas each device has arrays of its own, as for a `ReplicatedExecutable`: a list has
a value for each device, an array is one value for all devices, and an array that is sharded into
rows over the devices has a row for each. With partitions alone, arrays are global, as for a
`PartitionedExecutable`, and their shardings become those of the program's parameters.

A program uses one of two forms: tilings, or shardings by the axes of a mesh. The parameters get the
form that the program's ops use. If the ops have no sharding, the parameters get shardings by the
axes of the first array's mesh, so that the shardings of results have the names of these axes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding
from jax.tree_util import keystr

from builder.errors import ShapeInferenceError
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, with_metadata
from builder.sharding.mesh import Mesh
from builder.sharding.validation import GSPMD, ShardingLike, register_sharding
from builder.types.shape import ArrayShape
from lowering.jaxlib_api import jax_arrays
from lowering.pjrt.devices import DeviceLike, check_counts, devices_for, is_local
from lowering.pjrt.placement import device_put
from lowering.running.jit_arguments import flatten
from lowering.running.replicated import check_results, sharding_by_row
from lowering.running.shards import is_equivalent, spec_of_parts

_JaxArray: Final = jax_arrays.array_type


class PlacementError(Exception):
    """Raised for an argument that does not fit the devices.

    Attributes:
        place: the number of the leaf in the arguments, or the name of a list.
        rule: the end of the sentence "argument NAME must be", with the actual value.
        fix: the fix.
    """

    def __init__(self, place: int | str, rule: str, fix: str) -> None:
        super().__init__(rule)
        self.place = place
        self.rule = rule
        self.fix = fix


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """The arguments of `lowering.jit` that determine on how many devices, and how, a call runs.

    Attributes:
        num_replicas, num_partitions, results: see `lowering.compile`.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    results: Literal["list", "sharded"] = "list"

    @property
    def is_default(self) -> bool:
        """Whether a call runs on one device, with arrays of this device."""
        return self == DeviceCounts()

    @property
    def has_own_arrays(self) -> bool:
        """Whether each device has arrays of its own. Otherwise arrays are global."""
        return self.num_partitions == 1 or self.num_replicas > 1


def read_counts(num_replicas: Any, num_partitions: Any, results: Any) -> DeviceCounts:
    """Check the arguments of `lowering.jit` for several devices.

    Raises:
        OperandError: an argument has a wrong type or value.
    """
    check_counts("jit", num_replicas, num_partitions)
    check_results("jit", results)
    return DeviceCounts(num_replicas, num_partitions, results)


class Placement(NamedTuple):
    """The devices of a call, and the shardings of its arguments; a part of the cache key.

    Attributes:
        devices: the devices, in the order of `lowering.compile`.
        shardings: the sharding of each argument that is a global jax.Array; otherwise None.
    """

    devices: tuple[jax.Device, ...]
    shardings: tuple[Any, ...]


def split_lists(nested: Any, names: Sequence[str], count: int) -> tuple[Any, list[Any]]:
    """Separate the values for the devices in lists.

    Args:
        nested: the arguments, from `flatten_dataclasses`. Each list has a value for each device,
            except for a list within such a value.
        names: the names of the arguments.
        count: the number of devices.

    Returns:
        The arguments of the first device, and for each of their leaves the value for all devices,
        or a list with a value for each.

    Raises:
        PlacementError: a list has another length, or its values differ in structure.
    """
    tree: Any
    pairs, tree = jax.tree_util.tree_flatten_with_path(nested, is_leaf=_is_list)
    columns: list[Any] = []
    for path, value in pairs:
        if not _is_list(value):
            columns.append(value)
            continue
        name = f"{names[path[0].idx]}{keystr(path[1:])}"
        if len(value) != count:
            raise PlacementError(
                name,
                f"a list with a value for each of {count} devices, got a list of {len(value)}",
                "pass a list of this length, or a tuple for values that are not for devices",
            )
        flat = [flatten(element) for element in value]
        first = flat[0][1]
        for number, (_, structure) in enumerate(flat):
            if structure != first:
                raise PlacementError(
                    name,
                    f"a list of values of one structure, got\n  [0]: {first}\n"
                    f"  [{number}]: {structure}",
                    "pass values of the same structure for all devices",
                )
        columns += map(list, zip(*[leaves for leaves, _ in flat], strict=True))
    return tree.unflatten([value[0] if _is_list(value) else value for _, value in pairs]), columns


def _is_list(value: Any) -> bool:
    return type(value) is list


def devices_of(
    op: str, counts: DeviceCounts, device: DeviceLike, leaves: Sequence[Any]
) -> tuple[jax.Device, ...]:
    """Return the devices of a call: those of the first array on several devices, if there is one.

    Args:
        op: the name of the function, for messages.
        counts: the numbers of replicas and partitions.
        device: the first device, used if no array is on several devices; None for the default.
        leaves: the arguments.

    Raises:
        PlacementError: an array is on another number of devices.
        DeviceError: there are not enough devices.
    """
    count = counts.num_replicas * counts.num_partitions
    for number, leaf in enumerate(leaves):
        if type(leaf) is not _JaxArray or len(leaf.sharding.device_set) == 1:
            continue
        sharding = leaf.sharding
        if isinstance(sharding, NamedSharding):
            found = tuple(sharding.mesh.devices.flat)
        else:
            found = tuple(sorted(sharding.device_set, key=lambda one: int(one.id)))
        if len(found) != count:
            raise PlacementError(
                number,
                f"on {count} devices (num_replicas={counts.num_replicas}, "
                f"num_partitions={counts.num_partitions}), got an array on {len(found)} devices",
                f"pass num_partitions={len(found)} to lowering.jit, or copy the array to {count} "
                f"devices",
            )
        return found
    return tuple(devices_for(device, None, counts.num_replicas, counts.num_partitions, op=op))


def placement_of(
    counts: DeviceCounts, devices: tuple[jax.Device, ...], columns: Sequence[Any]
) -> tuple[Placement, frozenset[int]]:
    """Return the shardings of the arguments, and which of them have a row for each device.

    Args:
        counts: the numbers of replicas and partitions.
        devices: the result of `devices_of`.
        columns: for each leaf a value, or a list with a value for each device.

    Raises:
        PlacementError: an array is on other devices, or is sharded in a way that `counts` excludes.
    """
    shardings: list[Any] = [None] * len(columns)
    rows: set[int] = set()
    expected = set(devices)
    for number, value in enumerate(columns):
        if type(value) is not _JaxArray:
            continue
        sharding = value.sharding
        if counts.has_own_arrays and _is_in_rows(value, devices):
            rows.add(number)
            continue
        if len(sharding.device_set) == 1 and (counts.has_own_arrays or not value.committed):
            continue  # copied to all devices
        if sharding.device_set != expected:
            raise PlacementError(
                number,
                f"on devices {_listed(devices)}, got an array on {_listed(sharding.device_set)}",
                "copy the array to these devices with lowering.device_put(array, sharding), or "
                "pass a NumPy array",
            )
        if not counts.has_own_arrays:
            shardings[number] = sharding
        elif not sharding.is_fully_replicated:
            raise PlacementError(
                number,
                f"replicated, or sharded into one row for each of {len(devices)} devices, got an "
                f"array of sizes {value.shape} sharded as {sharding}",
                "pass a list with an array for each device; or, for a global array that XLA "
                "partitions, pass num_partitions instead of num_replicas to lowering.jit",
            )
    return Placement(devices, tuple(shardings)), frozenset(rows)


def _is_in_rows(array: jax.Array, devices: Sequence[jax.Device]) -> bool:
    """Return whether each device has one row of the array, in the order of the devices."""
    sharding = array.sharding
    return (
        array.shape[:1] == (len(devices),)
        # The spec distinguishes a row from a replicated array on one device.
        and isinstance(sharding, NamedSharding)
        and sharding.spec[:1] not in ((), (None,))
        and is_equivalent(sharding, sharding_by_row(devices), array.ndim)
    )


def on_devices(value: Any, sharding: NamedSharding) -> Any:
    """Return a jax.Array with `sharding`, for a global argument; other values as they are.

    Uncommitted arrays are on one device. Other arrays have the expected shards already, but their
    shardings may list the devices in another order.
    """
    if (
        type(value) is not _JaxArray
        or value.is_deleted()
        or is_equivalent(value.sharding, sharding, value.ndim)
    ):
        return value
    return device_put(value, sharding)


def local_count(devices: Sequence[jax.Device]) -> int:
    """Return how many of the devices belong to this process."""
    return sum(map(is_local, devices))


def _listed(devices: Any) -> str:
    names = sorted(str(device) for device in devices)
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


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
    form = builder._sharding_form
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
