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

from lowering.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    LoweringError,
    ModuleFileError,
    VersionError,
)
from lowering.executable import Executable, compile
from lowering.lowering import lower
from lowering.module import StablehloModule, load, load_bytes
from lowering.pjrt import device, devices, put

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Executable",
    "LoweringError",
    "ModuleFileError",
    "StablehloModule",
    "VersionError",
    "compile",
    "device",
    "devices",
    "load",
    "load_bytes",
    "lower",
    "put",
]
