"""The recorded graph: XlaOp, XlaBuilder, XlaComputation, and the recording of ops."""
