"""Custom calls on CPU: C functions as in Operation Semantics, FFI handlers, and Python."""

from __future__ import annotations

import ctypes
import itertools
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support import assert_identical, run, stablehlo_of_text, trusted_module
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType
from lowering.host import callbacks as host_calls
from lowering.jaxlib_api import hlo_conversion

pytestmark = pytest.mark.usefixtures("read_here")

SOURCE = r"""
#include <cstdint>
#include <cstring>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// The document's example; the elements that it leaves open are numbered.
extern "C" void myfunc(void* out, void** in) {
  float (&x)[2] = *static_cast<float (*)[2]>(in[0]);
  float (&y)[2][3] = *static_cast<float (*)[2][3]>(in[1]);
  float (&z)[3][3] = *static_cast<float (*)[3][3]>(out);
  for (int i = 0; i < 9; i++) (&z[0][0])[i] = i + y[0][2] * x[0];
  z[0][0] = x[1] + y[1][0];
}

extern "C" void two_results(void* out, const void** in) {
  const float* x = static_cast<const float*>(in[0]);
  void** results = static_cast<void**>(out);
  for (int i = 0; i < 3; i++) static_cast<float*>(results[0])[i] = 2 * x[i];
  *static_cast<int32_t*>(results[1]) = 7;
}

extern "C" void tuple_of_one(void* out, const void** in) {
  void** results = static_cast<void**>(out);
  *static_cast<float*>(results[0]) = -*static_cast<const float*>(in[0]);
}

extern "C" void returns_status(void* out, const void** in, void* status) {
  *static_cast<float*>(out) = (status != nullptr) + *static_cast<const float*>(in[0]);
}

extern "C" void gets_opaque(void* out, const void** in, const char* opaque, size_t length,
                            void* status) {
  int32_t* result = static_cast<int32_t*>(out);
  result[0] = static_cast<int32_t>(length);
  for (size_t i = 0; i < length; i++) result[1 + i] = static_cast<unsigned char>(opaque[i]);
}

static ffi::Error Scale(float factor, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  const float* from = x.typed_data<float>();
  float* to = y->typed_data<float>();
  if (factor == 0) return ffi::Error::InvalidArgument("nothing is left");
  for (size_t i = 0; i < x.element_count(); i++) to[i] = factor * from[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind()
                                  .Attr<float>("factor")
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

static ffi::Error Attributes(bool flag, int64_t number, double real, int8_t small, uint64_t large,
                             std::string_view text, ffi::Span<const int64_t> axes,
                             ffi::Span<const float> weights, ffi::Span<const uint8_t> bytes,
                             ffi::Dictionary nested, ffi::ResultBuffer<ffi::F64> out) {
  double* to = out->typed_data();
  *to++ = flag;
  *to++ = static_cast<double>(number);
  *to++ = real;
  *to++ = small;
  *to++ = static_cast<double>(large >> 32);
  *to++ = text.size();
  for (char c : text) *to++ = static_cast<unsigned char>(c);
  *to++ = axes.size();
  for (int64_t a : axes) *to++ = static_cast<double>(a);
  *to++ = weights.size();
  for (float w : weights) *to++ = w;
  *to++ = bytes.size();
  for (uint8_t b : bytes) *to++ = b;
  *to++ = *nested.get<double>("alpha");
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("flag")
                                  .Attr<int64_t>("number")
                                  .Attr<double>("real")
                                  .Attr<int8_t>("small")
                                  .Attr<uint64_t>("large")
                                  .Attr<std::string_view>("text")
                                  .Attr<ffi::Span<const int64_t>>("axes")
                                  .Attr<ffi::Span<const float>>("weights")
                                  .Attr<ffi::Span<const uint8_t>>("bytes")
                                  .Attr<ffi::Dictionary>("nested")
                                  .Ret<ffi::Buffer<ffi::F64>>());

static ffi::Error Pair(ffi::Buffer<ffi::S32> x, ffi::ResultBuffer<ffi::S32> sum,
                       ffi::ResultBuffer<ffi::F32> half) {
  int32_t total = 0;
  for (size_t i = 0; i < x.element_count(); i++) total += x.typed_data()[i];
  *sum->typed_data() = total;
  *half->typed_data() = total / 2.0f;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(pair, Pair,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the functions above, and register both kinds."""
    folder = tmp_path_factory.mktemp("library")
    untyped = ("myfunc", "two_results", "tuple_of_one", "returns_status", "gets_opaque")
    for names, api in ((untyped, "untyped"), (("scale", "attributes", "pair"), "typed")):
        targets = {name: name for name in names}
        built = lowering.ffi.build(SOURCE, targets, api=api, flags=["-O0"], folder=folder)
    return ctypes.CDLL(built.path)


# C functions as in Operation Semantics: void f(void* out, void** in)


@pytest.mark.slow
def test_documented_custom_call(library: ctypes.CDLL) -> None:
    b = xb.XlaBuilder("example")
    x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[2, 3])
    root = xb.custom_call("myfunc", [x, y], xb.f32[3, 3])
    one, other = np.array([1, 2], np.float32), np.array([[10, 20, 30], [40, 50, 60]], np.float32)
    got = run(b.build(root), one, other)
    expected = np.arange(9, dtype=np.float32).reshape(3, 3) + 30
    expected[0, 0] = 2 + 40
    assert_identical(got, expected)


def test_operands_are_row_major(library: ctypes.CDLL) -> None:
    b = xb.XlaBuilder("transposed")
    x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[3, 2])
    turned = xb.transpose(y, [1, 0])
    root = xb.transpose(xb.custom_call("myfunc", [x, turned], xb.f32[3, 3]), [1, 0])
    one, other = np.array([1, 2], np.float32), np.array([[1, 4], [2, 5], [3, 6]], np.float32)
    got = run(b.build(root), one, other)
    expected = np.arange(9, dtype=np.float32).reshape(3, 3) + 3
    expected[0, 0] = 2 + 4
    assert_identical(got, expected.T.copy())


def test_several_results_and_a_tuple_of_one(library: ctypes.CDLL) -> None:
    b = xb.XlaBuilder("results")
    x = b.parameter(xb.f32[3])
    both = xb.custom_call("two_results", x, "(f32[3], s32[])")
    # Nested tuples are flattened.
    nested = xb.custom_call("two_results", x, "((f32[3]), (s32[]))")
    alone = xb.custom_call("tuple_of_one", xb.slice(x, [1], [2], [1]), "(f32[1])")
    parts = xb.tuple(both[0], both[1], nested, alone)
    twice, seven, ((again,), (also,)), (minus,) = run(
        b.build(parts), np.array([1, 2, 3], np.float32)
    )
    assert_identical(twice, np.array([2, 4, 6], np.float32))
    assert_identical(again, twice)
    assert (seven.item(), also.item(), minus.tolist()) == (7, 7, [-2.0])


def test_tuple_operands_are_passed_leaf_by_leaf(library: ctypes.CDLL) -> None:
    b = xb.XlaBuilder("leaves")
    pair = b.parameter("(f32[2], (f32[2,3]))")
    root = xb.custom_call("myfunc", pair, xb.f32[3, 3])
    x, y = np.array([1, 2], np.float32), np.ones((2, 3), np.float32)
    result = np.asarray(lowering.compile(b.build(root))((x, (y,))))
    assert result[0, 0] == 3


def test_other_api_versions(library: ctypes.CDLL) -> None:
    b = xb.XlaBuilder("forms")
    x = b.parameter(xb.f32[()])
    status = xb.custom_call("returns_status", x, xb.f32[()], api_version=2)
    text = xb.custom_call(
        "gets_opaque",
        x,
        xb.s32[5],
        opaque='a"é',
        api_version="API_VERSION_STATUS_RETURNING_UNIFIED",
    )
    one, codes = run(b.build(xb.tuple(status, text)), np.float32(1.5))
    assert one.item() == 2.5
    assert codes.tolist() == [4, *'a"é'.encode()]


ANY_BYTES = bytes(range(256)) + b"\xff\x000" + "é€".encode() + b"12\\\"'{}"
"""Each byte, zero and others before digits, multi-byte characters, and the special characters."""


@pytest.mark.slow
@pytest.mark.parametrize("opaque", [ANY_BYTES, ANY_BYTES.decode("utf-8", "surrogateescape"), b""])
def test_every_byte_of_opaque_is_delivered(opaque: str | bytes, tmp_path: Path) -> None:
    """From the computation, and from each format that it is written to and read from."""
    delivered: list[bytes] = []
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    @ctypes.CFUNCTYPE(None, *types)
    def receive(out: Any, operands: Any, text: Any, size: int, status: Any) -> None:
        delivered.append(ctypes.string_at(text, size) if size else b"")

    lowering.register_custom_call_target(
        f"test.bytes.{type(opaque).__name__}{len(opaque)}", receive
    )
    b = xb.XlaBuilder("bytes")
    root = b.custom_call(
        f"test.bytes.{type(opaque).__name__}{len(opaque)}",
        xb.s32[()],
        opaque=opaque,
        api_version="API_VERSION_STATUS_RETURNING_UNIFIED",
        has_side_effect=True,
    )
    computation = b.build(root)
    expected = opaque if isinstance(opaque, bytes) else opaque.encode("utf-8", "surrogateescape")
    recorded = expected.decode("utf-8", "surrogateescape")
    module = lowering.lower(computation)
    text = computation.to_hlo_text()
    read = [computation, lowering.to_computation(module), lowering.from_hlo(text)]
    read += [lowering.from_hlo(hlo_conversion.parsed_hlo_text(text))]
    read += [lowering.from_hlo(hlo_conversion.hlo_proto(text))]
    read += [lowering.to_computation(trusted_module(stablehlo_of_text(computation)))]
    for suffix in ("mlir", "mlirbc", "stablehlo"):
        module.save(tmp_path / f"program.{suffix}")
        read.append(lowering.to_computation(lowering.load(tmp_path / f"program.{suffix}")))
    for one in read:
        assert one.root.attributes["opaque"] == recorded
        lowering.compile(one, "cpu")()
    assert delivered == [expected] * len(read)


def test_layouts(library: ctypes.CDLL) -> None:
    """Column-major, as the caller requests: the function reads the transposed matrix."""
    b = xb.XlaBuilder("layouts")
    x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[3, 2])
    root = xb.custom_call(
        "myfunc",
        [x, y],
        "f32[3,3]{0,1}",
        operand_shapes_with_layout=["f32[2]", "f32[3,2]{0,1}"],
    )
    one, other = np.array([1, 2], np.float32), np.array([[1, 4], [2, 5], [3, 6]], np.float32)
    got = run(b.build(xb.add(root, root)), one, other)
    expected = np.arange(9, dtype=np.float32).reshape(3, 3) + 3
    expected[0, 0] = 2 + 4
    assert_identical(got, 2 * expected.T)


def test_a_ctypes_function_without_operands_and_in_a_loop() -> None:
    calls: list[int] = []

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int32), ctypes.c_void_p)
    def count(out: Any, _: Any) -> None:
        calls.append(1)
        out[0] = len(calls)

    lowering.register_custom_call_target("test.count", count)
    b = xb.XlaBuilder("counting")

    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        i, total = state
        return i + 1, total + b.custom_call("test.count", xb.s32[()], has_side_effect=True)

    init = xb.tuple(b.constant(0, xb.s32), b.constant(0, xb.s32))
    root = xb.while_(lambda state: state[0] < 100, body, init)
    assert [int(v) for v in lowering.compile(b.build(root))()] == [100, 5050]
    assert len(calls) == 100


def test_a_call_without_results_is_executed() -> None:
    calls: list[int] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def note(*_: Any) -> None:
        calls.append(1)

    lowering.register_custom_call_target("test.note", note)
    call = "stablehlo.custom_call @test.note() {has_side_effect = true} : () -> ()"
    module = lowering.load_bytes(f"func.func @main() {{ {call} return }}")
    assert lowering.compile(module, "cpu")() == ()
    assert calls == [1]


def test_aliased_results(library: ctypes.CDLL) -> None:
    """The result aliases the operand; other users of the operand get its original value."""
    b = xb.XlaBuilder("alias")
    x = b.parameter(xb.f32[4])
    scaled = xb.custom_call(
        "scale",
        x,
        xb.f32[4],
        attributes={"factor": np.float32(3)},
        output_operand_aliasing=[((), (0, ()))],
    )
    result, kept = run(b.build(xb.tuple(scaled, x)), np.arange(4, dtype=np.float32))
    assert result.tolist() == [0, 3, 6, 9]
    assert kept.tolist() == [0, 1, 2, 3]


# XLA's FFI


def test_typed_ffi(library: ctypes.CDLL) -> None:
    b = xb.XlaBuilder("typed")
    x = b.parameter(xb.f32[2, 3])
    by_mapping = xb.custom_call("scale", x, xb.f32[2, 3], attributes={"factor": np.float32(2.5)})
    by_text = xb.custom_call(
        "scale", x, xb.f32[2, 3], opaque="{factor = -1.5 : f32}", api_version=4
    )
    n = b.parameter(xb.s32[4])
    pair = xb.custom_call("pair", n, "(s32[], f32[])", api_version=4)
    values, numbers = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4, dtype=np.int32)
    more, less, (total, half) = run(b.build(xb.tuple(by_mapping, by_text, pair)), values, numbers)
    assert_identical(more, values * np.float32(2.5))
    assert_identical(less, values * np.float32(-1.5))
    assert (total.item(), half.item()) == (6, 3.0)


def test_attributes_of_every_kind(library: ctypes.CDLL) -> None:
    text = 'x{"}\\é\n'
    given = {
        "flag": True,
        "number": -(2**53),
        "real": 1e300,
        "small": np.int8(-5),
        "large": np.uint64(2**63),
        "text": text,
        "axes": (3, -1),
        "weights": np.array([0.5, np.inf, -0.0], np.float32),
        "bytes": np.array([200, 200], np.uint8),
        "nested": {"alpha": 0.1},
    }
    data = text.encode()
    expected = [1, -(2.0**53), 1e300, -5, 2.0**31, len(data), *data, 2, 3, -1, 3, 0.5, np.inf, -0.0]
    expected += [2, 200, 200, 0.1]
    b = xb.XlaBuilder("attributes")
    root = b.custom_call("attributes", xb.f64[len(expected)], attributes=given)
    assert_identical(run(b.build(root)), np.array(expected))


def test_errors_of_a_handler(library: ctypes.CDLL) -> None:
    b = xb.XlaBuilder("report")
    x = b.parameter(xb.f32[1])
    program = b.build(xb.custom_call("scale", x, xb.f32[1], attributes={"factor": np.float32(0)}))
    with pytest.raises(RuntimeError, match="nothing is left"):
        np.asarray(lowering.compile(program)(np.zeros(1, np.float32)))


# Registration

NUMBERS = itertools.count()


def call_of(name: str, **more: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("caller")
    return b.build(xb.custom_call(name, b.parameter(xb.f32[2]), xb.f32[2], **more))


def test_unregistered_targets() -> None:
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(call_of("test.missing"))
    message = str(caught.value)
    assert message.startswith("compile: caller: custom_call of 'test.missing', recorded at ")
    assert "test_custom_call.py" in message
    assert message.endswith(
        ": no function of that name is registered for cpu\n"
        "fix: call lowering.register_custom_call_target('test.missing', function, 'cpu') before "
        "compiling"
    )
    assert caught.value.op == "custom_call"
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(call_of("test.missing", attributes={}))
    assert str(caught.value).endswith(
        "fix: call jax.ffi.register_ffi_target('test.missing', capsule, platform='cpu') before "
        "compiling"
    )


def test_registered_for_another_api_version(library: ctypes.CDLL) -> None:
    with pytest.raises(lowering.CompileError, match=r"under that name is untyped\n.*ORIGINAL"):
        lowering.compile(call_of("myfunc", attributes={}))
    with pytest.raises(lowering.CompileError, match=r"under that name is typed\n.*TYPED_FFI"):
        lowering.compile(call_of("scale"))


def test_a_name_is_registered_once(library: ctypes.CDLL) -> None:
    lowering.register_custom_call_target("myfunc", library.myfunc)
    with pytest.raises(
        xb.OperandError, match="another function is already registered as 'myfunc' on cpu"
    ):
        lowering.register_custom_call_target("myfunc", library.two_results)
    with pytest.raises(
        xb.OperandError, match="another function is already registered as 'pair' on cpu"
    ):
        lowering.register_custom_call_target("pair", library.myfunc)


@each_row(
    "arguments, named, message",
    [
        (("", None), {}, "name must be a non-empty string that does not begin with '$', got ''"),
        (("$x", None), {}, "does not begin with '$', got '\\$x'"),
        ((3, None), {}, "name must be a non-empty string"),
        (("x", None, "tpu9"), {}, "platform must be 'cpu', 'gpu' or 'tpu', got 'tpu9'"),
        (("x", None, ["cpu"]), {}, r"platform must be 'cpu', 'gpu' or 'tpu', got \['cpu'\]"),
        (("x", None), {"api": []}, r"api must be 'untyped' or 'typed', got \[\]"),
        (("x", None), {"api": 1}, "api must be 'untyped' or 'typed', got 1"),
        (("x", None), {}, "function must be a C function of ctypes or a capsule, got None"),
        (("x", print), {}, "fix: call a Python function with xb.python_call"),
        (("x", 1234), {}, "got 1234\nfix: load the library with ctypes.CDLL"),
    ],
)
def test_invalid_registrations(arguments: Any, named: Any, message: str) -> None:
    with pytest.raises(xb.OperandError, match=message.replace("$", r"\$").replace(r"\\$", r"\$")):
        lowering.register_custom_call_target(*arguments, **named)


# Python functions


def in_python(function: Any, shape: Any, *arguments: np.ndarray) -> Any:
    """Return the results of a Python function in a program as NumPy arrays."""
    b = xb.XlaBuilder("python")
    operands = [b.parameter(xb.array_shape(a.dtype, a.shape)) for a in arguments]
    root = xb.python_call(function, operands, shape)
    return jax.tree_util.tree_map(np.asarray, lowering.compile(b.build(root))(*arguments))


def some(t: PrimitiveType, shape: tuple[int, ...]) -> np.ndarray:
    """Return random bit patterns of one byte for each element."""
    size = int(np.prod(shape))
    raw = np.random.default_rng(3).integers(0, 256, size * t.byte_width, np.uint8)
    if t is xb.pred:
        return (raw % 2).astype(bool).reshape(shape)
    if t.bits < 8:
        return (raw % (1 << t.bits)).astype(np.uint8).view(t.dtype).reshape(shape)
    return raw.view(t.dtype).reshape(shape)


def test_every_type_in_python() -> None:
    seen: list[np.ndarray] = []
    b = xb.XlaBuilder("types")
    arguments, results = [], []
    for t, shape in itertools.product(ALL, [(), (0, 3), (2, 3)]):
        arguments.append(some(t, shape))
        operand = b.parameter(xb.array_shape(t, shape))

        def keep(x: np.ndarray) -> np.ndarray:
            seen.append(x)
            return x

        # A function with only empty results is not called.
        results.append(xb.python_call(keep, operand, operand.shape, has_side_effect=True))
    got = lowering.compile(b.build(xb.tuple(*results)))(*arguments)
    assert len(seen) == len(arguments)
    for expected, one in zip(arguments, got, strict=True):
        back = np.asarray(one)
        assert (back.dtype, back.shape) == (expected.dtype, expected.shape)
        if expected.dtype.itemsize == 1 and not expected.dtype.isbuiltin:
            # Elements of less than 8 bits are in the low bits.
            bits = xb.as_primitive_type(expected.dtype).bits
            mask = (1 << min(bits, 8)) - 1
            assert (back.view(np.uint8) & mask == expected.view(np.uint8) & mask).all()
        else:
            assert back.tobytes() == expected.tobytes()


def test_a_large_array_tuples_and_tokens() -> None:
    large = np.random.default_rng(0).normal(size=(300, 1000))
    assert_identical(in_python(np.sort, xb.f64[300, 1000], large), np.sort(large))
    b = xb.XlaBuilder("nested")
    operand = b.parameter("(s32[2], (f32[3], token[]))")
    got: list[Any] = []

    def function(whole: Any, token: Any) -> Any:
        got.append((whole, token))
        first, (second, _) = whole
        return second, ((None, first),), ()

    root = xb.python_call(
        function, [operand, b.create_token()], "(f32[3], ((token[], s32[2])), ())"
    )
    numbers, floats = np.array([1, 2], np.int32), np.array([1, 2, 3], np.float32)
    result = lowering.compile(b.build(root))((numbers, (floats, None)))
    ((first, (second, nothing)), token), *more = got
    assert not more
    assert (nothing, token) == (None, None)
    assert_identical(first, numbers)
    assert_identical(second, floats)
    assert_identical(np.asarray(result[0]), floats)
    assert result[1][0][0] is None
    assert_identical(np.asarray(result[1][0][1]), numbers)
    assert result[2] == ()


def test_arguments_of_python_functions_are_copies() -> None:
    """XLA reuses the memory of the arguments after the call."""
    kept: list[np.ndarray] = []

    def body(state: xb.XlaOp) -> xb.XlaOp:
        keep = xb.python_call(
            lambda x: kept.append(x) or x, state, xb.s32[()], has_side_effect=True
        )
        return keep + 1

    b = xb.XlaBuilder("kept")
    lowering.compile(b.build(xb.while_(lambda s: s < 5, body, b.constant(0, xb.s32))))()
    assert [int(x) for x in kept] == [0, 1, 2, 3, 4]


def test_numbers_jax_arrays_and_views_as_results() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert in_python(lambda v: 7, xb.s8[()], x).item() == 7
    assert in_python(lambda v: float("inf"), xb.f16[()], x).item() == np.inf
    assert_identical(in_python(lambda v: v.T, xb.s32[3, 2], x), x.T.copy())
    assert_identical(in_python(lambda v: v[::-1, ::-1], xb.s32[2, 3], x), x[::-1, ::-1].copy())
    assert_identical(in_python(lambda v: jax.device_put(v), xb.s32[2, 3], x), x)
    assert in_python(lambda v: np.int64(3), xb.s64[()], x).dtype == np.int64


def test_python_in_every_kind_of_control_flow() -> None:
    calls: list[str] = []

    def logging_call(name: str) -> Any:
        def function(x: np.ndarray) -> np.ndarray:
            calls.append(name)
            return x + x.dtype.type(1)

        return lambda x: xb.python_call(function, x, x.shape, has_side_effect=True)

    b = xb.XlaBuilder("flow")
    x, choice = b.parameter(xb.f32[()]), b.parameter(xb.s32[()])
    called = xb.call(logging_call("call"), x)
    branch = xb.conditional(choice, [logging_call("zero"), logging_call("one")], [called, called])
    looped = xb.while_(lambda s: s < 10.0, logging_call("loop"), branch)
    run_it = lowering.compile(b.build(looped))
    assert float(run_it(0.5, 1)) == 10.5
    assert calls == ["call", "one", *["loop"] * 8]


def test_without_arguments_and_without_results() -> None:
    b = xb.XlaBuilder("nothing")
    calls: list[int] = []
    b.python_call(lambda: calls.append(1) or (), "()", has_side_effect=True)
    five = b.python_call(lambda: np.float64(5), xb.f64[()])
    assert float(lowering.compile(b.build(five))()) == 5.0
    assert calls == [1]


def test_a_function_may_be_called_in_several_programs_at_once() -> None:
    both = threading.Barrier(2, timeout=60)

    def rendezvous(x: np.ndarray) -> np.ndarray:
        both.wait()
        return x * 2

    b = xb.XlaBuilder("meeting")
    x = b.parameter(xb.s32[()])
    program = lowering.compile(b.build(xb.python_call(rendezvous, x, x.shape)))
    results: list[int] = []
    threads = [threading.Thread(target=lambda i=i: results.append(int(program(i)))) for i in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == [2, 4]


def fails(function: Any, shape: Any, **more: Any) -> lowering.ExecutionError:
    b = xb.XlaBuilder("failing")
    x = b.parameter(xb.f32[2])
    program = lowering.compile(b.build(xb.python_call(function, x, shape, has_side_effect=True)))
    with pytest.raises(lowering.ExecutionError) as caught:
        program(np.zeros(2, np.float32))
    return caught.value


def divides(x: np.ndarray) -> np.ndarray:
    return x + 1 // 0


@each_row("shape", ["f32[2]", "()", "(f32[2], token[])"])
def test_exceptions(shape: str) -> None:
    error = fails(divides, shape)
    message = str(error)
    assert message.startswith("failing: python_call, recorded at ")
    assert f"function divides ({__file__}:{divides.__code__.co_firstlineno}) raised " in message
    line = divides.__code__.co_firstlineno + 1
    assert f"raised ZeroDivisionError at {__file__}:{line}: integer division" in message
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.op == "python_call"


def test_an_error_after_asynchronous_work() -> None:
    """Even if the entry computation ends with the call's argument."""
    heavy = jax.jit(lambda x: (x @ x @ x)[:2, 0] * 0)
    b = xb.XlaBuilder("late")
    program = lowering.compile(
        b.build(xb.python_call(divides, b.parameter(xb.f32[2]), "()", has_side_effect=True))
    )
    with pytest.raises(lowering.ExecutionError, match="ZeroDivisionError"):
        program(heavy(np.ones((600, 600), np.float32)))


class Stop(BaseException):
    pass


@each_row("kind", [KeyboardInterrupt, SystemExit, Stop])
def test_base_exceptions_are_raised_unchanged(kind: type[BaseException]) -> None:
    def stop(x: np.ndarray) -> np.ndarray:
        raise kind("now")

    b = xb.XlaBuilder("stopping")
    x = b.parameter(xb.f32[2])
    program = lowering.compile(b.build(xb.python_call(stop, x, x.shape)))
    with pytest.raises(kind, match="now"):
        program(np.zeros(2, np.float32))


class Unreadable:
    """An object whose methods all raise."""

    def __dlpack__(self, **options: Any) -> Any:
        raise SystemError("no dlpack")

    def __dlpack_device__(self) -> Any:
        return 1, 0

    def __repr__(self) -> str:
        raise ValueError("no text")


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def raise_unprintable(x: np.ndarray) -> np.ndarray:
    raise UnprintableError


def test_unprintable_results_and_exceptions() -> None:
    assert (
        "the result must be f32[2], got an Unreadable that can't be read: SystemError: no dlpack"
        in str(fails(lambda x: Unreadable(), "f32[2]"))
    )
    assert "raised UnprintableError at " in str(fails(raise_unprintable, "f32[2]"))


@each_row(
    "function, shape, message",
    [
        (lambda x: None, "f32[2]", "the result must be f32[2], got None"),
        (lambda x: (x,), "f32[2]", "the result must be f32[2], got a tuple of sizes (1, 2)"),
        (lambda x: [x], "f32[2]", "the result must be f32[2], got a list of sizes (1, 2)"),
        (lambda x: x.astype(float), "f32[2]", "the result must be f32[2], got f64[2]"),
        (lambda x: x[:1], "f32[2]", "the result must be f32[2], got f32[1]"),
        (lambda x: 3, "f32[2]", "the result must be f32[2], got the Python number 3"),
        (lambda x: 3.5, "s32[]", "s32[], got the Python number 3.5: the number is a float"),
        (lambda x: [1, 3.5], "s32[2]", "got a list with the Python number 3.5: the number is a"),
        (lambda x: "abc", "s32[]", "the result must be s32[], got a str"),
        (lambda x: np.array("abc"), "s32[]", "the result must be s32[], got an array <U3[]"),
        (lambda x: np.array(x, object), "f32[2]", "got an array object[2]"),
        (lambda x: x, "(f32[2], s32[])", "must be a tuple of 2, (f32[2], s32[]), got f32[2]"),
        (lambda x: (x,), "(f32[2], s32[])", "a tuple of 2, (f32[2], s32[]), got a tuple of 1"),
        (lambda x: (x, x), "(f32[2], s32[])", "the result[1] must be s32[], got f32[2]"),
        (lambda x: (x, 0), "(f32[2], token[])", "must be None for a token, got an int"),
        (lambda x: None, "()", "the result must be a tuple of 0, (), got None"),
    ],
)
def test_a_wrong_result(function: Any, shape: str, message: str) -> None:
    error = fails(function, shape)
    assert f"returned a result that differs from its declaration: {message}" in str(
        error
    ) or message in str(error)
    fix = "write an integer" if "3.5" in message else "return NumPy arrays of exactly these types"
    assert f"fix: {fix}" in str(error)


def test_one_of_several_replicas_fails() -> None:
    """The other devices wait for it in a collective, and would wait forever."""
    fail = [True]

    def function(number: np.ndarray) -> np.ndarray:
        if fail[0] and number == 1:
            raise ValueError("not I")
        return number + np.uint32(1)

    b = xb.XlaBuilder("replicas")
    called = xb.python_call(function, b.replica_id(), xb.u32[()])
    total = xb.all_reduce(called, xb.add)
    # No function is called after the failure.
    later = xb.python_call(lambda v: v * 1.5, total, xb.u32[()])
    program = lowering.compile(b.build(xb.tuple(total, later)), "cpu", num_replicas=2)
    with pytest.raises(lowering.ExecutionError, match=r"ValueError.*not I") as caught:
        program()
    assert isinstance(caught.value.__cause__, ValueError)
    fail[0] = False
    with pytest.raises(
        lowering.ExecutionError, match="returned a result that differs from its declaration"
    ):
        program()


def test_replicas_and_partitions_call_python() -> None:
    b = xb.XlaBuilder("many")
    x = b.parameter(xb.f32[()])
    computation = b.build(xb.python_call(lambda v: v * 2, x, xb.f32[()]))
    for where in ({"num_replicas": 2}, {"num_partitions": 2}):
        program = lowering.compile(computation, "cpu", **where)
        assert [float(r) for r in program([np.float32(1), np.float32(2)])] == [2, 4]


def test_a_loop_that_ends_only_with_the_right_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zeros returned after a failure do not end the loop; a limit of calls does."""

    monkeypatch.setattr(host_calls, "_MAX_CALLS", 1000)

    def function(number: np.ndarray) -> np.ndarray:
        raise ValueError("never")

    b = xb.XlaBuilder("endless")

    def body(state: xb.XlaOp) -> xb.XlaOp:
        return xb.python_call(function, state, state.shape, has_side_effect=True)

    root = xb.while_(lambda s: s < 7, body, b.constant(0, xb.s32))
    program = lowering.compile(b.build(root), "cpu", num_replicas=2)
    with pytest.raises(lowering.ExecutionError, match=r"ValueError.*never"):
        program()


def test_a_failed_program_can_be_called_again() -> None:
    answers = iter([None, 1.0])
    b = xb.XlaBuilder("again")
    program = lowering.compile(
        b.build(b.python_call(lambda: next(answers), xb.f32[()], has_side_effect=True))
    )
    with pytest.raises(lowering.ExecutionError, match="got None"):
        program()
    assert float(program()) == 1.0


@pytest.mark.parametrize("where", [{}, {"num_replicas": 2}, {"num_partitions": 2}], ids=str)
def test_faults_in_a_loop(where: dict[str, int]) -> None:
    """After any failure in a loop, on one or all devices, the next call works."""
    fault: list[Any] = [None]

    def function(number: np.ndarray, values: np.ndarray) -> Any:
        if number == 1 and fault[0] is not None:
            return fault[0](number, values)
        return number, values * np.float32(2)

    def body(state: xb.XlaOp) -> xb.XlaOp:
        called = xb.python_call(function, [state[0], state[1]], "(s32[], f32[2])")
        total = xb.all_reduce(called[1], xb.add)  # of the replicas
        # Counted here: zeros, returned after a failure on several devices, would not end the loop.
        return xb.tuple(state[0] + 1, total + xb.convert_element_type(called[0], xb.f32) * 0.0)

    b = xb.XlaBuilder("faults")
    x = b.parameter(xb.f32[2])
    root = xb.while_(lambda s: s[0] < 3, body, xb.tuple(b.constant(0, xb.s32), x))
    program = lowering.compile(b.build(root), "cpu", **where)
    ones = np.ones(2, np.float32)

    def raises(number: np.ndarray, values: np.ndarray) -> Any:
        raise LookupError("not there")

    for wrong, message in (
        (raises, "raised LookupError at "),
        (lambda n, v: (n,), "must be a tuple of 2, (s32[], f32[2]), got a tuple of 1"),
        (lambda n, v: (), "must be a tuple of 2, (s32[], f32[2]), got a tuple of 0"),
        (lambda n, v: None, "must be a tuple of 2, (s32[], f32[2]), got None"),
        (lambda n, v: (n, v, v), "must be a tuple of 2, (s32[], f32[2]), got a tuple of 3"),
        (lambda n, v: (n, v[:1]), "the result[1] must be f32[2], got f32[1]"),
        (lambda n, v: (n, v[None]), "the result[1] must be f32[2], got f32[1,2]"),
        (lambda n, v: (n, v.astype(int)), "the result[1] must be f32[2], got s64[2]"),
        (lambda n, v: (n + 0.5, v), "the result[0] must be s32[], got f64[]"),
    ):
        fault[0] = wrong
        with pytest.raises(lowering.ExecutionError) as caught:
            program(ones)
        assert message in str(caught.value)
        assert isinstance(caught.value.__cause__, LookupError) == (wrong is raises)
        fault[0] = None
        actual = program(ones)
        factor = 2 * where.get("num_replicas", 1)
        for _, values in actual if where else [actual]:
            assert np.asarray(values).tolist() == [factor**3] * 2


def test_faults_with_sharded_arrays() -> None:
    fault: list[Any] = [None]

    def function(values: np.ndarray) -> Any:
        return -values if fault[0] is None else fault[0](values)

    def raises(values: np.ndarray) -> Any:
        raise LookupError("not there")

    b = xb.XlaBuilder("cut")
    x = xb.with_sharding(b.parameter(xb.f32[4]), "{devices=[2]<=[2]}")
    root = xb.python_call(function, x, xb.f32[4])
    program = lowering.compile(b.build(root), "cpu", num_partitions=2)
    for wrong, message in (
        (raises, "LookupError"),
        (lambda v: v[:1], "must be f32[4], got f32[1]"),
    ):
        fault[0] = wrong
        with pytest.raises(lowering.ExecutionError) as caught:
            program(np.arange(4, dtype=np.float32))
        assert message in str(caught.value)
        fault[0] = None
        assert np.asarray(program(np.arange(4, dtype=np.float32))).tolist() == [0, -1, -2, -3]


def test_a_module_with_a_python_function_is_not_saved(tmp_path: Path) -> None:
    b = xb.XlaBuilder("here")
    x = b.parameter(xb.f32[2])
    module = lowering.lower(b.build(xb.python_call(divides, x, x.shape)))
    with pytest.raises(lowering.ModuleFileError) as caught:
        module.save(tmp_path / "here.stablehlo")
    assert "here calls the Python function divides (" in str(caught.value)
    assert "which a file can't contain\nfix: call a registered function instead" in str(
        caught.value
    )
    assert not list(tmp_path.iterdir())


def test_text_does_not_contain_python_functions() -> None:
    b = xb.XlaBuilder("elsewhere")
    x = b.parameter(xb.f32[2])
    computation = b.build(xb.python_call(divides, x, x.shape))
    module = lowering.lower(computation)
    texts = [module.text, module.bytecode, module.artifact()]
    modules = [lowering.load_bytes(text) for text in texts]
    modules.append(trusted_module(stablehlo_of_text(computation)))
    for one in modules:
        with pytest.raises(lowering.CompileError) as caught:
            lowering.compile(one)
        assert "python_call" in str(caught.value)
        assert "requires the Python function divides, which a module that was read" in str(
            caught.value
        )


# XLA does not support calls in scalar computations.


def reduced(call: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("inside")
    x = b.parameter(xb.f32[4])
    return b.build(xb.reduce(x, 0.0, lambda p, q: call(p) + q, [0]))


def mapped(call: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("inside")
    return b.build(xb.map([b.parameter(xb.f32[4])], call, [0]))


def sorted_by(call: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("inside")
    return b.build(xb.sort([b.parameter(xb.f32[4])], lambda p, q: call(p) < q))


@each_row("make, name", [(reduced, "reduce"), (mapped, "map"), (sorted_by, "sort")])
def test_calls_in_scalar_computations_are_refused(make: Any, name: str) -> None:
    def python(p: xb.XlaOp) -> xb.XlaOp:
        return xb.python_call(lambda v: v, p, p.shape)

    def foreign(p: xb.XlaOp) -> xb.XlaOp:
        return xb.custom_call("test.missing", p, p.shape)

    for call, what in ((python, "python_call"), (foreign, "custom_call")):
        with pytest.raises(lowering.CompileError) as caught:
            lowering.compile(make(call))
        assert f"the computation of {name} can't contain {what}, because XLA's" in str(caught.value)


def test_a_custom_call_in_a_nested_call_is_refused() -> None:
    @xb.computation(xb.f32[()])
    def inner(p: xb.XlaOp) -> xb.XlaOp:
        return xb.python_call(lambda v: v, p, p.shape)

    @xb.computation(xb.f32[()])
    def outer(p: xb.XlaOp) -> xb.XlaOp:
        return xb.call(inner, p)

    with pytest.raises(
        lowering.CompileError, match="the computation of reduce can't contain python_call"
    ):
        lowering.compile(reduced(lambda p: xb.call(outer, p)))
