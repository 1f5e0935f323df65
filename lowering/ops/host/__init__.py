"""Tokens, transfers, custom calls and calls of Python functions."""

from lowering.ops.host import (
    custom_calls as custom_calls,
    python_calls as python_calls,
    transfers as transfers,
)
