"""The modules of paddle.dataset."""

from graphopt.dataset import cifar as cifar
from graphopt.dataset import common as common
from graphopt.dataset import conll05 as conll05
from graphopt.dataset import flowers as flowers
from graphopt.dataset import image as image
from graphopt.dataset import imdb as imdb
from graphopt.dataset import imikolov as imikolov
from graphopt.dataset import mnist as mnist
from graphopt.dataset import movielens as movielens
from graphopt.dataset import uci_housing as uci_housing
from graphopt.dataset import voc2012 as voc2012
from graphopt.dataset import wmt14 as wmt14
from graphopt.dataset import wmt16 as wmt16
