"""What can go wrong, by name. The first line of a message says what is wrong, the second what to do."""


class MinigradError(Exception):
    """Any mistake that minigrad explains."""


class ShapeError(MinigradError, ValueError):
    """Shapes that do not fit an operation."""


class DtypeError(MinigradError, TypeError):
    """A dtype that an operation does not take."""


class GraphError(MinigradError, RuntimeError):
    """A graph that cannot be walked: freed, changed in place, or without a gradient to begin with."""
