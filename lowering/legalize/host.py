"""Infeed, outfeed and Python functions, where a client can't serve them."""

from __future__ import annotations
