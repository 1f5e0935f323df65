"""Lowering rules, one module for each family of ops; importing this enters them all."""

from lowering.rules import contraction as contraction
from lowering.rules import control_flow as control_flow
from lowering.rules import elementwise as elementwise
from lowering.rules import reduction as reduction
from lowering.rules import reshaping as reshaping
