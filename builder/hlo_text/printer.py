"""The printer of one computation, and the rules for the opcodes that need one.

An opcode without a rule is printed from its schema. A rule returns the name of the instruction, the
operands and the attributes, and may print instructions before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.hlo_text.attributes import attributes_text
from builder.hlo_text.syntax import identifier, quoted, with_layout
from builder.schema import SCHEMAS
from builder.schema.kinds import braces
from builder.sharding.text import as_per_value, is_shardy, join_leaf_texts
from builder.support.unique_names import UniqueNames
from builder.types.shape import Shape, TupleShape

__all__ = [
    "FRONTEND_ATTRIBUTES",
    "RULES",
    "ModuleNames",
    "Printer",
    "Rule",
    "Written",
    "rule",
]


class ModuleNames:
    """What the computations of a module share.

    Attributes:
        entry: the computation that the module is entered by.
        metadata: whether names and source lines are written.
        names: of each computation.
    """

    def __init__(self, entry: XlaComputation, metadata: bool) -> None:
        self.entry = entry
        self.metadata = metadata
        self.unique = UniqueNames()
        self.names = {
            computation: self.unique.claim(identifier(computation.name))
            for computation in (entry, *entry.called_computations())
        }


class Printer:
    """Prints one computation.

    Attributes:
        result_shardings: of the entry, for each array of the result; empty if nothing is said.
    """

    def __init__(self, computation: XlaComputation, module: ModuleNames) -> None:
        self.computation = computation
        self.module = module
        self.lines: list[str] = []
        self.unique = UniqueNames()
        self.op_names: list[str] = []
        said = computation.annotations if computation is module.entry else None
        self.result_shardings = () if said is None else said.result_shardings
        if self.result_shardings and computation.root.sharding in self._as_the_root_says():
            self.result_shardings = ()

    def text(self) -> str:
        computation = self.computation
        for op in computation.ops:
            self.op_names.append(self.name_of(op))
        inputs = ", ".join(f"{self.op_names[p.id]}: {p.shape}" for p in computation.parameters)
        for op in computation.ops:
            self.instruction(op)
        if self.result_shardings:
            self._results(computation.root)
        head = f"%{self.module.names[computation]} ({inputs}) -> {computation.root.shape} {{"
        return "\n".join([head, *self.lines, "}"]) + "\n"

    def name_of(self, op: XlaOp) -> str:
        """The instruction's name: the parameter's own, else its name or opcode and number."""
        if op.name is None:
            return self.unique.claim(f"{SCHEMAS[op.opcode].hlo}.{op.id}")
        name = identifier(str(op.name))
        if op.opcode == "parameter" and name not in self.unique.taken:
            return self.unique.claim(name)
        return self.unique.claim(f"{name}.{op.id}")

    def operand(self, op: XlaOp) -> str:
        return f"%{self.op_names[op.id]}"

    def called(self, computation: XlaComputation) -> str:
        return f"%{self.module.names[computation]}"

    def line(
        self, name: str, shape: Shape, opcode: str, operands: str, rest: str = "", root: str = ""
    ) -> None:
        self.lines.append(f"  {root}%{name} = {with_layout(shape)} {opcode}({operands}){rest}")

    def written(self, op: XlaOp) -> Written:
        """The name of an op's instruction, its operands, and its attributes."""
        schema = SCHEMAS[op.opcode]
        operands = ", ".join(self.operand(o) for o in op.operands)
        rule = RULES.get(op.opcode)
        if rule is not None:
            return rule(self, op, schema.hlo, operands)
        return schema.hlo, operands, self.attributes_of(op)

    def attributes_of(self, op: XlaOp) -> str:
        """The attributes of an op as its schema describes them."""
        return attributes_text(SCHEMAS[op.opcode], op, self.called)

    def instruction(self, op: XlaOp) -> None:
        opcode, operands, rest = self.written(op)
        rest += self.annotations(op)
        is_root = op is self.computation.root and not self.result_shardings
        root = "ROOT " if is_root else ""
        shape = op.attributes.get("shape_with_layout", op.shape)
        self.line(self.op_names[op.id], shape, opcode, operands, rest, root)

    def annotations(self, op: XlaOp) -> str:
        text = ""
        attributes = op.frontend_attributes
        if op.sharding is not None:
            said = str(op.sharding)
            if is_shardy(said):  # which HLO has no words for
                said = said if op.opcode == "parameter" else as_per_value(said)
                attributes = {**(attributes or {}), "xla.sdy.sharding": said}
            else:
                text += f", sharding={said}"
        if op.opcode in FRONTEND_ATTRIBUTES:
            attributes = {**(attributes or {}), **FRONTEND_ATTRIBUTES[op.opcode](op)}
        if attributes:
            pairs = (f"{k}={quoted(v)}" for k, v in attributes.items())
            text += f", frontend_attributes={braces(pairs)}"
        if self.module.metadata:
            parts = []
            if op.name is not None:
                parts.append(f"op_name={quoted(str(op.name))}")
            source = op.source
            if source is not None:
                parts.append(f"source_file={quoted(source.file)} source_line={source.line}")
            if parts:
                text += f", metadata={{{' '.join(parts)}}}"
        return text

    def _as_the_root_says(self) -> tuple[str, ...]:
        """The shardings of the root that say those of the result: in HLO the one is the other."""
        texts = [text for text in self.result_shardings if text is not None]
        if len(texts) < len(self.result_shardings) or any(map(is_shardy, texts)):
            return ()
        return (texts[0] if len(texts) == 1 else join_leaf_texts(texts), join_leaf_texts(texts))

    def _results(self, root: XlaOp) -> None:
        """Writes the result once more, with its shardings: an instruction of its own says them, as
        the root may say another.

        As XLA writes it: a tuple of the arrays, or a reshape of the only one, with GSPMD's; of
        Shardy's there are calls that its importer knows.
        """
        shardings = iter(self.result_shardings)
        # Tuples may be nested deep: each waits with its elements, whose references are on `done`.
        waiting: list[tuple[Shape, str, bool]] = [(root.shape, self.operand(root), False)]
        done: list[str] = []
        said: list[str] = []
        while waiting:
            shape, reference, is_open = waiting.pop()
            if not isinstance(shape, TupleShape):
                sharding = next(shardings)
                is_shardys = sharding is not None and is_shardy(sharding)
                said.append("{replicated}" if sharding is None or is_shardys else sharding)
                if sharding is not None and is_shardys:
                    attributes = f"xla.sdy.sharding={quoted(as_per_value(sharding))}"
                    reference = self.helper(
                        *(root, "result", shape, "custom-call", reference),
                        ', custom_call_target="xla.sdy.FuncResultSharding", '
                        "custom_call_has_side_effect=true, "
                        f"frontend_attributes={{{attributes}}}",
                    )
                done.append(reference)
            elif is_open:
                count = len(shape.elements)
                elements = done[len(done) - count :]
                del done[len(done) - count :]
                done.append(self.helper(root, "result", shape, "tuple", ", ".join(elements)))
            else:
                waiting.append((shape, reference, True))
                parts = []
                for number, element in enumerate(shape.elements):
                    index = f", index={number}"
                    part = self.helper(
                        root, "element", element, "get-tuple-element", reference, index
                    )
                    parts.append((element, part, False))
                waiting += reversed(parts)
        rest = ""
        if any(one is not None and not is_shardy(one) for one in self.result_shardings):
            text = join_leaf_texts(said) if isinstance(root.shape, TupleShape) else said[0]
            rest = f", sharding={text}"
        if not isinstance(root.shape, TupleShape):
            self.helper(root, "result", root.shape, "reshape", done[0])
        self.lines[-1] = self.lines[-1].replace("  %", "  ROOT %", 1) + rest

    def helper(
        self, op: XlaOp, suffix: str, shape: Shape, opcode: str, operands: str, rest: str = ""
    ) -> str:
        """Writes an instruction of our own before that of `op`; gives its reference."""
        name = self.unique.claim(f"{self.op_names[op.id]}.{suffix}")
        self.line(name, shape, opcode, operands, rest)
        return f"%{name}"


Written = tuple[str, str, str]


Rule = Callable[[Printer, XlaOp, str, str], Written]


RULES: Final[dict[str, Rule]] = {}


def rule(*opcodes: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = function
        return function

    return enter


FRONTEND_ATTRIBUTES: Final[dict[str, Callable[[XlaOp], dict[str, str]]]] = {}
"""What ops say by frontend attributes, for which HLO has no other words."""


def frontend_attributes(
    opcode: str,
) -> Callable[[Callable[[XlaOp], dict[str, str]]], Callable[[XlaOp], dict[str, str]]]:
    """Enters the decorated function, which gives frontend attributes of an op."""

    def enter(function: Callable[[XlaOp], dict[str, str]]) -> Callable[[XlaOp], dict[str, str]]:
        FRONTEND_ATTRIBUTES[opcode] = function
        return function

    return enter
