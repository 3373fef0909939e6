"""What the verbs print fits the terminal: lines end between words, and nothing is left out."""

import shlex

import pytest
from rich.cells import cell_len

from minitransformer.cli.layout import FIXED, columns, wrap
from minitransformer.recipes import load_recipe, names

LONG = "a-run-of-the-phrasebook/with_a_long_name/that-is-longer-than-a-line-of-eighty-columns-in-a-terminal"


@pytest.fixture(params=[80, 60])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def words(text):
    return "".join(text.split())


def check_fits(text, width):
    assert [line for line in text.splitlines() if cell_len(line) > width] == []


def test_wrapping_breaks_between_words_and_drops_nothing():
    text = "name  a sentence of some words, then 中文"
    lines = wrap(text, 6, 20)
    assert lines == ["name  a sentence of", "      some words,", "      then 中文"]
    assert wrap(f"1{FIXED}GB of 2{FIXED}GB", 0, 7) == ["1 GB of", "2 GB"]
    assert wrap("runs/a-long_name of a run", 2, 10) == ["runs/a-", "  long_", "  name of", "  a run"]
    assert wrap("of unbreakable words", 0, 8) == ["of", "unbreakable", "words"]
    assert wrap("a\nb", 0, 8) == ["a\\nb"]


def test_narrow_tables_wrap_and_then_become_lists(monkeypatch):
    rows = [["", "run", "p"], ["exact match", "0.5", "not significant"], ["chrF", "", "better"]]
    shown = {}
    for columns_of_terminal in (40, 25, 20):
        monkeypatch.setenv("COLUMNS", str(columns_of_terminal))
        shown[columns_of_terminal] = [*columns(rows)]
    assert shown[40] == [
        "             run  p",
        "exact match  0.5  not significant",
        "chrF              better",
    ]
    assert shown[25] == [
        "        run  p",
        "exact   0.5  not",
        "match        significant",
        "chrF         better",
    ]
    assert shown[20] == ["exact match", "  run 0.5, p not", "  significant", "chrF", "  p better"]


@pytest.mark.slow
def test_piped_output_is_not_wrapped(cli, here, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    code, out, err = cli("evaluate", "mine")
    assert code == 0, err
    signature = next(line for line in out.splitlines() if line.startswith("  signature"))
    assert len(signature) > 80
    assert "version:" in signature
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert max(map(len, wrap(signature))) <= 80


def test_recipes_fit_the_terminal(cli, width):
    _, out, _ = cli("recipes")
    check_fits(out, width)
    for recipe in map(load_recipe, names()):
        assert words(f"{recipe.name} {recipe.model_type} {recipe.description}") in words(out)
        assert recipe.task in out.splitlines()


@pytest.mark.slow
def test_a_run_with_a_long_name_fits_the_terminal(cli, here, width):
    (here / LONG).parent.mkdir(parents=True)
    (here / "mine").rename(here / LONG)
    check = ["check", LONG, "--data", "pairs.tsv"]
    for argv in (["show", LONG], ["compare", LONG, LONG], ["evaluate", LONG], check):
        code, out, err = cli(*argv)
        assert code == 0, err
        check_fits(out, width)
        if argv[0] in ("show", "compare"):
            assert LONG in words(out)


def test_show_prints_a_command_that_can_be_pasted(cli, here, width):
    _, out, _ = cli("show", "mine")
    rows = out.partition("started with")[2].partition("  started ")[0]
    shown = shlex.split(rows.replace("\\\n", " "))
    assert shown[:3] == ["minitransformer", "train", "phrasebook"]
    assert "--run-dir" in shown
