"""Models of Hugging Face with our weights, and their gradients under the names of files."""

import importlib
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import save_pretrained
from minitransformer.pretrained.saving import family_of, their_tensors


def transformers():
    """The package, imported when a test first asks for it, since that takes seconds; a skip without it."""
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports may warn
        try:
            return importlib.import_module("transformers")
        except ImportError:
            pytest.skip('transformers is not installed: pip install -e ".[parity]"')


def as_theirs(ours):
    """The model of Hugging Face with our weights and settings, read from a folder."""
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(ours, Path(folder, "ours"))
        _, settings = family_of(ours)
        return getattr(transformers(), settings["architectures"][0]).from_pretrained(Path(folder, "ours"))


def assert_close(actual, expected, tolerance, where=""):
    """Equal to the tolerance, relative to the largest element where that is above 1."""
    scale = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance, err_msg=where)


def assert_same_gradients(theirs, ours, tolerance=1e-4):
    """Every gradient of ours is theirs, and they have no others; theirs take the place of their weights."""
    import torch
    from safetensors.numpy import load_file

    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.zeros_like(p) if p.grad is None else p.grad)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        expected = load_file(Path(folder, "model.safetensors"))
    kind, _ = family_of(ours)
    actual = their_tensors(ours, kind, {name: p.grad for name, p in ours.named_parameters()})
    for tensors in (actual, expected):
        tensors.pop("final_logits_bias", None)  # transformers does not train it
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        if kind.ours == "bart" and "embed_positions" in name:
            expected[name][:2] = 0  # rows that are never read
        assert_close(gradient, expected[name], tolerance, name)


def assert_same_training(ours, theirs, source, target, real, labels):
    """Of an encoder-decoder: the logits of real target tokens, the loss, and every gradient."""
    import torch

    tensors = map(torch.tensor, (source, source != ours.config.pad_token_id, target, real, labels))
    names = "input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels"
    expected = theirs(**dict(zip(names, tensors, strict=True)))
    expected.loss.backward()

    logits = ours(source, target, target_mask=mg.tensor(real))
    loss = F.cross_entropy(logits.flatten(0, 1), labels.ravel(), ignore_index=-100)
    loss.backward()
    np.testing.assert_allclose(
        logits.numpy()[real], expected.logits.detach().numpy()[real], rtol=0, atol=1e-5
    )
    assert loss.item() == pytest.approx(expected.loss.item(), abs=1e-5)
    assert_same_gradients(theirs, ours)


def randomized(model, std=0.2):
    """The model with each parameter moved off its first value, so that biases and norms count too."""
    rng = np.random.default_rng(0)
    for p in model.parameters():
        p.array += std * rng.normal(size=p.shape).astype(p.array.dtype)
    return model
