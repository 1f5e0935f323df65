"""Compiler options: how they reach XLA, their effects, and refused ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering.jaxlib_api import compilation
from lowering.running.options import read_options, refused_option, with_precision

X = np.linspace(0.1, 1, 64, dtype=np.float32).reshape(8, 8)


@xb.computation(xb.f32[8, 8])
def waves(x: xb.XlaOp) -> xb.XlaOp:
    return xb.exp(xb.sin(x)) * x


class TestFlags:
    def test_disabled_passes_agree_with_jax(self) -> None:
        flag = "xla_disable_hlo_passes"
        compiled = jax.jit(lambda x: jnp.exp(jnp.sin(x)) * x).lower(X)
        counts = []
        for ours, theirs in (
            ({}, {}),
            ({flag: "fusion"}, {flag: "fusion"}),
            ({flag: ["algsimp", "fusion"]}, {flag: "algsimp,fusion"}),
        ):
            executable = lowering.compile(waves, "cpu", options=ours)
            expected = compiled.compile(compiler_options=theirs or None).as_text()
            counts.append(executable.hlo_text().count("fusion("))
            assert counts[-1] == expected.count("fusion(")
        assert counts[1] == counts[2] != counts[0]

    def test_a_flag_that_changes_numbers(self) -> None:
        @xb.computation(xb.f32[4], xb.f32[4])
        def there_and_back(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
            return (x + y) - y

        x, y = np.float32([1, 2, 3, 4.5]), np.full(4, 1e8, np.float32)
        for fast, expected in ((True, x), (False, (x + y) - y)):
            options = {"xla_cpu_enable_fast_math": fast}
            executable = lowering.compile(there_and_back, "cpu", options=options)
            assert np.array_equal(executable(x, y), expected)
        assert not np.array_equal(expected, x)

    def test_kinds_of_values(self) -> None:
        read = read_options(
            {
                "xla_gpu_autotune_gemm_rtol": 1,
                "xla_cpu_prefer_vector_width": np.int64(128),
                "xla_cpu_enable_fast_math": np.True_,
                "xla_dump_hlo_pass_re": "",
                "xla_gpu_shape_checks": "COMPILE_TIME",
                "xla_gpu_enable_command_buffer": ("FUSION", "CUBLAS"),
                "xla_tpu_unknown_here": np.float32(0.5),
            }
        )
        assert dict(read.flags) == {
            "xla_gpu_autotune_gemm_rtol": 1.0,
            "xla_cpu_prefer_vector_width": 128,
            "xla_cpu_enable_fast_math": True,
            "xla_dump_hlo_pass_re": "",
            "xla_gpu_shape_checks": "COMPILE_TIME",
            "xla_gpu_enable_command_buffer": "FUSION,CUBLAS",
            "xla_tpu_unknown_here": 0.5,
        }
        assert {type(value) for _, value in read.flags} <= {bool, int, float, str}
        assert list(read.flags) == sorted(read.flags)
        assert read_options(None) == read_options({})

    def test_defaults_are_known(self) -> None:
        known = compilation.known_flags()
        assert known["xla_cpu_enable_fast_math"] == "false"
        assert known["xla_dump_to"] == '""'
        assert known["xla_gpu_analytical_latency_estimator_options"] == "{"
        assert len(known) > 200


class TestOptimizationLevel:
    def test_machine_code_is_optimized_less(self) -> None:
        codes = []
        for options in (
            {"optimization_level": 0},
            {"xla_backend_optimization_level": 0},
            {"optimization_level": 3},
            {"optimization_level": 3, "xla_backend_optimization_level": 0},
        ):
            executable = lowering.compile(waves, "cpu", options=options)
            code = compilation.serialized(executable._loaded)
            codes.append({code[i : i + 8] for i in range(len(code))})
            np.testing.assert_allclose(executable(X), np.exp(np.sin(X)) * X, rtol=1e-6)
        # The options are among the bytes: the code is the same if they are nearly equal.
        first = codes[0]
        shares = [len(first & code) / len(first | code) for code in codes]
        assert shares[1] > 0.9
        assert shares[3] > 0.9
        assert shares[2] < 0.75

    def test_compile_options(self) -> None:
        devices = [lowering.device("cpu")]
        with_level = compilation.compile_options(devices, level=1)
        build = with_level.executable_build_options
        assert build.debug_options.xla_backend_optimization_level == 1
        assert build.optimization_level == 19  # O1 of xla.ExecutionOptions.EffortLevel
        plain = compilation.compile_options(devices)
        assert compilation.options_bytes(plain) != compilation.options_bytes(with_level)
        again = compilation.compile_options(devices, level=1)
        assert compilation.options_bytes(again) == compilation.options_bytes(with_level)


def products(module: lowering.StablehloModule, precision: str) -> list[str]:
    """Return the lines with products of a module at a default precision."""
    text = str(with_precision(module.module, precision))
    return [line for line in text.splitlines() if "precision" in line or "algorithm" in line]


class TestDefaultPrecision:
    @each_row("precision", ["default", "HIGH", "highest"])
    def test_agrees_with_jax(self, precision: str) -> None:
        @xb.computation(xb.f32[8, 8])
        def square(x: xb.XlaOp) -> xb.XlaOp:
            return xb.dot(x, x)

        executable = lowering.compile(square, "cpu", options={"default_precision": precision})
        with jax.default_matmul_precision(precision.lower()):
            theirs = jax.jit(lambda x: x @ x).lower(X).compile().as_text()
        attribute = f"operand_precision={{{precision.lower()},{precision.lower()}}}"
        assert (
            (attribute in executable.hlo_text())
            == (attribute in theirs)
            == (precision != "default")
        )
        np.testing.assert_allclose(executable(X), X @ X, rtol=1e-5)

    def test_explicit_precision_is_preserved(self) -> None:
        high = xb.Precision.HIGH

        @xb.computation(xb.f32[4, 4])
        def several(x: xb.XlaOp) -> xb.XlaOp:
            return xb.tuple(
                xb.dot(x, x, precision=[high, high]),
                xb.dot(x, x, precision=[high, xb.Precision.DEFAULT]),
                xb.dot(x, x),
            )

        module = lowering.lower(several)
        before = module.text
        lines = products(module, "HIGHEST")
        assert [line.partition("precision = ")[2][1:14] for line in lines] == [
            "HIGH, HIGH] :",
            "HIGH, HIGHEST",
            "HIGHEST, HIGH",
        ]
        assert module.text == before
        assert with_precision(module.module, "DEFAULT") is module.module

    def test_all_kinds_of_products(self) -> None:
        module = lowering.load_bytes("""
        func.func @main(%x: tensor<1x4x4x1xf32>, %k: tensor<2x2x1x1xf32>, %a: tensor<4x3xf32>,
            %g: tensor<2x3x5xf32>, %s: tensor<2xi32>)
            -> (tensor<1x3x3x1xf32>, tensor<4x5xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
          %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
              window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
              : (tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x3x3x1xf32>
          %1 = "chlo.ragged_dot"(%a, %g, %s) {
              ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1],
                  rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0],
                  rhs_group_dimensions = [0]>,
              precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]}
              : (tensor<4x3xf32>, tensor<2x3x5xf32>, tensor<2xi32>) -> tensor<4x5xf32>
          %2 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1],
              algorithm = <lhs_precision_type = f32, rhs_precision_type = f32,
                  accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,
                  num_primitive_operations = 1, allow_imprecise_accumulation = false>
              : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>
          %3 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
          %4 = stablehlo.dot %a, %3 : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
          return %0, %1, %2, %4
              : tensor<1x3x3x1xf32>, tensor<4x5xf32>, tensor<4x4xf32>, tensor<4x4xf32>
        }""")
        convolution, ragged, algorithm, dot = products(module, "HIGHEST")
        assert convolution.count("#stablehlo<precision HIGHEST>") == 2
        assert ragged.count("#chlo<precision HIGHEST>") == 2
        assert "HIGHEST" not in algorithm
        assert dot.count("HIGHEST") == 2


WRONG: list[tuple[Any, str]] = [
    ([("optimization_level", 1)], r"options must be a mapping of names to values, got \[\("),
    ({1: 2}, "the name of an option must be a string, got 1"),
    (
        {"optimization_level": 4},
        "must be an integer from 0 to 3, got 4\nfix: pass 0 to",
    ),
    ({"optimization_level": True}, "from 0 to 3, got True"),
    ({"optimization_level": "3"}, "from 0 to 3, got '3'"),
    ({"default_precision": "best"}, "one of 'default', 'high', 'highest', got 'best'"),
    ({"default_precision": None}, "one of 'default', 'high', 'highest', got None"),
    ({"opt_level": 2}, "no option opt_level, got opt_level=2\nfix: did you mean optimization_lev"),
    ({"frobnicate": 1}, "fix: use optimization_level, default_precision or a flag of XLA's"),
    ({"--xla_cpu_enable_fast_math": True}, r"fix: did you mean xla_cpu_enable_fast_math\?"),
    ({"xla_cpu_enable_fast_math": "true"}, "must be True or False, got 'true'"),
    ({"xla_cpu_enable_fast_math": 1}, "must be True or False, got 1"),
    ({"xla_backend_optimization_level": True}, "must be a number, got True"),
    ({"xla_backend_optimization_level": "3"}, "must be a number, got '3'"),
    ({"xla_backend_optimization_level": 10**400}, r"fits in 64 bits, got \(an int of"),
    ({"xla_dump_to": 3}, "option xla_dump_to must be a string, got 3"),
    ({"xla_dump_to": "a\0b"}, "must be a string without zero bytes"),
    ({"xla_gpu_shape_checks": 1}, "must be a name such as 'RUNTIME', got 1"),
    ({"xla_gpu_autotune_gemm_rtol": float("nan")}, "a number or a string, got nan"),
    ({"xla_tpu_unknown_here": [1]}, r"True or False, a number or a string, got \[1\]"),
    ({"xla_gpu_analytical_latency_estimator_options": "x"}, "has several fields"),
    (
        {"xla_cpu_max_isa": "AVX2"},
        "is read when XLA detects the CPU, and has no effect on one program, got",
    ),
    ({"xla_force_host_platform_device_count": 3}, "is read when jax creates its devices"),
]


class TestRefusals:
    @each_row("options, message", WRONG)
    def test_invalid_options(self, options: Any, message: str) -> None:
        with pytest.raises(xb.OperandError, match=f"(?s)^compile: .*{message}"):
            lowering.compile(waves, "cpu", options=options)

    @each_row(
        "name, value, message",
        [
            (
                "xla_cpu_enable_fast_mth",
                True,
                "no option xla_cpu_enable_fast_mth, got .*=True\nfix: did you mean xla_cpu_enable",
            ),
            ("xla_gpu_shape_checks", "NOPE", "must be one of the names that XLA defines for the"),
            ("xla_backend_optimization_level", 2**40, "a 32-bit integer, got 109951162"),
            ("xla_backend_optimization_level", 1.5, "a 32-bit integer, got 1.5"),
        ],
    )
    def test_errors_of_xla(self, name: str, value: Any, message: str) -> None:
        with pytest.raises(xb.OperandError, match=f"(?s)^compile: .*{message}"):
            lowering.compile(waves, "cpu", options={name: value})

    def test_errors_of_the_tpu_compiler(self) -> None:
        options = read_options({"xla_tpu_enable_something": "abc"})
        report = "INVALID: Failed to parse 'abc' into flag xla_tpu_enable_something:"
        error = refused_option(report, options)
        assert "option xla_tpu_enable_something can't be 'abc'" in str(error)
        assert refused_option("INTERNAL: something else", options) is None
