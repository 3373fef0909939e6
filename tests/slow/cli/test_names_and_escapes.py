"""Names with any bytes, and terminal escapes in arguments."""

import os
import sys

import pytest

from tests.slow.cli.test_streams import RED, shows
from tests.tiny import TINY


@pytest.mark.parametrize(
    "argv",
    [
        [RED],
        ["train", RED],
        ["train", f"{RED}.toml"],
        ["train", "phrasebook", f"--{RED}", "1"],
        ["train", "phrasebook", "--steps", RED],
        ["train", "phrasebook", "--data", RED],
        ["train", "phrasebook", "--data", "pairs.tsv", "--tokenizer", RED],
        ["translate", RED, "x"],
        ["translate", "mine", f"{RED}zebra"],
        ["translate", "mine", f"{RED} " * 40],
        ["translate", "mine", "x", "--checkpoint", RED],
        ["evaluate", "mine", "--data", RED],
        ["graph", "mine", "a", "b", RED],
        ["graph", "mine", "a", "-o", f"{RED}.svg"],
        ["graph", "mine", f"I love {RED}zebra", "-o", "x.dot"],
    ],
    ids=lambda argv: " ".join(argv),
)
def test_escapes_in_arguments_are_shown_not_sent(cli, argv):
    _, out, err = cli(*argv)
    assert shows(out + err)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes")
def test_data_and_runs_of_any_name_are_trained_and_evaluated(cli, here):
    name = os.fsdecode(b"\x1b[31m\xff")
    os.rename("pairs.tsv", f"{name}.tsv")
    for argv in (
        ["train", "phrasebook", "--data", f"{name}.tsv", "--run-dir", name, *TINY],
        ["train", "phrasebook", "--run-dir", name, "--resume", "--steps", 5],
        ["evaluate", name],
        ["graph", name, "-o", f"{name}.svg"],
    ):
        code, out, err = cli(*argv)
        assert code == 0, err
        assert "\x1b" not in out + err
