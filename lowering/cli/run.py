"""`xlabuilder run`: run a program on a device."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from lowering.cli.command import (
    ended_by_interrupt,
    json_option,
    print_json,
    show,
    signature_text,
    subcommand,
    table,
)
from lowering.cli.inputs import execution_options

if TYPE_CHECKING:
    import numpy as np

    from builder.graph.computation import XlaComputation
    from lowering.running.executable import Executable


def _check_output(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    if path is not None and not path.endswith(".npz"):
        raise click.UsageError(f"--output: expected an .npz file, got {path!r}")
    return path


@subcommand("run")
@execution_options
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="The number of timed calls after the first one.",
)
@click.option(
    "-o",
    "--output",
    metavar="OUT.npz",
    type=click.Path(dir_okay=False),
    help='Write the results to a file, as the array "result", or "result[0][1]" and so on for the '
    "elements of a tuple.",
    callback=_check_output,
)
@json_option
def run(
    computation: XlaComputation,
    arguments: list[Any],
    device: str | None,
    repeat: int,
    output: str | None,
    as_json: bool,
) -> None:
    """Run the program of FILE, and show the time and the results.

    Arguments are transferred to the device before the calls are timed, except for donated ones,
    which are copied in each call. FLOP/s are counted for the operations in FILE, before
    optimization.
    """
    from lowering.running.compiling import compile

    with ended_by_interrupt():
        start = time.perf_counter()
        program = compile(computation, device)
        compile_seconds = time.perf_counter() - start
        first, calls, result = _timed(program, _placed(computation, arguments, program), repeat)
    results = _by_name(result)
    notes = [] if output is None else _write(output, results)
    figures = _figures(computation, program, compile_seconds, first, calls)
    if as_json:
        print_json({**figures, "results": [_summary(*pair) for pair in results.items()]})
        return
    show(
        f"{signature_text(computation)} on {program.device}",
        "",
        table([("", "left"), ("", "left")], _lines(figures)),
    )
    if results:
        show("", _result_table(results))
    if notes:
        show("", *notes)


def _placed(computation: XlaComputation, arguments: list[Any], program: Executable) -> list[Any]:
    """Transfer the arguments to the device, except those donated or of dynamic shape."""
    import jax

    from lowering.pjrt.placement import device_put

    donated = {alias.param_number for alias in computation.aliases}
    donated |= {donor.param_number for donor in computation.donors}
    shapes = computation.program_shape.parameters
    return [
        jax.tree_util.tree_map(lambda array: device_put(array, program.device), argument)
        if number not in donated and shapes[number].is_static
        else argument
        for number, argument in enumerate(arguments)
    ]


def _timed(
    program: Callable[..., Any], arguments: list[Any], repeat: int
) -> tuple[float, list[float], Any]:
    """Call a program; return the seconds of the first and of each later call, and the result."""
    import jax

    finished: Callable[[Any], Any] = jax.block_until_ready
    seconds: list[float] = []
    result = None
    for _ in range(repeat + 1):
        start = time.perf_counter()
        result = finished(program(*arguments))
        seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1:], result


def _figures(
    computation: XlaComputation,
    program: Executable,
    compile_seconds: float,
    first: float,
    calls: list[float],
) -> dict[str, Any]:
    from lowering.jaxlib_api import compilation

    stats = computation.stats()
    median = statistics.median(calls)
    flops = stats.flops + stats.transcendentals
    # Executable has no public attribute for this.
    memory = compilation.compiled_memory(program._loaded)
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
    from builder.inspection.rendering import bytes_text, flops_text, seconds_text

    calls = figures["call_seconds"]
    spread = f"{seconds_text(min(calls))} to {seconds_text(max(calls))} in {len(calls)}"
    count = figures["flops"] + figures["transcendentals"]
    rate = figures["flops_per_second"] or 0.0
    speed = flops_text(int(rate))
    once = ", loops of unknown length counted once" if figures["unknown_loops"] else ""
    memory = figures["memory_bytes"]
    parts = ", ".join(f"{name} {bytes_text(size)}" for name, size in memory.items() if size)
    return [
        ("compile", seconds_text(figures["compile_seconds"])),
        ("first call", seconds_text(figures["first_call_seconds"])),
        ("call", f"{seconds_text(figures['median_call_seconds'])} (median; {spread})"),
        ("speed", f"{speed}/s ({flops_text(count)} per call{once})" if count and rate else "-"),
        ("memory", parts or "-"),
    ]


# Results


def _by_name(result: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a result, without tokens, by name: "result" or "result[0][1]"."""
    import jax
    import numpy as np

    leaves = jax.tree_util.tree_leaves_with_path(result)
    return {f"result{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


_MAX_VALUES: Final = 6


def _summary(name: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return statistics and the first values of an array, for JSON."""
    import numpy as np

    from builder.types import primitive_type as pt

    element_type = pt.from_dtype(array.dtype)
    wide: Any = array.astype(np.complex128 if element_type.is_complex else np.float64)
    numbers = wide[~np.isnan(wide)]
    is_ordered = numbers.size and not element_type.is_complex
    # NumPy's integers are not converted, since f64 does not represent all of 64 bits.
    ordered = array if array.dtype.kind in "iub" else numbers
    first = (array if element_type.is_integral else wide).reshape(-1)[:_MAX_VALUES]
    return {
        "name": name,
        "shape": f"{element_type.name}[{','.join(map(str, array.shape))}]",
        "min": _number(ordered.min()) if is_ordered else None,
        "mean": _number(numbers.mean()) if numbers.size and np.isfinite(numbers).all() else None,
        "max": _number(ordered.max()) if is_ordered else None,
        "nan_count": wide.size - numbers.size,
        "first": [_number(value) for value in first],
    }


def _number(value: Any) -> Any:
    """Return a number for JSON; complex numbers, infinities and NaNs become text."""
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
        summary = _summary(name, array)
        first = " ".join(map(_short, summary["first"]))
        more = " ..." if array.size > len(summary["first"]) else ""
        extremes = (summary[key] for key in ("min", "mean", "max"))
        numbers = ["-" if value is None else _short(value) for value in extremes]
        rows.append((name, summary["shape"], *numbers, summary["nan_count"], first + more))
    sides = ["left", "left", "right", "right", "right", "right", "left"]
    names = ["result", "shape", "min", "mean", "max", "NaN", "first values"]
    return table(list(zip(names, sides, strict=True)), rows)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _write(path: str, results: dict[str, Any]) -> list[str]:
    """Write the results to an .npz file; return lines to print: its size, how types are stored."""

    from builder.inspection.rendering import bytes_text
    from builder.types import primitive_type as pt
    from lowering.faults.predicates import npz_of_arrays
    from lowering.stablehlo.module import write_atomically

    raw = {name: array.dtype for name, array in results.items() if array.dtype.isbuiltin != 1}
    content = npz_of_arrays(results)
    write_atomically(path, [content])
    return [f"{path}: {bytes_text(len(content))}"] + [
        f"{pt.from_dtype(dtype).name} is stored as raw bytes (V{dtype.itemsize}); restore it by "
        f"array.view(ml_dtypes.{dtype.name})"
        for dtype in dict.fromkeys(raw.values())
    ]
