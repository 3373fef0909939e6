"""Instruments: `check` finds planted defects, `card` estimates what a training takes, `show` and `sweep`
say what came of it."""

import json
import math
import re
import shlex
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minitransformer.cli import sweep
from minitransformer.cli.charts import chart
from minitransformer.cli.recipe_flags import with_model_of
from minitransformer.data.labels import LabelledText
from minitransformer.data.splits import Sources
from minitransformer.errors import UserError
from minitransformer.inspection.recording import record_attention
from minitransformer.layers import FeedForward, LayerConfig
from minitransformer.layers.attention import MultiHeadAttention
from minitransformer.layers.cache import KeyValueCache
from minitransformer.models.encoder_decoder import EncoderDecoderModel
from minitransformer.models.transformer import Transformer, TransformerConfig
from minitransformer.plots import diagnostics as pictures
from minitransformer.recipes import load_recipe
from minitransformer.runs import checks, evaluations
from minitransformer.runs.folder import begin, new_record
from minitransformer.runs.run import Run
from minitransformer.tasks import Classification, Translation
from minitransformer.tasks.arrays import SpecialIds
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.text.tokenizer_presets import BERT_TOKENS
from minitransformer.training import diagnostics
from minitransformer.training.log import read_log
from tests.tiny import TINY, TINY_GPT

# --- check ---


def marks(out):
    """The mark of each check."""
    return {line[2:15].strip(): line[0] for line in out.splitlines() if line[0] != " "}


def test_sound_models_pass_every_check(cli):
    code, out, err = cli("check", "mine")
    assert (code, err) == (0, "")
    names = ["causality", "padding", "cache", "accumulation", "gradient", "round trip", "resume"]
    assert marks(out) == dict.fromkeys(names, "✓")
    assert set(marks(cli("check", "play")[1]).values()) == {"✓"}


def look_at_the_future(plant):
    forward = MultiHeadAttention.forward
    plant(
        MultiHeadAttention, "forward", lambda self, q, m, mask, causal, c: forward(self, q, m, mask, False, c)
    )


def attend_to_padding(plant):
    mask = EncoderDecoderModel.padding_mask
    plant(EncoderDecoderModel, "padding_mask", lambda self, source: mask(self, source) | True)


def drop_a_cache_entry(plant):
    append = KeyValueCache.append

    def forgetful(self, kv, num_heads):
        found = append(self, kv, num_heads)
        if self.length > 8:
            self.buffer[:, 3] = 0
        return found

    plant(KeyValueCache, "append", forgetful)


def take_the_mean_of_each_micro_batch(plant):
    loss = Translation.loss
    plant(Translation, "loss", lambda self, model, batch, s: loss(self, model, batch, s) / batch.n_tokens)


def draw_the_same_dropout_for_each_micro_batch(plant):
    split = Translation.split
    plant(Translation, "split", lambda self, batch, n: ((0, rows) for _, rows in split(self, batch, n)))


def differentiate_wrongly(plant):
    forward = FeedForward.forward

    def wrong(self, x):
        out = forward(self, x)
        if out.requires_grad:
            out.register_hook(lambda g: g * 1.1)
        return out

    plant(FeedForward, "forward", wrong)


def lose_a_letter(plant):
    decode = Tokenizer.decode
    plant(Tokenizer, "decode", lambda self, ids: decode(self, ids).replace("a", ""))


def take_the_next_batch_whatever_the_step(plant):
    batch, calls = Translation.batch, count()
    plant(Translation, "batch", lambda self, step: batch(self, next(calls)))


def forget_the_moments(plant):
    plant(optim.AdamW, "load_state_dict", lambda self, state: None)


DEFECTS = {
    look_at_the_future: "causality",
    attend_to_padding: "padding",
    drop_a_cache_entry: "cache",
    take_the_mean_of_each_micro_batch: "accumulation",
    draw_the_same_dropout_for_each_micro_batch: "accumulation",
    differentiate_wrongly: "gradient",
    lose_a_letter: "round trip",
    take_the_next_batch_whatever_the_step: "resume",
    forget_the_moments: "resume",
}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_planted_defect_fails_its_check(cli, monkeypatch, defect):
    name = DEFECTS[defect]
    monkeypatch.setattr(checks, "CHECKS", {name: checks.CHECKS[name]})  # the others take their time
    defect(monkeypatch.setattr)
    code, out, err = cli("check", "mine")
    assert (code, marks(out), err) == (1, {name: "✗"}, "1 of 1 check failed\n")
    words = " ".join(out.split())  # the text without its line breaks
    assert f"violated: {checks.CHECKS[name][1]}" in words
    assert words.endswith(f"; {checks.CHECKS[name][2]}")


def test_the_padding_check_pads_short_texts_to_the_longest():
    texts = ["a", "b", "a b b a"]
    tokenizer = Tokenizer.train_word(texts, added=BERT_TOKENS)
    rows = [LabelledText(text, "x") for text in texts]
    task = Classification(Classification.Data(), rows, rows, tokenizer, ["x", "y"])
    reads_padding = lambda ids: mg.tensor(np.array([(ids == tokenizer.pad_id).sum(1), 0 * ids[:, 0]]).T * 1.0)
    subject = SimpleNamespace(
        task=task, model=reads_padding, run=SimpleNamespace(tokenizer=tokenizer),
        is_autoregressive=lambda: False, check_parts=lambda parts: None,
    )  # fmt: skip
    found, allowed = checks.padding(subject)
    assert found > allowed


# --- card ---


@pytest.fixture
def card():
    from minitransformer.runs import card

    return card


@pytest.mark.slow
def test_a_card_counts_parameters_targets_and_flops(card, cli, monkeypatch):
    monkeypatch.setattr(card, "SECONDS", 0.0)
    command = "card", "shakespeare-char-cpu", "--data", "text.txt", *TINY_GPT, "--batch-size", "8"
    found = json.loads(cli(*command, "--json")[1])
    run = Run(Path("play"))
    vocabulary = run.tokenizer.vocab_size
    width = 16
    inner = 64
    assert found["parts"] == {
        "embedding": vocabulary * width,
        "positions": 16 * width,
        "self attention": 4 * (width + 1) * width,
        "feed forward": 2 * width * inner + width + inner,
        "norms": 3 * 2 * width,
    }
    assert found["parameters"] == run.model.num_parameters()
    assert found["tokens_per_step"] == 8 * 16
    assert found["tokens_per_parameter"] == pytest.approx(4 * 8 * 16 / run.model.num_parameters())
    in_matmuls = vocabulary * width + 4 * width * width + 2 * width * inner
    attention = 2 * 2 * 16 * width  # scores and values, for each token
    matmuls = 3 * 8 * 16 * (2 * in_matmuls + attention)
    assert matmuls < found["flops_per_step"] < 1.3 * matmuls  # norms, softmax, gelu
    printed = cli(*command)[1]
    assert "in total, 0.1" in printed
    assert "4 steps of 128 targets" in printed


def test_a_card_converts_epochs_to_steps_without_validating(card, cli, monkeypatch):
    monkeypatch.setattr(card, "SECONDS", 0.0)
    flags = "--data", "pairs.tsv", *TINY, "--epochs", "3", "--samples", "2", "--validation-texts", "2"
    code, out, err = cli("card", "phrasebook", *flags, "--monitor", "bleu", "--json")
    assert code == 0, err
    assert json.loads(out)["steps"] == 3  # a batch holds all pairs


@pytest.mark.slow
def test_card_extrapolates_activations_from_a_few_rows(card, cli, monkeypatch):
    monkeypatch.setattr(card, "SECONDS", 0.0)
    sizes = ["--n-embd", "128", "--batch-size", "64"]  # with a few rows, the weights' gradients are the peak
    command = "card", "shakespeare-char-cpu", "--data", "text.txt", *TINY_GPT, *sizes, "--json"
    whole = json.loads(cli(*command)[1])
    monkeypatch.setattr(card, "MAX_FLOPS", whole["flops_per_step"] / 3 / 15)
    few = json.loads(cli(*command)[1])
    assert (whole["measured_rows"], few["measured_rows"] < 0.1) == (1.0, True)
    assert few["activations"] == pytest.approx(whole["activations"], rel=0.01)
    assert few["flops_per_step"] == pytest.approx(whole["flops_per_step"], rel=0.01)


# --- show ---


def test_show_describes_a_run_and_ranks_its_predictions(cli):
    code, out, err = cli("show", "mine", "--predictions", "1")
    assert (code, err) == (0, "")
    assert "transformer, 10,288 parameters" in out
    assert re.search(
        r"trained\s+4 steps in \d+ s; checkpoints: last step-00000004, best\s+step-00000004", out
    )
    assert "loss over steps: · training, ● validation" in out
    scores = evaluations.read(Path("mine")).example_scores["chrf"]
    each = [float(scores.of([i])) for i in range(6)]
    rows = [line.split("\t") for line in Path("mine/predictions.txt").read_text().splitlines()[1:]]
    best, worst = (out.split(f"{which} prediction of 6, by chrF")[1] for which in ("best", "worst"))
    assert f"source: {rows[each.index(max(each))][0]}" in best.split("worst")[0]
    assert f"{min(each):.4g}" in worst


@pytest.mark.slow
def test_show_handles_a_run_with_one_prediction(cli, here):
    (here / "one.tsv").write_text("I see\tJe vois\n")
    data = ("--data", "pairs.tsv", "--test-data", "one.tsv")
    assert cli("train", "phrasebook", *data, "--run-dir", "one", *TINY)[0] == 0
    out = cli("show", "one")[1]
    assert "only prediction of 1, by chrF" in out
    assert "source: I see" in out
    assert "prediction" not in cli("show", "one", "--predictions", "0")[1].splitlines()[-1]


def test_text_charts_mark_every_finite_point():
    lines = chart({".": [(0, 1.0), (10, 3.0)], "o": [(10, 2.0), (5, float("nan"))]}, width=11, height=3)
    assert lines == ["3 |          .", "2 |          o", "1 |.", "  +-----------", "   0        10"]


# --- diagnostics ---


@pytest.mark.slow
def test_diagnostics_are_logged_without_changing_weights(cli):
    flags = "--data", "pairs.tsv", *TINY, "--log-every", "2", "--run-dir"
    assert cli("train", "phrasebook", *flags, "plain")[0] == 0
    code, _, err = cli("train", "phrasebook", *flags, "watched", "--diagnostics")
    assert code == 0
    assert f"diagnostics: {Path('watched', 'diagnostics.png')}" in err
    runs = Path("plain"), Path("watched")
    plain, watched = (next(run.glob("checkpoints/*/model.safetensors")).read_bytes() for run in runs)
    assert plain == watched
    plain, watched = ([r for r in read_log(run / "log.jsonl") if "lr" in r] for run in runs)
    assert [record["step"] for record in watched] == [2, 4]
    for before, record in zip(plain, watched, strict=True):
        assert record["grad_norm"] == before["grad_norm"]
        norms = [value for key, value in record.items() if key.startswith("grad_norm/")]
        assert math.hypot(*norms) == pytest.approx(record["grad_norm"], rel=1e-4)  # not the clipped one
        assert 0 < record["update_ratio/encoder.layers.0"] < 0.1
        assert record["dead_units/decoder.layers.0.feed_forward"] < 1


def test_entropy_and_dead_units_match_known_layers():
    attention = MultiHeadAttention(4, 2)
    network = FeedForward(LayerConfig(4, 2, 8))
    attention.in_proj_weight.array[:8] = 0  # all scores are equal
    network.linear1.weight.array[:2] = 0  # with their biases at 0
    dead = {}
    network.linear2.register_forward_pre_hook(diagnostics.dead_hook("n", dead))
    x = mg.randn(1, 16, 4)
    network(x)
    with record_attention(attention) as maps:
        attention(x)
        assert diagnostics.mean_entropy(maps[""]) == pytest.approx(4)  # bits: 16 tokens alike
        attention(x[:, :4])
    assert diagnostics.mean_entropy(maps[""]) == pytest.approx(3)  # the mean of both calls
    assert 2 / 8 <= dead["n"] < 1


def test_attention_entropy_excludes_padding():
    task = Translation(Translation.Data(), [([4, 5], [6])], [], SpecialIds())
    long = ([4, 5, 4, 6], [6, 5, 4, 4])
    model = Transformer(TransformerConfig(7, d_model=8, num_heads=2, d_ff=8, pad_token_id=0))
    alone = next(task.batches(task.train))
    padded = next(task.batches([*task.train, long])).rows(slice(0, 1))
    assert (alone["target"].shape, padded["target"].shape) == ((1, 2), (1, 5))
    found, expected = (diagnostics.activation_statistics(model, task, batch) for batch in (padded, alone))
    names = [name for name in expected if name.startswith("attention_entropy/")]
    assert {name.rpartition(".")[2] for name in names} == {"self_attention", "cross_attention"}
    assert [found[name] for name in names] == pytest.approx([expected[name] for name in names], rel=1e-4)


@pytest.mark.slow
def test_legends_of_many_layers_are_shortened(tmp_path):
    names = [f"layers.{i}.self_attention" for i in range(30)]
    assert pictures.short_names(names)[1] == "layer 2"
    kinds = ["encoder.layers.0.self_attention", "decoder.layers.0.cross_attention"]
    assert pictures.short_names(kinds) == [
        "encoder layer 1 self-attention",
        "decoder layer 1 cross-attention",
    ]
    record = {"step": 1} | {f"attention_entropy/{name}": 1.0 for name in names}
    (tmp_path / "log.jsonl").write_text(json.dumps(record) + "\n")
    assert pictures.draw(tmp_path) == tmp_path / "diagnostics.png"
    panel = Figure().subplots()
    pictures.draw_panel(panel, "attention_entropy", {name: [(1, 1.0)] for name in names})
    shown = [text.get_text() for text in panel.get_legend().get_texts()]
    assert (len(shown), shown[0], shown[-1]) == (pictures.LEGEND, "layer 1", "layer 30")


# --- sweep ---


def test_sweep_runs_every_combination():
    line = "reverse --lr 1e-3 3e-3 --betas 0.9 0.99 --seed=0 --d-model 8 16"
    plan = sweep.plan_runs([*line.split(), "--run-dir", "out"])
    assert [one.folder.name for one in plan] == [
        "lr=1e-3,d-model=8", "lr=1e-3,d-model=16", "lr=3e-3,d-model=8", "lr=3e-3,d-model=16",
    ]  # fmt: skip
    assert plan[0].words == shlex.split("reverse --betas 0.9 0.99 --seed 0 --lr 1e-3 --d-model 8")
    with pytest.raises(UserError, match="needs a folder"):
        sweep.plan_runs(line.split())
    with pytest.raises(UserError, match="two runs of the sweep are the same"):
        sweep.plan_runs(["reverse", "--lr", "1", "1", "--run-dir", "out"])


def test_a_sweep_with_init_from_can_be_repeated(here):
    (one,) = sweep.plan_runs(["reverse", "--init-from", "mine", "--run-dir", "out"])
    recipe = with_model_of(load_recipe("reverse"), Path("mine"))
    recipe = replace(recipe, data=replace(recipe.data, tokenizer="bpe"))
    begin(one.folder, new_record(recipe, None, {}, Sources()), recipe, None)
    assert sweep.check(one) is Translation
    (other,) = sweep.plan_runs(["reverse", "--run-dir", "out"])
    with pytest.raises(UserError, match="contains a run with other settings"):
        sweep.check(other)
