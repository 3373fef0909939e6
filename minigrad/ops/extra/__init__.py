"""The breadth that PyTorch's users expect; no file of the core imports from here."""

from . import (
    calculus,
    contractions,
    convolution,
    counting,
    decompositions,
    diagonals,
    distances,
    grids,
    inverses,
    margin_losses,
    matrix_products,
    more_activations,
    more_arithmetic,
    more_comparisons,
    more_elementary,
    more_indexing,
    more_losses,
    more_normalization,
    more_reductions,
    more_shaping,
    norms,
    padding,
    pooling,
    recurrent,
    repetition,
    resampling,
    sampling,
    scans,
    scattering,
    sorting,
    specials,
    stacking,
    windows,
)
from .calculus import *
from .contractions import *
from .counting import *
from .decompositions import *
from .diagonals import *
from .distances import *
from .grids import *
from .inverses import *
from .matrix_products import *
from .more_activations import *
from .more_arithmetic import *
from .more_comparisons import *
from .more_elementary import *
from .more_indexing import *
from .more_reductions import *
from .more_shaping import *
from .norms import *
from .padding import *
from .repetition import *
from .sampling import *
from .scans import *
from .scattering import *
from .sorting import *
from .specials import *
from .stacking import *

FAMILIES = (
    more_arithmetic, more_elementary, specials, more_comparisons, more_activations, more_reductions, scans,
    calculus, sorting, counting, norms, more_shaping, stacking, repetition, grids, diagonals, padding,
    more_indexing, scattering, matrix_products, contractions, inverses, decompositions, distances, sampling,
)  # fmt: skip
