"""The road to attention: a translation task with RNN, LSTM, GRU, with and without attention, and Transformer.

python demos/road_to_attention.py                       # the phrasebook: sentences of 3 to 11 words
python demos/road_to_attention.py --sentences 6         # up to six of them joined: sources of up to 46 words

Every model has the same number of parameters, trains on the same data for the same number of minutes (of
processor time), and is scored by the length of the source. `--sentences` above 1 joins sentences of the
phrasebook, for long sources of known words.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F
from minigrad.nn.shapes import parameter_shapes
from minitransformer import Transformer, TransformerConfig, generate
from minitransformer.cli.parsing import parse
from minitransformer.data.batching import IGNORE, TokenBatches, collate
from minitransformer.data.phrasebook import phrasebook
from minitransformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from minitransformer.tasks.metrics import translation_scores
from minitransformer.text.tokenizer import Tokenizer

Pair = tuple[str, str]

# ---------------------------------------------------------------- models


def recurrent(**options: Any) -> Callable[[int, int], nn.Module]:
    def build(vocab_size: int, hidden_size: int) -> nn.Module:
        return Seq2Seq(Seq2SeqConfig(vocab_size, hidden_size=hidden_size, **options))

    return build


def transformer(vocab_size: int, d_ff: int) -> nn.Module:
    return Transformer(TransformerConfig(vocab_size, 128, 4, d_ff, 2, 2))


FIXED: dict[str, Any] = {"attention": "none", "bidirectional": False}
MODELS: dict[str, Callable[[int, int], nn.Module]] = {  # in historical order: (vocab_size, width)
    "simple RNN": recurrent(rnn_type="rnn", **FIXED),
    "LSTM": recurrent(rnn_type="lstm", **FIXED),
    "GRU": recurrent(rnn_type="gru", **FIXED),
    "bidirectional GRU": recurrent(rnn_type="gru", attention="none"),
    "GRU + dot attention": recurrent(rnn_type="gru", attention="dot", bidirectional=False),
    "bidirectional GRU + additive attention": recurrent(rnn_type="gru", attention="additive"),
    "Transformer": transformer,
}


def size(name: str, vocab_size: int, width: int) -> int:
    """The number of parameters."""
    return sum(map(math.prod, parameter_shapes(lambda: MODELS[name](vocab_size, width))))


def width_for(name: str, vocab_size: int, parameters: int) -> int:
    """The largest width with at most this many parameters."""
    low, high = 1, 4096
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(name, vocab_size, middle) <= parameters else (low, middle)
    return low


# ---------------------------------------------------------------- data


def joined(pairs: Sequence[Pair], sentences: int, number: int, seed: int) -> list[Pair]:
    """`number` pairs, each of which joins 1 to `sentences` of the pairs."""
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in pairs if pair[0].endswith((".", "?"))] if sentences > 1 else pairs
    if sentences == 1:
        return list(pairs[:number])
    made = []
    for _ in range(number):
        chosen = [pairs[i] for i in rng.choice(len(pairs), rng.integers(1, sentences + 1))]
        made.append((" ".join(source for source, _ in chosen), " ".join(target for _, target in chosen)))
    return made


def words(text: str) -> int:
    return len(text.split())


# ---------------------------------------------------------------- training, for a fixed time


@dataclass(frozen=True)
class Budget:
    minutes: float = 2.0  # processor time
    lr: float = 2e-3
    max_tokens: int = 1024


def train(model: nn.Module, tokenizer: Tokenizer, pairs: Sequence[Pair], budget: Budget) -> int:
    """Train for `minutes`; the learning rate follows a cosine over that time. Returns the number of steps."""
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    lengths = np.array([(len(source) + 1, len(target) + 1) for source, target in ids])
    batches = TokenBatches(lengths, budget.max_tokens, seed=0)
    optimizer = optim.AdamW(model.parameters(), lr=budget.lr, betas=(0.9, 0.98), weight_decay=0.0)
    steps = 0
    spent = 0.0
    model.train()
    while spent < 1:
        warm_up = min(1.0, (steps + 1) / 100)
        optimizer.param_groups[0]["lr"] = budget.lr * warm_up * (1 + math.cos(math.pi * spent)) / 2
        steps += 1
        mg.random.set_step(steps)
        batch = collate([ids[i] for i in batches.rows(steps - 1)], tokenizer)
        optimizer.zero_grad()
        logits = model(batch["source"], batch["target_in"])
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch["target"].reshape(-1), ignore_index=IGNORE, label_smoothing=0.1
        )
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if steps == 1:  # the first step compiles
            start = time.process_time()
        spent = (time.process_time() - start) / (60 * budget.minutes)
    model.eval()
    return steps


# ---------------------------------------------------------------- scores by length


@dataclass(frozen=True)
class Scores:
    exact: float  # percentage of sources translated without a mistake
    bleu: float


def translate(model: nn.Module, tokenizer: Tokenizer, sources: Sequence[str], limit: int) -> list[str]:
    """Greedy translations, in batches of similar lengths."""
    order = sorted(range(len(sources)), key=lambda i: words(sources[i]))
    found: dict[int, str] = {}
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        ids = [[*tokenizer.encode(sources[i]), tokenizer.end_id] for i in rows]
        for i, target in zip(rows, generate(model, ids, max_new_tokens=limit), strict=True):
            found[i] = tokenizer.decode(target)
    return [found[i] for i in range(len(sources))]


def bins(lengths: Sequence[int], number: int) -> list[tuple[int, int]]:
    """`number` ranges of lengths, (first, last), with about equally many sentences."""
    edges = sorted({int(q) for q in np.quantile(lengths, np.linspace(0, 1, number + 1)[1:-1])})
    firsts = [min(lengths), *[edge + 1 for edge in edges if edge < max(lengths)]]
    return list(zip(firsts, [*[first - 1 for first in firsts[1:]], max(lengths)], strict=True))


def score(model: nn.Module, tokenizer: Tokenizer, pairs: Sequence[Pair], ranges: Sequence) -> list[Scores]:
    """The scores of each range of source lengths, and last of all pairs."""
    limit = 2 * max(words(target) for _, target in pairs) + 10
    translations = translate(model, tokenizer, [source for source, _ in pairs], limit)
    rows = []
    for first, last in [*ranges, (0, math.inf)]:
        chosen = [i for i, (source, _) in enumerate(pairs) if first <= words(source) <= last]
        found = translation_scores([translations[i] for i in chosen], [pairs[i][1] for i in chosen])
        rows.append(Scores(100 * found["exact_match"], found["bleu"]))
    return rows


# ---------------------------------------------------------------- table and picture


@dataclass(frozen=True)
class Row:
    """A model's parameters, steps, and scores for each range of lengths and for all."""

    parameters: int
    steps: int
    scores: list[Scores]


def read_rows(path: Path | None) -> dict[str, Row]:
    """The rows that earlier commands wrote."""
    found = json.loads(path.read_text()) if path is not None and path.exists() else {}
    return {
        name: Row(**{**row, "scores": [Scores(**s) for s in row["scores"]]}) for name, row in found.items()
    }


def labels(ranges: Sequence) -> list[str]:
    return [f"{first} to {last}" if first < last else f"{first}" for first, last in ranges]


def table(rows: dict[str, Row], ranges: Sequence, counts: Sequence[int], measure: str) -> str:
    heads = [f"{label} ({n})" for label, n in zip([*labels(ranges), "all"], counts, strict=True)]
    lines = [f"| model | parameters | steps | {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) + 2)}"]
    for name, row in rows.items():
        cells = [f"{getattr(scores, measure):.1f}" for scores in row.scores]
        lines.append(f"| {name} | {row.parameters:,} | {row.steps:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


STYLES = [  # colours of Okabe & Ito, safe for the colour-blind, and markers
    ("#999999", "v"), ("#E69F00", "s"), ("#D55E00", "o"), ("#CC79A7", "P"), ("#56B4E9", "^"),
    ("#0072B2", "X"), ("#000000", "D"),
]  # fmt: skip


def draw(rows: dict[str, Row], ranges: Sequence, path: Path) -> None:
    """Exact translations and BLEU by the length of the source; dashed: models without attention."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    panels = figure.subplots(1, 2)
    middle = [(first + last) / 2 for first, last in ranges]
    measures = {"exact": "Translated without a mistake, %", "bleu": "BLEU"}
    for panel, (measure, title) in zip(panels, measures.items(), strict=True):
        for name, row in rows.items():
            colour, marker = STYLES[list(MODELS).index(name)]
            values = [getattr(scores, measure) for scores in row.scores[:-1]]
            line = "-" if "attention" in name or name == "Transformer" else "--"
            panel.plot(middle, values, line, color=colour, marker=marker, markersize=5, label=name)
        panel.set(title=title, xlabel="words in the source", ylim=(0, 103))
        panel.set_xticks(middle, labels(ranges))
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    handles, names = panels[0].get_legend_handles_labels()
    title = "dashed: a fixed context vector; solid: attention"
    figure.legend(handles, names, title=title, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)


def main(
    *,
    sentences: int = 1,
    models: tuple[str, ...] = tuple(MODELS),
    parameters: int = 1_030_000,
    minutes: float = 2.0,
    pairs: int = 20_000,
    test_pairs: int = 1_000,
    ranges: int = 6,
    max_tokens: int = 1024,
    lr: float = 2e-3,
    results: Path | None = None,
    output: Path = Path("road-to-attention.png"),
) -> None:
    """Train each model for the same time, and score it by the length of the source.

    With a file for `results`, several commands can train the models of one table: each adds its own.
    """
    book = phrasebook()
    training = joined(book.train, sentences, pairs, seed=1)
    test = joined(book.test, sentences, test_pairs, seed=2)
    tokenizer = Tokenizer.train_word([text for pair in training for text in pair])
    lengths = [words(source) for source, _ in test]
    parts = bins(lengths, ranges)
    counts = [sum(first <= n <= last for n in lengths) for first, last in parts] + [len(test)]
    budget = Budget(minutes, lr, max_tokens)
    rows = read_rows(results)
    for name in models:
        width = width_for(name, tokenizer.vocab_size, parameters)
        mg.manual_seed(0)
        model = MODELS[name](tokenizer.vocab_size, width)
        steps = train(model, tokenizer, training, budget)
        rows[name] = Row(size(name, tokenizer.vocab_size, width), steps, score(model, tokenizer, test, parts))
        overall = rows[name].scores[-1]
        print(f"{name}: {overall.exact:.1f}% exact, {overall.bleu:.1f} BLEU", flush=True)
        if results is not None:
            results.write_text(json.dumps({name: asdict(row) for name, row in rows.items()}, indent=1))
    rows = {name: rows[name] for name in MODELS if name in rows}
    print(f"\n{minutes:g} minutes each; {len(training):,} pairs to train on, {len(test):,} to test")
    for measure in ("exact", "bleu"):
        print(f"\n{measure}\n\n{table(rows, parts, counts, measure)}")
    draw(rows, parts, output)
    print(f"\n{output}")


if __name__ == "__main__":
    parse(main)
