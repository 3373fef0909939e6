"""Do embeddings and output layer lose by sharing a matrix, and gain if the parameters are used elsewhere?"""

from collections.abc import Mapping

import minigrad as mg
from minigrad import nn

from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, sentences, size, train, translator


def make_translator(data: Sentences, arm: str) -> Transformer:
    if arm == "three matrices":
        model = translator(data, target_vocab_size=data.tokenizer.vocab_size, tie_embeddings=False)
        nn.init.normal_(model.output.weight, std=model.config.d_model**-0.5)  # like an embedding
        return model
    return translator(data, **({"d_model": 80, "d_ff": 289} if arm == "one, wider" else {}))


@claim(
    question="Should the embeddings and the output layer share one matrix?",
    says={
        "Attention Is All You Need, section 3.4": "In our model, we share the same weight matrix between the "
        "two embedding layers and the pre-softmax linear transformation",
        "Transformers - Attention Is All You Need, Linear Layer + Softmax": "share the same weights (weight "
        "tying), reducing parameters",
        "Using the Output Embedding to Improve Language Models (Press and Wolf 2017), abstract": "When "
        "training language models, we recommend tying the input embedding and this output embedding.",
    },
    setting="A translator on 4,000 sentences, 300 steps: one matrix for source, target and output, or three "
    "that are initialized alike. The third arm spends what sharing saves on width: d = 80 instead of 64.",
    measures={"loss": "held-out loss, nats per token", "parameters": "number of parameters"},
    arms=("one matrix", "three matrices", "one, wider"),
    rates=(1e-3, 3e-3, 6e-3, 1e-2),
    rules=(
        Rule("one matrix: loss", "three matrices: loss", by=-0.05, part="no worse with fewer parameters"),
        Rule("one, wider: loss", "three matrices: loss", by=0.05, part="better with as many"),
    ),
    unequal="one matrix has 30% fewer, which is the claim; one, wider has as many as three matrices",
)
def weight_tying(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = make_translator(data, trial.arm)
    train(model, data, trial.rate, trial.steps(300), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
