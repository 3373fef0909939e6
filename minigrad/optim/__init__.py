"""Optimizers, gradient clipping and learning-rate schedules, with PyTorch's names."""

from typing import TYPE_CHECKING

from ..ops.checked import check_all
from . import lr_scheduler
from .clipping import clip_grad_norm_
from .lr_scheduler import (
    cosine_schedule,
    inverse_sqrt_schedule,
    linear_schedule,
    paper_schedule,
    wsd_schedule,
)
from .muon import Muon
from .optimizer import SGD, Adam, AdamW, Optimizer

if TYPE_CHECKING:  # what `more` adds, for editors
    from ..more.adaptive_optimizers import *
    from ..more.lbfgs import LBFGS

__all__ = [
    "SGD", "Adam", "AdamW", "Muon", "Optimizer", "clip_grad_norm_", "lr_scheduler",
    *lr_scheduler.__all__,
]  # fmt: skip

check_all(globals(), lr_scheduler.__all__)
