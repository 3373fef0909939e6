"""Sums of products over named or numbered axes: einsum, tensordot, and chains of matrices.

All are composed of permutations, reshapes and matrix products, so they need no derivatives here.
"""

from __future__ import annotations

import math
import string
from functools import lru_cache
from typing import Any

from ..core.argument_checks import is_integer
from ..core.error_context import describe
from ..core.errors import ArgumentError, OptionError, ShapeError
from ..core.half import round_once
from ..core.op import derived
from ..core.tensor import as_tensor
from ..ops.axes import axis_of
from ..ops.linalg import matmul
from ..ops.samplers import cases, real
from .diagonals import diagonal
from .matrix_products import mm

__family__ = "matrix"
__all__ = ["chain_matmul", "einsum", "inner", "kron", "tensordot"]


# ---------------------------------------------------------------- einsum


@derived(
    exact_in_half=True,
    samples=cases("ij,jk->ik", (real, 2, 3), (real, 3, 4))
    | cases("bhqd,bhkd->bhqk", (real, 2, 2, 2, 3), (real, 2, 2, 4, 3))
    | cases("ii->i", (real, 3, 3))
    | cases("iij,jk", (real, 2, 2, 3), (real, 3, 2))
    | cases("...ij,...j->...i", (real, 2, 1, 2, 3), (real, 4, 3))
    | cases("i,j,k->kji", (real, 2), (real, 3), (real, 2))
    | cases("ij->", (real, 2, 3))
    | cases("bi,bi->b", (real, 2, 3), (real, 2, 3)),
)
def einsum(equation, *operands):
    """Sum products of elements over the axes that are not in the output (Einstein summation).

    "ij,jk->ik" names the axes of each operand and of the output. Without "->" the output has, in alphabetical
    order, the letters that occur once. A letter that occurs twice in one operand takes its diagonal; "..."
    stands for all axes without a letter. Axes of length 1 broadcast. Operands are contracted in pairs, from
    left to right. Axes may also be numbered: einsum(x, [0, 1], y, [1, 2], [0, 2]).

    >>> queries, keys = mg.ones(2, 5, 8), mg.ones(2, 7, 8)
    >>> mg.einsum("bqd,bkd->bqk", queries, keys).shape
    (2, 5, 7)
    """
    if operands and not isinstance(equation, str) and isinstance(operands[0], list | tuple):
        equation, operands = _with_letters(equation, *operands)
    elif len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if not isinstance(equation, str):
        raise OptionError(
            f"einsum's equation must be a string, got {describe(equation)}.\n"
            f'Pass letters for the axes: "ij,jk->ik".'
        )
    tensors = [as_tensor(x) for x in operands]
    terms, output = _parse(equation, tuple(x.ndim for x in tensors))
    _check_sizes(equation, terms, [x.shape for x in tensors])
    return (_contract if len(tensors) == 1 else _contract_several)(tensors, terms, output)


LETTERS: dict[Any, str] = dict(enumerate(string.ascii_uppercase + string.ascii_lowercase)) | {...: "..."}


def _with_letters(*arguments):
    """Return the equation and the operands for operands that are each followed by a list of axis numbers."""
    *pairs, output = arguments if len(arguments) % 2 else (*arguments, None)
    terms = []
    is_axis = lambda i: (i is ... or is_integer(i)) and i in LETTERS
    for axes in [*pairs[1::2], output]:
        if axes is not None and not (isinstance(axes, list | tuple) and all(map(is_axis, axes))):
            raise OptionError(
                f"einsum's axes must be lists of numbers from 0 to 51, or ..., got {describe(axes)}.\n"
                f"Pass a list after each operand: einsum(x, [0, 1], y, [1, 2], [0, 2])."
            )
        terms.append("".join(LETTERS[i] for i in axes or ()))
    *left, right = terms
    return ",".join(left) + ("" if output is None else f"->{right}"), tuple(pairs[::2])


def _contract(tensors, terms, output):
    """Contract the operands in pairs, from left to right."""
    value, axes = _reduce_operand(tensors[0], terms[0], _axes_needed_after(terms, 1, output))
    for i in range(1, len(tensors)):
        other, others = _reduce_operand(
            tensors[i], terms[i], {*axes, *_axes_needed_after(terms, i + 1, output)}
        )
        value, axes = _contract_pair(value, axes, other, others, _axes_needed_after(terms, i + 1, output))
    order = [axes.index(a) for a in output]
    return value if order == sorted(order) else value.permute(*order)


_contract_several = round_once(_contract, products=True)


def _axes_needed_after(terms, i, output):
    """The axes that are still needed after the first i operands are contracted."""
    return {*output, *(axis for term in terms[i:] for axis in term)}


@lru_cache(maxsize=1024)
def _parse(equation, ndims):
    """Return the axes of each operand and of the output: letters, and for "..." numbers from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    for character in left.replace(",", "").replace("...", "") + right.replace("...", ""):
        if not (character.isascii() and character.isalpha()):
            raise OptionError(
                f'einsum "{equation}": {character!r} is not a letter.\nName axes a to z, A to Z, or "...".'
            )
    if len(operands) != len(ndims):
        raise OptionError(
            f'einsum "{equation}" expects {len(operands)} operands, got {len(ndims)}.\n'
            f"Pass an operand for each group of axes between commas."
        )
    terms = [_axes(equation, text, ndim) for text, ndim in zip(operands, ndims, strict=True)]
    unnamed = sorted({a for term in terms for a in term if isinstance(a, int)})
    letters = left.replace(",", "").replace("...", "")
    if not arrow:
        return terms, unnamed + sorted(a for a in set(letters) if letters.count(a) == 1)
    before, dots, behind = right.partition("...")
    for axis in before + behind:
        if axis not in letters:
            raise OptionError(
                f'einsum "{equation}": output axis {axis!r} is not in any operand.\n'
                f"Remove it, or name it in an operand."
            )
        if right.count(axis) > 1:
            raise OptionError(f'einsum "{equation}": output axis {axis!r} is repeated.\nName it once.')
    return terms, [*before, *(unnamed if dots else ()), *behind]


def _axes(equation, text, ndim):
    """The axes of one operand."""
    before, dots, behind = text.partition("...")
    if "." in behind:
        raise OptionError(
            f'einsum "{equation}": "{text}" has "..." twice.\nWrite it once: it stands for all other axes.'
        )
    unnamed = ndim - len(before) - len(behind)
    if unnamed < 0 or (unnamed and not dots):
        raise ShapeError(
            f'einsum "{equation}": "{text}" names {len(before) + len(behind)} axes of a tensor with {ndim}.\n'
            f'Name each axis, or write "..." for the others.'
        )
    return [*before, *range(-unnamed, 0), *behind]


def _check_sizes(equation, terms, shapes):
    """Raise a ShapeError unless the axes of each letter match: equal lengths, or 1 in another operand."""
    sizes: dict = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict = {}
        for axis, n in zip(term, shape, strict=True):
            known = own.get(axis, sizes.get(axis, n))
            if n != known and (axis in own or 1 not in (n, known)):
                name = f"axis {axis!r}" if isinstance(axis, str) else f'axis {axis} of "..."'
                raise ShapeError(
                    f'einsum "{equation}": {name} has lengths {known} and {n}.\n'
                    f"Pass equal lengths; the shapes are {', '.join(map(str, shapes))}."
                )
            own[axis] = n
            sizes[axis] = n if known == 1 else known


def _sum(x, axes, keepdim=False):
    """Sum in the dtype of x, like a matrix product."""
    return x.sum(axes, keepdim, None if x.dtype == bool else x.dtype)


def _reduce_operand(x, axes, needed):
    """Reduce one operand to its distinct, needed axes by diagonals and sums."""
    axes = list(axes)
    while len(set(axes)) < len(axes):
        i = next(i for i, a in enumerate(axes) if a in axes[i + 1 :])
        j = axes.index(axes[i], i + 1)
        x = diagonal(x, 0, i, j)
        axes = [a for k, a in enumerate(axes) if k not in (i, j)] + [axes[i]]
    summed = [i for i, a in enumerate(axes) if a not in needed]
    return (x.sum(summed) if summed else x), [a for a in axes if a in needed]


def _contract_pair(x, x_axes, y, y_axes, needed):
    """Multiply two operands, and sum over the axes that are no longer needed."""
    common = [a for a in x_axes if a in y_axes]
    for a in common:  # an axis of length 1 broadcasts: sum the other operand
        i = x_axes.index(a)
        j = y_axes.index(a)
        if a not in needed and x.shape[i] != y.shape[j]:
            x, y = _sum(x, i, True), _sum(y, j, True)
    batch = [a for a in common if a in needed]
    summed = [a for a in common if a not in needed]
    rows = [a for a in x_axes if a not in common]
    columns = [a for a in y_axes if a not in common]
    x = _permute_to(x, x_axes, batch + rows + summed)
    y = _permute_to(y, y_axes, batch + (summed + columns if rows or columns else summed))
    n, r = len(batch), len(rows)
    x_shape, y_shape = tuple(x.shape), tuple(y.shape)
    if not summed:
        return x.reshape(*x_shape, *(1,) * len(columns)) * y.reshape(*y_shape[:n], *(1,) * r, *y_shape[n:]), (
            batch + rows + columns
        )
    if batch and not rows and not columns:
        return _sum(x * y, tuple(range(n, x.ndim))), batch
    k = math.prod(x_shape[n + r :])
    x = _align_axes(x, (*x_shape[:n], math.prod(x_shape[n : n + r]), k))
    y = _align_axes(y, (*y_shape[:n], k, math.prod(y_shape[n + len(summed) :])))
    product = matmul(x, y)
    shape = (*product.shape[:n], *x_shape[n : n + r], *y_shape[n + len(summed) :])
    return _align_axes(product, shape), batch + rows + columns


def _permute_to(x, axes, order):
    places = [axes.index(a) for a in order]
    return x if places == list(range(x.ndim)) else x.permute(*places)


def _align_axes(x, shape):
    return x if x.shape == shape else x.reshape(shape)


# ---------------------------------------------------------------- over numbered axes


@derived(
    exact_in_half="gpu",
    samples=cases((real, 2, 3, 2), (real, 3, 2, 4))
    | cases((real, 2, 3), (real, 4, 2, 3), dims=([0, 1], [1, 2]))
    | cases((real, 2), (real, 3), dims=0),
)
def tensordot(a, b, dims=2):
    """Sum products over pairs of axes: the last `dims` axes of a and the first of b, or two lists of axes."""
    a, b = as_tensor(a), as_tensor(b)
    if not isinstance(dims, int | tuple | list):
        raise ArgumentError(
            f"dims must be an integer or two lists of axes, got {describe(dims)}.\nThe default is 2."
        )
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"dims={dims} is more axes than shapes {a.shape} and {b.shape} have.\nPass a smaller number."
            )
        dims = range(a.ndim - dims, a.ndim), range(dims)
    if len(dims) != 2:
        raise OptionError(
            f"dims must be an integer or two lists of axes, got a list of length {len(dims)}.\nPass two."
        )
    pairs = [(axis_of(i, a.ndim), axis_of(j, b.ndim)) for i, j in zip(*dims, strict=True)]
    if any(len(set(axes)) < len(pairs) for axes in zip(*pairs, strict=True)):
        raise ShapeError(f"an axis is repeated in dims={dims}.\nName each axis once.")
    for i, j in pairs:
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise ShapeError(
                f"axis {i} of a has length {a.shape[i]}, but axis {j} of b has length {b.shape[j]}.\n"
                f"Axes that are summed together must have equal lengths."
            )
    of_a = list(range(a.ndim))
    of_b = list(range(a.ndim, a.ndim + b.ndim))
    for i, j in pairs:
        of_b[j] = of_a[i]
    summed = {i for i, _ in pairs}
    return _contract_pair(a, of_a, b, of_b, {axis for axis in of_a + of_b if axis not in summed})[0]


@derived(
    exact_in_half="gpu",
    samples=cases((real, 2, 3), (real, 4, 2, 3)) | cases((real, 3), (real, 3)) | cases((real,), (real, 2)),
)
def inner(x, y):
    """Sum x * y over the last axis of each, for every combination of their other axes."""
    x, y = as_tensor(x), as_tensor(y)
    return tensordot(x, y, ([-1], [-1])) if x.ndim and y.ndim else x * y


@derived(exact_in_half=True, samples=cases((real, 2, 3), (real, 3, 2)) | cases((real, 2), (real, 2, 1, 2)))
def kron(x, y):
    """Compute the Kronecker product: replace each element of x with that element times y."""
    x, y = as_tensor(x), as_tensor(y)
    axes = max(x.ndim, y.ndim)
    n, m = ((1,) * (axes - t.ndim) + tuple(t.shape) for t in (x, y))
    blocks = x.reshape([s for i in n for s in (i, 1)]) * y.reshape([s for i in m for s in (1, i)])
    return blocks.reshape([i * j for i, j in zip(n, m, strict=True)])


# ---------------------------------------------------------------- chains of matrices


@derived(
    exact_in_half="gpu",
    samples=cases([(real, 2, 3), (real, 3, 4), (real, 4, 2)]) | cases([(real, 3), (real, 3, 2), (real, 2)]),
)
def multi_dot(tensors):
    """Multiply several matrices in the order that needs the fewest multiplications.

    The first and the last may be vectors, taken as a row and a column.
    """
    tensors = [as_tensor(x) for x in tensors]
    if len(tensors) < 2:
        raise OptionError(f"multi_dot needs at least two tensors, got {len(tensors)}.\nPass a list of them.")
    row = tensors[0].ndim == 1
    column = tensors[-1].ndim == 1
    first = [tensors[0].unsqueeze(0)] if row else tensors[:1]
    last = [tensors[-1].unsqueeze(1)] if column else tensors[-1:]
    value = _multiply_chain(first + tensors[1:-1] + last)
    value = value.squeeze(0) if row else value
    return value.squeeze(-1) if column else value


@derived(exact_in_half="gpu", samples=cases((real, 2, 3), (real, 3, 4), (real, 4, 2)))
def chain_matmul(*matrices):
    """Multiply several matrices in the order that needs the fewest multiplications."""
    return as_tensor(matrices[0]) if len(matrices) == 1 else multi_dot(matrices)


def _multiply_chain(matrices):
    """Multiply in the cheapest order; cost[i, j] is that of matrices i to j (Cormen et al., section 15.2)."""
    n = len(matrices)
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[-1]]
    cost = {(i, i): 0 for i in range(n)}
    cut = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i, j):
        return matrices[i] if i == j else mm(product(i, cut[i, j]), product(cut[i, j] + 1, j))

    return product(0, n - 1)
