"""minigrad's functions for the entries of PyTorch's databases of samples, and a test problem."""

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

# entries whose function takes its arguments in another order than the function of that name
SPELLINGS = {
    "einsum": lambda operands, equation: mg.einsum(equation, *operands),
    "linalg.pinv": lambda x, other=None, **settings: mg.linalg.pinv(
        x if other is None else x @ other.mT, **settings
    ),
    "__rdiv__": lambda x, y: x.__rtruediv__(y),
    "T": lambda x: x.T,
    "linalg.diagonal": lambda x, **axes: mg.diagonal(x, **({"dim1": -2, "dim2": -1} | axes)),
    "mT": lambda x: x.mT,
    "slice": lambda x, dim=0, start=None, end=None, step=1: x[
        (slice(None),) * dim + (slice(start, end, step),)
    ],
    "nn.functional.embedding": lambda weight, ids, **settings: F.embedding(ids, weight, **settings),
    "nn.functional.triplet_margin_with_distance_loss":  # the samples' distance is our default one
    lambda *args, distance_function, **rest: F.triplet_margin_with_distance_loss(*args, **rest),
    "polygamma": lambda x, n: mg.polygamma(n, x),
    "special.polygamma": lambda x, n: mg.polygamma(n, x),
    "to": lambda x, *where, **settings: x.to(*[t for t in where if not isinstance(t, bool)], **settings),
    "where": lambda x, condition, other: mg.where(condition, x, other),
}

# the argument of which only a triangle counts, where PyTorch gives the other one a gradient too
TRIANGULAR = {"cholesky_inverse": 0, "cholesky_solve": 1}

STEPS = 6
SHAPES = [(3, 4), (4, 2), (2, 3)]
IN_GROUP = {"lr": 0.03, "weight_decay": 0.02}  # options of the second group


def ours_of(name):
    """Our function of a database entry, or None."""
    name = name.split("/")[0]
    if name in SPELLINGS:
        return SPELLINGS[name]
    *path, last = name.split(".")
    namespace = {(): mg, ("nn", "functional"): F, ("linalg",): getattr(mg, "linalg", None),
                 ("special",): getattr(mg, "special", None)}.get(tuple(path))  # fmt: skip
    found = getattr(namespace, last, None)
    if not callable(found) and not path:  # mg.float is a dtype
        found = getattr(mg.Tensor, last, None)
    return found if callable(found) else None


def on_valid_matrices(function, name, symmetric):
    """`function` as PyTorch checks it: of a symmetric matrix, or of the triangle that counts."""
    place = TRIANGULAR.get(name)

    def call(*args, **kwargs):
        args = list(args)
        if symmetric:
            args[0] = args[0] + args[0].mT
        if place is not None:
            args[place] = args[place].triu() if kwargs.get("upper") else args[place].tril()
        return function(*args, **kwargs)

    return call


def flat(result, kind):
    """The tensors of a result, in order."""
    if isinstance(result, list | tuple) and not isinstance(result, kind):
        return [leaf for item in result for leaf in flat(item, kind)]
    return [result]


def cotangents(outs, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(0.5, 1.5, tuple(out.shape))) for out in outs]


def trained(library, name, settings, groups, needs_closure):
    """The parameters and losses of some steps on a least-squares problem; in one, a gradient is missing."""
    rng = np.random.default_rng(0)
    tensor = lambda *shape: library.tensor(rng.normal(size=shape))
    parameters = [tensor(*shape).requires_grad_() for shape in SHAPES]
    x = tensor(5, 3)
    y = tensor(5, 3)
    bias = library.tensor(0.1)
    given = parameters
    if groups:
        options = {key: value for key, value in IN_GROUP.items() if key not in settings}
        given = [{"params": parameters[:2]}, {"params": parameters[2:], **options}]
    optimizer = getattr(library.optim, name)(given, **settings)
    losses = []
    for step in range(STEPS):

        def closure(step=step):
            optimizer.zero_grad()
            a, b, c = parameters
            out = x @ a @ b @ c if step != 2 else x @ a @ b @ c.detach()  # c then has no gradient
            loss = ((out - y) ** 2).mean() + bias
            (-loss if settings.get("maximize") else loss).backward()
            return loss

        if needs_closure:
            losses.append(optimizer.step(closure))
        else:
            losses.append(closure())
            optimizer.step()
    return [*parameters, *losses]
