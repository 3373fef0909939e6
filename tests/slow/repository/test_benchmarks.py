"""The benchmarks run, at the smallest sizes. What they measure is no test's business; that both sides of a
comparison do the same work is."""

import gc
import io
import json
import os
import shutil
import subprocess
import sys
import weakref
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import minigrad as mg
from benchmarks import (
    children,
    comparison,
    device_memory,
    machine,
    measuring,
    ops,
    overhead,
    peaks,
    steps,
    tables,
    worker,
)  # fmt: skip
from benchmarks.peers import PEERS, missing, peer, step_of
from benchmarks.works import WORKS, Decoder, First, Recurrent, UnknownWorkError, weights_of, work_of
from minigrad.core.registry import ops as registered
from minitransformer.cli.parsing import parse
from minitransformer.errors import UserError
from tests.slow.standin import cublas, emulator

ROOT = Path(__file__).parents[3]
COMPILERS = ("compile", "reduce-overhead")
SMALL = "L1 H2 d4 T4 B2 V5"
needs_torch = pytest.mark.skipif(missing("torch") is not None, reason="torch is not installed")


def test_turns_alternate_and_end_in_time():
    order = []
    one, other = (lambda name=name: order.append(name) for name in "ab")
    times = measuring.measure({"a": one, "b": other}, repeats=3, seconds=0.0, least=2)
    assert [len(t) for t in times.values()] == [2, 2]
    turns = [name for i, name in enumerate(order) if i == 0 or name != order[i - 1]]
    assert turns == ["a", "b"] * (len(turns) // 2)


def test_a_ratio_is_the_median_of_turns_side_by_side():
    assert measuring.ratios([1, 10, 100], [2, 10, 50]) == (0.75, 1.0, 1.5)


def test_a_turn_ends_when_the_gpu_has_done_all():
    done = []
    here = measuring.LocalTurns(lambda: done.append("step"), lambda: done.append("wait"))
    here.turn(2, 0.0, "wall")
    assert done == ["wait", "step", "step", "wait"]


def test_sizes_are_read_as_they_are_shown():
    for work in (*WORKS.values(), work_of(SMALL)):
        if isinstance(work, Decoder | Recurrent):
            assert work_of(str(work)) == work
    with pytest.raises(UnknownWorkError, match="unknown work 'huge'"):
        work_of("huge")


def test_every_fused_op_has_a_case():
    composite = {name for name, op in registered.items() if op.definition is not None}
    without_gradient = {"quantized_linear"}
    assert composite - without_gradient == {case.op for case in ops.CASES.values()}


def test_every_fused_op_runs_forward_and_backward():
    for case in ops.CASES.values():
        kept = (ops.D, 3 * ops.D, 4 * ops.D, ops.V)  # that shapes have in common
        shapes = [tuple(n if n in kept else min(n, 3) for n in shape) for shape in case.shapes]
        small = case._replace(shapes=shapes, ids=case.ids and tuple(min(n, 3) for n in case.ids), top=2)
        _, both = ops.passes(small, ops.Ours)
        assert all(np.isfinite(g.numpy()).all() for g in both())


def test_different_work_is_refused():
    first = First(1.0, {"w": np.ones(3)})
    assert comparison.compare(first, first, SMALL, "theirs")["gradients"] == 0
    for other in (First(1.1, {"w": np.ones(3)}), First(1.0, {"w": np.array([1, 1, 1.1])}), First(1.0, {})):
        with pytest.raises(comparison.DifferentWorkError):
            comparison.compare(first, other, SMALL, "theirs")
    with pytest.raises(comparison.DifferentWorkError):
        comparison.compare(
            First(1.0, {"w": np.array([np.nan])}), First(1.0, {"w": np.array([1.0])}), SMALL, "theirs"
        )


@pytest.mark.parametrize("name", ["ours", *(p for p in PEERS if p not in COMPILERS)])
@pytest.mark.parametrize("key", ["mlp", SMALL, "phrasebook"])
def test_peers_do_the_same_work(name, key):
    if note := missing(name):
        pytest.skip(note)
    if name == "jax" and key != "mlp":
        pytest.skip("it compiles for seconds")  # and each comparison sees to it that it does the same
    work = work_of(key)
    weights = weights_of(work.model())
    theirs = step_of(name, work, weights)
    ours = step_of("ours", work, weights)
    if theirs is None:
        pytest.skip("it has no such work")
    comparison.compare(ours.first(), theirs.first(), key, name)
    if key == "phrasebook":
        return  # dropout: no two draw alike
    for _ in range(2):
        ours(), theirs()
    getattr(theirs, "wait", lambda: None)()
    assert theirs.loss() == pytest.approx(ours.loss(), rel=1e-4)


def test_who_is_not_installed_is_said(monkeypatch):
    monkeypatch.setattr(peer("torch"), "PACKAGES", ("no_such_package==1.0",))
    said = "torch eager is not installed: pip install no_such_package==1.0"
    assert missing("torch") == said
    monkeypatch.setattr(comparison.Comparison, "start", lambda *_: nullcontext())
    monkeypatch.setattr(comparison.Comparison, "warm", lambda _: None)
    monkeypatch.setattr(comparison.Comparison, "table", lambda *_: tables.Table("one"))
    (table,) = steps.steps([SMALL], ["torch"])
    assert table.notes == [said]
    monkeypatch.setattr(peer("compile"), "PACKAGES", ())
    monkeypatch.setattr(peer("compile"), "COMPILERS", ("no_such_compiler",))
    assert (
        missing("compile")
        == "torch.compile needs no_such_compiler, and there is none: apt install no_such_compiler"
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be kept on cores here")
def test_a_worker_and_all_its_threads_keep_to_their_cores():
    core = max(os.sched_getaffinity(0))
    with worker.Worker("ours", threads=2, cores=[core]) as ours:
        ours.prepare(SMALL)
        tasks = [int(path.name) for path in Path(f"/proc/{ours.process.pid}/task").iterdir()]
        assert {tuple(os.sched_getaffinity(task)) for task in tasks} == {(core,)}


def test_what_a_work_froze_does_not_outlive_it():
    server = worker._Server("ours")
    server.prepare(SMALL)
    server.ready()
    former = weakref.ref(server.work)
    assert gc.get_freeze_count() > 0
    server.prepare(SMALL)
    assert (gc.get_freeze_count(), former()) == (0, None)


@needs_torch
def test_steps_and_their_memory_beside_torch():
    work = (
        "L2 H2 d64 T32 B8 V65"  # of which steps need MiB: those of SMALL find room in memory that was freed
    )
    table, last, *_ = steps.steps([work], ["torch"], repeats=2, seconds=0.1)
    low, middle, high = table.rows["torch eager"]["minigrad / it"]
    assert 0 < low <= middle <= high
    assert last.rows[work]["torch eager"] == (low, middle, high)
    for label in ("minigrad", "torch eager"):
        assert table.rows[label]["whole process"] > 20 > table.rows[label]["MiB"] > 0
    (table,) = peaks.peaks([SMALL], ["torch"])
    _, text = table.rows.values()
    for row in table.rows.values():
        assert row["torch eager, whole process"] > row["torch eager"] > 0
    assert text["ratio to torch eager"] < 1.5  # both keep what nano read, 1 MiB
    assert text["minigrad"] > 0.9


def test_tables_as_markdown():
    table = tables.Table("a title", {"row": {"x": 1234.5, "y": (0.1, 0.25, 1.0), "z": None}}, ["a note"])
    assert table.markdown() == (
        "**A title**\n\n|  | x | y | z |\n| --- | ---: | ---: | ---: |\n"
        "| row | 1,234 | 0.25 [0.10, 1.00] | - |\n\na note.\n"
    )


def test_other_load_is_warned_of(monkeypatch):
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
    assert machine.warning(0.3, [1, 2]) is None
    assert "load average 4.50 before the start, on 4 cores" in machine.warning(4.5, [1])


@pytest.fixture
def command():
    from benchmarks import __main__

    return __main__


@needs_torch
def test_the_command_writes_its_files(command, tmp_path, monkeypatch):
    run = [
        sys.executable,
        "-m",
        "benchmarks",
        "steps",
        "--works",
        SMALL,
        "--repeats",
        "1",
        "--peers",
        "torch",
    ]
    files = ["--json", str(tmp_path / "a.json"), "--markdown", str(tmp_path / "a.md")]
    shown = f"`python -m benchmarks steps --works '{SMALL}' --repeats 1 --peers torch`"
    subprocess.run([*run, *files], cwd=ROOT, check=True, capture_output=True)
    found = json.loads((tmp_path / "a.json").read_text())
    assert {"date", "cpu", "cores", "python", "versions", "threads", "command"} <= found["machine"].keys()
    assert (tmp_path / "a.md").read_text().startswith(shown)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("steps --works huge", "unknown work 'huge'.\nName one of mlp, micro"),
        ("overhead --repeats 0", "--repeats 0 is too few for a turn.\nPass 1 or more."),
        ("overhead --repeats -1", "--repeats -1 is too few for a turn"),
        ("steps --threads 0", "--threads 0 is out of range.\nPass numbers from 1 to"),
        ("steps --threads 9999", "--threads 9999 is out of range"),
        ("steps --seconds nan", "--seconds nan is out of range.\nPass a time above 0."),
        ("steps --threads 1 -2", "--threads -2 is out of range"),
        ("steps --works", "--works is empty.\nPass at least one value, or leave --works out."),
        ("steps --threads", "--threads is empty"),
        (
            "steps --json nowhere/x.json",
            "--json nowhere/x.json is in a missing folder, nowhere.\nPass a file in an existing folder.",
        ),
        ("steps --markdown nowhere/x.md", "--markdown nowhere/x.md is in a missing folder, nowhere"),
        ("steps --json .", "--json . is a folder"),
        ("overhead --device cuda", "only steps are measured on a GPU, not overhead.\nPass steps"),
        ("steps --device cuda --works nano mlp", "mlp is not measured on a GPU.\nChoose one of micro, nano"),
        ("steps --device cuda --peers torch jax", "jax: not measured on a GPU.\nChoose among torch, compile"),
        ("steps --device cuda --threads 2", "--clock cpu and --threads are for the CPU.\nLeave"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_before_anything_is_measured(command, tmp_path, monkeypatch, argv, message):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    options = parse(command.Options, argv.split())
    with pytest.raises(UserError) as caught:
        command.main(options)
    assert str(caught.value).startswith(message)
    assert str(caught.value).count("\n") == 1


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("L2 H3 d64 T8 B2 V65", "n_embd=64 is not divisible by n_head=3"),
        ("L0 H4 d64 T8 B2 V65", "a size of 'L0 H4 d64 T8 B2 V65' is 0.\nChoose"),
    ],
)
def test_sizes_that_no_model_has_are_refused(command, work, message):
    with pytest.raises(UserError) as caught:
        command.main(command.Options(("steps",), works=(work,)))
    assert str(caught.value).startswith(message)


def test_where_nobody_is_installed_to_compare_with_it_is_said(command, monkeypatch):
    monkeypatch.setattr(peer("torch"), "PACKAGES", ("no_such_package==1.0",))
    with pytest.raises(UserError, match=r"no library to compare with.\ntorch eager is not installed"):
        command.main(command.Options(("overhead",)))


def test_a_users_mistake_ends_with_2_and_two_lines():
    for work in ("huge", "L2 H3 d64 T8 B2 V65"):
        command = [sys.executable, "-m", "benchmarks", "steps", "--works", work]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 2


def test_notes_are_as_wide_as_the_terminal():
    note = "torch eager is not installed: pip install '.[parity]'"
    for rows in ({}, {"row": {"x": 1}}):
        shown = Console(width=80, record=True, file=io.StringIO())
        shown.print(tables.Table("a title", rows, [note]).rich())
        text = shown.export_text()
        assert note in text.splitlines()
        assert "a title" in text


@needs_torch
def test_the_chains_of_operations_are_the_same_for_both(monkeypatch):
    monkeypatch.setattr(overhead, "OPS", 8)
    import torch

    for chain in overhead.CHAINS.values():
        w, c = (mg.tensor(x, requires_grad=True) for x in (overhead.START, overhead.CONSTANT))
        overhead.run(chain, w, c.detach())()
        theirs, constant = (torch.tensor(x, requires_grad=True) for x in (overhead.START, overhead.CONSTANT))
        overhead.run(chain, theirs, constant.detach())()
        assert np.allclose(w.grad.numpy(), theirs.grad.numpy(), rtol=1e-5)
    found = overhead.pair("torch", 2, "cpu")
    assert found.keys() == overhead.CHAINS.keys()


# ---------------------------------------------------------------- on a GPU


class WorkerHere(worker.Worker):
    """A worker in this process, which has a GPU's stand-in."""

    def __init__(self, name, *_):
        self.name = name
        self.server = worker._Server(name)

    def __exit__(self, *_):
        pass

    def call(self, method, *args):
        try:
            return getattr(self.server, method)(*args)
        except Exception as error:
            raise children.ChildError(f"{self.name}: {method}{args} failed.\n{error!r}") from error


class InTurn(Executor):
    """Calls functions at once, in this thread."""

    def submit(self, function, *args):
        answer = Future()
        try:
            answer.set_result(function(*args))
        except children.ChildError as error:
            answer.set_exception(error)
        return answer


@pytest.fixture
def workers(gpu, monkeypatch):
    """Workers with a GPU: processes where it is real; with a stand-in they are here, one at a time."""
    if gpu == "standin":
        if not emulator.compiler():
            pytest.skip("there is neither a GPU nor a C++ compiler (g++, clang++) on this machine")
        monkeypatch.setattr(comparison, "Worker", WorkerHere)
        monkeypatch.setattr(comparison, "ThreadPoolExecutor", lambda _: InTurn())
        with cublas.installed(), mg.kernels.use("cuda"):
            yield gpu
    else:
        yield gpu


def test_memory_on_a_gpu_is_counted_at_its_highest(gpu):
    kept = [mg.ones(1 << 18, device="cuda")]
    before = device_memory.peak_of_ours(lambda: None, lambda: None).used

    def step():
        kept.append(mg.ones(1 << 18, device="cuda"))
        _ = mg.ones(2 << 18, device="cuda")

    after = device_memory.peak_of_ours(step, lambda: None)
    assert after.used - before == pytest.approx(device_memory.STEPS + 2, abs=0.01)  # MiB: those kept, and one
    assert after.held >= after.used - 2.01


def test_steps_on_a_gpu(workers):
    work = "L1 H2 d8 T4 B2 V5 bfloat16"
    other, label = ("jax", "JAX jit") if workers == "standin" else ("torch", "torch eager")
    table, last = steps.steps_on_gpu([work], [other], repeats=1)
    rows = [name for name in table.rows if name != label]
    assert rows == ["minigrad", "minigrad, captured"], table.notes
    for row in table.rows.values():
        assert row["MiB in tensors"] > 0
        assert row["MiB held"] > 0
    if workers == "standin":  # JAX does not know the stand-in
        assert label not in table.rows
        assert any(note.startswith((f"{label} failed", f"{label} is not")) for note in table.notes)
    assert not [note for note in table.notes if note.startswith(("minigrad", "NOT"))]
    assert list(last.rows) == [work]


@needs_torch
def test_all_take_turns_together():
    key = f"{SMALL} bfloat16"
    table, last = steps.steps_on_gpu([key], ["torch"], repeats=2, seconds=0.1, device="cpu")
    assert set(table.rows) == {"minigrad", "torch eager"}
    assert table.rows["torch eager"]["minigrad / it"][0] > 0
    (row,) = last.rows.values()
    assert row["fastest"] == "torch eager"
    assert row["captured / torch's fastest"] is None  # nothing is captured on a CPU


def test_why_a_step_is_not_captured_is_said(monkeypatch):
    work = comparison.Comparison(SMALL, "cuda")
    work.workers = dict.fromkeys(("ours", "captured"))
    said = "step failed.\nminigrad.errors.CaptureError: .item() cannot be captured.\nLeave it out."

    def question(worker):
        raise children.ChildError(said)

    assert work.ask(["captured"], question) == {}
    assert list(work.workers) == ["ours"]
    monkeypatch.setattr(comparison, "measure", lambda *_: {"ours": [0.001, 0.001]})
    table = work.table("a step", 2, 0.1)
    assert list(table.rows) == ["minigrad", "minigrad, captured"]
    assert table.rows["minigrad, captured"]["ms"].endswith(".item() cannot be captured. Leave it out")


@needs_torch
def test_a_precision_is_that_of_both():
    work, plain = work_of(f"{SMALL} bfloat16"), work_of(SMALL)
    weights = weights_of(work.model())
    exact = step_of("ours", plain, weights).first()
    for name in ("ours", "torch"):
        first, rounded = (step_of(name, one, weights).first() for one in (plain, work))
        assert (
            comparison.compare(exact, rounded, str(work), name)["loss"] > 1e-5 > abs(first.loss - exact.loss)
        )
        with pytest.raises(comparison.DifferentWorkError):
            comparison.compare(exact, rounded, str(plain), name)


def test_a_captured_step_is_captured_anew_for_its_memory():
    work = work_of(SMALL)
    step = step_of("captured", work, weights_of(work.model()), "cpu")
    before = step.captured
    step.capture()
    assert (type(before), type(step.captured)) == (mg.capture, mg.capture)
    assert step.captured is not before
    assert step_of("ours", work, weights_of(work.model())).captured is None


def test_why_someone_failed_is_said_in_two_lines():
    said = (
        "ours: step(5,) failed.\nTraceback (most recent call last):\n  File ...\nValueError: first\n\n"
        "During handling of the above exception, another exception occurred:\n\n  File ...\n"
        "minigrad.errors.CaptureError: x, at here, cannot be captured.\nDo y instead.\nmore"
    )
    expected = "minigrad.errors.CaptureError: x, at here, cannot be captured. Do y instead"
    assert comparison.reason(children.ChildError(said)) == expected
    assert comparison.reason(children.ChildError("a: b failed.\nno answer")) == "a: b failed. no answer"


def test_who_takes_too_long_is_ended():
    with worker.Worker("ours", threads=1, timeout=0.01) as ours:
        with pytest.raises(children.ChildError, match=r"prepare.* failed.\nno answer within 0.01 s"):
            ours.prepare(SMALL)
        assert ours.process.poll() is not None


@pytest.mark.skipif(mg.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    done = subprocess.run([sys.executable, "-m", "benchmarks", "steps", "--device", "cuda"], cwd=ROOT,
                          capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(("computing on a GPU needs", "CuPy finds no usable GPU"))
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_the_walk_through_page_is_measured_in_a_browser(clock):
    from benchmarks.page import BROWSERS, measure
    from minitransformer.explain import explain_documents

    pytest.importorskip("playwright.sync_api", reason="pages are measured with playwright (pip)")
    if not any(map(shutil.which, BROWSERS)):
        pytest.skip("pages are measured in Chromium, which is not on the PATH")
    figures = measure(explain_documents().page, "I love", clock, times=2)
    slowest, stage = figures.pop("slowest stage").split()
    assert stage.startswith("#")
    assert figures["size, MB"] < 1
    assert figures["frame of Play"] <= figures["largest"]
    assert all(0 < figure < 60_000 for figure in [*figures.values(), float(slowest)])
