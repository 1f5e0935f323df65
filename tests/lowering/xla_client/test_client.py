"""Client, Device and LoadedExecutable of `xla_client`."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jaxlib.xla_client
import numpy as np
import pytest
from tables import each_row

from lowering import xla_client as xc
from lowering.xla_client import ops

X = np.array([1, 2, 3], np.float64)


@pytest.fixture
def client() -> xc.Client:
    return xc.make_cpu_client()


def negated(shape: str = "f64[3]") -> xc.XlaComputation:
    b = xc.XlaBuilder("negated")
    return b.build(ops.Neg(ops.Parameter(b, 0, xc.Shape(shape))))


def test_devices(client: xc.Client) -> None:
    assert client.platform == "cpu"
    assert client.device_count() == client.local_device_count() == len(jax.devices("cpu"))
    assert client.process_index() == client.host_id() == client.task_id() == 0
    assert client.platform_version
    assert client.runtime_type
    device, *_ = client.local_devices()
    assert device == client.devices()[0] == jax.devices("cpu")[0]
    assert hash(device) == hash(client.devices()[0])
    assert (device.platform, device.client, device.host_id) == ("cpu", client, 0)
    assert xc.get_local_backend("cpu").devices() == client.devices()


@each_row("value", [X, np.int8(3), 2.5, np.zeros(2, xc.bfloat16)])
def test_buffers_have_the_types_of_values(client: xc.Client, value: Any) -> None:
    buffer = client.buffer_from_pyval(value, client.devices()[0])
    assert buffer.dtype == np.asarray(value).dtype
    np.testing.assert_array_equal(np.asarray(buffer), value)


@each_row("dtype", [np.float32, np.bool_, xc.bfloat16])
def test_buffers_in_the_memory_of_arrays(client: xc.Client, dtype: Any) -> None:
    raw = np.zeros(256, np.uint8)
    start = -raw.ctypes.data % 128  # XLA uses aligned memory only
    values = raw[start : start + 8].view(dtype)
    shared = client.buffer_from_pyval(
        values, host_buffer_semantics=xc.HostBufferSemantics.ZERO_COPY
    )
    assert shared.dtype == dtype
    assert shared.unsafe_buffer_pointer() == values.ctypes.data
    zero_copy = xc.HostBufferSemantics.ZERO_COPY
    for copied in (
        client.buffer_from_pyval(values),
        client.buffer_from_pyval(values, None, True, zero_copy),
    ):
        assert copied.unsafe_buffer_pointer() != values.ctypes.data


def test_serialized_options() -> None:
    options = xc.CompileOptions()
    assert xc.CompileOptions.ParseFromString(options.SerializeAsString()) == options
    options.num_replicas = 3
    options.profile_version = 7
    options.compile_portable_executable = True
    options.argument_layouts = [xc.Shape("f32[2,3]{0,1}")]
    options.device_assignment = xc.DeviceAssignment.create([[4, 1], [0, 3], [5, 2]])
    options.env_option_overrides = [("xla_cpu_enable_fast_math", True)]
    build = options.executable_build_options
    build.num_partitions = 2
    build.optimization_level = 2
    build.debug_options.xla_test_all_input_layouts = True
    build.debug_options.xla_gpu_cuda_data_dir = "/cuda"
    build.debug_options.xla_no_flag_of_jaxlib = 5
    serialized = options.SerializeAsString()
    # XLA reads the same options.
    native = jaxlib.xla_client.CompileOptions.ParseFromString(serialized)
    assert (native.num_replicas, native.num_partitions, native.profile_version) == (3, 2, 7)
    assert str(native.argument_layouts) == "[f32[2,3]{0,1}]"
    assert native.device_assignment.serialize() == options.device_assignment.serialize()
    read = xc.CompileOptions.ParseFromString(serialized)
    assert read.device_assignment is not None
    assert read.device_assignment.numbers() == [4, 1, 0, 3, 5, 2]
    assert read.argument_layouts == options.argument_layouts
    assert read.env_option_overrides == options.env_option_overrides
    assert read.compile_portable_executable
    own = read.executable_build_options
    assert (own.num_replicas, own.num_partitions, own.optimization_level) == (3, 2, 2)
    assert vars(own.debug_options) == vars(build.debug_options)
    options.num_replicas = "three"  # type: ignore[assignment]  # the mistake
    with pytest.raises(TypeError, match="SerializeAsString: "):
        options.SerializeAsString()


def test_states_of_threads_are_those_of_jax() -> None:
    started = []
    xc._xla.jax_jit.set_thread_local_state_initialization_callback(lambda: started.append(1))
    thread = threading.Thread(target=lambda: started.append(jax.jit(lambda x: x + 1)(1).item()))
    thread.start()
    thread.join()
    assert started == [2]


@pytest.mark.parametrize("enabled", [True, False])
def test_tracebacks(client: xc.Client, enabled: bool) -> None:
    before = xc.Traceback.get_traceback() is None
    with xc.tracebacks(enabled=enabled):
        created = client.buffer_from_pyval(X), client.compile(negated())
        for traceback in (*(one.traceback for one in created), xc.Traceback.get_traceback()):
            assert ("test_tracebacks" in str(traceback)) == enabled
            assert (traceback is None) != enabled
    assert (xc.Traceback.get_traceback() is None) == before


def test_live_buffers(client: xc.Client) -> None:
    buffer = client.buffer_from_pyval(X)
    assert any(live is buffer for live in client.live_buffers())
    assert any(live is buffer for live in client.devices()[0].live_buffers())
    buffer.delete()
    assert not any(live is buffer for live in client.live_buffers())


def test_execute(client: xc.Client) -> None:
    executable = client.compile(negated())
    (result,) = executable.execute([client.buffer_from_pyval(X)])
    np.testing.assert_array_equal(np.asarray(result), -X)
    results, token = executable.execute_with_token([X])
    token.block_until_ready()
    np.testing.assert_array_equal(np.asarray(results[0]), -X)
    sharded = executable.execute_sharded([[X]])
    assert len(sharded) == 1
    sharded.get_sharded_token().block_until_ready()
    ((array,),) = sharded.disassemble_into_single_device_arrays()
    np.testing.assert_array_equal(np.asarray(array), -X)
    arrays, token = executable.execute_sharded_on_local_devices_with_tokens([[X]])
    token.block_until_ready()
    np.testing.assert_array_equal(np.asarray(arrays[0][0]), -X)
    (module,) = executable.hlo_modules()
    assert module.name == "negated"
    assert executable.client is client
    assert executable.fingerprint == client.compile(negated()).fingerprint
    assert executable.fingerprint != client.compile(negated("f64[4]")).fingerprint


def test_tuples_are_flat(client: xc.Client) -> None:
    b = xc.XlaBuilder("swapped")
    pair = ops.Parameter(b, 0, xc.Shape("(f64[3], (s32[]))"))
    inner = ops.GetTupleElement(pair, 1)
    ops.Tuple(b, [ops.GetTupleElement(inner, 0), ops.GetTupleElement(pair, 0)])
    executable = client.compile(b.build())
    number, vector = xc.execute_with_python_values(executable, [X, np.int32(7)], client)
    assert number == 7
    np.testing.assert_array_equal(vector, X)
    with pytest.raises(xc.XlaRuntimeError, match=r"expected 2 arguments for .*, got 1"):
        executable.execute([X])


def test_wrong_arguments(client: xc.Client) -> None:
    executable = client.compile(negated())
    with pytest.raises(xc.XlaRuntimeError, match=r"must be f64\[3\], got f32\[3\]"):
        executable.execute([X.astype(np.float32)])
    deleted = client.buffer_from_pyval(X)
    deleted.delete()
    with pytest.raises(xc.XlaRuntimeError):
        executable.execute([deleted])


def test_argument_layouts(client: xc.Client) -> None:
    options = xc.CompileOptions()
    options.argument_layouts = [xc.Shape("f64[3]")]
    client.compile(negated(), options)
    options.argument_layouts = [xc.Shape("f32[3]")]
    with pytest.raises(xc.XlaRuntimeError, match=r"expected f64\[3\]\{0\}, got f32\[3\]\{0\}"):
        client.compile(negated(), compile_options=options)
    options.argument_layouts = []
    with pytest.raises(xc.XlaRuntimeError, match="expected 1 argument_layouts, got 0"):
        client.compile(negated(), compile_options=options)


def test_result_layout(client: xc.Client) -> None:
    options = xc.CompileOptions()
    options.executable_build_options.result_layout = xc.Shape("f64[3]{0}")
    client.compile(negated(), options)
    options.executable_build_options.result_layout = xc.Shape("f64[4]")
    with pytest.raises(xc.XlaRuntimeError, match=r"expected f64\[3\]\{0\}, got f64\[4\]\{0\}"):
        client.compile(negated(), options)


@pytest.mark.parametrize("form", ["bytecode", "text", "hlo"])
def test_programs_in_other_forms(client: xc.Client, form: str) -> None:
    program: Any = negated().get_hlo_module()
    if form != "hlo":
        program = xc._xla.mlir.xla_computation_to_mlir_module(negated())
    if form == "text":
        program = (
            "func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {"
            "  %0 = stablehlo.negate %x : tensor<3xf64> return %0 : tensor<3xf64> }"
        )
    (result,) = client.compile(program).execute([X])
    np.testing.assert_array_equal(np.asarray(result), -X)


def test_replicas(client: xc.Client) -> None:
    if client.device_count() < 2:
        pytest.skip("needs two CPU devices")
    b = xc.XlaBuilder("total")
    x = ops.Parameter(b, 0, xc.Shape("f32[2]"))
    c = xc.XlaBuilder("add")
    scalars = [ops.Parameter(c, i, xc.Shape("f32[]")) for i in range(2)]
    ops.Tuple(b, [ops.AllReduce(x, c.build(ops.Add(*scalars)))])
    options = xc.CompileOptions()
    options.executable_build_options.num_replicas = 2
    options.executable_build_options.device_assignment = xc.DeviceAssignment.create([[0], [1]])
    executable = client.compile(b.build(), options)
    assert [device.id for device in executable.local_devices()] == [0, 1]
    values = [[np.float32([1, 2])], [np.float32([10, 20])]]
    results = xc.execute_with_python_values_replicated(executable, values, client)
    assert [[array.tolist() for array in arrays] for arrays in results] == [[[11, 22]]] * 2


def test_options_that_do_not_fit(client: xc.Client) -> None:
    options = xc.CompileOptions()
    options.device_assignment = xc.DeviceAssignment.create([[999]])
    with pytest.raises(TypeError, match=r"expected numbers of devices of the platform cpu.*999"):
        client.compile(negated(), options)
    with pytest.raises(TypeError, match="host_callbacks are not supported"):
        client.compile(negated(), host_callbacks=[print])
    with pytest.raises(TypeError, match="expected an array of two dimensions"):
        xc.DeviceAssignment.create([1, 2])


def test_device_assignment() -> None:
    assignment = xc.DeviceAssignment.create(np.arange(6).reshape(3, 2))
    assert (assignment.replica_count(), assignment.computation_count()) == (3, 2)
    # replica_count, computation_count, and the replicas' devices of each computation
    assert assignment.serialize() == (
        b"\x08\x03\x10\x02\x1a\x05\n\x03\x00\x02\x04\x1a\x05\n\x03\x01\x03\x05"
    )


def test_a_serialized_executable(client: xc.Client) -> None:
    data = client.serialize_executable(client.compile(negated()))
    (result,) = client.deserialize_executable(data).execute([X])
    np.testing.assert_array_equal(np.asarray(result), -X)
    with pytest.raises(xc.XlaRuntimeError, match="INVALID_ARGUMENT: deserialize_executable"):
        client.deserialize_executable(b"no executable")


def test_python_callbacks(client: xc.Client) -> None:
    b = xc.XlaBuilder("callback")
    x = ops.Parameter(b, 0, xc.Shape("f64[3]"))
    shape = xc.Shape("f64[3]")
    out, _ = client.emit_python_callback(lambda v: (v + 1, v * 2), b, [x], [shape, shape])
    assert out.shape == xc.Shape("(f64[3], f64[3])").new
    more, double = xc.execute_with_python_values(client.compile(b.build()), [X], client)
    np.testing.assert_array_equal(more, X + 1)
    np.testing.assert_array_equal(double, X * 2)


def test_a_callback_that_fails(client: xc.Client) -> None:
    def fail() -> Any:
        raise ValueError("no value")

    b = xc.XlaBuilder("callback")
    client.emit_python_callback(fail, b, [], [xc.Shape("f64[]")], has_side_effects=True)
    executable = client.compile(b.build())
    with pytest.raises(xc.XlaRuntimeError, match="no value"):
        executable.execute([])


def test_channel_handles(client: xc.Client) -> None:
    first, second = client.create_channel_handle(), client.create_channel_handle()
    assert first.handle != second.handle
    b = xc.XlaBuilder("permuted")
    x = ops.Parameter(b, 0, xc.Shape("f32[2]"))
    assert ops.CollectivePermute(x, [(0, 0)], second).attributes["channel_handle"].handle == 2


def test_layouts_of_compiled_programs(client: xc.Client) -> None:
    b = xc.XlaBuilder("layouts")
    x = ops.Parameter(b, 0, xc.Shape("f32[2,3]{0,1}"))
    y = ops.Parameter(b, 1, xc.Shape("s32[]"))
    executable = client.compile(b.build(ops.Tuple(b, [x, y])))
    first, second = executable.get_parameter_layouts()
    assert (first.minor_to_major(), second.minor_to_major()) == ((0, 1), ())
    assert [x.minor_to_major() for x in executable.get_output_layouts()] == [(1, 0), ()]


def test_devices_by_hardware_id(client: xc.Client) -> None:
    for device in client.local_devices():
        assert client.device_from_local_hardware_id(device.local_hardware_id) == device
    with pytest.raises(xc.XlaRuntimeError, match=r"local_hardware_id must be one of \[.*, got 77"):
        client.device_from_local_hardware_id(77)


def test_number_of_cpu_devices() -> None:
    count = len(jax.devices("cpu"))
    assert xc.make_cpu_client(num_devices=1).device_count() == 1
    assert xc.make_cpu_client(num_devices=count).device_count() == count
    with pytest.raises(
        xc.XlaRuntimeError, match=f"num_devices is {count + 1}, but jax has created"
    ):
        xc.make_cpu_client(num_devices=count + 1)


def test_debug_options(client: xc.Client) -> None:
    options = xc.CompileOptions()
    options.executable_build_options.debug_options.xla_cpu_enable_fast_math = True
    assert client.compile(negated(), options).execute([X])[0].tolist() == [-1, -2, -3]
    options.executable_build_options.debug_options.xla_no_such_flag = True
    with pytest.raises(xc.XlaRuntimeError, match="xla_no_such_flag"):
        client.compile(negated(), options)


def test_options_that_do_not_exist(client: xc.Client) -> None:
    options = xc.CompileOptions()
    with pytest.raises(AttributeError, match="num_replica"):
        options.num_replica = 2  # type: ignore[attr-defined]
    options.executable_build_options.use_auto_spmd_partitioning = True
    with pytest.raises(TypeError, match="use_auto_spmd_partitioning is not supported"):
        client.compile(negated(), options)


def test_print_options(client: xc.Client) -> None:
    executable = client.compile(negated())
    (module,) = executable.hlo_modules()
    assert "f64[3]{0} %p0" not in module.to_string(xc._xla.HloPrintOptions.short_parsable())
    assert "ROOT" in module.to_string(xc._xla.HloPrintOptions.short_parsable())
    assert executable.cost_analysis()["bytes accessed"] == 48


def test_status_codes_of_xla(client: xc.Client) -> None:
    b = xc.XlaBuilder("unknown")
    ops.CustomCall(b, b"no_such_function", [], xc.Shape("f32[]"))
    with pytest.raises(xc.XlaRuntimeError, match=r"NOT_FOUND: compile: .*'no_such_function'"):
        client.compile(b.build())


@each_row("dtype", [np.float64, np.int8, np.complex128, xc.bfloat16])
def test_dlpack(client: xc.Client, dtype: Any) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    buffer = client.buffer_from_pyval(values)
    tensor = xc._xla.buffer_to_dlpack_managed_tensor(buffer)
    shared = xc._xla.dlpack_managed_tensor_to_buffer(tensor, client)
    assert shared.dtype == dtype
    assert shared.unsafe_buffer_pointer() == buffer.unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.asarray(shared), values)
    with pytest.raises(xc.XlaRuntimeError, match="consumed at most once"):
        xc._xla.dlpack_managed_tensor_to_buffer(tensor, client.devices()[0], None)


def test_names_of_the_runtime(client: xc.Client) -> None:
    assert isinstance(client.buffer_from_pyval(X), xc.ArrayImpl)
    for name in xc._xla.RUNTIME_NAMES:
        assert getattr(xc, name) is getattr(xc._xla, name)
    with pytest.raises(AttributeError, match=r"no attribute 'Arrays'\nfix: see the table"):
        xc.Arrays  # noqa: B018


def test_mistakes(client: xc.Client) -> None:
    b = xc.XlaBuilder("mistakes")
    x = ops.Parameter(b, 0, xc.Shape("f64[3]"))
    with pytest.raises(
        TypeError, match=r"expected an XlaComputation, got <XlaBuilder 'mistakes', "
    ):
        client.compile(b)
    computation = b.build(ops.Neg(x))
    assert repr(computation) == "<XlaComputation 'mistakes' (p0: f64[3]) -> f64[3]>"
    executable = client.compile(computation)
    with pytest.raises(TypeError, match=r"execute: expected a list of 1 arguments, got array\("):
        executable.execute(X)
    with pytest.raises(xc.XlaRuntimeError, match=r"expected 1 arguments for \[f64\[3\]\{0\}\], "):
        executable.execute([X, X])
    with pytest.raises(TypeError, match=r"compile: expected a CompileOptions, got \{\}"):
        client.compile(computation, {})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="set_op_metadata: expected an OpMetadata, got 3"):
        b.set_op_metadata(3)  # type: ignore[arg-type]
    with pytest.raises(xc.XlaRuntimeError, match="get_local_backend: there is no platform 'none'"):
        xc.get_local_backend("none")
    with pytest.raises(TypeError, match="'Client' object has no attribute"):
        xc.execute_with_python_values(client, [X], client)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"Iota: expected a PrimitiveType or a NumPy dtype, got \(2"
    ):
        ops.Iota(b, (2, 3), 0)
    with pytest.raises(TypeError, match="expected three strings, got 'NCHW'"):
        xc.make_convolution_dimension_numbers("NCHW", 2)  # type: ignore[arg-type]
