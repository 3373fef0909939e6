"""Files that could be read in two ways are refused before a training; older runs are read as before."""

import re

import pytest

from minitransformer.cli import main
from minitransformer.runs.run import Run
from tests.data.test_file_formats import LABELLED, REFUSED, Form, as_older, lines, train, write


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_clear_is_refused_before_training_with_the_flag_or_the_fix(folder, capsys, name):
    form = REFUSED[name]
    write(form.file, form.content)
    assert train(form) == 2
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 2

    assert re.search(form.examples, said), said
    assert not (folder / "run").exists()


def test_runs_of_older_versions_keep_the_lines_that_they_were_trained_on(folder, capsys):
    write("mine.tsv", lines([("sentence", "label"), *LABELLED]))
    form = Form("bert-classify", "mine.tsv", "", [])
    assert train(form, "--format", "plain") == 0
    run = Run("run")
    weights = {name: value.numpy().copy() for name, value in run.model.state_dict().items()}
    as_older(folder / "run")
    run = Run("run")
    assert run.recipe.data.format == "plain"
    assert ("sentence", "label") in [example for split in run.splits().values() for example in split]
    assert main(["evaluate", "run"]) == 0
    assert main(["train", "bert-classify", "--run-dir", "run", "--resume", "--steps", "3"]) == 0
    assert main(["train", "run", "--run-dir", "again", "--steps", "2"]) == 0
    again = Run("again").model.state_dict()
    assert all((again[name].numpy() == value).all() for name, value in weights.items())
    capsys.readouterr()
    assert train(form, "--overwrite") == 0  # a new run does not have it
    assert sum(map(len, Run("run").splits().values())) == 30
