"""Compiled computations: arguments, results and refused arguments."""

import gc
import weakref

import jax
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from processes import run_python
from tables import each_row

import builder as xb
import lowering
from builder.types import primitive_type as pt
from lowering import ArgumentError, CompileError
from lowering.mlir.types import element_type_text
from tests.foreign_arrays import DlpackOnly, LazyTensor
from tests.lowering.common import aligned
from tests.lowering.pjrt.test_devices import values

AFFINE = """
module @affine {
  func.func @main(%x: tensor<2x3xf32> {xlabuilder.name = "x"}, %w: tensor<3xf32> {xlabuilder.name = "w"}) -> tensor<2x3xf32> {
    %0 = stablehlo.broadcast_in_dim %w, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %x, %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}"""  # noqa: E501

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.array([10, 20, 30], np.float32)


def compiled(text):
    return lowering.compile(lowering.load_bytes(text), "cpu")


@pytest.fixture(scope="module")
def affine():
    return compiled(AFFINE)


def refused(executable, *args, **by_name):
    with pytest.raises(ArgumentError) as caught:
        executable(*args, **by_name)
    assert caught.value.computation == executable.name
    return str(caught.value)


def test_positions_and_names(affine):
    for result in (affine(X, W), affine(X, w=W), affine(w=W, x=X), affine(x=X, w=W)):
        assert isinstance(result, jax.Array)
        assert np.array_equal(result, X + W)
    assert str(affine.program_shape) == "(x: f32[2,3], w: f32[3]) -> f32[2,3]"
    assert affine.device is lowering.device("cpu")
    assert repr(affine) == f"<Executable 'affine' {affine.program_shape} on {affine.device}>"
    assert "HloModule affine" in affine.hlo_text()


def test_kinds_of_arrays(affine):
    on_device = lowering.device_put(X, "cpu")
    by_jax = jax.device_put(X, lowering.device("cpu"))
    sharded = jax.device_put(
        X,
        jax.sharding.NamedSharding(
            jax.sharding.Mesh([lowering.device("cpu")], "a"), jax.sharding.PartitionSpec()
        ),
    )
    for x in (
        X,
        on_device,
        by_jax,
        sharded,
        jax.numpy.asarray(X),
        affine(X, W) - W,
        DlpackOnly(X),
        DlpackOnly(on_device),
        LazyTensor(-X),
        np.asfortranarray(X),
        X.astype(">f4"),
        np.broadcast_to(X, X.shape),
        X.view(type("Sub", (np.ndarray,), {})),
    ):
        assert np.array_equal(affine(x, W), X + W)


def test_arguments_are_neither_retained_nor_shared(affine):
    x, w = aligned(X), aligned(W)
    identity = compiled(
        "func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> { return %a : tensor<2x3xf32> }"
    )
    result, same = affine(x, w), identity(x)
    x[...] = 0
    w[...] = 0
    assert np.array_equal(result, X + W)
    assert np.array_equal(same, X)


@each_row("element_type", pt.ALL)
def test_every_element_type_bit_for_bit(element_type):
    t = element_type_text(element_type)
    run = compiled(
        f"func.func @main(%a: tensor<3x4x{t}>, %b: tensor<{t}>) -> (tensor<{t}>, tensor<3x4x{t}>)"
        f" {{ return %b, %a : tensor<{t}>, tensor<3x4x{t}> }}"
    )
    a = values(element_type).reshape(3, 4)
    b = values(element_type)[5]
    scalar, matrix = run(a, b)
    assert scalar.dtype == matrix.dtype == element_type.dtype
    assert np.asarray(matrix).tobytes() == a.tobytes()
    assert np.asarray(scalar).tobytes() == b.tobytes()
    again, _ = run(matrix, scalar)
    assert np.asarray(again).tobytes() == b.tobytes()


@pytest.mark.parametrize("flag", [False, True])
def test_64_bit_types_with_and_without_jax_enable_x64(flag):
    run = compiled(
        "func.func @main(%a: tensor<2xf64>, %b: tensor<2xi64>) -> (tensor<2xf64>, tensor<2xi64>) {"
        " %0 = stablehlo.add %a, %a : tensor<2xf64> %1 = stablehlo.add %b, %b : tensor<2xi64>"
        " return %0, %1 : tensor<2xf64>, tensor<2xi64> }"
    )
    with jax.enable_x64(flag):
        a, b = run(np.array([0.1, 1e300]), np.array([2**61 + 1, -3]))
        assert (a.dtype, b.dtype) == (np.float64, np.int64)
        assert np.asarray(a).tolist() == [0.2, 2e300]
        assert np.asarray(b).tolist() == [2**62 + 2, -6]
        a, b = run(a, b)
        assert np.asarray(b).tolist() == [-(2**63) + 4, -12]


def test_numbers_for_scalars():
    run = compiled(
        "module @f { func.func @main(%a: tensor<f32>, %b: tensor<i8>, %c: tensor<i1>,"
        " %d: tensor<complex<f32>>) -> (tensor<f32>, tensor<i8>, tensor<i1>, tensor<complex<f32>>)"
        " { return %a, %b, %c, %d : tensor<f32>, tensor<i8>, tensor<i1>, tensor<complex<f32>> } }"
    )
    results = run(0.5, -3, True, 1 - 2j)
    assert [np.asarray(r).item() for r in results] == [0.5, -3, True, 1 - 2j]
    results = run(np.float32(0.5), np.int8(-3), np.True_, np.complex64(1))
    assert [np.asarray(r).item() for r in results] == [0.5, -3, True, 1]
    start = "f: argument 1 (arg1) must be s8[], got "
    assert refused(run, 0.5, 300, True, 1).startswith(start + "the Python number 300: ")
    assert "-128 to 127" in refused(run, 0.5, 300, True, 1)
    assert refused(run, 0.5, 1.0, True, 1).startswith(start + "the Python number 1.0: ")
    assert refused(run, 0.5, np.int64(3), True, 1) == (
        start + "s64[]\nfix: convert it: array.astype(numpy.int8)"
    )
    assert "must be pred[], got the Python number 1: " in refused(run, 0.5, 3, 1, 1)
    assert "must be f32[], got the Python number 16777217: " in refused(run, 2**24 + 1, 3, True, 1)


# Tuples and tokens


NESTED = """
module @nested {
  func.func @main(%a: tensor<f32> {xlabuilder.name = "state[0]"}, %b: tensor<2xi32> {xlabuilder.name = "state[1][0]"}, %c: tensor<i1> {xlabuilder.name = "flag"}) -> (tensor<2xi32>, tensor<f32>, tensor<i1>) attributes {xlabuilder.parameters = ["(f32[], (s32[2], ()))", "pred[]"], xlabuilder.result = "((s32[2]), (), (f32[], pred[]))"} {
    return %b, %a, %c : tensor<2xi32>, tensor<f32>, tensor<i1>
  }
}
"""  # noqa: E501


def test_tuples():
    run = compiled(NESTED)
    b = np.array([1, 2], np.int32)
    for result in (
        run((1.5, (b, ())), True),
        run([1.5, [b, []]], flag=True),
        run(flag=np.True_, state=(np.float32(1.5), (b, ()))),
    ):
        (one,), empty, (two, three) = result
        assert empty == ()
        assert np.asarray(one).tolist() == [1, 2]
        assert (two.item(), three.item()) == (1.5, True)
    start = "nested: argument 0 (state)"
    assert refused(run, (1.5, b), True) == (
        f"{start}[1] must be a tuple (s32[2], ()), got s32[2]\n"
        "fix: pass a tuple or list of length 2"
    )
    assert refused(run, (1.5,), True) == (
        f"{start} must be a tuple (f32[], (s32[2], ())), got a tuple of 1\n"
        "fix: pass a tuple or list of length 2"
    )
    assert refused(run, (1.5, (b.astype(np.int8), ())), True) == (
        f"{start}[1][0] must be s32[2], got s8[2]\nfix: convert it: array.astype(numpy.int32)"
    )
    assert refused(run, 1.5) == (
        "nested: takes 2 arguments (state (f32[], (s32[2], ())), flag pred[]), got 1\n"
        "fix: pass flag pred[] as well"
    )


def test_no_parameters_and_results():
    run = compiled("func.func @main() { return }")
    assert run() == ()
    assert refused(run, 1) == ("main: takes 0 arguments, got 1\nfix: call it without arguments")
    assert refused(run, x=1) == "main: there is no parameter 'x'\nfix: call it without arguments"
    one = compiled(NESTED.replace("((s32[2]), (), (f32[], pred[]))", "(s32[2], f32[], pred[])"))
    assert [r.shape for r in one((1, (np.zeros(2, np.int32), ())), False)] == [(2,), (), ()]


def test_tokens():
    run = compiled(
        "module @t { func.func @main(%a: !stablehlo.token, %b: tensor<f32>)"
        " -> (!stablehlo.token, tensor<f32>) {"
        " return %a, %b : !stablehlo.token, tensor<f32> } }"
    )
    token, value = run(None, 2.0)
    assert token is None
    assert value.item() == 2.0
    assert refused(run, 1, 2.0) == (
        "t: argument 0 (arg0) must be token[], got an int\nfix: pass None for a token"
    )
    alone = compiled(
        "func.func @main() -> !stablehlo.token {"
        " %0 = stablehlo.create_token : !stablehlo.token return %0 : !stablehlo.token }"
    )
    assert alone() is None


# Wrong arguments


def test_wrong_counts_and_names(affine):
    takes = "affine: takes 2 arguments (x f32[2,3], w f32[3])"
    assert refused(affine, X) == f"{takes}, got 1\nfix: pass w f32[3] as well"
    assert refused(affine) == f"{takes}, got 0\nfix: pass x f32[2,3], w f32[3]"
    assert refused(affine, (X, W)) == (
        f"{takes}, got 1\nfix: pass 2 arguments instead of one tuple: run(*arrays)"
    )
    assert refused(affine, X, W, W) == f"{takes}, got 3\nfix: pass only the first 2"
    assert refused(affine, X, W, w=W) == (
        "affine: parameter 'w' is passed by position (1) and by name\nfix: pass the argument once"
    )
    assert refused(affine, X, W, W, w=W) == f"{takes}, got 3\nfix: pass only the first 2"
    assert refused(affine, w=W) == (
        "affine: argument 0 (x) f32[2,3] is missing\nfix: pass x, by position or by name"
    )
    assert refused(affine, X, b=W) == ("affine: there is no parameter 'b'\nfix: use one of x, w")


def test_wrong_shapes_and_types(affine):
    start = "affine: argument 1 (w) must be f32[3], got "

    def message(w):
        actual = refused(affine, X, w)
        assert actual == refused(affine, X, w=w)
        assert actual.startswith(start), actual
        return actual.removeprefix(start)

    assert message(W.astype(np.float64)) == ("f64[3]\nfix: convert it: array.astype(numpy.float32)")
    assert message(W.reshape(3, 1)) == "f32[3,1]\nfix: reshape it: array.reshape((3,))"
    sizes_fix = "\nfix: pass an array of the parameter's sizes: (3,)"
    assert message(np.zeros(4, np.float32)) == f"f32[4]{sizes_fix}"
    assert message(W.astype(np.int32)).startswith("s32[3]\nfix: convert it")
    assert message(lowering.device_put(W.astype(np.float64))).startswith("f64[3]\nfix: convert it")
    assert message(lowering.device_put(np.zeros(4, np.float32))) == f"f32[4]{sizes_fix}"
    assert message(DlpackOnly(W.astype(np.int8))).startswith("s8[3]")
    struct = jax.ShapeDtypeStruct((3,), np.float32)
    assert message(struct).startswith("a ShapeDtypeStruct of f32[3]\nfix: pass a NumPy array")
    kind_fix = (
        "\nfix: pass an array of numbers: numpy.asarray(values, numpy.float32), of sizes (3,)"
    )
    assert message(np.array(["a", "b", "c"])) == f"an array <U1[3]{kind_fix}"
    numpy_fix = "\nfix: pass a NumPy array: numpy.asarray(value, numpy.float32)"
    assert message(1.0) == f"the Python number 1.0{numpy_fix}"
    sizes = "\nfix: pass nested lists of the parameter's sizes: (3,)"
    assert message([1, 2]) == f"a list of sizes (2,){sizes}"
    assert message((1, (2, 3))) == (
        "a tuple: nested lists must have equal lengths and contain numbers, got (1, (2, 3))\n"
        "fix: write lists of equal lengths at each level"
    )
    assert message([1, 2, "3"]) == (
        f"a list: nested lists must contain numbers, got str: '3'{numpy_fix}"
    )
    assert message([1, 2, 1e300]) == (
        "a list with the Python number 1e+300: the range is -3.4028234663852886e+38 to "
        "3.4028234663852886e+38\nfix: use a type such as f64"
    )
    assert message(None) == f"None{numpy_fix}"
    assert message("w") == f"a str{numpy_fix}"
    assert message(np.ma.ones(3, np.float32)) == (
        "a masked array\nfix: fill the masked elements: array.filled(value)"
    )
    assert message(jax.random.key(0)) == f"a PRNGKeyArray of key<fry>[]{kind_fix}"
    b = xb.XlaBuilder("other")
    assert message(b.parameter(xb.f32[3], "p")).endswith(
        "\nfix: pass an array; an op has no value before its computation is called"
    )


@each_row(
    "given, expected, fix",
    [
        ((2, 3), "3x2", "transpose it: array.transpose((1, 0))"),
        ((5, 2, 3), "2x3x5", "transpose it: array.transpose((1, 2, 0))"),
        ((2, 2, 3), "3x2x2", "transpose it: array.transpose((2, 0, 1))"),
        ((6,), "2x3", "reshape it: array.reshape((2, 3))"),
        ((4, 3, 2), "4x6", "reshape it: array.reshape((4, 6))"),
        ((1, 2, 3), "2x3", "reshape it: array.reshape((2, 3))"),
        ((4, 3), "2x6", "pass an array of the parameter's sizes: (2, 6)"),
        ((0,), "0x3", "pass an array of the parameter's sizes: (0, 3)"),
        ((5,), "2x3", "pass an array of the parameter's sizes: (2, 3)"),
    ],
)
@each_row("dtype", [np.float32, np.float64])
def test_suggested_fixes_for_sizes(given, expected, fix, dtype):
    """A reshape is advised only if it moves no element; the program would accept its result."""
    run = compiled(
        f"func.func @main(%a: tensor<{expected}xf32>) -> tensor<{expected}xf32>"
        f" {{ return %a : tensor<{expected}xf32> }}"
    )
    array = np.arange(np.prod(given)).reshape(given).astype(dtype)
    if dtype is np.float64 and " it: " in fix:
        fix = f"convert and {fix}.astype(numpy.float32)"
    message = refused(run, array)
    assert message.endswith(f"\nfix: {fix}")
    assert message == refused(run, lowering.device_put(array, "cpu"))
    if " it: " in fix:
        names = {"array": array, "numpy": np}
        assert run(eval(fix.partition(": ")[2], names)).shape == run.program_shape.result.dimensions


def test_attributes_of_the_error(affine):
    with pytest.raises(ArgumentError) as caught:
        affine(X, W.astype(np.float64))
    error = caught.value
    assert (error.computation, error.argument, error.name) == ("affine", 1, "w")
    with pytest.raises(ArgumentError) as count:
        affine(X)
    for each in (error, count.value):
        assert each.op == "affine"
        assert each.shapes == {"x": xb.f32[2, 3], "w": xb.f32[3]}
    assert isinstance(error, TypeError)
    assert isinstance(error, ValueError)
    assert isinstance(error, xb.XlaError)


def test_tracers(affine):
    with pytest.raises(ArgumentError, match=r"argument 0 \(x\) must be f32\[2,3\], got a tracer"):
        jax.jit(lambda x: affine(x, W))(X)


def test_deleted_arrays(affine):
    for make in (lowering.device_put, jax.device_put):
        for number in (0, 1):
            arguments = [make(X), make(W)]
            arguments[number].delete()
            assert refused(affine, *arguments).endswith(
                "got a jax.Array that has been deleted\n"
                "fix: pass an array that was neither donated nor deleted; donate a copy to keep "
                "an array"
            )


def test_layouts(affine):
    device = lowering.device("cpu")
    fortran = Format(Layout(major_to_minor=(1, 0)), jax.sharding.SingleDeviceSharding(device))
    x = jax.device_put(X, fortran)
    assert np.array_equal(affine(x, W), X + W)
    assert np.array_equal(affine(lowering.device_put(x, "cpu"), W), X + W)
    run = compiled(
        'module @f { func.func @main(%a: tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"})'
        " -> tensor<2x3xf32> { %0 = stablehlo.add %a, %a : tensor<2x3xf32>"
        " return %0 : tensor<2x3xf32> } }"
    )
    assert np.array_equal(run(X), X + X)
    assert np.array_equal(run(x), X + X)
    assert np.array_equal(run(np.asfortranarray(X)), X + X)
    assert np.array_equal(run(lowering.device_put(X, "cpu")), X + X)


# Compiling


def test_refused_programs(capfd):
    module = lowering.load_bytes(
        "module @m { func.func @main(%a: tensor<f32>) -> tensor<f32> {"
        " %0 = stablehlo.custom_call @nobody_has_this(%a) {api_version = 4 : i32} :"
        " (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> } }"
    )
    with pytest.raises(CompileError) as caught:
        lowering.compile(module, "cpu")
    message = str(caught.value)
    assert message == (
        "compile: m: custom_call of 'nobody_has_this', recorded at -:1: no function of that name "
        "is registered for cpu\n"
        "fix: call jax.ffi.register_ffi_target('nobody_has_this', capsule, platform='cpu') before "
        "compiling"
    )
    with pytest.raises(TypeError, match=r"expected an XlaComputation, a module, .* got 3"):
        lowering.compile(3)
    b = xb.XlaBuilder("c")
    with pytest.raises(TypeError, match="fix: build the computation first"):
        lowering.compile(b.parameter(xb.f32[3], "p"))
    with pytest.raises(lowering.DeviceError):
        lowering.compile(module, "abacus")


def test_unbounded_sizes_at_the_entry():
    module = lowering.load_bytes(
        "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }"
    )
    run = lowering.compile(module)
    assert run([1.0, 2.0]).tolist() == [1, 2]
    assert run([3.0]).tolist() == [3]


def test_the_module_is_not_retained():
    module = lowering.load_bytes(AFFINE)
    run = lowering.compile(module)
    kept = weakref.ref(module)
    del module
    gc.collect()
    assert kept() is None
    assert np.array_equal(run(X, W), X + W)


def test_computations_are_lowered():
    @xb.computation(xb.f64[2], "(f64[2], pred[])")
    def both(x, state):
        return xb.tuple(x + xb.get_tuple_element(state, 0), xb.get_tuple_element(state, 1))

    run = lowering.compile(both)
    total, flag = run(np.array([0.1, 0.2]), (np.array([1.0, 2.0]), True))
    assert np.asarray(total).tolist() == [1.1, 2.2]
    assert flag.item() is True
    assert total.dtype == np.float64


def test_computations_of_files(tmp_path):
    @xb.computation(xb.f32[2], xb.f32[2])
    def weigh(x, weight):
        return x * weight

    for suffix in (".mlir", ".mlirbc", ".stablehlo"):
        path = tmp_path / f"weigh{suffix}"
        lowering.lower(weigh).save(path)
        run = lowering.compile(lowering.load(path), lowering.device())
        result = run(weight=np.array([2, 3], np.float32), x=np.array([1, 2], np.float32))
        assert np.asarray(result).tolist() == [2, 6]


SEVERAL_DEVICES = """
import jax, numpy as np
import builder as xb, lowering

@xb.computation(xb.f64[2])
def double(x):
    return x + x

assert len(lowering.devices("cpu")) == 3
run = lowering.compile(double, "cpu:1")
assert run.device is lowering.device("cpu:1") is jax.devices()[1]
result = run(np.array([0.1, 0.2]))
assert result.devices() == {run.device}, result.devices()
assert np.asarray(run(result)).tolist() == [0.4, 0.8]
mesh = jax.sharding.Mesh(jax.devices()[:2], "a")
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
with jax.enable_x64(True):
    spread = jax.device_put(np.array([0.1, 0.2]), sharding)
for wrong in (lowering.device_put(np.array([0.1, 0.2]), "cpu:2"), spread):
    try:
        run(wrong)
    except lowering.ArgumentError as error:
        print(error)
try:
    lowering.device("cpu:3")
except lowering.DeviceError as error:
    print(error)
with jax.default_device(jax.devices()[2]):
    assert lowering.compile(double).device is jax.devices()[2]
"""


def test_several_devices():
    devices = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=3"}
    done = run_python("-c", SEVERAL_DEVICES, env=devices)
    start = "double: argument 0 (x) must be on cpu:1, got an array on "
    fix = "fix: use jax.device_put(array, device), where device is the executable's device"
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        f"{start}cpu:2",
        fix,
        f"{start}cpu:0, cpu:1",
        fix,
        "device: there is no device 'cpu:3', cpu has 3",
        "fix: use one of cpu:0, cpu:1, cpu:2",
    ]
    assert done.returncode == 0


@pytest.mark.parametrize("replicas", [{}, {"num_replicas": 1, "results": "sharded"}])
def test_layouts_of_a_compiled_program(replicas):
    @xb.computation(xb.f32[2, 3], (xb.s8[()], "f32[4,5]{0,1}"))
    def swapped(x, y):
        return xb.tuple(*y), xb.transpose(x, [1, 0])

    run = lowering.compile(swapped, "cpu", **replicas)
    parameters = ["f32[2,3]{1,0}", "(s8[], f32[4,5]{0,1})"]
    expected = xb.ProgramShape(parameters, "((s8[], f32[4,5]{1,0}), f32[3,2]{1,0})", ["x", "y"])
    assert str(run.compiled_shape()) == str(expected)
    # XLA's own report has the layouts, too, but a leading dimension of the rows.
    assert "f32[2,3]{1,0}, s8[], f32[4,5]{0,1}" in run.hlo_text().partition("\n")[0]


def test_layouts_of_tokens():
    b = xb.XlaBuilder("token")
    token = b.parameter(xb.TOKEN_SHAPE, "token")
    run = lowering.compile(b.build(xb.tuple(token, b.constant(np.float32(1)))), "cpu")
    try:
        report = str(run.compiled_shape())
    except lowering.ExecutionError as error:  # jaxlib 0.10
        report = str(error).partition("\n")[0]
    assert report in (
        "(token: token[]) -> (token[], f32[])",
        "token: cpu does not report a program's layouts",
    )
