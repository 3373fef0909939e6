"""Optimizers: SGD, Adam and AdamW, with PyTorch's parameter groups, defaults and arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

import numpy as np

from ..autograd import no_grad
from ..creation import zeros_like
from ..devices import array_module, on_device
from ..errors import OptionError, StateError
from ..kernels import kernels
from ..tensor import Tensor
from ..versions import caller, record_changes

SMALL = 1 << 13  # elements of a parameter that is updated together with others


class Optimizer:
    """Parameters in groups, each with its options, and a state of arrays for every parameter."""

    def __init__(self, params: Iterable[Any], **defaults: Any) -> None:
        if hasattr(params, "parameters"):
            raise OptionError(
                f"an optimizer takes parameters, got a {type(params).__name__}.\nPass its .parameters()."
            )
        groups = list(params)
        if not groups:
            raise OptionError("an optimizer needs parameters, got none.\nPass model.parameters().")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, dict[str, np.ndarray]] = {}
        self.steps = 0
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Take in more parameters, {"params": ...}, with options of their own beside the defaults."""
        given = group["params"]
        params = [given] if isinstance(given, Tensor) else list(given)
        if any(not isinstance(p, Tensor) or not p.is_leaf for p in params):
            raise OptionError("an optimizer changes leaf tensors.\nPass model.parameters().")
        ids = [id(p) for p in (*self._parameters(), *params)]
        if len(set(ids)) != len(ids):
            raise OptionError("a parameter is given twice.\nName each once.")
        _check_ranges({**self.defaults, **group})
        unknown = group.keys() - self.defaults.keys() - {"params", "initial_lr"}
        if unknown:
            raise OptionError(
                f"{type(self).__name__} has no option {sorted(unknown)}.\nIts options: {list(self.defaults)}."
            )
        self.param_groups.append({**self.defaults, **group, "params": params})

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self._parameters():
            if set_to_none or p.grad is None:
                p.grad = None
            else:
                p.grad = zeros_like(p)

    def step(self) -> None:
        """Change each parameter that has a gradient, in place."""
        self.steps += 1
        name, source = f"{type(self).__name__}.step", caller()
        with no_grad():
            for group in self.param_groups:
                ready = [p for p in group["params"] if p.grad is not None]
                record_changes(ready, name, source)
                self.update_all(ready, group)

    def update_all(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Change the parameters of a group by their gradients."""
        for p in params:
            assert p.grad is not None
            self.update(p.data, p.grad.data, self.state.setdefault(p, {}), group)

    def update(
        self, p: np.ndarray, g: np.ndarray, state: dict[str, np.ndarray], group: dict[str, Any]
    ) -> None:
        """Change `p` by its gradient `g`."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, np.ndarray]:
        """The state as arrays: `0.exp_avg` for the first parameter's `exp_avg`, `param_groups.0.lr` for the
        first group's option, and the number of `steps`."""
        options = {
            f"param_groups.{i}.{name}": np.array(value)
            for i, group in enumerate(self.param_groups)
            for name, value in group.items()
            if name != "params"
        }
        arrays = {
            f"{i}.{name}": array
            for i, p in enumerate(self._parameters())
            for name, array in self.state.get(p, {}).items()
        }
        return {"steps": np.array(self.steps), **options, **arrays}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave for the same parameters in the same order."""
        parameters = self._parameters()
        loaded: dict[Tensor, dict[str, np.ndarray]] = {}
        options: list[tuple[int, str, Any]] = []
        for key, value in state_dict.items():
            i, _, name = key.partition(".")
            if i == "param_groups":
                i, _, name = name.partition(".")
                options.append((int(i), name, np.asarray(value).tolist()))
                continue
            if not name:
                continue
            p = parameters[int(i)] if int(i) < len(parameters) else None
            if p is None or np.shape(value) not in (p.shape, ()):
                raise StateError(
                    f"optimizer state {key} of shape {np.shape(value)} does not fit these parameters.\n"
                    f"Load the state of the same model."
                )
            array = np.array(value.get() if hasattr(value, "get") else value, order="C")
            loaded.setdefault(p, {})[name] = on_device(array, p.device) if array.ndim else array
        if "steps" not in state_dict:
            raise StateError("this is no optimizer state: it has no `steps`.\nLoad what state_dict() gave.")
        if any(place >= len(self.param_groups) for place, _, _ in options):
            raise StateError(
                f"optimizer state of {max(place for place, _, _ in options) + 1} parameter groups for one of "
                f"{len(self.param_groups)}.\nLoad the state of the same optimizer."
            )
        for place, name, value in options:
            self.param_groups[place][name] = tuple(value) if isinstance(value, list) else value
        self.state, self.steps = loaded, int(np.asarray(state_dict["steps"]))


def _check_ranges(options: Mapping[str, Any]) -> None:
    """Refuse rates that no optimizer can work with."""
    for name in ("lr", "momentum", "weight_decay", "eps"):
        value = options.get(name, 0)
        if not isinstance(value, int | float | np.number) or not value >= 0:
            raise OptionError(f"{name} is a number from 0 on, got {value!r}.\nPass one.")
    if not all(0 <= beta < 1 for beta in options.get("betas", ())):
        raise OptionError(f"betas are from 0 to below 1, got {options['betas']}.\nPass two such numbers.")


class SGD(Optimizer):
    """p -= lr * v with v = momentum * v + (1 - dampening) * (g + weight_decay * p), in the first step v = g.

    With `nesterov` p -= lr * (g + momentum * v) (Sutskever et al. 2013).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise OptionError("nesterov needs a momentum and no dampening.\nPass momentum=0.9, dampening=0.")
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )

    def update(
        self, p: np.ndarray, g: np.ndarray, state: dict[str, np.ndarray], group: dict[str, Any]
    ) -> None:
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        if group["momentum"]:
            if "momentum_buffer" in state:
                v = state["momentum_buffer"]
                v *= group["momentum"]
                v += (1 - group["dampening"]) * g
            else:
                v = state["momentum_buffer"] = array_module(p).array(g)
            g = g + group["momentum"] * v if group["nesterov"] else v
        p -= group["lr"] * g


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g**2, p -= lr m' / (sqrt(v') + eps).

    m' and v' are m and v without their bias to 0 (Kingma and Ba 2015, algorithm 1).
    `weight_decay` here is added to the gradient; AdamW's is not.
    """

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        self.together: dict[int, _Together | None] = {}  # by the group that they are of

    def update_all(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Small parameters together, as one long one, where they are all at the same step."""
        small = [p for p in params if p.data.size <= SMALL and p.data.dtype == np.float32]
        together = self.together.get(id(group))
        if together is not None and not together.holds(small, self.state):
            together.part()
            together = self.together[id(group)] = None
        if len(small) > 1:
            if (
                together is None
                and len({int(self.state[p]["step"]) if p in self.state else 0 for p in small}) == 1
            ):
                together = self.together[id(group)] = _Together(small, self.state)
            if together is not None:
                self.update(together.p, together.g, together.gather(), group)
                together.scatter()
                params = [p for p in params if p.data.size > SMALL or p.data.dtype != np.float32]
        super().update_all(params, group)

    def update(
        self, p: np.ndarray, g: np.ndarray, state: dict[str, np.ndarray], group: dict[str, Any]
    ) -> None:
        if not state:
            zeros = array_module(p).zeros
            state.update(
                exp_avg=zeros(p.shape, p.dtype), exp_avg_sq=zeros(p.shape, p.dtype), step=np.array(0)
            )
        state["step"] += 1
        lr, (b1, b2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
        step = int(state["step"])
        rate = lr / (1 - b1**step)
        root = 1 / (1 - b2**step) ** 0.5
        shrink, decay = (1 - lr * decay, 0.0) if self.decoupled else (1.0, decay)
        flat = [a.reshape(-1) for a in (p, g, state["exp_avg"], state["exp_avg_sq"])]
        kernels(p).adam(*flat, rate, b1, b2, root, eps, shrink, decay)
        if not p.flags.c_contiguous:  # then reshape(-1) made a copy
            p[...] = flat[0].reshape(p.shape)


class _Together:
    """Small parameters as one array, with one state, of which each one's own is a view."""

    def __init__(self, params: list[Tensor], states: dict[Tensor, dict[str, np.ndarray]]) -> None:
        xp = self.library = array_module(params[0].data)
        self.params, size = params, sum(p.data.size for p in params)
        self.p, self.g, self.m, self.v = (xp.zeros(size, np.float32) for _ in range(4))
        self.arrays = [p.data for p in params]
        self.states = [states.setdefault(p, {}) for p in params]
        self.step = np.array(self.states[0].get("step", 0))
        self.parts, end = [], 0  # of `p`, each in its parameter's shape
        for p, own in zip(params, self.states, strict=True):
            part = slice(end, end := end + p.data.size)
            self.parts.append(self.p[part].reshape(p.shape))
            for name, flat in (("exp_avg", self.m), ("exp_avg_sq", self.v)):
                view = flat[part].reshape(p.shape)
                view[...] = own.get(name, 0)
                own[name] = view
            own["step"] = self.step

    def holds(self, params: list[Tensor], states: dict[Tensor, dict[str, np.ndarray]]) -> bool:
        """Whether these are its parameters, with the arrays that it knows, and their states still its own."""
        return (
            len(params) == len(self.params)
            and all(map(is_, params, self.params))
            and all(map(is_, [p.data for p in params], self.arrays))
            and all(map(is_, map(states.get, params), self.states))
            and all(own["step"] is self.step for own in self.states)
        )

    def part(self) -> None:
        """Give each parameter a count of steps of its own again."""
        for own in self.states:
            if own.get("step") is self.step:
                own["step"] = self.step.copy()

    def gather(self) -> dict[str, np.ndarray]:
        """Parameters and gradients of this step; gives the state of all."""
        self.library.concatenate(self.arrays, axis=None, out=self.p)
        self.library.concatenate([p.grad.data for p in self.params], axis=None, out=self.g)  # type: ignore[union-attr]
        return {"exp_avg": self.m, "exp_avg_sq": self.v, "step": self.step}

    def scatter(self) -> None:
        for array, updated in zip(self.arrays, self.parts, strict=True):
            array[...] = updated


class AdamW(Adam):
    """Adam with decoupled weight decay: p *= 1 - lr * weight_decay (Loshchilov and Hutter 2019)."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
