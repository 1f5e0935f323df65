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
    from builder import __version__ as __version__
    from lowering import faults as faults, ffi as ffi, xla_client as xla_client
    from lowering.errors import (
        ArgumentError as ArgumentError,
        CompileError as CompileError,
        DeviceError as DeviceError,
        ExecutionError as ExecutionError,
        LoweringError as LoweringError,
        ModuleFileError as ModuleFileError,
        VersionError as VersionError,
    )
    from lowering.faults.minimizing import Minimized as Minimized, minimize as minimize
    from lowering.faults.probing import (
        OpStatistics as OpStatistics,
        Probe as Probe,
        probe as probe,
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
        Correspondence as Correspondence,
        Difference as Difference,
        Interpretation as Interpretation,
        compare as compare,
        interpret as interpret,
    )
    from lowering.jax_interop.applying import apply as apply
    from lowering.jax_interop.editing import edit_jax as edit_jax
    from lowering.jax_interop.from_jax import from_jax as from_jax
    from lowering.jax_interop.to_jax import to_jax as to_jax
    from lowering.jax_interop.transforms import (
        grad as grad,
        gradients as gradients,
        value_and_grad as value_and_grad,
        vmap as vmap,
    )
    from lowering.pjrt.devices import device as device, devices as devices
    from lowering.pjrt.placement import device_put as device_put
    from lowering.pjrt.plugins import register_plugin as register_plugin
    from lowering.running.compilation_cache import use_compilation_cache as use_compilation_cache
    from lowering.running.compiling import compile as compile
    from lowering.running.executable import Executable as Executable
    from lowering.running.executable_loading import load_executable as load_executable
    from lowering.running.jit import JittedFunction as JittedFunction, jit as jit
    from lowering.running.jit_cache import JitCacheInfo as JitCacheInfo
    from lowering.running.op_times import OpTime as OpTime, OpTimes as OpTimes
    from lowering.running.open_executable import OpenExecutable as OpenExecutable
    from lowering.running.partitioned import PartitionedExecutable as PartitionedExecutable
    from lowering.running.profiling import Memory as Memory, Profile as Profile
    from lowering.running.progress import show_progress as show_progress
    from lowering.running.replicated import ReplicatedExecutable as ReplicatedExecutable
    from lowering.running.topology import (
        Topology as Topology,
        UnloadedExecutable as UnloadedExecutable,
        topology as topology,
    )
    from lowering.stablehlo.lower import lower as lower, to_hlo_proto as to_hlo_proto
    from lowering.stablehlo.module import (
        StablehloModule as StablehloModule,
        load_bytes as load_bytes,
    )
    from lowering.stablehlo.sources import load as load
    from lowering.test_files.running import TestOutcome as TestOutcome, run_test as run_test
    from lowering.test_files.writing import write_test as write_test
else:
    # Importing jax is slow, and `xlabuilder --help` does not need it. Submodules such as `ffi` need
    # no entry.
    _MODULES = {
        "builder": "__version__",
        "lowering.errors": "ArgumentError CompileError DeviceError "
        "ExecutionError LoweringError ModuleFileError VersionError",
        "lowering.faults.minimizing": "Minimized minimize",
        "lowering.faults.probing": "OpStatistics Probe probe",
        "lowering.host": "infeed",
        "lowering.host.custom_calls": "register_custom_call_target",
        "lowering.host.infeed": "clear_transfers transfer_from_outfeed transfer_to_infeed",
        "lowering.importer": "to_computation",
        "lowering.importer.hlo": "from_hlo",
        "lowering.interpreter": "Comparison Correspondence Difference "
        "Interpretation compare interpret",
        "lowering.jax_interop.applying": "apply",
        "lowering.jax_interop.editing": "edit_jax",
        "lowering.jax_interop.from_jax": "from_jax",
        "lowering.jax_interop.to_jax": "to_jax",
        "lowering.jax_interop.transforms": "grad gradients value_and_grad vmap",
        "lowering.pjrt.devices": "device devices",
        "lowering.pjrt.plugins": "register_plugin",
        "lowering.pjrt.placement": "device_put",
        "lowering.running.compilation_cache": "use_compilation_cache",
        "lowering.running.compiling": "compile",
        "lowering.running.executable": "Executable",
        "lowering.running.executable_loading": "load_executable",
        "lowering.running.jit": "JittedFunction jit",
        "lowering.running.jit_cache": "JitCacheInfo",
        "lowering.running.partitioned": "PartitionedExecutable",
        "lowering.running.op_times": "OpTime OpTimes",
        "lowering.running.profiling": "Memory Profile",
        "lowering.running.progress": "show_progress",
        "lowering.running.open_executable": "OpenExecutable",
        "lowering.running.replicated": "ReplicatedExecutable",
        "lowering.running.topology": "Topology UnloadedExecutable topology",
        "lowering.stablehlo.lower": "lower to_hlo_proto",
        "lowering.stablehlo.module": "StablehloModule load_bytes",
        "lowering.stablehlo.sources": "load",
        "lowering.test_files.running": "TestOutcome run_test",
        "lowering.test_files.writing": "write_test",
    }
    _LAZY = dict(
        sorted((name, module) for module, names in _MODULES.items() for name in names.split())
    )
    __all__ = sorted([*(name for name in _LAZY if name[0] != "_"), "faults", "ffi", "xla_client"])

    def _check_builder():
        """Refuse another package `builder` that comes first on sys.path.

        Otherwise each name would fail with an error about a module that the other package lacks.
        """
        from importlib.util import find_spec

        spec = find_spec("builder")
        found = None if spec is None else spec.origin
        folder, _, file = __file__.rpartition("lowering")
        own = f"{folder}builder{file}"
        if found is not None and os.path.realpath(found) != os.path.realpath(own):
            raise ImportError(
                f"lowering requires the package builder of xlabuilder, but `import builder` finds "
                f"another one: {found}\n"
                f"fix: remove or rename it, or put {folder} before its folder on sys.path",
                name="builder",
                path=found,
            )

    _check_builder()

    def __getattr__(name):
        from builder.support.imports import lazy_name

        try:
            return lazy_name(globals(), _LAZY, name)
        except ModuleNotFoundError as missing:
            from builder.support.imports import missing_requirement

            error = missing_requirement(missing, f"lowering.{name}")
        except (AttributeError, ImportError) as failed:
            import builder

            if "XlaBuilder" not in dir(builder):
                # pip lets distributions with packages of one name overwrite each other's files.
                error = ImportError(
                    f"lowering requires the package builder of xlabuilder, but another "
                    f"distribution replaced its files in {builder.__path__[0]}\n"
                    f"fix: uninstall that distribution, then run `pip install --force-reinstall "
                    f"--no-deps xlabuilder`",
                    name="builder",
                    path=builder.__path__[0],
                )
            elif isinstance(failed, ImportError):
                raise
            else:
                from builder.unknown_names import missing_name_of_lowering

                error = missing_name_of_lowering(name, __all__, builder.__all__)
        raise error

    def __dir__():
        return __all__
