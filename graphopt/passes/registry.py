"""Passes by name: what `-p` accepts, each loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.passes import ModulePass

# pass name -> (module, class)
_OWN: dict[str, tuple[str, str]] = {
    "all-reduce-gradients": ("all_reduce_gradients", "AllReduceGradients"),
    "fuse-bn-act": ("fuse_bn_act", "FuseBnAct"),
    "fuse-bn-add-act": ("fuse_bn_add_act", "FuseBnAddAct"),
    "fuse-elewise-add-act": ("fuse_elewise_add_act", "FuseElewiseAddAct"),
    "fuse-gemm-epilogue": ("fuse_gemm_epilogue", "FuseGemmEpilogue"),
    "fold-identity": ("fold_identity", "FoldIdentity"),
    "mark-per-replica": ("mark_per_replica", "MarkPerReplica"),
    "scale-loss-grad": ("scale_loss_grad", "ScaleLossGrad"),
    "sync-batch-norm": ("sync_batch_norm", "SyncBatchNorm"),
}


def own_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """The passes of graphopt, as thunks by name."""
    return {name: _loader(f"graphopt.passes.{m}", c) for name, (m, c) in _OWN.items()}


def all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """The passes of graphopt and the ones of xDSL that make sense on its programs."""
    return {
        **own_passes(),
        "cse": _loader(
            "xdsl.transforms.common_subexpression_elimination", "CommonSubexpressionElimination"
        ),
        "dce": _loader("xdsl.transforms.dead_code_elimination", "DeadCodeElimination"),
    }


def _loader(module: str, name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        return getattr(import_module(module), name)

    return load
