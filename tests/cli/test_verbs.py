"""The command line: it trains, goes on, translates, generates, evaluates and explains itself."""

import importlib.metadata
import itertools
import json
import math
import os
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

import minigrad
import minitransformer
from minitransformer.cli import VERBS, starting_command
from minitransformer.cli.evaluate import report
from minitransformer.files import read_json
from minitransformer.recipes import load_recipe, names, parse_recipe, to_toml
from minitransformer.runs.run import Run
from minitransformer.tasks import LanguageModelling, TextToText
from minitransformer.text.tokenizer import Tokenizer
from tests.tiny import PAIRS, TEXT, TINY


@pytest.mark.parametrize(
    ("module", "file", "expected"),
    [
        (None, "/usr/bin/minitransformer", ["minitransformer"]),
        (None, "C:/Scripts/minitransformer.exe", ["minitransformer"]),
        ("minitransformer.__main__", "/packages/minitransformer/__main__.py", ["minitransformer"]),
        (None, "-c", ["minitransformer"]),
        (None, "", ["minitransformer"]),
        (None, "mine.py", ["python", "/here/mine.py"]),
        ("models.__main__", "mine.py", ["python", "-m", "models"]),
        ("models.mine", "mine.py", ["python", "-m", "models.mine"]),
    ],
)
def test_printed_commands_use_the_same_entry_point(module, file, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    spec = None if module is None else SimpleNamespace(name=module)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))
    monkeypatch.setattr(sys, "argv", [file, "recipes"])
    assert starting_command() == [word.replace("/here", str(tmp_path)) for word in expected]


# --- Train ---


def test_a_run_folder_contains_all_expected_files(place):
    names = shlex.split(
        ".evaluation.lock .lock README.md checkpoints config.toml curves.png log.jsonl metrics.json "
        "predictions.hyp predictions.ref predictions.src predictions.txt run.json statistics.safetensors "
        "tokenizer.json"
    )
    assert sorted(path.name for path in (place / "mine").iterdir()) == names
    assert [path.name for path in (place / "mine" / "checkpoints").iterdir()] == ["step-00000004"]


def test_run_json_records_versions_seed_machine_and_data(place):
    run = read_json(place / "mine" / "run.json")
    assert run["recipe"] == "phrasebook"
    assert run["seed"] == 0
    assert {"python", "numpy", "minitransformer", "tokenizers"} <= run["versions"].keys()
    assert run["machine"]["platform"]
    assert run["data_sha256"].keys() == {"train", "validation", "test"}
    assert all(len(digest) == 64 for digest in run["data_sha256"].values())


def test_config_toml_is_the_recipe_with_flags_applied(place):
    text = (place / "mine" / "config.toml").read_text()
    recipe = parse_recipe(text, "phrasebook", "config.toml")
    assert (recipe.model.d_model, recipe.training.steps, recipe.data.dataset) == (16, 4, "file")
    assert parse_recipe(to_toml(recipe), "phrasebook", "again") == recipe


@pytest.mark.parametrize("name", names())
def test_every_recipe_survives_a_round_trip(name):
    recipe = load_recipe(name)
    assert parse_recipe(to_toml(recipe), name, name) == recipe


def test_training_ends_with_scores_and_examples(cli):
    code, out, err = cli("train", "phrasebook", "--data", "pairs.tsv", *TINY)
    assert code == 0
    assert out.count(" -> ") == 5
    for words in ("exact match", "nrefs:1|case:mixed|eff:no|tok:13a|smooth:"):
        assert words in out  # what `> file` keeps
    for words in ("pairs: 48 train, 6 validation, 6 test", "parameters", "validation: loss"):
        assert words in err


def test_pairs_that_are_too_long_are_skipped_and_counted(cli):
    code, _, err = cli("train", "phrasebook", "--data", "pairs.tsv", "--max-length", 7, *TINY)
    assert code == 0
    assert "too long (7 tokens or more, --max-length)" in err


@pytest.mark.slow
def test_a_resumed_run_takes_the_flags_of_its_model_type(cli):
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "gru")
    sizes = ("--embedding-dim", 8, "--hidden-size", 8, "--steps", 1)
    assert cli(*command, "--model-type", "seq2seq", *sizes)[0] == 0
    assert cli(*command, "--resume", "--hidden-size", 8, "--steps", 2)[0] == 0
    code, _, err = cli(*command, "--resume", "--hidden-size", 9)
    assert (code, "hidden_size is 8, not 9" in err) == (2, True)


@pytest.mark.slow
def test_python_m_minitransformer_runs_the_command(here):
    argv = [sys.executable, "-m", "minitransformer", "translate", "mine", "I love you"]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("module", ["numpy", "minigrad.nn", "argparse", "tokenizers"])
@pytest.mark.slow
def test_ctrl_c_during_imports_prints_no_traceback(module):
    program = f"""
import os, signal, sys
class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt)
from minitransformer.__main__ import main
sys.exit(main())
"""
    argv = [sys.executable, "-c", program, "translate", "mine", "I love you"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "stopped\n")


def test_version_matches_the_installed_package(cli):
    version = importlib.metadata.version("minitransformer")
    assert cli("--version")[:2] == (0, f"minitransformer {version}\n")
    assert minigrad.__version__ == minitransformer.__version__ == version


# --- Use ---


def test_translate_prints_one_line_per_sentence(cli):
    code, out, err = cli("translate", "mine", PAIRS[0][0], PAIRS[1][0])
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 2


def test_evaluate_prints_one_json_object(cli, here):
    code, out, err = cli("evaluate", "mine", "--json", "--data", "pairs.tsv")
    assert (code, err) == (0, "")
    scores = json.loads(out)
    expected = (
        "exact_match token_accuracy bleu bleu_signature bleu_lc_tok bleu_lc_tok_signature chrf "
        "chrf_signature loss perplexity n split decoding intervals by_length"
    )
    assert scores.keys() == set(expected.split())
    assert (scores["n"], scores["split"], scores["decoding"]) == (6, "test", "greedy")
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    assert read_json(here / "mine" / "metrics.json") == scores
    predictions = (here / "mine" / "predictions.txt").read_text().splitlines()
    assert predictions[0] == "source\treference\tprediction"
    assert len(predictions) == 7


def test_evaluate_json_prints_the_comparison_to_stderr(cli, monkeypatch):
    monkeypatch.setattr("minitransformer.cli.evaluate.compare_with_recipe", lambda *args: ["as expected"])
    _, out, err = cli("evaluate", "play", "--json")
    assert json.loads(out)["loss"] > 0
    assert err == "as expected\n"
    assert cli("evaluate", "play")[1].endswith("as expected\n")


@pytest.mark.slow
def test_evaluate_records_the_decoding_options(cli):
    assert json.loads(cli("evaluate", "mine", "--json", "--num-beams", 2)[1])["decoding"] == "num_beams=2"
    code, _, err = cli("evaluate", "play", "--num-beams", 2)
    assert code == 2
    assert err.startswith("error: --num-beams has no effect: play is scored without generating texts")


def test_exact_match_per_prefix_is_shown_as_a_percentage(capsys):
    report({"exact_match, negate": 0.25}, TextToText)
    assert capsys.readouterr().out.split() == ["exact", "match,", "negate", "25.00%"]


def test_splits_are_disjoint_and_cover_all_pairs(place):
    from minitransformer.data.rows import read_pairs
    from minitransformer.runs.run import load_splits

    splits = load_splits(load_recipe("phrasebook"), place / "pairs.tsv", None)
    assert [len(splits[name]) for name in ("train", "validation", "test")] == [48, 6, 6]
    assert sorted(itertools.chain(*splits.values())) == sorted(read_pairs(place / "pairs.tsv"))


def test_a_language_model_is_evaluated_on_its_held_out_text(cli):
    code, out, _ = cli("evaluate", "play", "--json", "--data", "text.txt")
    assert code == 0
    scores = json.loads(out)
    names = {"loss", "token_accuracy", "bits_per_char", "perplexity"}
    assert scores.keys() == names | {"n", "split", "intervals"}
    assert scores["intervals"].keys() == names
    assert scores["n"] == len(TEXT) - len(TEXT) * 9 // 10 - 1


def test_infinite_perplexity_is_null_in_json(cli, monkeypatch):
    name = "minitransformer.tasks.language_modelling.score_text"
    monkeypatch.setattr(name, lambda *arguments: {"loss": 1e4})
    assert json.loads(cli("evaluate", "play", "--json", "--data", "text.txt")[1])["perplexity"] is None


def test_generate_continues_the_prompt_reproducibly(cli):
    code, out, err = cli("generate", "play", "--prompt", "ROMEO:", "--max-new-tokens", 20)
    assert (code, err) == (0, "")
    assert out.startswith("ROMEO:")
    assert len(out) == len("ROMEO:") + 20 + 1
    assert cli("generate", "play", "--prompt", "ROMEO:", "--max-new-tokens", 20)[1] == out
    assert cli("generate", "play", "--prompt", "ROMEO:", "--max-new-tokens", 20, "--seed", 1)[1] != out


def test_generate_warns_of_a_prompt_that_is_cut(cli):
    most = Run("play").model.max_length
    code, _, err = cli("generate", "play", "--prompt", "t" * most, "--max-new-tokens", 2)
    assert (code, err) == (0, "")
    code, _, err = cli("generate", "play", "--prompt", "t" * (most + 1), "--max-new-tokens", 2)
    assert (code, err) == (
        0,
        f"warning: of the prompt's {most + 1} tokens, the model reads the last {most}\n",
    )


@pytest.mark.parametrize("text", ["to be or not to be", "to  be,\tor not\nto be"])
@pytest.mark.parametrize("train", [Tokenizer.train_word, lambda texts: Tokenizer.train_bpe(texts, 300)])
def test_the_space_after_the_prompt_is_kept(monkeypatch, text, train):
    tokenizer = train([text])
    ids = tokenizer.encode(text)
    whole = lambda _, prompts, *rest: [ids[len(prompts[0]) :]]
    steps = lambda _, prompts, **rest: ([token] for token in ids[len(prompts[0]) :])
    monkeypatch.setattr("minitransformer.tasks.language_modelling.generate", whole)
    monkeypatch.setattr("minitransformer.tasks.language_modelling.stream", steps)
    recipe = load_recipe("shakespeare-char")
    run = SimpleNamespace(
        recipe=recipe, tokenizer=tokenizer, model=SimpleNamespace(max_length=None), task=LanguageModelling
    )
    for prompt in ("to", text[:6].rstrip()):
        assert [prompt + new for new in LanguageModelling.generate(run, prompt, 5)] == [text]
        assert prompt + "".join(LanguageModelling.stream_text(run, prompt, 5)) == text


@pytest.mark.slow
def test_graph_writes_an_html_page_by_default(cli, here):
    code, out, err = cli("graph", "mine", "I love you", "Je t'aime")
    assert (code, err) == (0, "")
    title, written = out.splitlines()
    assert title == "I love you → Je t'aime"
    assert written.startswith("graph.html: ")
    assert "operations" in written
    page = (here / "graph.html").read_text()
    assert "encoder.layers.0" in page
    assert f"{round((here / 'graph.html').stat().st_size / 1024):,} KiB" in written


def test_recipes_are_listed_by_task(cli):
    code, out, _ = cli("recipes")
    assert code == 0
    tasks = {}
    for line in out.splitlines():
        if not line.startswith(" "):
            listed = tasks.setdefault(line, [])
        elif re.match(r"  \S", line):
            listed.append(line.split()[0])
    assert sorted(name for listed in tasks.values() for name in listed) == names()
    assert "phrasebook" in tasks["translation"]


# --- Help ---


def test_the_command_without_a_verb_lists_the_verbs(cli):
    for argv, expected in ((["--help"], 0), ([], 2)):
        code, out, _ = cli(*argv)
        assert code == expected
        assert all(verb in out for verb in VERBS)
