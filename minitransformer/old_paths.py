"""Import paths of modules before they were moved or split.

A module at an old path imports its new modules when the first name is used, so that `import minitransformer`
stays fast.
"""

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # of `typing`, which takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any

# package -> old module -> the modules that have its names now
MOVED: "dict[str, dict[str, tuple[str, ...]]]" = {
    "minitransformer": {
        "attention": ("layers.attention", "layers.attention_op"),
        "cache": ("layers.cache",),
        "config": ("base_config", "training.config", "layers.head_sizes", "layers.config"),
        "embeddings": ("layers.embeddings", "layers.positions"),
        "heads": ("layers.attention_op",),
        "kernels": ("layers.attention_kernel",),
        "layouts": ("text.tokenizer_presets",),
        "masks": ("layers.masks",),
        "positions": ("layers.positions", "layers.relative_positions"),
        "recording": ("inspection.recording",),
        "tokenizers": ("text.tokenizer",),
    },
    "minitransformer.inspection": {
        "card": ("runs.card",),
        "charts": ("cli.charts",),
        "checks": ("runs.checks",),
        "diagnostics": ("training.diagnostics", "plots.diagnostics"),
    },
    "minitransformer.training": {
        "curves": ("plots.curves",),
        "environment": ("runs.machine",),
        "evaluations": ("runs.evaluations",),
        "folder": ("runs.folder", "training.run_files"),
        "init_from": ("runs.init_from",),
        "memory": ("runs.memory_needed",),
        "readme": ("cli.readme",),
        "repetition": ("runs.original",),
        "run": ("runs.run",),
        "summaries": ("runs.summaries",),
    },
}

# module -> name that moved -> its module now
MOVED_NAMES = {
    "minitransformer.layers": {"EncoderDecoderModel": "models.encoder_decoder"},
    "minitransformer.training.validation": {"LiveRun": "runs.live"},
}


class MovedModule(ModuleType):
    """A module at its old path, which looks up names in the new modules."""

    def __init__(self, path: str, targets: tuple[str, ...]) -> None:
        super().__init__(path, f"Old path of {', '.join(f'minitransformer.{name}' for name in targets)}.")
        self._targets = targets

    def __getattr__(self, name: str) -> "Any":
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        modules = [import_module(f"minitransformer.{path}") for path in self._targets]
        if name == "__all__":
            return [name for module in modules for name in vars(module) if not name.startswith("_")]
        for module in modules:
            if name in vars(module):
                return vars(module)[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def add_old_paths(package: str) -> None:
    """Make the former modules of a package importable, also as its attributes."""
    for name, targets in MOVED[package].items():
        module = MovedModule(f"{package}.{name}", targets)
        sys.modules[module.__name__] = module
        setattr(sys.modules[package], name, module)


def moved_name(module: str, name: str) -> "Any":
    """The object of a name that moved, for a module's `__getattr__`."""
    if name not in MOVED_NAMES[module]:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(import_module(f"minitransformer.{MOVED_NAMES[module][name]}"), name)
