"""PyTorch's scheduler classes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..core.argument_checks import is_integer
from ..core.error_context import describe
from ..core.errors import DtypeError, OptionError, SetByInit, ShapeError, StateError, counted
from ..core.tensor import Tensor
from ..ops.checked import check_constructor
from ..optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR",
    "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR", "_LRScheduler",
]  # fmt: skip


class LRScheduler:
    """Base class: sets each group's learning rate from the number of step() calls, `last_epoch`.

    A subclass defines `lr(initial, group)`, the rate of group number `group` from its initial rate, or
    `get_lr()`, the rates of all groups. If something else changes a rate (another schedule, the user), the
    next step multiplies it by the factor by which the schedule itself changes, as in PyTorch.
    """

    chains = True  # whether the schedule continues from rates that something else has changed
    function_names: tuple[str, ...] = ()  # attributes that hold functions or callable objects
    eta_min = 0.0  # the part of the rate that the factors do not scale
    optimizer: Optimizer = SetByInit(  # type: ignore[assignment]
        "Call it last in __init__, with the optimizer: it sets the first rates."
    )

    def __init_subclass__(cls) -> None:
        check_constructor(cls)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(self, optimizer)
        self.last_epoch = last_epoch
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise OptionError(
                    f"resuming from last_epoch={last_epoch} needs 'initial_lr' in param_groups[{i}].\n"
                    f"Load the optimizer's state before creating the scheduler."
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self._is_initial = True
        self.check_options()
        self.step()
        self._is_initial = False

    def lr(self, initial: float, group: int) -> float:
        """Return the rate of group number `group` at `last_epoch`, from its initial rate."""
        raise NotImplementedError(f"{type(self).__name__} has no schedule.\nDefine get_lr().")

    def _schedule(self) -> list[float]:
        """Return the rates of all groups at `last_epoch` if nothing else changes them."""
        return [self.lr(initial, i) for i, initial in enumerate(self.base_lrs)]

    def get_lr(self) -> list[float]:
        """Return the next rates of all groups; rates changed elsewhere are multiplied by the factor."""
        now = [group["lr"] for group in self.optimizer.param_groups]
        new = self._schedule()
        if not self.chains:
            return new
        if self._is_initial and self.last_epoch > 0:  # a resumed optimizer has the rates of this step
            return now
        old = self.base_lrs
        if self.last_epoch > 0:
            self.last_epoch -= 1
            old = self._schedule()
            self.last_epoch += 1
        least = self.eta_min
        changed = lambda lr, a, b: (
            lr + b - a if a == least else least + (lr - least) * (b - least) / (a - least)
        )
        return [b if lr == a else changed(lr, a, b) for lr, a, b in zip(now, old, new, strict=True)]

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates, or those at `epoch`."""
        follow_groups(self)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        rates = self.get_lr
        if epoch is not None:
            has_schedule = type(self).get_lr is LRScheduler.get_lr
            rates = getattr(self, "_get_closed_form_lr", self._schedule if has_schedule else self.get_lr)
        self._set(rates())

    def _set(self, rates: list[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = list(rates)

    def get_last_lr(self) -> list[float]:
        """Return the rates that the last step set."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer.

        Of a callable object it has the attributes, of a function nothing.
        """
        own = self.__dict__
        state = {name: value for name, value in own.items() if name != "optimizer"}
        return state | {name: _state_of(own[name]) for name in self.function_names}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume from the result of `state_dict`; rates that nothing else has changed become the saved ones.

        PyTorch's states are accepted too. A state that is incomplete, or of another schedule, raises an error
        and changes nothing.
        """
        self._load(self.checked_state(state_dict))

    def _without_functions(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in state.items() if name not in self.function_names}

    def _load(self, state: dict[str, Any]) -> None:
        """Load a checked state."""
        before = self._last_lr
        self.__dict__.update(self._without_functions(state))
        for name in self.function_names:
            _load_into(self.__dict__[name], state.get(name))
        for group, old, new in zip(self.optimizer.param_groups, before, self._last_lr, strict=True):
            if group["lr"] == old:
                group["lr"] = new

    def check_options(self) -> None:
        """Check the ranges of the constructor's arguments."""

    def from_pytorch(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state with PyTorch's names converted to ours."""
        return state

    def checked_state(self, state_dict: Any) -> dict[str, Any]:
        """Check a state, and return the part of it to load."""
        if not isinstance(state_dict, Mapping):
            raise _not_a_state(self, f"it is {type(state_dict).__name__}, not a dictionary")
        state = self.from_pytorch({k: x for k, x in state_dict.items() if k != "optimizer"})
        own = LRScheduler.state_dict(self)
        newer = {name for name in own if str(name).startswith("_")} - {"_last_lr"}
        check_state(self, own, state, optional=newer.union(self.function_names))
        for name in self.function_names:
            if not _is_state_of(self.__dict__[name], state.get(name)):
                raise _not_a_state(self, f"its {name} is not a state of this one's functions")
        return state


_LRScheduler = LRScheduler  # its older name


def check_optimizer(scheduler: Any, optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise DtypeError(
            f"{type(scheduler).__name__} needs an optimizer, got {type(optimizer).__name__}.\n"
            f"Pass, for example, optim.SGD(...)."
        )
    return optimizer


PER_GROUP = ("base_lrs", "max_lrs", "min_lrs", "base_momentums", "max_momentums", "_last_lr")
ONLY_IN_PYTORCH = {"verbose", "use_beta1", "T_cur", "T_i"}


def follow_groups(scheduler: Any) -> None:
    """Add new groups to the lists with a value for each group: their own rate, or the value of all others."""
    own = vars(scheduler)
    groups = scheduler.optimizer.param_groups
    for name in (*PER_GROUP, "lr_lambdas"):
        values = own.get(name)
        for group in groups[len(values) :] if values and isinstance(values, list) else ():
            if name in ("base_lrs", "_last_lr"):
                lr = group["lr"]
                values.append(lr if name == "_last_lr" else group.setdefault("initial_lr", lr))
            elif all(value == values[0] for value in values):
                values.append(values[0])
            else:
                one_for_each(name.removesuffix("s"), values, len(groups))  # raises
    if isinstance(scheduler, _CombinedScheduler):
        for part in scheduler.schedulers:
            follow_groups(part)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | np.number) and type(x) is not bool and not math.isnan(x)


def check_state(
    scheduler: Any, own: Mapping[str, Any], state: Mapping[str, Any], optional: Iterable[str] = ()
) -> None:
    """Raise a StateError unless a state has the names of `own`, and as many rates."""
    if missing := [name for name in own if name not in state and name not in optional]:
        raise _not_a_state(scheduler, f"it has no {' and no '.join(missing)}")
    if type(scheduler).__module__.startswith("minigrad."):
        known = own.keys() | ONLY_IN_PYTORCH
        unknown = [name for name in state if name not in known and not str(name).startswith("_")]
        if unknown:
            raise _not_a_state(
                scheduler, f"it has {unknown[0]!r}, which {type(scheduler).__name__} does not have"
            )
    for name in (*PER_GROUP, "lrs"):
        length = lambda values: len(values) if isinstance(values, list | tuple) else None
        if name in own and length(own[name]) != length(state.get(name)):
            raise _not_a_state(scheduler, f"its {name} is {describe(state.get(name))}")


def _state_of(function: Any) -> Any:
    """Return the attributes of a callable object, None for a function; for a list, those of each."""
    if isinstance(function, list):
        return [_state_of(f) for f in function]
    return None if function is None or isinstance(function, FunctionType) else {**_attributes(function)}


def _attributes(function: Any) -> dict[str, Any]:
    return getattr(function, "__dict__", {})


def _is_state_of(function: Any, state: Any) -> bool:
    """Return whether `_load_into` can load a state; None, which older versions saved, changes nothing."""
    if isinstance(function, list) and isinstance(state, list | tuple):
        return len(function) == len(state) and all(map(_is_state_of, function, state))
    return state is None or (isinstance(state, Mapping) and _state_of(function) is not None)


def _load_into(function: Any, state: Any) -> None:
    """Load the result of `_state_of`."""
    if isinstance(function, list):
        for f, own in zip(function, state or (), strict=False):
            _load_into(f, own)
    elif state:
        _attributes(function).update(state)


def _not_a_state(scheduler: Any, problem: str) -> StateError:
    return StateError(
        f"this is not a state of {type(scheduler).__name__}: {problem}.\n"
        f"Load the state_dict() of the same schedule."
    )


def one_for_each(name: str, value: Any, count: int) -> list[Any]:
    """Return a list with a value for each group, from one value or from a list."""
    values = list(value) if isinstance(value, list | tuple) else [value] * count
    for v in values:
        if isinstance(v, Tensor | np.ndarray) and v.ndim:
            raise ShapeError(
                f"{name} must be a number, got shape {v.shape}.\nPass a number, or a list of them."
            )
    if len(values) != count:
        raise OptionError(
            f"{name} has {counted(len(values), 'value')} for {counted(count, 'group')}.\n"
            f"Pass one value, or one for each group."
        )
    return values


class _WithFunctions(LRScheduler):
    """Base class of schedules that are given as a function, or as a function for each group."""

    function_names = ("lr_lambdas",)

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = check_optimizer(self, optimizer).param_groups
        self.lr_lambdas = one_for_each("lr_lambda", lr_lambda, len(groups))
        super().__init__(optimizer, last_epoch)


class LambdaLR(_WithFunctions):
    """Sets the learning rate to the initial one times `lr_lambda(last_epoch)`.

    >>> optimizer = optim.SGD([nn.Parameter(mg.ones(1))], lr=1.0)
    >>> scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    chains = False

    def lr(self, initial: float, group: int) -> float:
        return initial * self.lr_lambdas[group](self.last_epoch)


class MultiplicativeLR(_WithFunctions):
    """Multiplies the learning rate by `lr_lambda(last_epoch)` at each step."""

    def get_lr(self) -> list[float]:
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self._is_initial:
            return rates
        return [lr * f(self.last_epoch) for lr, f in zip(rates, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Multiplies the learning rate by `gamma` every `step_size` steps."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def check_options(self) -> None:
        super().check_options()
        if self.step_size < 1:
            raise OptionError(f"step_size must be a positive integer, got {self.step_size}.\nPass one.")

    def lr(self, initial: float, group: int) -> float:
        return initial * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiplies the learning rate by `gamma` at each step in `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def check_options(self) -> None:
        super().check_options()
        check_milestones(self.milestones)

    def from_pytorch(self, state: dict[str, Any]) -> dict[str, Any]:
        """Convert PyTorch's milestones, which are a Counter, to a list."""
        milestones = state.get("milestones")
        return (
            {**state, "milestones": sorted(milestones.elements())}
            if isinstance(milestones, Counter)
            else state
        )

    def lr(self, initial: float, group: int) -> float:
        return initial * self.gamma ** bisect_right(self.milestones, self.last_epoch)


class ExponentialLR(LRScheduler):
    """Multiplies the learning rate by `gamma` at each step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * self.gamma**self.last_epoch


class ConstantLR(LRScheduler):
    """Multiplies the initial learning rate by `factor` for the first `total_iters` steps."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def check_options(self) -> None:
        super().check_options()
        check_fraction("factor", self.factor)

    def lr(self, initial: float, group: int) -> float:
        return initial * (self.factor if self.last_epoch < self.total_iters else 1)


class LinearLR(LRScheduler):
    """Multiplies the initial learning rate by a factor that goes linearly from start to end_factor."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def check_options(self) -> None:
        super().check_options()
        check_fraction("start_factor", self.start_factor, above_zero=True)
        check_fraction("end_factor", self.end_factor)

    def lr(self, initial: float, group: int) -> float:
        done = min(self.last_epoch, self.total_iters) / self.total_iters if self.total_iters else 0.0
        return initial * (self.start_factor + (self.end_factor - self.start_factor) * done)


def check_milestones(milestones: Any) -> None:
    if not isinstance(milestones, list | tuple) or not all(map(_is_number, milestones)):
        raise OptionError(f"milestones must be numbers, got {describe(milestones)}.\nPass a list of them.")


def check_fraction(name: str, value: float, above_zero: bool = False) -> None:
    if not 0 <= value <= 1 or (above_zero and not value):
        least = "above 0" if above_zero else "0"
        raise OptionError(f"{name} must be from {least} to 1, got {value}.\nPass one in that range.")


class PolynomialLR(LRScheduler):
    """Multiplies the initial learning rate by (1 - t / total_iters)**power, 0 from step `total_iters` on."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        done = min(self.last_epoch, self.total_iters) / self.total_iters if self.total_iters else 0.0
        return initial * (1 - done) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial learning rate down to `eta_min` at step `T_max`, then up again.

    >>> optimizer = optim.SGD([nn.Parameter(mg.ones(1))], lr=1.0)
    >>> scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> round(scheduler.get_last_lr()[0], 6)
    0.5
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def check_options(self) -> None:
        super().check_options()
        if self.T_max < 1:
            raise OptionError(f"T_max must be at least 1, got {self.T_max}.\nPass 1 or more.")

    def lr(self, initial: float, group: int) -> float:
        done = math.pi * self.last_epoch / self.T_max
        return self.eta_min + (initial - self.eta_min) * (1 + math.cos(done)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min` in `T_0` steps, then restarts, each `T_mult` times as long.

    Loshchilov and Hutter 2017, equation 5. `step(epoch + i / batches)` anneals within an epoch.
    """

    chains = False

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.epoch = float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def from_pytorch(self, state: dict[str, Any]) -> dict[str, Any]:
        """Compute `epoch`, with its fraction, from PyTorch's `T_cur`, the epochs within a cycle."""
        if "epoch" in state or not _is_number(state.get("T_cur")) or not _is_number(state.get("last_epoch")):
            return state
        return {**state, "epoch": state["last_epoch"] + state["T_cur"] % 1}

    def step(self, epoch: float | None = None) -> None:
        follow_groups(self)
        self.epoch = self.epoch + 1 if epoch is None else epoch
        super().step(None if epoch is None else math.floor(epoch))

    def check_options(self) -> None:
        super().check_options()
        if self.T_0 < 1 or self.T_mult < 1:
            raise OptionError(
                f"T_0 and T_mult must be at least 1, got {self.T_0} and {self.T_mult}.\nPass 1 or more."
            )

    def lr(self, initial: float, group: int) -> float:
        since, length = self.epoch, self.T_0
        while since >= length:
            since = since - length
            length = length * self.T_mult
        return self.eta_min + (initial - self.eta_min) * (1 + math.cos(math.pi * since / length)) / 2


class _WithMomentum(LRScheduler):
    """Base class of schedules that also set the momentum (or the first of betas), ignoring other changes."""

    chains = False
    cycle_momentum: bool

    def momentum(self, group: int) -> float:
        """Return the momentum of group number `group` at `last_epoch`."""
        raise NotImplementedError

    def _check_momentum(self, optimizer: Optimizer) -> None:
        check_optimizer(self, optimizer)
        if self.cycle_momentum and not optimizer.defaults.keys() & {"momentum", "betas"}:
            raise OptionError(
                f"{type(optimizer).__name__} has no momentum to cycle.\nPass cycle_momentum=False."
            )

    def _set(self, rates: list[float]) -> None:
        super()._set(rates)
        for i, group in enumerate(self.optimizer.param_groups if self.cycle_momentum else ()):
            if "betas" in group:
                group["betas"] = (self.momentum(i), *group["betas"][1:])
            else:
                group["momentum"] = self.momentum(i)


class OneCycleLR(_WithMomentum):
    """From max_lr / div_factor up to `max_lr`, then down to the initial rate / final_div_factor (Smith 2018).

    The increase takes a fraction `pct_start` of all steps. If `three_phase` is True, the decrease takes as
    long, and a third phase goes from the initial rate to the final one. If `cycle_momentum` is True, the
    momentum (or the first of betas) moves the opposite way, between `max_momentum` and `base_momentum`. The
    schedule ends after `total_steps` steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise OptionError(
                "OneCycleLR needs the number of steps.\nPass total_steps, or epochs and steps_per_epoch."
            )
        check_fraction("pct_start", pct_start)
        self.total_steps = (epochs or 0) * (steps_per_epoch or 0) if total_steps is None else total_steps
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self._check_momentum(optimizer)
        groups = optimizer.param_groups
        self.max_lrs = one_for_each("max_lr", max_lr, len(groups))
        self.base_momentums = one_for_each("base_momentum", base_momentum, len(groups))
        self.max_momentums = one_for_each("max_momentum", max_momentum, len(groups))
        if last_epoch == -1:
            for group, top in zip(groups, self.max_lrs, strict=True):
                group["initial_lr"] = top / div_factor
        # as fractions of max_lr
        first = 1 / div_factor
        last = 1 / (div_factor * final_div_factor)
        up = float(pct_start * self.total_steps) - 1
        end = self.total_steps - 1
        # each phase: last step, fraction of max_lr at start and end, position of the momentum at start and
        # end (0 is base_momentum, 1 max_momentum)
        self.phases = [(up, first, 1.0, 1.0, 0.0), (end, 1.0, last, 0.0, 1.0)]
        if three_phase:
            self.phases[1:] = [(2 * up, 1.0, first, 0.0, 1.0), (end, first, last, 1.0, 1.0)]
        super().__init__(optimizer, last_epoch)

    def check_options(self) -> None:
        super().check_options()
        if self.anneal_strategy not in ("cos", "linear"):
            raise OptionError(
                f'anneal_strategy must be "cos" or "linear", got {self.anneal_strategy!r}.\nChoose one.'
            )
        if not is_integer(self.total_steps) or self.total_steps < 1:
            raise OptionError(f"total_steps must be a positive integer, got {self.total_steps}.\nPass one.")
        if not self.phases or not all(
            len(phase) == 5 and all(map(_is_number, phase)) for phase in self.phases
        ):
            raise OptionError(
                f"phases must be tuples of five numbers, got {describe(self.phases)}.\nDo not change them."
            )

    def from_pytorch(self, state: dict[str, Any]) -> dict[str, Any]:
        """Keep this schedule's phases, which PyTorch's state has in another form."""
        if "_schedule_phases" not in state or state.get("total_steps") != self.total_steps:
            return state
        names = ("anneal_strategy", "max_lrs", "base_momentums", "max_momentums", "phases")
        return {**{name: vars(self)[name] for name in names}, **state}

    def _position(self) -> tuple[float, float]:
        """Return the fraction of max_lr, and the position of the momentum from base (0) to max (1)."""
        if self.last_epoch > self.total_steps:
            raise OptionError(
                f"step {self.last_epoch} is after the last one, {self.total_steps}.\n"
                f"Pass a larger total_steps."
            )
        start = 0.0
        for phase in self.phases:
            if self.last_epoch <= phase[0] or phase is self.phases[-1]:
                break
            start = phase[0]
        end, a, b, m, n = phase
        done = (self.last_epoch - start) / (end - start)
        if self.anneal_strategy == "cos":
            done = (1 - math.cos(math.pi * done)) / 2
        return a + (b - a) * done, m + (n - m) * done

    def lr(self, initial: float, group: int) -> float:
        return self.max_lrs[group] * self._position()[0]

    def momentum(self, group: int) -> float:
        least = self.base_momentums[group]
        largest = self.max_momentums[group]
        return least + (largest - least) * self._position()[1]


class CyclicLR(_WithMomentum):
    """Cycles from `base_lr` up to `max_lr` in `step_size_up` steps and down again (Smith 2017).

    `mode` "triangular2" halves the amplitude with each cycle, "exp_range" multiplies it by gamma**step.
    `scale_fn` replaces `mode`; it is called with the number of the cycle or, if `scale_mode` is "iterations",
    of the step.
    """

    function_names = ("scale_fn",)

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.cycle_momentum = cycle_momentum
        self.mode = mode
        self.gamma = gamma
        self._check_momentum(optimizer)
        groups = optimizer.param_groups
        lows = one_for_each("base_lr", base_lr, len(groups))
        self.max_lrs = one_for_each("max_lr", max_lr, len(groups))
        self.base_momentums = one_for_each("base_momentum", base_momentum, len(groups))
        self.max_momentums = one_for_each("max_momentum", max_momentum, len(groups))
        if last_epoch == -1:
            for group, low in zip(groups, lows, strict=True):
                group["initial_lr"] = group["lr"] = low
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        self.scale_fn = scale_fn
        self.scale_mode = scale_mode
        super().__init__(optimizer, last_epoch)

    def check_options(self) -> None:
        super().check_options()
        if self.scale_fn is None and self.mode not in ("triangular", "triangular2", "exp_range"):
            raise OptionError(
                f'mode must be "triangular", "triangular2" or "exp_range", got {self.mode!r}.\nChoose one.'
            )
        numbers = _is_number(self.total_size) and _is_number(self.step_ratio)
        if not numbers or self.total_size <= 0 or not 0 < self.step_ratio < 1:
            raise OptionError(
                f"a cycle needs positive numbers of steps up and down, got {self.total_size} steps, a "
                f"fraction {self.step_ratio} of them up.\nPass positive numbers."
            )

    def from_pytorch(self, state: dict[str, Any]) -> dict[str, Any]:
        """Rename PyTorch's state of `scale_fn`."""
        return {"scale_fn": state["_scale_fn_custom"], **state} if "_scale_fn_custom" in state else state

    def _height(self) -> float:
        """Return the position of the rate from base_lr (0) to max_lr (1), scaled by mode."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        if self.scale_fn is not None:
            return height * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "exp_range":
            return height * self.gamma**self.last_epoch
        return height / 2.0 ** (cycle - 1) if self.mode == "triangular2" else height

    def lr(self, initial: float, group: int) -> float:
        return initial + (self.max_lrs[group] - initial) * self._height()

    def momentum(self, group: int) -> float:
        least = self.base_momentums[group]
        largest = self.max_momentums[group]
        return largest - (largest - least) * self._height()


class _CombinedScheduler(LRScheduler):
    """Base class of schedules that combine schedules of one optimizer."""

    def _set_schedulers(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
        if any(not isinstance(s, LRScheduler) or s.optimizer is not optimizer for s in schedulers):
            raise OptionError(
                f"{type(self).__name__} needs schedules of one optimizer, and none that reads a metric.\n"
                f"Pass such schedules, and their optimizer."
            )
        self.schedulers = list(schedulers)
        self.optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "schedulers": [s.state_dict() for s in self.schedulers]}

    def checked_state(self, state_dict: Any) -> dict[str, Any]:
        state = super().checked_state(state_dict)
        saved = state["schedulers"]
        if len(saved) != len(self.schedulers):
            raise _not_a_state(
                self, f"it has {counted(len(saved), 'schedule')}, expected {len(self.schedulers)}"
            )
        for scheduler, x in zip(self.schedulers, saved, strict=True):
            if type(scheduler).load_state_dict is LRScheduler.load_state_dict:
                scheduler.checked_state(x)
        return state

    def _load(self, state: dict[str, Any]) -> None:
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for scheduler, saved in zip(self.schedulers, state["schedulers"], strict=True):
            scheduler.load_state_dict(saved)
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        super()._load({name: value for name, value in state.items() if name != "schedulers"})


class SequentialLR(_CombinedScheduler):
    """Runs schedules one after another; at each of `milestones` the next one starts, from its step 0.

    If `last_epoch` is given, all steps up to it are repeated, so the rates are those of a run without
    interruption.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self._set_schedulers(schedulers, optimizer)
        self.milestones = list(milestones)
        self.last_epoch = -1
        self.check_options()
        for group in optimizer.param_groups:  # undo the first steps of all schedules
            group["lr"] = group["initial_lr"]
        for _ in range(last_epoch + 2):
            self.step()

    def check_options(self) -> None:
        super().check_options()
        check_milestones(self.milestones)
        if len(self.milestones) != len(self.schedulers) - 1:
            raise OptionError(
                f"SequentialLR got {counted(len(self.schedulers), 'schedule')} and "
                f"{counted(len(self.milestones), 'milestone')}.\n"
                f"Pass one milestone fewer than schedules."
            )

    def step(self) -> None:  # type: ignore[override]
        follow_groups(self)
        self.last_epoch += 1
        now = bisect_right(self.milestones, self.last_epoch)
        schedule = self.schedulers[now]
        schedule._is_initial = self.last_epoch == 0
        starts = self.last_epoch == (self.milestones[now - 1] if now else 0)
        schedule.step(0 if starts else None)
        schedule._is_initial = False
        self._last_lr = schedule.get_last_lr()


class ChainedScheduler(_CombinedScheduler):
    """Applies several schedules in each step, each to the rates that the one before has set."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise OptionError("ChainedScheduler needs at least one schedule.\nPass a list of them.")
        self._set_schedulers(schedulers, schedulers[0].optimizer if optimizer is None else optimizer)
        self.last_epoch = schedulers[0].last_epoch
        self._last_lr = schedulers[-1].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        follow_groups(self)
        self.last_epoch += 1
        for scheduler in self.schedulers:
            scheduler.step()
        self._last_lr = self.schedulers[-1].get_last_lr()


class ReduceLROnPlateau:
    """Multiplies the learning rate by `factor` once a metric has not improved for more than `patience` steps.

    `mode` is "min" if a lower metric is better, else "max". An improvement counts if it is larger than
    `threshold`, as a fraction of the best or, with `threshold_mode` "abs", as a difference. After a
    reduction, `cooldown` steps are not counted. No rate falls below `min_lr`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        self.optimizer = check_optimizer(self, optimizer)
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.eps = eps
        self.min_lrs = one_for_each("min_lr", min_lr, len(optimizer.param_groups))
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self.check_options()

    def check_options(self) -> None:
        """Check the ranges of the constructor's arguments."""
        mode, threshold_mode = self.mode, self.threshold_mode
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise OptionError(
                f'mode must be "min" or "max" and threshold_mode "rel" or "abs", got {mode!r} and '
                f"{threshold_mode!r}.\nChoose among them."
            )
        if not 0 <= self.factor < 1:
            raise OptionError(
                f"factor must be from 0 to below 1, got {self.factor}.\nPass one in that range."
            )

    def is_better(self, metric: float) -> bool:
        """Return whether a metric improves on the best so far by more than the threshold."""
        sign = -1 if self.mode == "min" else 1
        if math.isinf(self.best):
            return sign * metric > sign * self.best
        margin = self.threshold * (self.best if self.threshold_mode == "rel" else 1)
        return sign * metric > sign * self.best + margin

    def step(self, metrics: Any) -> None:
        """Compare a metric with the best so far, and reduce the learning rates if it is time."""
        follow_groups(self)
        self.last_epoch += 1
        if self.is_better(float(metrics)):
            self.best = float(metrics)
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter:
            self.cooldown_counter = self.cooldown_counter - 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                lr = max(group["lr"] * self.factor, least)
                if group["lr"] - lr > self.eps:
                    group["lr"] = lr

    def get_last_lr(self) -> list[float]:
        """Return the learning rates of all groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the best metric, the counts, and the learning rates."""
        names = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")
        return {name: getattr(self, name) for name in names} | {"lrs": self.get_last_lr()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from the result of `state_dict`; a state of another class raises an error."""
        if not isinstance(state_dict, Mapping):
            raise _not_a_state(self, f"it is {type(state_dict).__name__}, not a dictionary")
        check_state(self, self.state_dict(), state_dict)
        state = {name: value for name, value in state_dict.items() if name in self.state_dict()}
        rates = state.pop("lrs")
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        self.__dict__.update(state)


check_constructor(ReduceLROnPlateau)
