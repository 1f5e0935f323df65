"""XlaBuilder: records XlaOps and builds an XlaComputation from them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from builder.attributes.annotations import Annotations
from builder.checking import integer, integers
from builder.errors import BuilderError, OperandError, brief, error_of
from builder.graph.aliasing import BufferDonor, Donations, InputOutputAlias
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation, is_debug_call
from builder.graph.foreign_values import Purpose, foreign_result, foreign_root
from builder.graph.inlined_calls import InlinedCall
from builder.graph.recording import append, record, record_with_sharding, shared_attributes
from builder.graph.registry import rule_of
from builder.graph.xla_op import (
    NO_METADATA,
    OpMetadata,
    SourceLocation,
    XlaOp,
    constant_value,
    only_named,
    with_metadata,
)
from builder.layout.program_layouts import check_supported_layout, result_shape
from builder.support.caches import per_signature
from builder.support.display import Displayed
from builder.support.imports import extension
from builder.support.names import ExplainsAttributes
from builder.types.constant import constant_plan
from builder.types.shape import (
    TOKEN_SHAPE,
    ArrayShape,
    Shape,
    ShapeLike,
    TupleShape,
    leaf_count,
    shape_argument,
    without_layout,
)

if TYPE_CHECKING:
    from builder.attributes import ChannelHandleLike
    from builder.sharding.validation import ShardingLike, ShardingTree


# An attribute name in HLO's lexer, which has no quoted names.
_KEY: Final = r"[A-Za-z_][A-Za-z0-9_.\-]*"


_SCOPE_RULE: Final = 'has a name before and after each "/"'

_Plan = tuple[Shape, Mapping[str, Any]]
"""The shape of an op, and its attributes."""


@per_signature
def _parameter_attributes(number: int) -> Mapping[str, Any]:
    return MappingProxyType({"number": number})


@per_signature
def _iota_plan(shape: Shape, iota_dimension: int | None) -> _Plan:
    inferred = rule_of("iota")(shape, iota_dimension)
    return inferred, shared_attributes(iota_dimension=iota_dimension or 0)


def _replicated_leaves(shape: Shape, flags: Sequence[bool]) -> tuple[bool, ...]:
    """Check the `replicated_at_leaf_buffers` of a parameter; return () if all are false."""
    name = "replicated_at_leaf_buffers"
    if not isinstance(flags, (list, tuple)) or not all(isinstance(one, bool) for one in flags):
        rule = f"{name} must be a sequence of bools"
        raise error_of(OperandError, "parameter", rule, got=brief(flags))
    count = leaf_count(shape)
    if flags and len(flags) != count:
        rule = f"{name} must have a bool for each array, {count}"
        raise error_of(
            OperandError,
            "parameter",
            rule,
            got=f"{len(flags)} for {shape}",
            shapes={"shape": shape},
        )
    return tuple(flags) if any(flags) else ()


class _LastOp:
    """The default of `XlaBuilder.build`; None is the result of a function that forgot `return`."""

    def __repr__(self) -> str:
        return "the last op"


LAST_OP: Final[Any] = _LastOp()

_KNOWN_TO_JAX: Final[list[type[XlaOp]]] = []
"""`XlaOp`, once functions of jax refuse it with an error of this library.

This can't be done when `lowering` is imported, because a program may import jax later.
"""


class XlaBuilder(Displayed, ExplainsAttributes):
    """Records the ops of one computation, in order, and builds it.

    Ops that have operands are functions (``xb.add(x, y)``), which find the builder through their
    operands. Ops without operands are methods of this class: `parameter`, `constant`, `iota`.

    Args:
        name: the name of the computation.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder("affine")
        >>> x = b.parameter(xb.f32[32, 784], "x")
        >>> w = b.parameter("f32[784,10]", "w")
        >>> v = b.parameter(xb.f32[10], "bias")
        >>> y = xb.add(xb.dot(x, w), v, broadcast_dimensions=[1])
        >>> b.build(y).program_shape
        (x: f32[32,784], w: f32[784,10], bias: f32[10]) -> f32[32,10]
    """

    # A dict gives the attributes docstrings.
    __slots__ = {
        "_captured": "The captured values: the id of an op, the enclosing op and the op here.",
        "_child": "The builder of the callable that is being recorded here, or None.",
        "_current_metadata": "The metadata of the next op: name, type, sharding, or None.",
        "_donations": "The donated arguments, if this is the entry computation.",
        "_inlined_calls": "The recorded functions that have derivatives of their own.",
        "_is_open": "Whether ops can be recorded: not built, and no callable is being recorded.",
        "_last_tokens": "The last tokens of the infeeds and outfeeds that are ordered by default.",
        "_parameter_names": "The names of the parameters.",
        "_parent": "The enclosing builder, if this one records a callable.",
        "_purpose": "The description of the callable that this builder records, for messages.",
        "_sharding_form": 'The form of the program\'s shardings, or "" if there are none.',
        "_symbolic_sizes": "What `lowering.apply` knows of the unbounded sizes, or None.",
        "annotations": "The annotations of the imported module, or None.",
        "built": "Whether the computation is built.",
        "name": "The name of the computation.",
        "ops": "The recorded ops, in order.",
        "parameters": "The parameters by number.",
    }

    @explained
    def __init__(self, name: str = "computation") -> None:
        if not isinstance(name, str) or not name:
            raise OperandError("name must be a non-empty string", got=brief(name), op="XlaBuilder")
        self.name = name
        self.ops: list[XlaOp] = []
        self.parameters: dict[int, XlaOp] = {}
        self._parameter_names: set[str] = set()
        self.built = False
        # One flag, so that recording an op tests one condition.
        self._is_open = True
        self._child: XlaBuilder | None = None
        self._current_metadata: OpMetadata | None = None
        self._parent: XlaBuilder | None = None
        self._purpose: Purpose | None = None
        self._captured: dict[int, tuple[XlaOp, XlaOp]] = {}
        self._inlined_calls: list[InlinedCall] = []
        self._last_tokens: dict[str, XlaOp] = {}
        self._donations: Donations | None = None
        self._symbolic_sizes: Any = None
        self.annotations: Annotations | None = None
        # Set in the outermost builder.
        self._sharding_form = ""
        if not _KNOWN_TO_JAX and "jax" in sys.modules and "lowering" in sys.modules:
            _KNOWN_TO_JAX.append(XlaOp)
            extension("lowering.jax_interop.values", "refuse_ops")

    def __repr__(self) -> str:
        state = "built" if self.built else f"{len(self.ops)} ops"
        return f"<XlaBuilder {self.name!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        """Refuse `copy` and `pickle`: the ops belong to this builder."""
        rule = "a builder can't be copied or pickled"
        fix = "build the computation, and record its ops with xb.inline(computation, *operands)"
        raise error_of(OperandError, "copy", rule, fix, got=repr(self))

    def _innermost(self) -> XlaBuilder:
        """Return the builder of the innermost callable that is being recorded, by default self."""
        builder = self
        while builder._child is not None:
            builder = builder._child
        return builder

    def _check_open(self, op: str) -> None:
        """Raise BuilderError if the computation is already built."""
        if self.built:
            rule = f"builder {self.name!r} was already built"
            fix = "record every op before build(), or create a new XlaBuilder"
            raise error_of(BuilderError, op, rule, fix)

    def _target(self, op: str) -> XlaBuilder:
        """Return the builder that `innermost` returns; raise if it is already built."""
        builder = self._innermost()
        builder._check_open(op)
        return builder

    def parameter(
        self,
        shape: ShapeLike,
        name: str | None = None,
        *,
        number: int | None = None,
        sharding: ShardingTree = None,
        replicated_at_leaf_buffers: Sequence[bool] = (),
    ) -> XlaOp:
        """Record a parameter of the computation.

        Args:
            shape: the parameter's shape, or its text; a sequence of shapes for a tuple. A layout in
                the shape is the layout in which a compiled computation takes the argument. Callers
                still pass ordinary arrays, and ops see the shape without the layout.
            name: the parameter's name, which is also the keyword of a compiled computation's
                argument; by default "p0", "p1", ...
            number: the parameter's index; by default the next free index.
            sharding: the parameter's sharding, see `XlaBuilder.sharding`. For a tuple, pass one
                sharding for all elements, or a sequence nested like the tuple, with a sharding for
                each element. None for the sharding of the enclosing ``with`` block, if any.
            replicated_at_leaf_buffers: for each array of `shape`, in order, whether all replicas
                pass equal arguments. XLA may rely on it; the arguments are not compared.

        Returns:
            The parameter's value, of shape `shape` without the layout.

        Raises:
            BuilderError: the number or the name is already used; the number is out of range; the
                program already has shardings of the other form (tilings or meshes).
            ShapeInferenceError: the layout has padded dimensions, which XLA does not support; the
                sharding does not fit.
            ShapeTextError: the sharding is malformed.
            OperandError: the name is empty; `replicated_at_leaf_buffers` has another length.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> b.parameter(xb.f32[2, 3], "x")
            <XlaOp %0 'x' = f32[2,3] parameter()>
            >>> rows = xb.Mesh({"data": 2}).sharding("data", None)
            >>> b.parameter(xb.f32[2, 3], "y", sharding=rows).sharding
            '#sdy.sharding<@mesh, [{"data"}, {}]>'

        Not in Operation Semantics; XlaBuilder's Parameter.
        """
        if self.built:
            self._check_open("parameter")
        resolved = shape if type(shape) is ArrayShape else self._shape_of_parameter(shape, name)
        if number is None:
            number = len(self.parameters)
            while number in self.parameters:
                number += 1
        elif isinstance(number, bool) or not isinstance(number, int):
            rule = "number must be an integer"
            raise error_of(OperandError, "parameter", rule, got=brief(number))
        elif not 0 <= number < 2**31:
            got = f"{brief(number)} for {resolved}"
            rule = "number must be from 0 to 2**31 - 1"
            raise error_of(BuilderError, "parameter", rule, got=got)
        else:
            number = int(number)
        if name is None:
            name = f"p{number}"
        elif not isinstance(name, str):
            raise error_of(OperandError, "parameter", "name must be a string", got=brief(name))
        elif not name:
            rule = "name must not be empty"
            fix = f"omit the name; it defaults to 'p{number}'"
            raise error_of(
                OperandError,
                "parameter",
                rule,
                fix,
                got=f"'' for number {number} {resolved}",
                shapes={f"p{number}": resolved},
            )
        if number in self.parameters or name in self._parameter_names:
            raise self._duplicate_parameter(number, name, resolved)
        replicated: tuple[bool, ...] = ()
        if type(replicated_at_leaf_buffers) is not tuple or replicated_at_leaf_buffers:
            replicated = _replicated_leaves(resolved, replicated_at_leaf_buffers)
        if sharding is None:
            # The user's frame is behind this one and that of `explained`.
            return self._add_parameter(resolved, name, number, replicated, 4)
        text = self._sharding_of_parameter(resolved, sharding)
        return record_with_sharding(
            self, text, lambda: self._add_parameter(resolved, name, number, replicated)
        )

    def _shape_of_parameter(self, shape: Any, name: Any) -> Shape:
        if isinstance(name, (ArrayShape, TupleShape)) and isinstance(shape, str):
            rule = "the first argument is the shape"
            fix = f"write b.parameter({str(name)!r}, {brief(shape)})"
            raise error_of(OperandError, "parameter", rule, fix, got=f"{brief(shape)} and {name}")
        return shape_argument("parameter", "shape", shape)

    def _duplicate_parameter(self, number: int, name: str, shape: Shape) -> BuilderError:
        existing = self.parameters.get(number)
        duplicate, fix = f"number {number}", "omit number; parameters are then numbered in order"
        if existing is None:
            existing = next(p for p in self.parameters.values() if p.name == name)
            duplicate, fix = f"name {name!r}", "give each parameter a unique name"
        return BuilderError(
            f"{duplicate} is already used",
            got=f"\n  {existing.attributes['number']}: {existing.name!r} {existing.shape}\n"
            f"  {number}: {name!r} {shape}",
            fix=fix,
            op="parameter",
            shapes={str(existing.name): existing.shape, name: shape},
        )

    def _sharding_of_parameter(self, shape: Shape, sharding: Any) -> str:
        """Check a parameter's sharding, and return it as text."""
        from builder.sharding import text as sharding_text, validation  # lazy import

        texts, shardings = validation.leaf_shardings("parameter", "sharding", shape, sharding)
        leaf_texts = [text for text in texts if text is not None]
        if len(leaf_texts) < len(texts) or not leaf_texts:
            rule = "sharding must cover each array of the tuple"
            fix = "write '{replicated}' or mesh.sharding() for arrays that are not partitioned"
            raise error_of(
                OperandError,
                "parameter",
                rule,
                fix,
                got=f"{brief(sharding)} for {shape}",
                shapes={"shape": shape},
            )
        for used in shardings:
            validation.register_sharding(self, "parameter", used)
        if isinstance(shape, TupleShape):
            return sharding_text.join_leaf_texts(leaf_texts)
        return leaf_texts[0]

    def _add_parameter(
        self,
        shape: Shape,
        name: str,
        number: int,
        replicated: tuple[bool, ...] = (),
        depth: int = 2,
    ) -> XlaOp:
        """Record a parameter whose name and number are free; `depth` is that of `record`."""
        # The layout is a property of the entry, not of the value: ops see the shape without it.
        is_plain = type(shape) is ArrayShape and shape.layout is None
        value_shape = shape if is_plain else without_layout(shape)
        if shape is value_shape:
            attributes = _parameter_attributes(number)
        else:
            check_supported_layout("parameter", "shape", shape)
            attributes = {"number": number, "shape_with_layout": shape}
        if replicated:
            attributes = {**attributes, "replicated_at_leaf_buffers": replicated}
        op = record("parameter", value_shape, (), attributes, depth, self)
        metadata = op.metadata
        op.metadata = only_named(name) if metadata is None else metadata._replace(name=name)
        self.parameters[number] = op
        self._parameter_names.add(name)
        return op

    def constant(self, value: Any, element_type: Any = None) -> XlaOp:
        """Record a constant array.

        Args:
            value: a NumPy or ml_dtypes array or scalar, whose type is kept; an array of another
                library that implements ``__array__``, ``__array_interface__``, ``__dlpack__`` or
                the buffer protocol; a bool; or a Python number or nested lists of numbers, with
                `element_type`.
            element_type: the type for Python numbers; it must be able to represent them. The
                type of an array must match it (arrays are not converted).

        Returns:
            An op of the shape of `value`. A writable array is copied once, so that later writes do
            not change the computation; a read-only array is not copied. If an array repeats one
            element, as a result of `numpy.broadcast_to` does, only that element is stored.

        Raises:
            ConstantError: a number does not fit the type; a Python number has no type; the array's
                dtype has no primitive type (object, strings); the array can't be read.
            OperandError: the value is neither an array, a number nor lists of numbers.

        Example:
            >>> import builder as xb, numpy as np
            >>> b = xb.XlaBuilder()
            >>> b.constant(np.eye(2, dtype=np.float32)).shape, b.constant(1, xb.s8).shape
            (f32[2,2], s8[])

        Not in Operation Semantics; XlaBuilder's ConstantLiteral, ConstantR0, ConstantR1, ...
        """
        shape, attributes = constant_plan(value, element_type)
        target = self if self._is_open else self._target("constant")
        # The user's frame is behind this one and that of `explained`.
        return record("constant", shape, (), attributes, 3, target)

    def iota(self, shape: Any, iota_dimension: int | None = None) -> XlaOp:
        """Record an array that counts up from 0 along one dimension.

        Args:
            shape: the shape of the result: static, of integers, floating-point or complex numbers.
            iota_dimension: the dimension along which values increase; optional for rank 1.

        Returns:
            An array of that shape; for floating-point types the converted integers.

        Raises:
            ShapeInferenceError: the shape is not an array's, is dynamic, or has the element type
                pred; the dimension is out of range.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().iota(xb.s32[4, 8], 0).shape
            s32[4,8]

        Operation Semantics: Iota.
        """
        iota_shape = shape_argument("iota", "shape", shape)
        if iota_dimension is not None:
            iota_dimension = integer("iota", "iota_dimension", iota_dimension)
        inferred, attributes = _iota_plan(iota_shape, iota_dimension)
        return append(self._target("iota"), "iota", inferred, (), attributes)

    def replica_id(self) -> XlaOp:
        """Return the number of the replica that executes the program, from 0.

        Returns:
            A scalar u32.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().replica_id().shape
            u32[]

        Operation Semantics: ReplicaId.
        """
        return append(self._target("replica_id"), "replica_id", rule_of("replica_id")())

    def partition_id(self) -> XlaOp:
        """Return the number of the partition that executes the program, from 0 within each replica.

        Returns:
            A scalar u32.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().partition_id().shape
            u32[]

        Not in Operation Semantics; StableHLO's partition_id.
        """
        return append(self._target("partition_id"), "partition_id", rule_of("partition_id")())

    def create_token(self) -> XlaOp:
        """Record a token without dependencies, the first in a chain of ordered ops.

        Returns:
            A token.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().create_token().shape
            token[]

        Not in Operation Semantics; XlaBuilder's CreateToken.
        """
        return append(self._target("create_token"), "create_token", TOKEN_SHAPE)

    def infeed(self, shape: ShapeLike, config: str | bytes = "") -> XlaOp:
        """Read a value from the device's infeed, ordered after earlier calls of this method.

        `lowering.transfer_to_infeed` feeds a device. Infeeds of a computation must be totally
        ordered. This method orders the infeeds of one computation. Between a loop that contains
        infeeds and other infeeds there must be a data dependency, or a token (see
        `infeed_with_token`).

        Args:
            shape: the shape of the value, with the layout of the data sent to the device: an array,
                or a tuple of arrays. For an empty tuple nothing is read.
            config: a string or bytes for the device.

        Returns:
            The value.

        Raises:
            ShapeInferenceError: the shape is a tuple of tuples; the sharding is not supported for
                infeeds.
            OperandError: `shape` is not a shape.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().infeed(xb.f32[2, 3]).shape
            f32[2,3]

        Operation Semantics: Infeed.
        """
        return extension("builder.ops.host", "infeed", self._target("infeed"), shape, config)

    def recv(self, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
        """Receive the array that the `send` of the same channel sends in another computation.

        Args:
            shape: the shape of the array.
            channel_handle: a device-to-device channel, or its number. Each pair of a send and a
                recv needs a channel of its own.

        Returns:
            The array.

        Raises:
            ShapeInferenceError: the shape is not an array's; the channel has another type.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().recv(xb.f32[2], 1).shape
            f32[2]

        Operation Semantics: Recv.
        """
        return extension("builder.ops.host", "recv", self._target("recv"), shape, channel_handle)

    @explained
    def custom_call(self, target_name: str, shape: ShapeLike, **more: Any) -> XlaOp:
        """Call a registered function without operands; with operands, use ``xb.custom_call``.

        Args:
            target_name: the name that the function is registered by.
            shape: the shape of the result.
            more: the other arguments of ``xb.custom_call``, by name.

        Raises:
            ShapeInferenceError, OperandError: see ``xb.custom_call``.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().custom_call("clock", xb.s64[()], has_side_effect=True).shape
            s64[]

        Operation Semantics: CustomCall.
        """
        builder = self._target("custom_call")
        plan: _Plan = extension(
            "builder.ops.host", "custom_call_arguments", target_name, shape, more
        )
        return append(builder, "custom_call", plan[0], (), plan[1])

    @explained
    def python_call(
        self, function: Callable[..., Any], shape: ShapeLike, *, has_side_effect: bool = False
    ) -> XlaOp:
        """Call a Python function without arguments; with operands, use ``xb.python_call``.

        Args:
            function: a function that returns a NumPy array, or a tuple of arrays, of shape `shape`.
            shape: the shape of the result.
            has_side_effect: whether the function has side effects.

        Raises:
            OperandError: the function is not callable, or `shape` is not a shape.

        Example:
            >>> import builder as xb, numpy as np
            >>> b = xb.XlaBuilder()
            >>> b.python_call(lambda: np.zeros(3), xb.f64[3], has_side_effect=True).shape
            f64[3]

        Operation Semantics: CustomCall (a Python function in place of a C function).
        """
        builder = self._target("python_call")
        plan: _Plan = extension(
            "builder.ops.host", "python_call_plan", function, (), shape, has_side_effect
        )
        return append(builder, "python_call", plan[0], (), plan[1])

    @explained
    def call(self, computation: XlaComputation) -> XlaOp:
        """Call a computation without parameters; with operands, use ``xb.call``.

        Raises:
            SignatureError: the computation has parameters.

        Example:
            >>> import builder as xb
            >>> one = xb.XlaBuilder("one")
            >>> _ = one.constant(1, xb.s32)
            >>> xb.XlaBuilder().call(one.build()).shape
            s32[]

        Operation Semantics: Call.
        """
        if not isinstance(computation, XlaComputation):
            rule = "computation must be an XlaComputation"
            raise error_of(OperandError, "call", rule, got=brief(computation))
        shape = rule_of("call")(computation.signature, ())
        return append(self._target("call"), "call", shape, (), {"to_apply": computation})

    @explained
    def inline(self, computation: XlaComputation) -> XlaOp:
        """Record the ops of a computation without parameters; with operands, use ``xb.inline``.

        Raises:
            SignatureError: the computation has parameters.

        Example:
            >>> import builder as xb
            >>> ones = xb.XlaBuilder("ones")
            >>> _ = xb.broadcast(ones.constant(1, xb.s32), [2])
            >>> xb.XlaBuilder().inline(ones.build())
            <XlaOp %1 = s32[2] broadcast_in_dim(%0)>
        """
        builder = self._target("inline")
        return extension("builder.rewriting.copying", "inline_into", computation, (), builder)

    @explained
    def empty_tuple(self) -> XlaOp:
        """Record the tuple without elements.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().empty_tuple().shape
            ()

        Operation Semantics: Tuple.
        """
        return append(self._target("empty_tuple"), "tuple", TupleShape(()))

    @explained
    def frontend_attributes(self, attributes: Mapping[str, str]) -> AbstractContextManager[None]:
        """Add frontend attributes to the ops recorded in a ``with`` block.

        The attributes of enclosing blocks are added too. The ops of callables passed to while_,
        conditional and call in the block have all these attributes, but not the ops of computations
        passed to reductions and to map, which XLA treats as part of one op.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2])
            >>> with b.frontend_attributes({"stage": "1"}):
            ...     y = x + x
            >>> y.frontend_attributes
            {'stage': '1'}
        """
        name, rule = "frontend_attributes", "attributes must map strings to strings"
        if not isinstance(attributes, Mapping):
            raise error_of(OperandError, name, rule, got=brief(attributes))
        for key, value in attributes.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                got = f"{brief(key)}: {brief(value)}"
                raise error_of(OperandError, name, rule, got=got)
            if not re.fullmatch(_KEY, key):
                rule = (
                    "keys must consist of ASCII letters, digits, '_', '.' and '-', and begin with"
                )
                raise error_of(OperandError, name, f"{rule} a letter or '_'", got=brief(key))
        outer = (self._innermost()._current_metadata or NO_METADATA).frontend_attributes
        return self._metadata_block(frontend_attributes={**(outer or {}), **attributes})

    @explained
    def op_metadata(
        self,
        *,
        op_type: str | None = None,
        op_name: str | None = None,
        source_file: str | None = None,
        source_line: int | None = None,
    ) -> AbstractContextManager[None]:
        """Set the metadata of the ops recorded in a ``with`` block.

        For front ends: the ops refer to the program that the computation is made from, instead of
        to the Python code that records them. Profilers and XLA's messages show the metadata.
        Modules have it in the locations of operations, HLO text in ``metadata={...}``.

        Args:
            op_type: the kind of operation in that program, see `XlaOp.op_type`.
            op_name: the name of the ops, see `XlaOp.name`. Parameters keep their names.
            source_file, source_line: the source of the ops; pass both or none.

        An argument of None keeps the value of the enclosing block, if any.

        Raises:
            OperandError: a text is empty or not a string; only one of `source_file` and
                `source_line` is passed; the line is not from 1 to 2**31 - 2.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2])
            >>> with b.op_metadata(op_type="Softmax", op_name="attention/softmax"):
            ...     y = xb.exp(x)
            >>> y.op_type, y.name
            ('Softmax', 'attention/softmax')

        XlaBuilder's SetOpMetadata, SwapOpMetadata, ClearOpMetadata.
        """
        texts = {"op_type": op_type, "op_name": op_name, "source_file": source_file}
        for argument, text in texts.items():
            if text is not None and (not isinstance(text, str) or not text):
                rule = f"{argument} must be a non-empty string"
                raise error_of(OperandError, "op_metadata", rule, got=brief(text))
        changes: dict[str, Any] = {"op_type": op_type, "name": op_name}
        if source_file is not None and source_line is not None:
            line = integer("op_metadata", "source_line", source_line)
            # Code objects, in which an import stores source lines, have no larger lines.
            if not 0 < line < 2**31 - 1:
                rule = "source_line must be from 1 to 2**31 - 2"
                raise error_of(OperandError, "op_metadata", rule, got=line)
            changes["source"] = SourceLocation(source_file, line, 1, "")
        elif source_file is not None or source_line is not None:
            got = f"source_file {brief(source_file)} and source_line {brief(source_line)}"
            rule = "a source needs a file and a line"
            raise error_of(OperandError, "op_metadata", rule, "pass both or none", got=got)
        return self._metadata_block(**{k: v for k, v in changes.items() if v is not None})

    def scope(self, name: str) -> AbstractContextManager[None]:
        """Put the ops recorded in a ``with`` block in a named scope, such as a layer of a model.

        The name of an op in the block begins with the name of the scope: "layer1/add" for an op
        without a name of its own, "layer1/x" for one that is called "x". Scopes nest:
        "encoder/layer1/add". Parameters keep their names. Modules have the names in the locations
        of operations, HLO text in ``metadata={op_name=...}``, so profilers group by them, as by
        those of `jax.named_scope`. `XlaComputation.draw` draws a frame around the ops.

        Args:
            name: the name; with "/" for several scopes at once.

        Raises:
            OperandError: `name` is empty or not a string, or begins or ends with "/".

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2], "x")
            >>> with b.scope("encoder"), b.scope("layer1"):
            ...     y = xb.exp(x)
            ...     y.name = "weights"
            ...     z = y + x
            >>> y.name, z.name
            ('encoder/layer1/weights', 'encoder/layer1/add')
        """
        if not isinstance(name, str) or not name or "" in name.split("/"):
            rule = f"name must be a non-empty string that {_SCOPE_RULE}"
            raise error_of(OperandError, "scope", rule, 'write b.scope("layer1")', got=brief(name))
        outer = self._innermost()._current_metadata
        prefix = None if outer is None else outer.scope
        return self._metadata_block(scope=name if prefix is None else f"{prefix}/{name}")

    @contextmanager
    def _metadata_block(self, **changes: Any) -> Iterator[None]:
        """Change fields of the metadata of the ops recorded in a ``with`` block.

        The public methods check the arguments. Errors raised in this generator would not report the
        user's line, because contextlib is the caller.
        """
        target = self._innermost()
        outer = target._current_metadata or NO_METADATA
        target._current_metadata = with_metadata(outer, **changes)
        try:
            yield
        finally:
            before = {name: getattr(outer, name) for name in changes}
            target._current_metadata = with_metadata(target._current_metadata, **before)

    @explained
    def sharding(self, sharding: ShardingLike | None) -> AbstractContextManager[None]:
        """Set the sharding of results of ops recorded in a ``with`` block; None for no sharding.

        The sharding is how a result is distributed over the devices of a program that XLA
        partitions. XLA propagates shardings to values that have none. A sharding that partitions
        arrays is not set on scalars and tokens. If a function of `builder.lib` records an op whose
        shape the sharding does not fit, the sharding is not set on that op.

        Args:
            sharding: a tiling in GSPMD's text form (see `parse_tiling`), or a sharding by the axes
                of a mesh (`Mesh.sharding`), which Shardy partitions by. One program uses one of the
                two forms.

        Raises:
            OperandError: `sharding` has neither form.
            ShapeTextError: the text is not a tiling.
            BuilderError: the program already has shardings of the other form, or another mesh with
                the same name. An op in the block whose shape the sharding does not fit raises
                ShapeInferenceError, unless a function of `builder.lib` records it.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[8, 2])
            >>> with b.sharding("{devices=[2,1]<=[2]}"):
            ...     y = x + x
            >>> y.sharding
            '{devices=[2,1]<=[2]}'
        """
        self._check_sharding("sharding", sharding)
        return self._metadata_block(sharding=sharding)

    @explained
    def set_sharding(self, sharding: ShardingLike | None) -> None:
        """Set the sharding of ops recorded from now on; None for no sharding, which is the default.

        At the end of a ``with b.sharding(...)`` block the sharding from before the block is
        restored.

        Args:
            sharding: see `sharding`.

        Raises:
            OperandError, ShapeTextError, BuilderError: see `sharding`.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> b.set_sharding(xb.Mesh({"x": 2}).sharding("x"))
            >>> x = b.parameter(xb.f32[8], "x")
            >>> b.set_sharding(None)
            >>> x.sharding, (x + x).sharding
            ('#sdy.sharding<@mesh, [{"x"}]>', None)

        XlaBuilder's SetSharding, ClearSharding.
        """
        self._check_sharding("set_sharding", sharding)
        target = self._innermost()
        target._current_metadata = with_metadata(target._current_metadata, sharding=sharding)

    def _check_sharding(self, op: str, sharding: ShardingLike | None) -> None:
        """Raise unless `sharding` is None or can be the sharding of ops recorded now."""
        if sharding is not None:
            from builder.sharding import validation  # lazy import

            checked = validation.check_sharding_type(op, sharding)
            validation.register_sharding(self._innermost(), op, checked)

    @explained
    def setup_alias(
        self, output_index: Sequence[int], param_number: int, param_index: Sequence[int] = ()
    ) -> None:
        """Let the compiled program write a result into the memory of an argument.

        This saves memory if the argument is not needed after the call, such as the old state of a
        training step: XLA may then allocate no memory for the result. If the caller passes a
        jax.Array, the call deletes it; a NumPy array stays unchanged, because its copy is used. The
        alias has an effect only if this computation is compiled, not if another one calls it.

        Args:
            output_index: the index of the result in the root's tuple, such as [1, 0]; [] if the
                root is an array.
            param_number: the number of the parameter, which must be recorded already.
            param_index: the index in the parameter if the parameter is a tuple, otherwise ().

        Raises:
            BuilderError: the computation is already built; there is no such parameter yet; the
                result or the argument is already aliased; the argument is a donor.
            ShapeInferenceError: the parameter has no array of fixed sizes at `param_index`. `build`
                checks that the result has an array of the same shape at `output_index`.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder("step")
            >>> state = b.parameter(xb.f32[2], "state")
            >>> b.setup_alias([0], 0)
            >>> step = b.build(xb.tuple(state + state, xb.neg(state)))
            >>> step.aliases
            (InputOutputAlias(output_index=(0,), param_number=0, param_index=()),)
            >>> print(str(step).splitlines()[0].partition(", entry")[0])
            HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }

        XlaBuilder's SetUpAlias.
        """
        output = integers("setup_alias", "output_index", output_index)
        number = integer("setup_alias", "param_number", param_number)
        index = integers("setup_alias", "param_index", param_index)
        alias = InputOutputAlias(output, number, index)
        self._open_donations("setup_alias").add_alias(alias, self.parameters.get(number))

    @explained
    def add_buffer_donor(self, param_number: int, param_index: Sequence[int] = ()) -> None:
        """Let the compiled program reuse the memory of an argument for any purpose.

        As with `setup_alias`, a jax.Array passed as the argument is deleted by the call, and a
        NumPy array is unchanged.

        Args:
            param_number: the number of the parameter, which must be recorded already.
            param_index: the index in the parameter if the parameter is a tuple, otherwise ().

        Raises:
            BuilderError: the computation is already built; there is no such parameter yet; the
                argument is already aliased or a donor.
            ShapeInferenceError: the parameter has no array of fixed sizes at `param_index`.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2], "x")
            >>> b.add_buffer_donor(0)
            >>> b.build(x + x).donors
            (BufferDonor(param_number=0, param_index=()),)

        XlaBuilder's AddBufferDonor.
        """
        number = integer("add_buffer_donor", "param_number", param_number)
        donor = BufferDonor(number, integers("add_buffer_donor", "param_index", param_index))
        self._open_donations("add_buffer_donor").add_donor(donor, self.parameters.get(number))

    def _open_donations(self, op: str) -> Donations:
        self._check_open(op)
        if self._donations is None:
            self._donations = Donations()
        return self._donations

    def _adopt(self, opcode: str, op: XlaOp) -> XlaOp:
        """Return the op that represents `op` in this builder; capture `op` of an outer builder."""
        if op.builder is self:
            return op
        captured = self._captured.get(id(op))
        if captured is not None:
            return captured[1]
        enclosing = self._parent
        while enclosing is not None and enclosing is not op.builder:
            enclosing = enclosing._parent
        if self._parent is None or enclosing is None:
            raise foreign_result(opcode, op, self)
        outer = self._parent._adopt(opcode, op)
        constant = constant_value(outer)
        if constant is not None and constant.ndim == 0:
            # Recording a scalar constant again is cheaper than passing it as an operand.
            inner = append(self, "constant", outer.shape, (), outer.attributes)
        else:
            inner = append(self, "captured", outer.shape)
        inner._code, inner._lasti = op._code, op._lasti
        inner.metadata = with_metadata(inner.metadata, name=op.name)
        self._captured[id(op)] = (outer, inner)
        return inner

    @explained
    def build(
        self,
        root: XlaOp = LAST_OP,
        *,
        result: ShapeLike | None = None,
        result_sharding: ShardingTree = None,
    ) -> XlaComputation:
        """Build the computation; nothing can be recorded afterwards.

        Args:
            root: the op whose value is the result; by default the last one recorded, apart from
                prints and checks.
            result: the root's shape with the layouts in which a compiled computation returns the
                result, such as "f32[2,3]{0,1}"; None for the default layouts.
            result_sharding: the sharding of the result, see `sharding`. For a tuple, pass one
                sharding for all elements, or a sequence nested like the tuple, with a sharding or
                None for each element. XLA uses the sharding only if this computation is the entry
                of the program, not if another computation calls it.

        Raises:
            BuilderError: the computation is already built; nothing is recorded; the root is None or
                not an op of this builder; a parameter number is missing.
            ShapeInferenceError: `result` differs from the root's shape by more than layouts, or its
                layout has padded dimensions, which XLA does not support; an aliased result is not
                an array of the argument's shape; a sharding does not fit.
            ShapeTextError, OperandError: `result_sharding` is not a sharding, or not nested like
                the result.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder("double")
            >>> x = b.parameter(xb.f32[4], "x")
            >>> b.build(x + x).program_shape
            (x: f32[4]) -> f32[4]

            With column-major layouts of the argument and the result:

            >>> b = xb.XlaBuilder("double")
            >>> x = b.parameter("f32[2,3]{0,1}", "x")
            >>> b.build(x + x, result="f32[2,3]{0,1}").program_shape
            (x: f32[2,3]{0,1}) -> f32[2,3]{0,1}

            With rows distributed over the devices of a mesh:

            >>> b = xb.XlaBuilder("double")
            >>> rows = xb.Mesh({"data": 2}).sharding("data")
            >>> x = b.parameter("f32[2,3]", "x", sharding=rows)
            >>> b.build(x + x, result_sharding=rows).annotations.result_shardings
            ('#sdy.sharding<@mesh, [{"data"}, {}]>',)
        """
        self._check_open("build")
        if self._child is not None:
            rule = f"{self._child._purpose} is still being recorded into {self.name!r}"
            fix = "return the result from the callable, and call build() after the op that takes it"
            raise error_of(BuilderError, "build", rule, fix)
        if root is LAST_OP:
            if not self.ops:
                raise BuilderError(f"builder {self.name!r} has recorded no op", op="build")
            # Prints and checks have no value.
            values = (op for op in reversed(self.ops) if not is_debug_call(op))
            root = next(values, self.ops[-1])
        elif not isinstance(root, XlaOp):
            rule = "root must be an XlaOp"
            fix = "combine several results with xb.tuple(a, b)"
            if root is None:
                fix = "return the op from the function that records it; build() takes the last op"
            raise error_of(BuilderError, "build", rule, fix, got=brief(root))
        elif root.builder is not self:
            raise foreign_root(root, self)
        count = len(self.parameters)
        for number in range(count):
            if number not in self.parameters:
                existing = ", ".join(
                    f"{n} ({self.parameters[n].name!r})" for n in sorted(self.parameters)
                )
                raise BuilderError(
                    f"parameter numbers must run from 0 to {count - 1} without a gap; "
                    f"number {number} is missing from builder {self.name!r}",
                    got=existing,
                    fix=f"record parameter(..., number={number}), or omit all numbers; parameters "
                    "are then numbered in order",
                    op="build",
                    shapes={str(p.name): p.shape for p in self.parameters.values()},
                )
        shape = None if result is None else result_shape("build", root.shape, result)
        donations = self._donations or Donations()
        donations.check_results(root.shape, self.parameters)
        if result_sharding is not None:
            self._set_result_shardings(root.shape, result_sharding)
        self.built = True
        self._is_open = False
        return XlaComputation(
            self.name,
            self.ops,
            root,
            tuple([self.parameters[n] for n in range(count)]),
            shape,
            aliases=tuple(sorted(donations.aliases.values())),
            donors=tuple(sorted(donations.donors)),
            annotations=self.annotations,
            sharding_form=self._sharding_form,
            inlined_calls=self._inlined_calls,
        )

    def _set_result_shardings(self, shape: Shape, sharding: Any) -> None:
        from builder.sharding import validation  # lazy import

        texts, shardings = validation.leaf_shardings("build", "result_sharding", shape, sharding)
        for used in shardings:
            validation.register_sharding(self, "build", used)
        annotations = self.annotations or Annotations()
        self.annotations = annotations._replace(result_shardings=tuple(texts))
