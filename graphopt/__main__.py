"""`python -m graphopt` is graphopt-opt."""

import sys

from graphopt.tools.opt import main

sys.exit(main())
