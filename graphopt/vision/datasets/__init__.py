"""Data sets of images (paddle.vision.datasets)."""

from graphopt.frontend.calls import publish
from graphopt.vision.datasets.archives import MNIST as MNIST
from graphopt.vision.datasets.archives import VOC2012 as VOC2012
from graphopt.vision.datasets.archives import Cifar10 as Cifar10
from graphopt.vision.datasets.archives import Cifar100 as Cifar100
from graphopt.vision.datasets.archives import FashionMNIST as FashionMNIST
from graphopt.vision.datasets.archives import Flowers as Flowers
from graphopt.vision.datasets.folder import DatasetFolder as DatasetFolder
from graphopt.vision.datasets.folder import ImageFolder as ImageFolder

publish(globals(), __name__)
