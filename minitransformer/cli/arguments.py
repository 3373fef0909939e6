"""Arguments that several verbs share."""

from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

RunFolder = Annotated[Path, Positional, arg(metavar="RUN", help="The run folder.", help_behavior_hint="")]
DataFile = Annotated[
    Path | None,
    arg(
        metavar="FILE",
        help="A file of your own: where the run's data is now, or other data.",
        help_behavior_hint="",
    ),
]
DataFolder = Annotated[
    Path | None,
    arg(
        metavar="DIR",
        help="The folder of a public data set, instead of downloading it.",
        help_behavior_hint="",
    ),
]
Checkpoint = Annotated[
    str,
    arg(
        metavar="NAME",
        help="The checkpoint: best, last, ema (the moving average at the last one), average:5 (the mean of "
        "the newest five), or the name of one.",
    ),
]
Device = Annotated[
    str,
    arg(metavar="DEVICE", help="The device: cpu, cuda (or cuda:1), or auto, a GPU if there is one."),
]
Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]
