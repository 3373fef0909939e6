"""Fit the weights that "Transformer Network" does not give to the numbers that it prints.

    python -m tools.by_hand        # writes minitransformer/explain/documents.safetensors

The text gives the embedding and the encoder's W_Q, W_K, W_V. Of the decoder it prints what comes out: both
tables of attention, the states, the scores of the first word, and the likeliest words after each prefix.
"""

from __future__ import annotations

import numpy as np

import minigrad as mg
from minigrad import optim
from minitransformer.explain.documents import SOURCE, TARGET, WEIGHTS, example, given_model, printed_arrays
from minitransformer.layers import MultiHeadAttention

SEED, STEPS, LR = 0, 3000, 0.03
# weight and bias of the last norm: the only ones (up to signs) from which the printed states can come, since
# rows that were normalized have mean 0 and variance 1
GAIN = 0.51269455, -1.76821358, -3.38266945, -0.53935111
SHIFT = 0.50309811, 0.84613152, -4.4546021, 1.14278129


def scores(printed: dict[str, np.ndarray]) -> np.ndarray:
    """Return the scores of all words: those printed, then logarithms of the probabilities.

    Words without a printed probability share the rest equally.
    """
    shares = printed["probabilities"]
    unknown = np.isnan(shares)
    rest = (1 - np.nansum(shares, -1)) / unknown.sum(-1).clip(1)
    found = np.log(np.where(unknown, rest[:, None], shares))
    found -= found.mean(-1, keepdims=True)
    found[0] = printed["scores"][0]
    return found


class Watched(MultiHeadAttention):
    """Attention that keeps its weights, with their gradient."""

    def attend(self, x, kv, mask, is_causal):
        self.seen = self.weights(x, kv, mask, is_causal)[0, 0]
        return super().attend(x, kv, mask, is_causal)


def fit() -> tuple[dict[str, np.ndarray], float]:
    """Return the weights, and the largest difference from a printed number."""
    mg.manual_seed(SEED)
    model, given = given_model()
    layer = model.decoder.layers[0]
    layer.self_attention.__class__ = layer.cross_attention.__class__ = Watched
    norm = layer.residual3.norm
    norm.weight.array[...], norm.bias.array[...] = GAIN, SHIFT
    printed = {name: np.array(rows, float) for name, rows in example("decoder")["printed"].items()}
    assert model.output is not None
    model.output.weight.array[...] = np.linalg.solve(printed["states"], scores(printed)).T
    fixed = [*given, norm.weight, norm.bias, model.output.weight]
    optimizer = optim.Adam([p for p in model.parameters() if all(p is not q for q in fixed)], LR)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    targets = {
        name: mg.tensor(printed[name].astype("float32"))
        for name in ("self-attention", "cross-attention", "states")
    }
    for _ in range(STEPS):
        optimizer.zero_grad()
        states = model.decode([TARGET], model.encode([SOURCE]))[0]
        found = {
            "self-attention": layer.self_attention.seen,
            "cross-attention": layer.cross_attention.seen,
            "states": states,
        }
        sum((found[name] - rows).square().sum() for name, rows in targets.items()).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    arrays = printed_arrays(model)
    worst = max(float(np.nanmax(np.abs(arrays[name] - rows))) for name, rows in printed.items())
    return {name: p.numpy() for name, p in model.named_parameters() if all(p is not q for q in given)}, worst


if __name__ == "__main__":
    from minigrad.io import save_file

    mg.kernels.use("numpy")
    weights, worst = fit()
    save_file(weights, WEIGHTS)
    print(
        f"{sum(w.size for w in weights.values())} numbers; at most {worst:.4f} from a printed one: {WEIGHTS}"
    )
