# %% [markdown]
# # 9. Why divide by the square root of d_k
#
# After this lesson you can derive how large a dot product is, say what softmax does with it, and say
# which gradients vanish without the division and which explode.
#
# "Attention Is All You Need", section 3.2.1:
#
# > We suspect that for large values of dₖ, the dot products grow large in magnitude, pushing the
# > softmax function into regions where it has extremely small gradients. To counteract this, we scale
# > the dot products by 1/√dₖ.
#
# The authors suspect it. We measure it, with $d_k = 512$ numbers in each query and key.

# %%
import math
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import MultiHeadAttention
from minitransformer.claims import Trial
from minitransformer.claims.experiments import sqrt_dk
from minitransformer.claims.translating import sentences
from minitransformer.explain.documents import examples


@dataclass
class Lesson(Settings):
    d_k: int = 512
    """Numbers in a query or key. Try 4 and 64."""
    guess: float | None = None
    """Your prediction: the mean of the largest of 10 weights, without the division."""


settings = read_settings(Lesson)

# %% [markdown]
# ## How large is a dot product?
#
# Let all numbers of $q$ and $k$ be independent, with mean 0 and variance 1. One product has mean $E[q_i
# k_i] = E[q_i]\,E[k_i] = 0$, because the two are independent. Its variance is
#
# $$\text{Var}(q_i k_i) = E[q_i^2 k_i^2] = E[q_i^2]\,E[k_i^2] = 1$$
#
# since the mean is 0, then since they are independent. Variances of independent terms add up:
#
# $$\text{Var}(q \cdot k) = \sum_{i=1}^{d_k} \text{Var}(q_i k_i) = d_k$$
#
# A number divided by $c$ has its variance divided by $c^2$. So $q \cdot k / \sqrt{d_k}$ has variance 1.

# %%
pairs = 5000
for d_k in (4, 64, 512):
    q, k = mg.randn(2, pairs, d_k)
    dots = (q * k).sum(-1)
    variance = dots.var().item()
    scaled = (dots / math.sqrt(d_k)).var().item()
    print(f"d_k = {d_k:3}: variance of q·k {variance:6.1f}, divided by the root {scaled:.3f}")
    check("the variance is d_k, and 1 after the division", abs(scaled - 1) < 0.15)

# %% [markdown]
# ## What softmax does with it
#
# Softmax sees only differences. A constant $c$ added to all scores cancels:
#
# $$\frac{e^{s_i + c}}{\sum_j e^{s_j + c}} = \frac{e^c e^{s_i}}{e^c \sum_j e^{s_j}}
# = \frac{e^{s_i}}{\sum_j e^{s_j}}$$
#
# So large scores do no harm. Large *differences* do: the ratio of two weights is $e^{s_i - s_j}$. Two
# independent scores of variance 512 differ by $\sqrt{2 \cdot 512} = 32$ (one standard deviation), and
# $e^{32}$ is $8 \cdot 10^{13}$.


# %%
def scales(d_k):
    """The factor of the scores in three designs."""
    return {"no scaling": 1.0, "1/√d_k": d_k**-0.5, "1/d_k": 1 / d_k}


def largest_weight(d_k, scale, queries=500, keys=10):
    """The mean of the largest of 10 weights."""
    q = mg.randn(queries, 1, d_k)
    k = mg.randn(queries, keys, d_k)
    return F.softmax(q @ k.mT * scale, -1).amax(-1).mean().item()


guess = predict(
    "10 random keys, d_k = 512, no scaling. The mean of the largest weight is (0.1 to 1)?", settings.guess
)
largest = {name: largest_weight(512, scale) for name, scale in scales(512).items()}
guess.compare(largest["no scaling"])
for name, weight in largest.items():
    print(f"{name:10}: {weight:.4f}")
check("unscaled, one key of ten takes over 90%", largest["no scaling"] > 0.9)
check("scaled by the root, it is the same at every size", abs(largest_weight(64, 1 / 8) - 0.32) < 0.04)
check("divided by d_k, all ten are alike", largest["1/d_k"] < 0.12)

# %% [markdown]
# ## Two documents' examples
#
# "Explain step by step ..." takes the softmax of 10, 11 and 10.5, and prints 0.01, 0.98, 0.01. But
# these three differ by 1 at most. "The Transformer Blueprint" lets two contestants in a talent show
# score 1,000,000 and 1,000,001, and says that softmax pushes one almost to 1. They differ by 1, too.
#
# Both mean the right thing. Their numbers are too small: 0.98 against 0.01 takes a difference of $\log
# 98 \approx 4.6$.

# %%
example = next(each for each in examples() if each["id"] == "why-scale")
softmax = lambda *scores: F.softmax(mg.tensor(scores, dtype="float64"), -1).numpy().round(2)
unscaled = softmax(*example["inputs"]["unscaled"])
print("10, 11, 10.5:", unscaled, "printed:", example["printed"]["unscaled"])
print("divided by 8:", softmax(*example["inputs"]["scaled"]), "printed:", example["printed"]["scaled"])
print("a million, and one more:", softmax(1_000_000, 1_000_001))
check("the middle one gets 0.51, not 0.98", unscaled[1] == 0.51)
check("a million and one more gets 0.73", softmax(1_000_000, 1_000_001)[1] == 0.73)
check("a difference of 4.6 would do it", softmax(0.0, 4.6, 0.0)[1] == 0.98)

# %% [markdown]
# ## The gradients: vanishing or excessive?
#
# The paper and four documents say that gradients vanish; "The Transformer architecture" says
# "excessively large". Let $w$ be the weights, and $g_j$ the loss's
# derivative for $w_j$. Softmax has $\partial w_j / \partial s_i = w_j ([i = j] - w_i)$ (lesson 5), so
#
# $$\frac{\partial L}{\partial s_i} = \sum_j g_j w_j ([i = j] - w_i)
# = w_i \Big(g_i - \sum_j w_j g_j\Big)$$
#
# If one weight is 1, every term is 0: the first factor, or the bracket. But $s = c\, q K^\top$ has
# another factor on the way to the query: $\partial L / \partial q = c \sum_i (\partial L / \partial
# s_i)\, k_i$. It is 1 without scaling, and $1/\sqrt{512} = 1/23$ with it. The same
# holds for $k$, $W_Q$ and $W_K$.


# %%
def query_gradients(d_k, scale, queries=500, keys=10):
    """The length of the gradient of each of many queries. Keys, values and the loss's gradient are random."""
    mg.manual_seed(settings.seed)  # the same draws for each scale, here and in the picture
    q = mg.randn(queries, 1, d_k, dtype="float64").requires_grad_()
    k = mg.randn(queries, keys, d_k, dtype="float64")
    v = mg.randn(queries, keys, 8, dtype="float64")
    output = F.scaled_dot_product_attention(q, k, v, scale=scale)  # (queries, 1, 8)
    output.backward(mg.randn(queries, 1, 8, dtype="float64"))
    return np.linalg.norm(q.grad.numpy()[:, 0], axis=-1)  # (queries,)


found = {name: query_gradients(512, scale) for name, scale in scales(512).items()}
print("gradient of a query    median     mean   largest 1% begin at")
for name, lengths in found.items():
    print(f"{name:20} {np.median(lengths):8.4f} {lengths.mean():8.2f} {np.quantile(lengths, 0.99):8.1f}")
none, root = found["no scaling"], found["1/√d_k"]
check("unscaled, the typical gradient is 10 times smaller or more", np.median(none) < np.median(root) / 10)
check("but the mean is larger", none.mean() > 2 * root.mean())
check("and the largest 1% are 10 times larger", np.quantile(none, 0.99) > 10 * np.quantile(root, 0.99))

# %% [markdown]
# Both are right, of different queries. For most queries one key has won, and the gradient vanishes. For
# a few, two keys are nearly level. Their softmax still has a slope, and no factor of 1/23 makes it
# smaller. One learning rate cannot serve both.


# %%
def histogram(d_k):
    """How long the gradients of queries are, with and without scaling."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    panel = figure.subplots()
    bins = np.linspace(-8, 3, 67)
    for name, scale in scales(d_k).items():
        lengths = np.maximum(query_gradients(d_k, scale), 1e-8)
        panel.hist(np.log10(lengths), bins, alpha=0.6, label=f"{name}: median {np.median(lengths):.2g}")
    panel.set(
        title=f"$d_k$ = {d_k}: without scaling (blue), the larger $d_k$, the wider gradients spread",
        xlabel="length of the gradient of a query ($10^x$; the first bar is $10^{-8}$ or less)",
        ylabel="queries",
    )
    panel.legend(loc="upper left")
    show(figure, "09-gradients", settings)


control(histogram, settings, d_k=(4, 1024))

# %% [markdown]
# Now in a translator at the start of training, with one head of $d_k = 64$. Its queries and keys are not
# random, and its gradients come from the loss. A query's gradient is small if it is less than a hundredth of
# the gradient at the output of its head, and large if it is larger than that one.
# `minitransformer claims sqrt-dk` trains such translators and compares their losses.

# %%
data = sentences(settings.seed)
start = {}
for arm in ("divided", "not divided"):
    model = sqrt_dk.build(Trial(arm, "d_k = 64", 0.0, settings.seed), data)
    start[arm] = sqrt_dk.query_gradients(model, data)
    largest_share = sqrt_dk.saturated(model, data)
    print(f"{arm:12} a weight above 0.95 {largest_share:4.0%}", end="")
    print("".join(f"   {name} gradient {part:4.0%}" for name, part in start[arm].items()))
divided, not_divided = start.values()
check("more gradients are small without the division", not_divided["small"] > divided["small"] + 0.1)
check("and more are large", not_divided["large"] > divided["large"] + 0.1)

# %% [markdown]
# ## Does it matter for learning?
#
# Sixteen queries, each to find one of sixteen keys. Queries and keys begin random. The values are unit
# vectors, so the output says where a query looks. Gradient descent changes the queries only.
#
# A fair comparison gives each design its own best learning rate, of seven from 0.001 to 1000.


# %%
def learn(scale, rate, d_k=512, steps=100, n=16):
    """The loss at each step, and the share of queries that look at the right key at the end."""
    q = mg.tensor(first_queries[:, :d_k].copy(), requires_grad=True)
    k = mg.tensor(all_keys[:, :d_k].copy())
    target = mg.tensor(np.eye(n)[np.roll(np.arange(n), 1)])
    optimizer = optim.SGD([q], lr=rate)
    losses = []
    for _ in range(steps):
        weights = F.softmax(q @ k.mT * scale, -1)
        loss = ((weights @ mg.eye(n, dtype="float64") - target) ** 2).sum(-1).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses, (weights.argmax(-1) == target.argmax(-1)).numpy().mean()


first_queries, all_keys = mg.randn(2, 16, 512, dtype="float64").numpy()
rates = [10.0**power for power in range(-3, 4)]
runs = {name: [learn(scale, rate) for rate in rates] for name, scale in scales(512).items()}
best = {name: min(tried, key=lambda run: run[0][-1]) for name, tried in runs.items()}
print("learning rate", *(f"{rate:7g}" for rate in rates), "  right at the best")
for name, tried in runs.items():
    print(f"{name:13}", *(f"{losses[-1]:7.3f}" for losses, _ in tried), f"{best[name][1]:7.0%}")
check("scaled by the root, all queries learn", best["1/√d_k"][1] == 1)
check("unscaled, most never learn, at any rate", max(right for _, right in runs["no scaling"]) < 0.5)
at_10 = {name: tried[4][0][-1] for name, tried in runs.items()}
check("at a rate of 10, the root learns, and d_k has hardly begun", at_10["1/√d_k"] < 0.5 < at_10["1/d_k"])

# %%
figure = Figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.subplots(1, 2)
for name, (losses, _) in best.items():
    left.plot(losses, label=f"{name}, rate {rates[runs[name].index(best[name])]:g}")
    right.plot(rates, [losses[-1] for losses, _ in runs[name]], "o-", label=name)
left.set(title="Each at its best rate: unscaled stays stuck", xlabel="step", ylabel="loss", ylim=(-0.1, 2.5))
right.set(
    title="No learning rate rescues it", xlabel="learning rate", ylabel="loss after 100 steps", xscale="log"
)
left.legend(loc="upper right")
right.legend()
show(figure, "09-learning", settings)

# %% [markdown]
# Dividing by $d_k$ learns, too, with a rate ten times or more as high: its softmax begins soft. The
# root is what keeps the variance at 1, whatever the size.
#
# ## A matter of where training begins
#
# The division changes nothing that a head can compute. Put the factor into $W_Q$:
#
# $$\frac{(x W_Q)(x W_K)^\top}{\sqrt{d_k}} = \Big(x \frac{W_Q}{\sqrt{d_k}}\Big)(x W_K)^\top$$
#
# So it sets the size of the scores at the beginning, and of the steps. T5 has no division: its $W_Q$
# begins smaller.

# %%
scaled = MultiHeadAttention(64, 1, bias=False)
plain = MultiHeadAttention(64, 1, bias=False, scale_scores=False)
plain.load_state_dict(scaled.state_dict())
x = mg.randn(1, 10, 64)
check(
    "without the division, the same weights do something else",
    not np.allclose(plain(x), scaled(x), atol=0.01),
)
with mg.no_grad():
    plain.in_proj_weight[:64] /= math.sqrt(64)  # W_Q; below it are W_K and W_V
check("with it in W_Q, the outputs are the same", np.allclose(plain(x), scaled(x), atol=1e-5))

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 15`: the gradients of attention for q, k and v.
# 2. The derivation needs q and k to be independent. Training makes them similar. If $q = k$, with
#    numbers of mean 0 and variance 1, what is the mean of $q \cdot k$? Which division would keep *it*
#    at 1? Then measure it.
#
# ## Read next
#
# - `minigrad/ops/attention.py`, `scaled_dot_product_attention`: where the scale goes, forward and
#   backward.
# - `minitransformer/models/t5.py`, `T5`: attention without the division.
# - Next lesson: `demos/lessons/10_many_heads.py`
