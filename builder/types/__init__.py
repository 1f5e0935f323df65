"""Element types, shapes, layouts and constants: what an op takes and returns."""
