"""The tables of what lowering, import and jax need of an op beyond its data.

Most opcodes are lowered to the operation that their schema names, and imported by an importer that
is derived from it (`lowering.importer.by_schema`). The modules of this package register functions
for the others, and for each op that jax has an equivalent of. `lowering.stablehlo.emitter`,
`lowering.importer.scope` and `lowering.jax_interop.evaluation` look them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from builder.errors import error_of
from builder.graph.computation import XlaComputation
from builder.graph.registry import registrar
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, Shape
from lowering.errors import LoweringError

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter

Value = Any
"""What a rule computes with.

In StableHLO an SSA value (see `emitter`), or for a tuple the list of its elements' values. In jax
an array or a tracer, for a tuple the Python tuple of its elements' values, and for a token None.
"""


def array_of(shape: Shape) -> ArrayShape:
    """Return a shape that shape inference has checked to be an array."""
    assert isinstance(shape, ArrayShape)
    return shape


# StableHLO


class Region(NamedTuple):
    """The contents of a region of an operation: one block.

    Attributes:
        shapes: the shapes of the block's arguments.
        body: a function of the arguments, one value for each shape, that emits the operations and
            returns the values that the block ends with.
        computation: the computation whose ops the body emits, and whose annotations apply to the
            operation that ends the block; None if there is none.
    """

    shapes: tuple[Shape, ...]
    body: Callable[[list[Value]], Value]
    computation: XlaComputation | None = None


RegionLike = XlaComputation | Region
"""A region; a computation is a region whose block arguments are its parameters."""

StablehloRule = Callable[["Emitter", XlaOp, list[Value]], Value]
"""A function of the emitter, an op and its operands' values, which returns the op's value."""

STABLEHLO_RULES: Final[dict[str, StablehloRule]] = {}
"""The rule of each opcode that StableHLO can't always express by one operation."""

EXCEPTIONS: Final[dict[str, Callable[[XlaOp], bool]]] = {}
"""For each opcode whose rule applies to some ops only: a function that selects these ops."""

CHECKS: Final[dict[str, Callable[[XlaOp], None]]] = {}
"""For some opcodes without a rule: a function that raises if StableHLO can't express an op."""


def stablehlo_rule(
    opcode: str, *, when: Callable[[XlaOp], bool] | None = None
) -> Callable[[StablehloRule], StablehloRule]:
    """Register the decorated function as the StableHLO rule for `opcode`.

    Args:
        opcode: the recorded opcode.
        when: returns whether an op needs the rule; other ops become one operation. It may depend
            only on the op's shape and attributes and on the shape of its first operand, because it
            is called once for ops that are equal in these.
    """

    def enter(function: StablehloRule) -> StablehloRule:
        STABLEHLO_RULES[opcode] = function
        if when is not None:
            EXCEPTIONS[opcode] = when
        return function

    return enter


stablehlo_check = registrar(CHECKS)
"""Register the decorated function as the check of opcodes that have no StableHLO rule.

Like `when` of a rule, it may depend only on the op's shape and attributes, and on the shape of its
first operand.
"""


# Import


Imported = XlaOp | Sequence[XlaOp | None]
"""What an importer returns: one op, a tuple if the operation has several results; or a list with an
op for each result, None for an unused result."""

Importer = Callable[..., Imported]
"""A function that records an operation: takes the scope, the operation and its operands.

It calls a public op, so shape inference runs again; `Scope` compares the inferred shape with the
type in the file.
"""

IMPORTERS: Final[dict[str, Importer]] = {}
"""Handwritten importers, by the name of the MLIR operation. They take precedence over derived
importers."""

DECOMPOSITIONS: Final[dict[str, Importer]] = {}
"""Importers of operations without a schema, by operation name: jaxlib decomposes the operations."""

importer = registrar(IMPORTERS)
"""A decorator that registers a function as the importer of the named operations."""


# jax


Step = Callable[..., Value]
"""A function of the operands' values that returns the op's value."""


class Context(Protocol):
    """What a rule for jax may use besides the op.

    Attributes:
        computation: the computation that contains the op.
        axis: the name of jax's mapped axis along which the replicas are, or None.
    """

    computation: XlaComputation
    axis: str | None

    def function(self, computation: XlaComputation) -> Step:
        """Return an applied computation as a function of its parameters' values."""

    def shared(self, computation: XlaComputation) -> Step:
        """Return an applied computation as a function that jax traces once for all calls."""

    def pasted(self, op: XlaOp, computation: XlaComputation | None = None) -> Step:
        """Return a step that evaluates an op by its StableHLO, and that has no derivative.

        Args:
            op: the op.
            computation: the computation that contains it; None for `self.computation`.
        """


JaxRule = Callable[[Context, XlaOp], Step]
"""A function of an op that returns its step.

A rule is called once for each op, when `to_jax` is called; its step is called whenever jax
evaluates or traces the function.
"""

JAX_RULES: Final[dict[str, JaxRule]] = {}
"""The rule of each opcode that jax evaluates by functions of its own. The others are pasted."""

REFUSED: Final[dict[str, tuple[str, str]]] = {}
"""For each opcode that jax cannot evaluate: the reason, and the fix."""

jax_rule = registrar(JAX_RULES)
"""Register the decorated function as the rule of opcodes for jax."""

COMPOSITES: Final[dict[str, Callable[[XlaOp, Step], Step | None]]] = {}
"""By name, the rule of each composite with a derivative of its own.

A rule is a function of the op and of the step that evaluates its decomposition. It returns None for
composites that it does not support. They have the derivative of the decomposition.
"""

composite_rule = registrar(COMPOSITES)
"""Register the decorated function as the rule of composites for jax."""

CUSTOM_CALLS: Final[dict[str, Callable[[Context, XlaOp], Step | None]]] = {}
"""By target, the rule of each custom call that has a derivative.

A rule returns None for calls that it does not support. They have no derivative.
"""

custom_call_rule = registrar(CUSTOM_CALLS)
"""Register the decorated function as the rule of targets of custom calls for jax."""


def place(op: XlaOp) -> str:
    """Return ", recorded at FILE:LINE"; "" if the op has no source line."""
    return "" if op.source is None else f", recorded at {op.source}"


def refusal(op: XlaOp, reason: str, fix: str, got: object = None) -> LoweringError:
    """Return the error of an op that jax cannot evaluate."""
    operands = {f"operand {i}": operand.shape for i, operand in enumerate(op.operands)}
    return error_of(
        LoweringError,
        "to_jax",
        f"{op.opcode}{place(op)}: {reason}",
        fix,
        got=got,
        shapes={"result": op.shape, **operands},
    )
