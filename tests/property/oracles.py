"""What XLA and StableHLO say to a program, as far as jaxlib lets one ask.

XLA's HLO parser takes the shape of an instruction as it is written, and checks nothing. But where
it is left out, the parser works it out by XLA's own shape inference: that is asked here. Of a few
opcodes it works out none; those are left to StableHLO's verifier, which is asked of all.
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
"""Opcodes whose shape XLA's parser does not work out, or takes from a guess (broadcast)."""

_INSTRUCTION: Final = re.compile(r"^(  (?:ROOT )?%\S+ = )(.+?) ([a-z][a-z0-9\-]*)\((.*)$")
_LAYOUT: Final = re.compile(r"\{[^}]*\}")


class RefusedError(Exception):
    """XLA or StableHLO refuses a program."""


def without_layouts(text: str) -> str:
    return _LAYOUT.sub("", text)


def root_of(text: str) -> tuple[str, str]:
    """The shape and the opcode of a module's root."""
    entry = text[text.index("\nENTRY ") :]
    (line,) = (line for line in entry.splitlines() if line.startswith("  ROOT "))
    found = _INSTRUCTION.match(line)
    assert found is not None, line
    return without_layouts(found[2]), found[3]


_WORKER: Final = """
import json, sys
from lowering.jaxlib_api import hlo_conversion, mlir
for number, line in enumerate(sys.stdin):
    if number % 100 == 0:
        context = mlir.new_context()
    what, text = json.loads(line)
    try:
        if what == "parse":
            answer = [True, hlo_conversion.parsed_hlo_text(text)]
        else:
            mlir.read_module(context, hlo_conversion.hlo_text_to_stablehlo(text))
            answer = [True, ""]
    except Exception as error:
        answer = [False, str(error)]
    print(json.dumps(answer), flush=True)
"""


class Xla:
    """XLA's parser and its translation to StableHLO, in a process of their own: of some wrong
    programs they die."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, what: str, text: str) -> str:
        """The answer to "parse", the text as XLA prints it, or to "translate".

        Raises:
            RefusedError: XLA or StableHLO's verifier refuses the text, or dies of it.
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
        process.stdin.write(json.dumps([what, text]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self.close()
            raise RefusedError("XLA dies of it")
        accepted, answer = json.loads(line)
        if not accepted:
            raise RefusedError(answer)
        return str(answer)

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()
            self.process = None


def inferred_by_xla(text: str, xla: Xla) -> str:
    """The shape that XLA infers for the root of a module whose instructions are written with or
    without shapes.

    Raises:
        RefusedError: XLA's inference does.
    """
    return root_of(xla.ask("parse", text))[0]


def with_shapes_left_out(text: str) -> str:
    """HLO text without the shapes that XLA's parser can work out."""
    lines = []
    for line in text.splitlines():
        found = _INSTRUCTION.match(line)
        # Of a reduce-window of several arrays the parser infers none either.
        several = found is not None and found[3] == "reduce-window" and found[2].startswith("(")
        if found is not None and found[3] not in NOT_INFERRED and not several:
            line = f"{found[1]}{found[3]}({found[4]}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def with_another_shape(text: str) -> str:
    """The text with another shape for the root: a size more, or a dimension where there is none."""
    head, _, entry = text.rpartition("\nENTRY ")
    lines = entry.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("  ROOT "))
    found = _INSTRUCTION.match(lines[place])
    assert found is not None
    lines[place] = f"{found[1]}{changed(without_layouts(found[2]))} {found[3]}({found[4]}"
    # The lines that repeat the result's shape would be at odds with it.
    lines[0] = "%main {"
    head = re.sub(r", entry_computation_layout=\{.*", "", head)
    return f"{head}\nENTRY " + "\n".join(lines) + "\n"


def changed(shape: str) -> str:
    """A shape text with another first size, or one where there is none."""
    if "[]" in shape:
        return shape.replace("[]", "[3]", 1)
    return re.sub(r"\[(<=)?(\d+)", lambda m: f"[{m[1] or ''}{int(m[2]) + 1}", shape, count=1)


def check_accepted(computation: xb.XlaComputation, xla: Xla) -> None:
    """XLA infers the shapes that we infer, and StableHLO's verifier accepts the computation.

    The verifier refuses what jaxlib converts some HLO to; `lower` emits other operations for it.
    """
    text = str(computation)
    inferred = inferred_by_xla(with_shapes_left_out(text), xla)
    assert inferred == without_layouts(str(computation.root.shape))
    if any(is_inexpressible(op) or is_unconverted(op) for op in computation.ops):
        with pytest.raises(RefusedError):
            xla.ask("translate", text)
    else:
        xla.ask("translate", text)
    if all(op.shape.is_static for op in computation.ops):
        lowering.lower(computation)
