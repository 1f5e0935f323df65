"""Operations across devices that XLA's backends lack, or get wrong.

That of a CPU has no collective_broadcast (a TPU's neither); it reduces with add, mul, min and max,
and preds with and and or, and nothing else (a GPU's neither); arrays of 2-bit elements it gathers
wrong, or dies of; in small floats it changes NaNs. The rewrites here use what it
does have: gathering, and sums of bits of which all but one are zero.

Several operands of one operation are taken one by one, as XLA's partitioner needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from lowering.errors import CompileError, recorded_at
from lowering.legalize.registry import Rewriter, Value, rewrite
from lowering.participants import Mode, Participants, participants

_REDUCES: Final = ("add", "multiply", "maximum", "minimum")


@rewrite("stablehlo.all_gather", "gpu")
@rewrite("stablehlo.all_to_all", "gpu")
@rewrite("stablehlo.collective_permute", "gpu")
def moved_in_bytes(rewriter: Rewriter, operation: ir.Operation) -> None:
    """A GPU's library moves no elements of two bits."""
    if any(_is_of_two_bits(operand.type) for operand in operation.operands):
        _one_by_one(rewriter, operation, _carried)


@rewrite("stablehlo.all_gather", "cpu")
@rewrite("stablehlo.all_to_all", "cpu")
@rewrite("stablehlo.collective_permute", "cpu")
def moved(rewriter: Rewriter, operation: ir.Operation) -> None:
    if len(operation.operands) > 1 or _carrier(operation.operands[0].type) is not None:
        _one_by_one(rewriter, operation, _carried)


@rewrite("mhlo.all_to_all", "cpu")
def exchanged(rewriter: Rewriter, operation: ir.Operation) -> None:
    """The form of several operands, one for each of a group; of one, XLA dies."""
    operands = list(operation.operands)
    if len(operands) == 1:
        if "split_dimension" not in operation.attributes:
            rewriter.replace(operation, operands)
        return
    element = _carrier(operands[0].type)
    if element is None:
        return
    make = _Maker(rewriter, operation)
    values = [make.packed(operand, element) for operand in operands]
    attributes = _attributes(operation, all_of_them=True)
    made = make.operation(operation.name, [v.type for v in values], values, attributes)
    results = [
        make.unpacked(value, old.type)
        for value, old in zip(made.results, operation.results, strict=True)
    ]
    rewriter.replace(operation, results)


@rewrite("stablehlo.all_reduce", "cpu", "gpu")
def all_reduce(rewriter: Rewriter, operation: ir.Operation) -> None:
    """Of other reducers than XLA knows, of which a GPU's compiler dies."""
    if _is_reduced_by_xla(operation):
        if len(operation.operands) > 1 and rewriter.platform == "cpu":
            _one_by_one(rewriter, operation, _alone)
        return
    _one_by_one(rewriter, operation, _folded)


@rewrite("stablehlo.all_reduce", "tpu")
def all_reduce_of_halves(rewriter: Rewriter, operation: ir.Operation) -> None:
    """A TPU holds elements of 64 bits as two of 32, of which it only adds."""
    if any(_is_in_halves(o.type) for o in operation.operands) and not _is_added(operation):
        _one_by_one(rewriter, operation, _folded)


@rewrite("stablehlo.reduce_scatter", "cpu", "gpu", "tpu")
def reduce_scatter(rewriter: Rewriter, operation: ir.Operation) -> None:
    if rewriter.platform == "tpu":
        # There elements of 64 bits are two of 32; of floats not even the sum is there.
        kind = operation.operands[0].type
        if not _is_in_halves(kind) or (_is_integral(kind) and _is_added(operation)):
            return
    elif _is_reduced_by_xla(operation):
        return
    make = _Maker(rewriter, operation)
    operand = operation.operands[0]
    count = _one_group_size(rewriter, operation)
    whole = _folded(make, operation, operand)
    # Which block is ours: all bring the same numbers, of which each gets its own.
    numbers = make.constant(f"dense<{list(range(count))}> : tensor<{count}xi32>")
    attributes = {**_attributes(operation), "scatter_dimension": make.i64(0)}
    scattered = make.reducing(
        "stablehlo.reduce_scatter", "tensor<1xi32>", numbers, attributes, "stablehlo.maximum"
    )
    place = make("stablehlo.reshape", "tensor<i32>", [scattered])
    dimension = ir.IntegerAttr(operation.attributes["scatter_dimension"]).value
    result = ir.RankedTensorType(operation.results[0].type)
    sizes = [result.get_dim_size(d) for d in range(result.rank)]
    size = make.constant(f"dense<{sizes[dimension]}> : tensor<i32>")
    zero = make.constant("dense<0> : tensor<i32>")
    start = make("stablehlo.multiply", "tensor<i32>", [place, size])
    starts = [start if d == dimension else zero for d in range(result.rank)]
    rewriter.replace(
        operation,
        [
            make(
                "stablehlo.dynamic_slice",
                result,
                [whole, *starts],
                {"slice_sizes": make.i64_array(sizes)},
            )
        ],
    )


@rewrite("stablehlo.collective_broadcast", "cpu", "tpu")
def collective_broadcast(rewriter: Rewriter, operation: ir.Operation) -> None:
    """The sum of the sources' bits and of zeros."""
    make = _Maker(rewriter, operation)
    who = participants(operation)
    count = who.count(rewriter.num_replicas, rewriter.num_partitions)
    sources = [group[0] for group in who.groups]
    # One that stands in no group gets zeros: it adds up with itself, and is no source.
    named = {number for group in who.groups for number in group}
    groups = [*who.groups, *((n,) for n in range(count) if n not in named)]
    if who.mode is Mode.PARTITIONS:
        number = make("stablehlo.partition_id", "tensor<ui32>", [])
        partitions = rewriter.num_partitions
        groups = [
            tuple(replica * partitions + n for n in group)
            for replica in range(rewriter.num_replicas)
            for group in groups
        ]
    else:
        number = make("stablehlo.replica_id", "tensor<ui32>", [])
    is_source = make.constant("dense<false> : tensor<i1>")
    for source in sources:
        one = make.constant(f"dense<{source}> : tensor<ui32>")
        equal = make(
            "stablehlo.compare",
            "tensor<i1>",
            [number, one],
            {"comparison_direction": make.parsed("#stablehlo<comparison_direction EQ>")},
        )
        is_source = make("stablehlo.or", "tensor<i1>", [is_source, equal])
    attributes = {"replica_groups": make.parsed(_table(groups))}
    if "channel_handle" in operation.attributes and who.mode is Mode.PARTITIONS:
        attributes["channel_handle"] = operation.attributes["channel_handle"]
        attributes["use_global_device_ids"] = make.parsed("unit")

    def sent(bits: Value) -> Value:
        zeros = make.constant(f"dense<0> : {bits.type}")
        mine = make("stablehlo.select", bits.type, [is_source, bits, zeros])
        return make.reducing("stablehlo.all_reduce", bits.type, mine, attributes, "stablehlo.add")

    operand = operation.operands[0]
    rewriter.replace(operation, [_by_bits(make, operand, sent)])


def _by_bits(make: _Maker, value: Value, through: Any) -> Value:
    """What `through` does to the bits of a value, as unsigned integers of at least 8 of them."""
    tensor = ir.RankedTensorType(value.type)
    element = tensor.element_type
    text = str(element)
    if text.startswith("complex"):
        part = make.like(tensor, text[len("complex<") : -1])
        real = _by_bits(make, make("stablehlo.real", part, [value]), through)
        imag = _by_bits(make, make("stablehlo.imag", part, [value]), through)
        return make("stablehlo.complex", tensor, [real, imag])
    if text in _NARROW:
        if text == "f4E2M1FN":
            value = make("stablehlo.bitcast_convert", make.like(tensor, "ui4"), [value])
        wide = make.like(tensor, "i8" if text in ("i2", "i4") else "ui8")
        result = through(make("stablehlo.convert", wide, [value]))
        if text == "f4E2M1FN":
            narrow = make("stablehlo.convert", make.like(tensor, "ui4"), [result])
            return make("stablehlo.bitcast_convert", tensor, [narrow])
        return make("stablehlo.convert", tensor, [result])
    if text.startswith(("i", "ui")):
        return through(value)
    width = ir.FloatType(element).width
    bits = make("stablehlo.bitcast_convert", make.like(tensor, f"ui{width}"), [value])
    return make("stablehlo.bitcast_convert", tensor, [through(bits)])


_NARROW: Final = ("i1", "i2", "ui2", "i4", "ui4", "f4E2M1FN")


# One operand of an operation


def _one_by_one(rewriter: Rewriter, operation: ir.Operation, how: Any) -> None:
    """Replaces an operation by what `how` makes of each of its operands."""
    make = _Maker(rewriter, operation)
    rewriter.replace(operation, [how(make, operation, o) for o in operation.operands])


def _alone(make: _Maker, operation: ir.Operation, operand: Value) -> Value:
    """The same operation with one operand."""
    made = make.operation(
        operation.name,
        [_result_of(operation, operand)],
        [operand],
        _attributes(operation, all_of_them=True),
        regions=len(operation.regions),
    )
    if len(operation.regions):
        make.copy_body(operation.regions[0], made.regions[0])
    return made.result


def _carried(make: _Maker, operation: ir.Operation, operand: Value) -> Value:
    """The same operation with one operand, in the type of its carrier if it needs one."""
    element = _carrier(operand.type)
    if element is None:
        return _alone(make, operation, operand)
    result = _result_of(operation, operand)
    attributes = _attributes(operation, all_of_them=True)
    value = make.packed(operand, element)
    return make.unpacked(
        make(operation.name, make.like(result, element), [value], attributes), result
    )


def _carrier(mlir_type: ir.Type) -> str | None:
    """In which integers the CPU backend moves elements unharmed; None if as they are.

    Of 2 bits it takes the wrong ones, or dies; small floats it turns into larger ones and back,
    which changes NaNs.
    """
    tensor = ir.RankedTensorType(mlir_type)
    element = str(tensor.element_type)
    if not tensor.has_static_shape:
        return None
    if element in ("i2", "ui2"):
        return element.replace("2", "8")
    if element.startswith("f8"):
        return "ui8"
    return "ui16" if element == "bf16" else None


def _folded(make: _Maker, operation: ir.Operation, operand: Value) -> Value:
    """The operands of a group gathered, and folded by the reducer in the order of the group."""
    count = _one_group_size(make.rewriter, operation)
    tensor = ir.RankedTensorType(operand.type)
    sizes = [tensor.get_dim_size(d) for d in range(tensor.rank)]
    row, table = ([n, *sizes] for n in (1, count))
    carrier = _carrier(tensor)
    element = carrier or str(tensor.element_type)
    value = make.packed(operand, carrier) if carrier else operand
    value = make("stablehlo.reshape", make.tensor(row, element), [value])
    attributes = {**_attributes(operation), "all_gather_dim": make.i64(0)}
    gathered = make("stablehlo.all_gather", make.tensor(table, element), [value], attributes)
    total: Value = None
    for index in range(count):
        bounds = {
            "start_indices": make.i64_array([index] + [0] * len(sizes)),
            "limit_indices": make.i64_array([index + 1, *sizes]),
            "strides": make.i64_array([1] * len(row)),
        }
        one = make("stablehlo.slice", make.tensor(row, element), [gathered], bounds)
        one = make("stablehlo.reshape", make.tensor(sizes, element), [one])
        if carrier:
            one = make.unpacked(one, tensor)
        if total is None:
            total = one
            continue
        dimensions = {"dimensions": make.i64_array(list(range(len(sizes))))}
        mapped = make.operation("stablehlo.map", [tensor], [total, one], dimensions, regions=1)
        make.copy_body(operation.regions[0], mapped.regions[0])
        total = mapped.result
    return total


def _one_group_size(rewriter: Rewriter, operation: ir.Operation) -> int:
    """How many devices each group of a reduction has that is said in other words."""
    who: Participants = participants(operation)
    sizes = who.group_sizes(rewriter.num_replicas, rewriter.num_partitions)
    if len(sizes) == 1:
        return sizes.pop()
    kind = operation.name.partition(".")[2]
    raise CompileError(
        f"compile: {rewriter.name}: {kind}{recorded_at(operation.location)} can't run on "
        f"{rewriter.platform}: in groups of several sizes XLA reduces there only with add, mul, "
        f"min and max, and preds with and and or\n"
        f"fix: write it with groups of one size",
        op=kind,
    )


def _is_reduced_by_xla(operation: ir.Operation) -> bool:
    """Whether the reducer is one that XLA's backends know, of elements that they know too."""
    block = operation.regions[0].blocks[0]
    operations = list(block.operations)
    if len(operations) != 2:
        return False
    body, end = (one.operation for one in operations)
    element = ir.RankedTensorType(block.arguments[0].type).element_type
    known = _REDUCES + (("and", "or") if str(element) == "i1" else ())
    return (
        body.name.partition(".")[2] in known
        and {*body.operands} == {*block.arguments}
        and len({*block.arguments}) == 2
        and end.operands[0] == body.result
        and not _is_of_two_bits(block.arguments[0].type)
    )


def _is_added(operation: ir.Operation) -> bool:
    """Whether the reducer is an addition."""
    first = operation.regions[0].blocks[0].operations[0].operation
    return first.name == "stablehlo.add" and _is_reduced_by_xla(operation)


def _is_in_halves(mlir_type: ir.Type) -> bool:
    """Whether a TPU holds elements in several parts."""
    element = str(ir.RankedTensorType(mlir_type).element_type)
    return element in ("i64", "ui64", "f64") or element.startswith("complex")


def _is_integral(mlir_type: ir.Type) -> bool:
    return str(ir.RankedTensorType(mlir_type).element_type) in ("i64", "ui64")


def _attributes(operation: ir.Operation, *, all_of_them: bool = False) -> dict[str, ir.Attribute]:
    """The attributes that say who takes part; or all."""
    names = ("replica_groups", "channel_handle", "use_global_device_ids")
    return {
        name: operation.attributes[name]
        for name in operation.attributes
        if all_of_them or name in names
    }


def _result_of(operation: ir.Operation, operand: Value) -> ir.Type:
    for one, result in zip(operation.operands, operation.results, strict=True):
        if one == operand:
            found: ir.Type = result.type
            return found
    raise AssertionError("an operand of another operation")


def _is_of_two_bits(mlir_type: ir.Type) -> bool:
    return str(ir.RankedTensorType(mlir_type).element_type) in ("i2", "ui2")


def _table(rows: Sequence[Sequence[int]]) -> str:
    width = max(map(len, rows))
    filled = [[*row, *[-1] * (width - len(row))] for row in rows]
    return f"dense<{filled}> : tensor<{len(rows)}x{width}xi64>"


class _Maker:
    """Creates operations before the one that they replace, types and attributes from texts."""

    def __init__(self, rewriter: Rewriter, before: ir.Operation) -> None:
        self.rewriter = rewriter
        self.before = before
        self.context = before.context

    def __call__(
        self,
        name: str,
        result: ir.Type | str,
        operands: Sequence[Value],
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> Value:
        if isinstance(result, str):
            result = ir.Type.parse(result, self.context)
        return self.operation(name, [result], operands, attributes).result

    def operation(
        self,
        name: str,
        results: Sequence[ir.Type],
        operands: Sequence[Value],
        attributes: dict[str, ir.Attribute] | None = None,
        *,
        regions: int = 0,
    ) -> ir.Operation:
        return self.rewriter.create(
            name, results, operands, attributes, before=self.before, regions=regions
        )

    def reducing(
        self,
        name: str,
        result: ir.Type | str,
        operand: Value,
        attributes: dict[str, ir.Attribute],
        body: str,
    ) -> Value:
        """A reduction across devices by one binary operation."""
        if isinstance(result, str):
            result = ir.Type.parse(result, self.context)
        made = self.operation(name, [result], [operand], attributes, regions=1)
        scalar = self.tensor([], str(ir.RankedTensorType(operand.type).element_type))
        location = self.before.location
        block = ir.Block.create_at_start(made.regions[0], [scalar, scalar], [location] * 2)
        ip = ir.InsertionPoint(block)
        folded = ir.Operation.create(
            body, results=[scalar], operands=list(block.arguments), loc=location, ip=ip
        )
        ir.Operation.create(
            "stablehlo.return", results=[], operands=[folded.result], loc=location, ip=ip
        )
        return made.result

    def copy_body(self, source: ir.Region, target: ir.Region) -> None:
        """Copies the one block of a region into an empty region."""
        old = source.blocks[0]
        types = [argument.type for argument in old.arguments]
        block = ir.Block.create_at_start(target, types, [self.before.location] * len(types))
        ip = ir.InsertionPoint(block)
        values: dict[Any, Value] = dict(zip(old.arguments, block.arguments, strict=True))
        for one in old.operations:
            copy = one.operation.clone(ip=ip)
            for index, operand in enumerate(one.operation.operands):
                if operand in values:
                    copy.operands[index] = values[operand]
            values.update(zip(one.operation.results, copy.results, strict=True))

    def constant(self, text: str) -> Value:
        value = self.parsed(text)
        return self("stablehlo.constant", value.type, [], {"value": value})

    def parsed(self, text: str) -> Any:
        return ir.Attribute.parse(text, self.context)

    def i64(self, value: int) -> Any:
        return self.parsed(f"{value} : i64")

    def i64_array(self, values: Sequence[int]) -> ir.Attribute:
        return ir.DenseI64ArrayAttr.get(list(values), self.context)

    def tensor(self, sizes: Sequence[int], element: str) -> ir.Type:
        text = "".join(f"{size}x" for size in sizes)
        return ir.Type.parse(f"tensor<{text}{element}>", self.context)

    def packed(self, value: Value, element: str) -> Value:
        """A value in the integers that carry it; see `_carrier`."""
        how = "convert" if _is_of_two_bits(value.type) else "bitcast_convert"
        return self(f"stablehlo.{how}", self.like(value.type, element), [value])

    def unpacked(self, value: Value, result: ir.Type) -> Value:
        """The value of type `result` that integers carry."""
        how = "convert" if _is_of_two_bits(result) else "bitcast_convert"
        return self(f"stablehlo.{how}", result, [value])

    def like(self, tensor: ir.Type, element: str) -> ir.Type:
        """A tensor type of the same sizes with other elements."""
        ranked = ir.RankedTensorType(tensor)
        return self.tensor([ranked.get_dim_size(d) for d in range(ranked.rank)], element)
