"""Functions of `builder.lib`, executed beside the functions of jax that compute the same.

`functions` has the table of the functions, `measuring` measures them, and `explanations` has the
causes of the times above the target.
"""
