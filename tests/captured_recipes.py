"""Every recipe trained with `--capture` and without: the same weights in every bit, and the time of each.

    python -m tests.captured_recipes [--steps 200] [--data-dir DIR] [--readable] [RECIPE ...]

With --readable composite operations run by their definitions. A recipe whose data is not at hand is left out,
and named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from minitransformer import recipes

READABLE = """
import sys, minigrad
minigrad.fused(False)
from minitransformer.cli import main
sys.exit(main())
"""


def train(
    recipe: str, folder: Path, options: argparse.Namespace, data: list[str], *flags: str
) -> tuple[float, str]:
    """Seconds of a training, and what was wrong."""
    how, steps = ["-c", READABLE] if options.readable else ["-m", "minitransformer"], str(options.steps)
    command = [sys.executable, *how, "train", recipe, "--run-dir", str(folder)]
    limits = ["--steps", steps, "--validate-every", steps, "--checkpoint-every", steps]
    start = time.perf_counter()
    done = subprocess.run([*command, *limits, *data, *flags], capture_output=True, text=True, check=False)
    return time.perf_counter() - start, "" if done.returncode == 0 else done.stderr.strip()[-300:]


def weights(folder: Path) -> bytes:
    index = json.loads((folder / "checkpoints" / "index.json").read_text())
    return (folder / "checkpoints" / index["last"] / "model.safetensors").read_bytes()


def losses(folder: Path) -> list[float]:
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipes", nargs="*", default=[])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--readable", action="store_true", help="by the operations' definitions")
    parser.add_argument("--data-dir", help="a folder with a folder for each data set")
    options = parser.parse_args()
    wrong = 0
    for recipe in options.recipes or recipes.names():
        with tempfile.TemporaryDirectory() as place:
            one, other = Path(place) / "plain", Path(place) / "captured"
            sets = {"multi30k": "multi30k", "paper": "multi30k", "char": "tinyshakespeare"}
            found = next((folder for part, folder in sets.items() if part in recipe), None)
            data = ["--data-dir", f"{options.data_dir}/{found}"] if found and options.data_dir else []
            plain, said = train(recipe, one, options, data, "--no-capture")
            if said:
                print(f"{recipe}: left out: {said}", flush=True)
                continue
            captured, said = train(recipe, other, options, data, "--capture")
            same = not said and weights(one) == weights(other) and losses(one) == losses(other)
            wrong += not same
            verdict = "the same" if same else said or "DIFFERENT"
            print(f"{recipe}: {verdict}, {plain:.1f} s, captured {captured:.1f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
