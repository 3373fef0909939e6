"""What PyTorch's users expect beyond what training a Transformer needs.

Further ops, modules, optimizers and schedules; PyTorch's other names, and what to use instead of those that
do not exist; NumPy's functions of Tensors. Importing this package adds all to `minigrad`, `nn`, `optim` and
Tensor; it is imported when one of its names is first asked for (see `late_names.py`).
"""

from __future__ import annotations

from functools import partial

from .. import nn, ops, optim
from ..core.tensor import Tensor
from ..ops.methods import bind, bind_functions
from . import (
    accelerator,
    activations,
    adaptive_optimizers,
    array_functions,
    backends,
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
    lbfgs,
    linalg,
    matrix_products,
    modules,
    norms,
    schedulers,
    special,
    specials,
    torch_aliases,
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
from .missing_names import raise_if_known, raise_missing
from .norms import *
from .numpy_functions import array_function, array_ufunc
from .specials import *
from .torch_aliases import *

FAMILIES = (
    elementary, specials, activations, calculus, counting, norms, grids, diagonals, matrix_products,
    contractions, inverses, decompositions, distances,
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
bind(torch_aliases.METHODS, torch_aliases.PROPERTIES)
Tensor.__array_ufunc__, Tensor.__array_function__ = array_ufunc, array_function

# the names of `minigrad` itself, which it takes from here
NAMES = {name: getattr(torch_aliases, name) for name in torch_aliases.__all__} | PUBLIC
NAMES |= {"accelerator": accelerator, "backends": backends, "linalg": linalg, "special": special}
globals().update(NAMES)
vars(linalg)["__getattr__"] = partial(raise_missing, linalg)

for package, names in (
    (ops, PUBLIC),
    (nn, {name: getattr(modules, name) for name in modules.__all__}),
    (optim, {name: getattr(adaptive_optimizers, name) for name in adaptive_optimizers.__all__}),
    (optim, {"LBFGS": lbfgs.LBFGS}),
    (optim.lr_scheduler, {name: getattr(schedulers, name) for name in schedulers.__all__}),
):
    vars(package).update(names)
    package.listed += names  # type: ignore[attr-defined]
