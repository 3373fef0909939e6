"""The public data sets Multi30k and tiny Shakespeare, downloaded to a cache or read from `--data-dir`."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from minigrad.io import write_atomically

from ..errors import counted
from ..files import printable, read_bytes, sha256
from .rows import DataError

LIMIT = 2**26  # maximum bytes of a decompressed file
TIMEOUT = 30.0  # seconds without a byte after which a connection has failed

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"
LANGUAGES = ("en", "de", "fr")
SPLITS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}

# the checksums of the decompressed files
SHA256 = {
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "input.txt": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
}


# ---------------------------------------------------------------- public data sets


def multi30k(source: str, target: str, data_dir: Path | None = None) -> dict[str, list[tuple[str, str]]]:
    """Pairs of image captions in two of English, German and French (Elliott et al. 2016), by split.

    There are 29,000 pairs for training, 1,014 for validation and 1,000 for tests.
    """
    for language in (source, target):
        check_language(language)
        if language not in LANGUAGES and data_dir is None:
            raise DataError(
                f"Multi30k has no language {language!r}.\n"
                f"Choose from {', '.join(LANGUAGES)}, or pass a folder that contains it with --data-dir DIR."
            )
    pairs = {}
    for split, stem in SPLITS.items():
        sides = [_lines(_text(f"{stem}.{language}", MULTI30K, data_dir)) for language in (source, target)]
        if len(sides[0]) != len(sides[1]):
            raise DataError(
                f"{stem}: {counted(len(sides[0]), 'line')} of {source}, {len(sides[1]):,} of {target}.\n"
                f"Download both files from the same source."
            )
        pairs[split] = list(zip(*sides, strict=True))
    return pairs


def check_language(name: str) -> None:
    """Raise a DataError unless a language's name, such as "en" or "pt-BR", can be part of a file name."""
    if not re.fullmatch("[A-Za-z-]{1,35}", name):
        raise DataError(f"{name!r:.60} is not a language.\nUse letters and hyphens, such as en or pt-BR.")


def _lines(text: str) -> list[str]:
    """The lines of a text. Only line feeds end a line, unlike in str.splitlines."""
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


def tinyshakespeare(data_dir: Path | None = None) -> dict[str, str]:
    """1.1 million characters of Shakespeare: nine tenths for training, and the rest for validation."""
    text = _text("input.txt", SHAKESPEARE, data_dir)
    cut = int(len(text) * 0.9)
    return {"train": text[:cut], "validation": text[cut:]}


def sha256_of(texts: Iterable[str]) -> str:
    """The SHA-256 checksum of texts, each followed by a line feed."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8") + b"\n")
    return digest.hexdigest()


def cache_folder() -> Path:
    """The folder of downloaded data: MINITRANSFORMER_CACHE, or ~/.cache/minitransformer."""
    try:
        return Path(os.environ.get("MINITRANSFORMER_CACHE") or Path.home() / ".cache" / "minitransformer")
    except RuntimeError:
        raise DataError(
            "there is no folder for downloaded data: this user has no home directory.\n"
            "Name one in the environment variable MINITRANSFORMER_CACHE."
        ) from None


def _text(name: str, base_url: str, data_dir: Path | None) -> str:
    """The text of a public file, from `data_dir`, the cache or the network."""
    if data_dir is not None:
        return _from_folder(Path(data_dir), name)
    cached = cache_folder() / name
    content = read_bytes(cached, LIMIT) if cached.is_file() else b""
    if sha256(content) != SHA256[name]:
        try:
            cached.parent.mkdir(parents=True, exist_ok=True)
            content = _download(name, base_url)
            write_atomically(cached, content)
        except OSError as error:
            raise DataError(
                f"cannot store downloaded data in {cached.parent}: {error.strerror}.\n"
                f"Name another folder in the environment variable MINITRANSFORMER_CACHE."
            ) from None
    return content.decode("utf-8")


def _from_folder(folder: Path, name: str) -> str:
    for path in (folder / f"{name}.gz", folder / name):
        if os.path.exists(path):
            content = read_bytes(path, LIMIT)
            try:
                if path.suffix == ".gz":
                    content = _decompress(content)
                return content.decode("utf-8")
            except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
                raise DataError(f"{path} is damaged: {error}.\nDownload it again.") from None
    raise DataError(
        f"{folder} has no file {name} or {name}.gz.\nPass the folder that contains it with --data-dir DIR."
    )


def _download(name: str, base_url: str) -> bytes:
    """Download a file. Raise a DataError if that fails, or the file does not match its checksum."""
    compressed = base_url == MULTI30K
    url = f"{base_url}/{name}.gz" if compressed else f"{base_url}/{name}"
    print(f"downloading {url}", file=sys.stderr)
    try:
        with urlopen(url, timeout=TIMEOUT) as response:
            content = response.read(LIMIT)
            size = int(response.headers.get("Content-Length") or 0)
        if len(content) < min(size, LIMIT):
            raise ConnectionError(f"the connection ended after {len(content):,} of {size:,} bytes")
        content = _decompress(content) if compressed else content
    except (OSError, HTTPException, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"could not download {url}: {printable(error)}.\n"
            f"Connect to a network and try again, or pass a folder that contains {name} with --data-dir DIR."
        ) from None
    checksum = sha256(content)
    if checksum != SHA256[name]:
        raise DataError(
            f"{url} has changed: expected sha256 {SHA256[name]}, got {checksum}.\n"
            f"Pass the folder of an original copy with --data-dir DIR."
        )
    return content


def _decompress(content: bytes) -> bytes:
    """Decompress a gzip file. Raise an OSError if it is damaged, or has more than LIMIT bytes."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise OSError(f"it has more than {LIMIT:,} bytes")
    return content
