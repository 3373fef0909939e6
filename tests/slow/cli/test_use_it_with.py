"""The command that training prints is run: for every recipe, and for tasks of one's own.

Recipes are trained on a few examples of their data, or of generated stand-ins where it is public.
A command that is given no text has one of the run's own data, also where the data is gone.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from minitransformer import recipes
from minitransformer.cli import main
from minitransformer.cli.wording import verb_of
from minitransformer.data.splits import Splits
from minitransformer.models.protocol import MODELS
from minitransformer.runs.folder import _write_record as write_record
from minitransformer.runs.folder import read_record
from minitransformer.runs.run import Run
from minitransformer.tasks import TASKS, Translation, task_class
from tests.tasks.test_of_your_own import Scorer, Sums
from tests.tiny import TEXT

SMALL = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
    "d_model": 16, "num_heads": 2, "d_ff": 16, "d_kv": 8, "num_layers": 1, "num_encoder_layers": 1,
    "num_decoder_layers": 1, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "n_embd": 16,
    "n_head": 2, "n_layer": 1, "n_positions": 24, "batch_size": 4, "block_size": 16, "max_tokens": 256,
    "max_position_embeddings": 128, "vocab_size": 300, "steps": 1, "warmup_steps": 1,
    "embedding_dim": 16, "validate_every": 1,
    "checkpoint_every": 1, "num_key_value_heads": 2, "label_smoothing": 0.0, "log_every": 1,
}  # fmt: skip
PUBLIC = {"language-modelling": "text.txt", "translation": "pairs.tsv"}
PAIRS = "".join(
    f"the {a} {b}\tle {a} {b}\n" for a in ("cat", "dog", "man") for b in ("sat", "ran", "saw", "is")
)


def flags(name):
    """Flags that make a recipe small."""
    recipe = recipes.load_recipe(name)
    known = {
        f.name: getattr(part, f.name)
        for part in (recipe.data, recipe.model, recipe.training)
        for f in fields(part)
    }
    if recipe.training.epochs:
        known["epochs"] = 0
    chosen = {key: value for key, value in SMALL.items() if key in known}
    if not known.get("vocab_size"):
        chosen.pop("vocab_size", None)
    if "max_length" in known and "max_tokens" in known:
        chosen["max_tokens"] = max(known["max_length"], 256)
    if "max_length" in known and "n_positions" in chosen:
        chosen["n_positions"] = 2 * known["max_length"]  # a source and a target
    return [word for key, value in chosen.items() for word in (f"--{key.replace('_', '-')}", str(value))]


@pytest.fixture
def few(monkeypatch):
    """Splits of the package's own data have a few examples, with the words of those that are trained on."""
    drawn = {}  # by what they are of: a command draws all examples anew, of which a few are used here
    for task in set(TASKS.values()):
        splits = task.__dict__.get("splits")
        if splits is not None and task.__module__.startswith("minitransformer."):

            def shortened(cls, data, sources, splits=splits):
                key = cls, data, sources
                found = drawn.get(key) or splits.__func__(cls, data, sources)
                if isinstance(found["train"], str):
                    return found
                drawn[key] = found
                train = found["train"][:60]
                return Splits({"train": train, "validation": train[::8], "test": found["test"][:8]})

            monkeypatch.setattr(task, "splits", classmethod(shortened))


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs a command, with standard input; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*argv, stdin="the cat\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short data warns
            code = main([str(word) for word in argv])
        return code, *capsys.readouterr()

    return run


def printed(err):
    """The words of the command that training prints."""
    (line,) = re.findall("use it with: minitransformer (.*)", err)
    return shlex.split(line)


@pytest.mark.parametrize("name", recipes.names())
def test_the_use_command_printed_by_a_recipe_works(name, few, command):
    recipe = recipes.load_recipe(name)
    dataset = recipe.data.dataset
    if dataset == "digits":
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn (extra `digits`)")
    data = []
    if dataset in ("multi30k", "tinyshakespeare"):
        Path("text.txt").write_text(TEXT)
        Path("pairs.tsv").write_text(PAIRS)
        data = ["--data", PUBLIC[recipe.task]]
    code, _, err = command("train", name, "--run-dir", "my run", *data, *flags(name))
    assert code == 0, err
    words = printed(err)
    code, out, err = command(*words)
    assert code == 0
    # to chat, words come from standard input; and the vocabulary of bert-answers has no question words
    assert not err or words[0] == "chat" or re.fullmatch(r"warning: .*: (What|When|Where|Who)\n", err)
    assert out.strip() or words[0] in ("translate", "chat")  # these may say nothing after a step
    assert (words[0] == "chat") == (dataset == "dialogues")
    # what the README.md of the run says is the same command
    assert (
        shlex.join(["minitransformer", *[w if w != "my run" else "." for w in words]])
        in Path("my run/README.md").read_text()
    )
    # without a text, and without the data
    for file in ("text.txt", "pairs.tsv"):
        Path(file).unlink(missing_ok=True)
    if verb_of(task_class(recipe.task)) == "generate":
        code, _, err = command("generate", "my run", "--max-new-tokens", 2)
        assert (code, err) == (0, "")
    is_first = name == next(n for n in recipes.names() if recipes.load_recipe(n).task == recipe.task)
    for verb in ("explain", "graph") if is_first else ():  # a drawing for each task
        code, _, err = command(verb, "my run", "-o", f"{verb}.html")
        assert "vocabulary" not in err
        assert code == 0 or ((verb, code) == ("explain", 2) and "the walk-through does not support" in err)


# ---------------------------------------------------------------- texts of a run's own


TEXTS = {
    "without new lines": "To be, or not to be, that is the question. " * 30,
    "one line that ends": "To be, or not to be, that is the question. " * 30 + "\n",
    "names": "liam\nemma\nava\nnoah\nolivia\nnoah\n" * 20,
    "one character": "a" * 300,
    "Chinese": "床前明月光疑是地上霜举头望明月低头思故乡" * 20,
    "marks": "\ufeff\u200b😀 שלום e\u0301 \u202e$x$ \x07 <b>&\n" * 20,
}
GPT = shlex.split("--n-embd 8 --n-head 2 --n-layer 1 --n-positions 8 --block-size 4 --batch-size 2 --steps 1")


KINDS = [("char", text) for text in TEXTS] + [
    (kind, text) for kind in ("word", "bpe") for text in ("without new lines", "names", "marks")
]


@pytest.mark.parametrize(("tokenizer", "text"), KINDS)
def test_suggested_prompts_can_be_encoded(command, tokenizer, text):
    Path("data.txt").write_text(TEXTS[text], encoding="utf-8")
    options = ["--tokenizer", tokenizer, "--run-dir", "run", *GPT]
    code, out, err = command("train", "shakespeare-char-cpu", "--data", "data.txt", *options)
    if code == 2 and "is too short: expected at least" in err:  # of a few long words
        return
    assert code == 0, err
    assert command(*printed(err), "--max-new-tokens", 2)[::2] == (0, "")
    code, out, err = command("check", "run")
    assert (code, "✗" in out) == (0, False), out
    assert command("graph", "run", "-o", "data.html")[::2] == (0, "")
    Path("data.txt").unlink()
    for argv in (["generate", "run", "--max-new-tokens", 2], ["explain", "run"], ["graph", "run"]):
        code, _, err = command(*argv)
        assert (code, err) == (0, ""), argv
    run = Run(Path("run"))
    for (prompt,) in run.record.examples:
        assert run.tokenizer.encode(prompt)
        assert not run.tokenizer.unknown_words(prompt)
    newline = "\n" in TEXTS[text][: len(TEXTS[text]) * 9 // 10]
    is_read = "\n" not in run.tokenizer.unknown_words("\n") and " " not in run.tokenizer.unknown_words("\n")
    if run.record.examples[0] == ["\n"]:
        assert newline
        assert is_read
    if newline and tokenizer == "char":
        assert run.record.examples[0] == ["\n"]


def test_explain_and_generate_work_without_the_training_data(command):
    Path("pairs.tsv").write_text(PAIRS)
    Path("text.txt").write_text(TEXTS["names"])
    pairs = ("--data", "pairs.tsv", "--run-dir", "pairs")
    assert command("train", "phrasebook", *pairs, *flags("phrasebook"))[0] == 0
    assert command("train", "shakespeare-char-cpu", "--data", "text.txt", "--run-dir", "names", *GPT)[0] == 0
    for name in ("pairs", "names"):
        write_record(Path(name), replace(read_record(Path(name)), examples=[]))
    for file in ("pairs.tsv", "text.txt"):
        Path(file).unlink()
    assert command("explain", "pairs", "-o", "pairs.html")[::2] == (0, "")
    assert command("explain", "names", "-o", "names.html")[::2] == (0, "")
    assert command("generate", "names", "--max-new-tokens", 2)[::2] == (0, "")


def test_masked_lm_errors_do_not_mention_labels(command):
    Path("train.txt").write_text("".join(f"{a} b c d e f g h\n" for a in "abcdefghijklmnop"))
    Path("few.txt").write_text("z\n")
    options = ["--validation-data", "few.txt", "--run-dir", "run", *flags("bert-mlm")]
    code, _, err = command("train", "bert-mlm", "--data", "train.txt", *options)
    assert code == 2
    assert "nothing in the validation data can be predicted" in err
    assert "label" not in err


# ---------------------------------------------------------------- tasks of one's own


class Reads(Sums):
    name = "reads"

    @classmethod
    def read(cls, run, texts):
        return np.array(texts[0].split(), "float32"), 0

    @classmethod
    def short_inputs(cls, data, tokenizer, splits):
        return [[" ".join("1" for _ in splits["test"][0][0])]]


class Says(Sums):
    name = "says"

    @classmethod
    def read(cls, run, texts):
        return texts[0]

    @classmethod
    def predict(cls, run, examples, top=5):
        from minitransformer.tasks.predictions import text_prediction

        return [text_prediction("x") for _ in examples]


class Shouting(Translation):
    name = "shouting"
    noun = "loud model"

    @classmethod
    def splits(cls, data, sources):
        pairs = [(f"say {a} {b}", f"SAY {a} {b}") for a in "abcde" for b in "fghij"]
        return Splits({"train": pairs[:15], "validation": pairs[15:20], "test": pairs[20:]})


@pytest.mark.parametrize(("task", "verb"), [
    (Sums, "evaluate"), (Reads, "predict"),
    (Says, "predict"), (Shouting, "translate"),
])  # fmt: skip
def test_use_commands_of_user_tasks_work(task, verb, command, monkeypatch):
    monkeypatch.setitem(TASKS, task.name, task)
    monkeypatch.setitem(MODELS, "scorer", Scorer)
    model = 'model_type = "scorer"' if task is not Shouting else "d_model = 16\nnum_heads = 2\nd_ff = 16"
    Path("own.toml").write_text(
        f'task = "{task.name}"\n[model]\n{model}\n[training]\nsteps = 1\nwarmup_steps = 0\n'
    )
    code, _, err = command("train", "own.toml", "--run-dir", "run")
    assert code == 0, err
    words = printed(err)
    assert words[0] == verb
    code, _, err = command(*words, stdin="1 1 1 1 1\n")
    assert (code, err) == (0, "")
    other = "translate" if verb != "translate" else "predict"
    code, _, err = command(other, "run", "a text")  # what is said instead is a command that works
    if code == 2:
        instead = shlex.split(re.findall("Use `minitransformer (.*)`", err)[0])
        assert command(*instead, stdin="1 1 1 1 1\n")[0] == 0


PROGRAM = """
import sys
from minitransformer import register_model, register_task
from minitransformer.cli import main
from beside import Scorer, Sums

register_task(Sums)
register_model(Scorer)
if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.mark.parametrize("start", [["my program.py"], ["-m", "models.program"]])
def test_user_programs_print_and_sweep_their_own_command(start, tmp_path):
    def run(words, folder=tmp_path):
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=folder, env={**os.environ, **path}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    (tmp_path / "models").mkdir()
    for name in ("my program.py", "models/program.py"):
        (tmp_path / name).write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("from tests.tasks.test_of_your_own import Scorer, Sums\n")
    recipe = 'task = "sums"\n[model]\nmodel_type = "scorer"\n[training]\nsteps = 2\nwarmup_steps = 1\n'
    (tmp_path / "own.toml").write_text(recipe)
    said = run([*start, "train", "own.toml", "--run-dir", "run"]).stderr
    (line,) = re.findall("use it with: python (.*)", said)
    assert "accuracy" in run(shlex.split(line)).stdout
    swept = run([*start, "sweep", "own.toml", "--lr", "0.1", "0.2", "--run-dir", "runs"])
    assert "failed" not in swept.stdout
    readme = (tmp_path / "run" / "README.md").read_text()
    if start[0] != "-m":  # with -m the commands depend on the folder
        for command in re.findall("^python (.*)", readme, re.MULTILINE):
            run(shlex.split(command), tmp_path / "run")


def test_sweeping_unregistered_models_is_rejected(command, monkeypatch):
    monkeypatch.setitem(TASKS, "sums", Sums)
    monkeypatch.setitem(MODELS, "scorer", Scorer)
    Path("own.toml").write_text('task = "sums"\n[model]\nmodel_type = "scorer"\n')
    code, _, err = command("sweep", "own.toml", "--lr", "1", "2", "--run-dir", "runs")
    assert (code, Path("runs").exists()) == (2, False)
    assert "a process of its own, which would not know 'sums'" in err
