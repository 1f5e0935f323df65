"""Callables that are given again: when their computation is the same object, and when not."""

from __future__ import annotations

import _thread
import functools
import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import builder as xb
from builder import shared_callables

SCALE = 2.0
FACTORS = [2.0]
COUNTED = 0
SETTINGS = ModuleType("settings")
SETTINGS.__dict__["scale"] = 3.0


@pytest.fixture
def x() -> xb.XlaOp:
    return xb.XlaBuilder().parameter(xb.f32[4, 3], "x")


def applied(op: xb.XlaOp) -> xb.XlaComputation:
    """The one computation that an op applies."""
    (computation,) = op.called_computations
    return computation


def reduced(x: xb.XlaOp, function: Callable[..., Any]) -> xb.XlaComputation:
    return applied(xb.reduce(x, 0.0, function, [0]))


def opcodes(computation: xb.XlaComputation) -> list[str]:
    return [op.opcode for op in computation.ops]


def constants(computation: xb.XlaComputation) -> list[float]:
    return [float(op.attributes["value"]) for op in computation.ops if op.opcode == "constant"]


def plain(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return xb.max(a, b) + a


def scaled(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * SCALE


def calling(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return scaled(a, b)


def of_module(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * SETTINGS.scale


def test_the_same_function_gives_the_same_computation(x: xb.XlaOp) -> None:
    first = reduced(x, plain)
    assert reduced(x, plain) is first
    other = xb.XlaBuilder().parameter(xb.f32[7, 9])
    assert reduced(other, plain) is first
    assert opcodes(first) == ["parameter", "parameter", "maximum", "add"]


def test_equal_ops_share_their_attributes(x: xb.XlaOp) -> None:
    first, second = (xb.reduce(x, 0.0, plain, [1]) for _ in range(2))
    assert first.attributes is second.attributes
    assert xb.reduce(x, 0.0, plain, [0]).attributes["dimensions"] == (0,)


def test_one_line_makes_one_computation(x: xb.XlaOp) -> None:
    """A lambda in a loop is a new function each time, of the same code."""
    found = {id(reduced(x, lambda a, b: a * b)) for _ in range(5)}
    assert len(found) == 1


def test_other_shapes_make_another(x: xb.XlaOp) -> None:
    whole = xb.XlaBuilder().parameter(xb.s32[4, 3])
    first, second = reduced(x, plain), applied(xb.reduce(whole, 0, plain, [0]))
    assert [p.shape for p in first.parameters] == [xb.f32[()]] * 2
    assert [p.shape for p in second.parameters] == [xb.s32[()]] * 2


def test_another_argument_makes_another(x: xb.XlaOp) -> None:
    """A lambda's computation is named after the argument that it was given for."""
    function = eval("lambda a, b: a > b", {})
    ordered = applied(xb.sort(x, function))
    assert ordered.name == "sort_comparator"
    pool = xb.reduce_window(x, 0.0, xb.max, [2, 1], [1, 1], "VALID")
    scatter = xb.select_and_scatter(x, function, [2, 1], [1, 1], "VALID", pool, 0.0, xb.add)
    assert scatter.attributes["select"].name == "select_and_scatter_select"


def test_a_changed_global_makes_another(x: xb.XlaOp, monkeypatch: pytest.MonkeyPatch) -> None:
    before = reduced(x, scaled)
    assert constants(before) == [2.0]
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert constants(reduced(x, scaled)) == [5.0]
    monkeypatch.undo()
    assert reduced(x, scaled) is before


def test_a_changed_global_of_a_function_that_is_called(
    x: xb.XlaOp, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reduced(x, calling) is reduced(x, calling)
    assert constants(reduced(x, calling)) == [2.0]
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert constants(reduced(x, calling)) == [5.0]
    monkeypatch.setitem(globals(), "scaled", plain)
    assert opcodes(reduced(x, calling)) == opcodes(reduced(x, plain))


def test_a_changed_name_of_a_module(x: xb.XlaOp, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reduced(x, of_module) is reduced(x, of_module)
    monkeypatch.setattr(SETTINGS, "scale", 4.0)
    assert constants(reduced(x, of_module)) == [4.0]


def test_a_global_that_hides_a_builtin(x: xb.XlaOp, monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b * float("0.5")

    assert constants(reduced(x, halved)) == [0.5]
    monkeypatch.setitem(globals(), "float", lambda text: 0.25)
    assert constants(xb.reduce(x, 0, halved, [0]).called_computations[0]) == [0.25]


def test_a_changed_closure_makes_another(x: xb.XlaOp) -> None:
    factor = 2.0

    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b * factor

    before = reduced(x, function)
    assert reduced(x, function) is before
    factor = 3.0
    assert constants(reduced(x, function)) == [3.0]
    factor = -0.0
    assert np.signbit(constants(reduced(x, function))[0])
    factor = 0.0
    assert not np.signbit(constants(reduced(x, function))[0])


def test_a_changed_default_makes_another(x: xb.XlaOp) -> None:
    def function(a: xb.XlaOp, b: xb.XlaOp, factor: Any = 2.0) -> xb.XlaOp:
        return a + b * factor

    before = reduced(x, function)
    assert reduced(x, function) is before
    assert isinstance(function, FunctionType)
    function.__defaults__ = (7.0,)
    assert constants(reduced(x, function)) == [7.0]


def test_changed_code_makes_another(x: xb.XlaOp) -> None:
    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b

    assert opcodes(reduced(x, function))[-1] == "add"
    assert isinstance(function, FunctionType)
    function.__code__ = (lambda a, b: a * b).__code__
    assert opcodes(reduced(x, function))[-1] == "multiply"


def test_a_changed_name_makes_another(x: xb.XlaOp) -> None:
    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b

    assert reduced(x, function).name == "function"
    function.__name__ = "sum_of_two"
    assert reduced(x, function).name == "sum_of_two"


def _with_list(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * FACTORS[0]


def _counting(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    global COUNTED
    COUNTED += 1
    return a + b * float(COUNTED)


def _with_attribute(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    _with_attribute.calls = getattr(_with_attribute, "calls", 0) + 1  # type: ignore[attr-defined]  # made here
    return a + b


def _random(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * random.random()


def _numpy_random(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * float(np.random.default_rng().random())


def _importing(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    from random import random as drawn

    return a + b * drawn()


def _printing(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    print("called")
    return a + b


def _looking_out(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * (1.0 if a.builder.parent is None else 2.0)


def _where_called(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * float(a.source.line if a.source else 0)


def _by_globals(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * globals()["SCALE"]


def _with_module(a: xb.XlaOp, b: xb.XlaOp, module: Any = None) -> xb.XlaOp:
    settings = SETTINGS
    return xb.add(a, b * settings.scale)


def _of_own_class(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * float(xb.XlaBuilder.__basicsize__)


def _asking_a_function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * len(xb.add.__name__)


def _by_attributes(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * float(a.attributes["number"])


def _making_a_class(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    class Local:
        factor = 2.0

    return a + b * Local.factor


def _matching(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    match a:
        case xb.XlaOp():
            return a + b
    return a


class Reducer:
    scale = 2.0

    def method(self, a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b * self.scale

    def __call__(self, a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return self.method(a, b)


def _of_class(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b * Reducer.scale


def _closing_over(value: Any) -> Callable[..., Any]:
    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a if value is None else a + b

    return function


def _assigning() -> Callable[..., Any]:
    calls = 0

    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        nonlocal calls
        calls += 1
        return a + b

    return function


def _by_keyword(a: xb.XlaOp, b: xb.XlaOp, *, seen: Any = (1,)) -> xb.XlaOp:
    return a + b if seen else a


@pytest.mark.parametrize(
    "function",
    [
        _with_list,
        _counting,
        _with_attribute,
        _random,
        _numpy_random,
        _importing,
        _printing,
        _looking_out,
        _where_called,
        _by_globals,
        _with_module,
        _of_class,
        _of_own_class,
        _asking_a_function,
        _by_attributes,
        _making_a_class,
        _matching,
        _by_keyword,
        Reducer().method,
        Reducer(),
        partial(plain),
        _assigning(),
        _closing_over([1]),
        _closing_over({1: 2}),
        _closing_over(np.ones(2)),
        _closing_over(Reducer()),
        _closing_over(Reducer().method),
        _closing_over(((1, [2]), 3)),
        _closing_over(iter(())),
        _closing_over(_counting),
        _closing_over(random),
    ],
    ids=lambda function: getattr(function, "__qualname__", type(function).__name__),
)
def test_what_may_have_changed_is_called_each_time(
    x: xb.XlaOp, function: Callable[..., Any]
) -> None:
    computations = [reduced(x, function) for _ in range(3)]
    assert len({id(c) for c in computations}) == 3


def _times_first(function: Callable[..., Any], factors: list[float]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*operands: xb.XlaOp) -> Any:
        return function(*operands) * factors[0]

    return inner


def test_a_wrapped_function_of_the_library_is_the_users(x: xb.XlaOp) -> None:
    """It has the name and the module of the library's, and reads a list."""
    factors = [1.0]
    added, tanh = _times_first(xb.add, factors), _times_first(xb.tanh, factors)
    assert added.__module__ == xb.add.__module__

    def body(value: xb.XlaOp) -> Any:
        return tanh(value)

    for factor in (1.0, 5.0):
        factors[0] = factor
        assert constants(reduced(x, added)) == [factor]
        assert constants(applied(xb.call(body, x))) == [factor]
        assert constants(applied(xb.call(tanh, x))) == [factor]


def test_a_function_that_hides_what_it_wraps(x: xb.XlaOp) -> None:
    factors = [1.0]
    added = _times_first(xb.add, factors)
    del added.__dict__["__wrapped__"]
    for factor in (1.0, 5.0):
        factors[0] = factor
        assert constants(reduced(x, added)) == [factor]


def test_the_functions_of_the_table_are_own_and_what_looks_like_them_is_not() -> None:
    own = [info.function for info in xb.OPERATIONS.values() if not info.is_method]
    assert all(map(shared_callables.is_own, own))
    code, names = xb.add.__code__, dict(xb.add.__globals__)
    assert not shared_callables.is_own(FunctionType(code, names, "add"))
    assert not any(map(shared_callables.is_own, [plain, xb.XlaOp.__bool__, len, xb.f32, None]))


def test_a_function_called_at_run_time_reads_its_own_variables(x: xb.XlaOp) -> None:
    def outer() -> tuple[Callable[..., Any], Callable[[float], None]]:
        factor = 1.0

        def assign(value: float) -> None:
            nonlocal factor
            factor = value

        def body(value: xb.XlaOp) -> xb.XlaOp:
            return xb.python_call(lambda v: v + np.float32(factor), value, shape=value.shape)

        return body, assign

    def calling_it(body: Callable[..., Any]) -> Callable[..., Any]:
        return lambda value: xb.call(body, value)

    (first, assign), (second, _) = outer(), outer()
    for wrap in (lambda body: body, calling_it):
        computations = [applied(xb.call(wrap(body), x)) for body in (first, second)]
        assign(100.0)
        values = []
        for computation in computations:
            while computation.root.opcode == "call":
                computation = applied(computation.root)
            values.append(computation.root.attributes["function"](np.zeros(2, np.float32)))
        np.testing.assert_array_equal(values, [[100, 100], [1, 1]])
        assign(1.0)


def test_values_nested_too_deep_or_too_wide_are_not_looked_through(x: xb.XlaOp) -> None:
    deep: tuple[Any, ...] = (1.0,)
    for _ in range(5000):
        deep = (deep,)
    doubled: tuple[Any, ...] = (1.0,)
    for _ in range(60):  # 2^60 numbers, one by one
        doubled = (doubled, doubled)
    for value in (doubled, tuple(range(100_000))):
        function = _closing_over(value)
        assert reduced(x, function) is not reduced(x, function)
    assert opcodes(reduced(x, _closing_over(deep)))[-1] == "add"


def test_functions_that_use_one_another_in_a_long_row(x: xb.XlaOp) -> None:
    def using(used: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a, b: used(a, b)

    function: Callable[..., Any] = plain
    for _ in range(50):
        function = using(function)
    assert reduced(x, function) is reduced(x, function)
    whole: Callable[..., Any] = function
    for _ in range(5000):
        whole = using(whole)
    assert shared_callables.facts_to_keep("reduce", "computation", whole, ()) is None


def test_what_only_claims_to_be_of_the_library_is_refused(x: xb.XlaOp) -> None:
    claimed = {"__module__": "builder.attributes.precision", "scale": 2.0, "__hash__": lambda s: 1}
    bundle = type("DotAlgorithm", (), claimed)
    number: Any = type("float32", (np.float32,), {"__module__": "numpy", "scale": 2.0})
    for value in (bundle, bundle(), number, number(2)):

        def function(a: xb.XlaOp, b: xb.XlaOp, value: Any = value) -> xb.XlaOp:
            return a if value is None else a + b

        assert reduced(x, function) is not reduced(x, function)


def test_an_attribute_set_on_a_class_of_the_library(
    x: xb.XlaOp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return xb.add(a, b * xb.XlaBuilder.scale)  # type: ignore[attr-defined]  # set below

    for factor in (2.0, 3.0):
        monkeypatch.setattr(xb.XlaBuilder, "scale", factor, raising=False)
        assert constants(reduced(x, function)) == [factor]


def test_an_attribute_of_one_value_or_another(x: xb.XlaOp, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attribute is asked of what either branch gives, not only of the module."""
    either = True

    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return xb.add(a, b * (xb.XlaBuilder if either else SETTINGS).scale)  # type: ignore[union-attr]  # set in the test

    for factor in (2.0, 4.0):
        monkeypatch.setattr(xb.XlaBuilder, "scale", factor, raising=False)
        assert constants(reduced(x, function)) == [factor]


def test_members_of_enumerations_and_ops_of_the_builder_may_be_used(x: xb.XlaOp) -> None:
    def function(value: xb.XlaOp) -> xb.XlaOp:
        one = value.builder.constant(1, value.shape.element_type)
        return xb.dot(value + one, xb.transpose(value, [1, 0]), xb.Precision.HIGHEST)

    first, second = (applied(xb.call(function, x)) for _ in range(2))
    assert first is second
    assert first.root.shape == xb.f32[4, 4]


def _in_many_ways(value: xb.XlaOp) -> xb.XlaOp:
    parts = [value * float(k) for k in range(1, 3)]
    first, *others = parts
    with value.builder.sharding("{replicated}"):
        total = sum((part * 2.0 for part in others), first)
    names = {"one": 1.0}
    names["two"] = 2.0
    try:
        return total * names["two"] if isinstance(total, xb.XlaOp) and len(parts) else first
    finally:
        parts.clear()


def test_a_function_of_many_instructions_is_shared(x: xb.XlaOp) -> None:
    first, second = (applied(xb.call(_in_many_ways, x)) for _ in range(2))
    assert first is second
    assert opcodes(first).count("multiply") == 4


def test_nothing_is_held_once_the_computation_is_gone() -> None:
    def multiplied_by(factor: float) -> Any:
        return lambda a, b: a + b * factor

    def kept() -> list[float]:
        return [
            facts.contents[0]
            for key, forms in shared_callables._KEPT.items()
            if key[4] == id(function.__code__)
            for _, facts, _ in forms
        ]

    x = xb.XlaBuilder().parameter(xb.f32[4, 3])
    function = multiplied_by(123.5)
    other = xb.XlaBuilder().parameter(xb.f32[4, 3])
    held = reduced(other, multiplied_by(5.0))
    gone = weakref.ref(reduced(x, function))
    assert sorted(kept()) == [5.0, 123.5]
    del x
    gc.collect()
    assert gone() is None
    assert kept() == [5.0]
    del other, held
    gc.collect()
    assert kept() == []
    assert id(function.__code__) not in [key[4] for key in shared_callables._KEPT]


def test_a_namespace_of_no_module_is_not_held() -> None:
    class Value:
        pass

    value = Value()
    gone = weakref.ref(value)
    names = {"xb": xb, "value": value, "__name__": "builder"}
    function = eval("lambda a, b: xb.add(a, b)", names)
    x = xb.XlaBuilder().parameter(xb.f32[4, 3])
    names["x"] = reduced(x, function)
    del value, names, function, x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("opcode", ["BINARY_OP", "LOAD_GLOBAL", "RETURN_VALUE"])
def test_an_instruction_that_is_not_known_is_refused(
    x: xb.XlaOp, opcode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b * SCALE

    known = shared_callables._OPCODES
    monkeypatch.setattr(shared_callables, "_OPCODES", known - {opcode})
    first = reduced(x, function)
    assert reduced(x, function) is not first


def test_calls_are_counted(x: xb.XlaOp) -> None:
    found = [constants(reduced(x, _counting)) for _ in range(3)]
    first = found[0][0]
    assert found == [[first], [first + 1], [first + 2]]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2.5,
        1j,
        "text",
        (1, ("a", 2.0)),
        xb.f32,
        xb.f32[2, 3],
        xb.Precision.HIGHEST,
        xb.DotDimensionNumbers((1,), (0,)),
        np.float32(2),
        xb.add,
        plain,
        scaled,
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_can_not_change_is_shared(x: xb.XlaOp, value: Any) -> None:
    function = _closing_over(value)
    assert reduced(x, function) is reduced(x, function)


def _multiplied_by(factor: float) -> Callable[..., Any]:
    return lambda a, b: a + b * factor


def test_only_so_many_forms_are_kept(x: xb.XlaOp) -> None:
    functions = [_multiplied_by(float(n)) for n in range(1, 40)]
    last = [reduced(x, function) for function in functions][-1]
    assert reduced(x, functions[-1]) is last
    assert max(map(len, shared_callables._KEPT.values())) <= 32


@pytest.mark.parametrize("number", [0.1, -0.0, 1e300, float("inf"), 3, 2**70, -5])
def test_equal_numbers_are_the_same(x: xb.XlaOp, number: Any) -> None:
    """Numbers that were worked out anew are other objects."""
    again = type(number)(str(number))
    assert reduced(x, _closing_over(number)) is reduced(x, _closing_over(again))


@pytest.mark.parametrize(
    ("number", "other"),
    [(0.0, -0.0), (1, 1.0), (1, True), (1.0, True), (0.1, 0.1 + 2**-56), (2**70, 2**70 + 1)],
)
def test_unequal_numbers_are_not(x: xb.XlaOp, number: Any, other: Any) -> None:
    found = [reduced(x, _closing_over(n)) for n in (number, other, number)]
    assert found[0] is found[2]
    assert found[0] is not found[1]


def _asking_which(number: float) -> Callable[..., Any]:
    def which(a: Any, b: Any) -> Any:
        mine = number is _ONE_OF_TWO
        return a + (b if mine else a)

    return which


_ONE_OF_TWO = float("2.5")


def test_numbers_that_are_asked_who_they_are(x: xb.XlaOp) -> None:
    other = float("2.5")
    assert other is not _ONE_OF_TWO
    mine, yours = (reduced(x, _asking_which(number)) for number in (_ONE_OF_TWO, other))
    assert mine.root.operands[0] is not mine.root.operands[1]
    assert yours.root.operands[0] is yours.root.operands[1]


def test_what_is_given_again_after_many_others_is_shared_before_long(x: xb.XlaOp) -> None:
    many = [reduced(x, _multiplied_by(float(n))) for n in range(1, 300)]
    assert [constants(c) for c in many] == [[float(n)] for n in range(1, 300)]
    for factor in (-1.0, -2.0):
        function = _multiplied_by(factor)
        found = [reduced(x, function) for _ in range(20)]
        assert len({id(c) for c in found}) <= 8
        assert found[-1] is found[-2]
        assert constants(found[-1]) == [factor]


def test_an_error_is_raised_each_time(x: xb.XlaOp) -> None:
    calls = []

    def wrong(a: xb.XlaOp, b: xb.XlaOp) -> int:
        calls.append(1)
        return 1

    for _ in range(2):
        with pytest.raises(xb.OperandError, match="must return an XlaOp"):
            xb.reduce(x, 0.0, wrong, [0])
    assert len(calls) == 2
    assert len(x.builder.ops) == 1


def test_a_signature_that_does_not_fit_is_refused_each_time(x: xb.XlaOp) -> None:
    for _ in range(2):
        with pytest.raises(xb.SignatureError, match="computation must be"):
            xb.reduce(x, 0.0, lambda a, b: a > b, [0])
    assert len(x.builder.ops) == 1


# Callables that may capture.


def below_ten(state: xb.XlaOp) -> xb.XlaOp:
    return state[0] < 10


def doubled(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
    count, total = state
    return count + 1, total * 2.0


@pytest.fixture
def state(x: xb.XlaOp) -> list[xb.XlaOp]:
    return [x.builder.constant(0, xb.s32), x]


def test_loops_share_condition_and_body(state: list[xb.XlaOp]) -> None:
    first, second = (xb.while_(below_ten, doubled, state) for _ in range(2))
    assert first.attributes is second.attributes
    assert first.shape == xb.tuple_shape([xb.s32[()], xb.f32[4, 3]])
    assert first.opcode == "while"
    assert [o.opcode for o in second.operands] == ["tuple"]


def test_a_loop_of_the_same_state_as_one_op(state: list[xb.XlaOp]) -> None:
    whole = xb.tuple(*state)
    first, second = (xb.while_(below_ten, doubled, whole) for _ in range(2))
    assert first.attributes is second.attributes
    assert second.operands == (whole,)


def test_branches_are_shared(x: xb.XlaOp) -> None:
    pred = x.builder.parameter(xb.pred[()])

    def choose() -> xb.XlaOp:
        return xb.conditional(pred, x, lambda v: v + 1.0, x, xb.neg)

    first, second = choose(), choose()
    assert first.attributes is second.attributes
    assert [opcodes(c)[-1] for c in second.called_computations] == ["add", "negate"]


def test_what_captures_is_recorded_each_time(x: xb.XlaOp) -> None:
    y = x.builder.parameter(xb.f32[4, 3], "y")

    def add_captured(value: xb.XlaOp) -> xb.XlaOp:
        return value + y

    first, second = (xb.call(add_captured, x) for _ in range(2))
    assert applied(first) is not applied(second)
    assert second.operands == (x, y)


def test_a_shared_condition_beside_a_body_that_captures(state: list[xb.XlaOp], x: xb.XlaOp) -> None:
    """The condition takes what the body captures: it is recorded again, and not wrapped."""
    plain_loop = xb.while_(below_ten, doubled, state)
    y = x.builder.parameter(xb.f32[4, 3], "y")
    result = xb.while_(below_ten, lambda s: (s[0] + 1, s[1] * y), state)
    loop = result.operands[0]
    assert loop.shape == xb.tuple_shape([plain_loop.shape, xb.f32[4, 3]])
    assert "call" not in opcodes(loop.attributes["condition"])
    assert xb.while_(below_ten, doubled, state).attributes is plain_loop.attributes


def test_a_shared_body_leaves_no_trace_in_a_loop_that_is_refused(x: xb.XlaOp) -> None:
    pair = [x.builder.constant(0, xb.s32), x]
    count = len(x.builder.ops)
    for _ in range(2):
        with pytest.raises(xb.SignatureError, match="body must be"):
            xb.while_(below_ten, below_ten, pair)
        assert len(x.builder.ops) == count


def test_marks_of_the_enclosing_builder_are_taken_over(x: xb.XlaOp) -> None:
    def function(value: xb.XlaOp) -> xb.XlaOp:
        return value + value

    plain_call = applied(xb.call(function, x))
    with x.builder.frontend_attributes({"a": "b"}):
        marked = applied(xb.call(function, x))
    with x.builder.sharding("{replicated}"):
        sharded = applied(xb.call(function, x))
    assert marked.root.frontend_attributes == {"a": "b"}
    assert sharded.root.sharding == "{replicated}"
    assert plain_call.root.frontend_attributes is None
    assert applied(xb.call(function, x)) is plain_call


def test_inside_of_a_callable(x: xb.XlaOp) -> None:
    """Two uses inside of a loop's body share as well, and so do those of the enclosing builder."""
    outside = reduced(x, plain)
    inside = []

    def body(value: xb.XlaOp) -> xb.XlaOp:
        inside.append(reduced(value, plain))
        return value

    xb.call(body, x)
    assert inside == [outside]


def test_lines_are_those_of_the_first_time(x: xb.XlaOp) -> None:
    first = reduced(x, plain)
    source = first.root.source
    assert source is not None
    assert source.function == "plain"
    assert source.line == plain.__code__.co_firstlineno + 1


def test_threads_may_record_at_once(x: xb.XlaOp) -> None:
    results: list[xb.XlaComputation] = []

    def work() -> None:
        mine = xb.XlaBuilder().parameter(xb.f32[4, 3])
        results.extend(reduced(mine, lambda a, b: a * b + a) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {str(c) for c in results} == {str(results[0])}
    assert len(results) == 200


def test_an_op_that_c_calls_has_no_line(x: xb.XlaOp) -> None:
    """A thread's first function has no Python code above it."""
    done = threading.Event()

    class Sizes:
        def __iter__(self) -> Iterator[int]:
            return iter([12])

        def __del__(self) -> None:
            done.set()

    reshape: Any = xb.reshape
    _thread.start_new_thread(reshape, (x, Sizes()))
    assert done.wait(30)
    assert [op.opcode for op in x.builder.ops] == ["parameter", "reshape"]
    assert x.builder.ops[1].source is None
