"""Functions of networks, with PyTorch's names and signatures (torch.nn.functional).

What a Transformer needs is in core.py, some others in extra.py; most are the ops themselves.
"""

from __future__ import annotations

from functools import partial

from ...core.checks import check_all
from ...ops import one_hot, relu, sigmoid, silu, tanh
from ...core.arguments import accept_aliases
from ...breadth.convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from ...breadth.distances import bilinear, cosine_similarity, pairwise_distance, pdist
from ...breadth.margin_losses import cosine_embedding_loss, hinge_embedding_loss, margin_ranking_loss, multi_margin_loss, multilabel_margin_loss, multilabel_soft_margin_loss, soft_margin_loss, triplet_margin_loss, triplet_margin_with_distance_loss
from ...breadth.activations import celu, elu, glu, hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, logsigmoid, mish, prelu, relu6, selu, softplus, softshrink, softsign, tanhshrink, threshold
from ...breadth.losses import binary_cross_entropy, binary_cross_entropy_with_logits, gaussian_nll_loss, huber_loss, kl_div, l1_loss, mse_loss, nll_loss, poisson_nll_loss, smooth_l1_loss
from ...breadth.normalization import batch_norm, group_norm, instance_norm, local_response_norm, normalize
from ...breadth.padding import pad
from ...breadth.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d, avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d, max_unpool1d, max_unpool2d, max_unpool3d
from ...breadth.resampling import channel_shuffle, interpolate, pixel_shuffle, pixel_unshuffle, upsample, upsample_bilinear, upsample_nearest
from ...breadth.windows import fold, unfold
from .core import check_probability, cross_entropy, dropout, embedding, gelu, layer_norm, linear, log_softmax, may_be_in_place, padding_row, rms_norm, scaled_dot_product_attention, softmax
from ...breadth.functional import alpha_dropout, dropout1d, dropout2d, dropout3d, gumbel_softmax, softmin

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "alpha_dropout", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "celu", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "elu", "embedding", "fold", "gaussian_nll_loss", "gelu",
    "glu", "group_norm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "hinge_embedding_loss",
    "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu",
    "linear", "local_response_norm", "log_softmax", "logsigmoid", "margin_ranking_loss", "max_pool1d",
    "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss",
    "normalize", "one_hot", "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle",
    "poisson_nll_loss", "prelu", "relu", "relu6", "rms_norm", "scaled_dot_product_attention", "selu",
    "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "triplet_margin_loss",
    "triplet_margin_with_distance_loss", "unfold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

# these two are called in every layer, and check their arguments themselves
check_all(globals(), set(__all__) - {"embedding", "linear"}, accept_aliases)
for name in (
    "alpha_dropout", "celu", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "hardsigmoid",
    "hardswish", "hardtanh", "leaky_relu", "mish", "relu", "relu6", "selu", "silu", "threshold",
):  # fmt: skip
    globals()[name] = may_be_in_place(globals()[name], 2 if name == "elu" else None)
for name in ("celu", "elu", "hardtanh", "leaky_relu", "relu", "selu", "threshold"):
    globals()[f"{name}_"] = partial(globals()[name], inplace=True)
