"""Runs of a step, captured and not, that must agree in every bit."""

import contextlib
import dataclasses
import json
from importlib.util import find_spec

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels, nn, optim
from minigrad.core.devices import on_cpu
from minigrad.io import by_path
from minitransformer import GPT, GPTConfig, TrainConfig, Trainer, Transformer, TransformerConfig
from minitransformer.layers.lora import add_lora
from minitransformer.tasks import LanguageModelling, Translation
from minitransformer.text.tokenizer import Tokenizer
from tests.slow.standin import cublas, emulator
from tests.tiny import PAIRS, TEXT


@contextlib.contextmanager
def our_kernels(gpu):
    """A GPU, or the stand-in for one, with our kernels and cuBLAS."""
    with contextlib.ExitStack() as stack:
        if gpu == "standin":
            if not emulator.compiler():
                pytest.skip("there is neither a GPU nor a C++ compiler (g++, clang++) on this machine")
            stack.enter_context(cublas.installed())
        elif not find_spec("nvmath"):
            pytest.skip("products can be captured with nvmath-python only")
        mg.tensor(0.0, device="cuda")
        stack.enter_context(kernels.use("cuda"))
        yield "cuda"


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.3), nn.Linear(8, 3))


def batches(model, number):
    """NumPy arrays, as a data loader gives them."""
    rng = np.random.default_rng(0)
    for _ in range(number):
        if isinstance(model, GPT):
            ids = rng.integers(0, 11, (2, 7))
            yield ids[:, :-1], ids[:, 1:]
        else:
            yield rng.normal(size=(5, 4)).astype(np.float32), rng.integers(0, 3, 5)


def as_numpy(state):
    """A state's arrays, wherever they are, as NumPy's."""
    bare = lambda x: x.array if isinstance(x, mg.Tensor) else x
    return {name: np.asarray(on_cpu(bare(x))) for name, x in by_path(state)}


class Run:
    """A training; what a captured one must agree with in every bit."""

    def __init__(self, device, make, captured, adam=optim.AdamW, dtype=None, schedule=True, **options):
        mg.manual_seed(3)
        self.device = device
        self.model = make().to(self.device)
        self.optimizer = adam(self.model.parameters(), lr=0.02, **options)
        cycle = {"cycle_momentum": bool(self.optimizer.defaults.keys() & {"betas", "momentum"})}
        self.scheduler = (
            optim.lr_scheduler.OneCycleLR(self.optimizer, 0.02, 20, **cycle) if schedule else None
        )
        self.autocast = mg.autocast(dtype=dtype or "bfloat16", enabled=dtype is not None)
        self.step = mg.capture(self.plain_step, self.device) if captured else self.plain_step
        self.seen = []

    def plain_step(self, x, y):
        self.optimizer.zero_grad()
        with self.autocast:
            logits = self.model(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, -2), y.reshape(-1), label_smoothing=0.1)
        loss.backward()
        norm = optim.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return {"loss": loss, "norm": norm}

    def go(self, steps, set_step=True):
        for i, (x, y) in enumerate(batches(self.model, steps)):
            if set_step:
                mg.random.set_step(i + 1)
            found = (
                self.step(mg.tensor(x), mg.tensor(y))
                if isinstance(self.step, mg.capture)
                else self.step(mg.tensor(x, device=self.device), mg.tensor(y, device=self.device))
            )
            self.seen.append([found["loss"].item(), found["norm"].item()])
        return self


def assert_same(one, other):
    """Two runs are one in every bit."""
    assert one.seen == other.seen
    for a, b in ((one.model, other.model), (one.optimizer, other.optimizer)):
        a, b = as_numpy(a.state_dict()), as_numpy(b.state_dict())
        assert a.keys() == b.keys()
        for name, value in a.items():
            np.testing.assert_array_equal(b[name], value, err_msg=name)
    for p, q in zip(one.model.parameters(), other.model.parameters(), strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), q.grad.numpy())
    if one.scheduler is not None:
        assert one.scheduler.state_dict() == other.scheduler.state_dict()


def assert_captured_is_plain(device, run):
    """`run(wrap)` gives all that it sees; `wrap` makes a step of a function, captured or not."""
    plain, captured = (str(run(wrap)) for wrap in (lambda f: f, lambda f: mg.capture(f, device)))
    assert plain == captured


def training(device, folder, capture, kind, **settings):
    mg.manual_seed(0)
    config = dataclasses.replace(
        TrainConfig(steps=8, warmup_steps=2, log_every=2, validate_every=4, checkpoint_every=4), **settings
    )
    if kind == "text":
        tokenizer = Tokenizer.train_char([TEXT])
        data = LanguageModelling.Data(block_size=6, batch_size=4)
        task = LanguageModelling(data, TEXT, TEXT[:60], tokenizer, seed=0)
        model = GPT(GPTConfig(tokenizer.vocab_size, 6, 8, 1, 2))
    else:
        tokenizer = Tokenizer.train_word([side for pair in PAIRS for side in pair])
        data = Translation.Data(max_tokens=64, max_length=64)
        task = Translation(data, PAIRS, PAIRS[:2], tokenizer, seed=0)
        model = Transformer(TransformerConfig(tokenizer.vocab_size, 8, 2, 16, 1, 1, 0.1))
    if config.lora_rank:
        add_lora(model, config.lora_rank, config.lora_alpha, config.lora_targets)
    return Trainer(model.to(device), task, config, folder, step_runner=mg.capture if capture else None)


def logged(trainer):
    lines = (trainer.folder / "log.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "tokens_per_second"} for line in lines]


def assert_trained_alike(one, other):
    ours, theirs = (as_numpy(trainer.model.state_dict()) for trainer in (one, other))
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value, err_msg=name)
    assert logged(one)[-1] == logged(other)[-1]
    last, same = ([entry for entry in logged(trainer) if "nll_loss" in entry][-1] for trainer in (one, other))
    assert last == same
    assert last["nll_loss"] != last["loss"]
