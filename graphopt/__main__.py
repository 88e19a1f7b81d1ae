"""`python -m graphopt` is the command `graphopt`."""

import sys

from graphopt.tools.cli import main

sys.exit(main())
