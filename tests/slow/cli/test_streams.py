"""Standard input and output: a line for each line, and what is shown on a terminal."""

import io
import itertools

import pytest

from minitransformer.cli import main
from minitransformer.cli.lines import numbered_lines, read_lines
from minitransformer.cli.translate import translations
from minitransformer.files import one_line
from minitransformer.runs.run import Run
from minitransformer.tasks import encoder_decoder
from minitransformer.tasks.inputs import warn_of_unknown
from minitransformer.tasks.predictions import text_prediction
from minitransformer.tasks.translation import Translation
from tests.tiny import PAIRS

SECOND = PAIRS[1][0]


@pytest.fixture
def stdin(monkeypatch):
    """Sets what standard input holds."""

    def set_content(content):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    return set_content


class Blocks(io.RawIOBase):
    """A stream that gives a block at a time, however many are asked for."""

    def __init__(self, blocks):
        self.blocks = iter(blocks)

    def read1(self, size):
        return next(self.blocks, b"")

    @property
    def buffer(self):
        return self

    def isatty(self):
        return False


# ---------------------------------------------------------------- translate, from standard input


def test_each_line_of_standard_input_is_translated(cli, stdin):
    stdin(b"I love you\n" + SECOND.encode() + b"\n")
    code, out, err = cli("translate", "mine")
    assert (code, err) == (0, "")
    assert out == cli("translate", "mine", "I love you", SECOND)[1]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"\n\n", [b"", b""]),
        (b"a\x0bb\xe2\x80\xa8c\x85d\r\ne", [b"a\x0bb\xe2\x80\xa8c\x85d\r", b"e"]),
    ],
)
def test_stdin_lines_end_only_at_line_feeds(stdin, content, lines):
    stdin(content)
    assert list(itertools.chain(*read_lines("translate"))) == lines


def test_stdin_lines_do_not_depend_on_block_size(monkeypatch):
    content = b"first\n\nthird line\nlast"
    for size in range(1, len(content)):
        blocks = [content[i : i + size] for i in range(0, len(content), size)]
        monkeypatch.setattr("sys.stdin", Blocks(blocks))
        assert list(itertools.chain(*read_lines("translate"))) == content.split(b"\n")


def test_empty_input_lines_give_empty_output_lines(cli, stdin):
    stdin(b"\nI love you\n  \n\r\n" + SECOND.encode() + b"\n\n")
    code, out, err = cli("translate", "mine")
    first, second = cli("translate", "mine", "I love you", SECOND)[1].splitlines()
    assert (code, err) == (0, "")
    assert out.split("\n") == ["", first, "", "", second, "", ""]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"love " * 32, "33 tokens"),  # with <END>
        (b"caf\xe9", "not UTF-8 (byte 3)"),
    ],
    ids=["tokens", "encoding"],
)
def test_bad_input_lines_give_an_empty_line_and_a_warning(cli, stdin, line, reason):
    stdin(b"I love you\n" + line + b"\n" + SECOND.encode() + b"\n")
    code, out, err = cli("translate", "mine")
    first, second = cli("translate", "mine", "I love you", SECOND)[1].splitlines()
    assert code == 0
    assert out.split("\n") == [first, "", second, ""]
    assert err.startswith("warning: line 2 is not translated: ")
    assert reason in err
    assert len(err.splitlines()) == 1


def test_endless_input_is_translated_as_it_arrives(here, monkeypatch):
    monkeypatch.setattr("sys.stdin", Blocks(itertools.repeat(b"I love you\nI love")))
    results = translations(Run("mine"), numbered_lines("translate", lambda line: [line]))
    assert [len(lines) for lines in itertools.islice(results, 3)] == [1, 1, 1]


def test_a_byte_order_mark_is_not_part_of_the_first_line(cli, stdin):
    stdin("\ufeffI love you\n".encode())
    assert cli("translate", "mine")[1:] == cli("translate", "mine", "I love you")[1:]


def test_endless_translations_are_cut_off(here, monkeypatch):
    run = Run("mine")
    object.__setattr__(run.recipe.data, "max_length", 10**9)
    (token,) = run.tokenizer.encode("Je")
    endless = lambda model, sources, limit: [[token] * limit] * len(sources)
    monkeypatch.setattr(encoder_decoder, "generate", endless)
    short, long = Translation.translate(run, ["I", "I love you"])
    assert [len(short.split()), len(long.split())] == [120, 140]  # with <END>, 2 and 4 tokens


def test_many_unknown_words_are_counted(here, capsys):
    warn_of_unknown(Run("mine"), [" ".join(f"zebra{'x' * i}" for i in range(25))])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("and 5 others")
    assert line.count("zebra") == 20


# ---------------------------------------------------------------- terminal escapes

RED = "\x1b[31m"


def test_translations_are_printed_as_one_escaped_line(here, cli, monkeypatch):
    escapes = lambda run, examples: [text_prediction(f"{RED}a\nb\u2028\tc")] * len(examples)
    monkeypatch.setattr(Translation, "predict", escapes)
    assert cli("translate", "mine", "I love you", SECOND)[1] == "\\x1b[31ma\\nb\\u2028\tc\n" * 2
    assert one_line("Je t'aime, «\u00a0ça\u00a0» 😀") == "Je t'aime, «\u00a0ça\u00a0» 😀"


def test_generated_escape_sequences_are_made_visible(cli, monkeypatch):
    monkeypatch.setattr(
        "minitransformer.tasks.LanguageModelling.stream_text",
        lambda *arguments, **decoding: iter([RED[:1], f"{RED[1:]}\n\tend", ""]),
    )
    assert cli("generate", "play", "--prompt", "ROMEO:")[1] == "ROMEO:\\x1b[31m\n\tend\n"


def test_unprintable_characters_become_question_marks(here, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stderr", stream)
    assert main(["translate", "mine", "été"]) == 0
    stream.flush()
    assert b"?t?" in stream.buffer.getvalue()


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("message", ["", "Unable to allocate 4 TiB"])
def test_memory_errors_exit_with_code_2(cli, monkeypatch, message):
    def fail(*arguments, **decoding):
        raise MemoryError(message) if message else MemoryError

    monkeypatch.setattr(Translation, "predict", fail)
    code, _, err = cli("translate", "mine", "I love you")
    assert code == 2
    assert err.startswith("error: out of memory: ")
    assert message in err
    assert len(err.splitlines()) == 2
