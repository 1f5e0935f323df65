"""Shardings: how arrays are cut up over devices, in GSPMD's words (tilings) and in Shardy's.

`tiling` reads the texts of the one, `mesh` makes those of the other, `saying` holds both against
the shapes of what they are said of.
"""
