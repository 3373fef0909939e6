"""What is freed is used again: a second round of the same arrays asks the system for no pages."""

import os
import platform
import subprocess
import sys
from importlib.util import find_spec

import pytest

from minigrad import allocator

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator is what is set")

ROUNDS = """
import resource
import numpy as np
import minigrad

START

def round():
    arrays = [np.ones(1 << 18, np.float32) for _ in range(16)]  # 16 MiB, of 1 MiB each

round()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    round()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


STARTS = {
    "the function": "minigrad.allocator.keep_freed_memory()",
    "an optimizer": "minigrad.optim.SGD([minigrad.ones(2, requires_grad=True)])",
    "the command line": "from minitransformer.cli import main; main(['recipes'])",
}


def pages_faulted_in(start="the function", **environment):
    kept = {name: value for name, value in os.environ.items() if name not in allocator.ENVIRONMENT}
    program = ROUNDS.replace("START", STARTS[start])
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept | environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])


@glibc
@pytest.mark.parametrize("start", STARTS)
def test_freed_array_memory_is_reused(start):
    assert pages_faulted_in(start) < 1000


# other packages are imported first: what they change is theirs
IMPORTS = """
import ctypes, locale, os, signal, sys, threading, warnings
import numpy as np, ml_dtypes, safetensors, tokenizers, sacrebleu, rich.console, argparse
if "numba" in sys.argv: import numba

def process():
    return {
        "environment": dict(os.environ),
        "warnings": list(warnings.filters),
        "floating-point errors": np.geterr(),
        "print options": np.get_printoptions(),
        "signals": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
        "hooks": [sys.excepthook, sys.displayhook, threading.excepthook],
        "directory": os.getcwd(),
    }

def forbidden(*args, **kwargs):
    raise AssertionError("a C library was loaded")

before, ctypes.CDLL = process(), forbidden
import minigrad, minitransformer
after = process()
assert before == after, {name: (before[name], after[name]) for name in before if before[name] != after[name]}
assert minigrad.allocator.keep_freed_memory.cache_info().currsize == 0
"""


def test_importing_does_not_change_process_settings():
    installed = ["numba"] if find_spec("numba") else []
    subprocess.run([sys.executable, "-c", IMPORTS, *installed], check=True)


@glibc
def test_malloc_environment_variables_take_precedence():
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
def test_malloc_thresholds_rejected_by_glibc_are_lowered(most, taken):
    accepted = []

    def mallopt(parameter, size):
        name = {-3: "mmap", -1: "trim"}[parameter]
        if name == "mmap" and size > most:
            return 0
        accepted.append((name, size))
        return 1

    allocator.raise_thresholds(mallopt)
    assert accepted == taken
