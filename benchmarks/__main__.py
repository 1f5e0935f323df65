"""Run `python -m benchmarks`."""

import sys

from benchmarks.command import main
from benchmarks.timing import keep_freed_memory

if __name__ == "__main__":
    sys.exit(main(before_graphs=keep_freed_memory))
