"""Runs each verb in a folder full of modules named as those that we import: none of them may be executed.

The command is the installed one, `minitransformer`; the folder also has configuration files that matplotlib
and Numba would read there. `sweep` starts another Python, in which the same holds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from minitransformer.cli import VERBS

from .commands import TINY, Report, full_or, write_pairs

OTHERS = (  # imported by Python itself when it starts, only by some commands, or only from a checkout
    "sitecustomize", "usercustomize", "yaml", "cupy", "mpi4py", "torch", "IPython", "tensorboard", "numba",
    "minigrad", "minitransformer", "tests",
)  # fmt: skip
COMMAND = "import sys\nfrom minitransformer.__main__ import main\nsys.exit(main())\n"  # as pip writes it
TRAIN = ["phrasebook", "--data", "pairs.tsv", *TINY]
ARGUMENTS = {
    "train": [*TRAIN, "--run-dir", "run"],
    "sweep": [*TRAIN, "--run-dir", "runs", "--seed", "0", "1"],
    "translate": ["run", "I am."],
    "evaluate": ["run", "--data", "pairs.tsv"],
    "compare": ["run", "run"],
    "explain": ["run", "I am.", "-o", "explain.html"],
    "graph": ["run", "I am.", "-o", "graph.svg"],
    "card": TRAIN,
    "show": ["run"],
    "check": ["run", "--data", "pairs.tsv"],
    "recipes": [],
}
FAILING = {"sweep": [*TRAIN, "--run-dir", "pairs.tsv/runs"]}  # its training ends when all is imported


def names() -> set[str]:
    """The modules of the standard library and of all installed packages, by their first names."""
    known = {*sys.stdlib_module_names, *packages_distributions(), *OTHERS}
    return {name for name in known if name.isidentifier()}


def prepare(folder: Path) -> None:
    """Write data, and everything that must not be executed."""
    write_pairs(folder)
    for name in names():
        code = f"open({str(folder / 'executed')!r}, 'a').write({name + chr(10)!r})\n"
        (folder / f"{name}.py").write_text(code)
    (folder / "matplotlibrc").write_text("backend: garbage\ntext.usetex: True\n")
    (folder / ".numba_config.yaml").write_text("cache_dir: planted\ncache_locator_classes: numpy.planted\n")
    (folder / "minitransformer.pth").write_text("import numpy\n")


def commands(count: int) -> Iterator[tuple[str, list[str]]]:
    """Verbs with their arguments: all of them, or the ones that start another Python."""
    if count < len(ARGUMENTS):
        yield from FAILING.items()
    else:
        yield from ((verb, ARGUMENTS.get(verb, [])) for verb in VERBS)


def main() -> int:
    count = full_or(small=1, full=len(VERBS))
    report = Report()
    root = str(Path(__file__).parents[3])
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as bin:
        folder = Path(place)
        script = Path(bin) / "minitransformer"
        script.write_text(COMMAND)
        prepare(folder)
        for verb, arguments in commands(count):
            environment = {**os.environ, "PYTHONPATH": root}
            command = [sys.executable, str(script), verb, *arguments]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            executed = folder / "executed"
            found = sorted(set(executed.read_text().split())) if executed.exists() else []
            executed.unlink(missing_ok=True)
            failure = f"executed {', '.join(found)}" if found else ""
            failure = failure or ("Numba's cache is here" if (folder / "planted").exists() else "")
            failure = failure or ("a traceback" if "Traceback" in done.stderr else "")
            if count > 1 and verb in ARGUMENTS and done.returncode:
                failure = failure or f"exit code {done.returncode}"
            problem = failure and f"{failure}: {done.stderr[-500:]}"
            report.add(verb, failure.partition(" ")[0] or "nothing executed", problem)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
