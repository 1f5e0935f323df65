"""What runs in the helper process: StableHLO's reference interpreter, asked through a pipe.

Nothing here imports jax, or the rest of this library but for a few files: the process has to be
there quickly. It reads requests from its standard input, and ends when that does.

What NumPy takes and what the interpreter gives differ: results of types that MLIR's arrays do not
hand over (complex numbers, bf16, the small types) are said as integers or as two arrays of real
numbers, by operations put at the end of `@main`; the program that asked puts them together again.
"""

from __future__ import annotations

import csv
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from lowering.interpreter import branches, frames
from lowering.interpreter.probes import probe_name
from lowering.jaxlib_api import interpreter, mlir

__all__ = ["serve"]

_TOKEN: Final = "!stablehlo.token"
_DIRECT: Final = re.compile(r"u?i(?:8|16|32|64)|f16|f32|f64")
_NARROW: Final = re.compile(r"(u?i)[24]")


def serve() -> None:
    """Answers requests until there are no more."""
    asked, answers = sys.stdin.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what is printed is no answer
    end_with_the_parent(asked)

    def take(count: int) -> bytes:
        pieces = bytearray(count)
        view = memoryview(pieces)
        at = 0
        while at < count:
            got = os.readv(asked, [view[at:]])
            if not got:
                raise EOFError
            at += got
        view.release()
        return bytes(pieces)

    with os.fdopen(answers, "wb") as out:
        while True:
            try:
                header, pieces = frames.read(take)
            except EOFError:
                return
            for piece in frames.encoded(*_answer(header, pieces)):
                out.write(piece)
            out.flush()


def end_with_the_parent(asked: int) -> None:
    """Has the system end this process when the other side of the pipe is closed.

    The interpreter holds Python's lock for as long as it runs, so that no thread could look.
    """
    import fcntl

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(asked, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(asked, fcntl.F_SETFL, fcntl.fcntl(asked, fcntl.F_GETFL) | os.O_ASYNC)


def _answer(header: dict[str, Any], pieces: list[bytes]) -> frames.Frame:
    code, *arguments = pieces
    # SIGIO comes when the pipe has news: while nothing is asked for, only its end is news.
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    try:
        return evaluated(code, arguments, header["folder"])
    except Exception as error:  # whatever it is, it is told
        return {"error": f"{type(error).__name__}: {error}"}, []
    finally:
        signal.signal(signal.SIGIO, signal.SIG_IGN)


def evaluated(code: bytes, arguments: list[bytes], folder: str) -> frames.Frame:
    """What `@main` of a module gives for some arguments, and what its probes tell.

    Args:
        code: MLIR bytecode.
        arguments: elements of those of its arguments that are no tokens.
        folder: an empty folder for what is probed.

    Returns:
        For each result that is no token its elements, of complex ones the real and the imaginary
        parts; then those of each probe, in the order in which they were met. The header names
        the probes.
    """
    context = interpreter.interpreter_context()
    module = ir.Module.parse(code, context)
    with context, ir.Location.unknown(context):
        main = next(
            view.operation
            for view in module.body.operations
            if view.operation.name == "func.func"
            and ir.StringAttr(view.operation.attributes["sym_name"]).value == "main"
        )
        given = _given(main, arguments)
        _say_plainly(main)
        _put_probes(module.operation)
        _copy_what_is_overwritten(module.operation)
        results = interpreter.interpreted(module, given, folder)
        found = [np.ascontiguousarray(one).tobytes() for one in results]
    told: list[str] = []
    index = Path(folder) / "index.csv"
    if folder and index.exists():
        with index.open(newline="") as lines:
            for row in csv.reader(lines):
                told.append(row[0])
                found.append(np.load(row[-1], allow_pickle=False).tobytes())
    return {"told": told}, found


def _given(main: ir.Operation, arguments: list[bytes]) -> list[ir.Attribute]:
    """The arguments as attributes; those that are tokens are made inside."""
    block = main.regions[0].blocks[0]
    remaining = iter(arguments)
    given: list[ir.Attribute] = []
    kinds: list[ir.Type] = []
    for number in range(len(block.arguments) - 1, -1, -1):
        argument = block.arguments[number]
        if str(argument.type) != _TOKEN:
            continue
        created = _create(
            "after_all", [argument.type], [], at=ir.InsertionPoint.at_block_begin(block)
        )
        argument.replace_all_uses_with(created)
        block.erase_argument(number)
    for argument in block.arguments:
        kinds.append(argument.type)
        elements = np.frombuffer(next(remaining), np.uint8)
        given.append(mlir.elements_attribute(elements, argument.type))
    _set_type(main, kinds, None)
    return given


def _set_type(
    main: ir.Operation, inputs: list[ir.Type] | None, results: list[ir.Type] | None
) -> None:
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    changed = ir.FunctionType.get(
        kind.inputs if inputs is None else inputs, kind.results if results is None else results
    )
    main.attributes["function_type"] = ir.TypeAttr.get(changed)
    for name, old, new in (
        ("arg_attrs", kind.inputs, changed.inputs),
        ("res_attrs", kind.results, changed.results),
    ):
        if len(old) != len(new) and name in main.attributes:
            del main.attributes[name]


def _say_plainly(main: ir.Operation) -> None:
    """Has `@main` give what MLIR hands over as arrays, and no tokens."""
    block = main.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    at = ir.InsertionPoint(end)
    values = [
        plain for value in end.operands if str(value.type) != _TOKEN for plain in _plain(value, at)
    ]
    ir.Operation.create("func.return", operands=values, ip=at)
    end.erase()
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]
    _set_type(main, None, [value.type for value in values])


def _put_probes(module: ir.Operation) -> None:
    """Puts the interpreter's probes in the places of the calls that stand for them."""
    found: list[tuple[str, ir.Operation]] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        name = probe_name(operation)
        if name is not None:
            found.append((name, operation))
        return ir.WalkResult.ADVANCE

    module.walk(look)
    if found:
        branches.as_loops(module)
    for name, operation in found:
        at = ir.InsertionPoint(operation)
        for value in operation.operands:
            for plain in _plain(value, at, is_file=True):
                attributes: dict[str, ir.Attribute] = {"probe_id": ir.StringAttr.get(name)}
                ir.Operation.create("interpreter.probe", [plain.type], [plain], attributes, ip=at)
        operation.erase()


def _copy_what_is_overwritten(module: ir.Operation) -> None:
    """Gives scatters copies of their operands: the interpreter writes results in their places."""
    found: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "stablehlo.scatter":
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(look)
    for operation in found:
        for number in range(len(operation.results)):
            value = operation.operands[number]
            same = list(range(ir.RankedTensorType(value.type).rank))
            attributes: dict[str, ir.Attribute] = {"permutation": ir.DenseI64ArrayAttr.get(same)}
            copy = ir.Operation.create(
                "stablehlo.transpose",
                [value.type],
                [value],
                attributes,
                ip=ir.InsertionPoint(operation),
            )
            operation.operands[number] = copy.results[0]


def _plain(value: Any, at: ir.InsertionPoint, *, is_file: bool = False) -> list[Any]:
    """Values, of types that NumPy and MLIR exchange, that hold the same bits.

    Args:
        is_file: for a file of the interpreter's, which has no booleans.
    """
    kind = ir.RankedTensorType(value.type)
    text = str(kind.element_type)

    def typed(element: str) -> ir.Type:
        return ir.RankedTensorType.get(kind.shape, ir.Type.parse(element))

    def said(name: str, element: str, operand: Any = None) -> Any:
        return _create(name, [typed(element)], [value if operand is None else operand], at)

    narrow = _NARROW.fullmatch(text)
    if _DIRECT.fullmatch(text):
        return [value]
    if text == "i1":
        return [said("convert", "ui8") if is_file else value]
    if narrow:
        return [said("convert", f"{narrow[1]}8")]
    if text.startswith("complex<"):
        return [said(part, text[len("complex<") : -1]) for part in ("real", "imag")]
    if text.startswith("f4"):
        return [said("convert", "ui8", said("bitcast_convert", "ui4"))]
    return [said("bitcast_convert", "ui16" if text == "bf16" else "ui8")]


def _create(name: str, kinds: list[ir.Type], operands: list[Any], at: ir.InsertionPoint) -> Any:
    return ir.Operation.create(f"stablehlo.{name}", kinds, operands, ip=at).results[0]
