"""Files of a run: what is damaged, endless or hostile is a clear error."""

import json
import os

import pytest

from minitransformer.errors import UserError
from minitransformer.files import printable, read_bytes, read_json, read_text, write_json


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.json"


@pytest.mark.parametrize("read", [read_bytes, read_text, read_json])
def test_only_regular_files_are_read(tmp_path, read):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", "/dev/zero"):
        with pytest.raises(UserError, match="is not a regular file"):
            read(path)
    with pytest.raises(UserError, match="is a directory"):
        read(tmp_path)


@pytest.mark.parametrize("path", ["/there/is/none", "a\0b", "a" * 5000, "half a \udc80\ud800 pair"])
def test_unreadable_paths_are_user_errors(path):
    with pytest.raises(UserError, match="cannot read"):
        read_bytes(path)


def test_files_over_the_size_limit_are_rejected(path):
    path.touch()
    os.truncate(path, 10**12)  # sparse: it takes no room on the disk
    with pytest.raises(UserError, match=r"has 1,000,000,000,000 bytes; the limit is"):
        read_text(path)
    path.write_bytes(b"1234")
    assert read_bytes(path, limit=4) == b"1234"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[" * 10**6, b'{"a":' * 10**6, b"9" * 5000, b"NaN", b"[-Infinity]", b"1e999"],
)
def test_invalid_json_files_are_named(path, content):
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"state\.json is not (valid JSON|UTF-8)[\s\S]*\n"):
        read_json(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], r"the content must be an object, got \[\]"),
        ({}, "`step` is missing"),
        ({"step": True}, "`step` must be an integer, got True"),
        ({"step": 1}, "`loss` is missing"),
        ({"step": 1, "loss": [[[[[[[[]]]]]]]]}, r"`loss` must be a number or null, got \["),
    ],
)
def test_json_values_of_the_wrong_type_are_named(path, content, problem):
    write_json(path, content)
    with pytest.raises(UserError, match=rf"state\.json is damaged: {problem}"):
        read_json(path, {"step": int, "loss": (float, type(None))})
    for loss in (1, 0.5, None):
        write_json(path, {"step": 3, "loss": loss, "other": 1})
        assert read_json(path, {"step": int, "loss": (float, type(None))})["loss"] == loss


def test_read_text_normalizes_line_ends_and_strips_the_bom(path):
    path.write_bytes("\ufeffa\r\nb\rc\n".encode())
    assert read_text(path) == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\rb\x7f\x9b\x00", r"a\rb\x7f\x9b\x00"),
        ("\u2028\u202e\u2066\u2069", r"\u2028\u202e\u2066\u2069"),
        ("\udc80", r"\udc80"),
        ("déjà\tvu\n 👩\u200d🚀 שלום\u200f \\n", "déjà\tvu\n 👩\u200d🚀 שלום\u200f \\n"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert printable(text) == shown


def test_values_in_error_messages_are_escaped(path):
    path.write_text(json.dumps({"step": "\x1b[2J"}))
    with pytest.raises(UserError, match=r"got '\\x1b\[2J'"):
        read_json(path, {"step": int})
