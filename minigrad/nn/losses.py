"""Losses as modules, named as in torch.nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import as_tensor
from ..ops.losses import check_reduction
from . import functional as F
from .function_module import FunctionModule

__all__ = ["CrossEntropyLoss", "MSELoss"]


class Loss(FunctionModule):
    """A loss with a `reduction`: "mean", "sum" or "none". Its weights are buffers."""

    def __init_subclass__(
        cls, function: Callable[..., Any] | None = None, inputs: int = 2, settings: str | None = None
    ) -> None:
        super().__init_subclass__(function, inputs, settings, shown="")

    def _configure(self, **settings: Any) -> None:
        self._check_reduction(settings["reduction"])
        for name in ("weight", "pos_weight"):
            if name in settings:
                value = settings.pop(name)
                self.register_buffer(name, None if value is None else as_tensor(value))
        super()._configure(**settings)

    def _check_reduction(self, reduction: str) -> None:
        check_reduction(reduction)


class CrossEntropyLoss(Loss, function=F.cross_entropy):
    """-log softmax(input)[target]; targets equal to `ignore_index` are ignored.

    >>> loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    >>> loss(mg.tensor([[2.0, 0.0]]), mg.tensor([0]))
    tensor(0.2269)
    """


class MSELoss(Loss, function=F.mse_loss, settings="reduction"):
    """The squared error (input - target)**2, averaged by default.

    >>> nn.MSELoss()(mg.tensor([1.0, 2.0]), mg.tensor([1.0, 4.0]))
    tensor(2.)
    """
