"""Run computations on StableHLO's reference interpreter, and compare devices with it."""

from lowering.interpreter.comparing import Comparison, Difference, compare
from lowering.interpreter.corresponding import Correspondence
from lowering.interpreter.evaluating import Interpretation, interpret

__all__ = ["Comparison", "Correspondence", "Difference", "Interpretation", "compare", "interpret"]
