"""Instruments that train: memory measured, and sweeps."""

import subprocess
import sys
from pathlib import Path

import pytest

from minitransformer.cli import main, sweep
from minitransformer.training.log import read_log
from tests.tiny import TINY

PEAK = """
import resource, sys
from pathlib import Path
if sys.platform == "linux":  # whose ru_maxrss is at least what the parent, a process of many tests, had
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
"""


def test_card_predicts_peak_memory_within_20_percent(here):
    sizes = ["--n-embd", "16", "--n-layer", "8", "--batch-size", "512"]
    flags = ["shakespeare-char-cpu", "--data", "text.txt", *sizes]
    script = """
from minigrad import allocator
from minitransformer.cli.card import card_of, read_command
from minitransformer.data.splits import Sources
from minitransformer.runs import card
allocator.keep_freed_memory()
card.SECONDS, card.SAMPLE = 0.0, 2
recipe, options = read_command(FLAGS)
found = card_of(recipe, Sources(options.data))  # trains a step of the whole batch
"""
    script += f"{PEAK}print(found.memory, found.activations, peak)"
    out = run_script(script.replace("FLAGS", repr(flags)))
    memory, activations, own_peak = map(int, out.split())
    before = memory - activations  # for the step of the whole batch
    assert activations == pytest.approx(own_peak - before, rel=0.2)
    script = "from minitransformer.cli import main\nmain(['train', *FLAGS, '--steps', '1'])\n"
    script += f"{PEAK}print(peak)"
    out = run_script(script.replace("FLAGS", repr(flags)))
    assert memory == pytest.approx(int(out.split()[-1]), rel=0.2)


def run_script(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout


def test_a_sweep_trains_each_combination_once_and_prints_a_table(cli, monkeypatch):
    trained = []

    def in_this_process(words, *options):
        trained.append(words[3:])
        return main(words[2:])

    monkeypatch.setattr(sweep, "run_python", in_this_process)
    flags = "sweep", "phrasebook", "--data", "pairs.tsv", *TINY, "--lr", "1e-3", "1e38", "--run-dir"
    code, out, _ = cli(*flags, "lrs")
    assert code == 0
    assert len(trained) == 2
    rows = [line.split() for line in out.splitlines() if line.startswith("1e")]
    loss = min(r["val_loss"] for r in read_log(Path("lrs/lr=1e-3/log.jsonl")) if "val_loss" in r)
    assert rows[0][:2] == ["1e-3", f"{loss:.4g}"]
    assert rows[1] == ["1e38", "failed"]
    cli(*flags, "lrs")
    assert len(trained) == 3  # the one that failed
    code, _, err = cli(*flags, "lrs", "--label-smoothing", "0.3")
    assert (code, "lr=1e-3 contains a run with other settings" in err) == (2, True)
