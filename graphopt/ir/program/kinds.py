"""Constants of saved programs: kinds of variables and attributes, roles, suffixes of names."""

from __future__ import annotations

GRAD_SUFFIX = "@GRAD"
# the suffix of the feed with the lengths of a variable's sequences
LENGTHS = "@lens"
# the slot with the lengths of an operator's first input, for operators of the front end
SLOT = "Lengths"
# the name of an empty slot
EMPTY = "@EMPTY@"


class VarKind:
    """The kinds of variable that saved programs declare (Paddle: VarType.Type)."""

    DENSE_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17


class OpRole:
    """The bit flags of the `op_role` attribute (Paddle: OpProtoAndCheckerMaker.OpRole)."""

    FORWARD = 0
    BACKWARD = 1
    OPTIMIZE = 2
    LR_SCHEDULE = 16
    LOSS = 256


class AttrKind:
    """The kinds of attribute that saved programs declare (Paddle: AttrType).

    A `BLOCK` is held as a block's index; a `VAR` as the name of a variable that the operator reads.
    """

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOLEAN = 6
    BOOLEANS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11
    FLOAT64S = 12
    VAR = 13
    VARS = 14
    FLOAT64 = 15
    SCALAR = 16
    SCALARS = 17


COLLECTIVES = frozenset(
    {
        *(f"c_allreduce_{reduction}" for reduction in ("sum", "max", "min", "prod")),
        *("allreduce", "broadcast", "c_allgather", "c_broadcast"),
    }
)
"""The types of operators that need values of all trainers."""
