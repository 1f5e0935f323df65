"""lowering.jit: functions of XlaOps called with arrays, compared with NumPy and jax.jit."""

from __future__ import annotations

import dataclasses
import functools
import gc
import re
import threading
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering import ArgumentError
from lowering.running import jit_cache

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROW = np.float32([10, 20, 30])
TWO = np.float32(2)

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class Frozen:
    """An unregistered dataclass that counts its instances."""

    weights: Any
    inside: Any = None
    made: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        raise AssertionError("is not made again")


@dataclasses.dataclass(slots=True)
class Plain:
    a: Any
    b: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Registered:
    values: Any
    kind: str = dataclasses.field(metadata={"static": True})


def frozen(weights: Any, inside: Any) -> Frozen:
    made = object.__new__(Frozen)
    object.__setattr__(made, "weights", weights)
    object.__setattr__(made, "inside", inside)
    return made


@pytest.fixture(scope="module")
def added() -> lowering.JittedFunction:
    return lowering.jit(lambda x, y: x + y, name="added")


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(ArgumentError) as caught:
        call()
    return str(caught.value)


class TestTraining:
    """A small network with explicit gradients, compared with jax.grad."""

    @staticmethod
    def loss(params: Any, x: Any, y: Any) -> Any:
        hidden = jnp.maximum(x @ params["in"]["w"] + params["in"]["b"], 0)
        return jnp.mean((hidden @ params["out"] - y) ** 2)

    @staticmethod
    def train_step(params: Any, x: Any, y: Any, *, rate: Any) -> Any:
        w, b, out = params["in"]["w"], params["in"]["b"], params["out"]
        before = xb.add(x @ w, b, broadcast_dimensions=[1])
        hidden = xb.max(before, 0.0)
        error = hidden @ out - y
        d_error = error * (2.0 / 8)
        d_before = xb.select(before > 0.0, d_error @ xb.transpose(out, [1, 0]), 0.0)
        gradients = {
            "in": {
                "w": xb.transpose(x, [1, 0]) @ d_before,
                "b": xb.reduce(d_before, 0.0, xb.add, dimensions=[0]),
            },
            "out": xb.transpose(hidden, [1, 0]) @ d_error,
        }
        moved = jax.tree_util.tree_map(lambda p, g: p - g * rate, params, gradients)
        return moved, xb.reduce(error * error, 0.0, xb.add, dimensions=[0, 1]) / 8.0

    def test_steps_with_donated_params_agree_with_jax(self) -> None:
        random = np.random.default_rng(0)
        first = {
            "in": {"w": random.standard_normal((3, 4)), "b": np.zeros(4)},
            "out": random.standard_normal((4, 1)),
        }
        x, y = random.standard_normal((8, 3)), random.standard_normal((8, 1))
        first, x, y = jax.tree_util.tree_map(np.float32, (first, x, y))
        step = lowering.jit(self.train_step, donate=["params"])

        @jax.jit
        def by_jax(params: Any) -> Any:
            loss, gradients = jax.value_and_grad(self.loss)(params, x, y)
            return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradients), loss

        params, theirs = first, first
        for number in range(5):
            given = params
            params, loss = step(params, x, y, rate=np.float32(0.1))
            theirs, expected = by_jax(theirs)
            np.testing.assert_allclose(loss, expected, rtol=1e-5)
            leaves = jax.tree_util.tree_leaves(given)
            used_up = [isinstance(one, jax.Array) and one.is_deleted() for one in leaves]
            assert used_up == [number > 0] * 3
        for ours, other in zip(*map(jax.tree_util.tree_leaves, (params, theirs)), strict=True):
            np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-6)
        assert isinstance(first["out"], np.ndarray)
        assert np.all(first["in"]["b"] == 0)
        assert step.cache_info()[:3] == (1, 1, 1)
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            np.asarray(given["out"])
        message = refused(lambda: step(given, x, y, rate=np.float32(0.1)))
        # jaxlib chooses which one it reports.
        assert re.search(r"argument \d \(params\['in'\].*, got a jax.Array that has been", message)

    def test_donated_memory_is_reused(self) -> None:
        step = lowering.jit(lambda state, x: [one + x for one in state], donate=["state"])
        state = [lowering.device_put(np.ones(64, np.float32)) for _ in range(2)]
        places = [one.unsafe_buffer_pointer() for one in state]
        x = lowering.device_put(np.ones(64, np.float32))
        state = step(state, x)
        assert [one.unsafe_buffer_pointer() for one in state] == places
        assert not x.is_deleted()
        message = refused(lambda: step([state[0], state[0]], x))
        assert "argument 1 (state[1])" in message
        assert "the array of argument 0 (state[0]), whose" in message
        assert not state[0].is_deleted()
        # The computation contains the aliases, for every compiler.
        computation = step.computation(state, x)
        assert computation.donors == ((0, ()), (1, ()))
        assert step.lower(state, x).text.count("jax.buffer_donor = true") == 2


class TestTrees:
    def test_kinds(self) -> None:
        def function(given: Any, more: Any) -> Any:
            number, pair = given["list"]
            assert isinstance(pair, Pair)
            assert isinstance(more, Plain)
            assert more.a.kind == "sum"
            assert more.b.inside is None
            total = number + pair.first + more.a.values["v"] + more.b.weights
            inner = Plain(total, {"twice": total + total})
            return frozen(inner, (Pair(pair.second, None), [])), Registered([total], "new")

        tree = {"list": [np.float32(1), Pair(np.float32(2), np.int8([3]))], "none": None}
        more = Plain(
            Registered({"v": jnp.float32(4)}, "sum"), frozen(lowering.device_put(X[1, 2]), None)
        )
        jitted = lowering.jit(function)
        for _ in range(2):
            first, second = jitted(tree, more)
            assert isinstance(first, Frozen)
            assert not hasattr(first, "made")
            assert isinstance(first.weights, Plain)
            assert float(first.weights.a) == float(second.values[0]) == 1 + 2 + 4 + 5
            assert float(first.weights.b["twice"]) == 24
            pair, empty = first.inside
            assert isinstance(pair, Pair)
            assert pair.second is None
            assert empty == []
            assert np.asarray(pair.first).tolist() == [3]
            assert second.kind == "new"
        assert jitted.cache_info().recorded == 1
        assert jitted.computation(tree, more).program_shape.parameter_names == (
            "given['list'][0]",
            "given['list'][1].first",
            "given['list'][1].second",
            "more.a.values['v']",
            "more.b.weights",
        )
        # Registered metadata is part of the tree structure.
        more.a.kind = "product"
        with pytest.raises(AssertionError):
            jitted(tree, more)

    def test_trees_agree_with_jax(self) -> None:
        def function(tree: Any) -> Any:
            return {"b": (tree["x"], [tree["y"]]), "a": None, "c": tree["x"] + tree["x"]}

        tree = {"y": X, "x": ROW}
        ours, theirs = lowering.jit(function)(tree), jax.jit(function)(tree)
        assert jax.tree_util.tree_structure(ours) == jax.tree_util.tree_structure(theirs)
        jax.tree_util.tree_map(np.testing.assert_array_equal, ours, theirs)

    def test_unpacking_a_tuple_op(self) -> None:
        def counted(x: xb.XlaOp) -> Any:
            start = (x.builder.constant(0, xb.s32), x)
            return {"loop": xb.while_(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2.0), start)}

        count, doubled = lowering.jit(counted)(ROW)["loop"]
        assert int(count) == 3
        np.testing.assert_array_equal(doubled, ROW * 8)

    def test_wrong_ones(self, added: lowering.JittedFunction) -> None:
        ring: list[Any] = []
        ring.append(ring)
        assert "argument y: the value contains itself, or is" in refused(lambda: added(X, ring))
        looped = Plain(X, None)
        looped.b = looped
        assert "argument x: the value contains itself" in refused(lambda: added(looped, X))
        assert "argument x: jax.tree_util can't" in refused(lambda: added({1: X, "a": X}, X))


class TestArguments:
    def test_equivalent_calls_share_an_entry(self) -> None:
        def function(x: Any, y: Any = ROW, *rest: Any, scale: Any = TWO, **more: Any) -> Any:
            total = xb.add(x, y, broadcast_dimensions=[1]) * scale
            for one in (*rest, *more.values()):
                total = total + one
            return total

        jitted = lowering.jit(function)
        for result in (
            jitted(X),
            jitted(X, ROW),
            jitted(x=X, y=ROW),
            jitted(X, scale=TWO),
            jitted(jnp.asarray(X), y=lowering.device_put(ROW), scale=jnp.float32(2)),
        ):
            np.testing.assert_array_equal(result, (X + ROW) * 2)
        assert jitted.cache_info()[:3] == (1, 1, 1)
        np.testing.assert_array_equal(jitted(X, ROW, X, a=X), (X + ROW) * 2 + X + X)
        names = jitted.computation(X, ROW, X, a=X).program_shape.parameter_names
        assert names == ("x", "y", "rest[0]", "scale", "more['a']")

    @pytest.mark.parametrize("convert", [np.float32, jnp.float32])
    def test_warm_calls_by_name(self, convert: Callable[[float], Any]) -> None:
        """jaxlib sorts arguments by name; the program has them in the function's order."""

        function = lowering.jit(lambda b, a: b - a)
        default = convert(7)
        several = lowering.jit(
            lambda z, y=default, *, x, **others: (
                z * 100.0 - y * 10.0 - x + (others["b"] - others["a"] if others else z) * 1000.0
            )
        )
        five, three, two = convert(5), convert(3), convert(2)
        # The first call passes one array twice: the order can't be seen from the values.
        assert [float(function(b=five, a=five)) for _ in range(2)] == [0, 0]
        assert [float(function(b=five, a=three)) for _ in range(3)] == [2, 2, 2]
        assert [float(function(a=three, b=five)) for _ in range(3)] == [2, 2, 2]
        assert [float(several(x=five, z=three)) for _ in range(3)] == [3225] * 3
        assert [float(several(x=five, y=two, z=three)) for _ in range(3)] == [3275] * 3
        by_name = {"b": three, "a": two, "x": five}
        assert [float(several(two, two, **by_name)) for _ in range(3)] == [1175] * 3

    def test_shapes_and_types_have_separate_entries(self, added: lowering.JittedFunction) -> None:
        added.cache_clear()
        for dtype in (np.float64, np.int64, np.uint8):
            x = np.array([1, 2], dtype)
            result = added(x, x)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, x + x)
        assert added.cache_info()[:3] == (3, 3, 3)
        assert repr(added) == "<JittedFunction 'added', 3 computations>"
        # The same array in another byte order, as a NumPy scalar, by dlpack.
        swapped = np.array([1, 2], ">f8")
        np.testing.assert_array_equal(added(swapped, swapped), [2.0, 4.0])
        assert added.cache_info().recorded == 3
        added.cache_clear()
        assert added.cache_info()[:3] == (0, 0, 0)

    def test_warm_calls_of_other_shapes_and_types(self, added: lowering.JittedFunction) -> None:
        """jaxlib would convert 64-bit NumPy arrays to 32 bits, and share their memory."""
        added.cache_clear()
        wide, narrow = np.arange(4096.0), np.arange(4096, dtype=np.float32)
        wide_there, narrow_there = map(lowering.device_put, (wide, narrow))
        for _ in range(3):
            for x in (narrow_there, wide, narrow, wide_there, wide.astype(">f8")):
                mixed = narrow_there if x.dtype == np.float32 else wide_there
                for y in (x, mixed):
                    result = added(x, y)
                    assert result.dtype == mixed.dtype
                    np.testing.assert_array_equal(result, wide * 2)
        changing = narrow.copy()
        results = []
        for number in range(5):
            changing[:] = number
            results.append(added(changing, narrow_there))
        changing[:] = -1
        for number, result in enumerate(results):
            np.testing.assert_array_equal(result, narrow + number)
        assert added.cache_info()[:3] == (2, 2, 2)
        with jax.disable_jit():
            np.testing.assert_array_equal(added(narrow, narrow_there), wide * 2)

    def test_warm_calls_of_all_kinds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Python handles each kind of static arguments, dataclasses and NumPy arrays once."""

        def moved(state: Any, x: Any, times: Any) -> Any:
            return Plain(state.a + x, frozen(state.b.weights * float(times), None))

        jitted = lowering.jit(moved, static=["times"], device="cpu:1")
        looked: list[int] = []
        call_flat = lowering.JittedFunction._call_flat

        def counted(self: Any, *given: Any) -> Any:
            looked.append(1)
            return call_flat(self, *given)

        monkeypatch.setattr(lowering.JittedFunction, "_call_flat", counted)

        def there(array: Any) -> Any:
            return lowering.device_put(array, "cpu:1")

        for number in range(3):
            for x in (np.array(1, np.float32), np.float32(1), there(np.float32(1))):
                for times in (2, 2.0, True):
                    for state in (Plain(X, frozen(ROW, None)), Plain(there(X), frozen(ROW, None))):
                        result = jitted(state, x, times=times)
                        np.testing.assert_array_equal(result.a, X + 1)
                        np.testing.assert_array_equal(result.b.weights, ROW * float(times))
                        assert type(result.b) is Frozen
                        assert result.a.devices() == {lowering.device("cpu:1")}
            if not number:
                first = len(looked)
        assert len(looked) == first == 12  # NumPy or jax arrays in two places, for three numbers
        assert jitted.cache_info()[:3] == (3, 3, 3)
        jitted.cache_clear()
        np.testing.assert_array_equal(jitted(state, x, 2).a, X + 1)
        assert jitted.cache_info()[:3] == (1, 1, 1)

    def test_warm_calls_of_a_variadic_function(self) -> None:
        """Arrays by position, and trees of the same number of arguments, are distinguished."""

        def joined(first: Any, *others: Any) -> Any:
            total = first["w"] * 10 if isinstance(first, dict) else first
            for other in others:
                total = total * 2 + (other[0] - other[1] if isinstance(other, tuple) else other)
            return total

        jitted = lowering.jit(joined)
        for number in range(3):
            x, y, z = (np.full(2, number + n, np.float32) for n in (1, 2, 3))
            for there in (np.asarray, lowering.device_put):
                for args in ((x,), ({"w": x}, y), (x, (y, z)), (x, y), (x, y, z), (x, y, there(z))):
                    np.testing.assert_array_equal(jitted(*args), joined(*args))
        assert jitted.cache_info()[:3] == (5, 5, 5)
        with pytest.raises(lowering.ArgumentError, match="missing a required argument: 'first'"):
            jitted()

    def test_arguments_are_not_retained(self) -> None:
        def kept() -> list[weakref.ref[Any]]:
            weights = ROW.copy()
            jitted = lowering.jit(
                lambda x, n: x * x.builder.constant(weights) * float(n), static="n"
            )
            for x in (ROW, lowering.device_put(ROW)):
                jitted(x, 2)
                jitted(x, 2)
            made = (weights, jitted, jitted.function, jitted.computation(ROW, 2))
            return [weakref.ref(one) for one in (*made, jitted.compile(ROW, 2))]

        references = kept()
        gc.collect()
        assert [one() for one in references] == [None] * 5

    def test_static_arguments(self) -> None:
        seen: list[Any] = []

        @lowering.jit(static=["n", 2])
        def repeated(x: Any, n: Any = 2, way: Any = ("add", 0.0)) -> Any:
            seen.append((n, way))
            return x * float(n) if way[0] == "mul" else x + float(n)

        assert float(repeated(np.float32(3))) == 5
        assert float(repeated(np.float32(3), n=2)) == 5
        assert float(repeated(np.float32(3), 2, ("mul", 0.0))) == 6
        assert len(seen) == 2
        # Equal, but not identical.
        for n, way in ((2.0, ("add", 0.0)), (2, ("add", -0.0)), (True, ("add", 0))):
            repeated.computation(xb.f32[()], n, way)
        assert len(seen) == 5
        assert refused(lambda: repeated(np.float32(3), [2])).startswith(
            "repeated: the static argument n must be hashable"
        )
        assert repeated.__name__ == "repeated"

    def test_methods(self) -> None:
        class Model:
            @lowering.jit(static=["self"])
            def twice(self, x: Any) -> Any:
                return x + x

        assert float(Model().twice(np.float32(3))) == 6

    @each_row(
        "value, pattern",
        [
            (
                2**40,
                r"a number that s32 represents, got 1099511627776: .*int64\(1099511627776\)$",
            ),
            (2**63, r"numpy.uint64\(9223372036854775808\)$"),
            (-1e39, r"number that f32 represents, got -1e\+39: .* numpy.float64\(-1e\+39\)$"),
            ({"k": 1e39j}, r"y\['k'\] must be a number that c64 .* numpy.complex128\(1e\+39j\)$"),
            (Plain(X, "text"), r"argument y.b must be .*register_dataclass"),
            ("text", r"an array of numbers, got a str.*static=\['y'\]"),
            (
                xb.f32[2, 3],
                r"got the shape f32\[2,3\].*only computation, lower and compile",
            ),
            (np.ma.masked_array(X), "a masked array.*fill the"),
            (np.array(["a"]), "must be an array of numbers"),
            (jax.random.key(0), r"jax.random.key_data\(key\)"),
        ],
    )
    def test_no_arrays(self, added: lowering.JittedFunction, value: Any, pattern: str) -> None:
        recorded = added.cache_info().recorded
        message = refused(lambda: added(X, value)).replace("\n", " ")
        assert re.search(pattern, message), message
        assert added.cache_info().recorded == recorded

    def test_jax_tracers(self, added: lowering.JittedFunction) -> None:
        expected = added(X, X)
        np.testing.assert_array_equal(jax.jit(lambda x: added(x, x))(X), expected)

    def test_refused_arguments(self, added: lowering.JittedFunction) -> None:
        for args, by_name, pattern in (
            ((X,), {}, "missing a required argument: 'y'"),
            ((X, X, X), {}, "too many positional arguments"),
            ((X,), {"x": X}, "multiple values for argument 'x'"),
            ((X, X), {"z": X}, "unexpected keyword argument 'z'"),
            ((X,), {"z": X}, "unexpected keyword argument 'z'"),
        ):
            message = refused(lambda args=args, by_name=by_name: added(*args, **by_name))
            assert pattern in message
            assert message.endswith("fix: call it as added(x, y)")


class TestRecording:
    def test_source_lines_of_the_function(self) -> None:
        def wrong(x: Any, y: Any) -> Any:
            return xb.dot(x, y)  # here

        with pytest.raises(xb.ShapeInferenceError) as caught:
            lowering.jit(wrong)(X, X)
        line = wrong.__code__.co_firstlineno + 1
        assert caught.value.location == f"{__file__}:{line}"

    @each_row(
        "function, message",
        [
            (lambda x: None, "must return XlaOps, got None"),
            (lambda x: {"a": [x, 2.0]}, r"the result\['a'\]\[1\] of f must be an XlaOp, got 2.0"),
            (lambda x: np.ones(2), r"constant\(value\), where x is an argument"),
            (lambda x: Plain(x, "text"), r"the result.b of f must be an XlaOp, got 'text'"),
        ],
    )
    def test_invalid_results(self, function: Callable[[Any], Any], message: str) -> None:
        with pytest.raises(xb.OperandError, match=message):
            lowering.jit(function, name="f")(X)

    def test_values_of_another_computation(self) -> None:
        other = xb.XlaBuilder().parameter(xb.f32[2, 3])
        with pytest.raises(
            xb.BuilderError, match="the function of jit can't use values of another"
        ):
            lowering.jit(lambda x: x + other)(X)
        with pytest.raises(xb.BuilderError, match="can't use values of another"):
            lowering.jit(lambda x: other)(X)

    def test_errors_are_not_cached(self) -> None:
        fails = [True]

        def function(x: Any) -> Any:
            if fails:
                raise KeyError("mine")
            return x + x

        jitted = lowering.jit(function)
        with pytest.raises(KeyError, match="mine"):
            jitted(X)
        fails.clear()
        np.testing.assert_array_equal(jitted(X), X + X)

    @each_row(
        "make, message",
        [
            (lambda: lowering.jit(3), "expected a function, got 3"),
            (lambda: lowering.jit(xb.computation(xb.f32[2])(xb.neg)), "lowering.compile"),
            (lambda: lowering.jit(lambda x: x, donate=["y"]), "donate: there is no parameter 'y'"),
            (lambda: lowering.jit(lambda x: x, donate="x", static="x"), "both static and donated"),
            (lambda: lowering.jit(lambda x: x, static=[0, "x"]), "static: parameter 0 .* twice"),
            (lambda: lowering.jit(lambda *x: x, static=["x"]), r"must not be \*args"),
            (lambda: lowering.jit(lambda x: x, static=1.5), "must be a list of parameters' names"),
            (lambda: lowering.jit(lambda x: x, name="a b"), "name must be an identifier"),
            (
                lambda: lowering.jit(lambda x: x, options={"speed": 9}),
                "^jit: there is no option speed",
            ),
            (lambda: lowering.jit(max), "has no signature"),
            (lambda: lowering.jit(type), "expected a function, got <class 'type'>"),
        ],
    )
    def test_values_that_are_not_functions(self, make: Callable[[], Any], message: str) -> None:
        with pytest.raises(xb.OperandError, match=message):
            make()


class TestAheadOfTime:
    def test_shapes_in_place_of_arrays(self) -> None:
        jitted = lowering.jit(lambda p: {"s": p["a"] + p["b"]}, name="summed")
        shapes = {"a": xb.f32[2, 3], "b": jax.ShapeDtypeStruct((2, 3), np.float32)}
        computation = jitted.computation(shapes)
        assert str(computation.program_shape) == (
            "(p['a']: f32[2,3], p['b']: f32[2,3]) -> f32[2,3]"
        )
        assert jitted.lower(shapes).name == "summed"
        run = jitted.compile(shapes)
        np.testing.assert_array_equal(run(X, X), X + X)
        np.testing.assert_array_equal(jitted({"a": X, "b": X})["s"], X + X)
        assert jitted.cache_info()[:3] == (1, 1, 1)

    def test_invalid_shapes(self) -> None:
        jitted = lowering.jit(lambda x, y: x + y[0])
        run = jitted.compile(xb.f32["<=4"], xb.tuple_shape([xb.f32[()]]))
        assert np.asarray(run(ROW[:2], (np.float32(1),))).tolist() == [11, 21]
        donating = lowering.jit(lambda x, y: x + y, donate=["x"])
        with pytest.raises(xb.ShapeInferenceError, match="only arrays of fixed sizes"):
            donating.computation(xb.f32["<=4"], xb.f32[()])


class TestNested:
    def test_a_call_is_recorded(self) -> None:
        recorded: list[int] = []

        @lowering.jit(donate=["x"])
        def inner(x: Any, scale: Any) -> Any:
            recorded.append(1)
            return {"y": x * scale, "x": x}

        @lowering.jit
        def outer(x: Any) -> Any:
            once = inner(x, np.float32(3))
            twice = inner(once["y"], x.builder.constant(np.float32(2)))
            return once["x"] + twice["y"]

        np.testing.assert_array_equal(outer(ROW), ROW + ROW * 6)
        computation = outer.computation(ROW)
        calls = [op for op in computation.ops if op.opcode == "call"]
        assert len({id(op.attributes["to_apply"]) for op in calls}) == len(recorded) == 1
        # It is recorded as for arrays.
        np.testing.assert_array_equal(inner(ROW, np.float32(3))["y"], ROW * 3)
        assert len(recorded) == 1

    def test_captured_values(self) -> None:
        @lowering.jit
        def outer(x: Any, y: Any) -> Any:
            inner = lowering.jit(lambda v: v * y)
            factors = iter([x.builder.constant(2.0, xb.f32), x.builder.constant(3.0, xb.f32)])
            scaled = lowering.jit(lambda v: v * next(factors))
            return inner(x), scaled(x), scaled(x)

        results = outer(ROW, ROW)
        for result, factor in zip(results, (ROW, 2, 3), strict=True):
            np.testing.assert_array_equal(result, ROW * factor)

    def test_inside_loops_and_reducers(self) -> None:
        plus = lowering.jit(lambda a, b: a + b)
        body = lowering.jit(lambda s: (s[0] + 1, s[1] * 2.0))

        @lowering.jit
        def outer(x: Any) -> Any:
            total = xb.reduce(x, 0.0, plus, dimensions=[0])
            start = (x.builder.constant(0, xb.s32), total)
            return xb.while_(lambda s: s[0] < 3, body, start)[1]

        assert float(outer(ROW)) == 60 * 8

    def test_arrays_in_a_nested_call_run_immediately(self) -> None:
        inner = lowering.jit(lambda v: v + v)

        @lowering.jit
        def outer(x: Any) -> Any:
            return x + x.builder.constant(np.asarray(inner(ROW)))

        np.testing.assert_array_equal(outer(ROW), ROW * 3)

    def test_refusals(self) -> None:
        @lowering.jit
        def endless(x: Any) -> Any:
            return endless(x)

        with pytest.raises(
            xb.BuilderError, match="endless calls itself endlessly with arguments of the same"
        ):
            endless(X)

        inner = lowering.jit(lambda x, y: x + y, name="inner")
        for value, message in (
            (2**40, "a number that s32 represents, got 1099511627776"),
            (
                jax.random.key(0),
                "a PRNGKeyArray of key<fry>.. that can't be read: TypeError: .*key_data",
            ),
        ):
            outer = lowering.jit(functools.partial(lambda y, x: inner(x, y), value), name="outer")
            with pytest.raises(ArgumentError, match=f"argument y must be .*{message}"):
                outer(ROW)

    def test_metadata_of_the_wrapped_function(self) -> None:
        inner = lowering.jit(lambda x: x + x, name="inner")
        outer = lowering.jit(inner, name="outer")
        np.testing.assert_array_equal(outer(ROW), ROW * 2)
        assert (inner.name, outer.name) == ("inner", "outer")
        partial = functools.partial(TestTraining.train_step, rate=TWO)
        assert lowering.jit(partial).name == "train_step"
        assert outer.function is inner

    def test_recursion_with_a_static_argument(self) -> None:
        @lowering.jit(static=["n"])
        def power(x: Any, n: int) -> Any:
            return x if n == 1 else x * power(x, n - 1)

        np.testing.assert_array_equal(power(ROW, 3), ROW**3)


class TestDevices:
    def test_committed_arrays_determine_the_device(self) -> None:
        first, second = lowering.devices("cpu")[:2]
        jitted = lowering.jit(lambda x, y: x + y)
        here, there = (lowering.device_put(X, one) for one in (first, second))
        free = jnp.asarray(X)
        for _ in range(2):
            for args, device in (
                ((X, X), first),
                ((there, X), second),
                ((free, there), second),
                ((free, free), first),
                ((here, free), first),
                ((there, there), second),
            ):
                result = jitted(*args)
                assert result.devices() == {device}
                np.testing.assert_array_equal(result, X + X)
        assert jitted.cache_info()[:3] == (1, 2, 1)
        message = refused(lambda: jitted(here, there))
        assert f"must be on one device, got\n  x on {first}\n  y on {second}\nfix: " in message
        with jax.default_device(second):
            assert jitted(X, X).devices() == {second}
            assert jitted(free, free).devices() == {second}
        mesh = jax.sharding.Mesh(np.array([first, second]), "d")
        everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        message = refused(lambda: jitted(jax.device_put(X, everywhere), X))
        assert "argument x must be on one device, got an array on 2" in message

    def test_the_device_argument(self) -> None:
        first, second = lowering.devices("cpu")[:2]
        jitted = lowering.jit(lambda x: x + x, device="cpu:1")
        for x in (X, lowering.device_put(X, second), jnp.asarray(X)):
            assert jitted(x).devices() == {second}
        message = refused(lambda: jitted(lowering.device_put(X, first)))
        assert f"argument 0 (x) must be on {second}, got an array on {first}" in message
        with pytest.raises(lowering.DeviceError, match="there is no platform"):
            lowering.jit(lambda x: x, device="abacus")(X)


class TestCache:
    def test_threads_record_and_compile_once(self) -> None:
        recorded: list[int] = []
        barrier = threading.Barrier(4)

        def function(x: Any) -> Any:
            recorded.append(1)
            return x * 2.0

        jitted = lowering.jit(function)
        results: list[Any] = []

        def work() -> None:
            barrier.wait(timeout=60)
            results.append(np.asarray(jitted(X)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(timeout=60)
        assert [one.tolist() for one in results] == [(X * 2).tolist()] * 4
        assert len(recorded) == 1
        assert jitted.cache_info()[:3] == (1, 1, 1)

    def test_the_oldest_entry_is_removed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jit_cache, "MOST_KEPT", 2)
        jitted = lowering.jit(lambda x: x + x)
        for size in (1, 2, 1, 3, 1):
            jitted.computation(xb.f32[size])
        assert jitted.cache_info() == (3, 0, 2, 2)
        jitted.computation(xb.f32[2])
        assert jitted.cache_info() == (4, 0, 2, 2)
