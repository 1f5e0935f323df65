"""Compile programs for devices, and run them."""
