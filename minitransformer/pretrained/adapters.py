"""Reads and writes LoRA adapters without their model, in the format of peft."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import Tensor, no_grad
from minigrad.core.devices import on_cpu
from minigrad.io import save_file

from ..files import write_json
from ..layers.lora import PROJECTIONS, Adapter, LoRAAttention, LoRALinear, add_lora
from .errors import PretrainedError
from .names import find
from .saving import family_of, new_folder
from .settings import read_object
from .weights import header_of, listed, read

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."


def save_adapter(model: Any, folder: str | Path, base: str = "") -> None:
    """Write a model's adapters to a new folder, in the format of peft. `base` is the name of the model."""
    adapters = dict(_adapters(model))
    if not adapters:
        raise PretrainedError("the model has no adapters.\nAdd some with add_lora, or save the model itself.")
    tensors = {}
    for name, adapter in adapters.items():
        for part in ("lora_A", "lora_B"):
            matrix = getattr(adapter, part)
            tensors[f"{PREFIX}{name}.{part}.weight"] = np.asarray(on_cpu(matrix.array))
    first = next(iter(adapters.values()))
    rank = len(first.lora_A)
    content = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": first.factor * rank,
        "target_modules": sorted(adapters),
        "fan_in_fan_out": _is_transposed(model),
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
        "base_model_name_or_path": base,
    }
    with new_folder(Path(folder)) as partial:
        write_json(partial / CONFIG, content)
        save_file(tensors, partial / WEIGHTS, metadata={"format": "pt"})


@no_grad()
def load_adapter(model: Any, folder: str | Path) -> Any:
    """Add the adapters in a folder of peft to a model, and return the model.

    Raises a PretrainedError if they do not fit the model, or are not plain LoRA.
    """
    folder = Path(folder)
    content = read_object(folder / CONFIG)
    rank, alpha = content.get("r"), content.get("lora_alpha")
    if content.get("peft_type") != "LORA" or not isinstance(rank, int) or not isinstance(alpha, int | float):
        raise PretrainedError(
            f"{folder / CONFIG} does not describe LoRA adapters with a rank r and lora_alpha.\n"
            f"Choose a folder that save_adapter or peft wrote, with peft_type LORA."
        )
    unsupported = {"use_dora": False, "use_rslora": False, "rank_pattern": {}, "alpha_pattern": {}}
    for name, only in unsupported.items():
        if content.get(name) not in (None, only):
            raise PretrainedError(
                f"{folder / CONFIG} sets {name}, which is not supported.\nChoose plain LoRA."
            )
    stored = header_of(folder / WEIGHTS)
    add_lora(model, rank, float(alpha), ",".join(_targets(model, list(stored))))
    missing = []
    for name, adapter in _adapters(model):
        for part in ("lora_A", "lora_B"):
            own = getattr(adapter, part)
            tensor = stored.pop(f"{PREFIX}{name}.{part}.weight", None)
            if tensor is None or tensor.shape != own.shape:
                missing.append(f"{name}.{part} {tuple(own.shape)}")
            else:
                own.copy_(Tensor(read(tensor, "float32")))
    if missing or stored:
        problem = f"lacks {listed(missing)}" if missing else f"has {listed(stored)}, which the model does not"
        raise PretrainedError(f"{folder / WEIGHTS} {problem}.\nChoose the adapters of this model.")
    return model


def _adapters(model: Any) -> Iterator[tuple[str, Adapter]]:
    """Yield each adapter, with the name that its layer has in transformers."""
    table = family_of(model)[0].names(model.config)
    for path, module in model.named_modules():
        if isinstance(module, LoRALinear):
            yield _layer(table, f"{path}.weight", 0), module.adapter
        elif isinstance(module, LoRAAttention):
            for target in module.targets:
                number = PROJECTIONS.index(target) if target in PROJECTIONS else 0
                yield _layer(table, f"{path}.in_proj_weight", number, target), module.adapter(target)


def _layer(table: Any, weight: str, number: int, target: str = "") -> str:
    """The name in transformers of the layer that an adapter belongs to.

    `weight` is our parameter, which may stack several tensors, and `number` the index of the adapted one.
    Raises a PretrainedError if transformers has no such layer.
    """
    source = find(table, weight)
    if source is None or (len(source.names) > 1) != (target in PROJECTIONS):
        wanted = "in_proj" if target in PROJECTIONS else "q, k and v"
        raise PretrainedError(
            f"transformers has no layer for the adapter of {target or weight}.\nAdapt {wanted} instead."
        )
    return source.names[number].removesuffix(".weight")


def _is_transposed(model: Any) -> bool:
    """Whether transformers stores some of the model's matrices as (in, out)."""
    kind, _ = family_of(model)
    sources = [find(kind.names(model.config), name) for name in model.state_dict()]
    return any(source is not None and source.transposed for source in sources)


def _targets(model: Any, names: list[str]) -> list[str]:
    """The LoRA targets, such as "q", of the layers that these tensors of peft belong to."""
    table = family_of(model)[0].names(model.config)
    layers = {name.removeprefix(PREFIX).rpartition(".lora_")[0] for name in names}
    found: dict[str, None] = {}
    for name in model.state_dict():
        source = find(table, name)
        if source is None or not name.endswith(("weight", "in_proj_weight")):
            continue
        for number, their_name in enumerate(source.names):
            if their_name.removesuffix(".weight") in layers:
                module = name.removesuffix(".weight").rpartition(".")[2]
                stacked = PROJECTIONS[number] if len(source.names) > 1 else "in_proj"
                found[stacked if module == "in_proj_weight" else module] = None
    return list(found) or ["q"]
