"""NumPy's universal functions on Tensors: `ndarray * Tensor` and `np.exp(Tensor)` are minigrad's own ops.

So a formula written for arrays gives Tensors, with gradients, when it is given one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import DtypeError
from ..tensor import Tensor

# NumPy's names that are not PyTorch's
PYTORCH_NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "conjugate": "clone", "degrees": "rad2deg",
    "divide": "div", "equal": "eq", "fabs": "abs", "greater": "gt", "greater_equal": "ge", "invert":
    "bitwise_not", "left_shift": "bitwise_left_shift", "less": "lt", "less_equal": "le",
    "mod": "remainder", "multiply": "mul", "negative":
    "neg", "not_equal": "ne", "power": "pow", "radians": "deg2rad",
    "right_shift": "bitwise_right_shift", "rint": "round", "subtract": "sub",
}  # fmt: skip


def array_ufunc(functions: Mapping[str, Any]) -> Any:
    """`Tensor.__array_ufunc__`, which finds its ops among `functions`."""

    def __array_ufunc__(self: Tensor, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        out = settings.get("out")
        if out is not None:  # `array += tensor` changes the array, outside any graph
            arrays = [x.data if isinstance(x, Tensor) else x for x in inputs]
            if any(isinstance(x, Tensor) for x in out):
                raise DtypeError(f"np.{ufunc.__name__} does not write into a Tensor.\nUse its own methods.")
            plain = {name: x.data if isinstance(x, Tensor) else x for name, x in settings.items()}
            return getattr(ufunc, method)(*arrays, **plain)
        function = functions.get(PYTORCH_NAMES.get(ufunc.__name__, ufunc.__name__))
        if function is None or method != "__call__" or settings:
            call = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
            raise DtypeError(
                f"{call} has no counterpart on Tensors{' with these settings' if settings else ''}.\n"
                f"Use a function of minigrad, or np.{ufunc.__name__}(x.numpy()) outside the graph."
            )
        return function(*inputs)

    return __array_ufunc__
