"""Looking at computations: as a table, by their costs, by what is searched for, side by side.

The methods of `XlaComputation` lead here: `table`, `stats`, `find` and `diff`. Everything is worked
out of the recorded ops alone, without a compiler and without recursion. What is made to be printed
is drawn by rich, which is loaded when something is printed, and has `as_dict` for programs.
"""
