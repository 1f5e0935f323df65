"""XlaBuilder: records XlaOps and builds an XlaComputation from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from builder.attributes.annotations import Annotations
from builder.errors import BuilderError, OperandError, brief
from builder.graph.aliasing import BufferDonor, Donations, InputOutputAlias
from builder.graph.computation import XlaComputation
from builder.graph.recording import append
from builder.graph.xla_op import OpMetadata, XlaOp, with_metadata
from builder.layout.program_layouts import check_supported_layout, result_shape
from builder.support.extensions import extension
from builder.support.signatures import per_signature
from builder.types.constant import constant_plan
from builder.types.shape import (
    TOKEN_SHAPE,
    ArrayShape,
    Shape,
    ShapeLike,
    TupleShape,
    shape_argument,
    without_layout,
)

if TYPE_CHECKING:
    from builder.attributes import ChannelHandleLike
    from builder.sharding.validation import ShardingLike, ShardingTree

__all__ = ["XlaBuilder"]

# What HLO's lexer takes for the name of an attribute; it has no quoted ones.
_KEY: Final = r"[A-Za-z_][A-Za-z0-9_.\-]*"


@per_signature
def _id_shape(op: str) -> Shape:
    from builder.shape_inference import collectives  # inference is loaded after this module

    return collectives.replica_id() if op == "replica_id" else collectives.partition_id()


@per_signature
def _numbered(number: int) -> Mapping[str, Any]:
    """The attributes of a parameter, shared by those of the same number."""
    return MappingProxyType({"number": number})


@per_signature
def _iota_plan(shape: Shape, iota_dimension: int | None) -> tuple[Shape, Mapping[str, int]]:
    from builder.shape_inference import reshaping  # inference is loaded after this module

    inferred, dimension = reshaping.iota.strict(shape, iota_dimension)
    return inferred, MappingProxyType({"iota_dimension": dimension})


class XlaBuilder:
    """Records the ops of one computation, in order, and builds it.

    Ops that have operands are functions (``xb.add(x, y)``): they find their builder through their
    operands. Ops without operands are methods here: `parameter`, `constant`, `iota`.

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

    __slots__ = (
        "annotations",
        "built",
        "captured",
        "child",
        "current_metadata",
        "donations",
        "is_open",
        "last_tokens",
        "name",
        "ops",
        "parameter_names",
        "parameters",
        "parent",
        "purpose",
        "sharding_form",
    )

    def __init__(self, name: str = "computation") -> None:
        if not isinstance(name, str) or not name:
            raise OperandError(
                f"XlaBuilder: name must be a string, not an empty one, got {brief(name)}"
            )
        self.name = name
        self.ops: list[XlaOp] = []
        self.parameters: dict[int, XlaOp] = {}
        self.parameter_names: set[str] = set()
        self.built = False
        # One flag says that nothing special is going on, so that recording asks one question:
        # false once built, and while the callable of a nested computation is being recorded.
        self.is_open = True
        self.child: XlaBuilder | None = None
        self.current_metadata: OpMetadata | None = None
        # Of a builder that records a callable: who encloses it, for which argument of which op,
        # and the enclosing values that it uses (id of the op -> the op, what stands for it here).
        self.parent: XlaBuilder | None = None
        self.purpose = ""
        self.captured: dict[int, tuple[XlaOp, XlaOp]] = {}
        # Of the infeeds and outfeeds that are ordered by themselves: the token of the last one.
        self.last_tokens: dict[str, XlaOp] = {}
        # Of the program that is entered by what is built: whose memory it takes over, and what a
        # module said that it was imported from.
        self.donations: Donations | None = None
        self.annotations: Annotations | None = None
        # In whose words the shardings of a program are said, of the outermost builder.
        self.sharding_form = ""

    def __repr__(self) -> str:
        state = "built" if self.built else f"{len(self.ops)} ops"
        return f"<XlaBuilder {self.name!r}, {state}>"

    def innermost(self) -> XlaBuilder:
        """The builder that records now: this one, or that of the callable being recorded."""
        builder = self
        while builder.child is not None:
            builder = builder.child
        return builder

    def check_open(self, op: str) -> None:
        """Raises BuilderError when the computation has been built already."""
        if self.built:
            raise BuilderError(
                f"{op}: builder {self.name!r} was already built\n"
                f"fix: record every op before build(), or begin a new XlaBuilder",
                op=op,
            )

    def parameter(
        self,
        shape: ShapeLike,
        name: str | None = None,
        *,
        number: int | None = None,
        sharding: ShardingTree = None,
    ) -> XlaOp:
        """An argument of the computation.

        Args:
            shape: its shape, as a shape or its text; a sequence of shapes for a tuple. A layout
                in it is the one in which a compiled computation takes the argument; callers give
                ordinary arrays all the same, and ops see the shape without it.
            name: its name, by which a compiled computation takes it as well; "p0", "p1", ... when
                none is given.
            number: its position among the arguments; the next free one when none is given.
            sharding: how it lies on several devices, as `sharding` takes it; of a tuple one for
                all of it, or a sequence of one for each element, as they are nested. None for the
                one of the block that it is recorded in, if any.

        Returns:
            The argument's value, of that shape.

        Raises:
            BuilderError: the number or the name is taken already, or the number is negative; or
                other shardings of the program are in other words.
            ShapeInferenceError: it has a layout with padded dimensions, which XLA lacks; or the
                sharding does not fit it.
            ShapeTextError: the sharding is malformed.
            OperandError: the name is empty.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> b.parameter(xb.f32[2, 3], "x")
            <XlaOp %0 'x' = f32[2,3] parameter()>
            >>> rows = xb.Mesh({"data": 2}).sharding("data", None)
            >>> b.parameter(xb.f32[2, 3], "y", sharding=rows).sharding
            '#sdy.sharding<@mesh, [{"data"}, {}]>'

        Operation Semantics: Parameter.
        """
        if self.built:
            self.check_open("parameter")
        if isinstance(shape, (ArrayShape, TupleShape)):
            resolved: Shape = shape
        else:
            resolved = shape_argument("parameter", "shape", shape)
        if name is not None and not isinstance(name, str):
            raise OperandError(f"parameter: name is a string, got {brief(name)}", op="parameter")
        if number is None:
            number = len(self.parameters)
            while number in self.parameters:
                number += 1
        elif isinstance(number, bool) or not isinstance(number, int):
            raise OperandError(
                f"parameter: number must be a whole number, got {brief(number)}",
                op="parameter",
            )
        if not 0 <= number < 2**31:
            raise BuilderError(
                f"parameter: numbers begin at 0, got {brief(number)} for {resolved}",
                op="parameter",
            )
        taken = self.parameters.get(number)
        if taken is not None:
            raise BuilderError(
                f"parameter: number {number} is taken already, got\n"
                f"  {number}: {taken.name!r} {taken.shape}\n"
                f"  {number}: {name!r} {resolved}\n"
                f"fix: leave number out and parameters are numbered in order",
                op="parameter",
                shapes={str(taken.name): taken.shape, str(name): resolved},
            )
        if name == "":
            raise OperandError(
                f"parameter: a name is not empty, got '' for number {number} {resolved}\n"
                f"fix: leave the name out, and it is called 'p{number}'",
                op="parameter",
                shapes={f"p{number}": resolved},
            )
        label = f"p{number}" if name is None else name
        if label in self.parameter_names:
            other = next(p for p in self.parameters.values() if p.name == label)
            raise BuilderError(
                f"parameter: the name {label!r} is taken already, got\n"
                f"  {other.attributes['number']}: {label!r} {other.shape}\n"
                f"  {number}: {label!r} {resolved}\n"
                f"fix: give each parameter a name of its own",
                op="parameter",
                shapes={label: resolved},
            )
        if sharding is None:
            return self.add_parameter(resolved, label, int(number))
        text = self._sharding_of_parameter(resolved, sharding)
        around = self.current_metadata
        self.current_metadata = with_metadata(around, sharding=None)
        try:
            op = self.add_parameter(resolved, label, int(number))
        finally:
            self.current_metadata = around
        op.metadata = with_metadata(op.metadata, sharding=text)
        return op

    def _sharding_of_parameter(self, shape: Shape, sharding: Any) -> str:
        """The text of the sharding that was given with a parameter."""
        from builder.sharding import text as texts, validation as saying

        found, said = saying.shardings_on_leaves("parameter", "sharding", shape, sharding)
        each = [text for text in found if text is not None]
        if len(each) < len(found) or not each:
            raise OperandError(
                f"parameter: sharding must say of each array of a tuple how it lies on devices, "
                f"got {brief(sharding)} for {shape}\n"
                f"fix: '{{replicated}}', or mesh.sharding(), for those that are whole everywhere",
                op="parameter",
                shapes={"shape": shape},
            )
        for one in said:
            saying.register_sharding(self, "parameter", one)
        return texts.join_leaf_texts(each) if isinstance(shape, TupleShape) else each[0]

    def add_parameter(self, shape: Shape, name: str, number: int) -> XlaOp:
        """`parameter` where the name and the number are known to be free."""
        # The layout is a fact of the entry, not of the value: ops see the shape without it.
        shape_of_value = without_layout(shape)
        if shape is shape_of_value:
            attributes = _numbered(number)
        else:
            check_supported_layout("parameter", "shape", shape)
            attributes = {"number": number, "shape_with_layout": shape}
        op = append(self, "parameter", shape_of_value, (), attributes)
        metadata = op.metadata
        op.metadata = (
            OpMetadata(name, None, None) if metadata is None else metadata._replace(name=name)
        )
        self.parameters[number] = op
        self.parameter_names.add(name)
        return op

    def constant(self, value: Any, element_type: Any = None) -> XlaOp:
        """A constant array.

        Args:
            value: a NumPy or ml_dtypes array or scalar, whose type is kept; a bool; or a Python
                number or nested lists of them, with `element_type`.
            element_type: the type for Python numbers, which must be able to hold them. An array
                is taken only if it has this type already (no conversion happens).

        Returns:
            An op whose shape is that of `value`. A writable array is copied once, so that later
            writes to it do not reach the computation; a read-only one is not copied. Of one that
            repeats one element, as `numpy.broadcast_to` makes them, that element is held.

        Raises:
            ConstantError: the type can't hold the value, a Python number came without a type, or
                the array's dtype has no primitive type (object, strings).

        Example:
            >>> import builder as xb, numpy as np
            >>> b = xb.XlaBuilder()
            >>> b.constant(np.eye(2, dtype=np.float32)).shape, b.constant(1, xb.s8).shape
            (f32[2,2], s8[])

        Operation Semantics: Constant (XlaBuilder's ConstantLiteral, ConstantR0, ConstantR1, ...).
        """
        shape, attributes = constant_plan(value, element_type)
        target = self
        if not self.is_open:
            target = self.innermost()
            target.check_open("constant")
        return append(target, "constant", shape, (), attributes, 2)

    def iota(self, shape: Any, iota_dimension: int | None = None) -> XlaOp:
        """An array that counts up from 0 along one dimension.

        Args:
            shape: the shape of the result, static, of integers, floating-point or complex numbers.
            iota_dimension: the dimension along which values grow; may be left out for rank 1.

        Returns:
            An array of that shape; for floating-point types the integers converted.

        Raises:
            ShapeInferenceError: no array, dynamic, of preds, or the dimension is out of range.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().iota(xb.s32[4, 8], 0).shape
            s32[4,8]

        Operation Semantics: Iota.
        """
        from builder.check import integer  # inference is loaded after this module

        wanted = shape_argument("iota", "shape", shape)
        if iota_dimension is not None:
            iota_dimension = integer("iota", "iota_dimension", iota_dimension)
        inferred, attributes = _iota_plan(wanted, iota_dimension)
        target = self.innermost()
        target.check_open("iota")
        return append(target, "iota", inferred, (), attributes)

    def replica_id(self) -> XlaOp:
        """The number of the replica that runs the program, from 0: another on each of them.

        Returns:
            A scalar u32.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().replica_id().shape
            u32[]

        Operation Semantics: ReplicaId.
        """
        target = self.innermost()
        target.check_open("replica_id")
        return append(target, "replica_id", _id_shape("replica_id"))

    def partition_id(self) -> XlaOp:
        """The number of the partition that runs the program, from 0 within each replica.

        Returns:
            A scalar u32.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().partition_id().shape
            u32[]

        Not in the document; StableHLO's partition_id.
        """
        target = self.innermost()
        target.check_open("partition_id")
        return append(target, "partition_id", _id_shape("partition_id"))

    def create_token(self) -> XlaOp:
        """A token after nothing: a beginning for ops that are ordered by tokens.

        Returns:
            A token.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().create_token().shape
            token[]

        Operation Semantics: AfterAll (XlaBuilder's CreateToken).
        """
        return append(self._recording("create_token"), "create_token", TOKEN_SHAPE)

    def infeed(self, shape: ShapeLike, config: str = "") -> XlaOp:
        """A value read from the device's infeed, after the infeeds recorded by this method before.

        `lowering.transfer_to_infeed` feeds a device. Infeeds of a computation must be in one order.
        This method orders those of one computation among themselves; between a loop that holds
        infeeds and others there must be a value, or a token (see `infeed_with_token`).

        Args:
            shape: the shape of the value, with the layout of the data sent to the device: an
                array, or a tuple of arrays. An empty tuple is given without anything being read.
            config: a text for the device.

        Returns:
            The value.

        Raises:
            ShapeInferenceError: a tuple of tuples; a sharding that infeeds can't have.
            OperandError: no shape.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().infeed(xb.f32[2, 3]).shape
            f32[2,3]

        Operation Semantics: Infeed.
        """
        infeed = extension("builder.ops.host", "infeed")
        op: XlaOp = infeed(self._recording("infeed"), shape, config)
        return op

    def recv(self, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
        """Receives what the `send` of the same channel sends in another computation.

        Args:
            shape: the shape of the array.
            channel_handle: a device-to-device channel, or its number: one that no other pair of a
                send and a recv has.

        Returns:
            The array.

        Raises:
            ShapeInferenceError: the shape is no array's; a channel of another kind.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().recv(xb.f32[2], 1).shape
            f32[2]

        Operation Semantics: Recv.
        """
        recv = extension("builder.ops.host", "recv")
        op: XlaOp = recv(self._recording("recv"), shape, channel_handle)
        return op

    def custom_call(self, target_name: str, shape: ShapeLike, **more: Any) -> XlaOp:
        """The result of a registered function without operands; ``xb.custom_call`` has the others.

        Args:
            target_name: the name that the function is registered by.
            shape: the shape of the result.
            more: the further arguments of ``xb.custom_call``, by name.

        Raises:
            ShapeInferenceError, OperandError: as in ``xb.custom_call``.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().custom_call("clock", xb.s64[()], has_side_effect=True).shape
            s64[]

        Operation Semantics: CustomCall.
        """
        builder = self._recording("custom_call")
        arguments = extension("builder.ops.host", "custom_call_arguments")
        inferred, attributes = arguments(target_name, shape, more)
        return append(builder, "custom_call", inferred, (), attributes)

    def python_call(
        self, function: Callable[..., Any], shape: ShapeLike, *, has_side_effect: bool = False
    ) -> XlaOp:
        """The result of a Python function without arguments; ``xb.python_call`` has the others.

        Args:
            function: gives a NumPy array, or a tuple, of the shape said.
            shape: the shape of the result.
            has_side_effect: whether the function does more than computing its result.

        Raises:
            OperandError: no callable, or no shape.

        Example:
            >>> import builder as xb, numpy as np
            >>> b = xb.XlaBuilder()
            >>> b.python_call(lambda: np.zeros(3), xb.f64[3], has_side_effect=True).shape
            f64[3]

        Operation Semantics: CustomCall (a Python function in place of a C function).
        """
        builder = self._recording("python_call")
        plan = extension("builder.ops.host", "python_call_plan")
        inferred, attributes = plan(function, (), shape, has_side_effect)
        return append(builder, "python_call", inferred, (), attributes)

    def _recording(self, op: str) -> XlaBuilder:
        """The builder that records now, which must be open."""
        target = self.innermost()
        target.check_open(op)
        return target

    def call(self, computation: XlaComputation) -> XlaOp:
        """The result of a computation without parameters; ``xb.call`` takes the others.

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
        from builder.shape_inference import control_flow

        if not isinstance(computation, XlaComputation):
            raise OperandError(
                f"call: computation must be an XlaComputation, got {brief(computation)}",
                op="call",
            )
        shape = control_flow.call.strict(computation.signature, ())
        target = self.innermost()
        target.check_open("call")
        return append(target, "call", shape, (), {"to_apply": computation})

    def inline(self, computation: XlaComputation) -> XlaOp:
        """The ops of a computation without parameters; ``xb.inline`` takes the others.

        Raises:
            SignatureError: the computation has parameters.

        Example:
            >>> import builder as xb
            >>> ones = xb.XlaBuilder("ones")
            >>> _ = xb.broadcast(ones.constant(1, xb.s32), [2])
            >>> xb.XlaBuilder().inline(ones.build())
            <XlaOp %1 = s32[2] broadcast_in_dim(%0)>

        In place of a call; see there.
        """
        inlined = extension("builder.rewriting.inlining", "inlined")
        root: XlaOp = inlined(computation, (), self._recording("inline"))
        return root

    def empty_tuple(self) -> XlaOp:
        """The tuple without elements.

        Example:
            >>> import builder as xb
            >>> xb.XlaBuilder().empty_tuple().shape
            ()

        Operation Semantics: Tuple.
        """
        target = self.innermost()
        target.check_open("empty_tuple")
        return append(target, "tuple", TupleShape(()))

    @contextmanager
    def frontend_attributes(self, attributes: Mapping[str, str]) -> Iterator[None]:
        """Ops recorded inside carry these attributes, besides those of enclosing blocks.

        So do the ops of callables given to while_, conditional and call inside; those of reducers
        and of map, which XLA takes as one with their op, do not.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2])
            >>> with b.frontend_attributes({"stage": "1"}):
            ...     y = x + x
            >>> y.frontend_attributes
            {'stage': '1'}
        """
        if not isinstance(attributes, Mapping):
            raise OperandError(
                f"frontend_attributes: they map strings to strings, got {brief(attributes)}"
            )
        for key, value in attributes.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise OperandError(
                    f"frontend_attributes: they map strings to strings, "
                    f"got {brief(key)}: {brief(value)}"
                )
            if not re.fullmatch(_KEY, key):
                raise OperandError(
                    f"frontend_attributes: HLO takes keys of the letters A-Z and a-z, digits, "
                    f"'_', '.' and '-', of which the first is a letter or '_', got {brief(key)}"
                )
        target = self.innermost()
        metadata = target.current_metadata
        before = None if metadata is None else metadata.frontend_attributes
        now = {**(before or {}), **attributes}
        target.current_metadata = with_metadata(metadata, frontend_attributes=now)
        try:
            yield
        finally:
            target.current_metadata = with_metadata(
                target.current_metadata, frontend_attributes=before
            )

    def sharding(self, sharding: ShardingLike | None) -> AbstractContextManager[None]:
        """Ops recorded inside carry this sharding, each for its own result; None for none.

        It says how the result of an op lies on the devices of a program that XLA partitions; what
        is not said XLA works out. Scalars and tokens carry none that cuts up arrays.

        Args:
            sharding: a tiling in GSPMD's text form (see `parse_tiling`), or a sharding by the axes
                of a mesh (`Mesh.sharding`), which Shardy partitions by. One program uses one of
                the two.

        Raises:
            OperandError: neither of the two.
            ShapeTextError: a text that says no tiling.
            BuilderError: other shardings of the program are in the other words, or another mesh
                has the name. An op inside whose shape the sharding does not fit raises
                ShapeInferenceError.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[8, 2])
            >>> with b.sharding("{devices=[2,1]<=[2]}"):
            ...     y = x + x
            >>> y.sharding
            '{devices=[2,1]<=[2]}'
        """
        # Looked at here and not on entering, where the caller is the code of context managers.
        self._check_sharding("sharding", sharding)
        return self._under_sharding(sharding)

    @contextmanager
    def _under_sharding(self, sharding: ShardingLike | None) -> Iterator[None]:
        target = self.innermost()
        before = None if target.current_metadata is None else target.current_metadata.sharding
        target.current_metadata = with_metadata(target.current_metadata, sharding=sharding)
        try:
            yield
        finally:
            target.current_metadata = with_metadata(target.current_metadata, sharding=before)

    def set_sharding(self, sharding: ShardingLike | None) -> None:
        """Ops recorded from now on carry this sharding; None for none, as at the beginning.

        At the end of a ``with b.sharding(...)`` block the sharding is the one from before it.

        Args:
            sharding: as `sharding` takes it.

        Raises:
            OperandError, ShapeTextError, BuilderError: as `sharding`.

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
        target = self.innermost()
        target.current_metadata = with_metadata(target.current_metadata, sharding=sharding)

    def _check_sharding(self, op: str, sharding: ShardingLike | None) -> None:
        """Raises unless a sharding, or None, can be that of ops recorded now."""
        if sharding is not None:
            from builder.sharding import validation as saying

            saying.register_sharding(self.innermost(), op, saying.check_sharding_type(op, sharding))

    def setup_alias(
        self, output_index: Sequence[int], param_number: int, param_index: Sequence[int] = ()
    ) -> None:
        """Has a result written to the memory of an argument, which is used up by the call.

        The compiled program may do so where it saves memory: a jax.Array given there is deleted by
        the call; a NumPy array is copied, as always, and stays as it is. It holds for the program
        that is entered by what is built here: where another computation applies it, nothing comes
        of it.

        Args:
            output_index: the place of the result in the root's tuple, such as [1, 0]; [] where the
                root is an array.
            param_number: the number of the parameter, which is recorded already.
            param_index: the place in the parameter, if that is a tuple.

        Raises:
            BuilderError: built already, there is no such parameter yet, or the result or the
                argument is in an alias already, or the argument is a donor.
            ShapeInferenceError: the parameter has no array of fixed sizes at that place. That the
                result has one, and of the same shape, `build` checks.

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
        output = self._index("setup_alias", "output_index", output_index)
        number, place = self._argument_place("setup_alias", param_number, param_index)
        self._donations("setup_alias").add_alias(
            InputOutputAlias(output, number, place), self._shape_of_parameter(number)
        )

    def add_buffer_donor(self, param_number: int, param_index: Sequence[int] = ()) -> None:
        """Lets the compiled program use the memory of an argument, for whatever it likes.

        As with `setup_alias` a jax.Array given there is deleted by the call, and a NumPy array
        stays as it is.

        Args:
            param_number: the number of the parameter, which is recorded already.
            param_index: the place in the parameter, if that is a tuple.

        Raises:
            BuilderError: built already, there is no such parameter yet, or the argument is in an
                alias, or a donor, already.
            ShapeInferenceError: the parameter has no array of fixed sizes at that place.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> x = b.parameter(xb.f32[2], "x")
            >>> b.add_buffer_donor(0)
            >>> b.build(x + x).donors
            (BufferDonor(param_number=0, param_index=()),)

        XlaBuilder's AddBufferDonor.
        """
        number, place = self._argument_place("add_buffer_donor", param_number, param_index)
        self._donations("add_buffer_donor").add_donor(
            BufferDonor(number, place), self._shape_of_parameter(number)
        )

    def _donations(self, op: str) -> Donations:
        self.check_open(op)
        if self.donations is None:
            self.donations = Donations()
        return self.donations

    def _shape_of_parameter(self, number: int) -> Shape | None:
        found = self.parameters.get(number)
        return None if found is None else found.shape

    def _argument_place(self, op: str, number: Any, index: Any) -> tuple[int, tuple[int, ...]]:
        from builder.check import integer  # inference is loaded after this module

        return integer(op, "param_number", number), self._index(op, "param_index", index)

    def _index(self, op: str, name: str, index: Any) -> tuple[int, ...]:
        from builder.check import integers  # as above

        return integers(op, name, index)

    def adopt(self, opcode: str, op: XlaOp) -> XlaOp:
        """`op` as this builder may use it: its own ops as they are, enclosing ones captured."""
        if op.builder is self:
            return op
        held = self.captured.get(id(op))
        if held is not None:
            return held[1]
        if self.parent is None or not self._encloses(op.builder):
            raise BuilderError(
                f"{opcode}: operand belongs to builder {op.builder.name!r}, not to "
                f"{self.name!r}, got\n  {op!r}\n"
                f"fix: pass it as a parameter",
                op=opcode,
                shapes={"operand": op.shape},
            )
        outer = self.parent.adopt(opcode, op)
        if (
            outer.opcode == "constant"
            and not isinstance(outer.shape, TupleShape)
            and (outer.attributes["value"].ndim == 0)
        ):
            # A scalar constant is cheaper made again than passed around.
            inner = append(self, "constant", outer.shape, (), outer.attributes)
        else:
            inner = append(self, "captured", outer.shape)
        inner.code, inner.lasti, inner.name = op.code, op.lasti, op.name
        self.captured[id(op)] = (outer, inner)
        return inner

    def _encloses(self, other: XlaBuilder) -> bool:
        builder = self.parent
        while builder is not None:
            if builder is other:
                return True
            builder = builder.parent
        return False

    def build(
        self,
        root: XlaOp | None = None,
        *,
        result: ShapeLike | None = None,
        result_sharding: ShardingTree = None,
    ) -> XlaComputation:
        """Ends the recording and gives the computation.

        Args:
            root: the op whose value is the result; the last one recorded when none is given.
            result: the root's shape with the layouts in which a compiled computation gives the
                result, such as "f32[2,3]{0,1}"; None for the default ones.
            result_sharding: how the result lies on several devices, as `sharding` takes it; of a
                tuple one for all of it, or a sequence of one, or None, for each element, as they
                are nested. It holds for the program that is entered by what is built here: XLA
                does not look at it where another computation applies this one.

        Raises:
            BuilderError: built already, nothing recorded, the root is not an op of this builder,
                or a parameter number is missing.
            ShapeInferenceError: `result` is not the root's shape but for layouts, or has a layout
                with padded dimensions, which XLA lacks; or the result has no array of the
                argument's shape where `setup_alias` says; or a sharding does not fit.
            ShapeTextError, OperandError: `result_sharding` is none, or not nested as the result.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder("double")
            >>> x = b.parameter(xb.f32[4], "x")
            >>> b.build(x + x).program_shape
            (x: f32[4]) -> f32[4]

            Of a layout in columns, first the argument's, then the result's:

            >>> b = xb.XlaBuilder("double")
            >>> x = b.parameter("f32[2,3]{0,1}", "x")
            >>> b.build(x + x, result="f32[2,3]{0,1}").program_shape
            (x: f32[2,3]{0,1}) -> f32[2,3]{0,1}

            On the devices of a mesh, in rows:

            >>> b = xb.XlaBuilder("double")
            >>> rows = xb.Mesh({"data": 2}).sharding("data")
            >>> x = b.parameter("f32[2,3]", "x", sharding=rows)
            >>> b.build(x + x, result_sharding=rows).annotations.result_shardings
            ('#sdy.sharding<@mesh, [{"data"}, {}]>',)
        """
        if self.built:
            self.check_open("build")
        if self.child is not None:
            raise BuilderError(
                f"build: {self.child.purpose} is still being recorded into {self.name!r}",
                op="build",
            )
        if root is None:
            if not self.ops:
                raise BuilderError(f"build: builder {self.name!r} has recorded no op", op="build")
            root = self.ops[-1]
        elif not isinstance(root, XlaOp):
            raise BuilderError(
                f"build: the root is an XlaOp, got {brief(root)}\n"
                f"fix: several results are given as one tuple: xb.tuple(a, b)",
                op="build",
            )
        elif root.builder is not self:
            raise BuilderError(
                f"build: the root belongs to builder {root.builder.name!r}, not to "
                f"{self.name!r}, got\n  {root!r}\n"
                f"fix: build it with its own builder: root.builder.build(root)",
                op="build",
                shapes={"root": root.shape},
            )
        count = len(self.parameters)
        for number in range(count):
            if number not in self.parameters:
                have = ", ".join(
                    f"{n} ({self.parameters[n].name!r})" for n in sorted(self.parameters)
                )
                raise BuilderError(
                    f"build: parameter numbers must run from 0 to {count - 1} without a gap; "
                    f"number {number} is missing from builder {self.name!r}, got {have}\n"
                    f"fix: record parameter(..., number={number}), or leave numbers out and "
                    f"parameters are numbered in order",
                    op="build",
                    shapes={str(p.name): p.shape for p in self.parameters.values()},
                )
        shape = None if result is None else result_shape("build", root.shape, result)
        donations = self.donations
        if donations is not None:
            donations.check_results(root.shape, self.parameters)
        if result_sharding is not None:
            self._note_result_shardings(root.shape, result_sharding)
        self.built = True
        self.is_open = False
        return XlaComputation(
            self.name,
            self.ops,
            root,
            tuple([self.parameters[n] for n in range(count)]),
            shape,
            aliases=() if donations is None else donations.sorted_aliases(),
            donors=() if donations is None else donations.sorted_donors(),
            annotations=self.annotations,
            sharding_form=self.sharding_form,
        )

    def _note_result_shardings(self, shape: Shape, sharding: Any) -> None:
        from builder.sharding import validation as saying

        found, said = saying.shardings_on_leaves("build", "result_sharding", shape, sharding)
        for one in said:
            saying.register_sharding(self, "build", one)
        given = self.annotations or Annotations()
        self.annotations = given._replace(result_shardings=tuple(found))
