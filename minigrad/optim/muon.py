"""Muon, an optimizer for the matrices of hidden layers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from ..core.devices import array_module
from ..core.errors import OptionError
from ..ops.linalg import matmul_arrays
from .optimizer import Optimizer

ADJUST = ("original", "match_rms_adamw")


class Muon(Optimizer):
    """v += (1 - momentum) (g - v), p -= lr * ratio * orthogonalize(v) (Jordan 2024, "Muon").

    Every direction of a matrix gets an update of about the same size, while a few directions dominate
    Adam's. If `nesterov` is True, g + momentum (v - g) replaces v; the weight decay is AdamW's. The ratio of
    a matrix (A, B) is sqrt(max(1, A / B)) if adjust_lr_fn is "original" or None, and 0.2 sqrt(max(A, B)) if
    it is "match_rms_adamw" (Liu et al. 2025, "Muon is scalable", section 2.2), which suits the lr and weight
    decay of AdamW. Use AdamW for embeddings, output layers, biases and norms.
    """

    arrays = ("momentum_buffer",)
    numbers = ()

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_coefficients=ns_coefficients,
            eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
        )

    def check_options(self, options: Mapping[str, Any]) -> None:
        super().check_options(options)
        adjust = options["adjust_lr_fn"]
        coefficients = options["ns_coefficients"]
        if adjust is not None and adjust not in ADJUST:
            raise OptionError(f"unknown adjust_lr_fn {adjust!r}.\nChoose one of {ADJUST}, or None.")
        numbers = isinstance(coefficients, tuple | list) and len(coefficients) == 3
        if not numbers or not all(isinstance(x, Real) and isfinite(x) for x in coefficients):
            raise OptionError(
                f"ns_coefficients must be three finite numbers, got {coefficients!r}.\nPass a tuple of them."
            )

    def add_param_group(self, group: Any) -> None:
        super().add_param_group(group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                self.param_groups.pop()
                raise OptionError(
                    f"Muon supports only matrices, got a parameter of shape {p.shape}.\n"
                    f"Use AdamW for embeddings, biases and norms."
                )

    def update(
        self, p: np.ndarray, g: np.ndarray, state: dict[str, np.ndarray], group: dict[str, Any]
    ) -> None:
        momentum = group["momentum"]
        if not state:
            state["momentum_buffer"] = array_module(p).zeros(p.shape, p.dtype)
        v = state["momentum_buffer"] = state["momentum_buffer"].astype(p.dtype, copy=False)
        v += (1 - momentum) * (g - v)
        direction = orthogonalize(
            g + momentum * (v - g) if group["nesterov"] else v,
            group["ns_coefficients"], group["ns_steps"], group["eps"],
        )  # fmt: skip
        rows, columns = p.shape
        ratio = max(1.0, rows / columns) ** 0.5
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * max(rows, columns) ** 0.5
        lr = self.hyperparameters_for(p, state, group)[0]
        p *= 1 - lr * group["weight_decay"]
        p -= lr * ratio * direction


def orthogonalize(
    x: Any,
    coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
    steps: int = 5,
    eps: float = 1e-7,
) -> Any:
    """Approximate U V^T for a matrix x = U S V^T by iterating x <- a x + b (x x^T) x + c (x x^T)^2 x.

    With Muon's coefficients, 5 steps of this Newton-Schulz iteration bring the singular values to between 0.7
    and 1.2. They start at 1 or less, because x is first divided by its Frobenius norm.
    """
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    xp = array_module(x)
    x = x / xp.maximum(xp.sqrt((x * x).sum()), eps)
    for _ in range(steps):
        gram = matmul_arrays(x, x.T)
        x = a * x + matmul_arrays(b * gram + c * matmul_arrays(gram, gram), x)
    return x.T if tall else x
