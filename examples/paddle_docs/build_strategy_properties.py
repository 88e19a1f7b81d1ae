"""The examples of the properties of BuildStrategy on Paddle's page, which set one flag each.

Changed: the imports, which are written once, as is paddle.enable_static().
"""

import graphopt as paddle
import graphopt.static as static

paddle.enable_static()

build_strategy = static.BuildStrategy()
build_strategy.build_cinn_pass = True

build_strategy = static.BuildStrategy()
build_strategy.debug_graphviz_path = "./graph"

build_strategy = static.BuildStrategy()
build_strategy.enable_auto_fusion = True

build_strategy = static.BuildStrategy()
build_strategy.enable_sequential_execution = True

build_strategy = static.BuildStrategy()
build_strategy.fuse_adamw = True

build_strategy = static.BuildStrategy()
build_strategy.fuse_bn_act_ops = True

build_strategy = static.BuildStrategy()
build_strategy.fuse_bn_add_act_ops = True

build_strategy = static.BuildStrategy()
build_strategy.fuse_broadcast_ops = True

build_strategy = static.BuildStrategy()
build_strategy.fuse_elewise_add_act_ops = True

build_strategy = static.BuildStrategy()
build_strategy.fuse_gemm_epilogue = True

build_strategy = static.BuildStrategy()
build_strategy.fuse_relu_depthwise_conv = True

build_strategy = static.BuildStrategy()
build_strategy.fused_attention = True

build_strategy = static.BuildStrategy()
build_strategy.fused_feedforward = True

build_strategy = static.BuildStrategy()
build_strategy.memory_optimize = True

build_strategy = static.BuildStrategy()
build_strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce

build_strategy = static.BuildStrategy()
build_strategy.remove_unnecessary_lock = True

build_strategy = static.BuildStrategy()
build_strategy.sequential_run = True

build_strategy = static.BuildStrategy()
build_strategy.sync_batch_norm = True
