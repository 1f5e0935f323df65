"""Serialized executables, and what XLA reports about a compiled program."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Sequence
from typing import Any, Final

from lowering.jaxlib_api.compilation import compile_and_load
from lowering.jaxlib_api.native import jax_extension, xla_client

__all__ = [
    "compiled_cost",
    "compiled_memory",
    "cpu_features",
    "deserialize",
    "host_cpu_features",
    "optimized_hlo_text",
    "serialized",
]


def serialized(loaded: Any) -> bytes:
    """An executable as bytes, which `deserialize` reads in another process.

    Raises:
        ValueError: this one, or this platform, can't do that.
    """
    try:
        content: bytes = loaded.serialize()
    except (RuntimeError, ValueError, AttributeError) as error:
        raise ValueError(str(error)) from None
    return content


def deserialize(devices: Sequence[Any], content: bytes, options: Any) -> Any:
    """The LoadedExecutable in what `serialized` gave, for these devices.

    Of bytes that are something else, or damaged, jaxlib may die; and they are run.

    Args:
        devices: which may be others than those that it was compiled for, of the same kind.
        content: the bytes.
        options: made by `compile_options` of the same devices.

    Raises:
        ValueError: jaxlib refuses it; the text holds its report.
    """
    try:
        return devices[0].client.deserialize_executable(
            content, jax_extension.DeviceList(tuple(devices)), options
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None


_FEATURE: Final = rb"[+-][a-z0-9][a-z0-9._-]{0,40}"

_FEATURES: Final = re.compile(rb",%b(?:,%b){6,}" % (_FEATURE, _FEATURE))
"""A list, from its first comma on. What begins with one character is looked for at 1 GB/s; and of
names of any length a run of dashes in a constant would be looked at once for each of them."""


def cpu_features(content: bytes) -> tuple[str, ...]:
    """The features of a CPU that a serialized executable was compiled for: "avx2", "fma", ...

    XLA writes into it what LLVM was told. None if that isn't found.
    """
    found = _FEATURES.search(content)
    if found is None:
        return ()
    first = re.search(_FEATURE + rb"\Z", content[max(found.start() - 42, 0) : found.start()])
    names = ((b"" if first is None else first[0]) + found[0]).decode().strip(",").split(",")
    # The preferences among them ask for nothing of the CPU.
    return tuple(sorted(n[1:] for n in names if n[0] == "+" and not n.startswith("+prefer-")))


@functools.cache
def host_cpu_features() -> tuple[str, ...]:
    """The features of this process's CPU, as XLA sees them: of a program made to ask (20 ms)."""
    jax: Any = importlib.import_module("jax")
    try:
        device = jax.local_devices(backend="cpu")[0]
        module = b"func.func @main() { return }"
        return cpu_features(serialized(compile_and_load([device], module)))
    except (RuntimeError, ValueError):
        return ()


def optimized_hlo_text(loaded: Any, *, large_constants: bool) -> str:
    """HLO text of what XLA made of a module; without large constants `{...}` stands for these."""
    options = xla_client.hlo.HloPrintOptions()
    options.print_large_constants = large_constants
    return "\n".join(m.to_string(options) for m in loaded.hlo_modules())


def compiled_cost(loaded: Any) -> dict[str, float]:
    """What XLA reckons that a run of a LoadedExecutable costs, by XLA's names."""
    return {name: float(number) for name, number in sorted(loaded.cost_analysis().items())}


def compiled_memory(loaded: Any) -> dict[str, int]:
    """The bytes that a LoadedExecutable takes on a device, by what for."""
    stats = loaded.get_compiled_memory_stats()
    return {
        "arguments": stats.argument_size_in_bytes,
        "results": stats.output_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
        "temporary": stats.temp_size_in_bytes,
        "code": stats.generated_code_size_in_bytes,
    }
