"""Layers, initializers and gradient clipping (paddle.nn)."""

from graphopt.frontend.calls import publish
from graphopt.nn import functional as functional
from graphopt.nn import initializer as initializer
from graphopt.nn import layer as layer
from graphopt.nn import utils as utils
from graphopt.nn.clip import ClipGradByGlobalNorm as ClipGradByGlobalNorm
from graphopt.nn.clip import ClipGradByNorm as ClipGradByNorm
from graphopt.nn.clip import ClipGradByValue as ClipGradByValue
from graphopt.nn.decode import BeamSearchDecoder as BeamSearchDecoder
from graphopt.nn.decode import dynamic_decode as dynamic_decode
from graphopt.nn.layer.activation import PReLU as PReLU
from graphopt.nn.layer.activation import Softmax2D as Softmax2D
from graphopt.nn.layer.adaptive_softmax import (
    AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss,
)
from graphopt.nn.layer.common import Bilinear as Bilinear
from graphopt.nn.layer.common import Embedding as Embedding
from graphopt.nn.layer.common import Identity as Identity
from graphopt.nn.layer.common import Linear as Linear
from graphopt.nn.layer.container import LayerDict as LayerDict
from graphopt.nn.layer.container import LayerList as LayerList
from graphopt.nn.layer.container import ParameterList as ParameterList
from graphopt.nn.layer.container import Sequential as Sequential
from graphopt.nn.layer.conv import Conv1D as Conv1D
from graphopt.nn.layer.conv import Conv1DTranspose as Conv1DTranspose
from graphopt.nn.layer.conv import Conv2D as Conv2D
from graphopt.nn.layer.conv import Conv2DTranspose as Conv2DTranspose
from graphopt.nn.layer.conv import Conv3D as Conv3D
from graphopt.nn.layer.conv import Conv3DTranspose as Conv3DTranspose
from graphopt.nn.layer.layers import Layer as Layer
from graphopt.nn.layer.norm import BatchNorm as BatchNorm
from graphopt.nn.layer.norm import BatchNorm1D as BatchNorm1D
from graphopt.nn.layer.norm import BatchNorm2D as BatchNorm2D
from graphopt.nn.layer.norm import BatchNorm3D as BatchNorm3D
from graphopt.nn.layer.norm import LayerNorm as LayerNorm
from graphopt.nn.layer.norm import SyncBatchNorm as SyncBatchNorm
from graphopt.nn.layer.of_functions import CELU as CELU
from graphopt.nn.layer.of_functions import ELU as ELU
from graphopt.nn.layer.of_functions import GELU as GELU
from graphopt.nn.layer.of_functions import GLU as GLU
from graphopt.nn.layer.of_functions import SELU as SELU
from graphopt.nn.layer.of_functions import AdaptiveAvgPool1D as AdaptiveAvgPool1D
from graphopt.nn.layer.of_functions import AdaptiveAvgPool2D as AdaptiveAvgPool2D
from graphopt.nn.layer.of_functions import AdaptiveAvgPool3D as AdaptiveAvgPool3D
from graphopt.nn.layer.of_functions import AdaptiveMaxPool1D as AdaptiveMaxPool1D
from graphopt.nn.layer.of_functions import AdaptiveMaxPool2D as AdaptiveMaxPool2D
from graphopt.nn.layer.of_functions import AdaptiveMaxPool3D as AdaptiveMaxPool3D
from graphopt.nn.layer.of_functions import AlphaDropout as AlphaDropout
from graphopt.nn.layer.of_functions import AvgPool1D as AvgPool1D
from graphopt.nn.layer.of_functions import AvgPool2D as AvgPool2D
from graphopt.nn.layer.of_functions import AvgPool3D as AvgPool3D
from graphopt.nn.layer.of_functions import BCELoss as BCELoss
from graphopt.nn.layer.of_functions import BCEWithLogitsLoss as BCEWithLogitsLoss
from graphopt.nn.layer.of_functions import ChannelShuffle as ChannelShuffle
from graphopt.nn.layer.of_functions import CircularPad1D as CircularPad1D
from graphopt.nn.layer.of_functions import CircularPad2D as CircularPad2D
from graphopt.nn.layer.of_functions import CircularPad3D as CircularPad3D
from graphopt.nn.layer.of_functions import ConstantPad1D as ConstantPad1D
from graphopt.nn.layer.of_functions import ConstantPad2D as ConstantPad2D
from graphopt.nn.layer.of_functions import ConstantPad3D as ConstantPad3D
from graphopt.nn.layer.of_functions import CosineEmbeddingLoss as CosineEmbeddingLoss
from graphopt.nn.layer.of_functions import CosineSimilarity as CosineSimilarity
from graphopt.nn.layer.of_functions import CrossEntropyLoss as CrossEntropyLoss
from graphopt.nn.layer.of_functions import CTCLoss as CTCLoss
from graphopt.nn.layer.of_functions import Dropout as Dropout
from graphopt.nn.layer.of_functions import Dropout2D as Dropout2D
from graphopt.nn.layer.of_functions import Dropout3D as Dropout3D
from graphopt.nn.layer.of_functions import FeatureAlphaDropout as FeatureAlphaDropout
from graphopt.nn.layer.of_functions import Flatten as Flatten
from graphopt.nn.layer.of_functions import Fold as Fold
from graphopt.nn.layer.of_functions import FractionalMaxPool2D as FractionalMaxPool2D
from graphopt.nn.layer.of_functions import FractionalMaxPool3D as FractionalMaxPool3D
from graphopt.nn.layer.of_functions import GaussianNLLLoss as GaussianNLLLoss
from graphopt.nn.layer.of_functions import Hardshrink as Hardshrink
from graphopt.nn.layer.of_functions import Hardsigmoid as Hardsigmoid
from graphopt.nn.layer.of_functions import Hardswish as Hardswish
from graphopt.nn.layer.of_functions import Hardtanh as Hardtanh
from graphopt.nn.layer.of_functions import HingeEmbeddingLoss as HingeEmbeddingLoss
from graphopt.nn.layer.of_functions import KLDivLoss as KLDivLoss
from graphopt.nn.layer.of_functions import L1Loss as L1Loss
from graphopt.nn.layer.of_functions import LeakyReLU as LeakyReLU
from graphopt.nn.layer.of_functions import LogSigmoid as LogSigmoid
from graphopt.nn.layer.of_functions import LogSoftmax as LogSoftmax
from graphopt.nn.layer.of_functions import LPPool1D as LPPool1D
from graphopt.nn.layer.of_functions import LPPool2D as LPPool2D
from graphopt.nn.layer.of_functions import MarginRankingLoss as MarginRankingLoss
from graphopt.nn.layer.of_functions import Maxout as Maxout
from graphopt.nn.layer.of_functions import MaxPool1D as MaxPool1D
from graphopt.nn.layer.of_functions import MaxPool2D as MaxPool2D
from graphopt.nn.layer.of_functions import MaxPool3D as MaxPool3D
from graphopt.nn.layer.of_functions import MaxUnPool1D as MaxUnPool1D
from graphopt.nn.layer.of_functions import MaxUnPool2D as MaxUnPool2D
from graphopt.nn.layer.of_functions import MaxUnPool3D as MaxUnPool3D
from graphopt.nn.layer.of_functions import Mish as Mish
from graphopt.nn.layer.of_functions import MSELoss as MSELoss
from graphopt.nn.layer.of_functions import MultiLabelMarginLoss as MultiLabelMarginLoss
from graphopt.nn.layer.of_functions import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from graphopt.nn.layer.of_functions import MultiMarginLoss as MultiMarginLoss
from graphopt.nn.layer.of_functions import NLLLoss as NLLLoss
from graphopt.nn.layer.of_functions import Pad1D as Pad1D
from graphopt.nn.layer.of_functions import Pad2D as Pad2D
from graphopt.nn.layer.of_functions import Pad3D as Pad3D
from graphopt.nn.layer.of_functions import PairwiseDistance as PairwiseDistance
from graphopt.nn.layer.of_functions import PixelShuffle as PixelShuffle
from graphopt.nn.layer.of_functions import PixelUnshuffle as PixelUnshuffle
from graphopt.nn.layer.of_functions import PoissonNLLLoss as PoissonNLLLoss
from graphopt.nn.layer.of_functions import ReflectionPad1D as ReflectionPad1D
from graphopt.nn.layer.of_functions import ReflectionPad2D as ReflectionPad2D
from graphopt.nn.layer.of_functions import ReflectionPad3D as ReflectionPad3D
from graphopt.nn.layer.of_functions import ReLU as ReLU
from graphopt.nn.layer.of_functions import ReLU6 as ReLU6
from graphopt.nn.layer.of_functions import ReplicationPad1D as ReplicationPad1D
from graphopt.nn.layer.of_functions import ReplicationPad2D as ReplicationPad2D
from graphopt.nn.layer.of_functions import ReplicationPad3D as ReplicationPad3D
from graphopt.nn.layer.of_functions import RNNTLoss as RNNTLoss
from graphopt.nn.layer.of_functions import RReLU as RReLU
from graphopt.nn.layer.of_functions import Sigmoid as Sigmoid
from graphopt.nn.layer.of_functions import Silu as Silu
from graphopt.nn.layer.of_functions import SmoothL1Loss as SmoothL1Loss
from graphopt.nn.layer.of_functions import SoftMarginLoss as SoftMarginLoss
from graphopt.nn.layer.of_functions import Softmax as Softmax
from graphopt.nn.layer.of_functions import Softplus as Softplus
from graphopt.nn.layer.of_functions import Softshrink as Softshrink
from graphopt.nn.layer.of_functions import Softsign as Softsign
from graphopt.nn.layer.of_functions import Swish as Swish
from graphopt.nn.layer.of_functions import Tanh as Tanh
from graphopt.nn.layer.of_functions import Tanhshrink as Tanhshrink
from graphopt.nn.layer.of_functions import ThresholdedReLU as ThresholdedReLU
from graphopt.nn.layer.of_functions import TripletMarginLoss as TripletMarginLoss
from graphopt.nn.layer.of_functions import (
    TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss,
)
from graphopt.nn.layer.of_functions import Unflatten as Unflatten
from graphopt.nn.layer.of_functions import Unfold as Unfold
from graphopt.nn.layer.of_functions import Upsample as Upsample
from graphopt.nn.layer.of_functions import UpsamplingBilinear2D as UpsamplingBilinear2D
from graphopt.nn.layer.of_functions import UpsamplingNearest2D as UpsamplingNearest2D
from graphopt.nn.layer.of_functions import ZeroPad1D as ZeroPad1D
from graphopt.nn.layer.of_functions import ZeroPad2D as ZeroPad2D
from graphopt.nn.layer.of_functions import ZeroPad3D as ZeroPad3D
from graphopt.nn.layer.rnn import GRU as GRU
from graphopt.nn.layer.rnn import LSTM as LSTM
from graphopt.nn.layer.rnn import RNN as RNN
from graphopt.nn.layer.rnn import BiRNN as BiRNN
from graphopt.nn.layer.rnn import SimpleRNN as SimpleRNN
from graphopt.nn.layer.rnn_cells import GRUCell as GRUCell
from graphopt.nn.layer.rnn_cells import LSTMCell as LSTMCell
from graphopt.nn.layer.rnn_cells import RNNCellBase as RNNCellBase
from graphopt.nn.layer.rnn_cells import SimpleRNNCell as SimpleRNNCell
from graphopt.nn.layer.sample_norm import GroupNorm as GroupNorm
from graphopt.nn.layer.sample_norm import InstanceNorm1D as InstanceNorm1D
from graphopt.nn.layer.sample_norm import InstanceNorm2D as InstanceNorm2D
from graphopt.nn.layer.sample_norm import InstanceNorm3D as InstanceNorm3D
from graphopt.nn.layer.sample_norm import LocalResponseNorm as LocalResponseNorm
from graphopt.nn.layer.sequence_loss import HSigmoidLoss as HSigmoidLoss
from graphopt.nn.layer.spectral_norm import SpectralNorm as SpectralNorm
from graphopt.nn.layer.transformer import MultiHeadAttention as MultiHeadAttention
from graphopt.nn.layer.transformer import TransformerEncoder as TransformerEncoder
from graphopt.nn.layer.transformer import TransformerEncoderLayer as TransformerEncoderLayer
from graphopt.nn.layer.transformer_decoder import Transformer as Transformer
from graphopt.nn.layer.transformer_decoder import TransformerDecoder as TransformerDecoder
from graphopt.nn.layer.transformer_decoder import (
    TransformerDecoderLayer as TransformerDecoderLayer,
)

loss = layer
# names in Paddle 3
SiLU = Silu
Conv1d = Conv1D
Conv2d = Conv2D
Conv3d = Conv3D
CircularPad1d = CircularPad1D
CircularPad2d = CircularPad2D
CircularPad3d = CircularPad3D
ConstantPad1d = ConstantPad1D
ConstantPad2d = ConstantPad2D
ConstantPad3d = ConstantPad3D
ReflectionPad1d = ReflectionPad1D
ReflectionPad2d = ReflectionPad2D
ReflectionPad3d = ReflectionPad3D
ReplicationPad1d = ReplicationPad1D
ReplicationPad2d = ReplicationPad2D
ReplicationPad3d = ReplicationPad3D
AdaptiveMaxPool1d = AdaptiveMaxPool1D
AdaptiveMaxPool2d = AdaptiveMaxPool2D
AdaptiveMaxPool3d = AdaptiveMaxPool3D
LPPool1d = LPPool1D
LPPool2d = LPPool2D

publish(globals(), __name__)
