"""Further ops, modules and functions of PyTorch's, beyond what training a Transformer needs.

Importing this package adds them to the functions and methods of `ops` and to the modules of `nn`.
"""

from __future__ import annotations

from .. import nn, ops
from ..ops.methods import bind, bind_functions
from . import (
    activations,
    array_functions,
    calculus,
    contractions,
    counting,
    decompositions,
    diagonals,
    distances,
    elementary,
    functional,
    grids,
    inverses,
    linalg,
    matrix_products,
    modules,
    norms,
    sampling,
    scans,
    sorting,
    special,
    specials,
    windows,
)
from .activations import *
from .calculus import *
from .contractions import *
from .counting import *
from .decompositions import *
from .diagonals import *
from .distances import *
from .elementary import *
from .grids import *
from .inverses import *
from .matrix_products import *
from .norms import *
from .sampling import *
from .scans import *
from .sorting import *
from .specials import *

FAMILIES = (
    elementary, specials, activations, scans, calculus, sorting, counting, norms, grids, diagonals,
    matrix_products, contractions, inverses, decompositions, distances, sampling,
)  # fmt: skip

# functions whose first argument is not a tensor, or that take several tensors
NOT_METHODS = {
    "block_diag", "bucketize", "cartesian_prod", "cdist", "celu", "chain_matmul", "combinations",
    "cosine_similarity", "cumulative_trapezoid", "einsum", "gradient", "isin", "meshgrid",
    "pairwise_distance", "pdist", "polygamma", "searchsorted", "selu", "tensordot", "threshold", "trapezoid",
    "trapz", "tril_indices", "triu_indices",
}  # fmt: skip

PUBLIC = bind_functions(FAMILIES, NOT_METHODS)
bind({"unfold": windows.windows_along})
for package, names in ((ops, PUBLIC), (nn, {name: getattr(modules, name) for name in modules.__all__})):
    vars(package).update(names)
    package.listed += names  # type: ignore[attr-defined]

globals().update(PUBLIC)

__all__ = ["linalg", "special", *PUBLIC]
