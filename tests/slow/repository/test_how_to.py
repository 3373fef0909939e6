"""Commands of docs/ run, one after the other, on small files and for a few steps; then their scripts (```py),
which read what the commands wrote."""

import re
import shlex
from pathlib import Path

import pytest

from minitransformer.cli import main
from minitransformer.data.phrasebook import phrasebook
from tests.repository.test_docs import run as run_example

ROOT = Path(__file__).parents[3]
SECTIONS = [
    ("your-data", "A GPT on your text"),
    ("your-data", "A translator for your language"),
    ("your-data", "A classifier or a tagger"),
    ("training", "Compare two ideas honestly"),
    ("pretrained", "Fine-tune"),
    ("graphs", "See a gradient"),
]
SCRIPT = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHORT = ["--steps", "4", "--validate-every", "4", "--checkpoint-every", "4"]
SMALL = {"runs/phrasebook": ["train", "phrasebook", *SHORT]}  # what a section takes for granted


def write_files():
    """The files that the sections speak of, from the phrasebook."""
    pairs = phrasebook().train[:300]
    english = [source for source, _ in pairs]
    Path("mine.txt").write_text("\n".join(english), encoding="utf-8")
    Path("pairs.tsv").write_text("\n".join("\t".join(pair) for pair in pairs), encoding="utf-8")
    labelled = [f'"{text}",{"question" if text.endswith("?") else "statement"}' for text in english]
    Path("messages.csv").write_text("\n".join(["text,label", *labelled]), encoding="utf-8")
    tagged = [
        "\n".join(f"{word}\t{'NAME' if word.istitle() else 'WORD'}" for word in text.split())
        for text in english
    ]
    Path("words.conll").write_text("\n\n".join(tagged) + "\n", encoding="utf-8")


@pytest.mark.parametrize(("page", "title"), SECTIONS)
def test_how_to_commands_run(page, title, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    commands = [line for block in BLOCK.findall(section) for line in block.splitlines() if line.strip()]
    assert commands
    monkeypatch.chdir(tmp_path)
    write_files()
    for run, words in SMALL.items():
        if run in "".join(commands):
            assert main(words) == 0
    for line in commands:
        words = shlex.split(line, comments=True)
        if not words or words[0] != "minitransformer":
            continue
        short = {"train": SHORT, "sweep": SHORT, "generate": ["--max-new-tokens", "10"]}.get(words[1], [])
        if "--resume" in words:
            short = ["--steps", "6"]
        if words[1] == "sweep":  # two seeds are enough here
            words.remove("2")
        code = main([*words[1:], *short])
        assert code == 0, f"{line}\n{capsys.readouterr().err}"
    for script in SCRIPT.findall(section):
        _, error = run_example(script, {"__name__": "example"})
        assert error is None, error
    capsys.readouterr()
