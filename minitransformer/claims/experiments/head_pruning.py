"""Can many heads of a trained translator be removed, without training again?

A tenth of the heads is removed at a time: those whose removal raises the loss on training sentences least, in
addition to the heads that are already removed.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

import minigrad as mg

from ...inspection.recording import ablate_heads
from ...layers.attention import MultiHeadAttention
from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, sentence_error, sentences, size, train, translator

Head = tuple[str, int]  # (path of the attention module, number of the head)


@claim(
    question="Can many heads of a trained translator be removed at little loss?",
    says={
        "Michel et al. 2019, Are Sixteen Heads Really Better than One?, abstract": "in practice, a large "
        "percentage of attention heads can be removed at test time without significantly impacting "
        "performance. In fact, some layers can even be reduced to a single head.",
    },
    setting="A translator of width 64 with two layers per side on 4,000 sentences of at most 8 English "
    "words, 1,200 steps; each of its six attention modules has 8 heads of width 8. A tenth of the 48 heads "
    "is removed at a time, those without which the loss on 200 sentences of the training data rises least. "
    "In another test, all heads but one are removed from one module, the one where that costs least. 20% "
    "and 40% are what the paper removes from a translator and from BERT. Little means at most 2% of "
    "perplexity and 2 of 100 sentences.",
    measures={
        "loss": "held-out loss, nats per token",
        "error": "fraction of held-out sentences that are not translated word for word",
        "loss without 20%": "the loss without a fifth of the heads",
        "error without 20%": "the error without a fifth of the heads",
        "loss without 40%": "the loss without two fifths of the heads",
        "error without 40%": "the error without two fifths of the heads",
        "loss with one head in a layer": "the loss with one head in one of the six modules",
        "error with one head in a layer": "the error with one head in one of the six modules",
        "loss without all": "the loss without any head",
        "error without all": "the error without any head",
        "parameters": "number of parameters",
    },
    arms=("translator",),
    rates=(3e-3, 1e-2, 3e-2),
    rules=tuple(  # what hardly anyone notices: 2% of perplexity, and 2 of 100 sentences
        Rule(f"translator: {score} {removal}", f"translator: {score}", by=-0.02, part=removal)
        for removal in ("without 20%", "without 40%", "with one head in a layer")
        for score in ("loss", "error")
    ),
)
def head_pruning(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data, num_heads=8)
    train(model, data, trial.rate, trial.steps(1200), trial.seed)
    known = replace(data, held_out=data.train[: trial.steps(200)])  # heads are chosen on these
    order = by_importance(model, known)
    removals = {
        "": [],
        " without 20%": order[:10],
        " without 40%": order[:19],
        " with one head in a layer": all_but_one(model, known),
        " without all": heads_of(model),
    }
    found = {"parameters": float(size(model))}
    for name, heads in removals.items():
        with without(model, heads):
            found[f"loss{name}"] = held_out_loss(model, data)
            found[f"error{name}"] = sentence_error(model, data.held_out, data)
    return found


def heads_of(model: Transformer) -> list[Head]:
    modules = [(path, m) for path, m in model.named_modules() if isinstance(m, MultiHeadAttention)]
    return [(path, head) for path, module in modules for head in range(module.num_heads)]


def without(model: Transformer, removed: Iterable[Head]) -> AbstractContextManager[None]:
    """Context manager in which these heads are removed."""
    by_module: dict[str, list[int]] = {}
    for path, head in removed:
        by_module.setdefault(path, []).append(head)
    return ablate_heads(model, by_module)


def loss_without(model: Transformer, data: Sentences, removed: Iterable[Head]) -> float:
    with without(model, removed):
        return held_out_loss(model, data)


def by_importance(model: Transformer, data: Sentences, tenths: int = 4) -> list[Head]:
    """The heads to remove, the least important first."""
    heads = heads_of(model)
    left, removed = heads, []
    for tenth in range(1, tenths + 1):
        count = round(len(heads) * tenth / 10)
        loss = {head: loss_without(model, data, [*removed, head]) for head in left}
        removed += sorted(left, key=loss.__getitem__)[: count - len(removed)]
        left = [head for head in left if head not in removed]
    return removed


def all_but_one(model: Transformer, data: Sentences) -> list[Head]:
    """The heads of a module except one. The module and the head are chosen so that the loss is lowest."""
    heads = heads_of(model)
    choices = [[head for head in heads if head[0] == kept[0] and head != kept] for kept in heads]
    return min(choices, key=lambda removed: loss_without(model, data, removed))
