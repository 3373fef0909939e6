"""Optimizers, gradient clipping and learning-rate schedules, with PyTorch's names."""

from ..ops.checked import check_all
from . import lr_scheduler
from .adaptive_optimizers import Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop
from .clipping import clip_grad_norm_
from .lbfgs import LBFGS
from .lr_scheduler import (
    cosine_schedule,
    inverse_sqrt_schedule,
    linear_schedule,
    paper_schedule,
    wsd_schedule,
)
from .muon import Muon
from .optimizer import SGD, Adam, AdamW, Optimizer

__all__ = [
    "LBFGS",
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer", "RAdam",
    "RMSprop",
    "clip_grad_norm_", "cosine_schedule", "inverse_sqrt_schedule", "linear_schedule", "lr_scheduler",
    "paper_schedule", "wsd_schedule",
]  # fmt: skip


check_all(globals(), [name for name in __all__ if name.endswith("_schedule")])
