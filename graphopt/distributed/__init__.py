"""Several trainers, one program: this trainer's number, and barriers (paddle.distributed).

Training itself does not need this module: `static.CompiledProgram.with_data_parallel` runs over all
trainers that the environment names (docs/how-to/train-on-many-machines.md).
"""

from __future__ import annotations

from graphopt.distributed.dataset import InMemoryDataset as InMemoryDataset
from graphopt.distributed.dataset import QueueDataset as QueueDataset
from graphopt.distributed.parallel import ParallelEnv as ParallelEnv
from graphopt.distributed.parallel import barrier as barrier
from graphopt.distributed.parallel import get_backend as get_backend
from graphopt.distributed.parallel import get_rank as get_rank
from graphopt.distributed.parallel import get_world_size as get_world_size
from graphopt.distributed.parallel import init_parallel_env as init_parallel_env
from graphopt.distributed.parallel import is_available as is_available
from graphopt.distributed.parallel import is_initialized as is_initialized
from graphopt.distributed.refused import NAMES as _REFUSED
from graphopt.frontend import lazy

_MODULES = {name: (f"graphopt.distributed.{name}", "") for name in ("fleet", "io")}
_MODULES["transpiler"] = ("graphopt.fluid.transpiler", "")
_LAYERS = {
    name: ("graphopt.distributed.collective", name)
    for name in ("ReduceOp", "all_gather", "all_reduce", "broadcast")
}
lazy.attach(globals(), {**_MODULES, **_LAYERS}, refused=_REFUSED)
