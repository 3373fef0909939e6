"""A run that a signal stopped goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minitransformer.training.checkpoint import Checkpoints
from minitransformer.training.log import read_log
from tests.training.test_trainer import translation, weights

SCRIPT = """
import signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
import minigrad as mg
from tests.training.test_trainer import translation
mg.kernels.use({kernels!r})
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a test run under nohup ignores it
trainer = translation(Path({folder!r}), steps=300, checkpoint_every=7, validate_every=50)
trainer.resume()
sys.exit(0 if trainer.train() else 1)
"""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    trainer = translation(
        tmp_path_factory.mktemp("unbroken"), steps=300, checkpoint_every=7, validate_every=50
    )
    assert trainer.train()
    return weights(trainer)


@pytest.mark.parametrize("stop", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_run_stopped_by_a_signal_resumes_exactly(stop, unbroken, tmp_path, request):
    kernels = request.config.getoption("--kernels")
    script = SCRIPT.format(root=str(Path(__file__).parents[3]), folder=str(tmp_path), kernels=kernels)
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    log = tmp_path / "log.jsonl"
    while process.poll() is None and not (log.is_file() and log.read_text().count("\n") > 23):
        time.sleep(0.005)
    process.send_signal(getattr(signal, stop))
    assert process.wait(30) == (-signal.SIGKILL if stop == "SIGKILL" else 1)

    last = Checkpoints(tmp_path / "checkpoints").names()[-1]
    done = max(record["step"] for record in read_log(log))
    assert 14 <= int(last.removeprefix("step-")) < 300
    if stop != "SIGKILL":  # finishes the step in hand, and saves it
        assert int(last.removeprefix("step-")) == done
    trainer = translation(tmp_path, steps=300, checkpoint_every=7, validate_every=50)
    assert trainer.resume()
    assert trainer.train()  # nor did a signal stop this process, as `timeout` does
    assert weights(trainer) == unbroken
