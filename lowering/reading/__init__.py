"""Read modules from untrusted bytes, or raise an error that names the problem.

`module_reader` reads a module. Its input may be damaged, huge, or another kind of file. `file_kind`
refuses large files by their first bytes. `files` names the kind of a file, and warns about files of
machine code that other users can change. `text_limits` refuses text that would crash MLIR's parser,
and `helper_process` parses other risky input in a separate process. `exported` finds the module
inside the output of `jax.export`.
"""
