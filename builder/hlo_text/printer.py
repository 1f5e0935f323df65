"""Print computations and modules as HLO text, by the schemas of opcodes and a registry of rules.

An op whose opcode has no rule is printed from the schema of the opcode. A rule returns the last
`Instruction` of an op, and may print other instructions before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from builder.attributes.annotations import meshes
from builder.errors import ShapeInferenceError, error_of
from builder.graph.computation import XlaComputation
from builder.graph.registry import registrar
from builder.graph.xla_op import XlaOp, is_parameter
from builder.schema import MISSING, SCHEMAS, Group, Schema
from builder.schema.kinds import Computation
from builder.schema.syntax import braces, quoted, with_layout
from builder.sharding.text import as_per_value, is_shardy, join_leaf_texts
from builder.support.names import UniqueNames
from builder.types import primitive_type as pt
from builder.types.constant import literal_text, splat_value
from builder.types.shape import TOKEN_SHAPE, UNBOUNDED, ArrayShape, Shape, TupleShape, intern_array

# The keywords of HLO's lexer.
RESERVED: Final = {t.name for t in pt.ALL} | {
    *("token", "opaque", "tuple", "HloModule", "ENTRY", "ROOT", "true", "false", "inf", "nan"),
    *("maximal", "replicated", "manual", "unreduced", "unknown", "last_tile_dim_replicate"),
    *("shard_as", "shard_like"),
}


def identifier(name: str) -> str:
    """Return `name` as a valid identifier of HLO text, with other characters replaced."""
    text = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)
    if not text or not (text[0].isalpha() or text[0] == "_"):
        text = "_" + text
    if text.startswith("__"):  # reserved by XLA
        text = "x" + text
    return text + "_" if text in RESERVED else text


def attributes_text(schema: Schema, op: XlaOp, called: Callable[[XlaComputation], str]) -> str:
    """Return the attributes of an op as they follow the operands in HLO text: ``, index=1``.

    Args:
        schema: the schema of the opcode.
        op: the op.
        called: a function that returns the reference to a computation, such as "%body".
    """
    parts = []
    for attribute in schema.attributes:
        if isinstance(attribute, Group):
            parts.append(attribute.hlo(op))
        elif isinstance(attribute.kind, Computation):
            computation = op.attributes.get(attribute.name)
            if computation is not None:
                name = attribute.hlo or attribute.name
                parts.append(attribute.kind.hlo(name, called(computation)))
        elif attribute.hlo is not None:
            value = attribute.value(op.attributes)
            if attribute.omitted is MISSING or value != attribute.omitted:
                parts.append(attribute.kind.hlo(attribute.hlo or attribute.name, value))
    return "".join(parts)


Instruction = tuple[str, str, str]
"""Three parts of an instruction as text: opcode, operands, and attributes with a leading comma."""


class ModuleNames:
    """The names of the computations of a module.

    Attributes:
        entry: the entry computation.
        metadata: whether names and source lines of ops are printed.
        names: the unique name of each computation.
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
    """Prints a computation.

    Attributes:
        result_shardings: the sharding of each array of the entry's result, to be printed on an
            additional root; empty if the root already has these shardings, or if there are none.
    """

    def __init__(self, computation: XlaComputation, module: ModuleNames) -> None:
        self.computation = computation
        self.module = module
        self.lines: list[str] = []
        self.unique = UniqueNames()
        self.op_names: list[str] = []
        annotations = computation.annotations if computation is module.entry else None
        self.result_shardings = () if annotations is None else annotations.result_shardings
        if computation.root.sharding in self._equivalent_root_shardings():
            self.result_shardings = ()

    def text(self) -> str:
        """Return the text of the computation."""
        computation = self.computation
        for op in computation.ops:
            self.op_names.append(self.name_of(op))
        inputs = ", ".join(f"{self.op_names[p.id]}: {p.shape}" for p in computation.parameters)
        for op in computation.ops:
            self.instruction(op)
        if self.result_shardings:
            self._sharded_results(computation.root)
        head = f"%{self.module.names[computation]} ({inputs}) -> {computation.root.shape} {{"
        return "\n".join([head, *self.lines, "}"]) + "\n"

    def name_of(self, op: XlaOp) -> str:
        """Return a unique name for an op's instruction: its name or opcode, and its id."""
        if op.name is None:
            return self.unique.claim(f"{SCHEMAS[op.opcode].hlo}.{op.id}")
        name = identifier(op.name)
        if is_parameter(op) and name not in self.unique.taken:
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

    def parts(self, op: XlaOp) -> Instruction:
        """Return the opcode, operands and attributes of an op's instruction."""
        opcode = SCHEMAS[op.opcode].hlo
        operands = ", ".join(self.operand(o) for o in op.operands)
        rule = RULES.get(op.opcode)
        if rule is not None:
            return rule(self, op, opcode, operands)
        return opcode, operands, self.attributes_of(op)

    def attributes_of(self, op: XlaOp) -> str:
        """Return the text of those attributes of an op that the schema describes."""
        return attributes_text(SCHEMAS[op.opcode], op, self.called)

    def instruction(self, op: XlaOp) -> None:
        opcode, operands, attributes = self.parts(op)
        is_root = op is self.computation.root and not self.result_shardings
        shape = op.attributes.get("shape_with_layout", op.shape)
        rest = attributes + self.annotations(op)
        self.line(self.op_names[op.id], shape, opcode, operands, rest, "ROOT " if is_root else "")

    def annotations(self, op: XlaOp) -> str:
        """Return the text of the sharding, the frontend attributes and the metadata of an op."""
        text = ""
        attributes = dict(op.frontend_attributes or {})
        if op.sharding is not None:
            sharding = str(op.sharding)
            if is_shardy(sharding):  # HLO represents Shardy's shardings as frontend attributes
                is_value = is_parameter(op)
                attributes["xla.sdy.sharding"] = sharding if is_value else as_per_value(sharding)
            else:
                text += f", sharding={sharding}"
        for attribute in SCHEMAS[op.opcode].frontend_attributes:
            attributes[attribute.frontend] = str(op.attributes[attribute.name])
        if attributes:
            pairs = (f"{k}={quoted(v)}" for k, v in attributes.items())
            text += f", frontend_attributes={braces(pairs)}"
        if self.module.metadata:
            names = {"op_type": op.op_type, "op_name": op.name}
            parts = [f"{k}={quoted(str(name))}" for k, name in names.items() if name is not None]
            source = op.source
            if source is not None:
                parts.append(f"source_file={quoted(source.file)} source_line={source.line}")
            if parts:
                text += f", metadata={{{' '.join(parts)}}}"
        return text

    def _equivalent_root_shardings(self) -> tuple[str, ...]:
        """Return the shardings of the root, as text, that are equivalent to `result_shardings`."""
        texts = [text for text in self.result_shardings if text is not None]
        if not texts or len(texts) < len(self.result_shardings) or any(map(is_shardy, texts)):
            return ()
        return (texts[0] if len(texts) == 1 else join_leaf_texts(texts), join_leaf_texts(texts))

    def _sharded_results(self, root: XlaOp) -> None:
        """Print an additional root with the result shardings, which may differ from the root's.

        As in XLA, GSPMD shardings are printed on a tuple of the arrays, or on a reshape of the only
        array, and Shardy shardings as custom calls.
        """
        shardings = iter(self.result_shardings)
        # An explicit stack, because tuples may be nested deeper than Python's recursion limit.
        pending: list[tuple[Shape, str, bool]] = [(root.shape, self.operand(root), False)]
        done: list[str] = []
        tilings: list[str] = []
        while pending:
            shape, reference, is_expanded = pending.pop()
            if not isinstance(shape, TupleShape):
                sharding = next(shardings)
                tiling = "{replicated}"
                if sharding is not None and is_shardy(sharding):
                    attribute = f"xla.sdy.sharding={quoted(as_per_value(sharding))}"
                    reference = self.helper(
                        *(root, "result", shape, "custom-call", reference),
                        ', custom_call_target="xla.sdy.FuncResultSharding", '
                        f"custom_call_has_side_effect=true, frontend_attributes={{{attribute}}}",
                    )
                elif sharding is not None:
                    tiling = sharding
                tilings.append(tiling)
                done.append(reference)
            elif is_expanded:
                first = len(done) - len(shape.elements)
                elements = ", ".join(done[first:])
                done[first:] = [self.helper(root, "result", shape, "tuple", elements)]
            else:
                pending.append((shape, reference, True))
                parts = []
                for number, element in enumerate(shape.elements):
                    index = f", index={number}"
                    part = self.helper(
                        root, "element", element, "get-tuple-element", reference, index
                    )
                    parts.append((element, part, False))
                pending += reversed(parts)
        rest = ""
        if any(text is not None and not is_shardy(text) for text in self.result_shardings):
            is_tuple = isinstance(root.shape, TupleShape)
            rest = f", sharding={join_leaf_texts(tilings) if is_tuple else tilings[0]}"
        if not isinstance(root.shape, TupleShape):
            self.helper(root, "result", root.shape, "reshape", done[0])
        self.lines[-1] = self.lines[-1].replace("  %", "  ROOT %", 1) + rest

    def helper(
        self, op: XlaOp, suffix: str, shape: Shape, opcode: str, operands: str, rest: str = ""
    ) -> str:
        """Print an additional instruction before that of `op`; return its name: "%x.start"."""
        name = self.unique.claim(f"{self.op_names[op.id]}.{suffix}")
        self.line(name, shape, opcode, operands, rest)
        return f"%{name}"


Rule = Callable[[Printer, XlaOp, str, str], Instruction]


RULES: Final[dict[str, Rule]] = {}
rule = registrar(RULES)
"""Decorator: ``@rule("send", "recv")`` registers a function as the printer rule of opcodes."""


MAX_TUPLE_NESTING: Final = 96
"""The maximum nesting depth of tuples in XLA's protocol buffers, and thus in its HLO parser."""


def module_text(computation: XlaComputation, *, metadata: bool = False) -> str:
    """Return a computation as the text of an HLO module; see `XlaComputation.to_hlo_text`."""
    for called in (computation, *computation.called_computations()):
        _check_nesting(called)
    module = ModuleNames(computation, metadata)
    shape = computation.program_shape
    inputs = ", ".join(with_layout(p) for p in shape.parameters)
    layout = f"{{({inputs})->{with_layout(shape.result)}}}"
    head = (
        f"HloModule {identifier(computation.name)}{_donations(computation)}, "
        f"entry_computation_layout={layout}{_meshes(computation)}\n"
    )
    # Callees precede callers.
    texts = [Printer(called, module).text() for called in computation.called_computations()]
    return "\n".join([head, *texts, f"ENTRY {Printer(computation, module).text()}"])


def _check_nesting(computation: XlaComputation) -> None:
    """Raise an error if a tuple is nested too deep for XLA's HLO parser.

    This also limits the length of the text, in which each nested tuple repeats its elements.
    """
    for op in computation.ops:
        shape = op.shape
        if isinstance(shape, TupleShape) and shape.nesting > MAX_TUPLE_NESTING:
            place = "" if op.source is None else f" recorded at {op.source}"
            rule = f"tuples in HLO may nest at most {MAX_TUPLE_NESTING} deep"
            fix = "use flatter tuples, or StableHLO (lowering.lower), which has no tuples"
            shapes = {"op": shape}
            got = f"{shape.nesting}: %{op.id} {op.opcode}{place}"
            raise error_of(ShapeInferenceError, "to_hlo_text", rule, fix, got=got, shapes=shapes)


def _donations(computation: XlaComputation) -> str:
    """Return the module attributes for aliased and donated parameters."""
    text = ""
    if computation.aliases:
        pairs = [
            f"{braces(a.output_index)}: ({a.param_number}, {braces(a.param_index)}, may-alias)"
            for a in computation.aliases
        ]
        text += f", input_output_alias={{ {', '.join(pairs)} }}"
    if computation.donors:
        places = [f"({d.param_number}, {braces(d.param_index)})" for d in computation.donors]
        text += f", buffer_donor={{ {', '.join(places)} }}"
    return text


def _meshes(computation: XlaComputation) -> str:
    """Return the frontend attribute that defines Shardy's meshes; "" if there are no meshes."""
    by_name = meshes(computation)
    if not by_name:
        return ""
    text = ", ".join(f"{name} = {mesh['mesh']}" for name, mesh in by_name.items())
    return f", frontend_attributes={{xla.sdy.meshes={quoted(f'{{{text}}}')}}}"


@rule("all_to_all")
def _all_to_all(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    split, concat = op.attributes["split_dimension"], op.attributes["concat_dimension"]
    attributes = printer.attributes_of(op)
    if split == concat:
        return name, operands, attributes
    # HLO concatenates along the dimension that it splits, so the blocks are transposed afterwards,
    # as in XLA's XlaBuilder.
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    count = op.attributes["split_count"]
    text = printer.helper(op, "blocks", source, name, operands, attributes)
    sizes = list(source.dimensions)
    size = sizes[split]
    sizes[split : split + 1] = [count, size if size == UNBOUNDED else size // count]
    text = printer.helper(op, "split", _with_sizes(source, sizes), "reshape", text)
    order = [d for d in range(len(sizes)) if d != split]
    order.insert(concat, split)
    shape = _with_sizes(source, [sizes[d] for d in order])
    dimensions = f", dimensions={braces(order)}"
    return "reshape", printer.helper(op, "moved", shape, "transpose", text, dimensions), ""


def _with_sizes(shape: ArrayShape, sizes: Sequence[int]) -> ArrayShape:
    return intern_array(shape.element_type, tuple(sizes), tuple(n == UNBOUNDED for n in sizes))


@rule("constant")
def _constant(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    array: np.ndarray[Any, Any] = op.attributes["value"]
    assert isinstance(op.shape, ArrayShape)
    value = splat_value(array)
    if value is None:
        return _literal(printer, op, op.shape, array)
    # A broadcast scalar, because a literal has every element.
    scalar = intern_array(op.shape.element_type, ())
    reference = printer.helper(op, "value", scalar, *_literal(printer, op, scalar, value))
    return "broadcast", reference, ", dimensions={}"


def _literal(
    printer: Printer, op: XlaOp, shape: ArrayShape, array: np.ndarray[Any, Any]
) -> Instruction:
    element_type = shape.element_type
    if not element_type.is_complex or not np.isnan(array).any():
        return "constant", literal_text(array, element_type), ""
    # XLA's parser makes both parts NaN if the real part is, and drops the payload of the imaginary
    # part. So real and imaginary parts are separate constants.
    half = shape.with_element_type(element_type.real_type)
    parts = [
        printer.helper(op, part, half, "constant", literal_text(values, half.element_type))
        for part, values in (("real", array.real), ("imag", array.imag))
    ]
    return "complex", ", ".join(parts), ""


@rule("parameter")
def _parameter(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    return name, str(op.attributes["number"]), printer.attributes_of(op)


@rule("conditional")
def _conditional(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    branches = [printer.called(b) for b in op.attributes["branch_computations"]]
    if op.operands[0].shape.element_type is pt.pred:
        attributes = f", true_computation={branches[0]}, false_computation={branches[1]}"
    else:
        attributes = f", branch_computations={{{', '.join(branches)}}}"
    return name, operands, attributes


@rule("send", "recv")
def _transfer(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Instruction:
    """Print the instruction that starts the transfer; return the one that waits for its end."""
    attributes = printer.attributes_of(op)
    # The data, the transfer number and a token; the operand of the "done" instruction alone.
    context = TupleShape((op.attributes["data_shape"], intern_array(pt.u32, ()), TOKEN_SHAPE))
    started = printer.helper(op, "start", context, opcode, operands, attributes)
    return f"{opcode}-done", started, attributes


@rule("broadcast_in_dim")
def _broadcast_in_dim(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    assert isinstance(op.shape, ArrayShape)
    targets = op.attributes["broadcast_dimensions"]
    unchanged = [
        dimension
        for dimension, target in enumerate(targets)
        if source.dimensions[dimension] == op.shape.dimensions[target]
    ]
    if len(unchanged) < source.rank:
        # HLO's broadcast only adds dimensions, so those that are expanded are removed first.
        shape = intern_array(
            source.element_type,
            tuple(source.dimensions[d] for d in unchanged),
            tuple(source.dynamic_dimensions[d] for d in unchanged),
        )
        operands = printer.helper(op, "squeezed", shape, "reshape", operands)
    return name, operands, f", dimensions={braces(targets[d] for d in unchanged)}"


@rule("pad")
def _pad(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    if op.attributes["padding_config"].dimensions:
        return name, operands, printer.attributes_of(op)
    # The parser does not accept the padding of a scalar, which is the identity.
    return "copy", printer.operand(op.operands[0]), ""


@rule("dynamic_reshape")
def _dynamic_reshape(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    assert isinstance(op.shape, ArrayShape)
    if not op.shape.is_bounded:
        return _mhlo_dynamic_reshape(printer, op)
    # HLO's dynamic-reshape requires a size, and a scalar has none.
    return name if len(op.operands) > 1 else "reshape", operands, ""


def _joined(printer: Printer, op: XlaOp, sizes: Iterable[str]) -> str:
    """Print instructions that join scalars to a vector; return the reference to the vector."""
    row = intern_array(pt.s32, (1,))
    rows = [printer.helper(op, "size", row, "reshape", size) for size in sizes]
    vector = intern_array(pt.s32, (len(rows),))
    return printer.helper(op, "sizes", vector, "concatenate", ", ".join(rows), ", dimensions={0}")


def _mhlo_dynamic_reshape(printer: Printer, op: XlaOp) -> Instruction:
    """Return the custom call that XlaBuilder's MhloDynamicReshape records."""
    operand, *sizes = map(printer.operand, op.operands)
    operands = f"{operand}, {_joined(printer, op, sizes)}"
    return "custom-call", operands, ', custom_call_target="mhlo.dynamic_reshape"'


@rule("slice")
def _slice(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    starts, limits, strides = (
        op.attributes[n] for n in ("start_indices", "limit_indices", "strides")
    )
    if UNBOUNDED not in limits:
        return name, operands, printer.attributes_of(op)
    # The limits of HLO's slice are numbers. XLA's converter to StableHLO reads the custom call.
    scalar, vector = intern_array(pt.s32, ()), intern_array(pt.s32, (len(limits),))
    sizes = []
    for dimension, limit in enumerate(limits):
        opcode, operand, rest = "constant", str(limit), ""
        if limit == UNBOUNDED:
            opcode, operand = "get-dimension-size", operands
            rest = f", dimensions={{{dimension}}}"
        sizes.append(printer.helper(op, "limit", scalar, opcode, operand, rest))
    first, step = (
        printer.helper(op, part, vector, "constant", braces(values))
        for part, values in (("starts", starts), ("strides", strides))
    )
    operands = ", ".join([operands, first, _joined(printer, op, sizes), step])
    return "custom-call", operands, ', custom_call_target="mhlo.real_dynamic_slice"'


@rule("dynamic_gather", "dynamic_iota", "dynamic_pad", "real_dynamic_slice")
def _stablehlo_call(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    # HLO has no instruction for it. The importer reads the custom call.
    schema = SCHEMAS[op.opcode]
    target = f', custom_call_target="{schema.stablehlo}"'
    attributes = [
        f"{attribute.stablehlo or attribute.name} = {attribute.kind.stablehlo(value)}"
        for attribute in schema.value_attributes
        if (value := attribute.value(op.attributes)) is not False
    ]
    config = f', backend_config="{{{", ".join(attributes)}}}"' if attributes else ""
    return "custom-call", operands, target + config


@rule("dynamic_broadcast_in_dim")
def _dynamic_broadcast_in_dim(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    # A custom call, as XlaBuilder records it; XLA's converter to StableHLO reads it.
    places = ",".join(map(str, op.attributes["broadcast_dimensions"]))
    config = f'backend_config="{{broadcast_dimensions=[{places}]}}"'
    target = f'custom_call_target="mhlo.{op.opcode}"'
    return "custom-call", operands, f", {target}, {config}"
