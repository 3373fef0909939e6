"""The gradient of every parameter, by finite differences."""

import dataclasses

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import Transformer
from tests.models.test_transformers import SOURCE, TARGET, TINY, jitter


@pytest.mark.parametrize("norm_first", [False, True])
def test_tiny_transformer_gradients_match_finite_differences(norm_first):
    # relu's kink would mislead; as small as two heads can be
    config = dataclasses.replace(TINY, d_model=4, d_ff=6, norm_first=norm_first, activation="gelu_new")
    model = jitter(Transformer(config).double())
    names, parameters = zip(*model.named_parameters(), strict=True)

    def loss(*values):
        for p, value in zip(parameters, values, strict=True):
            owner[id(p)].__dict__[attribute[id(p)]] = value
        logits = model(SOURCE, TARGET)
        return F.cross_entropy(logits.reshape(-1, 11), np.array([8, 9, 3, 4, 3, -100]), label_smoothing=0.1)

    owner = {id(p): m for m in model.modules() for p in m._parameters.values()}
    attribute = {id(p): n for m in model.modules() for n, p in m._parameters.items()}
    assert len(names) == 2 * 4 + 4 + 4 + 3 * 2 + 4 + 2 * 2 + 1 + (4 if norm_first else 0)
    values = [mg.tensor(p.numpy(), requires_grad=True) for p in parameters]
    report = mg.gradcheck(loss, values, atol=1e-7, rtol=1e-5)
    assert report.elements == sum(p.numel() for p in parameters)
    gradients = []
    for fused in (True, False):
        with mg.fused(fused):
            gradients.append(mg.autograd.grad(loss(*values), values))
    for name, kernels, definitions in zip(names, *gradients, strict=True):
        np.testing.assert_allclose(definitions.numpy(), kernels.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)
