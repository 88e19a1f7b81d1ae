"""`python -m graphopt` is the command `graphopt`."""

import sys

from graphopt.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
