"""Checks of the attributes of a loaded module, and of the arguments and results of its @main.

MLIR does not verify most of them. XLA's compiler aborts on some values, and does not name the
argument in its reports of others. Layouts are checked by `lowering/pjrt/entry_layouts.py`, the
texts of shardings by `lowering/sharding/texts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from jaxlib.mlir import ir

from builder.errors import XlaError
from builder.sharding.text import is_shardy
from builder.sharding.tiling import parse_tilings
from builder.types.shape import ArrayShape, ProgramShape
from lowering.errors import CompileError
from lowering.jaxlib_api.hlo_conversion import serialized_sharding_count
from lowering.mlir.attributes import ALIASING, DONOR, REPLICATION, attribute_value
from lowering.mlir.operations import attribute_text, entry, functions_in, main_function, symbol_name
from lowering.pjrt.host_arrays import program_leaves
from lowering.sharding.texts import OF_PARAMETERS, OF_RESULT

_MEMORY_KIND: Final = "mhlo.memory_kind"
_MEMORY_KINDS: Final = ("device", "pinned_host", "unpinned_host")
_ALIASES: Final = "mhlo.input_output_alias"
_ENTRY: Final = "mhlo.xla_entry_computation_"
_LAYOUTS: Final = {"parameter": f"{_ENTRY}parameter_layouts", "result": f"{_ENTRY}result_layout"}
_TILES: Final = {"parameter": f"{_ENTRY}parameter_tiles", "result": f"{_ENTRY}result_tiles"}
SIGNATURE_ATTRIBUTES: Final = (
    OF_PARAMETERS,
    OF_RESULT,
    _ALIASES,
    *_LAYOUTS.values(),
    *_TILES.values(),
)
"""Attributes of a module that list its parameters, or its results, or refer to them by number."""

_THREAD: Final = "execution_thread"
_MAX_RANK: Final = 64
"""A longer list is not a layout. A small file can declare many equal elements."""


def check_entry_attributes(
    module: ir.Operation, name: str, shape: ProgramShape, num_partitions: int
) -> None:
    """Raise CompileError for an attribute whose value XLA does not support.

    Args:
        module: the operation of a verified module that was loaded.
        name: the computation's name, for messages.
        shape: the module's parameters and result.
        num_partitions: the number of partitions.
    """
    _Checker(name, shape, num_partitions).check(module)


class _Checker:
    def __init__(self, name: str, shape: ProgramShape, num_partitions: int) -> None:
        self.name = name
        self.parameters, self.results = program_leaves(shape)
        self.num_partitions = num_partitions

    def refuse(self, place: str, rule: str, got: object, fix: str) -> NoReturn:
        message = f"compile: {self.name}: {place} must be {rule}"
        raise CompileError(message, got=f"{str(got)[:200]}", fix=fix)

    def check(self, module: ir.Operation) -> None:
        self.check_module(module)
        for function in functions_in(module):
            self.check_counts(function)
        attributes = main_function(module).attributes
        thread = attribute_text(attributes.get(_THREAD))
        if thread not in (None, "", "main"):
            # The regions of @main are computations of the thread "main".
            self.refuse(f"{_THREAD} of @main", '"main"', repr(thread), "remove the attribute")
        aliased: dict[int, str] = {}
        self.check_aliases(module.attributes.get(_ALIASES), aliased)
        for key, places in (("arg_attrs", self.parameters), ("res_attrs", self.results)):
            listed = attributes.get(key)
            if not isinstance(listed, ir.ArrayAttr):
                continue
            for (place, leaf), each in zip(places, listed, strict=False):
                named = ir.DictAttr(each)
                self.check_memory_kind(place, entry(named, _MEMORY_KIND))
                if key == "arg_attrs":
                    self.check_donation(place, leaf, named, aliased)
                    self.check_replication(place, entry(named, REPLICATION))

    def check_counts(self, function: ir.Operation) -> None:
        listed = function.attributes.get("res_attrs")
        function_type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        count = len(function_type.results)
        # MLIR verifies the number of arg_attrs only.
        if isinstance(listed, ir.ArrayAttr) and len(listed) != count:
            place = f"the attribute res_attrs of @{symbol_name(function)}"
            self.refuse(place, f"a list of {count} dictionaries", listed, "remove the attribute")

    def check_memory_kind(self, place: str, attribute: ir.Attribute | None) -> None:
        text = attribute_text(attribute)  # XLA ignores other attributes
        if text is not None and text not in _MEMORY_KINDS:
            rule = f"one of {', '.join(_MEMORY_KINDS)}"
            self.refuse(f"{_MEMORY_KIND} of {place}", rule, repr(text), "remove the attribute")

    def check_replication(self, place: str, attribute: ir.Attribute | None) -> None:
        listed = attribute if isinstance(attribute, ir.ArrayAttr) else ()
        if not all(isinstance(each, ir.BoolAttr) for each in listed):
            rule = "[true] or [false]"
            self.refuse(f"{REPLICATION} of {place}", rule, attribute, "remove the attribute")

    def check_donation(
        self, place: str, leaf: Any, named: ir.DictAttr, aliased: dict[int, str]
    ) -> None:
        alias, donor = entry(named, ALIASING), entry(named, DONOR)
        for attribute, value in ((ALIASING, alias), (DONOR, donor)):
            if value is not None and not isinstance(leaf, ArrayShape):
                rule = "an attribute of an array, because only arrays are donated"
                self.refuse(f"{attribute} of {place}", rule, leaf, "remove the attribute")
        if donor is not None and str(donor) != "true":  # XLA donates the argument
            self.refuse(f"{DONOR} of {place}", "true", donor, "write true, or remove the attribute")
        if alias is None:
            return
        number = ir.IntegerAttr(alias).value if isinstance(alias, ir.IntegerAttr) else -1
        if isinstance(alias, ir.BoolAttr) or not 0 <= number < len(self.results):
            rule = "the number of a result"
            if len(self.results):
                rule += f", from 0 to {len(self.results) - 1}"
            fix = f"correct the number, or write {DONOR} = true instead: XLA then selects a result"
            self.refuse(f"{ALIASING} of {place}", rule, alias, fix)
        fix = f"write {DONOR} = true instead: XLA then selects a result"
        self.check_alias(f"{ALIASING} of {place}", place, leaf, number, aliased, fix)
        if donor is not None:
            rule = f"used without {DONOR}, because each of the two donates the argument"
            self.refuse(f"{ALIASING} of {place}", rule, "both", f"remove {DONOR}")

    def check_alias(
        self, what: str, place: str, leaf: Any, number: int, aliased: dict[int, str], fix: str
    ) -> None:
        """Check that a parameter can have the memory of a result.

        Args:
            what: the attribute, for messages.
            place: the place of the parameter, for messages.
            leaf: the shape of the parameter.
            number: the number of the result.
            aliased: the place of the parameter that aliases a result, for each number so far.
            fix: the fix for messages.
        """
        result_place, result = self.results[number]
        if number in aliased:
            rule = "the number of a result that no other argument aliases"
            self.refuse(what, rule, f"{number}, as {aliased[number]}", fix)
        aliased[number] = place
        if not isinstance(leaf, ArrayShape) or not isinstance(result, ArrayShape):
            self.refuse(what, "the number of an array", f"{number}, {result_place} {result}", fix)
        if leaf.is_static and result.is_static and leaf.byte_size != result.byte_size:
            rule = f"the number of a result of as many bytes, {leaf.byte_size}"
            self.refuse(what, rule, f"{number}, {result} of {result.byte_size} bytes", fix)

    def check_module(self, module: ir.Operation) -> None:
        attributes = module.attributes
        for side, leaves in (("parameter", self.parameters), ("result", self.results)):
            self.check_layouts(module, _LAYOUTS[side], side, leaves, _is_layout)
            self.check_layouts(module, _TILES[side], side, leaves, _is_tiling)
        listed = attributes.get(OF_PARAMETERS)
        for each in listed if isinstance(listed, ir.ArrayAttr) else ():
            if not isinstance(each, ir.StringAttr):
                place = f"the module's {OF_PARAMETERS}"
                self.refuse(place, "a list of strings", listed, "remove the attribute")
        self.check_result_sharding(attribute_text(attributes.get(OF_RESULT)))
        for name in attributes:
            if name.startswith("sdy."):
                place, rule = f"the module's {name}", "an attribute of a value or an argument"
                self.refuse(place, rule, attributes[name], "remove the attribute")

    def check_layouts(
        self,
        module: ir.Operation,
        name: str,
        side: str,
        leaves: Sequence[tuple[str, Any]],
        is_valid: Callable[[ir.Attribute, Any], bool],
    ) -> None:
        attribute = module.attributes.get(name)
        if not isinstance(attribute, ir.ArrayAttr):
            return  # XLA ignores it
        listed = list(attribute)
        fix = "remove the attribute; mhlo.layout_mode of an argument requests a layout"
        has_tiles = name == _TILES["result"] and any(map(_is_not_empty, listed))
        if has_tiles and len(leaves) != 1:
            # XLA takes them for the tiles of the tuple.
            rule = "an attribute of a program with one result"
            self.refuse(f"the module's {name}", rule, attribute, fix)
        if side == "result" and len(listed) == 1 and len(leaves) != 1:
            # The result is a tuple.
            listed = list(listed[0]) if isinstance(listed[0], ir.ArrayAttr) else listed
        is_complete = len(listed) == len(leaves) or not listed
        shapes = [leaf for _, leaf in leaves]
        if not is_complete or not all(map(is_valid, listed, shapes)):
            what = "layout" if is_valid is _is_layout else "list of tiles"
            example = "dense<[1, 0]>" if is_valid is _is_layout else "[dense<[8, 128]>]"
            rule = f"a list with a {what} such as {example} for each of the {len(leaves)} {side}s"
            self.refuse(f"the module's {name}", rule, attribute, fix)

    def check_result_sharding(self, text: str | None) -> None:
        if text is None or is_shardy(text):
            return
        device_counts: set[int] = set()
        if text.startswith("{"):
            try:
                tilings = parse_tilings(text)
            except XlaError:
                return  # see lowering/sharding/texts.py
            each = tilings if isinstance(tilings, tuple) else (tilings,)
            count = len(each)
            device_counts = {len(tiling.devices) for tiling in each if tiling.kind == "tiled"}
        else:
            count = serialized_sharding_count(text.encode()) or 1
        # The sharding of one array is also valid for a program without results.
        fits = count == len(self.results) or (count == 1 and not self.results)
        if not fits or device_counts - {self.num_partitions}:
            rule = (
                f"the sharding of {len(self.results)} results over {self.num_partitions} partitions"
            )
            self.refuse(f"the module's {OF_RESULT}", rule, repr(text), "remove the attribute")

    def check_aliases(self, listed: ir.Attribute | None, aliased: dict[int, str]) -> None:
        if not isinstance(listed, ir.ArrayAttr):
            return  # XLA ignores it
        what = f"the module's {_ALIASES}"
        fix = f"remove the attribute, and write {ALIASING} at the argument instead"
        for each in listed:
            try:
                _need_arrays(each)
                value = attribute_value(each)
                alias, index = value["alias"], value["output_index"]
                number, inner = alias["parameter_number"], alias["parameter_index"]
                is_valid = (
                    isinstance(alias["kind"], str)
                    and len(inner) == 0
                    and 0 <= number < len(self.parameters)
                    and self.is_result(index)
                )
            except (IndexError, KeyError, TypeError, ValueError, XlaError):
                is_valid = False
            if not is_valid:
                rule = (
                    "a list of dictionaries, each with output_index (of a result, such as dense<0> "
                    ": tensor<1xi64>) and alias (with kind, parameter_index and parameter_number)"
                )
                self.refuse(what, rule, each, fix)
            place, leaf = self.parameters[number]
            self.check_alias(what, place, leaf, index[0] if len(index) else 0, aliased, fix)

    def is_result(self, index: Any) -> bool:
        """Whether a list of numbers is the place of a result in the tuple of all results."""
        count = len(self.results)
        return len(index) == 0 if count == 1 else len(index) == 1 and 0 <= index[0] < count


def _need_arrays(alias: Any) -> None:
    """Raise TypeError unless the indices of an alias are dense elements: XLA reads no others.

    It reads a list as if it were such elements, and ends the process.
    """
    for index in (alias["output_index"], alias["alias"]["parameter_index"]):
        if not isinstance(index, ir.DenseIntElementsAttr):
            raise TypeError


def _is_layout(attribute: ir.Attribute, shape: Any) -> bool:
    """Whether an attribute lists the dimensions of an array from minor to major."""
    numbers = _integers(attribute)
    rank = shape.rank if isinstance(shape, ArrayShape) else 0
    return numbers is not None and sorted(numbers) == list(range(rank))


def _is_tiling(attribute: ir.Attribute, shape: Any) -> bool:
    """Whether an attribute lists tiles of an array."""
    del shape  # a tile may have fewer dimensions
    tiles = attribute if isinstance(attribute, ir.ArrayAttr) else [attribute]
    read = [_integers(tile) for tile in tiles]
    # The elements of an index tensor are read without a sign.
    return all(each is not None and all(0 <= size < 1 << 63 for size in each) for each in read)


def _is_not_empty(attribute: ir.Attribute) -> bool:
    return not isinstance(attribute, ir.ArrayAttr) or len(attribute) > 0


def _integers(attribute: ir.Attribute) -> list[int] | None:
    """The elements of a list of 64-bit integers; None for other attributes."""
    if not isinstance(attribute, ir.DenseIntElementsAttr):
        return None
    type_ = ir.RankedTensorType(attribute.type)
    is_list = type_.rank == 1 and str(type_.element_type) in ("index", "i64")
    is_short = is_list and type_.shape[0] <= _MAX_RANK
    return [int(attribute[at]) for at in range(len(attribute))] if is_short else None
