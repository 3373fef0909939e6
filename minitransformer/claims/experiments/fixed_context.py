"""Is one vector for a whole sentence a bottleneck, and more so for longer sentences?"""

from collections.abc import Mapping

import numpy as np

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F

from ...models.seq2seq import Seq2Seq, Seq2SeqConfig
from ..claim import Rule, Trial, claim
from ..translating import held_out_loss, sentences, size, token_error
from ..translating import train as train_translator

VOCABULARY = 4 + 10  # <PAD>, <UNK>, <START>, <END>, and ten letters
LONGEST = 12

# the widths of word vectors and of each arm's states; numbers of parameters differ by less than 1%
WIDTHS = {
    "copying letters": {"embedding_dim": 32, "attention": 48, "fixed": 50},
    "translation": {"embedding_dim": 64, "attention": 64, "fixed": 67},
}


def build(arm: str, case: str, vocab_size: int) -> Seq2Seq:
    """Create a GRU encoder-decoder, with additive attention or only the encoder's last states."""
    widths = WIDTHS[case]
    return Seq2Seq(
        Seq2SeqConfig(
            vocab_size, widths["embedding_dim"], widths[arm], dropout=0.0,
            attention={"attention": "additive", "fixed": "none"}[arm],
        )
    )  # fmt: skip


def copies(
    random: np.random.Generator, length: int, number: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw random letters x to copy. Return source x <END>, decoder input <START> x, and target x <END>."""
    x = random.integers(4, VOCABULARY, (number, length))
    start, end = np.full((number, 1), 2), np.full((number, 1), 3)
    return np.hstack([x, end]), np.hstack([start, x]), np.hstack([x, end])


def copying(trial: Trial) -> tuple[Seq2Seq, dict[str, float]]:
    """Train a model to copy 2 to 12 random letters. Return it with its scores."""
    model = build(trial.arm, trial.case, VOCABULARY)
    random = np.random.default_rng(trial.seed)
    optimizer = optim.Adam(model.parameters(), lr=trial.rate, betas=(0.9, 0.98))
    steps = trial.steps(500)
    for step in range(1, steps + 1):
        source, target_in, target = copies(random, random.integers(2, LONGEST + 1), 32)
        optimizer.param_groups[0]["lr"] = trial.rate * min(1, 10 * step / steps) * (1 - (step - 1) / steps)
        optimizer.zero_grad()
        F.cross_entropy(model(source, target_in).flatten(0, 1), target.reshape(-1)).backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    loss, error = np.transpose([copying_scores(model, n, trial.seed) for n in (3, 4, 11, 12)])
    return model, {"loss": loss.mean(), "short": error[:2].mean(), "long": error[2:].mean()}


@mg.no_grad()
def copying_scores(model: Seq2Seq, length: int, seed: int) -> tuple[float, float]:
    """The loss and the fraction of wrong letters, for new texts of this length."""
    source, target_in, target = copies(np.random.default_rng([seed, length]), length, 300)
    logits = model(source, target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), target.reshape(-1)).item()
    return loss, float((logits.numpy().argmax(-1) != target)[:, :-1].mean())


def translating(trial: Trial) -> tuple[Seq2Seq, dict[str, float]]:
    """Train a model to translate sentences of at most 10 English words. Return it with its scores."""
    data = sentences(trial.seed, longest=10)
    model = build(trial.arm, trial.case, data.tokenizer.vocab_size)
    train_translator(model, data, trial.rate, trial.steps(800), trial.seed)
    short = [pair for pair in data.held_out if len(pair[0]) <= 5]
    long = [pair for pair in data.held_out if len(pair[0]) >= 8]
    return model, {
        "loss": held_out_loss(model, data),
        "short": token_error(model, short, data),
        "long": token_error(model, long, data),
    }


@claim(
    question="Is a fixed context vector a bottleneck, the more so the longer the sentence?",
    says={
        "Transformers - Attention Is All You Need, The Full Journey": "Fixed context vector bottleneck",
        "Bahdanau et al. 2015, section 1": "the performance of a basic encoder–decoder deteriorates rapidly "
        "as the length of an input sentence increases",
    },
    setting="A GRU encoder-decoder, whose encoder reads in both directions, with additive attention, or with "
    "a fixed context vector and wider layers, for about as many parameters. It copies 2 to 12 random "
    "letters of ten, 500 steps of 32 new texts, or translates the phrasebook, 800 steps on 4,000 sentences "
    "of at most 10 English words. Short are 3 and 4 letters, or up to 5 English words and signs; long are 11 "
    "and 12 letters, or 8 and more.",
    measures={
        "loss": "held-out loss, nats per token",
        "short": "fraction of wrong next words (or letters) in short texts with teacher forcing",
        "long": "the same, in long texts",
        "lost": "long minus short",
        "parameters": "number of parameters",
    },
    arms=("attention", "fixed"),
    cases=("copying letters", "translation"),
    rates=(3e-3, 1e-2, 3e-2),
    rules=(
        Rule("attention: long", "fixed: long", by=0.02, part="worse on long ones"),
        Rule("attention: lost", "fixed: lost", by=0.02, part="the more so the longer"),
    ),
)
def fixed_context(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    run = {"copying letters": copying, "translation": translating}[trial.case]
    model, found = run(trial)
    return {**found, "lost": found["long"] - found["short"], "parameters": size(model)}
