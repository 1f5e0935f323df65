"""Tests for compilers of StableHLO: files with arguments, a program and the expected results."""
