"""Private names of jax and jaxlib, behind small functions; one module for each subject.

jaxlib makes no promise about the names used here, and they differ between its versions. No other
package of the project uses a private name of jax or jaxlib, so that only the modules here have to
be checked against a new version. Supported are jaxlib 0.10 to 0.12; a function states where these
differ.

- `versions`: versions of jaxlib, of StableHLO, and of a platform's compiler
- `mlir`: contexts, modules, bytecode
- `artifacts`: portable artifacts, expansion of CHLO, shape refinement
- `interpreter`: StableHLO's reference interpreter
- `hlo_conversion`: HLO text and protos, to and from StableHLO
- `compilation`: options, flags, custom call targets, compilation
- `executables`: serialized executables, CPU features, cost, memory
- `topologies`: devices that are not present
- `jax_arrays`: jax.Arrays and their getters
- `array_layouts`: memory layouts of arrays, parameters and results
- `execution`: running executables

Modules here import jaxlib, not jax, and nothing of the project outside this package: helper
processes import them, and start sooner without jax. A function that needs jax imports it when it
is called.
"""
