"""Functions that Paddle computes by one kernel (paddle.incubate.nn.functional).

Passes and XLA fuse the ops that they are made of.
"""

from graphopt.frontend.calls import publish
from graphopt.incubate.nn.functional.linear import fused_bias_act as fused_bias_act
from graphopt.incubate.nn.functional.linear import fused_dropout_add as fused_dropout_add
from graphopt.incubate.nn.functional.linear import fused_feedforward as fused_feedforward
from graphopt.incubate.nn.functional.linear import fused_linear as fused_linear
from graphopt.incubate.nn.functional.linear import (
    fused_linear_activation as fused_linear_activation,
)
from graphopt.incubate.nn.functional.linear import fused_matmul_bias as fused_matmul_bias
from graphopt.incubate.nn.functional.norm import (
    fused_bias_dropout_residual_layer_norm as fused_bias_dropout_residual_layer_norm,
)
from graphopt.incubate.nn.functional.norm import fused_layer_norm as fused_layer_norm
from graphopt.incubate.nn.functional.norm import fused_rms_norm as fused_rms_norm
from graphopt.incubate.nn.functional.rotary import (
    fused_rotary_position_embedding as fused_rotary_position_embedding,
)
from graphopt.nn.functional.activation import swiglu as swiglu

publish(globals(), __name__)
