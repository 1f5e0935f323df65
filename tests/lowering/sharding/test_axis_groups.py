"""Replica groups along axes of a mesh, compared with XLA, which expands them in its runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tables import each_row

import lowering
from lowering.jaxlib_api import hlo_conversion

pytestmark = pytest.mark.usefixtures("read_here")

N = 8
X = np.arange(N, dtype=np.float32)[:, None]


def axis(name: str, part: str = "") -> str:
    info = f", sub_axis_info = {part}" if part else ""
    return f'#stablehlo.axis_ref<name = "{name}"{info}>'


def gathered(mesh: str, axes: list[str], count: int) -> lowering.StablehloModule:
    """Return a program that gathers the elements of each group of `count` devices."""
    return lowering.load_bytes(f"""
sdy.mesh @mesh = <{mesh}>
func.func @main(%x: tensor<1xf32>) -> tensor<{count}xf32> {{
  %0 = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids,
    replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [{", ".join(axes)}]>
  }}> : (tensor<1xf32>) -> tensor<{count}xf32>
  return %0 : tensor<{count}xf32>
}}""")


def run(program: Any) -> Any:
    return np.asarray(lowering.compile(program, "cpu", num_partitions=N)([*X]))


CASES = {
    "the major axis": ('["a"=2, "b"=4]', [axis("a")], 2, [[0, 4], [1, 5], [2, 6], [3, 7]]),
    "the minor axis": ('["a"=2, "b"=4]', [axis("b")], 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
    "axes in another order": (
        '["a"=2, "b"=4]',
        [axis("b"), axis("a")],
        8,
        [[0, 4, 1, 5, 2, 6, 3, 7]],
    ),
    "the major part": ('["a"=8]', [axis("a", "(1)2")], 2, [[0, 4], [1, 5], [2, 6], [3, 7]]),
    "a middle part": ('["a"=8]', [axis("a", "(2)2")], 2, [[0, 2], [1, 3], [4, 6], [5, 7]]),
    "two parts": (
        '["a"=8]',
        [axis("a", "(4)2"), axis("a", "(1)2")],
        4,
        [[0, 4, 1, 5], [2, 6, 3, 7]],
    ),
    "a part and an axis": (
        '["a"=2, "b"=4]',
        [axis("b", "(1)2"), axis("a")],
        4,
        [[0, 4, 2, 6], [1, 5, 3, 7]],
    ),
    "an order of devices": (
        '["a"=2, "b"=4], device_ids=[7, 5, 3, 1, 0, 2, 4, 6]',
        [axis("a")],
        2,
        [[7, 0], [5, 2], [3, 4], [1, 6]],
    ),
    "a transposed order": (
        '["a"=2, "b"=4], device_ids=[0, 2, 4, 6, 1, 3, 5, 7]',
        [axis("b")],
        4,
        [[0, 2, 4, 6], [1, 3, 5, 7]],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_groups_are_those_of_xla(case: str) -> None:
    """The module as it is, imported, and imported from the HLO that XLA prints of it."""
    mesh, axes, count, groups = CASES[case]
    expected = np.zeros((N, count), np.float32)
    for group in groups:
        expected[group] = group
    module = gathered(mesh, axes, count)
    before = module.text
    np.testing.assert_array_equal(run(module), expected)
    imported = lowering.to_computation(module)
    listed = f"replica_groups={str(groups).replace(' ', '').replace('[', '{').replace(']', '}')}"
    assert listed in str(imported)
    np.testing.assert_array_equal(run(imported), expected)
    assert module.text == before
    text = lowering.compile(module, "cpu", num_partitions=N).hlo_text()
    assert "replica_groups=mesh[" in text
    # jaxlib 0.10 prints that each partition has its own array, which the text need not state.
    from_text = lowering.from_hlo(text.replace(", sharding={manual}", ""))
    assert listed in str(from_text)
    np.testing.assert_array_equal(run(from_text), expected)


def test_a_protocol_buffer() -> None:
    """jaxlib's converter ignores the order of the devices."""
    text = """HloModule m, num_partitions=8
ENTRY %e (x: f32[1]) -> f32[2] {
  %x = f32[1]{0} parameter(0)
  ROOT %g = f32[2]{0} all-gather(%x), channel_id=1, dimensions={0}, use_global_device_ids=true,
    replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}
}"""
    for source in (text, hlo_conversion.hlo_proto(text)):
        imported = lowering.from_hlo(source)
        devices = np.arange(N).reshape(4, 2).T.reshape(2, 4)
        expected = "},{".join(",".join(map(str, pair)) for pair in devices.T)
        assert f"replica_groups={{{{{expected}}}}}" in str(imported)


@each_row(
    "axes, reason",
    [
        ([axis("c")], r"must be along axes of the mesh @mesh, .* got the axis 'c'"),
        ([axis("a"), axis("a", "(1)2")], "overlap"),
        ([axis("a", "(3)2")], "parts of a mesh axis of size 8 must divide the size"),
        ([axis("a", "(4)4")], "parts of a mesh axis of size 8 must divide the size"),
    ],
)
def test_groups_that_do_not_fit_their_mesh(axes: list[str], reason: str) -> None:
    module = gathered('["a"=8]', axes, 8)
    with pytest.raises(lowering.LoweringError, match=f"all_gather.* {reason}"):
        lowering.to_computation(module)
    with pytest.raises(lowering.CompileError, match=f"all_gather.* {reason}"):
        lowering.compile(module, "cpu", num_partitions=N)
