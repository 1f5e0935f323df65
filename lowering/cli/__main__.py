"""Run the command without installing it: ``python -m lowering.cli``."""

from lowering.cli import main

if __name__ == "__main__":
    main()
