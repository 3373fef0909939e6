"""What CuPy has, read from CuPy itself: `python tests/slow/standin/names.py > tests/slow/standin/names.json`.

Its functions and methods with the names of their parameters, and which ufuncs can scatter (`add.at`). No GPU
is needed to read them.
"""

import inspect
import json
import re

PUBLIC_SPECIAL = ("erf", "erfc", "erfcx", "erfinv", "expit", "ndtri")


def parameters(function):
    """The names of a function's parameters; None where nothing says them."""
    try:
        return [name for name in inspect.signature(function).parameters if name != "self"]
    except (TypeError, ValueError):
        first = (function.__doc__ or "").strip().split("\n")[0]
        if not (found := re.match(r"[\w.]*\((.*)\)", first)):
            return None
        named = [re.split(r"[=:\[]", part)[0].strip().split(" ")[-1] for part in _split(found[1])]
        return [name for name in named if name not in ("self", "/", "*", "")]


def _split(arguments):
    """Arguments between commas that stand outside brackets."""
    return re.split(r",(?![^(\[]*[)\]])", arguments)


def of_module(module, ufunc):
    """name -> parameters of its functions; of a ufunc {"scatters": whether it has `at`}."""
    found = {}
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or inspect.isclass(value) or inspect.ismodule(value):
            continue
        if isinstance(value, ufunc):
            found[name] = {"scatters": value._scatter_op is not None}
        elif callable(value):
            found[name] = parameters(value)
    return found


def _is_plain(name, value):
    """Whether it is a constant, a dtype or another class of NumPy's."""
    return not name.startswith("_") and (isinstance(value, float) or value is None or inspect.isclass(value))


def of_cupy():
    import cupy
    import cupyx.scipy.special

    methods = {
        name: parameters(value)
        for name in sorted(dir(cupy.ndarray))
        if not name.startswith("_") and callable(value := getattr(cupy.ndarray, name))
    }
    modules = {"": cupy, "linalg": cupy.linalg, "lib.stride_tricks": cupy.lib.stride_tricks}
    special = [name for name in PUBLIC_SPECIAL if hasattr(cupyx.scipy.special, name)]
    return {
        "version": cupy.__version__,
        "ndarray": methods,
        "plain": [name for name in sorted(vars(cupy)) if _is_plain(name, getattr(cupy, name))],
        "special": special,
        **{name: of_module(module, cupy.ufunc) for name, module in modules.items()},
    }


if __name__ == "__main__":
    print(json.dumps(of_cupy(), separators=(",", ":"), sort_keys=True).replace('},"', '},\n"'))
