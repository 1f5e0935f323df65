"""XlaComputation: a recorded computation, ready to be printed, walked, called or lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from builder.errors import OperandError
from builder.shape import Shape, interned_program_shape
from builder.xla_op import NO_ATTRIBUTES, XlaOp

__all__ = ["XlaComputation"]

P = TypeVar("P")

_MOST_PLANS: Final = 4096

_ATTRIBUTES_OF: Final[Callable[[XlaOp], Mapping[str, Any]]] = attrgetter("attributes")


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
        "name",
        "ops",
        "parameters",
        "plans",
        "program_shape",
        "root",
        "signature",
    )

    def __init__(
        self,
        name: str,
        ops: Sequence[XlaOp],
        root: XlaOp,
        parameters: Sequence[XlaOp],
        result: Shape | None = None,
    ) -> None:
        self.name = name
        self.ops = ops
        self.root = root
        self.parameters = tuple(parameters)
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
        self.plans: dict[Any, Any] = {}

    def planned(self, key: Any, plan: Callable[..., P], *arguments: Any) -> P:
        """``plan(*arguments)`` for an op that applies this computation, worked out once for a key.

        Kept here, plans live as long as the computation; a cache of them all would hold it.
        """
        found: P | None = self.plans.get(key)
        if found is None:
            if len(self.plans) >= _MOST_PLANS:
                self.plans.clear()
            found = self.plans[key] = plan(*arguments)
        return found

    def __call__(self, *_arguments: object, **_named: object) -> Any:
        raise OperandError(
            f"{self.name}: a computation is not called like a function, got {self!r}\n"
            f"fix: lowering.compile(computation)(...) runs it; xb.call(computation, ...) records "
            f"a call of it in another computation",
            op=self.name,
        )

    def users(self, op: XlaOp) -> tuple[XlaOp, ...]:
        """The ops that take `op` as an operand, each once, in the order of recording.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2], "x")
            >>> y = x + x
            >>> c = b.build(xb.neg(y))
            >>> [u.opcode for u in c.users(x)], c.users(c.root)
            (['add'], ())
        """
        if self._users is None:
            lists: list[list[XlaOp]] = [[] for _ in self.ops]
            for user in self.ops:
                for operand in user.operands:
                    found = lists[operand.id]
                    if not found or found[-1] is not user:
                        found.append(user)
            self._users = [tuple(found) for found in lists]
        return self._users[op.id]

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
            # Loops that run in C, as this is done for each op: 0.15 us, and not 0.5 us.
            attributes = list(map(_ATTRIBUTES_OF, self.ops))
            ids = list(map(id, attributes))
            examples = dict(zip(ids, self.ops, strict=True))
            examples.pop(id(NO_ATTRIBUTES), None)
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

    def to_hlo_text(self, *, metadata: bool = False) -> str:
        """HLO text that XLA's parser accepts.

        Args:
            metadata: whether each instruction carries its name and source line.
        """
        from builder.hlo_text import module_text  # these build on this class
        from builder.shape_inference.check import flag

        return module_text(self, metadata=flag("to_hlo_text", "metadata", metadata))

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
