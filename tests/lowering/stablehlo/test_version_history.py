"""The table of what each StableHLO version introduced, compared with jaxlib's serializer."""

from __future__ import annotations

import re

import pytest
from jaxlib.mlir import ir

import builder as xb
import lowering
from lowering.jaxlib_api import artifacts, mlir, versions
from lowering.mlir.operations import operations_in
from lowering.reading.module_reader import artifact_version
from lowering.stablehlo.versions import (
    ELEMENT_TYPES,
    FLOOR,
    FORMS,
    OPERATIONS,
    lowest_version,
    numbers_of,
    operation_needs,
    type_need,
)

_VERSIONS = [f"0.{minor}.0" for minor in range(9, 21)] + [f"1.{minor}.0" for minor in range(30)]


def _add(t: str) -> str:
    """A region that adds numbers of type `t`."""
    return (
        f"({{ ^bb0(%a: tensor<{t}>, %b: tensor<{t}>): %c = stablehlo.add %a, %b : tensor<{t}> "
        f"stablehlo.return %c : tensor<{t}> }})"
    )


def _function(body: str, arguments: str = "%x: tensor<2xf32>") -> str:
    return f"func.func @main({arguments}) {{ {body} return }}"


def _module(text: str) -> ir.Module:
    return mlir.read_module(mlir.new_context(), text)


def _unary(name: str, attributes: str = "", t: str = "tensor<2xf32>", out: str = "") -> str:
    out = out or t
    return (
        f"func.func @main(%x: {t}) -> {out} "
        f'{{ %0 = "{name}"(%x) {attributes} : ({t}) -> {out} return %0 : {out} }}'
    )


def _several(name: str, region: str = "", attributes: str = "") -> str:
    return _function(
        f'%0:2 = "stablehlo.{name}"(%x, %x) {region} {{{attributes}{_GROUPS}}} : '
        "(tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)"
    )


def _dot(algorithm: str, t: str) -> str:
    full = (
        f"lhs_precision_type = {algorithm}, rhs_precision_type = {algorithm}, "
        "accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
        f"num_primitive_operations = {1 if algorithm == 'tf32' else 3}, "
        "allow_imprecise_accumulation = false"
    )
    return _function(
        "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0], algorithm = "
        f"<{full}> : (tensor<2x2x{t}>, tensor<2x2x{t}>) -> tensor<2x2xf32>",
        f"%x: tensor<2x2x{t}>",
    )


_GROUPS = "replica_groups = dense<[[0]]> : tensor<1x1xi64>"
_MESH = (
    "{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = "
    '[#stablehlo.mesh_axis<name = "x", size = 1>]>, axes = [#stablehlo.axis_ref<name = "x">]>}'
)
_HIGHEST = (
    "{result_accuracy = #stablehlo.result_accuracy<mode = "
    "#stablehlo.result_accuracy_mode<HIGHEST>>}"
)
_CHANNEL = "{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
_PAIRS = ", source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>"
_CONVOLUTION = (
    "dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]], "
    "lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} "
    "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
)
_PRIVATE = " func.func private @d(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
_FUTURE = "!stablehlo.future<tensor<2xf32>>"
_ROWS = "%x: tensor<3x4xf32>, %i: tensor<3x1xi32>, %u: tensor<3x2xf32>"

CONSTRUCTS: dict[str, list[str]] = {
    **{f"type {t}": [v, _function("", f"%x: tensor<2x{t}>")] for t, v in ELEMENT_TYPES.items()},
    "type of a constant": ["1.2.0", _function("%0 = stablehlo.constant dense<1> : tensor<2xi2>")],
    "collective_broadcast": ["0.16.0", _unary("stablehlo.collective_broadcast", f"{{{_GROUPS}}}")],
    "composite": [
        "0.19.0",
        _unary("stablehlo.composite", '{name = "a.b", decomposition = @d}') + _PRIVATE,
    ],
    "tan": ["1.4.0", _unary("stablehlo.tan")],
    "async": [
        "1.15.0",
        _function(
            '%0 = "stablehlo.async_start"(%x) ({ ^bb0(%y: tensor<2xf32>): '
            f'%1 = "stablehlo.all_reduce"(%y) {_add("f32")} {{{_GROUPS}}} : (tensor<2xf32>) -> '
            f"tensor<2xf32> stablehlo.return %1 : tensor<2xf32> }}) : (tensor<2xf32>) -> {_FUTURE} "
            f'%2 = "stablehlo.async_done"(%0) : ({_FUTURE}) -> tensor<2xf32>'
        ),
    ],
    "collective_reduce": [
        "1.19.0",
        _unary("stablehlo.collective_reduce", f"{_add('f32')} {{{_GROUPS}}}"),
    ],
    "reduce to f64": [
        "0.17.0",
        _function(
            f'%0 = "stablehlo.reduce"(%x, %i) {_add("f64")} {{dimensions = array<i64: 0>}} : '
            "(tensor<2xf32>, tensor<f32>) -> tensor<f64>",
            "%x: tensor<2xf32>, %i: tensor<f32>",
        ),
    ],
    "all_reduce to f64": [
        "0.17.0",
        _unary("stablehlo.all_reduce", f"{_add('f64')} {{{_GROUPS}}}", out="tensor<2xf64>"),
    ],
    "gather in batches": [
        "1.1.0",
        _function(
            '%0 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<'
            "offset_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], "
            "start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>} : "
            "(tensor<3x4xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>",
            _ROWS,
        ),
    ],
    "scatter in batches": [
        "1.1.0",
        _function(
            f'%0 = "stablehlo.scatter"(%x, %i, %u) {_add("f32")} {{scatter_dimension_numbers = '
            "#stablehlo.scatter<update_window_dims = [1], input_batching_dims = [0], "
            "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], "
            "index_vector_dim = 1>} : "
            "(tensor<3x4xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<3x4xf32>",
            _ROWS,
        ),
    ],
    "a dictionary": [
        "1.3.0",
        _unary(
            "stablehlo.custom_call",
            '{call_target_name = "f", api_version = 4 : i32, backend_config = {a = 1 : i32}}',
        ),
    ],
    "all_reduce of two": ["1.5.0", _several("all_reduce", _add("f32"))],
    "all_gather of two": ["1.5.0", _several("all_gather", "", "all_gather_dim = 0 : i64, ")],
    "all_to_all of two": [
        "1.5.0",
        _several(
            "all_to_all",
            "",
            "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, ",
        ),
    ],
    "algorithm": ["1.6.0", _dot("tf32", "f32")],
    "algorithm for f8E4M3FN": ["1.21.0", _dot("f8E4M3FN", "f8E4M3FN")],
    **{
        f"accuracy of {name}": [form.version, _unary(f"stablehlo.{name}", _HIGHEST)]
        for form in FORMS
        if form.feature.endswith("result_accuracy")
        for name in form.names
    },
    "pairs of send": [
        "1.12.0",
        _function(
            f'%0 = "stablehlo.send"(%x, %t) {_CHANNEL}{_PAIRS}}} : '
            "(tensor<2xf32>, !stablehlo.token) -> !stablehlo.token",
            "%x: tensor<2xf32>, %t: !stablehlo.token",
        ),
    ],
    "pairs of recv": [
        "1.12.0",
        _function(
            f'%0:2 = "stablehlo.recv"(%t) {_CHANNEL}{_PAIRS}}} : '
            "(!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)",
            "%t: !stablehlo.token",
        ),
    ],
    "a future": [
        "1.15.0",
        _unary("stablehlo.custom_call", '{call_target_name = "f"}', out=_FUTURE),
    ],
    "buffers": [
        "1.13.0",
        _function(
            "%0 = stablehlo.custom_call @Pin(%x) {api_version = 4 : i32} : "
            "(tensor<2xf32>) -> memref<2xf32> "
            "%1 = stablehlo.custom_call @Unpin(%0) {api_version = 4 : i32} : "
            "(memref<2xf32>) -> tensor<2xf32>"
        ),
    ],
    "composite with a region": [
        "1.14.0",
        _unary(
            "stablehlo.composite",
            "({ ^bb0(%y: tensor<2xf32>): stablehlo.return %y : tensor<2xf32> }) "
            '{name = "a.b", decomposition = @d}',
        )
        + _PRIVATE,
    ],
    "groups of a mesh": ["1.16.0", _unary("stablehlo.all_reduce", f"{_add('f32')} {_MESH}")],
    "futures": [
        "1.17.0",
        _unary("stablehlo.custom_call", '{call_target_name = "f"}', _FUTURE, "tensor<2xf32>"),
    ],
    "tilings": [
        "1.18.0",
        _unary(
            "stablehlo.custom_call",
            '{call_target_name = "f", operand_layouts = [dense<0> : tensor<1xindex>], '
            "result_layouts = [dense<0> : tensor<1xindex>], "
            "result_tilings = [[dense<1> : tensor<1xindex>]]}",
        ),
    ],
    "a dynamic root": [
        "1.20.0",
        _function(
            '%0 = "stablehlo.collective_broadcast"(%x, %r) '
            f"{{{_GROUPS}, has_dynamic_root}} : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>",
            "%x: tensor<2xf32>, %r: tensor<1xi32>",
        ),
    ],
    "convolution of two types": [
        "1.20.0",
        _function(
            f"%0 = stablehlo.convolution(%x, %y) {_CONVOLUTION} : "
            "(tensor<1x4x1xf8E4M3FN>, tensor<2x1x1xf8E5M2>) -> tensor<1x3x1xf32>",
            "%x: tensor<1x4x1xf8E4M3FN>, %y: tensor<2x1x1xf8E5M2>",
        ),
    ],
    **{
        f"chlo.{name}": ["0.19.0", _unary(f"chlo.{name}")]
        for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh")
    },
    # Expressible by the oldest version.
    **{
        f"chlo.{name}": ["0.9.0", _unary(f"chlo.{name}")]
        for name in ("atan", "bessel_i1e", "digamma", "erf_inv", "lgamma", "square")
    },
    "default accuracy": [
        "0.9.0",
        _unary("stablehlo.exponential", _HIGHEST.replace("HIGHEST", "DEFAULT")),
    ],
    "text for a custom call": [
        "0.9.0",
        _unary("stablehlo.custom_call", '{call_target_name = "f", backend_config = "a"}'),
    ],
    "all_reduce": ["0.9.0", _unary("stablehlo.all_reduce", f"{_add('f32')} {{{_GROUPS}}}")],
    "old types": [
        "0.9.0",
        _function("", "%x: tensor<2xf8E4M3FN>, %y: tensor<2xf8E5M2>, %z: tensor<?xui4>"),
    ],
}
"""For each construct: the first version that expresses it, and a module with the construct."""


def _is_expressible(module: ir.Module, version: str) -> bool:
    try:
        artifacts.serialize_artifact(module, version, {})
    except ValueError:
        return False
    return True


def _later(*numbers: str) -> str:
    return max(numbers, key=numbers_of)


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_the_serializer_needs_the_version_of_the_table(construct):
    version, text = CONSTRUCTS[construct]
    if numbers_of(version) > numbers_of(versions.current_version()):
        pytest.skip(f"jaxlib writes StableHLO {versions.current_version()}")
    module = _module(text)
    code = mlir.bytecode(module)
    # The quick search of the bytecode and the walk agree.
    assert lowest_version(module, code) == lowest_version(module, b"") == _later(version, FLOOR)
    needs = [type_need(value.type) for value in module.body.operations[0].arguments]
    for operation in operations_in(module.operation):
        needs += [*operation_needs(operation), *(type_need(r.type) for r in operation.results)]
    assert _later("0.9.0", *(need.version for need in needs if need)) == version
    assert _is_expressible(module, version)
    if version != "0.9.0":
        assert not _is_expressible(module, _VERSIONS[_VERSIONS.index(version) - 1])


def test_every_entry_of_the_table_is_compared():
    texts = " ".join(text for _, text in CONSTRUCTS.values())
    assert all(f'"{name}"' in texts for name in OPERATIONS)
    assert {form.version for form in FORMS} <= {version for version, _ in CONSTRUCTS.values()}


def test_the_default_is_the_lowest_version():
    """An operation that older versions express by others is written as itself."""
    module = lowering.load_bytes(_unary("chlo.tan"))
    assert artifact_version(module.artifact()) == "1.4.0"
    assert b"cosine_v1" in module.artifact("1.3.0")
    b = xb.XlaBuilder("composite")
    x = b.parameter(xb.f32[8], "x")
    data = lowering.lower(b.build(xb.top_k(xb.erf(x), 2))).artifact()
    assert artifact_version(data) == FLOOR
    assert set(re.findall(rb"composite_v\d", data)) == {b"composite_v1"}


def test_a_module_that_needs_what_the_table_lacks(monkeypatch):
    monkeypatch.setattr("lowering.stablehlo.module.lowest_version", lambda *_: "1.0.0")
    module = lowering.load_bytes(_unary("stablehlo.tan"))
    assert artifact_version(module.artifact()) == versions.current_version()
