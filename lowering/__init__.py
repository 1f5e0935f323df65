"""Lower computations to StableHLO, save them to files, and run them on devices.

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

import os
from typing import TYPE_CHECKING

# jax sets this default too, but a program may import jaxlib first.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

if TYPE_CHECKING:
    from lowering import ffi as ffi
    from lowering.errors import (
        ArgumentError as ArgumentError,
        CompileError as CompileError,
        DeviceError as DeviceError,
        ExecutionError as ExecutionError,
        LoweringError as LoweringError,
        ModuleFileError as ModuleFileError,
        VersionError as VersionError,
    )
    from lowering.host import infeed as infeed
    from lowering.host.custom_calls import (
        register_custom_call_target as register_custom_call_target,
    )
    from lowering.host.infeed import (
        clear_transfers as clear_transfers,
        transfer_from_outfeed as transfer_from_outfeed,
        transfer_to_infeed as transfer_to_infeed,
    )
    from lowering.importer import to_computation as to_computation
    from lowering.importer.hlo import from_hlo as from_hlo
    from lowering.interpreter import (
        Comparison as Comparison,
        Difference as Difference,
        Interpretation as Interpretation,
        compare as compare,
        interpret as interpret,
    )
    from lowering.pjrt.devices import device as device, devices as devices
    from lowering.pjrt.placement import device_put as device_put
    from lowering.running.compilation_cache import use_compilation_cache as use_compilation_cache
    from lowering.running.compiling import compile as compile
    from lowering.running.executable import Executable as Executable
    from lowering.running.executable_loading import load_executable as load_executable
    from lowering.running.jit import JittedFunction as JittedFunction, jit as jit
    from lowering.running.jit_cache import JitCacheInfo as JitCacheInfo
    from lowering.running.partitioned import PartitionedExecutable as PartitionedExecutable
    from lowering.running.profiling import Memory as Memory, Profile as Profile
    from lowering.running.replicated import ReplicatedExecutable as ReplicatedExecutable
    from lowering.running.topology import (
        Topology as Topology,
        UnloadedExecutable as UnloadedExecutable,
        topology as topology,
    )
    from lowering.stablehlo.lower import lower as lower
    from lowering.stablehlo.module import (
        StablehloModule as StablehloModule,
        load as load,
        load_bytes as load_bytes,
    )
else:
    # Importing jax is slow, and `xlabuilder --help` does not need it. `lazy_name` imports submodules
    # such as `ffi` without an entry here.
    _LAZY = {
        "ArgumentError": "lowering.errors",
        "Comparison": "lowering.interpreter",
        "CompileError": "lowering.errors",
        "DeviceError": "lowering.errors",
        "Difference": "lowering.interpreter",
        "Executable": "lowering.running.executable",
        "ExecutionError": "lowering.errors",
        "Interpretation": "lowering.interpreter",
        "JitCacheInfo": "lowering.running.jit_cache",
        "JittedFunction": "lowering.running.jit",
        "LoweringError": "lowering.errors",
        "Memory": "lowering.running.profiling",
        "ModuleFileError": "lowering.errors",
        "PartitionedExecutable": "lowering.running.partitioned",
        "Profile": "lowering.running.profiling",
        "ReplicatedExecutable": "lowering.running.replicated",
        "StablehloModule": "lowering.stablehlo.module",
        "Topology": "lowering.running.topology",
        "UnloadedExecutable": "lowering.running.topology",
        "VersionError": "lowering.errors",
        "clear_transfers": "lowering.host.infeed",
        "compare": "lowering.interpreter",
        "compile": "lowering.running.compiling",
        "device": "lowering.pjrt.devices",
        "device_put": "lowering.pjrt.placement",
        "devices": "lowering.pjrt.devices",
        "from_hlo": "lowering.importer.hlo",
        "infeed": "lowering.host",
        "interpret": "lowering.interpreter",
        "jit": "lowering.running.jit",
        "load": "lowering.stablehlo.module",
        "load_bytes": "lowering.stablehlo.module",
        "load_executable": "lowering.running.executable_loading",
        "lower": "lowering.stablehlo.lower",
        "register_custom_call_target": "lowering.host.custom_calls",
        "to_computation": "lowering.importer",
        "topology": "lowering.running.topology",
        "transfer_from_outfeed": "lowering.host.infeed",
        "transfer_to_infeed": "lowering.host.infeed",
        "use_compilation_cache": "lowering.running.compilation_cache",
    }
    __all__ = list(_LAZY)

    def __getattr__(name):
        from builder.support.lazy import lazy_name

        return lazy_name(globals(), _LAZY, name)

    def __dir__():
        return sorted({*globals(), *_LAZY})
