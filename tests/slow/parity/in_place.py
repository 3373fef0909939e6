"""Random programs with in-place lines, run by PyTorch and by minigrad: values after each line, and gradients.

Each program has two leaves and a constant of shape (3, 4) and then random lines: operations, views, and
changes in place of results, views, constants, and detached aliases. With `chains` views are also taken of
views, and changed, that no variable holds: `v1[0].mT[1:].mul_(v2)`. A line that PyTorch refuses is left out.
A line that minigrad refuses ends the program, which counts as refused. At the end gradients are compared, and
the gradients of their squares, unless minigrad refuses those ("no second").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import minigrad

LEAVES = ("w1", "w2", "c")  # the constant last
START = """
w1 = torch.tensor({w1}, dtype=torch.float64, requires_grad=True)
w2 = torch.tensor({w2}, dtype=torch.float64, requires_grad=True)
c = torch.tensor({c}, dtype=torch.float64)
"""
VALUES = (
    "{a} * {b}",
    "{a} + {b}",
    "torch.tanh({a})",
    "{a} * 0.5",
    "{a}.sigmoid() + {b}",
    "{a}.clone()",
    "{a}.exp() * 0.1",
)
NEW = (
    "torch.zeros(3, 4, dtype=torch.float64)",
    "torch.ones(3, 4, dtype=torch.float64)",
    "torch.zeros_like({a})",
)
VIEWS = (
    "{a}[0]", "{a}[:, 1]", "{a}[1:]", "{a}[:, ::2]", "{a}.mT", "{a}.reshape(-1)", "{a}.view(4, 3)",
    "{a}.unsqueeze(0)", "{a}.transpose(0, 1)", "{a}[None]", "{a}.detach()", "{a}.narrow(0, 0, 1)",
    "{a}.diagonal()", "{a}.flatten()", "{a}.split(2, 0)[0]", "{a}.chunk(2, 1)[1]", "{a}.unbind(0)[1]",
    "{a}.select(0, 1)", "{a}.squeeze()", "{a}.expand_as({b})", "{a}[..., 0]", "{a}.permute(1, 0)",
    "{a}[[0, 1]]", "{a}[{a} > 0]",
)  # fmt: skip
CHANGES = (
    "{a} += {b}", "{a} -= {b}", "{a} *= {b}", "{a} /= 2.5", "{a} **= 2", "{a}.add_({b}, alpha=0.3)",
    "{a}.mul_({b})", "{a}[0] = {b}[0]", "{a}[1] = 0", "{a}[:, 0] = 1.5", "{a}[0] += 1", "{a}[0] *= {b}[1]",
    "{a}[1:] = {b}[:-1].clone()", "{a}[[0, 1]] = {b}[[1, 0]]", "{a}[{a} > 0.5] = 0", "{a}[{a} < 0] *= 2",
    "{a}.copy_({b})", "{a}.fill_(0.3)", "{a}.zero_()", "{a}.clamp_(-0.5, 0.5)",
    "{a}.masked_fill_({b} > 0, 0.25)", "{a}.sigmoid_()", "{a}.tanh_()", "{a}.exp_()", "{a}.abs_()",
    "{a}.neg_()", "{a}.relu_()", "{a}.sub_(1)", "{a}.div_({b} * {b} + 1)",
    "{a}.addcmul_({b}, {b}, value=0.1)", "{a}.lerp_({b}, 0.3)",
    "{a}.index_fill_(0, torch.tensor([0]), 0.7)", "{a}.transpose_(0, 1)", "{a}.unsqueeze_(0)",
    "{a}.squeeze_()", "{a}.t_()", "{a}.data.mul_(0.5)", "{a}.cumsum_(0)",
    "{a}.index_add_(0, torch.tensor([0, 1]), {b}[:2])", "{a}.triu_()", "{a}.pow_(2)",
    "{a}[0, 1] = {b}[0, 1]", "{a}[..., -1] = {b}[..., 0]", "{a}.fill_diagonal_(0.1)", "{a}.floor_()",
    "{a}.fill_({b}.sum())", "{a}[0][1:] = 2", "{a}.mT[0] += {b}.mT[1]", "{a}.view(-1)[2] = {b}.sum()",
    "{a}.detach().add_(0)", "{a}.index_put_((torch.tensor([0]),), {b}[0])",
)  # fmt: skip
LINKS = (  # of a chain of views
    "[0]", "[-1]", "[1:]", "[:, 1]", "[..., 0]", "[:, ::2]", "[None]", ".transpose(0, 1)",
    ".permute(1, 0)", ".reshape(-1)", ".view(-1)", ".view(4, 3)", ".flatten()", ".unsqueeze(0)", ".squeeze()",
    ".diagonal()", ".narrow(0, 0, 1)", ".select(0, 1)", ".t()", ".detach()", ".split(2, 0)[0]",
    ".unbind(0)[1]", ".chunk(2, 0)[1]",
)  # fmt: skip


def run_program(seed: int, lines: int = 12, chains: bool = False) -> tuple[str, list[str], str]:
    """A verdict ("equal", "no second", "refused", "torch refuses", "different"), the lines, and why."""
    rng = np.random.default_rng(seed)
    data = {name: rng.uniform(-1, 1, (3, 4)).round(2).tolist() for name in LEAVES}
    theirs: dict[str, Any] = {"torch": torch}
    ours: dict[str, Any] = {"torch": minigrad}
    for names in (theirs, ours):
        exec(START.format(**data), names)
    program: list[str] = []
    while len(program) < lines:
        line = _line(rng, _tensors(theirs), len(program), chains)
        before = {name: _array(x).copy() for name, x in _tensors(theirs).items()}
        try:
            exec(line, theirs)
        except (RuntimeError, IndexError, TypeError, ValueError, AttributeError):  # PyTorch refuses it
            if any(_difference(_array(x), before[name]) for name, x in _tensors(theirs).items()):
                return "torch refuses", program, "and has done half of the line"
            continue
        program.append(line)
        try:
            exec(line, ours)
        except minigrad.MinigradError as error:
            return "refused", program, str(error)
        for name, x in _tensors(theirs).items():
            if _is_forbidden(x):
                del theirs[name]
            elif wrong := _difference(_array(x), ours[name]):
                return "different", program, f"{name}: {wrong}"
            elif _in_graph(x) != _in_graph(ours[name]):
                return "different", program, f"{name}.grad_fn: PyTorch {x.grad_fn}"

    reached = [name for name, x in _tensors(theirs).items() if _in_graph(x) or name in LEAVES[:2]]
    total = f"total = sum((v * v).sum() for v in [{', '.join(reached)}])"
    first = "first = torch.autograd.grad(total, (w1, w2), {}=True, allow_unused=True)"
    squares = "squares = sum((g * g).sum() for g in first if g is not None)"
    second = "second = torch.autograd.grad(squares, (w1, w2), allow_unused=True)"
    for which, lines_of_it, unlike, refused in [
        ("first", [total, first.format("retain_graph")], "torch refuses", "refused"),
        ("second", [first.format("create_graph"), squares, second], "equal", "no second"),
    ]:
        if which == "second" and any(".data." in line for line in program):
            break  # such a change is not counted: no replay can know of it
        program += lines_of_it
        for names, errors, verdict in (
            (theirs, RuntimeError, unlike), (ours, minigrad.MinigradError, refused),
        ):  # fmt: skip
            try:
                exec("\n".join(lines_of_it), names)
            except errors as error:
                return verdict, program, str(error)
        if wrong := _different_gradients(which, theirs, ours):
            return "different", program, wrong
    return "equal", program, ""


def _different_gradients(which: str, theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """How the gradients of the leaves differ; one that is not there is zero."""
    for name, expected, found in zip(LEAVES[:2], theirs[which], ours[which], strict=True):
        zeros = np.zeros((3, 4))
        wrong = _difference(
            zeros if expected is None else _array(expected), zeros if found is None else found
        )
        if wrong:
            return f"{which} gradient of {name}: {wrong}"
    return ""


def _tensors(names: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: x for name, x in names.items() if isinstance(x, torch.Tensor)}


def _array(x: torch.Tensor) -> np.ndarray:
    return x.detach().numpy()


def _line(rng: np.random.Generator, tensors: dict[str, torch.Tensor], number: int, chains: bool) -> str:
    a, b = rng.choice(list(tensors)), rng.choice(list(tensors))
    kind = rng.random()
    if kind < 0.55:
        if _overlap(tensors[a], tensors[b]):
            b = a
        if chains and a == b:
            b = f"{b}.clone()"
        of_chains = [
            change for change in CHANGES if change[:4] in ("{a}.", "{a}[") and ".data." not in change
        ]
        line = str(rng.choice(of_chains if chains else CHANGES)).format(a=a + _links(rng, chains), b=b)
        outside = rng.random() < 0.1 and "t_()" not in line and "transpose_" not in line  # see reshape_itself
        return f"with torch.no_grad():\n    {line}" if outside else line
    templates = VIEWS if kind < 0.8 else VALUES if kind < 0.95 else NEW
    return f"v{number} = " + str(rng.choice(templates)).format(a=a + _links(rng, chains), b=b)


def _links(rng: np.random.Generator, chains: bool) -> str:
    """None, or up to three views of views."""
    return "".join(rng.choice(LINKS, rng.integers(0, 4))) if chains else ""


def _overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether PyTorch may read elements of y after it has written them as elements of x."""
    return x is not y and np.shares_memory(_array(x), _array(y))


def _is_forbidden(x: torch.Tensor) -> bool:
    """Whether PyTorch refuses to use x: a view of several, or made under no_grad, and changed since."""
    try:
        _in_graph(x)
    except RuntimeError:
        return True
    return False


def _in_graph(x: Any) -> bool:
    """Whether x was computed from what requires a gradient."""
    return x.grad_fn is not None


def _difference(expected: np.ndarray, x: Any) -> str:
    found = getattr(x, "array", x)
    if found.shape != expected.shape:
        return f"shape {found.shape}, PyTorch {expected.shape}"
    if not np.allclose(found, expected, rtol=1e-9, atol=1e-12, equal_nan=True):
        return f"{found.tolist()}, PyTorch {expected.tolist()}"
    return ""
