"""Lists and dictionaries of modules and of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import count, groupby
from typing import Any

from ..core.errors import DtypeError, OptionError, RangeError
from ..core.tensor import as_tensor
from .module import Members, Module, Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _List(Module):
    """A list of modules or of parameters, which are named by their positions."""

    _holds = "module"

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(values)

    def _names(self) -> list[str]:
        return list(Members(self, self._holds))

    def _values(self) -> list[Any]:
        return [self.__dict__[name] for name, kind in self._kinds.items() if kind == self._holds]

    def _index(self, index: int) -> int:
        """Check an index, and return it counted from 0."""
        if not -len(self) <= index < len(self):
            raise RangeError(
                f"index {index} is out of range for a {type(self).__name__} of length {len(self)}.\n"
                f"Indices start at 0."
            )
        return index % len(self)

    def _replace_all(self, values: Iterable[Any]) -> None:
        for name in self._names():
            delattr(self, name)
        for i, value in enumerate(values):
            setattr(self, str(i), value)

    def append(self, value: Any) -> Any:
        if self._holds == "module" and not isinstance(value, Module):
            raise DtypeError(
                f"{type(self).__name__} holds modules, got {type(value).__name__}.\n"
                f"Pass modules: Sequential(a, b), ModuleList([a, b])."
            )
        names = self._names()
        setattr(self, next(str(i) for i in count(len(names)) if str(i) not in names), value)
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        for value in values:
            self.append(value)
        return self

    def pop(self, key: int) -> Any:
        value = self[key]
        del self[key]
        return value

    def __add__(self, other: Iterable[Any]) -> Any:
        return copy(self).extend(other)

    def __iadd__(self, other: Iterable[Any]) -> Any:
        return self.extend(other)

    def insert(self, index: int, value: Any) -> Any:
        values = self._values()
        values.insert(index, value)
        self._replace_all(values)
        return self

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._values()[index])
        return self._values()[self._index(index)]

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._names()[self._index(index)], value)

    def __delitem__(self, index: int | slice) -> None:
        values = self._values()
        del values[index if isinstance(index, slice) else self._index(index)]
        self._replace_all(values)


class ModuleList(_List):
    """A list of modules; its repr shows consecutive equal modules once."""

    def _lines(self) -> Iterator[str]:
        start = 0
        for text, group in groupby(map(repr, self)):
            end = start + len(list(group))
            several = f"({start}-{end - 1}): {end - start} x {text}"
            yield f"({start}): {text}" if end == start + 1 else several
            start = end


class Sequential(_List):
    """Modules applied in sequence; pass them as arguments, or as one dictionary to name them.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model(mg.ones(3, 4)).shape
    (3, 2)
    """

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

    def __mul__(self, count: int) -> Sequential:
        """Repeat the sequence `count` times; the repetitions share their modules."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise OptionError(
                f"a Sequential can only be multiplied by a positive integer, got {count!r}.\nPass one."
            )
        return type(self)(*self._values() * count)

    __rmul__ = __mul__

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ParameterList(_List):
    """A list of parameters; tensors and arrays become parameters."""

    _holds = "parameter"

    def append(self, value: Any) -> ParameterList:
        return super().append(_as_parameter(value))

    def insert(self, index: int, value: Any) -> ParameterList:
        return super().insert(index, _as_parameter(value))

    def __setitem__(self, index: int, value: Any) -> None:
        super().__setitem__(index, _as_parameter(value))

    def __repr__(self) -> str:
        return _repr_of_parameters(self)


def _as_parameter(value: Any) -> Parameter:
    return value if isinstance(value, Parameter) else Parameter(as_tensor(value))


def _repr_of_parameters(container: Module) -> str:
    """Return the repr of a container of parameters, formatted as in PyTorch."""
    lines = [
        f"    ({name}): Parameter containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]"
        for name, p in container._parameters.items()
    ]
    return (
        "\n".join([f"{type(container).__name__}(", *lines, ")"]) if lines else f"{type(container).__name__}()"
    )


class _Dict(Module):
    """A dictionary of modules or of parameters."""

    _holds = "module"

    def __init__(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__()
        self.update(values)

    def _members(self) -> Members:
        return Members(self, self._holds)

    def update(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        for name, value in dict(values.items() if hasattr(values, "items") else values).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        self._check_name(name, self._holds)
        setattr(self, name, value)

    def __getitem__(self, name: str) -> Any:
        return self._members()[name]

    def __delitem__(self, name: str) -> None:
        del self._members()[name]

    def __len__(self) -> int:
        return len(self._members())

    def __iter__(self) -> Iterator[str]:
        return iter(self._members())

    def __contains__(self, name: object) -> bool:
        return name in self._members()

    def keys(self) -> Iterable[str]:
        return self._members().keys()

    def values(self) -> Iterable[Any]:
        return self._members().values()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._members().items()

    def pop(self, name: str) -> Any:
        value = self[name]
        del self[name]
        return value

    def get(self, key: str, default: Any = None) -> Any:
        return self._members().get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        name = list(self)[-1]
        return name, self.pop(name)

    def __or__(self, other: Mapping[str, Any]) -> Any:
        return type(self)({**dict(self.items()), **dict(other.items())})

    def __ior__(self, other: Mapping[str, Any]) -> Any:
        self.update(other)
        return self

    def clear(self) -> None:
        for name in list(self):
            del self[name]


class ModuleDict(_Dict):
    """A dictionary of modules."""


class ParameterDict(_Dict):
    """A dictionary of parameters; tensors and arrays become parameters."""

    _holds = "parameter"

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _as_parameter(value))

    def __repr__(self) -> str:
        return _repr_of_parameters(self)
