"""Downloads from a server that lies, stalls and never ends: each ends in two lines, or in the right file.

The server is a process of this program, on 127.0.0.1. A download may take DEADLINE seconds; a command that
takes 10 s longer hangs. Nothing is written but the cache and the run.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from minitransformer.data import datasets

from .commands import SECONDS, Command, Report, full_or, snapshot, spread
from .hostile import TEXT, TINY_GPT

try:  # versions before it had no deadline
    from minitransformer.data import downloads
except ImportError:
    downloads = datasets  # type: ignore[assignment]

DEADLINE = 2.0
BODY = TEXT.encode()
ZIPPED = gzip.compress(BODY)
OK = b"HTTP/1.1 200 OK\r\n"
FILE = "input.txt"
PIECE = 2**20 * b"x"
CHUNK = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
NO_LENGTH = OK + b"\r\n"

Send = Callable[[bytes], None]


def length(text: str | int, body: bytes = BODY) -> Callable[[Send], None]:
    """A body with this Content-Length."""
    return lambda send: send(OK + f"Content-Length: {text}\r\n\r\n".encode() + body)


def raw(*parts: bytes) -> Callable[[Send], None]:
    return lambda send: [send(part) for part in parts] and None


def endless(start: bytes, part: bytes, pause: float = 0.0) -> Callable[[Send], None]:
    """The start, and then the same again and again until the client leaves."""

    def answer(send: Send) -> None:
        send(start)
        while True:
            send(part)
            time.sleep(pause)

    return answer


def redirect(target: str, code: int = 302) -> Callable[[Send], None]:
    return raw(f"HTTP/1.1 {code} Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())


def stall(start: bytes) -> Callable[[Send], None]:
    def answer(send: Send) -> None:
        send(start)
        time.sleep(3600)

    return answer


RIGHT = "the right file"  # what must come of it; of all others, an error is enough
ANSWERS: dict[str, tuple[Callable[[Send], None], str]] = {
    "honest": (length(len(BODY)), RIGHT),
    "not a number": (length("abc"), ""),
    "a byte a second": (endless(OK + f"Content-Length: {len(BODY)}\r\n\r\n".encode(), b"x", 0.8), ""),
    "a chunk of a negative size": (endless(CHUNKED + b"-5\r\n", PIECE), ""),
    "redirect with an endless body": (endless(b"HTTP/1.1 302 F\r\nLocation: /honest\r\n\r\n", PIECE), RIGHT),
    "headers, a byte a second": (endless(OK + b"X: ", b"x", 0.8), ""),
    "1e3": (length("1e3"), ""),
    "an empty length": (length(""), ""),
    "a length in hexadecimal": (length("0x10"), ""),
    "a length of 5,000 digits": (length("9" * 5000), ""),
    "digits of another script": (length("\u0661\u0662"), ""),
    "a negative length": (length(-5), ""),
    "a length of minus nothing": (length("-0"), ""),
    "a huge length": (length(10**30), ""),
    "a large length": (length(10**12), ""),
    "a length of 0": (length(0), ""),
    "shorter than the body": (length(len(BODY) - 10), ""),
    "longer than the body": (length(len(BODY) + 10), ""),
    "two lengths": (length(f"5\r\nContent-Length: {len(BODY)}"), ""),
    "no length": (raw(NO_LENGTH + BODY), RIGHT),
    "no length, without an end": (endless(NO_LENGTH, PIECE), ""),
    "a length, and more without an end": (
        endless(OK + f"Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY, PIECE), RIGHT,
    ),
    "chunks": (raw(CHUNKED + CHUNK + b"0\r\n\r\n"), RIGHT),
    "a huge chunk": (raw(CHUNKED + b"ffffffffffffffff\r\n" + BODY), ""),
    "a chunk of 10,000 digits": (raw(CHUNKED + b"f" * 10**4 + b"\r\n" + BODY), ""),
    "a chunk of no number": (raw(CHUNKED + b"zz\r\n" + BODY), ""),
    "a chunk size without an end": (endless(CHUNKED, b"0"), ""),
    "chunks of one byte": (raw(CHUNKED + b"".join(b"1\r\n%c\r\n" % c for c in BODY) + b"0\r\n\r\n"), RIGHT),
    "chunks of nothing": (raw(CHUNKED + b"0\r\n\r\n" + BODY), ""),
    "trailers without an end": (endless(CHUNKED + CHUNK + b"0\r\n", b"X: y\r\n" * 1000), ""),
    "a body in gzip": (raw(OK + b"Content-Encoding: gzip\r\n\r\n" + ZIPPED), ""),
    "a body in br": (raw(OK + b"Content-Encoding: br\r\n\r\n" + BODY), ""),
    "another transfer encoding": (raw(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNK), ""),
    "headers without an end": (endless(OK, b"X: y\r\n" * 1000), ""),
    "one header without an end": (endless(OK + b"X: ", PIECE), ""),
    "continue without an end": (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), ""),
    "no status line": (endless(b"", PIECE), ""),
    "garbage": (raw(os.urandom(5000)), ""),
    "HTTP/9.9": (raw(b"HTTP/9.9 200 OK\r\n\r\n" + BODY), ""),
    "status 99999": (raw(b"HTTP/1.1 99999 OK\r\n\r\n" + BODY), ""),
    "a reason that colours": (raw(b"HTTP/1.1 404 \x1b[31mred\x07\r\n\r\n"), ""),
    "a reason of 60,000 characters": (raw(b"HTTP/1.1 404 " + b"x" * 60_000 + b"\r\n\r\n"), ""),
    "404 with an endless body": (endless(b"HTTP/1.1 404 Not found\r\n\r\n", PIECE), ""),
    "503": (raw(b"HTTP/1.1 503 Busy\r\n\r\n"), ""),
    "204": (raw(b"HTTP/1.1 204 No content\r\n\r\n"), ""),
    "304": (raw(b"HTTP/1.1 304 Not modified\r\n\r\n"), ""),
    "401": (raw(b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\n\r\n'), ""),
    "closes at once": (raw(b""), ""),
    "says nothing": (stall(b""), ""),
    "stalls in the headers": (stall(OK), ""),
    "stalls in the body": (stall(OK + f"Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY[:100]), ""),
    "stalls at the end": (stall(CHUNKED + CHUNK), ""),
    "truncated": (length(len(BODY), BODY[:1000]), ""),
    "other content": (length(len(BODY), BODY[::-1]), ""),
    "redirect": (redirect("/honest"), RIGHT),
    "redirect with no target": (raw(b"HTTP/1.1 302 Found\r\n\r\n"), ""),
    "redirect to itself": (redirect("/redirect%20to%20itself"), ""),
    "redirects without an end": (redirect("//x@127.0.0.1:{port}/redirects%20without%20an%20end"), ""),
    "redirect 308": (redirect("/honest", 308), RIGHT),
    "redirect to a file": (redirect("file://{secret}"), ""),
    "redirect to a file of a host": (redirect("file://localhost{secret}"), ""),
    "redirect to FTP": (redirect("ftp://127.0.0.1/x"), ""),
    "redirect to data": (redirect("data:text/plain,x"), ""),
    "redirect to a script": (redirect("javascript:x"), ""),
    "redirect to another name": (redirect("http://localhost:{port}/honest"), RIGHT),
    "redirect to no port": (redirect("http://127.0.0.1:99999/honest"), ""),
    "redirect to a broken address": (redirect("http://[::1/honest"), ""),
}  # fmt: skip
ZIPS: dict[str, tuple[bytes, str]] = {
    "gzip": (ZIPPED, RIGHT),
    "gzip of a path": (b"\x1f\x8b\x08\x08" + ZIPPED[4:10] + b"../../../escaped\0" + ZIPPED[10:], RIGHT),
    "gzip cut": (ZIPPED[:-20], ""),
    "gzip with a flipped bit": (ZIPPED[:50] + bytes([ZIPPED[50] ^ 1]) + ZIPPED[51:], ""),
    "gzip and garbage": (ZIPPED + b"garbage", ""),
    "gzip of 10 GB": (gzip.compress(bytes(2**26)) * 160, ""),
    "gzip of a million empty members": (gzip.compress(b"") * 10**6, ""),
    "no gzip": (BODY, ""),
}
ANSWERS |= {name: (length(len(body), body), expected) for name, (body, expected) in ZIPS.items()}


# ---------------------------------------------------------------- the server


def serve(listener: socket.socket, secret: str) -> None:
    """Answer each request by the name that is its address."""
    port = listener.getsockname()[1]

    def answer(connection: socket.socket) -> None:
        try:
            with connection:
                request = connection.recv(2**16).decode().split(" ")
                name = request[1].strip("/").split("/")[0].replace("%20", " ")

                def send(part: bytes) -> None:
                    part = part.replace(b"{port}", str(port).encode()).replace(b"{secret}", secret.encode())
                    connection.sendall(part)

                ANSWERS[name][0](send)
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(1)
                connection.recv(1)
        except (OSError, LookupError, ValueError):
            pass

    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def start_server(secret: str) -> tuple[int, int]:
    """A process that serves, and its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    port = listener.getsockname()[1]
    if not (pid := os.fork()):
        try:
            serve(listener, secret)
        finally:
            os._exit(0)
    listener.close()
    return pid, port


# ---------------------------------------------------------------- the attacks

PLAY = ["train", "shakespeare-char-cpu", "--run-dir", "new", *TINY_GPT]


def prepare(port: int, name: str, cache: Path, deadline: float = DEADLINE) -> Callable[[], None]:
    """What a command does before: its public data are at this server."""

    def change() -> None:
        os.environ["MINITRANSFORMER_CACHE"] = str(cache)
        os.environ["no_proxy"] = "*"
        base = f"http://127.0.0.1:{port}/{name.replace(' ', '%20')}"
        if name in ZIPS:  # as the captions are
            datasets.SHAKESPEARE = datasets.MULTI30K = base
        else:
            datasets.SHAKESPEARE = base
        datasets.SHA256[FILE] = hashlib.sha256(BODY).hexdigest()
        downloads.DEADLINE = deadline
        downloads.IDLE = 1.0
        downloads.WAIT = 0.01

    return change


def attack(place: Path, port: int, name: str, report: Report) -> None:
    """One answer of the server."""
    shutil.rmtree(place / "cwd", ignore_errors=True)
    (place / "cwd").mkdir()
    cached = place / "cwd" / "cache" / FILE
    outcome = Command(PLAY, place / "cwd", prepare=prepare(port, name, cached.parent)).wait(
        SECONDS + DEADLINE
    )
    expected = ANSWERS[name][1]
    failure = outcome.problem
    if cached.exists() and cached.read_bytes() != BODY:
        failure = "another file in the cache"
    if not failure and expected and outcome.code:
        failure = "not downloaded"
    if not failure and outcome.code:
        message = outcome.err[outcome.err.rindex("error:") :] if "error:" in outcome.err else ""
        lines = message.strip().splitlines()
        failure = "" if len(lines) == 2 and len(message) < 1000 else f"{len(lines)} lines"
    others = {path.parts[0] for path in map(Path, snapshot(place / "cwd"))} - {"cache", "new"}
    if others or set(os.listdir(place)) != {"cwd", "secret"}:
        failure = f"wrote {sorted(others)} elsewhere"
    word = failure or ("error" if outcome.code else "downloaded")
    report.add("answers", word, failure and f"{failure}: {name}: {outcome.last_words[:300]}")


def wait_for_another(place: Path, port: int, stopped: bool, report: Report) -> None:
    """A process waits for one that is stuck: it says for whom, and not for ever."""
    shutil.rmtree(place / "cwd", ignore_errors=True)
    (place / "cwd").mkdir()
    cache = place / "cwd" / "cache"
    stuck = "stalls in the body"
    first = Command(PLAY, place / "cwd", prepare=prepare(port, stuck, cache, 60))
    first.until(lambda: (cache / f"{FILE}.lock").exists(), SECONDS)
    time.sleep(0.3)
    if stopped:
        first.signal(signal.SIGSTOP)
    second = Command(PLAY, place / "cwd", prepare=prepare(port, stuck, cache))
    outcome = second.wait(2 * DEADLINE + SECONDS)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    failure = outcome.problem
    if not failure and f"process {first.pid}" not in outcome.err:
        failure = "does not say for whom it waits"
    group = "waits for a stopped process" if stopped else "waits for a stuck process"
    report.add(group, failure or "ends, and says for whom", failure and f"{failure}: {outcome.last_words}")


def main() -> int:
    count = full_or(small=2, full=1000)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "secret").write_bytes(BODY)
        server, port = start_server(str(place / "secret"))
        try:
            for name in list(ANSWERS)[:count]:
                attack(place, port, name, report)
            for stopped in spread([True, False], 2 if count > 10 else 1):
                wait_for_another(place, port, stopped, report)
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
