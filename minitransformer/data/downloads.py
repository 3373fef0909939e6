"""Downloads with limits: at most LIMIT bytes, within DEADLINE seconds, whatever the server does.

A server may send a byte a second, endless headers, or a chunk of a negative size, which no socket timeout
stops. So a thread talks to the server, and the caller waits for it until the deadline.
"""

from __future__ import annotations

import gzip
import io
import os
import platform
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from filelock import FileLock, Timeout

from ..errors import UserError, counted
from ..files import one_line, printable, read_json, write_json
from .rows import DataError

LIMIT = 2**26  # bytes of a file, decompressed
DEADLINE = 600.0  # seconds for a file, with all attempts
IDLE = 30.0  # seconds without a byte after which a connection has failed
ATTEMPTS = 3
WAIT = 1.0  # seconds before the second attempt, twice as many before the third
REDIRECTS = 5


class PermanentError(OSError):
    """A failure for which another attempt is useless."""


def download(url: str, name: str, compressed: bool = False, limit: int | None = None) -> bytes:
    """The content of a URL. Failed connections are retried; a DataError if none succeeds by the deadline."""
    transfer = _Transfer(url, compressed, LIMIT if limit is None else limit)
    start = time.monotonic()
    thread = threading.Thread(target=transfer.run, daemon=True, name=f"download of {name}")
    thread.start()
    with _bar(name) as show:
        while thread.is_alive() and time.monotonic() < start + DEADLINE:
            thread.join(0.1)
            show(transfer.received, transfer.size)
        show(transfer.received, transfer.size)
    transfer.stopped = True
    if transfer.content is not None:
        return transfer.content
    problem = transfer.problem
    if thread.is_alive():
        seconds = f"{DEADLINE:g}"
        problem = f"too slow: {counted(transfer.received, 'byte')} in {seconds} s"
    raise DataError(
        f"could not download {url}: {problem}.\n"
        f"Connect to a network, or pass a folder that contains {name} with --data-dir DIR."
    )


class _Transfer:
    """A download in its own thread: its progress and its outcome."""

    def __init__(self, url: str, compressed: bool, limit: int) -> None:
        self.url = url
        self.compressed = compressed
        self.limit = limit
        # bytes so far, and of the file (0 if the server does not say)
        self.received = 0
        self.size = 0
        self.content: bytes | None = None
        self.problem = ""
        self.stopped = False

    def run(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                content = self._fetch()
                self.content = decompress(content, self.limit) if self.compressed else content
                return
            except Exception as error:  # not shown in a thread: the caller reports it
                self.problem = printable(" ".join(f"{error}"[:200].split())) or type(error).__name__
                final = isinstance(error, PermanentError)
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                    final = error.code < 500  # such as "not found"
                if final or self.stopped or attempt == ATTEMPTS:
                    return
            time.sleep(WAIT * attempt)

    def _fetch(self) -> bytes:
        parts: list[bytes] = []
        self.received = self.size = 0
        with open_url(self.url) as response:
            self.size = _size(response.headers.get("Content-Length"))
            # read1 returns what has arrived, and never more: read(n) reads a chunk of negative size to its
            # end
            while self.received < self.limit and not self.stopped:
                part = response.read1(min(2**16, self.limit - self.received))
                if not part:
                    break
                parts.append(part)
                self.received += len(part)
        if self.received < min(self.size, self.limit):
            raise ConnectionError(f"the connection ended after {self.received:,} of {self.size:,} bytes")
        return b"".join(parts)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to `open_url`; urllib would read the whole body of one, of any size."""

    def http_error_302(self, *args: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302  # type: ignore[assignment]


def open_url(url: str) -> Any:
    """The response of a server. Redirects are followed only to http and https, and from https only to
    https."""
    opener = urllib.request.build_opener(_NoRedirects)
    for _ in range(REDIRECTS + 1):
        try:
            return opener.open(url, timeout=IDLE)
        except urllib.error.HTTPError as error:
            target = error.headers.get("Location") if 300 <= error.code < 400 else None
            if target is None:
                raise
            error.close()
        allowed = ("https",) if urlsplit(url).scheme == "https" else ("http", "https")
        new = urljoin(url, target)
        if urlsplit(new).scheme not in allowed:
            raise PermanentError(f"it redirects to {new[:80]}, which is not {' or '.join(allowed)}")
        url = new
    raise PermanentError(f"it redirects more than {REDIRECTS} times")


def _size(text: str | None) -> int:
    """The number of bytes that a server announces; 0 if it announces none, or not a number."""
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < 20
    return int(text) if is_number and text else 0


def decompress(content: bytes, limit: int) -> bytes:
    """The content of a gzip file. More than `limit` bytes is an OSError, like other damage."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise PermanentError(f"it has more than {limit:,} bytes")
    return content


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error: a function of the bytes so far and in total (0 if unknown)."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"downloading {name}", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


# ---------------------------------------------------------------- one process at a time


@contextmanager
def downloading(cached: Path) -> Iterator[None]:
    """A context for one process at a time. Others say which process they wait for, and give up in the end."""
    lock = FileLock(f"{cached}.lock")
    owner = cached.with_name(f"{cached.name}.owner")
    end = time.monotonic() + DEADLINE + IDLE
    said = False
    while True:
        with suppress(Timeout):
            lock.acquire(timeout=1)
            break
        who = _owner(owner)
        if not said:
            print(
                f"waiting for {who}, which is downloading {cached.name}; "
                f"to go on without it, stop it, or pass --data-dir DIR",
                file=sys.stderr,
            )
            said = True
        if time.monotonic() > end:
            raise DataError(
                f"{who} has been downloading {cached.name} for more than {DEADLINE + IDLE:g} s.\n"
                f"Stop it, or pass a folder that contains {cached.name} with --data-dir DIR."
            )
    try:
        write_json(owner, {"pid": os.getpid(), "host": platform.node()})
        yield
    finally:
        with suppress(OSError):
            owner.unlink(missing_ok=True)
        lock.release()


def _owner(path: Path) -> str:
    """The process that wrote its name there."""
    with suppress(UserError):
        known = read_json(path, {"pid": int, "host": str}, limit=1000)
        return f"process {known['pid']} on {one_line(known['host'])[:80]}"
    return "another process"
