"""Public data is downloaded from its home: a web server that drops, refuses and repeats."""

import gzip
import hashlib
import io
import os
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from minitransformer.data import datasets, downloads
from minitransformer.data.datasets import multi30k, tinyshakespeare
from minitransformer.data.rows import DataError

PLAYS = b"First Citizen:\nBefore we proceed any further, hear me speak.\n" * 5000


class Home(BaseHTTPRequestHandler):
    """Serves `files`. `faults` are done to the next requests: a status, or how many bytes are sent."""

    files: dict[str, bytes]
    faults: list[tuple[str, int]]
    requests: list[str]

    def do_GET(self):
        self.requests.append(self.path)
        kind, number = self.faults.pop(0) if self.faults else ("send", len(PLAYS))
        if kind == "status" or self.path not in self.files:
            self.send_error(number if kind == "status" else 404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.files[self.path])))
        self.end_headers()
        self.wfile.write(self.files[self.path][:number])

    def log_message(self, *_):
        pass


@pytest.fixture
def home(monkeypatch, tmp_path):
    """The server; the public data sets are its files."""
    captions = {f"{stem}.{language}": f"{stem} {language}\n".encode()
                for stem in datasets.SPLITS.values() for language in ("en", "de")}  # fmt: skip
    Home.files = {f"/{name}.gz": gzip.compress(text) for name, text in captions.items()} | {
        "/plays/input.txt": PLAYS
    }
    Home.faults = []
    Home.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Home) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(datasets, "MULTI30K", address)
        monkeypatch.setattr(datasets, "SHAKESPEARE", f"{address}/plays")
        monkeypatch.setattr(downloads, "WAIT", 0.01)
        monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        for name, text in {"input.txt": PLAYS, **captions}.items():
            monkeypatch.setitem(datasets.SHA256, name, hashlib.sha256(text).hexdigest())
        yield Home
        server.shutdown()


def test_a_data_set_is_downloaded_with_progress_and_then_read_from_the_cache(home, capsys):
    expected = {name: [(f"{stem} en", f"{stem} de")] for name, stem in datasets.SPLITS.items()}
    assert multi30k("en", "de") == expected
    assert "downloading train.en" in capsys.readouterr().err
    assert len(home.requests) == 6
    assert multi30k("en", "de") == expected
    assert len(home.requests) == 6


@pytest.mark.parametrize("fault", [("send", 1000), ("send", 0), ("status", 503)])
def test_a_connection_that_fails_is_tried_again(home, fault):
    home.faults = [fault, fault]
    assert "".join(tinyshakespeare().values()).encode() == PLAYS
    assert len(home.requests) == 3


def test_a_connection_that_keeps_failing_is_an_error_that_says_how_far_it_came(home, tmp_path):
    home.faults = [("send", 1000)] * 3
    with pytest.raises(DataError, match="the connection ended after 1,000 of 305,000 bytes"):
        tinyshakespeare()
    assert len(home.requests) == 3
    assert not (tmp_path / "cache" / "input.txt").exists()


def test_what_is_not_there_is_not_asked_for_again(home):
    del home.files["/plays/input.txt"]
    with pytest.raises(DataError, match=r"could not download .*404.*\n.*--data-dir DIR"):
        tinyshakespeare()
    assert len(home.requests) == 1


def test_a_file_that_has_changed_is_refused(home):
    home.files["/train.en.gz"] = gzip.compress(b"something else\n")
    with pytest.raises(DataError, match=r"train\.en\.gz has changed: expected sha256"):
        multi30k("en", "de")


def test_a_bar_follows_the_download_and_does_not_wait_for_its_end(home, monkeypatch):
    sizes = []

    class Response:
        headers = {"Content-Length": str(len(PLAYS))}  # noqa: RUF012

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def read1(self, size):
            sizes.append(size)
            start = sum(sizes[:-1])
            return PLAYS[start : start + size]

    monkeypatch.setattr(downloads, "open_url", lambda url: Response())
    assert "".join(tinyshakespeare().values()).encode() == PLAYS
    assert len(sizes) > 4


def test_two_runs_that_start_together_download_once(home):
    with ThreadPoolExecutor(4) as threads:
        found = [future.result() for future in [threads.submit(tinyshakespeare) for _ in range(4)]]
    assert found == [found[0]] * 4
    assert len(home.requests) == 1


def test_a_cache_that_cannot_be_written_to_is_named_with_the_way_out(home, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot store downloaded data in .*\n.*MINITRANSFORMER_CACHE"):
        tinyshakespeare()
    assert not home.requests


@pytest.mark.parametrize(
    ("start", "target", "allowed"),
    [
        ("https", "https://elsewhere/x", True),
        ("http", "https://elsewhere/x", True),
        ("http", "http://elsewhere/x", True),
        ("https", "http://elsewhere/x", False),
        ("https", "/other", True),
        *[(start, target, False) for start in ("http", "https")
          for target in ("file:///etc/passwd", "ftp://elsewhere/x", "data:,x", "x:y")],
    ],
)  # fmt: skip
def test_a_redirect_leads_to_web_pages_and_never_from_https_to_http(monkeypatch, start, target, allowed):
    opened = []

    def open_once(self, url, timeout):
        opened.append(url)
        if len(opened) > 1:
            return "the response"
        headers = Message()
        headers["Location"] = target
        raise urllib.error.HTTPError(url, 302, "Found", headers, io.BytesIO())

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", open_once)
    if allowed:
        assert downloads.open_url(f"{start}://home/file") == "the response"
    else:
        with pytest.raises(downloads.PermanentError, match="it redirects to"):
            downloads.open_url(f"{start}://home/file")
        assert len(opened) == 1


def test_redirects_end(monkeypatch):
    def redirect(self, url, timeout):
        headers = Message()
        headers["Location"] = url
        raise urllib.error.HTTPError(url, 302, "Found", headers, io.BytesIO())

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", redirect)
    with pytest.raises(downloads.PermanentError, match="more than 5 times"):
        downloads.open_url("https://home/file")


@pytest.mark.slow
def test_a_process_that_waits_says_for_whom_and_not_for_ever(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(downloads, "DEADLINE", 1.0)
    monkeypatch.setattr(downloads, "IDLE", 0.0)
    cached = tmp_path / "input.txt"
    with downloads.downloading(cached), ThreadPoolExecutor(1) as threads:
        waits = threads.submit(lambda: downloads.downloading(cached).__enter__())
        who = f"process {os.getpid()} on "
        with pytest.raises(DataError, match=rf"{who}.* has been downloading input.txt .*\nStop it, or pass"):
            waits.result()
    assert f"waiting for {who}" in capsys.readouterr().err
    with downloads.downloading(cached):
        pass
