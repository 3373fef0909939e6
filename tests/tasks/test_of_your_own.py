"""Models and tasks of one's own train, resume, are scored, generate and are drawn like the package's."""

import json
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from minitransformer import GPT, GPTConfig, TrainConfig, Trainer, Transformer, TransformerConfig, generate
from minitransformer.cli import main
from minitransformer.data.splits import Sources, Splits
from minitransformer.errors import UserError
from minitransformer.models.presets import PRESETS, preset
from minitransformer.models.protocol import MODELS, model_class, register_model
from minitransformer.recipes import Recipe, RecipeError, parse_recipe, to_toml
from minitransformer.runs.folder import read_record
from minitransformer.runs.memory_needed import check_memory
from minitransformer.runs.run import Run
from minitransformer.tasks import TASKS, ArrayTask, PairTask, SpecialIds, Task, register_task
from minitransformer.tasks.scores import Score, rmse
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.training.checkpoint import Checkpoints
from tests.tiny import PAIRS, TEXT, TINY

# ---------------------------------------------------------------- a model of one's own


@dataclass(frozen=True)
class AverageConfig:
    vocab_size: int = 0
    width: int = 8


class Average(nn.Module):
    """A language model that sees each token and the mean of all tokens before it."""

    model_type = "average"
    config_class = AverageConfig
    is_encoder_decoder = False
    max_length = None

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.mix = nn.Linear(2 * config.width, config.width)
        self.dropout = nn.Dropout(0.1)
        self.output = nn.Linear(config.width, config.vocab_size)

    def new_cache(self, max_length=0):
        return None

    def states(self, ids, cache=None, mask=None):
        x = self.embedding(ids)
        mean = x.cumsum(1) / mg.arange(1, x.shape[1] + 1).reshape(-1, 1)
        return self.dropout(self.mix(mg.cat([x, mean], -1)).tanh())

    def logits(self, states):
        return self.output(states)

    def forward(self, ids, mask=None):
        return self.logits(self.states(ids))


RECIPE = """
task = "language-modelling"
[data]
block_size = 16
[model]
model_type = "average"
width = 6
[training]
steps = 6
checkpoint_every = 3
"""


@pytest.fixture
def registries():
    """What a test registers is gone after it."""
    before = dict(MODELS), dict(TASKS)
    MODELS.pop("average", None)  # the docs' example, where it ran before
    yield
    for table, old in zip((MODELS, TASKS), before, strict=True):
        table.clear()
        table.update(old)


@pytest.fixture
def own_model(registries, tmp_path, monkeypatch):
    register_model(Average)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "mine.toml").write_text(RECIPE)


def train(*argv):
    return main(["train", *map(str, argv)])


def weights(folder):
    return (Checkpoints(folder / "checkpoints").path("last") / "model.safetensors").read_bytes()


def test_user_models_train_resume_evaluate_and_generate(own_model, tmp_path, capsys):
    assert train("mine.toml", "--data", "text.txt", "--run-dir", "whole") == 0
    assert train("mine.toml", "--data", "text.txt", "--run-dir", "parts", "--steps", 3) == 0
    assert train("mine.toml", "--run-dir", "parts", "--resume", "--steps", 6) == 0
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    run = Run(tmp_path / "whole")
    assert type(run.model) is Average
    assert run.model.config == AverageConfig(run.tokenizer.vocab_size, 6)
    capsys.readouterr()
    assert main(["evaluate", "whole", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() >= {"loss", "perplexity", "bits_per_char"}
    assert main(["generate", "whole", "--prompt", "ROMEO", "--max-new-tokens", "5"]) == 0
    assert len(capsys.readouterr().out) == len("ROMEO") + 5 + 1
    assert main(["graph", "whole", "ROMEO", "-o", "graph.dot"]) == 0
    assert "embedding" in (tmp_path / "graph.dot").read_text()
    ids = run.tokenizer.encode("ROM")
    assert generate(run.model, [ids], 4) == generate(run.model, [ids], 4, use_cache=False)


@pytest.mark.slow
def test_user_models_can_be_chosen_by_a_flag(own_model, tmp_path):
    flags = "--data text.txt --run-dir flag --model-type average --width 5 --steps 1 --block-size 16"
    assert train("shakespeare-char-cpu", *flags.split()) == 0
    assert Run(tmp_path / "flag").model.config.width == 5


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('model_type = "averge"', r"unknown model_type 'averge'. Did you mean average"),
        ('model_type = "transformer"', r"transformer cannot learn the task language-modelling"),
        ('preset = "gpt2-medum"', r"no preset 'gpt2-medum'. Did you mean gpt2-medium"),
        ('model_type = "average"\npreset = "gpt2"', r"the preset 'gpt2' is a gpt2, not a average"),
        ('model_type = "average"\nwidht = 3', r"AverageConfig has no field 'widht'. Did you mean width"),
        ('model_type = "average"\nwidth = "x"', r"mine.toml \[model\]: width must be an integer, got 'x'"),
    ],
)
def test_unknown_models_are_named(own_model, lines, problem):
    with pytest.raises(RecipeError, match=problem):
        parse_recipe(f'task = "language-modelling"\n[model]\n{lines}', "mine", "mine.toml")


def test_models_lacking_what_a_task_needs_are_rejected(registries):
    register_model(type("Blind", (nn.Module,), {"model_type": "blind", "config_class": AverageConfig}))
    with pytest.raises(UserError, match="a model of your own with is_encoder_decoder = False and states"):
        Recipe("language-modelling", model_type="blind")


def test_an_unknown_task_is_named():
    with pytest.raises(RecipeError, match=r"unknown task 'translaton'. Did you mean translation"):
        parse_recipe('task = "translaton"', "mine", "mine.toml")


def test_recipe_keys_override_a_preset():
    text = 'task = "language-modelling"\n[model]\npreset = "gpt2"\nn_layer = 2'
    recipe = parse_recipe(text, "mine", "mine.toml")
    assert (recipe.model.n_layer, recipe.model.n_embd, recipe.model.vocab_size) == (2, 768, 0)
    assert parse_recipe(to_toml(recipe), "mine", "mine.toml") == recipe


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_belongs_to_a_registered_model(name):
    model_type, _ = PRESETS[name]
    assert type(preset(name)) is model_class(model_type).config_class


def test_user_models_too_large_for_memory_are_rejected(own_model):
    recipe = parse_recipe(RECIPE.replace("width = 6", "width = 10000000000"), "mine", "mine.toml")
    with pytest.raises(UserError, match="--width 10000000000 needs at least"):
        check_memory(recipe, SimpleNamespace(vocab_size=30))


# ---------------------------------------------------------------- a task of one's own


@dataclass(frozen=True)
class SumData:
    batch_size: int = 8
    length: int = 5


class Sums(Task):
    """Whether the sum of some numbers is positive."""

    name = "sums"
    Data = SumData
    unit = "lists"
    noun = "classifier"
    model_types = ()
    descriptions = {"positives": "share of positives"}  # noqa: RUF012

    @classmethod
    def splits(cls, data, sources):
        draws = np.random.default_rng(0).normal(size=(60, data.length)).astype(np.float32)
        lists = [(row, int(row.sum() > 0)) for row in draws]
        return Splits({"train": lists[:40], "validation": lists[40:50], "test": lists[50:]})

    @classmethod
    def labels(cls, data, splits):
        return ["negative", "positive"]

    def encode(self, example):
        row, label = example
        return {"input": row, "target": label}

    @classmethod
    def evaluate(cls, run, examples, **decoding):
        scores, rows = super().evaluate(run, examples)
        return {**scores, "positives": float(np.mean([y for _, y in examples]))}, rows


@dataclass(frozen=True)
class ScorerConfig:
    num_labels: int = 0
    width: int = 5


class Scorer(nn.Module):
    model_type = "scorer"
    config_class = ScorerConfig

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.linear = nn.Linear(config.width, config.num_labels)

    def forward(self, x):
        return self.linear(mg.tensor(x))


@pytest.mark.slow
def test_user_tasks_work_on_the_command_line(registries, tmp_path, monkeypatch, capsys):
    register_task(Sums)
    register_model(Scorer)
    monkeypatch.chdir(tmp_path)
    training = "[training]\nsteps = 60\nlr = 0.1\nlabel_smoothing = 0.0\ncheckpoint_every = 30"
    (tmp_path / "sums.toml").write_text(f'task = "sums"\n[model]\nmodel_type = "scorer"\n{training}')
    assert train("sums.toml", "--run-dir", "whole") == 0
    out, err = capsys.readouterr()
    assert "lists: 40 train, 10 validation, 10 test" in err
    assert "12 parameters, 2 labels, 60 steps" in err
    assert "share of positives" in out
    assert "-> " in out
    assert not (tmp_path / "whole" / "tokenizer.json").exists()
    assert read_record(tmp_path / "whole").labels == ["negative", "positive"]
    assert train("sums.toml", "--run-dir", "parts", "--steps", 30) == 0
    assert train("sums.toml", "--run-dir", "parts", "--resume", "--steps", 60) == 0
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    capsys.readouterr()
    assert main(["evaluate", "whole", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["accuracy"] >= 0.9
    assert scores["n"] == 10
    predictions = (tmp_path / "whole" / "predictions.txt").read_text().splitlines()
    assert predictions[0] == "input\texpected\tprediction"
    assert len(predictions) == 11
    assert main(["graph", "whole", "-o", "graph.dot"]) == 0
    for verb, said in (("translate", "cannot translate"), ("generate", "cannot continue a text")):
        assert main([verb, "whole", *(["x"] if verb == "translate" else [])]) == 2
        assert f"whole is a classifier, which {said}" in capsys.readouterr().err


def test_duplicate_task_and_model_names_are_rejected(registries):
    with pytest.raises(UserError, match="the task name 'translation' is taken"):
        register_task(type("Mine", (Sums,), {"name": "translation"}))
    with pytest.raises(UserError, match="'gpt2' is already used"):
        register_model(type("Mine", (nn.Module,), {"model_type": "gpt2", "config_class": AverageConfig}))
    with pytest.raises(UserError, match="has no name, Data, model_types"):
        register_task(type("Mine", (Task,), {}))


# ---------------------------------------------------------------- what a task has by default


def far_off(predictions, expected):
    """The fraction of numbers that are wrong by more than 1."""
    return Score([(abs(p - e) > 1, 1) for p, e in zip(predictions, expected, strict=True)])


class Heights(Task):
    """A number for a list of ids, some of which are hidden in each step."""

    name = "heights"
    Data = SumData
    model_types = ()
    metrics = (rmse, far_off)
    stream = 99

    def encode(self, example):
        ids, height = example
        return {"input": list(ids), "target": height}

    def vary(self, row, random):
        return row | {"input": [0 if random.random() < 0.5 else i for i in row["input"]]}


IDS = [((1,) * (2 + i % 5), float(i % 3)) for i in range(20)]


def test_user_task_rows_are_padded_and_augmented():
    task, other = (Heights(SumData(batch_size=4), IDS, IDS, seed=3) for _ in range(2))
    batch = task.collate(IDS[:4], 5)
    assert (batch["input"].shape, batch["target"].dtype, batch.n_tokens) == ((4, 5), np.float32, 4)
    assert (task.collate(IDS[:2], 5)["input"] == batch["input"][:2, :3]).all()
    assert (other.collate(IDS[:4], 5)["input"] == batch["input"]).all()
    assert (task.collate(IDS[:4], 6)["input"] != batch["input"]).any()
    (first, _), (second, part) = task.split(batch, 2)
    assert (first, second, part.n_tokens) == (0, 2, 2)


def test_regression_targets_use_squared_error():
    model = lambda ids: mg.ones(len(ids))
    task = Heights(SumData(), IDS, IDS)
    errors = np.array([(1 - height) ** 2 for _, height in IDS])
    assert task.loss(model, task.collate(IDS, 0), 0.0).item() == pytest.approx(errors.sum())
    assert task.validate(model) == pytest.approx({"loss": errors.mean()})
    run = SimpleNamespace(recipe=SimpleNamespace(data=SumData()), tokenizer=None, labels=[], model=model)
    scores, rows = Heights.evaluate(run, IDS)
    expected = {"rmse": errors.mean() ** 0.5, "far_off": 0.0, "mse": errors.mean(), "n": 20}
    assert list(scores) == list(expected)
    assert scores == pytest.approx(expected)
    assert scores["rmse"].of([0, 2]) == pytest.approx(1.0)  # by example, so that it has an interval
    assert rows[:2] == [("input", "expected", "prediction"), ("example 0", "0", "1")]


def test_tasks_without_data_require_a_file_and_read_file(tmp_path):
    with pytest.raises(UserError, match="heights has no data of its own"):
        Heights.splits(SumData(), Sources())
    with pytest.raises(UserError, match="heights cannot read your own files"):
        Heights.splits(SumData(), Sources(tmp_path / "heights.tsv"))


# ---------------------------------------------------------------- arrays and pairs

X = np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32)
Y = X @ np.array([1.0, -2.0, 0.5], np.float32)


def fit(folder, task, model, steps=60, **settings):
    trainer = Trainer(model, task, TrainConfig(steps=steps, checkpoint_every=20, **settings), folder)
    trainer.train()
    return task.validate(model)


def test_array_task_fits_a_linear_model(tmp_path):
    model = nn.Linear(3, 1)
    task = ArrayTask((X, Y[:, None]), loss=F.mse_loss, batch_size=16)
    assert len(task.train) == 81
    assert fit(tmp_path, task, model, steps=150, lr=0.1)["loss"] < 0.01
    assert model.weight.numpy() == pytest.approx(np.array([[1, -2, 0.5]]), abs=0.05)


def test_array_task_scores_classes_on_validation_data(tmp_path):
    labels = (Y > 0).astype(np.int64)
    task = ArrayTask((X[:60], labels[:60]), validation=(X[60:], labels[60:]), batch_size=16)
    assert [len(task.train), len(task.validation)] == [60, 30]
    scores = fit(tmp_path, task, nn.Linear(3, 2), lr=0.1, label_smoothing=0.0)
    assert scores["accuracy"] > 0.9


def test_ignored_targets_have_no_loss_and_no_score():
    targets = np.array([[0, 1, -100], [1, -100, -100], [2, 0, 1]])  # padded to a length of 3
    inputs = np.eye(4, dtype=np.float32)[np.array([[0, 1, 3], [2, 3, 3], [2, 0, 0]])]
    model = nn.Linear(4, 3)
    task = ArrayTask((inputs, targets), validation=(inputs, targets), batch_size=2)
    logits = model(mg.tensor(inputs))
    expected = F.cross_entropy(logits.reshape(-1, 3), targets.reshape(-1), ignore_index=-100).item()
    scores = task.validate(model)
    known = targets >= 0
    right = logits.argmax(-1).numpy() == targets
    assert scores == pytest.approx({"loss": expected, "accuracy": right[known].mean()})
    (batch,) = ArrayTask((inputs, targets), batch_size=3).batches([0, 1, 2])
    parts = [part for _, part in task.split(batch, 3)]
    assert [part.n_tokens for part in parts] == [2, 1, 3]
    total = sum(task.loss(model, part, 0.0).item() for part in parts)
    assert total / batch.n_tokens == pytest.approx(expected)


def test_micro_batches_do_not_change_array_tasks(tmp_path):
    trained = []
    for parts in (1, 3):
        mg.manual_seed(0)
        model = nn.Linear(3, 1)
        task = ArrayTask((X, Y[:, None]), loss=F.mse_loss, batch_size=16)
        fit(tmp_path / str(parts), task, model, lr=0.1, micro_batches=parts)
        trained.append(model.weight.numpy())
    assert trained[1] == pytest.approx(trained[0], abs=1e-5)


def test_pair_task_accepts_texts_or_ids(tmp_path):
    tokenizer = Tokenizer.train_word([side for pair in PAIRS for side in pair])
    config = TransformerConfig(tokenizer.vocab_size, 16, 2, 32, 1, 1)
    assert fit(tmp_path / "texts", PairTask(PAIRS, tokenizer, 256), Transformer(config), steps=2)["loss"] > 0
    pairs = [([4 + i, 5], [5, 4 + i]) for i in range(4)]
    task = PairTask(pairs, SpecialIds(0, 2, 3), 64)
    assert task.batch(0)["target_in"][:, 0].tolist() == [2] * 4
    assert SpecialIds() == SpecialIds(pad_id=0, start_id=2, end_id=3)
    model = Transformer(TransformerConfig(9, 16, 2, 32, 1, 1, dropout=0.0))
    fit(tmp_path / "ids", task, model, steps=40, lr=0.01, label_smoothing=0.0, warmup_steps=5)
    assert generate(model, [[5, 5, 3]], 3) == [[5, 5]]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ArrayTask((X, Y[:5])), r"one row per example, got shapes \(90, 3\), \(5,\)"),
        (lambda: ArrayTask((X,)), r"inputs and targets"),
        (lambda: ArrayTask((X, Y), batch_size=0), "batch_size = 0 is out of range"),
        (lambda: ArrayTask((X, Y), validation=(X, X, Y)), "validation has 3 arrays"),
        (lambda: PairTask([]), "there are no pairs"),
        (lambda: PairTask(PAIRS), r"pairs of texts need a tokenizer, got .*\nPass PairTask\(pairs, "),
        (lambda: PairTask([([4.5], [6])]), r"a side of a pair must be a list of ids, got \[4.5\]"),
        (
            lambda: Trainer(nn.Linear(3, 1), ArrayTask((X, Y)), {"steps": 2}, "runs"),
            "must be a TrainConfig, got a dict.\nPass TrainConfig",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_mismatched_arrays_are_rejected(make, problem):
    with pytest.raises(UserError, match=problem):
        make()


def test_pair_task_requires_an_encoder_decoder(tmp_path):
    pairs = [([4 + i, 5], [5, 4 + i]) for i in range(4)]
    gpt = GPT(GPTConfig(9, 8, 8, 1, 2))
    with pytest.raises(UserError, match="PairTask needs an encoder-decoder, got a GPT"):
        fit(tmp_path / "gpt", PairTask(pairs), gpt, steps=1)

    class Own(nn.Module):
        is_encoder_decoder = True

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(9, 9)

        def forward(self, source, target):
            return self.embedding(target) + self.embedding(source).mean(1, keepdim=True)

    assert fit(tmp_path / "own", PairTask(pairs), Own(), steps=1)["loss"] > 0


def test_outputs_and_targets_of_different_shapes_are_rejected():
    task = ArrayTask((X, Y))
    with pytest.raises(UserError, match=r"the model's output has shape \(32, 1\), but the targets \(32,\)"):
        task.loss(nn.Linear(3, 1), task.batch(0), 0.0)


# ---------------------------------------------------------------- weights of another run


@pytest.mark.slow
def test_init_from_loads_weights_and_tokenizer(here, capsys):
    flags = ["phrasebook", "--data", "pairs.tsv", *TINY, "--num-decoder-layers", 2, "--init-from", "mine"]
    assert train(*flags, "--run-dir", "new") == 0
    err = capsys.readouterr().err
    assert "31 of 49 weights" in err
    assert "are from mine, step-00000004" in err
    assert "new: decoder.layers.1\n" in err
    record = read_record(here / "new")
    assert record.init_from["run"] == read_record(here / "mine").id
    assert (here / "new" / "tokenizer.json").read_bytes() == (here / "mine" / "tokenizer.json").read_bytes()
    assert train("phrasebook", "--run-dir", "new", "--resume", "--init-from", "mine") == 2
    assert "has already started; --init-from has no effect" in capsys.readouterr().err
    assert train(*flags, "--run-dir", "other", "--tokenizer", "char") == 2
    assert "--tokenizer char has no effect with --init-from: the run has the tokenizer of mine" in (
        capsys.readouterr().err
    )
    (here / "mine").rename(here / "gone")
    assert train("phrasebook", "--run-dir", "new", "--resume", "--steps", 6) == 0


def test_init_from_rejects_runs_without_matching_weights(here, capsys):
    flags = ["shakespeare-char-cpu", "--data", "text.txt", "--block-size", "16", "--run-dir", "new"]
    assert train(*flags, "--init-from", "nowhere") == 2
    assert "there is no run folder nowhere" in capsys.readouterr().err
    small = ["--n-embd", "4", "--n-head", "1", "--n-layer", "1", "--n-positions", "20"]
    assert train(*flags, *small, "--init-from", "play") == 2
    assert "no weight of play matches this model: expected embedding.weight" in capsys.readouterr().err
    assert not (here / "new").exists()


@pytest.mark.slow
def test_init_from_requires_the_same_model_type(here, capsys):
    flags = ["bert-classify", "--run-dir", "new", "--hidden-size", "16", "--num-attention-heads", "2"]
    assert train(*flags, "--init-from", "mine") == 2
    assert "of type transformer, expected bert.\nChoose a run of the same type" in capsys.readouterr().err
    llama = ["llama-char", "--data", "text.txt", "--block-size", "16", "--run-dir", "new"]
    assert train(*llama, "--init-from", "play") == 2
    assert "of type gpt2, expected llama.\nAdd --model-type gpt2, or" in capsys.readouterr().err
    assert train(*llama, "--model-type", "gpt2", "--init-from", "play", "--steps", "1") == 0
    assert "settings from play: model_type gpt2 and its settings" in capsys.readouterr().err
