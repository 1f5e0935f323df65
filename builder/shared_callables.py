"""Which of a user's callables need not be recorded again, since they would give the same.

A function that is given to an op a second time, with the same shapes, gives the same computation
if it can't tell the second call from the first. That holds where everything that it reads besides
its arguments is the same object as then, and can't have changed inside: numbers, texts, element
types, shapes, functions of `builder`, functions of which the same holds. What it reads is found in
its code: globals, what it closes over, defaults, names of modules. A function of which that can't
be said (it holds a list or an object, imports or assigns something, prints, counts its calls,
draws random numbers, is a method) is called each time. So is one that records a call of Python:
the function called is the first caller's.

Of a function that closes over something else each time, so that nothing is found again for long,
only every eighth computation is kept, until one is.

The computation that is given again is the same object, so that lowering sees that it is. Its ops
keep the lines on which they were first recorded.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter, is_
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, ModuleType, NoneType
from typing import Any, Final
from weakref import ref

import numpy as np

from builder.caller import INSIDE
from builder.computation import XlaComputation
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, ProgramShape, Shape, TokenShape, TupleShape
from builder.xla_op import NO_ATTRIBUTES

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


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Word after word in a text, as two hundred lines of quoted names would be hard to read.
_OPCODES: Final = _words("""
    BEFORE_WITH BINARY_OP BINARY_SLICE BINARY_SUBSCR BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP
    BUILD_SET BUILD_SLICE BUILD_STRING BUILD_TUPLE CACHE CALL CALL_FUNCTION_EX CALL_INTRINSIC_1
    CALL_KW CHECK_EXC_MATCH COMPARE_OP CONTAINS_OP CONVERT_VALUE COPY COPY_FREE_VARS DELETE_DEREF
    DELETE_FAST DELETE_SUBSCR DICT_MERGE DICT_UPDATE END_FOR END_SEND EXTENDED_ARG FORMAT_SIMPLE
    FORMAT_VALUE FORMAT_WITH_SPEC FOR_ITER GET_ITER GET_LEN GET_YIELD_FROM_ITER IS_OP
    JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP
    KW_NAMES LIST_APPEND LIST_EXTEND LIST_TO_TUPLE LOAD_ASSERTION_ERROR LOAD_ATTR LOAD_CLOSURE
    LOAD_CONST LOAD_DEREF LOAD_FAST LOAD_FAST_AND_CLEAR
    LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_GLOBAL LOAD_METHOD
    MAKE_CELL MAKE_FUNCTION MAP_ADD MATCH_KEYS MATCH_MAPPING
    MATCH_SEQUENCE NOP POP_EXCEPT POP_JUMP_BACKWARD_IF_FALSE
    POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE
    POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE
    POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
    POP_JUMP_IF_TRUE POP_TOP PRECALL PUSH_EXC_INFO PUSH_NULL RAISE_VARARGS RERAISE RESUME
    RETURN_CONST RETURN_GENERATOR RETURN_VALUE SEND SET_ADD SET_FUNCTION_ATTRIBUTE SET_UPDATE
    STORE_DEREF STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST STORE_SLICE STORE_SUBSCR SWAP
    TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE UNPACK_EX UNPACK_SEQUENCE
    WITH_EXCEPT_START YIELD_VALUE
""")
"""Instructions of Python 3.11 to 3.13 that change nothing but what the call itself made.

Others import, assign globals or attributes, make classes, await, or aren't known here.
"""

_INTRINSICS: Final = (3, 5, 6)
"""What CALL_INTRINSIC_1 may do: end a generator, +x, make a tuple of a list."""

_ATTRIBUTES: Final = _words("""
    builder id name opcode operands shape
    call constant create_token custom_call empty_tuple frontend_attributes infeed iota parameter
    partition_id recv replica_id sharding
    at_bounds dimensions dynamic_dimensions element_count element_type elements has_layout
    is_array is_bounded is_scalar is_static is_tuple layout leaf_count rank with_element_type
    with_layout
    bits dtype is_array_element is_complex is_floating is_integral is_signed itemsize kind max min
    value
    add append bit_length clear conjugate copy count difference discard endswith extend get imag
    index insert intersection is_integer issubset issuperset items join keys lower pop real remove
    replace reverse setdefault sort split startswith strip symmetric_difference union update upper
    values
""")
"""What may be asked of a value that isn't a module: of an op, a builder, a shape, an element type,
and of Python's own types. A line a row. Others lead out of the computation, or to the line of the
call, or are of what a user may have put there."""

_GENERATOR_FLAGS: Final = 0x20 | 0x80 | 0x200

Read = tuple[str | None, str, tuple[str, ...]]
"""Of a function's code: "global" or "free", a name, and the attributes taken from it at once; or
"is", where it compares with `is`."""


_OWN: Final[set[FunctionType]] = set()


def is_own(computation: Any) -> bool:
    """Whether it is one of the library's own functions, such as xb.add.

    Those give the same computation every time, so that plans of ops may be kept by them.
    """
    # Asked for each op with a reducer: of those seen before only whether they are in the set.
    return type(computation) is FunctionType and (computation in _OWN or _is_ours(computation))


def _is_ours(function: FunctionType) -> bool:
    """Whether a function's code stands in `builder`, under its name in one of the modules.

    What a function says of itself isn't asked: `functools.wraps` gives a user's function the name
    and the module of the one it wraps.
    """
    if not INSIDE[function.__code__.co_filename] or function.__closure__ is not None:
        return False
    module = _module_of(function)
    if not module.startswith("builder.") or not _is_in_module(function, module):
        return False
    _OWN.add(function)
    return True


class Facts:
    """What a function's result depends on besides its arguments, as it was found.

    Attributes:
        code, namespace, name: the function's own.
        contents: its defaults, and what it closes over.
        exact: whether it asks which object it was given, with `is`, so that equal numbers are
            not the same to it.
        reads: where a name was looked up, the name, and the value that was found.
        functions: other functions that it uses, with what they had in the same places.
    """

    __slots__ = ("code", "contents", "exact", "functions", "name", "namespace", "reads")

    def __init__(self, function: FunctionType, contents: tuple[Any, ...]) -> None:
        self.code = function.__code__
        self.namespace = function.__globals__
        self.name = function.__name__
        self.contents = contents
        self.exact = False
        self.reads: list[tuple[Any, str, Any]] = []
        self.functions: list[tuple[FunctionType, CodeType, str, tuple[Any, ...]]] = []

    def hold_for(self, function: FunctionType, contents: tuple[Any, ...]) -> bool:
        """Whether a function of the same code, and of contents of the same marks, depends on the
        very same objects, or numbers."""
        if (
            function.__globals__ is not self.namespace
            or function.__name__ != self.name
            or (self.exact and not _are_same(contents, self.contents))
        ):
            return False
        for namespace, name, value in self.reads:
            if namespace.get(name, _MISSING) is not value:
                return False
        are_same = _are_same if self.exact else _are_alike
        for used, code, name, had in self.functions:
            if used.__code__ is not code or used.__name__ != name:
                return False
            if not are_same(_contents(used), had):
                return False
        return True


Mark = int | str | tuple[int]


def _marks(values: tuple[Any, ...]) -> tuple[Mark, ...]:
    """What tells values apart: of numbers their value, to the last bit, of others who they are.

    A number that is worked out anew is another object each time.
    """
    return tuple(
        [
            value.hex()
            if type(value) is float and value == value
            else (value,)
            if type(value) is int
            else id(value)
            for value in values
        ]
    )


def _are_alike(some: tuple[Any, ...] | None, others: tuple[Any, ...]) -> bool:
    return some is not None and _marks(some) == _marks(others)


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


_MOST_VALUES: Final = 1000
"""No more values are looked at, with those in tuples and those that other functions read."""


def _collect(function: FunctionType, contents: tuple[Any, ...], facts: Facts) -> bool:
    """Adds what a function reads, and what those do that it uses; False if any of it may change."""
    pending = _read_by(function, contents, facts)
    seen = {function}
    looked_at = 0
    while pending:
        value = pending.pop()
        if value is _MISSING:  # stands for what can't be told
            return False
        kind = type(value)
        if kind is tuple:
            looked_at += len(value)
            if looked_at > _MOST_VALUES:
                return False
            pending.extend(value)
        elif kind is FunctionType:
            if is_own(value) or value in seen:
                continue
            seen.add(value)
            used = _contents(value)
            if used is None:
                return False
            facts.functions.append((value, value.__code__, value.__name__, used))
            found = _read_by(value, used, facts)
            looked_at += len(found) + 1
            if looked_at > _MOST_VALUES:
                return False
            pending.extend(found)
        elif not _is_fixed(value):
            return False
    return True


_builtins_of: Final[Callable[[FunctionType], dict[str, Any]]] = attrgetter("__builtins__")
"""The names that a function finds where its module has none. (What type checkers know of the
attribute differs from one run to the next.)"""


def _read_by(function: FunctionType, contents: tuple[Any, ...], facts: Facts) -> list[Any]:
    """The values that a function reads, all of which must be fixed; _MISSING is among them if not.

    Where it looked them up is added to the facts.
    """
    code = function.__code__
    reads = _reads_of(code)
    namespace = function.__globals__
    module = sys.modules.get(str(namespace.get("__name__")))
    # A namespace that no module has goes with its functions; the facts would keep it.
    if module is None or vars(module) is not namespace:
        return [_MISSING]
    if reads is None or code.co_flags & _GENERATOR_FLAGS:
        return [_MISSING]
    defaults = len(function.__defaults__ or ())
    closed = dict(zip(code.co_freevars, contents[defaults:], strict=True))
    values = [*contents[:defaults]]
    values.extend(value for value in closed.values() if type(value) is not ModuleType)
    for kind, name, attributes in reads:
        if kind == "is":
            facts.exact = True
            continue
        if kind == "free":
            value = closed[name]
        else:
            value = namespace.get(name, _MISSING)
            facts.reads.append((namespace, name, value))
            if value is _MISSING:
                names = _builtins_of(function)
                value = names.get(name, _MISSING)
                facts.reads.append((names, name, value))
                if not _is_one_of(value, _BUILTINS):
                    return [_MISSING]
        for place, attribute in enumerate(attributes):
            if type(value) is not ModuleType:
                if not _may_be_asked(value, attributes[place:]):
                    return [_MISSING]
                break
            # A name that the module makes only when it is asked for is not there yet.
            names = vars(value)
            value = names.get(attribute, _MISSING)
            facts.reads.append((names, attribute, value))
        values.append(value)
    return values


def _may_be_asked(value: Any, attributes: tuple[str, ...]) -> bool:
    """Whether attributes of what is no module are the same the next time, if the value is."""
    first, *others = attributes
    if isinstance(value, enum.EnumType):
        return first in value.__members__ and _ATTRIBUTES.issuperset(others)
    if isinstance(value, type) and not _is_one_of(value, _BUILTINS):
        return False  # those of classes may be assigned
    return _ATTRIBUTES.issuperset(attributes)


def _is_one_of(value: Any, known: Iterable[Any]) -> bool:
    return any(value is one for one in known)


def _is_fixed(value: Any) -> bool:
    """Whether a value, no tuple and no function of Python's, can't change, nor what it does."""
    kind = type(value)
    if kind in _FIXED_TYPES:
        return True
    if issubclass(kind, type):
        return _is_one_of(value, _BUILTINS) or _is_known_class(value)
    if kind is BuiltinFunctionType:
        known = _module_of(value) == "math" and getattr(math, value.__name__, None) is value
        return known or _is_one_of(value, _BUILTINS)
    if not _is_known_class(kind):
        return False
    if issubclass(kind, np.generic):
        return not issubclass(kind, (np.flexible, np.object_))
    return issubclass(kind, enum.Enum) or _is_frozen_bundle(_module_of(kind), value)


_SCALAR_MODULES: Final = ("numpy", "ml_dtypes")


def _is_known_class(value: type) -> bool:
    """Whether it is a class of `builder`, or a type of scalars, and not one that says so."""
    module = _module_of(value)
    if module.startswith("builder.") or (
        module in _SCALAR_MODULES and issubclass(value, np.generic)
    ):
        return _is_in_module(value, module)
    return False


def _is_in_module(value: Any, module: str) -> bool:
    """Whether a class or a function is what a module has under its name."""
    found = sys.modules.get(module)
    return found is not None and vars(found).get(value.__name__) is value


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
            found = tuple(dict.fromkeys(_walk(code)))
        except _NotFollowedError:
            found = None
        if len(_READS) >= _MOST_CODES:
            _READS.clear()
        known = _READS[id(code)] = (code, found)
    return known[1]


class _NotFollowedError(Exception):
    """An instruction after which nothing can be said."""


def _walk(code: CodeType) -> Iterator[Read]:
    """What a code object reads, and those of the functions that it makes."""
    pending = [(code, frozenset(code.co_freevars))]
    while pending:
        code, free = pending.pop()
        yield from _walk_one(code, free)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                # Names that it has from this function itself are not free to begin with.
                outer = free.difference(code.co_cellvars)
                pending.append((constant, outer.intersection(constant.co_freevars)))


def _walk_one(code: CodeType, free: frozenset[str]) -> Iterator[Read]:
    from dis import get_instructions  # costs as much as a tenth of this package's own import

    kind: str | None = None
    name = ""
    attributes: list[str] = []
    for instruction in get_instructions(code):
        opcode, argument = instruction.opname, instruction.argval
        if opcode not in _OPCODES:
            raise _NotFollowedError
        if kind is not None and instruction.is_jump_target:
            # What comes from here on may be done to another value.
            yield kind, name, tuple(attributes)
            kind = None
        if opcode in ("LOAD_ATTR", "LOAD_METHOD"):
            if kind is not None:
                attributes.append(argument)
            elif argument not in _ATTRIBUTES:
                raise _NotFollowedError
            continue
        if opcode in ("EXTENDED_ARG", "CACHE"):
            continue
        if kind is not None:
            yield kind, name, tuple(attributes)
        kind = None
        if opcode == "IS_OP":
            yield "is", "", ()
        if opcode == "LOAD_GLOBAL":
            kind, name, attributes = "global", argument, []
        elif opcode == "LOAD_DEREF" and argument in free:
            kind, name, attributes = "free", argument, []
        elif opcode == "CALL_INTRINSIC_1":
            if instruction.arg not in _INTRINSICS:
                raise _NotFollowedError
        elif opcode in ("STORE_DEREF", "DELETE_DEREF") and argument in free:
            raise _NotFollowedError
    if kind is not None:
        yield kind, name, tuple(attributes)


Key = tuple[str, str, tuple[Shape, ...], bool, int]


class _Forms(list[tuple[tuple[Mark, ...], Facts, ref[XlaComputation]]]):
    """What is kept of one function, and how often it was recorded since one was found again.

    The computations weakly: they may be large, and go with the last graph that applies them.
    """

    __slots__ = ("misses",)

    def __init__(self) -> None:
        self.misses = 0


_KEPT: Final[dict[Key, _Forms]] = {}
_MOST_KEYS: Final = 1024
_MOST_OF_ONE_CODE: Final = 32
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
        given = _marks(contents)
        for marks, facts, kept in forms:
            if marks == given:
                computation = kept()
                if computation is not None and facts.hold_for(function, contents):
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
    marks, contents = _marks(facts.contents), _contents(function)
    if function.__code__ is not facts.code or contents is None or _marks(contents) != marks:
        return
    if not facts.hold_for(function, contents):
        return
    if _holds_functions(computation):
        return
    if len(_KEPT) >= _MOST_KEYS:
        _KEPT.clear()
    key = op, role, shapes, pass_arguments, id(function.__code__)
    kept = _KEPT.get(key)
    if kept is None:
        kept = _KEPT.setdefault(key, _Forms())
    kept.append((marks, facts, ref(computation, _forgetting(key))))
    del kept[:-_MOST_OF_ONE_CODE]


def _forgetting(key: Key) -> Callable[[ref[XlaComputation]], None]:
    """What takes a computation that is gone out of those kept, with all that its facts hold."""

    def forget(gone: ref[XlaComputation]) -> None:
        forms = _KEPT.get(key)
        if forms is not None:
            forms[:] = [form for form in forms if form[2] is not gone]
            if not forms:
                _KEPT.pop(key, None)

    return forget


def _holds_functions(computation: XlaComputation) -> bool:
    """Whether it calls Python, in itself or by what it applies.

    A function that it calls may have been made while it was recorded, and then reads the variables
    of this one call for as long as it runs.
    """
    entered = {computation}
    pending = [computation]
    while pending:
        for op in pending.pop().ops:
            if op.attributes is NO_ATTRIBUTES:
                continue
            for value in op.attributes.values():
                for one in value if type(value) is tuple else (value,):
                    if type(one) is XlaComputation:
                        if one not in entered:
                            entered.add(one)
                            pending.append(one)
                    elif callable(one):
                        return True
    return False
