"""Attacks on run folders, data files and the command line: `python -m tests.slow.attacks.NAME [--full]`.

Each program prints a table of what happened and exits with 1 if anything happened that must not.
`tests/slow/attacks/test_small_counts.py` runs all of them with small counts.
"""

import os

for library in ("OPENBLAS", "MKL", "OMP", "NUMBA"):  # a process with threads cannot be forked safely
    os.environ[f"{library}_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
