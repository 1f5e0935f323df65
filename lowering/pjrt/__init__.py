"""Devices: finding them, placing arrays on them, the layouts of arrays there."""
