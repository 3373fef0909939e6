"""Does the loss fall from each size of model or data to the next larger one?"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F

from ...data.batching import IGNORE, pad_rows
from ...data.phrasebook import phrasebook
from ...models.gpt import GPT, GPTConfig
from ...text.tokenizer import Tokenizer
from ..claim import Rule, Trial, claim
from ..translating import size

WIDTHS = {"small": 8, "medium": 24, "large": 72}
AMOUNTS = {"little data": 300, "some data": 1500, "much data": 7500}
ARMS = (
    "small, little data", "large, little data",
    "large, some data",
    "small, much data", "medium, much data", "large, much data",
)  # fmt: skip

Rows = Sequence[Sequence[int]]


@cache
def english() -> tuple[Rows, Tokenizer]:
    """Return the different English sentences of the phrasebook as ids, and their tokenizer."""
    texts = list(dict.fromkeys(source for source, _ in phrasebook().train))
    tokenizer = Tokenizer.train_word(texts)
    return [tokenizer.encode(text) for text in texts], tokenizer


def split(rows: Rows, seed: int) -> list[Rows]:
    """Split sentences at random: 300 to choose the best step, 300 to measure, and the rest to train."""
    order = np.random.default_rng(seed).permutation(len(rows))
    return [[rows[i] for i in part] for part in np.split(order, (300, 600))]


def build(width: int, vocab_size: int) -> GPT:
    """Create a GPT with two layers."""
    return GPT(
        GPTConfig(
            vocab_size, n_positions=32, n_embd=width, n_layer=2, n_head=max(1, width // 16),
            embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0,
        )
    )  # fmt: skip


def loss_of(model: GPT, rows: Rows, end: int) -> mg.Tensor:
    """The mean loss per token of sentences, each of which begins and ends with the token `end`."""
    inputs = pad_rows([[end, *row] for row in rows], end)
    targets = pad_rows([[*row, end] for row in rows], IGNORE)
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.reshape(-1), ignore_index=IGNORE)


def train(
    model: GPT, rows: Rows, validation: Rows, held_out: Rows, end: int, rate: float, steps: int, seed: int
) -> tuple[float, float]:
    """Train. Return the held-out loss at the step of lowest validation loss, and that at the end.

    The best step comes before a model begins to memorize a small number of sentences.
    """
    random = np.random.default_rng(seed)
    optimizer = optim.AdamW(model.parameters(), lr=rate)
    looks = []
    for step in range(1, steps + 1):
        chosen = random.integers(len(rows), size=48)
        optimizer.param_groups[0]["lr"] = rate * min(1, 10 * step / steps) * (1 - (step - 1) / steps)
        optimizer.zero_grad()
        loss_of(model, [rows[i] for i in chosen], end).backward()
        optimizer.step()
        if step % max(1, steps // 10) == 0:
            with mg.no_grad():
                looks.append([loss_of(model, part, end).item() for part in (validation, held_out)])
    return min(looks)[1], looks[-1][1]


def rules() -> list[Rule]:
    """The rules that each arm's loss is at least 0.1 below the previous arm's."""
    made = []
    for part, arms in {
        "parameters, much data": ("small, much data", "medium, much data", "large, much data"),
        "parameters, little data": ("small, little data", "large, little data"),
        "data, large model": ("large, little data", "large, some data", "large, much data"),
        "data, small model": ("small, little data", "small, much data"),
    }.items():
        made += [Rule(f"{more}: loss", f"{less}: loss", by=0.1, part=part) for less, more in pairwise(arms)]
    return made


@claim(
    question="Do more parameters and more data lower the loss on new sentences?",
    says={
        "Transformers - Attention Is All You Need, Why Transformers Work So Well": "Architecture scales well "
        "with more data, more parameters, and more compute",
        "The Transformer architecture, Key Advantages of Transformer Architecture": "Transformers scale well "
        "to large models and datasets",
    },
    setting="A GPT of two layers, of width 8, 24 or 72 (small, medium, large), on 300, 1,500 or 7,500 "
    "English sentences of the phrasebook (little, some, much data), 300 steps of 48 sentences. Of ten "
    "evaluations during training, the one with the lowest loss on 300 other sentences counts; the loss that "
    "is compared is that on 300 more. Each step up has to lower it by 0.1 nats, a tenth of the perplexity.",
    measures={
        "loss": "held-out loss, nats per token, at the best of ten evaluations",
        "last": "held-out loss after the last step, nats per token",
        "parameters": "number of parameters",
    },
    arms=ARMS,
    rates=(3e-3, 1e-2, 3e-2),
    rules=rules(),
    unequal="their number is what the claim is about",
)
def loss_and_size(trial: Trial) -> Mapping[str, float]:
    rows, tokenizer = english()
    validation, held_out, rest = split(rows, trial.seed)
    width, amount = trial.arm.split(", ")
    mg.manual_seed(trial.seed)
    model = build(WIDTHS[width], tokenizer.vocab_size)
    best, last = train(
        model, rest[: AMOUNTS[amount]], validation, held_out, tokenizer.end_id, trial.rate, trial.steps(300),
        trial.seed,
    )  # fmt: skip
    return {"loss": best, "last": last, "parameters": size(model)}
