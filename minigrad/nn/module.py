"""Module: parameters, buffers and submodules under their names, as torch.nn.Module."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..autograd import Handle, Scope, grad_mode, no_grad
from ..creation import zeros_like
from ..devices import as_array, default_float, is_floating, on_device
from ..errors import DtypeError, OptionError, ShapeError, StateError
from ..tensor import Tensor, destination


class Parameter(Tensor):
    """A tensor that a module learns."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.array if isinstance(data, Tensor) else data, requires_grad)


class LoadedKeys(NamedTuple):
    """What `load_state_dict` did not find in the state, and what of the state it had no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """A piece of a network: assigning a Parameter or a Module, or registering a buffer, gives it a name."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module]
    _transient: set[str]
    _forward_hooks: dict[int, Callable]
    _forward_pre_hooks: dict[int, Callable]

    def __init__(self) -> None:
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _modules={},
            _transient=set(),
            _forward_hooks={},
            _forward_pre_hooks={},
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward().\nDefine one.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (grad_mode.enabled or self._forward_hooks or self._forward_pre_hooks):
            return self.forward(*args, **kwargs)  # nothing is recorded that would ask for its scope
        if self._forward_pre_hooks:
            for hook in tuple(self._forward_pre_hooks.values()):
                given = hook(self, args)
                args = args if given is None else given if isinstance(given, tuple) else (given,)
        outer, grad_mode.scope = grad_mode.scope, Scope(weakref.ref(self), grad_mode.scope)
        try:
            output = self.forward(*args, **kwargs)
        finally:
            grad_mode.scope = outer
        if self._forward_hooks:
            for hook in tuple(self._forward_hooks.values()):
                replaced = hook(self, args, output)
                output = output if replaced is None else replaced
        return output

    def register_forward_hook(self, hook: Callable[[Module, tuple, Any], Any]) -> Handle:
        """Call hook(module, inputs, output) after each forward; what it returns replaces the output.

        `remove()` of what it gives takes the hook away.
        """
        return Handle(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: Callable[[Module, tuple], Any]) -> Handle:
        """Call hook(module, inputs) before each forward; what it returns replaces the positional inputs."""
        return Handle(self._forward_pre_hooks, hook)

    # ------------------------------------------------------------ names

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before assigning {name!r}.")
        home: dict[str, Any] | None = None
        if isinstance(value, Parameter):
            home = self._parameters
        elif isinstance(value, Module):
            home = self._modules
        elif name in self._parameters and isinstance(value, Tensor):
            raise DtypeError(
                f"{name!r} is a parameter, and was given a plain tensor.\nAssign nn.Parameter(tensor)."
            )
        elif value is None or isinstance(value, Tensor):  # a parameter or buffer keeps its place
            home = next((kind for kind in (self._parameters, self._buffers) if name in kind), None)
        for kind in (self._parameters, self._buffers, self._modules):
            if kind is not home:
                kind.pop(name, None)
        if home is not None:
            home[name] = value
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        for kind in (self._parameters, self._buffers, self._modules):
            kind.pop(name, None)
        super().__delattr__(name)

    def _check_name(self, name: str, kind: dict[str, Any]) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise OptionError(f"a name is a word without dots, got {name!r}.\nChoose another one.")
        if hasattr(self, name) and name not in kind:
            raise OptionError(
                f"{type(self).__name__} has something else named {name!r}.\nChoose another name."
            )

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        self._check_name(name, self._parameters)
        if parameter is not None and not isinstance(parameter, Parameter):
            raise DtypeError(
                f"{name!r} is to be a parameter, got {type(parameter).__name__}.\nPass nn.Parameter(tensor)."
            )
        setattr(self, name, parameter)
        self._parameters[name] = parameter

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is part of the state but not learned; not in `state_dict` unless persistent."""
        self._check_name(name, self._buffers)
        setattr(self, name, tensor)
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module) -> None:
        self._check_name(name, self._modules)
        setattr(self, name, module)

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """The module at a path, "encoder.layers.0"; this one at ""."""
        module = self
        for name in target.split(".") if target else ():
            if name not in module._modules:
                raise StateError(
                    f"{type(self).__name__} has no module {target!r}: there is no {name!r}.\n"
                    f"{type(module).__name__} has {_some(list(module._modules))}."
                )
            module = module._modules[name]
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path, "encoder.layers.0.weight"."""
        return self._get("_parameters", target)

    def get_buffer(self, target: str) -> Tensor:
        return self._get("_buffers", target)

    def _get(self, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        members = getattr(module, kind)
        if members.get(name) is None:
            raise StateError(
                f"{type(module).__name__} has no {kind.strip('_')[:-1]} {name!r}.\n"
                f"It has {_some(list(members))}."
            )
        return members[name]

    def _paths(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, one that stands in two places twice."""
        yield prefix, self
        for name, module in self._modules.items():
            yield from module._paths(f"{prefix}.{name}" if prefix else name)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it by path; one that stands in two places comes once, under its first."""
        return _once(self._paths(prefix))

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return iter(self._modules.items())

    def children(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters by path; one that two modules share comes once, under its first name.

        Without `recurse`, only this module's own.
        """
        modules = self.named_modules(prefix) if recurse else [(prefix, self)]
        return _once(_members(modules, "_parameters"))

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        return _once(_members(self.named_modules(prefix) if recurse else [(prefix, self)], "_buffers"))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def num_parameters(self) -> int:
        """How many numbers are learned."""
        return sum(p.numel() for p in self.parameters())

    # ------------------------------------------------------------ state

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for path, module in self._paths():
            kept = {n: b for n, b in module._buffers.items() if n not in module._transient}
            for name, tensor in {**module._parameters, **kept}.items():
                if tensor is not None:
                    yield (f"{path}.{name}" if path else name), tensor

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Parameters and buffers by path, sharing memory with the module."""
        return {prefix + name: tensor.detach() for name, tensor in self._state()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> LoadedKeys:
        """Copy values into parameters and buffers of the same paths; gives (missing_keys, unexpected_keys).

        `strict` refuses those. All is checked before anything is changed.
        """
        own = dict(self._state())
        missing, unknown = sorted(own.keys() - state_dict.keys()), sorted(state_dict.keys() - own.keys())
        if strict and (missing or unknown):
            raise StateError(
                f"the state does not fit {type(self).__name__}: missing {_some(missing)}, "
                f"unknown {_some(unknown)}.\nLoad the state of the same model, or pass strict=False."
            )
        given = {name: state_dict[name] for name in own if name in state_dict}
        values = {name: as_array(x.array if isinstance(x, Tensor) else x) for name, x in given.items()}
        for name, value in values.items():
            mine = own[name]
            if value.shape != mine.shape or not np.can_cast(value.dtype, mine.dtype, "same_kind"):
                raise ShapeError(
                    f"{name} is {mine.dtype}{list(mine.shape)} in the model, "
                    f"{value.dtype}{list(value.shape)} in the state.\nLoad the state of the same model."
                )
        with no_grad():
            for name, value in values.items():
                own[name].copy_(value)
        return LoadedKeys(missing, unknown)

    # ------------------------------------------------------------ modes

    def train(self, mode: bool = True) -> Module:
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = zeros_like(parameter)

    def to(self, *targets: Any, dtype: Any = None, device: str | None = None) -> Module:
        """Convert floating parameters and buffers to a dtype, in place; or move all to a device.

        Make the optimizer afterwards: its state lies where the parameters do.
        """
        dtype, device = destination(targets, dtype, device)
        if not is_floating(dtype or default_float):
            raise DtypeError(f"a module's parameters are floating numbers, not {dtype}.\nPass such a dtype.")
        for tensor in (*self.parameters(), *self.buffers()):
            if device is not None:
                tensor.array = on_device(tensor.array, device)
                tensor.grad = None if tensor.grad is None else tensor.grad.to(device)
            if dtype is not None and tensor.is_floating_point():
                tensor.array = tensor.array.astype(dtype)
                tensor.grad = None
        return self

    def cpu(self) -> Module:
        return self.to("cpu")

    def cuda(self) -> Module:
        return self.to("cuda")

    def double(self) -> Module:
        return self.to("float64")

    def float(self) -> Module:
        return self.to("float32")

    def half(self) -> Module:
        return self.to("float16")

    def bfloat16(self) -> Module:
        return self.to("bfloat16")

    def apply(self, function: Callable[[Module], None]) -> Module:
        """Call `function` with every module below this one, then with this one."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()]
        extra = self.extra_repr()
        if lines and extra:
            lines = [extra.replace("\n", "\n  "), *lines]
        body = "".join(f"\n  {line}" for line in lines) + "\n" if lines else extra
        return f"{type(self).__name__}({body})"


def _members(modules: Iterable[tuple[str, Module]], kind: str) -> Iterator[tuple[str, Any]]:
    """What the modules have of one kind, by path."""
    for path, module in modules:
        for name, member in getattr(module, kind).items():
            if member is not None:
                yield (f"{path}.{name}" if path else name), member


def _once(named: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Each thing under the first of its names."""
    seen: set[int] = set()
    for name, thing in named:
        if id(thing) not in seen:
            seen.add(id(thing))
            yield name, thing


def _some(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:3]) or "none"
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
