"""The command line: it trains and uses what it trained; a user's mistake is explained, and costs nothing."""

import io
import itertools
import json
import math
import os
import shutil
import subprocess
import sys

import pytest

from minitransformer.cli import VERBS, main
from minitransformer.data.phrasebook import phrasebook
from minitransformer.files import read_json
from minitransformer.recipes import load_recipe, names, parse_recipe, to_toml
from minitransformer.training.curves import read_log

TINY = [
    "--d-model",
    "16",
    "--num-heads",
    "2",
    "--d-ff",
    "32",
    "--num-encoder-layers",
    "1",
    "--num-decoder-layers",
    "1",
    "--steps",
    "4",
]
TINY_GPT = [
    "--n-embd",
    "16",
    "--n-head",
    "2",
    "--n-layer",
    "1",
    "--block-size",
    "16",
    "--n-positions",
    "16",
    "--steps",
    "4",
]
PAIRS = phrasebook().train[:60]
TEXT = "ROMEO: But soft! What light through yonder window breaks?\nJULIET: Ay me!\n" * 20


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data, a translation run `mine` and a language run `play`."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert main(["train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", *TINY]) == 0
        assert (
            main(["train", "shakespeare-char-cpu", "--data", "text.txt", "--run-dir", "play", *TINY_GPT]) == 0
        )
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(place, tmp_path, monkeypatch):
    """A copy of the place, to work in."""
    shutil.copytree(place, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def cli(here, capsys):
    """Runs a command; gives exit code, standard output and standard error."""

    def run(*argv):
        capsys.readouterr()
        code = main([str(word) for word in argv])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def refused(cli, here):
    """Runs a command that is a mistake: exit code 2, a short message with all of `words`, nothing changed."""

    def run(*argv, words):
        before = contents(here)
        code, out, err = cli(*argv)
        assert code == 2
        assert "Traceback" not in err
        assert out == ""
        assert len(err.splitlines()) <= 14, err
        flat = " ".join(err.replace("│", " ").split())
        for word in words:
            assert word in flat
        assert contents(here) == before
        return err

    return run


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- Train ---


def test_a_run_folder_holds_all_that_belongs_to_a_run(place):
    names = [
        "checkpoints",
        "config.toml",
        "curves.png",
        "log.jsonl",
        "metrics.json",
        "predictions.txt",
        "run.json",
        "tokenizer.json",
    ]
    assert sorted(path.name for path in (place / "mine").iterdir()) == names
    assert sorted(path.name for path in (place / "mine" / "checkpoints").iterdir()) == [
        "index.json",
        "step-00000004",
    ]


def test_run_json_says_with_what_the_run_was_made(place):
    run = read_json(place / "mine" / "run.json")
    assert run["recipe"] == "phrasebook"
    assert run["seed"] == 0
    assert {"python", "numpy", "minitransformer", "tokenizers"} <= run["versions"].keys()
    assert run["machine"]["platform"]
    assert run["data_sha256"].keys() == {"train", "validation", "test"}
    assert all(len(digest) == 64 for digest in run["data_sha256"].values())


def test_config_toml_is_the_recipe_with_its_flags(place):
    text = (place / "mine" / "config.toml").read_text()
    recipe = parse_recipe(text, "phrasebook", "config.toml")
    assert (recipe.model.d_model, recipe.training.steps, recipe.data.dataset) == (16, 4, "file")
    assert parse_recipe(to_toml(recipe), "phrasebook", "again") == recipe


@pytest.mark.parametrize("name", names())
def test_every_recipe_survives_a_round_trip(name):
    recipe = load_recipe(name)
    assert parse_recipe(to_toml(recipe), name, name) == recipe


def test_a_recipe_of_ones_own_is_a_file(cli, here):
    (here / "small.toml").write_text(
        'task = "translation"\n[model]\nd_model = 8\nnum_heads = 2\n[training]\nsteps = 1\n'
    )
    code, _, _ = cli("train", "small.toml", "--data", "pairs.tsv", *TINY[4:-2])
    assert code == 0
    assert read_json(here / "runs" / "small" / "run.json")["recipe"] == "small"


def test_training_ends_with_scores_and_examples(cli):
    code, out, err = cli("train", "phrasebook", "--data", "pairs.tsv", *TINY)
    assert code == 0
    assert out.count(" -> ") == 5
    for words in (
        "parameters",
        "step      4  validation: loss",
        "exact match",
        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:",
    ):
        assert words in err


def test_a_word_vocabulary_can_be_limited(cli, here):
    assert cli("train", "phrasebook", "--data", "pairs.tsv", "--vocab-size", 50, *TINY)[0] == 0
    assert len(read_json(here / "runs/phrasebook/tokenizer.json")["model"]["vocab"]) == 50


def test_pairs_that_are_too_long_are_left_out_and_counted(cli):
    code, _, err = cli("train", "phrasebook", "--data", "pairs.tsv", "--max-length", 7, *TINY)
    assert code == 0
    assert "training pairs of --max-length tokens or more" in err


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_language_model_of_words_or_pieces_trains_too(cli, kind):
    code, out, _ = cli(
        "train",
        "shakespeare-char-cpu",
        "--data",
        "text.txt",
        "--tokenizer",
        kind,
        "--vocab-size",
        60,
        *TINY_GPT,
    )
    assert code == 0
    assert out


def test_a_character_that_only_the_held_out_part_has_is_known(cli, here):
    (here / "late.txt").write_text("abc " * 100 + "xyz")
    assert cli("train", "shakespeare-char-cpu", "--data", "late.txt", *TINY_GPT)[0] == 0


def test_resume_goes_on_and_keeps_what_was_set(cli, here):
    code, _, err = cli(
        "train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--resume", "--steps", 6
    )
    assert code == 0
    assert "going on from step 4" in err
    assert parse_recipe((here / "mine/config.toml").read_text(), "", "").model.d_model == 16
    steps = [record["step"] for record in read_log(here / "mine" / "log.jsonl") if "loss" in record]
    assert steps == [4, 6]


def test_resume_without_a_checkpoint_starts_at_step_0(cli):
    code, _, err = cli("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "new", "--resume", *TINY)
    assert code == 0
    assert "no checkpoint yet: starting at step 0" in err


def test_overwrite_begins_anew_and_leaves_what_is_not_of_the_run(cli, here):
    (here / "mine" / "notes.txt").write_text("mine")
    code, _, _ = cli(
        "train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--overwrite", *TINY[:-1], 2
    )
    assert code == 0
    assert [p.name for p in (here / "mine" / "checkpoints").glob("step*")] == ["step-00000002"]
    assert (here / "mine" / "notes.txt").read_text() == "mine"


def test_python_m_minitransformer_is_the_command(here):
    argv = [sys.executable, "-m", "minitransformer", "translate", "mine", "I love you"]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_reader_who_has_seen_enough_is_no_error(here):
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "minitransformer", "recipes"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


# --- Use ---


def test_each_sentence_gets_a_line(cli):
    code, out, err = cli("translate", "mine", PAIRS[0][0], PAIRS[1][0])
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 2


def test_sentences_come_from_standard_input_too(cli, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("I love you\nI love cats.\n"))
    code, out, _ = cli("translate", "mine")
    assert code == 0
    assert out.splitlines() == cli("translate", "mine", "I love you", "I love cats.")[1].splitlines()


def test_unknown_words_are_named_and_the_sentence_is_translated(cli):
    code, out, err = cli("translate", "mine", "I love zebras, zebras and quaggas")
    assert code == 0
    assert len(out.splitlines()) == 1
    assert err.startswith("warning: ")
    assert "zebras" in err
    assert "quaggas" in err
    assert err.count("zebras") == 1


def test_evaluate_prints_one_json_object(cli, here):
    code, out, err = cli("evaluate", "mine", "--json", "--data", "pairs.tsv")
    assert (code, err) == (0, "")
    scores = json.loads(out)
    expected = (
        "exact_match token_accuracy bleu bleu_signature bleu_lc_tok chrf loss perplexity n split decoding"
    )
    assert scores.keys() == set(expected.split())
    assert (scores["n"], scores["split"], scores["decoding"]) == (6, "test", "greedy")
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    assert read_json(here / "mine" / "metrics.json") == scores
    predictions = (here / "mine" / "predictions.txt").read_text().splitlines()
    assert predictions[0] == "source\treference\tprediction"
    assert len(predictions) == 7


def test_evaluate_prints_a_table(cli):
    code, out, _ = cli("evaluate", "mine", "--data", "pairs.tsv")
    assert code == 0
    assert "exact match" in out


def test_the_test_split_was_not_trained_on(place):
    from minitransformer.data.datasets import read_pairs
    from minitransformer.training.run import load_splits

    splits = load_splits(load_recipe("phrasebook"), place / "pairs.tsv", None)
    assert [len(splits[name]) for name in ("train", "validation", "test")] == [48, 6, 6]
    assert sorted(itertools.chain(*splits.values())) == sorted(read_pairs(place / "pairs.tsv"))


def test_a_language_model_is_evaluated_on_its_held_out_text(cli):
    code, out, _ = cli("evaluate", "play", "--json", "--data", "text.txt")
    assert code == 0
    scores = json.loads(out)
    assert scores.keys() == {"loss", "token_accuracy", "bits_per_char", "perplexity", "n", "split"}
    assert scores["n"] == len(TEXT) - len(TEXT) * 9 // 10 - 1


def test_a_perplexity_beyond_all_numbers_is_null(cli, monkeypatch):
    monkeypatch.setattr(
        "minitransformer.training.tasks.LanguageModelling.validate", lambda self, model: {"loss": 1e4}
    )
    code, out, _ = cli("evaluate", "play", "--json", "--data", "text.txt")
    assert code == 0
    assert json.loads(out)["perplexity"] is None


def test_generate_goes_on_with_the_prompt_and_follows_the_seed(cli):
    code, out, err = cli("generate", "play", "--prompt", "ROMEO:", "--max-new-tokens", 20)
    assert (code, err) == (0, "")
    assert out.startswith("ROMEO:")
    assert len(out) == len("ROMEO:") + 20 + 1
    assert cli("generate", "play", "--prompt", "ROMEO:", "--max-new-tokens", 20)[1] == out
    assert cli("generate", "play", "--prompt", "ROMEO:", "--max-new-tokens", 20, "--seed", 1)[1] != out


def test_greedy_is_the_same_for_every_seed(cli):
    command = ("generate", "play", "--prompt", "ROMEO:", "--greedy", "--seed")
    assert cli(*command, 1)[1] == cli(*command, 2)[1]


def test_recipes_are_listed(cli):
    code, out, _ = cli("recipes")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == names()


# --- Help ---


def test_without_a_verb_the_verbs_are_shown(cli):
    for argv, expected in ((["--help"], 0), ([], 2)):
        code, out, _ = cli(*argv)
        assert code == expected
        assert all(verb in out for verb in VERBS)


@pytest.mark.parametrize(
    "verb", [["train"], ["translate"], ["generate"], ["evaluate"], ["recipes"]], ids=" ".join
)
def test_every_verb_has_help(cli, verb):
    code, out, err = cli(*verb, "--help")
    assert (code, err) == (0, "")
    assert f"usage: minitransformer {verb[0]}" in out


@pytest.mark.parametrize("recipe", names())
def test_every_key_of_a_recipe_is_a_flat_flag(cli, recipe):
    code, out, _ = cli("train", recipe, "--help")
    assert code == 0
    flags = {word.strip(",") for word in out.split() if word.startswith("--")}
    assert {"--data", "--data-dir", "--run-dir", "--resume", "--overwrite", "--device"} <= flags
    assert {"--steps", "--lr", "--seed", "--checkpoint-every", "--tokenizer"} <= flags
    assert ("--d-model" in flags) != ("--n-embd" in flags)
    assert not any("." in flag for flag in flags)


# --- Mistakes ---


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("translat mine hello", ["no verb 'translat'", "translate"]),
        ("train phrasbook", ["no recipe 'phrasbook'", "phrasebook"]),
        ("train mine.toml", ["mine.toml", "No such file"]),
        ("train phrasebook --stesp 3", ["--stesp", "--steps"]),
        ("train phrasebook --steps abc", ["--steps", "abc"]),
        ("train phrasebook --steps 0", ["steps = 0", "from 1 on"]),
        ("train phrasebook --steps -1", ["steps = -1", "from 1 on"]),
        ("train phrasebook --lr -1", ["lr = -1", "from 0 on"]),
        ("train phrasebook --d-model 0", ["d_model = 0", "from 1 on"]),
        ("train phrasebook --num-heads 0", ["num_heads = 0", "from 1 on"]),
        ("train phrasebook --d-model 10 --num-heads 3", ["d_model=10", "num_heads=3", "multiple of 3"]),
        ("train phrasebook --num-encoder-layers -1", ["num_encoder_layers = -1"]),
        ("train phrasebook --dropout 1.5", ["dropout = 1.5", "below 1"]),
        ("train phrasebook --vocab-size -1", ["vocab_size = -1"]),
        ("train phrasebook --max-tokens 8", ["max_tokens = 8", "max_length = 32"]),
        ("train phrasebook --max-length 1", ["max_length = 1", "from 2 on"]),
        ("train phrasebook --max-length 2 --data pairs.tsv", ["shorter than 2 tokens", "--max-length"]),
        ("train phrasebook --micro-batches 0", ["micro_batches = 0"]),
        ("train phrasebook --schedule linear", ["schedule", "linear", "cosine"]),
        ("train phrasebook --tokenizer wordpiece --data pairs.tsv", ["tokenizer 'wordpiece'", "bpe"]),
        ("train phrasebook --activation swish --data pairs.tsv", ["activation 'swish'", "relu"]),
        ("train phrasebook --positions none --data pairs.tsv", ["positions", "sinusoidal"]),
        ("train phrasebook --positions learned --max-positions 9", ["max_length = 32", "max_positions = 9"]),
        ("train phrasebook --dataset wmt14", ["no dataset 'wmt14'", "--data FILE"]),
        ("train phrasebook --dataset file", ["--data FILE"]),
        ("train phrasebook --device cuda", ["cuda", "CPU"]),
        ("train phrasebook --data nothing.tsv", ["nothing.tsv", "No such file"]),
        ("train phrasebook --data mine", ["mine", "directory"]),
        ("train phrasebook --data pairs.tsv --run-dir mine", ["mine holds a run", "--resume", "--overwrite"]),
        ("train phrasebook --run-dir mine --resume --overwrite", ["--resume", "--overwrite", "contradict"]),
        ("train phrasebook --run-dir text.txt", ["text.txt", "not a run folder", "--run-dir"]),
        ("train phrasebook --data pairs.tsv --run-dir text.txt/run", ["text.txt/run", "Not a directory"]),
        ("train phrasebook --data pairs.tsv --run-dir .", ["not a run folder", "--run-dir"]),
        ("train phrasebook --data pairs.tsv --run-dir . --overwrite", ["not a run folder", "--run-dir"]),
        ("train phrasebook --data pairs.tsv --run-dir play --resume", ["a run of shakespeare-char-cpu"]),
        ("train phrasebook --run-dir mine --resume", ["--data FILE"]),
        ("train phrasebook --data pairs.tsv --run-dir mine --resume --d-model 32", ["d_model is 16, not 32"]),
        ("train phrasebook --data pairs.tsv --run-dir mine --resume --max-tokens 64", ["max_tokens is"]),
        ("train phrasebook --data text.txt --run-dir mine --overwrite", ["text.txt, line 1", "no tab"]),
        ("train phrasebook --data pairs.tsv --run-dir mine --overwrite --activation x", ["activation 'x'"]),
        ("train multi30k-en-fr --data-dir mine", ["train.en", "mine", "--data-dir"]),
        ("train shakespeare-char-cpu --data-dir mine", ["input.txt", "mine", "--data-dir"]),
        ("train shakespeare-char-cpu --data pairs.tsv --block-size 0", ["block_size = 0"]),
        ("train shakespeare-char-cpu --block-size 65", ["block_size = 65", "n_positions = 64"]),
        ("train shakespeare-char-cpu --data nothing.txt", ["nothing.txt", "No such file"]),
        ("translate nowhere hello", ["no run folder nowhere", "train"]),
        ("translate . hello", ["not a run folder", "config.toml"]),
        ("translate mine  ", ["nothing to translate"]),
        ("translate play hello", ["language model", "generate"]),
        ("translate mine hello --checkpoint bset", ["no checkpoint 'bset'", "best", "step-00000004"]),
        ("generate mine --prompt hello", ["translate"]),
        ("generate play --prompt Zebra", ["'Z'"]),
        ("generate play --temperature 0", ["temperature = 0", "--greedy"]),
        ("generate play --temperature nan", ["temperature = nan", "--greedy"]),
        ("generate play --top-k 0", ["top_k = 0"]),
        ("generate play --max-new-tokens 0", ["max_new_tokens = 0"]),
        ("generate play --seed -1", ["seed"]),
        ("generate nowhere", ["no run folder nowhere"]),
        ("evaluate mine", ["--data FILE"]),
        ("evaluate mine --data text.txt", ["text.txt, line 1", "no tab"]),
        ("evaluate play --data pairs.tsv", ["other data", "--data"]),
        ("evaluate mine --jsno", ["--jsno", "--json"]),
    ],
)  # fmt: skip
def test_a_mistake_is_explained(refused, monkeypatch, argv, words):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    refused(*argv.split(), words=words)


@pytest.mark.parametrize("sentence", ["", "   "])
def test_an_empty_sentence_is_a_mistake(refused, sentence):
    refused("translate", "mine", "I love you", sentence, words=["an empty sentence", "at least one word"])


def test_a_sentence_that_is_too_long_is_a_mistake(refused):
    refused("translate", "mine", "love " * 32, words=["32 tokens", "at most 31", "Cut it in two"])


def test_bytes_that_are_no_text_are_a_mistake(refused):
    refused("translate", "mine", os.fsdecode(b"caf\xe9"), words=["not a text", "UTF-8"])


def test_standard_input_that_is_no_text_is_a_mistake(refused, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="utf-8"))
    refused("translate", "mine", words=["standard input is not UTF-8"])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"no tab here", "no tab"),
        (b"a\tb\tc", "2 tabs"),
        (b"a\t", "an empty side"),
        (b"\xff\tb", "not UTF-8"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(refused, here, line, found):
    (here / "bad.tsv").write_bytes(b"one\tun\ntwo\tdeux\n" + line + b"\n")
    command = ("train", "phrasebook", "--data", "bad.tsv", "--run-dir", "mine", "--overwrite")
    refused(*command, words=["bad.tsv, line 3", found])


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"too short"])
def test_a_text_that_is_none_is_named(refused, here, content):
    (here / "bad.txt").write_bytes(content)
    refused("train", "shakespeare-char-cpu", "--data", "bad.txt", words=["bad.txt"])


def test_a_run_goes_on_with_its_own_data_only(refused, here):
    lines = (here / "pairs.tsv").read_text().splitlines(keepends=True)
    (here / "other.tsv").write_text("".join(lines[:-1]))
    command = ("train", "phrasebook", "--data", "other.tsv", "--run-dir", "mine", "--resume")
    refused(*command, words=["mine was trained on other data", "--data", "--overwrite"])


def test_a_folder_of_another_kind_is_never_overwritten(refused, here):
    (here / "project").mkdir()
    (here / "project" / "config.toml").write_text("precious = true")
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "project", "--overwrite")
    refused(*command, words=["project exists and is not a run folder", "nothing there was touched"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.toml", b"steps = = 3", ["config.toml is not valid TOML", "line 1"]),
        ("config.toml", b"\xff", ["config.toml is not UTF-8"]),
        ("config.toml", b'task = "translation"\nmodel = 3', ["config.toml", "model = 3", "[model]"]),
        ("tokenizer.json", b"{}", ["tokenizer.json"]),
        ("checkpoints/index.json", b"{", ["index.json is not valid JSON"]),
        ("checkpoints/index.json", b"{}", ["no checkpoint 'best'", "step-00000004"]),
        (
            "checkpoints/step-00000004/model.safetensors",
            None,
            ["step-00000004 cannot be used", "model.safetensors"],
        ),
    ],
)
def test_a_damaged_run_is_named(refused, here, name, content, words):
    path = here / "mine" / name
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    refused("translate", "mine", "I love you", words=words)


def test_a_damaged_run_can_be_replaced(cli, here):
    (here / "mine" / "config.toml").write_text("steps = = 3")
    assert (
        cli("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--overwrite", *TINY)[0] == 0
    )


def test_weights_of_another_model_are_refused(refused, here):
    config = here / "mine" / "config.toml"
    config.write_text(config.read_text().replace("d_model = 16", "d_model = 32"))
    refused(
        "translate", "mine", "I love you", words=["step-00000004 cannot be used", "[295, 16]", "[295, 32]"]
    )


def test_a_place_where_nothing_can_be_written_is_named(refused, monkeypatch):
    def denied(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.mkdir", denied)
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "locked", *TINY)
    refused(*command, words=["cannot write to locked: Permission denied", "--run-dir"])


def test_a_file_that_cannot_be_written_is_named(refused, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("minitransformer.cli.evaluate.write_atomically", full)
    refused("evaluate", "mine", "--data", "pairs.tsv", words=["predictions.txt: No space left on device"])


def test_a_loss_that_is_no_number_ends_the_training_and_leaves_the_run_usable(cli, here):
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--resume", "--steps", 9)
    code, out, err = cli(*command, "--lr", "1e30", "--warmup-steps", 0)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    message = err[err.index("error:") :]
    assert message.startswith("error: step 6: the loss is nan")
    assert "first in module" in message
    assert "step-00000004" in message
    assert "--lr" in message
    assert cli("translate", "mine", "I love you")[0] == 0
    assert cli(*command, "--lr", "1e-3")[0] == 0


def test_ctrl_c_saves_and_says_how_to_go_on(cli, here, monkeypatch):
    import signal

    from minitransformer.training.tasks import Translation

    next_batch = Translation.next_batch

    def interrupted(task):
        signal.raise_signal(signal.SIGINT)
        return next_batch(task)

    monkeypatch.setattr(Translation, "next_batch", interrupted)
    code, _, err = cli("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "new", *TINY)
    assert code == 1
    assert "stopped after step 1; all is saved. Go on with --resume --run-dir new" in " ".join(err.split())
    assert (here / "new/checkpoints/step-00000001").is_dir()


def test_debug_shows_the_traceback(cli):
    for argv in (["translate", "nowhere", "hello"], ["--debug", "translate", "nowhere", "hello"]):
        code, _, err = cli(*argv)
        assert code == 2
        assert ("Traceback" in err) == ("--debug" in argv)
        assert err.splitlines()[-2].startswith("error: there is no run folder nowhere")


def test_what_is_no_mistake_of_the_user_is_not_hidden(cli, monkeypatch):
    def broken(argv):
        raise ZeroDivisionError

    monkeypatch.setattr("minitransformer.cli.recipes.run", broken)
    with pytest.raises(ZeroDivisionError):
        cli("recipes")
