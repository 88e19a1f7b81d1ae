"""Running saved models in deployments (paddle.inference)."""

from graphopt.frontend.missing import explain
from graphopt.inference.config import Config as Config
from graphopt.inference.config import DataType as DataType
from graphopt.inference.config import PlaceType as PlaceType
from graphopt.inference.config import PrecisionType as PrecisionType
from graphopt.inference.predictor import Predictor as Predictor
from graphopt.inference.predictor import PredictorPool as PredictorPool
from graphopt.inference.predictor import Tensor as Tensor
from graphopt.inference.predictor import create_predictor as create_predictor
from graphopt.inference.predictor import get_num_bytes_of_data_type as get_num_bytes_of_data_type
from graphopt.inference.predictor import get_trt_compile_version as get_trt_compile_version
from graphopt.inference.predictor import get_trt_runtime_version as get_trt_runtime_version
from graphopt.inference.predictor import get_version as get_version

explain(globals())
