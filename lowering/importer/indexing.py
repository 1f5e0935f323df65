"""Importer of torch_index_select, a StableHLO operation that becomes a gather."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.failures import failure
from lowering.importer.registry import importer
from lowering.importer.scope import Scope


@importer("stablehlo.torch_index_select")
def torch_index_select(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record torch_index_select as a gather of slices whose size is 1 along `dim`."""
    dim, batch = (scope.attribute(operation, name) for name in ("dim", "batch_dims"))
    source, index = (operand.shape for operand in operands)
    assert isinstance(source, ArrayShape)  # verified by MLIR
    assert isinstance(index, ArrayShape)
    if not 0 <= batch <= dim < source.rank or batch > index.rank:
        raise failure(
            operation, f"dim or batch_dims is out of range, got dim {dim} and batch_dims {batch}"
        )
    batching, extra = tuple(range(batch)), index.rank - batch
    numbers = xb.GatherDimensionNumbers(
        (*range(batch, dim), *range(dim + extra, source.rank - 1 + extra)),
        (dim,),
        (dim,),
        index.rank,
        batching,
        batching,
    )
    sizes = [1 if d in (*batching, dim) else size for d, size in enumerate(source.dimensions)]
    return xb.gather(operands[0], operands[1], numbers, sizes)
