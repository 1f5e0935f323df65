"""Every attribute of a module is there again after import and lowering.

The module has each operation of the StableHLO dialect that can be imported. Each operation, also
those in regions and those that end a region or a function, each argument and each result of its
functions has an attribute of an unknown dialect.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import count

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import lowering
from lowering.importer.by_schema import importer_of
from lowering.jaxlib_api import hlo_conversion

UNARY = """abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic
negate round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh"""
BINARY = "add atan2 divide maximum minimum multiply power remainder subtract"
INTEGER = "and or xor shift_left shift_right_arithmetic shift_right_logical"
REDUCER = """{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.add %a, %b : tensor<f32>
    "stablehlo.return"(%t) : (tensor<f32>) -> () }"""
GROUPS = "replica_groups = dense<0> : tensor<1x1xi64>"
SCATTER = """#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>"""
GATHER = """dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0],
    index_vector_dim = 1>"""
CONVOLUTION = """dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
    feature_group_count = 1 : i64, batch_group_count = 1 : i64"""
PERMUTE = "source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>"
NORMAL = "epsilon = 1.0 : f32, feature_index = 1 : i64"
F, V, M, S = "tensor<f32>", "tensor<4xf32>", "tensor<4x4xf32>", "tensor<i32>"
K, P, N, T = "tensor<4xi32>", "tensor<i1>", "tensor<1xi64>", "!stablehlo.token"

CALLS = f"""
    "stablehlo.custom_call"(%v) <{{call_target_name = "sink", has_side_effect = true}}>
        {{error_message = "a message"}} : ({V}) -> ()
    "stablehlo.custom_call"(%v) <{{call_target_name = "pair"}}> : ({V}) -> ({V}, {V})
    "stablehlo.custom_call"(%v) <{{call_target_name = "one"}}> : ({V}) -> {V}
    "stablehlo.composite"(%v) <{{name = "my.half", decomposition = @half}}> : ({V}) -> {V}
    "func.call"(%v) <{{callee = @half}}> : ({V}) -> {V}
    "stablehlo.optimization_barrier"(%v, %v) : ({V}, {V}) -> ({V}, {V})
    %k = "stablehlo.create_token"() : () -> {T}
    %token = "stablehlo.after_all"(%k, %k) : ({T}, {T}) -> {T}
    %in:2 = "stablehlo.infeed"(%token) <{{layout = [[0]]}}> : ({T}) -> ({V}, {T})
    %out = "stablehlo.outfeed"(%in#0, %in#1) : ({V}, {T}) -> {T}
    %sent = "stablehlo.send"(%v, %out) <{{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}}>
        : ({V}, {T}) -> {T}
    "stablehlo.recv"(%sent) <{{
        channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}}>
        : ({T}) -> ({V}, {T})
"""

REGIONS = f"""
    "stablehlo.while"(%s, %v) ({{ ^bb0(%n: {S}, %x: {V}):
        %c = "stablehlo.compare"(%n, %s) <{{comparison_direction = #stablehlo<comparison_direction
            LT>}}> : ({S}, {S}) -> {P}
        "stablehlo.return"(%c) : ({P}) -> ()
    }}, {{ ^bb0(%n: {S}, %x: {V}):
        %y = "stablehlo.negate"(%x) : ({V}) -> {V}
        "stablehlo.return"(%n, %y) : ({S}, {V}) -> ()
    }}) : ({S}, {V}) -> ({S}, {V})
    "stablehlo.if"(%p) ({{
        %y = "stablehlo.sine"(%v) : ({V}) -> {V}
        "stablehlo.return"(%y) : ({V}) -> ()
    }}, {{ "stablehlo.return"(%v) : ({V}) -> () }}) : ({P}) -> {V}
    "stablehlo.case"(%s) ({{ "stablehlo.return"(%v, %f) : ({V}, {F}) -> () }},
        {{ "stablehlo.return"(%v, %f) : ({V}, {F}) -> () }}) : ({S}) -> ({V}, {F})
    "stablehlo.map"(%v, %v) <{{dimensions = array<i64: 0>}}> ({REDUCER}) : ({V}, {V}) -> {V}
    "stablehlo.reduce"(%v, %f) <{{dimensions = array<i64: 0>}}> ({REDUCER}) : ({V}, {F}) -> {F}
    "stablehlo.reduce_window"(%v, %f) <{{window_dimensions = array<i64: 1>}}> ({REDUCER})
        : ({V}, {F}) -> {V}
    "stablehlo.all_reduce"(%v) <{{{GROUPS}}}> ({REDUCER}) : ({V}) -> {V}
    "stablehlo.reduce_scatter"(%v) <{{{GROUPS}, scatter_dimension = 0 : i64}}> ({REDUCER})
        : ({V}) -> {V}
    "stablehlo.scatter"(%v, %starts, %v) <{{scatter_dimension_numbers = {SCATTER}}}> ({REDUCER})
        : ({V}, {K}, {V}) -> {V}
    "stablehlo.sort"(%v) <{{dimension = 0 : i64}}> ({{ ^bb0(%a: {F}, %b: {F}):
        %c = "stablehlo.compare"(%a, %b) <{{comparison_direction = #stablehlo<comparison_direction
            LT>}}> : ({F}, {F}) -> {P}
        "stablehlo.return"(%c) : ({P}) -> () }}) : ({V}) -> {V}
    "stablehlo.select_and_scatter"(%v, %v, %f) <{{window_dimensions = array<i64: 1>}}>
        ({{ ^bb0(%a: {F}, %b: {F}):
        %c = "stablehlo.compare"(%a, %b) <{{comparison_direction = #stablehlo<comparison_direction
            GE>}}> : ({F}, {F}) -> {P}
        "stablehlo.return"(%c) : ({P}) -> () }}, {REDUCER}) : ({V}, {V}, {F}) -> {V}
"""

OTHERS = f"""
    "stablehlo.iota"() <{{iota_dimension = 0 : i64}}> : () -> {V}
    "stablehlo.partition_id"() : () -> tensor<ui32>
    "stablehlo.replica_id"() : () -> tensor<ui32>
    "stablehlo.rng"(%f, %f, %shape) <{{rng_distribution = #stablehlo<rng_distribution UNIFORM>}}>
        : ({F}, {F}, {N}) -> {V}
    "stablehlo.rng_bit_generator"(%state) <{{rng_algorithm = #stablehlo<rng_algorithm DEFAULT>}}>
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    "stablehlo.complex"(%v, %v) : ({V}, {V}) -> tensor<4xcomplex<f32>>
    "stablehlo.real"(%z) : (tensor<4xcomplex<f32>>) -> {V}
    "stablehlo.imag"(%z) : (tensor<4xcomplex<f32>>) -> {V}
    "stablehlo.fft"(%z) <{{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4>}}>
        : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    "stablehlo.is_finite"(%v) : ({V}) -> tensor<4xi1>
    "stablehlo.convert"(%v) : ({V}) -> {K}
    "stablehlo.bitcast_convert"(%v) : ({V}) -> {K}
    "stablehlo.reduce_precision"(%v) <{{exponent_bits = 5 : i32, mantissa_bits = 3 : i32}}>
        : ({V}) -> {V}
    "stablehlo.clamp"(%v, %v, %v) : ({V}, {V}, {V}) -> {V}
    "stablehlo.select"(%p, %v, %v) : ({P}, {V}, {V}) -> {V}
    "stablehlo.broadcast"(%v) <{{broadcast_sizes = array<i64: 4>}}> : ({V}) -> {M}
    "stablehlo.broadcast_in_dim"(%v) <{{broadcast_dimensions = array<i64: 0>}}> : ({V}) -> {M}
    "stablehlo.dynamic_broadcast_in_dim"(%v, %shape2) <{{broadcast_dimensions = array<i64: 0>}}>
        : ({V}, tensor<2xi64>) -> {M}
    "stablehlo.reshape"(%v) : ({V}) -> tensor<2x2xf32>
    "stablehlo.reshape"(%v) : ({V}) -> {V}
    "stablehlo.dynamic_reshape"(%v, %shape) : ({V}, {N}) -> {V}
    "stablehlo.dynamic_iota"(%shape) <{{iota_dimension = 0 : i64}}> : ({N}) -> {V}
    "stablehlo.dynamic_pad"(%v, %f, %zero, %zero, %zero) : ({V}, {F}, {N}, {N}, {N}) -> {V}
    "stablehlo.real_dynamic_slice"(%v, %zero, %shape, %one) : ({V}, {N}, {N}, {N}) -> {V}
    "stablehlo.dynamic_gather"(%v, %starts, %one) <{{{GATHER}}}> : ({V}, {K}, {N}) -> {V}
    "stablehlo.dynamic_conv"(%image, %window, %pad) <{{{CONVOLUTION}}}>
        : (tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x2xi64>) -> tensor<1x4x4xf32>
    "stablehlo.convolution"(%image, %window) <{{{CONVOLUTION}}}>
        : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
    "stablehlo.gather"(%v, %starts) <{{{GATHER}, slice_sizes = array<i64: 1>}}> : ({V}, {K}) -> {V}
    "stablehlo.torch_index_select"(%v, %starts) <{{dim = 0 : i64, batch_dims = 0 : i64}}>
        : ({V}, {K}) -> {V}
    "stablehlo.get_dimension_size"(%v) <{{dimension = 0 : i64}}> : ({V}) -> {S}
    "stablehlo.set_dimension_size"(%v, %s) <{{dimension = 0 : i64}}>
        : ({V}, {S}) -> tensor<?xf32, #stablehlo.bounds<4>>
    "stablehlo.concatenate"(%v, %v) <{{dimension = 0 : i64}}> : ({V}, {V}) -> tensor<8xf32>
    "stablehlo.pad"(%v, %f) <{{edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 0>,
        interior_padding = array<i64: 0>}}> : ({V}, {F}) -> {V}
    "stablehlo.reverse"(%v) <{{dimensions = array<i64: 0>}}> : ({V}) -> {V}
    "stablehlo.slice"(%v) <{{start_indices = array<i64: 0>, limit_indices = array<i64: 4>,
        strides = array<i64: 1>}}> : ({V}) -> {V}
    "stablehlo.dynamic_slice"(%v, %s) <{{slice_sizes = array<i64: 4>}}> : ({V}, {S}) -> {V}
    "stablehlo.dynamic_update_slice"(%v, %v, %s) : ({V}, {V}, {S}) -> {V}
    "stablehlo.transpose"(%m) <{{permutation = array<i64: 1, 0>}}> : ({M}) -> {M}
    "stablehlo.dot"(%m, %m) : ({M}, {M}) -> {M}
    "stablehlo.dot_general"(%m, %m) <{{dot_dimension_numbers = #stablehlo.dot<
        lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}}> : ({M}, {M}) -> {M}
    "stablehlo.einsum"(%m, %m) <{{einsum_config = "ab,bc->ac"}}> : ({M}, {M}) -> {M}
    "stablehlo.unary_einsum"(%m) <{{einsum_config = "ab->ba"}}> : ({M}) -> {M}
    "stablehlo.cholesky"(%m) <{{lower = true}}> : ({M}) -> {M}
    "stablehlo.triangular_solve"(%m, %m) <{{left_side = true, lower = true, unit_diagonal = false,
        transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}> : ({M}, {M}) -> {M}
    "stablehlo.batch_norm_training"(%m, %v, %v) <{{{NORMAL}}}> : ({M}, {V}, {V}) -> ({M}, {V}, {V})
    "stablehlo.batch_norm_inference"(%m, %v, %v, %v, %v) <{{{NORMAL}}}>
        : ({M}, {V}, {V}, {V}, {V}) -> {M}
    "stablehlo.batch_norm_grad"(%m, %v, %v, %v, %m) <{{{NORMAL}}}>
        : ({M}, {V}, {V}, {V}, {M}) -> ({M}, {V}, {V})
    "stablehlo.all_gather"(%v) <{{{GROUPS}, all_gather_dim = 0 : i64}}> : ({V}) -> {V}
    "stablehlo.all_to_all"(%v) <{{{GROUPS}, split_dimension = 0 : i64, concat_dimension = 0 : i64,
        split_count = 1 : i64}}> : ({V}) -> {V}
    "stablehlo.cross-replica-sum"(%v) <{{{GROUPS}}}> : ({V}) -> {V}
    "stablehlo.collective_broadcast"(%v) <{{{GROUPS}}}> : ({V}) -> {V}
    "stablehlo.collective_permute"(%v) <{{{PERMUTE}}}> : ({V}) -> {V}
    "stablehlo.compare"(%v, %v) <{{comparison_direction = #stablehlo<comparison_direction EQ>}}>
        : ({V}, {V}) -> tensor<4xi1>
"""

CONSTANTS = f"""
    %shape = "stablehlo.constant"() <{{value = dense<4> : {N}}}> : () -> {N}
    %shape2 = "stablehlo.constant"() <{{value = dense<4> : tensor<2xi64>}}> : () -> tensor<2xi64>
    %zero = "stablehlo.constant"() <{{value = dense<0> : {N}}}> : () -> {N}
    %one = "stablehlo.constant"() <{{value = dense<1> : {N}}}> : () -> {N}
    %pad = "stablehlo.constant"() <{{value = dense<0> : tensor<1x2xi64>}}> : () -> tensor<1x2xi64>
"""
ELEMENTWISE = "\n".join(
    f'"stablehlo.{name}"({operands}) : {kind}'
    for names, operands, kind in (
        (UNARY, "%v", f"({V}) -> {V}"),
        (BINARY, "%v, %v", f"({V}, {V}) -> {V}"),
        ("count_leading_zeros not popcnt", "%starts", f"({K}) -> {K}"),
        (INTEGER, "%starts, %starts", f"({K}, {K}) -> {K}"),
    )
    for name in names.split()
)
PROGRAM = f"""
module @everything {{
  func.func @main(%v: {V}, %f: {F}, %m: {M}, %s: {S}, %p: {P}, %starts: {K},
      %z: tensor<4xcomplex<f32>>, %state: tensor<2xui64>, %image: tensor<1x4x4xf32>,
      %window: tensor<1x4x4xf32>) -> ({V}, {F}) {{
    {CONSTANTS}{ELEMENTWISE}{OTHERS}{REGIONS}{CALLS}
    return %v, %f : {V}, {F}
  }}
  func.func private @half(%x: {V}) -> {V} {{
    return %x : {V}
  }}
}}"""

REFUSED = {"uniform_dequantize", "uniform_quantize"}
"""Their importers raise an error with a reason."""
REPLACED = [
    f"stablehlo.{name}"
    for name in (
        *("broadcast", "create_token", "cross-replica-sum", "dot", "dynamic_broadcast_in_dim"),
        *("dynamic_conv", "dynamic_gather", "dynamic_iota", "dynamic_pad", "dynamic_reshape"),
        *("einsum", "real_dynamic_slice", "torch_index_select", "unary_einsum"),
    )
]
"""Operations without an op of their own. The operation that replaces one has its attributes."""
WITHOUT_OPERATION = {"tuple", "get_tuple_element"}
"""`lower` writes no operations for these: values in its modules are flat."""


def described(module: ir.Module) -> None:
    """Set an attribute, which is different each time, wherever MLIR allows one."""
    numbers = count()

    def another() -> ir.Attribute:
        return ir.StringAttr.get(f"number {next(numbers)}")

    def describe(operation: ir.Operation) -> ir.WalkResult:
        operation.attributes["my.note"] = another()
        if operation.name == "func.func":
            kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
            for key, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
                notes = [ir.DictAttr.get({"my.note": another()}) for _ in types]
                operation.attributes[key] = ir.ArrayAttr.get(notes)
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(describe)


def notes(module: ir.Module) -> Counter[tuple[str, str]]:
    """Count the attributes of a module by the place that has them, and by value."""
    found: Counter[tuple[str, str]] = Counter()

    def look(operation: ir.Operation) -> ir.WalkResult:
        for name in operation.attributes:
            attribute = operation.attributes[name]
            if name in ("arg_attrs", "res_attrs"):
                for number, one in enumerate(ir.ArrayAttr(attribute)):
                    values = ir.DictAttr(one)
                    if "my.note" in values:
                        found[f"{name} {number}", str(values["my.note"])] += 1
            elif name in ("my.note", "error_message"):
                found[operation.name, str(attribute)] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def test_no_attribute_is_lost() -> None:
    module = lowering.load_bytes(PROGRAM).module
    described(module)
    expected = notes(module)
    names = {name.removeprefix("stablehlo.") for name, _ in expected}
    defined = {
        view.OPERATION_NAME.removeprefix("stablehlo.")
        for view in vars(stablehlo).values()
        if hasattr(view, "OPERATION_NAME")
    }
    imported = {name for name in defined if importer_of(f"stablehlo.{name}") is not None}
    assert imported - names == REFUSED | WITHOUT_OPERATION
    assert sorted(lost_and_moved(module)) == sorted(REPLACED)


def test_operations_that_were_one_op() -> None:
    """Lowering writes several operations for these ops; they are imported as one op if possible."""
    text = """
    func.func @main(%x: tensor<?x4xf32>, %n: tensor<i32>) -> (tensor<?x2xf32>, tensor<2x?xf32>) {
      %starts = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
      %steps = stablehlo.constant dense<1> : tensor<2xi32>
      %three = stablehlo.constant dense<3> : tensor<i32>
      %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
      %0 = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
      %1 = stablehlo.reshape %three : (tensor<i32>) -> tensor<1xi32>
      %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %3 = stablehlo.real_dynamic_slice %x, %starts, %2, %steps
        : (tensor<?x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x2xf32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %4 = stablehlo.reshape %two : (tensor<i32>) -> tensor<1xi32>
      %5 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %6 = stablehlo.concatenate %4, %5, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %7 = stablehlo.dynamic_reshape %3, %6 : (tensor<?x2xf32>, tensor<2xi32>) -> tensor<2x?xf32>
      return %3, %7 : tensor<?x2xf32>, tensor<2x?xf32>
    }"""
    module = lowering.load_bytes(text).module
    described(module)
    assert lost_and_moved(module) == set()


def lost_and_moved(module: ir.Module) -> set[str]:
    """Import and lower a module; return the operations whose attributes other operations have.

    Check that no attribute is lost or there twice.
    """
    expected = notes(module)
    lowered = lowering.lower(lowering.to_computation(module))
    found = notes(lowered.module)
    # StableHLO prints a reduction by one operation without the attributes in its region.
    assert notes(lowering.load_bytes(lowered.text).module) == found
    assert sorted(value for _, value in found.elements()) == sorted(value for _, value in expected)
    return {place for place, _ in expected - found}


def test_frontend_attributes_of_hlo() -> None:
    text = """HloModule m, frontend_attributes={of="module"}

    add {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT s = f32[] add(a, b), frontend_attributes={of="reducer"}
    }

    ENTRY main {
      x = f32[2] parameter(0), frontend_attributes={of="parameter"}
      zero = f32[] constant(0), frontend_attributes={of="constant"}
      none = () custom-call(x), custom_call_target="sink", custom_call_has_side_effect=true,
        frontend_attributes={of="call"}
      ROOT sum = f32[] reduce(x, zero), dimensions={0}, to_apply=add,
        frontend_attributes={of="reduce"}
    }"""
    for source in (text, hlo_conversion.hlo_proto(text)):
        lowered = lowering.lower(lowering.from_hlo(source)).text
        found = re.findall(r'frontend_attributes = {of = "(\w+)"}', lowered)
        assert sorted(found) == sorted(re.findall(r'of="(\w+)"', text))
