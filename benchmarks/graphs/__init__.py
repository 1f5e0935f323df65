"""The graphs that are built, each written once for all languages.

Nothing here needs this project's packages or jax: `benchmarks.languages` has those. A graph's
`body` is called with one of the languages as `g`, and uses nothing but its names.
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
