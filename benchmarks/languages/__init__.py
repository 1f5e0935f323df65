"""The vocabulary of the graphs in three languages: `ours`, `jax_lax` and `xla_builder`.

The three modules have the same names. Where a language's own function takes the arguments as the
graphs give them, the name is that function, and nothing stands between. Where it does not, a
function of a line or two adapts it, as a user of that language would write it.

Names that need telling apart:

- ``add``: arrays of one shape. ``add_along(x, v, dimensions)``: dimension i of v is
  ``dimensions[i]`` of x, and v is repeated along the others. ``add_number(x, 0.5)``: f32 and a
  Python number; ``add_integer(x, 1)``: s32 and a Python number. The same with ``mul`` and so on.
- ``dot_numbers(...)`` and ``conv_numbers(...)`` give what ``dot_general`` and
  ``conv_general_dilated`` take. A graph asks for them once, not for each operation.
- ``while_`` takes and gives several values; its functions are called with one sequence of them.
  ``conditional(pred, on_true, on_false, operand)`` takes and gives one.
- ``shared(make)`` takes a function of a number that makes functions for ``while_`` and
  ``conditional``. In `ours` each of them is made once, with `xb.computation`; in the others
  ``make`` makes a new one for every use, as a closure is made where it is used.

``record(graph, size)`` does what the language does first with a graph.

Only one of the modules is imported in a process that measures it; none imports another.
"""
