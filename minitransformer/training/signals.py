"""Signals that stop training after the current step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StopEvent(threading.Event):
    """An event that a signal sets."""

    signal = ""  # the signal's name


@contextmanager
def stop_signals() -> Iterator[StopEvent]:
    """A context in which SIGINT, SIGTERM and SIGHUP set an event. A second signal raises KeyboardInterrupt.

    The context yields the event. Outside of the main thread, signals are not handled.
    """
    event = StopEvent()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.signal = signal.Signals(number).name
        event.set()

    previous = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP, and nohup ignores it
        if number is not None and (name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN):
            previous[number] = signal.signal(number, handle)
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
