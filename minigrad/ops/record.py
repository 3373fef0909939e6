r"""An op is one record: its value and its derivative, in one place.

    @differentiable(samples=binary(real), latex=(r"g\,y", r"g\,x"))
    def multiply(x, y, /):
        return x * y, (lambda g: g * y, lambda g: g * x)

A *rule* takes arrays (its positional-only parameters) and settings (the others) and returns its value and how
a gradient `g` of the value flows back to each array: a tuple of functions, None where there is no gradient,
or, where gradients share work, one function `(g, needs) -> tuple`. A gradient function returns a fresh array,
or `g` or a view of it; it changes nothing in place. The engine promotes dtypes before the rule runs and sums
gradients over broadcast axes after it.

A *composite* op is defined twice. Its readable definition, out of other ops, says what it is; a fused kernel
of the same name (`minigrad.kernels`) computes it quickly. `fused(False)` runs the definitions. What is *made
of ops* has no rule at all: its derivative is that of its parts.

Each record also says how it is tried and taught: `samples` draws valid inputs (see `samplers`), `latex` is
the gradient of each array in terms of the upstream gradient g, and `flops` what it costs (see `costs`). The
gradient check, the tests, the graph views and the reference page read them.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd
from ..autograd import Output
from ..devices import bfloat16, is_array
from ..kernels import kernels
from ..kernels.half import rounded
from ..tensor import Tensor
from .costs import Flops, one_each
from .dispatch import fused, make_callable, ops, with_manners
from .samplers import Sampler

__all__ = ["Op", "Record", "composite", "differentiable", "fused", "made_of_ops", "ops", "records"]

Latex = str | Sequence[str | None]

records: dict[str, Record] = {}  # every op, and everything made of ops, by name


def key_of(table: dict[str, Record], name: str, source: Callable) -> str:
    """The name, or `module.name` of an op that is not minigrad's and would hide one that is."""
    module = getattr(source, "__module__", "")
    taken = name in table and getattr(table[name].source, "__module__", "") != module
    return f"{module}.{name}" if taken and not module.startswith("minigrad.") else name


class Record:
    """What is known of one function. `call` is what users call."""

    flops: Flops | None = None  # of what is made of ops: those of its parts

    def __init__(self, name: str, source: Callable, samples: Sampler | None, latex: Latex) -> None:
        self.name, self.source, self.samples = name, source, samples
        self.latex = (latex,) if isinstance(latex, str) else tuple(latex)
        self.call: Callable = source
        self.key = key_of(records, name, source)
        records[self.key] = self

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}>"


class Derived(Record):
    """A function made of ops, which has no rule of its own."""


class Op(Record):
    """An operation with a rule of its own: what a node of the graph refers to."""

    def __init__(
        self,
        name: str,
        rule: Callable,
        definition: Callable | None,
        view: bool,
        promotes: Any,
        floating: bool,
        samples: Sampler | None,
        latex: Latex,
        flops: Flops,
    ) -> None:
        super().__init__(name, definition or rule, samples, latex)
        self.rule, self.definition, self.flops = rule, definition, flops
        self.view, self.promotes, self.floating = view, promotes, floating
        # these round nothing, or know how bfloat16 is rounded
        self.as_it_comes = view or name in ("astype", "clone", "nan_to_num", "matmul")
        kinds = inspect.signature(definition or rule).parameters.values()
        self.operands = tuple(p.name for p in kinds if p.kind is p.POSITIONAL_ONLY)
        self.settings = tuple(p.name for p in kinds if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        self.by_position = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in kinds)  # the settings that may be
        variadic = any(p.kind is p.VAR_POSITIONAL for p in kinds)
        self.arity = sys.maxsize if variadic else len(self.operands)

    def pull_tensors(
        self, inputs: list[Any], settings: dict[str, Any], needs: Sequence[bool], g: Any
    ) -> Sequence[Any]:
        """The inputs' gradients as Tensors that can be differentiated again."""
        if self.definition is None:
            _, gradients = self.rule(*inputs, **settings)
            if type(gradients) is tuple:
                return [f(g) if needed else None for f, needed in zip(gradients, needs, strict=True)]
            return gradients(g, needs)
        aliases = [ops["alias"].call(x) if needed else x for x, needed in zip(inputs, needs, strict=True)]
        value = self.definition(*aliases, **settings)
        wanted = [x for x, needed in zip(aliases, needs, strict=True) if needed]
        found = iter(autograd.grad(value, wanted, g, create_graph=True, allow_unused=True))
        return [next(found) if needed else None for needed in needs]

    def run(self, arrays: Sequence[Any], settings: dict[str, Any]) -> tuple[Any, Any]:
        """Value and gradients as a call computes them: of bfloat16 in float32, and rounded."""
        low = any(is_array(a) and a.dtype == bfloat16 for a in arrays)
        if low and self.definition is None and not self.as_it_comes:
            return rounded(self.rule, bfloat16, arrays, settings)
        return self.rule(*arrays, **settings)

    def rebuild(self, inputs: list[Any], settings: dict[str, Any], edge: Any) -> Tensor:
        """Compute a tensor that was let go once more, in its old place in the graph."""
        arrays = [x.array if isinstance(x, Tensor) else x for x in inputs]
        value, _ = self.run(arrays, settings)
        node = edge.node if type(edge) is Output else edge
        tensor = Tensor(value[edge.index] if type(edge) is Output else value)
        tensor.requires_grad, tensor.node = True, edge
        if type(edge) is Output:
            node.output[edge.index] = weakref.ref(tensor)
        else:
            node.output = weakref.ref(tensor)
        return tensor


def differentiable(
    rule: Callable | None = None,
    *,
    view: bool = False,
    promotes: Any = True,
    floating: bool = False,
    samples: Sampler | None = None,
    latex: Latex = (),
    flops: Flops = one_each,
) -> Any:
    """Make a rule an op: its value, and how a gradient flows back to each array.

    The rule gets NumPy arrays, and Tensors where its derivative is differentiated again: it computes with
    their operators, or with `xp = namespace(x)`, which has the array API's names for both. It returns the
    value and a tuple of functions of g, one an array (None: no gradient), or one function
    (g, needs) -> tuple.

    `view`: the value may share memory with the first array. `promotes`: True where all arrays meet in one
    dtype, False where they keep theirs, or the positions that meet. `floating`: integers become float32.
    """

    def make(rule: Callable) -> Callable:
        op = Op(rule.__name__, rule, None, view, promotes, floating, samples, latex, flops)
        return make_callable(op, rule)

    return make if rule is None else make(rule)


def composite(
    definition: Callable | None = None,
    *,
    promotes: Any = True,
    samples: Sampler | None = None,
    latex: Latex = (),
    flops: Flops = one_each,
) -> Any:
    """Make a readable definition an op whose value comes from the fused kernel of the same name.

    The kernel takes the same arrays and settings and returns what a rule returns.
    """

    def make(definition: Callable) -> Callable:
        name = definition.__name__

        def rule(*arrays: Any, **settings: Any) -> Any:
            return getattr(kernels(arrays[0]), name)(*arrays, **settings)

        op = Op(name, rule, definition, False, promotes, True, samples, latex, flops)
        return make_callable(op, definition)

    return make if definition is None else make(definition)


def made_of_ops(
    function: Callable | None = None, *, samples: Sampler | None = None, latex: Latex = ()
) -> Any:
    """Record a function that calls ops and so is no op; it takes `axis` and explains errors as ops do."""

    def make(function: Callable) -> Callable:
        record = Derived(function.__name__, function, samples, latex)
        record.call = with_manners(function)
        record.call.record = record  # type: ignore[attr-defined]
        return record.call

    return make if function is None else make(function)
