"""Executable files with an edited header and a valid checksum: refused, or executed correctly."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

import builder as xb
import lowering

VALUES: list[Any] = [
    *(None, True, -1, 0, 1, 2, 3, 4, 2**63, 0.5, "x", [], {}, [0], [7], [True], [1, 0]),
    *([["a", 2]], [["a", -2]], [["a", 2**62]]),
]
SHAPES: list[Any] = [
    *("f32[]", "f64[]", "f32[8]", "s32[4]", "f32[2,2]", "f32[<=4]", "f32[?]", "token[]", "()"),
    *("(f32[4], s32[])", "f32[9223372036854775807]", "f32[-1]", "f32[4]{0}"),
    *(["f32[8]"], ["f64[4]"], ["f32[4]", "f32[4]"], ["f32[<=4]"], ["(f32[4])"], ["f32[2]"]),
]

RUN = """
import json
import sys
from pathlib import Path
import jax
import numpy as np
import lowering
from builder.errors import XlaError

x = np.arange(4, dtype=np.float32)
outcomes = {}
for path in sys.argv[1:]:
    print(path, flush=True)
    try:
        run = lowering.load_executable(path)
    except XlaError:
        continue
    count = len(run.program_shape.parameters)
    arguments = [[x] * len(run.devices)] if Path(path).parent.name == "replicas" else [x]
    try:
        result = run(*arguments * count)
    except (XlaError, lowering.ArgumentError, lowering.ExecutionError) as error:
        outcomes[path] = str(error)
    else:
        outcomes[path] = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(result)]
print(json.dumps(outcomes))
"""


def programs() -> dict[str, Any]:
    @xb.computation(xb.f32[4])
    def total(x: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce(x, 0.0, xb.add, dimensions=[0])

    mesh = xb.Mesh({"a": 2})

    @xb.computation(xb.f32[4])
    def sharded(x: xb.XlaOp) -> xb.XlaOp:
        return xb.with_sharding(x, mesh.sharding("a")) + 1.0

    devices = ["cpu:0", "cpu:1"]
    return {
        "one": lowering.compile(total, "cpu"),
        "replicas": lowering.compile(total, num_replicas=2, devices=devices),
        "sharded": lowering.compile(sharded, num_partitions=2, devices=devices),
    }


EXPECTED: dict[str, Any] = {"one": [6.0], "replicas": [6.0, 6.0], "sharded": [[1.0, 2.0, 3.0, 4.0]]}


def edits(header: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Return headers in which a single field is removed or has another value."""

    def changed(value: Any, is_removed: bool = False) -> Any:
        copy = json.loads(json.dumps(header))
        place = copy
        for key in path[:-1]:
            place = place[key]
        if is_removed:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        return copy

    field = header
    for key in path:
        field = field[key]
    if path:
        yield (*path, "removed"), changed(None, is_removed=True)
        is_shape = path[-1] in ("parameters", "result")
        for value in [*VALUES, *(SHAPES if is_shape else ())]:
            if json.dumps(value) != json.dumps(field):
                yield (*path, value), changed(value)
    if isinstance(field, dict):
        for key in field:
            yield from edits(header, (*path, key))


def write_edited(program: Any, folder: Path) -> dict[str, tuple[Any, ...]]:
    """Write a file for each edited header; return what is edited, by path."""
    folder.mkdir()
    program.save(folder / "saved")
    content = (folder / "saved").read_bytes()
    magic, version, length = struct.unpack_from("<8sII", content)
    header, payload = json.loads(content[48 : 48 + length]), content[48 + length :]
    headers = [("saved",), *(where for where, _ in edits(header))]
    heads = [json.dumps(header), *(json.dumps(edited) for _, edited in edits(header))]
    heads.append("[" * 100_000 + "]" * 100_000)
    headers.append(("nested",))
    paths: dict[str, tuple[Any, ...]] = {}
    for number, (where, head) in enumerate(zip(headers, heads, strict=True)):
        prefix = struct.pack("<8sII", magic, version, len(head))
        check = hashlib.blake2b(prefix + head.encode() + payload, digest_size=32).digest()
        path = folder / f"{number}.executable"
        path.write_bytes(prefix + check + head.encode() + payload)
        paths[str(path)] = where
    return paths


@pytest.mark.slow
def test_edited_headers(tmp_path: Path) -> None:
    paths = {k: write_edited(program, tmp_path / k) for k, program in programs().items()}
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    names = [path for each in paths.values() for path in each]
    printed = run_python("-W", "ignore", "-c", RUN, *names, env=flags).stdout
    outcomes = json.loads(printed.splitlines()[-1])
    for kind, expected in EXPECTED.items():
        assert outcomes[str(tmp_path / kind / "0.executable")] == expected
        # The edited fields do not change what a program computes.
        for path, where in paths[kind].items():
            outcome = outcomes.get(path, "")
            assert isinstance(outcome, str) or outcome == expected, (kind, where)
