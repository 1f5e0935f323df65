"""Devices: find them, place arrays on them, and read the layouts of arrays there."""
