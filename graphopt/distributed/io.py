"""State of programs in files (paddle.distributed.io), each process its own."""

from graphopt.fluid.io import is_persistable as is_persistable
from graphopt.fluid.io import load_persistables as load_persistables
from graphopt.fluid.io import save_persistables as save_persistables
from graphopt.frontend.calls import publish

publish(globals(), __name__)
