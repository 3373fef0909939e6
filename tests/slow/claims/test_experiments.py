"""What holds of every experiment: a file each, quotes with their source, rules that can be read."""

import inspect
import re
from pathlib import Path

import pytest

from minitransformer.claims import CLAIMS, experiments
from minitransformer.claims.claim import modules_of, without_words
from minitransformer.claims.experiments.sqrt_dk import sqrt_dk
from minitransformer.claims.running import TUNING_SEEDS

FOLDER = Path(experiments.__path__[0])


def test_each_claim_has_a_file_of_the_same_name():
    assert {name.replace("-", "_") for name in CLAIMS} == {p.stem for p in FOLDER.glob("[!_]*.py")}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
def test_each_claim_has_a_question_a_source_and_a_rule(claim):
    assert claim.question.endswith("?")
    assert claim.says
    assert claim.rules
    assert all(text and not text.startswith('"') for text in claim.says.values())
    assert not claim.rates or "parameters" in claim.measures
    assert all(rule.by for rule in claim.rules)
    assert list(claim.rates) == sorted(claim.rates)
    assert len(claim.rates) != 1


def test_tuning_seeds_differ_from_comparison_seeds():
    assert min(TUNING_SEEDS) > 200
    for path in FOLDER.glob("[!_]*.py"):
        assert not re.search(r"default_rng\(\d+\)|manual_seed\(\d+\)", path.read_text(encoding="utf-8")), path


def test_a_claim_checksum_covers_the_modules_it_uses():
    used = lambda claim: {m.__name__.rpartition(".")[2] for m in modules_of(inspect.getmodule(claim.measure))}
    assert used(sqrt_dk) == {"sqrt_dk", "translating"}
    assert used(CLAIMS["residuals"]) == {"residuals", "sublayers", "translating", "two_looks"}
    assert sqrt_dk.code != CLAIMS["cheating"].code
    assert re.fullmatch("[0-9a-f]{12}", sqrt_dk.code)


SOURCE = '''
"""What it is about."""
@claim(question="Is it?", rates=(0.1, 0.3), arms=("a", "b"), rules=(Rule("a: x", "b: x", by=0.1, part="x"),))
def it(trial):  # a comment
    """One trial."""
    return {"loss": train(100)}
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [("about", "for"), ("Is it?", "Was it?"), ("0.3", "0.6"), ('="x"', '="y"'), ("# a", "# b"), ("One", "A")],
)
def test_rewording_a_claim_keeps_its_measurements(old, new):
    assert old in SOURCE
    assert without_words(SOURCE.replace(old, new)) == without_words(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"), [("100", "200"), ("by=0.1", "by=0.2"), ('"b"', '"c"'), ("(trial)", "(it)")]
)
def test_changing_the_code_of_a_claim_drops_its_measurements(old, new):
    assert old in SOURCE
    assert without_words(SOURCE.replace(old, new)) != without_words(SOURCE)
