"""Writing the plan of a step on the CPU.

The step runs as it is, and each of its operations is run a second time on traced arrays (`trace`). The calls
that this notes are made once more, on memory that was overwritten before, and must give what the step
computed, bit for bit; an operation for which they do not is kept whole, as one call of its rule. What a step
does besides operations is in `effects`.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from .. import random
from ..autograd.backward import GradientSums, is_new_array, unbroadcast
from ..autograd.checkpointing import Checkpoint
from ..autograd.observers import unobserved
from ..errors import CaptureError, GraphError
from ..nodes import Node, Output, producer
from ..ops.user_rules import is_users
from ..optim import Optimizer
from ..tensor import Tensor
from ..trees import leaves
from ..versions import arrays_in as arrays_in_closures
from ..versions import root, where
from .calls import Box, Call, arrays_in
from .failures import ChangedError, raise_uncapturable, users_place
from .identity import ByIdentity
from .layout import with_memory
from .observers import ConstantObserver
from .plan import Plan
from .replacing import options_of
from .trace import Trace, tracing
from .traced import Traced, Uncapturable, Untraceable, assign, plain
from .whole import Whole, copy_to, pull_whole, pulled, run_whole

Options = list[dict[str, Any]]  # of each group of an optimizer
KeptWhole = set[tuple[str, int]]  # "op" or "gradient", and which of them
OVERWRITTEN = {"f": -7.25, "b": True, "i": 77, "u": 77}


class Recorder:
    """Sees a step as it runs, and writes its plan.

    `known` are the operations and gradients that an earlier recording of the step kept whole: which they are
    is then not found out again.
    """

    def __init__(
        self, before: ConstantObserver, arguments: tuple[Any, ...], known: KeptWhole | None = None
    ) -> None:
        self.known, self.kept_whole = known, KeptWhole()
        self.before, self.number, self.pulled = before.constants, 0, 0  # of ops, and of gradients, so far
        self.inputs = {id(root(x.array)) for x in leaves(arguments) if isinstance(x, Tensor)}
        self.plan = Plan()
        self.trace: Trace = self.plan.trace
        self.known_leaves = dict(before.leaves)  # whose gradients are put back, should the recording fail
        self.thread = threading.get_ident()
        self.pulls = ByIdentity()  # traced gradient functions, of those of the step
        self.settled: set[int] = set()  # ids of the memory that earlier calls have
        self.results: list[Tensor] = []
        self.changed: list[np.ndarray] = []  # memory that others own, and that calls write
        self.created: dict[int, np.ndarray] = {}  # memory of constants that the step made, by id
        self.uninitialized: set[int] = set()  # the ids of those of mg.empty
        self.shared: dict[int, np.ndarray] = {}  # memory of NumPy arrays that became Tensors, by id
        self.found: dict[Tensor, Tensor] = {}  # the gradients that backward left
        self.stepped: dict[Tensor, None] = {}  # the parameters of optimizers that step
        self.assigned: dict[Tensor, Any] = {}  # whose `.grad` the step has assigned, and where
        self.cleared: dict[Tensor, None] = {}  # whose gradients the step forgets, before others may come
        self.may_change = False  # whether changes in place are noted otherwise
        self.optimizers: dict[Optimizer, Any] = {}  # that step, and where
        self.options: dict[Optimizer, Options] = {}  # before the step, or as a schedule left them
        self.written: dict[int, np.ndarray] = {}  # memory from before the step that calls write, by id
        self.earlier: dict[int, Tensor] = {}  # leaves, by the id of the memory of their gradient until then
        self.has_backward = False
        self.modules: dict[Any, None] = {}  # that compute in the step
        self.undo: list[Callable[[], None]] = []

    def result(self, x: Any) -> Any:
        """A result of the step, in memory of the plan."""
        if isinstance(x, np.ndarray):  # also a watched one
            return self.result(Tensor(plain(x))).array
        if not isinstance(x, Tensor):
            if x is not None and not isinstance(x, str | bytes | int | float | complex | np.generic):
                raise_uncapturable(
                    f"a result of type {type(x).__name__}", "Return Tensors, in tuples or dicts."
                )
            return x
        known = {id(root(y)) for _, inputs, _ in self.before for y in inputs if isinstance(y, np.ndarray)}
        if (
            not self.trace.is_made_here(x.array)
            and id(root(x.array)) not in known | self.inputs | self.created.keys()
            and x.array.size
        ):
            raise_uncapturable("a result that no operation computed", "Compute it of Tensors.")
        result = Tensor(plain(self.trace.of(x.array)))
        if x.requires_grad and x.node is not None and not self.has_backward:
            result._requires_grad, result.node = True, _without_graph(producer(x.node), result)
        self.results.append(result)
        return result

    def restore_later(self, tensors: Iterable[Tensor | None], grads: dict[Tensor, Any] | None = None) -> None:
        """Should the recording fail, these tensors get their numbers of now again, leaves their gradients."""
        saved = [(x.array, x.array.copy()) for x in tensors if x is not None]
        draws = random.snapshot()

        def undo() -> None:
            for array, numbers in saved:
                array[...] = numbers
            for leaf, grad in (grads or {}).items():
                leaf.grad = grad
            random.restore(draws)

        self.undo.append(undo)

    def note_options(self, optimizer: Optimizer) -> None:
        """Only schedules may change the options from now on."""
        self.options[optimizer] = options_of(optimizer)
        self.restore_options(optimizer)

    def restore_options(self, optimizer: Optimizer) -> None:
        """Should the recording fail, the optimizer's options are what they are now."""
        groups = options_of(optimizer)

        def undo() -> None:
            for group, options in zip(optimizer.param_groups, groups, strict=True):
                group.update(options)

        self.undo.append(undo)

    def check_options(self, optimizer: Optimizer) -> None:
        """Refuse options that the step sets itself."""
        expected = self.options.get(optimizer, [])
        for options, now in zip(expected, options_of(optimizer), strict=False):
            changed = [name for name in now if now[name] != options.get(name)]
            if changed:
                place = f" at {where(self.optimizers[optimizer])}" if optimizer in self.optimizers else ""
                instead = "Let a scheduler change it, or change it outside the step."
                raise CaptureError(
                    f"{changed[0]} of {type(optimizer).__name__}{place} is set in the step, and cannot be "
                    f"captured.\n{instead}"
                )

    def has_counterpart(self, array: np.ndarray) -> bool:
        """Whether memory that is about to be written corresponds to other memory of ours.

        If not, it is from before the step: it is written itself, and restored should the recording fail.
        """
        memory = root(array)
        if id(memory) in self.created and not self.trace.is_made_here(memory):
            self._begin_with_constant(memory)
        if self.trace.is_made_here(memory):
            return True
        if id(memory) in self.shared:
            raise_uncapturable("a change in place of a NumPy array", "Change a copy: mg.tensor(array).")
        self.written[id(memory)] = memory
        self.restore_later([Tensor(array)])
        return False

    def _begin_with_constant(self, memory: np.ndarray) -> None:
        """A constant that the step made is about to change: replays have to make it, before it is used."""
        calls, own = self.trace.calls, self.trace.own(memory)
        has_it = [any(root(x) is memory for x in call.arrays()) for call in calls]
        if any(
            root(x) is memory for call in calls for y in call.args if isinstance(y, Box) for x in arrays_in(y)
        ):
            raise_uncapturable("a change of a constant that was used before", "Change a .clone() of it.")
        first = has_it.index(True) if True in has_it else len(calls)
        numbers = np.zeros_like(memory) if id(memory) in self.uninitialized else memory.copy()
        made = Call(assign, (own, numbers), {}, "constant", users_place())
        calls[first:] = [made, *[with_memory(call, memory, own) for call in calls[first:]]]
        self.settle_calls(first)

    def release(self) -> None:
        """Let go of all arrays, once the plan is made: what refers to itself is freed much later."""
        for things in (self.undo, self.changed, self.results):
            things.clear()
        for others in (self.created, self.shared, self.found, self.assigned, self.written, self.earlier):
            others.clear()
        for noted in (self.pulls, self.trace.calls, self.trace.buffers, self.trace.counterparts):
            noted.clear()

    # ------------------------------------------------------------ forward

    def on_result(self, op: Any, arrays: Any, settings: dict[str, Any], value: Any, gradients: Any) -> None:
        """An op gave `value` and `gradients`: the same on traced arrays."""
        trace, start, number = self.trace, len(self.trace.calls), self.number
        self._check_constants(op, [*arrays, *arrays_in(settings)])
        values = value if type(value) is tuple else (value,)
        ours = [trace.of(x) for x in arrays]
        own_settings = {name: trace.all_of(x) for name, x in settings.items()}
        try:
            if self.known is not None and ("op", number) in self.known:
                raise Untraceable("as in the recording before")
            if is_users(op.source):
                raise Untraceable("a rule of your own, which may do with arrays what nothing notes")
            with tracing(trace), unobserved():
                found, pulls = op.run(ours, own_settings)
            self.settle(start, values, found if type(found) is tuple else (found,))
        except Uncapturable as reason:
            raise_uncapturable(f"{op.public_name}, the shape of whose result depends on numbers", str(reason))
        except Exception as reason:
            self.kept_whole.add(("op", number))
            pulls = self._keep_whole(start, op, ours, own_settings, values, reason)
        if type(gradients) is tuple:
            for i, gradient in enumerate(gradients):
                if gradient is not None:
                    self.pulls[gradient] = pulls if isinstance(pulls, Whole) else pulls[i]
        elif gradients is not None:
            self.pulls[gradients] = pulls

    def _check_constants(self, op: Any, arrays: Sequence[Any]) -> None:
        """What no op of the step made has to be what it was in the call before."""
        number, self.number = self.number, self.number + 1
        if number >= len(self.before):
            return
        expected_op, *expected = self.before[number]
        if op is not expected_op or len(arrays) != len(expected[0]):
            return
        for x, constant, numbers in zip(arrays, *expected, strict=True):
            if not isinstance(x, np.ndarray):
                if type(x) in (int, float) and type(constant) is type(x) and repr(x) != repr(constant):
                    what = f"{op.public_name} of {constant!r} in the call before, and of {x!r} now"
                    raise_uncapturable(what, "Pass it as an argument, as an array.", ChangedError)
                continue
            if self.trace.is_made_here(x) or root(x) is root(constant):
                continue
            if not isinstance(constant, np.ndarray) or not same_bits(x, numbers):
                raise_uncapturable(
                    f"{op.public_name} of numbers that no operation computed, others than in the call before",
                    "Compute them of Tensors, or pass them as an argument.",
                    ChangedError,
                )

    def settle(self, start: int, expected: Sequence[Any], found: Sequence[Any]) -> None:
        """The calls since `start` stay if, on overwritten memory, they give what the step computed."""
        if not all(isinstance(x, Traced) for x in found):
            raise Untraceable("its result is not of calls that were noted")
        calls = self.trace.calls[start:]
        owners = {id(root(x)): root(x) for call in calls for x in call.arrays()}
        if self.known is None:
            for number, owner in owners.items():
                if number in self.trace.buffers and number not in self.settled:
                    owner.fill(OVERWRITTEN.get(owner.dtype.kind, 1))
            for call in calls:
                call.run()
            for theirs, mine in zip(expected, found, strict=True):
                if not same_bits(theirs, plain(mine)):
                    raise Untraceable("its calls, made again, give other numbers")
        for theirs, mine in zip(expected, found, strict=True):
            self.trace.pair(theirs, mine)
        self.settled.update(owners)

    def _keep_whole(
        self, start: int, op: Any, ours: list, settings: dict[str, Any], values: tuple, reason: Exception
    ) -> Whole:
        """The op as one call of its rule, whose results are copied to memory of the plan."""
        del self.trace.calls[start:]
        self.plan.whole[f"{op.name}: {type(reason).__name__} {reason}"] += 1
        whole, arrays = Whole(), plain(ours)
        outs = [self.trace.own(x) for x in values]
        settings = {name: plain(x) for name, x in settings.items()}
        self.note(run_whole, (whole, op, arrays, settings, outs), op.name)
        whole.arrays = (*arrays, *outs, *arrays_in(settings))
        if is_users(op.source):  # it runs once a call, as it may change what it keeps: running statistics
            copy_to(outs, values)
            return whole
        found, whole.value = op.run(arrays, settings)
        if not all(map(same_bits, found if type(found) is tuple else (found,), values)):
            _refuse_other_numbers(op.public_name)
        return whole

    # ------------------------------------------------------------ backward

    def on_backward_start(self, tensor: Tensor, g: Any) -> None:
        self.has_backward = True

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        """The gradient of a node's result gave those of its inputs: the same on traced arrays."""
        trace, start = self.trace, len(self.trace.calls)
        parts, functions = [part for _, part in contributions], node.gradients
        several, wanted = type(functions) is tuple, _wanted(node, contributions)
        asked = zip(functions, wanted, strict=True) if several else [(functions, True)]
        known = [self.pulls.get(f) for f, needed in asked if needed]
        if None in known or not parts:  # what a checkpoint computes is seen as it does
            is_seen = isinstance(node.op, Checkpoint) or all(map(trace.is_made_here, _arrays(parts)))
            if not is_seen:
                raise_uncapturable(
                    f"backward through {node}, which was computed before the step",
                    "Compute it in the step, or pass it as an argument.",
                )
            return
        self.pulled += 1
        given = [trace.of(x) for x in g] if type(g) is list else trace.of(g)
        try:
            if isinstance(known[0], Whole) or ("gradient", self.pulled) in (self.known or ()):
                raise Untraceable
            with tracing(trace), unobserved():
                of_known = [True] * len(known) if several else wanted
                found = pulled(tuple(known) if several else known[0], given, of_known)
            self.settle(start, parts, found)
        except Exception as reason:
            del trace.calls[start:]
            self.kept_whole.add(("gradient", self.pulled))
            whole = known[0]
            if not isinstance(whole, Whole):
                self.plan.whole[f"gradient of {node.op.name}: {type(reason).__name__} {reason}"] += 1
                whole = Whole()
                whole.value = tuple(known) if several else known[0]
                whole.fixed = tuple(map(plain, arrays_in_closures(whole.value)))
                wanted = [True] * len(known) if several else wanted
            outs = [self.trace.own(x) for x in parts]
            args = whole, plain(given), wanted, outs
            if is_users(node.op.source):
                copy_to(outs, parts)
            else:
                pull_whole(*args)
                if not all(map(same_bits, parts, outs)):
                    _refuse_other_numbers(f"the gradient of {node.op.public_name}")
            self.note(pull_whole, args, f"gradient of {node.op.name}")

    def on_add(self, original: Callable, sums: GradientSums, edge: Any, g: Any, source: Any) -> None:
        """A gradient arrives at an edge: the same sum of ours, in the same memory."""
        if not sums.are_arrays:
            raise_uncapturable(
                "a gradient with a graph of its own (create_graph=True)",
                "Run the step as it is; to mg.func's functions pass detached parameters.",
            )
        trace, start = self.trace, len(self.trace.calls)
        shape = edge.shape if type(edge) is Node or type(edge) is Output else edge.array.shape
        total, mine, is_new = sums.totals.get(edge), trace.of(g), g.shape != shape or is_new_array(g, source)
        with tracing(trace):
            if g.shape != shape:
                mine = unbroadcast(mine, shape)
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
        found = sums.totals[edge] = np.asarray(sums.totals[edge])  # a number has no memory
        if not same_bits(found, plain(mine)):
            raise CaptureError(f"the gradient of {edge} cannot be captured.\nRun the step as it is.")
        self.settle_calls(start)
        self.adopt(found, mine)

    def on_accumulate(self, original: Callable, sums: GradientSums, wanted: Any = None) -> None:
        """Leaves get their gradients."""
        arrived = list(sums.of_leaves(wanted))  # which runs hooks
        found = [(leaf, leaf.grad, g) for leaf, g in arrived]
        new = {leaf: x for leaf, x, _ in found if leaf not in self.known_leaves}
        self.restore_later(new.values(), new)
        is_ours = {leaf: x is not None and self.has_counterpart(x.array) for leaf, x, _ in found}
        sums.of_leaves = lambda wanted=None: iter(arrived)  # type: ignore[method-assign]
        with self.changing():
            original(sums, wanted)
        trace, start = self.trace, len(self.trace.calls)
        for leaf, before, g in found:
            grad: Any = leaf.grad
            self.found[leaf] = grad
            mine = trace.of(g)
            with tracing(trace):
                if grad is not before:  # a Tensor of its own
                    if before is not None:
                        mine = trace.of(before.array) + mine
                    elif grad.array is not g:
                        mine = mine.copy()
                    self.plan.gradients[leaf] = Tensor(self.adopt(grad.array, mine))
                elif is_ours[leaf]:
                    ours = trace.of(before.array)
                    ours += mine
                    self.plan.gradients[leaf] = Tensor(plain(ours))  # another than before, if it was assigned
                else:  # from before the step: `original` has added to it
                    trace.note(np.add, (before.array, mine), {"out": (before.array,)}, "add")
                    self.plan.gradients[leaf] = before
        self.settle_calls(start)

    def follow_assignments(self) -> None:
        """Leaves whose `.grad` the step assigned get that one, reached by backward or not."""
        for leaf in {**self.stepped, **self.found, **self.assigned}:
            if leaf.grad is None or leaf.grad is self.found.get(leaf):
                continue
            if self.trace.is_made_here(leaf.grad.array):
                self.plan.gradients[leaf] = Tensor(plain(self.trace.of(leaf.grad.array)))
            elif leaf in self.found or leaf in self.assigned:  # otherwise it is from before the step
                self._refuse_assigned(leaf, "is not computed in the step")
        owners: dict[int, Tensor] = {}
        for leaf, grad in self.plan.gradients.items():
            if owners.setdefault(id(root(grad.array)), leaf) is not leaf:
                self._refuse_assigned(leaf, "is another parameter's, too")

    def _refuse_assigned(self, leaf: Tensor, reason: str) -> None:
        place = f" at {where(self.assigned[leaf])}" if leaf in self.assigned else ""
        raise CaptureError(
            f"the .grad of shape {leaf.shape} that was assigned{place} {reason}, and cannot be captured.\n"
            f"Assign what the step computes, as in p.grad = p.grad / 2."
        )

    def on_tensor(self, original: Callable, sums: GradientSums, edge: Any, g: Any) -> Tensor:
        """A gradient is returned, by `autograd.grad`: it, or a copy."""
        found: Tensor = original(sums, edge, g)
        if found.array is not g:
            start = len(self.trace.calls)
            with tracing(self.trace):
                mine = self.trace.of(np.asarray(g)).copy()
            self.settle_calls(start)
            self.adopt(found.array, mine)
        return found

    # ------------------------------------------------------------ calls and memory

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Within it changes in place are noted otherwise."""
        before, self.may_change = self.may_change, True
        try:
            yield
        finally:
            self.may_change = before

    def note(self, function: Callable, args: tuple, name: str = "") -> None:
        """Note a call of something other than NumPy."""
        self.trace.note(function, args, {}, name)
        self.settle_calls(len(self.trace.calls) - 1)

    def settle_calls(self, start: int) -> None:
        """The calls from `start` on are right: what they have may not be overwritten any more."""
        self.settled.update(id(root(x)) for call in self.trace.calls[start:] for x in call.arrays())

    def adopt(self, found: np.ndarray, mine: np.ndarray) -> np.ndarray:
        """Our array for one of the step, of the same numbers: `mine`, or where that lies otherwise a copy."""
        try:
            self.trace.pair(found, mine)
            return plain(mine)
        except Untraceable:
            out = self.trace.own(found)
            self.note(np.copyto, (out, plain(mine)), "copy")
            return out


def _without_graph(node: Node, result: Tensor) -> Node:
    """In place of the graph of a result, which no replay makes: a backward() that reaches it says so."""

    def refuse(g: Any, needs: Any) -> NoReturn:
        raise GraphError(
            f"backward reached a result of a captured step, {said}: replays make no graph.\n"
            f"Call backward() in the step, on what it returns now."
        )

    said, shape, reference = str(node), result.array.shape, weakref.ref(result)
    return Node(node.op, {}, (), (), refuse, shape, reference, *node.source, None)


def _arrays(g: Any) -> list[np.ndarray]:
    """The arrays of a gradient: one, or of several results some."""
    return [x for x in (g if type(g) is list else [g]) if isinstance(x, np.ndarray)]


def _wanted(node: Node, contributions: Sequence[tuple[Any, Any]]) -> list[bool]:
    """For which inputs of a node the gradients were asked: the edges of `contributions`, in their order."""
    gradients = node.gradients if type(node.gradients) is tuple else [True] * len(node.edges)
    left, wanted = [edge for edge, _ in contributions], list[bool]()
    for edge, gradient in zip(node.edges, gradients, strict=True):
        wanted.append(bool(left) and gradient is not None and edge is left[0])
        left = left[wanted[-1] :]
    return wanted


def _refuse_other_numbers(what: str) -> NoReturn:
    raise_uncapturable(
        f"{what}, which gives other numbers when it is computed again", "Run the step as it is."
    )


def same_bits(x: Any, y: np.ndarray) -> bool:
    """Whether two arrays have the same dtype, shape and bits; a NaN is any NaN."""
    if getattr(x, "dtype", None) != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind not in "fcV":
        return bool(np.array_equal(x, y))
    bits = f"i{x.itemsize}"
    if x.dtype.char in "efd" and np.array_equal(x.view(bits), y.view(bits)):
        return True
    if x.dtype.kind == "V":  # bfloat16
        x, y = x.astype(np.float32), y.astype(np.float32)
    same_signs = (np.signbit(x) == np.signbit(y)) | np.isnan(x) if x.dtype.kind == "f" else True
    return bool(np.array_equal(x, y, equal_nan=True) and np.all(same_signs))
