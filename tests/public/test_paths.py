"""What depends on where files lie: the library's own files, its kernels, and modules named by strings."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
import minitransformer
from minigrad import nn, optim
from minigrad.core.frames import is_library, where
from minigrad.core.registry import registry
from minigrad.core.user_rules import is_users
from minigrad.nn import functional as F
from minitransformer.models import MODELS, model_class
from minitransformer.runs.machine import kernels_of
from minitransformer.tasks import TASKS, Translation, task_class
from tests.kernel_sets import BOTH

LIBRARY = Path(mg.__file__).parent


def test_files_of_the_library_are_known_and_no_others():
    assert all(is_library[str(path)] for path in LIBRARY.rglob("*.py"))
    others = [__file__, minitransformer.__file__, np.__file__, f"{LIBRARY}_of_mine/ops.py", "<stdin>"]
    assert not any(is_library[file] for file in others)


LAYER = nn.Linear(2, 2)
CALLS = {
    "operator": lambda x: x * x,
    "in place": lambda x: (x * 1).add_(1),
    "method": lambda x: x.softmax(-1),
    "breadth": lambda x: x.logcumsumexp(-1),
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


@pytest.mark.needs("breadth")
def test_rules_of_the_library_are_not_a_users():
    ours = [record for record in registry.values() if record.source.__module__.startswith("mini")]
    assert len(ours) > 400
    assert not [record.name for record in ours if is_users(record.source)]
    assert is_users(CALLS["operator"])


def test_an_optimizer_of_ones_own_loads_the_state_of_the_librarys():
    parameter = nn.Parameter(mg.zeros(2))
    kind = type("Mine", (optim.AdamW,), {})
    parameter.grad = mg.ones(2)
    saved = optim.AdamW([parameter])
    saved.step()
    kind([parameter]).load_state_dict(saved.state_dict())
    with pytest.raises(mg.StateError, match="SGD"):
        optim.SGD([parameter]).load_state_dict(saved.state_dict())


@pytest.mark.parametrize("name", BOTH)
def test_the_name_of_the_kernels_in_use_is_known(name):
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


@pytest.mark.needs("breadth")
def test_families_of_ops_named_by_strings_exist():
    from minigrad.graph.jacobians import ELEMENTWISE

    families = {record.source.__module__.removeprefix("minigrad.") for record in registry.values()}
    assert set(ELEMENTWISE) <= families


def test_modules_named_by_strings_exist():
    for name in (name for name, at in MODELS.items() if isinstance(at, str)):  # others are of other tests
        assert model_class(name).__module__.startswith("minitransformer.models.")


def test_validations_of_the_packages_tasks_have_a_loss():
    class Mine(Translation):
        def score(self, model, examples):
            return {"mine": 1.0}

    has_loss = lambda kind: kind.has_loss.fget(kind.__new__(kind))
    assert all(has_loss(task_class(name)) for name in TASKS)
    assert not has_loss(Mine)


MOVED = {  # former modules, and public names of each
    "attention": "MultiHeadAttention multi_head_attention split_heads",
    "cache": "Cache KeyValueCache LayerCache beams_as_queries",
    "config": "Config TrainConfig check_config check_heads head_sizes PRECISIONS",
    "embeddings": "LearnedPositions SinusoidalPositions TokenEmbedding positional_encoding",
    "heads": "multi_head_attention split_heads",
    "inspection.card": "Card make_card",
    "inspection.charts": "chart",
    "inspection.checks": "Outcome Skip check_run",
    "inspection.diagnostics": "Diagnostics draw",
    "kernels": "attend_to_views",
    "layers": "ACTIVATIONS Decoder DecoderLayer Encoder EncoderDecoderModel FeedForward LayerConfig",
    "layouts": "BERT_TOKENS SPECIAL_TOKENS join_words make_backend sentinels",
    "masks": "causal_mask combine from_blocked key_mask padding_mask resolve_mask",
    "positions": "ALiBi RelativePositionBias rotary SCHEMES",
    "recording": "ablate_heads attention_entropy attention_weights logit_lens record_attention",
    "tokenizers": "Tokenizer TokenizerError",
    "training.curves": "CURVES draw_curves",
    "training.environment": "describe_machine describe_versions kernels_of rounding_differences",
    "training.evaluations": "About Evaluation METRICS read",
    "training.folder": "Record RunError begin lock new_record read_config read_record read_tokenizer",
    "training.init_from": "Source initialize",
    "training.memory": "check_memory per_parameter",
    "training.readme": "facts is_ours write_readme",
    "training.repetition": "Original",
    "training.run": "Run known_runs load_splits record_of",
    "training.summaries": "evaluation_line length_of metrics_of run_facts run_line",
    "training.validation": "LiveRun Validation",
}

NEEDS = {
    "inspection.card": ["inspection", "debug"],  # it measures memory
    "inspection.charts": ["inspection", "cli"],
    "inspection.checks": ["inspection"],
    "inspection.diagnostics": ["inspection", "plots"],
    "recording": ["inspection"],
    "training.curves": ["plots"],
    "training.readme": ["cli"],
}
PATHS = [
    pytest.param(path, marks=pytest.mark.needs(*NEEDS[path])) if path in NEEDS else path for path in MOVED
]


@pytest.mark.parametrize("path", PATHS)
def test_a_former_module_has_its_names(path):
    module = import_module(f"minitransformer.{path}")
    for name in MOVED[path].split():
        found = getattr(module, name)
        if isinstance(home := getattr(found, "__module__", None), str):
            assert getattr(import_module(home), found.__name__) is found
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_former_modules_are_imported_by_each_statement(request):
    absent = set(request.config.getoption("--without").split(","))
    program = ""
    for path in MOVED:
        package, _, name = f"minitransformer.{path}".rpartition(".")
        if absent.isdisjoint(NEEDS.get(path, [])):
            program += f"""
import minitransformer.{path}
import minitransformer.{path} as one
from {package} import {name} as other
assert one is other is minitransformer.{path}
from minitransformer.{path} import *
from minitransformer.{path} import {MOVED[path].split()[0]}
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_former_modules_import_nothing_until_they_are_asked():
    program = """
import sys, minitransformer, minitransformer.attention, minitransformer.config
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
