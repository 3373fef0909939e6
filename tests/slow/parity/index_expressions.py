"""Random index expressions beside PyTorch: what they read, what they write, and their gradients."""

from __future__ import annotations

import numpy as np
import torch

import minigrad as mg
from minigrad.core.errors import MinigradError

FORMS = ("tensor", "tensor", "list", "ndarray", "range", "number")


def random_item(rng, sizes, mistakes):
    """An item for the first of the `sizes`: in minigrad, in PyTorch, and of how many axes."""
    n = sizes[0] if sizes else 0
    kind = rng.choice(12 + mistakes)
    if kind == 0 or not sizes:
        return (None, None, 0) if rng.random() < 0.6 else (bool(rng.random() < 0.8),) * 2 + (0,)
    if kind <= 3 and n:
        i = int(rng.integers(-n, n))
        form = [lambda i: i, np.int64, mg.tensor, np.array][rng.choice([0, 0, 0, 1, 2, 3])]
        return form(i), torch.tensor(i) if form is mg.tensor else i, 1
    if kind <= 6:
        bounds = [None if rng.random() < 0.4 else int(rng.integers(-n - 1, n + 2)) for _ in range(2)]
        part = slice(*bounds, rng.choice([None, 1, 2, 3]))
        return part, part, 1
    if kind == 7:  # a mask, of one axis or of more
        axes = int(rng.integers(1, min(len(sizes), 3) + 1))
        mask = rng.random(sizes[:axes]) < 0.6
        if rng.random() < 0.1:
            mask = mask.astype(np.uint8)
        return mg.tensor(mask), torch.tensor(mask), axes
    if kind <= 11 and n:
        shape = (int(rng.choice([1, 2, 2])),) * int(rng.choice([1, 1, 2]))
        places = rng.integers(-n, n, shape)
        form = rng.choice(FORMS[:3])
        if form == "list" and places.ndim == 1:
            return places.tolist(), places.tolist(), 1
        return mg.tensor(places) if form == "tensor" else places, torch.tensor(places), 1
    wrong = [
        n + 1, -n - 2, slice(None, None, -1), [n], 1.5, np.ones(n + 1, bool), np.ones(2), "a", slice(0, 1.5),
    ][rng.integers(9)]  # fmt: skip
    return wrong, torch.tensor(wrong) if isinstance(wrong, np.ndarray) else wrong, 1


def random_index(rng, shape):
    """An index into this shape, as minigrad's and as PyTorch's users write it."""
    mistakes = int(rng.random() < 0.15)
    left = list(shape)
    ours = []
    theirs = []
    for _ in range(rng.integers(1, len(shape) + 3)):
        if rng.random() < 0.12 and Ellipsis not in [i for i in ours if type(i) is type(Ellipsis)]:
            keep = int(rng.integers(0, len(left) + 1))
            left = left[len(left) - keep :]
            ours = [*ours, Ellipsis]
            theirs = [*theirs, Ellipsis]
            continue
        mine, their, axes = random_item(rng, left, mistakes)
        left = left[axes:]
        ours = [*ours, mine]
        theirs = [*theirs, their]
    if len(ours) == 1 and rng.random() < 0.5:
        return ours[0], theirs[0]
    return tuple(ours), tuple(theirs)


def outcome(compute, refusals):
    """What it returns, or that it is refused."""
    try:
        return compute()
    except refusals as error:
        return f"refused: {error}"


def difference(seed):
    """How reading, writing or a gradient at a random index differs from PyTorch's; None where they agree."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5, 3, 0], rng.integers(0, 5)))
    values = rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float64)
    ours, theirs = random_index(rng, shape)
    shown = f"x of shape {shape}, x[{theirs}]"
    x = mg.tensor(values, requires_grad=True)
    t = torch.tensor(values, requires_grad=True)
    y = outcome(lambda: x[ours], MinigradError)
    z = outcome(lambda: t[theirs], (IndexError, ValueError, TypeError, RuntimeError))
    if isinstance(y, str) or isinstance(z, str):
        result = z if isinstance(y, str) else y
        # where there is nothing to choose, each overlooks some wrong places
        return None if isinstance(result, str) or not result.numel() else f"{shown}: {y}, PyTorch {z}"
    if y.shape != z.shape or not np.array_equal(y.numpy(), z.detach().numpy()):
        return f"{shown}: {y.shape}, PyTorch {tuple(z.shape)}"
    weights = rng.normal(size=y.shape)
    (y * mg.tensor(weights)).sum().backward()
    (z * torch.tensor(weights)).sum().backward()
    if not np.allclose(x.grad.numpy(), t.grad.numpy()):
        return f"{shown}: another gradient"
    # writing: of places that are named twice the order is not defined, so they get one number
    unique = len(np.unique(z.detach())) == z.numel()
    value = rng.normal(size=y.shape if unique else ())
    u = mg.tensor(value, requires_grad=unique)
    v = torch.tensor(value, requires_grad=unique)
    y = x * 2
    z = t * 2
    try:
        z[theirs] = v
    except RuntimeError as error:  # PyTorch reads by uint8, and writes by it in part
        return None if "unsigned char" in str(error) else f"{shown} = ...: PyTorch {error}"
    y[ours] = u
    if not np.array_equal(y.numpy(), z.detach().numpy()):
        return f"{shown} = ...: another result"
    (y * y).sum().backward()
    (z * z).sum().backward()
    pairs = [(x, t)] if v.grad is None else [(x, t), (u, v)]  # PyTorch leaves out what has no elements
    same = all(np.allclose(ours.grad.numpy(), theirs.grad.numpy()) for ours, theirs in pairs)
    return None if same else f"{shown} = ...: another gradient"
