"""Runs of pretrained models: makes a run folder of a folder of the Hugging Face hub."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import NonFiniteError, optim

from ..data.image_processor import PROCESSOR
from ..data.splits import Sources
from ..errors import counted
from ..files import check_name
from ..layers.quantized import quantize
from ..pretrained import PretrainedError, load_pretrained
from ..pretrained.family import architecture_of, family, label_names
from ..pretrained.generation import read_generation
from ..pretrained.images import read_processor
from ..pretrained.pooling import max_length
from ..pretrained.settings import read_settings
from ..pretrained.tokenizers import load_tokenizer
from ..pretrained.weights import FLOATS, read, stored_tensors
from ..recipes import Recipe
from ..tasks import task_class
from ..training.checkpoint import Checkpoints, check_finite
from ..training.config import TrainConfig
from ..training.storage import lock
from .folder import RunError, begin, check_folder, new_record

TASKS = {  # the task of each type of model or, for BERT, of each head
    "gpt2": "language-modelling",
    "llama": "language-modelling",
    "t5": "translation",
    "bart": "translation",
    "transformer": "translation",
    "vit": "image-classification",
    "masked_lm": "masked-language-modelling",
    "classification": "classification",
    "token_classification": "tagging",
    "question_answering": "question-answering",
    "similarity": "similarity",
}


OTHER_HEADS = (
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice",
)  # fmt: skip


def import_run(
    source: Path, folder: Path, command: str = "", overwrite: bool = False, bits: int = 32
) -> Recipe:
    """Write a run folder with the model and the tokenizer of `source`. Return the run's recipe.

    The only checkpoint, step-00000000, has the weights in float32, or quantized if `bits` is 8.
    """
    if (folder / "run.json").exists() and not overwrite:
        raise RunError(
            f"{folder} already contains a run.\n"
            f"Replace it with --overwrite, or choose another folder with --run-dir DIR."
        )
    settings = read_settings(source)
    kind = family(settings)
    is_pretraining = architecture_of(settings) == "BertForPreTraining"  # no task uses the second head
    model = load_pretrained(source, head="masked_lm" if is_pretraining else None)
    check_head(model, settings)
    check_weights(model, source)
    tokenizer = None if model.model_type == "vit" else load_tokenizer(source)
    labels = labels_of(model, settings)
    recipe = recipe_of(folder, kind.model_type, model, tokenizer, max_length(source))
    lines = [f"{kind.model_type}, imported from {source}"]
    record = new_record(recipe, tokenizer, {}, Sources(), labels, None, command, lines)
    if model.model_type == "vit":
        record = replace(record, reading={PROCESSOR: asdict(read_processor(source, model.config))})
    suggested = read_generation(source, settings, model)[1] if hasattr(model, "new_cache") else {}
    if bits == 8:
        quantize(model)
    about = {
        "bits": bits,
        "folder": str(source.absolute()),
        "model_type": kind.model_type,
        "generation": getattr(model, "generation_options", {}),
        "suggested": suggested,
    }
    record = replace(record, imported=about)
    check_folder(folder, False, overwrite)
    with lock(folder):
        check_folder(folder, False, overwrite)
        begin(folder, record, recipe, tokenizer)
        checkpoints = Checkpoints(folder / "checkpoints", identity=record.identity)
        score = {"monitor": "loss", "value": None, "waited": 0}
        state = {"step": 0, "steps": 0, "seconds": 0.0, "best_score": score}
        checkpoints.save(0, model, optim.AdamW(model.parameters()), state, best=True)
    return recipe


def check_weights(model: Any, source: Path) -> None:
    """Raise a PretrainedError if a weight is not finite. It names the first such tensor of the file."""
    try:
        check_finite(model.state_dict(), str(source))
    except NonFiniteError:
        for name, tensor in stored_tensors(source).items():
            if tensor.dtype in FLOATS and not np.isfinite(read(tensor, "float32")).all():
                raise PretrainedError(
                    f"{tensor.file}: {name} contains infinity or NaN.\n"
                    f"The file is damaged, or was saved while its training diverged. Download it again, or "
                    f"choose an earlier checkpoint."
                ) from None
        raise


def check_head(model: Any, settings: dict[str, Any]) -> None:
    """Raise a PretrainedError if the head is not supported, or a classifier does not choose one class."""
    architecture = architecture_of(settings)
    others = ("ForMultipleChoice",) if hasattr(model.config, "head") else OTHER_HEADS
    if model.model_type != "vit" and architecture.endswith(others):
        raise PretrainedError(
            f"the head of {architecture} is not supported.\n"
            f"Choose a model with another head; load_pretrained reads this one without it."
        )
    if model.model_type != "vit" and getattr(model.config, "head", "") != "classification":
        return
    kind = settings.get("problem_type") or "single_label_classification"
    if kind != "single_label_classification" or model.config.num_labels < 2:
        raise PretrainedError(
            f"config.json has problem_type = {settings.get('problem_type')!r:.60} and "
            f"{counted(model.config.num_labels, 'label')}; runs choose one of several classes.\n"
            f"Load it with load_pretrained, and use its logits."
        )


def labels_of(model: Any, settings: dict[str, Any]) -> list[str]:
    """The names of a classifier's classes, or LABEL_0, LABEL_1, ... if config.json has no names.

    The list is empty for other models.
    """
    head = getattr(model.config, "head", "")
    if model.model_type != "vit" and head not in ("classification", "token_classification"):
        return []
    return label_names(settings) or [f"LABEL_{i}" for i in range(model.config.num_labels)]


def recipe_of(
    folder: Path, model_type: str, model: Any, tokenizer: Any, longest: int | None = None
) -> Recipe:
    """The recipe of an imported model: its task, and settings for data from the user's files."""
    name = TASKS.get(getattr(model.config, "head", model.model_type))
    if name is None:
        raise PretrainedError(
            f"no task uses a {model.model_type} with the head {model.config.head!r}.\n"
            f"Load it with load_pretrained instead."
        )
    task = task_class(name)
    data = replace(task.own_data(task.Data()), **_data_settings(task, model, tokenizer, longest))
    recipe_name = check_name(folder.resolve().name, "the name of the run folder")
    return Recipe(
        name, recipe_name, f"a pretrained {model_type}", data, model.config, TrainConfig(), model.model_type
    )


def _data_settings(task: Any, model: Any, tokenizer: Any, longest: int | None) -> dict[str, Any]:
    """The settings of [data] that depend on the model: the kind of tokenizer, and the maximum length."""
    found: dict[str, Any] = {} if tokenizer is None else {"tokenizer": tokenizer.kind}
    fields = task.Data.__dataclass_fields__
    longest = longest or getattr(model, "max_length", None)
    longest = longest or getattr(model.config, "max_position_embeddings", 512)
    for name in ("block_size", "max_length"):
        if name in fields:
            found[name] = longest
    if "max_tokens" in fields:
        found["max_tokens"] = max(fields["max_tokens"].default, longest)
    return found
