"""From a computation to StableHLO, to files and to devices.

>>> import builder as xb
>>> import lowering
>>> @xb.computation(xb.f32[2])
... def double(x):
...     return x + x
>>> import numpy as np
>>> lowering.compile(double)(np.array([1, 2], np.float32))
Array([2., 4.], dtype=float32)
"""

import jax as jax  # first: it quietens the logs of jaxlib before jaxlib starts

from lowering.custom_calls import register_custom_call_target
from lowering.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    ExecutionError,
    LoweringError,
    ModuleFileError,
    VersionError,
)
from lowering.executable import Executable, compile
from lowering.importer import to_computation
from lowering.infeed import clear_transfers, transfer_from_outfeed, transfer_to_infeed
from lowering.lowering import lower
from lowering.module import StablehloModule, load, load_bytes
from lowering.pjrt import device, devices, put
from lowering.replicated import ReplicatedExecutable

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Executable",
    "ExecutionError",
    "LoweringError",
    "ModuleFileError",
    "ReplicatedExecutable",
    "StablehloModule",
    "VersionError",
    "clear_transfers",
    "compile",
    "device",
    "devices",
    "load",
    "load_bytes",
    "lower",
    "put",
    "register_custom_call_target",
    "to_computation",
    "transfer_from_outfeed",
    "transfer_to_infeed",
]
