"""XlaOp: one recorded instruction.

An XlaOp is a handle to what a builder recorded: its opcode, the shape that was inferred, its
operands and attributes. It holds no data. Operators on it record the op of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from builder.errors import OperandError, ShapeInferenceError, brief
from builder.types.shape import Shape, TupleShape

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation
    from builder.graph.xla_builder import XlaBuilder

__all__ = ["OpMetadata", "SourceLocation", "XlaOp", "with_metadata"]

NO_ATTRIBUTES: Final[Mapping[str, Any]] = MappingProxyType({})

# The functions that operators stand for, by name; the ops rooms put them here when they load
# (this module is below them and can't import them).
OPERATOR_FUNCTIONS: Final[dict[str, Callable[..., XlaOp]]] = {}


# What NumPy calls the operators, for those with a NumPy scalar on the left.
_UFUNC_OPERATORS: Final = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "remainder": "rem",
    "power": "pow",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "left_shift": "shift_left",
    "right_shift": "right_shift_operator",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}


# What users of NumPy reach for, and where it is here.
_NUMPY_NAMES: Final = {
    "T": "xb.transpose(op, permutation)",
    "transpose": "xb.transpose(op, permutation)",
    "reshape": "xb.reshape(op, new_sizes)",
    "ravel": "xb.collapse(op, dimensions)",
    "flatten": "xb.collapse(op, dimensions)",
    "astype": "xb.convert_element_type(op, new_element_type)",
    "view": "xb.bitcast_convert_type(op, new_element_type)",
    "dtype": "op.shape.element_type",
    "ndim": "op.shape.rank",
    "size": "op.shape.element_count",
    "sum": "xb.reduce(op, 0, xb.add, dimensions)",
    "prod": "xb.reduce(op, 1, xb.mul, dimensions)",
    "max": "xb.reduce(op, lowest, xb.max, dimensions)",
    "min": "xb.reduce(op, highest, xb.min, dimensions)",
    "dot": "xb.dot(lhs, rhs), or lhs @ rhs",
    "conj": "xb.conj(op)",
    "item": "lowering.compile, and the result of the call",
}


class SourceLocation(NamedTuple):
    """Where in the user's program an op was recorded."""

    file: str
    line: int
    column: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class OpMetadata(NamedTuple):
    """What some ops carry besides what they compute.

    Attributes:
        name, frontend_attributes, sharding: as `XlaOp` has them.
        others: attributes that an operation of another program's module had besides, each by name
            as the text that it has in MLIR.
    """

    name: str | None
    frontend_attributes: Mapping[str, str] | None
    sharding: Any
    others: Mapping[str, str] | None = None


NO_METADATA: Final = OpMetadata(None, None, None)


def with_metadata(metadata: OpMetadata | None, **changes: Any) -> OpMetadata | None:
    """The metadata with some of them changed; None where nothing is noted."""
    changed = (metadata or NO_METADATA)._replace(**changes)
    return None if changed == NO_METADATA else changed


_POSITIONS: dict[int, tuple[CodeType, list[tuple[int | None, ...]]]] = {}


def resolve_position(code: CodeType, lasti: int) -> tuple[int, int]:
    """Line and column (both from 1) of the instruction at offset `lasti` of a code object."""
    # A code object's table is decoded once: a long function records thousands of ops. Keyed by id
    # because hashing a code object hashes all its constants; the entry keeps the object alive.
    entry = _POSITIONS.get(id(code))
    if entry is None:
        if len(_POSITIONS) > 4096:
            _POSITIONS.clear()
        entry = _POSITIONS[id(code)] = (code, list(code.co_positions()))
    positions = entry[1]
    index = lasti // 2
    if 0 <= index < len(positions):
        line, _, column, _ = positions[index]
        return line or code.co_firstlineno, (column or 0) + 1
    return code.co_firstlineno, 1


class XlaOp:
    """A recorded instruction, made by the functions of `builder` and by builder methods.

    Attributes:
        builder: the XlaBuilder that recorded it.
        opcode: what it does, for instance "add" or "dot_general".
        shape: the inferred shape of its result.
        operands: the ops whose results it takes.
        attributes: everything else the op says, by name ("broadcast_dimensions", "to_apply").
        id: its number within the builder, in the order of recording.
        name: a name for people, or None; parameters have one. May be assigned.
        frontend_attributes: strings by name for compilers downstream, or None.
        sharding: how the result is laid out over devices, or None: in XLA's text form, such as
            "{replicated}", or in Shardy's, "#sdy.sharding<@mesh, [{"x"}]>". May be assigned, also a
            `MeshSharding`.
        metadata: the last three together, or None: most ops have none of them.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder("example")
        >>> x = b.parameter(xb.f32[2, 3], "x")
        >>> y = x + x
        >>> y.opcode, y.shape, y.operands == (x, x)
        ('add', f32[2,3], True)
    """

    __slots__ = (
        "attributes",
        "builder",
        "code",
        "id",
        "lasti",
        "metadata",
        "opcode",
        "operands",
        "shape",
    )

    attributes: Mapping[str, Any]
    builder: XlaBuilder
    code: CodeType | None
    id: int
    lasti: int
    metadata: OpMetadata | None
    opcode: str
    operands: tuple[XlaOp, ...]
    shape: Shape

    # Filled by `recording.record`, field by field: an __init__ with nine arguments would be a
    # third of the time that recording takes.

    @property
    def name(self) -> str | None:
        return None if self.metadata is None else self.metadata.name

    @name.setter
    def name(self, name: str | None) -> None:
        self.metadata = with_metadata(self.metadata, name=name)

    @property
    def frontend_attributes(self) -> Mapping[str, str] | None:
        return None if self.metadata is None else self.metadata.frontend_attributes

    @property
    def sharding(self) -> Any:
        return None if self.metadata is None else self.metadata.sharding

    @sharding.setter
    def sharding(self, sharding: Any) -> None:
        text = None
        if sharding is not None:
            from builder.sharding import validation as saying

            self.builder.check_open("sharding")
            said = saying.check_sharding_type("sharding", sharding)
            text = saying.fitting_sharding("sharding", "op", self.shape, said)
            saying.register_sharding(self.builder, "sharding", said)
        self.metadata = with_metadata(self.metadata, sharding=text)

    @property
    def source(self) -> SourceLocation | None:
        """The line of the user's program that recorded the op."""
        code = self.code
        if code is None:
            return None
        line, column = resolve_position(code, self.lasti)
        return SourceLocation(code.co_filename, line, column, code.co_qualname)

    @property
    def called_computations(self) -> tuple[XlaComputation, ...]:
        """The computations that the op applies: reducer, condition, body, branches."""
        from builder.graph.computation import called_in  # computation builds on this module

        return called_in(self.attributes)

    def __repr__(self) -> str:
        operands = ", ".join(f"%{o.id}" for o in self.operands)
        label = "" if self.name is None else f" {self.name!r}"
        return f"<XlaOp %{self.id}{label} = {self.shape} {self.opcode}({operands})>"

    def __bool__(self) -> bool:
        raise OperandError(
            f"bool: an XlaOp has no truth value while the computation is being written, "
            f"got\n  {self!r}\n"
            f"fix: use xb.select(pred, a, b) for each element, xb.conditional for a branch, "
            f"xb.while_ for a loop, xb.and_ / xb.or_ / xb.not_ (or & | ~) for logic; "
            f"`op is None` to ask whether there is one",
            op="bool",
            shapes={"operand": self.shape},
        )

    def _no_number(self, wanted: str) -> OperandError:
        return OperandError(
            f"{wanted.rpartition(' ')[2]}: an XlaOp has no value while the computation is being "
            f"written, so it can't become {wanted}, got\n  {self!r}\n"
            f"fix: build, compile and run the computation, then look at its result",
            op=self.opcode,
            shapes={"operand": self.shape},
        )

    def __int__(self) -> int:
        raise self._no_number("an int")

    def __float__(self) -> float:
        raise self._no_number("a float")

    def __complex__(self) -> complex:
        raise self._no_number("a complex")

    def __index__(self) -> int:
        raise self._no_number("an index")

    def __array__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise self._no_number("a NumPy array")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_kwargs: Any) -> XlaOp:
        """``numpy_value + op`` records as ``op.__radd__`` does; other NumPy functions can't."""
        name = _UFUNC_OPERATORS.get(ufunc.__name__)
        if name is not None and method == "__call__" and len(inputs) == 2 and not _kwargs:
            return OPERATOR_FUNCTIONS[name](*inputs)
        called = method == "__call__" and ufunc.__name__ in OPERATOR_FUNCTIONS
        raise OperandError(
            f"numpy.{ufunc.__name__}: NumPy computes with values, and an XlaOp has none while the "
            f"computation is being written, got\n  {self!r}\n"
            f"fix: use the function of the same meaning in builder"
            + (f": xb.{ufunc.__name__}" if called else "")
            + (": xb.reduce" if method == "reduce" else ""),
            op=ufunc.__name__,
            shapes={"operand": self.shape},
        )

    def __getattr__(self, name: str) -> Any:
        """Called for names that an XlaOp does not have; those of NumPy arrays get a hint."""
        hint = _NUMPY_NAMES.get(name)
        raise AttributeError(
            f"an XlaOp has no attribute {name!r}" + (f"\nfix: use {hint}" if hint else "")
        )

    def __len__(self) -> int:
        if isinstance(self.shape, TupleShape):
            return len(self.shape.elements)
        raise ShapeInferenceError(
            f"len: only a tuple has a length, got {self.shape}\n"
            f"fix: the sizes of an array are op.shape.dimensions",
            op="len",
            shapes={"operand": self.shape},
        )

    def __getitem__(self, index: int) -> XlaOp:
        """Element `index` of a tuple, as `get_tuple_element` gives it."""
        if not isinstance(self.shape, TupleShape):
            raise ShapeInferenceError(
                f"get_tuple_element: op[{brief(index)}] takes an element of a tuple, "
                f"got {self.shape}\n"
                f"fix: use xb.slice or xb.slice_in_dim for a part of an array",
                op="get_tuple_element",
                shapes={"operand": self.shape},
            )
        return OPERATOR_FUNCTIONS["get_tuple_element"](self, index)

    def __iter__(self) -> Iterator[XlaOp]:
        """The elements of a tuple, so that `a, b = op` works."""
        if not isinstance(self.shape, TupleShape):
            raise ShapeInferenceError(
                f"get_tuple_element: iterating takes a tuple apart, got {self.shape}\n"
                f"fix: use xb.while_ for a loop over an array, xb.slice for its parts",
                op="get_tuple_element",
                shapes={"operand": self.shape},
            )
        return (self[i] for i in range(len(self.shape.elements)))

    # Identity decides whether two handles are the same op; `==` records a comparison.
    __hash__ = object.__hash__

    def __add__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["add"](self, other)

    def __radd__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["add"](other, self)

    def __sub__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["sub"](self, other)

    def __rsub__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["sub"](other, self)

    def __mul__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["mul"](self, other)

    def __rmul__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["mul"](other, self)

    def __truediv__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["div"](self, other)

    def __rtruediv__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["div"](other, self)

    def __mod__(self, other: Any) -> XlaOp:
        """Records `rem`: the result has the sign of the dividend, unlike Python's `%`."""
        return OPERATOR_FUNCTIONS["rem"](self, other)

    def __rmod__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["rem"](other, self)

    def __pow__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["pow"](self, other)

    def __rpow__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["pow"](other, self)

    def __matmul__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["dot"](self, other)

    def __and__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["and_"](self, other)

    def __rand__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["and_"](other, self)

    def __or__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["or_"](self, other)

    def __ror__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["or_"](other, self)

    def __xor__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["xor"](self, other)

    def __rxor__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["xor"](other, self)

    def __lshift__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["shift_left"](self, other)

    def __rlshift__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["shift_left"](other, self)

    def __rshift__(self, other: Any) -> XlaOp:
        """Records the right shift of the type: arithmetic for signed, logical for unsigned."""
        return OPERATOR_FUNCTIONS["right_shift_operator"](self, other)

    def __rrshift__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["right_shift_operator"](other, self)

    def __neg__(self) -> XlaOp:
        return OPERATOR_FUNCTIONS["neg"](self)

    def __pos__(self) -> XlaOp:
        return self

    def __abs__(self) -> XlaOp:
        return OPERATOR_FUNCTIONS["abs"](self)

    def __invert__(self) -> XlaOp:
        return OPERATOR_FUNCTIONS["not_"](self)

    def __eq__(self, other: Any) -> XlaOp:  # type: ignore[override]  # an op, as the document's Eq
        return OPERATOR_FUNCTIONS["eq"](self, other)

    def __ne__(self, other: Any) -> XlaOp:  # type: ignore[override]  # an op, as the document's Ne
        return OPERATOR_FUNCTIONS["ne"](self, other)

    def __lt__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["lt"](self, other)

    def __le__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["le"](self, other)

    def __gt__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["gt"](self, other)

    def __ge__(self, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS["ge"](self, other)
