"""Arrays of other libraries are read by their protocols; each refusal has its reason."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.types.foreign_arrays import UnreadableArrayError, describe, is_array, read_array
from tests.foreign_arrays import (
    PROTOCOLS,
    ArrayOnly,
    DlpackOnly,
    InterfaceOnly,
    OldDeviceTensor,
    TorchTensor,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@each_row("make", PROTOCOLS.values())
@each_row("turn", [np.copy, np.transpose, lambda a: a[:, ::-1], lambda a: a[:0]])
def test_protocols(make: Callable[[np.ndarray], Any], turn: Callable[[np.ndarray], Any]) -> None:
    expected = turn(X)
    value = make(expected)
    assert is_array(value)
    got = read_array(value)
    assert got is not None
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, expected)
    op = xb.XlaBuilder().constant(value)
    assert op.shape == xb.f32[expected.shape]
    np.testing.assert_array_equal(op.attributes["value"], expected)


@each_row("make", PROTOCOLS.values())
def test_a_constant_does_not_change_with_the_array(make: Callable[[np.ndarray], Any]) -> None:
    source = X.copy()
    op = xb.XlaBuilder().constant(make(source))
    source[...] = 7
    np.testing.assert_array_equal(op.attributes["value"], X)


@each_row("make", [DlpackOnly, ArrayOnly, InterfaceOnly, memoryview])
def test_memory_is_shared_and_kept(make: Callable[[np.ndarray], Any]) -> None:
    source = X.copy()
    got = read_array(make(source))
    assert got is not None
    assert np.shares_memory(got, source)
    del source
    assert got.tolist() == X.tolist()


@each_row("dtype", ["bool", "i1", "u1", "i8", "u8", "f2", "f8", "c8", "c16"])
@each_row("make", [DlpackOnly, ArrayOnly, InterfaceOnly])
def test_dtypes(make: Callable[[np.ndarray], Any], dtype: str) -> None:
    source = np.arange(4).astype(dtype)
    got = read_array(make(source))
    assert got is not None
    assert got.dtype == source.dtype
    np.testing.assert_array_equal(got, source)


def test_other_buffers_and_byte_orders() -> None:
    for value in (
        array.array("d", [1, 2]),
        (ctypes.c_double * 2)(1, 2),
        memoryview(np.array([1, 2], ">f8")),
        ArrayOnly(np.array([1, 2], ">f8")),
        np.array([1, 2], ">f8"),
    ):
        got = read_array(value)
        assert got is not None
        assert got.dtype.isnative
        assert got.dtype == np.float64
        assert got.tolist() == [1, 2]
    scalar = read_array(np.float32(2))
    assert scalar is not None
    assert (scalar.shape, scalar.item()) == ((), 2)


@each_row(
    "value", [1, 1.5, True, None, [1], (1,), "a", b"a", bytearray(b"a"), {}, np.float32, range(2)]
)
def test_values_that_are_not_arrays(value: Any) -> None:
    assert not is_array(value)
    assert read_array(value) is None


def test_an_op_is_not_an_array() -> None:
    assert read_array(xb.XlaBuilder().parameter(xb.f32[2])) is None


class Failing:
    """An array whose properties and methods raise."""

    @property
    def dtype(self) -> Any:
        raise SystemError("no dtype")

    @property
    def __array_interface__(self) -> Any:
        raise SystemError("no interface")

    def __dlpack__(self, **_: Any) -> Any:
        raise ValueError

    def __dlpack_device__(self) -> Any:
        raise KeyError("device")


def released() -> memoryview:
    view = memoryview(b"ab")
    view.release()
    return view


class NoCapsule(DlpackOnly):
    def __dlpack__(self, **_: Any) -> Any:
        return "capsule"


UNREADABLE: dict[str, tuple[Any, str, str]] = {
    "gradient": (
        TorchTensor(X, requires_grad=True),
        "a TorchTensor of torch.float32[2,3] that requires gradients",
        "write array.detach()",
    ),
    "sparse": (
        TorchTensor(X, is_sparse=True),
        (
            "a TorchTensor of torch.float32[2,3] that can't be read: TypeError: can't convert "
            "Sparse layout tensor to numpy."
        ),
        "convert it to a NumPy array first",
    ),
    "device": (
        OldDeviceTensor(X),
        "an OldDeviceTensor in the memory of a device",
        "copy it to the memory of the host: array.cpu()",
    ),
    "masked": (np.ma.ones(2), "a masked array", "fill the masked elements: array.filled(value)"),
    "released": (
        released(),
        (
            "a memoryview that can't be read: ValueError: operation forbidden on released "
            "memoryview object"
        ),
        "convert it to a NumPy array first",
    ),
    "failing": (
        Failing(),
        "a Failing that can't be read: SystemError: no interface",
        "convert it to a NumPy array first",
    ),
    "capsule": (
        NoCapsule(X),
        "a NoCapsule that can't be read: BufferError: __dlpack__ does not return a DLPack capsule",
        "convert it to a NumPy array first",
    ),
}


@each_row("value, got, fix", UNREADABLE.values())
def test_unreadable_arrays(value: Any, got: str, fix: str) -> None:
    with pytest.raises(UnreadableArrayError) as caught:
        read_array(value)
    assert (caught.value.got, caught.value.fix) == (got, fix)
    with pytest.raises(xb.ConstantError) as error:
        xb.XlaBuilder().constant(value)
    assert str(error.value) == f"constant: value must be an array of numbers, got {got}\nfix: {fix}"


def test_a_detached_tensor_is_read() -> None:
    tensor = TorchTensor(X, requires_grad=True)
    np.testing.assert_array_equal(read_array(tensor.detach()), X)


def test_dtypes_without_a_primitive_type() -> None:
    """pandas and polars have columns of texts, which become arrays of objects."""
    with pytest.raises(xb.ConstantError, match="NumPy dtype object has no primitive type in XLA"):
        xb.XlaBuilder().constant(ArrayOnly(np.array(["a", None], object)))


def test_another_element_type() -> None:
    for value, code in (
        (X, "with .astype('float64')"),
        (ArrayOnly(X), "with numpy.asarray(value)."),
    ):
        with pytest.raises(xb.ConstantError) as caught:
            xb.XlaBuilder().constant(value, xb.f64)
        assert "element_type must be the element type of the array, f32, got f64" in str(
            caught.value
        )
        assert f"fix: convert the array first {code}" in str(caught.value)


@each_row(
    "value, text",
    [
        (X, "f32[2,3]"),
        (np.array(["a"]), "an array <U1[1]"),
        (DlpackOnly(X), "a DlpackOnly"),
        (TorchTensor(X), "a TorchTensor of torch.float32[2,3]"),
        (np.ma.ones(2), "a masked array"),
        (None, "None"),
        ([1], "a list"),
        (1, "an int"),
    ],
)
def test_descriptions(value: Any, text: str) -> None:
    assert describe(value) == text
