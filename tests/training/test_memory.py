"""Memory that cannot be had: said before it is asked for, with the size."""

import tracemalloc
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad.core import devices
from minigrad.nn.shapes import parameter_shapes
from minigrad.ops import allocation
from minitransformer import GPT, GPTConfig, Tokenizer, Trainer, Transformer, TransformerConfig
from minitransformer.errors import UserError
from minitransformer.models.t5 import T5, T5Config
from minitransformer.recipes import load_recipe, names
from minitransformer.runs.memory_needed import check_memory
from minitransformer.tasks import LanguageModelling

MANY = 10**12
HUGE = 10**400


@pytest.mark.parametrize(
    "create",
    [
        mg.zeros, mg.ones, mg.empty, mg.rand, mg.randn, mg.randperm,
        lambda n: mg.full((n,), 1.0), lambda n: mg.eye(3, n), lambda n: mg.randint(0, 5, (n,)),
        lambda n: mg.linspace(0, 1, n), lambda n: mg.logspace(0, 1, n),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n", [MANY, HUGE], ids=["many", "huge"])
def test_out_of_memory_error_states_the_tensor_size(create, n):
    with pytest.raises(mg.OutOfMemoryError, match=r"needs .*B, .*B are available") as caught:
        create(n)
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, mg.MinigradError)


@pytest.mark.parametrize("create", [mg.zeros_like, mg.ones_like, mg.empty_like, mg.rand_like, mg.randn_like])
def test_like_functions_check_memory_for_expanded_tensors(create):
    with pytest.raises(mg.OutOfMemoryError, match="4 TB"):
        create(mg.zeros(1).expand(MANY))


def test_a_range_too_large_for_memory_is_an_error():
    for arguments in ((MANY,), (0, 1, 1e-15)):
        with pytest.raises(mg.OutOfMemoryError, match=r"needs 8 [TP]B"):
            mg.arange(*arguments)


@pytest.mark.parametrize(
    "create",
    [
        lambda: mg.arange(HUGE), lambda: mg.arange(0, 10, HUGE), lambda: mg.full((2,), HUGE),
        lambda: mg.linspace(0, HUGE, 5), lambda: mg.logspace(0, HUGE, 5),
    ],
)  # fmt: skip
def test_integers_beyond_64_bits_are_errors(create):
    with pytest.raises(mg.OptionError, match="1329 bits"):
        create()


@pytest.mark.parametrize("step", [1e-320, float("nan"), float("inf")])
def test_arange_with_an_invalid_step_is_an_error(step):
    with pytest.raises(mg.OptionError, match="no finite length"):
        mg.arange(0.0, 1.0, step)


def test_arange_length_is_exact_for_large_integers():
    start = 2**62
    assert mg.arange(start, start + 5).tolist() == [start + i for i in range(5)]
    assert len(mg.arange(0, 2**60 + 1, 2**59)) == 3


def test_numpy_memory_errors_become_out_of_memory_errors(monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(np, "zeros", fail)
    with pytest.raises(mg.OutOfMemoryError, match=r"shape \(2, 3\) and dtype float32 needs 24 B"):
        mg.zeros(2, 3)


def test_gpu_memory_errors_become_out_of_memory_errors(gpu, monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(devices.find_backend("cuda").load(), "ones", fail)
    with pytest.raises(mg.OutOfMemoryError, match="needs 24 B on cuda:0"):
        mg.ones(2, 3, device="cuda")


def test_tensors_too_large_are_rejected_before_allocation(monkeypatch):
    monkeypatch.setattr(allocation, "SMALL", 1000)
    monkeypatch.setattr(allocation, "available_memory", lambda: 4000)
    assert mg.zeros(1000).shape == (1000,)
    with pytest.raises(mg.OutOfMemoryError, match=r"needs 4 kB, 4 kB are available"):
        mg.zeros(1001)
    with pytest.raises(mg.OutOfMemoryError, match="float64 needs 8 kB"):  # the numbers are drawn in float64
        mg.rand(1000)


@pytest.mark.parametrize(
    ("controllers", "top", "limit", "usage", "cache"),
    [
        ("0::", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("4:cpu,memory:", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file"),
    ],
)  # fmt: skip
def test_memory_limits_of_all_parent_cgroups_apply(tmp_path, controllers, top, limit, usage, cache):
    job = tmp_path / top / "slurm" / "job"
    job.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"9:pids:/x\n{controllers}/slurm/job\n")
    for folder, most, used in ((job, "max", 10), (job.parent, 1000, 300)):
        (folder / limit).write_text(f"{most}\n")
        (folder / usage).write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 5\n{cache} 100\n")
    assert list(allocation.cgroup_memory(tmp_path)) == [800]
    assert list(allocation.cgroup_memory(tmp_path / "elsewhere")) == []


def test_sizes_are_formatted_in_powers_of_1000():
    said = {0: "0 B", 999: "999 B", 1500: "1.5 kB", 999_600: "1 MB", 4_400_000_000_000: "4.4 TB"}
    said |= {10**20: "100 EB", HUGE: "more than 1,000 EB"}
    assert {n: allocation.format_bytes(n) for n in said} == said


# ---------------------------------------------------------------- of a recipe


SMALL_GPT = GPTConfig(30, n_positions=64, n_embd=16, n_layer=2, n_head=2)
SIZES = {"vocab_size": 30, "d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 1}
SMALL_MODELS = [
    lambda: GPT(SMALL_GPT),
    lambda: Transformer(TransformerConfig(**SIZES)),
    lambda: Transformer(TransformerConfig(**SIZES, positions="learned", norm_first=True)),
]


@pytest.mark.parametrize("build", SMALL_MODELS)
def test_parameter_shapes_match_the_built_model(build):
    assert parameter_shapes(build) == [tuple(p.shape) for p in build().parameters()]


def test_t5_initializes_parameters_only_with_init_functions(monkeypatch):
    """What writes past them takes memory where only the shapes are asked for."""

    def read_only(array, shape):
        return np.broadcast_to(np.zeros(1, array.dtype), shape)

    monkeypatch.setattr("minigrad.nn.shapes._broadcast_zero", read_only)
    config = T5Config(vocab_size=32, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    assert (24, 8) in parameter_shapes(lambda: T5(config))


def tokenizer_of(vocab_size):
    return SimpleNamespace(vocab_size=vocab_size, pad_id=0, start_id=2, end_id=3, prefix=[])


def with_settings(recipe, **settings):
    """The recipe with other settings, in whichever of its parts they are."""
    parts = {}
    for part in ("data", "model", "training"):
        names = settings.keys() & asdict(getattr(recipe, part)).keys()
        parts[part] = replace(getattr(recipe, part), **{name: settings[name] for name in names})
    return replace(recipe, **parts)


@pytest.mark.parametrize(
    ("recipe", "settings", "vocab_size", "flag"),
    [
        ("phrasebook", {"d_model": 100_000}, 995, "--d-model 100000"),
        ("phrasebook", {"positions": "learned", "max_positions": 10**12}, 995, "--max-positions 10"),
        ("phrasebook", {"d_model": 10**18, "num_heads": 1}, 995, "--d-model 10"),
        ("phrasebook", {}, 2**62, f"--vocab-size {2**62}"),
        ("shakespeare-char", {"n_embd": 600_000}, 65, "--n-embd 600000"),
        ("shakespeare-char", {"n_positions": 10**10}, 65, "--n-positions 10000000000"),
        ("shakespeare-char", {"batch_size": 10**12, "micro_batches": 10**12}, 65, "--batch-size 10"),
    ],
)  # fmt: skip
def test_memory_check_names_the_flag_and_the_size(recipe, settings, vocab_size, flag):
    recipe = with_settings(load_recipe(recipe), **settings)
    with pytest.raises(UserError, match=r"needs at least .*B of memory for .*B are available") as caught:
        check_memory(recipe, tokenizer_of(vocab_size))
    assert str(caught.value).startswith(flag)
    assert str(caught.value).splitlines()[1].startswith(f"Lower {flag.split()[0]}")


def test_evaluation_needs_memory_only_for_the_weights(monkeypatch):
    recipe = load_recipe("phrasebook")
    weights = 4 * Transformer(replace(recipe.model, vocab_size=995)).num_parameters()
    monkeypatch.setattr("minitransformer.runs.memory_needed.available_memory", lambda: weights)
    check_memory(recipe, tokenizer_of(995), training=False)
    check_memory(recipe, tokenizer_of(995), device="cuda:0")
    with pytest.raises(UserError, match="weights, gradients"):
        check_memory(recipe, tokenizer_of(995))
    with pytest.raises(UserError, match="memory for its weights, "):
        check_memory(recipe, tokenizer_of(996), training=False)


@pytest.mark.parametrize("name", names())
def test_the_recipes_fit_into_two_gigabytes(name, monkeypatch):
    monkeypatch.setattr("minitransformer.runs.memory_needed.available_memory", lambda: 2 * 10**9)
    check_memory(load_recipe(name), tokenizer_of(100 if "char" in name else 8000), ["label"])


@pytest.mark.parametrize("micro_batches", [1, 4])
@pytest.mark.slow
def test_training_memory_is_at_least_the_estimate(micro_batches, monkeypatch):
    recipe = with_settings(load_recipe("shakespeare-char-cpu"), batch_size=32, micro_batches=micro_batches)
    text = "".join(map(chr, range(97, 123))) * 20
    tokenizer = Tokenizer.train_char([text])
    config = replace(recipe.model, vocab_size=tokenizer.vocab_size)
    tracemalloc.start()
    try:
        task = LanguageModelling(recipe.data, text, text, tokenizer)
        trainer = Trainer(GPT(config), task, recipe.training, "unused")
        trainer.train_step()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    monkeypatch.setattr("minitransformer.runs.memory_needed.available_memory", lambda: peak)
    check_memory(recipe, tokenizer)
    monkeypatch.setattr("minitransformer.runs.memory_needed.available_memory", lambda: peak // 3)
    with pytest.raises(UserError):
        check_memory(recipe, tokenizer)
