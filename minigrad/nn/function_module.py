"""The base class of modules that call a function, such as `ReLU` and `MSELoss`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.argument_checks import SETTING, Checks
from ..core.error_context import raise_unknown_arguments
from ..core.errors import SignatureError
from .module import Module


class FunctionModule(Module):
    """A module that calls a function of `functional`: `class ELU(FunctionModule, function=F.elu): ...`.

    `forward` takes the first `inputs` arguments of the function. The constructor takes the others, with their
    names and defaults, and stores them as attributes. `settings` lists the constructor's arguments if they
    are fewer, or in another order. `shown` lists the arguments that the repr shows, by default all.
    """

    __signature__: Any  # the constructor's, for help() and inspect
    _function: Callable[..., Any]
    _inputs: tuple[str, ...]
    _settings: inspect.Signature
    _passed: tuple[str, ...]  # the attributes that `forward` passes on, in the function's order
    _shown: tuple[str, ...]
    _checks: Checks

    def __init_subclass__(
        cls,
        function: Callable[..., Any] | None = None,
        inputs: int = 1,
        settings: str | None = None,
        shown: str | None = None,
    ) -> None:
        super().__init_subclass__()
        if function is None:  # inherits the function of a base class
            if "__init__" in cls.__dict__:
                cls.__signature__ = None
            return
        parameters = inspect.signature(function).parameters
        names = list(parameters)
        own = names[inputs:] if settings is None else settings.split()
        cls._function = staticmethod(function)
        cls._inputs = tuple("input" if name == "x" else name for name in names[:inputs])
        cls._settings = inspect.Signature([parameters[name] for name in own])
        cls._passed = tuple(name for name in names[inputs:] if name in own or name == "training")
        cls._shown = tuple(own if shown is None else shown.split())
        cls.__signature__ = cls._settings  # for help() and inspect
        cls._checks = Checks(function, SETTING)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        settings = _bind(f"{type(self).__name__}()", self._settings, args, kwargs)
        self._checks.check_settings(settings.arguments)
        settings.apply_defaults()
        self._configure(**settings.arguments)

    def _configure(self, **settings: Any) -> None:
        """Store the settings as attributes; subclasses check and convert them first."""
        for name, value in settings.items():
            setattr(self, name, value)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if named or len(inputs) != len(self._inputs):
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            signature = inspect.Signature([inspect.Parameter(name, kind) for name in self._inputs])
            inputs = _bind(f"{type(self).__name__}.forward()", signature, inputs, named).args
        if not self._passed:
            return self._function(*inputs)
        return self._function(*inputs, *[getattr(self, name) for name in self._passed])

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the settings

    def extra_repr(self) -> str:
        names = [name for name in self._shown if name != "inplace" or self.inplace]  # as in PyTorch
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def _bind(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        if unknown := sorted(kwargs.keys() - signature.parameters.keys()):
            raise_unknown_arguments(name.removesuffix("()"), unknown, signature.parameters)
        raise SignatureError(f"{name}: {error}.\nIt takes {', '.join(signature.parameters)}.") from None
