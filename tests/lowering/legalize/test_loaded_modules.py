"""Loaded modules are checked against the element types of the ops' definitions before XLA runs."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering.running import compiling


@pytest.fixture
def without_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's compiler may end the process on these modules, so it must not be reached."""

    def compile_or_read(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("XLA compiles the module")

    monkeypatch.setattr(compiling, "compile_or_read", compile_or_read)


def binary(operation: str, element: str, attributes: str = "", result: str = "") -> str:
    array = f"tensor<2x{element}>"
    returned = f"tensor<2x{result or element}>"
    return (
        f"func.func @main(%a: {array}) -> {returned} {{\n"
        f'%0 = "{operation}"(%a, %a) {{{attributes}}} : ({array}, {array}) -> {returned}\n'
        f"return %0 : {returned} }}"
    )


def in_region(operation: str, attributes: str, operands: str, types: str, result: str) -> str:
    """A module whose operation applies the remainder of complex numbers."""
    scalar = "tensor<complex<f32>>"
    return (
        f"func.func @main({operands}) -> {result} {{\n"
        f'%0 = "{operation}"({", ".join(operands.replace(":", "").split()[::2])}) ({{\n'
        f"^bb0(%x: {scalar}, %y: {scalar}):\n"
        f"%r = stablehlo.remainder %x, %y : {scalar}\nstablehlo.return %r : {scalar} }})\n"
        f"{{{attributes}}} : ({types}) -> {result}\nreturn %0 : {result} }}"
    )


C64 = "complex<f32>"
ARRAY = "tensor<2xcomplex<f32>>"
LESS = "comparison_direction = #stablehlo<comparison_direction LT>"
EQUAL = "comparison_direction = #stablehlo<comparison_direction EQ>"
SORT = f"""func.func @main(%a: {ARRAY}) -> {ARRAY} {{
%0 = "stablehlo.sort"(%a) ({{
^bb0(%x: tensor<{C64}>, %y: tensor<{C64}>):
  %p = stablehlo.compare LT, %x, %y : (tensor<{C64}>, tensor<{C64}>) -> tensor<i1>
  stablehlo.return %p : tensor<i1> }}) : ({ARRAY}) -> {ARRAY}
return %0 : {ARRAY} }}"""

CALLED = f"""func.func private @f(%a: {ARRAY}) -> {ARRAY} {{
%0 = stablehlo.remainder %a, %a : {ARRAY}
return %0 : {ARRAY} }}
func.func @main(%a: {ARRAY}) -> {ARRAY} {{
%0 = stablehlo.composite "chlo.asin" %a {{decomposition = @f}} : ({ARRAY}) -> {ARRAY}
%1 = func.call @f(%0) : ({ARRAY}) -> {ARRAY}
return %1 : {ARRAY} }}"""

REFUSED = {
    "a function that is not used by a composite alone": (CALLED, "remainder, recorded at -:2,"),
    "remainder": (
        binary("stablehlo.remainder", C64),
        ("compile: main: remainder, recorded at -:2, must have operands of integer or "
        "floating-point type, got c64[2], c64[2]\n"
        "fix: compute with the real and the imaginary parts of the operands"),
    ),
    "a bitcast to a type of the same width and fewer dimensions": (
        """func.func @main(%a: tensor<3x2xi4>) -> tensor<3xui4> {
%0 = stablehlo.bitcast_convert %a : (tensor<3x2xi4>) -> tensor<3xui4>
return %0 : tensor<3xui4> }""",
        ("bitcast_convert, recorded at -:2, must have a result of 2 dimensions, like its operand, "
        "because both element types have 4 bits, not u4[3], got s4[3,2]"),
    ),
    "an integer that stands for an unknown size": (
        """func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
%0:2 = chlo.top_k(%a, k = -9223372036854775808) : tensor<2xf32> -> (tensor<2xf32>, tensor<2xi32>)
return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32> }""",
        "top_k, recorded at -:2, must have a k that is not negative, not -9223372036854775808, got",
    ),
    "an index of complex type": (
        """func.func @main(%a: tensor<5x2xf32>, %b: tensor<3xcomplex<f32>>) -> tensor<3x2xf32> {
%0 = "stablehlo.torch_index_select"(%a, %b) {dim = 0 : i64, batch_dims = 0 : i64} :
  (tensor<5x2xf32>, tensor<3xcomplex<f32>>) -> tensor<3x2xf32>
return %0 : tensor<3x2xf32> }""",
        "torch_index_select, recorded at -:2, must have an index of integer type, not c64",
    ),
    "an index along a dimension that does not exist": (
        """func.func @main(%a: tensor<5x2xf32>, %b: tensor<3xi32>) -> tensor<3x2xf32> {
%0 = "stablehlo.torch_index_select"(%a, %b) {dim = 2 : i64, batch_dims = 0 : i64} :
  (tensor<5x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>
return %0 : tensor<3x2xf32> }""",
        ("torch_index_select, recorded at -:2, must have 0 <= batch_dims <= dim, dim less "
        "than the rank of the operand"),
    ),
    "an index of other batch sizes": (
        """func.func @main(%a: tensor<5x2xf32>, %b: tensor<3xi32>) -> tensor<5xf32> {
%0 = "stablehlo.torch_index_select"(%a, %b) {dim = 1 : i64, batch_dims = 1 : i64} :
  (tensor<5x2xf32>, tensor<3xi32>) -> tensor<5xf32>
return %0 : tensor<5xf32> }""",
        ("torch_index_select, recorded at -:2, must have equal sizes in the first 1 "
        "dimensions of operand and index"),
    ),
    "slices of another size": (
        """func.func @main(%a: tensor<5x2xf32>, %b: tensor<3xi32>) -> tensor<3x2xf32> {
%0 = "stablehlo.torch_index_select"(%a, %b) {dim = 1 : i64, batch_dims = 0 : i64} :
  (tensor<5x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>
return %0 : tensor<3x2xf32> }""",
        "torch_index_select, recorded at -:2, must have a result of sizes [5, 3], not f32[3,2]",
    ),
    "slices of another type": (
        """func.func @main(%a: tensor<5x2xf32>, %b: tensor<3xi32>) -> tensor<3x2xf64> {
%0 = "stablehlo.torch_index_select"(%a, %b) {dim = 0 : i64, batch_dims = 0 : i64} :
  (tensor<5x2xf32>, tensor<3xi32>) -> tensor<3x2xf64>
return %0 : tensor<3x2xf64> }""",
        "torch_index_select, recorded at -:2, must have a result of type f32, not f64",
    ),
    "a constant that is larger than any memory": (
        """func.func @main() -> tensor<f32> {
%0 = stablehlo.constant dense<1.0> : tensor<99999999999999xf32>
%1 = stablehlo.constant dense<1.0> : tensor<f32>
%2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [0] :
  (tensor<99999999999999xf32>, tensor<f32>) -> tensor<f32>
return %2 : tensor<f32> }""",
        "constant, recorded at -:2, must fit in the ",
    ),
    "an einsum of other sizes": (
        """func.func @main(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) -> tensor<2x5xf32> {
%0 = "stablehlo.einsum"(%a, %b) {einsum_config = "ab,bc->ac"} :
  (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
return %0 : tensor<2x5xf32> }""",
        ("einsum, recorded at -:2, must have equal sizes for the label b of ab,bc->ac, not 3 and "
        "4, got f32[2,3], f32[4,5]"),
    ),
    "an einsum of fewer dimensions": (
        """func.func @main(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2xf32> {
%0 = "stablehlo.einsum"(%a, %b) {einsum_config = "ab,bc->ac"} :
  (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
return %0 : tensor<2xf32> }""",
        "must have 2 dimensions where its config is bc, got f32[2,3], f32[3]",
    ),
    "an einsum without an arrow": (
        """func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
%0 = "stablehlo.einsum"(%a, %b) {einsum_config = "ab,bc>ac"} :
  (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
return %0 : tensor<2x2xf32> }""",
        "einsum, recorded at -:2, must have an einsum_config such as ab,bc->ac, not 'ab,bc>ac'",
    ),
    "a slice that is larger than its operand": (
        """func.func @main(%a: tensor<0xf32>, %i: tensor<1xi64>) -> tensor<2xf32> {
%0 = stablehlo.real_dynamic_slice %a, %i, %i, %i :
  (tensor<0xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xf32>
return %0 : tensor<2xf32> }""",
        "must have a result with the dimensions of its operand, and not larger, not f32[2], got",
    ),
    "a size that the result does not have": (
        """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
%0 = stablehlo.constant dense<-1> : tensor<i32>
%1 = stablehlo.set_dimension_size %a, %0, dim = 0 : (tensor<2xf32>, tensor<i32>) -> tensor<2xf32>
return %1 : tensor<2xf32> }""",
        ("set_dimension_size, recorded at -:3, must have a bounded size in its result, unless the "
        "size is the constant 2, not f32[2], got f32[2], s32[]\n"
        "fix: write tensor<?x..., #stablehlo.bounds<2>> for the result"),
    ),
    "operands that do not broadcast": (
        """func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<2xf32> {
%0 = chlo.broadcast_minimum %a, %b : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
return %0 : tensor<2xf32> }""",
        ("broadcast_minimum, recorded at -:2, is invalid: size of operand dimension 0 (3) is not "
        "equal to 1 or size of result dimension 0 (2), got tensor<2xf32>, tensor<3xf32>"),
    ),
    "an operation that broadcasts": (
        binary("chlo.broadcast_atan2", "i8"),
        ("broadcast_atan2, recorded at -:2, must have operands of floating-point or complex type, "
        "got s8[2], s8[2]\nfix: convert the operands to a type that is floating-point or complex"),
    ),
    "an operation without an op": (
        binary("chlo.broadcast_polygamma", "i8"),
        "must have operands of floating-point type, got s8[2], s8[2]",
    ),
    "order": (
        binary("stablehlo.compare", C64, LESS, "i1"),
        ("compare, recorded at -:2, in the direction LT must have operands of pred, integer or "
        "floating-point type, got c64[2], c64[2]"),
    ),
    "comparison type": (
        binary(
            "stablehlo.compare",
            "i8",
            f"{LESS}, compare_type = #stablehlo<comparison_type UNSIGNED>",
            "i1",
        ),
        ("must have the comparison type SIGNED, not UNSIGNED, got s8[2], s8[2]\n"
        "fix: write SIGNED, or omit the comparison type"),
    ),
    "a comparator": (SORT, "compare, recorded at -:4, in the direction LT"),
    "a map": (
        in_region(
            "stablehlo.map", "dimensions = array<i64: 0>", f"%a: {ARRAY}, %b: {ARRAY}",
            f"{ARRAY}, {ARRAY}", ARRAY,
        ),
        "remainder, recorded at -:4,",
    ),
    "a window": (
        in_region(
            "stablehlo.reduce_window", "window_dimensions = array<i64: 1>",
            f"%a: {ARRAY}, %b: tensor<{C64}>", f"{ARRAY}, tensor<{C64}>", ARRAY,
        ),
        "remainder, recorded at -:4,",
    ),
}  # fmt: skip


@each_row("name", REFUSED)
@pytest.mark.usefixtures("without_xla")
def test_refused(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(lowering.load_bytes(text))
    assert message in str(caught.value)
    assert f".{caught.value.op}" in text


@each_row("operation", ["add", "minimum"])  # the latter has a rewrite
@each_row(
    "between, rule",
    [
        ("2xf32, 5 : i32", "has an encoding other than #stablehlo.bounds"),
        ("2x9223372036854775807xf64", "has more than 2**63 - 1 elements"),
    ],
)
@pytest.mark.usefixtures("without_xla")
def test_types_that_xla_does_not_have(operation: str, between: str, rule: str) -> None:
    text = f"""func.func @main() -> tensor<f32> {{
%0 = stablehlo.constant dense<1.0> : tensor<{between}>
%1 = stablehlo.{operation} %0, %0 : tensor<{between}>
%2 = stablehlo.constant dense<1.0> : tensor<f32>
return %2 : tensor<f32> }}"""
    module = lowering.load_bytes(text)
    with pytest.raises((lowering.CompileError, lowering.LoweringError), match=re.escape(rule)):
        lowering.compile(module)
    with pytest.raises(lowering.LoweringError, match=r"recorded at -:[23]: the MLIR type"):
        lowering.to_computation(module)


def test_a_collective_of_replicas_that_do_not_exist() -> None:
    text = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
%0 = "stablehlo.collective_broadcast"(%a) {replica_groups = dense<[[0, 3]]> : tensor<1x2xi64>} :
  (tensor<2xf32>) -> tensor<2xf32>
return %0 : tensor<2xf32> }"""
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(lowering.load_bytes(text), num_replicas=2)
    rule = "collective_broadcast, recorded at -:2, must have each number from 0 to 1 once in its "
    assert f"{rule}groups, got 0, 3\nfix: correct the replica groups" in str(caught.value)


def test_accepted() -> None:
    """Equality of complex numbers, and the order that a rewrite defines."""
    equal = lowering.compile(lowering.load_bytes(binary("stablehlo.compare", C64, EQUAL, "i1")))
    values = np.array([1 + 2j, np.nan], np.complex64)
    assert np.asarray(equal(values)).tolist() == [True, False]
    greatest = lowering.compile(lowering.load_bytes(binary("stablehlo.maximum", C64)))
    assert np.asarray(greatest(values))[0] == 1 + 2j


MODULE = """func.func @main(%a: tensor<2x2xi2>) -> tensor<2x2xi2> {
%0 = stablehlo.add %a, %a : tensor<2x2xi2>
%1 = "stablehlo.einsum"(%0, %0) {einsum_config = "ab,bc->ac"} :
  (tensor<2x2xi2>, tensor<2x2xi2>) -> tensor<2x2xi2>
return %1 : tensor<2x2xi2> }"""


def test_reports_of_xla_name_the_operation() -> None:
    """XLA reports "unsupported operand type S2 in op dot"; the user has an einsum."""
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(lowering.load_bytes(MODULE))
    start = "compile: main: XLA can't compile einsum, recorded at -:3, for cpu: "
    assert str(caught.value).startswith(start)
    assert caught.value.op == "einsum"
    assert "S2" in caught.value.detail


CALL = """func.func @main(%a: tensor<2x2xi64>, %b: tensor<2x2xi64>) -> tensor<2x2xi64> {
%0 = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {mhlo.backend_config = {
  diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}} :
  (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi64>
return %0 : tensor<2x2xi64> }"""


def test_a_typed_call_of_other_element_types() -> None:
    ones = np.ones((2, 2), np.int64)
    with pytest.raises(lowering.ExecutionError) as caught:
        lowering.compile(lowering.load_bytes(CALL))(ones, ones)
    assert "custom_call of 'lapack_strsm_ffi', recorded at -:2 failed: " in str(caught.value)
    assert caught.value.op == "custom_call"


def test_recorded_programs_are_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_: Any) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(compiling, "check_loaded_module", check)
    b = xb.XlaBuilder("recorded")
    assert float(lowering.compile(b.build(-b.parameter(xb.f32[()])))(2)) == -2
