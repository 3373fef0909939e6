"""What depends on where files lie: the library's own files, its kernels, and modules named by strings."""

from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
import minitransformer
from minigrad import nn, optim
from minigrad.core.frames import is_library, where
from minigrad.core.registry import registry
from minigrad.core.user_rules import is_user_defined
from minigrad.nn import functional as F
from minitransformer.models import MODELS, model_class
from minitransformer.runs.machine import kernels_of
from minitransformer.tasks import TASKS, Translation, task_class
from tests.kernel_sets import BOTH

LIBRARY = Path(mg.__file__).parent


def test_is_library_recognizes_only_library_files():
    assert all(is_library[str(path)] for path in LIBRARY.rglob("*.py"))
    others = [__file__, minitransformer.__file__, np.__file__, f"{LIBRARY}_of_mine/ops.py", "<stdin>"]
    assert not any(is_library[file] for file in others)


LAYER = nn.Linear(2, 2)
CALLS = {
    "operator": lambda x: x * x,
    "in place": lambda x: (x * 1).add_(1),
    "method": lambda x: x.softmax(-1),
    "more": lambda x: x.acosh(),
    "torch's name": lambda x: mg.absolute(x),
    "functional": lambda x: F.gelu(x),
    "module": lambda x: LAYER(x),
    "loss": lambda x: F.mse_loss(x, mg.zeros(2, 2)),
    "linalg": lambda x: mg.linalg.norm(x),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_operation_is_recorded_at_the_users_line(call):
    result = call(mg.ones(2, 2, requires_grad=True))
    assert where(result.node.source).rpartition(":")[0] == __file__


def test_is_user_defined_is_false_for_library_ops():
    ours = [record for record in registry.values() if record.source.__module__.startswith("mini")]
    assert len(ours) > 400
    assert not [record.name for record in ours if is_user_defined(record.source)]
    assert is_user_defined(CALLS["operator"])


def test_user_optimizers_load_the_state_of_built_in_ones():
    parameter = nn.Parameter(mg.zeros(2))
    kind = type("Mine", (optim.AdamW,), {})
    parameter.grad = mg.ones(2)
    saved = optim.AdamW([parameter])
    saved.step()
    kind([parameter]).load_state_dict(saved.state_dict())
    with pytest.raises(mg.StateError, match="SGD"):
        optim.SGD([parameter]).load_state_dict(saved.state_dict())


@pytest.mark.parametrize("name", BOTH)
def test_kernels_of_returns_the_name_of_the_active_kernels(name):
    before = kernels_of("cpu")
    mg.kernels.use(name)
    try:
        assert kernels_of("cpu") == name
    finally:
        mg.kernels.use(before)


def test_cuda_sources_are_found():
    from minigrad.kernels.cuda.fused import launching

    names = sorted(path.stem for path in launching.SOURCES.glob("*.cu"))
    assert names
    assert all("__global__" in launching.code(name) for name in names)


def test_families_of_ops_named_by_strings_exist():
    from minigrad.graph.jacobians import ELEMENTWISE

    families = {record.source.__module__.removeprefix("minigrad.") for record in registry.values()}
    assert set(ELEMENTWISE) <= families


def test_modules_named_by_strings_exist():
    for name in (name for name, at in MODELS.items() if isinstance(at, str)):  # others are of other tests
        assert model_class(name).__module__.startswith("minitransformer.models.")


def test_validation_of_built_in_tasks_has_a_loss():
    class Mine(Translation):
        def score(self, model, examples):
            return {"mine": 1.0}

    has_loss = lambda kind: kind.has_loss.fget(kind.__new__(kind))
    assert all(has_loss(task_class(name)) for name in TASKS)
    assert not has_loss(Mine)
