"""Copies of the inputs of a check, so that the caller's tensors do not change."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.devices import is_array, on_cpu
from ..core.errors import DtypeError, OptionError
from ..core.tensor import Tensor
from .report import label


class Arguments:
    """Copies of the inputs of a function, with which it can be called.

    A tensor, a list or a tuple is passed by position, and a dict as keyword arguments. For a Module, the
    function is called without arguments, and the parameters and buffers are copies within the `with` block.
    """

    def __init__(self, inputs: Any) -> None:
        self.originals: list[tuple[Tensor, np.ndarray]] = []
        module = hasattr(inputs, "named_parameters")
        buffers: list[Tensor] = [buffer for _, buffer in inputs.named_buffers()] if module else []
        if module:
            inputs = dict(inputs.named_parameters())
        named = isinstance(inputs, Mapping)
        if isinstance(inputs, Tensor):
            inputs = [inputs]
        elif not isinstance(inputs, Mapping | Sequence) or isinstance(inputs, str):
            raise DtypeError(
                f"inputs must be tensors, got {type(inputs).__name__}.\n"
                f"Pass one tensor, a list of arguments, a dict of keyword arguments, or a Module."
            )
        values = list(inputs.values()) if named else list(inputs)
        self.named = named
        self.module = module
        self.names = [str(name) for name in inputs] if named else [""] * len(values)
        self.checked = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]
        self._check_precision(values)
        self.values = values if module else [self._copy(x) for x in values]
        self.originals = [(x, x.array) for x in (*values, *buffers)] if module else []

    def __enter__(self) -> Arguments:
        for parameter, array in self.originals:
            parameter.array = array.copy(order="K")
        self.copies = self._copy_arrays()
        return self

    def __exit__(self, *exc: object) -> None:
        for parameter, array in self.originals:
            parameter.array = array

    @property
    def leaves(self) -> list[Tensor]:
        """The inputs that require a gradient."""
        return [self.values[i] for i in self.checked]

    def label(self, number: int) -> str:
        return label(number, self.names[number])

    def find_change(self) -> tuple[int, tuple[int, ...]] | None:
        """Return the number of the first input that has changed, and the index of the element; or None."""
        for number, before in enumerate(self.copies):
            if before is not None:
                after = _array(self.values[number])
                different = ~((after == before) | ((after != after) & (before != before)))
                if different.any():
                    return number, tuple(int(i) for i in np.argwhere(on_cpu(different))[0])
        return None

    def _check_precision(self, values: list[Any]) -> None:
        if not self.checked:
            raise OptionError("no input requires a gradient.\nCreate one with requires_grad=True.")
        for i in self.checked:
            if values[i].dtype != np.float64:
                raise DtypeError(
                    f"{self.label(i)} is {values[i].dtype}, but gradcheck needs float64.\nPass x.double()."
                )

    def call(self, fn: Callable) -> Any:
        if self.module:
            return fn()
        return self._call_by_name(fn) if self.named else fn(*self.values)

    def _call_by_name(self, fn: Callable) -> Any:
        """Call `fn` with keyword arguments, except for positional-only parameters."""
        keywords = dict(zip(self.names, self.values, strict=True))
        try:
            signature = inspect.signature(fn)
        except (TypeError, ValueError):  # some builtins have no signature
            return fn(**keywords)
        places = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
        placed = [keywords.pop(name) for name in places if name in keywords]
        try:
            signature.bind(*placed, **keywords)
        except TypeError as error:
            raise OptionError(
                f"the function cannot be called with these names: {error}.\n"
                f"Its parameters are {signature}; pass a list to use positions."
            ) from None
        return fn(*placed, **keywords)

    @staticmethod
    def _copy(x: Any) -> Any:
        if isinstance(x, Tensor):
            return Tensor(x.array.copy(order="K"), requires_grad=x.requires_grad)
        return x.copy() if is_array(x) else x

    def _copy_arrays(self) -> list[Any]:
        arrays = [_array(x) for x in self.values]
        return [None if a is None else a.copy() for a in arrays]


def _array(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.array
    return x if is_array(x) else None
