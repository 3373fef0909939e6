"""What autocast casts, and what a GradScaler does, against PyTorch's.

Values of 16 bits are compared by `random_calls.py`; `sweeps/test_sixteen_bits.py` holds ops to one rounding.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.registry import registry
from minigrad.nn import functional as F

torch = pytest.importorskip("torch", reason="the parity extra is not installed")
pytestmark = pytest.mark.parity


def functions(lib):
    return F if lib is mg else torch.nn.functional


# shapes of a product, of a loss, and of channels
M = (3, 3)
N = (3, 4)
C = (2, 3, 5)
OF_ONE = [
    "exp", "expm1", "log", "log2", "log10", "log1p", "reciprocal", "rsqrt", "acos", "asin", "sinh", "cosh",
    "tan", "erfinv", "softplus", "sum", "prod", "norm", "normalize", "exp2", "square", "lgamma", "mean",
    "logit",
]  # fmt: skip
OF_TWO = [
    "dist", "cdist", "cosine_similarity", "kl_div", "binary_cross_entropy_with_logits", "poisson_nll_loss",
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "hinge_embedding_loss",
    "binary_cross_entropy", "logaddexp", "logaddexp2", "hypot", "atan2", "multilabel_soft_margin_loss",
]  # fmt: skip
CALLS = {  # what autocast casts: the shapes of its tensors, and the rest of its arguments
    "matmul": (M, M), "linear": (N, (5, 4)), "addbmm": (M, (2, 3, 3), (2, 3, 3)), "addmm": (M, M, M),
    "addmv": ((3,), M, (3,)), "addr": (M, (3,), (3,)), "baddbmm": ((2, 3, 3), (2, 3, 3), (2, 3, 3)),
    "conv1d": (C, (2, 3, 2)), "conv_transpose1d": (C, (3, 2, 2)), "prelu": (N, (1,)),
    "scaled_dot_product_attention": (C, C, C),
    **dict.fromkeys(OF_ONE, (N,)),
    "pow": (N, 1.5), "softmax": (N, -1), "softmin": (N, -1), "log_softmax": (N, -1), "logsumexp": (N, -1),
    "cumsum": (N, 0), "cumprod": (N, 0), "logcumsumexp": (N, 0), "renorm": (N, 2, 0, 1.0),
    "layer_norm": (N, [4]), "rms_norm": (N, [4]), "group_norm": (C, 3),
    **dict.fromkeys(OF_TWO, (N, N)),
    **dict.fromkeys(("cross_entropy", "nll_loss", "multi_margin_loss"), (N, [0, 1, 2])),
    "multilabel_margin_loss": (N, [[0, 1, -1, 0]] * 3), "margin_ranking_loss": (N, N, N),
    "cosine_embedding_loss": (N, N, [1, -1, 1]),
    **dict.fromkeys(("triplet_margin_loss", "triplet_margin_with_distance_loss"), (N, N, N)),
    **dict.fromkeys(("nansum", "nanmean", "std", "var_mean", "std_mean", "logsigmoid", "mish"), (N,)),
    "trapezoid": (N,), "cumulative_trapezoid": (N,), "vander": ((3,),), "mvlgamma": (N, 1),
    "local_response_norm": (C, 2),
    "vector_norm": (N,), "matrix_norm": (N,), "linalg_norm": (N,), "cond": (M,),
    **dict.fromkeys(("vecdot", "pairwise_distance", "ldexp"), (N, N)),
    "gaussian_nll_loss": (N, N, N), "var": (N,),
}  # fmt: skip
UNCAST = {"logit", "layer_norm", "rms_norm"}  # by either, on the CPU
ALIASES = {"p_norm": "norm", "variance": "var", "deviation": "std", "power": "pow", "convolution": "conv1d"}
WITHOUT_TORCH = {  # kernels and parts, of which PyTorch has none by the name; its pdist knows no bfloat16
    "convolution_input", "convolution_weight", "multi_head_attention", "quantized_linear",
    "weighted_cross_entropy", "soft_cross_entropy", "pdist",
    "rnn", "lstm", "gru",  # torch's functions of these names take other arguments
}  # fmt: skip


def kind_under_autocast(lib, name, dtype):
    """The dtype of a function's result under autocast to bfloat16, of tensors of `dtype`."""
    rng = np.random.default_rng(0)

    def made(x):
        if isinstance(x, tuple):
            return lib.tensor(rng.uniform(0.1, 0.9, x).astype(np.float32)).to(getattr(lib, dtype))
        if isinstance(x, list) and name not in ("layer_norm", "rms_norm"):
            return lib.tensor(x)
        return x

    places = functions(lib), *([lib.linalg] if name == "cond" else []), lib, lib.special, lib.linalg
    public = {"linalg_norm": "norm"}.get(name, name)
    function = next(getattr(place, public) for place in places if hasattr(place, public))
    with lib.autocast("cpu", dtype=lib.bfloat16):
        result = function(*map(made, CALLS[name]))
    return str((result[0] if isinstance(result, tuple) else result).dtype).removeprefix("torch.")


def test_every_function_that_is_cast_is_compared():
    assert {ALIASES.get(op.name, op.name) for op in registry.values() if op.autocast} - WITHOUT_TORCH <= set(
        CALLS
    )


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")  # torch warns about reductions
def test_autocast_casts_the_same_functions_as_pytorch(name):
    """What PyTorch casts on the CPU we cast, and the same way; we cast more, as it does on a GPU."""
    ours, theirs = (
        [kind_under_autocast(lib, name, dtype) for dtype in ("float32", "bfloat16")] for lib in (mg, torch)
    )
    if theirs != ["float32", "bfloat16"]:  # PyTorch casts the results of one of them
        assert ours == theirs
    assert ours == (["float32", "bfloat16"] if name in UNCAST else [ours[0]] * 2)


def test_grad_scaler_matches_pytorch():
    """Steps, skipped steps and factors, and a state that either loads from the other."""
    settings = {"init_scale": 64.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 2}
    ours = mg.GradScaler(**settings)
    theirs = torch.amp.GradScaler("cpu", **settings)
    p = mg.ones(2, requires_grad=True)
    q = torch.ones(2, requires_grad=True)
    for factor in (1.0, 2.0, np.inf, 1.0, np.nan, 3.0, 1.0):
        found = []
        for lib, x, scaler in ((mg, p, ours), (torch, q, theirs)):
            optimizer = lib.optim.SGD([x], lr=0.25)
            optimizer.zero_grad()
            scaler.scale((x * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append((x.tolist(), scaler.state_dict()))
        assert found[0] == found[1]
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
