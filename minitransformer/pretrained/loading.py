"""Loads a model from a folder of the Hugging Face hub: config.json, and weights in safetensors files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.nn.shapes import shapes_only

from ..errors import UserError, check_choice, counted
from ..files import printable
from ..models.protocol import model_class
from .errors import PretrainedError, PretrainedWarning
from .family import Family, Settings, architecture_of, check_fixed, family
from .generation import read_generation
from .names import find
from .pooling import check_pooling
from .settings import read_settings
from .weights import FLOATS, StoredTensor, are_equal, listed, map_tensor, read, stored_tensors


def load_pretrained(
    folder: str | Path,
    *,
    head: str | None = None,
    num_labels: int | None = None,
    dtype: str = "float32",
    mmap: bool = False,
) -> Any:
    """Load the model in a folder of the Hugging Face hub, such as a GPT or a BERT, in evaluation mode.

    The folder has config.json and model.safetensors (or shards and their index). To fine-tune a BERT, `head`
    and `num_labels` replace its settings; a head that the file does not have gets initial weights. Weights
    are converted to `dtype`; "auto" keeps the dtype of the file. If `mmap` is True, they are views of the
    file where that is possible, and are read when they are first used.

    `generate` applies the model's generation_config.json, which is in its `generation_options`.

    Raises a PretrainedError for missing tensors and wrong shapes. A PretrainedWarning names tensors and
    settings that are not used, and new weights of a head.

        model = load_pretrained("gpt2")
    """
    folder = Path(folder)
    check_choice("dtype", dtype, ("auto", *FLOATS))
    content = read_settings(folder)
    kind = family(content)
    config = configure(folder, kind, content, head, num_labels)
    if getattr(config, "head", "") == "similarity":
        check_pooling(folder)
    architecture = architecture_of(content)
    stored = stored_tensors(folder, architecture)
    config = untied_if_different(kind, config, stored)
    has_new_head = head is not None or num_labels is not None
    with nullcontext() if has_new_head else shapes_only():
        model = _build(folder, kind, config)
    if not has_new_head:
        check_has_head(folder, model, kind, stored, architecture)
    _fill(folder, model, kind, stored, architecture, dtype, mmap, has_new_head)
    if hasattr(model, "new_cache"):  # the model generates text
        model.generation_options, _, ignored = read_generation(folder, content, model)
        if ignored:
            names = ", ".join(f"{key} = {value!r:.60}" for key, value in ignored.items())
            path = folder / "generation_config.json"
            where = path if path.is_file() else folder / "config.json"
            problem = f"{where}: not applied: {printable(names)}"
            warnings.warn(problem, PretrainedWarning, stacklevel=2)
    return model.eval()


def configure(
    folder: Path, kind: Family, content: Settings, head: str | None = None, num_labels: int | None = None
) -> Any:
    """Convert the content of a config.json to our configuration, with `head` and `num_labels` replaced.

    Raises a PretrainedError for settings that are invalid or not supported.
    """
    config_class = model_class(kind.ours).config_class
    try:
        content = kind.with_usual_names(content)
        check_fixed(content, kind.fixed)
        ends = content.get("eos_token_id")
        if isinstance(ends, list):  # `generation_options` has all of them
            content = {**content, "eos_token_id": ends[0] if ends else None}
        config = config_class(**kind.read_config(content))
        if unread := kind.unread(content, config):
            where = str(folder / "config.json")
            warnings.warn(f"{where}: settings not used: {listed(unread)}", PretrainedWarning, stacklevel=3)
        given = {"head": head, "num_labels": num_labels}
        changed = {name: value for name, value in given.items() if value is not None}
        known = [field.name for field in fields(config)]
        for name in changed:
            if name not in known:
                raise PretrainedError(f"a {kind.model_type} has no {name}.\nLeave {name} out.")
        return replace(config, **changed)
    except (UserError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        if isinstance(error, PretrainedError):
            raise
        problem, _, fix = str(error).partition("\n")
        where = str(folder / "config.json")
        raise PretrainedError(f"{where}: {problem}\n{fix or 'Download it again.'}") from None


def untied_if_different(kind: Family, config: Any, stored: dict[str, StoredTensor]) -> Any:
    """The configuration, with untied embeddings if the file has an output layer unlike the embedding.

    transformers does the same, whatever config.json says. Other copies of the embedding must equal it, or a
    PretrainedError is raised.
    """
    known = {*kind.copies, *kind.copies.values()}
    theirs = by_current_name(stored, kind, known)
    for number, (copy, original) in enumerate(kind.copies.items()):
        first, second = theirs.get(copy), theirs.get(original)
        is_output = number == 0 and hasattr(config, "tie_word_embeddings")
        if first is None or second is None or (is_output and not config.tie_word_embeddings):
            continue
        if are_equal(first, second):
            continue
        if not is_output:
            raise PretrainedError(
                f"{first.file} has a {copy} that differs from {original}, expected the same "
                f"matrix.\n"
                f"Choose a model whose embeddings are shared."
            )
        untied = kind.write_config(replace(config, tie_word_embeddings=False))
        config = type(config)(**kind.read_config(untied))
    return config


def _build(folder: Path, kind: Family, config: Any) -> Any:
    """Build the model of a configuration. Raise a PretrainedError if that fails."""
    try:
        return model_class(kind.ours)(config)
    except (MemoryError, OverflowError, ValueError) as error:
        problem = str(error).splitlines()[0] if str(error) else "out of memory"
        raise PretrainedError(
            f"{folder / 'config.json'} describes a model that cannot be built: "
            f"{problem}.\n"
            f"Compare its sizes with the model's documentation."
        ) from None


def check_has_head(
    folder: Path, model: Any, kind: Family, stored: dict[str, StoredTensor], found: str
) -> None:
    """Raise a PretrainedError if the stored model, of the class `found`, has no tensor of the head."""
    needed = kind.write_config(model.config)["architectures"][0]
    table = kind.names(model.config)
    sources = [find(table, name) for name in model.state_dict() if name.startswith("head.")]
    names = [name for source in sources if source for name in source.names]
    if found == needed or not names or not by_current_name(stored, kind, names).keys().isdisjoint(names):
        return
    raise PretrainedError(
        f"{folder} has a {found or 'model'} without {listed(names)}, expected a "
        f"{needed}.\n"
        f"Choose a model with that head, or add a new one to train, in Python: "
        f"save_pretrained(load_pretrained(FOLDER, num_labels=N), NEW_FOLDER)."
    )


def _fill(
    folder: Path, model: Any, kind: Family, stored: dict[str, StoredTensor], architecture: str, dtype: str,
    mmap: bool, has_new_head: bool,
) -> None:  # fmt: skip
    """Read the weights into a model. Names, shapes and dtypes are all checked before any weight is read."""
    config = model.config
    table = kind.names(config)
    own = model.state_dict()
    sources = {name: source for name in own if (source := find(table, name)) is not None}
    theirs = by_current_name(stored, kind, (n for source in sources.values() for n in source.names))
    missing = [name for name, source in sources.items() if not all(n in theirs for n in source.names)]
    zeros = kind.zeros if architecture == kind.body else ()
    zero = [name for name in missing if set(sources[name].names) <= set(zeros)]
    missing = [name for name in missing if name not in zero]
    absent = [n for name in missing for n in sources[name].names if n not in theirs]
    if missing and not (has_new_head and all(name.startswith("head.") for name in missing)):
        raise PretrainedError(
            f"{folder} has a {architecture or 'model'} that lacks "
            f"{counted(len(absent), 'tensor')} of a {type(model).__name__} with the settings of its "
            f"config.json: {listed(absent)}.\n"
            f"Choose a model of another class, or check that config.json and weights belong together."
        )
    sources = {name: source for name, source in sources.items() if name not in (*missing, *zero)}
    problems = []
    shapes = {}
    for name, source in sources.items():
        shapes[name] = source.their_shapes(tuple(own[name].shape), config, widths_of(model, name))
        for their_name, expected in zip(source.names, shapes[name], strict=True):
            found = theirs[their_name]
            if found.shape != expected:
                problems.append(f"{their_name} {found.shape}, expected {expected}")
            elif found.dtype not in FLOATS:
                problems.append(f"{their_name} of {found.dtype}, expected floating-point numbers")
    if problems:
        raise PretrainedError(
            f"{folder}: {counted(len(problems), 'tensor')} did not match config.json: "
            f"{listed(problems)}.\n"
            f"Check that config.json and weights belong together."
        )
    kept = "float32" if dtype == "auto" else dtype
    arrays: dict[str, Any] = {name: np.zeros(own[name].shape, kept) for name in zero}
    for name, source in sources.items():
        parts = [theirs[n] for n in source.names]
        target = parts[0].dtype if dtype == "auto" else dtype
        whole = mmap and all(part.dtype == target for part in parts)
        pieces = [map_tensor(part) if whole else read(part, target) for part in parts]
        arrays[name] = source.to_ours(pieces, tuple(own[name].shape))
    model.load_state_dict(arrays, strict=False, assign=True)
    used = {n for source in sources.values() for n in source.names}
    used |= kind.copies.keys()
    unused = [n for n in theirs if n not in used and not any(re.fullmatch(p, n) for p in kind.ignored)]
    if missing:
        warnings.warn(f"new weights, not from {folder}: {listed(missing)}", PretrainedWarning, stacklevel=3)
    if unused:
        warnings.warn(f"not used, of {folder}: {listed(unused)}", PretrainedWarning, stacklevel=3)


def by_current_name(
    stored: dict[str, StoredTensor], kind: Family, known: Iterable[str]
) -> dict[str, StoredTensor]:
    """The stored tensors by the names in the family's table.

    Names of older versions, and names without the family's prefix, are replaced if that makes them `known`.
    """
    known = set(known)
    found: dict[str, StoredTensor] = {}
    for name, tensor in stored.items():
        current = name
        for candidate in (name, f"{kind.prefix}{name}"):
            for pattern, replacement in kind.renamed.items():
                candidate = (
                    re.sub(pattern, replacement, candidate) if re.fullmatch(pattern, candidate) else candidate
                )
            if candidate in known or any(re.fullmatch(p, candidate) for p in kind.ignored):
                current = candidate
                break
        found.setdefault(current, tensor)
    return found


def widths_of(model: Any, name: str) -> tuple[int, ...]:
    """The numbers of rows of queries, keys and values in a packed projection; () for other parameters."""
    module, _, parameter = name.rpartition(".")
    if not parameter.startswith("in_proj_"):
        return ()
    queries, both = model.get_submodule(module).widths
    return (queries, both // 2, both // 2)
