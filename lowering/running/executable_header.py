"""Read the header of an executable's file, and check it against the program.

A header may be wrong even if the checksum of the file is right. If the numbers of devices or the
shapes in the header differed from the program's, XLA would abort, or read beyond an array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from builder.errors import XlaError
from builder.sharding.tiling import parse_tiling
from builder.types.shape import ArrayShape, ProgramShape, Shape, leaves, parse_shape
from lowering.jaxlib_api import array_layouts, compilation, executables
from lowering.reading.protocol_buffers import fields_of, varint
from lowering.running.bounded_arrays import SIZE
from lowering.running.executable_file import UnusableError
from lowering.running.program import ProgramInfo
from lowering.sharding.partitioning import Partitioning, partition_counts
from lowering.stablehlo.call_tree import parsed_tree

_SAVE_AGAIN: Final = "save the executable again"


def read_program(header: Mapping[str, Any]) -> ProgramInfo:
    """Return the program's metadata from the header.

    Raises:
        UnusableError: a field is missing, or its value is invalid.
    """
    try:
        return _read_program(header)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, XlaError) as error:
        raise UnusableError("has a header that can't be read", _SAVE_AGAIN, repr(error)) from None


def _read_program(header: Mapping[str, Any]) -> ProgramInfo:
    program = header["program"]
    _expect(str, [header[name] for name in ("jaxlib", "platform", "device_kind")])
    version = header["platform_version"]
    _expect(str, [program["name"], *([] if version is None else [version])])
    _expect(str, [*header["cpu_features"], *program["parameter_names"], *program["handlers"]])
    num_replicas, num_partitions = program["num_replicas"], program["num_partitions"]
    donated = program["donated"]
    _expect(int, [num_replicas, num_partitions, *donated])
    _expect(bool, [program["has_layouts"], program["in_rows"]])
    shape = ProgramShape(
        [parse_shape(text) for text in program["parameters"]],
        parse_shape(program["result"]),
        program["parameter_names"],
    )
    count = sum(1 for parameter in shape.parameters for _ in leaves(parameter))
    if min(num_replicas, num_partitions) < 1 or not all(0 <= number < count for number in donated):
        raise ValueError("num_replicas, num_partitions or the number of an argument is invalid")
    tree = program.get("tree")  # earlier files have none
    return ProgramInfo(
        name=program["name"],
        shape=shape,
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        donated=frozenset(donated),
        handlers=tuple(program["handlers"]),
        in_rows=program["in_rows"],
        tree=None if tree is None else parsed_tree(tree, shape),
        partitioning=_read_partitioning(program["partitioning"], num_partitions, shape.result),
    )


def _read_partitioning(
    fields: Mapping[str, Any] | None, num_partitions: int, result: Shape
) -> Partitioning | None:
    if fields is None:
        return None
    axes = tuple((name, size) for name, size in fields["axes"])
    order, is_free = fields["device_order"], fields["is_free"]
    _expect(str, [name for name, _ in axes])
    _expect(int, [*order, *(size for _, size in axes)])
    _expect(bool, [fields["is_shardy"], *is_free])
    if order and sorted(order) != list(range(num_partitions)):
        raise ValueError("the order of the devices is not a permutation")
    if axes and math.prod(size for _, size in axes) != num_partitions:
        raise ValueError("the product of the axis sizes is not the number of devices")
    if len(is_free) not in (0, len(list(leaves(result)))):
        raise ValueError("is_free does not have one entry for each result")
    return Partitioning(fields["is_shardy"], axes, tuple(order), tuple(is_free))


def _expect(kind: type, values: Sequence[object]) -> None:
    # isinstance would accept True as a number.
    if not all(type(value) is kind for value in values):
        raise TypeError(f"expected {kind.__name__}")


def check_counts(info: ProgramInfo, payload: bytes) -> None:
    """Raise UnusableError if the header's counts of replicas and partitions are not the program's.

    Args:
        info: the program's metadata from the header.
        payload: the executable serialized by jaxlib.
    """
    compiled = _compiled_counts(payload)
    expected = info.num_replicas, info.num_partitions
    if compiled is not None and compiled != expected:
        raise UnusableError(
            f"has a header for {expected[0]} replicas and {expected[1]} partitions, but its "
            f"program was compiled for {compiled[0]} and {compiled[1]}",
            _SAVE_AGAIN,
        )


_OPTIONS: Final = 2
"""The number of the protocol buffer's field with the compile options."""


def _compiled_counts(payload: bytes) -> tuple[int, int] | None:
    """Return the numbers of replicas and partitions that an executable was compiled for.

    jaxlib's serialization consists of the length of a header, the header, and a protocol buffer
    with the executable and the compile options.

    Returns:
        The numbers of replicas and partitions; None if `payload` has another format.
    """
    view = memoryview(payload)
    try:
        length, begin = varint(view, 0)
        (options,) = fields_of(view[begin + length :])[_OPTIONS]
        return compilation.counts_in(bytes(options))
    except (IndexError, KeyError, ValueError):
        return None


def check_shapes(info: ProgramInfo, loaded: Any) -> None:
    """Raise UnusableError if the header's shapes on a device differ from the program's."""
    parameters, results = executables.device_shapes(loaded)
    tilings: tuple[list[str] | None, list[str] | None] = (None, None)
    if info.partitioning is not None:
        tilings = array_layouts.parameter_tilings(loaded), array_layouts.result_tilings(loaded)
    in_header = [leaf for parameter in info.shape.parameters for leaf in leaves(parameter)]
    for kind, expected, compiled in (
        ("arguments", _on_device(in_header, tilings[0], in_rows=False), parameters),
        (
            "results",
            _on_device(list(leaves(info.shape.result)), tilings[1], in_rows=info.in_rows),
            results,
        ),
    ):
        if expected != compiled:
            raise UnusableError(
                f"has a header with the {kind} ({', '.join(expected)}) on each device, but its "
                f"program has ({', '.join(compiled)})",
                _SAVE_AGAIN,
            )


def _on_device(
    shapes: Sequence[Shape], tilings: Sequence[str] | None, *, in_rows: bool
) -> list[str]:
    """Return the shapes of arrays on one device as text, then an s32[] for each bounded size.

    Args:
        shapes: the shapes of the arrays over all devices.
        tilings: how the arrays are divided among the devices; None if each device has full arrays.
        in_rows: whether each array on a device has a leading dimension of size 1.
    """
    texts, sizes = [], []
    for number, shape in enumerate(shapes):
        if not isinstance(shape, ArrayShape):
            texts.append(str(shape))
            continue
        dimensions = list(shape.dimensions)
        if tilings is not None and number < len(tilings):
            counts = partition_counts(parse_tiling(tilings[number])) or ()
            # The rank in the header may be wrong.
            for dimension, count in zip(range(len(dimensions)), counts, strict=False):
                dimensions[dimension] //= count
        if in_rows:
            dimensions.insert(0, 1)
        texts.append(f"{shape.element_type}[{','.join(map(str, dimensions))}]")
        sizes += [str(SIZE)] * sum(shape.dynamic_dimensions)
    return texts + sizes
