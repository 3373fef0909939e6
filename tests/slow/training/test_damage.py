"""A file of a run that is damaged or lost is an error that names it, or changes no result."""

import shutil

import pytest

from minitransformer.training.checkpoint import Checkpoints
from tests.tiny import TINY

RESUME = ("train", "phrasebook", "--run-dir", "run", "--resume", "--steps", 8)
COMMANDS = (("evaluate", "run", "--json"), ("translate", "run", "I love you"), RESUME)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def in_its_place(path):
    path.unlink()
    path.mkdir()


DAMAGES = (flip, truncate, lambda path: path.unlink(), in_its_place)


def result(cli, command):
    """What a command gives: its output, or for a training the weights of its last checkpoint."""
    code, out, err = cli(*command)
    assert "Traceback" not in err
    if code:
        assert (code, "error: " in err) == (2, True)
        return None
    if command is not RESUME:
        return out
    path = Checkpoints("run/checkpoints").path("last")
    return path.name, (path / "model.safetensors").read_bytes()


def test_damaged_run_files_give_errors_or_the_same_results(cli, here):
    trained = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "whole", *TINY)
    assert cli(*trained, "--steps", 6, "--checkpoint-every", 3, "--validate-every", 3)[0] == 0
    read = ("run.json", "config.toml", "tokenizer.json", "checkpoints/*/*")
    files = [path.relative_to(here / "whole") for name in read for path in (here / "whole").glob(name)]
    assert len(files) == 3 + 2 * 4

    def fresh():
        shutil.rmtree("run", ignore_errors=True)
        shutil.copytree("whole", "run")

    expected = {}
    for command in COMMANDS:
        fresh()
        expected[command] = result(cli, command)
    assert None not in expected.values()
    refused = dict.fromkeys(COMMANDS, 0)
    for file in files:
        for damage in DAMAGES:
            for command in COMMANDS:
                fresh()
                damage(here / "run" / file)
                found = result(cli, command)
                refused[command] += found is None
                assert found in (None, expected[command]), (file, damage, command)
    assert all(refused.values())


@pytest.mark.parametrize("name", ["checkpoints/step-00000004", "tokenizer.json", "run.json", "config.toml"])
def test_files_of_a_different_run_are_rejected(cli, here, name):
    other = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "other", *TINY, "--seed", 1)
    assert cli(*other, "--vocab-size", 200)[0] == 0
    path = here / "mine" / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    source = here / "other" / name
    shutil.copytree(source, path) if source.is_dir() else shutil.copy(source, path)
    before = {path: path.read_bytes() for path in (here / "mine" / "checkpoints").rglob("*.*")}
    code, out, err = cli("translate", "mine", "I love you")
    assert (code, out) == (2, "")
    assert any(word in err for word in ("another run", "another tokenizer", "checksum"))
    assert cli("train", "phrasebook", "--run-dir", "mine", "--resume")[0] == 2
    assert {path: path.read_bytes() for path in before} == before
