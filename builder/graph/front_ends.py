"""Front ends: libraries that record ops for their own users."""

from __future__ import annotations

import os
import sys

from builder.errors import OperandError, brief, error_of
from builder.support.caller import INSIDE


def declare_internal(module: str) -> None:
    """Declare a module or package of a front end as internal, as the modules of `builder` are.

    The source lines of ops, and the lines in errors, are then those of the front end's callers. A
    front end calls this once, when it is imported.

    Args:
        module: the name of the module, or of a package with all its modules: ``__name__``.

    Raises:
        OperandError: no module of this name is imported, or it has no source file, such as the
            module of an interactive session.

    Example:
        In ``arrays.py``, the only module of a front end:

        >>> import builder as xb
        >>> xb.declare_internal(__name__)
        >>> def doubled(x):
        ...     return xb.add(x, x)

        The source line of the op that ``arrays.doubled(x)`` records is that of the call.
    """
    found = sys.modules.get(module) if isinstance(module, str) else None
    if found is None:
        rule = "expected the name of an imported module"
        raise error_of(OperandError, "declare_internal", rule, "pass __name__", got=brief(module))
    paths = [f"{folder}{os.sep}" for folder in getattr(found, "__path__", ())]
    file = getattr(found, "__file__", None)
    if not paths and file is not None:
        paths = [file]
    if not paths:
        rule = f"the module {module!r} has no source file"
        fix = "call xb.declare_internal(__name__) in a module that is imported from a file"
        raise error_of(OperandError, "declare_internal", rule, fix)
    INSIDE.add(module, tuple(paths))
