"""Function transforms that compute derivatives, with JAX's names and semantics.

Arguments and results may be nested dicts, lists and tuples (also named tuples, and None) of tensors, arrays
and Python floats; `f` gets tensors, and derivatives are tensors in the same structure. Transforms compose to
any order (`grad(grad(f))`) and change no `.grad`. Values that `f` closes over are constants. Except under
`no_grad`, a derivative can still be differentiated with respect to those of them that require a gradient.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import autograd
from .core.backward import producer, requires_grad
from .core.dtypes import is_floating
from .core.errors import DtypeError, OptionError, ShapeError
from .core.modes import enable_grad, is_grad_enabled
from .core.tensor import Tensor, as_tensor, from_other_library
from .core.trees import fill, flatten, leaves, map_leaves, structure
from .core.versions import version_of
from .nn.utils.stateless import functional_call
from .ops import alias, stack
from .ops.checked import check_all
from .ops.creation import ones_like, zeros, zeros_like

__all__ = [
    "functional_call", "grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev", "jvp",
    "value_and_grad", "vjp",
]  # fmt: skip

ArgNums = int | Sequence[int]


def grad(f: Callable, argnums: ArgNums = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes the gradient of `f`, which returns a scalar (jax.grad).

    `argnums` is the number of the argument to differentiate with respect to, or a sequence of numbers; then
    the gradients are a tuple. Unused inputs have gradient 0. If `has_aux` is True, `f` returns (scalar, aux),
    and the new function returns (gradient, aux).

    >>> f = lambda x: (x**3).sum()
    >>> x = mg.tensor([1.0, 2.0])
    >>> mg.func.grad(f)(x)
    tensor([ 3., 12.])
    >>> mg.func.grad(lambda x: mg.func.grad(f)(x).sum())(x)
    tensor([ 6., 12.])
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(f: Callable, argnums: ArgNums = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes (value, gradient) of `f` or, with `has_aux`, ((value, aux), gradient).

    The arguments are those of `grad`. (jax.value_and_grad)

    >>> mg.func.value_and_grad(lambda w: (w * w).sum())(mg.tensor([3.0]))
    (tensor(9.), tensor([6.]))
    """

    @functools.wraps(f)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        run = _Run(f, args, kwargs, argnums, has_aux)
        value = run.outputs[0] if run.outputs and isinstance(run.result, Tensor) else None
        if value is None or value.shape:
            what = "no tensor" if value is None else f"a tensor of shape {value.shape}"
            raise ShapeError(
                f"grad needs a function that returns a scalar, but {_name(f)} returned {what}.\n"
                f"Reduce it (.sum(), .mean()), or use jacobian."
            )
        gradients = run.pull([ones_like(value)], retain=False)
        result = run.outside(run.result)
        return ((result, run.outside(run.aux)) if has_aux else result), gradients

    return value_and_gradient


def vjp(f: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """Return (f(*primals), pull), where pull(v) is vᵀ J, a tuple with a gradient for each argument (jax.vjp).

    v must have the structure and shapes of the result. `pull` may be called several times. If `has_aux` is
    True, `f` returns (result, aux), and `vjp` returns (result, pull, aux).
    """
    run = _Run(f, primals, {}, tuple(range(len(primals))), has_aux)

    def pull(cotangents: Any) -> Any:
        return run.pull(_check_leaves("cotangent", cotangents, run.result, run.outputs), retain=True)

    result = run.outside(run.result)
    return (result, pull, run.outside(run.aux)) if has_aux else (result, pull)


def jvp(f: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> tuple:
    """Return (f(*primals), J t): the value, and its derivative along the `tangents` t (jax.jvp).

    The tangents must have the structure and shapes of the primals. Reverse mode computes uᵀ J, which is
    linear in u; the transpose of this linear map, computed by a second reverse pass, gives J t (Townsend
    2017, "A new trick for calculating Jacobian vector products").
    """
    primals, tangents = _arguments(primals), _arguments(tangents)
    run = _Run(f, primals, {}, tuple(range(len(primals))), has_aux)
    tangents = _check_leaves("tangent", tangents, primals, run.inputs)
    u = [zeros_like(out, requires_grad=True) for out in run.outputs]
    pulled = run.reverse(list(zip(run.outputs, u, strict=True)), create_graph=True, retain=True)
    moving = [(p, t) for p, t in zip(pulled, tangents, strict=True) if p is not None and p.requires_grad]
    create_graph = run.connected or (is_grad_enabled() and any(t.requires_grad for t in tangents))
    found: Sequence[Tensor | None] = [None] * len(u)
    if moving:
        ps, ts = zip(*moving, strict=True)
        found = autograd.grad(ps, u, ts, create_graph=create_graph, allow_unused=True)
    moved = _fill_zeros(run.result, run.outputs, found)
    result = run.outside(run.result)
    return (result, moved, run.outside(run.aux)) if has_aux else (result, moved)


def jacobian(f: Callable, argnums: ArgNums = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes the Jacobian of `f`, by a backward pass for each element of the result.

    For a result of shape (m,) and an argument of shape (n,), the Jacobian is (m, n). For nested results or
    arguments, it has the structure of the result, with the argument's structure in place of each leaf; each
    block has the result's shape followed by the argument's. (jax.jacrev)

    >>> mg.func.jacobian(lambda x: x**2)(mg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(f)
    def matrix(*args: Any, **kwargs: Any) -> Any:
        run = _Run(f, args, kwargs, argnums, has_aux)
        whole = fill(run.result, [run.rows(out) for out in run.outputs])
        return (whole, run.outside(run.aux)) if has_aux else whole

    return matrix


jacrev = jacfwd = jacobian  # torch.func's names


def hessian(f: Callable, argnums: ArgNums = 0) -> Callable:
    """Return a function that computes the second derivatives of `f`, jacobian(jacobian(f)) (jax.hessian).

    For a scalar function of an argument of shape (n,), the Hessian is (n, n). Nested arguments give blocks,
    as in `jacobian`.

    >>> mg.func.hessian(lambda x: x.prod())(mg.tensor([2.0, 3.0]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    return jacobian(jacobian(f, argnums), argnums)


def hvp(f: Callable, primals: Any, tangents: Any) -> Any:
    """Return H v, the Hessian of the scalar f(*primals) times `tangents`, without forming H: ∇(∇f · v).

    `primals` and `tangents` are tuples with an element for each argument; a single argument that is not a
    tuple may be passed directly. The product has the structure of the argument or, for several arguments, is
    a tuple.
    """
    primals, tangents = _arguments(primals), _arguments(tangents)
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))

    def slope(*arguments: Any) -> Tensor:
        gradients = grad(f, tuple(range(len(arguments))))(*arguments)
        pairs = zip(
            leaves(gradients), _check_leaves("tangent", tangents, primals, leaves(gradients)), strict=True
        )
        return sum(((g * t).sum() for g, t in pairs), start=Tensor(np.zeros((), np.float32)))

    return grad(slope, argnums)(*primals)


# ---------------------------------------------------------------- one call of a function


class _Input(Tensor):
    """A leaf made for one run. It is `active` while the function is running."""

    __slots__ = ("active",)
    active: bool


class _Run:
    """One recorded call of `f` on new leaves, ready for backward."""

    def __init__(
        self, f: Callable, args: Sequence[Any], kwargs: dict[str, Any], argnums: ArgNums, has_aux: bool
    ) -> None:
        self.f = f
        recording = is_grad_enabled()
        self.places, self.single = _places(f, args, argnums)
        chosen = [args[i] for i in self.places]
        self.arguments = chosen[0] if self.single else tuple(chosen)
        self.inputs: list[Tensor] = []
        lifted = [x if i in self.places else _as_tensors(x) for i, x in enumerate(args)]
        kwargs = {name: _as_tensors(x) for name, x in kwargs.items()}
        with enable_grad():
            for i in self.places:
                own = [_lift(path, leaf, recording) for path, leaf in flatten(args[i], _parameter(f, i))]
                self.inputs += own
                lifted[i] = fill(args[i], own)
            try:
                result = f(*lifted, **kwargs)
            finally:
                for x in self.inputs:
                    if isinstance(x, _Input):
                        x.active = False
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise OptionError(
                    f"with has_aux, {_name(f)} must return (result, aux), got {type(result).__name__}.\n"
                    f"Return such a pair, or leave has_aux out."
                )
            result, self.aux = result
        self.result = map_leaves(lambda x: _as_result(f, x), result)
        self.outputs: list[Tensor] = leaves(self.result)
        self.connected = recording and self._reaches_outside()

    def _reaches_outside(self) -> bool:
        """Return whether the outputs depend on outside tensors that require a gradient."""
        if any(x.node is not None for x in self.inputs):
            return True
        stack = [producer(x.node) if x.node is not None else x for x in self.outputs if x.requires_grad]
        seen = set(stack)
        while stack:
            thing = stack.pop()
            if isinstance(thing, Tensor):
                if not isinstance(thing, _Input) or thing.active:
                    return True
                continue
            for edge in thing.edges:
                before = producer(edge)
                if requires_grad(edge) and before not in seen:
                    seen.add(before)
                    stack.append(before)
        return False

    def reverse(
        self, pairs: Sequence[tuple[Tensor, Tensor]], create_graph: bool, retain: bool
    ) -> list[Tensor | None]:
        """Return the gradients of the inputs for (output, cotangent) pairs, with None for 0."""
        pairs = [(y, v) for y, v in pairs if y.requires_grad]
        if not pairs or not self.inputs:
            return [None] * len(self.inputs)
        ys, vs = zip(*pairs, strict=True)
        return list(
            autograd.grad(ys, self.inputs, vs, retain or create_graph, create_graph, allow_unused=True)
        )

    def pull(self, cotangents: list[Tensor], retain: bool) -> Any:
        """Return the gradients in the arguments' structure.

        They can be differentiated again if outside tensors or cotangents require a gradient.
        """
        create_graph = self.connected or (is_grad_enabled() and any(v.requires_grad for v in cotangents))
        pairs = list(zip(self.outputs, cotangents, strict=True))
        return _fill_zeros(self.arguments, self.inputs, self.reverse(pairs, create_graph, retain))

    def rows(self, out: Tensor) -> Any:
        """Return the Jacobian of one output, in the arguments' structure, by a backward pass per element."""
        found = []
        for index in np.ndindex(out.shape):
            one = zeros_like(out)
            one.array[index] = 1
            found.append(self.reverse([(out, one)], self.connected, retain=True))
        blocks = []
        for k, x in enumerate(self.inputs):
            zero = zeros_like(x)
            column = [zero if row[k] is None else row[k] for row in found]
            shape = (*out.shape, *x.shape)
            blocks.append(
                stack(column).reshape(shape) if column else zeros(shape, dtype=x.dtype, device=x.device)
            )
        return fill(self.arguments, blocks)

    def outside(self, tree: Any) -> Any:
        """Return a tree for the caller, whose tensors are detached unless outputs depend on outside ones."""
        return (
            tree if self.connected else map_leaves(lambda x: x.detach() if isinstance(x, Tensor) else x, tree)
        )


def _fill_zeros(tree: Any, like: Sequence[Tensor], values: Sequence[Tensor | None]) -> Any:
    """Return the tree with `values` at its leaves, with zeros for None."""
    return fill(
        tree, [zeros_like(x) if value is None else value for x, value in zip(like, values, strict=True)]
    )


# ---------------------------------------------------------------- checks of arguments and results


def _places(f: Callable, args: Sequence[Any], argnums: ArgNums) -> tuple[list[int], bool]:
    """Return the numbers of the arguments to differentiate, and whether `argnums` is a single number."""
    single = isinstance(argnums, int | np.integer)
    places = []
    for i in [argnums] if single else argnums:  # type: ignore[union-attr]
        if not isinstance(i, int | np.integer):
            raise OptionError(f"argnums must be integers, got {i!r}.\nPass 0 for the first argument.")
        if not -len(args) <= i < len(args):
            raise OptionError(
                f"argnums={i} is out of range: {_name(f)} got {len(args)} positional arguments.\n"
                f"Arguments count from 0; keyword arguments cannot be differentiated."
            )
        places.append(int(i) % len(args))
    if len(set(places)) < len(places):
        raise OptionError(f"argnums {tuple(argnums)} contain an argument twice.\nPass each once.")  # type: ignore
    return places, single


def _as_tensors(tree: Any) -> Any:
    """Convert the arrays in an argument that is not differentiated to tensors."""
    tree = map_leaves(from_other_library, tree)
    return map_leaves(lambda x: as_tensor(x) if isinstance(x, np.ndarray) else x, tree)


def _lift(path: str, leaf: Any, recording: bool) -> Tensor:
    """Return a new tensor with the values of `leaf`, to differentiate with respect to.

    Raise a DtypeError if they are not floating-point numbers.
    """
    leaf = from_other_library(leaf)
    floating = isinstance(leaf, float) or (hasattr(leaf, "dtype") and is_floating(leaf.dtype))
    if not floating:
        kind = f"{leaf.dtype}" if hasattr(leaf, "dtype") else type(leaf).__name__
        raise DtypeError(
            f"{path} is {kind}, but only floating-point numbers have derivatives.\n"
            f"Convert it, or leave its argument out of argnums."
        )
    x = as_tensor(leaf)
    if x.requires_grad and recording:
        return alias(x)
    own = _Input(x.array, requires_grad=True)
    own.version = version_of(x)
    own.active = True
    return own


def _as_result(f: Callable, x: Any) -> Tensor:
    """Check one leaf of the result of `f`, and return it as a tensor."""
    if isinstance(x, float | np.ndarray | np.generic):
        x = as_tensor(x)
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = f"{x.dtype}" if isinstance(x, Tensor) else type(x).__name__
        raise DtypeError(
            f"{_name(f)} returned {kind}, but only floating-point tensors have derivatives.\n"
            f"Return other results as aux, with has_aux=True."
        )
    return x


def _check_leaves(kind: str, values: Any, tree: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the leaves of `values`. Raise a ShapeError unless it has the structure and shapes of `tree`."""
    if structure(values) != structure(tree):
        raise ShapeError(
            f"the {kind}s have the structure {structure(values)}, expected {structure(tree)}.\n"
            f"Pass one {kind} for each tensor, in the same nested structure."
        )
    found = []
    for (path, leaf), x in zip(flatten(values, kind), tensors, strict=True):
        v = as_tensor(leaf)
        if v.shape != x.shape:
            raise ShapeError(f"{path} has shape {v.shape}, expected {x.shape}.\nPass one of that shape.")
        found.append(v.to(x.dtype))
    return found


def _arguments(values: Any) -> tuple:
    """Return a tuple of arguments; a value other than a tuple or list is a single argument."""
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _parameter(f: Callable, i: int) -> str:
    """Return the name of argument number `i` of `f`."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return named[i].name if i < len(named) else f"argument {i}"


def _name(f: Callable) -> str:
    return getattr(f, "__qualname__", type(f).__name__)


check_all(globals(), __all__)
