"""Can many heads of a trained translator be removed, without training again?

A tenth of the heads is removed at a time: those without which the loss on sentences of the training data
rises least, given those that are gone already.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import minigrad as mg

from ...inspection.recording import ablate_heads
from ...layers.attention import MultiHeadAttention
from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, sentences, size, train, translator

Head = tuple[str, int]  # the path of a module, and the head's number


@claim(
    question="Can many heads of a trained translator be removed at little loss?",
    says={
        "Michel et al. 2019, Are Sixteen Heads Really Better than One?, abstract": "in practice, a large "
        "percentage of attention heads can be removed at test time without significantly impacting "
        "performance. In fact, some layers can even be reduced to a single head.",
    },
    setting="A translator of width 64 with two layers a side on 4,000 sentences, 1,000 steps; each of its "
    "six attention modules has 8 heads of width 8. A tenth of the 48 heads is removed at a time, those "
    "without which the loss on 200 sentences of the training data rises least. Apart from that, all heads "
    "but one are removed in one module, the one where it costs least. 20% and 40% are what the paper removes "
    "from a translator and from BERT.",
    measures={
        "loss": "held-out loss, nats a token",
        "without 20%": "the same without a fifth of the heads",
        "without 40%": "the same without two fifths",
        "one head in a layer": "the same with a single head in one of the six modules",
        "without all": "the same without any head",
        "parameters": "number of parameters",
    },
    arms=("translator",),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(  # little: 5% of perplexity
        Rule("translator: without 20%", "translator: loss", by=-0.05, part="20% of the heads"),
        Rule("translator: without 40%", "translator: loss", by=-0.05, part="40% of the heads"),
        Rule("translator: one head in a layer", "translator: loss", by=-0.05, part="one head in a layer"),
    ),
)
def head_pruning(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data, num_heads=8)
    train(model, data, trial.rate, trial.steps(1000), trial.seed)
    known = replace(data, held_out=data.train[: trial.steps(200)])  # heads are chosen on these
    order = by_importance(model, known)
    return {
        "loss": held_out_loss(model, data),
        "without 20%": loss_without(model, data, order[:10]),
        "without 40%": loss_without(model, data, order[:19]),
        "one head in a layer": loss_without(model, data, all_but_one(model, known)),
        "without all": loss_without(model, data, heads_of(model)),
        "parameters": size(model),
    }


def heads_of(model: Transformer) -> list[Head]:
    modules = [(path, m) for path, m in model.named_modules() if isinstance(m, MultiHeadAttention)]
    return [(path, head) for path, module in modules for head in range(module.num_heads)]


def loss_without(model: Transformer, data: Sentences, removed: Iterable[Head]) -> float:
    by_module: dict[str, list[int]] = {}
    for path, head in removed:
        by_module.setdefault(path, []).append(head)
    with ablate_heads(model, by_module):
        return held_out_loss(model, data)


def by_importance(model: Transformer, data: Sentences, tenths: int = 4) -> list[Head]:
    """The heads to remove, the least important ones first."""
    heads = heads_of(model)
    left, removed = heads, []
    for tenth in range(1, tenths + 1):
        count = round(len(heads) * tenth / 10)
        loss = {head: loss_without(model, data, [*removed, head]) for head in left}
        removed += sorted(left, key=loss.__getitem__)[: count - len(removed)]
        left = [head for head in left if head not in removed]
    return removed


def all_but_one(model: Transformer, data: Sentences) -> list[Head]:
    """The heads to remove to leave one in a module: where, and which one, by what it costs."""
    heads = heads_of(model)
    choices = [[head for head in heads if head[0] == kept[0] and head != kept] for kept in heads]
    return min(choices, key=lambda removed: loss_without(model, data, removed))
