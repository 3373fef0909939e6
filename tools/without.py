"""Remove a part from the packages, and check that the rest imports and passes its tests.

    python -m tools.without graph              # all tests of the rest
    python -m tools.without graph --quick      # imports, and the quickest tests
    python -m tools.without --all --quick      # for each part, several at a time

It copies the working tree to a temporary folder, without the part's folder and without its lines where the
parts are assembled (ASSEMBLIES), which begin with a comment: `# graph (needs gradcheck): ...`, and end where
the next comment begins. Parts that need it are removed, too. So are the files in LEAVES, and tests that use
the part themselves (tests/conftest.py) or are marked `pytest.mark.needs("graph")`; they are listed. It is a
failure if the rest uses something of the part, or if a test is skipped only in the copy.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
FOLDERS: dict[str, str | None] = {
    "kernels/numba": "minigrad/kernels/numba",
    "kernels/cuda": "minigrad/kernels/cuda",
    "capture": "minigrad/capture",
    "graph": "minigrad/graph",
    "debug": "minigrad/debug",
    "gradcheck": "minigrad/gradcheck",
    "breadth": "minigrad/breadth",
    "torch_names": "minigrad/torch_names",
    "explain": "minitransformer/explain",
    "claims": "minitransformer/claims",
    "plots": "minitransformer/plots",
    "inspection": "minitransformer/inspection",
    "pretrained": "minitransformer/pretrained",
    "learn": "minitransformer/learn",
    "cli": "minitransformer/cli",
    "tasks": None,  # all but translation and language modelling: files, which are in LEAVES
}
PARTS = tuple(FOLDERS)
ASSEMBLIES = (
    "minigrad/__init__.py", "minitransformer/__init__.py", "minitransformer/generation/__init__.py",
    "minitransformer/tasks/__init__.py", "minitransformer/cli/__init__.py", "minitransformer/cli/train.py",
)  # fmt: skip

# files removed with a part, besides its folder: those about it, and those about all public names
LEAVES = {
    "kernels/numba": (),
    "kernels/cuda": (),
    "capture": ("tests/capture",),
    "graph": (
        "minitransformer/cli/graph.py", "demos/graph.ipynb", "demos/graph_attention_head.py",
        "demos/graph_expression.py", "demos/graph_mlp.py", "demos/graph_transformer.py", "demos/saving.py",
        "benchmarks/__main__.py", "benchmarks/graphs.py", "benchmarks/page.py", "tools/reference.py",
        "tools/site",
        "docs/graphs.md", "tests/slow/repository/test_graph_demos.py", "tests/repository/test_notebooks.py",
        "tests/slow/repository/test_reference.py",
    ),
    "debug": (
        "minitransformer/cli/card.py", "minitransformer/runs/card.py", "benchmarks/cards.py",
        "benchmarks/pretrained.py", "benchmarks/runs.py", "benchmarks/shares.py", "benchmarks/__main__.py",
    ),
    "explain": (
        "minitransformer/cli/explain.py", "demos/explain.ipynb", "tests/explain",
        "tests/repository/test_notebooks.py", "benchmarks/page.py", "benchmarks/__main__.py",
        "tools/animation.py",
        "tools/screenshots.py",
    ),
    "claims": ("minitransformer/cli/claims.py", "tools/claims.py", "tools/site", "tests/claims"),
    "plots": (
        "minitransformer/cli/pictures.py", "minitransformer/claims/figure.py", "tools/claims.py",
        "tests/plots",
    ),
    "learn": ("minitransformer/cli/learn.py", "tests/learn"),
    "inspection": (
        "minitransformer/generation/attentions.py", "minitransformer/training/diagnostics.py",
        "tests/layers/test_recording.py", "benchmarks/recording.py", "benchmarks/__main__.py", "tools/site",
    ),
    "cli": (
        "minitransformer/__main__.py", "minitransformer/startup.py", "benchmarks/__main__.py",
        "benchmarks/cards.py", "benchmarks/page.py", "benchmarks/pretrained.py", "benchmarks/runs.py",
        "benchmarks/shares.py", "tests/cli",
    ),
    "tasks": (
        "minitransformer/cli/embed.py",
        *(
            f"minitransformer/tasks/{name}.py"
            for name in (
                "classification", "denoising", "encoder", "image_classification", "masked_language_modelling",
                "question_answering", "similarity", "tagging", "text_to_text",
            )
        ),
        *(
            f"minitransformer/recipes/{name}.toml"
            for name in (
                "bart-infill", "bert-answers", "bert-classify", "bert-mlm", "bert-similar", "bert-tag",
                "brackets", "digits-vit", "t5-denoise", "t5-prefixes",
            )
        ),
    ),
    "gradcheck": ("minigrad/__main__.py",),
    "pretrained": (
        "minitransformer/runs/imported.py", "minitransformer/cli/import_.py",
        "minitransformer/cli/export.py",
        "tests/pretrained", "benchmarks/__main__.py", "benchmarks/pretrained.py",
    ),
    "breadth": ("tests/repository/test_stub.py",),
    "torch_names": (
        "tools/reference.py", "tools/site", "docs/pytorch.md", "tests/slow/repository/test_reference.py",
        "tests/repository/test_stub.py",
    ),
}  # fmt: skip

# quick tests of what every part stands on, but for a few that take a third of the time; by NumPy's kernels,
# as numba would compile again in each copy
ENGINE = (
    "tests/core/test_backward.py", "tests/core/test_grad.py", "tests/core/test_versions.py",
    "tests/nn/test_containers.py", "tests/ops/test_in_place.py", "tests/optim/test_optimizers.py",
    "tests/public/test_public_names.py",
)  # fmt: skip
TRANSFORMERS = (
    "tests/layers", "tests/generation/test_generate.py", "tests/tasks/test_of_your_own.py",
    "tests/public/test_public_names.py",
)  # fmt: skip
SELECTED = ("--kernels=numpy", "-k", "not long_chain and not many_ops")

IMPORT_EVERYTHING = """
import importlib, pathlib
import minigrad
assert pathlib.Path(minigrad.__file__).is_relative_to(pathlib.Path.cwd()), minigrad.__file__
for folder in ("minigrad", "minitransformer", "benchmarks", "tools"):
    for path in sorted(pathlib.Path(folder).rglob("*.py")):
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__") and ".peers." not in name:
            importlib.import_module(name)
"""


class Lines(NamedTuple):
    """A part in an assembly: the parts that it needs, and its lines."""

    needs: tuple[str, ...]
    text: str


def parts_in(assembly: str) -> dict[str, Lines]:
    """The parts in the text of an assembly; each ends where the next comment begins."""
    found = {}
    for text in re.split(r"^(?=# )", assembly, flags=re.MULTILINE):
        if match := re.match(r"# ([\w/]+)(?: \(needs ([\w/, ]+)\))?: ", text):
            name, needs = match.groups()
            if name in FOLDERS:
                found[name] = Lines(tuple(needs.split(", ")) if needs else (), text)
    return found


def leaving_with(part: str, assemblies: Iterable[dict[str, Lines]]) -> list[str]:
    """The part, and the parts that need it."""
    needs = [(other, lines.needs) for assembly in assemblies for other, lines in assembly.items()]
    found = [part]
    for name in found:  # it grows meanwhile
        found += [other for other, needed in needs if name in needed and other not in found]
    return found


class Copy:
    """A copy of the tree without some parts, in a folder."""

    def __init__(self, folder: Path, part: str) -> None:
        self.folder = folder
        self._copy_tree()
        texts = {name: (folder / name).read_text(encoding="utf-8") for name in ASSEMBLIES}
        known = {name: parts_in(text) for name, text in texts.items()}
        self.parts = leaving_with(part, known.values())
        for name, text in texts.items():
            for lines in (known[name][part].text for part in self.parts if part in known[name]):
                text = text.replace(lines, "")
            (folder / name).write_text(text, encoding="utf-8")
        self.left_out = list(dict.fromkeys(file for name in self.parts for file in LEAVES[name]))
        for path in (*filter(None, (FOLDERS[name] for name in self.parts)), *self.left_out):
            shutil.rmtree(folder / path) if (folder / path).is_dir() else (folder / path).unlink()

    def _copy_tree(self) -> None:
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        files = [Path(name) for name in names.splitlines() if (ROOT / name).is_file()]
        # what Python and numba compiled holds for a file of the same size and time; what pytest did does not
        modules = {file.parent for file in files if file.suffix == ".py" and file.parts[0] != "tests"}
        compiled = [file for folder in modules for file in (ROOT / folder / "__pycache__").glob("*")]
        for file in [*files, *(path.relative_to(ROOT) for path in compiled)]:
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, self.folder / file)

    def run(self, *words: str, quiet: bool) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy; if quiet, its output is captured."""
        environment = {
            "OPENBLAS_NUM_THREADS": "1",
            "MINITRANSFORMER_DATA": str(ROOT.parent / "shared" / "data"),
            **os.environ,
            "PYTHONPATH": str(self.folder),
        }
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT,
            text=True,
        )


class Outcome(NamedTuple):
    """The tests that passed, were skipped, failed, and leave with the part, by name."""

    passed: list[str]
    skipped: list[str]
    failed: list[str]
    left_out: list[str]


def outcome_in(report: Path) -> Outcome:
    """Read the outcome of each test from pytest's JUnit report."""
    found = Outcome([], [], [], [])
    for case in ElementTree.parse(report).iter("testcase"):
        module, name = case.get("classname", ""), case.get("name", "")
        file = f"{(module or name).replace('.', '/')}.py"  # a file that leaves whole is all of the name
        name = f"{file}::{name}" if module else file
        if case.find("failure") is not None or case.find("error") is not None:
            found.failed.append(name)
        elif (skipped := case.find("skipped")) is not None and skipped.get("type") != "pytest.xfail":
            leaves = "leaves with a part" in (skipped.get("message") or "") + (skipped.text or "")
            (found.left_out if leaves else found.skipped).append(name)
        else:
            found.passed.append(name)
    return found


def skipped_in_whole_tree(names: set[str]) -> set[str]:
    """The tests among these that are also skipped in the whole tree."""
    if not names:
        return set()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, *sorted(names)], cwd=ROOT, stdout=subprocess.DEVNULL)
        return set(outcome_in(report).skipped)


class Result(NamedTuple):
    """The result for a copy without a part; `failed` also if pytest or the imports did not finish."""

    part: str
    left_out: list[str]
    tests: Outcome
    failed: bool
    printed: str | None
    seconds: float


def quick_tests(part: str) -> tuple[str, ...]:
    """The quickest tests of the package that the part is of, but for a few that take a third of the time."""
    is_of_minigrad = str(FOLDERS[part]).startswith("minigrad/")
    return (*(ENGINE if is_of_minigrad else TRANSFORMERS), *SELECTED)


def try_without(part: str, quick: bool, processes: int) -> Result:
    """Copy the tree without a part, import all that remains, and run its tests."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder), part)
        print(f"--- without {', '.join(copy.parts)}", flush=True)
        report = copy.folder / "report.xml"
        ran = copy.run("-c", IMPORT_EVERYTHING, quiet=quick)
        if ran.returncode == 0:
            ran = copy.run(
                "-m", "pytest", "-q", "--tb=short", "-n", str(processes), "-p", "no:cacheprovider",
                f"--junitxml={report}", f"--without={','.join(copy.parts)}",
                *(quick_tests(part) if quick else ()),
                quiet=quick,
            )  # fmt: skip
        tests = outcome_in(report) if report.exists() else Outcome([], [], [], [])
        left_out = [*copy.left_out, *tests.left_out]
        failed = ran.returncode != 0 or not tests.passed
    return Result(part, left_out, tests, failed, ran.stdout, time.monotonic() - started)


def show(result: Result, skipped_anyway: set[str]) -> bool:
    """Print the result for a copy; returns whether it passed."""
    skipped = set(result.tests.skipped)
    only_here = skipped - skipped_anyway
    if result.failed and result.printed:
        print(result.printed)
    for title, names in (
        ("left out", result.left_out),
        ("skipped, also in the whole tree", sorted(skipped & skipped_anyway)),
        ("SKIPPED ONLY HERE", sorted(only_here)),
        ("FAILED", result.tests.failed),
    ):
        print("\n".join([f"{title}: {len(names)}", *(f"  {name}" for name in names)]))
    passed = not result.failed and not only_here
    print(
        f"without {result.part}: {len(result.tests.passed)} passed, {len(skipped)} skipped, "
        f"{len(result.left_out)} left out, {len(result.tests.failed) + len(only_here)} failed "
        f"in {result.seconds:.0f} s: {'passed' if passed else 'FAILED'}",
        flush=True,
    )
    return passed


def check(parts: Sequence[str], quick: bool, processes: int) -> bool:
    """Try the tree without each of the parts, several at a time; returns whether all passed."""
    with ThreadPoolExecutor(processes) as pool:
        results = list(pool.map(lambda part: try_without(part, quick, 0 if quick else processes), parts))
    skipped_anyway = skipped_in_whole_tree({name for result in results for name in result.tests.skipped})
    shown = [show(result, skipped_anyway) for result in results]
    return all(shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--all", action="store_true", help="each of them")
    parser.add_argument("--quick", action="store_true", help="imports, and the quickest tests only")
    parser.add_argument("-n", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    options = parser.parse_args()
    parts = PARTS if options.all else options.parts
    if not parts or not set(parts) <= set(PARTS):
        parser.error(f"name a part, of {', '.join(PARTS)}; or --all")
    # quick tests of several copies run side by side; all tests of one are spread over the processes
    groups = [parts] if options.quick else [[part] for part in parts]
    passed = [check(group, options.quick, options.n) for group in groups]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
