"""Names of paddle.fluid whose later form has the same arguments: where graphopt keeps them.

They are looked up when they are used, so that `fluid` starts quickly.
"""

from __future__ import annotations

_LAYERS: dict[str, str] = {
    "graphopt": ("arange bmm cross flip index_sample index_select roll t tril triu shard_index"),
    "graphopt.fluid.layers.decoding": (
        "BasicDecoder DecodeHelper GreedyEmbeddingHelper SampleEmbeddingHelper TrainingHelper"
    ),
    "graphopt.fluid.layers.beams": "beam_search beam_search_decode",
    "graphopt.fluid.layers.loops": "while_loop",
    "graphopt.fluid.layers.ssd": "bipartite_match multi_box_head ssd_loss target_assign",
    "graphopt.fluid.layers.two_stage": (
        "collect_fpn_proposals distribute_fpn_proposals generate_mask_labels "
        "generate_proposal_labels generate_proposals locality_aware_nms retinanet_detection_output "
        "retinanet_target_assign rpn_target_assign"
    ),
    "graphopt.nn.clip": "get_tensor_from_selected_rows merge_selected_rows",
    "graphopt.nn.decode": "BeamSearchDecoder Decoder dynamic_decode",
    "graphopt.nn.functional": "diag_embed gather_tree",
    "graphopt.nn.functional.alignment": "ctc_greedy_decoder edit_distance",
    "graphopt.static": "Print",
    "graphopt.static.click_rates": "continuous_value_model",
    "graphopt.fluid.layers.metric_op": "auc",
    "graphopt.static.nn": (
        "bilinear_tensor_product case cond conv2d_transpose conv3d conv3d_transpose data_norm "
        "group_norm nce prelu py_func row_conv spectral_norm switch_case"
    ),
    "graphopt.tensor.blocks": "ConditionalBlock Switch While",
    "graphopt.static.nn.if_else": "IfElse",
    "graphopt.static.nn.static_rnn": "StaticRNN",
    "graphopt.tensor.array": "array_length array_read array_write create_array",
}

# the module of each name
SOURCES = {name: (module, name) for module, names in _LAYERS.items() for name in names.split()}
