"""Activation modules; for the derivatives see their functions."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...nn import functional as F
from ...nn.function_module import FunctionModule
from ...nn.init import constant_
from ...nn.layers import new_parameter
from ...nn.module import Module

__all__ = [
    "CELU", "ELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "Mish", "PReLU", "ReLU6", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanhshrink", "Threshold",
]  # fmt: skip


# ---------------------------------------------------------------- piecewise linear


class ReLU6(FunctionModule, function=F.relu6):
    """min(max(x, 0), 6)."""


class LeakyReLU(FunctionModule, function=F.leaky_relu):
    """x for positive elements, `negative_slope` x for others."""


class PReLU(Module):
    """LeakyReLU with a learned slope, or one for each channel (axis 1) (He et al. 2015)."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.init = init
        self.weight = new_parameter(num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={len(self.weight)}"


class Hardtanh(FunctionModule, function=F.hardtanh):
    """x limited to [`min_val`, `max_val`]."""


class Hardsigmoid(FunctionModule, function=F.hardsigmoid, shown=""):
    """min(max(x / 6 + 1 / 2, 0), 1)."""


class Threshold(FunctionModule, function=F.threshold):
    """x where x > `threshold`, `value` elsewhere."""


class Hardshrink(FunctionModule, function=F.hardshrink):
    """x where |x| > `lambd`, 0 elsewhere."""

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(FunctionModule, function=F.softshrink):
    """x moved towards 0 by `lambd`: sign(x) max(|x| - `lambd`, 0)."""

    def extra_repr(self) -> str:
        return f"{self.lambd}"


# ---------------------------------------------------------------- exponential


class ELU(FunctionModule, function=F.elu, settings="alpha inplace"):
    """x for positive elements, alpha (exp(x) - 1) for others (Clevert et al. 2016)."""


class CELU(FunctionModule, function=F.celu):
    """x for positive elements, alpha (exp(x / alpha) - 1) for others (Barron 2017)."""


class SELU(FunctionModule, function=F.selu):
    """1.0507 ELU with alpha 1.6733, which keeps mean 0 and variance 1 (Klambauer et al. 2017)."""


class Softplus(FunctionModule, function=F.softplus):
    """log(1 + exp(beta x)) / beta, or x where beta x > `threshold`."""


class Tanhshrink(FunctionModule, function=F.tanhshrink):
    """x - tanh(x)."""


class Softsign(FunctionModule, function=F.softsign):
    """x / (1 + |x|)."""


# ---------------------------------------------------------------- gates


class Mish(FunctionModule, function=F.mish):
    """x tanh(softplus(x)) (Misra 2019)."""


class Hardswish(FunctionModule, function=F.hardswish, shown=""):
    """x min(max(x / 6 + 1 / 2, 0), 1) (Howard et al. 2019)."""


class GLU(FunctionModule, function=F.glu):
    """a sigmoid(b), with a and b the halves of x along `dim` (Dauphin et al. 2017)."""


# ---------------------------------------------------------------- along an axis


class Softmin(FunctionModule, function=F.softmin, settings="dim"):
    """softmax(-x) along `dim`."""


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, -3)
