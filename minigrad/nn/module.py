"""Module: parameters, buffers and submodules under their names, as torch.nn.Module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..devices import as_dtype
from ..errors import ShapeError
from ..tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module learns."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.data if isinstance(data, Tensor) else data, requires_grad)


class Module:
    """A piece of a network. Assigning a Parameter, a Module or (with `register_buffer`) a buffer gives it a name."""

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

    def register_forward_hook(self, hook: Callable[[Module, tuple, Any], Any]) -> Callable[[], None]:
        """Call hook(module, inputs, output) after each forward; what it returns replaces the output.

        Returns a function that removes the hook.
        """
        key = max(self._forward_hooks, default=-1) + 1
        self._forward_hooks[key] = hook

        def remove() -> None:
            self._forward_hooks.pop(key, None)

        return remove

    # ------------------------------------------------------------ names

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before assigning {name!r}.")
        for kind in (self._parameters, self._buffers, self._modules):
            kind.pop(name, None)
        self.__dict__.pop(name, None)
        if isinstance(value, Parameter):
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._modules[name] = value
        self.__dict__[name] = value

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        setattr(self, name, parameter)
        self._parameters[name] = parameter

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is part of the state but not learned; not in `state_dict` unless persistent."""
        setattr(self, name, tensor)
        self._buffers[name] = tensor
        if not persistent:
            self._transient.add(name)

    def add_module(self, name: str, module: Module) -> None:
        setattr(self, name, module)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, by path."""
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def children(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """All parameters by path; one that two modules share comes once, under its first name."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix):
            for name, parameter in module._parameters.items():
                if parameter is not None and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{path}.{name}" if path else name), parameter

    def parameters(self) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        for path, module in self.named_modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    yield (f"{path}.{name}" if path else name), buffer

    def num_parameters(self) -> int:
        """How many numbers are learned."""
        return sum(p.numel() for p in self.parameters())

    # ------------------------------------------------------------ state

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for path, module in self.named_modules():
            kept = {n: b for n, b in module._buffers.items() if n not in module._transient}
            for name, tensor in {**module._parameters, **kept}.items():
                if tensor is not None:
                    yield (f"{path}.{name}" if path else name), tensor

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by path, sharing memory with the module."""
        return {name: tensor.detach() for name, tensor in self._state()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Copy values into parameters and buffers of the same paths; `strict` refuses missing and unknown ones."""
        own = dict(self._state())
        missing, unknown = sorted(own.keys() - state_dict.keys()), sorted(state_dict.keys() - own.keys())
        if strict and (missing or unknown):
            raise KeyError(
                f"the state does not fit {type(self).__name__}: missing {missing or 'none'}, unknown {unknown or 'none'}. "
                f"Load the state of the same model, or pass strict=False."
            )
        values = {name: np.asarray(state_dict[name]) for name in own if name in state_dict}
        for name, value in values.items():  # all are checked before one is changed
            if value.shape != own[name].shape:
                raise ShapeError(
                    f"{name} has shape {own[name].shape} in the model and {value.shape} in the state.\nLoad the state of the same model."
                )
        from ..autograd import no_grad

        with no_grad():
            for name, value in values.items():
                own[name].copy_(value)

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
                parameter.grad.zero_()

    def to(self, dtype: Any) -> Module:
        """Convert floating parameters and buffers, in place."""
        for _, tensor in (*self.named_parameters(), *self.named_buffers()):
            if tensor.is_floating_point():
                tensor.data = tensor.data.astype(as_dtype(dtype))
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


class Sequential(Module):
    """Modules one after another."""

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def forward(self, x: Any) -> Any:
        for module in self.children():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int) -> Module:
        return list(self._modules.values())[index]


class ModuleList(Module):
    """A list of modules, each under its number."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        self.add_module(str(len(self)), module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return self.children()

    def __getitem__(self, index: int) -> Any:
        return list(self._modules.values())[index]
