"""Compare the speed of this checkout with another one: both do the same work, in turns, in two processes.

    git worktree add ../before REVISION
    python -m tools.compare ../before                    # every row of `benchmarks steps`, one thread
    python -m tools.compare ../before overhead nano generate --turns 30

`overhead` is a chain of operations on 4x4 arrays, `generate` one text with a cache, `translate` and `beams`
20 sentences. Times are of the processor, on one core. A ratio is this checkout / the other, turn by turn:
median [quartiles].
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
STEPS = {"overhead": 2, "mlp": 40, "micro": 60, "tiny": 6, "nano": 3, "phrasebook": 3, "base": 1, "lstm": 1,
         "generate": 1, "translate": 1, "beams": 1}  # fmt: skip
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


class Checkout:
    """A process that works with the packages of one checkout."""

    def __init__(self, root: Path, kernels: str) -> None:
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--serve", kernels]
        environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(root)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=environment
        )

    def seconds(self, work: str, steps: int) -> float:
        """The processor time of a step."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([work, steps]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of {self.process.args} ended")
        return json.loads(answer)


def serve(kernels: str) -> None:
    """Do the work named on standard input; runs in the checkout's process."""
    sys.path[:] = [os.environ["PYTHONPATH"], *(p for p in sys.path if p != str(Path(__file__).parent))]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import minigrad as mg

    mg.kernels.use(kernels)
    mg.allocator.keep_freed_memory()
    known: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        work, steps = json.loads(line)
        step = known.get(work) or known.setdefault(work, step_of(work))
        start = time.process_time()
        for _ in range(steps):
            step()
        print(json.dumps((time.process_time() - start) / steps), flush=True)


def step_of(name: str) -> Callable[[], Any]:
    from benchmarks.overhead import mixed
    from benchmarks.peers import ours
    from benchmarks.works import work_of
    from minitransformer import generate

    if name == "overhead":
        return ours.chain(mixed)
    if name in ("translate", "beams"):
        model, texts = translator()
        return lambda: generate(model, texts, 32, num_beams=4 if name == "beams" else 1)
    work: Any = work_of("nano" if name == "generate" else name)
    model = work.model()
    if name == "generate":
        model.eval()
        return lambda: generate(model, [[1, 2, 3, 4]], max_new_tokens=60)
    makers = {
        "Decoder": ours.decoder,
        "Phrasebook": ours.phrasebook,
        "MLP": ours.mlp,
        "Recurrent": ours.recurrent,
    }
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    return makers[type(work).__name__](work, weights)


def translator() -> tuple[Any, list[list[int]]]:
    """A model of the phrasebook's size, whose texts differ in content and length, and 20 sentences."""
    import numpy as np

    import minigrad as mg
    from minitransformer import Transformer, TransformerConfig, generate

    mg.manual_seed(0)
    model = Transformer(TransformerConfig(4000, 128, 4, 512, 2, 2)).eval()
    end = model.config.eos_token_id
    rng = np.random.default_rng(1)
    texts = [[*rng.integers(4, 4000, n).tolist(), end] for n in rng.integers(5, 20, 100)]
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.array += rng.normal(scale=0.1, size=p.shape).astype(np.float32)
    written = np.concatenate(generate(model, texts, 32, eos_token_id=()))
    table = model.embedding.weight.array
    common = int(np.bincount(written).argmax())
    table[[end, common]] = table[[common, end]]  # a common token ends the texts
    return model, texts[:20]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path, help="the other checkout's folder")
    parser.add_argument("works", nargs="*", default=[*STEPS], help=f"of {', '.join(STEPS)}; all by default")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--kernels", default="jit", choices=("jit", "numpy"))
    options = parser.parse_args()
    if unknown := set(options.works) - STEPS.keys():
        parser.error(f"unknown work {', '.join(sorted(unknown))}: choose of {', '.join(STEPS)}")
    if not (options.other / "minigrad").is_dir():
        parser.error(f"{options.other} is not a checkout: it has no folder minigrad")
    pair = {
        "this": Checkout(HERE, options.kernels),
        "other": Checkout(options.other.resolve(), options.kernels),
    }
    for work in options.works:
        times: dict[str, list[float]] = {name: [] for name in pair}
        for checkout in pair.values():
            checkout.seconds(work, 2)
        for turn in range(options.turns):
            for name in [*pair][:: 1 if turn % 2 else -1]:
                times[name].append(pair[name].seconds(work, STEPS[work]))
        ratios = [a / b for a, b in zip(times["this"], times["other"], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        this, other = (1e3 * statistics.median(times[name]) for name in ("this", "other"))
        print(
            f"{work:19} {this:9.3f} ms here, {other:9.3f} ms there: "
            f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]",
            flush=True,
        )


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main()
