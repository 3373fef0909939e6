"""Verbs in more detail: graphs of runs, vocabularies, and flags of every recipe."""

from dataclasses import fields

import pytest

from minitransformer.files import read_json
from minitransformer.recipes import load_recipe, names
from tests.cli.test_layout import check_fits
from tests.tiny import TINY, TINY_GPT


@pytest.mark.parametrize("recipe", names())
def test_every_recipe_key_is_a_command_line_flag(cli, recipe):
    code, out, _ = cli("train", recipe, "--help")
    assert code == 0
    flags = {word.strip(",") for word in out.split() if word.startswith("--")}
    assert {"--data", "--data-dir", "--run-dir", "--resume", "--overwrite", "--device"} <= flags
    assert {"--steps", "--lr", "--seed", "--checkpoint-every"} <= flags
    loaded = load_recipe(recipe)
    keys = [field.name for part in (loaded.data, loaded.model) for field in fields(part)]
    assert {f"--{key.replace('_', '-')}" for key in keys} <= flags
    assert not any("." in flag for flag in flags)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_language_models_train_with_word_and_bpe_tokenizers(cli, kind):
    options = ("--data", "text.txt", "--tokenizer", kind, "--vocab-size", 60)
    code, out, _ = cli("train", "shakespeare-char-cpu", *options, *TINY_GPT)
    assert code == 0
    assert out


@pytest.mark.parametrize("options", [["--readable"], ["--depth", 1], ["--color", "gradient"]], ids=str)
def test_graph_options_change_the_drawing(cli, here, options):
    for name, more in (("plain", []), ("other", options)):
        assert cli("graph", "play", "ROMEO: But", "-o", f"{name}.svg", *more)[0] == 0
    assert (here / "plain.svg").read_bytes() != (here / "other.svg").read_bytes()


def test_graph_files_are_overwritten_only_with_overwrite(cli, here):
    command = ("graph", "mine", "I love you", "-o", "mine.svg")
    assert cli(*command)[0] == 0
    first = (here / "mine.svg").read_bytes()
    assert cli(*command)[0] == 2
    assert (here / "mine.svg").read_bytes() == first
    assert cli(*command, "--overwrite", "--readable")[0] == 0
    assert (here / "mine.svg").read_bytes() != first


@pytest.mark.parametrize("run", ["mine", "play"])
def test_graph_without_a_text_uses_validation_data(cli, run):
    from minitransformer.runs.run import Run, load_splits

    data = {"mine": "pairs.tsv", "play": "text.txt"}[run]
    code, out, _ = cli("graph", run, "--data", data, "-o", "graph.dot")
    assert code == 0
    text = out[: out.index("\ngraph.dot: ")].replace("↵", "\n")
    text, _, smoothing = text.partition(", loss with label smoothing ")
    assert smoothing == ("0.1" if run == "mine" else "")
    held = load_splits(Run(run).recipe, data, None)["validation"]
    assert tuple(text.split(" → ")) in held if run == "mine" else text in held


def test_graph_shows_the_training_loss_of_the_run(here):
    from minitransformer.cli.graph import example, trace
    from minitransformer.runs.run import Run

    run = Run("mine")
    task, title = example(run, "I love you", "Je t'aime", None, None)
    graph = trace(run, task, title, readable=False)
    batch = task.batch(0)
    expected = task.loss(run.model, batch, run.recipe.training.label_smoothing) / batch.n_tokens
    (output,) = graph.outputs
    assert output.value.numbers.item() == expected.item()
    expected.backward()
    learned = {v.name: v for v in graph.vertices if v.kind == "parameter"}
    assert learned.keys() == {name for name, _ in run.model.named_parameters()}
    for name, x in run.model.named_parameters():
        assert learned[name].gradient.statistics.max == pytest.approx(x.grad.numpy().max(), rel=1e-6)
        assert learned[name].checks


def test_a_word_vocabulary_can_be_limited(cli, here):
    assert cli("train", "phrasebook", "--data", "pairs.tsv", "--vocab-size", 50, *TINY)[0] == 0
    assert len(read_json(here / "runs/phrasebook/tokenizer.json")["model"]["vocab"]) == 50


def test_a_card_fits_the_terminal(cli, here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    code, out, err = cli("card", "phrasebook", "--data", "pairs.tsv", *TINY)
    assert code == 0, err
    check_fits(out, 60)
    assert "FLOPs per step" in " ".join(out.split())
