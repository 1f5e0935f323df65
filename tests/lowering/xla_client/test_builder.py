"""XlaBuilder, XlaComputation and HloModule of `xla_client`."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from tables import each_row

import lowering
from builder.schema import SCHEMAS
from lowering import xla_client as xc
from lowering.xla_client import ops
from lowering.xla_client.builder import RUNTIME_VALUES

VECTOR = xc.Shape("f32[3]")


def sum_of_parameters(name: str = "total") -> xc.XlaComputation:
    b = xc.XlaBuilder(name)
    x, y = (ops.Parameter(b, i, VECTOR) for i in range(2))
    return b.build(ops.Add(x, y))


def test_last_op_is_the_root() -> None:
    b = xc.XlaBuilder("last")
    x = ops.Parameter(b, 0, VECTOR)
    ops.Neg(x)
    assert b.build().new.root.opcode == "negate"


def test_a_root_other_than_the_last_op() -> None:
    b = xc.XlaBuilder("root")
    root = ops.Neg(ops.Parameter(b, 0, VECTOR))
    ops.Abs(root)
    assert b.Build(root).new.root is root


def test_a_builder_begins_again_after_build() -> None:
    b = xc.XlaBuilder("again")
    old = ops.Parameter(b, 0, VECTOR)
    first = b.build()
    x = ops.Parameter(b, 0, xc.Shape("s32[]"))
    second = b.build(ops.Neg(x))
    assert repr(first.program_shape()) == "(p0: f32[3]) -> f32[3]"
    assert repr(second.program_shape()) == "(p0: s32[]) -> s32[]"
    with pytest.raises(xc.XlaRuntimeError, match="INVALID_ARGUMENT: Neg: "):
        ops.Neg(old)
    with pytest.raises(xc.XlaRuntimeError, match="since its last build"):
        b.get_shape(old)


def test_shapes_of_ops() -> None:
    b = xc.XlaBuilder("shapes")
    x = ops.Parameter(b, 0, xc.Shape("f32[2,3]"))
    assert b.get_shape(x).dimensions() == (2, 3)
    assert b.GetShape(ops.Tuple(b, [x, x])).tuple_shapes() == [xc.Shape("f32[2,3]")] * 2
    assert b.get_program_shape(x).result_shape() == xc.Shape("f32[2,3]")
    assert b.get_program_shape().result_shape().is_tuple()
    with pytest.raises(TypeError, match="expected an XlaOp"):
        b.get_shape(3)  # type: ignore[arg-type]


def test_an_error_at_the_op() -> None:
    b = xc.XlaBuilder("errors")
    x, y = ops.Parameter(b, 0, VECTOR), ops.Parameter(b, 1, xc.Shape("f32[4]"))
    frame = inspect.currentframe()
    assert frame is not None
    line = frame.f_lineno + 2
    with pytest.raises(xc.XlaRuntimeError) as caught:
        ops.Add(x, y)
    assert str(caught.value).startswith("INVALID_ARGUMENT: Add: ")
    assert isinstance(caught.value, lowering.errors.XlaError)
    assert caught.value.location == f"{__file__}:{line}"
    # The op was not recorded; the builder is not affected.
    assert b.build().new.root is y


def test_errors_of_build() -> None:
    with pytest.raises(xc.XlaRuntimeError, match=r"INVALID_ARGUMENT: build: .* recorded no op"):
        xc.XlaBuilder("empty").build()
    b = xc.XlaBuilder("gap")
    ops.Parameter(b, 1, VECTOR)
    with pytest.raises(xc.XlaRuntimeError, match="number 0 is missing"):
        b.build()
    other = ops.Parameter(xc.XlaBuilder("other"), 0, VECTOR)
    with pytest.raises(xc.XlaRuntimeError, match="INVALID_ARGUMENT: build: "):
        xc.XlaBuilder("mine").build(other)
    with pytest.raises(TypeError, match="name must be a string"):
        xc.XlaBuilder(3)  # type: ignore[arg-type]


def test_errors_of_types() -> None:
    b = xc.XlaBuilder("types")
    x = ops.Parameter(b, 0, VECTOR)
    with pytest.raises(TypeError, match="Fft: expected a member of FftType"):
        ops.Fft(x, 7, [3])
    with pytest.raises(TypeError, match="Call: expected an XlaComputation"):
        ops.Call(b, b, [x])
    with pytest.raises(TypeError, match="Iota: expected an XlaBuilder"):
        ops.Iota(x, 11, 3)
    with pytest.raises(TypeError, match="Map: static_operands are not supported"):
        ops.Map(b, [x], sum_of_parameters(), [0], [x])


def test_gather_of_wrong_dimensions_is_no_type_error() -> None:
    b = xc.XlaBuilder("types")
    x, indices = (ops.Parameter(b, i, xc.Shape(t)) for i, t in enumerate(["f32[3]", "s32[2]"]))
    with pytest.raises(xc.XlaRuntimeError, match="Gather: start_index_map") as raised:
        ops.Gather(x, indices, xc.GatherDimensionNumbers(), [1])
    assert not isinstance(raised.value, TypeError)


def test_lists_of_ops() -> None:
    b = xc.XlaBuilder("types")
    x = ops.Parameter(b, 0, VECTOR)
    assert ops.Tuple(b, (op for op in [x, x])).operands == (x, x)
    with pytest.raises(TypeError, match=r"AfterAll: tokens must be a sequence of XlaOps, got 1.5"):
        ops.AfterAll(b, 1.5)
    with pytest.raises(TypeError, match="Tuple: elements must be a sequence of XlaOps, got None"):
        ops.Tuple(b, None)
    with pytest.raises(TypeError, match="Call: operands must be a sequence of XlaOps, got <XlaOp"):
        ops.Call(b, sum_of_parameters(), x)


def test_errors_of_element_types_are_both() -> None:
    x = ops.Parameter(xc.XlaBuilder("types"), 0, xc.Shape("s32[3]"))
    for error in (TypeError, xc.XlaRuntimeError):
        with pytest.raises(error, match="INVALID_ARGUMENT: Erfc: x must be a floating-point"):
            ops.Erfc(x)


@each_row(
    "call",
    [
        lambda b, x: ops.Conditional(x, 3, x),
        lambda b, x: ops.Reshape(x, 3, x),
        lambda b, x: ops.SendToHost(x, x, VECTOR, VECTOR),
        lambda b, x: ops.Parameter(b, 1, VECTOR, ["name"]),
        lambda b, x: VECTOR.is_dynamic_dimension(7),
        lambda b, x: xc.dtype_to_etype("datetime64[s]"),
        lambda b, x: xc.shape_from_pyval(3),
        lambda b, x: xc.Shape.tuple_shape([3]),
        lambda b, x: xc.make_convolution_dimension_numbers(("AB", "CD", "EF"), 2),
        lambda b, x: xc.make_dot_dimension_numbers((1, 2)),
        lambda b, x: xc.make_replica_groups(3),
        lambda b, x: xc.make_cpu_client().buffer_from_pyval(1.5, 3),
    ],
)
def test_arguments_of_unexpected_types(call: Callable[..., object]) -> None:
    b = xc.XlaBuilder("types")
    with pytest.raises(
        TypeError, match=r"INVALID_ARGUMENT: .* the arguments do not fit: "
    ) as caught:
        call(b, ops.Parameter(b, 0, VECTOR))
    assert isinstance(caught.value, lowering.errors.XlaError)
    assert caught.value.location is not None
    assert caught.value.location.startswith(__file__)


def test_constants() -> None:
    b = xc.XlaBuilder("constants")
    x = ops.Parameter(b, 0, VECTOR)
    three = ops.Constant(b, np.float32(3))
    assert b.is_constant(ops.Neg(ops.Add(three, three)))
    assert not b.is_constant(ops.Add(x, three))
    assert not b.is_constant(ops.RngUniform(three, three, VECTOR))


def test_opcodes_of_runtime_values() -> None:
    assert SCHEMAS.keys() >= RUNTIME_VALUES
    missing = {name for name in SCHEMAS if name.startswith(("rng", "all_", "collective"))}
    assert missing <= RUNTIME_VALUES


def test_metadata() -> None:
    b = xc.XlaBuilder("metadata")
    b.set_op_metadata(xc.OpMetadata("Type", "name", "model.py", 7))
    x = ops.Neg(ops.Parameter(b, 0, VECTOR))
    b.set_op_metadata(xc.CurrentSourceInfoMetadata(op_type="Other"))
    y = ops.Neg(x)
    b.clear_op_metadata()
    z = ops.Neg(y)
    assert (x.op_type, x.name) == ("Type", "name")
    assert (x.source.file, x.source.line) == ("model.py", 7)
    assert y.op_type == "Other"
    assert y.source.file == "test_builder.py"
    assert z.op_type is None
    assert z.source.file == __file__
    text = b.build(z).get_hlo_module().to_string()
    assert 'op_type="Type" op_name="name"' in text


def test_frontend_attributes() -> None:
    b = xc.XlaBuilder("attributes")
    attributes = xc.FrontendAttributes()
    attributes["stage"] = "1"
    b.set_frontend_attributes(attributes)
    x = ops.Parameter(b, 0, VECTOR)
    b.clear_frontend_attributes()
    assert x.frontend_attributes == {"stage": "1"}
    assert not ops.Neg(x).frontend_attributes


def test_source_lines_are_those_of_the_caller() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    x = ops.Parameter(xc.XlaBuilder("lines"), 0, VECTOR)
    assert (x.source.file, x.source.line) == (__file__, frame.f_lineno - 1)
    y = ops.Erfc(x)
    assert (y.source.file, y.source.line) == (__file__, frame.f_lineno - 1)


def tiled() -> xc.OpSharding:
    sharding = xc.OpSharding()
    sharding.type = sharding.Type.OTHER
    sharding.tile_assignment_dimensions = [2, 1, 2]
    sharding.tile_assignment_devices = [0, 1, 2, 3]
    sharding.replicate_on_last_tile_dim = True
    return sharding


def test_shardings() -> None:
    b = xc.XlaBuilder("sharded")
    b.set_sharding(tiled())
    x = ops.Parameter(b, 0, xc.Shape("f32[4,3]"))
    b.clear_sharding()
    assert x.sharding == "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}"
    assert ops.Neg(x).sharding is None
    with pytest.raises(TypeError, match="expected an OpSharding"):
        b.set_sharding("{replicated}")  # type: ignore[arg-type]


def test_texts_of_shardings() -> None:
    kinds = xc.OpSharding.Type
    assert xc.OpSharding().new() == "{replicated}"
    assert xc.OpSharding(kinds.MANUAL).new() == "{manual}"
    assert xc.OpSharding(kinds.MAXIMAL, tile_assignment_devices=[3]).new() == "{maximal device=3}"
    pair = xc.OpSharding(kinds.TUPLE, tuple_shardings=[xc.OpSharding(), tiled()])
    assert pair.new() == ("{{replicated}, {devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}}")
    iota = xc.OpSharding(kinds.OTHER, [2, 2], iota_reshape_dims=[2, 2], iota_transpose_perm=[1, 0])
    assert iota.new() == "{devices=[2,2]<=[2,2]T(1,0)}"
    groups = xc.OpSharding(
        kinds.OTHER, [2, 1, 2], iota_reshape_dims=[4], last_tile_dims=[kinds.MANUAL]
    )
    assert groups.new() == "{devices=[2,1,2]<=[4] last_tile_dims={manual}}"
    assert groups.clone() == groups
    with pytest.raises(TypeError, match="MAXIMAL needs one device"):
        xc.OpSharding(kinds.MAXIMAL).new()


def test_aliases() -> None:
    b = xc.XlaBuilder("aliased")
    x = ops.Parameter(b, 0, VECTOR)
    b.setup_alias([], 0, ())
    (alias,) = b.build(ops.Neg(x)).new.aliases
    assert (alias.output_index, alias.param_number) == ((), 0)
    with pytest.raises(xc.XlaRuntimeError, match="INVALID_ARGUMENT: setup_alias: "):
        b.setup_alias([], 0, [])


def test_computation() -> None:
    computation = sum_of_parameters()
    assert computation.name() == "total"
    assert computation.as_hlo_text().startswith("HloModule total")
    assert computation.program_shape().parameter_shapes() == [VECTOR, VECTOR]
    assert computation.hash() == sum_of_parameters().hash() != sum_of_parameters("other").hash()
    assert computation.as_hlo_dot_graph().count("->") == 2
    assert computation.get_hlo_module().name == "total"


def test_protos_of_equal_computations_are_equal() -> None:
    protos = {c.as_serialized_hlo_module_proto() for c in [sum_of_parameters() for _ in range(3)]}
    assert len(protos) == 1


def test_a_computation_is_read_from_a_proto() -> None:
    proto = sum_of_parameters().as_serialized_hlo_module_proto()
    read = xc.XlaComputation(proto)
    client = xc.make_cpu_client()
    values = [np.float32([1, 2, 3]), np.float32([4, 5, 6])]
    (result,) = xc.execute_with_python_values(client.compile(read), values, client)
    assert result.tolist() == [5, 7, 9]
    module = xc._xla.HloModule.from_serialized_hlo_module_proto(proto)
    assert module.name == "total"
    assert module.as_serialized_hlo_module_proto() == proto
    with pytest.raises(TypeError, match="expected the bytes of a HloModuleProto"):
        xc.XlaComputation("HloModule")  # type: ignore[arg-type]
    with pytest.raises(xc.XlaRuntimeError, match="INVALID_ARGUMENT: XlaComputation: "):
        xc.XlaComputation(b"\n\x02aa")


def test_modules() -> None:
    module = xc._xla.mlir.xla_computation_to_mlir_module(sum_of_parameters())
    assert lowering.load_bytes(module).program_shape == sum_of_parameters().new.program_shape
    back = xc._xla.mlir.mlir_module_to_xla_computation(module)
    assert back.new.root.opcode == "add"
    text = xc._xla.hlo_module_from_text(back.as_hlo_text())
    cost = xc._xla.hlo_module_cost_analysis(xc.make_cpu_client(), text)
    assert cost["flops"] == 3


def test_layouts_of_parameters() -> None:
    b = xc.XlaBuilder("layouts")
    x = ops.Parameter(b, 0, xc.Shape("f32[2,3]{0,1}"))
    shape = b.build(ops.Neg(x)).program_shape()
    assert shape.parameter_shapes() == [xc.Shape("f32[2,3]{0,1}")]
