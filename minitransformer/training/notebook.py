"""A line of output in a notebook that is updated in place."""

import io
import time
from typing import Any

from rich.console import Console, RenderableType


class NotebookLine:
    """A line that each update replaces. Updates within `interval` seconds are skipped, except the last."""

    def __init__(self, interval: float = 0.2) -> None:
        self.interval = interval
        self.shown = -interval
        self.handle: Any = None

    def update(self, content: RenderableType, last: bool = False) -> None:
        """Show the content as plain text. If `last` is True, it is never skipped."""
        if time.monotonic() - self.shown < self.interval and not last:
            return
        from IPython.display import display

        console = Console(file=io.StringIO(), width=100, force_jupyter=False, force_terminal=False)
        console.print(content)
        data = {"text/plain": console.file.getvalue().strip()}  # type: ignore[attr-defined]
        if self.handle is None:
            self.handle = display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)
        self.shown = time.monotonic()
