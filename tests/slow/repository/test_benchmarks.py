"""The benchmarks run, at the smallest sizes. What they measure is no test's business; that both sides of a
comparison do the same work is."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from benchmarks import comparison, measuring, on_gpu, ops, overhead, peaks, steps, tables
from benchmarks.peers import PEERS, missing, step_of
from benchmarks.works import First, weights_of, work_of
from minigrad import kernels
from minigrad.core import arithmetic
from minigrad.core.registry import ops as registered
from minigrad.kernels.cuda import cublas
from minigrad.nn import functional as F
from minitransformer.cli.parsing import parse
from minitransformer.errors import UserError
from tests.gpus import gpu_of_kind
from tests.slow.capture.runs import our_kernels

ROOT = Path(__file__).parents[3]
COMPILERS = ("compile", "reduce-overhead")
SMALL = "L1 H2 d4 T4 B2 V5"
needs_torch = pytest.mark.skipif(missing("torch") is not None, reason="torch is not installed")


def test_benchmark_turns_alternate_and_stop_in_time():
    order = []
    one, other = (lambda name=name: order.append(name) for name in "ab")
    times = measuring.measure({"a": one, "b": other}, repeats=3, seconds=0.0, least=2)
    assert [len(t) for t in times.values()] == [2, 2]
    turns = [name for i, name in enumerate(order) if i == 0 or name != order[i - 1]]
    assert turns == ["a", "b"] * (len(turns) // 2)


def test_ratios_are_medians_of_paired_turns():
    assert measuring.ratios([1, 10, 100], [2, 10, 50]) == (0.75, 1.0, 1.5)


def test_every_fused_op_has_a_benchmark_case():
    composite = {name for name, op in registered.items() if op.definition is not None}
    without_gradient = {"quantized_linear"}
    assert composite - without_gradient == {case.op for case in ops.CASES.values()}


def test_fused_op_benchmarks_run_forward_and_backward():
    for case in ops.CASES.values():
        kept = (ops.D, 3 * ops.D, 4 * ops.D, ops.V)  # that shapes have in common
        shapes = [tuple(n if n in kept else min(n, 3) for n in shape) for shape in case.shapes]
        small = case._replace(shapes=shapes, ids=case.ids and tuple(min(n, 3) for n in case.ids), top=2)
        _, both = ops.passes(small, ops.Ours)
        assert all(np.isfinite(g.numpy()).all() for g in both())


def test_benchmarks_of_different_work_are_rejected():
    first = First(1.0, {"w": np.ones(3)})
    assert comparison.compare(first, first, SMALL, "theirs")["gradients"] == 0
    wrong = {"w": np.array([1, 1, 1.1])}, {"w": np.array([1, 1, np.nan])}, {}
    for other in (First(1.1, {"w": np.ones(3)}), *(First(1.0, gradients) for gradients in wrong)):
        with pytest.raises(comparison.DifferentWorkError):
            comparison.compare(first, other, SMALL, "theirs")


@pytest.mark.parametrize("name", ["ours", *(p for p in PEERS if p not in COMPILERS)])
@pytest.mark.parametrize("key", ["mlp", SMALL, "phrasebook"])
def test_benchmark_peers_do_the_same_work(name, key):
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


@needs_torch
def test_step_benchmarks_compare_time_and_memory_with_torch():
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


def test_tables_are_formatted_as_markdown():
    table = tables.Table("a title", {"row": {"x": 1234.5, "y": (0.1, 0.25, 1.0), "z": None}}, ["a note"])
    assert table.markdown() == (
        "**A title**\n\n|  | x | y | z |\n| --- | ---: | ---: | ---: |\n"
        "| row | 1,234 | 0.25 [0.10, 1.00] | - |\n\na note.\n"
    )


@pytest.fixture
def command():
    from benchmarks import __main__

    return __main__


@needs_torch
def test_the_benchmark_command_writes_json_and_markdown(tmp_path):
    options = ["steps", "--works", SMALL, "--repeats", "1", "--peers", "torch"]
    files = ["--json", str(tmp_path / "a.json"), "--markdown", str(tmp_path / "a.md")]
    command = [sys.executable, "-m", "benchmarks", *options, *files]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found = json.loads((tmp_path / "a.json").read_text())
    assert {"date", "cpu", "cores", "python", "versions", "threads", "command"} <= found["machine"].keys()
    shown = f"`python -m benchmarks steps --works '{SMALL}' --repeats 1 --peers torch`"
    assert (tmp_path / "a.md").read_text().startswith(shown)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("steps --works huge", "unknown work 'huge'.\nName one of mlp, micro"),
        ("overhead --repeats 0", "--repeats 0 is too few for a turn.\nPass 1 or more."),
        ("steps --threads 0", "--threads 0 is out of range.\nPass numbers from 1 to"),
        ("steps --seconds nan", "--seconds nan is out of range.\nPass a time above 0."),
        ("steps --works", "--works is empty.\nPass at least one value, or leave --works out."),
        ("steps --json nowhere/x.json", "--json nowhere/x.json is in a missing folder, nowhere.\nPass"),
        ("steps --works L2_H3_d64_T8_B2_V65", "n_embd=64 is not divisible by n_head=3"),
        ("overhead --device cuda", "only steps are measured on a GPU, not overhead.\nPass steps"),
        ("steps --device cuda --works nano mlp", "mlp is not measured on a GPU.\nChoose one of micro, nano"),
        ("steps --device cuda --peers torch jax", "jax: not measured on a GPU.\nChoose among torch, compile"),
        ("steps --device cuda --threads 2", "--clock cpu and --threads are for the CPU.\nLeave"),
    ],
)  # fmt: skip
def test_invalid_benchmark_options_are_rejected_early(command, tmp_path, monkeypatch, argv, message):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    options = parse(command.Options, [word.replace("_", " ") for word in argv.split()])
    with pytest.raises(UserError) as caught:
        command.main(options)
    assert str(caught.value).startswith(message)
    assert str(caught.value).count("\n") == 1


@needs_torch
def test_overhead_benchmark_chains_match_torch(monkeypatch):
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


@needs_torch
def test_gpu_step_benchmarks_interleave_all_peers():
    key = f"{SMALL} bfloat16"
    table, last = steps.steps_on_gpu([key], ["torch"], repeats=2, seconds=0.1, device="cpu")
    assert set(table.rows) == {"minigrad", "torch eager"}
    assert table.rows["torch eager"]["minigrad / it"][0] > 0
    (row,) = last.rows.values()
    assert row["fastest"] == "torch eager"
    assert row["captured / torch's fastest"] is None  # nothing is captured on a CPU


# ---------------------------------------------------------------- all of it on a GPU


def test_the_gpu_report_goes_on_after_failures(tmp_path, monkeypatch):
    program = lambda code: [sys.executable, "-c", code]
    parts = {
        "good": (60, program("print('a figure')")),
        "bad": (60, program("import sys; sys.exit('no memory')")),
        "slow": (2, program("import time; print('begun', flush=True); time.sleep(60)")),
        "missing": (60, ["no-such-program"]),
        "last": (60, program("print('the end')")),
    }
    monkeypatch.setattr(on_gpu, "parts", lambda folder, run_dir, data_dir: parts)
    assert not on_gpu.run(tmp_path, None)
    report = (tmp_path / "report.txt").read_text()
    endings = "exit code 0", "exit code 1", "stopped at the limit of 2 s", "not started", "exit code 0"
    for name, ending in zip(parts, endings, strict=True):
        assert f"== {name}: {ending}" in report
    for words in ("a figure", "no memory", "begun", "the end"):
        assert words in report


@pytest.mark.parametrize("gpu", ["standin"])
def test_kernels_are_timed_with_and_without(gpu, capsys):
    with gpu_of_kind(gpu), our_kernels(gpu):
        on_gpu.kernels(f"{SMALL} bfloat16", turns=2)
        assert on_gpu.shadow("reverse")
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("] ")[2] for line in lines if " ms [" in line] == list(on_gpu.WITHOUT)
    assert [line.partition(":")[0] for line in lines if "the same on both" in line] == ["float32", "bfloat16"]


def test_each_kernel_can_be_left_out():
    kernels.sets["cuda"].loaded()
    add = arithmetic.add.op
    half = mg.tensor([1.0], dtype="bfloat16")
    assert add.kernels["cuda"]
    with on_gpu.without_sums():
        assert not add.kernels["cuda"]
    with on_gpu.without_epilogue():
        assert cublas.product_and_row_sums(None, None) is None
    with mg.autocast(dtype="bfloat16"), on_gpu.float32_between_layers():
        assert F.layer_norm(half, (1,)).dtype == F.embedding([0], mg.ones(1, 2)).dtype == mg.float32
    with mg.autocast(dtype="bfloat16"), on_gpu.float32_logits():
        loss = F.cross_entropy(half.reshape(1, 1), mg.tensor([0], requires_grad=False))
        assert loss.dtype == mg.float32
    assert add.kernels["cuda"]


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_the_walkthrough_page_is_benchmarked_in_a_browser(clock):
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
