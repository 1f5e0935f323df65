"""Shardings, partitions and participants, as modules declare them."""
