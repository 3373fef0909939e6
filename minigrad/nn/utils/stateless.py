"""A module called with other parameters than its own (torch.func.functional_call)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import DtypeError, StateError
from ...tensor import Tensor
from ..module import Module


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with the tensors of a dictionary in place of those at the same paths.

    Gradients go to the dictionary's tensors. `tie_weights`: a parameter with several paths is replaced at all
    of them. `strict`: the dictionary has all paths. (torch.func.functional_call)
    """
    if not isinstance(module, Module) or not isinstance(parameters_and_buffers, Mapping):
        raise DtypeError(
            f"functional_call takes a module and a dictionary, got {type(module).__name__} and "
            f"{type(parameters_and_buffers).__name__}.\nPass dict(module.named_parameters()), say."
        )
    places = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    unknown = [name for name in parameters_and_buffers if name not in places]
    missing = [name for name in places if name not in parameters_and_buffers] if strict else []
    if (unknown and strict) or missing:
        raise StateError(
            f"functional_call: missing {missing or 'none'}, unknown {unknown or 'none'}.\n"
            f"Pass tensors for the module's parameters and buffers."
        )
    given = {name: x for name, x in parameters_and_buffers.items() if name in places}
    if tie_weights:
        by_tensor = {places[name]: x for name, x in given.items()}
        given = {name: by_tensor[own] for name, own in places.items() if own in by_tensor}
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        _put(module, given)
        return module(*args, **(kwargs or {}))
    finally:
        _put(module, {name: places[name] for name in given})


def _put(module: Module, tensors: Mapping[str, Tensor]) -> None:
    """Set attributes by path, of whatever kind."""
    for path, x in tensors.items():
        owner, _, name = path.rpartition(".")
        vars(module.get_submodule(owner))[name] = x
