"""All that `lowering` offers; `import lowering` loads it when something of it is asked for."""

import jax as jax  # first: it quietens the logs of jaxlib before jaxlib starts

from lowering import ffi as ffi
from lowering.custom_calls import register_custom_call_target as register_custom_call_target
from lowering.errors import (
    ArgumentError as ArgumentError,
    CompileError as CompileError,
    DeviceError as DeviceError,
    ExecutionError as ExecutionError,
    LoweringError as LoweringError,
    ModuleFileError as ModuleFileError,
    VersionError as VersionError,
)
from lowering.hlo import from_hlo as from_hlo
from lowering.importer import to_computation as to_computation
from lowering.infeed import (
    clear_transfers as clear_transfers,
    transfer_from_outfeed as transfer_from_outfeed,
    transfer_to_infeed as transfer_to_infeed,
)
from lowering.interpreter import (
    Comparison as Comparison,
    Difference as Difference,
    Interpretation as Interpretation,
    compare as compare,
    interpret as interpret,
)
from lowering.lowering import lower as lower
from lowering.module import (
    StablehloModule as StablehloModule,
    load as load,
    load_bytes as load_bytes,
)
from lowering.pjrt import device as device, devices as devices
from lowering.placing import device_put as device_put
from lowering.running.compilation_cache import use_compilation_cache as use_compilation_cache
from lowering.running.compiling import compile as compile
from lowering.running.executable import Executable as Executable
from lowering.running.executable_file import load_executable as load_executable
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
