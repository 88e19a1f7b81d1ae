"""Data sets of text, and the tags of sequences (paddle.text)."""

from graphopt.frontend import lazy as _lazy
from graphopt.frontend.calls import publish
from graphopt.text import datasets as datasets
from graphopt.text.datasets import WMT14 as WMT14
from graphopt.text.datasets import WMT16 as WMT16
from graphopt.text.datasets import Conll05st as Conll05st
from graphopt.text.datasets import Imdb as Imdb
from graphopt.text.datasets import Imikolov as Imikolov
from graphopt.text.datasets import Movielens as Movielens
from graphopt.text.datasets import UCIHousing as UCIHousing
from graphopt.text.viterbi_decode import ViterbiDecoder as ViterbiDecoder
from graphopt.text.viterbi_decode import viterbi_decode as viterbi_decode

publish(globals(), __name__)
_lazy.keep_functions(__name__)
