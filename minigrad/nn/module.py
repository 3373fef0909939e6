"""Module: a network's parameters, buffers and submodules by name, as in torch.nn.Module."""

from __future__ import annotations

import weakref
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..core.devices import as_array, on_cpu
from ..core.dtypes import default_float, is_floating
from ..core.error_context import FOREIGN_ERRORS, raise_with_context, raised_by_library
from ..core.errors import (
    ArgumentError,
    DtypeError,
    MinigradError,
    MissingPathError,
    OptionError,
    SetByInit,
    ShapeError,
    StateError,
)
from ..core.hooks import Handle
from ..core.modes import Scope, current_modes, current_scope, no_grad
from ..core.tensor import Tensor, destination
from ..ops.checked import check_constructor, check_methods
from ..optim.optimizer import zero_gradients
from .hooks import BackwardHooks, Hook, add_hook, after_error, after_forward, before_forward


class Parameter(Tensor):
    """A tensor that a module registers as its parameter when it is assigned to an attribute.

    It accepts further attributes, such as `p.no_weight_decay = True`.
    """

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.array if isinstance(data, Tensor) else data, requires_grad)

    def __deepcopy__(self, memo: dict) -> Parameter:
        twin = super().__deepcopy__(memo)
        twin._grad = None  # as in PyTorch
        return twin  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class IncompatibleKeys(NamedTuple):
    """The result of `load_state_dict`: keys missing from the state, and keys that the module does not have.

    Unlike PyTorch's, it is true if both lists are empty: `assert model.load_state_dict(state, strict=False)`.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __bool__(self) -> bool:
        return not (self.missing_keys or self.unexpected_keys)

    def __repr__(self) -> str:
        names = f"missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys}"
        return "<All keys matched successfully>" if self else f"IncompatibleKeys({names})"


class Module:
    """Base class of networks: assigning a Parameter or a Module to an attribute registers it under that name.

    A registered name accepts only values of its kind, or None. The values are plain attributes, stored in
    `__dict__` and nowhere else; `_kinds` says which names are parameters, buffers and submodules.
    `_parameters`, `_buffers` and `_modules` are dictionaries that read and write the attributes of one kind.

    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(mg.ones(1))
    ...
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> [name for name, _ in Scale().named_parameters()]
    ['factor']
    """

    training: bool
    _kinds: dict[str, str] = SetByInit(  # type: ignore[assignment]  # "parameter", "buffer" or "module"
        "Call it first in __init__, before layers and parameters are assigned."
    )
    _transient: set[str]  # the names of buffers that are not part of the state
    _forward_hooks: dict[int, Hook]
    _forward_pre_hooks: dict[int, Hook]
    _backward_hooks: dict[int, Hook]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        check_constructor(cls)

    def __init__(self) -> None:
        self.__dict__.update(training=True, _kinds={}, _transient=set())
        self.__dict__.update(_forward_hooks={}, _forward_pre_hooks={}, _backward_hooks={})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; subclasses define it, and calling the module runs it with its hooks."""
        raise NotImplementedError(f"{type(self).__name__} has no forward().\nDefine one.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = current_modes.get()
        if not (mode.grad_enabled or mode.observers or self._forward_hooks or self._forward_pre_hooks):
            try:
                return self.forward(*args, **kwargs)  # nothing is recorded, so no node needs the scope
            except FOREIGN_ERRORS as error:
                self._raise_call_error(error, args, kwargs)
                raise
        if self._forward_pre_hooks:
            args, kwargs = before_forward(self, args, kwargs)
        backward = BackwardHooks(self) if self._backward_hooks and mode.grad_enabled else None
        if backward is not None:
            args = backward.around_inputs(args)
        scope = Scope()
        scope.part = weakref.ref(self)
        scope.parent = outer = current_scope.get()
        current_scope.set(scope)
        try:
            output = self.forward(*args, **kwargs)
        except Exception as error:
            if self._forward_hooks:
                after_error(self, args, kwargs)
            if isinstance(error, FOREIGN_ERRORS):
                self._raise_call_error(error, args, kwargs)
            raise
        finally:
            current_scope.set(outer)
        if self._forward_hooks:
            output = after_forward(self, args, kwargs, output)
        return output if backward is None else backward.around_outputs(output)

    def _raise_call_error(self, error: Exception, args: tuple, kwargs: dict[str, Any]) -> None:
        """Re-raise an error that NumPy or Python raised within the library, in the user's terms."""
        if not isinstance(error, MinigradError) and raised_by_library(error):
            raise_with_context(type(self).__name__, args, kwargs, error, self.forward)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Call hook(module, args, output) after each forward; a returned value replaces the output.

        With `with_kwargs`: hook(module, args, kwargs, output). If `always_call` is True, also if forward or
        another hook raises an error; then the output may be None. `remove()` of the returned handle removes
        the hook.
        """
        return add_hook(self._forward_hooks, hook, with_kwargs, prepend, always_call)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call hook(module, args) before each forward; a returned value replaces the positional arguments.

        With `with_kwargs`: hook(module, args, kwargs), which returns None or (args, kwargs).
        """
        return add_hook(self._forward_pre_hooks, hook, with_kwargs, prepend)

    def register_full_backward_hook(
        self, hook: Callable[[Module, tuple, tuple], Any], prepend: bool = False
    ) -> Handle:
        """Call hook(module, grad_input, grad_output) once backward has computed the inputs' gradients.

        Both are tuples, with None where there is no gradient; a returned value replaces grad_input.
        """
        return add_hook(self._backward_hooks, hook, False, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[[Module, tuple], Any], prepend: bool = False
    ) -> Handle:
        """Call hook(module, grad_output) before the module's backward; a returned value replaces it."""
        return add_hook(self._backward_hooks, hook, True, prepend)

    # ------------------------------------------------------------ names

    def __setattr__(self, name: str, value: Any) -> None:
        if "_kinds" not in self.__dict__ and not isinstance(value, Parameter | Module):
            super().__setattr__(name, value)  # before super().__init__(), as in PyTorch
            return
        kind = self._kind(name)
        if isinstance(value, Parameter):
            kind = "parameter"
        elif isinstance(value, Module) and kind != "parameter":
            kind = "module"
        if kind:
            self._check_kind(name, value, kind)
            self._set(name, value, kind)
        else:
            self._kinds.pop(name, None)
            self._transient.discard(name)
            super().__setattr__(name, value)  # may be a property

    def _check_kind(self, name: str, value: Any, kind: str) -> None:
        """Raise an error if a value has the wrong type for its kind."""
        if value is not None and not isinstance(value, KINDS[kind]):
            what = "a plain tensor" if type(value) is Tensor else f"{type(value).__name__} {_brief(value)}"
            raise DtypeError(
                f"{name!r} is a {kind} of {type(self).__name__}, and cannot be set to {what}.\n"
                f"Assign {REPLACEMENTS[kind]}, or None."
            )

    def _kind(self, name: str) -> str:
        """Return an attribute's kind: "parameter", "buffer", "module", or "" for anything else."""
        return self._kinds.get(name, "") if name in self.__dict__ else ""

    def _set(self, name: str, value: Any, kind: str) -> None:
        """Set an attribute; it keeps its position among the names unless its kind changes."""
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes after copying or unpickling; a subclass may add those that old states lack."""
        self.__dict__.update(state)

    def __copy__(self) -> Any:
        """Make a shallow copy: it shares the members, but assigning to one does not change the other."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _kinds=dict(self._kinds), _transient=set(self._transient))
        return twin

    def _check_name(self, name: str, kind: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise ArgumentError(
                f"a name must be a non-empty string without dots, got {name!r}.\nChoose another name."
            )
        if hasattr(self, name) and self._kind(name) != kind:
            raise OptionError(
                f"{type(self).__name__} already has an attribute {name!r}.\nChoose another name."
            )

    def _register(self, name: str, value: Any, kind: str) -> None:
        self._check_name(name, kind)
        self._check_kind(name, value, kind)
        self._set(name, value, kind)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter under a name; None reserves the name."""
        self._register(name, param, "parameter")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is not learned; `state_dict` contains it if it is `persistent`."""
        self._register(name, tensor, "buffer")
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a submodule under a name; None reserves the name."""
        self._register(name, module, "module")

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
        """Return the module at a path such as "encoder.layers.0"; "" is this module."""
        module = self
        for name in target.split(".") if target else ():
            submodules = {name: child for name, child in module._modules.items() if child is not None}
            if name not in submodules:
                raise MissingPathError(
                    f"{type(self).__name__} has no module {target!r}: there is no {name!r}.\n"
                    f"Submodules of {type(module).__name__}: {_list_names(submodules)}."
                )
            module = submodules[name]
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module at a path; without `strict`, the last name of the path may be new.

        A shared module is replaced at this path only.
        """
        path, _, name = target.rpartition(".")
        if not name:
            raise OptionError("set_submodule needs a path, got ''.\nPass one of named_modules().")
        owner = self.get_submodule(path)
        if strict or hasattr(owner, name):
            self.get_submodule(target)
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path such as "encoder.layers.0.weight"."""
        return self._get("parameter", target)

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path such as "encoder.position.table"."""
        return self._get("buffer", target)

    def _get(self, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        members = Members(module, kind)
        if members.get(name) is None:
            raise MissingPathError(
                f"{type(module).__name__} has no {kind} {name!r}.\nIts {kind}s: {_list_names(members)}."
            )
        return members[name]

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over (path, module) of this module and its descendants; a shared one comes once.

        Modules in `memo` are skipped, and the others are added to it. The descendants of a submodule are
        found by its own `named_modules`.
        """
        seen = set() if memo is None else memo
        if self in seen:
            return iter(())
        if remove_duplicate:
            seen.add(self)
        found = [(prefix, self)]
        values = self.__dict__
        start = f"{prefix}." if prefix else ""
        for name, kind in self._kinds.items():
            if kind == "module" and (child := values.get(name)) is not None:
                found += child.named_modules(seen, start + name, remove_duplicate)
        return iter(found)

    def modules(self) -> Iterator[Module]:
        """Iterate over this module and its descendants; a shared one comes once."""
        return map(itemgetter(1), self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over (name, module) of the direct submodules; one with two names comes once."""
        values = self.__dict__
        found = dict[Module, str]()
        for name, kind in self._kinds.items():
            if kind == "module" and values.get(name) is not None:
                found.setdefault(values[name], name)
        return iter([(name, module) for module, name in found.items()])

    def children(self) -> Iterator[Module]:
        """Iterate over the direct submodules; one with two names comes once."""
        return map(itemgetter(1), self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over (path, parameter); a shared parameter comes once, under its first path.

        If `recurse` is False, submodules are left out.
        """
        return self._named_tensors("parameter", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, each once; without `recurse`, submodules are left out."""
        return map(itemgetter(1), self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over (path, buffer); a shared buffer comes once, under its first path."""
        return self._named_tensors("buffer", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, each once; without `recurse`, submodules are left out."""
        return map(itemgetter(1), self.named_buffers(recurse=recurse))

    def _named_tensors(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen = set[Tensor]()
        found = list[tuple[str, Any]]()
        pairs = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        modules = pairs if recurse else [(prefix, self)]
        for path, module in modules:
            values = module.__dict__
            for name, kind_of_name in module._kinds.items():
                tensor = values.get(name) if kind_of_name == kind else None
                if tensor is not None and not (remove_duplicate and tensor in seen):
                    seen.add(tensor)
                    found.append((f"{path}.{name}" if path else name, tensor))
        return iter(found)

    def num_parameters(self) -> int:
        """Return the number of elements of all parameters; shared ones count once."""
        return sum(p.numel() for p in self.parameters())

    # ------------------------------------------------------------ state

    def _own_state(self) -> dict[str, Tensor]:
        """Return the parameters and persistent buffers by name, without those of submodules."""
        own = {**self._parameters, **self._buffers}
        return {name: x for name, x in own.items() if x is not None and name not in self._transient}

    def state_dict(
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return the parameters and persistent buffers by path, detached but sharing memory with the module.

        If `keep_vars` is True, they are not detached. They are added to `destination`, if it is given.
        """
        state = {} if destination is None else destination
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        return state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add this module's own tensors and its extra state, but not those of submodules."""
        for name, x in self._own_state().items():
            destination[prefix + name] = x if keep_vars else x.detach()
        if hasattr(type(self), "get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()  # type: ignore[attr-defined]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into the parameters and buffers of the same paths; return the keys that do not match.

        If `strict` is True, such keys are an error. Everything is checked before anything changes. If
        `assign` is True, the values replace the parameters and buffers, and keep their own dtype and device.
        A tensor with several paths stays one tensor, also with `assign`; different values for it are an
        error.
        """
        if not isinstance(state_dict, Mapping):
            raise DtypeError(
                f"a state must be a dictionary of tensors, got {type(state_dict).__name__}.\n"
                f"Pass the result of state_dict() or of mg.load_file(path)."
            )
        loaded = dict[Tensor, tuple[str, Tensor]]()
        for only_check in (True, False):
            missing, unexpected, errors = list[str](), list[str](), list[str]()
            how = {"assign_to_params_buffers": assign, "only_check": only_check, "loaded": loaded}
            state = {str(key): x for key, x in state_dict.items()}
            self._load_all(state, "", how, missing, unexpected, errors)
            problems = []
            if strict and (missing or unexpected):
                problems = [f"missing {_list_names(missing)}, unexpected {_list_names(unexpected)}."]
            if problems or errors:
                raise StateError(
                    f"the state does not match {type(self).__name__}: {' '.join(problems + errors)}\n"
                    f"Load the state of the same model{', or pass strict=False' if problems else ''}."
                )
        return IncompatibleKeys(missing, unexpected)

    def _load_all(self, state: dict[str, Any], prefix: str, how: dict[str, Any], *found: list[str]) -> None:
        """Call `_load_from_state_dict` of this module and its descendants, each with its own keys."""
        self._load_from_state_dict(state, prefix, dict(how), True, *found)
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                child._load_all({k: x for k, x in state.items() if k.startswith(path)}, path, how, *found)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own tensors from the keys that begin with `prefix`.

        A subclass may override it, for example to rename old keys in `state_dict`, which is a copy. It is
        called twice: first each module only checks (`local_metadata["only_check"]`), then each is loaded.
        """
        only_check = local_metadata.get("only_check", False)
        assign = local_metadata.get("assign_to_params_buffers", False)
        loaded = local_metadata.get("loaded", {})  # the path and the new value of each tensor
        own = self._own_state()
        names = set(own)
        for name, x in own.items():
            key = prefix + name
            if key in state_dict:
                new = _new_value(key, x, state_dict[key], assign)
                first, value = loaded.setdefault(x, (key, new))
                _check_tied(x, first, value, key, new)
            elif strict:
                missing_keys.append(key)
            if x in loaded and not only_check:  # perhaps from another path in the state
                if assign:
                    setattr(self, name, loaded[x][1])
                    loaded[loaded[x][1]] = loaded[x]  # for the same module under another path
                else:
                    with no_grad():
                        x.copy_(loaded[x][1])
        if hasattr(type(self), "set_extra_state"):
            names.add(EXTRA_STATE)
            if prefix + EXTRA_STATE not in state_dict:
                missing_keys.append(prefix + EXTRA_STATE)
            elif not only_check:
                self.set_extra_state(state_dict[prefix + EXTRA_STATE])  # type: ignore[attr-defined]
        submodules = {name for name, child in self._modules.items() if child is not None}
        for key in state_dict if strict else ():
            name, dot, _ = key.removeprefix(prefix).partition(".")
            if key.startswith(prefix) and name not in (submodules if dot else names):
                unexpected_keys.append(key)

    # ------------------------------------------------------------ modes

    def train(self, mode: bool = True) -> Module:
        """Set training mode (or, with False, evaluation mode) for this module and its descendants."""
        if not isinstance(mode, bool):
            raise OptionError(f"train() takes True or False, got {mode!r}.\nUse eval() for evaluation.")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Module:
        """Set evaluation mode: no dropout, and running statistics are used."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Set whether the parameters require gradients; False freezes them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the parameters' gradients, or set them to zero in place."""
        zero_gradients(self.parameters(), set_to_none)

    def to(
        self, *targets: Any, dtype: Any = None, device: str | None = None, non_blocking: bool = False
    ) -> Module:
        """Convert floating-point parameters and buffers to a dtype, or move all to a device, in place.

        Create the optimizer afterwards: its state is on the parameters' device. `non_blocking` has no effect:
        copies to a GPU never block.
        """
        dtype, device = destination(targets, dtype, device)
        if not is_floating(dtype or default_float):
            raise DtypeError(
                f"a module's parameters must be floating-point, got {dtype}.\nPass a floating dtype."
            )
        return self._apply(lambda x: x.to(device=device, dtype=dtype if x.is_floating_point() else None))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
        """Replace parameters, their gradients and buffers, in place, with what `fn` returns for them."""
        for child in self.children() if recurse else ():
            child._apply(fn)
        with no_grad():
            for x in (*self.parameters(recurse=False), *self.buffers(recurse=False)):
                x.array = fn(x).array
                x.grad = None if x.grad is None else fn(x.grad)
        return self

    def cpu(self) -> Module:
        """Move parameters and buffers to the CPU, in place."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None) -> Module:
        """Move parameters and buffers to a GPU, in place."""
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def type(self, dst_type: Any) -> Module:
        """Convert floating-point parameters and buffers to a dtype, in place."""
        return self.to(dtype=dst_type)

    def double(self) -> Module:
        return self.to("float64")

    def float(self) -> Module:
        return self.to("float32")

    def half(self) -> Module:
        return self.to("float16")

    def bfloat16(self) -> Module:
        return self.to("bfloat16")

    def apply(self, function: Callable[[Module], None]) -> Module:
        """Call `function` with every descendant, then with this module.

        A module that two others share is passed twice.
        """
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def extra_repr(self) -> str:
        """Return the settings that the repr shows; subclasses define it."""
        return ""

    def _lines(self) -> Iterator[str]:
        """Iterate over the lines of the repr, one for each submodule."""
        return (f"({name}): {module!r}" for name, module in self._modules.items())

    def __repr__(self) -> str:
        lines = [line.replace("\n", "\n  ") for line in self._lines()]
        extra = self.extra_repr()
        if lines and extra:
            lines = [extra.replace("\n", "\n  "), *lines]
        body = "".join(f"\n  {line}" for line in lines) + "\n" if lines else extra
        return f"{self._get_name()}({body})"

    def _get_name(self) -> str:
        """Return the name that the repr shows."""
        return type(self).__name__


EXTRA_STATE = "_extra_state"  # the key of what `get_extra_state` returns
KINDS: dict[str, type] = {"parameter": Parameter, "buffer": Tensor, "module": Module}
REPLACEMENTS = {"parameter": "nn.Parameter(tensor)", "buffer": "a tensor", "module": "a module"}


class Members(MutableMapping[str, Any]):
    """The parameters, buffers or submodules of a module by name: a mapping over its attributes."""

    def __init__(self, module: Module, kind: str) -> None:
        self.module = module
        self.kind = kind

    def _as_dict(self) -> dict[str, Any]:
        values = self.module.__dict__
        return {
            name: values[name]
            for name, kind in self.module._kinds.items()
            if kind == self.kind and name in values
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._as_dict())

    def __len__(self) -> int:
        return len(self._as_dict())

    def items(self) -> ItemsView[str, Any]:
        return self._as_dict().items()

    def values(self) -> ValuesView[Any]:
        return self._as_dict().values()

    def __getitem__(self, name: str) -> Any:
        if self.module._kind(name) != self.kind:
            raise KeyError(name)
        return self.module.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.module._register(name, value, self.kind)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self.module, name)

    def __repr__(self) -> str:
        return repr(dict(self))


def _brief(value: Any) -> str:
    """Return an array's shape in words, or the start of another value's repr."""
    return f"of shape {value.shape}" if hasattr(value, "shape") else repr(value)[:40]


def _new_value(key: str, x: Tensor, value: Any, assign: bool) -> Tensor:
    """Check a value in a state, and return it as a tensor; with `assign`, of x's class, to replace x."""
    array = as_array(value.array if isinstance(value, Tensor) else value)
    if array.shape != x.shape or not np.can_cast(array.dtype, x.dtype, "same_kind"):
        raise ShapeError(
            f"{key} is {x.dtype}{list(x.shape)} in the model, "
            f"{array.dtype}{list(array.shape)} in the state.\nLoad the state of the same model."
        )
    return type(x)(array, x.requires_grad) if assign else Tensor(array)


def _check_tied(x: Tensor, first: str, a: Tensor, key: str, b: Tensor) -> None:
    """Raise an error if a state has different values for one tensor, at two of its paths."""
    if first == key:
        return
    one, other = (on_cpu(value.array.astype(x.dtype)) for value in (a, b))
    if not np.array_equal(one, other, equal_nan=True):
        raise StateError(
            f"{first} and {key} are one tensor in the model, but have different values in the state.\n"
            f"Pass one of them, with strict=False, or untie them in the module."
        )


def _list_names(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    names = list(names)
    shown = ", ".join(names[:3]) or "none"
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


check_methods(Parameter, ["__init__"])
check_methods(
    Module,
    [
        "apply",
        "get_buffer",
        "get_parameter",
        "get_submodule",
        "load_state_dict",
        "named_parameters",
        "register_buffer",
        "requires_grad_",
        "set_submodule",
        "state_dict",
        "zero_grad",
    ],
)
