"""Train each script under PyTorch and minigrad, and print how far apart they are and how long each took.

python -m tests.slow.parity.scripts [NAME ...] [--steps 200] [--scale 2] [--dtype float32] [--repeats 1]

"its own" is how far PyTorch comes from itself when it begins with weights that are larger by one rounding: no
library can be expected to be nearer. With OMP_NUM_THREADS=1 both use one core.
"""

import argparse

import numpy as np
import torch  # noqa: F401

import minigrad  # noqa: F401  (both libraries are looked up in sys.modules)

from . import both


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.slow.parity.scripts", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(both.NAMES)} (default: all)")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--scale", type=int, default=2, help="multiplies widths")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--repeats", type=int, default=1, help="the least time of so many runs counts")
    options = parser.parse_args()
    columns = ("steps", "difference", "its own", "in weights", "PyTorch", "minigrad", "ratio")
    print(f"{'script':24}" + "".join(f"{column:>12}" for column in columns))
    for name in options.names or both.NAMES:
        state = both.initial_state(name, options.dtype, options.scale)
        run = lambda library, state=state, name=name: both.run(
            name, library, options.dtype, options.steps, state, options.scale
        )
        for library in ("torch", "minigrad"):  # what is compiled or cached at first is not timed
            both.run(name, library, options.dtype, 2, state, options.scale)
        theirs, ours = (
            min((run(library) for _ in range(options.repeats)), key=lambda r: r.seconds)
            for library in ("torch", "minigrad")
        )
        difference = both.largest_difference(ours.history, theirs.history)
        rounded = {
            key: x * (1 + np.finfo(x.dtype).eps) if x.dtype.kind == "f" else x for key, x in state.items()
        }
        own = both.largest_difference(run("torch", rounded).history, theirs.history)
        weights = both.largest_difference(ours.state, theirs.state)
        print(
            f"{name:24}{options.steps:12}{difference:12.1e}{own:12.1e}{weights:12.1e}{theirs.seconds:11.2f}s{ours.seconds:11.2f}s"
            f"{ours.seconds / theirs.seconds:12.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
