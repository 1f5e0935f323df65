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

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowering.everything import *

# As jax does it, which need not be the first that loads jaxlib.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

__all__ = [
    "ArgumentError",
    "Comparison",
    "CompileError",
    "DeviceError",
    "Difference",
    "Executable",
    "ExecutionError",
    "Interpretation",
    "JitCacheInfo",
    "JittedFunction",
    "LoweringError",
    "Memory",
    "ModuleFileError",
    "PartitionedExecutable",
    "Profile",
    "ReplicatedExecutable",
    "StablehloModule",
    "Topology",
    "UnloadedExecutable",
    "VersionError",
    "clear_transfers",
    "compare",
    "compile",
    "device",
    "device_put",
    "devices",
    "from_hlo",
    "interpret",
    "jit",
    "load",
    "load_bytes",
    "load_executable",
    "lower",
    "register_custom_call_target",
    "to_computation",
    "topology",
    "transfer_from_outfeed",
    "transfer_to_infeed",
    "use_compilation_cache",
]


def __getattr__(name: str) -> Any:
    """Loads what is offered, or the module of this name, when it is first asked for.

    With jax that takes most of a second, for which the command line's `--help` need not wait.
    """
    if name in __all__:
        everything = importlib.import_module("lowering.everything")
        globals().update({one: getattr(everything, one) for one in __all__})
        return globals()[name]
    module = f"lowering.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise AttributeError(f"module 'lowering' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
