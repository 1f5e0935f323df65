"""Files keep the nesting of arguments and results; compared with calls of the function."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import export
from tables import each_row, mostly_slow

import builder as xb
import lowering
from lowering import ArgumentError, ModuleFileError
from lowering.stablehlo.call_tree import call_text, plain

State = namedtuple("State", "count mean")


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Registered:
    z: Any
    a: Any


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


X = f32(10, 20)


def arrays(first: float) -> dict[str, Any]:
    return {"w": f32(first, first + 1), "b": [f32(first + 2, first + 3), None]}


def of_dicts(params: Any, x: Any, unused: Any = None, *, scale: Any) -> Any:
    y = params["w"] * x + params["b"][0] * scale
    return {"y": y, "rest": [(x - scale, None)], "empty": ()}


DICTS = (arrays(1), X), {"scale": f32(3, 5)}


def assert_same(actual: Any, expected: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for value, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(value, other)


MODULES = {
    "jit": lambda f, args, named: lowering.jit(f, name="f").lower(*args, **named),
    "jax": lambda f, args, named: lowering.load(jax.jit(f).lower(*args, **named)),
    "from_jax": lambda f, args, named: lowering.lower(lowering.from_jax(f, *args, **named)),
    "platforms": lambda f, args, named: lowering.load(
        export.export(jax.jit(f), platforms=("tpu", "cpu"))(*args, **named)
    ),
}


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc", "stablehlo", "executable"])
@pytest.mark.parametrize("kind", mostly_slow(MODULES, 2))
def test_files_are_called_like_the_function(kind: str, suffix: str, tmp_path: Path) -> None:
    args, named = DICTS
    args = (*args, X) if kind == "jit" else args
    module = MODULES[kind](of_dicts, args, named)
    expected = of_dicts(*args, **named)
    path = tmp_path / f"f.{suffix}"
    if suffix == "executable":
        lowering.compile(module, "cpu").save(path)
        run: Any = lowering.load_executable(path, "cpu")
    else:
        module.save(path)
        run = lowering.compile(path, "cpu")
    on_device = jax.device_put((args, named), jax.devices("cpu")[0])
    for passed, by_name in ((args, named), on_device, on_device):
        assert_same(run(*passed, **by_name), expected)
    # One array for each parameter, without the nesting.
    flat = [args[0]["b"][0], args[0]["w"], *args[1:], named["scale"]]
    by_parameter = dict(zip(run.program_shape.parameter_names, flat, strict=True))
    for result in (run(*flat), run(**by_parameter)):
        assert_same(result, tuple(jax.tree.leaves(expected)))
    if suffix == "stablehlo":
        assert_same(lowering.interpret(path, *args, **named), expected)
        assert lowering.compare(path, *args, **named, device="cpu").agrees
        again = lowering.lower(lowering.to_computation(path))
        assert_same(lowering.compile(again, "cpu")(*args, **named), expected)


def of_classes(layer: Any, state: Any, *rest: Any, **more: Any) -> Any:
    return {
        "layer": Layer(layer.w + rest[0], layer.b),
        "state": State(state.count * 2, [state.mean]),
        "registered": Registered(more["k"].a, more["k"].z),
        "ordered": OrderedDict(z=rest[1], a=state.count),
    }


def test_classes_become_tuples_and_dicts(tmp_path: Path) -> None:
    """The order of an object's fields is not that of a dict's keys."""
    layer, state = Layer(f32(1, 2), f32(3, 4)), State(f32(5, 6), f32(7, 8))
    args, named = (layer, state, X, f32(9, 10)), {"k": Registered(f32(11, 12), f32(13, 14))}
    function = lowering.jit(of_classes)
    expected = function(*args, **named)
    in_process = lowering.compile(function.computation(*args, **named), "cpu")
    function.lower(*args, **named).save(tmp_path / "f.stablehlo")
    run = lowering.compile(tmp_path / "f.stablehlo", "cpu")
    plain_args = (vars(layer), tuple(state), X, f32(9, 10))
    plain_named = {"k": vars(named["k"])}
    assert_same(plain(expected), run(*args, **named))
    for _ in range(3):
        for passed, by_name in ((args, named), (plain_args, plain_named)):
            on_device = jax.device_put(plain((passed, by_name)), jax.devices("cpu")[0])
            results = [run(*passed, **by_name), run(*on_device[0], **on_device[1])]
            for result in results:
                np.testing.assert_array_equal(result["layer"]["w"], f32(11, 22))
                np.testing.assert_array_equal(result["layer"]["b"], f32(3, 4))
                np.testing.assert_array_equal(result["registered"]["z"], f32(13, 14))
                np.testing.assert_array_equal(result["ordered"]["z"], f32(9, 10))
                assert type(result["state"]) is tuple
            assert jax.tree.structure(plain(in_process(*passed, **by_name))) == (
                jax.tree.structure(results[0])
            )
    kinds = [type(in_process(*args, **named)[key]) for key in ("layer", "state", "registered")]
    assert kinds == [Layer, State, Registered]


def test_positional_arguments_by_name(tmp_path: Path) -> None:
    function = lowering.jit(lambda params, x: [params["w"] - x])
    function.lower(x=X, params=arrays(1)).save(tmp_path / "f.mlirbc")
    run = lowering.compile(tmp_path / "f.mlirbc", "cpu")
    for result in (run(arrays(1), X), run(arrays(1), x=X), run(x=X, params=arrays(1))):
        assert_same(result, [f32(-9, -18)])


def test_keys_that_are_not_literals_take_flat_arguments(tmp_path: Path) -> None:
    key = np.dtype("int8")
    function = lowering.jit(lambda tree: {key: tree[key] + 1})
    module = function.lower({key: X})
    assert "nesting" not in module.text
    module.save(tmp_path / "f.mlir")
    assert_same(lowering.compile(tmp_path / "f.mlir", "cpu")(X), X + 1)
    assert_same(lowering.compile(module, "cpu")({key: X}), {key: X + 1})


def test_replicas() -> None:
    module = MODULES["jit"](of_dicts, (*DICTS[0], X), DICTS[1])
    devices = jax.devices("cpu")[:2]
    trees = [arrays(1), arrays(5)]
    columns = jax.tree.map(lambda *leaves: list(leaves), *trees)
    for results in ("list", "sharded"):
        run = lowering.compile(module, devices=devices, num_replicas=2, results=results)
        found = run(columns, X, X, **DICTS[1])
        if results == "sharded":
            found = [jax.tree.map(lambda rows, n=n: np.asarray(rows)[n], found) for n in (0, 1)]
        for result, params in zip(found, trees, strict=True):
            assert_same(result, of_dicts(params, X, X, **DICTS[1]))
        flat = [columns["b"][0], columns["w"], X, X, DICTS[1]["scale"]]
        assert isinstance(run(*flat), list if results == "list" else tuple)
        with pytest.raises(ArgumentError, match=r"args\[0\] must be a dict"):
            run(X, X, X, **DICTS[1])


@each_row(
    "tree, expected",
    [
        (lambda p, x: p[0][0] + p[0][1] + x, "run([(p_0_0, p_0_1)], x)"),
        (
            lambda p, x: p["w"] + p["b"]["w"] + x["y"][0],
            "run({'b': {'w': w}, 'w': w_1}, {'y': [x_y_0]})",
        ),
        (lambda p, x: p.count + p.mean + x, "run((count, mean), x)"),
        (lambda p, x: x, "run(None, x)"),
    ],
)
def test_messages_show_a_call_that_works(tree: Any, expected: str) -> None:
    """The names in the call are those of variables."""
    values = {
        "run([": ([(X, X)], X),
        "run({": ({"w": X, "b": {"w": X}}, {"y": [X]}),
        "run((": (State(X, X), X),
        "run(N": (None, X),
    }
    args = values[expected[:5]]
    run = lowering.compile(lowering.jit(tree).computation(*args), "cpu")
    with pytest.raises(ArgumentError) as caught:
        run({"other": X})
    call = str(caught.value).partition("fix: call ")[2].partition(", with arrays")[0]
    assert call == expected
    names = compile(call, "", "eval").co_names
    np.testing.assert_array_equal(eval(call, {**dict.fromkeys(names, X), "run": run}), run(*args))


def test_calls_of_many_arrays_are_shortened() -> None:
    tree = {f"layer{n}": {"w": "w", "b": "b"} for n in range(100)}
    text = call_text("run", (tree, "x"), {"scale": "s"})
    assert text.startswith("run({'layer0': {'b': b, 'w': w}, ")
    assert text.endswith(", ...}, x, scale=s)")
    assert len(text) < 200


@each_row(
    "text",
    [
        "",
        "((0,), {}, 0",
        "__import__('os')",
        "((0, 0), {}, 0)",
        "((0,), {1: 2}, 0)",
        "((0,), {}, {0})",
        "((True,), {}, 0)",
        "((0, 2), {}, 0)",
        "((0, 1), {}, 1)",
        "[(0, 1), {}, 0]",
        "((0, 1), {}, 0, 0)",
        "((0, 1), {}, {'a': 0, 1: None})",
        "(" * 10000,
        "-" * 100000 + "1",
    ],
)
def test_damaged_attributes_are_refused(text: str) -> None:
    source = f"""
    func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32>
        attributes {{xlabuilder.nesting = "{text}"}} {{
      return %x : tensor<2xf32>
    }}"""
    with pytest.raises(ModuleFileError, match=r"attribute xlabuilder.nesting: (?s:.*)fix: "):
        lowering.load_bytes(source)


def test_computations_without_nesting_have_no_attribute() -> None:
    flat = lowering.jit(lambda x, y: (x + y, y)).lower(X, X)
    assert "nesting" not in flat.text
    assert lowering.compile(flat, "cpu").program_shape.parameters == (xb.f32[2], xb.f32[2])
