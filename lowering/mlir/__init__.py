"""MLIR independent of dialects: contexts, types, attributes, bytecode, flattened tuples."""
