"""Does a task with few labels benefit from training on sentences without labels?"""

from collections.abc import Mapping
from functools import cache, partial

import minigrad as mg
from minigrad import nn

from ..claim import Rule, Trial, claim
from ..reading import Texts, masked_words, objects, reader, scores, texts, train, with_object
from ..translating import size

LABELS = {"100 labels": 100, "300 labels": 300}
UNLABELLED = 7000  # the number of sentences, some of which are also used with labels
PRE_TRAINING, FINE_TUNING = 800, 200  # steps


@cache
def pre_trained(seed: int, steps: int) -> dict[str, mg.Tensor]:
    """Train a BERT on masked words, without labels. Return the weights of its body."""
    data = texts(seed, count=UNLABELLED)
    mg.manual_seed(seed)
    model = reader(data, "masked_lm")
    train(model, data.train, partial(masked_words, data), 6e-3, steps, seed, size=64)
    return {name: value for name, value in model.state_dict().items() if not name.startswith("head.")}


def classifier(data: Texts, body: Mapping[str, mg.Tensor]) -> nn.Sequential:
    """Create a classifier of objects' types, which reads the mean state of a BERT with these weights."""
    model = reader(data, "similarity")  # a head without parameters: the mean of the states
    model.load_state_dict(body, strict=False)
    width = model.config.hidden_size
    return nn.Sequential(model, nn.LayerNorm(width), nn.Linear(width, len(data.objects)))


@claim(
    question="Does a task with few labels benefit from pre-training on sentences without labels?",
    says={
        "BERT (Devlin et al. 2018), section 6": "rich, unsupervised pre-training is an integral part "
        "of many language understanding systems. In particular, these results enable even low-resource "
        "tasks to benefit from deep unidirectional architectures. Our major contribution is further "
        "generalizing these findings to deep bidirectional architectures",
    },
    setting="The type of a sentence's object (person, animal, food, ...), predicted from the mean state of "
    "a BERT of two layers of width 64. Pre-trained: 800 steps on masked words, with 64 of 7,000 unlabelled "
    "sentences per step, then 200 steps with 32 labelled sentences per step. From scratch: the 200 steps "
    "alone; or as many steps in all, 1,000, each with 32 labelled sentences: so 800 of them read half as "
    "many sentences as those of pre-training. The learning rate of pre-training is not tuned.",
    measures={
        "loss": "held-out loss, nats per sentence",
        "error": "fraction of 1,000 other sentences whose type is wrong",
        "parameters": "number of parameters",
    },
    arms=("pre-trained", "from scratch", "from scratch, as many steps in all"),
    cases=tuple(LABELS),
    rates=(3e-3, 1e-2, 3e-2),
    tuned_by="error",
    rules=(  # 5 of 100 sentences; without pre-training, more than 10 are wrong
        Rule("pre-trained: error", "from scratch: error", by=0.05),
        Rule("pre-trained: error", "from scratch, as many steps in all: error", by=0.05),
    ),
)
def pre_training(trial: Trial) -> Mapping[str, float]:
    data = texts(trial.seed, count=UNLABELLED)
    labelled, others = with_object(data.train), with_object(data.held_out)
    before, steps = trial.steps(PRE_TRAINING), trial.steps(FINE_TUNING)
    body = pre_trained(trial.seed, before) if trial.arm == "pre-trained" else {}
    mg.manual_seed(trial.seed)
    model = classifier(data, body)
    if trial.arm == "from scratch, as many steps in all":
        steps += before
    train(model, labelled[: LABELS[trial.case]], partial(objects, data), trial.rate, steps, trial.seed)
    return {**scores(model, objects(data, others[:1000])), "parameters": size(model)}
