"""python -m lowering.cli: run the command without installing it."""

from lowering.cli import main

if __name__ == "__main__":
    main()
