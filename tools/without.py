"""minigrad without one of its parts: what remains must import, and pass its tests.

    python -m tools.without graph              # all tests of what remains
    python -m tools.without graph --quick      # it imports, and its quickest tests pass
    python -m tools.without --all --quick      # of each part in turn

It copies the working tree to a temporary folder, without the part's folder and without its lines in
`minigrad/__init__.py`, which begin with a comment: `# graph (needs gradcheck): ...`. Parts that need it
leave with it. So do the files in LEAVES, and tests that use something of it themselves (tests/conftest.py) or
are marked `pytest.mark.needs("graph")`; they are listed. If what remains asks for something of it, that is a
failure, and so is a test that is skipped in the copy and not in the whole tree.
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
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PARTS = ("kernels/numba", "kernels/cuda", "capture", "graph", "debug", "gradcheck", "breadth", "torch_names")

# what leaves with a part, besides its folder: what is about it, and what describes or checks all public names
LEAVES = {
    "kernels/numba": (),
    "kernels/cuda": (),
    "capture": ("docs/capture.md", "tests/test_capture.py"),
    "graph": (
        "minitransformer/cli/explain.py", "minitransformer/cli/graph.py", "minitransformer/explain",
        "demos/explain.ipynb", "demos/graph.ipynb", "demos/graph_attention_head.py",
        "demos/graph_expression.py", "demos/graph_mlp.py", "demos/graph_transformer.py", "demos/saving.py",
        "benchmarks/__main__.py", "benchmarks/graphs.py", "benchmarks/page.py", "tools/reference.py",
        "docs/explain.md", "docs/graphs.md", "tests/test_graph_demos.py", "tests/test_notebooks.py",
        "tests/test_reference.py",
    ),
    "debug": (
        "minitransformer/cli/card.py", "minitransformer/inspection/card.py", "benchmarks/cards.py",
        "benchmarks/runs.py", "benchmarks/shares.py", "benchmarks/__main__.py",
    ),
    "gradcheck": ("minigrad/__main__.py",),
    "breadth": ("tests/test_stub.py",),
    "torch_names": ("tools/reference.py", "tests/test_reference.py", "docs/pytorch.md", "tests/test_stub.py"),
}  # fmt: skip

# quick tests of what every part stands on; by NumPy's kernels, as numba would compile anew in each copy
QUICK = (
    "test_autograd.py", "test_containers.py", "test_in_place.py", "test_optim.py", "test_public_names.py",
    "test_user_ops.py", "test_versions.py",
)  # fmt: skip

IMPORT_EVERYTHING = """
import importlib, pathlib
for folder in ("minigrad", "minitransformer", "benchmarks", "tools"):
    for path in sorted(pathlib.Path(folder).rglob("*.py")):
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__") and ".peers." not in name:
            importlib.import_module(name)
"""


class Lines(NamedTuple):
    """What the assembly says of a part: which others it needs, and its lines."""

    needs: tuple[str, ...]
    text: str


def parts_in(assembly: str) -> dict[str, Lines]:
    """The parts in the text of `minigrad/__init__.py`; each ends where the next comment begins."""
    found = {}
    for text in re.split(r"^(?=# )", assembly, flags=re.MULTILINE):
        if match := re.match(r"# ([\w/]+)(?: \(needs ([\w/, ]+)\))?: ", text):
            name, needs = match.groups()
            found[name] = Lines(tuple(needs.split(", ")) if needs else (), text)
    return found


def leaving_with(part: str, assembly: dict[str, Lines]) -> list[str]:
    """The part, and the parts that need it."""
    found = [part]
    for name in found:  # it grows meanwhile
        found += [other for other, lines in assembly.items() if name in lines.needs and other not in found]
    return found


class Copy:
    """A copy of the tree without some parts, in a folder."""

    def __init__(self, folder: Path, part: str) -> None:
        self.folder = folder
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in names.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        assembly = folder / "minigrad" / "__init__.py"
        text = assembly.read_text(encoding="utf-8")
        known = parts_in(text)
        self.parts = leaving_with(part, known)
        for name in self.parts:
            text = text.replace(known[name].text, "")
            shutil.rmtree(folder / "minigrad" / name)
        assembly.write_text(text, encoding="utf-8")
        self.left_out = list(dict.fromkeys(file for name in self.parts for file in LEAVES[name]))
        for file in self.left_out:
            path = folder / file
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def run(self, *words: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        return subprocess.run([sys.executable, *words], cwd=self.folder, env=environment)

    def test(self, chosen: list[str], processes: int) -> Outcome:
        report = self.folder / "report.xml"
        self.run(
            "-m", "pytest", "-q", "--tb=short", "-n", str(processes), "-p", "no:cacheprovider",
            f"--junitxml={report}", f"--without={','.join(self.parts)}", *chosen,
        )  # fmt: skip
        return outcome_in(report)


class Outcome(NamedTuple):
    """The tests that passed, were skipped, failed, and leave with the part, by name."""

    passed: list[str]
    skipped: list[str]
    failed: list[str]
    left_out: list[str]


def outcome_in(report: Path) -> Outcome:
    """What pytest wrote, as JUnit does, of each test."""
    found = Outcome([], [], [], [])
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            found.failed.append(name)
        elif (skipped := case.find("skipped")) is not None and skipped.get("type") != "pytest.xfail":
            leaves = "leaves with a part" in (skipped.get("message") or "") + (skipped.text or "")
            (found.left_out if leaves else found.skipped).append(name)
        else:
            found.passed.append(name)
    return found


def skipped_in_whole_tree(names: list[str]) -> set[str]:
    """Which of these tests are skipped where no part is missing."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        files = sorted({name.partition("::")[0] for name in names})
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}", *files]
        chosen = {name.partition("::")[2].partition("[")[0] for name in names}
        subprocess.run([*command, "-k", " or ".join(chosen)], cwd=ROOT, stdout=subprocess.DEVNULL)
        return set(outcome_in(report).skipped)


def check(part: str, quick: bool, processes: int) -> bool:
    """Whether the tree without a part passes its tests."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder), part)
        print(f"--- without {', '.join(copy.parts)}", flush=True)
        if copy.run("-c", IMPORT_EVERYTHING).returncode:
            print(f"without {part}: what remains does not import")
            return False
        quickest = [f"tests/{name}" for name in QUICK if (copy.folder / "tests" / name).exists()]
        found = copy.test([*quickest, "--kernels=numpy", "-m", "not slow"] if quick else [], processes)
    left_out = copy.left_out + found.left_out
    only_here = set(found.skipped) - skipped_in_whole_tree(found.skipped) if found.skipped else set()
    for title, names in (
        ("left out", left_out),
        ("skipped, also in the whole tree", sorted(set(found.skipped) - only_here)),
        ("SKIPPED ONLY HERE", sorted(only_here)),
        ("FAILED", found.failed),
    ):
        print("\n".join([f"{title}: {len(names)}", *(f"  {name}" for name in names)]))
    failures = len(found.failed) + len(only_here)
    print(
        f"without {part}: {len(found.passed)} passed, {len(found.skipped)} skipped, "
        f"{len(left_out)} left out, {failures} failed in {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return bool(found.passed) and not found.failed and not only_here


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--all", action="store_true", help="each part in turn")
    parser.add_argument("--quick", action="store_true", help="imports, and the quickest tests only")
    parser.add_argument("-n", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    options = parser.parse_args()
    parts = PARTS if options.all else options.parts
    if not parts or not set(parts) <= set(PARTS):
        parser.error(f"name a part, of {', '.join(PARTS)}; or --all")
    passed = [check(part, options.quick, options.n) for part in parts]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
