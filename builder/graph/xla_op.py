"""XlaOp: one recorded instruction.

An XlaOp is a handle to a recorded op: its opcode, its inferred shape, its operands and attributes.
It has no data. Operators on it record the op of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import CodeType, MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.schema import SCHEMAS
from builder.support.display import Displayed
from builder.support.frames import shown_file, without_internal_frames
from builder.support.imports import extension
from builder.support.names import ExplainsAttributes
from builder.types.shape import ArrayShape, Shape, TupleShape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType
    from typing import SupportsIndex

    import numpy as np

    from builder.graph.computation import XlaComputation
    from builder.graph.xla_builder import XlaBuilder
    from builder.lib.indexing import Places

    Index = SupportsIndex | slice | EllipsisType | None | Sequence[Any] | np.ndarray[Any, Any]
    """An index of one dimension; an XlaOp has `__index__`, too."""

    Key = Index | tuple[Index, ...]


NO_ATTRIBUTES: Final[Mapping[str, Any]] = MappingProxyType({})

OPERATOR_FUNCTIONS: Final[dict[str, Callable[..., XlaOp]]] = {}
"""The functions that the operators of XlaOp call, by name. `builder.ops` fills this table."""

_BinaryMethod = Callable[["XlaOp", Any], "XlaOp"]

OPERATORS: Final = {
    "add": ("__add__", "add"),
    "sub": ("__sub__", "subtract"),
    "mul": ("__mul__", "multiply"),
    "division_operator": ("__truediv__", "divide"),
    "remainder_operator": ("__mod__", "remainder"),
    "pow": ("__pow__", "power"),
    "dot": ("__matmul__", ""),
    "and_": ("__and__", "bitwise_and"),
    "or_": ("__or__", "bitwise_or"),
    "xor": ("__xor__", "bitwise_xor"),
    "shift_left": ("__lshift__", "left_shift"),
    "right_shift_operator": ("__rshift__", "right_shift"),
    "eq": ("__eq__", "equal"),
    "ne": ("__ne__", "not_equal"),
    "lt": ("__lt__", "less"),
    "le": ("__le__", "less_equal"),
    "gt": ("__gt__", "greater"),
    "ge": ("__ge__", "greater_equal"),
    "neg": ("__neg__", ""),
    "abs": ("__abs__", ""),
    "not_": ("__invert__", ""),
}
"""For each name in `OPERATOR_FUNCTIONS`: the method of the operator, and the NumPy ufunc that a
NumPy scalar on the left of the operator calls."""

_BY_UFUNC: Final = {ufunc: name for name, (_, ufunc) in OPERATORS.items()}


class SourceLocation(NamedTuple):
    """The line of the user's program that recorded an op.

    In a notebook, `file` is the name of the cell, such as "In[3]".
    """

    file: str
    line: int
    column: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class OpMetadata(NamedTuple):
    """The metadata of an op, which does not affect its result.

    Attributes:
        name, frontend_attributes, sharding, op_type: see `XlaOp`.
        others: the other attributes that the operation had in the imported module, by name, as
            MLIR text; None if there are none.
        source: the source line set by `XlaBuilder.op_metadata`; None for the line that recorded
            the op.
        scope: the names of the enclosing blocks of `XlaBuilder.scope`, joined by "/"; `name` begins
            with it. None outside of such blocks.
    """

    name: str | None
    frontend_attributes: Mapping[str, str] | None
    sharding: Any
    others: Mapping[str, str] | None = None
    op_type: str | None = None
    source: SourceLocation | None = None
    scope: str | None = None


NO_METADATA: Final = OpMetadata(None, None, None)

_new_tuple: Final = tuple.__new__
_NO_OTHERS: Final = NO_METADATA[1:]


def only_named(name: str) -> OpMetadata:
    """Return metadata with only a name, as most parameters have it."""
    # A call of the class takes twice as long.
    return _new_tuple(OpMetadata, (name, *_NO_OTHERS))


def is_only_named(metadata: OpMetadata | None) -> bool:
    """Return whether metadata has nothing but a name."""
    return metadata is not None and metadata[1:] == _NO_OTHERS


def with_metadata(metadata: OpMetadata | None, **changes: Any) -> OpMetadata | None:
    """Return `metadata` with some fields changed; None if no field is set."""
    changed = (metadata or NO_METADATA)._replace(**changes)
    return None if changed == NO_METADATA else changed


def scoped_name(scope: str | None, name: str) -> str:
    """Return the name of an op in a block of `XlaBuilder.scope`: "SCOPE/NAME"."""
    if scope is None or name.startswith(f"{scope}/"):
        return name
    return f"{scope}/{name}"


_POSITIONS: dict[int, tuple[CodeType, list[tuple[int | None, ...]]]] = {}


def resolve_position(code: CodeType, lasti: int) -> tuple[int, int]:
    """Return line and column, both from 1, of the instruction at offset `lasti` of `code`."""
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


def _binary(name: str) -> tuple[_BinaryMethod, _BinaryMethod]:
    """Return two methods that record op `name`: ``__add__`` and the reflected ``__radd__``."""

    def method(self: XlaOp, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS[name](self, other)

    def reflected(self: XlaOp, other: Any) -> XlaOp:
        return OPERATOR_FUNCTIONS[name](other, self)

    return method, reflected


class XlaOp(Displayed, ExplainsAttributes):
    """A recorded instruction, created by the functions of `builder` and by builder methods.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder("example")
        >>> x = b.parameter(xb.f32[2, 3], "x")
        >>> y = x + x
        >>> y.opcode, y.shape, y.operands == (x, x)
        ('add', f32[2,3], True)
    """

    attributes: Mapping[str, Any]
    builder: XlaBuilder
    id: int
    metadata: OpMetadata | None
    opcode: str
    operands: tuple[XlaOp, ...]
    shape: Shape
    _code: CodeType | None
    _lasti: int

    # A dict gives the attributes docstrings.
    __slots__ = {
        "_code": "The code that recorded the op, or None.",
        "_lasti": "The offset of the instruction in `_code`.",
        "attributes": 'The attributes by name ("broadcast_dimensions", "to_apply").',
        "builder": "The XlaBuilder that recorded the op.",
        "id": "The index of the op in the builder, in the order of recording.",
        "metadata": "The name, type, frontend attributes and sharding, or None for most ops.",
        "opcode": 'The operation, such as "add" or "dot_general".',
        "operands": "The ops whose results the op uses.",
        "shape": "The inferred shape of the result.",
    }

    # Operators of pandas, whose priorities are at most 4000, would iterate over the op.
    __pandas_priority__ = 10_000

    def __init__(self, *_arguments: object, **_named: object) -> None:
        # `recording.record` makes ops without a call of this method, which would be slower.
        rule = "ops are recorded, not created by a call of the class"
        raise error_of(OperandError, "XlaOp", rule, "use b.parameter, b.constant or xb.add(x, y)")

    @property
    def name(self) -> str | None:
        """A name for readers of the printed computation, or None; every parameter has a name.

        It is `op_name` in the metadata of HLO. Assignable.
        """
        return None if self.metadata is None else self.metadata.name

    @name.setter
    def name(self, name: str | None) -> None:
        if not isinstance(name, (str, NoneType)):
            rule = "the name of an op must be a string or None"
            raise error_of(OperandError, "name", rule, got=brief(name))
        metadata = self.metadata
        if metadata is not None and name is not None:
            name = scoped_name(metadata.scope, name)
        self.metadata = with_metadata(metadata, name=name)

    @property
    def op_type(self) -> str | None:
        """The kind of operation in the program that the computation was made from, or None.

        It is `op_type` in the metadata of HLO. Assignable.
        """
        return None if self.metadata is None else self.metadata.op_type

    @op_type.setter
    def op_type(self, op_type: str | None) -> None:
        if op_type is not None and (not isinstance(op_type, str) or not op_type):
            rule = "op_type must be None or a non-empty string"
            raise error_of(OperandError, "op_type", rule, got=brief(op_type))
        self.metadata = with_metadata(self.metadata, op_type=op_type)

    @property
    def frontend_attributes(self) -> Mapping[str, str] | None:
        """A mapping of names to strings, for XLA's passes and backends, or None."""
        return None if self.metadata is None else self.metadata.frontend_attributes

    @property
    def sharding(self) -> Any:
        """The sharding of the result as text, or None. Assignable, also from a `MeshSharding`.

        The text is in GSPMD's form ("{replicated}") or Shardy's
        ("#sdy.sharding<@mesh, [{"x"}]>").
        """
        return None if self.metadata is None else self.metadata.sharding

    @sharding.setter
    @without_internal_frames
    def sharding(self, sharding: Any) -> None:
        text = None
        if sharding is not None:
            from builder.sharding import validation  # lazy import

            self.builder._check_open("sharding")
            checked = validation.check_sharding_type("sharding", sharding)
            text = validation.sharding_text("sharding", "op", self.shape, checked)
            validation.register_sharding(self.builder, "sharding", checked)
        self.metadata = with_metadata(self.metadata, sharding=text)

    @property
    def source(self) -> SourceLocation | None:
        """The line of the user's program that recorded the op, or None.

        In a block of `XlaBuilder.op_metadata` with a source line, that line.
        """
        metadata = self.metadata
        if metadata is not None and metadata.source is not None:
            return metadata.source
        code = self._code
        if code is None:
            return None
        line, column = resolve_position(code, self._lasti)
        return SourceLocation(shown_file(code.co_filename), line, column, code.co_qualname)

    @property
    def called_computations(self) -> tuple[XlaComputation, ...]:
        """The computations that the op applies: reducer, condition, body, branches."""
        found: list[XlaComputation] = []
        for name in SCHEMAS[self.opcode].computations:
            value = self.attributes.get(name)  # that of a custom call is optional
            found += value if isinstance(value, tuple) else [] if value is None else [value]
        return tuple(found)

    def __repr__(self) -> str:
        operands = ", ".join(f"%{o.id}" for o in self.operands)
        label = "" if self.name is None else f" {self.name!r}"
        return f"<XlaOp %{self.id}{label} = {self.shape} {self.opcode}({operands})>"

    def __copy__(self) -> XlaOp:
        return self  # an op never changes

    def __deepcopy__(self, _memo: object) -> XlaOp:
        return self

    def __reduce__(self) -> NoReturn:
        rule = "an op can't be pickled"
        fix = "build the computation, and pickle lowering.lower(computation).bytecode"
        raise error_of(OperandError, "pickle", rule, fix, got=repr(self))

    def __bool__(self) -> bool:
        raise OperandError(
            "an XlaOp has no truth value, because it is recorded and not computed",
            fix="use xb.select(pred, a, b) for each element, xb.conditional for a branch, "
            "xb.while_ for a loop, xb.and_ / xb.or_ / xb.not_ (or & | ~) for logic; "
            "`op is None` to test for a missing op",
            op="bool",
            **self._facts(),
        )

    def _facts(self) -> dict[str, Any]:
        """Return the facts of an error about a use of this op that Python has no value for."""
        return {"got": f"\n  {self!r}", "shapes": {"operand": self.shape}}

    def _no_value(
        self,
        target: str,
        fix: str = "build, compile and run the computation, and convert its result; or use ops, "
        "such as xb.sqrt(op) instead of math.sqrt(op)",
    ) -> OperandError:
        converter = target.rpartition(" ")[2]
        return OperandError(
            "an XlaOp has no value, because it is recorded and not computed, "
            f"so it can't be converted to {target}",
            fix=fix,
            op=converter,
            **self._facts(),
        )

    def __int__(self) -> int:
        raise self._no_value("an int")

    def __float__(self) -> float:
        raise self._no_value("a float")

    def __complex__(self) -> complex:
        raise self._no_value("a complex")

    def __index__(self) -> int:
        fix = "repeat ops with xb.while_, or pass a Python number: static=[...] in lowering.jit"
        raise self._no_value("an index", fix)

    def __array__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise self._no_value("a NumPy array")

    def __format__(self, specification: str) -> str:
        if specification:
            raise self._no_value("a number to format", "write {op} without a format specification")
        return str(self)

    def __round__(self, digits: int | None = None) -> NoReturn:
        fix = "use xb.round_nearest_even(op), which rounds as Python's round does"
        raise self._no_value("a number to round", fix)

    def __trunc__(self) -> NoReturn:
        raise self._no_value("an int", "use xb.convert_element_type(op, xb.s32)")

    def __floor__(self) -> NoReturn:
        raise self._no_value("an int", "use xb.floor(op)")

    def __ceil__(self) -> NoReturn:
        raise self._no_value("an int", "use xb.ceil(op)")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_kwargs: Any) -> XlaOp:
        """Record ``numpy_value + op`` as ``op.__radd__`` does; refuse other NumPy functions."""
        name = _BY_UFUNC.get(ufunc.__name__)
        if name is not None and method == "__call__" and len(inputs) == 2 and not _kwargs:
            return OPERATOR_FUNCTIONS[name](*inputs)
        if ufunc.__name__ == "matmul" and isinstance(inputs[0], np.ndarray) and not _kwargs:
            return OPERATOR_FUNCTIONS["dot"](*inputs)  # raises, as dot(array, op) does
        raise self._function_of_numpy(ufunc.__name__, reduces=method == "reduce")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        """Refuse the functions of NumPy that are not ufuncs."""
        raise self._function_of_numpy(function.__name__)

    def _function_of_numpy(self, name: str, *, reduces: bool = False) -> OperandError:
        meaning = self._meaning_for_numpy(name, reduces=reduces)
        return OperandError(
            "an XlaOp has no value, because it is recorded and not computed",
            fix=f"use {meaning or 'the ops of the package builder'}",
            op=name,
            context=(f"numpy.{name}",),
            **self._facts(),
        )

    def _meaning_for_numpy(self, name: str, *, reduces: bool) -> str | None:
        return extension("builder.unknown_names", "meaning_for_array", name, reduces=reduces)

    def _not_a_tuple(self, op: str, use: str, fix: str) -> ShapeInferenceError:
        rule = f"{use} requires a tuple"
        return error_of(
            ShapeInferenceError, op, rule, fix, got=self.shape, shapes={"operand": self.shape}
        )

    def __len__(self) -> int:
        if isinstance(self.shape, TupleShape):
            return len(self.shape.elements)
        fix = "use op.shape.dimensions for the sizes of an array"
        raise self._not_a_tuple("len", "len(op)", fix)

    @without_internal_frames
    def __getitem__(self, key: Key) -> XlaOp:
        """Return the part of an array, or the element of a tuple, at `key`.

        The part of an array is recorded as `slice`, `rev` and `reshape`, as far as needed, as
        `dynamic_slice` if an index is a scalar op, and as `gather` if an index is an array.
        ``x[:]`` is x.

        Args:
            key: for a tuple, the number of an element; see `get_tuple_element`. For an array, one
                of the following or a tuple of them, as in NumPy. The remaining dimensions are
                selected entirely.

                - An integer selects an index and removes the dimension; a negative one counts from
                  the end.
                - A slice of integers, with any step but 0, selects several. Its bounds are clamped
                  to the dimension. ``:`` selects all, and a dimension of bounded or unbounded size
                  permits nothing else.
                - None adds a dimension of size 1.
                - ``...`` selects as many dimensions entirely as there are others.
                - A scalar op of an integer type selects an index at run time, and removes the
                  dimension. It is clamped to the dimension, as in `dynamic_slice`: a negative one
                  selects the first index.
                - An array or a list of integers, or an op of an integer type, selects several
                  indices. NumPy's rules apply: the arrays, integers and scalar ops of a key are
                  broadcast with each other, and their sizes take the place of the first of these
                  entries, or come first in the result if a slice, None or ``...`` is between the
                  entries. Negative indices count from the end. Indices that are out of range at run
                  time are clamped; see ``x.at[key].get``.

        Raises:
            ShapeInferenceError: an index is out of range; there are more indices than dimensions;
                an index is a bool or no integer; arrays can't be broadcast; a dimension that is not
                selected entirely has a dynamic size.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x, i = b.parameter(xb.f32[4, 9]), b.parameter(xb.s32[()])
            >>> x[1:, -1].shape, x[None, ::2, ::-1].shape, x[i].shape
            (f32[3], f32[1,2,9], f32[9])
            >>> rows = b.parameter(xb.s32[2, 5])
            >>> x[rows].shape, x[[0, -1], 3].shape
            (f32[2,5,9], f32[2])
        """
        if isinstance(self.shape, TupleShape):
            return OPERATOR_FUNCTIONS["get_tuple_element"](self, key)
        return extension("builder.lib.indexing", "item_of", self, key)

    @property
    def at(self) -> Places:
        """The places of an array, for arrays with other elements at one of them.

        ``x.at[key]`` has the methods `set`, `add`, `mul`, `min` and `max`. They take an array of
        the shape of ``x[key]``, or a scalar or number for all elements, and return an array of x's
        shape; `apply` takes a function. Keys are those of ``x[key]``; `get` returns ``x[key]``. The
        update is recorded as `dynamic_update_slice`, with `select` if a slice has a step, and as
        `scatter` if an index is an array. See `builder.lib.indexing.Place`.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> cache, i, row = [b.parameter(s) for s in (xb.f32[8, 3], xb.s32[()], xb.f32[3])]
            >>> cache.at[i].set(row).shape, cache.at[:, 0].add(1.0).shape
            (f32[8,3], f32[8,3])
        """
        return extension("builder.lib.indexing", "Places", self)

    if not TYPE_CHECKING:  # type checkers report the assignment

        def __setitem__(self, index: Any, value: Any) -> NoReturn:
            raise self._unassignable("assigned to", index)

        def __delitem__(self, index: Any) -> NoReturn:
            raise self._unassignable("deleted", index)

    def _unassignable(self, what: str, index: Any) -> OperandError:
        is_plain = isinstance(index, int) or (
            isinstance(index, tuple) and all(isinstance(i, int) for i in index)
        )
        key = brief(index).strip("()") if is_plain else "index"
        rule = f"an op never changes, so its elements can't be {what}"
        fix = (
            f"record a new array: x = x.at[{key}].set(value), or x = xb.dynamic_update_slice("
            "x, update, start_indices)"
        )
        return error_of(OperandError, "op[...]", rule, fix, **self._facts())

    def __contains__(self, value: object) -> NoReturn:
        rule = "an XlaOp has no value to search"
        fix = "record the search: xb.reduce_all(xb.eq(x, value), False, xb.or_)"
        raise error_of(OperandError, "in", rule, fix, **self._facts())

    def __iter__(self) -> Iterator[XlaOp]:
        """Iterate over the elements of a tuple, so that `a, b = op` works."""
        if isinstance(self.shape, TupleShape):
            return (self[i] for i in range(len(self.shape.elements)))
        fix = "use xb.while_ for a loop over an array, [x[i] for i in range(n)] for its parts"
        raise self._not_a_tuple("get_tuple_element", "iteration", fix)

    # Ops hash by identity, because `==` records a comparison.
    __hash__ = object.__hash__

    # Where the op is on the left, `builder.ops` replaces the method with the op's function itself,
    # which saves a call.
    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("division_operator")  # refuses integers
    __mod__, __rmod__ = _binary("remainder_operator")  # refuses signed numbers
    __pow__, __rpow__ = _binary("pow")
    __and__, __rand__ = _binary("and_")
    __or__, __ror__ = _binary("or_")
    __xor__, __rxor__ = _binary("xor")
    __lshift__, __rlshift__ = _binary("shift_left")
    __rshift__, __rrshift__ = _binary("right_shift_operator")  # logical for unsigned types
    __lt__ = _binary("lt")[0]
    __le__ = _binary("le")[0]
    __gt__ = _binary("gt")[0]
    __ge__ = _binary("ge")[0]
    __eq__ = _binary("eq")[0]  # type: ignore[assignment]  # records an op, the document's Eq
    __ne__ = _binary("ne")[0]  # type: ignore[assignment]  # records an op, the document's Ne

    def __matmul__(self, other: Any) -> XlaOp:
        """Multiply as NumPy's matmul: `dot` up to rank 2, `builder.lib.matmul` above."""
        shapes = self.shape, getattr(other, "shape", None)
        if any(isinstance(shape, ArrayShape) and shape.rank > 2 for shape in shapes):
            return extension("builder.lib.matrix", "matmul", self, other)
        return OPERATOR_FUNCTIONS["dot"](self, other)

    def __floordiv__(self, other: Any) -> NoReturn:
        """Refuse ``//``, because XLA has no division that rounds down."""
        raise error_of(
            OperandError,
            "floor_divide",
            "the operator // rounds down, and XLA's division does not",
            "use xb.div(lhs, rhs), which rounds toward zero for integers, or xb.floor(lhs / rhs) "
            "for floating-point numbers",
            **self._facts(),
        )

    __rfloordiv__ = __divmod__ = __rdivmod__ = __floordiv__

    def __neg__(self) -> XlaOp:
        return OPERATOR_FUNCTIONS["neg"](self)

    def __pos__(self) -> XlaOp:
        return self

    def __abs__(self) -> XlaOp:
        return OPERATOR_FUNCTIONS["abs"](self)

    def __invert__(self) -> XlaOp:
        return OPERATOR_FUNCTIONS["not_"](self)


def is_parameter(op: XlaOp) -> bool:
    """Return whether an op is a parameter of its computation."""
    return op.opcode == "parameter"


def constant_value(op: XlaOp) -> np.ndarray[Any, Any] | None:
    """Return the elements of a constant; None for other ops."""
    return op.attributes["value"] if is_constant(op) else None


def is_constant(op: XlaOp) -> bool:
    """Return whether an op is a constant."""
    return op.opcode == "constant"


def is_tuple(op: XlaOp) -> bool:
    """Return whether an op makes a tuple of its operands."""
    return op.opcode == "tuple"


def is_element(op: XlaOp) -> bool:
    """Return whether an op is an element of a tuple, its operand."""
    return op.opcode == "get_tuple_element"


def tuple_parts(root: XlaOp) -> tuple[XlaOp, ...]:
    """Return the operands of an op that makes a tuple; of another op, the op itself."""
    return root.operands if is_tuple(root) else (root,)
