"""The examples of the properties of ExecutionStrategy on Paddle's page.

Changed: the imports, which are written once, as is paddle.enable_static().
"""

import graphopt as paddle
import graphopt.static as static

paddle.enable_static()

exec_strategy = static.ExecutionStrategy()
exec_strategy.num_threads = 4

exec_strategy = static.ExecutionStrategy()
exec_strategy.num_iteration_per_drop_scope = 10

exec_strategy = static.ExecutionStrategy()
exec_strategy.num_iteration_per_run = 10
