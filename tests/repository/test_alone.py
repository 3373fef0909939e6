"""minigrad/core, and core with ops, copied alone into an empty folder, where only NumPy and ml_dtypes are."""

import shutil
import subprocess
import sys
from pathlib import Path

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
import minigrad as mg

x = mg.tensor([1.0, 2.0], requires_grad=True)
y = mg.tensor([3.0, 4.0], requires_grad=True)
z = (2 * x - y) / x + -y * x - 1
z.backward(mg.tensor([1.0, 1.0]))
assert x.grad.tolist() == [3 / 1 - 3, 4 / 4 - 4], x.grad
assert y.grad.tolist() == [-1 / 1 - 1, -1 / 2 - 2], y.grad

row = mg.tensor([[1.0, 2.0]], requires_grad=True)  # a second derivative goes through broadcasting twice
column = mg.tensor([[1.0], [4.0]], requires_grad=True)
(row * row / column).backward(mg.tensor([[1.0, 1.0], [1.0, 1.0]]), create_graph=True)
assert row.grad.tolist() == [[2.5, 5]]
first = row.grad
row.grad = column.grad = None
first.clone().backward(mg.tensor([[1.0, 1.0]]))  # d/d column of 2 row / column
assert row.grad.tolist() == [[2.5, 2.5]]
assert column.grad.tolist() == [[-6], [-6 / 16]]
assert not {name for name in sys.modules if name.startswith("minigrad.") and ".core" not in name}
"""

OPS = """
import numpy as np
import minigrad as mg

rng = np.random.default_rng(0)
points = rng.normal(size=(400, 2)).astype(np.float32)
labels = (points[:, 0] * points[:, 1] > 0).astype(int)  # as XOR
W1, b1, W2 = (mg.tensor(rng.normal(size=n).astype(np.float32), requires_grad=True)
              for n in ((2, 32), (32,), (32, 2)))

def logits(x):
    return (mg.tensor(x) @ W1 + b1).relu() @ W2

for step in range(300):
    loss = -(logits(points).log_softmax(-1) * mg.one_hot(mg.tensor(labels), 2)).sum() / 400
    loss.backward()
    with mg.no_grad():
        for w in (W1, b1, W2):
            w -= 0.3 * w.grad
            w.grad = None
accuracy = (logits(points).argmax(-1).numpy() == labels).mean()
assert accuracy > 0.9, accuracy
y = W1 * W1
with mg.no_grad():
    W1 += 1
try:
    y.sum().backward()
except mg.GraphError as error:
    print(error)
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


def test_core_alone_computes_and_backpropagates(tmp_path):
    assembly = "from .core.tensor import tensor\nfrom .core import methods\n"
    run_alone(tmp_path, ["core"], assembly, ARITHMETIC)


def test_core_and_ops_alone_learn_to_classify(tmp_path):
    assembly = """
from .core.errors import GraphError
from .core.modes import no_grad
from .core.tensor import tensor
from .ops import *
"""
    said = run_alone(tmp_path, ["core", "ops"], assembly, OPS)
    assert "changed" in said or "modified" in said
