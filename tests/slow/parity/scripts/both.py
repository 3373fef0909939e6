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

    def __init__(self, library: types.ModuleType) -> None:
        self.library = library
        self.rng = np.random.default_rng(1)

    def _tensor(self, values: Any, dtype: Any) -> Any:
        return self.library.from_numpy(np.asarray(values)).to(dtype)

    def randn(self, *size, dtype=None, device=None):
        size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        return self._tensor(self.rng.standard_normal(size), dtype or self.library.float32)

    def randn_like(self, like):
        return self._tensor(self.rng.standard_normal(tuple(like.shape)), like.dtype)

    def randint(self, high, size):
        return self._tensor(self.rng.integers(0, high, tuple(size)), self.library.int64)

    def randperm(self, n, generator=None):
        return self._tensor(self.rng.permutation(n), self.library.int64)

    def multinomial(self, p, num_samples):
        rows = np.atleast_2d(p.detach().numpy()).astype(np.float64)
        rows = rows / rows.sum(-1, keepdims=True)
        picks = [self.rng.choice(len(row), num_samples, False, row) for row in rows]
        return self._tensor(np.reshape(picks, (*p.shape[:-1], num_samples)), self.library.int64)


@contextlib.contextmanager
def same_draws(library: types.ModuleType) -> Iterator[None]:
    """Within it, what `library` draws comes from NumPy's generator."""
    draws = Draws(library)
    names = ("randn", "randn_like", "randint", "randperm", "multinomial")
    new = {(library, name): getattr(draws, name) for name in names}
    data: Any = library.utils.data
    if hasattr(data, "RandomSampler"):  # PyTorch's draws one permutation more
        new[data.RandomSampler, "__iter__"] = lambda self: iter(
            draws.randperm(len(self.data_source)).tolist()
        )
        new[data.dataset, "randperm"] = draws.randperm  # random_split's
    else:
        new[data, "randperm"] = draws.randperm
    before = {(owner, name): getattr(owner, name) for owner, name in new}
    for (owner, name), replacement in new.items():
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)


def as_arrays(state: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(value.detach().numpy()) for name, value in state.items()}


def run(name: str, library: str, dtype: str, steps: int, state: dict[str, np.ndarray], scale: int = 1) -> Run:
    """Train the script's model for `steps`, from `state`."""
    script = load(name, library)
    module = sys.modules[library]
    data = script.make_data(np.random.default_rng(0), scale)
    data = {key: x.astype(dtype) if x.dtype.kind == "f" else x for key, x in data.items()}
    model = script.build(scale).to(getattr(module, dtype))
    model.load_state_dict({key: module.from_numpy(np.array(x)) for key, x in state.items()})
    with same_draws(module):
        start = time.perf_counter()
        history = script.train(model, data, steps)
        seconds = time.perf_counter() - start
    return Run(history, as_arrays(model.state_dict()), seconds)


def initial_state(name: str, dtype: str, scale: int = 1) -> dict[str, np.ndarray]:
    """The weights that PyTorch's `build` gives: both begin with them."""
    import torch

    torch.manual_seed(2)
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
