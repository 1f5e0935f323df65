"""Tuples, calls, loops and branches executed on CPU, compared with Python."""

from __future__ import annotations

import numpy as np
import pytest
from support import assert_same_bits, run
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL
from lowering.jaxlib_api import hlo_conversion, mlir

S32 = xb.s32[()]
F32 = xb.f32[()]


def number(value: int) -> np.int32:
    return np.int32(value)


# Loops.


def test_documented_loop_of_1000_iterations() -> None:
    b = xb.XlaBuilder("while")
    init = xb.tuple(b.constant(0, xb.s32), b.constant(np.zeros(10, np.float32)))

    def body(state):
        iteration, accumulator = state
        constant_vector = accumulator.builder.constant(np.full(10, 1.5, np.float32))
        return iteration + 1, accumulator + constant_vector

    root = xb.while_(lambda state: state[0] < 1000, body, init)
    count, total = run(b.build(root))
    assert count == 1000
    assert_same_bits(total, np.full(10, 1500, np.float32))


def test_nested_loops() -> None:
    b = xb.XlaBuilder("nested")
    n = b.parameter(S32, "n")

    def outer(state):
        i, total = state

        def inner(state):
            j, part = state
            return j + 1, part + i * j

        _, part = xb.while_(lambda s: s[0] <= i, inner, [i - i, total])
        return i + 1, part

    root = xb.while_(lambda s: s[0] < n, outer, [n - n, n - n])
    i, total = run(b.build(root), number(7))
    assert i == 7
    assert total == sum(i * j for i in range(7) for j in range(i + 1))


def test_loop_without_iterations() -> None:
    b = xb.XlaBuilder("never")
    x = b.parameter(xb.f32[3])
    root = xb.while_(lambda s: s[0] > 5, lambda s: (s[0], s[1] * 0), [b.constant(0, xb.s32), x])
    _, got = run(b.build(root), np.array([1, 2, 3], np.float32))
    assert got.tolist() == [1, 2, 3]


def test_array_as_loop_state() -> None:
    b = xb.XlaBuilder("array")
    x = b.parameter(S32)
    assert run(b.build(xb.while_(lambda v: v < 100, lambda v: v * 3, x)), number(2)) == 162


def test_nested_tuple_as_loop_state() -> None:
    b = xb.XlaBuilder("nested_state")
    x, y = b.parameter(S32), b.parameter(xb.f64[2])
    init = xb.tuple(xb.tuple(x, xb.tuple(y)), b.empty_tuple(), y)

    def body(state):
        (i, (v,)), nothing, w = state
        return ((i - 1, (v + w,)), nothing, w * 2)

    (i, (v,)), nothing, w = run(
        b.build(xb.while_(lambda s: s[0][0] > 0, body, init)), number(3), np.array([1.0, -1.0])
    )
    assert i == 0
    assert v.tolist() == [8.0, -8.0]
    assert nothing == ()
    assert w.tolist() == [8.0, -8.0]


def test_loop_captures_arrays() -> None:
    b = xb.XlaBuilder("captures")
    step, limit, x = b.parameter(xb.f32[3]), b.parameter(S32), b.parameter(xb.f32[3])
    root = xb.while_(
        lambda s: s[0] < limit, lambda s: (s[0] + 1, s[1] + step * 2), [limit - limit, x]
    )
    _, got = run(
        b.build(root),
        np.array([1, 2, 3], np.float32),
        number(4),
        np.array([0.5, 0, 0], np.float32),
    )
    assert got.tolist() == [8.5, 16, 24]


def test_captures_from_two_enclosing_regions() -> None:
    b = xb.XlaBuilder("two_levels")
    x, p, k = b.parameter(xb.s32[2]), b.parameter(xb.pred[()]), b.parameter(S32)

    def body(state):
        i, v = state

        def on_true(w):
            # x and k belong to the outermost builder, i to the loop's body.
            return xb.call(lambda u: u + x * k + i, w)

        return i + 1, xb.conditional(p, v, on_true, v, lambda w: w - x)

    computation = b.build(xb.while_(lambda s: s[0] < 3, body, [b.constant(0, xb.s32), x]))
    start = np.array([5, -1], np.int32)
    for chosen in (True, False):
        want = start
        for i in range(3):
            want = want + start * 10 + i if chosen else want - start
        _, got = run(computation, start, np.bool_(chosen), number(10))
        assert got.tolist() == want.tolist()


def test_one_condition_and_body_used_by_two_loops() -> None:
    @xb.computation("(s32[], s32[])")
    def condition(state):
        return state[0] < 10

    @xb.computation("(s32[], s32[])")
    def body(state):
        return state[0] + 1, state[1] + state[0]

    b = xb.XlaBuilder("shared")
    x, y = b.parameter(S32), b.parameter(S32)
    first = xb.while_(condition, body, [x, y])
    second = xb.while_(condition, body, [x, first[1]])
    got = run(b.build(second[1]), number(5), number(100))
    assert got == 100 + 2 * sum(range(5, 10))


# Branches.


def test_conditional_on_a_pred() -> None:
    b = xb.XlaBuilder("conditional")
    p, x, y = b.parameter(xb.pred[()]), b.parameter(xb.f32[2]), b.parameter(S32)
    root = xb.conditional(
        p,
        x,
        lambda v: (v * 2, xb.reduce(v, 0, xb.add, [0])),
        [y, x],
        lambda t: (t[1], t[1].builder.constant(0.5, xb.f32)),
    )
    computation = b.build(root)
    v = np.array([1, 2], np.float32)
    yes, no = (run(computation, np.bool_(c), v, number(9)) for c in (True, False))
    assert (yes[0].tolist(), float(yes[1])) == ([2, 4], 3)
    assert (no[0].tolist(), float(no[1])) == ([1, 2], 0.5)


def test_conditional_on_an_index() -> None:
    """An index out of range, negative or too large, takes the last branch."""
    b = xb.XlaBuilder("indexed")
    i, x = b.parameter(S32), b.parameter(S32)
    branches = [lambda v: v + 1, xb.neg, lambda v: v * v]
    computation = b.build(xb.conditional(i, branches, [x, x + 100, x]))
    last = 25
    for index, want in [
        *((0, 6), (1, -105), (2, last), (3, last), (1000, last), (-1, last)),
        *((-(2**31), last), (2**31 - 1, last)),
    ]:
        assert run(computation, number(index), number(5)) == want


def test_conditional_with_one_branch_and_with_many() -> None:
    b = xb.XlaBuilder("branches")
    i, x = b.parameter(S32), b.parameter(S32)
    many = [lambda v, k=k: v + k for k in range(40)]
    root = xb.tuple(xb.conditional(i, [xb.neg], [x]), xb.conditional(i, many, [x] * 40))
    computation = b.build(root)
    for index in (0, 17, 39, 40):
        one, several = run(computation, number(index), number(3))
        assert one == -3
        assert several == 3 + min(index, 39)


def test_conditional_without_operands_and_with_captures() -> None:
    b = xb.XlaBuilder("none")
    p, x, y = b.parameter(xb.pred[()]), b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
    computation = b.build(xb.conditional(p, None, lambda: x + y, None, lambda: y))
    v, w = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    assert run(computation, np.bool_(True), v, w).tolist() == [11, 22]
    assert run(computation, np.bool_(False), v, w).tolist() == [10, 20]


def test_nested_conditionals() -> None:
    b = xb.XlaBuilder("sign")
    x = b.parameter(F32)
    zero = b.constant(0, xb.f32)

    def not_positive(v):
        return xb.conditional(v < zero, v, lambda w: w * 0 - 1, v, lambda w: w * 0)

    root = xb.conditional(x > zero, x, lambda v: v * 0 + 1, x, not_positive)
    computation = b.build(root)
    for value, want in ((3, 1), (-3, -1), (0, 0)):
        assert run(computation, np.float32(value)) == want


def test_select_of_tuples() -> None:
    b = xb.XlaBuilder("select")
    p, x, y = b.parameter(xb.pred[()]), b.parameter(xb.f32[2]), b.parameter(S32)
    first, second = xb.tuple(x, xb.tuple(y)), xb.tuple(x * 2, xb.tuple(y + 1))
    computation = b.build(xb.select(p, first, second))
    v = np.array([1, 2], np.float32)
    got, (n,) = run(computation, np.bool_(True), v, number(7))
    assert (got.tolist(), int(n)) == ([1, 2], 7)
    got, (n,) = run(computation, np.bool_(False), v, number(7))
    assert (got.tolist(), int(n)) == ([2, 4], 8)


# Calls.


def test_a_computation_called_several_times_is_one_function() -> None:
    @xb.computation(xb.f32[2], F32)
    def scale(x, factor):
        return xb.mul(x, factor)

    b = xb.XlaBuilder("calls")
    x, f = b.parameter(xb.f32[2]), b.parameter(F32)
    root = xb.call(scale, xb.call(scale, xb.call(scale, x, f), f), b.constant(10, xb.f32))
    computation = b.build(root)
    assert lowering.lower(computation).text.count("func.func private") == 1
    got = run(computation, np.array([1, -1], np.float32), np.float32(3))
    assert got.tolist() == [90, -90]


def test_a_reusable_function_is_one_function_per_signature() -> None:
    @xb.computation
    def scale(pair):
        x, factor = pair
        return xb.mul(x, factor), factor + factor

    b = xb.XlaBuilder("calls")
    x, y, f = b.parameter(xb.f32[2]), b.parameter(xb.f32[()]), b.parameter(F32)
    once = scale((x, f))
    twice, _ = scale(xb.conditional(y < 0, once, lambda pair: pair, once, scale))
    computation = b.build(xb.tuple(twice, scale((y, f))[0]))
    module = lowering.lower(computation)
    assert module.text.count("func.func private") == 2
    assert module.bytecode == lowering.lower(computation).bytecode
    arguments = np.array([1, -1], np.float32), np.float32(5), np.float32(3)
    got, scalar = run(computation, *arguments)
    assert got.tolist() == [1 * 3 * 6 * 12, -1 * 3 * 6 * 12]
    assert scalar == 15


def test_a_reusable_function_as_a_reducer_a_body_and_inlined() -> None:
    @xb.computation
    def below(state):
        return state < 100

    @xb.computation
    def double(state):
        return state + state

    @xb.computation
    def larger(a, b):
        return xb.select(a > b, a, b)

    b = xb.XlaBuilder("uses")
    x = b.parameter(xb.s32[3], "x")
    most = xb.reduce(x, 0, larger, [0])
    root = xb.tuple(xb.while_(below, double, most), xb.inline(larger, x, xb.map([x], double)))
    looped, mapped = run(b.build(root), np.array([3, 7, -5], np.int32))
    assert looped == 112
    assert mapped.tolist() == [6, 14, -5]


def test_jit_of_a_reusable_function() -> None:
    @xb.computation
    def affine(x, y):
        return x * 2.0 + y

    jitted = lowering.jit(affine)
    assert jitted(np.float32(3), y=np.float32(1)) == 7
    (computation,) = jitted.computation(F32, F32).called_computations()
    assert computation is affine.computation(F32, F32)
    assert lowering.compile(affine.computation(F32, F32), "cpu")(np.float32(3), np.float32(1)) == 7


def test_functions_that_share_a_name() -> None:
    def named(add: int) -> xb.XlaComputation:
        b = xb.XlaBuilder("main")  # also the name of the entry function
        return b.build(b.parameter(S32, "x") + add)

    b = xb.XlaBuilder("main")
    x = b.parameter(S32)
    root = xb.call(named(1), xb.call(named(10), xb.call(named(100), x)))
    assert run(b.build(root), number(0)) == 111


def test_call_captures() -> None:
    b = xb.XlaBuilder("call")
    x, y = b.parameter(xb.s32[2]), b.parameter(xb.s32[2])
    root = xb.call(lambda v: xb.call(lambda w: w * y + x, v + x), y)
    v, w = np.array([1, 2], np.int32), np.array([3, 4], np.int32)
    assert run(b.build(root), v, w).tolist() == ((w + v) * w + v).tolist()


def test_call_of_tuples() -> None:
    @xb.computation("(s32[2], (f32[], ()))", S32)
    def swap(nested, n):
        v, (s, nothing) = nested
        return (s, nothing), (v, n)

    b = xb.XlaBuilder("tuples")
    p, n = b.parameter("(s32[2], (f32[], ()))"), b.parameter(S32)
    (s, nothing), (v, m) = run(
        b.build(xb.call(swap, p, n)), (np.array([1, 2], np.int32), (np.float32(0.5), ())), number(4)
    )
    assert (float(s), nothing, v.tolist(), int(m)) == (0.5, (), [1, 2], 4)


def test_call_of_a_computation_without_parameters() -> None:
    one = xb.XlaBuilder("one")
    constant = one.build(one.constant([1, 2], xb.s32))
    b = xb.XlaBuilder("caller")
    root = xb.add(b.call(constant), b.call(constant))
    assert run(b.build(root)).tolist() == [2, 4]


def test_computation_without_parameters() -> None:
    b = xb.XlaBuilder("nothing_in")
    assert run(b.build(b.iota(xb.s32[3]))).tolist() == [0, 1, 2]


def chain_of_calls(depth: int) -> xb.XlaComputation:
    """Return a chain of nested calls; each adds 1."""
    computation = None
    for level in range(depth):
        b = xb.XlaBuilder(f"level{level}")
        x = b.parameter(S32, "x")
        computation = b.build((x if computation is None else xb.call(computation, x)) + 1)
    assert computation is not None
    return computation


def test_a_deep_chain_of_calls() -> None:
    assert run(chain_of_calls(100), number(0)) == 100


def test_a_deeper_chain_of_calls_is_lowered_and_printed() -> None:
    """Recording, printing and lowering do not recurse over calls; XLA's compiler does."""
    computation = chain_of_calls(3000)
    assert lowering.lower(computation).text.count("func.func private") == 2999
    assert hlo_conversion.hlo_text_to_stablehlo(str(computation))


# Tuples.


def test_nested_parameters_and_results() -> None:
    b = xb.XlaBuilder("nested")
    p = b.parameter("((f32[2], s8[]), (), pred[3])", "p")
    q = b.parameter(xb.f64[()], "q")
    (x, n), nothing, flags = p
    root = xb.tuple(q, xb.tuple(flags, nothing, xb.tuple(xb.tuple(n))), xb.tuple(x, p))
    v, m = np.array([1, 2], np.float32), np.int8(-3)
    mask, s = np.array([True, False, True]), np.float64(0.1)
    got = run(b.build(root), ((v, m), (), mask), s)
    assert got[0] == 0.1
    assert got[1][0].tolist() == mask.tolist()
    assert got[1][1] == ()
    assert got[1][2][0][0] == -3
    again, ((v2, m2), nothing2, mask2) = got[2]
    assert again.tolist() == v2.tolist() == [1, 2]
    assert (int(m2), nothing2, mask2.tolist()) == (-3, (), mask.tolist())


def test_empty_tuples() -> None:
    b = xb.XlaBuilder("empty")
    assert run(b.build(b.empty_tuple())) == ()
    b = xb.XlaBuilder("parameter")
    p = b.parameter("()")
    assert run(b.build(xb.tuple(p, xb.tuple(p))), ()) == ((), ((),))


def test_a_very_deep_tuple() -> None:
    b = xb.XlaBuilder("deep")
    value = b.parameter(S32)
    for _ in range(500):
        value = xb.tuple(value)
    for _ in range(250):
        value = value[0]
    got = run_stablehlo_only(b.build(value), number(3))
    for _ in range(250):
        (got,) = got
    assert int(got) == 3


def run_stablehlo_only(computation: xb.XlaComputation, *arguments):
    """Run without a comparison with the HLO text, whose parser is recursive."""
    return lowering.compile(computation)(*arguments)


def test_results_that_are_parameters() -> None:
    b = xb.XlaBuilder("identity")
    x = b.parameter(xb.f32[2])
    v = np.array([1, 2], np.float32)
    assert run(b.build(x), v).tolist() == [1, 2]
    b = xb.XlaBuilder("twice")
    x, y = b.parameter(xb.f32[2]), b.parameter(S32)
    square = x * x
    got = run(b.build(xb.tuple(x, square, y, square, x)), v, number(3))
    assert [g.tolist() for g in got] == [[1, 2], [1, 4], 3, [1, 4], [1, 2]]


def test_unused_parameters_and_ops() -> None:
    b = xb.XlaBuilder("unused")
    x, _, z = (b.parameter(xb.f32[2], n) for n in "xyz")
    xb.exp(z)
    v = np.array([1, 2], np.float32)
    assert run(b.build(x + x), v, v, v).tolist() == [2, 4]


def test_a_root_that_is_not_the_last_op() -> None:
    b = xb.XlaBuilder("early")
    x = b.parameter(S32)
    y = x + 1
    xb.neg(y)
    assert run(b.build(y), number(1)) == 2


def test_three_hundred_parameters() -> None:
    b = xb.XlaBuilder("many")
    parameters = [b.parameter(S32, f"x{i}") for i in range(300)]
    total = parameters[0]
    for i, p in enumerate(parameters[1:], 1):
        total = total + p * i
    got = run(b.build(total), *[number(i % 7) for i in range(300)])
    assert got == sum(i % 7 * i for i in range(300))


def test_parameters_recorded_out_of_order() -> None:
    b = xb.XlaBuilder("order")
    y = b.parameter(S32, "y", number=1)
    x = b.parameter(S32, "x", number=0)
    assert run(b.build(x - y), number(10), number(3)) == 7


# Barriers and tokens.


def test_optimization_barrier() -> None:
    b = xb.XlaBuilder("barrier")
    x, n = b.parameter(xb.f32[2]), b.parameter(S32)
    held = xb.optimization_barrier(xb.tuple(x, xb.tuple(n, b.empty_tuple())))
    root = xb.tuple(
        xb.optimization_barrier(x),
        held,
        xb.optimization_barrier(b.empty_tuple()),
        held[0] + held[0],
    )
    computation = b.build(root)
    one, (two, (m, nothing)), empty, four = run(
        computation, np.array([1, 2], np.float32), number(5)
    )
    assert [one.tolist(), two.tolist(), four.tolist()] == [[1, 2], [1, 2], [2, 4]]
    assert (int(m), nothing, empty) == (5, (), ())
    # One for each barrier with operands.
    assert lowering.lower(computation).text.count("stablehlo.optimization_barrier") == 2


@each_row("how", ["barrier", "while", "conditional", "call", "nothing"])
def test_tokens_in_control_flow(how: str) -> None:
    b = xb.XlaBuilder(f"token_{how}")
    token, x = b.parameter("token[]"), b.parameter(S32)
    state = xb.tuple(token, x)
    if how == "barrier":
        state = xb.optimization_barrier(state)
    elif how == "while":
        state = xb.while_(lambda s: s[1] < 3, lambda s: (s[0], s[1] + 1), state)
    elif how == "conditional":
        state = xb.conditional(x > 0, state, lambda s: s, state, lambda s: (s[0], -s[1]))
    elif how == "call":
        state = xb.call(lambda s: (s[0], s[1] * 1), state)
    got, number_back = run(b.build(state), None, number(3))
    assert got is None
    assert number_back == 3


@pytest.mark.parametrize("depth", [20])
def test_loops_nested_deep(depth: int) -> None:
    def once(state, left: int):
        """Return nested loops of one iteration each."""
        if left == 0:
            return state + 1
        return xb.while_(
            lambda s: s[0] < 1,
            lambda s: (s[0] + 1, once(s[1], left - 1)),
            [state - state, state],
        )[1]

    b = xb.XlaBuilder("deep")
    assert run(b.build(once(b.parameter(S32), depth)), number(41)) == 42


def test_a_failed_op_in_a_body_and_the_same_value_after_it() -> None:
    b = xb.XlaBuilder("recovered")
    x, y, n = (b.parameter(xb.f32[3], name) for name in ("x", "y", "n"))

    def body(state):
        i, total = state
        with pytest.raises(xb.XlaError):
            xb.select(total > 0.0, x, 1j)
        with pytest.raises(xb.XlaError):
            xb.conditional(i < 2, None, lambda: x, None, lambda: xb.tuple(x))
        return i + 1, total * y + x

    computation = b.build(xb.while_(lambda s: s[0] < 3, body, (b.constant(0, xb.s32), n)))
    _, got = run(computation, *(np.full(3, v, np.float32) for v in (10, 3, 2)))
    np.testing.assert_array_equal(got, np.full(3, 184, np.float32))


# Scans.


def scanned(
    values: np.ndarray, start: np.ndarray, dimension: int, *, reverse: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the running sums in the type of the values, and the final sum."""
    total, sums = start, []
    for index in range(values.shape[dimension])[:: -1 if reverse else 1]:
        total = (total + np.take(values, index, dimension)).astype(values.dtype)
        sums.append(total)
    sums = sums[::-1] if reverse else sums
    shape = (*values.shape[:dimension], 0, *values.shape[dimension + 1 :])
    return (np.stack(sums, dimension) if sums else np.zeros(shape, values.dtype)), total


def sums_of(
    b: xb.XlaBuilder, t: xb.PrimitiveType, sizes: tuple[int, ...], dimension: int, **options: bool
) -> xb.XlaOp:
    x = b.parameter(t[sizes])
    start = b.parameter(t[sizes[:dimension] + sizes[dimension + 1 :]])
    step = xb.or_ if t is xb.pred else xb.add
    return xb.scan(x, start, lambda e, c: (step(e, c), step(e, c)), dimension, **options)


def running_sums(
    t: xb.PrimitiveType, sizes: tuple[int, ...], dimension: int, **options: bool
) -> xb.XlaComputation:
    b = xb.XlaBuilder("sums")
    return b.build(sums_of(b, t, sizes, dimension, **options))


@pytest.mark.slow
def test_scan_of_every_type() -> None:
    rng = np.random.default_rng(5)
    b = xb.XlaBuilder("sums")
    # Every second type in reverse: the direction makes no difference for a type.
    sums = [sums_of(b, t, (3, 4), 1, is_reverse=n % 2 > 0) for n, t in enumerate(ALL)]
    arrays = [(rng.integers(0, 2, (3, 4)).astype(t.dtype), np.ones(3).astype(t.dtype)) for t in ALL]
    results = run(b.build(xb.tuple(*sums)), *(one for pair in arrays for one in pair))
    for n, (t, pair, got) in enumerate(zip(ALL, arrays, results, strict=True)):
        narrow = t.is_integral and t.bits < 8  # types of ml_dtypes do not wrap like those of NumPy
        want = scanned(*(p.astype(np.int8) if narrow else p for p in pair), 1, reverse=n % 2 > 0)
        for mine, other in zip(got, want, strict=True):
            if narrow:
                other = ((other - int(t.min)) % 2**t.bits + int(t.min)).astype(t.dtype)
            assert_same_bits(mine, other)


@pytest.mark.parametrize(
    ("sizes", "dimension"), [((0,), 0), ((2, 0), 1), ((0, 3), 1), ((7,), 0), ((3, 2000), 1)]
)
def test_scan_of_shapes(sizes: tuple[int, ...], dimension: int) -> None:
    values = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    start = np.full(sizes[:dimension] + sizes[dimension + 1 :], 3, np.int32)
    got = run(running_sums(xb.s32, sizes, dimension, is_associative=True), values, start)
    for mine, other in zip(got, scanned(values, start, dimension, reverse=False), strict=True):
        assert_same_bits(mine, other)


def test_scan_without_inputs_outputs_or_carries() -> None:
    b = xb.XlaBuilder()
    x, start = b.parameter(xb.s32[4]), b.parameter(S32)
    root = xb.tuple(
        xb.scan([], start, lambda c: (c, c * 2), 0, 5),
        xb.scan([], start, lambda c: (c, c * 2), 0, 0),
        xb.scan(x, start, lambda e, c: c * 10 + e, 0),
        xb.scan(x, [], lambda e: (e, e * e), 0),
    )
    powers, nothing, digits, squares = run(b.build(root), np.arange(4, dtype=np.int32), number(1))
    assert [p.tolist() for p in powers] == [[1, 2, 4, 8, 16], 32]
    assert [n.tolist() for n in nothing] == [[], 1]
    assert [d.tolist() for d in digits] == [10123]
    assert [s.tolist() for s in squares] == [[0, 1, 2, 3], [0, 1, 4, 9]]


def test_scan_without_inputs_and_outputs() -> None:
    """The steps of an ODE: only scan_dimension_size has their number."""
    b = xb.XlaBuilder()
    start, slope = b.parameter(F32, "start"), b.parameter(F32, "slope")
    root = xb.tuple(
        xb.scan([], [start, 0], lambda y, n: (y + slope * 0.5, n + 1), 1, 6, is_reverse=True),
        xb.scan([], start, lambda y: y * slope, 0, 3),
        xb.scan([], start, xb.neg, 0, 0),
    )
    computation = b.build(root)
    assert str(computation.program_shape.result) == "((f32[], s32[]), (f32[]), (f32[]))"
    euler, power, same = run(computation, np.float32(1), np.float32(3))
    assert [e.tolist() for e in (*euler, *power, *same)] == [10, 6, 27, 1]
    assert computation.stats().loops[0].trip_count == 6


def test_scan_of_other_shapes_and_types_within_a_scan() -> None:
    """The recurrence h = tanh(h W + x) over time, in each of two layers."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal((6, 2, 3)).astype(np.float32)
    weights = rng.standard_normal((2, 3, 3)).astype(np.float32)
    b = xb.XlaBuilder()
    xs, ws = b.parameter(xb.f32[6, 2, 3]), b.parameter(xb.f32[2, 3, 3])

    def layer(weight, sequence):
        def step(element, state, weight, count):
            state = xb.tanh(xb.dot(state, weight) + element)
            return state, state, weight, count + 1

        zero = xb.broadcast(sequence.builder.constant(0.0, xb.f32), [2, 3])
        none = sequence.builder.constant(0, xb.s32)
        outputs, _, _, count = xb.scan(sequence, [zero, weight, none], step, 0)
        return count, outputs

    counts, last = run(b.build(xb.scan(ws, xs, layer, 0)), x, weights)
    assert counts.tolist() == [6, 6]
    sequence = x
    for weight in weights:
        state, outputs = np.zeros((2, 3), np.float32), []
        for element in sequence:
            state = np.tanh(state @ weight + element)
            outputs.append(state)
        sequence = np.stack(outputs)
    np.testing.assert_allclose(last, sequence, rtol=1e-5, atol=1e-6)


def test_scan_that_captures() -> None:
    """A recurrence with weights and a nested tuple of the enclosing builder, against NumPy."""
    rng = np.random.default_rng(4)
    x = rng.integers(-3, 3, (6, 2)).astype(np.int32)
    weights = rng.integers(-3, 3, (2, 2)).astype(np.int32)
    scale, shift = np.int32(3), np.array([1, -1], np.int32)
    b = xb.XlaBuilder()
    xs, w = b.parameter(xb.s32[6, 2]), b.parameter(xb.s32[2, 2])
    pair = xb.tuple(b.parameter(S32), xb.tuple(b.parameter(xb.s32[2]), b.parameter(S32)))
    two = b.constant(2, xb.s32)

    def step(element, state, count):
        scale, (shift, _) = pair
        state = xb.dot(w, state) + element * scale + shift
        inner = xb.scan(state, 0, lambda e, c: (e * two, c + xb.reduce(w, 0, xb.add, [0, 1])), 0)
        return state, inner[0], state, count + 1 + inner[1] * 0

    root = xb.scan(xs, [b.constant(shift), 0], step, 0, is_reverse=True)
    states, doubles, last, count = run(b.build(root), x, weights, scale, shift, np.int32(9))
    want, state = [], shift
    for row in x[::-1]:
        state = weights @ state + row * scale + shift
        want.append(state)
    assert_same_bits(states, np.stack(want[::-1]))
    assert_same_bits(doubles, np.stack(want[::-1]) * 2)
    assert_same_bits(last, want[-1])
    assert count == 6


def test_numbers_in_loops() -> None:
    b = xb.XlaBuilder()
    x, n = b.parameter(xb.f64[3]), b.parameter(S32)
    loop = xb.while_(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + 0.1, s[2] * x), (0, 0.1, x))
    sums = xb.scan(x, 0.1, lambda e, c: (e + c, e + c), 0)
    values = np.array([1.5, -2, 0.1])
    (count, total, power), (outputs, last) = run(b.build(xb.tuple(loop, sums)), values, number(4))
    assert count == 4
    assert total == 0.1 + 0.1 + 0.1 + 0.1 + 0.1
    np.testing.assert_allclose(power, values**5, rtol=1e-15)
    assert_same_bits(outputs, np.array(_running(values, 0.1)))
    assert last == _running(values, 0.1)[-1]


def _running(values: np.ndarray, total: float) -> list[float]:
    sums = []
    for value in values.tolist():
        total = value + total
        sums.append(total)
    return sums


def test_a_scan_can_be_saved_for_other_versions() -> None:
    module = lowering.lower(running_sums(xb.f32, (4,), 0))
    again = lowering.load_bytes(module.artifact("minimum"))
    got = lowering.compile(again)(np.ones(4, np.float32), np.float32(0))
    assert np.asarray(got[0]).tolist() == [1, 2, 3, 4]


def test_scan_over_a_dynamic_size_is_refused() -> None:
    b = xb.XlaBuilder()
    root = xb.scan(b.parameter("f32[<=4]"), b.parameter(F32), lambda e, c: (e, c), 0)
    with pytest.raises(lowering.LoweringError, match=r"must have static sizes.*got f32\[<=4\]"):
        lowering.lower(b.build(root))


# Composites.


def test_composite_is_one_operation_with_a_decomposition() -> None:
    b = xb.XlaBuilder("main")
    x, y = b.parameter(xb.f32[3]), b.parameter(xb.f32[3])

    def fma(v, w):
        return v * w + y

    facts = {"exact": True, "axes": [0, 1], "name": 'quoted "é}"', "rate": np.float32(0.5)}
    one = xb.composite_call(fma, [x, x], "mine.fma", facts, 7)
    computation = b.build(xb.composite_call(fma, [one, x], "mine.fma"))
    text = lowering.lower(computation).text
    assert text.count('stablehlo.composite "mine.fma"') == 2
    assert "version = 7 : i32" in text
    assert "axes = [0, 1], exact = true" in text
    assert "rate = 5.000000e-01 : f32" in text
    assert text.count("func.func private") == 2
    # XLA's parser and translation preserve the attributes in the HLO text.
    context = mlir.new_context()
    module = mlir.read_module(context, hlo_conversion.hlo_text_to_stablehlo(str(computation)))
    facts_text = text.partition("{composite_attributes = ")[2].partition(", decomposition")[0]
    assert facts_text in str(module)
    values, more = np.arange(3, dtype=np.float32), np.full(3, 0.5, np.float32)
    want = (values * values + more) * values + more
    assert_same_bits(run(computation, values, more), want)


@pytest.mark.parametrize("sizes", [(), (0, 2), (500, 20)])
def test_composite_with_several_results_and_frontend_attributes(sizes: tuple[int, ...]) -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.s32[sizes])
    with b.frontend_attributes({"stage": "1"}):
        both = xb.composite_call(lambda v: (v + 1, xb.tuple(v * 2)), x, "mine.both")
    values = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    more, (double,) = run(b.build(both), values)
    assert_same_bits(more, values + 1)
    assert_same_bits(double, values * 2)


@each_row(
    "text, message",
    [
        ("{n = 1 : i64} {}", "must be the text of an MLIR dictionary, got '{n = 1 : i64} {}'"),
        ("{n = 1 : x}", "must be the text of an MLIR dictionary"),
        ("{n = " + "[" * 100_000 + "]" * 100_000 + "}", "may nest at most"),
    ],
)
def test_attributes_of_composites_are_parsed(text: str, message: str) -> None:
    root = xb.composite_call(xb.neg, xb.XlaBuilder().parameter(xb.f32[2]), "mine.neg", text)
    with pytest.raises(lowering.LoweringError, match=r"lower: composite, .*") as caught:
        lowering.lower(root.builder.build(root))
    assert message in str(caught.value)


def test_composite_survives_an_artifact() -> None:
    b = xb.XlaBuilder()
    root = xb.composite_call(xb.square, b.parameter(xb.f32[2]), "mine.square", {"n": 1})
    module = lowering.load_bytes(lowering.lower(b.build(root)).artifact())
    assert "composite_attributes = {n = 1 : i64}" in module.text
    assert np.asarray(lowering.compile(module)(np.full(2, 3, np.float32))).tolist() == [9, 9]


def test_composites_of_composites_are_counted_as_calls() -> None:
    def nested(depth: int) -> xb.XlaComputation:
        b = xb.XlaBuilder(f"level{depth}")
        x = b.parameter(F32)
        inner = xb.composite_call(nested(depth - 1), x, "mine.level") if depth else x + 1.0
        return b.build(inner)

    with pytest.raises(
        lowering.CompileError, match=r"calls can be nested at most 150 deep, .*, got 200"
    ):
        lowering.compile(nested(200))
    assert np.asarray(lowering.compile(nested(20))(np.float32(1))) == 2
