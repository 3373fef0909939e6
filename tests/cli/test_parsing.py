"""Parameters and fields become arguments, with types, defaults and help."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from minitransformer.base_config import Config
from minitransformer.cli.parsing import Parser, parse
from minitransformer.errors import UserError


@dataclass(frozen=True)
class Search(Config):
    """how texts are searched"""

    width: int = 1  # number of beams
    sorted: bool = False
    """Whether the best text is first."""
    # of the best text, and of the worst one
    scores: tuple[float, float] = (0.0, 1.0)
    limit: int | None = 7


def call(*words):
    def verb(
        run: Path,
        text: tuple[str, ...] = (),
        *,
        output: Path = Path("a.html"),
        kind: Literal["one", "two"] = "one",
        header: bool | None = None,
        json: bool = False,
        search: Search = Search(),
    ) -> list[object]:
        """Do something.

        Args:
            output: Where it is written,
                in full.
        """
        return [run, text, output, kind, header, json, search]

    return parse(verb, words, "tool verb")


def test_omitted_arguments_get_their_defaults():
    assert call("runs/a") == [Path("runs/a"), (), Path("a.html"), "one", None, False, Search()]


def test_positional_texts_can_follow_flags():
    words = "--json r --scores -1e0 2 -o b --no-header 'a b' --kind=two --limit None c"
    found = call(*shlex.split(words))
    search = Search(scores=(-1.0, 2.0), limit=None)
    assert found == [Path("r"), ("a b", "c"), Path("b"), "two", False, True, search]
    assert call("r", "--sorted")[-1].sorted
    assert not call("r", "--sorted", "--no-sorted")[-1].sorted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the following arguments are required: RUN"),
        ("r --width two", "--width: expected an integer, got 'two'"),
        ("r --scores 1", "--scores: expected 2 arguments"),
        ("r --kind three", "--kind: invalid choice: 'three'"),
        ("r --wide 3", "there is no option '--wide'. Did you mean --width?"),
        ("r --no-json", "there is no option '--no-json'. Did you mean --json?"),
    ],
)
def test_an_error_names_the_argument(words, message):
    with pytest.raises(UserError) as caught:
        call(*words.split())
    first, second = str(caught.value).splitlines()
    assert first.startswith(message)
    assert second.startswith("`tool verb --help` ")


def test_help_describes_every_argument(capsys):
    with pytest.raises(SystemExit, match="0"):
        call("--help")
    out = " ".join(capsys.readouterr().out.split())
    for text in (
        "usage: tool verb RUN TEXT... [options] Do something.",
        "RUN The run folder.",
        "-o PATH, --output PATH Where it is written, in full. (default: a.html)",
        "how texts are searched: --width INT number of beams (default: 1)",
        "--sorted, --no-sorted Whether the best text is first.",
        "of the best text, and of the worst one (default: 0.0 1.0)",
    ):
        assert text in out


def test_read_known_returns_unknown_arguments(capsys):
    parser = Parser("tool", has_help=False)
    parser.add(Search())
    words = ["--steps", "-1", "--width", "3", "--help", "--betas", "0", "1"]
    assert parser.read_known(words) == ({"width": 3}, ["--steps", "-1", "--help", "--betas", "0", "1"])
