"""Code and data of the host: infeed, outfeed, Python callbacks, custom calls."""
