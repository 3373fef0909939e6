"""Module: parameters, buffers and submodules under their names, as torch.nn.Module."""

from __future__ import annotations

import weakref
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..autograd.hooks import Handle
from ..creation import zeros_like
from ..devices import as_array, default_float, is_floating, on_device
from ..errors import DtypeError, OptionError, ShapeError, StateError
from ..modes import Scope, modes, no_grad
from ..tensor import Tensor, destination


class Parameter(Tensor):
    """A tensor that a module learns."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.array if isinstance(data, Tensor) else data, requires_grad)


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find in the state, and what of the state the module does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """A piece of a network: assigning a Parameter or a Module, or registering a buffer, gives it a name.

    Their values are plain attributes, stored in `__dict__` and nowhere else; `_kinds` says which names are
    parameters, buffers and submodules. `_parameters`, `_buffers` and `_modules` are dictionaries that read
    and write the attributes of one kind.
    """

    training: bool
    _kinds: dict[str, str]  # "parameter", "buffer" or "module", by name
    _transient: set[str]  # the names of buffers that are not part of the state
    _forward_hooks: dict[int, Callable]
    _forward_pre_hooks: dict[int, Callable]

    def __init__(self) -> None:
        self.__dict__.update(
            training=True, _kinds={}, _transient=set(), _forward_hooks={}, _forward_pre_hooks={}
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward().\nDefine one.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (modes.grad_enabled or modes.observers or self._forward_hooks or self._forward_pre_hooks):
            return self.forward(*args, **kwargs)  # nothing is recorded, so no node needs the scope
        if self._forward_pre_hooks:
            for hook in tuple(self._forward_pre_hooks.values()):
                inputs = hook(self, args)
                args = args if inputs is None else inputs if isinstance(inputs, tuple) else (inputs,)
        outer, scope = modes.scope, Scope()
        scope.part, scope.parent = weakref.ref(self), outer
        modes.scope = scope
        try:
            output = self.forward(*args, **kwargs)
        finally:
            modes.scope = outer
        if self._forward_hooks:
            for hook in tuple(self._forward_hooks.values()):
                replaced = hook(self, args, output)
                output = output if replaced is None else replaced
        return output

    def register_forward_hook(self, hook: Callable[[Module, tuple, Any], Any]) -> Handle:
        """Call hook(module, inputs, output) after each forward; what it returns replaces the output.

        The handle that it returns has `remove()`.
        """
        return Handle(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: Callable[[Module, tuple], Any]) -> Handle:
        """Call hook(module, inputs) before each forward; what it returns replaces the positional inputs."""
        return Handle(self._forward_pre_hooks, hook)

    # ------------------------------------------------------------ names

    def __setattr__(self, name: str, value: Any) -> None:
        if "_kinds" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before assigning {name!r}.")
        kind = self._kind(name)
        if isinstance(value, Parameter):
            kind = "parameter"
        elif isinstance(value, Module):
            kind = "module"
        elif kind == "parameter" and isinstance(value, Tensor):
            raise DtypeError(
                f"{name!r} is a parameter, and cannot be set to a plain tensor.\nAssign nn.Parameter(tensor)."
            )
        elif kind == "module" or not (value is None or isinstance(value, Tensor)):
            kind = ""
        self._set(name, value, kind)

    def _kind(self, name: str) -> str:
        """What an attribute is: "parameter", "buffer", "module", or "" for anything else."""
        return self._kinds.get(name, "") if name in self.__dict__ else ""

    def _set(self, name: str, value: Any, kind: str) -> None:
        """Set an attribute, which keeps its position among the names as long as its kind stays the same."""
        if name not in self.__dict__ or self._kinds.get(name, "") != kind:
            self._kinds.pop(name, None)
            self._transient.discard(name)
        if kind:
            self._kinds[name] = kind
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._kinds.pop(name, None)
        self._transient.discard(name)

    def _check_name(self, name: str, kind: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise OptionError(f"a name must be a string without dots, got {name!r}.\nChoose another name.")
        if hasattr(self, name) and self._kind(name) != kind:
            raise OptionError(
                f"{type(self).__name__} has something else named {name!r}.\nChoose another name."
            )

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        self._check_name(name, "parameter")
        if parameter is not None and not isinstance(parameter, Parameter):
            raise DtypeError(
                f"{name!r} must be a parameter, got {type(parameter).__name__}.\nPass nn.Parameter(tensor)."
            )
        self._set(name, parameter, "parameter")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is part of the state but not learned; not in `state_dict` unless persistent."""
        self._check_name(name, "buffer")
        self._set(name, tensor, "buffer")
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module) -> None:
        self._check_name(name, "module")
        setattr(self, name, module)

    register_module = add_module

    @property
    def _parameters(self) -> Members:
        return Members(self, "parameter")

    @property
    def _buffers(self) -> Members:
        return Members(self, "buffer")

    @property
    def _modules(self) -> Members:
        return Members(self, "module")

    def get_submodule(self, target: str) -> Module:
        """The module at a path, "encoder.layers.0"; this one at ""."""
        module = self
        for name in target.split(".") if target else ():
            submodules = module._modules
            if name not in submodules:
                raise StateError(
                    f"{type(self).__name__} has no module {target!r}: there is no {name!r}.\n"
                    f"{type(module).__name__} has {_some(list(submodules))}."
                )
            module = submodules[name]
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path, "encoder.layers.0.weight"."""
        return self._get("parameter", target)

    def get_buffer(self, target: str) -> Tensor:
        return self._get("buffer", target)

    def _get(self, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        members = Members(module, kind)
        if members.get(name) is None:
            raise StateError(
                f"{type(module).__name__} has no {kind} {name!r}.\nIt has {_some(list(members))}."
            )
        return members[name]

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it by path; one that has two paths comes once, under its first."""
        found: dict[int, tuple[str, Module]] = {}
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) not in found:
                found[id(module)] = (path, module)
                values = module.__dict__
                for name, kind in reversed(module._kinds.items()):
                    if kind == "module" and name in values:
                        stack.append((f"{path}.{name}" if path else name, values[name]))
        return iter(found.values())

    def modules(self) -> Iterator[Module]:
        return iter([module for _, module in self.named_modules()])

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return iter(self._modules.items())

    def children(self) -> Iterator[Module]:
        return iter([self.__dict__[name] for name, kind in self._kinds.items() if kind == "module"])

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters by path; one that two modules share comes once, under its first path.

        Without `recurse`, only this module's own.
        """
        return self._named_tensors("parameter", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return map(itemgetter(1), self._named_tensors("parameter", "", recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        return self._named_tensors("buffer", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return iter([buffer for _, buffer in self._named_tensors("buffer", "", recurse)])

    def _named_tensors(self, kind: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        found: dict[int, tuple[str, Any]] = {}
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            values = module.__dict__
            for name, of in module._kinds.items():
                if of == kind and name in values:
                    tensor = values[name]
                    if tensor is not None and id(tensor) not in found:
                        found[id(tensor)] = (f"{path}.{name}" if path else name, tensor)
        return iter(found.values())

    def num_parameters(self) -> int:
        """The number of learned numbers, each counted once."""
        return sum(p.numel() for p in self.parameters())

    # ------------------------------------------------------------ state

    def _state(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """The parameters and persistent buffers by path; one that has two paths comes under both."""
        for members in (self._parameters, self._buffers):
            for name, tensor in members.items():
                if tensor is not None and name not in self._transient:
                    yield prefix + name, tensor
        for name, module in self._modules.items():
            yield from module._state(f"{prefix}{name}.")

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Parameters and buffers by path, sharing memory with the module."""
        return {name: tensor.detach() for name, tensor in self._state(prefix)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy values into parameters and buffers of the same paths; returns (missing_keys, unexpected_keys).

        With `strict`, either is an error. Everything is checked before anything changes.
        """
        own = dict(self._state())
        missing, unknown = sorted(own.keys() - state_dict.keys()), sorted(state_dict.keys() - own.keys())
        if strict and (missing or unknown):
            raise StateError(
                f"the state does not fit {type(self).__name__}: missing {_some(missing)}, "
                f"unknown {_some(unknown)}.\nLoad the state of the same model, or pass strict=False."
            )
        loaded = {name: state_dict[name] for name in own if name in state_dict}
        values = {name: as_array(x.array if isinstance(x, Tensor) else x) for name, x in loaded.items()}
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
        return IncompatibleKeys(missing, unknown)

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

        Create the optimizer afterwards: its state is on the parameters' device.
        """
        dtype, device = destination(targets, dtype, device)
        if not is_floating(dtype or default_float):
            raise DtypeError(
                f"a module's parameters must be floating-point, got {dtype}.\nPass a floating dtype."
            )
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
        lines = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self.named_children()]
        extra = self.extra_repr()
        if lines and extra:
            lines = [extra.replace("\n", "\n  "), *lines]
        body = "".join(f"\n  {line}" for line in lines) + "\n" if lines else extra
        return f"{type(self).__name__}({body})"


class Members(MutableMapping[str, Any]):
    """The parameters, buffers or submodules of a module by name: a dictionary over its attributes."""

    def __init__(self, module: Module, kind: str) -> None:
        self.module, self.kind = module, kind

    def _now(self) -> dict[str, Any]:
        values = self.module.__dict__
        return {
            name: values[name]
            for name, kind in self.module._kinds.items()
            if kind == self.kind and name in values
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def items(self) -> ItemsView[str, Any]:
        return self._now().items()

    def values(self) -> ValuesView[Any]:
        return self._now().values()

    def __getitem__(self, name: str) -> Any:
        if self.module._kind(name) != self.kind:
            raise KeyError(name)
        return self.module.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if self.kind == "parameter":
            self.module.register_parameter(name, value)
        elif self.kind == "buffer":
            self.module.register_buffer(name, value, persistent=name not in self.module._transient)
        else:
            self.module.add_module(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self.module, name)

    def __repr__(self) -> str:
        return repr(dict(self))


def _some(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:3]) or "none"
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
