"""Switches: each can be entered any number of times, within itself too, and decorates functions."""

import asyncio
import threading
from functools import partial

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels
from minigrad.core import random
from minigrad.core.errors import DtypeError, OptionError
from minigrad.core.modes import Switch, current_scope, modes, named_scope
from minigrad.core.observers import observe, unobserved


def cudnn():
    from minigrad.kernels.cuda.fused import cudnn

    return cudnn


def scope():
    found = current_scope.get()
    return found and found.part


def observers():
    return [x if isinstance(x, str) else type(x).__name__ for x in modes.observers]


# what makes it -> (the switch, what it sets, the value under it)
SWITCHES = {
    "no_grad": (mg.no_grad, mg.is_grad_enabled, False),
    "enable_grad": (mg.enable_grad, mg.is_grad_enabled, True),
    "set_grad_enabled": (partial(mg.set_grad_enabled, False), mg.is_grad_enabled, False),
    "fused": (partial(mg.fused, False), mg.fused.is_enabled, False),
    "autocast": (partial(mg.autocast, dtype="bfloat16"), lambda: modes.autocast_dtype, mg.bfloat16),
    "autocast off": (partial(mg.autocast, enabled=False), lambda: modes.autocast_dtype, None),
    "detect_anomaly": (lambda: mg.autograd.detect_anomaly(), observers, ["NonFiniteFinder"]),
    "set_detect_anomaly": (lambda: mg.autograd.set_detect_anomaly(True), observers, ["NonFiniteFinder"]),
    "kernels.use": (partial(kernels.use, "numpy"), lambda: kernels.active.cpu, kernels.sets["numpy"]),
    "cudnn.use": (lambda: cudnn().use(False), lambda: cudnn()._modes.enabled, False),
    "named_scope": (partial(named_scope, "part"), scope, "part"),
    "observe": (partial(observe, "observer"), observers, ["observer"]),
    "unobserved": (unobserved, observers, []),
    "random.rows": (partial(random.rows, 7), random.first_row, 7),
    "random.replayed": (partial(random.replayed, random.Snapshot(3, 4, 5, {})), random.first_row, 5),
}
OUTSIDE = {  # what is set before, where the value would be the same otherwise
    "enable_grad": (modes, "grad_enabled", False),
    "autocast off": (modes, "autocast_dtype", mg.float16),
    "kernels.use": (kernels.active, "cpu", None),
    "unobserved": (modes, "observers", ("observer",)),
}


def switches(test):
    return pytest.mark.usefixtures("outside")(pytest.mark.parametrize("name", SWITCHES)(test))


@pytest.fixture
def outside(name):
    with Switch(*OUTSIDE.get(name, (modes, "data_moves", False))):
        yield


@switches
def test_modes_can_be_nested_and_restore_the_state(name):
    make, state, under = SWITCHES[name]
    before = state()
    assert before != under
    switch = make()  # some are set from now on, until the first `with` on them ends
    for _ in range(3):
        with switch:
            if name != "observe":  # one more observer each time, see below
                with switch:
                    assert state() == under
            assert state() == under
        assert state() == before
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), switch, make():
            1 / 0  # noqa: B018
        assert state() == before


@switches
def test_modes_decorate_functions(name):
    make, state, under = SWITCHES[name]
    before = state()

    @make()
    def function(depth):
        """Its docstring."""
        found = state()
        return [found] if depth == 0 else [found, *function(depth - 1)]

    assert function.__doc__ == "Its docstring."
    assert state() == before  # decorating sets nothing
    for _ in range(2):
        assert function(0) == [under]
        assert state() == before
    if name != "observe":
        assert function(2) == [under] * 3
    assert state() == before


@switches
def test_mode_decorators_are_thread_local(name):
    make, state, under = SWITCHES[name]
    both_inside = threading.Barrier(2, timeout=10)
    first_left = threading.Event()
    found = []

    @make()
    def function(leaves_first):
        both_inside.wait()
        if not leaves_first:
            first_left.wait(10)
        found.append(state())

    def call(leaves_first):
        with Switch(*OUTSIDE.get(name, (modes, "data_moves", False))):
            before = state()
            function(leaves_first)
            found.append(state() == before)
        first_left.set()

    threads = [threading.Thread(target=call, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [under, True, under, True]


def test_grad_modes_decorate_without_parentheses():
    x = mg.ones(2, requires_grad=True)
    assert not mg.no_grad(lambda: x * 2)().requires_grad
    with mg.no_grad():
        assert mg.enable_grad(lambda: x * 2)().requires_grad
    assert mg.is_grad_enabled()


def test_nested_observers_accumulate():
    switch = observe("observer")
    with switch, observe("another"), switch:
        assert observers() == ["observer", "another", "observer"]
    assert observers() == []


def test_detect_anomaly_restores_numpy_error_settings():
    before = np.geterr()
    switch = mg.autograd.detect_anomaly()
    with switch:
        with switch:
            assert set(np.geterr().values()) == {"ignore"}
        assert set(np.geterr().values()) == {"ignore"}
    assert np.geterr() == before


def test_random_rows_start_at_the_current_draw():
    rows = random.rows(5)
    random.next_key("a")
    with rows:  # made before the draw above
        inside = random.next_key("a")
    assert inside == random.next_key("a")._replace(row=5)


@pytest.mark.parametrize(
    "switch",
    [lambda: mg.fused, lambda: mg.set_grad_enabled, lambda: cudnn().use],
    ids=["fused", "grad", "cudnn"],
)
def test_mode_switches_reject_non_boolean_flags(switch):
    switch = switch()
    for flag in ("no", 0, None):
        with pytest.raises(DtypeError, match="takes True or False, not"):
            switch(flag)
    assert modes.fused is modes.grad_enabled is True


def test_misused_mode_switches_raise():
    for argument in (False, 3, "x"):
        with pytest.raises(OptionError, match=f"no_grad decorates functions, but {argument!r} is"):
            mg.no_grad(argument)
    for switch in (mg.no_grad(), mg.fused(True)):
        if isinstance(switch, mg.fused):
            switch.__exit__()
        with pytest.raises(OptionError, match="__exit__ called before __enter__"):
            switch.__exit__()
    assert modes.grad_enabled


def test_async_tasks_have_independent_modes():
    found = []

    async def look():
        with mg.no_grad():
            await asyncio.sleep(0)  # the other task begins
            found.append(mg.is_grad_enabled())
        await asyncio.sleep(0)
        found.append(mg.is_grad_enabled())

    async def both():
        await asyncio.gather(look(), look())

    asyncio.run(both())
    assert found == [False, False, True, True]
