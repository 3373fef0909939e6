"""Runs a script under PyTorch and minigrad: the same text but imports, the same weights and draws."""

from __future__ import annotations

import contextlib
import re
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in {"__init__", "__main__", "both"})


class Run(NamedTuple):
    """What a script's `train` gave, its model's final state, and the seconds that it took."""

    history: dict[str, list[Any]]
    state: dict[str, np.ndarray]
    seconds: float


def rewrite_imports(source: str) -> str:
    """`source` with minigrad in its import lines for torch; no other line is touched."""
    source = re.sub(r"^import torch$", "import minigrad as torch", source, flags=re.M)
    source = re.sub(r"^import torch\.", "import minigrad.", source, flags=re.M)
    return re.sub(r"^from torch\b", "from minigrad", source, flags=re.M)


def load(name: str, library: str) -> types.ModuleType:
    """The script as a module of `library`, "torch" or "minigrad"."""
    path = HERE / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    module = types.ModuleType(f"{name}_{library}")
    sys.modules[module.__name__] = module  # dataclasses look for their module
    code = compile(source if library == "torch" else rewrite_imports(source), str(path), "exec")
    exec(code, module.__dict__)
    return module


class Draws:
    """Functions that draw as a library's do, from NumPy's generator: the libraries have different ones."""

    def __init__(self, library: types.ModuleType, seed: int) -> None:
        self.library = library
        self.rng = np.random.default_rng(seed)

    def _tensor(self, values: Any, dtype: Any, requires_grad: bool = False) -> Any:
        return self.library.from_numpy(np.asarray(values)).to(dtype).requires_grad_(requires_grad)

    def _real(self, draw: Any, size: Any, dtype: Any, requires_grad: bool) -> Any:
        size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        return self._tensor(draw(size), dtype or self.library.float32, requires_grad)

    def randn(self, *size, dtype=None, device=None, requires_grad=False, generator=None):
        return self._real(self.rng.standard_normal, size, dtype, requires_grad)

    def rand(self, *size, dtype=None, device=None, requires_grad=False, generator=None):
        return self._real(self.rng.random, size, dtype, requires_grad)

    def randn_like(self, like, dtype=None, requires_grad=False):
        return self._real(self.rng.standard_normal, (tuple(like.shape),), dtype or like.dtype, requires_grad)

    def rand_like(self, like, dtype=None, requires_grad=False):
        return self._real(self.rng.random, (tuple(like.shape),), dtype or like.dtype, requires_grad)

    def randint(self, low, high=None, size=None, dtype=None, device=None, generator=None):
        if size is None:  # randint(high, size)
            low, high, size = 0, low, high
        return self._tensor(self.rng.integers(low, high, tuple(size)), dtype or self.library.int64)

    def randperm(self, n, dtype=None, device=None, generator=None):
        return self._tensor(self.rng.permutation(n), dtype or self.library.int64)

    def bernoulli(self, p, generator=None):
        return self._tensor(self.rng.random(tuple(p.shape)) < p.detach().numpy(), p.dtype)

    def multinomial(self, p, num_samples, replacement=False, generator=None):
        rows = np.atleast_2d(p.detach().numpy()).astype(np.float64)
        rows = rows / rows.sum(-1, keepdims=True)
        picks = [self.rng.choice(len(row), num_samples, replacement, row) for row in rows]
        return self._tensor(np.reshape(picks, (*p.shape[:-1], num_samples)), self.library.int64)

    def fill(self, draw: Any) -> Any:
        """A method of tensors that fills them with what `draw(rng, shape, ...)` gives."""

        def method(tensor, *settings, generator=None, **named):
            values = draw(self.rng, tuple(tensor.shape), *settings, **named)
            with self.library.no_grad():
                return tensor.copy_(self._tensor(values, tensor.dtype))

        return method


FUNCTIONS = ("randn", "rand", "randn_like", "rand_like", "randint", "randperm", "bernoulli", "multinomial")
METHODS = {
    "normal_": lambda rng, shape, mean=0.0, std=1.0: rng.normal(mean, std, shape),
    "uniform_": lambda rng, shape, a=0.0, b=1.0: rng.uniform(a, b, shape),
    "bernoulli_": lambda rng, shape, p=0.5: rng.random(shape) < p,
}


@contextlib.contextmanager
def same_draws(library: types.ModuleType, seed: int = 0) -> Iterator[None]:
    """Under it, what `library` draws comes from NumPy's generator. A name that it lacks stays missing."""
    draws = Draws(library, seed)
    new = {(library, name): getattr(draws, name) for name in FUNCTIONS}
    new |= {(library.Tensor, name): draws.fill(draw) for name, draw in METHODS.items()}
    data: Any = library.utils.data
    if hasattr(data, "RandomSampler"):  # PyTorch's draws one permutation more
        new[data.RandomSampler, "__iter__"] = lambda self: iter(
            draws.randperm(len(self.data_source)).tolist()
        )
        new[data.dataset, "randperm"] = draws.randperm  # random_split's
    else:
        new[data, "randperm"] = draws.randperm
    missing = object()
    before = {(owner, name): vars(owner).get(name, missing) for owner, name in new}
    for (owner, name), replacement in new.items():
        if hasattr(owner, name):
            setattr(owner, name, replacement)
    try:
        yield
    finally:
        for (owner, name), value in before.items():
            if value is not missing:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)


def as_arrays(state: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(value.detach().numpy()) for name, value in state.items()}


def run(
    name: str,
    library: str,
    dtype: str,
    steps: int,
    scale: int = 1,
    state: dict[str, np.ndarray] | None = None,
) -> Run:
    """Train the script's model for `steps`, from `state`, or without one from what `build` makes."""
    script = load(name, library)
    module = sys.modules[library]
    data = script.make_data(np.random.default_rng(0), scale)
    data = {key: x.astype(dtype) if x.dtype.kind == "f" else x for key, x in data.items()}
    with same_draws(module):
        model = script.build(scale).to(getattr(module, dtype))
    if state is not None:
        model.load_state_dict({key: module.from_numpy(np.array(x)) for key, x in state.items()})
    with same_draws(module, seed=1):
        start = time.perf_counter()
        history = script.train(model, data, steps)
        seconds = time.perf_counter() - start
    return Run(history, as_arrays(model.state_dict()), seconds)


def initial_state(name: str, dtype: str, scale: int = 1) -> dict[str, np.ndarray]:
    """The weights that PyTorch's `build` gives: both begin with them."""
    import torch

    with same_draws(torch):
        return as_arrays(load(name, "torch").build(scale).to(getattr(torch, dtype)).state_dict())


def largest_difference(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest difference of any series of numbers, relative to that series' largest number."""
    assert ours.keys() == theirs.keys(), (sorted(ours), sorted(theirs))
    worst = 0.0
    for key, expected in theirs.items():
        a = np.asarray(ours[key], np.float64)
        b = np.asarray(expected, np.float64)
        assert a.shape == b.shape, (key, a.shape, b.shape)
        assert np.isfinite(b).all(), key
        if b.size:
            worst = max(worst, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-6)))
    return worst
