"""Plant small mistakes in the library, one at a time, and record the first test that finds each.

    python -m tools.mutate --count 200 -o all.jsonl          # a fixed sample of the lines of both packages
    python -m tools.mutate minigrad/core minigrad/ops -o engine.jsonl
    python -m tools.mutate --again engine.jsonl              # after tests have changed: is each still found?
    python -m tools.mutate --again all.jsonl --tests tests   # ask this part of the suite instead

A mistake is planted in a copy of the checkout, where the tests must pass without it. The nearest folder of
tests runs first; for the book, NEXT after it. A line of the output has the place, the change, and the test
that failed ("" if the mistake survives). Then ask the full suite about survivors, where PyTorch is installed:
`--again survivors.jsonl --tests tests tests/slow/parity`.
"""

import argparse
import ast
import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from functools import cache
from multiprocessing import Pool
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 600  # seconds for one run of pytest; a mistake may make an endless loop
PAIRS = """Add Sub, Mult Div, FloorDiv Mult, Mod Mult, Pow Mult, BitAnd BitOr, And Or,
    Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn"""
SWAPS = {}
for first, second in (pair.split() for pair in PAIRS.split(",")):
    SWAPS[getattr(ast, first)] = getattr(ast, second)
    SWAPS.setdefault(getattr(ast, second), getattr(ast, first))
# the nearest folders of tests where no folder has the package's name
NEAREST = {
    "minigrad": "tests/public",
    "minigrad/kernels/cuda": "tests/slow/gpu",
    "minitransformer": "tests/models",
    "minitransformer/runs": "tests/training",
}
BOOK = {
    "core", "ops", "nn", "optim", "more", "kernels",
    "layers", "models", "data", "text", "generation", "training",
}  # fmt: skip
NEXT = {  # what else asks about the book: quick tests of what is built on it
    "minigrad": [f"tests/{name}" for name in ("golden", "ops", "core", "kernels")],
    "minitransformer": [f"tests/{name}" for name in ("tasks", "models", "generation", "training", "cli")],
}


def changed(node):
    """Return a changed copy of a node of the syntax tree, or None."""
    new = copy.deepcopy(node)
    match new:
        case ast.BinOp() | ast.BoolOp() if type(new.op) in SWAPS:
            new.op = SWAPS[type(new.op)]()
        case ast.Compare():
            new.ops[0] = SWAPS[type(new.ops[0])]()
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            new = new.operand
        case ast.Constant(value=bool()):
            new.value = not new.value
        case ast.Constant(value=int() | float()):
            new.value += 1
        case ast.IfExp():
            new.test = ast.UnaryOp(ast.Not(), new.test)
        case _:
            return None
    return new


def places(node):
    """Iterate over the nodes that can be changed: none of messages, annotations and decorators."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            skipped = field in ("annotation", "returns", "decorator_list", "exc", "msg")
            if isinstance(child, ast.AST) and not skipped and not isinstance(child, ast.JoinedStr):
                if changed(child):
                    yield child
                yield from places(child)


def draw(folders, count, seed):
    """Return mutants of lines drawn at random from the files in some folders."""
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = defaultdict(list)
    for path in listed.stdout.split():
        if path.endswith(".py"):
            for node in places(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
                lines[path, node.lineno].append(node)
    rng = random.Random(seed)
    for path, line in rng.sample(sorted(lines), min(count, len(lines))):
        node = rng.choice(lines[path, line])
        change = {"before": ast.unparse(node), "after": ast.unparse(changed(node))}
        yield {"path": path, "span": span_of(node), **change}


def span_of(node):
    return [node.lineno, node.col_offset, node.end_lineno, node.end_col_offset]


def plant(text, mutant):
    """Return a file's text with the mistake in it."""
    first, start, last, end = mutant["span"]
    found = [ast.unparse(node) for node in places(ast.parse(text)) if span_of(node) == mutant["span"]]
    if mutant["before"] not in found:
        raise ValueError(f"{mutant['path']}:{first} no longer has {mutant['before']!r}.\nDraw new mutants.")
    lines = text.encode().splitlines(keepends=True)
    offset = sum(map(len, lines[: first - 1])) + start
    stop = sum(map(len, lines[: last - 1])) + end
    return (text.encode()[:offset] + f"({mutant['after']})".encode() + text.encode()[stop:]).decode()


def first_failure(tests):
    """Run tests in this process's copy; return the first that fails, "" if all pass."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "-rfE",
        *tests,
    ]
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    env = {**os.environ, **threads, "PYTHONPATH": str(checkout)}
    try:
        run = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "none within the time limit"
    if "ERROR: not found" in run.stderr + run.stdout:  # a test that was removed
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    return found[1] if found else "" if run.returncode in (0, 5) else f"pytest ended with {run.returncode}"


@cache
def check_unplanted(tests):
    """Raise a ValueError for tests that fail anyway; asked once in each process."""
    if test := first_failure(tests):
        raise ValueError(f"The tests fail without the mistake: {test}.\nMend them first.")


def write(target, text):
    target.write_text(text, encoding="utf-8")
    shutil.rmtree(target.parent / "__pycache__", ignore_errors=True)  # numba's loops with what they call


def run(job):
    mutant, tests = job
    nearest = {f"{p}/{d.name}": f"tests/{d.name}" for p in NEXT for d in ROOT.glob("tests/*")} | NEAREST
    folder = max((f for f in nearest if mutant["path"].startswith(f + "/")), key=len)
    package, name = mutant["path"].split("/")[:2]
    stages = [tests] if tests else [nearest[folder].split(), *([NEXT[package]] if name in BOOK else [])]
    killer = mutant.get("killer", "").split("[")[0]
    if killer.startswith("tests/") and (ROOT / killer.split("::")[0]).exists() and not tests:
        stages.insert(0, ["-m", "", killer])  # the killer may be marked as slow
    if "kernels/numba" in mutant["path"]:
        stages = [[*stage, "--kernels", "jit"] for stage in stages]
    for stage in stages:
        check_unplanted(tuple(stage))
    target = checkout / mutant["path"]
    text = target.read_text(encoding="utf-8")
    start = time.monotonic()
    write(target, plant(text, mutant))
    killer = next((test for stage in stages if (test := first_failure(stage))), "")
    write(target, text)
    return {**mutant, "killer": killer, "seconds": round(time.monotonic() - start, 1)}


def copy_checkout(parent):
    """Copy the working tree for this process."""
    global checkout
    checkout = Path(tempfile.mkdtemp(dir=parent))
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, checkout / name)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", default=["minigrad", "minitransformer"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, metavar="FILE", help="run the mutants of an earlier output")
    parser.add_argument("--tests", nargs="+", help="run these instead of the nearest tests and NEXT")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    args = parser.parse_args()
    before = args.again and map(json.loads, args.again.read_text(encoding="utf-8").splitlines())
    jobs = [(mutant, args.tests) for mutant in before or draw(args.folders, args.count, args.seed)]
    results = []
    with tempfile.TemporaryDirectory() as parent, Pool(args.jobs, copy_checkout, (parent,)) as pool:
        for result in pool.imap_unordered(run, jobs):
            results.append(result)
            change = f"{result['path']}:{result['span'][0]}: {result['before']} -> {result['after']}"
            print(f"{change}: {result['killer'] or 'SURVIVES'}", flush=True)
            if args.output:
                args.output.write_text("".join(json.dumps(r) + "\n" for r in results), encoding="utf-8")
    survivors = sum(not result["killer"] for result in results)
    minutes = sum(result["seconds"] for result in results) / 60
    print(f"{len(results)} mutants, {survivors} survive; {minutes:.0f} minutes of one core")
    return bool(args.again and survivors)


if __name__ == "__main__":
    sys.exit(main())
