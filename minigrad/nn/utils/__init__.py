"""Utilities for gradients and parameters (torch.nn.utils)."""

from ...ops.checked import check_all
from ...optim.clipping import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from . import rnn, stateless
from .convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector",
    "rnn", "stateless", "vector_to_parameters",
]  # fmt: skip

check_all(
    globals(), ["clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "vector_to_parameters"]
)  # fmt: skip
