"""Which of a user's callables need not be recorded again, since they would give the same.

A function that is given to an op a second time, with the same shapes, gives the same computation
if it can't tell the second call from the first. That holds where everything that it reads besides
its arguments is the same object as then, and can't have changed inside: numbers, texts, element
types, shapes, functions of `builder`, functions of which the same holds. What it reads is found in
its code: globals, what it closes over, defaults, names of modules. A function of which that can't
be said (it holds a list or an object, imports or assigns something, prints, counts its calls,
draws random numbers, is a method) is called each time.

Of a function that closes over something else each time, so that nothing is found again for long,
only every eighth computation is kept, until one is.

The computation that is given again is the same object, so that lowering sees that it is. Its ops
keep the lines on which they were first recorded.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from operator import is_
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, ModuleType, NoneType
from typing import Any, Final
from weakref import ref

import numpy as np

from builder.computation import XlaComputation
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, ProgramShape, Shape, TokenShape, TupleShape

__all__ = ["Facts", "facts_to_keep", "found_again", "is_own", "keep"]

_MISSING: Final = object()

_FIXED_TYPES: Final = frozenset(
    (
        NoneType,
        EllipsisType,
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        PrimitiveType,
        ArrayShape,
        TupleShape,
        TokenShape,
        ProgramShape,
    )
)
"""Types whose values never change."""

_BUILTINS: Final[tuple[Any, ...]] = (
    *(abs, all, any, bool, complex, dict, divmod, enumerate, filter, float, frozenset, int),
    *(isinstance, len, list, map, max, min, pow, range, reversed, round, set, slice, sorted),
    *(str, sum, tuple, zip),
)
"""What gives the same for the same arguments, and does nothing else."""

_REFUSED_OPCODES: Final = frozenset(
    (
        "DELETE_ATTR",
        "DELETE_GLOBAL",
        "IMPORT_FROM",
        "IMPORT_NAME",
        "LOAD_BUILD_CLASS",
        "LOAD_FROM_DICT_OR_DEREF",
        "LOAD_FROM_DICT_OR_GLOBALS",
        "LOAD_NAME",
        "MATCH_CLASS",
        "STORE_ATTR",
        "STORE_GLOBAL",
        "STORE_NAME",
    )
)
"""Instructions that import, or change what outlives the call."""

_REFUSED_ATTRIBUTES: Final = frozenset(
    ("captured", "child", "code", "format", "format_map", "innermost", "lasti", "parent", "source")
)
"""By way of these an argument leads out of the computation, or to the line of the call."""

_GENERATOR_FLAGS: Final = 0x20 | 0x80 | 0x200

Read = tuple[str | None, str, tuple[str, ...]]
"""Of a function's code: "global" or "free", a name, and the attributes taken from it at once."""


def is_own(computation: Any) -> bool:
    """Whether it is one of the library's own functions, such as xb.add.

    Those give the same computation every time, so that plans of ops may be kept by them.
    """
    return type(computation) is FunctionType and (computation.__module__ or "").startswith(
        "builder."
    )


class Facts:
    """What a function's result depends on besides its arguments, as it was found.

    Attributes:
        code, namespace, name: the function's own.
        contents: its defaults, and what it closes over.
        reads: where a name was looked up, the name, and the value that was found.
        functions: other functions that it uses, with what they had in the same places.
    """

    __slots__ = ("code", "contents", "functions", "name", "namespace", "reads")

    def __init__(self, function: FunctionType, contents: tuple[Any, ...]) -> None:
        self.code = function.__code__
        self.namespace = function.__globals__
        self.name = function.__name__
        self.contents = contents
        self.reads: list[tuple[Any, str, Any]] = []
        self.functions: list[tuple[FunctionType, CodeType, str, tuple[Any, ...]]] = []

    def hold_for(self, function: FunctionType) -> bool:
        """Whether a function of the same code depends on the very same objects."""
        if (
            function.__globals__ is not self.namespace
            or function.__name__ != self.name
            or not _are_same(_contents(function), self.contents)
        ):
            return False
        for namespace, name, value in self.reads:
            if namespace.get(name, _MISSING) is not value:
                return False
        for used, code, name, contents in self.functions:
            if used.__code__ is not code or used.__name__ != name:
                return False
            if not _are_same(_contents(used), contents):
                return False
        return True


def _are_same(some: tuple[Any, ...] | None, others: tuple[Any, ...]) -> bool:
    if some is None or len(some) != len(others):
        return False
    return all(map(is_, some, others))


def _contents(function: FunctionType) -> tuple[Any, ...] | None:
    """A function's defaults and what it closes over; None where that can't be kept by."""
    if function.__kwdefaults__ or function.__dict__:
        return None
    closure = function.__closure__
    if closure is None:
        return function.__defaults__ or ()
    try:
        return (*(function.__defaults__ or ()), *[cell.cell_contents for cell in closure])
    except ValueError:
        return None  # closes over a name that has no value yet


def _facts_of(function: FunctionType) -> Facts | None:
    """What the result of `function` depends on; None if that can't be told."""
    contents = _contents(function)
    if contents is None:
        return None
    facts = Facts(function, contents)
    if is_own(function):
        return facts
    return facts if _collect(function, contents, facts) else None


def _collect(function: FunctionType, contents: tuple[Any, ...], facts: Facts) -> bool:
    """Adds what a function reads; False as soon as something may change."""
    code = function.__code__
    reads = _reads_of(code)
    if reads is None or code.co_flags & _GENERATOR_FLAGS:
        return False
    defaults = len(function.__defaults__ or ())
    closed = dict(zip(code.co_freevars, contents[defaults:], strict=True))
    for value in contents[:defaults]:
        if not _is_fixed(value, facts):
            return False
    for value in closed.values():
        if type(value) is not ModuleType and not _is_fixed(value, facts):
            return False
    namespace = function.__globals__
    for kind, name, attributes in reads:
        if kind == "free":
            value = closed[name]
        else:
            value = namespace.get(name, _MISSING)
            facts.reads.append((namespace, name, value))
            if value is _MISSING:
                names = function.__builtins__  # type: ignore[attr-defined]  # since Python 3.10
                value = names.get(name, _MISSING)
                facts.reads.append((names, name, value))
                if not any(value is known for known in _BUILTINS):
                    return False
                continue
        for attribute in attributes:
            if type(value) is not ModuleType:
                break
            # A name that the module makes only when it is asked for is not there yet.
            names = vars(value)
            value = names.get(attribute, _MISSING)
            facts.reads.append((names, attribute, value))
        if not _is_fixed(value, facts):
            return False
    return True


def _is_fixed(value: Any, facts: Facts) -> bool:
    """Whether a value can't change, nor what it does; functions are added to the facts."""
    kind = type(value)
    if kind in _FIXED_TYPES:
        return True
    if kind is tuple:
        return all(_is_fixed(one, facts) for one in value)
    if kind is FunctionType:
        if is_own(value) or any(value is used for used, *_ in facts.functions):
            return True
        contents = _contents(value)
        if contents is None:
            return False
        facts.functions.append((value, value.__code__, value.__name__, contents))
        return _collect(value, contents, facts)
    module = _module_of(kind)
    if issubclass(kind, type):
        return (
            any(value is known for known in _BUILTINS)
            or (_module_of(value) in _SCALAR_MODULES and issubclass(value, np.generic))
            or _module_of(value).startswith("builder.")
        )
    if kind is BuiltinFunctionType:
        return _module_of(value) == "math" and getattr(math, value.__name__, None) is value
    if module.startswith("builder."):
        return issubclass(kind, enum.Enum) or _is_frozen_bundle(module, value)
    return (
        module in _SCALAR_MODULES
        and issubclass(kind, np.generic)
        and not issubclass(kind, (np.flexible, np.object_))
    )


_SCALAR_MODULES: Final = ("numpy", "ml_dtypes")


def _module_of(value: Any) -> str:
    """The module that a class or a function says it is of."""
    return str(getattr(value, "__module__", ""))


def _is_frozen_bundle(module: str, value: Any) -> bool:
    """Whether it is one of the bundles of attributes, made of what can be a key."""
    if not module.startswith("builder.attributes"):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


# Code objects are kept, so that an id stands for one of them.
_READS: Final[dict[int, tuple[CodeType, tuple[Read, ...] | None]]] = {}
_MOST_CODES: Final = 4096


def _reads_of(code: CodeType) -> tuple[Read, ...] | None:
    """What a code object reads from outside; None if it does what can't be followed."""
    known = _READS.get(id(code))
    if known is None:
        try:
            found = tuple(dict.fromkeys(_walk(code, frozenset(code.co_freevars))))
        except _NotFollowedError:
            found = None
        if len(_READS) >= _MOST_CODES:
            _READS.clear()
        known = _READS[id(code)] = (code, found)
    return known[1]


class _NotFollowedError(Exception):
    """An instruction after which nothing can be said."""


def _walk(code: CodeType, free: frozenset[str]) -> Iterator[Read]:
    from dis import get_instructions  # costs as much as a tenth of this package's own import

    kind: str | None = None
    name, attributes = "", [""]
    for instruction in get_instructions(code):
        opcode, argument = instruction.opname, instruction.argval
        if opcode in _REFUSED_OPCODES:
            raise _NotFollowedError
        if opcode in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            if argument.startswith("__") or argument in _REFUSED_ATTRIBUTES:
                raise _NotFollowedError
            attributes.append(argument)
            continue
        if opcode == "EXTENDED_ARG":
            continue
        if kind is not None:
            yield kind, name, tuple(attributes)
        kind = None
        if opcode == "LOAD_GLOBAL":
            kind, name, attributes = "global", argument, []
        elif opcode in ("LOAD_DEREF", "LOAD_CLASSDEREF") and argument in free:
            kind, name, attributes = "free", argument, []
        elif opcode in ("STORE_DEREF", "DELETE_DEREF") and argument in free:
            raise _NotFollowedError
    if kind is not None:
        yield kind, name, tuple(attributes)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _walk(constant, free)


Key = tuple[str, str, tuple[Shape, ...], bool, int]


class _Forms(list[tuple[tuple[int, ...], Facts, ref[XlaComputation]]]):
    """What is kept of one function, and how often it was recorded since one was found again.

    The computations weakly: they may be large, and go with the last graph that applies them.
    """

    __slots__ = ("misses",)

    def __init__(self) -> None:
        self.misses = 0


_KEPT: Final[dict[Key, _Forms]] = {}
_MOST_KEYS: Final = 1024
_MOST_OF_ONE_CODE: Final = 8
"""As many forms of one function are kept, which close over other values: the last ones."""

_MOST_MISSES: Final = 64
_KEPT_AFTER_MISSES: Final = 8
"""After so many misses only one form in so many is kept, until one is found again."""


def found_again(
    op: str,
    role: str,
    function: Callable[..., Any],
    shapes: tuple[Shape, ...],
    pass_arguments: bool = True,
) -> XlaComputation | None:
    """The computation that this callable gave before, if it must give the same now."""
    if type(function) is not FunctionType:
        return None
    forms = _KEPT.get((op, role, shapes, pass_arguments, id(function.__code__)))
    if forms is not None:
        contents = _contents(function)
        if contents is None:
            return None
        # Forms of one function differ by these, which takes a tenth of the time to see.
        given = tuple(map(id, contents))
        for ids, facts, kept in forms:
            if ids == given:
                computation = kept()
                if computation is not None and facts.hold_for(function):
                    forms.misses = 0
                    return computation
    return None


def facts_to_keep(
    op: str,
    role: str,
    function: Any,
    shapes: tuple[Shape, ...],
    pass_arguments: bool = True,
) -> Facts | None:
    """What the result of `function` depends on; None if it is not to be kept.

    A function that closes over other values each time is looked through every eighth time, which
    saves an eighth of recording it.
    """
    if type(function) is not FunctionType:
        return None
    forms = _KEPT.get((op, role, shapes, pass_arguments, id(function.__code__)))
    if forms is not None:
        forms.misses += 1
        if forms.misses >= _MOST_MISSES + _KEPT_AFTER_MISSES:
            forms.misses = _MOST_MISSES
        elif forms.misses > _MOST_MISSES:
            return None
    return _facts_of(function)


def keep(
    op: str,
    role: str,
    function: Callable[..., Any],
    shapes: tuple[Shape, ...],
    pass_arguments: bool,
    facts: Facts,
    computation: XlaComputation,
) -> None:
    """Keeps a computation for the next time; `facts` are those from before it was recorded."""
    assert type(function) is FunctionType  # others have no facts
    if function.__code__ is not facts.code or not facts.hold_for(function):
        return
    if len(_KEPT) >= _MOST_KEYS:
        _KEPT.clear()
    key = op, role, shapes, pass_arguments, id(function.__code__)
    kept = _KEPT.get(key)
    if kept is None:
        kept = _KEPT.setdefault(key, _Forms())
    kept.append((tuple(map(id, facts.contents)), facts, ref(computation)))
    del kept[:-_MOST_OF_ONE_CODE]
