"""`python -m minigrad gradcheck [NAME ...]`: check the gradients of ops against finite differences.

The exit code is 0 if all gradients agree, 1 if at least one does not, and 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from . import more  # noqa: F401 - its operations are checked too
from .checks.check import check_settings
from .checks.every_op import Row, check_op
from .core.errors import MinigradError, OptionError
from .core.op import OpInfo, info_of, registry
from .ops import FUNCTIONS
from .ops.sample_calls import forms

ORDERS = {"1": (1,), "2": (2,), "both": (1, 2)}
USAGE = """usage: python -m minigrad VERB ...  (VERB --help says more)
  gradcheck  check derivatives against finite differences: python -m minigrad gradcheck softmax gelu"""

PARSER = argparse.ArgumentParser(
    "python -m minigrad gradcheck",
    description="Check the gradients of ops against finite differences, on the samples of each op.",
)
PARSER.add_argument("names", metavar="NAME", nargs="*", help="ops; all by default")
PARSER.add_argument(
    "--order", choices=ORDERS, default="both", help="first derivatives, second derivatives, or both"
)
PARSER.add_argument("--eps", type=float, default=1e-6, help="step of the differences (%(default)s)")
PARSER.add_argument("--seed", type=int, default=0, help="seed of the samples (%(default)s)")
PARSER.add_argument(
    "--fused", action="store_true", help="only fused kernels of ops with a readable definition"
)
PARSER.add_argument("--readable", action="store_true", help="only the readable definitions")


def main(argv: list[str] | None = None) -> int:
    """Run the verb of a command line (default: sys.argv), and return the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args[:1] != ["gradcheck"]:
        print(USAGE)
        return 0 if args and args[0] in ("-h", "--help", "help") else 2
    try:
        return gradcheck(**vars(PARSER.parse_args(args[1:])))
    except MinigradError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except SystemExit as done:  # argparse exits with 0 after --help, 2 for invalid options
        return int(done.code or 0)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 1


def gradcheck(names: Sequence[str], order: str, eps: float, seed: int, fused: bool, readable: bool) -> int:
    """Check the gradients of ops, print a table, and return the exit code."""
    check_settings(1, eps=eps)
    chosen = [_find_op(name) for name in names] or [r for _, r in sorted(registry.items()) if r.samples]
    wanted = {True: fused or not readable, False: readable or not fused}
    start = time.perf_counter()
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    rows = []
    with console.status("") as status:
        for op in chosen:
            status.update(op.name)
            kinds = [fuse for fuse in forms(op) if wanted[fuse] or len(forms(op)) == 1]
            rows += [check_op(op, ORDERS[order], eps, seed, fuse) for fuse in kinds]
    console.print(_table(rows, ORDERS[order]))
    failed = [row for row in rows if not row.passed]
    for row in failed:
        for failure in row.failures:
            print(f"{row.name}{' (readable)' * bool(row.form)}, {failure}")
    some = f"{len(rows) - len(failed)} of {len(rows)} pass" if failed else f"all {len(rows)} pass"
    left_out = [name for name, op in sorted(registry.items()) if not (names or op.samples)]
    print(f"{some}, {sum(row.elements for row in rows):,} elements in {time.perf_counter() - start:.1f} s")
    if left_out:
        print(f"without samples: {', '.join(left_out)}")
    return 1 if failed else 0


def _find_op(name: str) -> OpInfo:
    """Return the op with this name or alias. Raise an OptionError if there is none, or it has no samples."""
    op = registry.get(name) or info_of(FUNCTIONS.get(name))
    if op is None:
        near = difflib.get_close_matches(name, {*registry, *FUNCTIONS}, 3)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise OptionError(f"there is no op {name!r}.{meant}\nWithout names, all ops are checked.")
    if op.samples is None:
        raise OptionError(f"{op.name} has no samples to check.\nDefine the op with `samples=`.")
    return op


def _table(rows: list[Row], orders: tuple[int, ...]) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("op", no_wrap=True)
    for heading in ("samples", "elements", *(f"worst, order {order}" for order in orders)):
        table.add_column(heading, justify="right")
    table.add_column("verdict", no_wrap=True)
    table.add_column("ms", justify="right")
    for row in rows:
        errors = [f"{row.worst[order]:.0e}" if order in row.worst else "-" for order in orders]
        name = f"{row.name} ({row.form})" if row.form else row.name
        table.add_row(
            name, str(row.samples), str(row.elements), *errors, _verdict(row), f"{1e3 * row.seconds:.0f}"
        )
    return table


def _verdict(row: Row) -> str:
    if row.failures:
        return f"[red]wrong in {len(row.failures)} checks[/red]"
    if not row.worst:
        return "[dim]no derivative[/dim]"
    return f"agrees, {row.kinks} kinks" if row.kinks else "agrees"


if __name__ == "__main__":
    sys.exit(main())
