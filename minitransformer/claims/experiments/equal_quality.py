"""Does a Transformer reach the quality of a recurrent translator in less training time?"""

import time
from collections.abc import Callable, Mapping

import numpy as np

import minigrad as mg
from minigrad import nn, optim

from ...data.batching import collate
from ...models.seq2seq import Seq2Seq, Seq2SeqConfig
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, sentences, size, token_loss, translator

GOAL = 1.0  # the held-out loss to reach, in nats per token
STEPS = 800  # the most training steps
EVERY = 20  # steps between two evaluations of the held-out loss


def recurrent(data: Sentences, attention: str, width: int) -> Seq2Seq:
    """Create a GRU encoder-decoder, whose encoder reads from left to right."""
    return Seq2Seq(
        Seq2SeqConfig(
            data.tokenizer.vocab_size, embedding_dim=64, hidden_size=width, attention=attention,
            bidirectional=False, dropout=0.0,
        )
    )  # fmt: skip


# translators with about the same number of parameters
TRANSLATORS: dict[str, Callable[[Sentences], nn.Module]] = {
    "Transformer": translator,
    "RNN, attention": lambda data: recurrent(data, "dot", 148),
    "RNN, fixed vector": lambda data: recurrent(data, "none", 128),
}


def time_to_goal(
    model: nn.Module, data: Sentences, rate: float, steps: int, seed: int
) -> Mapping[str, float]:
    """Train until the held-out loss reaches GOAL, and measure the processor time of the training steps.

    After 40 steps of warm-up, the rate is constant.

    Between two evaluations, the loss is assumed to fall linearly. The first two steps, which may compile
    kernels, count like the third. If the goal is not reached, the time of all steps is returned.
    """
    random = np.random.default_rng(seed)
    optimizer = optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9)
    seconds = []
    before = held_out_loss(model, data)
    for step in range(1, steps + 1):
        batch = collate([data.train[i] for i in random.integers(len(data.train), size=32)], data.tokenizer)
        optimizer.param_groups[0]["lr"] = rate * min(1, step / 40)
        start = time.process_time()
        optimizer.zero_grad()
        token_loss(model, batch).backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.process_time() - start)
        if step % EVERY == 0 or step == steps:
            loss = held_out_loss(model, data)
            if loss <= GOAL:
                step -= EVERY * (GOAL - loss) / (before - loss)
                break
            before = loss
    each = float(np.mean(seconds[2:] or seconds))
    return {"seconds": each * step, "steps": step, "step": 1000 * each, "loss": loss}


@claim(
    question="Does a Transformer reach the quality of a recurrent translator in less training time on one "
    "core?",
    says={
        "Transformer Network, Speed Comparison": "Training time for same model quality: [...] "
        "RNN-based translation: 2-3 weeks [...] Transformer translation: 2-3 days",
    },
    setting=f"Translators of about 295,000 parameters are trained on 4,000 sentences of at most 8 English "
    f"words, 32 per step, until the loss on 300 others is {GOAL:g} nat per token, at most {STEPS} steps; if "
    "that is not reached, the time of all steps counts. The recurrent ones are a GRU encoder-decoder that "
    "reads from left to right, with dot-product attention or a fixed context vector. Everything runs on one "
    "core, so a Transformer gains nothing from parallel hardware.",
    measures={
        "seconds": "processor time of the training steps up to this loss",
        "steps": "training steps up to this loss",
        "step": "milliseconds of a step",
        "loss": "held-out loss at the last evaluation, nats per token",
        "parameters": "number of parameters",
    },
    arms=tuple(TRANSLATORS),
    rates=(2e-3, 6e-3, 1.8e-2),
    tuned_by="seconds",
    rules=[
        Rule("Transformer: seconds", f"{arm}: seconds", by=1.2, ratio=True, part=f"faster than {arm}")
        for arm in ("RNN, attention", "RNN, fixed vector")
    ],
    is_timed=True,
)
def equal_quality(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = TRANSLATORS[trial.arm](data)
    found = time_to_goal(model, data, trial.rate, trial.steps(STEPS), trial.seed)
    return {**found, "parameters": size(model)}
