"""Element types, shapes, layouts and constants."""
