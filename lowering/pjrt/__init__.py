"""Find devices, copy arrays to devices, and determine the memory layouts of arrays on devices."""
