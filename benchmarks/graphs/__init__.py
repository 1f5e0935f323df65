"""The graphs, each written once for all APIs.

The modules import neither this project's packages nor jax; those are in `benchmarks.languages`. A
graph's `body` is called with one of the modules of that package as `g`, and uses only its names.
"""

from benchmarks.graphs.chain import CHAIN
from benchmarks.graphs.constants import CONSTANTS
from benchmarks.graphs.control_flow import CONTROL_FLOW
from benchmarks.graphs.graph import Graph
from benchmarks.graphs.layers import LAYERS
from benchmarks.graphs.lstm import LSTM
from benchmarks.graphs.reducers import REDUCERS
from benchmarks.graphs.resnet50 import RESNET50
from benchmarks.graphs.shapes import SHAPES
from benchmarks.graphs.transformer import TRANSFORMER

__all__ = ["GRAPHS", "Graph"]

GRAPHS: dict[str, Graph] = {
    graph.name: graph
    for graph in (
        CHAIN,
        LAYERS,
        TRANSFORMER,
        RESNET50,
        LSTM,
        CONTROL_FLOW,
        CONSTANTS,
        REDUCERS,
        SHAPES,
    )
}
