"""What is freed is used again: a second round of the same arrays asks the system for no pages."""

import os
import platform
import subprocess
import sys

import pytest

from minigrad import allocator

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator is what is set")

ROUNDS = """
import resource
import numpy as np
import minigrad

def round():
    arrays = [np.ones(1 << 18, np.float32) for _ in range(16)]  # 16 MiB, of 1 MiB each

round()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    round()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_faulted_in(**environment):
    kept = {name: value for name, value in os.environ.items() if name not in allocator.OWN_CHOICE}
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS], env=kept | environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@glibc
def test_arrays_of_a_second_round_lie_in_the_memory_of_the_first():
    assert pages_faulted_in() < 1000


@glibc
def test_what_the_environment_says_of_malloc_stands():
    page = os.sysconf("SC_PAGE_SIZE")
    assert pages_faulted_in(MALLOC_TRIM_THRESHOLD_="0") > 10 * (16 << 20) // page // 2


@pytest.mark.parametrize(
    ("most", "taken"),
    [
        (1 << 40, [("mmap", 1 << 30), ("trim", 1 << 30)]),
        (32 << 20, [("mmap", 32 << 20), ("trim", 1 << 30)]),
        (0, []),
    ],
)
def test_a_threshold_that_glibc_refuses_is_lowered_or_left_alone(most, taken):
    accepted = []

    def mallopt(parameter, size):
        name = {-3: "mmap", -1: "trim"}[parameter]
        if name == "mmap" and size > most:
            return 0
        accepted.append((name, size))
        return 1

    allocator.raise_thresholds(mallopt)
    assert accepted == taken
