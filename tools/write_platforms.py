"""Run the example of every operation on the platforms of this machine and record the results.

    python tools/write_platforms.py            add this machine's platforms to docs/platforms.json
    python tools/write_platforms.py --measure [PLATFORM...]
                                               print the results as JSON, without writing a file
    python tools/write_platforms.py --compile tpu
    python tools/write_platforms.py --compile gpu FILE
                                               add results of compilation for absent devices: by
                                               libtpu for a TPU v5e, or by jax's CUDA plugin for the
                                               GPU that FILE describes (see lowering.topology)

The examples are those of the docstrings. Their computations are lowered, compiled and executed,
with arguments of ones. To add a platform of another machine, run this script there: results of
other platforms and of other versions of jaxlib are preserved.

docs/operations.md shows the results, and tests/test_platforms.py measures the CPU again.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "platforms.json"
RAN: Final = "ran"
COMPILED: Final = "compiled"
"""The result of compilation for an absent device, and the prefix of such a platform's name."""
_TOPOLOGIES: Final = {"gpu": "1x1x8", "tpu": "v5e:2x4"}
"""The topology of eight absent devices, by platform."""
INTERNAL_ERROR: Final = "internal error: "
_SECONDS: Final = 300
"""The time after which an example is considered to hang."""


def computations_of_example(info: Any) -> list[Any]:
    """Run the examples of an operation's docstring and build every computation they record."""
    import builder as xb

    builders: list[xb.XlaBuilder] = []
    original = xb.XlaBuilder.__init__

    def init(self: xb.XlaBuilder, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        builders.append(self)

    names: dict[str, object] = {"__name__": "__main__"}
    xb.XlaBuilder.__init__ = init  # type: ignore[method-assign]  # restored below
    try:
        for example in doctest.DocTestParser().get_examples(info.function.__doc__ or ""):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, f"<{info.name}>", "single"), names)
    finally:
        xb.XlaBuilder.__init__ = original  # type: ignore[method-assign]
    return [b.build() for b in builders if b.ops and not b.built and b._parent is None]


def argument_of(shape: Any) -> Any:
    """Return a value of ones for a parameter."""
    import numpy as np

    if shape.is_tuple:
        return tuple(argument_of(element) for element in shape.elements)
    if shape.is_token:
        return None
    return np.ones(shape.dimensions, shape.element_type.dtype)


def ops_of(computation: Any) -> list[Any]:
    """Return the ops of a computation and of the computations that they apply."""
    return [op for c in (computation, *computation.called_computations()) for op in c.ops]


def replicas_of(computation: Any) -> int:
    """Return the number of replicas that the replica groups and split counts require."""
    replicas = 1
    for op in ops_of(computation):
        pairs = op.attributes.get("source_target_pairs", ())
        groups = getattr(op.attributes.get("replica_groups"), "groups", ())
        numbers = [n for group in (*pairs, *groups) for n in group]
        replicas = max(replicas, 1 + max(numbers, default=0))
        count = op.attributes.get("shard_count") or op.attributes.get("split_count") or 1
        replicas = max(replicas, count)
        if op.opcode == "all_to_all_tuple":
            replicas = max(replicas, len(op.operands))
    return replicas


def partitions_of(computation: Any) -> int:
    """Return the number of partitions: that of the tiles in its Sharding custom calls."""
    import builder as xb

    calls = [(o.attributes.get("call_target_name", ""), o.sharding) for o in computation.ops]
    if not any(target.startswith("SPMD") for target, _ in calls):
        return 1
    return max(len(xb.parse_tiling(text).devices) for target, text in calls if target == "Sharding")


def run(computation: Any, platform: str) -> None:
    """Compile and execute a computation on as many devices as it requires."""
    import jax

    import lowering

    replicas = replicas_of(computation)
    executable = lowering.compile(
        computation, platform, num_replicas=replicas, num_partitions=partitions_of(computation)
    )
    arguments = [argument_of(p.shape) for p in computation.parameters]
    for op in ops_of(computation):
        if op.opcode == "infeed":
            lowering.transfer_to_infeed(argument_of(op.shape.elements[0]), platform)
    if replicas > 1:
        result: Any = executable(*([argument] * replicas for argument in arguments))
    else:
        result = executable(*arguments)
    jax.block_until_ready(jax.tree_util.tree_leaves(result))
    if platform == "cpu":  # no other device has an infeed or an outfeed
        lowering.clear_transfers(platform)


def compile_only(computation: Any, platform: str, target_config: str | None) -> None:
    """Compile a computation for as many absent devices as it requires."""
    import lowering

    devices = lowering.topology(
        platform, _TOPOLOGIES[platform], target_config=target_config
    ).devices
    replicas, partitions = replicas_of(computation), partitions_of(computation)
    lowering.compile(
        computation,
        num_replicas=replicas,
        num_partitions=partitions,
        devices=devices[: replicas * partitions],
    )


def call_of_registered_function() -> Any:
    """Return a custom_call of a registered function. The docstring's function is not registered."""
    import ctypes

    import builder as xb
    import lowering

    pointer = ctypes.POINTER(ctypes.c_float)

    @ctypes.CFUNCTYPE(None, pointer, ctypes.POINTER(pointer))
    def add_one(out: Any, inputs: Any) -> None:
        out[0] = inputs[0][0] + 1

    lowering.register_custom_call_target("xlabuilder_add_one", add_one)
    b = xb.XlaBuilder()
    return b.build(xb.custom_call("xlabuilder_add_one", b.parameter(xb.f32[()]), xb.f32[()]))


def measure_operation(info: Any, platform: str, target_config: str | None = None) -> str:
    """Return "ran" or "compiled", or the first line of the error."""
    from builder.errors import XlaError

    try:
        if (info.name, platform) == ("custom_call", "cpu"):
            run(call_of_registered_function(), platform)
            return RAN
        for computation in computations_of_example(info):
            if any(op.opcode == info.opcode for op in computation.ops):
                if platform.startswith(COMPILED):
                    target = platform.removeprefix(COMPILED).strip()
                    compile_only(computation, target, target_config)
                else:
                    run(computation, platform)
    except XlaError as error:
        first = str(error).splitlines()[0].removeprefix("compile: computation: ")
        return re.sub(r", recorded at [^:]*:\d+,?| \(/[^()]*:\d+\)", "", first)
    except Exception as error:  # not raised by the library: reported, and not recorded
        return f"{INTERNAL_ERROR}{type(error).__name__}: {error}"
    return COMPILED if platform.startswith(COMPILED) else RAN


def work(platform: str, target_config: str | None) -> None:
    """Read names of operations from stdin, a line each, and print a line of JSON for each."""
    import builder as xb

    if platform.startswith(COMPILED):
        import jax

        jax.config.update("jax_platforms", "cpu")  # the platform itself is only compiled for
    for line in sys.stdin:
        name = line.strip()
        result = measure_operation(xb.OPERATIONS[name], platform, target_config)
        print(json.dumps([name, result]), flush=True)


def measure(
    platform: str, target_config: str | None = None, *, without: Collection[str] = ()
) -> dict[str, str]:
    """Return the result of each operation, measured in a process that may crash.

    Args:
        platform: "cpu", "gpu" or "tpu"; or "compiled gpu" or "compiled tpu", to compile only.
        target_config: for "compiled gpu", the file that describes the GPU.
        without: operations that are left out.
    """
    import builder as xb

    results: dict[str, str] = {}
    remaining = [name for name in xb.OPERATIONS if name not in without]
    command = [sys.executable, __file__, "--work", platform]
    if target_config:
        command.append(target_config)
    environment = dict(os.environ)
    if platform == "cpu":
        flags = environment.get("XLA_FLAGS", "")
        environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=8"
    while remaining:
        try:
            done = subprocess.run(
                command,
                input="\n".join(remaining) + "\n",
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=environment,
                check=False,
                timeout=_SECONDS,
            )
            lines, failure = done.stdout, f"the process crashes: {done.stderr[-300:]!r}"
        except subprocess.TimeoutExpired as error:
            lines = error.stdout.decode() if isinstance(error.stdout, bytes) else ""
            failure = "hangs"
        results.update(json.loads(line) for line in lines.splitlines())
        remaining = [name for name in remaining if name not in results]
        if remaining:
            results[remaining.pop(0)] = failure
    errors = [
        f"{name}: {text}" for name, text in results.items() if text.startswith(INTERNAL_ERROR)
    ]
    if errors:
        sys.exit("\n".join(errors))
    return dict(sorted(results.items()))


def platforms_here() -> list[str]:
    """Return the platforms for which jax has devices on this machine."""
    import jax

    platforms = ["cpu"]
    for platform in ("gpu", "tpu"):
        with contextlib.suppress(RuntimeError):
            jax.devices(platform)
            platforms.append(platform)
    return platforms


def measure_all(platforms: list[str]) -> dict[str, dict[str, dict[str, str]]]:
    """Return the results on this machine, by platform and version of jaxlib."""
    import jaxlib

    return {platform: {jaxlib.__version__: measure(platform)} for platform in platforms}


def record() -> dict[str, dict[str, dict[str, str]]]:
    """Return the content of docs/platforms.json."""
    if not TARGET.exists():
        return {}
    results: dict[str, dict[str, dict[str, str]]] = json.loads(TARGET.read_text(encoding="utf-8"))
    return results


def main() -> None:
    sys.path.insert(0, str(ROOT))
    if "--work" in sys.argv:
        platform, *more = sys.argv[sys.argv.index("--work") + 1 :]
        work(platform, more[0] if more else None)
        return
    if "--measure" in sys.argv:
        platforms = sys.argv[sys.argv.index("--measure") + 1 :]
        print(json.dumps(measure_all(platforms or platforms_here())))
        return
    results = record()
    if "--compile" in sys.argv:
        import jaxlib

        platform, *more = sys.argv[sys.argv.index("--compile") + 1 :]
        name = f"{COMPILED} {platform}"
        measured = {name: {jaxlib.__version__: measure(name, more[0] if more else None)}}
    else:
        measured = measure_all(platforms_here())
    for platform, versions in measured.items():
        results.setdefault(platform, {}).update(versions)
    text = json.dumps(results, indent=1, sort_keys=True)
    TARGET.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
