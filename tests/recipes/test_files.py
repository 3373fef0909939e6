"""Recipes: whatever a file holds, the error names it and is short."""

import json
import math
import re
from dataclasses import replace

import pytest

from minigrad.nn.shapes import parameter_shapes
from minitransformer import GPTConfig, LlamaConfig
from minitransformer.cli.recipe_flags import RecipeOptions, read_options, read_settings, with_settings
from minitransformer.errors import UserError
from minitransformer.models.bart import BARTConfig
from minitransformer.models.protocol import model_class
from minitransformer.recipes import (
    FOR_FILES,
    RecipeError,
    load_recipe,
    names,
    parse_recipe,
    to_toml,
    with_model,
    with_own_data,
)
from minitransformer.recipes.expectations import check_names, condition
from minitransformer.tasks import task_class
from minitransformer.tasks.translation import PairData

TRANSLATION = 'task = "translation"\n'
LANGUAGE = 'task = "language-modelling"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = " + "[" * 10_000, "is not valid TOML"),
        ("task = 3", "unknown task 3"),
        ("modle = 1", "mine.toml: unknown key 'modle'. Did you mean model"),
        ("name = 1", "mine.toml: name must be a string, got 1"),
        ('name = ""', "mine.toml: name is ''"),
        ("model = []", "model = .* is not a table"),
        (
            "[model]\nd_modle = 8",
            r"mine.toml \[model\]: TransformerConfig has no field 'd_modle'. Did you mean",
        ),
        ("[model]\nd_model = 8.0", r"mine.toml \[model\]: d_model must be an integer, got 8.0"),
        (f"[model]\nd_model = {2**63}", "d_model = .* is out of range"),
        (f"[training]\nlr = {10**400}", "lr = .* is out of range"),
        ("[training]\nlr = nan", "lr = nan"),
        ("[training]\nbetas = [0.9]", r"mine.toml \[training\]: betas must be \(a number, a number\)"),
        ('[data]\nmax_length = "8"', r"mine.toml \[data\]: max_length must be an integer, got '8'"),
        ('[data]\nsource_language = "/../../x"', "is not a language"),
        ('[data]\ndataset = "tinyshakespeare"', "unknown dataset 'tinyshakespeare'"),
        ("expect = 1", "expect = 1 is not a table"),
        ("[expect]\nbleu = 30.0", "bleu = 30.0 is not a range"),
        ('[expect."num_beams=5"]\nbleu = [true, 30]', "bleu = .* is not a range"),
        ("[expect]\nbleu = [40, 30]", "bleu = .* is an empty range"),
    ],
    ids=lambda text: text[:20].replace("\n", " "),
)
def test_recipe_errors_name_the_file_and_section(text, problem):
    if not text.startswith("task"):
        text = TRANSLATION + text
    with pytest.raises(RecipeError, match=problem) as caught:
        parse_recipe(text, "mine", "mine.toml")
    assert str(caught.value).startswith("mine.toml")
    assert len(str(caught.value).splitlines()) == 2


def test_recipes_convert_integers_to_floats_and_lists_to_tuples():
    recipe = parse_recipe(f"{TRANSLATION}[training]\nlr = 1\nbetas = [0, 0.5]", "mine", "mine.toml")
    assert (type(recipe.training.lr), recipe.training.betas) == (float, (0, 0.5))


@pytest.mark.parametrize("suffix", FOR_FILES)
def test_a_data_file_given_as_a_recipe_gets_a_suggested_command(suffix):
    recipe, _ = FOR_FILES[suffix]
    assert recipe in names()
    with pytest.raises(
        RecipeError, match=rf"mine{suffix} is a data file(?s:.)*train {recipe} --data mine{suffix}`"
    ):
        load_recipe(f"mine{suffix}")


def test_huge_recipe_files_are_rejected(tmp_path):
    (tmp_path / "mine.toml").write_text(".".join("a" * 20_000) + " = 1")  # it would take 10 s
    with pytest.raises(UserError, match="the limit is"):
        load_recipe(str(tmp_path / "mine.toml"))


def test_languages_of_a_data_file_can_be_empty():
    assert PairData(dataset="file", source_language="", target_language="").source_language == ""
    with pytest.raises(UserError, match="is not a language"):
        PairData(dataset="file", source_language="..", target_language="")


def test_examples_longer_than_the_positions_are_refused():
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
def test_integers_beyond_int64_are_rejected_in_recipes(name, part, field):
    recipe = load_recipe(name)

    def with_value(value):
        return replace(recipe, **{part: replace(getattr(recipe, part), **{field: value})})

    largest = with_value(2**63 - 1)
    assert parse_recipe(to_toml(largest), name, name) == largest
    with pytest.raises(UserError, match=f"{field} .*out of range"):
        with_value(2**63)


# --- What a recipe expects ---


@pytest.mark.parametrize("name", names())
def test_recipes_expect_only_scores_of_their_task(name):
    recipe = load_recipe(name)
    check_names(recipe.expect, task_class(recipe.task).known_metrics())
    assert bool(recipe.expect) == (name not in UNMEASURED)


UNMEASURED = ("shakespeare-char", "paper-base")  # for a GPU


def test_misspelled_expected_scores_fail_before_training(cli, here):
    text = (here / "mine" / "config.toml").read_text()
    (here / "mine.toml").write_text(f"{text}[expect]\nexact_macth = [0, 1]\n")
    code, out, err = cli("train", "mine.toml", "--data", "pairs.tsv")
    assert (code, out) == (2, "")
    assert "a range for 'exact_macth', which is not a score. Did you mean exact_match?" in err
    assert not (here / "runs").exists()


def parse(recipe, words):
    """The recipe with flags."""
    options, words = read_options(RecipeOptions(), words, "train")
    recipe = with_model(recipe, options.model_type, options.preset)
    return with_settings(recipe, read_settings(recipe, words, "train", options, ""))


@pytest.mark.parametrize(
    ("flags", "same"),
    [
        ("--seed 3 --log-every 1 --checkpoint-every 7 --micro-batches 2", True),
        ("--steps 3", False),
        ("--lr 1", False),
        ("--d-model 64", False),
        ("--max-tokens 512", False),
        ("--model-type seq2seq", False),
        ("--preset toy", False),
    ],
)
def test_expected_scores_are_dropped_when_settings_change(flags, same):
    recipe = load_recipe("phrasebook")
    assert bool(parse(recipe, flags.split()).expect) == same
    assert not with_own_data(recipe, "mine.tsv").expect


def test_recipe_descriptions_name_a_replaced_model():
    recipe = load_recipe("phrasebook")
    for start in (recipe, with_own_data(recipe, "mine.tsv")):
        for flags, other in (("--model-type seq2seq", "seq2seq"), ("--preset toy", "toy")):
            found = parse(start, flags.split()).description
            own = "" if start is recipe else ", on mine.tsv"
            assert found == f"phrasebook{own}, with {other}"


OTHER_TYPES = [
    (name, other)
    for name in names()
    for recipe in [load_recipe(name)]
    for other in task_class(recipe.task).model_types
    if other != recipe.model_type
]


@pytest.mark.parametrize(("name", "model_type"), OTHER_TYPES)
@pytest.mark.slow
def test_replaced_model_types_keep_the_size_of_the_recipe(name, model_type):
    own = load_recipe(name)
    numbers = []
    for recipe in (own, parse(own, ["--model-type", model_type])):
        config = replace(recipe.model, vocab_size=recipe.model.vocab_size or 1000)
        shapes = parameter_shapes(lambda: model_class(recipe.model_type)(config))  # noqa: B023
        numbers.append(sum(map(math.prod, shapes)))
    assert numbers[0] / 2 < numbers[1] < numbers[0] * 2


def test_validation_settings_adapt_to_user_text_data(tmp_path):
    recipe = load_recipe("shakespeare-char-cpu")
    assert (recipe.training.validate_every, recipe.training.patience) == (1000, 0)
    for name in ("shakespeare-char-cpu", "shakespeare-char", "llama-char", "lstm-char"):
        own = with_own_data(load_recipe(name), "mine.txt")
        assert own.training == replace(load_recipe(name).training, validate_every=0, patience=5)
    chosen = parse(own, ["--validate-every", "70", "--patience", "0"])
    assert (chosen.training.validate_every, chosen.training.patience) == (70, 0)
    assert with_own_data(chosen, "mine.txt").training == chosen.training  # a run that is repeated
    mine = tmp_path / "mine.toml"
    mine.write_text('task = "language-modelling"\n[training]\nvalidate_every = 30\npatience = 0\n')
    written = load_recipe(str(mine))
    assert with_own_data(written, "mine.txt").training == written.training
    assert with_own_data(load_recipe("phrasebook"), "mine.tsv").training == load_recipe("phrasebook").training


def test_conditions_name_differences_from_the_recipe():
    assert condition({}, "best", "greedy") == ""
    assert condition({"recipe": "bert-mlm"}, "last", "num_beams=5") == (
        "init_from=bert-mlm, checkpoint=last, num_beams=5"
    )


@pytest.mark.slow
def test_runs_report_whether_scores_are_in_the_expected_range(cli, here):
    expect = (
        "[expect]\nexact_match = [0, 0.5]\nchrf = [99, 100]\naccuracy = [0, 1]\n"
        '[expect."num_beams=2"]\nbleu = [-1.0, 100.0]\n'
    )
    (here / "promise.toml").write_text((here / "mine" / "config.toml").read_text() + expect)
    within = "exact_match 0 is within the expected range [0, 0.5]"
    code, out, _ = cli("train", "promise.toml", "--data", "pairs.tsv", "--seed", 1)
    assert code == 0
    assert within in out
    assert re.search(r"chrf .* is outside the expected range \[99, 100\]; compare steps, versions", out)
    assert "no score accuracy to compare with the expected range [0, 1]" in out
    code, out, err = cli("evaluate", "runs/promise", "--json")
    assert json.loads(out)["exact_match"] == 0
    assert within in err
    code, out, _ = cli("evaluate", "runs/promise", "--num-beams", 2)
    assert re.search(r"bleu .* is within the expected range \[-1, 100\]", out)
    assert out.count("the expected range") == 1
    (here / "other.tsv").write_text("I love you\tJe t'aime\n")
    for flags in ("--data other.tsv", "--checkpoint last"):
        assert "the expected range" not in cli("evaluate", "runs/promise", *flags.split())[1]
