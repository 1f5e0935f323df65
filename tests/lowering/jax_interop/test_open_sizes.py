"""Derivatives and functions of jax on unbounded sizes: the same as those for the sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import each_row, mostly_slow

import builder as xb
import lowering
from builder import lib
from tests.builder.lib.test_open_sizes import HEADS, ROWS

pytestmark = pytest.mark.usefixtures("read_here")

Function = Callable[..., xb.XlaOp]


def of_gradients(functions: dict[str, Function], shape: Any) -> xb.XlaComputation:
    """The gradients of the sums of squares of functions' results, by copies of an array."""
    b = xb.XlaBuilder("gradients")
    x = b.parameter(shape, "x")
    copies = [x * 1.0 for _ in functions]
    losses = []
    for function, copy in zip(functions.values(), copies, strict=True):
        value = xb.convert_element_type(function(copy), xb.f32)
        losses.append(xb.reduce(value * value, 0.0, xb.add, list(range(value.shape.rank))))
    return b.build(xb.tuple(*lowering.gradients(sum(losses[1:], losses[0]), copies)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("functions", "sizes"), [(ROWS, (3,)), (HEADS, (4, 4, 8))], ids=["rows", "heads"]
)
def test_gradients_of_the_library(functions: dict[str, Function], sizes: tuple[int, ...]) -> None:
    run = lowering.compile(of_gradients(functions, xb.f32[("?", *sizes)]), "cpu")
    random = np.random.default_rng(11)
    for size in (1, 4):
        x = random.uniform(0, 3, (size, *sizes)).astype(np.float32)
        want = lowering.compile(of_gradients(functions, xb.f32[x.shape]), "cpu")(x)
        for name, got, expected in zip(functions, run(x), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=name)


def rows_of(x: xb.XlaOp) -> xb.XlaOp:
    return xb.reshape(xb.get_dimension_size(x, 0), [1])


def vector(x: xb.XlaOp, *numbers: int) -> xb.XlaOp:
    return x.builder.constant(np.array(numbers, np.int32))


@each_row(
    "function, reference",
    [
        (lambda x: x + xb.dynamic_iota(rows_of(x), 0, "f32[?]"), lambda x: x + np.arange(len(x))),
        (
            lambda x: xb.real_dynamic_slice(
                xb.concatenate([x, x * x], 0), rows_of(x), rows_of(x) * 2, vector(x, 1), "f32[?]"
            ),
            lambda x: x * x,
        ),
        (
            lambda x: xb.dynamic_pad(
                x,
                xb.reduce(x, 0.0, xb.add, [0]),
                rows_of(x),
                vector(x, -1),
                vector(x, 1),
                "f32[?]",
            ),
            lambda x: np.concatenate(
                [np.full(len(x), x.sum()), np.stack([x, np.full_like(x, x.sum())], 1).ravel()[:-2]]
            ),
        ),
        (
            lambda x: xb.dynamic_gather(
                xb.concatenate([xb.exp(x), x], 0),
                xb.reshape(rows_of(x), [1, 1]),
                rows_of(x),
                xb.GatherDimensionNumbers([1], [], [0], 1),
                "f32[1,?]",
            )[0],
            lambda x: x,
        ),
        (
            lambda x: xb.dynamic_broadcast_in_dim(
                xb.reduce(x, 0.0, xb.add, [0]), rows_of(x) * 2, [], "f32[?]"
            ),
            lambda x: np.full(2 * len(x), x.sum()),
        ),
        (
            lambda x: xb.dynamic_reshape(
                lib.stack([x, xb.exp(x)], 1),
                [xb.get_dimension_size(x, 0) * 2],
                [xb.UNBOUNDED],
                [True],
            ),
            lambda x: np.stack([x, np.exp(x)], 1).ravel(),
        ),
    ],
)
def test_ops_that_take_sizes(function: Function, reference: Any) -> None:
    """Values, also as a function of jax, and gradients by finite differences."""
    b = xb.XlaBuilder("program")
    x = b.parameter("f32[?]", "x")
    value = function(x)
    gradient = lowering.gradients(xb.reduce(xb.sin(value), 0.0, xb.add, [0]), x)
    program = b.build(xb.tuple(value, gradient))
    run, by_jax = lowering.compile(program, "cpu"), jax.jit(lowering.to_jax(program))
    for size in (1, 3):
        numbers = np.linspace(0.5, 1, size).astype(np.float32)
        wide = numbers.astype(np.float64)
        slopes = [
            (np.sin(reference(wide + step)).sum() - np.sin(reference(wide - step)).sum()) / 2e-5
            for step in 1e-5 * np.eye(size)
        ]
        for got in (run(numbers), by_jax(numbers)):
            np.testing.assert_allclose(got[0], reference(numbers), rtol=1e-5)
            np.testing.assert_allclose(got[1], slopes, rtol=1e-4, atol=1e-5)


def test_a_size_that_depends_on_values() -> None:
    b = xb.XlaBuilder("program")
    size = b.parameter("s32[1]", "size")
    program = b.build(xb.reduce(xb.dynamic_iota(size, 0, "f32[?]"), 0.0, xb.add, [0]))
    with pytest.raises(lowering.LoweringError, match="a size depends on values of arrays"):
        jax.jit(lowering.to_jax(program))(np.int32([3]))


def of_jax(x: Any, labels: Any) -> Any:
    """Has a derivative of its own, a stopped gradient, an iota and a compiled part."""
    hits = jnp.sum(jax.nn.one_hot(labels, 3) * x)
    places = jnp.arange(x.shape[0], dtype=x.dtype)[:, None]
    return jax.nn.relu(x) * hits + jax.lax.stop_gradient(x) + jax.nn.softmax(x) * places


def mean_square(x: Any, labels: Any) -> Any:
    return jnp.mean(of_jax(x, labels) ** 2)


X = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)
LABELS = np.array([0, 2, 1, 1], np.int32)


@pytest.mark.slow
def test_apply() -> None:
    b = xb.XlaBuilder("applied")
    x, shift = b.parameter(xb.f32["?", 3], "x"), b.parameter(xb.f32["?", 3], "shift")
    labels = b.parameter(xb.s32["?"], "labels")
    value = lowering.apply(lambda x, y, labels: of_jax(x + y, labels), x, shift, labels)
    loss = lib.mean(value * value)
    run = lowering.compile(b.build(xb.tuple(loss, lowering.gradients(loss, x))), "cpu")
    for rows in (X, X[:2]):
        labels_of_rows = LABELS[: len(rows)]
        want = jax.jit(jax.value_and_grad(mean_square))(rows, labels_of_rows)
        for got, expected in zip(run(rows, 0 * rows, labels_of_rows), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_from_jax() -> None:
    computation = lowering.from_jax(mean_square, xb.f32["?", 3], xb.s32["?"])
    assert str(computation.program_shape) == "(x: f32[?,3], labels: s32[?]) -> f32[]"
    run = lowering.compile(lowering.value_and_grad(computation, "x"), "cpu")
    for rows in (X, X[:2]):
        labels = LABELS[: len(rows)]
        want = jax.jit(jax.value_and_grad(mean_square))(rows, labels)
        for got, expected in zip(run(rows, labels), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def symbolic(text: str, dtype: Any, scope: Any) -> Any:
    return jax.ShapeDtypeStruct(jax.export.symbolic_shape(text, scope=scope), dtype)


def test_symbolic_dimensions_of_jax() -> None:
    scope = jax.export.SymbolicScope()
    arguments = {"x": symbolic("n, m", np.float32, scope)}, symbolic("m, n", np.float32, scope)

    def function(tree: Any, y: Any) -> Any:
        return {"sum": tree["x"] + y.T, "flat": (tree["x"] * 2).reshape(-1)}

    computation = lowering.from_jax(function, *arguments)
    assert [str(size) for size in computation.open_sizes()] == [
        "dimension 0 of tree['x'] = dimension 1 of y = dimension 0 of result[1]",
        "dimension 1 of tree['x'] = dimension 0 of y = dimension 1 of result[1]",
    ]
    run = lowering.compile(computation, "cpu")
    got = run({"x": X}, X.T)
    np.testing.assert_array_equal(got["sum"], 2 * X)
    np.testing.assert_array_equal(got["flat"], 2 * X.ravel())
    lowered = jax.jit(function).trace(*arguments).lower()
    assert lowering.load(lowered).program_shape == computation.program_shape
    for_both = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cpu", "tpu"))
    got = lowering.compile(for_both, "cpu")({"x": X}, X.T)
    np.testing.assert_array_equal(got["sum"], 2 * X)


@pytest.mark.parametrize("source", mostly_slow(["function", "Exported"], 1))
def test_a_table_of_positions(source: str) -> None:
    """jax takes ``table[:n]`` by a gather of a size at run time, in a function of the sizes."""
    scope = jax.export.SymbolicScope(("n <= 9",))
    x, table = symbolic("b, n, 3", np.float32, scope), symbolic("9, 3", np.float32, scope)

    def function(x: Any, table: Any) -> Any:
        rows = (x + table[: x.shape[1]]).reshape(-1, 3)
        return jnp.mean(jnp.sin(rows) * jnp.arange(x.shape[0] * x.shape[1])[:, None])

    if source == "function":
        computation = lowering.from_jax(function, x, table)
    else:
        computation = lowering.to_computation(jax.export.export(jax.jit(function))(x, table))
    run = lowering.compile(lowering.value_and_grad(computation), "cpu")
    values = np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)
    for shape in ((2, 3, 3), (1, 9, 3)):
        array = np.linspace(-1, 1, np.prod(shape), dtype=np.float32).reshape(shape)
        for by_us in (
            run(array, values),
            jax.jit(jax.value_and_grad(lowering.to_jax(computation)))(array, values),
        ):
            want = jax.jit(jax.value_and_grad(function, (0, 1)))(array, values)
            got = jax.tree.leaves(by_us)
            for one, other in zip(got, jax.tree.leaves(want), strict=False):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("source", mostly_slow(["function", "Lowered", "Exported"], 1))
def test_what_symbolic_dimensions_declare_is_checked(source: str) -> None:
    """No op requires it: neither the equal sizes nor the constraints."""
    scope = jax.export.SymbolicScope(("n <= 8", "mod(m, 2) == 0"))
    texts = {"x": "2*m, n", "y": "m", "z": "n"}
    arguments = [symbolic(text, np.float32, scope) for text in texts.values()]

    def function(x: Any, y: Any, z: Any) -> Any:
        return jnp.sum(jnp.sin(x)) + jnp.sum(y) * jnp.sum(z)

    jitted = jax.jit(function)
    if source == "function":
        computation = lowering.from_jax(function, *arguments)
    elif source == "Lowered":
        computation = lowering.to_computation(jitted.lower(*arguments))
    else:
        computation = lowering.to_computation(jax.export.export(jitted)(*arguments))
    calls: list[Any] = [lowering.compile(computation, "cpu")]
    if source == "function":
        b = xb.XlaBuilder("caller")
        operands = [b.parameter(p.shape) for p in computation.parameters]
        to_jax = jax.jit(lowering.to_jax(computation))
        calls += [
            lowering.compile(lowering.grad(computation), "cpu"),
            lowering.compile(b.build(xb.call(computation, *operands)), "cpu"),
            to_jax,
            jax.export.export(to_jax)(*arguments).call,  # jax checks what its arguments declare
        ]
    wrong = {"n=5": (4, 5, 2, 4), "m=1": (2, 3, 1, 3), "n=9": (4, 9, 2, 9), "m=4": (4, 3, 4, 3)}
    refusal = r"must be equal|the specification|constraint"
    for call in calls:
        arrays = np.ones((8, 3), np.float32), np.ones(4, np.float32), np.ones(3, np.float32)
        call(*arrays)
        for rows, columns, m, n in wrong.values():
            with pytest.raises((xb.XlaError, ValueError), match=refusal):
                call(*[np.ones(size, np.float32) for size in ((rows, columns), m, n)])
    np.testing.assert_allclose(calls[0](*arrays), function(*arrays), rtol=1e-6)


def test_equal_sizes_that_only_the_graph_knows() -> None:
    b = xb.XlaBuilder("applied")
    x, y = b.parameter(xb.f32["?", 2], "x"), b.parameter(xb.f32[2, "?"], "y")
    z = xb.transpose(y, [1, 0])
    total = xb.reduce(x * z, 0.0, xb.add, [0, 1])  # the sizes of x and y are equal
    value = lowering.apply(lambda x, y: jnp.sum(x + y.T), x, y) + total
    run = lowering.compile(b.build(value), "cpu")
    assert run(X[:, :2], X[:, :2].T) == pytest.approx(
        np.sum(2 * X[:, :2] + X[:, :2] ** 2), rel=1e-5
    )


def test_sizes_that_jax_does_not_know_to_be_equal() -> None:
    with pytest.raises(TypeError, match="incompatible shapes") as caught:
        lowering.from_jax(lambda x, y: x + y.T, xb.f32["?", 2], xb.f32[2, "?"])
    assert any("may be different. Where they are equal" in n for n in caught.value.__notes__)


def test_symbols_of_the_user_are_not_merged() -> None:
    scope = jax.export.SymbolicScope()
    arguments = [symbolic(name, np.float32, scope) for name in ("n", "m")]
    with pytest.raises(TypeError, match="incompatible shapes"):
        lowering.from_jax(lambda x, y: x + y, *arguments)


def test_other_errors_of_the_function_have_no_note_about_sizes() -> None:
    def function(x: Any) -> Any:
        raise KeyError(x.shape)

    with pytest.raises(KeyError) as caught:
        lowering.from_jax(function, xb.f32["?"])
    assert not any("unbounded" in n for n in getattr(caught.value, "__notes__", ()))


def test_apply_to_sizes_that_are_computed() -> None:
    b = xb.XlaBuilder("applied")
    x, y = b.parameter(xb.f32["?"], "x"), b.parameter(xb.f32["?"], "y")
    joined = xb.concat_in_dim([x, y], 0)
    shares = lowering.apply(lambda z: z / z.shape[0], joined)
    total = lowering.apply(lambda z, x, y: jnp.sum(z) + jnp.sum(x), shares, x * 1.0, y)
    run = lowering.compile(b.build(total), "cpu")
    for one, two in ((2, 3), (1, 7)):
        arrays = np.arange(one, dtype=np.float32), np.ones(two, np.float32)
        want = np.concatenate(arrays).mean() + arrays[0].sum()
        assert run(*arrays) == pytest.approx(want, rel=1e-6)


CHECK = """module @checked {{ func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %k = stablehlo.constant dense<{least}> : tensor<i32>
  %m = stablehlo.constant dense<{most}> : tensor<i32>
  %low = stablehlo.compare GE, %n, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %high = stablehlo.compare GE, %m, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%low, %n) {{has_side_effect = true,
      error_message = "{{x}} must not be {{0}}"}} : (tensor<i1>, tensor<i32>) -> ()
  stablehlo.custom_call @shape_assertion(%high, %n) {{has_side_effect = true,
      error_message = "{{0}} is too much"}} : (tensor<i1>, tensor<i32>) -> ()
  return %x : tensor<?xf32> }} }}"""


@pytest.mark.parametrize("most", [9, 1], ids=["a range", "no size fits"])
def test_checks_of_files(most: int) -> None:
    """Checks are not always those of jax, whose messages have no other braces."""
    computation = lowering.to_computation(lowering.load_bytes(CHECK.format(least=2, most=most)))
    function = lowering.to_jax(computation)
    with pytest.raises(lowering.ArgumentError, match=r"program: \{x\} must not be 1"):
        function(np.ones(1, np.float32))
    assert lowering.vmap(computation, 3).program_shape.result == xb.f32[3, "?"]
    if most == 9:
        assert function(np.ones(2, np.float32)).shape == (2,)


def test_checks_without_a_condition() -> None:
    b = xb.XlaBuilder("checks")
    x = b.parameter(xb.f32["?"], "x")
    vector = xb.reshape(xb.get_dimension_size(x, 0), [1])
    pair = xb.concatenate([vector, vector], 0)
    for operands in ([xb.eq(pair, pair)], [pair]):
        xb.custom_call("shape_assertion", operands, "()", has_side_effect=True)
    computation = b.build(x)
    assert [str(size) for size in computation.open_sizes()] == [
        "dimension 0 of x = dimension 0 of result"
    ]
    with pytest.raises(lowering.LoweringError, match="side effects, which would be lost"):
        lowering.vmap(computation, 2)


def test_a_size_as_a_number() -> None:
    """A computation without unbounded sizes takes a size as any other number."""

    @xb.computation(xb.s32[()], xb.f32[2])
    def scaled(count: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return y * xb.convert_element_type(count, xb.f32)

    b = xb.XlaBuilder("caller")
    x, y = b.parameter(xb.f32["?"], "x"), b.parameter(xb.f32[2], "y")
    function = lowering.to_jax(b.build(xb.call(scaled, xb.get_dimension_size(x, 0), y)))
    scope = jax.export.SymbolicScope()
    arguments = symbolic("n", np.float32, scope), symbolic("2", np.float32, scope)
    exported = jax.export.export(jax.jit(function))(*arguments)
    for call in (function, jax.jit(function), exported.call):
        np.testing.assert_array_equal(call(X[0], np.float32([1, 2])), np.float32([3, 6]))


def test_a_symbolic_size_that_is_unknown() -> None:
    scope = jax.export.SymbolicScope()
    lowered = jax.jit(lambda x: x.shape[0] + x.sum()).trace(symbolic("n*m", np.float32, scope))
    with pytest.raises(lowering.LoweringError, match="do not follow from the sizes of the arrays"):
        lowering.load(lowered.lower())


@pytest.mark.slow
def test_export_by_jax() -> None:
    """`to_jax` of an open program is a function that jax exports for symbolic sizes."""
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32["?", 3], "x")
    program = b.build(lib.mean(lib.layer_norm(x) * lib.softmax(x, 0)))
    scope = jax.export.SymbolicScope()
    exported = jax.export.export(jax.jit(jax.grad(lowering.to_jax(program))))(
        symbolic("n, 3", np.float32, scope)
    )
    for rows in (X, X[:1]):
        want = jax.jit(jax.grad(lowering.to_jax(program)))(rows)
        np.testing.assert_allclose(exported.call(rows), want, rtol=1e-5, atol=1e-6)


def test_vmap() -> None:
    b = xb.XlaBuilder("program")
    x, y = b.parameter(xb.f32["?", 3], "x"), b.parameter(xb.f32["?"], "y")
    program = b.build(xb.add(lib.softmax(x, 0), y, [0]))
    batched = lowering.vmap(program, 2, in_axes=(1, None), out_axes=-1)
    assert str(batched.program_shape) == "(x: f32[?,2,3], y: f32[?]) -> f32[?,3,2]"
    run, both = lowering.compile(program, "cpu"), np.stack([X, -X], 1)
    want = np.stack([run(X, X[:, 0]), run(-X, X[:, 0])], -1)
    np.testing.assert_allclose(
        lowering.compile(batched, "cpu")(both, X[:, 0]), want, rtol=1e-6, atol=1e-7
    )


OF_EQUAL_SIZES: dict[str, tuple[Callable[..., Any], Any, Any, str]] = {
    "take_along_axis": (
        lambda x, y: jnp.take_along_axis(x, y[:, None], axis=1).mean(),
        xb.f32["?", 5],
        xb.s32["?"],
        "x",
    ),
    "where": (
        lambda x, y: jnp.where(y[:, None] > 0, x, 0.0).sum(),
        xb.f32["?", 4],
        xb.f32["?"],
        "y",
    ),
    "multiply": (lambda x, y: (x * y[:, None]).sum(), xb.f32["?", 4], xb.f32["?"], "y"),
    "scan": (
        lambda x, y: jax.lax.scan(lambda c, a: (c + a[0] @ a[1], None), 0.0, (x, y))[0],
        xb.f32["?", 4],
        xb.f32["?", 4],
        "x",
    ),
}
"""Functions that jax traces only if the first dimensions of x and y are equal."""


@pytest.mark.parametrize("name", OF_EQUAL_SIZES)
def test_sizes_that_are_taken_as_equal_are_checked(name: str) -> None:
    function, *shapes, wrt = OF_EQUAL_SIZES[name]
    computation = lowering.from_jax(function, *shapes)
    programs = [computation]
    if name != "scan":  # its derivative needs the length
        programs.append(lowering.grad(computation, wrt))
    for program in programs:
        run = lowering.compile(program, "cpu")

        def arrays(rows: int) -> list[Any]:
            return [
                np.ones((size, *shape.dimensions[1:]), shape.element_type.dtype)
                for size, shape in zip((2, rows), shapes, strict=True)
            ]

        run(*arrays(2))
        for rows in (1, 3):
            refusal = f"must be equal.*, got 2 and {rows}"
            with pytest.raises(lowering.ArgumentError, match=refusal):
                run(*arrays(rows))


def test_arrays_beside_symbolic_dimensions() -> None:
    """Only their shapes matter: they are not constants, and the gradient does not keep them."""
    (n,) = jax.export.symbolic_shape("n")
    w = np.float32([1, 2, 3])
    x: Any = jax.ShapeDtypeStruct((n, 3), np.float32)  # type: ignore[no-untyped-call]  # of jax
    computation = lowering.from_jax(lambda w, x: jax.nn.gelu(x * w).sum(), w, x)
    run = lowering.compile(lowering.grad(computation, "w"), "cpu")
    rows = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    expected = jax.jit(jax.grad(lambda w: jax.nn.gelu(rows * w).sum()))(w + 1)
    np.testing.assert_allclose(run(w + 1, rows), expected, rtol=1e-5)


def test_bounded_sizes_are_refused() -> None:
    for shape in (xb.f32["?", "<=64"], xb.f32[3, "<=64"]):
        with pytest.raises(xb.OperandError, match="jax has no bounded sizes"):
            lowering.from_jax(jnp.sin, shape)


def test_second_derivatives_are_refused_at_the_line_of_the_first() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32["?"], "x")
    slope = lowering.gradients(lib.sum(xb.erf(x)), x)
    refusal = r"unbounded sizes, recorded at .*test_open_sizes.py:\d+.* has none itself"
    with pytest.raises(lowering.LoweringError, match=refusal):
        lowering.gradients(lib.sum(slope), x)
