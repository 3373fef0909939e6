"""Composite ops: written with other ops, and computed by a kernel where there is one.

    @composite
    def softmax(x, /, dim):
        e = exp(x - x.detach().amax(dim, keepdim=True))
        return e / e.sum(dim, keepdim=True)

The readable definition says what the op is, and its gradient follows from those of its parts. If a kernel
accepts the arrays (see `kernels`), it computes the same value and gradient in less time; otherwise the
definition runs on a separate graph. `fused(False)` runs definitions only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from .backward import node_numbers
from .checkpointing import edges_outside
from .costs import Flops, one_each
from .devices import is_array
from .dtypes import is_floating
from .errors import OptionError
from .grad import grad, propagate_to
from .kernels import kernel as register_kernel
from .modes import Switch, modes
from .observers import unobserved
from .op import About, Op, make_callable, with_gradients
from .registry import ops
from .tensor import Tensor
from .user_rules import apart, check_rule_signature, is_user_defined


class Composite(Op):
    """An op that has a definition instead of a rule."""

    def __init__(self, name: str, definition: Callable, kernel: Callable | None = None, **about: Any) -> None:
        self.is_user_defined = is_user_defined(definition)
        if self.is_user_defined:
            check_rule_signature(definition)
        super().__init__(name, self.run_definition, definition, floating=True, **about)
        self.definition: Callable = definition
        self.exact_in_half = self.exact_on_gpu = False  # only its kernels may get 16 bits
        if kernel is not None:
            register_kernel(self)(kernel)

    def run_definition(self, *arrays: Any, **settings: Any) -> tuple[Any, Any]:
        """The op's rule: compute the value and the gradients by the definition, on a separate graph."""
        if any(isinstance(a, Tensor) for a in arrays):
            return self.run_on_tensors(arrays, settings)
        inputs = [Tensor(a, requires_grad=is_floating(a.dtype)) if is_array(a) else a for a in arrays]
        first = next(node_numbers)
        with Switch(modes, "autocast_dtype", None), unobserved():
            value = self.definition(*inputs, **settings)
        values = tuple(value) if isinstance(value, tuple) else (value,)
        if self.is_user_defined:
            self.check_definition(values, inputs, first)
        results = tuple([x.array for x in values])
        if self.is_user_defined:
            results = apart(results, arrays)

        # `held` lets `closures.holds` find these arrays, so that changing them in place raises an error
        def gradients(g: Any, needs: Sequence[bool], held: Any = (*arrays, *results)) -> list[Any]:
            wanted = [x for x, needed in zip(inputs, needs, strict=True) if needed]
            pairs = zip(values, g if type(g) is list else [g], strict=True)
            used = [(x, Tensor(part)) for x, part in pairs if x.requires_grad and part is not None]
            outs = [x for x, _ in used]
            gs = [part for _, part in used]
            with unobserved():
                found = grad(outs, wanted, gs, retain_graph=True, allow_unused=True)
            remaining = iter([None if x is None else x.array for x in found])
            return [next(remaining) if needed else None for needed in needs]

        return results if isinstance(value, tuple) else results[0], gradients

    def check_definition(self, values: tuple, inputs: Sequence[Any], first: int) -> None:
        """Raise an OptionError if a value is not a tensor, or a tensor that is not an argument would lose its
        gradient."""
        for value in values:
            if not isinstance(value, Tensor):
                raise OptionError(
                    f"the definition of {self.name} must return a tensor, or a tuple of tensors, got "
                    f"{type(value).__name__}.\nReturn the results of minigrad ops."
                )
        outside = set(edges_outside([x.node for x in values if x.node is not None], first))
        if outside - {x for x in inputs if isinstance(x, Tensor)}:
            raise OptionError(
                f"the definition of {self.name} uses a tensor that requires a gradient and is not an "
                f"argument.\nMake it an argument before the `/`, or use x.detach()."
            )

    def run_on_tensors(self, inputs: Sequence[Any], settings: dict[str, Any]) -> tuple[Any, Any]:
        """`run_definition` for a higher derivative: on aliases of the inputs, where backward ends."""
        aliases = [ops["alias"].call(x) if getattr(x, "requires_grad", False) else x for x in inputs]
        value = self.definition(*aliases, **settings)

        def gradients(g: Any, needs: Sequence[bool]) -> list[Any]:
            values, gs = (value, g) if type(value) is tuple else ([value], [g])
            seeds = [
                (v.node, g) for v, g in zip(values, gs, strict=True) if v.requires_grad and g is not None
            ]
            edges = [x.node if needed else None for x, needed in zip(aliases, needs, strict=True)]
            wanted = [edge for edge in edges if edge is not None]
            found, _ = propagate_to(wanted, seeds, True, True, ends=wanted)
            return [found.get(edge) for edge in edges]

        return value, gradients


def composite(
    definition: Callable | None = None,
    *,
    kernel: Callable | None = None,
    promotes: Any = True,
    flops: Flops = one_each,
    **about: Unpack[About],
) -> Any:
    """Turn a readable definition, written with other ops, into an op that a fused kernel may compute.

    `kernel` takes the same arrays and settings and returns what a rule returns. For arrays that it does not
    support it returns None, and the definition runs. Kernels for one kind of device are registered with
    `@kernel` (see `kernels`) and are tried first.
    """

    def make(definition: Callable) -> Callable:
        op = Composite(definition.__name__, definition, kernel, promotes=promotes, flops=flops, **about)
        return with_gradients(make_callable(op), op)

    return make if definition is None else make(definition)
