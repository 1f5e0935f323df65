"""The emitter: walks a computation and creates MLIR operations, by the rules of each family.

Tuples do not exist in the module: a tuple value is a list of SSA values here, a function takes and
gives the flat list of leaves, and `StablehloModule.program_shape` keeps the nesting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from builder.computation import XlaComputation
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, Shape, TupleShape, leaves
from builder.xla_op import NO_ATTRIBUTES, XlaOp
from lowering.errors import LoweringError
from lowering.flattening import flatten, unflatten
from lowering.host_calls import PythonFunction
from lowering.mlir_context import MlirContext
from lowering.rules.registry import ATTRIBUTES, DIRECT, EXCEPTIONS, RULES, Value

__all__ = ["Emitter"]


class Emitter:
    """Emits operations at one insertion point of a module.

    Attributes:
        mlir: the MLIR context with its caches.
        functions: symbol names of the functions made for called computations.
        ip: where operations are inserted now.
        loc: the location of the op being lowered.
        python_functions: the Python functions that are called, with their numbers, by `key`.
        has_streams: whether there is an infeed or outfeed.
    """

    __slots__ = ("functions", "has_streams", "ip", "loc", "mlir", "module_ip", "python_functions")

    def __init__(
        self,
        mlir: MlirContext,
        module_ip: ir.InsertionPoint,
        functions: dict[XlaComputation, str],
    ) -> None:
        self.mlir = mlir
        self.module_ip = module_ip
        self.functions = functions
        self.ip = module_ip
        self.loc: ir.Location = mlir.unknown_location
        self.python_functions: dict[Any, tuple[int, PythonFunction]] = {}
        self.has_streams = False

    def types(self, shape: Shape) -> list[ir.Type]:
        """The MLIR types of a value of this shape, tuples flattened."""
        table = self.mlir.types
        return [table[leaf] for leaf in leaves(shape)]

    def create(
        self,
        name: str,
        shape: Shape,
        operands: Sequence[Value],
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        """Creates an operation whose results make up a value of `shape`."""
        table = self.mlir.types
        results = [table[shape]] if isinstance(shape, ArrayShape) else self.types(shape)
        return ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=attributes,
            regions=regions,
            loc=self.loc,
            ip=self.ip,
        )

    def value(
        self,
        name: str,
        shape: Shape,
        operands: Sequence[Value],
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> Value:
        """Creates an operation and gives its value, nested as `shape` is."""
        if isinstance(shape, TupleShape):
            return unflatten(shape, iter(self.create(name, shape, operands, attributes).results))
        return ir.Operation.create(
            name,
            results=[self.mlir.types[shape]],
            operands=operands,
            attributes=attributes,
            loc=self.loc,
            ip=self.ip,
        ).result

    def converted(self, value: Value, shape: Shape, to: PrimitiveType) -> Value:
        """Creates the conversion of a value of array shape `shape` to another element type."""
        assert isinstance(shape, ArrayShape)  # inference has said so
        return self.value("stablehlo.convert", shape.with_element_type(to), [value])

    def emit_ops(self, computation: XlaComputation, arguments: Sequence[Value]) -> Value:
        """Emits the ops of a computation here; gives the value of its root."""
        mlir = self.mlir
        types, locations, ip = mlir.types, mlir.locations, self.ip
        create = ir.Operation.create
        # By identity, for as long as the computation and so the attributes are there.
        translated: dict[int, dict[str, ir.Attribute]] = {}
        values: list[Value] = [None] * len(computation.ops)
        for op in computation.ops:
            # The location by the identity of the code object, looked up here without a call.
            entry = locations.get((id(op.code), op.lasti))
            loc = entry[1] if entry is not None and op.name is None else mlir.location(op)
            opcode = op.opcode
            name = DIRECT.get(opcode)
            if name is not None and (opcode not in EXCEPTIONS or not EXCEPTIONS[opcode](op)):
                # Nine ops out of ten: no rule is called, and nothing is looked up twice.
                attributes = None
                if op.attributes is not NO_ATTRIBUTES:
                    attributes = translated.get(id(op.attributes))
                    if attributes is None:
                        attributes = ATTRIBUTES[opcode](mlir, op.attributes)
                        translated[id(op.attributes)] = attributes
                operation: Any = create(
                    name,
                    results=[types[op.shape]],
                    operands=[values[o.id] for o in op.operands],
                    attributes=attributes,
                    loc=loc,
                    ip=ip,
                )
                values[op.id] = operation.result
            elif opcode == "parameter":
                values[op.id] = arguments[op.attributes["number"]]
                continue
            else:
                self.loc = loc
                rule = RULES.get(opcode)
                if rule is None:
                    raise LoweringError(
                        f"{opcode}: there is no lowering rule for this op, got {op!r}",
                        op=opcode,
                    )
                operation = values[op.id] = rule(self, op, [values[o.id] for o in op.operands])
            if op.frontend_attributes is not None or op.sharding is not None:
                self._annotate(op, operation)
        return values[computation.root.id]

    def _annotate(self, op: XlaOp, result: Any) -> None:
        """Puts the op's frontend attributes and sharding on the operation that it became."""
        if op.opcode in ("tuple", "get_tuple_element"):
            return  # no operation: the values are those of others
        if not isinstance(result, ir.Operation):
            values = flatten([result])
            if not values:
                return
            result = values[0].owner
        if isinstance(result, ir.OpView):
            result = result.operation
        if isinstance(result, ir.Operation):  # and not a block, whose argument the value is
            for name, attribute in self.annotations(op).items():
                result.attributes[name] = attribute

    def annotations(self, op: XlaOp) -> dict[str, ir.Attribute]:
        """An op's frontend attributes and sharding as XLA's StableHLO importer takes them."""
        found: dict[str, ir.Attribute] = {}
        if op.frontend_attributes:
            found["mhlo.frontend_attributes"] = self.mlir.dictionary(
                {k: self.mlir.string(v) for k, v in op.frontend_attributes.items()}
            )
        if op.sharding is not None:
            found["mhlo.sharding"] = self.mlir.string(str(op.sharding))
        return found

    def emit_region(
        self,
        region: ir.Region,
        computation: XlaComputation,
        arguments: Sequence[Value] | None = None,
    ) -> None:
        """Emits a computation into an empty region, ending in `stablehlo.return`.

        Args:
            region: a region of an operation just created.
            computation: what to emit.
            arguments: values from outside that are the parameters, for regions without block
                arguments; None to make block arguments of the parameters.
        """
        shapes = computation.program_shape.parameters
        if arguments is None:
            types = [t for s in shapes for t in self.types(s)]
            block = ir.Block.create_at_start(region, types, [self.loc] * len(types))
            incoming = iter(block.arguments)
            arguments = [unflatten(s, incoming) for s in shapes]
        else:
            block = ir.Block.create_at_start(region, [], [])
        self.emit_block(block, computation, arguments, "stablehlo.return")

    def emit_block(
        self,
        block: ir.Block,
        computation: XlaComputation,
        arguments: Sequence[Value],
        terminator: str,
    ) -> None:
        """Emits a computation at the end of a block, and the terminator with its result."""
        outer_ip, outer_loc = self.ip, self.loc
        self.ip = ir.InsertionPoint(block)
        root = self.emit_ops(computation, arguments)
        ir.Operation.create(
            terminator,
            results=[],
            operands=flatten([root]),
            loc=self.mlir.unknown_location,
            ip=self.ip,
        )
        self.ip, self.loc = outer_ip, outer_loc
