"""`xlabuilder run`: a program on a device."""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from lowering.cli.command import ended_by_interrupt, json_option, subcommand
from lowering.cli.inputs import arguments_of, input_options
from lowering.cli.output import bytes_text, print_json, rate_text, seconds_text, show, table
from lowering.cli.programs import file_argument, opened, shape_option

if TYPE_CHECKING:
    import numpy as np

    from builder.graph.computation import XlaComputation
    from lowering.running.executable import Executable

__all__ = ["device_option"]

device_option: Final = click.option(
    "--device", metavar="DEVICE", help='"cpu", "gpu:1" and so on; else the one that jax prefers.'
)


@subcommand("run")
@file_argument
@input_options
@shape_option
@device_option
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="How many calls are timed, after a first one.",
)
@click.option(
    "--output",
    metavar="OUT.npz",
    type=click.Path(dir_okay=False),
    help='Write the results there: "result", or "result[0][1]" for the parts of a tuple.',
)
@json_option
def run(
    file: str,
    inputs: tuple[str, ...],
    seed: int | None,
    shapes: tuple[str, ...],
    device: str | None,
    repeat: int,
    output: str | None,
    as_json: bool,
) -> None:
    """Runs the program of FILE, and shows how long that takes and what comes out.

    Arguments are put on the device before the calls are timed, but for those whose memory the
    program takes over: these are copied in each call. FLOP/s are those of the operations as they
    are written, whatever the compiler made of them.
    """
    if output is not None and not output.endswith(".npz"):
        raise click.UsageError(f"--output: expected a file .npz, got {output!r}")
    computation = opened(file, shapes).computation()
    arguments = arguments_of(computation, inputs, seed)
    from lowering.running.compiling import compile

    with ended_by_interrupt():
        began = time.perf_counter()
        program = compile(computation, device)
        compile_seconds = time.perf_counter() - began
        first, calls, result = _timed(program, _placed(computation, arguments, program), repeat)
    results = _by_name(result)
    notes = [] if output is None else _write(output, results)
    figures = _figures(computation, program, compile_seconds, first, calls)
    if as_json:
        print_json({**figures, "results": [_look(*pair) for pair in results.items()]})
        return
    show(
        f"{computation.name}{computation.program_shape} on {program.device}",
        "",
        table([("", "left"), ("", "left")], _lines(figures)),
    )
    if results:
        show("", _result_table(results))
    if notes:
        show("", *notes)


def _placed(computation: XlaComputation, arguments: list[Any], program: Executable) -> list[Any]:
    """The arguments on the device, but for those whose memory a call takes."""
    import jax

    from lowering.pjrt.placement import device_put

    taken = {one.param_number for one in computation.aliases}
    taken |= {one.param_number for one in computation.donors}
    shapes = computation.program_shape.parameters
    return [
        jax.tree_util.tree_map(lambda array: device_put(array, program.device), argument)
        if number not in taken and shapes[number].is_static
        else argument
        for number, argument in enumerate(arguments)
    ]


def _timed(
    program: Callable[..., Any], arguments: list[Any], repeat: int
) -> tuple[float, list[float], Any]:
    """Seconds of the first call, those of the others, and the result."""
    import jax

    finished: Callable[[Any], Any] = jax.block_until_ready
    seconds: list[float] = []
    result = None
    for _ in range(repeat + 1):
        began = time.perf_counter()
        result = finished(program(*arguments))
        seconds.append(time.perf_counter() - began)
    return seconds[0], seconds[1:], result


def _figures(
    computation: XlaComputation,
    program: Executable,
    compile_seconds: float,
    first: float,
    calls: list[float],
) -> dict[str, Any]:
    from lowering.jaxlib_api import executables

    stats = computation.stats()
    median = statistics.median(calls)
    flops = stats.flops + stats.transcendentals
    # The runtime knows of the memory; of the executable it is no part that users see.
    memory = executables.compiled_memory(program._loaded)
    return {
        "name": computation.name,
        "device": str(program.device),
        "compile_seconds": compile_seconds,
        "first_call_seconds": first,
        "call_seconds": calls,
        "median_call_seconds": median,
        "flops": stats.flops,
        "transcendentals": stats.transcendentals,
        "flops_per_second": flops / median if median else None,
        "unknown_loops": len(stats.unknown_loops),
        "memory_bytes": memory,
    }


def _lines(figures: dict[str, Any]) -> list[tuple[str, str]]:
    calls = figures["call_seconds"]
    spread = f"{seconds_text(min(calls))} to {seconds_text(max(calls))} in {len(calls)}"
    count = figures["flops"] + figures["transcendentals"]
    rate = figures["flops_per_second"] or 0.0
    once = ", loops of unknown length counted once" if figures["unknown_loops"] else ""
    memory = figures["memory_bytes"]
    parts = ", ".join(f"{name} {bytes_text(size)}" for name, size in memory.items() if size)
    return [
        ("compile", seconds_text(figures["compile_seconds"])),
        ("first call", seconds_text(figures["first_call_seconds"])),
        ("call", f"{seconds_text(figures['median_call_seconds'])} (median; {spread})"),
        ("FLOP/s", f"{rate_text(rate)} ({count:,} FLOP a call{once})" if count and rate else "-"),
        ("memory", parts or "-"),
    ]


# Results


def _by_name(result: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a result by their places, tokens left out."""
    import numpy as np

    found: dict[str, Any] = {}
    pending = [("result", result)]
    while pending:
        name, one = pending.pop()
        if isinstance(one, tuple):
            inside = [(f"{name}[{number}]", part) for number, part in enumerate(one)]
            pending += reversed(inside)
        elif one is not None:
            found[name] = np.asarray(one)
    return found


_MOST_VALUES: Final = 6


def _look(name: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """A short look at an array, for JSON."""
    import numpy as np

    from builder.types import primitive_type as pt

    kind = pt.from_dtype(array.dtype)
    wide: Any = array.astype(np.complex128 if kind.is_complex else np.float64)
    not_numbers = int(np.isnan(wide).sum())
    there = wide[~np.isnan(wide)]
    finite = there[np.isfinite(there)]
    ordered = there.size and not kind.is_complex
    first = (array if kind.is_integral else wide).reshape(-1)[:_MOST_VALUES]
    return {
        "name": name,
        "shape": f"{kind.name}[{','.join(map(str, array.shape))}]",
        "min": _number(_extreme(array, wide, "min")) if ordered else None,
        "mean": _number(finite.mean()) if finite.size and finite.size == there.size else None,
        "max": _number(_extreme(array, wide, "max")) if ordered else None,
        "nan_count": not_numbers,
        "first": [_number(one) for one in first],
    }


def _extreme(array: np.ndarray[Any, Any], wide: Any, which: str) -> Any:
    """The smallest or the largest element, NaNs left out; of 64-bit integers exactly."""
    import numpy as np

    if array.dtype.kind in "iub":
        return getattr(array, which)()
    return np.nanmin(wide) if which == "min" else np.nanmax(wide)


def _number(value: Any) -> Any:
    """A number for JSON, which has no complex ones, infinities and NaNs: these are text."""
    import math

    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, int)):
        return value
    if not isinstance(value, (float, complex)):  # integers of ml_dtypes
        return int(value)
    if isinstance(value, complex):
        return str(value)
    return value if math.isfinite(value) else str(value)


def _result_table(results: dict[str, Any]) -> Any:
    rows = []
    for name, array in results.items():
        seen = _look(name, array)
        first = " ".join(_short(one) for one in seen["first"])
        more = " ..." if array.size > len(seen["first"]) else ""
        numbers = ["-" if seen[k] is None else _short(seen[k]) for k in ("min", "mean", "max")]
        rows.append((name, seen["shape"], *numbers, seen["nan_count"], first + more))
    sides = ["left", "left", "right", "right", "right", "right", "left"]
    names = ["result", "shape", "min", "mean", "max", "NaN", "first values"]
    return table(list(zip(names, sides, strict=True)), rows)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _write(path: str, results: dict[str, Any]) -> list[str]:
    """Writes the results; gives what is to be known of how."""
    import numpy as np

    from builder.types import primitive_type as pt
    from lowering.stablehlo.module import write_whole

    # NumPy would write of some such types what it can't read: in the file stands how wide they are.
    raw = {pt.from_dtype(a.dtype).name: a.dtype for a in results.values() if _is_foreign(a.dtype)}
    stored = {
        name: a.view(f"V{a.dtype.itemsize}") if _is_foreign(a.dtype) else a
        for name, a in results.items()
    }
    buffer = io.BytesIO()
    np.savez(buffer, **stored)
    write_whole(path, [buffer.getvalue()])
    return [f"{path}: {bytes_text(buffer.tell())}"] + [
        f"{name} is stored as V{dtype.itemsize}, its bytes: array.view({_dtype_text(dtype)})"
        for name, dtype in raw.items()
    ]


def _is_foreign(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy itself lacks the type."""
    return dtype.isbuiltin != 1


def _dtype_text(dtype: np.dtype[Any]) -> str:
    return f"ml_dtypes.{dtype.name}"
