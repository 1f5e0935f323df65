"""Compiling for devices, and calling what was compiled."""
