"""How bytes that may be anything become a module, or an error in words.

`module_reader` is the way in. What it reads may be damaged, huge, or something else altogether:
`first_look` refuses large files by how they begin, `other_files` says what a file seems to be,
`text_limits` refuses text that MLIR would not survive, and `helper_process` lets another process
die of the rest. `exported` finds the module inside of what `jax.export` wrote.
"""
