"""Modules of jax functions keep the nesting of arguments and results, compared with jax's calls.

jax 0.10.2 wrote `layer.jax_export` and `pair.jax_export` with `serialize()` from

    export.export(jax.jit(stored_layer), platforms=("cuda", "cpu"))(
        {"w": f32[3, 2], "b": [f32[3]], "spare": f32[3]}, f32[2], None, scale=f32[]
    )
    export.export(jax.jit(lambda pair: {"difference": pair.first - pair.second}))(
        Pair(f32[2], f32[2])
    )

because jax's serialization requires a package that jax does not install.
"""

from __future__ import annotations

import re
import struct
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import export
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tables import each_row

import lowering
from lowering import ArgumentError
from lowering.reading.exported import embedded_artifact, trees_of

pytestmark = pytest.mark.usefixtures("read_here")

Pair = namedtuple("Pair", "first second")

PARAMS = {"w": np.float32([[1, 2], [3, 4], [5, 6]]), "b": [np.float32([1, 2, 3])]}
X = np.float32([1, -1])
SCALE = np.float32(2)


def layer(params: Any, x: Any, unused: Any = None, *, scale: Any) -> Any:
    y = (params["w"] @ x + params["b"][0]) * scale
    return {"y": y, "rest": [Pair(x - scale, None)]}


LAYER = jax.jit(layer)
EXPECTED = layer(PARAMS, X, None, scale=SCALE)  # NumPy computes it

SOURCES: dict[str, Callable[..., Any]] = {
    "lowered": lambda function, *args, **by_name: function.lower(*args, **by_name),
    "traced": lambda function, *args, **by_name: function.trace(*args, **by_name),
    "exported": lambda function, *args, **by_name: export.export(function)(*args, **by_name),
    "of two platforms": lambda function, *args, **by_name: export.export(
        function, platforms=["cuda", "cpu"]
    )(*args, **by_name),
    "lowered for two platforms": lambda function, *args, **by_name: function.trace(
        *args, **by_name
    ).lower(lowering_platforms=("cuda", "cpu")),
    "module": lambda function, *args, **by_name: lowering.load(function.lower(*args, **by_name)),
}


def assert_same_trees(actual: Any, expected: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for value, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(value, other)


def on_device(tree: Any) -> Any:
    return jax.device_put(tree, jax.devices("cpu")[0])


@pytest.mark.parametrize("source", SOURCES)
def test_calls_as_in_jax(source: str) -> None:
    run = lowering.compile(SOURCES[source](LAYER, PARAMS, X, None, scale=SCALE), "cpu")
    for convert in (lambda tree: tree, on_device):
        args, by_name = convert(((PARAMS, X, None), {"scale": SCALE}))
        for _ in range(3):
            assert_same_trees(run(*args, **by_name), EXPECTED)
    doubled = on_device(jax.tree.map(lambda leaf: leaf * 2, PARAMS))
    assert_same_trees(run(doubled, X, None, scale=SCALE), LAYER(doubled, X, scale=SCALE))
    profile = run.profile(PARAMS, X, None, scale=SCALE)
    assert_same_trees(profile.result, EXPECTED)


@pytest.mark.parametrize("source", SOURCES)
def test_unused_arguments_are_passed(source: str) -> None:
    function = jax.jit(lambda tree, x: [x - tree["b"]])
    args = ({"a": np.ones(3), "b": np.float32(1), "c": np.int32([1])}, np.float32(5))
    run = lowering.compile(SOURCES[source](function, *args), "cpu")
    assert [str(s) for s in run.program_shape.parameters] == ["f32[]", "f32[]"]
    assert run.program_shape.parameter_names == ("args[0]['b']", "args[1]")
    for _ in range(3):
        assert_same_trees(run(*args), [np.float32(4)])
        assert_same_trees(run(*on_device(args)), [np.float32(4)])


def test_arguments_by_name_in_any_order() -> None:
    function = jax.jit(lambda *, b, a: b - a)
    run = lowering.compile(function.lower(b=np.float32(5), a=np.float32(3)), "cpu")
    five, three = on_device((np.float32(5), np.float32(3)))
    assert [float(run(b=five, a=three)) for _ in range(3)] == [2, 2, 2]
    assert [float(run(a=three, b=five)) for _ in range(3)] == [2, 2, 2]


@each_row(
    "result", [lambda x: None, lambda x: [x], lambda x: (x,), lambda x: ((x, x), {}), lambda x: ()]
)
def test_results(result: Callable[[Any], Any]) -> None:
    lowered = jax.jit(result).lower(X)
    assert_same_trees(lowering.compile(lowered, "cpu")(X), result(X))


def test_flat_functions_have_no_tree() -> None:
    """They are called as other modules are."""
    for function in (lambda x, y: x + y, lambda x, y: (x, y)):
        assert lowering.load(jax.jit(function).lower(X, X)).tree is None
    run = lowering.compile(jax.jit(lambda x, y: x + y).lower(X, X), "cpu")
    assert run.program_shape.parameter_names == ("arg0", "arg1")
    np.testing.assert_array_equal(run(X, arg1=X), X + X)


def test_files_have_no_tree(tmp_path: Path) -> None:
    lowered = LAYER.lower(PARAMS, X, None, scale=SCALE)
    lowering.load(lowered).save(tmp_path / "m.mlirbc")
    flat = lowering.compile(tmp_path / "m.mlirbc", "cpu")
    assert_same_trees(flat(PARAMS["b"][0], PARAMS["w"], X, SCALE), tuple(jax.tree.leaves(EXPECTED)))
    path = tmp_path / "m.executable"
    lowering.compile(lowered, "cpu").save(path)
    flat = lowering.load_executable(path, "cpu")
    assert_same_trees(flat(PARAMS["b"][0], PARAMS["w"], X, SCALE), tuple(jax.tree.leaves(EXPECTED)))


def stored_layer(params: Any, x: Any, unused: Any = None, *, scale: Any) -> Any:
    y = (params["w"] @ x + params["b"][0]) * scale
    return {"y": y, "rest": [(x - scale, None)]}


FOLDER = Path(__file__).parent
STORED = FOLDER / "layer.jax_export"


@pytest.mark.parametrize("source", ["path", "name", "bytes", "module"])
def test_serialized_exports_are_called_as_in_jax(source: str) -> None:
    read: dict[str, Callable[[], Any]] = {
        "path": lambda: STORED,
        "name": lambda: str(STORED),
        "bytes": STORED.read_bytes,
        "module": lambda: lowering.load_bytes(STORED.read_bytes()),
    }
    run = lowering.compile(read[source](), "cpu")
    params = {**PARAMS, "spare": np.float32([7, 8, 9])}
    expected = jax.jit(stored_layer)(params, X, scale=SCALE)
    for convert in (lambda tree: tree, on_device):
        args, by_name = convert(((params, X, None), {"scale": SCALE}))
        for _ in range(3):
            assert_same_trees(run(*args, **by_name), expected)
    names = ("args[0]['b'][0]", "args[0]['w']", "args[1]", "kwargs['scale']")
    assert run.program_shape.parameter_names == names
    with pytest.raises(ArgumentError, match=r"args\[0\] must be a dict with the keys"):
        run(PARAMS, X, None, scale=SCALE)


def test_serialized_exports_have_the_trees_that_jax_wrote() -> None:
    shapes = jax.tree.map(np.asarray, ({**PARAMS, "spare": X}, X, None))
    exported = export.export(jax.jit(stored_layer))(*shapes, scale=SCALE)
    expected = exported.in_tree, exported.out_tree, tuple(exported.module_kept_var_idx)
    assert trees_of(STORED.read_bytes()) == expected


def test_serialized_exports_with_classes_take_flat_arguments() -> None:
    data = FOLDER.joinpath("pair.jax_export").read_bytes()
    assert trees_of(data) is None
    np.testing.assert_array_equal(lowering.compile(data, "cpu")(X, SCALE * X), X - SCALE * X)


def test_damaged_trees_are_not_read() -> None:
    data = STORED.read_bytes()
    module = embedded_artifact(data)
    assert module is not None
    begin, end = data.index(module), data.index(module) + len(module)
    for at in (*range(begin), *range(end, len(data))):
        for value in (0, 5, 0x7F, 0xFF):
            damaged = bytearray(data)
            damaged[at] = value
            trees = trees_of(bytes(damaged))
            if trees is not None:
                arguments, _, used = trees
                assert list(used) == sorted({*used} & {*range(arguments.num_leaves)})
    for size in range(0, len(data), 8):
        trees_of(data[:size])


def with_node(data: bytes, kind: int, children: list[int]) -> bytes:
    """Prepend a node of a tree to FlatBuffers data; `children` are distances from the end."""
    size = 24 + 4 * len(children)
    elements = [len(data) + size - 24 - 4 * i - child for i, child in enumerate(children)]
    fields = struct.pack("<HHHH", 8, 12, 4, 8)
    return (
        fields + struct.pack(f"<{4 + len(elements)}I", 8, kind, 4, len(elements), *elements) + data
    )


def serialized_chain(children: int, length: int) -> bytes:
    """A serialized Exported whose only argument, and result, is a chain of tuples.

    All `children` of a tuple are the same node: the next tuple, or a leaf at the end.
    """
    data = with_node(b"", 0, [])
    for _ in range(length):
        data = with_node(data, 2, [len(data) - 8] * children)
    chain = len(data) - 8
    data = with_node(data, 2, [chain])
    arguments = len(data) - 8
    data = with_node(data, 4, [])
    data = with_node(data, 2, [arguments, len(data) - 8])
    used = struct.pack("<IHH", 1, 0, 0)
    call, end = len(data) - 8, len(data) + len(used)
    fields = struct.pack("<HH16H", 36, 16, 0, 0, 4, 0, 8, *[0] * 10, 12)
    root = struct.pack("<IIII", len(fields), end + 12 - call, end + 8 - chain, 4)
    return struct.pack("<I", 4 + len(fields)) + fields + root + used + data


def test_the_size_of_trees_is_limited() -> None:
    nested: Any = 0
    for _ in range(20):
        nested = (nested,)
    expected = jax.tree.structure(((nested,), {})), jax.tree.structure(nested), (0,)
    assert trees_of(serialized_chain(1, 20)) == expected
    assert trees_of(serialized_chain(1, 5000)) is None
    # 2 ** 60 leaves, if all nodes are read.
    assert trees_of(serialized_chain(2, 60)) is None


@each_row(
    "args, by_name, message",
    [
        ((PARAMS, X), {"scale": SCALE}, "args must be a tuple of 3, got a tuple of 2"),
        (
            ({"w": X}, X, None),
            {"scale": SCALE},
            "args[0] must be a dict with the keys ['b', 'w'], got a dict with the keys ['w']",
        ),
        (
            ({**PARAMS, "b": (X,)}, X, None),
            {"scale": SCALE},
            "args[0]['b'] must be a list of 1, got a tuple of 1",
        ),
        (
            ({**PARAMS, "b": X}, X, None),
            {"scale": SCALE},
            "args[0]['b'] must be a list of 1, got f32[2]",
        ),
        (
            (PARAMS, X, None),
            {"scale": [SCALE]},
            "kwargs['scale'] must be an array, got a list of 1",
        ),
        ((PARAMS, None, None), {"scale": SCALE}, "args[1] must be an array, got None"),
        ((PARAMS, X, X), {"scale": SCALE}, "args[2] must be None, got f32[2]"),
        (
            (PARAMS, X, None),
            {},
            "kwargs must be a dict with the keys ['scale'], got a dict with the keys []",
        ),
        (({1: X, "b": X}, X, None), {"scale": SCALE}, "can't flatten the arguments"),
        (
            ({**PARAMS, "w": X}, X, None),
            {"scale": SCALE},
            "argument 1 (args[0]['w']) must be f32[3,2], got f32[2]",
        ),
    ],
)
def test_other_structures(args: Any, by_name: Any, message: str) -> None:
    run = lowering.compile(LAYER.lower(PARAMS, X, None, scale=SCALE), "cpu")
    with pytest.raises(ArgumentError, match=re.escape(message)) as caught:
        run(*args, **by_name)
    assert "\nfix: " in str(caught.value)
    assert caught.value.computation == "jit_layer"


def test_arrays_on_other_devices_and_tracers() -> None:
    function = jax.jit(lambda state: {"s": state["s"] * 2})
    run = lowering.compile(function.lower({"s": X}), "cpu")
    first, second = jax.devices("cpu")[:2]
    mesh = Mesh(np.array([first, second]), ("d",))
    for _ in range(2):
        assert_same_trees(run({"s": jax.device_put(X, first)}), {"s": X * 2})
        for place in (second, NamedSharding(mesh, PartitionSpec("d"))):
            with pytest.raises(ArgumentError, match=r"args\[0\]\['s'\]\) must be on"):
                run({"s": jax.device_put(X, place)})
        with pytest.raises(ArgumentError, match="got a tracer"):
            jax.jit(run)({"s": X})


def test_donated_arguments() -> None:
    function = jax.jit(lambda state, x: {"s": state["s"] + x}, donate_argnums=0)
    run = lowering.compile(function.lower({"s": X}, X), "cpu")
    state = on_device({"s": X})
    x = on_device(X)
    for _ in range(3):
        before, state = state, run(state, x)
        assert before["s"].is_deleted()
    assert_same_trees(state, {"s": X * 4})
    with pytest.raises(ArgumentError, match=r"args\[0\]\['s'\]\) must be .*deleted"):
        run(before, x)


def test_tokens_of_ordered_effects() -> None:
    seen: list[float] = []

    def function(tree: Any) -> Any:
        io_callback(lambda v: seen.append(float(v)), None, tree["a"], ordered=True)
        return {"twice": tree["a"] * 2}

    lowered = jax.jit(function).lower({"a": np.float32(1)})
    run = lowering.compile(
        lowered, "cpu", callbacks=[lambda value: seen.append(float(value)) or ()]
    )
    assert_same_trees(run({"a": np.float32(3)}), {"twice": np.float32(6)})
    assert seen == [3.0]


def test_argument_shapes() -> None:
    (rows,) = export.symbolic_shape("rows")
    shapes = {"x": jax.ShapeDtypeStruct((rows, 2), np.float32)}
    function = jax.jit(lambda tree: [tree["x"] * tree["x"].shape[0]])
    for platforms in (["cpu"], ["cuda", "cpu"]):
        exported = export.export(function, platforms=platforms)(shapes)
        run = lowering.compile(exported, "cpu", argument_shapes=["f32[3,2]"])
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        assert_same_trees(run({"x": x}), [x * 3])


def test_partitioned() -> None:
    devices = jax.devices("cpu")[:2]
    over = NamedSharding(Mesh(np.array(devices), ("d",)), PartitionSpec("d"))
    function = jax.jit(lambda tree: {"sum": tree["x"] + tree["y"]}, in_shardings=over)
    tree = {"x": np.arange(4.0, dtype=np.float32), "y": np.ones(4, np.float32)}
    run = lowering.compile(function.lower(tree), num_partitions=2, devices=devices)
    assert isinstance(run, lowering.PartitionedExecutable)
    sharded = jax.device_put(tree, over)
    for _ in range(2):
        assert_same_trees(run(tree), {"sum": tree["x"] + 1})
        assert_same_trees(run(sharded), {"sum": tree["x"] + 1})
    with pytest.raises(ArgumentError, match=r"args\[0\] must be a dict with the keys"):
        run([tree])


def test_key_arrays_are_passed_as_numbers() -> None:
    function = jax.jit(lambda tree: {"bits": jax.random.bits(tree["key"])})
    tree = {"key": jax.random.key(3)}
    run = lowering.compile(function.lower(tree), "cpu")
    assert_same_trees(run({"key": jax.random.key_data(tree["key"])}), function(tree))


def test_to_computation_keeps_the_nesting() -> None:
    computation = lowering.to_computation(LAYER.lower(PARAMS, X, None, scale=SCALE))
    assert len(computation.parameters) == 4
    run = lowering.compile(computation, "cpu")
    assert_same_trees(run(PARAMS, X, None, scale=SCALE), EXPECTED)
