"""Passes by name: what `-p` accepts, each loaded on first use.

Other packages add passes in two ways: an entry point of the group `graphopt.passes`, which is
found without importing the package, or `register_pass` in code that runs anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from xdsl.passes import ModulePass

from graphopt.errors import PassError

GROUP = "graphopt.passes"
Loader = Callable[[], type[ModulePass]]
P = TypeVar("P", bound=type[ModulePass])

# pass name -> (module, class)
_OWN: dict[str, tuple[str, str]] = {
    "add-to": ("parallel.add_to", "AddTo"),
    "all-reduce-gradients": ("parallel.all_reduce_gradients", "AllReduceGradients"),
    "assign-layout": ("target.assign_layout", "AssignLayout"),
    "choose-convolution": ("target.choose_convolution", "ChooseConvolution"),
    "choose-pooling": ("target.choose_pooling", "ChoosePooling"),
    "cse": ("cleanup.cse", "ShareCommon"),
    "drop-kept-state": ("storage.drop_kept_state", "DropKeptState"),
    "choose-attention": ("fusions.choose_attention", "ChooseAttention"),
    "drop-dropout": ("cleanup.drop_dropout", "DropDropout"),
    "fence-updates": ("parallel.fence_updates", "FenceUpdates"),
    "fold-batch-norm": ("target.fold_batch_norm", "FoldBatchNorm"),
    "fold-constants": ("cleanup.fold_constants", "FoldConstants"),
    "fuse-adamw": ("storage.fuse_all_optimizer_ops", "FuseAdamw"),
    "fuse-all-reduce-ops": ("parallel.fuse_all_reduce_ops", "FuseAllReduceOps"),
    "fuse-all-optimizer-ops": ("storage.fuse_all_optimizer_ops", "FuseAllOptimizerOps"),
    "fuse-broadcast-ops": ("parallel.fuse_broadcast_ops", "FuseBroadcastOps"),
    "fuse-bn-act": ("fusions.fuse_bn_act", "FuseBnAct"),
    "fuse-bn-add-act": ("fusions.fuse_bn_add_act", "FuseBnAddAct"),
    "fuse-cudnn-attention": ("fusions.fuse_dot_product_attention", "FuseCudnnAttention"),
    "fuse-dot-product-attention": ("fusions.fuse_dot_product_attention", "FuseDotProductAttention"),
    "fuse-elewise-add-act": ("fusions.fuse_elewise_add_act", "FuseElewiseAddAct"),
    "fuse-gemm-epilogue": ("fusions.fuse_gemm_epilogue", "FuseGemmEpilogue"),
    "fuse-long-attention": ("fusions.fuse_dot_product_attention", "FuseLongAttention"),
    "fuse-pallas-attention": ("fusions.fuse_dot_product_attention", "FusePallasAttention"),
    "fuse-relu-depthwise-conv": ("fusions.fuse_relu_depthwise_conv", "FuseReluDepthwiseConv"),
    "fuse-resunit": ("fusions.fuse_resunit", "FuseResunit"),
    "fused-attention": ("fusions.fused_attention", "FuseAttention"),
    "fused-feedforward": ("fusions.fused_feedforward", "FuseFeedForward"),
    "fold-identity": ("cleanup.fold_identity", "FoldIdentity"),
    "mark-per-replica": ("parallel.mark_per_replica", "MarkPerReplica"),
    "order-collectives": ("parallel.order_collectives", "OrderCollectives"),
    "recompute-activations": ("target.recompute_activations", "RecomputeActivations"),
    "prepare-weights": ("target.prepare_weights", "PrepareWeights"),
    "reassociate-matmul": ("target.reassociate_matmul", "ReassociateMatmul"),
    "roll-layers": ("storage.roll_layers", "RollLayers"),
    "scale-loss-grad": ("parallel.scale_loss_grad", "ScaleLossGrad"),
    "settle-shapes": ("cleanup.settle_shapes", "SettleShapes"),
    "shard-updates": ("parallel.shard_updates", "ShardUpdates"),
    "simplify": ("cleanup.simplify", "Simplify"),
    "sort-ops": ("cleanup.sort_ops", "SortOps"),
    "stack-state": ("storage.stack_state", "StackState"),
    "store-filters": ("storage.store_filters", "StoreFilters"),
    "sync-batch-norm": ("parallel.sync_batch_norm", "SyncBatchNorm"),
    "update-rows": ("target.update_rows", "UpdateRows"),
}
# the ones of xDSL that make sense on our programs
_XDSL: dict[str, tuple[str, str]] = {
    "canonicalize": ("canonicalize", "CanonicalizePass"),
    "dce": ("dead_code_elimination", "DeadCodeElimination"),
}
_registered: dict[str, type[ModulePass]] = {}


def own_passes() -> dict[str, Loader]:
    """The passes of graphopt, as thunks by name."""
    return {name: _loader(f"graphopt.passes.{m}", c) for name, (m, c) in _OWN.items()}


def all_passes() -> dict[str, Loader]:
    """The passes of graphopt, those of xDSL that make sense on its programs, and added ones.

    A name that graphopt or xDSL has cannot be taken over; PassError names who tries to.
    """
    found = own_passes()
    found |= {name: _loader(f"xdsl.transforms.{m}", c) for name, (m, c) in _XDSL.items()}
    taken = frozenset(found)
    for point in entry_points(group=GROUP):
        if point.name in taken:
            raise PassError(f"the entry point {_origin(point)} takes the name of a built-in pass")
        found[point.name] = _entry_loader(point)
    for name, added in _registered.items():
        found[name] = _constant(added)
    return found


def register_pass(added: P) -> P:
    """A class decorator: the pass is found by its `name`, as by `graphopt-opt -p`.

    Raises PassError when the name is missing or taken by a built-in pass or another class.
    """
    name = getattr(added, "name", None)
    if not isinstance(name, str):
        raise PassError(f"{added.__qualname__} needs a class attribute `name`, a string")
    other = _registered.get(name)
    if name in _OWN or name in _XDSL or (other is not None and not _same(other, added)):
        raise PassError(f"a pass named '{name}' exists already; give {added.__qualname__} another")
    _registered[name] = added
    return added


def _same(a: type[ModulePass], b: type[ModulePass]) -> bool:
    """True for one class, or for two versions of it when a module is loaded again."""
    return (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__)


def _origin(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"{GROUP}: {point.name} = {point.value}{package}"


def _entry_loader(point: EntryPoint) -> Loader:
    def load() -> type[ModulePass]:
        try:
            found = point.load()
        except Exception as error:
            raise PassError(f"the entry point {_origin(point)} does not load: {error}") from error
        if not isinstance(found, type) or not issubclass(found, ModulePass):
            raise PassError(
                f"the entry point {_origin(point)} is not a subclass of xdsl's ModulePass"
            )
        if found.name != point.name:
            raise PassError(
                f"the entry point {_origin(point)} loads a pass named '{found.name}'; "
                "the two names have to agree"
            )
        return found

    return load


def _constant(added: type[ModulePass]) -> Loader:
    return lambda: added


def _loader(module: str, name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        return getattr(import_module(module), name)

    return load
