"""Arguments that several verbs share."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, arg

from ..errors import UserError

RunFolder = Annotated[Path, Positional, arg(metavar="RUN", help="The run folder.", help_behavior_hint="")]
DataFile = Annotated[
    Path | None,
    arg(
        metavar="FILE",
        help="Your own file: the run's data, if it has moved, or other data.",
        help_behavior_hint="",
    ),
]
DataFolder = Annotated[
    Path | None,
    arg(
        metavar="DIR",
        help="A folder with the public data set; by default, it is downloaded.",
        help_behavior_hint="",
    ),
]
Checkpoint = Annotated[
    str,
    arg(
        metavar="NAME",
        help="The checkpoint: best, last, ema (the moving average at the last one), average:5 (the mean of "
        "the newest five), or a name such as step-00000400.",
    ),
]
Device = Annotated[
    str,
    arg(metavar="DEVICE", help="The device: cpu, cuda (or cuda:1), or auto, a GPU if there is one."),
]
Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]


@dataclass(frozen=True)
class FileOptions:
    """how --data is read"""

    format: str | None = None
    """The format of --data, if it differs from that of the run's data: see docs/your-data.md."""
    header: bool | None = None
    """Whether the first line of --data names its columns: --header or --no-header."""
    columns: str | None = None
    """The columns of --data to read, by name or number, such as 2,1."""

    def apply_to(self, data: Any) -> Any:
        """A run's [data] section with these options, to read another file."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        unknown = [name for name in known if not hasattr(data, name)]
        if unknown:
            raise UserError(f"--{unknown[0]} has no effect: this run does not read tables.\nLeave it out.")
        return replace(data, **known) if known else data


def check_can_write(file: Path, overwrite: bool) -> None:
    """Raise a UserError if a file cannot be written, or exists and must not be replaced."""
    if not file.parent.is_dir():
        raise UserError(f"there is no folder {file.parent}.\nCreate it, or choose another with -o FILE.")
    if file.is_dir():
        raise UserError(f"{file} is a folder.\nPass a file with -o FILE.")
    if file.exists() and not overwrite:
        raise UserError(
            f"{file} already exists.\nReplace it with --overwrite, or choose another with -o FILE."
        )
