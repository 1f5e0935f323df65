"""`composites="inline"` and `without=[...]`: what is replaced, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from builder import lib
from lowering.errors import LoweringError
from lowering.mlir.operations import operations_in
from lowering.reading.module_reader import artifact_version


def _computation(function: Callable[..., Any], *shapes: xb.Shape) -> xb.XlaComputation:
    b = xb.XlaBuilder("program")
    result = function(*(b.parameter(shape) for shape in shapes))
    return b.build(result if isinstance(result, xb.XlaOp) else xb.tuple(*result))


def _names(module: lowering.StablehloModule) -> set[str]:
    return {operation.name for operation in operations_in(module.module.operation)}


_RANDOM = np.random.default_rng(0)
_VECTOR = _RANDOM.uniform(0.1, 0.9, 8).astype(np.float32)
_MATRIX = _RANDOM.standard_normal((4, 4)).astype(np.float32)
_COMPOSED: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "top_k": (lambda x: xb.top_k(x, 2), _VECTOR),
    "top_k of the smallest": (lambda x: xb.top_k(x, 2, largest=False), _VECTOR),
    "gelu": (lambda x: lib.gelu(x, approximate=False), _VECTOR),
    "special functions": (lambda x: (xb.erf(x), xb.asin(x), lib.igamma(x, x)), _VECTOR),
    "erf of f8": (lambda x: xb.erf(xb.convert_element_type(x, xb.f8e5m2)), _VECTOR),
    "factors": (lambda x: (*lib.qr(x), *lib.lu(x)), _MATRIX),
    "values": (lambda x: (lib.svdvals(x), lib.eigvalsh(x + xb.transpose(x, [1, 0]))), _MATRIX),
    "in a loop": (
        lambda x: xb.while_(
            lambda s: s[0] < 3,
            lambda s: (s[0] + 1, xb.erf(s[1])),
            (x.builder.constant(0, xb.s32), x),
        )[1],
        _VECTOR,
    ),
}


@pytest.mark.parametrize("name", _COMPOSED)
def test_inlined_composites_are_written_for_the_oldest_version(name):
    function, array = _COMPOSED[name]
    computation = _computation(function, xb.array_shape(array.dtype, array.shape))
    original = lowering.lower(computation)
    module = lowering.lower(computation, composites="inline")
    names = _names(module)
    assert not [n for n in names if n.startswith(("chlo.", "mhlo."))]
    assert names.isdisjoint({"stablehlo.composite", "stablehlo.custom_call"})
    data = module.artifact("minimum")
    assert artifact_version(data) == "0.9.0"
    expected, actual = (
        lowering.compile(each, "cpu")(array) for each in (original, lowering.load_bytes(data))
    )
    if isinstance(expected, tuple):
        assert [x.shape for x in actual] == [x.shape for x in expected]
        expected, actual = (
            np.concatenate([np.abs(np.ravel(x)) for x in results]) for results in (expected, actual)
        )
    np.testing.assert_allclose(
        np.asarray(actual, np.float64), np.asarray(expected, np.float64), rtol=1e-4, atol=1e-5
    )


def test_equal_operations_share_a_function():
    module = lowering.lower(
        _computation(lambda x, y: (xb.erf(x), xb.erf(x + 1), xb.erf(y)), xb.f32[4], xb.f32[2]),
        composites="inline",
    )
    functions = [o for o in operations_in(module.module.operation) if o.name == "func.func"]
    assert len(functions) == 5  # main; erf of f32[4] and f32[2], which call the polynomials
    assert "stablehlo.composite" not in module.text


def test_a_module_of_another_program_is_not_changed(tmp_path):
    text = (
        "func.func @main(%x: tensor<4x4xf32>, %y: tensor<?xf32>) -> "
        "(tensor<4x4xf32>, tensor<?xf32>) { %0 = stablehlo.cholesky %x : tensor<4x4xf32> "
        "%1 = chlo.erf %y : tensor<?xf32> -> tensor<?xf32> "
        "return %0, %1 : tensor<4x4xf32>, tensor<?xf32> }"
    )
    module = lowering.load_bytes(text)
    before = module.text
    path = tmp_path / "a.mlir"
    module.save(path, without=["cholesky"])
    assert module.text == before
    saved = path.read_text()
    assert "stablehlo.cholesky" not in saved
    assert "chlo.erf" in saved
    assert "call @cholesky(" in saved


def test_names_of_ops_and_operations():
    """The name of the op, and that of the operation with or without its dialect."""
    computation = _computation(lambda x: xb.round(xb.real(xb.fft(x, "RFFT", [4]))), xb.f32[4])
    for names in (["fft", "round"], ("stablehlo.fft", "round_nearest_afz"), {"fft", "round"}):
        module = lowering.lower(computation, without=names)
        assert _names(module).isdisjoint({"stablehlo.fft", "stablehlo.round_nearest_afz"})


def test_expansions_are_expanded():
    module = lowering.lower(
        _computation(lambda x: lib.solve(x, x), xb.f32[4, 4]),
        composites="inline",
        without=["triangular_solve", "custom_call", "optimization_barrier"],
    )
    assert "stablehlo.triangular_solve" not in _names(module)
    np.testing.assert_allclose(lowering.interpret(module, _MATRIX), np.eye(4), atol=1e-5)


def test_sharding_calls_are_dropped():
    module = lowering.load_bytes(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.custom_call "
        '@Sharding(%x) {mhlo.sharding = "{replicated}"} : (tensor<4xf32>) -> tensor<4xf32> '
        "return %0 : tensor<4xf32> }"
    )
    assert (
        "custom_call"
        not in lowering.lower(lowering.to_computation(module), without=["custom_call"]).text
    )


_LIST = (
    "composites, and these operations, have expansions: batch_norm_grad, batch_norm_inference, "
    "batch_norm_training, cbrt, cholesky, clamp, count_leading_zeros, exponential_minus_one, fft, "
    "is_finite, log_plus_one, logistic, optimization_barrier, popcnt, reduce_precision, "
    "rng_bit_generator, round_nearest_afz, round_nearest_even, tan, triangular_solve"
)


def test_what_has_no_expansion_is_refused(tmp_path):
    b = xb.XlaBuilder("program")
    called = xb.custom_call("mine", [xb.sort(b.parameter(xb.f32[4], "x"))], xb.f32[4])
    computation = b.build(called)
    for names, subject in ((["sort"], "sort"), (["custom_call"], "custom_call of 'mine'")):
        with pytest.raises(LoweringError) as caught:
            lowering.lower(computation, without=names)
        assert str(caught.value).startswith(
            f"lower: {subject}, recorded at {called.source}, in 'program' has no expansion, got "
            f"without={names}\nfix: omit {names[0]!r} from without, or record the program without "
            f"the operation; {_LIST}"
        )
    with pytest.raises(LoweringError, match=r"save: sort, recorded at .*has no expansion"):
        lowering.lower(computation).save(tmp_path / "a.mlir", without=["sort"])
    assert not list(tmp_path.iterdir())
    with pytest.raises(LoweringError, match=r"while, in the expansion of cholesky, recorded at"):
        lowering.lower(_computation(xb.cholesky, xb.f32[4, 4]), without=["while", "cholesky"])
    # Functions of the library have no lines.
    program = _computation(lambda x: lib.qr(x)[1], xb.f32[4, 4])
    needed = rf"while, needed by \w+, recorded at {re.escape(__file__)}:\d+, in 'program'"
    with pytest.raises(LoweringError, match=needed):
        lowering.lower(program, without=["while", "composite"])
    with pytest.raises(LoweringError, match=r"cholesky.* has no expansion, .*: iota: shape must"):
        lowering.lower(
            _computation(xb.cholesky, xb.parse_shape("f32[<=4,4,4]")), without=["cholesky"]
        )


@each_row(
    "arguments, message",
    [
        ({"without": "fft"}, r"must be a list of names .*, got 'fft'\nfix: pass without=\['fft'\]"),
        ({"without": 3}, "without must be a list of names of operations, got 3"),
        ({"without": ["choleski"]}, r"got 'choleski'\nfix: did you mean 'cholesky'\?"),
        ({"without": [3]}, "without must have names of operations, got 3"),
        ({"composites": "drop"}, "composites must be 'keep' or 'inline', got 'drop'"),
    ],
)
def test_invalid_arguments(arguments, message):
    computation = _computation(xb.erf, xb.f32[4])
    with pytest.raises(xb.OperandError, match=f"^lower: .*{message}"):
        lowering.lower(computation, **arguments)
