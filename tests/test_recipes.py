"""Recipes: whatever a file holds, the error names it and is short."""

import os
from dataclasses import replace

import pytest

from minitransformer import GPTConfig, LlamaConfig
from minitransformer.errors import UserError
from minitransformer.models.bart import BARTConfig
from minitransformer.recipes import RecipeError, load_recipe, parse_recipe, to_toml
from minitransformer.tasks import task_class
from minitransformer.tasks.translation import PairData

TRANSLATION = 'task = "translation"\n'
LANGUAGE = 'task = "language-modelling"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = " + "[" * 10_000, "is not valid TOML"),
        ("x = " + "{a=" * 10_000, "is not valid TOML"),
        ("x = " + "9" * 5_000, "is not valid TOML"),
        ("x" * 10**6 + " = 1", "characters, the limit is 32,768"),
        (".".join("a" * 20_000) + " = 1", "the limit is"),  # it would take 10 s to read
        ("task = " + "[" * 50 + "]" * 50, "unknown task"),
        ("x" * 10_000 + " = 1", "unknown key"),
        (f"{TRANSLATION}[model]\nd_model = {10**400}", "d_model is out of range"),
        (f"{TRANSLATION}[model]\nd_model = 0x{'f' * 10_000}", "d_model is out of range"),
        (f"{TRANSLATION}[training]\nlr = {10**400}", "lr is out of range"),
        (f"{TRANSLATION}[training]\nlr = nan", "lr = nan"),
        (f"{TRANSLATION}[training]\nlr = inf", "lr = inf"),
        (f"{TRANSLATION}[training]\nbetas = [0x{'f' * 10_000}, 0]", "betas = .* is not 2 numbers"),
        (f"{TRANSLATION}model = {'[' * 100}{']' * 100}", "is not a table"),
        (f'{TRANSLATION}[data]\nsource_language = "/../../x"', "is not a language"),
        (f'{TRANSLATION}[data]\nsource_language = ""', "'' is not a language"),
        (f'{TRANSLATION}[data]\ndataset = "tinyshakespeare"', "there is no dataset 'tinyshakespeare'"),
        (f'{LANGUAGE}[data]\ndataset = "multi30k"', "there is no dataset 'multi30k'"),
    ],
    ids=lambda text: text[:20].replace("\n", " "),
)
def test_an_absurd_recipe_is_a_short_error(text, problem):
    if not text.startswith("task"):
        text = TRANSLATION + text
    with pytest.raises(RecipeError, match=problem) as caught:
        parse_recipe(text, "mine", "mine.toml")
    assert "mine.toml" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_recipe_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "mine.toml")
    with pytest.raises(UserError, match="is not a regular file"):
        load_recipe(str(tmp_path / "mine.toml"))


def test_the_languages_of_a_file_may_be_unknown():
    assert PairData(dataset="file", source_language="", target_language="").source_language == ""
    with pytest.raises(UserError, match="is not a language"):
        PairData(dataset="file", source_language="..", target_language="")


def test_examples_longer_than_the_positions_are_refused_where_there_is_such_a_limit():
    with pytest.raises(UserError, match=r"max_length = 128 is more than max_position_embeddings = 16"):
        task_class("translation").check(PairData(), BARTConfig(max_position_embeddings=16))
    language_modelling = task_class("language-modelling")
    data = language_modelling.Data(block_size=4096)
    language_modelling.check(data, LlamaConfig(max_position_embeddings=2048))  # rotary: no limit
    with pytest.raises(UserError, match=r"block_size = 4096 is more than n_positions = 1024"):
        language_modelling.check(data, GPTConfig())


@pytest.mark.parametrize(
    ("name", "part", "field"),
    [("phrasebook", "model", "vocab_size"), ("shakespeare-char", "training", "steps")],
)
def test_an_integer_that_a_recipe_cannot_hold_is_refused(name, part, field):
    recipe = load_recipe(name)

    def with_value(value):
        return replace(recipe, **{part: replace(getattr(recipe, part), **{field: value})})

    largest = with_value(2**63 - 1)
    assert parse_recipe(to_toml(largest), name, name) == largest
    with pytest.raises(UserError, match=f"{field} .*out of range"):
        with_value(2**63)
