"""Memory that cannot be had: said before it is asked for, with the size."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import memory

MANY, HUGE = 10**12, 10**400


@pytest.mark.parametrize(
    "create",
    [
        lambda n: mg.zeros(n),
        lambda n: mg.ones(n),
        lambda n: mg.empty(n),
        lambda n: mg.full((n,), 1.0),
        lambda n: mg.eye(3, n),
        lambda n: mg.linspace(0, 1, n),
        lambda n: mg.logspace(0, 1, n),
        lambda n: mg.rand(n),
        lambda n: mg.randn(n),
        lambda n: mg.randint(0, 5, (n,)),
        lambda n: mg.randperm(n),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n", [MANY, HUGE], ids=["many", "huge"])
def test_a_tensor_that_does_not_fit_into_memory_is_an_error_that_says_its_size(create, n):
    with pytest.raises(mg.OutOfMemoryError, match=r"needs .*B, .*B are available") as caught:
        create(n)
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, mg.MinigradError)


@pytest.mark.parametrize("create", [mg.zeros_like, mg.ones_like, mg.empty_like, mg.rand_like, mg.randn_like])
def test_a_tensor_like_an_expanded_one_may_not_fit(create):
    with pytest.raises(mg.OutOfMemoryError, match="4 TB"):
        create(mg.zeros(1).expand(MANY))


def test_a_range_that_does_not_fit_into_memory():
    for arguments in ((MANY,), (0, 1, 1e-15)):
        with pytest.raises(mg.OutOfMemoryError, match=r"needs 8 [TP]B"):
            mg.arange(*arguments)


@pytest.mark.parametrize(
    "create",
    [
        lambda: mg.arange(HUGE),
        lambda: mg.arange(0, 10, HUGE),
        lambda: mg.linspace(0, HUGE, 5),
        lambda: mg.logspace(0, HUGE, 5),
        lambda: mg.full((2,), HUGE),
    ],
)  # fmt: skip
def test_integers_beyond_64_bits_are_errors(create):
    with pytest.raises(mg.OptionError, match="1329 bits"):
        create()


@pytest.mark.parametrize("step", [1e-320, float("nan"), float("inf")])
def test_a_step_that_gives_no_number_of_elements_is_an_error(step):
    with pytest.raises(mg.OptionError, match="not a range"):
        mg.arange(0.0, 1.0, step)


def test_the_number_of_elements_of_a_range_of_large_integers_is_exact():
    start = 2**62
    assert mg.arange(start, start + 5).tolist() == [start + i for i in range(5)]
    assert len(mg.arange(0, 2**60 + 1, 2**59)) == 3


def test_what_numpy_cannot_allocate_is_the_same_error(monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(np, "zeros", fail)
    with pytest.raises(mg.OutOfMemoryError, match=r"shape \(2, 3\) and float32 needs 24 B"):
        mg.zeros(2, 3)


def test_a_tensor_larger_than_what_is_available_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(memory, "SMALL", 1000)
    monkeypatch.setattr(memory, "available_memory", lambda: 4000)
    assert mg.zeros(1000).shape == (1000,)
    with pytest.raises(mg.OutOfMemoryError, match=r"needs 4 kB, 4 kB are available"):
        mg.zeros(1001)
    with pytest.raises(mg.OutOfMemoryError, match="float64 needs 8 kB"):  # the numbers are drawn in float64
        mg.rand(1000)


@pytest.mark.parametrize(
    ("controllers", "top", "limit", "usage", "cache"),
    [
        ("0::", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("4:cpu,memory:", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file"),
    ],
)  # fmt: skip
def test_the_limits_of_all_control_groups_above_the_process_count(
    tmp_path, controllers, top, limit, usage, cache
):
    job = tmp_path / top / "slurm" / "job"
    job.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"9:pids:/x\n{controllers}/slurm/job\n")
    for folder, most, used in ((job, "max", 10), (job.parent, 1000, 300)):
        (folder / limit).write_text(f"{most}\n")
        (folder / usage).write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 5\n{cache} 100\n")
    assert list(memory.cgroup_memory(tmp_path)) == [800]
    assert list(memory.cgroup_memory(tmp_path / "elsewhere")) == []


def test_sizes_are_said_in_powers_of_1000():
    said = {0: "0 B", 999: "999 B", 1500: "1.5 kB", 999_600: "1 MB", 4_400_000_000_000: "4.4 TB"}
    said |= {10**20: "100 EB", HUGE: "more than 1,000 EB"}
    assert {n: memory.format_bytes(n) for n in said} == said
