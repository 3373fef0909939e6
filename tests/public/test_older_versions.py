"""What version 0.1.0 wrote is read: runs, pickled tensors and modules."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg

OLD = Path(__file__).with_name("version-0.1")


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A folder with a run of version 0.1.0 and its data."""
    for name in ("run", "pairs.tsv"):
        source = OLD / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_has_the_scores_that_it_had(cli, old):
    before = json.loads((old / "run" / "metrics.json").read_text())
    code, out, err = cli("evaluate", "run", "--data", "pairs.tsv", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found.keys() == before.keys()
    for name in ("loss", "token_accuracy", "exact_match", "bleu", "chrf", "n"):
        assert found[name] == pytest.approx(before[name], rel=1e-5), name


def test_a_run_goes_on_and_says_that_the_version_differs(cli, old):
    code, out, err = cli(
        "train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "run", "--resume", "--steps", 6
    )
    assert code == 0, err
    assert "0.1.0" in out + err
    steps = [json.loads(line)["step"] for line in (old / "run" / "log.jsonl").read_text().splitlines()]
    assert max(steps) == 6


@pytest.mark.parametrize(
    "argv",
    [
        "translate run", "show run",
        pytest.param("graph run -o graph.svg", marks=pytest.mark.needs("graph")),
        pytest.param("explain run -o page.html", marks=pytest.mark.needs("graph")),
    ],
)  # fmt: skip
def test_a_run_translates_and_is_drawn_and_explained(cli, old, argv):
    verb, *others = argv.split()
    text = [] if verb == "show" else ["you love dogs."]
    code, _, err = cli(verb, others[0], *text, *others[1:])
    assert code == 0, err


def test_pickled_tensors_and_modules_are_loaded():
    found = pickle.loads((OLD / "objects.pickle").read_bytes())
    x = found["x"]
    half = found["half"]
    assert x.requires_grad
    np.testing.assert_array_equal(x.array, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(x.grad.array, [[0.5, 0], [0, 0.5]])
    assert (half.dtype, half.tolist()) == (mg.bfloat16, [1, 2.5])
    np.testing.assert_allclose(found["net"](x).numpy(), found["value"], rtol=1e-6)
