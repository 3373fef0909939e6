"""Fine-tuning the real MiniLM: words that the training data does not have are understood.

pytest tests/slow/training/test_fine_tuning.py     # about a minute on two cores
minitransformer import FOLDER --run-dir runs/minilm
minitransformer train bert-similar --init-from runs/minilm --steps 150 --lr 2e-4 --warmup-steps 20
"""

import json
import random

from minitransformer.cli import main

from ...minilm import minilm_folder

PRAISE = (
    "wonderful excellent delightful brilliant charming superb moving funny gripping beautiful clever "
    "touching fresh stunning warm memorable"
)
BLAME = (
    "terrible awful boring dreadful clumsy dull weak tedious stupid ugly pointless lifeless bland annoying "
    "stale forgettable"
)
WORDS = {label: words.split() for label, words in (("positive", PRAISE), ("negative", BLAME))}
THINGS = ["film", "movie", "story", "plot", "acting", "script", "ending", "music", "dialogue", "cast"]
FRAMES = [
    "the {t} is {a} .", "what a {a} {t} !", "i found the {t} {a} .", "a {a} {t} from start to finish .",
    "its {t} is {a} and its {u} is {b} .", "{a} {t} , {b} {u} .",
]  # fmt: skip
SPLITS = {"train": (slice(0, 8), 300), "validation": (slice(8, 12), 100), "test": (slice(12, 16), 200)}


def write_reviews(folder):
    """Sentences of reviews with their sentiment; each split has its own words of praise and blame."""
    generator = random.Random(0)
    for split, (words, count) in SPLITS.items():
        rows = {}
        while len(rows) < count:
            label = generator.choice(list(WORDS))
            a, b = generator.sample(WORDS[label][words], 2)
            t, u = generator.sample(THINGS, 2)
            rows[generator.choice(FRAMES).format(a=a, b=b, t=t, u=u)] = label
        text = "".join(f"{sentence}\t{label}\n" for sentence, label in rows.items())
        (folder / f"{split}.tsv").write_text(text)


def accuracy_of(run, *flags):
    folder = run.parent
    files = [f"--{split}-data={folder / f'{split}.tsv'}" for split in ("validation", "test")]
    options = ["--data", str(folder / "train.tsv"), *files, "--examples", "0", "--run-dir", str(run), *flags]
    assert main(["train", "bert-classify", *options]) == 0
    return json.loads((run / "metrics.json").read_text())["accuracy"]


def test_fine_tuned_minilm_generalizes_to_unseen_words(tmp_path):
    source = minilm_folder(tmp_path / "minilm")
    write_reviews(tmp_path)
    assert main(["import", str(source), "--run-dir", str(tmp_path / "pretrained")]) == 0
    own = accuracy_of(tmp_path / "own")
    flags = ["--steps", "40", "--lr", "1e-4", "--warmup-steps", "5", "--validate-every", "20"]
    tuned = accuracy_of(tmp_path / "tuned", "--init-from", str(tmp_path / "pretrained"), *flags)
    assert own < 0.75
    assert tuned > 0.95
