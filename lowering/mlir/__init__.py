"""MLIR below any dialect: contexts, types, attributes, bytecode, flattened tuples."""
