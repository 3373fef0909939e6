"""What of PyTorch's names and lines runs here, to the same values: `python -m tests.slow.parity.idioms`.

Each line of `idioms.toml` is run as it is, and again with `torch` replaced by `minigrad`, which is all that a
user would change. A verdict is "same" (or an error where PyTorch raises one, too), "instead" (an error that
names what to use, which exists), or "fails". Values of lines that draw random numbers are compared by shape
and dtype.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import importlib
import io
import math
import os
import pickle
import random
import re
import sys
import tempfile
import tomllib
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import numpy as np

PYTHON = {"np": np, "math": math, "copy": copy, "functools": functools, "random": random, "os": os,
          "pickle": pickle, "OrderedDict": OrderedDict}  # fmt: skip
TABLE = tomllib.loads(Path(__file__).with_name("idioms.toml").read_text(encoding="utf-8"))
NAMES = TABLE["names"].split()
SHORT = {"F.": "torch.nn.functional.", "Tensor.": "torch.Tensor."}


class Idiom(NamedTuple):
    topic: str
    before: str
    code: str


IDIOMS = [
    Idiom(group["topic"], group.get("before", ""), re.sub(r"\n  ", "\n", line).strip())
    for group in TABLE["group"]
    for line in re.split(r"^- ", group["lines"], flags=re.MULTILINE)[1:]
]


class Outcome(NamedTuple):
    verdict: str  # "same", "instead" or "fails"
    why: str = ""


# ---------------------------------------------------------------- names


def judge_name(name: str) -> Outcome:
    """Whether a name of PyTorch's is there, or says what to use."""
    for short, full in SHORT.items():
        if name.startswith(short):
            name = full + name.removeprefix(short)
    found = importlib.import_module("minigrad")
    parts = name.split(".")[1:]
    for i, part in enumerate(parts):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            with contextlib.suppress(ImportError):
                found = importlib.import_module(".".join(["minigrad", *parts[: i + 1]]))
                continue
            return _judge_error(error)
    return Outcome("same")


# ---------------------------------------------------------------- idioms


def judge_idiom(idiom: Idiom) -> Outcome:
    with tempfile.TemporaryDirectory() as tmp, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = run(idiom, "torch", tmp)
        ours = run(idiom, "minigrad", tmp)
    assert isinstance(theirs, Exception) == ("# raises" in idiom.code), (idiom.code, theirs)
    if isinstance(ours, Exception):
        if isinstance(theirs, Exception) and isinstance(ours, type(theirs)):
            return Outcome("same", f"{type(ours).__name__}, as PyTorch's")
        return _judge_error(ours)
    if isinstance(theirs, Exception):
        return Outcome("fails", f"PyTorch raises {theirs!r}, here the value is {ours!r}"[:300])
    if difference := differ(ours, theirs, "# random" in idiom.code):
        return Outcome("fails", difference)
    return Outcome("same")


def run(idiom: Idiom, library: str, tmp: str):
    """The value of an idiom's last expression, or the error that ended it."""
    code = re.sub(r"\btorch\b", library, f"{idiom.before}\n{idiom.code}")
    module = lambda name="": importlib.import_module(library + name)
    namespace = {
        library: module(),
        "nn": module(".nn"),
        "optim": module(".optim"),
        "F": module(".nn.functional"),
    }
    namespace |= {"tmp": tmp, "filled": functools.partial(filled, module()), **PYTHON}
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            *statements, last = ast.parse(code).body
            if not isinstance(last, ast.Expr):
                statements, last = [*statements, last], ast.parse("None").body[0]
            exec(compile(ast.Module(statements, []), "<idiom>", "exec"), namespace)
            return plain(eval(compile(ast.Expression(last.value), "<idiom>", "eval"), namespace))
    except Exception as error:
        return error


def filled(library, model):
    """The model with the same weights in both libraries."""
    for p in model.parameters():
        numbers = 0.3 * np.sin(np.arange(1, p.numel() + 1)).reshape(tuple(p.shape))
        p.data.copy_(library.from_numpy(numbers))
    return model


class Numbers(NamedTuple):
    """What is compared of a tensor."""

    array: np.ndarray
    dtype: str


def plain(value):
    """A value without its library."""
    if isinstance(value, np.ndarray | np.generic):
        return value
    if type(value).__name__ in ("dtype", "Size"):
        return str(value).removeprefix("torch.") if type(value).__name__ == "dtype" else tuple(value)
    if hasattr(value, "detach") and hasattr(value, "tolist"):
        detached = value.detach()
        array = detached.float() if "bfloat16" in str(value.dtype) else detached
        return Numbers(np.array(array.numpy()), str(value.dtype).removeprefix("torch."))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    if type(value).__module__.split(".")[0] == "numpy":
        return str(value)
    if isinstance(value, str):
        return value.replace("torch.", "")
    return value if isinstance(value, int | float | bool | None) else type(value).__name__


def differ(ours, theirs, is_random: bool) -> str:
    """In what two plain values differ; empty if they do not."""
    if isinstance(theirs, Numbers):
        if not isinstance(ours, Numbers):
            return f"{ours!r} for a tensor"
        if ours.dtype != theirs.dtype or ours.array.shape != theirs.array.shape:
            return f"{ours.dtype}{list(ours.array.shape)} for {theirs.dtype}{list(theirs.array.shape)}"
        ours = ours.array
        theirs = theirs.array
    if isinstance(theirs, tuple):
        if not isinstance(ours, tuple) or len(ours) != len(theirs):
            return f"{ours!r} for {theirs!r}"
        return next(filter(None, (differ(a, b, is_random) for a, b in zip(ours, theirs, strict=True))), "")
    if isinstance(theirs, dict):
        return differ((*ours, *ours.values()), (*theirs, *theirs.values()), is_random)
    if isinstance(theirs, np.ndarray | np.generic | float):
        if np.shape(ours) != np.shape(theirs):
            return f"{ours!r} for {theirs!r}"
        same = is_random or np.allclose(ours, theirs, rtol=1e-4, atol=1e-6, equal_nan=True)
        return "" if same else f"{ours!r} for {theirs!r}"
    return "" if ours == theirs else f"{ours!r} for {theirs!r}"


def _judge_error(error: Exception) -> Outcome:
    """Whether an error names something that exists, or another keyword."""
    said = f"{type(error).__name__}: {error}"
    says_what = replacements(str(error)) or re.search(r"\nUse \w+=", str(error))
    return Outcome("instead" if says_what else "fails", said)


def replacements(message: str) -> list[str]:
    """What a message tells users to use, of what exists; it stands after the first line."""
    named = re.findall(
        r"\b(?:mg|nn|F|np|optim|x|minigrad|minitransformer)(?:\.\w+)+", message.partition("\n")[2]
    )
    return [name for name in named if exists(name)]


def exists(name: str) -> bool:
    roots = {"mg": "minigrad", "nn": "minigrad.nn", "F": "minigrad.nn.functional", "np": "numpy",
             "optim": "minigrad.optim", "x": "minigrad.Tensor"}  # fmt: skip
    first, *rest = name.split(".")
    parts = [*roots.get(first, first).split("."), *rest]
    try:
        found = importlib.import_module(parts[0])
        for i, part in enumerate(parts[1:], 2):
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join(parts[:i]))
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    return True


# ---------------------------------------------------------------- the table


def percentage(outcomes, *verdicts: str) -> float:
    return 100 * sum(outcome.verdict in verdicts for _, outcome in outcomes) / len(outcomes)


def main() -> int:
    names = [(name, judge_name(name)) for name in NAMES]
    idioms = [(idiom, judge_idiom(idiom)) for idiom in IDIOMS]
    for kind, outcomes in (("names", names), ("idioms", idioms)):
        for what, outcome in outcomes:
            if outcome.verdict == "fails" or (outcome.verdict == "instead" and "-v" in sys.argv):
                shown = what if isinstance(what, str) else f"[{what.topic}] {what.code}"
                print(f"{outcome.verdict}: {shown}\n    {' '.join(outcome.why.split())[:300]}")
        same = percentage(outcomes, "same")
        either = percentage(outcomes, "same", "instead")
        print(f"{len(outcomes)} {kind}: {same:.1f}% run, {either:.1f}% run or say what to use instead\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
