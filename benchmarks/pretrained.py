"""A model of GPT-2's size (124M parameters, random weights): loading, text with a cache, 8-bit weights.

Loading is compared with reading the file into new memory, each time in a new process; text with PyTorch:
the `generate` of transformers, a loop with its cache, and a GPT without transformers. There are several ways
to do either, and the ratio is to the fastest. What 8 bits cost is measured on small trained models, since
random weights have no perplexity to lose.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import minigrad as mg
from minitransformer import GPT, GPTConfig, generate
from minitransformer.cli import main
from minitransformer.cli.evaluate import evaluate
from minitransformer.layers.quantized import bytes_of, quantize
from minitransformer.pretrained import load_pretrained, save_pretrained
from minitransformer.runs.imported import import_run
from minitransformer.runs.run import Run

from .cards import NotTrainedError, command
from .children import in_child
from .generation import SETTLE, DifferentTextError
from .measuring import CLOCKS, measure, ratios, spread
from .peaks import memory_growth
from .peers import missing
from .tables import Table

GPT2 = GPTConfig()
PROMPT = [list(range(100, 116))]
TOKENS = 32
LOADS = 9  # rounds, each with two new processes
TRAINED = (
    "shakespeare-char-cpu --steps 300",
    "shakespeare-char-cpu --tokenizer bpe --vocab-size 1000 --steps 300",
)  # with characters, the embedding is too small to be quantized


def write_folder(folder: Path, config: GPTConfig = GPT2) -> None:
    """A folder as on the Hugging Face hub, with weights that write a varied text; a tokenizer of bytes."""
    import tokenizers

    mg.manual_seed(0)
    model = GPT(config).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and not name.startswith("embedding"):
            parameter.array *= 100 if name.startswith("positions") else 4
    save_pretrained(model, folder)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}")


# ---------------------------------------------------------------- loading


def read_pieces(path: Path, size: int, keep: bool) -> list[np.ndarray]:
    """The file in new arrays of `size` bytes; without `keep`, through one array that is reused."""
    left = path.stat().st_size
    pieces = []
    with open(path, "rb", buffering=0) as file:
        piece = np.empty(size, np.uint8)
        while left:
            piece = np.empty(min(size, left), np.uint8) if keep else piece
            left -= file.readinto(piece)
            if keep:
                pieces.append(piece)
    return pieces


READERS: dict[str, Callable[[Path], Any]] = {
    "np.fromfile": lambda path: np.fromfile(path, np.uint8),
    "read_bytes": lambda path: path.read_bytes(),
    "arrays of 4 MiB": lambda path: read_pieces(path, 2**22, keep=True),
}
BUFFER = "a reused buffer"  # keeps nothing: what it takes to copy the file from the disk cache


def reading(folder: str, clock: str, way: str) -> float:
    """The seconds to read the weights' file."""
    path = Path(folder, "model.safetensors")
    reader = READERS.get(way, lambda path: read_pieces(path, 2**24, keep=False))
    return timed(lambda: reader(path), clock)[1]


def loading(folder: str, clock: str) -> tuple[float, float, int]:
    """The seconds to load the model, the MiB by which the process grows meanwhile, and the weights' bytes."""
    return grown_by(lambda: load_pretrained(folder), clock)


def opening(folder: str, clock: str) -> tuple[float, float, int]:
    """The same of a run folder."""
    return grown_by(lambda: Run(Path(folder)).model, clock)


def grown_by(load: Callable[[], Any], clock: str) -> tuple[float, float, int]:
    loaded: list[Any] = []
    grown, _ = memory_growth(lambda: loaded.append(timed(load, clock)))
    ((model, seconds),) = loaded
    return seconds, grown, bytes_of(model)


def timed(call: Callable[[], Any], clock: str) -> tuple[Any, float]:
    now = CLOCKS[clock]
    start = now()
    result = call()
    return result, now() - start


def load_tables(
    folder: Path, runs: dict[str, Path], threads: int, clock: str, kernels: str | None
) -> Iterator[Table]:
    """Times of loading and of reading in turns, with huge pages, which NumPy asks for, and without.

    With them, times vary several times as much, in some virtual machines.
    """
    for pages, setting in (("without huge pages", "0"), ("with huge pages, NumPy's default", "1")):
        child = partial(
            in_child, "pretrained", threads=threads, kernels=kernels, NUMPY_MADVISE_HUGEPAGE=setting
        )
        found = load_times(folder, clock, child)
        loads = [seconds for seconds, _, _ in found["load"]]
        fastest = min(READERS, key=lambda way: statistics.median(found[way]))
        table = Table(f"reading a GPT-2 (124M), {pages}: {LOADS} new processes of each, {clock} time")
        for way in (*READERS, BUFFER):
            table.rows[way] = {
                "ms": spread([1e3 * t for t in found[way]]),
                "load_pretrained / it": ratios(loads, found[way]),
                "": "the fastest that keeps the bytes" if way == fastest else "",
            }
        yield table
        memory = Table(f"loading a GPT-2 (124M), {pages}", {"load_pretrained": memory_row(found["load"])})
        for name, run in runs.items():
            memory.rows[name] = memory_row([child("opening", str(run), clock) for _ in range(5)])
        yield memory


def load_times(folder: Path, clock: str, child: Callable[..., Any]) -> dict[str, list[Any]]:
    """What `loading` and each way of `reading` returned, after a first turn that fills the disk cache.

    Each turn starts with another of them, so that none always follows the same one.
    """
    calls = {way: partial(child, "reading", str(folder), clock, way) for way in (*READERS, BUFFER)}
    calls["load"] = partial(child, "loading", str(folder), clock)
    found: dict[str, list[Any]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(1 + LOADS):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            found[name].append(calls[name]())
    return {name: each[1:] for name, each in found.items()}


def memory_row(found: list[tuple[float, float, int]]) -> dict[str, Any]:
    """Milliseconds, the weights' bytes, and the peak of memory beyond what was there before."""
    weights = found[0][2] / 2**20
    peak = statistics.median(grown for _, grown, _ in found)
    return {
        "loading, ms": spread([1e3 * seconds for seconds, _, _ in found]),
        "weights, MiB": weights,
        "peak, MiB": peak,
        "peak / weights": peak / weights,
    }


# ---------------------------------------------------------------- text


def writers(folder: str, threads: int, tokens: int = TOKENS) -> dict[str, Callable[[], list[int]]]:
    """Functions that write the text, by name: ours with 32 and 8 bits, and torch's."""
    full = load_pretrained(folder)
    small = quantize(load_pretrained(folder))
    found: dict[str, Any] = {
        "float32": lambda: generate(full, PROMPT, tokens)[0],
        "8 bits": lambda: generate(small, PROMPT, tokens)[0],
    }
    if missing("torch") is None:
        import torch

        from .peers.torch_generation import CachedGPT

        torch.set_num_threads(threads)
        state = {name: np.ascontiguousarray(t.numpy()) for name, t in full.state_dict().items()}
        plain = CachedGPT(full.config, state)
        found["torch"] = lambda: plain.generate(PROMPT, tokens)[0]
        if find_spec("transformers") is not None:
            found |= transformers_writers(folder, tokens)
    return found


def transformers_writers(folder: str, tokens: int) -> dict[str, Callable[[], list[int]]]:
    """The `generate` of transformers, and a loop with its cache."""
    import torch
    from transformers import DynamicCache, GPT2LMHeadModel

    model: Any = GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.tensor(PROMPT)

    @torch.inference_mode()
    def library() -> list[int]:
        options = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
        return model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0, ids.shape[1] :].tolist()

    @torch.inference_mode()
    def loop() -> list[int]:
        cache = DynamicCache(config=model.config)
        chosen = []
        new = ids
        for _ in range(tokens):
            logits = model(new, cache=cache, use_cache=True, logits_to_keep=1).logits
            new = logits[:, -1].argmax(-1, keepdim=True)
            chosen.append(new.item())
        return chosen

    return {"transformers": library, "transformers, a loop": loop}


def text(folder: str, repeats: int, seconds: float, threads: int, clock: str) -> dict[str, Any]:
    """Milliseconds per token of each writer in turns, and the ratios to the fastest of torch's."""
    steps = writers(folder, threads)
    texts = {name: write() for name, write in steps.items()}
    check_same(texts)
    times = measure(steps, repeats, seconds, SETTLE if threads > 1 else 0.0, clock)
    others = [name for name in times if name not in ("float32", "8 bits")]
    row: dict[str, Any] = {name: spread([1e3 * t / TOKENS for t in found]) for name, found in times.items()}
    if others:
        fastest = min(others, key=lambda name: statistics.median(times[name]))
        row["fastest of torch"] = fastest
        row["ratio, float32"] = ratios(times["float32"], times[fastest])
        row["ratio, 8 bits"] = ratios(times["8 bits"], times[fastest])
    return row


def check_same(texts: dict[str, Sequence[int]]) -> None:
    """Raise an error unless all wrote as much, a varied text, and with float32 the same one."""
    ours = list(texts["float32"])
    for name, found in texts.items():
        if len(found) != len(ours) or (name != "8 bits" and list(found) != ours):
            raise DifferentTextError(f"{name} writes another text than minigrad from the same weights.")
    if len(set(ours)) < len(ours) / 2:
        raise DifferentTextError(f"the text repeats itself, so that it compares nothing: {ours}.")


# ---------------------------------------------------------------- what 8 bits cost


def perplexities(words: list[str]) -> dict[str, float]:
    """Train a small model, and its perplexity on held-out text with float32 and with 8 bits."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as output:
        target = Path(folder) / "run"
        with contextlib.redirect_stderr(output):
            code = main(["train", *words, "--run-dir", str(target)])
        if code:
            raise NotTrainedError(output.getvalue())
        run = Run(target)
        splits = run.splits()
        before = evaluate(run, splits, save=False)["perplexity"]
        size = bytes_of(run.model)
        quantize(run.model)
        after = evaluate(run, splits, save=False)["perplexity"]
        return {"float32": before, "8 bits": after, "bytes": bytes_of(run.model) / size}


def quality(data_dir: Path | None, kernels: str | None) -> Table:
    table = Table("perplexity of held-out text, with float32 and with 8 bits")
    for case in TRAINED:
        words = command(case, data_dir)
        found = in_child("pretrained", "perplexities", words, kernels=kernels)
        change = f"{100 * (found['8 bits'] / found['float32'] - 1):+.2f}%"
        table.rows[case] = {
            "float32": f"{found['float32']:.4f}",
            "8 bits": f"{found['8 bits']:.4f}",
            "change": change,
            "weights, 8 bits / float32": found["bytes"],
        }
    return table


def pretrained(
    threads: Sequence[int] = (2,),
    repeats: int = 50,
    seconds: float = 20.0,
    clock: str = "wall",
    data_dir: Path | None = None,
    kernels: str | None = None,
) -> Iterator[Table]:
    """Loading and text for each number of threads, and what 8 bits cost."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "gpt2")
        runs = {"a run, float32": Path(temporary, "full"), "a run, 8 bits": Path(temporary, "small")}
        write_folder(folder)
        for run, bits in zip(runs.values(), (32, 8), strict=True):
            import_run(folder, run, bits=bits)
        yield from load_tables(folder, runs, max(threads), clock, kernels)
        table = Table(f"text of a GPT-2 (124M) with a cache, {TOKENS} tokens, greedy: ms a token")
        for number in threads:
            row = in_child(
                "pretrained", "text", str(folder), repeats, seconds, number, clock, threads=number,
                kernels=kernels,
            )  # fmt: skip
            table.rows[f"{number} thread{'s' if number > 1 else ''}"] = row
        if note := missing("torch"):
            table.notes.append(note)
        yield table
    yield quality(data_dir, kernels)
