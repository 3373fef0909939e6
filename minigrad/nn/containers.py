"""Modules and parameters in lists and dictionaries, under their numbers and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from ..errors import DtypeError, RangeError
from ..tensor import as_tensor
from .module import Module, Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Numbered(Module):
    """Things under their numbers; subclasses say which."""

    _kind = "_modules"

    def __init__(self, things: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(things)

    def _things(self) -> list[Any]:
        return list(getattr(self, self._kind).values())

    def _place(self, index: int) -> int:
        """The index counted from 0."""
        if not -len(self) <= index < len(self):
            raise RangeError(f"{type(self).__name__} of {len(self)} has no {index}.\nThey count from 0.")
        return index % len(self)

    def _renew(self, things: Iterable[Any]) -> None:
        """Hold these in place of what is held."""
        for name in list(getattr(self, self._kind)):
            delattr(self, name)
        for i, thing in enumerate(things):
            setattr(self, str(i), thing)

    def append(self, thing: Any) -> Any:
        if self._kind == "_modules" and not isinstance(thing, Module):
            raise DtypeError(
                f"{type(self).__name__} holds modules, got {type(thing).__name__}.\n"
                f"Give modules: Sequential(a, b), ModuleList([a, b])."
            )
        taken = getattr(self, self._kind)
        name = next(str(i) for i in count(len(self)) if str(i) not in taken)  # a slice keeps its numbers
        setattr(self, name, thing)
        return self

    def extend(self, things: Iterable[Any]) -> Any:
        for thing in things:
            self.append(thing)
        return self

    def insert(self, index: int, thing: Any) -> Any:
        things = self._things()
        things.insert(index, thing)
        self._renew(things)
        return self

    def __len__(self) -> int:
        return len(getattr(self, self._kind))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._things())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._things()[index])
        return self._things()[self._place(index)]

    def __setitem__(self, index: int, thing: Any) -> None:
        setattr(self, list(getattr(self, self._kind))[self._place(index)], thing)

    def __delitem__(self, index: int | slice) -> None:
        things = self._things()
        del things[index if isinstance(index, slice) else self._place(index)]
        self._renew(things)


class ModuleList(_Numbered):
    """A list of modules."""


class Sequential(_Numbered):
    """Modules one after another; a dictionary in place of them names each."""

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            super().__init__()
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            super().__init__(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return super().__getitem__(index)

    def forward(self, input: Any) -> Any:
        for module in self.children():
            input = module(input)
        return input


class ParameterList(_Numbered):
    """A list of parameters; tensors and arrays become parameters."""

    _kind = "_parameters"

    def append(self, thing: Any) -> ParameterList:
        return super().append(_parameter(thing))

    def insert(self, index: int, thing: Any) -> ParameterList:
        return super().insert(index, _parameter(thing))

    def __setitem__(self, index: int, thing: Any) -> None:
        super().__setitem__(index, _parameter(thing))

    def extra_repr(self) -> str:
        return _listed(self._parameters)


def _parameter(thing: Any) -> Parameter:
    return thing if isinstance(thing, Parameter) else Parameter(as_tensor(thing))


def _listed(parameters: Mapping[str, Any]) -> str:
    return "\n".join(f"({name}): {p.dtype}{list(p.shape)}" for name, p in parameters.items())


class _Named(Module):
    """Things under their names; subclasses say which."""

    _kind = "_modules"

    def __init__(self, things: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__()
        self.update(things)

    def _things(self) -> dict[str, Any]:
        return getattr(self, self._kind)

    def update(self, things: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        for name, thing in dict(things).items():
            self[name] = thing

    def __setitem__(self, name: str, thing: Any) -> None:
        self._check_name(name, self._things())
        setattr(self, name, thing)

    def __getitem__(self, name: str) -> Any:
        return self._things()[name]

    def __delitem__(self, name: str) -> None:
        del self._things()[name]
        self.__dict__.pop(name)

    def __len__(self) -> int:
        return len(self._things())

    def __iter__(self) -> Iterator[str]:
        return iter(self._things())

    def __contains__(self, name: object) -> bool:
        return name in self._things()

    def keys(self) -> Iterable[str]:
        return self._things().keys()

    def values(self) -> Iterable[Any]:
        return self._things().values()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._things().items()

    def pop(self, name: str) -> Any:
        thing = self[name]
        del self[name]
        return thing

    def clear(self) -> None:
        for name in list(self):
            del self[name]


class ModuleDict(_Named):
    """Modules by name."""


class ParameterDict(_Named):
    """Parameters by name; tensors and arrays become parameters."""

    _kind = "_parameters"

    def __setitem__(self, name: str, thing: Any) -> None:
        super().__setitem__(name, _parameter(thing))

    def extra_repr(self) -> str:
        return _listed(self._parameters)
