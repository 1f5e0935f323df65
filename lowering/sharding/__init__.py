"""Shardings, partitions and participants, as a module declares them."""
