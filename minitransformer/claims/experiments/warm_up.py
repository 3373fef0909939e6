"""Does training need a warm-up of the learning rate, and can pre-norm models do without it?"""

from collections.abc import Mapping

import minigrad as mg

from .. import two_looks
from ..claim import Rule, Trial, claim
from ..translating import held_out_loss, sentences, size, train, translator

TASKS = ("two looks", "translation")
PLACES = ("norm after", "norm first")


@claim(
    question="Does a Transformer with the norm after the sub-layers need a warm-up, and does one with the "
    "norm first lose nothing by leaving it out?",
    says={
        "Transformers - Attention Is All You Need, Learning Rate Schedule (Warmup)": "Prevents large "
        "unstable updates early in training when parameters are random",
        "On Layer Normalization in the Transformer Architecture (Xiong et al. 2020), abstract": "We show in "
        "our experiments that Pre-LN Transformers without the warm-up stage can reach comparable results "
        "with baselines",
    },
    setting="norm(x + f(x)), the norm after, and x + f(norm(x)), the norm first. Each is compared with and "
    "without a warm-up; Xiong et al. compare the norm first without it to the norm after with it. A made "
    "task, x[x[x[i]]] of six numbers: an encoder of twelve layers, 250 steps with AdamW (weight decay "
    "0.01), a warm-up of 50 or none, then a constant rate. A translator of width 48 with four layers per "
    "side on 4,000 sentences: 180 steps with Adam, a warm-up of 36 or none; the rate falls linearly to 0.",
    measures={"loss": "loss on new data, nats per token", "parameters": "number of parameters"},
    arms=("warm-up", "no warm-up"),
    cases=tuple(f"{task}, {place}" for task in TASKS for place in PLACES),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(
        *(
            Rule("warm-up: loss", "no warm-up: loss", by=0.1, case=f"{task}, norm after", part="needs it")
            for task in TASKS
        ),
        *(
            Rule(
                "no warm-up: loss",
                "warm-up: loss",
                by=-0.1,
                case=f"{task}, norm first",
                part="loses nothing by leaving it out",
            )
            for task in TASKS
        ),
    ),
)
def warm_up(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    task, place = trial.case.split(", ")
    is_warm = trial.arm == "warm-up"
    if task == "two looks":
        looker = two_looks.Looker({"norm after": "post-norm", "norm first": "pre-norm"}[place], depth=12)
        warmup = trial.steps(50) if is_warm else 0
        losses, _ = two_looks.train(looker, trial.rate, trial.steps(250), trial.seed, warmup)
        return {"loss": two_looks.new_loss(losses), "parameters": size(looker)}
    data = sentences(trial.seed)
    model = translator(
        data,
        d_model=48,
        d_ff=192,
        num_encoder_layers=4,
        num_decoder_layers=4,
        norm_first=place == "norm first",
    )
    train(model, data, trial.rate, trial.steps(180), trial.seed, warmup=trial.steps(36) if is_warm else 0)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
