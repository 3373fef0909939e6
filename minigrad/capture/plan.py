"""A step on the CPU as a plan: the list of the calls that compute it, over memory that was laid out once.

The step runs as it is once more, and each of its operations is run a second time on traced arrays (`trace`).
The calls that this notes are run a third time, on memory that was overwritten before, and must give what the
step computed, bit for bit; an operation for which they do not is kept whole, as one call of its rule. A
replay makes the calls one after another: no node, no walk, no choice of a kernel, no new memory.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from typing import Any

import numpy as np

from .. import kernels, random
from ..autograd.backward import GradientSums, _is_new, unbroadcast
from ..autograd.observers import observe, unobserved
from ..errors import CaptureError
from ..modes import modes
from ..nodes import Node, Output
from ..optim import Optimizer
from ..optim.lr_scheduler import LRScheduler
from ..tensor import Tensor
from ..trees import map_leaves
from ..versions import modifications, root
from .failures import raise_uncapturable
from .interception import subclasses
from .trace import Call, DrawnKey, Trace, Traced, Untraceable, plain, traceable, tracing


class Plan:
    """A step's calls, and what a replay leaves: gradients, draws, results."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.leaves: dict[Tensor, Tensor] = {}  # each leaf that got a gradient, and that
        self.guards: list[Callable[[], bool]] = []
        self.results: Any = None
        self.kept: list[Any] = []  # what must stay, because arrays are known by their ids
        self.whole: Counter[str] = Counter()  # operations that are kept whole
        self._run: list[Callable[[], Any]] = []

    @property
    def calls(self) -> list[Call]:
        return self.trace.calls

    def finish(self) -> None:
        self._run = [partial(c.function, *c.args, **c.settings) for c in self.calls]

    def is_valid(self) -> bool:
        """Whether what the step found when it was recorded is still there."""
        return all(condition() for condition in self.guards)

    def replay(self) -> Any:
        for call in self._run:
            call()
        for leaf, grad in self.leaves.items():
            leaf.grad = grad
        return self.results

    def __repr__(self) -> str:
        lines = [f"{i:5}  {describe(call)}" for i, call in enumerate(self.calls)]
        return "\n".join([*lines, f"{len(self.calls)} calls, {self.nbytes:,} bytes"])

    @property
    def nbytes(self) -> int:
        """The memory that the calls write."""
        return sum(x.nbytes for x in self.trace.buffers.values())


def describe(call: Call) -> str:
    """A call in a line: its function and the shapes of its arrays."""
    return f"{call.name:24} " + " ".join(f"{x.dtype.char}{list(x.shape)}" for x in call.arrays())


def record(step_fn: Callable[..., Any], arguments: tuple[Any, ...], leaves: Iterable[Tensor]) -> tuple[Any, Plan]:
    """Run the step as it is, and write its plan."""
    plan = Plan()
    recorder = Recorder(plan)
    found = {leaf: leaf.grad for leaf in leaves}
    with _one_recording, traceable(), intercepted(recorder), observe(recorder):
        results = step_fn(*arguments)
    ours = lambda x: Tensor(plain(plan.trace.of(x.array))) if isinstance(x, Tensor) else x
    plan.results = map_leaves(ours, results)
    for leaf, before in found.items():
        after = leaf.grad
        if after is before or before is None:  # added to, or made where there was none
            plan.guards.append(partial(_is_still, leaf, "grad", before))
        if after is before is not None:
            plan.guards.append(partial(_is_still, before, "array", before.array))
    plan.finish()
    return results, plan


_one_recording = threading.RLock()  # what is intercepted is the whole process's


def _is_still(thing: Any, name: str, value: Any) -> bool:
    return getattr(thing, name) is value


# ---------------------------------------------------------------- what is intercepted

LOOKS = (
    "item", "numpy", "tolist", "__float__", "__int__", "__bool__", "__index__", "__complex__", "__array__",
)  # fmt: skip


@contextlib.contextmanager
def intercepted(recorder: Recorder) -> Iterator[None]:
    """Within it, what this thread does besides ops is recorded, or refused."""
    with contextlib.ExitStack() as stack:
        for owner, name, replacement in _replacements(recorder):
            for kind in subclasses(owner) if isinstance(owner, type) else [owner]:
                original = vars(kind).get(name)
                if original is not None:
                    setattr(kind, name, _while_recording(recorder, original, partial(replacement, original)))
                    stack.callback(setattr, kind, name, original)
        stack.callback(setattr, modifications, "__class__", type(modifications))
        modifications.__class__ = _watched(recorder, type(modifications))
        yield


def _while_recording(recorder: Recorder, original: Callable, replacement: Callable) -> Callable:
    @wraps(original)
    def function(*args: Any, **settings: Any) -> Any:
        here = recorder.thread == threading.get_ident() and recorder in modes.observers
        return (replacement if here else original)(*args, **settings)

    return function


def _replacements(recorder: Recorder) -> Iterator[tuple[Any, str, Callable]]:
    """(class or module, name, function of the original and its arguments)"""
    yield GradientSums, "add", recorder.on_add
    yield GradientSums, "accumulate", recorder.on_accumulate
    yield Optimizer, "step", recorder.do_in_replay
    yield LRScheduler, "step", recorder.do_in_replay
    yield random.Generator, "next_key", recorder.on_draw
    for module in (kernels.cpu, sys.modules.get("minigrad.kernels.jit")):
        if module is not None:
            yield module, "total_norm", recorder.on_norm
            yield module, "scale", recorder.on_scale
    yield random, "generator", _refuse_generator
    for name in LOOKS:
        yield Tensor, name, partial(_refuse_look, recorder, name)


def _refuse_look(recorder: Recorder, name: str, original: Callable, *args: Any, **settings: Any) -> Any:
    if recorder.may_change:
        return original(*args, **settings)
    raise_uncapturable(f"Tensor.{name}, which Python may decide by", "Do it after the step, with what the step returns.")


def _refuse_generator(original: Callable, key: random.Key) -> Any:
    if isinstance(key, DrawnKey):
        raise_uncapturable("a random number drawn by NumPy", "Draw it before the step, and pass it as an argument.")
    return original(key)


def _watched(recorder: Recorder, kind: type) -> type:
    """The counter of changes in place, which must not go on but by what is recorded."""

    class Watched(kind):  # type: ignore[misc, valid-type]
        __slots__ = ()

        @property
        def count(self) -> int:
            return self.__dict__.get("count", 0)

        @count.setter
        def count(self, number: int) -> None:
            here = recorder.thread == threading.get_ident() and recorder in modes.observers
            if here and recorder.changes_to_come:
                recorder.changes_to_come -= 1
            elif here and not recorder.may_change:
                raise_uncapturable("a change in place", "Write a new tensor (y = x + 1), or change it outside the step.")
            self.__dict__["count"] = number

    return Watched


class Recorder:
    """Sees a step as it runs, and writes its plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.trace = plan, plan.trace
        self.pulls: dict[int, Any] = {}  # traced gradient functions, by the id of those of the step
        self.older: set[int] = set()  # ids of the memory that earlier calls have
        self.may_change = False
        self.changes_to_come = 0  # that are recorded
        self.thread = threading.get_ident()

    # ------------------------------------------------------------ forward

    def on_result(self, op: Any, arrays: Any, settings: dict[str, Any], value: Any, gradients: Any) -> None:
        """An op gave `value` and `gradients`: the same on traced arrays."""
        trace = self.trace
        self.plan.kept.append((arrays, value, gradients))
        values = value if type(value) is tuple else (value,)
        start = len(trace.calls)
        ours = [trace.of(x) for x in arrays]
        try:
            with tracing(trace), unobserved():
                found, pulls = run_rule(op, ours, settings)
            found = found if type(found) is tuple else (found,)
            self._check(start, values, found)
            for theirs, mine in zip(values, found, strict=True):
                trace.pair(theirs, mine)
        except Exception as reason:
            self._undo(start)
            pulls = self._keep_whole(op, ours, settings, values, f"{type(reason).__name__} {reason}")
        if gradients is not None:
            self._remember(gradients, pulls)

    def _remember(self, gradients: Any, pulls: Any) -> None:
        if type(gradients) is tuple:
            for theirs, mine in zip(gradients, pulls if type(pulls) is tuple else [pulls] * len(gradients), strict=True):
                if theirs is not None:
                    self.pulls[id(theirs)] = mine
        else:
            self.pulls[id(gradients)] = pulls

    def _check(self, start: int, expected: Any, found: Any) -> None:
        """The calls from `start` on, made once more on overwritten memory, give what the step computed."""
        if not all(isinstance(x, Traced) for x in found):
            raise Untraceable("what it gives was not computed by calls that were noted")
        calls = self.trace.calls[start:]
        if calls:
            owners = {id(root(x)): root(x) for call in calls for x in call.arrays()}
            for number, owner in owners.items():
                if number in self.trace.buffers and number not in self.older:
                    owner.fill(OVERWRITTEN.get(owner.dtype.kind, 1))
            for call in calls:
                call.run()
        for theirs, mine in zip(expected, found, strict=True):
            if not same_bits(theirs, plain(mine)):
                raise Untraceable("done again it gives other numbers")
        self._know(start)

    def _undo(self, start: int) -> None:
        del self.trace.calls[start:]

    def _keep_whole(self, op: Any, ours: list, settings: dict, values: tuple, reason: str) -> Any:
        """The op as one call of its rule, whose results are copied to memory of the plan."""
        trace, name = self.trace, op.name
        self.plan.whole[f"{name}: {reason}"] += 1
        outs = [self.own(x) for x in values]
        state: list[Any] = [None]
        arrays = [plain(x) for x in ours]
        trace.note(_run_whole, (state, op, arrays, settings, outs), {}, name)
        self._know(len(trace.calls) - 1)
        _, state[0] = run_rule(op, arrays, settings)
        return Whole(name, state)

    # ------------------------------------------------------------ backward

    def on_backward_start(self, tensor: Tensor, g: Any) -> None:
        """The seed is a constant, or what an op made."""
        self.plan.kept.append(g)

    def on_pull(self, node: Node, g: Any, contributions: Any) -> None:
        trace = self.trace
        if isinstance(g, Tensor) or (type(g) is list and any(isinstance(x, Tensor) for x in g)):
            return  # a gradient that is differentiated: its ops were seen
        self.plan.kept.append((g, contributions, node.gradients))
        start, given = len(trace.calls), [trace.of(x) for x in g] if type(g) is list else trace.of(g)
        parts = [part for _, part in contributions]
        pulls = node.gradients
        mine = [self.pulls[id(f)] for f in pulls if f is not None] if type(pulls) is tuple else [self.pulls[id(pulls)]]
        try:
            if any(isinstance(f, Whole) for f in mine):
                raise Untraceable("its rule is kept whole")
            with tracing(trace), unobserved():
                if type(pulls) is tuple:
                    found = [f(given) for f in mine]
                else:
                    found = [x for x, needed in zip(mine[0](given, node.needs), node.needs) if needed and x is not None]
            self._check(start, parts, found)
            for theirs, ours in zip(parts, found, strict=True):
                trace.pair(theirs, ours)
        except Exception as reason:
            self._undo(start)
            if not isinstance(mine[0], Whole):
                self.plan.whole[f"gradient of {node.op.name}: {reason}"] += 1
            outs = [self.own(x) for x in parts]
            state = mine[0].state if isinstance(mine[0], Whole) else [pulls if type(pulls) is not tuple else tuple(mine)]
            trace.note(_pull_whole, (state, plain(given), list(node.needs), outs), {}, f"gradient of {node.op.name}")
            self._know(start)

    def on_add(self, original: Callable, sums: GradientSums, edge: Any, g: Any, source: Any) -> None:
        """A gradient arrives at an edge: the same sum of ours, in the same memory."""
        if not sums.are_arrays:
            original(sums, edge, g, source)
            return
        trace = self.trace
        shape = edge.shape if type(edge) is Node or type(edge) is Output else edge.array.shape
        total, mine = sums.totals.get(edge), trace.of(g)
        start = len(trace.calls)
        with tracing(trace):
            if g.shape != shape:
                mine, is_new = unbroadcast(mine, shape), True
            else:
                is_new = _is_new(g, source)
            if total is not None:
                ours = trace.of(total)
                if edge in sums.owned:
                    ours += mine
                    mine = ours
                elif is_new:
                    mine += ours
                else:
                    mine = ours + mine
        original(sums, edge, g, source)
        self.plan.kept.append(sums.totals[edge])
        if len(trace.calls) > start:
            if not same_bits(sums.totals[edge], plain(mine)): print('SUM', edge, shape, [describe(c) for c in trace.calls[start:]], edge in sums.owned, is_new, np.abs(sums.totals[edge]-plain(mine)).max(), same_bits(total, plain(ours)) if total is not None else None)
            self._know(start)
        trace.pair(sums.totals[edge], mine)

    def on_accumulate(self, original: Callable, sums: GradientSums, wanted: Any = None) -> None:
        """Leaves get their gradients."""
        found = [(leaf, leaf.grad, g) for leaf, g in list(sums.of_leaves(wanted))]
        original(sums, wanted)
        if not sums.are_arrays:
            raise CaptureError("backward(create_graph=True) cannot be captured.\nUse mg.autograd.grad.")
        trace, start = self.trace, len(self.trace.calls)
        for leaf, before, g in found:
            assert leaf.grad is not None
            self.plan.kept.append((before, leaf.grad))
            mine = trace.of(g)
            with tracing(trace):
                if before is None or leaf.grad is not before:  # a Tensor of its own
                    if before is not None:
                        mine = trace.of(before.array) + mine
                    elif leaf.grad.array is not g:
                        mine = mine.copy()
                    trace.pair(leaf.grad.array, mine)
                    self.plan.leaves[leaf] = Tensor(plain(mine))
                elif trace.is_made_here(before.array):
                    ours = trace.of(before.array)
                    ours += mine
                else:  # from before the step: `original` has added to it
                    trace.note(np.add, (before.array, mine, before.array), {}, "add")
                    self.plan.leaves[leaf] = before
        self._know(start)

    # ------------------------------------------------------------ what else a step does

    def do_in_replay(self, function: Callable, *args: Any, **settings: Any) -> Any:
        """Call it now, and in each replay, where leaves have the gradients of that replay."""
        self.trace.note(_call, (function, list(self.plan.leaves.items()), list(args), settings), {}, _name(function))
        with self.changing(), unobserved():
            return function(*args, **settings)

    def on_draw(self, original: Callable, generator: random.Generator, stream: str) -> random.Key:
        """A draw: each replay takes the next key of its own."""
        key = DrawnKey(*original(generator, stream))
        keys: list[random.Key] = [key]
        source = None if generator is random.in_use.generator else generator
        key.current = partial(keys.__getitem__, 0)
        self.trace.note(_draw, (keys, source, stream), {}, f"draw {stream}")
        return key

    def on_norm(self, original: Callable, arrays: list, infinite: bool) -> Any:
        """The norm of all gradients, as an array that the plan writes."""
        norm = np.array(original(arrays, infinite))
        ours = [self.trace.of(x) for x in arrays]
        self.plan.kept.append((arrays, norm))
        self.trace.into(self.own(norm).view(Traced), original, (plain(ours), infinite), {})
        self._know(len(self.trace.calls) - 1)
        self.changes_to_come += 1  # by `on_scale`
        return norm

    def on_scale(self, original: Callable, arrays: list, norm: Any, max_norm: float) -> None:
        """Gradients are clipped."""
        ours = plain([self.trace.of(x) for x in arrays])
        own = plain(self.trace.of(norm))
        self.trace.note(original, (ours, own, max_norm), {}, "scale")
        original(arrays, norm, max_norm)
        for x, mine in zip(arrays, ours, strict=True):
            if root(x) is not root(mine):
                np.copyto(mine, x)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Within it changes in place are part of what is recorded."""
        before, self.may_change = self.may_change, True
        try:
            yield
        finally:
            self.may_change = before

    def _know(self, start: int) -> None:
        self.older.update(id(root(x)) for call in self.trace.calls[start:] for x in call.arrays())

    def own(self, x: Any) -> Any:
        """New memory of the plan for an array of the step, which calls write as a whole."""
        out = np.empty_like(x, subok=False)
        np.copyto(out, x)
        self.trace.buffers[id(out)] = out
        self.trace.counterparts[id(root(x))] = (root(x), out)
        return out


def _draw(keys: list, source: random.Generator | None, stream: str) -> None:
    keys[0] = (source or random.in_use.generator).next_key(stream)


OVERWRITTEN = {"f": np.nan, "b": True, "i": 77, "u": 77}


def _call(function: Callable, gradients: list, args: list, settings: dict[str, Any]) -> None:
    for leaf, grad in gradients:
        leaf.grad = grad
    function(*args, **settings)


def _name(function: Callable) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def run_rule(op: Any, arrays: list, settings: dict[str, Any]) -> tuple[Any, Any]:
    """Value and gradients of an op, as `call` gets them."""
    return op.rule(*arrays, **settings)


class Whole:
    """Stands for the gradient functions of an op that is kept whole: those of its latest call."""

    def __init__(self, name: str, state: list[Any]) -> None:
        self.name, self.state = name, state


def _run_whole(state: list, op: Any, arrays: list, settings: dict[str, Any], outs: list) -> None:
    settings = {k: v.current() if isinstance(v, DrawnKey) else v for k, v in settings.items()}
    with unobserved():
        value, state[0] = run_rule(op, arrays, settings)
    for out, x in zip(outs, value if type(value) is tuple else (value,), strict=True):
        out[...] = x


def _pull_whole(state: list, g: Any, needs: list[bool], outs: list) -> None:
    pulls = state[0]
    if type(pulls) is tuple:
        parts = [f(g) for f, needed in zip(pulls, needs) if needed and f is not None]
    else:
        parts = [x for x, needed in zip(pulls(g, needs), needs) if needed and x is not None]
    for out, x in zip(outs, parts, strict=True):
        out[...] = x


def same_bits(x: Any, y: Any) -> bool:
    """Whether two arrays have the same dtype, shape and bits (of NaN any)."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind == "f":
        return bool(np.array_equal(x, y, equal_nan=True)) and bool((np.signbit(x) == np.signbit(y)).all())
    return bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "V"))


def _has_grad(leaf: Tensor, grad: Tensor, array: Any) -> bool:
    return leaf.grad is grad and grad.array is array


def _has_no_grad(leaf: Tensor) -> bool:
    return leaf.grad is None
