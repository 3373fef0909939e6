"""Special functions with the names of torch.special."""

from ..ops.activations import log_softmax, sigmoid, softmax
from ..ops.elementary import erf, erfc
from ..ops.reductions import logsumexp
from ..ops.rounding import round
from .elementary import exp2, expm1, log1p, sinc
from .specials import (
    digamma,
    entr,
    erfcx,
    erfinv,
    lgamma,
    log_ndtr,
    logit,
    mvlgamma,
    ndtr,
    ndtri,
    polygamma,
    xlog1py,
    xlogy,
)

expit = sigmoid
gammaln = lgamma
multigammaln = mvlgamma
psi = digamma

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "log1p",
    "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "polygamma", "psi",
    "round", "sinc", "softmax", "xlog1py", "xlogy",
]  # fmt: skip
