"""Module: parameters, buffers and submodules under their names, as torch.nn.Module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..autograd import Handle, no_grad
from ..creation import zeros_like
from ..devices import as_dtype
from ..errors import DtypeError, ShapeError, StateError
from ..tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module learns."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.data if isinstance(data, Tensor) else data, requires_grad)


class Module:
    """A piece of a network: assigning a Parameter or a Module, or registering a buffer, gives it a name."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module]
    _transient: set[str]
    _forward_hooks: dict[int, Callable]

    def __init__(self) -> None:
        self.__dict__.update(
            training=True, _parameters={}, _buffers={}, _modules={}, _transient=set(), _forward_hooks={}
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward().\nDefine one.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.forward(*args, **kwargs)
        for hook in tuple(self._forward_hooks.values()):
            replaced = hook(self, args, output)
            output = output if replaced is None else replaced
        return output

    def register_forward_hook(self, hook: Callable[[Module, tuple, Any], Any]) -> Handle:
        """Call hook(module, inputs, output) after each forward; what it returns replaces the output.

        `remove()` of what it gives takes the hook away.
        """
        return Handle(self._forward_hooks, hook)

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

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        setattr(self, name, parameter)
        self._parameters[name] = parameter

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is part of the state but not learned; not in `state_dict` unless persistent."""
        setattr(self, name, tensor)
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module) -> None:
        setattr(self, name, module)

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

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """All parameters by path; one that two modules share comes once, under its first name."""
        return _once(_members(self.named_modules(prefix), "_parameters"))

    def parameters(self) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        return _once(_members(self.named_modules(prefix), "_buffers"))

    def buffers(self) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers())

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

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by path, sharing memory with the module."""
        return {name: tensor.detach() for name, tensor in self._state()}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Copy values into parameters and buffers of the same paths; gives the (missing, unknown) paths.

        `strict` refuses those. All is checked before anything is changed.
        """
        own = dict(self._state())
        missing, unknown = sorted(own.keys() - state_dict.keys()), sorted(state_dict.keys() - own.keys())
        if strict and (missing or unknown):
            raise StateError(
                f"the state does not fit {type(self).__name__}: missing {_some(missing)}, "
                f"unknown {_some(unknown)}.\nLoad the state of the same model, or pass strict=False."
            )
        values = {name: np.asarray(state_dict[name]) for name in own if name in state_dict}
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
        return missing, unknown

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

    def to(self, target: Any) -> Module:
        """Convert floating parameters and buffers to a dtype, in place; or move all to a device ("cpu")."""
        if target == "cpu":
            return self
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.is_floating_point():
                tensor.data = tensor.data.astype(as_dtype(target))
                tensor.grad = None
        return self

    def double(self) -> Module:
        return self.to("float64")

    def float(self) -> Module:
        return self.to("float32")

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
        body = "".join(f"\n  {line}" for line in lines) + "\n" if lines else self.extra_repr()
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


class _Numbered(Module):
    """Modules under their numbers."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> Module:
        self.add_module(str(len(self)), module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return self.children()

    def __getitem__(self, index: int | slice) -> Any:
        chosen = list(self._modules.values())[index]
        return chosen if isinstance(chosen, Module) else _of(type(self), chosen)


def _of(kind: type[_Numbered], modules: list[Module]) -> _Numbered:
    return kind(*modules) if issubclass(kind, Sequential) else kind(modules)


class ModuleList(_Numbered):
    """A list of modules."""


class Sequential(_Numbered):
    """Modules one after another."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for module in self.children():
            x = module(x)
        return x


def _some(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:3]) or "none"
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
