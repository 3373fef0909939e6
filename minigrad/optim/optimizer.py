"""Optimizers: SGD, Adam and AdamW, with PyTorch's parameter groups, defaults and arithmetic.

The others are in `muon`, and in `more/adaptive_optimizers.py` and `more/lbfgs.py`.
"""

from __future__ import annotations

import copy
import difflib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache, wraps
from itertools import chain
from operator import attrgetter, is_, methodcaller
from types import CodeType
from typing import Any

import numpy as np

from .. import allocator
from ..core.argument_checks import FLAG, NUMBER, SETTING, Checks, raise_argument_error
from ..core.closures import root
from ..core.devices import CPU, array_module, device_of, is_array, is_writeable, on_device
from ..core.error_context import signature_text
from ..core.errors import DtypeError, OptionError, SetByInit, ShapeError, SignatureError, StateError
from ..core.frames import caller
from ..core.hooks import Handle, check_hook
from ..core.kernels import Routine
from ..core.modes import enable_grad, no_grad
from ..core.tensor import Tensor
from ..core.versions import bump_versions
from ..ops.checked import check_constructor, check_methods

SMALL = 1 << 13  # parameters with at most this many elements are flattened and updated together
IMPLEMENTATION = (
    "foreach",
    "fused",
    "capturable",
    "differentiable",
)  # PyTorch's, without effect here
NEWER_FLAGS = {"maximize", "decoupled_weight_decay"}  # missing from states of older versions of PyTorch


def zero_gradients(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Remove the gradients, or set them to zero in place, detached from any graph."""
    for p in parameters:
        if p.grad is None or set_to_none:
            p.grad = None
        else:
            p.grad = p.grad.detach() if p.grad.requires_grad else p.grad
            p.grad.zero_()


class _Stepping(threading.local):
    def __init__(self) -> None:
        self.ids = set[int]()  # the optimizers whose step or hooks this thread runs


stepping = _Stepping()


def with_step_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate `step` of an optimizer to run its hooks, but not again for `super().step()` within it."""

    @wraps(step)
    def call(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if id(self) in stepping.ids or ("step_pre_hooks" not in own and "step_post_hooks" not in own):
            return step(self, *args, **kwargs)
        stepping.ids.add(id(self))
        args = (self, *args)
        try:
            for hook in tuple(own.get("step_pre_hooks", {}).values()):
                args, kwargs = hook(self, args, kwargs) or (args, kwargs)
            result = step(*args, **kwargs)
            for hook in tuple(own.get("step_post_hooks", {}).values()):
                hook(self, args, kwargs)
        finally:
            stepping.ids.discard(id(self))
        return result

    return call


class Optimizer:
    """Base class of optimizers: groups of parameters with options, and a state for each parameter.

    A subclass defines `update`, or overrides `step` as in PyTorch. PyTorch's options that only choose an
    implementation (`foreach`, `fused`, `capturable`) are accepted and have no effect.
    """

    scheduled: tuple[str, ...] = ("lr",)  # the options that `hyperparameters` reads
    # the names in a parameter's state: arrays of its shape (None if they are not known), and numbers
    arrays: tuple[str, ...] | None = None
    numbers: tuple[str, ...] = ("step",)
    fixed: tuple[str, ...] = ()  # options that define the algorithm; a loaded state must have the same
    param_groups: list[dict[str, Any]] = SetByInit(  # type: ignore[assignment]
        "Call it in __init__ with the parameters and the options: super().__init__(params, {'lr': lr})."
    )

    def __init_subclass__(cls) -> None:
        check_constructor(cls)
        if "step" in vars(cls):
            cls.step = with_step_hooks(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: Mapping[str, Any] | None = None, **options: Any) -> None:
        if hasattr(params, "parameters"):
            raise OptionError(
                f"an optimizer takes parameters, got {type(params).__name__}.\nPass its .parameters()."
            )
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            raise DtypeError(
                f"an optimizer takes a list of parameters or of groups, got {type(params).__name__}.\n"
                f"Pass model.parameters(), or [parameter]."
            )
        groups = [{"params": params}] if isinstance(params, set | frozenset) else list(params)
        if not groups:
            raise OptionError("an optimizer needs parameters, got none.\nPass model.parameters().")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = {**(defaults or {}), **options}
        self.param_groups = []
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.uploaded: dict[Any, Any] = {}  # hyperparameters of this step on a GPU, by dtype and values
        allocator.keep_freed_memory()
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters, {"params": ...}, with options that replace the defaults for them."""
        if not isinstance(group, Mapping):
            raise DtypeError(
                f"a parameter group must be a dictionary, got {type(group).__name__}.\n"
                f"Pass {{'params': [...], 'lr': 0.1}}."
            )
        if "params" not in group:
            raise OptionError(
                f"a parameter group needs 'params', got {sorted(group)}.\nPass {{'params': [...]}}."
            )
        if isinstance(group["params"], set | frozenset):
            raise DtypeError(
                "parameters must have an order, by which their state is saved, got a set.\n"
                "Pass a list: list(dict.fromkeys(parameters)) has each parameter once."
            )
        params = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        named = [isinstance(p, tuple) and len(p) == 2 for p in params]  # named_parameters()
        if any(named) and not all(named):
            raise OptionError(
                "only some of the parameters have names.\n"
                "Pass model.parameters() or model.named_parameters()."
            )
        names = {"param_names": [p[0] for p in params]} if any(named) else {}
        params = [p[1] for p in params] if any(named) else params
        if any(not isinstance(p, Tensor) or not p.is_leaf for p in params):
            raise OptionError("an optimizer can update only leaf tensors.\nPass model.parameters().")
        for p in params:
            if not (p.is_floating_point() and is_writeable(p.array)):
                what = "is read-only" if p.is_floating_point() else f"is {p.dtype}"
                raise OptionError(
                    f"a parameter of shape {p.shape} {what}, and cannot be updated.\n"
                    f"Pass writable floating-point tensors."
                )
        ids = [id(p) for p in (*self._parameters(), *params)]
        if len(set(ids)) != len(ids):
            raise OptionError("a parameter appears more than once.\nPass each once.")
        self.check_options({**self.defaults, **group})
        lr = group.get("lr", self.defaults.get("lr", 0))
        if lr < 0:
            raise OptionError(f"lr must be a non-negative number, got {lr!r}.\nPass 0 or more.")
        own = group.keys() - self.defaults.keys() - {"params"}
        if mistaken := [name for name in own if self._is_misspelt(name.lower())]:
            raise OptionError(
                f"{type(self).__name__} has no option {sorted(mistaken)}.\n"
                f"Its options: {list(self.defaults)}. A key of your own needs another name."
            )
        self.param_groups.append({**self.defaults, **group, "params": params, **names})

    def _is_misspelt(self, name: str) -> bool:
        """Return whether a key of a group is probably a misspelt option, rather than one that a user adds."""
        if name in _options_of_all():  # an option of this optimizer, or of another
            return True
        longer = any(name.startswith(option) for option in self.defaults)  # such as weight_decay_factor
        close = difflib.get_close_matches(name, self.defaults, 1, 0.85)
        return name == "learning_rate" or (bool(close) and not longer)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check the options of a group."""
        kind: Any = type(self)
        _kinds_of(kind).check_settings(options)
        _check_ranges(options)

    def owner_of(self, group: Mapping[str, Any]) -> Optimizer:
        """Return the optimizer that updates a group; optimizers that combine several override it."""
        return self

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the parameters' gradients, or set them to zero in place."""
        zero_gradients(self._parameters(), set_to_none)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call hook(optimizer, args, kwargs) before each step; a returned pair replaces args and kwargs."""
        return Handle(self.__dict__.setdefault("step_pre_hooks", {}), check_hook(hook))

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return Handle(self.__dict__.setdefault("step_post_hooks", {}), check_hook(hook))

    @with_step_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update, in place, each parameter that has a gradient.

        A closure is called first, to compute the gradients; the loss that it returns is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        ready: list[list[Tensor]] = []  # for each group
        for group in self.param_groups:
            ready.append([])
            for p in group["params"]:
                if p._grad is None:
                    continue
                if p._grad.array.shape != p.array.shape:
                    raise ShapeError(
                        f"a parameter of shape {p.shape} has a gradient of shape {p.grad.shape}.\n"
                        f"Assign a gradient of the parameter's shape, or None."
                    )
                ready[-1].append(p)
        self.count_step(list(chain.from_iterable(ready)), caller())
        with no_grad():
            for params, group in zip(ready, self.param_groups, strict=True):
                self.update_all(params, group)
        return loss

    def count_step(self, params: list[Tensor], source: tuple[CodeType, int]) -> None:
        """Bump the versions of parameters that a step called at `source` changes; GPU replays call it too."""
        self.uploaded.clear()
        bump_versions(params, f"{type(self).__name__}.step", source)

    def update_all(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Update the parameters of a group with their gradients."""
        for p in params:
            assert p.grad is not None
            g = -p.grad.array if group.get("maximize") else p.grad.array
            self.update(p.array, g, self.state[p], group)

    def count(self, state: dict[str, np.ndarray]) -> None:
        """Increment the step count in the state of one parameter, or of several flattened ones."""
        state["step"] += 1

    def init_state(self, p: np.ndarray, state: dict[str, np.ndarray], *names: str) -> None:
        """Create state arrays of zeros, or convert existing ones to the parameter's dtype."""
        for name in names:
            before = state.get(name)
            state[name] = (
                array_module(p).zeros(p.shape, p.dtype) if before is None else before.astype(p.dtype)
            )
        state.setdefault("step", np.array(0))

    def update(
        self, p: np.ndarray, g: np.ndarray, state: dict[str, np.ndarray], group: dict[str, Any]
    ) -> None:
        """Update `p` in place with its gradient `g`."""
        raise NotImplementedError

    def hyperparameters(self, state: dict[str, np.ndarray], group: dict[str, Any]) -> tuple[float, ...]:
        """Return the numbers of an update that may differ between steps."""
        return (group["lr"],)

    def hyperparameters_for(self, p: Any, state: dict[str, np.ndarray], group: dict[str, Any]) -> Any:
        """Return the hyperparameters as the kernels of `p` read them: on a GPU as an array, uploaded once."""
        values = self.hyperparameters(state, group)
        if device_of(p) == CPU:
            return values
        key = p.dtype, values
        if key not in self.uploaded:
            self.uploaded[key] = on_device(np.array(values, p.dtype), device_of(p))
        return self.uploaded[key]

    def state_dict(self) -> dict[str, Any]:
        """Return {"state": {0: {"step": ...}}, "param_groups": [{"lr": ..., "params": [0]}]}, as in PyTorch.

        Parameters are numbered across all groups. Tensors share memory with the optimizer. `save_file` saves
        the result, and what `load_file` returns can be loaded.
        """
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [
            {**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups
        ]
        state: dict[Any, Any] = {}
        for key, own in self.state.items():
            if not isinstance(key, Tensor):  # a user's optimizer may keep state for all parameters together
                state[key] = own
            elif own and id(key) in numbers:
                state[numbers[id(key)]] = {name: Tensor(x) if is_array(x) else x for name, x in own.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the result of `state_dict` for the same parameters in the same order.

        A state with other names or shapes raises an error and changes nothing. A parameter that has not had
        a gradient has no state. What a class with a `step` of its own has stored is restored unchanged, with
        tensors as tensors.
        """
        states, groups = saved_parts(state_dict, type(self).__name__)
        counts = [[len(group["params"]) for group in each] for each in (groups, self.param_groups)]
        if counts[0] != counts[1]:
            raise StateError(
                f"the optimizer state has groups of {counts[0]} parameters, this optimizer of {counts[1]}.\n"
                f"Load the state of the same optimizer."
            )
        options = [self._loaded_options(i, saved) for i, saved in enumerate(groups)]
        order = [number for saved in groups for number in saved["params"]]
        if len(set(order)) < len(order):
            raise StateError(
                f"the optimizer state has a parameter twice: {order[:20]}.\nLoad the result of state_dict()."
            )
        by_number = dict(zip(order, self._parameters_with_group(), strict=True))
        loaded: defaultdict[Any, Any] = defaultdict(dict)
        for number, own in states.items():
            if isinstance(number, str) and self._has_own("step"):
                loaded[number] = copy.deepcopy(own)
                continue
            if number not in by_number:
                raise StateError(
                    f"optimizer state {number!r} belongs to none of these parameters.\n"
                    f"Load the state of the same model."
                )
            p, i = by_number[number]
            owner = self.owner_of(self.param_groups[i])
            if owner.arrays is not None:  # older PyTorch's SGD stored None
                own = {name: x for name, x in own.items() if x is not None}
            if own:
                loaded[p] = owner.loaded_state(number, own, p, {**self.param_groups[i], **options[i]})
        for group, new in zip(self.param_groups, options, strict=True):
            group.update(new)
        self.__setstate__({"state": loaded, "param_groups": self.param_groups})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes of a loaded or copied state; a subclass may add options that old states lack."""
        self.__dict__.update(state)

    def _has_own(self, method: str) -> bool:
        """Return whether a class outside minigrad overrides the method."""
        return not getattr(type(self), method).__module__.startswith("minigrad.")

    def _parameters_with_group(self) -> list[tuple[Tensor, int]]:
        """Return each parameter with the number of its group."""
        return [(p, i) for i, group in enumerate(self.param_groups) for p in group["params"]]

    def _loaded_options(self, i: int, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Check the names of the saved options of group number `i`, and return the options."""
        group = self.param_groups[i]
        owner = self.owner_of(group)
        skipped = ("params", "param_names", *IMPLEMENTATION)
        options = {name: value for name, value in saved.items() if name not in skipped}
        # files hold no strings and no None, and states of older versions of PyTorch lack some flags
        needed = {name for name, x in owner.defaults.items() if not isinstance(x, str | None)} - NEWER_FLAGS
        check_names(f"group {i}", type(owner).__name__, options.keys(), needed)
        for name in owner.fixed:
            if options.get(name, group[name]) != group[name]:
                raise StateError(
                    f"group {i} of the optimizer state has {name}={options[name]!r}, this optimizer "
                    f"{group[name]!r}.\nLoad the state of the same optimizer."
                )
        return options

    def names(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the arrays in a parameter's state after an update with these options."""
        return self.arrays or ()

    def loaded_state(
        self, number: int, own: Mapping[str, Any], p: Tensor, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Check the names and shapes of a parameter's saved state, and return copies of it."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.arrays is not None:
            shapes = dict.fromkeys(self.arrays, p.shape) | dict.fromkeys(self.numbers, ())
        writes_arrays = self._has_own("update")
        if not writes_arrays and not self._has_own("step"):  # otherwise the class may use other names
            needed = shapes.keys() - {*(self.arrays or ())} | {*self.names(options)}
            check_names(f"state {number}", type(self).__name__, own.keys(), needed, shapes.keys())
        return {
            name: _load_array(f"{number}.{name}", x, shapes[name], p)
            if name in shapes
            else _own_value(x, p, writes_arrays)
            for name, x in own.items()
        }

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([f"{type(self).__name__} (", *lines, ")"])


def saved_parts(
    state_dict: Mapping[str, Any], kind: str
) -> tuple[dict[Any, dict[str, Any]], list[dict[str, Any]]]:
    """Return the state of each parameter by its number, and the options of each group.

    The dictionary is nested, or flat as in a file: `state.0.exp_avg`, `param_groups.0.lr`. `kind` is the
    optimizer's name, for errors.
    """
    found = state_dict if isinstance(state_dict, Mapping) else {}
    states, groups = found.get("state"), found.get("param_groups")
    if groups is None:
        parts: dict[str, dict[int, dict[str, Any]]] = {"state": {}, "param_groups": {}}
        for key, value in found.items():
            part, number, name = [*str(key).split(".", 2), "", ""][:3]
            if part == "param_groups":
                value = np.asarray(value).tolist()
                value = tuple(value) if isinstance(value, list) and name != "params" else value
            if part in parts and number.isdecimal():
                parts[part].setdefault(int(number), {})[name] = value
        states, groups = parts["state"], [parts["param_groups"][i] for i in sorted(parts["param_groups"])]
    are_groups = isinstance(groups, list) and all(isinstance(group, Mapping) for group in groups)
    if not (groups and are_groups and isinstance(states, Mapping)) or any("params" not in g for g in groups):
        raise StateError(
            f"this is not a state of {kind}: it needs 'state' and 'param_groups', each with its 'params'.\n"
            f"Load the result of state_dict()."
        )
    return dict(states), groups


def check_names(
    part: str, kind: str, names: Set[str], needed: Set[str], known: Set[str] | None = None
) -> None:
    """Raise an error if a part of a state lacks a needed name, or has an unknown one."""
    lacks, unknown = needed - names, names - (names if known is None else known)
    if lacks or unknown:
        what = f"has no {min(lacks)}" if lacks else f"has {min(map(str, unknown))}"
        raise StateError(
            f"{part} of the optimizer state {what}, unlike a state of {kind}.\n"
            f"Load the state_dict() of the same optimizer."
        )


def _load_array(key: str, value: Any, shape: tuple[int, ...], p: Tensor) -> Any:
    """Check the shape of a saved array or number, and return a copy on the parameter's device."""
    array = as_array(value)
    if array.shape != shape:
        raise StateError(
            f"optimizer state {key} has shape {array.shape}, expected {shape}.\n"
            f"Load the state of the same model."
        )
    if key.endswith(".step"):
        return np.array(int(array))
    return on_device(array, p.device) if array.ndim else array


def _own_value(value: Any, p: Tensor, as_arrays: bool) -> Any:
    """Return a copy of what a user's optimizer stored: arrays for its `update`, tensors for its `step`."""
    if not isinstance(value, Tensor) and not is_array(value):
        return copy.deepcopy(value)
    array = as_array(value)
    array = on_device(array, p.device) if array.ndim or not p.ndim else array
    return array if as_arrays else Tensor(array)


def as_array(value: Any) -> np.ndarray:
    """Return a copy of a tensor or array as a NumPy array."""
    value = value.array if isinstance(value, Tensor) else value
    value = value.get() if is_array(value) and hasattr(value, "get") else value
    return np.array(np.asarray(value), order="C")


@cache
def _kinds_of(optimizer: Any) -> Checks:
    """Return the checks of an optimizer's options, made from the constructor of its minigrad class."""
    ours = next(kind for kind in optimizer.__mro__ if kind.__module__.startswith("minigrad."))
    return Checks(ours.__init__, SETTING)


def _options_of_all() -> set[str]:
    """Return the names of the options of all optimizers of the library."""
    kinds = [Optimizer]
    for kind in kinds:
        kinds += [sub for sub in kind.__subclasses__() if sub.__module__.startswith("minigrad.")]
    return set().union(*(_kinds_of(kind).kinds for kind in kinds)) - {"self", "params", "defaults", "options"}


AT_LEAST_0 = (
    "lr", "momentum", "weight_decay", "eps", "alpha", "rho", "lr_decay", "initial_accumulator_value",
    "momentum_decay",
)  # fmt: skip


def _check_ranges(options: Mapping[str, Any]) -> None:
    """Raise an error if a number among the options is out of range."""
    for name in AT_LEAST_0:
        value = options.get(name, 0)
        is_number = isinstance(value, int | float | np.number)
        if isinstance(value, str):
            raise_argument_error(name, value, NUMBER)
        if name == "lr" and is_number and value < 0:
            continue  # a combination of schedules may be negative, as in PyTorch; `add_param_group` raises
        if not is_number or not value >= 0:
            raise OptionError(f"{name} must be a non-negative number, got {value!r}.\nPass 0 or more.")
    betas = options.get("betas", (0.0, 0.0))
    numbers = isinstance(betas, tuple | list) and all(isinstance(b, int | float | np.number) for b in betas)
    if not numbers or len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise OptionError(
            f"betas must be two numbers in [0, 1), got {betas!r}.\nPass, for example, (0.9, 0.999)."
        )


def check_implementation(optimizer: Optimizer, settings: Mapping[str, Any]) -> None:
    """Accept PyTorch's options that do not change results, and raise an error for others."""
    if unknown := settings.keys() - set(IMPLEMENTATION):
        raise SignatureError(
            f"{type(optimizer).__name__}() got an unexpected keyword argument {min(unknown)!r}.\n"
            f"It takes {signature_text(type(optimizer))}."
        )
    if settings.get("differentiable"):
        raise OptionError(
            "differentiable=True is not supported.\nWrite the update with out-of-place operations."
        )


check_methods(Optimizer, ["add_param_group", "load_state_dict"])


class SGD(Optimizer):
    """v = momentum * v + (1 - dampening) * d with d = g + weight_decay * p, at first v = d; p -= lr * v.

    If `nesterov` is True, p -= lr * (d + momentum * v) (Sutskever et al. 2013).

    >>> w = nn.Parameter(mg.tensor([1.0]))
    >>> (w**2).sum().backward()
    >>> optim.SGD([w], lr=0.1).step()
    >>> w.detach()
    tensor([0.8000])
    """

    arrays = ("momentum_buffer",)
    numbers = ()

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **implementation: Any,
    ) -> None:
        check_implementation(self, implementation)
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
        )

    def check_options(self, options: Mapping[str, Any]) -> None:
        super().check_options(options)
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise OptionError("nesterov needs a momentum and no dampening.\nPass momentum=0.9, dampening=0.")

    def names(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return self.arrays if options["momentum"] else ()

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
        p -= self.hyperparameters_for(p, state, group)[0] * g


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g**2, p -= lr m' / (sqrt(v') + eps).

    `betas` are (b1, b2). m' and v' are m and v with bias correction (Kingma and Ba 2015, algorithm 1); if
    `amsgrad` is True, v' is computed from the largest v so far (Reddi et al. 2018). If `maximize` is True, g
    is the negative gradient. `weight_decay` times p is added to g, or applied to p as in AdamW if
    `decoupled_weight_decay` is True.

    >>> w = nn.Parameter(mg.tensor([1.0]))
    >>> optimizer = optim.Adam([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([0.9000])
    """

    scheduled = ("lr", "betas", "eps", "weight_decay")
    arrays = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **implementation: Any,
    ) -> None:
        check_implementation(self, implementation)
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        self.flat: dict[int, FlatParameters | None] = {}  # the small parameters of each group, by its id

    def check_options(self, options: Mapping[str, Any]) -> None:
        super().check_options(options)
        if not isinstance(options["decoupled_weight_decay"], bool):  # AdamW's constructor does not take it
            raise_argument_error("decoupled_weight_decay", options["decoupled_weight_decay"], FLAG)

    def names(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return self.arrays if options["amsgrad"] else self.arrays[:2]

    def update_all(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Update a group; small parameters at the same step are flattened and updated together."""
        if group["amsgrad"] or group["maximize"]:
            super().update_all(params, group)
            return
        small: list[Tensor] = []
        large: list[Tensor] = []
        for p in params:
            (small if p.array.size <= SMALL and p.array.dtype == np.float32 else large).append(p)
        flat = self.flat.get(id(group))
        if len(small) > 1 and (flat is None or not flat.matches(small, self.state)):
            flat = self.flat[id(group)] = self.flatten(small)
        if len(small) > 1 and flat is not None:
            state = flat.gather()
            self.update(flat.p, flat.g, state, group)
            flat.scatter()
            params = large
        super().update_all(params, group)

    def flatten(self, small: list[Tensor]) -> FlatParameters | None:
        """Flatten parameters; return None if their step counts differ or they share memory."""
        steps = {int(self.state[p].get("step", 0)) for p in small}
        memories = {id(root(p.array)) for p in small}
        if len(steps) > 1 or len(memories) < len(small):
            return None
        return FlatParameters(small, self.state)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the flat arrays: the states of a copy are not views of them."""
        return self.__dict__ | {"flat": {}, "uploaded": {}}

    def update(
        self, p: np.ndarray, g: np.ndarray, state: dict[str, np.ndarray], group: dict[str, Any]
    ) -> None:
        if group["amsgrad"]:
            self.update_amsgrad(p, g, state, group)
            return
        if not state or state["exp_avg"].dtype != p.dtype:
            self.init_state(p, state, "exp_avg", "exp_avg_sq")
        self.count(state)
        flat = p.reshape(-1)
        m = state["exp_avg"].reshape(-1)
        v = state["exp_avg_sq"].reshape(-1)
        adam_update(flat, g.reshape(-1), m, v, self.hyperparameters_for(p, state, group))
        if not p.flags.c_contiguous:  # then reshape(-1) made a copy
            p[...] = flat.reshape(p.shape)

    def update_amsgrad(
        self, p: np.ndarray, g: np.ndarray, state: dict[str, np.ndarray], group: dict[str, Any]
    ) -> None:
        """Update as `adam_update` does, but with the largest v so far."""
        xp = array_module(p)
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        if "max_exp_avg_sq" not in state or state["exp_avg"].dtype != p.dtype:
            self.init_state(p, state, *names)
        self.count(state)
        rate, c1, b2, c2, root, eps, shrink, decay = self.hyperparameters_for(p, state, group)
        m, v, largest = (state[name] for name in names)
        p *= shrink
        d = g + decay * p
        m += c1 * (d - m)
        v *= b2
        v += c2 * d * d
        xp.maximum(largest, v, out=largest)
        p -= rate * m / (root * xp.sqrt(largest) + eps)

    def hyperparameters(self, state: dict[str, np.ndarray], group: dict[str, Any]) -> tuple[float, ...]:
        """Return (lr / (1 - b1**t), 1 - b1, b2, 1 - b2, 1 / sqrt(1 - b2**t), eps, factor of p, decay)."""
        t = int(state["step"].reshape(-1)[0])
        lr = group["lr"]
        b1, b2 = group["betas"]
        decay = group["weight_decay"]
        shrink, decay = (1 - lr * decay, 0.0) if group["decoupled_weight_decay"] else (1.0, decay)
        return lr / (1 - b1**t), 1 - b1, b2, 1 - b2, 1 / (1 - b2**t) ** 0.5, group["eps"], shrink, decay


@Routine
def adam_update(p: Any, g: Any, m: Any, v: Any, hyperparameters: Any) -> Any:
    """m += (1 - b1) (d - m), v = b2 v + (1 - b2) d**2, p = shrink p - rate m / (root sqrt(v) + eps).

    d = g + decay p; all are flat, and p, m and v are changed in place. `hyperparameters` is the result of
    `Adam.hyperparameters`: rate, 1 - b1, b2, 1 - b2, root, eps, shrink, decay.
    """
    rate, c1, b2, c2, root, eps, shrink, decay = hyperparameters
    p *= shrink
    d = g + decay * p
    m += c1 * (d - m)
    v *= b2
    v += c2 * d * d  # d * d alone may be infinite
    p -= rate * m / (root * array_module(p).sqrt(v) + eps)
    return p


@Routine
def flatten(arrays: list[Any], out: Any) -> Any:
    """Copy the elements of all arrays to the flat array `out`, one array after another."""
    return array_module(out).concatenate(arrays, axis=None, out=out)


@Routine
def copy_all(sources: list[Any], targets: list[Any]) -> Any:
    """Copy each source array into the target at the same position."""
    for source, target in zip(sources, targets, strict=True):
        target[...] = source
    return targets


class FlatParameters:
    """Small parameters flattened into one array, with one state; each parameter's state is a view of it."""

    def __init__(self, params: list[Tensor], states: dict[Tensor, dict[str, np.ndarray]]) -> None:
        zeros = array_module(params[0].array).zeros
        size = sum(p.array.size for p in params)
        self.params = params
        self.arrays = [p.array for p in params]
        self.p, self.g, self.m, self.v = (zeros(size, np.float32) for _ in range(4))
        self.steps = np.zeros(len(params), np.int64)
        self.p_views = self._views_of(self.p)
        self.states = [states.setdefault(p, {}) for p in params]
        self.views = {
            "exp_avg": self._views_of(self.m),
            "exp_avg_sq": self._views_of(self.v),
            "step": [self.steps[i : i + 1].reshape(()) for i in range(len(params))],
        }
        for name, views in self.views.items():
            for own, view in zip(self.states, views, strict=True):
                view[...] = own.get(name, 0)
                own[name] = view

    def _views_of(self, flat: Any) -> list[Any]:
        """Return views of a flat array with the parameters' shapes."""
        views = []
        end = 0
        for array in self.arrays:
            views.append(flat[end : (end := end + array.size)].reshape(array.shape))
        return views

    def matches(self, params: list[Tensor], states: dict[Tensor, dict[str, np.ndarray]]) -> bool:
        """Return whether the parameters, their arrays and states are the flattened ones, all at one step."""
        same = len(params) == len(self.params) and all(map(is_, params, self.params))
        same = same and all(map(is_, map(attrgetter("array"), params), self.arrays))
        same = same and all(map(is_, map(states.get, params), self.states))
        for name, views in self.views.items():
            same = same and all(map(is_, map(methodcaller("get", name), self.states), views))
        return same and bool((self.steps == self.steps[0]).all())

    def gather(self) -> dict[str, np.ndarray]:
        """Copy the parameters and their gradients to the flat arrays, and return the flat state."""
        gradients = list(map(attrgetter("grad.array"), self.params))
        flatten(self.arrays, self.p)
        flatten(gradients, self.g)
        return {"exp_avg": self.m, "exp_avg_sq": self.v, "step": self.steps}

    def scatter(self) -> None:
        """Copy the updated values back to the parameters."""
        copy_all(self.p_views, self.arrays)


class AdamW(Adam):
    """Adam with decoupled weight decay: p *= 1 - lr * weight_decay (Loshchilov and Hutter 2019).

    >>> model = nn.Linear(2, 2)
    >>> optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    >>> optimizer.zero_grad()
    """

    fixed = ("decoupled_weight_decay",)

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **implementation: Any,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad,
            maximize=maximize, decoupled_weight_decay=True, **implementation,
        )  # fmt: skip
