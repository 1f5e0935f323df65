"""Check programs with XLA's shape inference and with StableHLO's verifier.

XLA's HLO parser does not check the shape of an instruction. If the shape is omitted, the parser
infers it with XLA's shape inference, except for a few opcodes. StableHLO's verifier checks the
instructions of all opcodes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Final

import pytest
from support import is_inexpressible, is_unconverted

import builder as xb
import lowering

NOT_INFERRED: Final = frozenset(
    (
        *("parameter", "constant", "iota", "broadcast", "reshape", "slice", "convert"),
        *("bitcast-convert", "reduce-precision", "dynamic-slice", "dynamic-update-slice"),
        *("stochastic-convert", "copy"),
        *("opt-barrier", "custom-call", "rng", "rng-bit-generator", "rng-get-and-update-state"),
        *("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"),
        *("collective-broadcast", "replica-id", "partition-id", "infeed", "outfeed", "send"),
        *("send-done", "recv", "recv-done", "ragged-dot", "scan", "dynamic-reshape"),
    )
)
"""Opcodes whose shape XLA's parser does not infer, or guesses (broadcast)."""

_INSTRUCTION: Final = re.compile(r"^(  (?:ROOT )?%\S+ = )(.+?) ([a-z][a-z0-9\-]*)\((.*)$")
_LAYOUT: Final = re.compile(r"\{[^}]*\}")


class RefusedError(Exception):
    """XLA or StableHLO refuses a program."""


def without_layouts(text: str) -> str:
    return _LAYOUT.sub("", text)


def root_of(text: str) -> tuple[str, str]:
    """Return the shape and the opcode of a module's root."""
    entry = text[text.index("\nENTRY ") :]
    (line,) = (line for line in entry.splitlines() if line.startswith("  ROOT "))
    instruction = _INSTRUCTION.match(line)
    assert instruction is not None, line
    return without_layouts(instruction[2]), instruction[3]


_WORKER: Final = """
import json, os, sys
from lowering.jaxlib_api import hlo_conversion, mlir
# A fork answers; if it crashes, the next one does not have to import anything.
while (fork := os.fork()) and os.waitpid(fork, 0)[1]:
    print(json.dumps([False, "XLA crashes"]), flush=True)
number = 0
while not fork and (line := sys.stdin.readline()):
    if number % 100 == 0:
        context = mlir.new_context()
    request, text = json.loads(line)
    try:
        if request == "parse":
            answer = [True, hlo_conversion.parsed_hlo_text(text)]
        else:
            mlir.read_module(context, hlo_conversion.hlo_text_to_stablehlo(text))
            answer = [True, ""]
    except Exception as error:
        answer = [False, str(error)]
    print(json.dumps(answer), flush=True)
    number += 1
"""


class Xla:
    """A process that parses HLO and translates it to StableHLO; invalid programs may crash it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: str, text: str) -> str:
        """Parse HLO text ("parse") or translate it to StableHLO and verify that ("translate").

        Returns:
            For "parse", the text that XLA prints.

        Raises:
            RefusedError: XLA or StableHLO's verifier refuses the text or crashes.
        """
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([request, text]) + "\n")
        process.stdin.flush()
        accepted, answer = json.loads(process.stdout.readline())
        if not accepted:
            raise RefusedError(answer)
        return str(answer)

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()
            self.process = None


def inferred_by_xla(text: str, xla: Xla) -> str:
    """Return the shape that XLA infers for the root of a module, whose shapes may be omitted.

    Raises:
        RefusedError: XLA refuses the module.
    """
    return root_of(xla.ask("parse", text))[0]


def without_inferred_shapes(text: str) -> str:
    """Return HLO text without the shapes that XLA's parser can infer."""
    lines = []
    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            name, shape, opcode, rest = match.groups()
            # The parser does not infer the shape of a variadic reduce-window either.
            is_variadic_window = opcode == "reduce-window" and shape.startswith("(")
            if opcode not in NOT_INFERRED and not is_variadic_window:
                line = f"{name}{opcode}({rest}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def with_another_shape(text: str) -> str:
    """Return the text with another shape of the root."""
    head, _, entry = text.rpartition("\nENTRY ")
    lines = entry.splitlines()
    index = next(i for i, line in enumerate(lines) if line.startswith("  ROOT "))
    match = _INSTRUCTION.match(lines[index])
    assert match is not None
    lines[index] = f"{match[1]}{changed(without_layouts(match[2]))} {match[3]}({match[4]}"
    # These lines repeat the result's shape.
    lines[0] = "%main {"
    head = re.sub(r", entry_computation_layout=\{.*", "", head)
    return f"{head}\nENTRY " + "\n".join(lines) + "\n"


def changed(shape: str) -> str:
    """Return a shape's text with the first size increased; a scalar becomes a vector."""
    if "[]" in shape:
        return shape.replace("[]", "[3]", 1)
    return re.sub(r"\[(<=)?(\d+)", lambda m: f"[{m[1] or ''}{int(m[2]) + 1}", shape, count=1)


def check_accepted(computation: xb.XlaComputation, xla: Xla) -> None:
    """Check that XLA infers the same shapes and that StableHLO's verifier accepts the computation.

    For inexpressible ops the verifier must refuse the module converted by jaxlib; `lower` emits
    other operations for these.
    """
    text = str(computation)
    inferred = inferred_by_xla(without_inferred_shapes(text), xla)
    assert inferred == without_layouts(str(computation.root.shape))
    if any(is_inexpressible(op) or is_unconverted(op) for op in computation.ops):
        with pytest.raises(RefusedError):
            xla.ask("translate", text)
    else:
        xla.ask("translate", text)
    if all(op.shape.is_static for op in computation.ops):
        lowering.lower(computation)
