"""The breadth that PyTorch's users expect; no file of the core imports from here."""

from . import calculus, contractions, convolution, counting, decompositions, diagonals, distances, grids, inverses, margin_losses, matrix_products, activations as more_activations, elementary as more_elementary, losses as more_losses, normalization as more_normalization, norms, padding, pooling, resampling, sampling, scans, sorting, specials, windows
from ..ops import rounding as more_arithmetic, logic as more_comparisons, selection as more_indexing, statistics as more_reductions, views as more_shaping, recurrent, repetition, scattering, stacking
from .calculus import *
from .contractions import *
from .counting import *
from .decompositions import *
from .diagonals import *
from .distances import *
from .grids import *
from .inverses import *
from .matrix_products import *
from .activations import *
from ..ops.rounding import *
from ..ops.logic import *
from .elementary import *
from ..ops.selection import *
from ..ops.statistics import *
from ..ops.views import *
from .norms import *
from .padding import *
from ..ops.repetition import *
from .sampling import *
from .scans import *
from ..ops.scattering import *
from .sorting import *
from .specials import *
from ..ops.stacking import *

FAMILIES = (
    more_arithmetic, more_elementary, specials, more_comparisons, more_activations, more_reductions, scans,
    calculus, sorting, counting, norms, more_shaping, stacking, repetition, grids, diagonals, padding,
    more_indexing, scattering, matrix_products, contractions, inverses, decompositions, distances, sampling,
)  # fmt: skip

__all__ = [name for family in FAMILIES for name in family.__all__]
