"""All that `lowering` offers; `import lowering` loads it when something of it is asked for."""

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
from lowering.hlo import from_hlo
from lowering.importer import to_computation
from lowering.infeed import clear_transfers, transfer_from_outfeed, transfer_to_infeed
from lowering.interpreter import (
    Comparison,
    Difference,
    Interpretation,
    compare,
    interpret,
)
from lowering.lowering import lower
from lowering.module import StablehloModule, load, load_bytes
from lowering.pjrt import device, devices, put
from lowering.replicated import ReplicatedExecutable

__all__ = [
    "ArgumentError",
    "Comparison",
    "CompileError",
    "DeviceError",
    "Difference",
    "Executable",
    "ExecutionError",
    "Interpretation",
    "LoweringError",
    "ModuleFileError",
    "ReplicatedExecutable",
    "StablehloModule",
    "VersionError",
    "clear_transfers",
    "compare",
    "compile",
    "device",
    "devices",
    "from_hlo",
    "interpret",
    "load",
    "load_bytes",
    "lower",
    "put",
    "register_custom_call_target",
    "to_computation",
    "transfer_from_outfeed",
    "transfer_to_infeed",
]
