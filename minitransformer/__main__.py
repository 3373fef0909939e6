"""The command `minitransformer`, also as `python -m minitransformer`.

Imports take a second. Ctrl-C during that time ends the process at once: nothing is written yet, and an
interrupted import would print a traceback.
"""

import os
import signal
import sys
import warnings

from . import startup


def main() -> int:
    """Import the verb's module, and run it; returns the exit code."""
    startup.let_openblas_use_avx512()
    startup.redirect_messages()
    before = signal.signal(signal.SIGINT, _stop)
    warnings.showwarning = startup.show_warning
    try:
        from . import cli

        if sys.argv[1:2] and sys.argv[1] in cli.VERBS:
            cli.load(sys.argv[1])
    except ImportError:
        if not startup.has_other_minigrad():
            raise
        print(f"error: {startup.OTHER_MINIGRAD}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, before)
    return cli.main()


def _stop(number: int, frame: object) -> None:
    os.write(2, b"stopped\n")
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
