"""Training with several processes by one strategy (paddle.distributed.fleet), by collectives.

Its functions are the methods of one `Fleet`. Modes with parameter servers are refused.
"""

from graphopt.distributed.dataset import InMemoryDataset as InMemoryDataset
from graphopt.distributed.dataset import QueueDataset as QueueDataset
from graphopt.distributed.fleet.base.distributed_strategy import (
    DistributedStrategy as DistributedStrategy,
)
from graphopt.distributed.fleet.base.role_maker import PaddleCloudRoleMaker as PaddleCloudRoleMaker
from graphopt.distributed.fleet.base.role_maker import Role as Role
from graphopt.distributed.fleet.base.role_maker import UserDefinedRoleMaker as UserDefinedRoleMaker
from graphopt.distributed.fleet.base.util_factory import UtilBase as UtilBase
from graphopt.distributed.fleet.data_generator import (
    MultiSlotDataGenerator as MultiSlotDataGenerator,
)
from graphopt.distributed.fleet.data_generator import (
    MultiSlotStringDataGenerator as MultiSlotStringDataGenerator,
)
from graphopt.distributed.fleet.fleet import Fleet as Fleet
from graphopt.frontend.calls import publish

publish(globals(), __name__)

fleet = Fleet()
util = fleet.util
init = fleet.init
is_first_worker = fleet.is_first_worker
worker_index = rank = fleet.worker_index
worker_num = nranks = world_size = fleet.worker_num
worker_endpoints = fleet.worker_endpoints
node_num = fleet.node_num
local_rank = rank_in_node = fleet.local_rank
is_worker = fleet.is_worker
is_server = fleet.is_server
server_num = fleet.server_num
server_endpoints = fleet.server_endpoints
barrier_worker = fleet.barrier_worker
all_reduce = fleet.all_reduce
init_worker = fleet.init_worker
stop_worker = fleet.stop_worker
init_server = fleet.init_server
run_server = fleet.run_server
distributed_optimizer = fleet.distributed_optimizer
distributed_model = fleet.distributed_model
minimize = fleet.minimize
get_loss_scaling = fleet.get_loss_scaling
amp_init = fleet.amp_init
save_persistables = fleet.save_persistables
save_inference_model = fleet.save_inference_model
save = fleet.save
load_model = fleet.load_model
