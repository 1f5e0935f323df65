"""The code of the helper process: runs StableHLO's reference interpreter for requests from a pipe.

This module imports neither jax nor most of this library, so that the process starts fast. The
process reads requests from its standard input, and exits at the end of the input. Requests and
answers are frames: a JSON header and any number of byte strings. Nothing is pickled.

MLIR's Python bindings can't return elements of some types (complex numbers, bf16, most types of at
most 8 bits). Operations at the end of `@main` convert such elements to integers, or to real and
imaginary parts; the requesting program converts them back.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from lowering.interpreter import probes
from lowering.interpreter.probes import probe_name
from lowering.jaxlib_api import artifacts, mlir
from lowering.mlir.operations import main_function, operations_where

Frame = tuple[dict[str, Any], list[bytes]]


def send(
    write: Callable[[Any], None], header: dict[str, Any], pieces: Sequence[bytes | memoryview]
) -> None:
    """Send a frame; `write` is the method `send_bytes` of a connection."""
    write(json.dumps([header, len(pieces)]).encode())
    for piece in pieces:
        write(piece)


def receive(read: Callable[[], bytes]) -> Frame:
    """Receive a frame; `read` is the method `recv_bytes` of a connection."""
    header, count = json.loads(read())
    return header, [read() for _ in range(count)]


_TOKEN: Final = "!stablehlo.token"
_EXCHANGEABLE: Final = re.compile(r"u?i(?:8|16|32|64)|f16|f32|f64")
_NARROW: Final = re.compile(r"(u?i)[24]")


def serve() -> None:
    """Answer the requests on standard input until the input ends."""
    requests = Connection(sys.stdin.fileno(), writable=False)
    answers = Connection(os.dup(sys.stdout.fileno()), readable=False)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # printed text must not mix with answers
    _end_with_parent(requests.fileno())
    with contextlib.suppress(EOFError):
        while True:
            send(answers.send_bytes, *_answer(*receive(requests.recv_bytes)))


def _end_with_parent(requests: int) -> None:
    """Make the system end this process when the parent closes its end of the pipe.

    A thread could not detect this, since the interpreter holds the GIL while it runs.
    """
    import fcntl

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # handled by the parent
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(requests, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(requests, fcntl.F_SETFL, fcntl.fcntl(requests, fcntl.F_GETFL) | os.O_ASYNC)


def _answer(header: dict[str, Any], pieces: list[bytes]) -> Frame:
    code, *arguments = pieces
    # The pipe changes state, which sends SIGIO, only when it is closed: there is no other request.
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    try:
        return evaluated(code, arguments, header["folder"])
    except Exception as error:  # reported to the parent
        return {"error": f"{type(error).__name__}: {error}"}, []
    finally:
        signal.signal(signal.SIGIO, signal.SIG_IGN)


def evaluated(code: bytes, arguments: list[bytes], folder: str) -> Frame:
    """Evaluate `@main` of a module.

    Args:
        code: MLIR bytecode.
        arguments: the elements of the arguments, except for tokens.
        folder: an empty folder for the probes; "" if there are none.

    Returns:
        A frame. Its pieces are the elements of each result, except for tokens, followed by the
        elements that each executed probe reports, in order of execution. Complex elements have two
        pieces: real and imaginary parts. The header contains the name of each probe piece's probe.
    """
    context = artifacts.interpreter_context()
    module = ir.Module.parse(code, context)
    with context, ir.Location.unknown(context):
        main = main_function(module.operation)
        attributes = _argument_attributes(main, arguments)
        _convert_results(main)
        _insert_probes(module.operation)
        _copy_scatter_operands(module.operation)
        results = artifacts.interpreted(module, attributes, folder)
        pieces = [np.ascontiguousarray(result).tobytes() for result in results]
    probes: list[str] = []
    index = Path(folder) / "index.csv"
    if folder and index.exists():
        with index.open(newline="") as lines:
            for row in csv.reader(lines):
                probes.append(row[0])
                pieces.append(np.load(row[-1], allow_pickle=False).tobytes())
    return {"probes": probes}, pieces


def _argument_attributes(main: ir.Operation, arguments: list[bytes]) -> list[ir.Attribute]:
    """Return the arguments as elements attributes; create token arguments in `@main` instead."""
    block = main.regions[0].blocks[0]
    for number in range(len(block.arguments) - 1, -1, -1):
        argument = block.arguments[number]
        if str(argument.type) != _TOKEN:
            continue
        at = ir.InsertionPoint.at_block_begin(block)
        argument.replace_all_uses_with(probes.create("after_all", argument.type, [], at))
        block.erase_argument(number)
    types = [argument.type for argument in block.arguments]
    _set_type(main, types, None)
    return [
        mlir.elements_attribute(np.frombuffer(elements, np.uint8), argument_type)
        for elements, argument_type in zip(arguments, types, strict=True)
    ]


def _set_type(
    main: ir.Operation, inputs: list[ir.Type] | None, results: list[ir.Type] | None
) -> None:
    before = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    after = ir.FunctionType.get(
        before.inputs if inputs is None else inputs, before.results if results is None else results
    )
    main.attributes["function_type"] = ir.TypeAttr.get(after)
    for name, old, new in (
        ("arg_attrs", before.inputs, after.inputs),
        ("res_attrs", before.results, after.results),
    ):
        if len(old) != len(new) and name in main.attributes:
            del main.attributes[name]


def _convert_results(main: ir.Operation) -> None:
    """Convert results of `@main` to types that MLIR's bindings can return, and remove tokens."""
    block = main.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1].operation
    at = ir.InsertionPoint(terminator)
    values = [
        converted
        for value in terminator.operands
        if str(value.type) != _TOKEN
        for converted in _exchangeable(value, at)
    ]
    ir.Operation.create("func.return", operands=values, ip=at)
    terminator.erase()
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]
    _set_type(main, None, [value.type for value in values])


def _insert_probes(module: ir.Operation) -> None:
    """Replace the custom calls of probes by `artifacts.probe` operations."""
    calls = operations_where(module, lambda operation: probe_name(operation) is not None)
    if calls:
        probes.replace_conditionals(module)
    for call in calls:
        at = ir.InsertionPoint(call)
        attributes: dict[str, ir.Attribute] = {
            "probe_id": ir.StringAttr.get(probe_name(call) or "")
        }
        for value in call.operands:
            for converted in _exchangeable(value, at, is_file=True):
                ir.Operation.create(
                    "interpreter.probe", [converted.type], [converted], attributes, ip=at
                )
        call.erase()


def _copy_scatter_operands(module: ir.Operation) -> None:
    """Copy the operands of scatters, which the interpreter overwrites with the results."""
    for scatter in operations_where(module, lambda each: each.name == "stablehlo.scatter"):
        at = ir.InsertionPoint(scatter)
        for number in range(len(scatter.results)):
            value = scatter.operands[number]
            identity = list(range(ir.RankedTensorType(value.type).rank))
            attributes: dict[str, ir.Attribute] = {
                "permutation": ir.DenseI64ArrayAttr.get(identity)
            }
            scatter.operands[number] = probes.create(
                "transpose", value.type, [value], at, attributes
            )


def _exchangeable(value: Any, at: ir.InsertionPoint, *, is_file: bool = False) -> list[Any]:
    """Convert a value to element types that MLIR's bindings support, preserving the bits.

    Args:
        is_file: whether the interpreter writes the value to a file, which can't contain i1.
    """
    tensor = ir.RankedTensorType(value.type)
    text = str(tensor.element_type)

    def create(name: str, element: str, operand: Any = value) -> Any:
        result = ir.RankedTensorType.get(tensor.shape, ir.Type.parse(element))
        return probes.create(name, result, [operand], at)

    narrow = _NARROW.fullmatch(text)
    if _EXCHANGEABLE.fullmatch(text):
        return [value]
    if text == "i1":
        return [create("convert", "ui8") if is_file else value]
    if narrow:
        return [create("convert", f"{narrow[1]}8")]
    if text.startswith("complex<"):
        return [create(part, text[len("complex<") : -1]) for part in ("real", "imag")]
    if text.startswith("f4"):
        return [create("convert", "ui8", create("bitcast_convert", "ui4"))]
    return [create("bitcast_convert", "ui16" if text == "bf16" else "ui8")]
