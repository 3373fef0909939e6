"""A run folder says what it is, and its settings can be trained again from the folder alone."""

import re
import shutil
from pathlib import Path

import pytest

from minitransformer.cli.readme import write_readme
from minitransformer.data.splits import Sources
from minitransformer.files import read_json, sha256
from minitransformer.runs.original import Original
from minitransformer.training.checkpoint import Checkpoints
from tests.tiny import TINY

TRAIN = ("train", "phrasebook", "--data", "pairs.tsv", *TINY)


def weights(folder):
    return (Checkpoints(Path(folder) / "checkpoints").path("last") / "model.safetensors").read_bytes()


# --- Trained again ---


def test_a_run_is_repeated_from_its_folder_and_data(cli, here):
    elsewhere = here / "elsewhere"
    assert cli(*TRAIN, "--run-dir", elsewhere)[0] == 0
    (here / "pairs.tsv").rename(here / "moved.tsv")
    code, _, err = cli("train", elsewhere)
    assert code == 2
    assert re.search(r"data of this run was in .*pairs\.tsv, which does not exist\.\nPass --data PATH", err)
    assert cli("train", elsewhere, "--data", "moved.tsv", "--run-dir", "again")[0] == 0
    assert weights("again") == weights(elsewhere)
    assert (here / "again/tokenizer.json").read_bytes() == (elsewhere / "tokenizer.json").read_bytes()
    assert cli("train", "again", "--seed", 1)[0] == 0  # the place of its data is remembered
    assert weights("runs/phrasebook") != weights("again")


def test_repeating_a_run_rejects_different_data(cli, here):
    lines = (here / "pairs.tsv").read_text().splitlines()
    (here / "other.tsv").write_text("\n".join(lines[:-1]))
    code, _, err = cli("train", "mine", "--data", "other.tsv", "--run-dir", "again")
    assert code == 2
    assert re.search(
        r"mine was trained on other data: the train split has the checksum \w{64}, expected", err
    )
    assert not (here / "again").exists()


def test_a_run_can_be_resumed_by_its_folder(cli, here):
    assert cli("train", "mine", "--resume", "--steps", 6)[0] == 0
    assert cli(*TRAIN, "--run-dir", "whole", "--steps", 6)[0] == 0
    assert weights("mine") == weights("whole")


def test_repeating_a_run_requires_an_unchanged_init_from_run(cli, here):
    assert cli(*TRAIN, "--run-dir", "next", "--init-from", "mine", "--seed", 1)[0] == 0
    assert cli("train", "next", "--run-dir", "again")[0] == 0
    assert weights("again") == weights("next")
    assert cli("train", "mine", "--resume", "--steps", 5)[0] == 0
    code, _, err = cli("train", "next", "--run-dir", "third")
    assert code == 2
    assert "next started from a run of phrasebook, which is no longer in" in err
    shutil.rmtree(here / "mine")
    assert re.search(r"which is not in .*mine\.\nPass where that run is now", cli("train", "next")[2])


def test_public_data_missing_from_its_folder_is_downloaded(here, tmp_path):
    original = Original.read("mine")
    original.record.data.update(data=None, data_dir=str(tmp_path / "gone"))
    assert original.sources(Sources()).data_dir is None
    original.record.data.update(data_dir=str(tmp_path))
    assert original.sources(Sources()).data_dir == tmp_path
    assert original.sources(Sources(data_dir=here)).data_dir == here


# --- What the folder says of itself ---


def test_run_readme_describes_the_run_and_how_to_repeat_it(cli, here):
    text = (here / "mine" / "README.md").read_text()
    record = read_json(here / "mine" / "run.json")
    assert record["command"].startswith("minitransformer train phrasebook --data pairs.tsv")
    for expected in (
        "# mine",
        "phrasebook, on pairs.tsv.",
        f"started with | `{record['command']}`",
        "transformer, 10,288 parameters",
        "d_model = 16, num_heads = 2",
        "trained | 4 steps in ",
        "pairs: 48 train, 6 validation, 6 test",
        f"your file `pairs.tsv`, SHA-256 `{sha256((here / 'pairs.tsv').read_bytes())}`",
        *record["data_sha256"].values(),
        "| exact_match | 0 [0, 0] |",
        "![Loss and learning rate](curves.png)",
        "minitransformer train . --data pairs.tsv --run-dir ../again",
    ):
        assert expected in text
    assert str(here) not in text
    code, _, err = cli("train", "mine", "--resume", "--steps", 5, "--lr", 1)
    assert code == 0, err
    assert "| from step 4 | steps 4 -> 5, lr 0.006 -> 1.0 |" in (here / "mine" / "README.md").read_text()


@pytest.mark.parametrize("edit", ["mine\n", "", None])
def test_user_written_readmes_are_not_overwritten(cli, here, edit):
    path = here / "mine" / "README.md"
    if edit is None:  # a link
        (here / "notes.md").write_text("notes")
        path.unlink()
        path.symlink_to(here / "notes.md")
    else:
        path.write_text(edit + path.read_text() + ("" if edit else "\nmore"))
    before = path.read_bytes()
    assert not write_readme(here / "mine")
    code, _, err = cli(*TRAIN, "--run-dir", "mine", "--overwrite")
    assert code == 0
    assert "README.md was edited, and is not replaced" in err.replace("\n", " ")
    assert cli("evaluate", "mine")[0] == 0
    assert path.read_bytes() == before
    assert path.is_symlink() == (edit is None)


def test_readme_shows_scores_as_an_escaped_table(here):
    (here / "mine" / "metrics.json").write_text('{"a|b": 0.51239, "x": "<script>", "list": [1]}')
    assert write_readme(here / "mine")
    text = (here / "mine" / "README.md").read_text()
    assert r"| a\|b | 0.5124 |" in text
    assert r"| x | \<script> |" in text
    assert "list" not in text
