"""Error classes. The first line of a message says what is wrong, the second what to do.

Each class derives from the builtin error that a Python programmer would catch, and from RuntimeError, which
PyTorch raises for most mistakes (`tests/slow/parity/test_bad_calls.py` compares them).
"""

from typing import Any, NoReturn


def counted(n: int, noun: str, plural: str = "") -> str:
    """A number and a noun, in the plural if necessary: `1 step`, `1,000 steps`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {plural or noun + 's'}"


class MinigradError(RuntimeError):
    """The base class of minigrad's errors."""

    has_context = False  # whether the message names the op already


class ShapeError(MinigradError, ValueError):
    """Shapes that do not fit an operation."""


class GradientShapeError(ShapeError):
    """A gradient whose `shape` is not the `expected` shape of its input."""

    def __init__(self, shape: tuple[int, ...], expected: tuple[int, ...], node: object = "an op") -> None:
        super().__init__(
            f"the rule of {node} returned a gradient of shape {shape} for an input of shape {expected}.\n"
            f"It must return, for each array, a gradient of the array's shape or of the broadcast shape."
        )
        self.shape = shape
        self.expected = expected


class DtypeError(MinigradError, TypeError):
    """A dtype or a type that an operation does not support."""


class SignatureError(MinigradError, TypeError):
    """Arguments that do not match a signature: an unknown keyword, too many, too few."""


class RangeError(MinigradError, IndexError):
    """An index, an axis, an id or a class that is out of range."""


class OptionError(MinigradError, ValueError):
    """An invalid value of a setting."""


class ArgumentError(DtypeError, OptionError):
    """An argument of the wrong type: a float for an axis, a string for a flag."""


class SizesError(ArgumentError, ShapeError):
    """Sizes that are not integers."""


class OutOfMemoryError(MinigradError, MemoryError):
    """A tensor, or a model, that needs more memory than is available."""


class DeviceError(MinigradError, RuntimeError):
    """A device that does not exist, or tensors on different devices in one operation."""


class GraphError(MinigradError, RuntimeError):
    """A graph that backward() cannot use: freed, changed in place, or without any gradient."""


class DivisionError(MinigradError, ZeroDivisionError, RuntimeError):
    """Integer division by 0."""


class NonFiniteError(MinigradError, FloatingPointError, RuntimeError):
    """A NaN or an infinity where a finite number is needed, in these `modules` (innermost first)."""

    modules: tuple[Any, ...] = ()


class CaptureError(MinigradError, RuntimeError):
    """A step that cannot be recorded and replayed."""

    has_context = True


class StateError(MinigradError, RuntimeError):
    """A saved state that does not fit what it is loaded into."""


class MissingPathError(StateError, AttributeError):
    """A path, such as "encoder.layers.0", that does not exist in a module."""


class SetByInit:
    """An attribute that a base class's `__init__` sets; reading it before that raises a MissingPathError."""

    def __init__(self, fix: str) -> None:
        self.fix = fix

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        raise MissingPathError(f"super().__init__() of {owner.__name__} has not been called.\n{self.fix}")


class FileError(MinigradError, ValueError):
    """A file with unexpected contents."""


class MissingFileError(FileError, FileNotFoundError):
    """A file that does not exist."""


class MissingNameError(MinigradError, AttributeError):
    """A PyTorch name that minigrad does not have; the message says what to use instead."""


class MissingImportError(MinigradError, ImportError):
    """A PyTorch name that minigrad does not have, in `from minigrad import name`."""


class UnwritableFileError(FileError, OSError):
    """A file that cannot be written: the folder does not exist, the disk is full, ..."""

    def __str__(self) -> str:  # OSError would show errno
        return str(self.args[0])


class DependencyError(MinigradError, ImportError):
    """Raised if a package or program that is needed is not installed."""
