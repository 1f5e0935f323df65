"""Read and check the shardings and the replica groups of a module."""
