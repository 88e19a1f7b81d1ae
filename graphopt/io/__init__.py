"""Datasets, samplers and DataLoader (paddle.io)."""

from graphopt.frontend.calls import publish
from graphopt.io.batch_sampler import BatchSampler as BatchSampler
from graphopt.io.batch_sampler import DistributedBatchSampler as DistributedBatchSampler
from graphopt.io.dataset import ChainDataset as ChainDataset
from graphopt.io.dataset import ComposeDataset as ComposeDataset
from graphopt.io.dataset import ConcatDataset as ConcatDataset
from graphopt.io.dataset import Dataset as Dataset
from graphopt.io.dataset import IterableDataset as IterableDataset
from graphopt.io.dataset import Subset as Subset
from graphopt.io.dataset import TensorDataset as TensorDataset
from graphopt.io.dataset import random_split as random_split
from graphopt.io.loader import DataLoader as DataLoader
from graphopt.io.sampler import RandomSampler as RandomSampler
from graphopt.io.sampler import Sampler as Sampler
from graphopt.io.sampler import SequenceSampler as SequenceSampler
from graphopt.io.sampler import SubsetRandomSampler as SubsetRandomSampler
from graphopt.io.sampler import WeightedRandomSampler as WeightedRandomSampler
from graphopt.io.worker import get_worker_info as get_worker_info

publish(globals(), __name__)
