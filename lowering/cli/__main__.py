"""python -m lowering.cli: the command, where it is not installed."""

from lowering.cli import main

if __name__ == "__main__":
    main()
