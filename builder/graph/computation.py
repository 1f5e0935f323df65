"""XlaComputation: a recorded computation, ready to be printed, walked, called or lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from builder.attributes.annotations import Annotations
from builder.check import flag
from builder.errors import BuilderError, OperandError, brief
from builder.graph.aliasing import BufferDonor, InputOutputAlias
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.support.extensions import extension
from builder.support.signatures import SignatureTable
from builder.types.shape import Shape, ShapeLike, interned_program_shape

if TYPE_CHECKING:
    from builder.inspection.diff import ComputationDiff
    from builder.inspection.stats import ComputationStats
    from builder.inspection.table import OpTable
    from builder.rewriting.replacing import Replacement

__all__ = ["XlaComputation"]

P = TypeVar("P")


APPLYING: Final = frozenset(opcode for opcode, one in SCHEMAS.items() if one.computations)
"""The opcodes that may have computations among their attributes."""


class Application(NamedTuple):
    """Ops of a computation that apply the same computations, and say the same in all else.

    Attributes:
        opcode: that of the ops.
        computations: what each of them applies.
        times: how many ops they are.
    """

    opcode: str
    computations: tuple[XlaComputation, ...]
    times: int


class XlaComputation:
    """What a builder built: ops in the order they were recorded, and the root.

    Attributes:
        name: the computation's name.
        ops: every op, operands before users.
        root: the op whose value is the result.
        parameters: the parameter ops in the order of their numbers.
        program_shape: shapes and names of the parameters, and the shape of the result, with the
            layouts in which they come in and go out.
        signature: the same without layouts: what ops see that apply the computation.
        aliases: the results that are written to the memory of arguments, as
            `XlaBuilder.setup_alias` said, in the order of the results. Like donors they are facts
            of the program that is entered here: where another computation applies this one they
            are not looked at, as XLA does not.
        donors: the other arguments whose memory the program may use.
        annotations: what is said besides, for XLA's partitioner (meshes, the shardings of results)
            and, by a module of another program, for other compilers; None if nothing.
        sharding_form: in whose words its shardings are said; "" if it says none, or is imported.

    `str(computation)` is its HLO text.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> print(double)
        HloModule double, entry_computation_layout={(f32[2]{0})->f32[2]{0}}
        <BLANKLINE>
        ENTRY %double (x: f32[2]) -> f32[2] {
          %x = f32[2]{0} parameter(0)
          ROOT %add.1 = f32[2]{0} add(%x, %x)
        }
        <BLANKLINE>
    """

    __slots__ = (
        "__weakref__",
        "_applications",
        "_called",
        "_users",
        "aliases",
        "annotations",
        "donors",
        "name",
        "ops",
        "parameters",
        "plans",
        "program_shape",
        "root",
        "sharding_form",
        "signature",
    )

    def __init__(
        self,
        name: str,
        ops: Sequence[XlaOp],
        root: XlaOp,
        parameters: Sequence[XlaOp],
        result: Shape | None = None,
        *,
        aliases: tuple[InputOutputAlias, ...] = (),
        donors: tuple[BufferDonor, ...] = (),
        annotations: Annotations | None = None,
        sharding_form: str = "",
    ) -> None:
        self.name = name
        self.ops = ops
        self.root = root
        self.parameters = tuple(parameters)
        self.aliases = aliases
        self.donors = donors
        self.annotations = annotations
        self.sharding_form = sharding_form
        shape = self.program_shape = interned_program_shape(
            tuple([p.attributes.get("shape_with_layout", p.shape) for p in self.parameters]),
            root.shape if result is None else result,
            tuple([p.name or f"p{i}" for i, p in enumerate(self.parameters)]),
        )
        self.signature = shape if shape.without_layouts is None else shape.without_layouts
        # Worked out when first asked for: nothing is added to what is built.
        self._users: list[tuple[XlaOp, ...]] | None = None
        self._called: tuple[XlaComputation, ...] | None = None
        self._applications: tuple[Application, ...] | None = None
        # What ops that apply it have worked out, by op and shapes: see `planned`.
        self.plans: SignatureTable[Any] = SignatureTable()

    def planned(self, key: Any, plan: Callable[..., P], *arguments: Any) -> P:
        """``plan(*arguments)`` for an op that applies this computation, worked out once for a key.

        Kept here, plans live as long as the computation; a cache of them all would hold it.
        """
        found: P | None = self.plans.get(key)
        return self.plans.add(key, plan(*arguments)) if found is None else found

    def __call__(self, *_arguments: object, **_named: object) -> Any:
        raise OperandError(
            f"{self.name}: a computation is not called like a function, got {self!r}\n"
            f"fix: lowering.compile(computation)(...) runs it; xb.call(computation, ...) records "
            f"a call of it in another computation",
            op=self.name,
        )

    def users(self, op: XlaOp) -> tuple[XlaOp, ...]:
        """The ops that take `op` as an operand, each once, in the order of recording.

        Raises:
            BuilderError: an op of another computation, or of one that an op here applies.
            OperandError: no op.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2], "x")
            >>> y = x + x
            >>> c = b.build(xb.neg(y))
            >>> [u.opcode for u in c.users(x)], c.users(c.root)
            (['add'], ())
        """
        self._need_own("users", op)
        if self._users is None:
            lists: list[list[XlaOp]] = [[] for _ in self.ops]
            for user in self.ops:
                for operand in user.operands:
                    found = lists[operand.id]
                    if not found or found[-1] is not user:
                        found.append(user)
            self._users = [tuple(found) for found in lists]
        return self._users[op.id]

    def _need_own(self, method: str, op: XlaOp) -> None:
        """Raises if `op`, given to a method, is no op of this computation."""
        if type(op) is not XlaOp:
            raise OperandError(
                f"{method}: op must be an XlaOp, got {type(op).__name__}: {brief(op, 80)}\n"
                f"fix: one of computation.ops; computation.find(...) looks for some",
                op=method,
            )
        if not (op.id < len(self.ops) and self.ops[op.id] is op):
            raise BuilderError(
                f"{method}: op must be one of computation {self.name!r}, got one of "
                f"{op.builder.name!r}\n  {op!r}\n"
                f"fix: ask the computation that the op stands in",
                op=method,
                shapes={"op": op.shape},
            )

    def post_order(self) -> Iterator[XlaOp]:
        """The ops that the root depends on, each once, operands before users."""
        needed = bytearray(len(self.ops))
        needed[self.root.id] = 1
        for index in range(self.root.id, -1, -1):
            if needed[index]:
                for operand in self.ops[index].operands:
                    needed[operand.id] = 1
        return (op for op in self.ops if needed[op.id])

    def applications(self) -> tuple[Application, ...]:
        """Where ops here apply computations: one for all that share their attributes."""
        if self._applications is None:
            # Ops that say the same share their attributes: what is among them is looked for once.
            ops = [op for op in self.ops if op.opcode in APPLYING]
            ids = [id(op.attributes) for op in ops]
            examples = dict(zip(ids, ops, strict=True))
            counts = Counter(ids)
            self._applications = tuple(
                [
                    Application(op.opcode, found, counts[number])
                    for number, op in examples.items()
                    if (found := called_in(op.attributes))
                ]
            )
        return self._applications

    def called_computations(self) -> tuple[XlaComputation, ...]:
        """The computations that ops here apply, and those they apply; callees before callers."""
        if self._called is not None:
            return self._called
        order: dict[XlaComputation, None] = {}
        entered = {self}
        stack = [(self, _direct(self))]
        while stack:
            current, remaining = stack[-1]
            for called in remaining:
                if called not in entered:
                    entered.add(called)
                    stack.append((called, _direct(called)))
                    break
            else:
                stack.pop()
                if current is not self:
                    order[current] = None
        self._called = tuple(order)
        return self._called

    def replace(self, function: Replacement, *, nested: bool = False) -> XlaComputation:
        """The computation recorded again, with some ops replaced by others.

        The function is asked for each op in the order of recording. What it records stays, before
        the op if that is kept. Names, source lines, shardings and frontend attributes go along; an
        op that stands for another has those of the other that it has not itself, but the line. Ops
        that nothing uses any more stay as well, as everywhere: XLA leaves out what has no effect.

        Args:
            function: called with an op and its operands in the new computation. It returns None to
                keep the op, or the op that stands in its place: one of the operands, or one that it
                records on them. ``operands.builder`` records constants; ``operands.keep()`` records
                the op as it was, on the new operands, and gives it.
            nested: whether the function is also asked for the ops of the computations that ops
                apply, and those apply, each once, callees before callers.

        Returns:
            A computation of the same program shape, with the same aliases and donors. A parameter
            stays, whatever else is given to those that use it. Applied computations in which
            nothing changes are shared.

        Raises:
            ShapeInferenceError: what is to stand in the place of an op has another shape.
            BuilderError: it is an op of another builder; or the function recorded a parameter.
            OperandError: it is no op; or `function` is no callable.

        Example:
            >>> import builder as xb
            >>> @xb.computation(xb.f32[4])
            ... def model(x):
            ...     return xb.neg(xb.log(x))
            >>> def log1p(op, operands):
            ...     if op.opcode == "log":
            ...         return xb.log1p(operands[0])
            >>> [op.opcode for op in model.replace(log1p).ops]
            ['parameter', 'log_plus_one', 'negate']
        """
        replace = extension("builder.rewriting.replacing", "replace")
        made: XlaComputation = replace(self, function, nested=nested)
        return made

    def extract(
        self, ops: XlaOp | Sequence[XlaOp], *, inputs: XlaOp | Sequence[XlaOp] | None = None
    ) -> XlaComputation:
        """The part of the computation that gives some of its values.

        It holds what they need and nothing else: of ops with side effects those that they depend
        on, for instance by a token. So a wrong value can be traced: half of a model is run by
        itself, and then the half of that which is wrong.

        Args:
            ops: what to give: an op of this computation, or several in a sequence.
            inputs: ops whose values are parameters of the part, in this order; what is behind them
                is cut off. Of an input without a name the parameter is called "OPCODE_NUMBER".

        Returns:
            A computation called "NAME_part". Its parameters are the inputs, used or not, and then
            those of this computation that are needed without passing an input; these keep their
            names and layouts. It gives the value of the op, or for a sequence a tuple, in default
            layouts. It has no aliases and no donors.

        Raises:
            BuilderError: an op of another computation, or of one that an op here applies.
            OperandError: no op, or one that is twice among the inputs.

        Example:
            >>> import builder as xb
            >>> @xb.computation(xb.f32[4], xb.f32[4])
            ... def model(x, y):
            ...     return xb.exp(x * y) + y
            >>> _, _, product, exponential, total = model.ops
            >>> model.extract(exponential).program_shape
            (x: f32[4], y: f32[4]) -> f32[4]
            >>> model.extract([exponential, total], inputs=product).program_shape
            (multiply_2: f32[4], y: f32[4]) -> (f32[4], f32[4])
        """
        extract = extension("builder.rewriting.extracting", "extract")
        made: XlaComputation = extract(self, ops, inputs=inputs)
        return made

    def table(self, *, nested: bool = False, limit: int | None = 40) -> OpTable:
        """The ops as a table: number, opcode, shape, operands, name, source line, attributes.

        Args:
            nested: whether the computations that ops apply, and those apply, follow, each under
                its name. They stand after those that apply them.
            limit: how many ops from the beginning and from the end of a computation are drawn when
                the table is printed; None for all. The table itself has all of them.

        Returns:
            A sequence of `OpRow`, which are made when they are looked at.

        Raises:
            ShapeInferenceError: `limit` is negative or no number.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2, 3], "x")
            >>> c = b.build(xb.transpose(x, [1, 0]))
            >>> for row in c.table():
            ...     print(row.number, row.opcode, row.shape, row.operands, row.attributes)
            0 parameter f32[2,3] () number=0
            1 transpose f32[3,2] (0,) dimensions={1,0}
        """
        table_of = extension("builder.inspection.table", "table_of")
        made: OpTable = table_of(self, nested=nested, limit=limit)
        return made

    def stats(self) -> ComputationStats:
        """What the computation costs: ops, parameters, FLOPs and bytes, by opcode and in all.

        FLOPs, transcendental functions and bytes are those of XLA's HloCostAnalysis: what the ops
        do as they are written, before a compiler fuses or leaves out any. Each op reads its
        operands and writes its result. A multiplication and an addition are two FLOPs; operations
        on integers count too. What XLA leaves open is said in `builder.inspection.costs`.

        Computations are counted as often as they are applied: a reducer for each element that goes
        away, the body of a loop as often as it runs where that is seen from its condition and body
        (``stats.loops`` says it) and else once, of a `conditional` the most expensive branch.

        Returns:
            Its fields are numbers; `print` draws a table by FLOPs, and `as_dict` is for JSON.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x, y = b.parameter(xb.f32[64, 32]), b.parameter(xb.f32[32, 16])
            >>> b.build(x @ y).stats().flops == 2 * 64 * 32 * 16
            True
        """
        made: ComputationStats = extension("builder.inspection.counting", "stats_of")(self)
        return made

    def find(
        self,
        opcode: str | None = None,
        *,
        name: str | None = None,
        shape: ShapeLike | None = None,
        source: str | None = None,
        where: Callable[[XlaOp], bool] | None = None,
        nested: bool = False,
    ) -> tuple[XlaOp, ...]:
        """The ops that are all of what is asked for, in the order of recording.

        Args:
            opcode: the opcode, or a pattern as of file names: "reduce*".
            name: the op's name, or a pattern.
            shape: the shape of the result, or its text. One without layouts is compared with the
                ops' shapes, which have none; one with layouts with those that parameters ask for.
            source: the file that recorded the op, or its last parts, with or without a line:
                "model.py", "layers/attention.py:12".
            where: called with each op that is the rest; whether it is among them.
            nested: whether computations that ops apply, and those apply, are searched as well,
                after this one.

        Raises:
            OperandError: no op has such an opcode (the message says which are near); or an argument
                is not of its type.
            ShapeTextError: `shape` is no text of a shape.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[4], "x")
            >>> c = b.build(xb.reduce(xb.exp(x), 0.0, xb.add, dimensions=[0]))
            >>> [op.opcode for op in c.find("r*")], c.find(shape="f32[]", nested=True)[0].opcode
            (['reduce'], 'constant')
            >>> [op.opcode for op in c.find(where=lambda op: not op.operands)]
            ['parameter', 'constant']
        """
        find_ops = extension("builder.inspection.find", "find_ops")
        found: tuple[XlaOp, ...] = find_ops(
            self, opcode, name=name, shape=shape, source=source, where=where, nested=nested
        )
        return found

    def diff(self, other: XlaComputation, *, metadata: bool = False) -> ComputationDiff:
        """What differs between this computation and another, compared as graphs.

        Ops are the same where their inputs, or what is made of them, are the same; the order of
        recording does not count, nor do the names of computations. An op that is in both and says
        something else (an attribute, a shape, a constant's value, other operands) has changed; the
        ops before and after it have not. Ops without users are compared too.

        Args:
            other: the computation to compare with.
            metadata: whether names and source lines count.

        Returns:
            A `ComputationDiff`: true where something differs, with the ops that are only here
            (`removed`), only there (`added`), and `changed`.

        Raises:
            OperandError: `other` is no XlaComputation.

        Example:
            >>> import builder as xb
            >>> @xb.computation(xb.f32[4])
            ... def one(x):
            ...     return xb.exp(x) + 1
            >>> @xb.computation(xb.f32[4])
            ... def other(x):
            ...     return xb.exp(x) + 2
            >>> one.diff(one).equal
            True
            >>> for change in one.diff(other).changed:
            ...     print(change.before.opcode, *change.differences)
            constant value: 1 -> 2
        """
        diff_of = extension("builder.inspection.comparing", "diff_of")
        made: ComputationDiff = diff_of(self, other, metadata=metadata)
        return made

    def to_hlo_text(self, *, metadata: bool = False) -> str:
        """HLO text that XLA's parser accepts.

        Args:
            metadata: whether each instruction carries its name and source line.
        """
        checked = flag("to_hlo_text", "metadata", metadata)
        text: str = extension("builder.hlo_text.module", "module_text")(self, metadata=checked)
        return text

    def __str__(self) -> str:
        return self.to_hlo_text()

    def __repr__(self) -> str:
        return f"<XlaComputation {self.name!r} {self.program_shape}, {len(self.ops)} ops>"


def called_in(attributes: Mapping[str, Any]) -> tuple[XlaComputation, ...]:
    """The computations among an op's attributes, in their order."""
    found: list[XlaComputation] = []
    for value in attributes.values():
        if isinstance(value, XlaComputation):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(v for v in value if isinstance(v, XlaComputation))
    return tuple(found)


def _direct(computation: XlaComputation) -> Iterator[XlaComputation]:
    """The computations that ops of this one apply, some of them several times."""
    return chain.from_iterable([one.computations for one in computation.applications()])
