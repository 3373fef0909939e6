"""Optimizers, models, recipes, the trainer and the command line on a GPU or on the stand-in for one."""

import dataclasses
import json

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core import devices
from minigrad.core.devices import check_device
from minitransformer import (
    GPT,
    GPTConfig,
    Llama,
    LlamaConfig,
    TrainConfig,
    Transformer,
    TransformerConfig,
    generate,
)  # fmt: skip
from minitransformer.data.splits import Sources
from minitransformer.models.protocol import model_class
from minitransformer.recipes import load_recipe
from minitransformer.tasks import Translation, task_class
from minitransformer.tasks.base import first_rows
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.training.trainer import Trainer
from tests.tiny import PAIRS, TINY, TINY_GPT

# ---------------------------------------------------------------- learning


def twin(make):
    """The same module on the CPU and on the GPU."""
    modules = []
    for device in ("cpu", "cuda"):
        mg.manual_seed(3)
        modules.append(make().double().to(device))
    return modules


OPTIMIZERS = [
    lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    lambda params: optim.Adam(params, lr=0.1, weight_decay=0.01),
    lambda params: optim.AdamW(params, lr=0.1),
    lambda params: optim.AdamW(params, lr=0.1, amsgrad=True, maximize=True),
    lambda params: optim.RMSprop(params, lr=0.01, momentum=0.9, centered=True, eps=0.1),
    lambda params: optim.Adagrad(params, lr=0.1, lr_decay=0.1),
    lambda params: optim.Adadelta(params),
    lambda params: optim.Adamax(params, weight_decay=0.1),
    lambda params: optim.NAdam(params, lr=0.1),
    lambda params: optim.RAdam(params, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    lambda params: optim.Muon([p for p in params if p.ndim == 2], lr=0.1),
]


def step(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optim.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("norm_type", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_clipping_non_finite_gradients_matches_the_cpu(gpu, dtype, norm_type, bad):
    found = []
    for device in ("cpu", "cuda"):
        parameters = [mg.zeros(n, dtype=dtype, device=device, requires_grad=True) for n in (2, 1)]
        for p, g in zip(parameters, ([3.0, 4.0], [bad]), strict=True):
            p.grad = mg.tensor(g, dtype=dtype, device=device)
        total = nn.utils.get_total_norm([p.grad for p in parameters], norm_type)
        assert total.device == parameters[0].device
        nn.utils.clip_grads_with_norm_(parameters[:1], 1.0, total)
        norm = nn.utils.clip_grad_norm_(parameters, 1.0, norm_type)
        found.append([norm.item(), total.item(), *(x for p in parameters for x in p.grad.tolist())])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", OPTIMIZERS)
def test_optimizer_steps_match_and_resume_across_devices(gpu, make, dtype):
    layers = lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    models = [model.to(dtype) for model in twin(layers)]
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(dtype)
    optimizers = [make(model.parameters()) for model in models]
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    for _ in range(3):
        here, there = (step(*pair, mg.as_tensor(x, device=pair[0][0].weight.device))
                       for pair in zip(models, optimizers, strict=True))  # fmt: skip
        assert here == pytest.approx(there, rel=tolerance)
    for source, target in ((0, 1), (1, 0)):  # states move between devices
        models[target].load_state_dict(models[source].state_dict())
        again = make(models[target].parameters())
        again.load_state_dict(optimizers[source].state_dict())
        for state in again.state.values():
            assert all(a.ndim == 0 or devices.device_of(a) == models[target][0].weight.device
                       for a in state.values())  # fmt: skip
        before = {name: p.clone() for name, p in models[source].state_dict().items()}
        losses = [step(models[i], o, mg.as_tensor(x, device=models[i][0].weight.device))
                  for i, o in ((source, optimizers[source]), (target, again))]  # fmt: skip
        assert losses[0] == pytest.approx(losses[1], rel=tolerance)
        for (name, p), q in zip(models[0].state_dict().items(), models[1].parameters(), strict=True):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=tolerance, atol=tolerance)
            is_left = isinstance(again, optim.Muon) and p.ndim == 1  # Muon is of matrices
            assert np.array_equal(before[name].numpy(), p.numpy()) == is_left


def test_files_are_saved_from_and_loaded_to_either_device(gpu, tmp_path):
    model = nn.BatchNorm1d(3).to("cuda")
    model(mg.randn(4, 3, device="cuda"))
    mg.save_file(model.state_dict(), tmp_path / "model.safetensors")
    here, there = (mg.load_file(tmp_path / "model.safetensors", device) for device in (None, "cuda"))
    for name, value in model.state_dict().items():
        assert (here[name].device, there[name].device, value.device) == ("cpu", "cuda:0", "cuda:0")
        np.testing.assert_array_equal(here[name].numpy(), value.numpy())
        np.testing.assert_array_equal(there[name].numpy(), value.numpy())
    other = nn.BatchNorm1d(3)
    other.load_state_dict(there)
    assert other.running_mean.device == "cpu"


IDS = np.array([[4, 5, 6, 0], [7, 8, 9, 10]])
TARGET = np.array([[2, 5, 6], [2, 9, 9]])
MODELS = {
    "Transformer": (
        lambda: Transformer(TransformerConfig(11, 8, 2, 16, 1, 2, 0.1, attention_dropout=0.2)),
        (IDS, TARGET),
    ),
    "learned positions, pre-norm": (
        lambda: Transformer(TransformerConfig(11, 8, 2, 16, 1, 1, 0.0, norm_first=True, positions="learned")),
        (IDS[:, 1:], TARGET),
    ),
    "GPT": (lambda: GPT(GPTConfig(11, 8, 8, 2, 2)), (IDS,)),
    "Llama, grouped queries": (lambda: Llama(LlamaConfig(11, 8, 12, 1, 4, 2)), (IDS,)),
    "T5's bias, RMSNorm": (
        lambda: Transformer(TransformerConfig(11, 8, 2, 16, 1, 1, 0.0, positions="t5", norm="rms_norm")),
        (IDS[:, 1:], TARGET),
    ),
    "ALiBi": (
        lambda: GPT(GPTConfig(11, 8, 8, 1, 2, positions="alibi", activation_function="swiglu")),
        (IDS,),
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fused", [True, False])
def test_models_learn_as_on_the_cpu(gpu, name, fused):
    make, inputs = MODELS[name]
    (losses, states), (others, ours) = (learned(model, inputs, fused) for model in twin(make))
    assert losses == pytest.approx(others, rel=1e-12)
    for name, value in states.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-9, atol=1e-10)


def learned(model, inputs, fused):
    """The losses of two steps of training, and the weights then."""
    mg.manual_seed(5)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(2):
        with mg.fused(fused):
            logits = model(*inputs)
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1), inputs[-1].reshape(-1), ignore_index=0, label_smoothing=0.1
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: p.numpy() for name, p in model.state_dict().items()}


@pytest.mark.parametrize("name", ["Transformer", "GPT"])
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 5, "seed": 1}, {"num_beams": 3}])
def test_generation_matches_the_cpu(gpu, name, use_cache, options):
    texts = [
        generate(model, [[4, 5, 6], [7, 8]], 6, use_cache=use_cache, **options)
        for model in twin(MODELS[name][0])
    ]
    assert texts[0] == texts[1]


def test_the_generation_cache_accepts_several_tokens_at_once(gpu):
    texts = []
    for model in twin(MODELS["GPT"][0]):
        model.eval()
        cache = model.new_cache()
        with mg.no_grad():
            model.states(np.array([[4, 5]]), cache)
            texts.append(model.states(np.array([[6, 7, 8]]), cache).numpy())
    np.testing.assert_allclose(*texts, rtol=1e-10, atol=1e-12)


RECIPES = ["bert-answers", "bert-classify", "bert-mlm", "bert-similar", "bert-tag", "brackets", "reverse"]


@pytest.mark.parametrize("name", RECIPES)
def test_the_first_step_of_a_recipe_matches_the_cpu(gpu, name):
    recipe = load_recipe(name)
    kind = task_class(recipe.task)
    splits = kind.splits(recipe.data, Sources(None))
    tokenizer = kind.train_tokenizer(recipe.data, getattr(recipe.model, "vocab_size", 0), splits)
    splits = kind.filter(recipe.data, tokenizer, splits)
    labels = kind.labels(recipe.data, splits)
    task = kind.build(recipe, tokenizer, splits, labels)
    model = model_class(recipe.model_type)(kind.model_config(recipe.model, tokenizer, labels)).to("cuda")
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    batch = first_rows(task, task.batch(0), 4)

    def step():
        loss = task.loss(model, batch, recipe.training.label_smoothing) / batch.n_tokens
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    report = mg.shadow(step)
    assert report, report
    assert report.operations > 20
    assert report.updates


# ---------------------------------------------------------------- the trainer and the command line


def trainer(folder, device):
    tokenizer = Tokenizer.train_word([side for pair in PAIRS for side in pair])
    config = TrainConfig(steps=4, warmup_steps=2, checkpoint_every=2, validate_every=2, log_every=1)
    mg.manual_seed(0)
    model = Transformer(TransformerConfig(tokenizer.vocab_size, 8, 2, 16, 1, 1, 0.2, attention_dropout=0.2))
    task = Translation(Translation.Data(max_tokens=64, max_length=64), PAIRS, PAIRS[:3], tokenizer, seed=0)
    return Trainer(model.double().to(device), task, config, folder)


def weights(trainer):
    return {name: p.numpy() for name, p in trainer.model.state_dict().items()}


def test_a_run_is_the_same_on_either_device(gpu, tmp_path):
    runs = {device: trainer(tmp_path / device, device) for device in ("cpu", "cuda")}
    for run in runs.values():
        run.train()
    for name, value in weights(runs["cpu"]).items():
        np.testing.assert_allclose(weights(runs["cuda"])[name], value, rtol=1e-6, atol=1e-8)
    for device, other in (("cpu", "cuda"), ("cuda", "cpu")):
        again = trainer(tmp_path / device, other)
        assert again.resume()
        again.config = dataclasses.replace(again.config, steps=6)
        again.train()
        assert {p.device for p in again.model.parameters()} == {check_device(other)}
        runs[f"{device}, then {other}"] = again
    one, two = (weights(runs[name]) for name in ("cpu, then cuda", "cuda, then cpu"))
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-6, atol=1e-8)


def test_commands_accept_a_device(gpu, cli):
    text = {}
    for device in ("cpu", "auto"):
        said = [cli("generate", "play", "--prompt", "ROMEO", "--max-new-tokens", "20", "--device", device),
                cli("translate", "mine", "I love you", "--device", device),
                cli("evaluate", "mine", "--data", "pairs.tsv", "--json", "--device", device)]  # fmt: skip
        assert [code for code, *_ in said] == [0, 0, 0], said
        text[device] = [out for _, out, _ in said[:2]]
        scores = json.loads(said[2][1])
        assert scores["loss"] == pytest.approx(text.setdefault("loss", scores["loss"]), rel=1e-5)
    assert text["cpu"] == text["auto"]
    assert cli("graph", "mine", "I love you", "-o", "graph.html", "--device", "cuda")[0] == 0
    for recipe, data, flags in (
        ("phrasebook", "pairs.tsv", TINY),
        ("shakespeare-char", "text.txt", TINY_GPT),
    ):
        code, _, err = cli("train", recipe, "--data", data, "--run-dir", "there", "--overwrite",
                           *flags, "--device", "cuda")  # fmt: skip
        assert code == 0, err
        assert "on cuda:0" in err
