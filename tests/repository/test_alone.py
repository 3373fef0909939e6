"""minigrad/core, and core with ops, copied alone into an empty folder, where only NumPy and ml_dtypes are."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

# nothing is imported but the standard library, NumPy, ml_dtypes, and what of minigrad is there
BLOCK = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        known = package in ALLOWED or package in sys.stdlib_module_names
        if not known and not package.startswith("_sysconfigdata"):  # a file of the standard library's
            raise ModuleNotFoundError(f"No module named {name!r}: it is blocked", name=name)

ALLOWED = {"minigrad", "numpy", "ml_dtypes"}
sys.meta_path.insert(0, Nothing())
"""

ARITHMETIC = """
import numpy as np
import minigrad as mg

x = mg.tensor([1.0, 2.0], requires_grad=True)
y = mg.tensor([3.0, 4.0], requires_grad=True)
z = (2 * x - y) / x + -y * x - 1
z.backward(mg.tensor([1.0, 1.0]))
assert x.grad.tolist() == [3 / 1 - 3, 4 / 4 - 4], x.grad
assert y.grad.tolist() == [-1 / 1 - 1, -1 / 2 - 2], y.grad

u = x.detach().requires_grad_()
(u + u).backward(mg.tensor([1.0, 1.0]))
assert u.grad.tolist() == [2, 2], u.grad

seen = []
v = mg.tensor(3.0, requires_grad=True)
square = v * v
square.retain_grad()
square.register_hook(seen.append)
square.backward(create_graph=True)
v.grad.backward()  # 2 v has the derivative 2, which is added
assert (seen[0].item(), square.grad.item(), v.grad.item()) == (1, 1, 8)

row = mg.tensor([[1.0, 2.0]], requires_grad=True)  # a second derivative goes through broadcasting twice
column = mg.tensor([[1.0], [3.0]], requires_grad=True)
(row * row / column).backward(mg.tensor([[1.0, 1.0], [1.0, 1.0]]), create_graph=True)
first = row.grad
assert np.allclose(first.numpy(), [[8 / 3, 16 / 3]])
row.grad = column.grad = None
first.clone().backward(mg.tensor([[1.0, 1.0]]))  # d/d column of 2 row / column
assert np.allclose(row.grad.numpy(), [[8 / 3, 8 / 3]])
assert np.allclose(column.grad.numpy(), [[-6], [-6 / 9]])
assert not {name for name in sys.modules if name.startswith("minigrad.") and ".core" not in name}
"""

OPS = """
import numpy as np
import minigrad as mg

data = np.load("digits.npz")
images, labels = data["images"].astype(np.float32), data["labels"]
classes = int(labels.max()) + 1
rng = np.random.default_rng(0)

def weights(rows, columns):
    return mg.tensor(rng.normal(0, rows**-0.5, (rows, columns)).astype(np.float32), requires_grad=True)

W1, W2 = weights(64, 32), weights(32, classes)

def logits(x):
    return (mg.tensor(x) @ W1).relu() @ W2

def loss_of(x, y):
    log_p = logits(x).log_softmax(-1)
    return -(log_p * mg.one_hot(mg.tensor(y), classes)).sum() / len(y)

for step in range(300):
    rows = rng.integers(0, len(images), 64)
    loss = loss_of(images[rows], labels[rows])
    loss.backward()
    with mg.no_grad():
        for w in (W1, W2):
            w -= 0.5 * w.grad
            w.grad = None
accuracy = (logits(images).argmax(-1).numpy() == labels).mean()
assert accuracy > 0.9, accuracy

# a second derivative, against finite differences of the first
x = mg.tensor(rng.normal(size=5), requires_grad=True)
f = lambda x: (x.exp() * x.softmax(-1)).sum()
direction = rng.normal(size=5)

def slope(x):
    x = mg.tensor(x, requires_grad=True)
    (g,) = mg.grad([f(x)], [x])
    return g.numpy()

(g,) = mg.grad([f(x)], [x], create_graph=True)
(g * mg.tensor(direction)).sum().backward()
eps = 1e-5
expected = (slope(x.numpy() + eps * direction) - slope(x.numpy() - eps * direction)) / (2 * eps)
np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6, atol=1e-8)

# what backward needs was changed
x = mg.tensor([1.0, 2.0])
w = mg.tensor([3.0, 4.0], requires_grad=True)
y = x * w
x += 1
try:
    y.sum().backward()
except mg.GraphError as error:
    print(error)
else:
    raise AssertionError("a changed input was not refused")
assert not {name for name in sys.modules if name.startswith("minigrad.") and not name.startswith(PARTS)}
"""


def run_alone(folder, parts, assembly, program):
    package = folder / "minigrad"
    package.mkdir()
    for part in parts:
        shutil.copytree(
            ROOT / "minigrad" / part, package / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    (package / "__init__.py").write_text(assembly, encoding="utf-8")
    found = tuple(f"minigrad.{part}" for part in parts)
    (folder / "program.py").write_text(f"{BLOCK}\nPARTS = {found!r}\n{program}", encoding="utf-8")
    done = subprocess.run([sys.executable, "-P", "program.py"], cwd=folder, env={"PYTHONPATH": str(folder)},
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def digits():
    """8x8 images: scikit-learn's digits, or, where that is not installed, noisy squares and crosses."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        rng = np.random.default_rng(0)
        square, cross = np.zeros((2, 8, 8))
        square[1:7, [1, 6]] = square[[1, 6], 1:7] = 1
        cross[range(8), range(8)] = cross[range(8), range(7, -1, -1)] = 1
        labels = rng.integers(0, 2, 400)
        images = np.stack([square, cross])[labels] + rng.normal(0, 0.5, (400, 8, 8))
        return images.reshape(400, 64), labels
    found = load_digits()
    return found.data / 16, found.target


def test_core_alone_computes_and_goes_back(tmp_path):
    assembly = "from .core.tensor import tensor\nfrom .core import methods\n"
    run_alone(tmp_path, ["core"], assembly, ARITHMETIC)


@pytest.mark.slow
def test_core_and_ops_alone_learn_digits(tmp_path):
    images, labels = digits()
    np.savez(tmp_path / "digits.npz", images=images, labels=labels)
    assembly = """
from .core.errors import GraphError
from .core.grad import grad
from .core.modes import no_grad
from .core.tensor import tensor
from .ops import *
"""
    said = run_alone(tmp_path, ["core", "ops"], assembly, OPS)
    assert "changed" in said or "modified" in said
