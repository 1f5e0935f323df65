"""XlaComputation: a recorded computation, ready to be printed, inspected, called or lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from builder.attributes.annotations import Annotations
from builder.attributes.host import DEBUG_TARGETS
from builder.checking import flag
from builder.errors import BuilderError, OperandError, brief, error_of
from builder.graph.aliasing import BufferDonor, InputOutputAlias
from builder.graph.calls import explained
from builder.graph.inlined_calls import InlinedCall
from builder.graph.xla_op import XlaOp
from builder.schema import APPLYING
from builder.support.arguments import NotAFunction
from builder.support.caches import SignatureTable
from builder.support.display import Displayed
from builder.support.imports import extension
from builder.support.names import ExplainsAttributes
from builder.types.foreign_arrays import is_tracer
from builder.types.shape import Shape, ShapeLike, interned_program_shape

if TYPE_CHECKING:
    from builder.inspection.diff import ComputationDiff
    from builder.inspection.open_sizes import OpenSize
    from builder.inspection.pictures import GraphPicture
    from builder.inspection.stats import ComputationStats
    from builder.inspection.table import OpTable
    from builder.rewriting.replacing import Replacement


P = TypeVar("P")


class Application(NamedTuple):
    """The ops of a computation that apply the same computations with the same attributes.

    Attributes:
        opcode: the opcode of the ops.
        computations: the computations that each of the ops applies.
        times: the number of ops.
    """

    opcode: str
    computations: tuple[XlaComputation, ...]
    times: int


class XlaComputation(Displayed, ExplainsAttributes, NotAFunction):
    """The result of a builder: ops in the order of recording, and the root.

    `str(computation)` is its HLO text. As in XLA, aliases (`XlaBuilder.setup_alias`) and donors
    have an effect only if this computation is the entry of the program, not if another applies it.

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

    # A dict gives the attributes docstrings.
    __slots__ = {
        "__weakref__": "The weak references to the computation.",
        "_applications": "The ops that apply computations, by opcode (`applications`), or None.",
        "_called": "The computations that the ops apply (`called_computations`), or None.",
        "_inlined_calls": "The functions with derivatives of their own whose ops were recorded.",
        "_plans": "What compiling and evaluating the computation found out, by purpose.",
        "_sharding_form": 'The form of the shardings, as in XlaBuilder; "" if it is imported.',
        "_users": "The ops that use each op (`users`), or None.",
        "aliases": "The results written to the memory of arguments, in the order of the results.",
        "annotations": "Meshes, shardings of results, attributes of an imported module, or None.",
        "derivative": "The computation of its gradients (`custom_gradient`), or None.",
        "donors": "The arguments without an alias whose memory the program may reuse.",
        "name": "The name of the computation.",
        "ops": "The ops, operands before users.",
        "parameters": "The parameter ops in the order of their numbers.",
        "program_shape": "The shapes and names of the parameters, the result's shape, and layouts.",
        "root": "The op whose value is the result.",
        "signature": "`program_shape` without layouts, for ops that apply the computation.",
    }

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
        derivative: XlaComputation | None = None,
        inlined_calls: Sequence[InlinedCall] = (),
    ) -> None:
        self.name = name
        self.ops = ops
        self.root = root
        self.parameters = tuple(parameters)
        self.aliases = aliases
        self.donors = donors
        self.annotations = annotations
        self._sharding_form = sharding_form
        self.derivative = derivative
        self._inlined_calls = inlined_calls
        shape = self.program_shape = interned_program_shape(
            tuple([p.attributes.get("shape_with_layout", p.shape) for p in self.parameters]),
            root.shape if result is None else result,
            tuple([p.name or f"p{i}" for i, p in enumerate(self.parameters)]),
        )
        self.signature = shape if shape.without_layouts is None else shape.without_layouts
        # Computed on first use; a computation does not change.
        self._users: list[tuple[XlaOp, ...]] | None = None
        self._called: tuple[XlaComputation, ...] | None = None
        self._applications: tuple[Application, ...] | None = None
        # Results of inference for ops that apply this computation: see `_planned`.
        self._plans: SignatureTable[Any] = SignatureTable()

    def _planned(self, plan: Callable[..., P], *arguments: Any) -> P:
        """Return ``plan(*arguments)``, where `plan` infers an op that applies this computation.

        The results are cached in this computation, and freed with it.
        """
        key = plan, arguments
        cached: P | None = self._plans.get(key)
        return self._plans.add(key, plan(*arguments)) if cached is None else cached

    if not TYPE_CHECKING:  # type checkers report the call

        def __call__(self, *arguments: object, **_named: object) -> NoReturn:
            rule = "an XlaComputation is not a function"
            fix = "run it with lowering.compile(computation)(...)"
            if any(isinstance(argument, XlaOp) for argument in arguments):
                fix = "record a call with xb.call(computation, *operands)"
            elif any(map(is_tracer, arguments)):
                fix = "call lowering.to_jax(computation)(...)"
            raise error_of(OperandError, self.name, rule, fix, got=repr(self))

    @explained
    def users(self, op: XlaOp) -> tuple[XlaOp, ...]:
        """Return the ops that have `op` as an operand, each once, in the order of recording.

        Raises:
            BuilderError: `op` belongs to another computation, such as the body of a loop in this
                computation.
            OperandError: `op` is not an op.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2], "x")
            >>> y = x + x
            >>> c = b.build(xb.neg(y))
            >>> [u.opcode for u in c.users(x)], c.users(c.root)
            (['add'], ())
        """
        self._check_contains("users", op)
        if self._users is None:
            lists: list[list[XlaOp]] = [[] for _ in self.ops]
            for user in self.ops:
                for operand in user.operands:
                    users = lists[operand.id]
                    if not users or users[-1] is not user:
                        users.append(user)
            self._users = [tuple(users) for users in lists]
        return self._users[op.id]

    def _check_contains(self, method: str, op: XlaOp) -> None:
        """Raise if `op`, an argument of a method, is not an op of this computation."""
        if type(op) is not XlaOp:
            rule = "op must be an XlaOp"
            fix = "pass one of computation.ops; computation.find(...) finds ops"
            raise error_of(
                OperandError, method, rule, fix, got=f"{type(op).__name__}: {brief(op, 80)}"
            )
        if not (op.id < len(self.ops) and self.ops[op.id] is op):
            rule = f"op must be an op of computation {self.name!r}"
            fix = "call the method of the computation that contains the op"
            raise error_of(
                BuilderError,
                method,
                rule,
                fix,
                got=f"an op of {op.builder.name!r}\n  {op!r}",
                shapes={"op": op.shape},
            )

    def post_order(self) -> Iterator[XlaOp]:
        """Iterate over the ops that the root depends on, each once, operands before users."""
        needed = bytearray(len(self.ops))
        needed[self.root.id] = 1
        for index in range(self.root.id, -1, -1):
            if needed[index]:
                for operand in self.ops[index].operands:
                    needed[operand.id] = 1
        return (op for op in self.ops if needed[op.id])

    def applications(self) -> tuple[Application, ...]:
        """Return an `Application` for each set of ops with the same computations and attributes."""
        if self._applications is None:
            # Ops with equal attributes usually share one mapping, which is searched once.
            applying = [op for op in self.ops if op.opcode in APPLYING]
            keys = [id(op.attributes) for op in applying]
            counts = Counter(keys)
            applications = [
                Application(op.opcode, called_in(op.attributes), counts[key])
                for key, op in dict(zip(keys, applying, strict=True)).items()
            ]
            self._applications = tuple([a for a in applications if a.computations])
        return self._applications

    def called_computations(self) -> tuple[XlaComputation, ...]:
        """Return the computations that ops apply directly or indirectly, callees first."""
        if self._called is not None:
            return self._called
        order: dict[XlaComputation, None] = {}
        entered = {self}
        stack = [(self, self._callees())]
        while stack:
            current, remaining = stack[-1]
            for called in remaining:
                if called not in entered:
                    entered.add(called)
                    stack.append((called, called._callees()))
                    break
            else:
                stack.pop()
                if current is not self:
                    order[current] = None
        self._called = tuple(order)
        return self._called

    def _callees(self) -> Iterator[XlaComputation]:
        """Iterate over the computations that ops apply directly, possibly with duplicates."""
        return chain.from_iterable([a.computations for a in self.applications()])

    @explained
    def replace(self, function: Replacement, *, nested: bool = False) -> XlaComputation:
        """Record the computation again with some ops replaced, and return the new computation.

        `function` is called for each op in the order of recording. The ops that it records become
        part of the new computation, before the op if the op is kept. Names, source lines, shardings
        and frontend attributes are preserved. A replacement without a name, a sharding or frontend
        attributes inherits those of the op that it replaces. Ops without users are preserved too;
        XLA removes them if they have no effect.

        Args:
            function: called with an op and its operands in the new computation. It returns None to
                keep the op, or its replacement: one of the operands, or an op recorded on them.
                ``operands.builder`` records constants; ``operands.keep()`` records the original op
                on the new operands, and returns it.
            nested: whether `function` is also called for the ops of the computations that ops
                apply, directly or indirectly. Each computation is processed once, callees first.

        Returns:
            A computation of the same program shape, with the same aliases and donors. Parameters
            are always preserved, even without users. Applied computations in which nothing changes
            are shared with this computation. A custom derivative is preserved if nothing changes.

        Raises:
            ShapeInferenceError: a replacement has another shape than the op.
            BuilderError: a replacement belongs to another builder; the function recorded a
                parameter.
            OperandError: a replacement is not an op; `function` does not take an op and its
                operands.

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
        return extension("builder.rewriting.replacing", "replace", self, function, nested=nested)

    def strip_debug(self) -> XlaComputation:
        """Return the computation without prints and checks, also in the computations it applies.

        Returns:
            A computation of the same program shape, which computes the same values; this one if it
            contains no `debug_print` and no `check`.

        Example:
            >>> import builder as xb
            >>> @xb.computation(xb.f32[4])
            ... def model(x):
            ...     xb.debug_print("x is {}", x)
            ...     return xb.neg(x)
            >>> [op.opcode for op in model.strip_debug().ops]
            ['parameter', 'negate']
        """
        return extension("builder.rewriting.replacing", "strip_debug", self)

    @explained
    def extract(
        self, ops: XlaOp | Sequence[XlaOp], *, inputs: XlaOp | Sequence[XlaOp] | None = None
    ) -> XlaComputation:
        """Return the part of the computation that computes some of its values.

        The part contains only the ops that the values depend on. An op with side effects is
        included only if a value depends on it, for instance by a token. Use this method to bisect a
        wrong result: run half of a model, and then half of the wrong part.

        Args:
            ops: the values to compute: an op of this computation, or several in a sequence.
            inputs: ops whose values become parameters of the part, in this order; ops that only the
                inputs depend on are omitted. An input without a name becomes a parameter called
                "OPCODE_NUMBER".

        Returns:
            A computation called "NAME_part". Its parameters are the inputs, used or not, and then
            the needed parameters of this computation, with their names and layouts. Its result is
            the value of the op, or for a sequence a tuple, in default layouts. It has no aliases
            and no donors.

        Raises:
            BuilderError: an op belongs to another computation, such as the body of a loop in this
                computation.
            OperandError: a value is not an op, or an input is duplicated.

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
        return extension("builder.rewriting.copying", "extract", self, ops, inputs=inputs)

    @explained
    def table(self, *, nested: bool = False, limit: int | None = 40) -> OpTable:
        """Return a table of the ops: number, opcode, shape, operands, name, line, attributes.

        Args:
            nested: whether to append the computations that ops apply, directly or indirectly, each
                under its name, after their callers.
            limit: the number of ops to print from the beginning and from the end of a computation;
                None for all. Only printing is limited: the sequence contains all ops.

        Returns:
            A sequence of `OpRow`, which are created on access.

        Raises:
            ShapeInferenceError: `limit` is negative or not a number; `nested` is neither True nor
                False.

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
        return extension("builder.inspection.table", "table_of", self, nested=nested, limit=limit)

    @explained
    def stats(self) -> ComputationStats:
        """Return the computation's cost: ops, parameters, FLOPs and bytes, by opcode and in total.

        FLOPs, transcendental functions and bytes are those of XLA's HloCostAnalysis for the ops as
        recorded, before a compiler fuses or removes any. Each op reads its operands and writes its
        result. A multiplication and an addition are two FLOPs; operations on integers count too.
        `builder.inspection.stats` documents the differences.

        Computations are counted as often as they are applied: a reducer once for each element that
        is reduced; the body of a loop once for each iteration if the loop's condition and body
        determine the trip count (see ``stats.loops``), else once. For a `conditional`, the most
        expensive branch is counted.

        Returns:
            A `ComputationStats`, whose fields are numbers. `print` shows a table sorted by FLOPs,
            and `as_dict` returns a dict for JSON.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x, y = b.parameter(xb.f32[64, 32]), b.parameter(xb.f32[32, 16])
            >>> b.build(x @ y).stats().flops == 2 * 64 * 32 * 16
            True
        """
        return extension("builder.inspection.stats", "stats_of", self)

    @explained
    def draw(self, *, scope: str | None = None, limit: int = 120) -> GraphPicture:
        """Return a picture of the computation as a graph, for notebooks and files.

        Ops have the colours of their families. Values run from top to bottom, with their shapes
        below the ops that compute them. Parameters and constants have round corners. The ops of a
        scope (`XlaBuilder.scope`, or a common beginning of names up to a "/") are in a frame, and
        so are the computations that an op applies, except those of a single op. Levels with many
        ops are split into groups in the order of recording.

        Args:
            scope: the scope to draw, such as "encoder/layer1"; None for the computation.
            limit: the number of nodes up to which `GraphPicture.svg` draws frames open, the outer
                ones first. Closed frames are boxes. A notebook unfolds them on a click instead.

        Returns:
            A `GraphPicture`, which a notebook shows, with the methods `svg`, `dot` and `save`.

        Raises:
            OperandError: there is no such scope (the message lists similar ones).
            ShapeInferenceError: `limit` is negative or not a number.

        Example:
            >>> import builder as xb
            >>> @xb.computation(xb.f32[4])
            ... def model(x):
            ...     return xb.exp(x) + 1
            >>> model.draw()
            <GraphPicture of 'model', 5 ops>
            >>> model.draw().svg().startswith("<svg")
            True
        """
        return extension(
            "builder.inspection.pictures", "picture_of", self, scope=scope, limit=limit
        )

    def open_sizes(self) -> tuple[OpenSize, ...]:
        """Return which dimensions of parameters with unbounded sizes have the same size.

        Sizes are equal if an op requires it, such as an addition of two parameters. In a call of
        the executable they must be equal.

        Returns:
            One `OpenSize` for each size that a call may choose: its dimensions of the parameters,
            those of the result that have it too, and the number that an op requires, if one does.
            Sizes that the result computes from others, as by a concatenation, are not listed.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder("model")
            >>> x, w = b.parameter(xb.f32["?", "?"], "x"), b.parameter(xb.f32["?", 4], "w")
            >>> for size in b.build(x @ w).open_sizes():
            ...     print(size)
            dimension 0 of x = dimension 0 of result
            dimension 1 of x = dimension 0 of w
        """
        return extension("builder.inspection.open_sizes", "open_sizes_of", self)

    def to_model_explorer(self) -> str:
        """Return the computation as JSON for Google's Model Explorer.

        Model Explorer (``pip install ai-edge-model-explorer``) opens a file with this text. Scopes
        (`XlaBuilder.scope`) are its layers, and the computations that an op applies are subgraphs.

        Example:
            >>> import builder as xb, json
            >>> @xb.computation(xb.f32[4])
            ... def model(x):
            ...     return xb.exp(x)
            >>> graph = json.loads(model.to_model_explorer())["graphs"][0]
            >>> [(node["id"], node["label"]) for node in graph["nodes"]]
            [('0', 'parameter'), ('1', 'exponential')]
        """
        return extension("builder.inspection.pictures.graph_formats", "model_explorer_of", self)

    @explained
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
        """Return the ops that match all criteria, in the order of recording.

        Args:
            opcode: the opcode, or a pattern as for file names: "reduce*".
            name: the op's name, or a pattern.
            shape: the shape of the result, or its text. A shape without layouts is compared with
                the shapes of ops, which have no layouts. A shape with layouts finds only ops that
                were recorded with these layouts, such as parameters.
            source: the file that recorded the op, or its last path components, with or without a
                line: "model.py", "layers/attention.py:12".
            where: a predicate, called with each op that matches the other criteria.
            nested: whether to also search the computations that ops apply, directly or indirectly.
                Their ops follow the ops of this computation.

        Raises:
            OperandError: no op has such an opcode (the message lists similar ones); an argument has
                another type.
            ShapeInferenceError: `nested` is neither True nor False.
            ShapeTextError: `shape` is not the text of a shape.

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
        criteria = {"name": name, "shape": shape, "source": source, "where": where}
        return extension(
            "builder.inspection.find", "find_ops", self, opcode, nested=nested, **criteria
        )

    @explained
    def diff(self, other: XlaComputation, *, metadata: bool = False) -> ComputationDiff:
        """Compare this computation with another as graphs, and return the differences.

        Ops correspond if their inputs or their users correspond. The order of recording and the
        names of computations are ignored. An op in both computations has changed if an attribute,
        the shape, the constant value or the choice of an operand differs; a changed op does not
        make its operands or users changed. Ops without users are compared too. Computations are
        equal if they differ only in the tuples that group the values of loops, branches and calls:
        StableHLO has no tuples, so lowering and importing a computation changes these tuples.

        Args:
            other: the computation to compare with.
            metadata: whether to compare names and source lines.

        Returns:
            A `ComputationDiff`, which is true if there are differences. It lists the ops that only
            this computation has (`removed`), the ops that only `other` has (`added`), and the ops
            that differ (`changed`).

        Raises:
            OperandError: `other` is not an XlaComputation.

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
        return extension("builder.inspection.diff", "diff_of", self, other, metadata=metadata)

    @explained
    def to_hlo_text(self, *, metadata: bool = False) -> str:
        """Return HLO text that XLA's parser accepts.

        Args:
            metadata: whether each instruction has its name and source line.

        Raises:
            ShapeInferenceError: tuples nest deeper than XLA's parser reads.
        """
        checked = flag("to_hlo_text", "metadata", metadata)
        return extension("builder.hlo_text.printer", "module_text", self, metadata=checked)

    def __copy__(self) -> XlaComputation:
        return self  # a computation never changes

    def __deepcopy__(self, _memo: object) -> XlaComputation:
        return self

    def __reduce__(self) -> NoReturn:
        rule = "a computation can't be pickled"
        fix = (
            "pickle lowering.lower(computation).bytecode, and read it with "
            "lowering.to_computation(lowering.load_bytes(data))"
        )
        raise error_of(OperandError, "pickle", rule, fix, got=repr(self))

    def __str__(self) -> str:
        return self.to_hlo_text()

    def __repr__(self) -> str:
        return f"<XlaComputation {self.name!r} {self.program_shape}, {len(self.ops)} ops>"


def is_debug_call(op: XlaOp) -> bool:
    """Return whether an op is a custom call that `debug_print` or `check` recorded."""
    return op.attributes.get("call_target_name") in DEBUG_TARGETS


def called_in(attributes: Mapping[str, Any]) -> tuple[XlaComputation, ...]:
    """Return the computations among an op's attributes, in the order of the attributes."""
    values = chain.from_iterable(
        value if isinstance(value, tuple) else (value,) for value in attributes.values()
    )
    return tuple([value for value in values if isinstance(value, XlaComputation)])
