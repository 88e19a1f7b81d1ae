"""Models of images (paddle.vision.models).

Their parameters have the names, shapes and order of Paddle's, so that its weights fit. With
`pretrained` the weights come from a local file: see `pretrained.py`.
"""

from graphopt.frontend.calls import publish
from graphopt.vision.models.classic import VGG as VGG
from graphopt.vision.models.classic import AlexNet as AlexNet
from graphopt.vision.models.classic import LeNet as LeNet
from graphopt.vision.models.classic import SqueezeNet as SqueezeNet
from graphopt.vision.models.classic import alexnet as alexnet
from graphopt.vision.models.classic import squeezenet1_0 as squeezenet1_0
from graphopt.vision.models.classic import squeezenet1_1 as squeezenet1_1
from graphopt.vision.models.classic import vgg11 as vgg11
from graphopt.vision.models.classic import vgg13 as vgg13
from graphopt.vision.models.classic import vgg16 as vgg16
from graphopt.vision.models.classic import vgg19 as vgg19
from graphopt.vision.models.densenet import DenseNet as DenseNet
from graphopt.vision.models.densenet import densenet121 as densenet121
from graphopt.vision.models.densenet import densenet161 as densenet161
from graphopt.vision.models.densenet import densenet169 as densenet169
from graphopt.vision.models.densenet import densenet201 as densenet201
from graphopt.vision.models.densenet import densenet264 as densenet264
from graphopt.vision.models.inception import GoogLeNet as GoogLeNet
from graphopt.vision.models.inception import InceptionV3 as InceptionV3
from graphopt.vision.models.inception import googlenet as googlenet
from graphopt.vision.models.inception import inception_v3 as inception_v3
from graphopt.vision.models.mobilenet import MobileNetV1 as MobileNetV1
from graphopt.vision.models.mobilenet import MobileNetV2 as MobileNetV2
from graphopt.vision.models.mobilenet import MobileNetV3Large as MobileNetV3Large
from graphopt.vision.models.mobilenet import MobileNetV3Small as MobileNetV3Small
from graphopt.vision.models.mobilenet import mobilenet_v1 as mobilenet_v1
from graphopt.vision.models.mobilenet import mobilenet_v2 as mobilenet_v2
from graphopt.vision.models.mobilenet import mobilenet_v3_large as mobilenet_v3_large
from graphopt.vision.models.mobilenet import mobilenet_v3_small as mobilenet_v3_small
from graphopt.vision.models.resnet import ResNet as ResNet
from graphopt.vision.models.resnet import resnet18 as resnet18
from graphopt.vision.models.resnet import resnet34 as resnet34
from graphopt.vision.models.resnet import resnet50 as resnet50
from graphopt.vision.models.resnet import resnet101 as resnet101
from graphopt.vision.models.resnet import resnet152 as resnet152
from graphopt.vision.models.resnet import resnext50_32x4d as resnext50_32x4d
from graphopt.vision.models.resnet import resnext50_64x4d as resnext50_64x4d
from graphopt.vision.models.resnet import resnext101_32x4d as resnext101_32x4d
from graphopt.vision.models.resnet import resnext101_64x4d as resnext101_64x4d
from graphopt.vision.models.resnet import resnext152_32x4d as resnext152_32x4d
from graphopt.vision.models.resnet import resnext152_64x4d as resnext152_64x4d
from graphopt.vision.models.resnet import wide_resnet50_2 as wide_resnet50_2
from graphopt.vision.models.resnet import wide_resnet101_2 as wide_resnet101_2
from graphopt.vision.models.shufflenet import ShuffleNetV2 as ShuffleNetV2
from graphopt.vision.models.shufflenet import shufflenet_v2_swish as shufflenet_v2_swish
from graphopt.vision.models.shufflenet import shufflenet_v2_x0_5 as shufflenet_v2_x0_5
from graphopt.vision.models.shufflenet import shufflenet_v2_x0_25 as shufflenet_v2_x0_25
from graphopt.vision.models.shufflenet import shufflenet_v2_x0_33 as shufflenet_v2_x0_33
from graphopt.vision.models.shufflenet import shufflenet_v2_x1_0 as shufflenet_v2_x1_0
from graphopt.vision.models.shufflenet import shufflenet_v2_x1_5 as shufflenet_v2_x1_5
from graphopt.vision.models.shufflenet import shufflenet_v2_x2_0 as shufflenet_v2_x2_0

publish(globals(), __name__)
