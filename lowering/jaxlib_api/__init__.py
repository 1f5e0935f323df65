"""Small functions around private names of jax and jaxlib; one module for each subject.

These names are not stable between versions of jaxlib. No other package of the project uses private
names of jax or jaxlib, so only these modules have to be checked against a new version. jaxlib 0.10
to 0.12 are supported; a docstring states where these versions differ.

- `native`: the two modules of jaxlib that have the private names
- `versions`: versions of jaxlib, of StableHLO and of a platform's compiler
- `mlir`: contexts, modules, bytecode
- `artifacts`: portable artifacts, expansion of CHLO, shape refinement
- `hlo_conversion`: HLO text and protos, to and from StableHLO
- `compilation`: options, flags, custom call targets, topologies, compilation; of executables, their
  bytes, CPU features, cost, memory
- `execution`: running executables
- `lazy_jax`: jax and its modules, imported when they are used
- `jax_arrays`: jax.Arrays, their getters, axes along which they may differ, memory layouts
- `jaxprs`: equations, primitives and effects of traced functions

These modules import jaxlib but not jax, and nothing else of the project, because helper processes
import them and start faster without jax. A function that needs jax imports it when called.
"""
