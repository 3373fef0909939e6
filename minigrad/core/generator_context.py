"""Generators whose body runs within a context, while their caller does not."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any


def within(context: Callable[[], AbstractContextManager], function: Callable) -> Callable:
    """Wrap a generator function so that each resumption of its generators runs in a new `context()`."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> Generator:
        generator = function(*args, **kwargs)
        resume: Callable[[], Any] = partial(next, generator)
        try:
            while True:
                with context():
                    try:
                        value = resume()
                    except StopIteration as end:
                        return end.value
                try:
                    resume = partial(generator.send, (yield value))
                except GeneratorExit:
                    raise
                except BaseException as error:
                    resume = partial(generator.throw, error)
        finally:
            with context():
                generator.close()

    return make
