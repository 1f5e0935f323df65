"""Serialized executables, and what XLA reports about a compiled program."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Sequence
from typing import Any, Final

from lowering.jaxlib_api.compilation import compile_and_load, initialize_lapack
from lowering.jaxlib_api.native import jax_extension, xla_client


def serialized(loaded: Any) -> bytes:
    """Serialize an executable for `deserialize` in another process.

    Raises:
        ValueError: the executable or its platform does not support serialization.
    """
    try:
        content: bytes = loaded.serialize()
    except (RuntimeError, ValueError, AttributeError) as error:
        raise ValueError(str(error)) from None
    return content


def deserialize(devices: Sequence[Any], content: bytes, options: Any) -> Any:
    """Load the result of `serialized` on these devices.

    Load only trusted bytes: jaxlib may crash on damaged bytes, and executes the machine code in the
    bytes.

    Args:
        devices: devices of the kind that the executable was compiled for.
        content: the bytes.
        options: the result of `compile_options` for the same devices.

    Raises:
        ValueError: jaxlib refuses the bytes; the message is jaxlib's report.
    """
    initialize_lapack(content)
    try:
        return devices[0].client.deserialize_executable(
            content, jax_extension.DeviceList(tuple(devices)), options
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None


_LAYOUT: Final = re.compile(r"\{[^}]*\}")


def device_shapes(loaded: Any) -> tuple[list[str], list[str]]:
    """Return the shapes of an executable's arguments and results on one device.

    The shapes are text without layouts: "f32[4]", "token[]". Tuples are flattened.
    """
    (module,) = loaded.hlo_modules()
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    shape = computation.program_shape()

    def texts(shapes: Sequence[Any]) -> list[str]:
        flat: list[str] = []
        for each in shapes:
            flat += texts(each.tuple_shapes()) if each.is_tuple() else [_LAYOUT.sub("", str(each))]
        return flat

    return texts(shape.parameter_shapes()), texts([shape.result_shape()])


_FEATURE: Final = rb"[+-][a-z0-9][a-z0-9._-]{0,40}"

_FEATURES: Final = re.compile(rb",%b(?:,%b){6,}" % (_FEATURE, _FEATURE))
"""Matches LLVM's list of CPU features from the list's first comma on: the search for a pattern that
begins with one fixed character is fast. The pattern limits the length of a feature name, since a
run of dashes in a constant would otherwise take quadratic time."""


def cpu_features(content: bytes) -> tuple[str, ...]:
    """Return the CPU features that a serialized executable was compiled for: "avx2", "fma", ...

    The executable contains LLVM's feature list. The result is empty if there is no list.
    """
    match = _FEATURES.search(content)
    if match is None:
        return ()
    first = re.search(_FEATURE + rb"\Z", content[max(match.start() - 42, 0) : match.start()])
    names = ((b"" if first is None else first[0]) + match[0]).decode().strip(",").split(",")
    # Preferences require nothing of the CPU.
    return tuple(sorted(n[1:] for n in names if n[0] == "+" and not n.startswith("+prefer-")))


@functools.cache
def host_cpu_features() -> tuple[str, ...]:
    """Return the CPU features that an empty program compiled for this machine's CPU requires.

    The result is empty if the features can't be determined.
    """
    jax: Any = importlib.import_module("jax")
    try:
        device = jax.local_devices(backend="cpu")[0]
        module = b"func.func @main() { return }"
        return cpu_features(serialized(compile_and_load([device], module)))
    except (RuntimeError, ValueError):
        return ()


def optimized_hlo_text(loaded: Any, *, large_constants: bool) -> str:
    """Return the optimized HLO text of an executable.

    `{...}` replaces large constants unless `large_constants` is True.
    """
    options = xla_client.hlo.HloPrintOptions()
    options.print_large_constants = large_constants
    return "\n".join(m.to_string(options) for m in loaded.hlo_modules())


def compiled_cost(loaded: Any) -> dict[str, float]:
    """Return XLA's cost estimates for an execution, by XLA's names ("flops", "bytes accessed")."""
    return {name: float(number) for name, number in sorted(loaded.cost_analysis().items())}


def compiled_memory(loaded: Any) -> dict[str, int]:
    """Return the bytes of device memory that an executable needs, by purpose."""
    stats = loaded.get_compiled_memory_stats()
    return {
        "arguments": stats.argument_size_in_bytes,
        "results": stats.output_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
        "temporary": stats.temp_size_in_bytes,
        "code": stats.generated_code_size_in_bytes,
    }
