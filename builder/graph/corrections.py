"""Corrected calls for the fixes of errors: the user's arguments, in an order that is valid.

A call is corrected by trying other orders of its arguments on a builder of its own, with a
parameter in place of each op. The arguments are spelled as in the source of the caller if it is
available; otherwise an op is spelled like the parameter that takes it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise, permutations, takewhile
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np

from builder.errors import XlaError, brief
from builder.graph.xla_op import XlaOp
from builder.support.arguments import is_function
from builder.support.frames import is_inside
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, TupleShape

_MOST_ARGUMENTS: Final = 5
"""The maximum number of arguments of a call whose other orders are tried."""

_LONGEST: Final = 80
"""The maximum length of an argument that is copied from the source."""

_WRAPPERS: Final = (f"graph{os.sep}calls.py", f"{os.sep}registry.py", f"ops{os.sep}definition.py")
"""The files of the wrappers of public functions."""

_OBJECTS: Final = {
    "XlaBuilder": "b",
    "XlaComputation": "computation",
    "StablehloModule": "module",
}
"""The variables in which messages keep the objects of a class; others are called executables."""


def public_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class that it initializes."""
    is_class = function.__name__ == "__init__"
    return function.__qualname__.partition(".")[0] if is_class else function.__name__


def spelling(function: Callable[..., Any]) -> str:
    """Return a function as programs write it, such as "xb.rev" or "b.parameter"."""
    name, (of_class, _, method) = public_name(function), function.__qualname__.partition(".")
    if method.isidentifier() and method != "__init__":
        return f"{_OBJECTS.get(of_class, 'executable')}.{name}"
    package = function.__module__
    if package.startswith("builder.lib."):
        return f"lib.{name}"
    return f"lowering.{name}" if package.startswith("lowering.") else f"xb.{name}"


class WrittenCall(NamedTuple):
    """A call in the source of the user.

    Attributes:
        function: the source of the function.
        arguments: the source of the positional arguments.
    """

    function: str
    arguments: Sequence[str]


def users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the user that called a public function, or None if the library did.

    Args:
        frame: the frame of the function, or that of one of its wrappers.
    """
    frame = None if frame is None else frame.f_back
    while frame is not None and is_inside(frame):
        if not frame.f_code.co_filename.endswith(_WRAPPERS):
            return None
        frame = frame.f_back
    return frame


def written_call(frame: FrameType | None, function: Callable[..., Any]) -> WrittenCall | None:
    """Return the call of `function` that a frame executes; None without its source."""
    source = None if frame is None else _executed_source(frame)
    call = None if source is None else _parsed(source)
    if not isinstance(call, ast.Call) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    called = ast.unparse(call.func)
    if len(called) > _LONGEST:
        return None
    name = called.rpartition(".")[2]
    alias = getattr(sys.modules["builder"], name, None)
    is_alias = callable(alias) and inspect.unwrap(alias) is inspect.unwrap(function)
    if name != public_name(function) and not is_alias:
        return None
    return WrittenCall(called, [_text_of(argument, source) for argument in call.args])


def _parsed(source: str) -> ast.expr | None:
    """Return the expression with this source, or None if it is not a complete one."""
    try:
        return ast.parse(f"({source})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def _text_of(node: ast.expr, source: str | None) -> str:
    """Return the source of a part of the expression that `_parsed` returned for `source`."""
    text = ast.get_source_segment(f"({source})", node)
    return ast.unparse(node) if text is None or "\n" in text else text


def _executed_source(frame: FrameType) -> str | None:
    """Return the source of the expression that a frame executes, or None."""
    found = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    first, last, start, stop = found
    if first is None or last is None or start is None or stop is None:
        return None
    text = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    if len(text) != last - first + 1:
        return None
    lines = [line.encode() for line in text]  # columns count bytes
    lines[-1] = lines[-1][:stop]
    before, lines[0] = lines[0][:start], lines[0][start:]
    # The position of a chain of methods over several lines begins with the last method.
    return None if before.endswith(b".") else b"".join(lines).decode(errors="replace")


def argument_text(value: Any, name: str) -> str:
    """Return an argument as source: a number, a list or a type; otherwise `name`, the parameter."""
    if isinstance(value, (PrimitiveType, ArrayShape)):
        return f"xb.{value}" if "]{" not in str(value) else repr(str(value))
    if _class_of(value) in ("number", "bool", "text", "integers"):
        return brief(list(value) if isinstance(value, tuple) else value, _LONGEST)
    return name


def _class_of(value: Any) -> str:
    """Return the kind of an argument; arguments of one kind keep their order."""
    if isinstance(value, XlaOp):
        return "op"
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(part, XlaOp) for part in value):
            return "ops"
        return "integers" if all(type(part) is int for part in value) else "sequence"
    for name, types in (
        ("bool", (bool, np.bool_)),
        ("number", (int, float, complex, np.number)),
        ("text", str),
        ("type", PrimitiveType),
        ("shape", (ArrayShape, TupleShape)),
    ):
        if isinstance(value, types):
            return name
    return type(value).__name__


class _Item(NamedTuple):
    """An argument of the user, and its source, if that is available and short."""

    value: Any
    source: str | None

    def text(self, name: str) -> str:
        return argument_text(self.value, name) if self.source is None else self.source


def corrected_call(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    frame: FrameType | None,
) -> str:
    """Return the fix with the arguments of a wrong call in an order that is valid, or "".

    A builder in front, as C++ has it, is removed; an element type and sizes become a shape.

    Args:
        function: a public function; it is called with each order.
        arguments, named: the arguments of the call; those of a method begin with its object.
        frame: the frame of the user that called it; None if the library did.
    """
    if frame is None:
        return ""
    is_method = "self" in inspect.signature(function).parameters
    builder = _builder_of([*arguments, *named.values()])
    arguments = arguments[is_method:]
    if builder is None or not _may_be_tried(function, [*arguments, *named.values()]):
        return ""
    written = written_call(frame, function)
    sources: Sequence[str | None] = [None] * len(arguments)
    if written is not None and len(written.arguments) == len(arguments):
        sources = [text if len(text) <= _LONGEST else None for text in written.arguments]
    items = [_Item(*pair) for pair in zip(arguments, sources, strict=True)]
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    begins_with_builder = bool(items) and items[0].value is builder
    if begins_with_builder and parameters[0].name != "builder":
        items = items[1:]
    parameters = [p for p in parameters if p.name not in named]
    others = *_with_shape(items), *_unpacked(items, parameters), *_packed(items, parameters)
    for candidates in (items, *others):
        is_changed = len(candidates) != len(arguments)
        for placed in _orders(parameters, candidates, is_changed):
            if _is_valid(function, placed, named, is_method, builder):
                given = list(zip(_positional(parameters, len(items)), items, strict=False))
                if len(given) == len(arguments) and _is_valid(
                    function, given, named, is_method, builder
                ):
                    return ""  # the error is about something else, such as the builder of an op
                called = spelling(function) if written is None else written.function
                texts = [_passed(*pair, number) for number, pair in enumerate(placed)]
                texts += [f"{key}={argument_text(value, key)}" for key, value in named.items()]
                return f"write {called}({', '.join(texts)})"
    return ""


def _builder_of(values: Iterable[Any]) -> Any:
    """Return a builder among values, or that of the first op; None if there is neither."""
    for value in values:
        first = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(first, XlaOp):
            return first.builder
        if _class_of(first) == "XlaBuilder":
            return first
    return None


def _passed(parameter: inspect.Parameter, item: _Item, number: int) -> str:
    """Return the source that passes an argument, the one of this number, to a parameter."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return item.text("xyz"[number] if number < 3 else f"x{number}")
    text = item.text(parameter.name)
    return f"{parameter.name}={text}" if parameter.kind is parameter.KEYWORD_ONLY else text


def _may_be_tried(function: Callable[..., Any], values: Sequence[Any]) -> bool:
    """Return whether calling a function again has no effects and may help."""
    is_recording = any(_class_of(value) in ("op", "ops", "XlaBuilder") for value in values)
    if not is_recording and not function.__qualname__.startswith("XlaBuilder."):
        return False
    if not function.__module__.startswith("builder.") or len(values) > _MOST_ARGUMENTS + 1:
        return False
    # A function of the user may do anything.
    return all(
        not callable(value) or str(getattr(value, "__module__", "")).startswith("builder.")
        for value in values
    )


def _with_shape(items: list[_Item]) -> Iterator[list[_Item]]:
    """Return the arguments with an element type and the sizes beside it replaced by a shape."""
    for index, (first, second) in enumerate(pairwise(items)):
        for element_type, sizes in ((first.value, second.value), (second.value, first.value)):
            is_size = type(sizes) is int or (_class_of(sizes) == "integers" and sizes)
            if isinstance(element_type, PrimitiveType) and is_size:
                with suppress(XlaError):  # a size is negative
                    shape = element_type[sizes if type(sizes) is int else tuple(sizes)]
                    yield [*items[:index], _Item(shape, None), *items[index + 2 :]]


def _unpacked(items: list[_Item], parameters: Sequence[inspect.Parameter]) -> Iterator[list[_Item]]:
    """Return the arguments with a list of ops replaced by its ops, if any number is accepted."""
    for index, item in enumerate(items):
        if parameters[0].kind is parameters[0].VAR_POSITIONAL and _class_of(item.value) == "ops":
            texts = _elements(item.source, len(item.value))
            ops = [_Item(*pair) for pair in zip(item.value, texts, strict=True)]
            yield [*items[:index], *ops, *items[index + 1 :]]


def _packed(items: list[_Item], parameters: Sequence[inspect.Parameter]) -> Iterator[list[_Item]]:
    """Return the arguments with neighbours in a list, as many that the others fit.

    If the first parameter is a list, the ops in front may be its elements.
    """
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    count = 1 + len(items) - len(_positional(parameters, 0))
    if count >= 2:
        for first in range(len(items) - count + 1):
            if all(_class_of(i.value) in ("op", "number") for i in items[first : first + count]):
                yield [
                    *items[:first],
                    _listed(items[first : first + count]),
                    *items[first + count :],
                ]
    ops = list(takewhile(lambda item: _class_of(item.value) == "op", items))
    if len(ops) >= 2 and "Sequence[XlaOp]" in str(parameters[0].annotation):
        yield [_listed(ops), *items[len(ops) :]]


def _listed(items: list[_Item]) -> _Item:
    """Return arguments as one argument, a list."""
    texts = [item.source for item in items if item.source is not None]
    source = f"[{', '.join(texts)}]" if len(texts) == len(items) else None
    return _Item([item.value for item in items], source)


def _elements(source: str | None, count: int) -> Sequence[str | None]:
    """Return the source of each element of a list with `count` elements."""
    display = None if source is None else _parsed(source)
    if not isinstance(display, (ast.List, ast.Tuple)):
        return [None] * count
    texts = [_text_of(element, source) for element in display.elts]
    return texts if len(texts) == count else [None] * count


_Placed = list[tuple[inspect.Parameter, _Item]]
"""The parameters that are passed, each with its argument."""


def _orders(
    parameters: Sequence[inspect.Parameter], items: list[_Item], is_changed: bool
) -> Iterator[_Placed]:
    """Return orders of the arguments, those first that move the fewest.

    Args:
        parameters: the parameters.
        items: the arguments.
        is_changed: whether the given order has not been tried.
    """
    count = len(items)
    if not 0 < count <= _MOST_ARGUMENTS:
        return
    positional = _positional(parameters, count)
    forms = [positional[:count]] if len(positional) >= count else []
    only_named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    if len(positional) >= count - 1:
        forms += [[*positional[: count - 1], p] for p in only_named]
    classes = [_class_of(item.value) for item in items]
    given = tuple(range(count))
    orders = sorted(permutations(given), key=lambda o: sum(map(int.__ne__, o, given)))
    required = {
        p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
    }
    for order in orders:
        if not _keeps_order(order, items, classes) or (order == given and not is_changed):
            continue
        for form in forms:
            placed = [(p, items[index]) for p, index in zip(form, order, strict=True)]
            if required <= {p.name for p in form} and all(
                may_be(*pair) for pair in _values(placed)
            ):
                yield placed
    # The last argument by name, for a later parameter: xb.sort(x, dimension=0). Not a text: shapes,
    # types and options have one.
    for p in [] if is_changed or isinstance(items[-1].value, str) else positional[count:]:
        if p.default is p.empty or p.kind is p.VAR_POSITIONAL:
            continue
        form = [*positional[: count - 1], p.replace(kind=p.KEYWORD_ONLY)]
        placed = list(zip(form, items, strict=True))
        if required <= {p.name for p in form} and all(may_be(*pair) for pair in _values(placed)):
            yield placed


def _values(placed: _Placed) -> Iterator[tuple[inspect.Parameter, Any]]:
    return ((parameter, item.value) for parameter, item in placed)


def _positional(parameters: Sequence[inspect.Parameter], count: int) -> list[inspect.Parameter]:
    """Return the parameters that take `count` positional arguments."""
    many = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    return [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] + many * count


def _keeps_order(order: Sequence[int], items: list[_Item], classes: list[str]) -> bool:
    """Return whether arguments of one kind stay in order; two lists of other lengths need not."""
    for kind in {*classes}:
        indices = [index for index in order if classes[index] == kind]
        if indices != sorted(indices):
            lengths = {len(items[index].value) for index in indices if kind == "integers"}
            if len(indices) != 2 or len(lengths) != 2:
                return False
    return True


def may_be(parameter: inspect.Parameter, value: Any) -> bool:
    """Return whether the annotation of a parameter allows an argument, as far as is known."""
    annotation = str(parameter.annotation)
    takes_function = "Callable" in annotation
    if isinstance(value, XlaOp):
        return annotation not in ("int", "str", "bool") and not takes_function
    if is_function(value):
        return takes_function or "XlaOp" not in annotation
    if annotation in ("Operand", "XlaOp | int | float | complex"):
        return not isinstance(value, (list, tuple))
    if annotation == "PrimitiveTypeLike":
        return not isinstance(value, (int, float))
    return annotation != "XlaOp"


def _is_valid(
    function: Callable[..., Any],
    placed: _Placed,
    named: Mapping[str, Any],
    is_method: bool,
    builder: Any,
) -> bool:
    """Return whether a function accepts arguments; ops are those of a builder like this one."""
    scratch, ops = type(builder)("corrected_call"), dict[int, Any]()

    def replaced(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [replaced(part) for part in value]
        if isinstance(value, XlaOp) and id(value) not in ops:
            ops[id(value)] = scratch.parameter(value.shape)
        return scratch if isinstance(value, type(builder)) else ops.get(id(value), value)

    try:
        keywords = {key: replaced(value) for key, value in named.items()}
        passed = [scratch] if is_method else []
        for parameter, item in placed:
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = replaced(item.value)
            else:
                passed.append(replaced(item.value))
        function(*passed, **keywords)
    except Exception:  # the order is not valid either
        return False
    return True


def correct(
    error: XlaError,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    frame: FrameType | None,
) -> None:
    """Replace the fix of an error of `function` by a corrected call, if there is one.

    The arguments are those of `corrected_call`.
    """
    error.fix = corrected_call(function, arguments, named, frame) or error.fix
