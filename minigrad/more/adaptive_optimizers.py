"""RMSprop, Adagrad, Adadelta, Adamax, NAdam and RAdam, each defined by its formula for one parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.devices import array_module, to_device_of
from ..core.dtypes import float32, float64
from ..core.errors import OptionError
from ..optim.optimizer import Optimizer, check_implementation

__all__ = ["Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop"]

Betas = tuple[float, float]
State = dict[str, np.ndarray]


class Formula(Optimizer):
    """Base class of optimizers with state arrays, named in `arrays`, of the parameter's shape.

    A subclass defines `change`, the formula, and may define `hyperparameters`, the numbers that it reads.
    """

    def __init__(self, params: Any, options: dict[str, Any]) -> None:
        """Initialize from the local variables of a subclass's constructor."""
        ours = {name: value for name, value in options.items() if name not in ("self", "params", "__class__")}
        check_implementation(self, ours.pop("implementation"))
        super().__init__(params, ours)

    def update(self, p: np.ndarray, g: np.ndarray, state: State, group: dict[str, Any]) -> None:
        names = self.names(group)
        if any(name not in state or state[name].dtype != p.dtype for name in names):
            self.init_state(p, state, *names)
        self.count(state)
        numbers = self.hyperparameters_for(p, state, group)
        if group["weight_decay"]:
            if group.get("decoupled_weight_decay"):
                p *= 1 - numbers[0] * group["weight_decay"]
            else:
                g = g + group["weight_decay"] * p
        self.change(p, g, state, numbers, group)

    def change(self, p: Any, g: Any, state: State, numbers: Any, group: dict[str, Any]) -> None:
        """Update `p` and its state arrays in place with the gradient `g`."""
        raise NotImplementedError


def _step(state: State) -> int:
    return int(state["step"])


class RMSprop(Formula):
    """v = alpha v + (1 - alpha) g**2, p -= lr g / (sqrt(v) + eps) (Hinton 2012, lecture 6e).

    `centered` subtracts the square of g's moving average from v (Graves 2013). With `momentum`, p -= lr b
    where b = momentum b + g / (sqrt(v) + eps).
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **implementation: Any,
    ) -> None:
        super().__init__(params, locals())

    arrays = ("square_avg", "momentum_buffer", "grad_avg")

    def names(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] else ()
        return ("square_avg", *momentum, *(("grad_avg",) if group["centered"] else ()))

    def change(self, p: Any, g: Any, state: State, numbers: Any, group: dict[str, Any]) -> None:
        v = state["square_avg"]
        v *= group["alpha"]
        v += (1 - group["alpha"]) * g * g
        if group["centered"]:
            mean = state["grad_avg"]
            mean += (1 - group["alpha"]) * (g - mean)
            v = v - mean * mean
        g = g / (array_module(p).sqrt(v) + group["eps"])
        if group["momentum"]:
            b = state["momentum_buffer"]
            b *= group["momentum"]
            b += g
            g = b
        p -= numbers[0] * g


class Adagrad(Formula):
    """v += g**2, p -= lr g / (sqrt(v) + eps) (Duchi et al. 2011); lr is divided by 1 + (t - 1) lr_decay."""

    arrays = ("sum",)

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **implementation: Any,
    ) -> None:
        super().__init__(params, locals())

    def init_state(self, p: np.ndarray, state: State, *names: str) -> None:
        is_new = "sum" not in state
        super().init_state(p, state, *names)
        if is_new:
            state["sum"] += self.defaults["initial_accumulator_value"]

    def hyperparameters(self, state: State, group: dict[str, Any]) -> tuple[float, ...]:
        return (group["lr"] / (1 + (_step(state) - 1) * group["lr_decay"]),)

    def change(self, p: Any, g: Any, state: State, numbers: Any, group: dict[str, Any]) -> None:
        v = state["sum"]
        v += g * g
        p -= numbers[0] * g / (array_module(p).sqrt(v) + group["eps"])


class Adadelta(Formula):
    """p -= lr d, d = g sqrt(u + eps) / sqrt(v + eps), v and u averages of g**2 and d**2 (Zeiler 2012)."""

    arrays = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Any,
    ) -> None:
        super().__init__(params, locals())

    def check_options(self, options: Mapping[str, Any]) -> None:
        super().check_options(options)
        if options["rho"] > 1:
            raise OptionError(f"rho must be from 0 to 1, got {options['rho']!r}.\nPass one in that range.")

    def change(self, p: Any, g: Any, state: State, numbers: Any, group: dict[str, Any]) -> None:
        rho = group["rho"]
        eps = group["eps"]
        sqrt = array_module(p).sqrt
        v, u = state["square_avg"], state["acc_delta"]
        v *= rho
        v += (1 - rho) * g * g
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u *= rho
        u += (1 - rho) * d * d
        p -= numbers[0] * d


class Adamax(Formula):
    """m = b1 m + (1 - b1) g, u = max(b2 u, |g| + eps), p -= lr / (1 - b1**t) m / u (Kingma and Ba 2015)."""

    arrays = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Any,
    ) -> None:
        super().__init__(params, locals())

    def hyperparameters(self, state: State, group: dict[str, Any]) -> tuple[float, ...]:
        return (group["lr"] / (1 - group["betas"][0] ** _step(state)),)

    def change(self, p: Any, g: Any, state: State, numbers: Any, group: dict[str, Any]) -> None:
        m = state["exp_avg"]
        u = state["exp_inf"]
        b1, b2 = group["betas"]
        xp = array_module(p)
        m += (1 - b1) * (g - m)
        u *= b2
        xp.maximum(u, abs(g) + group["eps"], out=u)
        p -= numbers[0] * m / u


class NAdam(Formula):
    """Adam with Nesterov momentum, which increases over the steps (Dozat 2016)."""

    arrays = ("exp_avg", "exp_avg_sq")
    numbers = ("step", "mu_product")

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **implementation: Any,
    ) -> None:
        super().__init__(params, locals())

    def init_state(self, p: np.ndarray, state: State, *names: str) -> None:
        super().init_state(p, state, *names)
        dtype = p.dtype if p.dtype == float64 else float32
        state.setdefault("mu_product", array_module(p).ones((), dtype))

    def hyperparameters(self, state: State, group: dict[str, Any]) -> tuple[float, ...]:
        """Return lr, this step's momentum, the next step's momentum, and 1 / sqrt(1 - b2**t)."""
        t = _step(state)
        b1, b2 = group["betas"]
        momentum, following = (b1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (t, t + 1))
        return group["lr"], momentum, following, 1 / (1 - b2**t) ** 0.5

    def change(self, p: Any, g: Any, state: State, numbers: Any, group: dict[str, Any]) -> None:
        m, v = state["exp_avg"], state["exp_avg_sq"]
        product = state["mu_product"] = to_device_of(state["mu_product"], p)  # perhaps loaded
        b1, b2 = group["betas"]
        lr, momentum, following, root = numbers
        product *= momentum
        m += (1 - b1) * (g - m)
        v *= b2
        v += (1 - b2) * g * g
        width = array_module(p).sqrt(v) * root + group["eps"]
        p -= lr * (1 - momentum) / (1 - product) * g / width
        p -= lr * following / (1 - product * following) * m / width


class RAdam(Formula):
    """Adam that uses plain momentum until the variance of v can be estimated (Liu et al. 2020)."""

    arrays = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **implementation: Any,
    ) -> None:
        super().__init__(params, locals())

    def hyperparameters(self, state: State, group: dict[str, Any]) -> tuple[float, ...]:
        """Return lr, the factor of m and the factor of m / (sqrt(v) + eps); one of the two is 0."""
        t = _step(state)
        b1, b2 = group["betas"]
        rate = group["lr"] / (1 - b1**t)
        longest = 2 / (1 - b2) - 1
        length = longest - 2 * t * b2**t / (1 - b2**t)
        if length <= 5:
            return group["lr"], rate, 0.0
        share = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        return group["lr"], 0.0, rate * (share * (1 - b2**t)) ** 0.5

    def change(self, p: Any, g: Any, state: State, numbers: Any, group: dict[str, Any]) -> None:
        m = state["exp_avg"]
        v = state["exp_avg_sq"]
        b1, b2 = group["betas"]
        _, plain, adaptive = numbers
        m += (1 - b1) * (g - m)
        v *= b2
        v += (1 - b2) * g * g
        p -= (plain + adaptive / (array_module(p).sqrt(v) + group["eps"])) * m
