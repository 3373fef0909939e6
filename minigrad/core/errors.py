"""What can go wrong, by name. The first line of a message says what is wrong, the second what to do.

Each is also the builtin error that a Python programmer would catch for it, and a RuntimeError, which is what
PyTorch raises for most. `python -m tests.slow.parity.bad_calls` counts who raises what.
"""

from typing import Any


def counted(n: int, noun: str, plural: str = "") -> str:
    """`1 step`, `1,000 steps`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {plural or noun + 's'}"


class MinigradError(RuntimeError):
    """Any mistake that minigrad explains."""

    has_context = False  # whether it says already in which op it happened


class ShapeError(MinigradError, ValueError):
    """Shapes that do not fit an operation."""


class GradientShapeError(ShapeError):
    """A gradient that does not fit the input that it is for: `shape` and `expected` are the shapes."""

    def __init__(self, shape: tuple[int, ...], expected: tuple[int, ...], node: object = "an op") -> None:
        super().__init__(
            f"the rule of {node} returned a gradient of shape {shape} for an input of shape {expected}.\n"
            f"For each array it must return a gradient of the array's shape, or of the broadcast shape."
        )
        self.shape = shape
        self.expected = expected


class DtypeError(MinigradError, TypeError):
    """A dtype or a type that an operation does not take."""


class SignatureError(MinigradError, TypeError):
    """Arguments that a function does not have: an unknown keyword, one too many, one too few."""


class RangeError(MinigradError, IndexError):
    """An index, an axis, an id or a class that is not there."""


class OptionError(MinigradError, ValueError):
    """A setting outside the values that it may have."""


class ArgumentError(DtypeError, OptionError):
    """An argument of a kind that its parameter does not take: a float for an axis, a string for a flag."""


class SizesError(ArgumentError, ShapeError):
    """Sizes that are not integers."""


class OutOfMemoryError(MinigradError, MemoryError):
    """A tensor, or a model, that needs more memory than is available."""


class DeviceError(MinigradError, RuntimeError):
    """A device that is not there, or tensors of which one operation finds some on one and some on another."""


class GraphError(MinigradError, RuntimeError):
    """A graph that backward() cannot use: freed, changed in place, or without a gradient to begin with."""


class DivisionError(MinigradError, ZeroDivisionError, RuntimeError):
    """Integers divided by 0, which have no result."""


class NonFiniteError(MinigradError, FloatingPointError, RuntimeError):
    """A NaN or an infinity where a finite number is needed. `modules` ran it, the innermost first."""

    modules: tuple[Any, ...] = ()


class CaptureError(MinigradError, RuntimeError):
    """A step that cannot be recorded and replayed."""

    has_context = True


class StateError(MinigradError, RuntimeError):
    """A saved state that does not fit what it is loaded into."""


class MissingPathError(StateError, AttributeError):
    """A path, such as "encoder.layers.0", at which a module has nothing."""


class FileError(MinigradError, ValueError):
    """A file that does not hold what it should."""


class MissingFileError(FileError, FileNotFoundError):
    """A file that is not there."""


class MissingNameError(MinigradError, AttributeError):
    """A name of PyTorch's that is not here; the message says what to use instead."""


class MissingImportError(MinigradError, ImportError):
    """The same in `from minigrad import name`."""


class UnwritableFileError(FileError, OSError):
    """A file that cannot be written: the folder is none, the disk is full, ..."""

    def __str__(self) -> str:  # OSError's shows errno
        return str(self.args[0])


class DependencyError(MinigradError, ImportError):
    """A package or program that is not installed."""
