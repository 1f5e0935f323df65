"""Print a computation as HLO text, in the form that XLA prints and parses.

An instruction is printed from the schema of its opcode (`builder.schema`). The module `printer` has
rules for opcodes with attributes that a schema does not describe, and for the few ops that HLO text
can't express in one instruction; docs/architecture.md lists these ops.
"""

from builder.hlo_text.printer import module_text as module_text
