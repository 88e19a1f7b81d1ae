"""Linear algebra (paddle.linalg)."""

from graphopt.frontend.calls import publish
from graphopt.tensor.contract import corrcoef as corrcoef
from graphopt.tensor.contract import cov as cov
from graphopt.tensor.contract import vecdot as vecdot
from graphopt.tensor.decompose import cholesky_inverse as cholesky_inverse
from graphopt.tensor.decompose import cholesky_solve as cholesky_solve
from graphopt.tensor.decompose import det as det
from graphopt.tensor.decompose import eig as eig
from graphopt.tensor.decompose import eigh as eigh
from graphopt.tensor.decompose import eigvals as eigvals
from graphopt.tensor.decompose import eigvalsh as eigvalsh
from graphopt.tensor.decompose import householder_product as householder_product
from graphopt.tensor.decompose import lstsq as lstsq
from graphopt.tensor.decompose import lu as lu
from graphopt.tensor.decompose import lu_solve as lu_solve
from graphopt.tensor.decompose import lu_unpack as lu_unpack
from graphopt.tensor.decompose import matrix_exp as matrix_exp
from graphopt.tensor.decompose import matrix_power as matrix_power
from graphopt.tensor.decompose import matrix_rank as matrix_rank
from graphopt.tensor.decompose import multi_dot as multi_dot
from graphopt.tensor.decompose import ormqr as ormqr
from graphopt.tensor.decompose import pinv as pinv
from graphopt.tensor.decompose import qr as qr
from graphopt.tensor.decompose import slogdet as slogdet
from graphopt.tensor.decompose import solve as solve
from graphopt.tensor.decompose import svd as svd
from graphopt.tensor.decompose import svdvals as svdvals
from graphopt.tensor.decompose import triangular_solve as triangular_solve
from graphopt.tensor.distances import norm as norm
from graphopt.tensor.linalg import cholesky as cholesky
from graphopt.tensor.linalg import cross as cross
from graphopt.tensor.linalg import inv as inv
from graphopt.tensor.linalg import matmul as matmul
from graphopt.tensor.low_rank import pca_lowrank as pca_lowrank
from graphopt.tensor.low_rank import svd_lowrank as svd_lowrank
from graphopt.tensor.matrix_norm import cond as cond
from graphopt.tensor.matrix_norm import matrix_norm as matrix_norm
from graphopt.tensor.matrix_norm import vector_norm as vector_norm
from graphopt.tensor.ranges import diagonal as diagonal
from graphopt.tensor.spellings import matrix_transpose as matrix_transpose

publish(globals(), __name__)
