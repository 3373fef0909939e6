"""What a step on the CPU does besides operations: optimizers, schedules, draws, clipping, changes in place.

As on a GPU (`interception`), functions and methods are replaced for as long as a step is recorded, in the
thread that records. They do what they always do, and note it for replays; what a replay could not do again is
refused.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import kernels, random
from ..amp import GradScaler
from ..autograd import checkpointing
from ..autograd.backward import GradientSums
from ..autograd.observers import unobserved
from ..modes import modes
from ..nn.module import Module
from ..ops import call
from ..ops.extra import in_place
from ..ops.extra.scattering import extreme, replaced, scattered
from ..ops.indexing import getitem
from ..optim import SGD, Adam, Optimizer, RMSprop
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from ..optim.optimizer import FlatParameters
from ..tensor import Tensor
from ..versions import modifications, root
from . import replayed
from .calls import Box, DrawnKey
from .failures import AFTER, raise_uncapturable, users_place
from .guards import is_still, modules_noted
from .marked import marked
from .recorder import Recorder, same_bits
from .replacing import options_of, same_optimizer, state_ids
from .replacing import replaced as replaced_functions
from .trace import tracing
from .traced import Untraceable, Wrapped, assign, current, plain
from .watched import arrays_watched, parts

LOOKS = {
    "item": "item()", "numpy": "numpy()", "tolist": "tolist()", "__bool__": "bool(tensor)",
    "__float__": "float(tensor)", "__int__": "int(tensor)", "__complex__": "complex(tensor)",
    "__index__": "a tensor as an index of Python's", "__array__": "numpy.asarray(tensor)",
    "__repr__": "printing", "__format__": "printing", "__dlpack__": "from_dlpack(tensor)",
    "__deepcopy__": "copy.deepcopy(tensor)", "__reduce__": "pickle",
}  # fmt: skip
INDEXING: tuple[Any, ...] = (extreme, getitem, replaced, scattered)
# their lr only multiplies an array: as a number or in an array of the same dtype of NumPy's it gives the same
DIRECT = (SGD, RMSprop)


@contextlib.contextmanager
def intercepted(recorder: Recorder) -> Iterator[None]:
    """Within it, what this thread does besides ops is recorded, or refused."""
    effects = Effects(recorder)
    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced_functions(effects.replacements(), effects.is_recording))
        draws = [(random.Generator, "next_key", effects.live_draw)]
        stack.enter_context(replaced_functions(draws, effects.is_in_rule))
        stack.enter_context(modules_noted(recorder.modules))
        stack.callback(setattr, modifications, "__class__", type(modifications))
        modifications.__class__ = _counting(effects, type(modifications))
        stack.enter_context(arrays_watched(effects))
        yield
        effects.finish()


class Effects:
    """What is done instead of the functions that are intercepted."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.trace = recorder, recorder.trace
        self.expected_changes = 0  # in place, that are noted
        self.is_in_adam = self.is_writing = False
        self.draws: dict[random.Generator, replayed.Draws] = {}
        self.live_draws = 0  # those of rules of the user's own, which draw in each replay
        self.snapshots: dict[int, tuple[dict, int]] = {}  # of the step, and how many live draws came before
        self.numbers: dict[int, Box] = {}  # an optimizer's hyperparameters, by the id of the tuple
        self.uploaded: dict[Any, np.ndarray] = {}  # those of a group and a dtype, as an array

    def is_recording(self) -> bool:
        """Whether this thread records, and neither traces nor computes for itself."""
        if self.is_writing or current.trace is not None:
            return False
        return self.recorder.thread == threading.get_ident() and self.recorder in modes.observers

    def is_in_rule(self) -> bool:
        """Whether this thread runs a rule of the user's own, which nothing notes."""
        is_ours = self.is_writing or current.trace is not None
        is_here = self.recorder.thread == threading.get_ident()
        return is_here and not is_ours and self.recorder not in modes.observers

    def replacements(self) -> Iterator[tuple[Any, str, Callable]]:
        """(class or module, name, function of the original and its arguments)"""
        yield GradientSums, "add", self.recorder.on_add
        yield GradientSums, "accumulate", self.recorder.on_accumulate
        yield GradientSums, "as_tensor", self.recorder.on_tensor
        yield call, "plain_settings", self.plain_settings
        yield checkpointing, "copied", self.copied
        yield random.Generator, "next_key", self.next_key
        yield random.Generator, "manual_seed", _refusing("manual_seed()", "Call it before the step.")
        yield random.Generator, "set_step", _refusing("set_step()", "Call it before the step.")
        yield random.Generator, "set_state", _refusing("set_rng_state()", "Call it before the step.")
        yield random.Generator, "snapshot", self.snapshot
        yield random.Generator, "restore", self.restore
        yield random, "generator", self.generator
        yield random, "keep_mask", self.keep_mask
        for module in (kernels.cpu, sys.modules.get("minigrad.kernels.jit")):
            if module is not None:
                yield module, "total_norm", self.total_norm
                yield module, "scale", self.scale
                yield module, "adam", self.adam
                yield module, "flatten", self.flatten
        yield Optimizer, "step", self.optimizer_step
        yield Optimizer, "zero_grad", self.zero_grad
        yield Module, "zero_grad", self.zero_grad
        yield Optimizer, "count_step", self.count_step
        yield Optimizer, "count", self.count
        yield Optimizer, "update", self.update
        yield Optimizer, "hyperparameters_for", self.hyperparameters_for
        yield FlatParameters, "scatter", self.scatter
        yield GradScaler, "unscale_", _refusing("GradScaler", "Use bfloat16, which needs no scaler.")
        yield GradScaler, "step", _refusing("GradScaler", "Use bfloat16, which needs no scaler.")
        yield LRScheduler, "step", self.scheduler_step
        yield LRScheduler, "_set", _refusing("a step of a scheduler", "Call scheduler.step() by its name.")
        after = "It has to know the metric: call it after the step."
        yield ReduceLROnPlateau, "step", _refusing("ReduceLROnPlateau.step()", after)
        functions: dict[str, Callable] = {"overwrite": in_place.overwrite}
        instead: dict[str, Callable] = {"overwrite": self.overwrite}
        for op in INDEXING:
            functions[op.op.name], instead[op.op.name] = op, self.index
        for module_name, name in marked:
            if module_name in sys.modules and not module_name.startswith("minigrad.kernels"):
                functions[name] = getattr(sys.modules[module_name], name)
        for module in list(sys.modules.values()):  # that have imported them
            names = vars(module)
            for name, function in functions.items():
                if names.get(name) is function:
                    yield module, name, instead.get(name, self.one_call)
        for name, what in LOOKS.items():
            yield Tensor, name, partial(self.look, what)

    # ------------------------------------------------------------ random numbers

    def next_key(self, original: Callable, generator: random.Generator, stream: str) -> random.Key:
        """A draw: in each replay its key counts on from where the stream is then."""
        draws = self.draws.get(generator)
        if draws is None:
            source = None if generator is random.in_use.generator else generator
            draws = self.draws[generator] = replayed.Draws(source, generator.snapshot())
            self.recorder.note(draws.begin, (), "draws")
        draws.streams.add(stream)
        found = original(generator, stream)
        key, drawn = DrawnKey(*found), Box(found)
        key.current = lambda: drawn.value
        self.recorder.note(draws.draw, (drawn, stream, key), f"draw {stream}")
        return key

    def live_draw(self, original: Callable, generator: random.Generator, stream: str) -> random.Key:
        self.live_draws += 1
        return original(generator, stream)

    def snapshot(self, original: Callable, generator: random.Generator) -> random.Snapshot:
        found = original(generator)
        self.snapshots[id(found.calls)] = found.calls, self.live_draws
        return found

    def restore(self, original: Callable, generator: random.Generator, before: random.Snapshot) -> None:
        """What is noted of draws holds also if the step puts a generator back to where it was in the step."""
        _, live_draws = self.snapshots.get(id(before.calls), (None, None))
        if live_draws is None:
            raise_uncapturable(
                "a generator put back to a state from before the step", "Do it before the step."
            )
        if live_draws != self.live_draws:
            raise_uncapturable(
                "a draw by a rule of your own, in a checkpoint or under fork_rng() or rows()",
                "Draw before the rule, and pass it what was drawn.",
            )
        original(generator, before)

    def finish(self) -> None:
        """Replays leave the streams where the step left them."""
        for generator, draws in self.draws.items():
            draws.drawn = {  # none of a stream that the step has put back, as fork_rng does
                stream: generator.calls.get(stream, 0) - draws.start.calls.get(stream, 0)
                for stream in draws.streams | generator.calls.keys()
            }
            self.recorder.note(draws.end, (), "draws")

    def generator(self, original: Callable, key: random.Key) -> Any:
        if isinstance(key, DrawnKey):
            raise_uncapturable(
                "a random number drawn by NumPy", "Draw it before the step, and pass it as an argument."
            )
        return original(key)

    def keep_mask(self, original: Callable, key: random.Key, shape: tuple[int, ...], p: float) -> Any:
        """A mask that a definition draws. A kernel draws while it runs, and is traced with its draws."""
        asker = sys._getframe(2).f_code  # the frame between is that of `replaced_functions`
        return original(key, shape, p) if parts[asker][1] else self.one_call(original, key, shape, p)

    # ------------------------------------------------------------ gradients

    def copied(self, original: Callable, array: Any) -> Any:
        """A checkpoint copies a gradient."""
        result = original(array)
        with tracing(self.trace):
            mine = self.trace.of(array).copy()
        self.recorder.settle_calls(len(self.trace.calls) - 1)
        self.recorder.adopt(result, mine)
        return result

    def one_call(self, original: Callable, *args: Any) -> Any:
        """What a function computes by NumPy, seen by no operation."""
        args = plain(args)
        found = original(*args)
        if found is None:  # it has written into the first
            self.recorder.changed.append(args[0])
            self.recorder.note(original, plain(self.trace.all_of(args)), original.__name__)
            return None
        self.trace.into(self.trace.own(found), original, plain(self.trace.all_of(args)), {})
        self.recorder.settle_calls(len(self.trace.calls) - 1)
        return found

    def total_norm(self, original: Callable, arrays: list, infinite: bool) -> Any:
        """The norm of all gradients, as an array that a call writes: then `scale` clips them."""
        norm = np.array(original(arrays, infinite)).view(Norm)
        norm.effects = self
        ours = plain([self.trace.of(x) for x in arrays])
        self.recorder.note(
            replayed.norm_of, (self.recorder.trace.own(norm), original, ours, infinite), "total_norm"
        )
        self.expected_changes += 1  # by `scale`
        return norm

    def scale(self, original: Callable, arrays: list, norm: Any, max_norm: float) -> None:
        norm = norm.view(np.ndarray)
        ours, own = plain([self.trace.of(x) for x in arrays]), plain(self.trace.of(norm))
        self.recorder.note(original, (ours, own, max_norm), "scale")
        original(arrays, norm, max_norm)
        for x, mine in zip(arrays, ours, strict=True):
            if root(x) is not root(mine):
                np.copyto(mine, x)

    # ------------------------------------------------------------ optimizers and schedules

    def zero_grad(self, original: Callable, owner: Any, *settings: Any, **named: Any) -> None:
        """Replays clear the gradients of all parameters, also of those that the step does not reach."""
        parameters = list(owner._parameters() if isinstance(owner, Optimizer) else owner.parameters())
        self.recorder.restore_later((), {p: p.grad for p in parameters})
        self.recorder.cleared.update(dict.fromkeys(parameters))
        original(owner, *settings, **named)

    def optimizer_step(self, original: Callable, optimizer: Optimizer, *closure: Any) -> Any:
        parameters = optimizer._parameters()
        self.recorder.stepped.update(dict.fromkeys(parameters))
        self.recorder.optimizers[optimizer] = users_place()
        self.recorder.restore_options(optimizer)
        if not any(closure):
            self.guard_gradients(parameters)
        arrays = [p.array for p in parameters] + [
            x for p in parameters for x in optimizer.state.get(p, {}).values()
        ]
        before = state_ids(optimizer)
        self.recorder.undo.append(_putting_back(optimizer))
        self.recorder.restore_later(map(Tensor, arrays))
        with self.recorder.changing():
            loss = original(optimizer, *closure)
        if state_ids(optimizer) != before:
            raise_uncapturable(
                f"a parameter's first step in {type(optimizer).__name__}, such as its first momentum",
                "Each parameter needs a gradient in the first two calls.",
            )
        self.recorder.plan.guards.append(same_optimizer(optimizer))
        return loss

    def guard_gradients(self, parameters: list[Tensor]) -> None:
        """Gradients from before the step are read where they are: they have to be the same arrays.

        A parameter that has none is passed over, unless it has got one between two calls.
        """
        guards, cleared = self.recorder.plan.guards, {**self.recorder.cleared, **self.recorder.assigned}
        for p in parameters:
            if p.grad is None and p not in cleared:
                guards.append(partial(is_still, p, "grad", None))
            elif p.grad is not None and not self.trace.is_made_here(p.grad.array):
                guards.append(partial(is_still, p, "grad", p.grad))
                guards.append(partial(is_still, p.grad, "array", p.grad.array))

    def count_step(self, original: Callable, optimizer: Optimizer, params: list[Tensor], source: Any) -> None:
        original(optimizer, params, source)
        name, references = f"{type(optimizer).__name__}.step", [weakref.ref(root(p.array)) for p in params]
        pairs = list(zip(params, references, strict=True))
        if all(len(p.version.changes) == 1 for p in params if p.version):
            self.recorder.note(replayed.count_changes, (Box((pairs, name, source)),), "count_step")
        else:
            self.recorder.note(partial(original, optimizer, params, source), (), "count_step")

    def count(self, original: Callable, optimizer: Optimizer, state: dict[str, Any]) -> None:
        self.recorder.note(partial(original, optimizer, state), (), "count")
        original(optimizer, state)

    def update(
        self,
        original: Callable,
        optimizer: Optimizer,
        p: Any,
        g: Any,
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        """An update of a parameter: Adam's by its kernel; others as the calls of which they are made, or,
        where these leave other numbers than the update, as one call."""
        p, g = plain(p), plain(g)  # watched, where it maximizes
        if original is Adam.__dict__["update"].__wrapped__ and not group["amsgrad"] and p.flags.c_contiguous:
            g = g if g.flags.c_contiguous else self.copied(np.ascontiguousarray, g)  # as its kernel needs it
            original(optimizer, p, g, state, group)
            return
        dtypes = {x.dtype for x in (p, g, *state.values()) if x.dtype.kind != "i"}  # but for counts
        is_direct = type(optimizer) in DIRECT and len(dtypes) == 1 and p.dtype.kind == "f"  # not bfloat16
        if is_direct and self._is_traced(original, optimizer, p, g, state, group):
            return
        own = plain(self.trace.of(g))
        self.recorder.note(replayed.update, (Box((original, optimizer, state, group)), p, own), "update")
        with unobserved():
            original(optimizer, p, g, state, group)

    def _is_traced(self, original: Callable, *update: Any) -> bool:
        """Update by traced arrays, if that leaves what the update does; otherwise leave all as it was."""
        _, p, _, state, _ = update
        start, uploaded, arrays = len(self.trace.calls), dict(self.uploaded), [p, *state.values()]
        before = [x.copy() for x in arrays]

        def put_back() -> None:
            for x, numbers in zip(arrays, before, strict=True):
                x[...] = numbers

        with unobserved():
            original(*update)
        after = [x.copy() for x in arrays]
        put_back()
        try:
            self._trace_update(original, *update)
            is_same = all(map(same_bits, arrays, after))
        except Untraceable:
            is_same = False
        if is_same:
            self.recorder.settle_calls(start)
        else:
            del self.trace.calls[start:]
            self.uploaded = uploaded
            put_back()
        return is_same

    def _trace_update(
        self, original: Callable, optimizer: Optimizer, p: Any, g: Any, state: Any, group: dict[str, Any]
    ) -> None:
        """The update of traced arrays. Its hyperparameters are an array that replays fill, as on a GPU."""
        values = optimizer.hyperparameters(state, group)
        key = id(group), p.dtype
        numbers = self.uploaded.get(key)
        if numbers is None:
            numbers = self.uploaded[key] = plain(self.trace.buffer(np.array(values, p.dtype)))
            self.recorder.note(
                replayed.fill_hyperparameters, (numbers, Box((optimizer, state, group))), "hyperparameters"
            )
        optimizer.uploaded[p.dtype, values] = self.trace.of(numbers)
        ours = {name: self.trace.of(x) for name, x in state.items()}
        try:
            with tracing(self.trace), unobserved():
                original(optimizer, self.trace.of(p), self.trace.of(g), ours, group)
        finally:
            optimizer.uploaded.clear()
        if any(root(plain(x)) is not root(state.get(name)) for name, x in ours.items()):
            raise Untraceable("an array of its state that the update replaces")

    def hyperparameters_for(
        self, original: Callable, optimizer: Optimizer, p: Any, state: dict[str, Any], group: dict[str, Any]
    ) -> Any:
        values = original(optimizer, p, state, group)
        self.numbers[id(values)] = box = Box(values)
        self.recorder.note(
            partial(replayed.read_hyperparameters, box, optimizer, state, group), (), "hyperparameters"
        )
        return values

    def adam(self, original: Callable, p: Any, g: Any, m: Any, v: Any, hyperparameters: Any) -> None:
        if self.is_in_adam:  # a loop that leaves another dtype to NumPy's kernel
            original(p, g, m, v, hyperparameters)
            return
        box, own = self.numbers[id(hyperparameters)], plain(self.trace.of(g))
        self.recorder.note(replayed.adam, (original, p, own, m, v, box), "adam")
        self.is_in_adam = True
        try:
            original(p, g, m, v, hyperparameters)
        finally:
            self.is_in_adam = False

    def flatten(self, original: Callable, arrays: list, out: Any) -> None:
        self.recorder.note(original, (plain([self.trace.of(x) for x in arrays]), out), "flatten")
        original(arrays, out)

    def scatter(self, original: Callable, flat: FlatParameters) -> None:
        self.recorder.note(partial(original, flat), (), "scatter")
        original(flat)

    def scheduler_step(self, original: Callable, scheduler: LRScheduler, *args: Any) -> None:
        recorder, optimizer = self.recorder, scheduler.optimizer
        recorder.check_options(optimizer)
        recorder.restore_options(optimizer)
        for each in _with_parts(scheduler):
            recorder.undo.append(partial(vars(each).update, _copied(vars(each))))
        recorder.note(partial(original, scheduler, *args), (), "scheduler")
        with unobserved():
            original(scheduler, *args)
        if optimizer in recorder.options:
            recorder.options[optimizer] = options_of(optimizer)

    # ------------------------------------------------------------ changes in place, and looks

    def overwrite(self, original: Callable, x: Tensor, name: str, write: Callable[[], Any]) -> Tensor:
        """`x.add_(y)` outside a graph: the same on our memory, which may be the tensor's own."""
        array, has_counterpart = x.array, self.recorder.has_counterpart(x.array)
        ours, start = self.trace.of(array), len(self.trace.calls)

        def write_ours() -> None:
            x.array = ours
            try:
                with tracing(self.trace):
                    write()
            finally:
                x.array = array

        def write_theirs() -> None:
            self.is_writing = True
            try:
                write()
            finally:
                self.is_writing = False

        with self.recorder.changing():
            if has_counterpart:
                original(x, name, write_theirs)
                write_ours()
            else:
                original(x, name, write_ours)
        if not same_bits(array, plain(ours)):
            raise_uncapturable(f"{name}", "Write a new tensor (y = x + 1), or change it outside the step.")
        self.recorder.settle_calls(start)
        return x

    def index(self, original: Callable, *args: Any, **settings: Any) -> Any:
        """Rules see an index as it is, though Python has computed it."""
        return original(*plain(args), **plain(settings))

    def plain_settings(self, original: Callable, op: Any, settings: dict[str, Any], checks: Any) -> Any:
        if any(isinstance(x, Wrapped) and not x.inner.ndim for x in settings.values()):
            raise_uncapturable(f"a setting of {op.public_name} that is a number of the step", AFTER)
        return original(op, plain(settings), checks)

    def look(self, what: str, original: Callable, x: Tensor, *args: Any, **settings: Any) -> Any:
        if id(root(x.array)) in self.recorder.created and not self.trace.is_made_here(x.array):
            return original(x, *args, **settings)  # a constant
        raise_uncapturable(what, AFTER)


class Norm(np.ndarray):
    """The norm of all gradients, which Python cannot look at while a step is recorded."""

    effects: Effects

    def astype(self, dtype: Any) -> np.ndarray:  # type: ignore[override]
        """The norm in the dtype of the gradients, as an array of the step."""
        recorder, found = self.effects.recorder, np.array(self.view(np.ndarray), dtype)
        ours = plain(self.effects.trace.of(self.view(np.ndarray)))
        recorder.note(assign, (recorder.trace.own(found), ours), "astype")
        return found

    def __float__(self) -> float:
        raise_uncapturable("a look at the norm of the gradients", AFTER)


def _refusing(what: str, instead: str) -> Callable:
    return lambda original, *args, **settings: raise_uncapturable(what, instead)


def _counting(effects: Effects, kind: type) -> type:
    """The counter of changes in place, which may go on only by those that are noted."""

    class Counting(kind):
        @property
        def count(self) -> int:
            return self.__dict__.get("count", 0)

        @count.setter
        def count(self, number: int) -> None:
            if effects.is_recording() and not effects.recorder.may_change:
                if not effects.expected_changes:
                    instead = "Write a new tensor (h = h + 1), or call optimizer.step() by its name."
                    raise_uncapturable("a change in place", instead)
                effects.expected_changes -= 1
            self.__dict__["count"] = number

    return Counting


def _putting_back(optimizer: Optimizer) -> Callable[[], None]:
    """A function after which an optimizer's state, and where it lies, is what it is now."""
    kept = [x for x in vars(optimizer).values() if isinstance(x, dict)] + list(optimizer.state.values())
    before = [dict(x) for x in kept]

    def undo() -> None:
        for x, items in zip(kept, before, strict=True):
            x.clear()
            x.update(items)

    return undo


def _with_parts(scheduler: LRScheduler) -> Iterator[LRScheduler]:
    """A scheduler, and those that it is made of."""
    yield scheduler
    for part in getattr(scheduler, "schedulers", ()):
        yield from _with_parts(part)


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """An object's attributes, lists and dictionaries of numbers copied."""
    return {k: copy.copy(v) if isinstance(v, list | dict) else v for k, v in state.items()}
