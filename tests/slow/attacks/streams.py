"""Runs commands whose standard streams are full, closed, unbuffered or left by their reader, and whose names
would be a line of an error, an option, HTML or Markdown if they were printed as they are.

A training keeps its results whatever becomes of its messages. Every other command ends in two lines, or
without a word where nobody can read them. What a command says to type next works when it is copied. In what
a run's README.md renders, nothing comes from a name or a text.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from minitransformer import __main__ as program
from minitransformer.files import sha256, to_json

from . import commands
from .commands import TRAIN, Command, Outcome, Report, full_or, spread, weights, write_pairs

ROOT = Path(commands.__file__).parents[3]
PLAY = [
    *["train", "shakespeare-char-cpu", "--data", "text.txt", "--run-dir", "play", "--steps", "2"],
    *"--n-embd 16 --n-head 2 --n-layer 1 --block-size 16 --n-positions 16".split(),  # noqa: SIM905
]
TEXT = "ROMEO: But soft! What light through yonder window breaks?\nJULIET: Ay me!\n" * 20

SECONDS = 30.0  # several times what any of these takes on an idle machine


def run(argv: list[str], cwd: Path, stdin: bytes = b"") -> Outcome:
    """Run a command to its end."""
    return Command(argv, cwd, stdin).wait(SECONDS)


# ---------------------------------------------------------------- streams

VERBS = {
    "train": [*TRAIN[:-2], "--checkpoint-every", "1", "--run-dir", "new"],
    "resume": [*TRAIN, "--resume", "--steps", "6"],
    "evaluate": ["evaluate", "run", "--data", "pairs.tsv", "--json"],
    "translate": ["translate", "run", "I am.", "My computer is old."],
    "lines": ["translate", "run"],
    "generate": ["generate", "play", "--max-new-tokens", "50"],
    "show": ["show", "run"],
    "recipes": ["recipes"],
    "help": ["--help"],
    "help of a verb": ["train", "phrasebook", "--help"],
    "version": ["--version"],
    "wrong": ["train", "phrasebook", "--lr", "x"],
}
STREAMS = {  # how the three are opened; None is closed
    "output full": ("input", "/dev/full", "err"),
    "messages full": ("input", "out", "/dev/full"),
    "both full": ("input", "/dev/full", "/dev/full"),
    "output closed": ("input", None, "err"),
    "messages closed": ("input", "out", None),
    "input closed": (None, "out", "err"),
    "all closed": (None, None, None),
    "no reader": ("input", "pipe", "err"),
    "no reader of both": ("input", "pipe", "pipe"),
    "input is a folder": (".", "out", "err"),
    "input is written to": ("write", "out", "err"),
}


def broken_pipe() -> int:
    """The writing end of a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def open_stream(number: int, name: str | None) -> None:
    """Let a standard stream be what a name of STREAMS says."""
    if name is None:
        os.close(number)
        return
    if name == "pipe":
        source = broken_pipe()
    elif name == "write":
        source = os.open("input", os.O_WRONLY)
    else:
        source = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
    if source != number:
        os.dup2(source, number)
        os.close(source)


def new_interpreter(unbuffered: bool) -> None:
    """The standard streams as a new interpreter has them."""
    streams = []
    for number, mode in enumerate(("rb", "wb", "wb")):
        try:
            raw = open(number, mode, buffering=0 if unbuffered and number else -1, closefd=False)  # noqa: SIM115
            how = {"line_buffering": number == 2, "write_through": unbuffered}
            streams.append(io.TextIOWrapper(raw, "utf-8", **how))
        except OSError:
            streams.append(None)
    sys.stdin, sys.stdout, sys.stderr = streams


class Process(Command):
    """`python -m minitransformer` in a forked child, with standard streams of its own."""

    def __init__(self, argv: list[str], cwd: Path, streams: str, unbuffered: bool) -> None:
        self.streams = streams
        self.unbuffered = unbuffered
        super().__init__(argv, cwd)

    def _run(self, cwd: Path, stdin: int, prepare: Callable[[], object]) -> None:
        # where the interpreter's own words go, whatever is closed
        code = 1
        tail = os.dup(self._err.fileno())
        try:
            os.chdir(cwd)
            for number, name in enumerate(STREAMS[self.streams]):
                open_stream(number, name)
            new_interpreter(self.unbuffered)
            sys.argv = ["minitransformer", *self.argv]
            code = program.main()
        except BaseException as error:
            os.write(tail, f"Traceback: {error!r}\n".encode())
        finally:
            try:
                for stream in (sys.stdout, sys.stderr):
                    if stream is not None:
                        stream.flush()
            except Exception as error:
                code = 120
                os.write(tail, f"Traceback at exit: {error!r}\n".encode())
            os._exit(code)


def through_streams(verb: str, streams: str, unbuffered: bool, cwd: Path, expected: Outcome) -> str:
    """What a command did that it must not, with standard streams that cannot be used; empty if nothing."""
    (cwd / "input").write_text("I am.\nMy computer is old.\n")
    before = {path: path.read_bytes() for path in (cwd / "run").rglob("*") if path.is_file()}
    process = Process(VERBS[verb], cwd, streams, unbuffered)
    outcome = process.wait(SECONDS)
    out, err = ((cwd / name).read_text() if (cwd / name).exists() else "" for name in ("out", "err"))
    _, output, messages = STREAMS[streams]
    if outcome.limit or outcome.err:
        return outcome.limit or outcome.err.strip()
    if "Traceback" in err or "Exception ignored" in err:
        return "traceback"
    if verb in ("train", "resume"):
        folder = cwd / ("new" if verb == "train" else "run")
        if not all((folder / name).is_file() for name in ("metrics.json", "README.md", "curves.png")):
            return f"a result is lost: {err.strip()[-200:]}"
        if len(weights(folder)) != len(expected.err.split()):
            return "a checkpoint is lost"
    elif {path: path.read_bytes() for path in before} != before:
        return "the run has changed"
    usable = output == "out"
    if (
        usable
        and verb not in ("lines", "wrong")
        and (outcome.code or out != expected.out)
        and verb != "resume"
    ):
        return f"exit code {outcome.code}, or other output"
    if not usable and outcome.code == 0 and expected.out:
        return "a lost output is a success"
    said = [line for line in err.splitlines() if line.startswith("error: ")]
    if outcome.code == 2 and messages == "err" and (len(said) != 1 or err.splitlines()[-2] != said[0]):
        return f"not two lines: {err[-200:]}"
    return "" if outcome.code in (0, 1, 2) else f"exit code {outcome.code}"


def stream_attacks(place: Path, report: Report) -> Iterator[Callable[[], None]]:
    """Each verb with each way of its streams, buffered and not."""
    good: dict[str, Outcome] = {}

    def expected(verb: str) -> Outcome:
        if verb not in good:
            cwd = copy(place)
            found = run(VERBS[verb], cwd, stdin=b"I am.\nMy computer is old.\n")
            names = " ".join(weights(cwd / ("new" if verb == "train" else "run"))).replace("run/", "")
            good[verb] = Outcome(found.code, found.out, names, 0, 0)
        return good[verb]

    def attack(verb: str, streams: str, unbuffered: bool) -> None:
        wanted = expected(verb)
        failure = through_streams(verb, streams, unbuffered, copy(place), wanted)
        how = f"{verb}, {streams}{', unbuffered' if unbuffered else ''}"
        report.add(streams, failure.partition(":")[0] or "held", failure and f"{how}: {failure}")

    for unbuffered in (False, True):
        for streams in STREAMS:
            for verb in VERBS:
                yield lambda v=verb, s=streams, u=unbuffered: attack(v, s, u)


def copy(place: Path) -> Path:
    """A folder with data and two runs."""
    shutil.rmtree(place / "cwd", ignore_errors=True)
    return Path(shutil.copytree(place / "good", place / "cwd"))


# ---------------------------------------------------------------- names

FAKE = "error: all is lost.\nerror: type this"
NAMES = (
    f"x\n{FAKE}",
    "-run", "--run", "-", "a b", "$(id)", "`id`", "'", '"', "\\", "a\tb", "\udcff", "é", "%s{0}",
    "\x1b[31m", "<img src=x onerror=alert(1)>", "a|b", "[a](javascript:x)", "![a](x)", "&lt;b&gt;", "# a",
    "**a**", "_a_", "~~a~~", "```", "`<b>`", "\\|<b>", "http:www.a.b", "- a", "1. a", "> a", "===", "$a$",
    "<!-- a", "www.a.b",
)  # fmt: skip


def commands_of(text: str) -> list[str]:
    """The commands that a text says to type."""
    found = re.findall(r"(?:use it with|Continue with): (minitransformer .*)", text)
    return [*found, *re.findall(r"`(minitransformer train RECIPE .*)`", text)]


def typed(command: str, cwd: Path) -> Outcome:
    """The command as a shell reads it."""
    shell = shutil.which("bash") or "sh"
    script = f"""minitransformer() {{ printf '%s\\0' "$@"; }}; {command}"""
    words = subprocess.run([shell, "-c", script], capture_output=True, check=False).stdout
    argv = [os.fsdecode(word) for word in words.split(b"\0")[:-1]]
    return run([word.replace("RECIPE", "phrasebook") for word in argv], cwd)


def with_a_name(name: str, cwd: Path) -> str:
    """Train in a folder, with data, of that name, and do what the commands say to do next."""
    os.rename(cwd / "pairs.tsv", cwd / f"{name}.tsv")
    flags = [f"--data={name}.tsv", f"--run-dir={name}"]
    argv = [word for word in TRAIN if word not in ("--data", "pairs.tsv", "--run-dir", "run")]
    trained = run([*argv, *flags], cwd)
    again = run([*argv, *flags], cwd)  # is refused, and names the folder
    wrong = run(["translate", f"./{name}-", "I am."], cwd)
    for outcome in (trained, again, wrong):
        if outcome.problem or sum(line.startswith("error") for line in outcome.err.splitlines()) > 1:
            return f"{outcome.problem or 'a false error'}: {outcome.err[-200:]}"
        if any(line.startswith("error: type this") for line in (outcome.out + outcome.err).splitlines()):
            return "a false error"
    if (trained.code, again.code, wrong.code) != (0, 2, 2) or len(again.err.splitlines()) != 2:
        return f"exit codes {trained.code}, {again.code}, {wrong.code}: {trained.last_words}"
    for command in commands_of(trained.err):
        if (outcome := typed(command, cwd)).code:
            return f"{command} ends with {outcome.last_words}"
    return rendered((cwd / name / "README.md").read_text(encoding="utf-8"))


def rendered(text: str) -> str:
    """What Markdown and HTML is in a README.md that is not ours; empty if there is none."""
    text = re.sub(r"```sh\n.*?\n```", "", text, flags=re.DOTALL)  # where a line of ours begins with no mark
    text = re.sub(r"<!-- written by minitransformer; [^<>]*-->", "", text)
    text = text.replace("![Loss and learning rate](curves.png)", "")
    plain = re.sub(r"\\[!-/:-@\[-`{-~]", "", text)  # escaped punctuation is text
    plain = re.sub(r"`[^`|\n]*`|\[[-\d., e]+\]", "", plain)  # code, and intervals
    marks = re.findall(r"<|`|\*|\[|~~|&|\$|(?<!\w)_|://|www\.", plain)
    titles = re.findall(r"^(?:#+ .*|[-=]+)$", plain, flags=re.MULTILINE)
    ours = ("## Data", "## Scores", "## Use it", "## Train it again", "## Files")
    others = [title for title in titles[1:] if title not in ours]
    return f"README.md renders {marks + others}" if marks or others else ""


# ---------------------------------------------------------------- what a record says

STRANGE = ("\ud800", "\udcff", "x\nerror: fake", "<script>alert(1)</script>", "`|<b>", "\x00", "a" * 10_000)


def strings(content: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The path of each text in JSON."""
    items = content.items() if isinstance(content, dict) else enumerate(content)  # type: ignore[arg-type]
    for key, value in items:
        if isinstance(value, str):
            yield (*path, key)
        elif isinstance(value, (dict, list)):
            yield from strings(value, (*path, key))


def with_a_record(path: tuple[object, ...], text: str, cwd: Path) -> str:
    """Use a run in whose run.json, checksum and all, a text is strange."""
    content = json.loads((cwd / "run/run.json").read_text(encoding="utf-8"))
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = text
    content.pop("sha256")
    content["sha256"] = sha256(to_json(content).encode())
    (cwd / "run/run.json").write_text(to_json(content), encoding="utf-8")
    for argv in (
        ["show", "run"], ["evaluate", "run", "--data", "pairs.tsv"], ["translate", "run", "I am."],
        ["evaluate", "run"], [*TRAIN, "--resume", "--steps", "5"],
    ):  # fmt: skip
        outcome = run(argv, cwd)
        false = [line for line in outcome.err.splitlines() if line.startswith("error: fake")]
        if outcome.problem or false:
            return f"{argv[0]}: {outcome.problem or 'a false error'}: {outcome.last_words}"
        if outcome.code == 2 and len(outcome.err.splitlines()) < 2:
            return f"{argv[0]}: not two lines: {outcome.err}"
    return rendered((cwd / "run/README.md").read_text(encoding="utf-8"))


def main() -> int:
    count = full_or(small=5, full=10_000)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        good = place / "good"
        good.mkdir()
        write_pairs(good)
        (good / "text.txt").write_text(TEXT)
        assert run(TRAIN, good).code == run(PLAY, good).code == 0

        def attack(group: str, what: object, failure: str) -> None:
            shown = f"{what!r:.60}: {failure}"
            report.add(group, failure.partition(":")[0] or "held", failure and shown)

        attacks = list(stream_attacks(place, report))
        attacks += [lambda n=name: attack("names", n, with_a_name(n, copy(place))) for name in NAMES]
        record = json.loads((good / "run/run.json").read_text(encoding="utf-8"))
        attacks += [
            lambda p=path, t=text: attack("records", (p, t), with_a_record(p, t, copy(place)))
            for path in strings(record)
            if path != ("sha256",)
            for text in STRANGE
        ]
        for one in spread(attacks, count):
            one()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
