"""Generate tests/surface.txt: each public name with its signature, and the options of the command.

    python tools/write_surface.py

The file is the interface that releases keep. A change of it is seen in review.
tests/test_surface.py fails if the committed file differs from what this generates.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "surface.txt"

_NAMED_ONLY = {"builder.shape_inference", "lowering.xla_client"}
"""Modules listed without signatures: functions like those of `builder`, and jaxlib's old names."""


def document() -> str:
    """Return the text of tests/surface.txt."""
    import builder
    import lowering
    from builder import lib
    from lowering.cli import main as command

    lines = [*_module(builder), *_module(lib), *_module(lowering), *_command(command)]
    return "\n".join(lines) + "\n"


def _module(module: ModuleType) -> Iterator[str]:
    """Generate the lines of a module."""
    defined = [
        n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
    ]
    for name in sorted(getattr(module, "__all__", defined)):
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        path = f"{module.__name__}.{name}"
        if inspect.ismodule(value):
            yield f"{path}: module"
            yield from _names(value, path) if path in _NAMED_ONLY else _module(value)
        elif inspect.isclass(value) and module.__name__ == "builder.layout":
            yield f"{path}: builder.{name}"
        elif inspect.isclass(value):
            bases = ", ".join(base.__name__ for base in value.__bases__ if _is_shown(base))
            yield f"class {path}({bases})"
            yield from (f"    {line}" for line in _class(value))
        elif get_origin(value) is not None:
            # How an alias such as `A | B` is shown depends on the version of Python.
            yield f"{path}: alias"
        elif callable(value):
            yield f"{path}{_signature(value)}"
        else:
            yield f"{path}: {type(value).__name__}"


def _names(module: ModuleType, path: str) -> Iterator[str]:
    """Generate the names of a module without their signatures.

    Among the modules in it, only the old binding's `ops` is public. Of that module, the names of
    operations are.
    """
    for name in dir(module):
        value = getattr(module, name)
        if name == "ops":
            yield f"{path}.ops: module"
            own = f"{module.__name__}."
            yield from (
                f"{path}.ops.{operation}"
                for operation, function in sorted(vars(value).items())
                if operation[0].isupper() and function.__module__.startswith(own)
            )
        elif not name.startswith("_") and not inspect.ismodule(value):
            yield f"{path}.{name}"


def _command(group: Any) -> Iterator[str]:
    """Generate the lines of the command: its options, and its subcommands with theirs."""
    yield group.name
    yield from (f"    {one}" for one in _options(group))
    for name, command in sorted(group.commands.items()):
        yield " ".join([group.name, name, *(p.make_metavar(None) for p in _arguments(command))])
        yield from (f"    {one}" for one in _options(command))


def _arguments(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "argument"]


def _options(command: Any) -> list[str]:
    """Return the options of a command, with what stands for their values in the help."""
    return sorted(
        ", ".join(p.opts) + ("" if p.is_flag else f" {p.make_metavar(None)}")
        for p in command.params
        if p.param_type_name == "option"
    )


def _class(cls: type) -> Iterator[str]:
    """Generate the lines of the members that a class or its private bases define."""
    if issubclass(cls, enum.Enum):
        yield from (f"{one.name} = {one.value!r}" for one in cls)
    elif "__init__" in vars(cls) or "__new__" in vars(cls):
        yield f"__init__{_signature(cls)}"
    for name in sorted({*dir(cls), "__call__"}):
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if owner is None or (name.startswith("_") and name != "__call__"):
            continue
        if owner is not cls and (_is_public(owner) or not _is_ours(owner)):
            continue
        value = vars(owner)[name]
        if isinstance(value, (staticmethod, classmethod)):
            yield f"{name}{_signature(value.__func__)}  # {type(value).__name__}"
        elif inspect.isfunction(value):
            yield f"{name}{_signature(value)}"
        elif isinstance(value, property):
            result = inspect.signature(value.fget).return_annotation if value.fget else ""
            yield f"{name}: {_annotation(result)}{'' if value.fset is None else '  # assignable'}"
        elif not (issubclass(cls, enum.Enum) and isinstance(value, cls)):
            annotation = owner.__annotations__.get(name, "attribute")
            yield f"{name}: {_annotation(annotation)}"


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("builder", "lowering")


def _is_public(cls: type) -> bool:
    """Whether the class has lines of its own."""
    packages = [sys.modules[name] for name in ("builder", "builder.lib", "lowering")]
    return any(cls.__name__ in package.__all__ for package in packages)


def _is_shown(base: type) -> bool:
    return base is not object and (_is_public(base) or not _is_ours(base))


def _signature(function: Callable[..., Any]) -> str:
    """Return a signature that does not depend on the version of Python."""
    signature = inspect.signature(function)
    texts = []
    kinds = [p.kind for p in signature.parameters.values()]
    for index, p in enumerate(signature.parameters.values()):
        if p.kind is p.KEYWORD_ONLY and not {p.KEYWORD_ONLY, p.VAR_POSITIONAL} & {*kinds[:index]}:
            texts.append("*")
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        annotation = "" if p.annotation is p.empty else f": {_annotation(p.annotation)}"
        default = "" if p.default is p.empty else f" = {_default(p.default)}"
        texts.append(f"{stars}{p.name}{annotation}{default}")
        if p.kind is p.POSITIONAL_ONLY and p.POSITIONAL_ONLY not in kinds[index + 1 :]:
            texts.append("/")
    result = signature.return_annotation
    return (
        f"({', '.join(texts)}){'' if result is signature.empty else f' -> {_annotation(result)}'}"
    )


def _annotation(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    return getattr(annotation, "__forward_arg__", None) or inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return re.sub(r" at 0x\w+", "", repr(value))


def main() -> None:
    """Write tests/surface.txt."""
    sys.path.insert(0, str(ROOT))
    TARGET.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
