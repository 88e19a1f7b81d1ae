"""The names of paddle.vision."""

from graphopt.vision import datasets as datasets
from graphopt.vision import models as models
from graphopt.vision import ops as ops
from graphopt.vision import transforms as transforms
from graphopt.vision.backend import get_image_backend as get_image_backend
from graphopt.vision.backend import image_load as image_load
from graphopt.vision.backend import set_image_backend as set_image_backend
from graphopt.vision.datasets import MNIST as MNIST
from graphopt.vision.datasets import VOC2012 as VOC2012
from graphopt.vision.datasets import Cifar10 as Cifar10
from graphopt.vision.datasets import Cifar100 as Cifar100
from graphopt.vision.datasets import DatasetFolder as DatasetFolder
from graphopt.vision.datasets import FashionMNIST as FashionMNIST
from graphopt.vision.datasets import Flowers as Flowers
from graphopt.vision.datasets import ImageFolder as ImageFolder
