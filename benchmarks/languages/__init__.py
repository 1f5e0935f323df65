"""The operations of the graphs for three APIs: `ours`, `jax_lax` and `xla_builder`.

The three modules define the same names. If a function of the API takes the arguments of the graphs,
the name is that function, so that no call is added. Otherwise a function of a line or two adapts
it, as a user of the API would write it.

Similar names:

- ``add``: arrays of the same shape. ``add_along(x, v, dimensions)``: dimension i of v is
  ``dimensions[i]`` of x, and v is broadcast along the others. ``add_number(x, 0.5)``: f32 and a
  Python number. ``add_integer(x, 1)``: s32 and a Python number. The same holds for ``mul`` etc.
- ``constant(value, operand)`` records a constant with the builder of ``operand``.
- ``dot_numbers(...)`` and ``conv_numbers(...)`` return the dimension numbers for ``dot_general``
  and ``conv_general_dilated``. A graph makes them once, not for each operation.
- ``while_`` takes and returns several values; its functions take a sequence of them.
  ``conditional(pred, on_true, on_false, operand)`` takes and returns one.
- ``shared(make)`` takes a function of a number that returns functions for ``while_`` and
  ``conditional``. `ours` makes each of them once, with `xb.computation`. The others call ``make``
  for every use, which returns a new closure.

``record(graph, size)`` is the first step of the API with a graph.

The modules do not import each other, so that a process imports only what it measures.
"""
