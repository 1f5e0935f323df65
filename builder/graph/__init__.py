"""The recorded graph: XlaOp, XlaBuilder, XlaComputation, and how ops enter it."""
