"""Arrays of libraries that are not installed: each class implements one protocol for arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class DlpackOnly:
    """An array with ``__dlpack__`` only."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class LazyTensor(DlpackOnly):
    """A tensor of torch with a lazy negation, which its memory does not reflect."""

    def resolve_conj(self) -> LazyTensor:
        return self

    def resolve_neg(self) -> DlpackOnly:
        return DlpackOnly(-self.array)


class OldDlpack(DlpackOnly):
    """An exporter older than DLPack 1.0, whose method takes only `stream`."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__(stream=stream)


class DeviceTensor(DlpackOnly):
    """A tensor in the memory of a CUDA device, which exports a copy on the host if asked for it."""

    def __dlpack__(self, *, dl_device: Any = None, **_: Any) -> Any:
        if dl_device != (1, 0):
            raise BufferError("a consumer on the host can't read this")
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return 2, 0


class OldDeviceTensor(OldDlpack):
    """A tensor in the memory of a CUDA device, whose library can't copy it."""

    def cpu(self) -> Any:
        return self.array

    def __dlpack_device__(self) -> Any:
        return 2, 0


class ArrayOnly:
    """An array with ``__array__`` only, as those of pandas, polars, xarray and pyarrow."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None) -> Any:
        return np.asarray(self.array, dtype)


class InterfaceOnly:
    """An array with ``__array_interface__`` only."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


class StructOnly:
    """An array with ``__array_struct__`` only."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_struct__ = array.__array_struct__


class TorchTensor:
    """A tensor that raises where torch's tensors do."""

    def __init__(self, array: Any, *, requires_grad: bool = False, is_sparse: bool = False) -> None:
        self.array = array
        self.dtype = "torch.float32"
        self.shape = array.shape
        self.requires_grad = requires_grad
        self.is_sparse = is_sparse

    def detach(self) -> TorchTensor:
        return TorchTensor(self.array)

    def __array__(self, dtype: Any = None) -> Any:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.is_sparse:
            raise TypeError("can't convert Sparse layout tensor to numpy.\nTraceback")
        return np.asarray(self.array, dtype)

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.is_sparse:
            raise BufferError("Can't export tensors with layout other than torch.strided")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return 1, 0


PROTOCOLS: dict[str, Callable[[np.ndarray], Any]] = {
    "NumPy": lambda a: a,
    "dlpack": DlpackOnly,
    "old dlpack": OldDlpack,
    "device": DeviceTensor,
    "array": ArrayOnly,
    "interface": InterfaceOnly,
    "struct": StructOnly,
    "buffer": memoryview,
    "lazy": lambda a: LazyTensor(-a),
    "torch": TorchTensor,
}
"""How to make the array of each kind from a NumPy array."""
