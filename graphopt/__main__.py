"""`python -m graphopt` is the command `graphopt`."""

import sys

from graphopt.cli.main import main

sys.exit(main())
