"""Names of jaxlib's module `xla_extension`, which old programs reach as `xla_client._xla`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import jax
import jax.dlpack

from builder import XlaOp as XlaOp
from lowering.importer import to_computation
from lowering.importer.hlo import from_hlo
from lowering.jaxlib_api import native
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import load_bytes
from lowering.xla_client import ops as ops
from lowering.xla_client.builder import (
    HloModule as HloModule,
    XlaBuilder as XlaBuilder,
    XlaComputation as XlaComputation,
    new_computation,
)
from lowering.xla_client.client import (
    Client as Client,
    Device as Device,
    LoadedExecutable as LoadedExecutable,
    register_custom_call_target as register_custom_call_target,
)
from lowering.xla_client.enums import (
    ChannelHandle_ChannelType as ChannelHandle_ChannelType,
    FftType as FftType,
    OpSharding_Type as OpSharding_Type,
    PrecisionConfig_Precision as PrecisionConfig_Precision,
    PrimitiveType as PrimitiveType,
    ResultAccuracy_Mode as ResultAccuracy_Mode,
)
from lowering.xla_client.errors import XlaRuntimeError as XlaRuntimeError, reporting
from lowering.xla_client.options import (
    CompileOptions as CompileOptions,
    DeviceAssignment as DeviceAssignment,
    ExecutableBuildOptions as ExecutableBuildOptions,
)
from lowering.xla_client.protos import (
    ChannelHandle as ChannelHandle,
    FrontendAttributes as FrontendAttributes,
    OpSharding as OpSharding,
)
from lowering.xla_client.shapes import (
    Layout as Layout,
    ProgramShape as ProgramShape,
    Shape as Shape,
    ShapeIndex as ShapeIndex,
)

RUNTIME_NAMES: Final = frozenset(
    {
        *("Array", "ArrayCopySemantics", "ArrayImpl", "AutotuneCacheMode", "DeviceList", "Frame"),
        *("GSPMDSharding", "HloSharding", "HostBufferSemantics", "Memory", "NamedSharding"),
        *("PjRtLayout", "Sharding", "SingleDeviceSharding", "Traceback", "custom_call_targets"),
    }
)
"""The names of jaxlib's `xla_client` that `lowering.xla_client` passes on: those of the runtime."""

HloPrintOptions = native.xla_client.hlo.HloPrintOptions


@contextmanager
def tracebacks(enabled: bool = True) -> Iterator[None]:
    """Set in a ``with`` block whether jaxlib creates tracebacks of buffers and executables.

    Example:
        >>> from lowering import xla_client as xc
        >>> with xc.tracebacks(enabled=False):
        ...     print(xc.Traceback.get_traceback())
        None
    """
    before = native.jax_extension.tracebacks_enabled()
    native.jax_extension.set_tracebacks_enabled(enabled)
    try:
        yield
    finally:
        native.jax_extension.set_tracebacks_enabled(before)


class jax_jit:
    """The state of jax's threads."""

    @staticmethod
    def set_thread_local_state_initialization_callback(callback: Callable[[], None]) -> None:
        """Do nothing: jax initializes the state of its threads itself.

        jaxlib called `callback` in each new thread, and programs without jax had to pass a
        function.
        """


class mlir:
    """Conversions between computations and StableHLO modules."""

    @staticmethod
    @reporting("hlo_to_stablehlo")
    def hlo_to_stablehlo(computation: bytes) -> bytes:
        """Return the StableHLO module of a HloModuleProto in bytecode.

        Example:
            >>> from lowering import xla_client as xc
            >>> b = xc.XlaBuilder("one")
            >>> one = xc.ops.Constant(b, 1)
            >>> proto = b.build().as_serialized_hlo_module_proto()
            >>> xc._xla.mlir.hlo_to_stablehlo(proto)[:4]
            b'ML\\xefR'
        """
        return lower(XlaComputation(computation).new).bytecode

    @staticmethod
    @reporting("xla_computation_to_mlir_module")
    def xla_computation_to_mlir_module(computation: Any) -> bytes:
        """Return the StableHLO module of a computation in bytecode.

        Example:
            >>> from lowering import xla_client as xc
            >>> b = xc.XlaBuilder("one")
            >>> one = xc.ops.Constant(b, 1)
            >>> xc._xla.mlir.xla_computation_to_mlir_module(b.build())[:4]
            b'ML\\xefR'
        """
        return lower(new_computation("xla_computation_to_mlir_module", computation)).bytecode

    @staticmethod
    @reporting("mlir_module_to_xla_computation")
    def mlir_module_to_xla_computation(
        mlir_module: str | bytes, use_tuple_args: bool = False, return_tuple: bool = False
    ) -> XlaComputation:
        """Return the computation of a StableHLO module in text or bytecode.

        Example:
            >>> from lowering import xla_client as xc
            >>> b = xc.XlaBuilder("one")
            >>> one = xc.ops.Constant(b, 1)
            >>> module = xc._xla.mlir.xla_computation_to_mlir_module(b.build())
            >>> xc._xla.mlir.mlir_module_to_xla_computation(module).program_shape()
            () -> s64[]
        """
        return XlaComputation.of(to_computation(load_bytes(mlir_module)))


@reporting("hlo_module_from_text")
def hlo_module_from_text(hlo_module_text: str) -> HloModule:
    """Return the module of HLO text.

    Raises:
        XlaRuntimeError: the text is not HLO.
    """
    return XlaComputation.of(from_hlo(hlo_module_text.encode())).get_hlo_module()


@reporting("hlo_module_cost_analysis")
def hlo_module_cost_analysis(client: Client, module: HloModule) -> dict[str, float]:
    """Return the numbers of operations and of bytes of a module, by XLA's names.

    Example:
        >>> from lowering import xla_client as xc
        >>> b = xc.XlaBuilder("doubled")
        >>> x = xc.ops.Parameter(b, 0, xc.Shape("f32[4]"))
        >>> module = b.build(xc.ops.Add(x, x)).as_hlo_module()
        >>> xc._xla.hlo_module_cost_analysis(xc.make_cpu_client(), module)["flops"]
        4.0
    """
    stats = from_hlo(module.to_string()).stats()
    return {
        "flops": float(stats.flops),
        "transcendentals": float(stats.transcendentals),
        "bytes accessed": float(stats.bytes_accessed),
    }


class _Capsule:
    """A DLPack tensor of a CPU as an array of another library."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU


@reporting("buffer_to_dlpack_managed_tensor")
def buffer_to_dlpack_managed_tensor(buffer: jax.Array, stream: object = None) -> Any:
    """Return a DLPack tensor that shares the memory of a buffer.

    `jax.dlpack.from_dlpack` and NumPy's take the buffer itself. `stream` is ignored.

    Example:
        >>> from lowering import xla_client as xc
        >>> client = xc.make_cpu_client()
        >>> tensor = xc._xla.buffer_to_dlpack_managed_tensor(client.buffer_from_pyval(1.5))
        >>> xc._xla.dlpack_managed_tensor_to_buffer(tensor, client.devices()[0], None)
        Array(1.5, dtype=float64)
    """
    return buffer.__dlpack__()


@reporting("dlpack_managed_tensor_to_buffer")
def dlpack_managed_tensor_to_buffer(
    dlpack: Any, device: Device | Client, stream: object = None
) -> jax.Array:
    """Return a buffer that shares the memory of a DLPack tensor on CPU, if the memory is aligned.

    Args:
        dlpack: the tensor. It can be used once.
        device: a CPU device or the client of the CPU.
        stream: ignored.

    Raises:
        XlaRuntimeError: the tensor has been used already, or has no element type of XLA.
    """
    target = device.devices()[0] if isinstance(device, Client) else device
    with jax.enable_x64(True):  # jax would convert 64-bit elements
        buffer: jax.Array = jax.dlpack.from_dlpack(_Capsule(dlpack), device=target.new)
    return buffer


def __getattr__(name: str) -> Any:
    """Return a name of the runtime.

    Raises:
        AttributeError: there is no such name.
    """
    if name in RUNTIME_NAMES:
        return getattr(native.xla_client, name)
    rule = f"module 'lowering.xla_client' has no attribute {name!r}"
    raise AttributeError(f"{rule}\nfix: see the table of old names in docs/xla_client.md")
