"""Are scores that are not divided by the square root of d_k a problem, and of which size?"""

from collections.abc import Mapping

import minigrad as mg

from ..claim import Rule, Trial, claim
from ..translating import attentions, held_out_loss, sentences, size, train, translator


@claim(
    question="Do scores have to be divided by the square root of d_k?",
    says={
        "Attention Is All You Need, section 3.2.1": "We suspect that for large values of d_k, the dot "
        "products grow large in magnitude, pushing the softmax function into regions where it has extremely "
        "small gradients.",
    },
    setting="A translator of width 128 on 4,000 sentences, 400 steps. One head has d_k = 128, 16 heads have "
    "d_k = 8.",
    measures={"loss": "held-out loss, nats a token", "parameters": "number of parameters"},
    arms=("divided", "not divided"),
    cases=("d_k = 8", "d_k = 128"),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(Rule("divided: loss", "not divided: loss", by=0.05),),
)
def sqrt_dk(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data, d_model=128, num_heads={"d_k = 8": 16, "d_k = 128": 1}[trial.case])
    if trial.arm == "not divided":
        for attention in attentions(model):
            attention.scale = 1.0
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
