"""Registers the ops without operands, which are methods of XlaBuilder, as operations."""

from __future__ import annotations

from builder.ops.definition import builder_method
from builder.schema import SCHEMAS

builder_method(SCHEMAS["constant"], None, "elementwise")
