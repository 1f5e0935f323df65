"""Runs every operation's example on the platforms of this machine, and notes where it ran.

    python tools/write_platforms.py            adds this machine's platforms to docs/platforms.json
    python tools/write_platforms.py --measure  prints what was found, as JSON, and writes nothing;
                                               a platform may follow, to measure that one alone
    python tools/write_platforms.py --compile tpu
    python tools/write_platforms.py --compile gpu FILE
                                               adds what is compiled for devices that are not there:
                                               by libtpu for a TPU v5e; by jax's CUDA plugin for the
                                               GPU that FILE describes (see lowering.topology)

The examples are those of the docstrings: what they record is lowered, compiled and executed, with
arguments of ones. A platform that another machine has is added by running this there; what is
noted of other platforms and of other versions of jaxlib is kept.

docs/operations.md shows the result, and tests/test_platforms.py measures the CPU again.
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
"""What is noted of a platform that was compiled for; and the first word of its name."""
_TOPOLOGIES: Final = {"gpu": "1x1x8", "tpu": "v5e:2x4"}
"""By platform the eight devices that are compiled for."""
FAULT: Final = "a fault: "
_SECONDS: Final = 300
"""How long an example may take before it counts as one that hangs."""


def computations_of_example(info: Any) -> list[Any]:
    """Runs the examples of an operation's docstring; every computation that they record, built."""
    import builder as xb

    builders: list[xb.XlaBuilder] = []
    begin = xb.XlaBuilder.__init__

    def noted(self: xb.XlaBuilder, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        builders.append(self)

    names: dict[str, object] = {"__name__": "__main__"}
    xb.XlaBuilder.__init__ = noted  # type: ignore[method-assign]  # for this example alone
    try:
        for example in doctest.DocTestParser().get_examples(info.function.__doc__ or ""):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, f"<{info.name}>", "single"), names)
    finally:
        xb.XlaBuilder.__init__ = begin  # type: ignore[method-assign]  # as it was
    return [b.build() for b in builders if b.ops and not b.built and b.parent is None]


def argument_of(shape: Any) -> Any:
    """A value of ones for a parameter."""
    import numpy as np

    if shape.is_tuple:
        return tuple(argument_of(element) for element in shape.elements)
    if shape.is_token:
        return None
    return np.ones(shape.dimensions, shape.element_type.dtype)


def replicas_of(computation: Any) -> int:
    """On how many devices a computation has to run, by the participants that it names."""
    ops = [o for c in (computation, *computation.called_computations()) for o in c.ops]
    replicas = 1
    for op in ops:
        pairs = op.attributes.get("source_target_pairs", ())
        groups = getattr(op.attributes.get("replica_groups"), "groups", ())
        numbers = [n for group in (*pairs, *groups) for n in group]
        replicas = max(replicas, 1 + max(numbers, default=0))
    for op in ops:
        if "shard_count" in op.attributes or "split_count" in op.attributes:
            count = op.attributes.get("shard_count") or op.attributes.get("split_count")
            replicas = max(replicas, count)
        if op.opcode == "all_to_all_tuple":
            replicas = max(replicas, len(op.operands))
    return replicas


def partitions_of(computation: Any) -> int:
    """For how many partitions a computation has to be compiled: as many as the tiles of an array
    that it changes into its parts."""
    import builder as xb

    calls = [(o.attributes.get("call_target_name", ""), o.sharding) for o in computation.ops]
    if not any(target.startswith("SPMD") for target, _ in calls):
        return 1
    return max(len(xb.parse_tiling(text).devices) for target, text in calls if target == "Sharding")


def run(computation: Any, platform: str) -> None:
    """Compiles and executes a computation on as many devices as it asks for."""
    import jax

    import lowering

    replicas = replicas_of(computation)
    ops = [o for c in (computation, *computation.called_computations()) for o in c.ops]
    executable = lowering.compile(
        computation, platform, num_replicas=replicas, num_partitions=partitions_of(computation)
    )
    arguments = [argument_of(p.shape) for p in computation.parameters]
    for op in ops:
        if op.opcode == "infeed":
            lowering.transfer_to_infeed(argument_of(op.shape.elements[0]), platform)
    if replicas > 1:
        result: Any = executable(*([argument] * replicas for argument in arguments))
    else:
        result = executable(*arguments)
    jax.block_until_ready(jax.tree_util.tree_leaves(result))
    lowering.clear_transfers()


def compile_alone(computation: Any, platform: str, described: str | None) -> None:
    """Compiles a computation for as many devices as it asks for, which are not there."""
    import lowering

    devices = lowering.topology(platform, _TOPOLOGIES[platform], target_config=described).devices
    replicas, partitions = replicas_of(computation), partitions_of(computation)
    lowering.compile(
        computation,
        num_replicas=replicas,
        num_partitions=partitions,
        devices=devices[: replicas * partitions],
    )


def call_of_a_registered_function() -> Any:
    """A custom_call of a function that is there, as that of the docstring is not."""
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


def measure_one(info: Any, platform: str, described: str | None = None) -> str:
    """ "ran" or "compiled", or why not: the first line of the error."""
    from builder.errors import XlaError

    try:
        if (info.name, platform) == ("custom_call", "cpu"):
            run(call_of_a_registered_function(), platform)
            return RAN
        for computation in computations_of_example(info):
            if any(op.opcode == info.opcode for op in computation.ops):
                if platform.startswith(COMPILED):
                    compile_alone(computation, platform.removeprefix(COMPILED).strip(), described)
                else:
                    run(computation, platform)
    except XlaError as error:
        first = str(error).splitlines()[0].removeprefix("compile: computation: ")
        return re.sub(r", recorded at [^:]*:\d+,?", "", first)
    except Exception as error:  # no error of the library's: a fault, which is not to be noted
        return f"{FAULT}{type(error).__name__}: {error}"
    return COMPILED if platform.startswith(COMPILED) else RAN


def work(platform: str, described: str | None) -> None:
    """Reads names of operations from stdin, a line each; writes a line of JSON for each."""
    import builder as xb

    if platform.startswith(COMPILED):
        import jax

        jax.config.update("jax_platforms", "cpu")  # nothing runs there
    for line in sys.stdin:
        name = line.strip()
        answer = measure_one(xb.OPERATIONS[name], platform, described)
        print(json.dumps([name, answer]), flush=True)


def measure(
    platform: str, described: str | None = None, *, without: Collection[str] = ()
) -> dict[str, str]:
    """Of each operation whether its example ran, measured in a process that may die.

    Args:
        platform: "cpu", "gpu", "tpu"; or "compiled gpu", "compiled tpu", to compile alone.
        described: of "compiled gpu" the file that describes it.
        without: operations that are left out.
    """
    import builder as xb

    found: dict[str, str] = {}
    waiting = [name for name in xb.OPERATIONS if name not in without]
    environment = dict(os.environ)
    if platform == "cpu":
        flags = environment.get("XLA_FLAGS", "")
        environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=8"
    while waiting:
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--work", platform, *([described] if described else [])],
                input="\n".join(waiting) + "\n",
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=environment,
                check=False,
                timeout=_SECONDS,
            )
            lines, ended = done.stdout, f"the process dies: {done.stderr[-300:]!r}"
        except subprocess.TimeoutExpired as error:
            lines = error.stdout.decode() if isinstance(error.stdout, bytes) else ""
            ended = "hangs"
        for line in lines.splitlines():
            name, answer = json.loads(line)
            found[name] = answer
        waiting = [name for name in waiting if name not in found]
        if waiting:
            found[waiting.pop(0)] = ended
    faults = [f"{name}: {answer}" for name, answer in found.items() if answer.startswith(FAULT)]
    if faults:
        sys.exit("\n".join(faults))
    return {name: found[name] for name in sorted(found)}


def platforms_here() -> list[str]:
    """The platforms of which jax finds devices on this machine."""
    import jax

    found = ["cpu"]
    for platform in ("gpu", "tpu"):
        with contextlib.suppress(RuntimeError):
            jax.devices(platform)
            found.append(platform)
    return found


def measured(platforms: list[str]) -> dict[str, dict[str, dict[str, str]]]:
    """By platform and version of jaxlib, what the examples do on this machine."""
    import jaxlib

    return {platform: {jaxlib.__version__: measure(platform)} for platform in platforms}


def record() -> dict[str, dict[str, dict[str, str]]]:
    """What docs/platforms.json says."""
    if not TARGET.exists():
        return {}
    kept: dict[str, dict[str, dict[str, str]]] = json.loads(TARGET.read_text(encoding="utf-8"))
    return kept


def main() -> None:
    sys.path.insert(0, str(ROOT))
    if "--work" in sys.argv:
        platform, *more = sys.argv[sys.argv.index("--work") + 1 :]
        work(platform, more[0] if more else None)
        return
    if "--measure" in sys.argv:
        chosen = sys.argv[sys.argv.index("--measure") + 1 :]
        print(json.dumps(measured(chosen or platforms_here())))
        return
    kept = record()
    if "--compile" in sys.argv:
        import jaxlib

        platform, *more = sys.argv[sys.argv.index("--compile") + 1 :]
        name = f"{COMPILED} {platform}"
        found = {name: {jaxlib.__version__: measure(name, more[0] if more else None)}}
    else:
        found = measured(platforms_here())
    for platform, versions in found.items():
        kept.setdefault(platform, {}).update(versions)
    text = json.dumps({p: dict(sorted(kept[p].items())) for p in sorted(kept)}, indent=1)
    TARGET.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
