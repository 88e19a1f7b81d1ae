"""The versions that Paddle 2.6.2's operators have; the writer declares them for its programs.

A reader of the file uses them to upgrade operators of older releases. Operators that are not
listed have version 0.
"""

from __future__ import annotations

PADDLE_VERSION = 2006002

_BY_VERSION = {
    1: """affine_grid auc clip collect_fpn_proposals conv2d conv3d conv3d_transpose cudnn_lstm
        cumsum data_norm depthwise_conv2d depthwise_conv2d_transpose dequantize
        elementwise_add elementwise_div elementwise_mul elementwise_pow elementwise_sub
        equal fake_channel_wise_quantize_abs_max flip gather generate_proposals_v2
        greater_equal greater_than grid_sampler hard_shrink instance_norm lamb leaky_relu
        less_equal less_than linspace lookup_table lookup_table_v2 lstsq matmul matrix_nms
        mish momentum not_equal p_norm pixel_shuffle print rank_attention requantize seed
        send_and_recv softplus trace transfer_layout unique_consecutive yolo_box""",
    2: """allclose coalesce_tensor conv2d_transpose distribute_fpn_proposals
        fake_channel_wise_dequantize_max_abs fill_constant generate_proposal_labels
        generate_proposals moving_average_abs_max_scale quantize roi_pool roll""",
    3: """roi_align""",
    4: """set_value""",
}
OP_VERSIONS = {name: version for version, names in _BY_VERSION.items() for name in names.split()}
