"""The accuracy of transcendental functions, in HLO text and in StableHLO."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from jax.lax import AccuracyMode, Tolerance

import builder as xb
import lowering
from lowering.jaxlib_api import hlo_conversion, versions

FUNCTIONS = {
    "cbrt": np.cbrt,
    "cos": np.cos,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""The functions with an accuracy, and NumPy's functions."""

HIGHEST = xb.ResultAccuracy(mode="HIGHEST")
ACCURACIES = [
    HIGHEST,
    xb.ResultAccuracy(ulps=10),
    xb.ResultAccuracy(0.1, 1e-300, 2**53 - 1),
    xb.ResultAccuracy(np.nextafter(0.1, 1), np.float32(0.1)),
    xb.ResultAccuracy(float("inf"), 1e308),
    xb.ResultAccuracy(),
]


def of(name: str, accuracy: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("accurate")
    return b.build(getattr(xb, name)(b.parameter(xb.f32[3], "x"), accuracy))


def accuracy_of(computation: xb.XlaComputation) -> xb.ResultAccuracy | None:
    accuracy: xb.ResultAccuracy | None = computation.root.attributes.get("result_accuracy")
    return accuracy


def test_the_functions_are_those_of_stablehlo() -> None:
    taking = {
        n for n, info in xb.OPERATIONS.items() if "result_accuracy" in str(info.schema.attributes)
    }
    assert taking == set(FUNCTIONS)


def accuracies_of(computation: xb.XlaComputation) -> list[xb.ResultAccuracy | None]:
    """Return the accuracies of the elements of a tuple."""
    return [op.attributes.get("result_accuracy") for op in computation.root.operands]


def test_every_function() -> None:
    """XLA parses and prints the accuracy; an import from StableHLO or HLO keeps it."""
    b = xb.XlaBuilder("accurate")
    p = b.parameter(xb.f32[3], "x")
    computation = b.build(xb.tuple(*(getattr(xb, name)(p, HIGHEST) for name in FUNCTIONS)))
    parsed = hlo_conversion.parsed_hlo_text(str(computation))
    module = lowering.lower(computation)
    for name in FUNCTIONS:
        opcode = xb.OPERATIONS[name].opcode
        written = opcode.replace("_", "-")
        assert len(re.findall(rf" {written}\(.*result_accuracy={{mode=highest}}", parsed)) == 1
        assert len(re.findall(rf"\.{opcode} .*result_accuracy_mode<HIGHEST>>", str(module))) == 1
    every = [HIGHEST] * len(FUNCTIONS)
    assert accuracies_of(lowering.to_computation(module)) == every
    assert accuracies_of(lowering.from_hlo(str(computation))) == every
    x = np.array([0.25, 0.5, 1.5], np.float32)
    for name, result in zip(FUNCTIONS, lowering.compile(computation)(x), strict=True):
        np.testing.assert_allclose(result, FUNCTIONS[name](x), rtol=1e-6, err_msg=name)


def test_every_accuracy() -> None:
    """The tolerances keep all bits."""
    b = xb.XlaBuilder("accurate")
    p = b.parameter(xb.f32[3], "x")
    computation = b.build(xb.tuple(*(xb.exp(p, accuracy) for accuracy in ACCURACIES)))
    module = lowering.lower(computation)
    assert accuracies_of(lowering.to_computation(str(module))) == ACCURACIES
    assert accuracies_of(lowering.from_hlo(str(computation))) == ACCURACIES
    proto = hlo_conversion.hlo_proto(str(computation))
    assert accuracies_of(lowering.from_hlo(proto)) == ACCURACIES
    translated = hlo_conversion.stablehlo_to_hlo_text(module.bytecode)
    parsed = hlo_conversion.parsed_hlo_text(str(computation))
    expected = re.findall(r"result_accuracy=(.*)", translated)
    assert len(expected) == len(ACCURACIES)
    for accuracy in expected:
        assert accuracy in parsed
    for result in lowering.compile(computation)(np.zeros(3, np.float32)):
        assert result.tolist() == [1, 1, 1]


def test_the_default_is_not_written() -> None:
    for accuracy in (None, "DEFAULT", xb.ResultAccuracy(mode="DEFAULT")):
        computation = of("exp", accuracy)
        assert computation.root.attributes == {}
        assert "accuracy" not in str(computation)
        assert "accuracy" not in str(lowering.lower(computation))
    text = str(lowering.lower(of("exp", HIGHEST))).replace("HIGHEST", "DEFAULT")
    assert accuracy_of(lowering.to_computation(text)) is None


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [
        (AccuracyMode.HIGHEST, HIGHEST),
        (AccuracyMode.DEFAULT, None),
        (Tolerance(1e-5, 0.25, 7), xb.ResultAccuracy(1e-5, 0.25, 7)),
    ],
)
def test_import_from_jax(accuracy: Any, expected: xb.ResultAccuracy | None) -> None:
    def function(x: Any) -> Any:
        return jax.lax.tanh(x, accuracy=accuracy)

    traced = jax.jit(function).trace(np.ones(2, np.float32))
    assert accuracy_of(lowering.to_computation(traced)) == expected
    assert accuracy_of(lowering.from_hlo(traced)) == expected


@pytest.mark.parametrize(("name", "version"), [("exp", "1.9.0"), ("tanh", "1.10.0")])
def test_older_versions_of_stablehlo(name: str, version: str) -> None:
    module = lowering.lower(of(name, HIGHEST))
    with pytest.raises(lowering.VersionError) as caught:
        module.artifact("1.8.0")
    operation = xb.OPERATIONS[name].opcode
    assert str(caught.value).startswith(
        f"artifact: StableHLO 1.8.0 can't express the attribute result_accuracy of the operation "
        f"{operation} of accurate (needed by {name}, recorded at {__file__}:"
    )
    assert str(caught.value).endswith(
        f"; available from {version})\n"
        f"fix: write version {version} or newer, up to {versions.current_version()}"
    )
    read = lowering.load_bytes(module.artifact(version))
    assert accuracy_of(lowering.to_computation(read)) == HIGHEST


def test_chlo_and_mhlo_have_the_attribute_of_tan() -> None:
    for dialect, types in (("mhlo", "stablehlo"), ("chlo", "")):
        result = " -> tensor<2xf32>" if dialect == "chlo" else ""
        owner = "mhlo" if types else "stablehlo"
        text = (
            f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n"
            f"  %0 = {dialect}.tan %x {{result_accuracy = #{owner}.result_accuracy<ulps = 3, "
            f"mode = #{owner}.result_accuracy_mode<TOLERANCE>>}} : tensor<2xf32>{result}\n"
            f"  return %0 : tensor<2xf32>\n}}"
        )
        assert accuracy_of(lowering.to_computation(text)) == xb.ResultAccuracy(ulps=3)


NAN = (
    "#stablehlo.result_accuracy<atol = 0x7FF8000000000000, "
    "mode = #stablehlo.result_accuracy_mode<TOLERANCE>>"
)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (NAN, "atol must be a number that is not negative, got nan"),
        ("3 : i32", "result_accuracy must be a result accuracy, got 3 : i32"),
    ],
)
def test_import_of_attributes_that_xla_refuses(attribute: str, message: str) -> None:
    text = (
        f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n"
        f"  %0 = chlo.tan %x {{result_accuracy = {attribute}}} : tensor<2xf32> -> tensor<2xf32>\n"
        f"  return %0 : tensor<2xf32>\n}}"
    )
    with pytest.raises(lowering.LoweringError) as caught:
        lowering.to_computation(text)
    assert message in str(caught.value)
    assert re.search(r"recorded at \S+:2\b", str(caught.value))


@pytest.mark.parametrize("name", ["exp", "cbrt"])
def test_a_tolerance_of_nan_is_refused_before_xla_compiles(name: str) -> None:
    text = (
        f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n"
        f"  %0 = stablehlo.{xb.OPERATIONS[name].opcode} %x {{result_accuracy = {NAN}}} : "
        f"tensor<2xf32>\n  return %0 : tensor<2xf32>\n}}"
    )
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(text)
    operation = xb.OPERATIONS[name].opcode
    assert re.match(
        rf"compile: main: {operation}, recorded at \S+:2, can't run on cpu: XLA does not support a "
        r"tolerance of NaN\nfix: write 0 or a positive number as atol and rtol of result_accuracy",
        str(caught.value),
    )


def test_hlo_with_a_negative_tolerance_is_refused() -> None:
    """XLA's parser aborts on it."""
    text = str(of("exp", xb.ResultAccuracy(ulps=10))).replace("ulps=10", "ulps=-10")
    with pytest.raises(lowering.ModuleFileError):
        lowering.from_hlo(text)


def test_equal_accuracies_are_one_mapping() -> None:
    """Lowering caches translations by identity."""
    x = xb.XlaBuilder().parameter(xb.f32[2])
    first = xb.exp(x, xb.ResultAccuracy(ulps=2))
    assert xb.tan(x, xb.ResultAccuracy(ulps=2)).attributes is first.attributes


def test_computations_with_different_accuracies_differ() -> None:
    assert of("exp", "HIGHEST").diff(of("exp", None))
    assert not of("exp", "HIGHEST").diff(of("exp", HIGHEST))
