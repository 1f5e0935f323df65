"""Shardings of arrays over devices, in the dialects of GSPMD (tilings) and Shardy (mesh axes).

`tiling` parses GSPMD's text, `mesh` prints Shardy's, and `validation` checks both against the
shapes of values.
"""
