"""Public data is downloaded from its home: a web server that drops, refuses and repeats."""

import gzip
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from minitransformer.data import datasets
from minitransformer.data.datasets import multi30k, tinyshakespeare
from minitransformer.data.rows import DataError

ADDRESSES = datasets.MULTI30K, datasets.SHAKESPEARE
PLAYS = b"First Citizen:\nBefore we proceed any further, hear me speak.\n" * 5000


class Home(BaseHTTPRequestHandler):
    """Serves `files`. `faults` are done to the next requests: a status, junk, or how many bytes are sent."""

    files: dict[str, bytes]
    faults: list[tuple[str, int]]
    requests: list[str]

    def do_GET(self):
        self.requests.append(self.path)
        kind, number = self.faults.pop(0) if self.faults else ("send", len(PLAYS))
        if kind == "junk":
            self.wfile.write(b"SMTP")
            return
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
        monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        for name, text in {"input.txt": PLAYS, **captions}.items():
            monkeypatch.setitem(datasets.SHA256, name, hashlib.sha256(text).hexdigest())
        yield Home
        server.shutdown()


def test_a_data_set_is_downloaded_and_then_read_from_the_cache(home, capsys):
    assert all(address.startswith("https://") for address in ADDRESSES)
    expected = {name: [(f"{stem} en", f"{stem} de")] for name, stem in datasets.SPLITS.items()}
    assert multi30k("en", "de") == expected
    assert "/train.en.gz" in capsys.readouterr().err
    assert len(home.requests) == 6
    assert multi30k("en", "de") == expected
    assert len(home.requests) == 6


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (("send", 1000), "the connection ended after 1,000 of 305,000 bytes"),
        (("status", 503), "503"),
        (("status", 404), "404"),
        (("junk", 0), "SMTP"),
    ],
)
def test_a_failed_download_is_explained_and_can_be_retried(home, tmp_path, fault, problem):
    home.faults = [fault]
    with pytest.raises(DataError, match=rf"could not download .*{problem}.*\n.*--data-dir DIR"):
        tinyshakespeare()
    assert not (tmp_path / "cache" / "input.txt").exists()
    assert "".join(tinyshakespeare().values()).encode() == PLAYS


def test_downloads_with_a_wrong_checksum_are_not_cached(home):
    right, home.files["/train.en.gz"] = home.files["/train.en.gz"], gzip.compress(b"something else\n")
    with pytest.raises(DataError, match=r"train\.en\.gz has changed: expected sha256"):
        multi30k("en", "de")
    home.files["/train.en.gz"] = right
    assert multi30k("en", "de")["train"] == [("train en", "train de")]


def test_damaged_cached_files_are_downloaded_again(home, tmp_path):
    tinyshakespeare()
    cached = tmp_path / "cache" / "input.txt"
    cached.write_bytes(damaged := PLAYS.replace(b"First", b"Third"))
    home.faults = [("status", 503)]
    with pytest.raises(DataError, match="could not download"):
        tinyshakespeare()
    assert cached.read_bytes() == damaged  # it stands until the new one is there
    tinyshakespeare()
    assert cached.read_bytes() == PLAYS


def test_endless_downloads_are_cut_off(home, monkeypatch):
    monkeypatch.setattr(datasets, "LIMIT", len(PLAYS))
    home.files["/plays/input.txt"] += b"and so on"
    assert "".join(tinyshakespeare().values()).encode() == PLAYS


def test_a_language_that_cannot_be_downloaded_is_named(home):
    with pytest.raises(DataError, match="Multi30k has no language 'cs'"):
        multi30k("en", "cs")
    assert not home.requests


def test_concurrent_downloads_read_the_same_data(home):
    with ThreadPoolExecutor(4) as threads:
        found = [future.result() for future in [threads.submit(tinyshakespeare) for _ in range(4)]]
    assert found == [found[0]] * 4


def test_an_unwritable_cache_error_names_the_variable(home, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot store downloaded data in .*\n.*MINITRANSFORMER_CACHE"):
        tinyshakespeare()
    assert not home.requests
