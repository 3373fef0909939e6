"""A user's mistake at the command line: explained, exit code 2, and nothing is lost."""

import gzip
import io
import os
import shlex
import signal
from dataclasses import replace

import pytest

from minitransformer.files import sha256
from minitransformer.runs.folder import _write_record, read_record
from minitransformer.tasks import Translation
from tests.tiny import TINY


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


OF_GRAPHS = [
    ("graph nowhere hello", ["no run folder nowhere", "train"]),
    ("graph mine --data text.txt", ["text.txt, line 1", "no tab"]),
    ("graph play --data other.txt", ["other data", "--data"]),
    ("graph mine hello -o graph.txt", ["graph.txt", "'.txt'", ".svg", ".html"]),
    ("graph mine hello -o graph", ["graph", "''", ".html", ".pdf"]),
    ("graph mine hello -o nowhere/graph.svg", ["no folder nowhere", "-o FILE"]),
    ("graph mine hello -o taken.svg", ["taken.svg already exists", "--overwrite", "-o FILE"]),
    ("graph mine hello --color red", ["--color", "family", "gradient", "bytes", "flops"]),
    ("graph mine hello --depth -1", ["depth = -1", ">= 0"]),
    ("graph mine hello --checkpoint bset", ["no checkpoint 'bset'", "best", "step-00000004"]),
    ("graph mine hello salut hola", ["hola"]),
    ("graph play R", ["1 token", "2 to 17", "longer"]),
    ("graph play ROMEO:ROMEO:ROMEO:", ["18 tokens", "2 to 17", "shorter"]),
    ("graph play Zebra", ["'Z'"]),
    ("graph play ROMEO: salut", ["language model", "no translation"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("translat mine hello", ["unknown verb 'translat'", "translate"]),
        ("train phrasbook", ["no recipe 'phrasbook'", "phrasebook"]),
        ("train mine.toml", ["mine.toml", "No such file"]),
        ("train taskless.toml", ["taskless.toml has no task", 'task = "NAME"', "translation"]),
        ("train phrasebook --stesp 3", ["--stesp", "--steps"]),
        ("train phrasebook --steps abc", ["--steps", "abc"]),
        ("train phrasebook --steps 0", ["steps = 0", ">= 1"]),
        ("train phrasebook --d-model 0", ["d_model = 0", ">= 1"]),
        ("train phrasebook --d-model 10 --num-heads 3", ["d_model=10", "num_heads=3", "multiple of 3"]),
        ("train phrasebook --num-encoder-layers 1000000000", ["num_encoder_layers = 10", "< 1001"]),
        (f"train phrasebook --steps {10**400}", ["steps = 10", f"< {2**63}"]),
        (f"train phrasebook --seed {2**63}", ["seed = 92", f"< {2**63}"]),
        (f"train shakespeare-char-cpu --head-dim {10**400}", ["head_dim = 10", f"< {2**63}"]),
        (f"translate run --num-beams {10**12}", ["num_beams = 10", "< 1001"]),
        (f"generate play --num-return-sequences {10**12}", ["num_return_sequences = 10", "< 100001"]),
        (f"generate play --max-new-tokens {10**12}", ["max_new_tokens = 10", "< 1000001"]),
        ("train phrasebook --dropout 1.5", ["dropout = 1.5", "< 1"]),
        ("train phrasebook --max-tokens 8", ["max_tokens = 8", "max_length = 32"]),
        ("train phrasebook --max-length 1", ["max_length = 1", ">= 2"]),
        ("train phrasebook --max-length 2 --data pairs.tsv", ["too long (2 tokens or more", "--max-length"]),
        ("train phrasebook --schedule stepwise", ["schedule", "stepwise", "cosine"]),
        ("train phrasebook --tokenizer sentencepiece --data pairs.tsv", ["tokenizer 'sentencepiece'", "bpe"]),
        ("train phrasebook --activation swish --data pairs.tsv", ["activation 'swish'", "relu"]),
        ("train phrasebook --positions sinus --data pairs.tsv", ["positions", "sinusoidal"]),
        ("train phrasebook --positions learned --max-positions 9", ["max_length = 32", "max_positions = 9"]),
        ("train phrasebook --dataset wmt14", ["unknown dataset 'wmt14'", "--data FILE"]),
        ("train phrasebook --dataset file", ["--data FILE"]),
        ("train phrasebook --device tpu", ["tpu", "cuda"]),
        ("train phrasebook --data nothing.tsv", ["nothing.tsv", "No such file"]),
        ("train phrasebook --data mine", ["mine", "directory"]),
        ("train phrasebook --data pairs.tsv --run-dir mine", ["contains a run", "--overwrite", "--resume"]),
        ("train phrasebook --run-dir mine --resume --overwrite", ["--resume", "--overwrite", "contradict"]),
        ("train phrasebook --run-dir text.txt", ["text.txt", "not a run folder", "--run-dir"]),
        ("train phrasebook --data pairs.tsv --run-dir text.txt/run", ["text.txt/run", "Not a directory"]),
        ("train phrasebook --data pairs.tsv --run-dir .", ["not a run folder", "--run-dir"]),
        ("train phrasebook --data pairs.tsv --run-dir . --overwrite", ["not a run folder", "--run-dir"]),
        ("train phrasebook --data few.tsv", ["at least 10"]),
        ("train phrasebook --data other.tsv --run-dir mine --resume", ["trained on other data"]),
        ("train shakespeare-char-cpu --data few.txt", ["few.txt"]),
        ("train phrasebook --learning_rate 3", ["no option '--learning-rate'", "Did you mean --lr?"]),
        ("train reverse --layers 3", ["Did you mean --num-encoder-layers or --num-decoder-layers?"]),
        (f"train reverse --steps {'x' * 999}", ["--steps: expected an integer, got"]),
        ("generate play --greedy --seed 1", ["seed = 1 has no effect without sampling"]),
        ("show mine yours", ["unexpected argument 'yours'"]),
        ("predict mine 'a\tb'", ["mine reads a text, got 2 texts"]),
        ("train phrasebook --data pairs.tsv --run-dir play --resume", ["a run of shakespeare-char-cpu"]),
        ("train phrasebook --run-dir nowhere --resume", ["no run folder nowhere", "--run-dir"]),
        ("train phrasebook --run-dir mine --resume --lr 1", ["mine is finished, at step 4 of 4", "--steps"]),
        ("train phrasebook --data pairs.tsv --run-dir mine --resume --d-model 32", ["d_model is 16, not 32"]),
        ("train phrasebook --data pairs.tsv --run-dir mine --resume --seed 77", ["seed is 0, not 77"]),
        ("train phrasebook --data pairs.tsv --run-dir mine --resume --precision tf32", ["float32, not tf32"]),
        ("train phrasebook --data text.txt --run-dir mine --overwrite", ["text.txt, line 1", "no tab"]),
        ("train phrasebook --data pairs.tsv --run-dir mine --overwrite --activation x", ["activation 'x'"]),
        ("train multi30k-en-fr --data-dir mine", ["train.en", "mine", "--data-dir"]),
        ("train shakespeare-char-cpu --data-dir mine", ["input.txt", "mine", "--data-dir"]),
        ("train shakespeare-char-cpu --block-size 65", ["block_size = 65", "n_positions = 64"]),
        ("translate nowhere hello", ["no run folder nowhere", "train"]),
        ("translate . hello", ["not a run folder", "run.json"]),
        ("translate mine  ", ["nothing to translate"]),
        ("translate play hello", ["language model", "generate"]),
        ("translate mine hello --checkpoint bset", ["no checkpoint 'bset'", "best", "step-00000004"]),
        ("generate mine --prompt hello", ["translate"]),
        ("generate play --prompt Zebra", ["'Z'"]),
        ("generate play --temperature 0", ["temperature = 0", "--greedy"]),
        ("generate play --top-p 0.9 --num-beams 4", ["--top-p 0.9 has no effect", "leave --num-beams out"]),
        ("generate play --top-k 5 --greedy", ["--top-k 5 has no effect", "leave --greedy out"]),
        ("generate play --greedy --num-return-sequences 3", ["--num-return-sequences 3", "leave --greedy"]),
        ("translate mine hello --num-return-sequences 3", ["--num-return-sequences 3", "pass --do-sample"]),
        ("translate mine hello --min-p 0.1", ["--min-p 0.1 has no effect", "pass --do-sample"]),
        ("translate mine hello --num-beams 2 --do-sample", ["--num-beams 2 and --do-sample exclude"]),
        ("evaluate mine --length-penalty 0.6", ["--length-penalty 0.6 has no effect", "--num-beams 4"]),
        ("generate play --max-new-tokens 0", ["max_new_tokens = 0"]),
        ("generate play --seed -1", ["seed"]),
        ("evaluate mine --data text.txt", ["text.txt, line 1", "no tab"]),
        ("evaluate play --data pairs.tsv", ["pairs.tsv has 2 columns", "--columns 1", "--format plain"]),
        ("evaluate play --data pairs.tsv --format plain", ["character", "not in the vocabulary"]),
        ("evaluate mine --jsno", ["--jsno", "--json"]),
        *OF_GRAPHS,
    ],
)  # fmt: skip
def test_a_mistake_is_explained(refused, here, monkeypatch, argv, words):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    (here / "taken.svg").write_text("precious")
    (here / "other.txt").write_text("JULIET: Ay me!\n" * 10)
    (here / "taskless.toml").write_text("[training]\nsteps = 1\n")
    (here / "few.tsv").write_text("a\tb\n" * 9)
    (here / "few.txt").write_text("too short")
    (here / "other.tsv").write_text((here / "pairs.tsv").read_text(encoding="utf-8") + "a\tb\n")
    refused(*shlex.split(argv), words=words)


@pytest.mark.parametrize("sentence", ["", "   "])
def test_only_empty_sentences_are_an_error(refused, sentence):
    refused("translate", "mine", sentence, sentence, words=["an empty text", "at least one word"])
    refused("graph", "mine", sentence, words=["an empty text", "at least one word"])


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.slow
def test_translate_skips_empty_sentences_with_a_warning(cli, copies):
    options = ["--do-sample", "--num-return-sequences", 2] if copies == 2 else []
    alone = cli("translate", "mine", "I love you", *options)[1].splitlines()
    code, out, err = cli("translate", "mine", "", "I love you", "  ", *options)
    assert (code, out.split("\n")) == (0, [*[""] * copies, *alone, *[""] * copies, ""])
    assert err.splitlines() == [
        f"warning: text {i} is not translated: an empty sentence has no translation." for i in (1, 3)
    ]


@pytest.mark.slow
def test_compressed_files_are_reported_as_compressed(refused, here):
    (here / "text.txt.gz").write_bytes(gzip.compress(b"a\tb\n" * 40))
    (here / "pairs.zip").write_bytes(b"PK\x03\x04rest")
    (here / "utf16.txt").write_bytes(("a\tb\n" * 40).encode("utf-16"))
    recipes = "phrasebook shakespeare-char-cpu bert-classify bert-tag bert-mlm t5-denoise"
    for recipe in shlex.split(recipes):
        words = ["text.txt.gz is compressed (gzip)", "Decompress it"]
        refused("train", recipe, "--data", "text.txt.gz", "--run-dir", "new", words=words)
    refused("train", "phrasebook", "--data", "pairs.zip", "--run-dir", "new", words=["is compressed (zip)"])
    refused("train", "phrasebook", "--data", "utf16.txt", "--run-dir", "new", words=["UTF-16, not UTF-8"])


def test_a_sentence_that_is_too_long_is_an_error(refused):
    for verb in ("translate", "graph"):
        refused(verb, "mine", "love " * 32, words=["33 tokens", "at most 32", "Shorten it"])
    refused("graph", "mine", "I love you", "aime " * 32, words=["33 tokens", "at most 32", "Shorten it"])


def test_invalid_utf8_arguments_are_an_error(refused):
    refused("translate", "mine", os.fsdecode(b"caf\xe9"), words=["not valid text", "UTF-8"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.toml", b"steps = = 3", ["config.toml is damaged or was changed", "checksum in run.json"]),
        ("tokenizer.json", b"{}", ["tokenizer.json is damaged or was changed", "checksum in run.json"]),
        ("run.json", b"{", ["run.json is not valid JSON"]),
        (
            "checkpoints/step-00000004/state.json",
            b"{}",
            ["step-00000004 cannot be loaded", "state.json does"],
        ),
        ("checkpoints/step-00000004/SHA256SUMS", b"", ["step-00000004 cannot be loaded", "SHA256SUMS"]),
        (
            "checkpoints/step-00000004/model.safetensors",
            None,
            ["step-00000004 cannot be loaded", "model.safetensors"],
        ),
    ],
)
def test_a_damaged_run_gives_a_clear_error(refused, here, name, content, words):
    path = here / "mine" / name
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    refused("translate", "mine", "I love you", words=words)


@pytest.mark.slow
def test_a_damaged_run_can_be_replaced(cli, here):
    (here / "mine" / "config.toml").write_text("steps = = 3")
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--overwrite", *TINY)
    assert cli(*command)[0] == 0


def test_weights_of_a_different_model_are_rejected(refused, here):
    config = here / "mine" / "config.toml"
    config.write_text(config.read_text().replace("d_model = 16", "d_model = 32"))
    refused("translate", "mine", "I love you", words=["config.toml is damaged or was changed"])
    record = read_record(here / "mine")  # a stranger's checksums may be right
    entry = {**record.history[0], "config_sha256": sha256(config.read_bytes())}
    _write_record(here / "mine", replace(record, history=[entry]))
    refused(
        "translate", "mine", "I love you", words=["step-00000004 cannot be loaded", "[295, 16]", "[295, 32]"]
    )


def test_an_unwritable_run_folder_is_named(refused, monkeypatch):
    def denied(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.mkdir", denied)
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "locked", *TINY)
    refused(*command, words=["cannot write to locked: Permission denied", "--run-dir"])


def test_a_full_disk_at_the_start_is_reported(refused, monkeypatch):
    def full(path, *_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("minigrad.io.write_temporary", full)
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--overwrite", *TINY)
    refused(*command, words=["No space left on device"])


def test_read_only_runs_can_be_evaluated(cli, here, monkeypatch):
    def denied(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    expected = cli("evaluate", "mine", "--json")[1]
    monkeypatch.setattr("minitransformer.training.storage.write_temporary", denied)
    code, out, err = cli("evaluate", "mine", "--json")
    assert (code, out) == (0, expected)
    assert "cannot write mine/metrics.json: Permission denied" in err


@pytest.mark.slow
def test_a_nan_loss_leaves_the_run_usable(cli, here):
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


def test_ctrl_c_saves_and_says_how_to_continue(cli, here, monkeypatch):
    batch = Translation.batch

    def interrupted(task, step):
        signal.raise_signal(signal.SIGINT)
        return batch(task, step)

    monkeypatch.setattr(Translation, "batch", interrupted)
    code, _, err = cli("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "new", *TINY)
    assert code == 1
    assert "the run is saved. Continue with: minitransformer train" in " ".join(err.split())
    assert "--resume --run-dir new" in " ".join(err.split())
    assert (here / "new/checkpoints/step-00000001").is_dir()


def test_debug_shows_the_traceback(cli):
    for argv in (["translate", "nowhere", "hello"], ["--debug", "translate", "nowhere", "hello"]):
        code, _, err = cli(*argv)
        assert code == 2
        assert ("Traceback" in err) == ("--debug" in argv)
        assert err.splitlines()[-2].startswith("error: there is no run folder nowhere")


def test_internal_errors_are_not_hidden(cli, monkeypatch):
    def broken(argv):
        raise ZeroDivisionError

    monkeypatch.setattr("minitransformer.cli.recipes.run", broken)
    with pytest.raises(ZeroDivisionError):
        cli("recipes")


def test_resume_rejects_fewer_steps_than_already_done(here, cli):
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--resume", "--steps", 2)
    before = (here / "mine" / "config.toml").read_bytes()
    code, _, err = cli(*command)
    assert code == 2
    assert "mine is at step 4, more than --steps 2" in err
    assert (here / "mine" / "config.toml").read_bytes() == before


def test_multi_line_errors_keep_their_line_breaks(cli, here):
    rows = "".join(f"{n}\tthe cat\tpos\n" for n in range(4))
    (here / "three.tsv").write_text(f"Nr\tSatz\tWert\n{rows}", encoding="utf-8")
    code, _, err = cli("train", "bert-classify", "--data", "three.tsv")
    assert code == 2
    assert "\n  line 2: 1='0' | 2='the cat' | 3='pos'\n" in err
