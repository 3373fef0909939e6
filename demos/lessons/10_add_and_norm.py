# %% [markdown]
# # 10. Add & norm, and the feed-forward network
#
# **Why do twelve layers train?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762), sections
# 3.1 and 3.3)
#
# A layer of the paper's encoder has two *sub-layers*: attention, and a feed-forward network. Around each of
# them stands `LayerNorm(x + Sublayer(x))`. Neither the plus nor the norm looks important. We take each of
# them away.
#
# ## The feed-forward network
#
# `FFN(x) = max(0, x W₁ + b₁) W₂ + b₂`. Attention moves information between words. The feed-forward network
# works on each word alone, with the same weights at each place: it widens 512 numbers to 2048, sets the
# negative ones to 0 (ReLU), and narrows them again.

# %%
import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from minitransformer import plots
from minitransformer.claims import two_looks
from minitransformer.claims.experiments.gradient_flow import root_mean_square, states
from minitransformer.claims.sublayers import WAYS

mg.manual_seed(SEED)
up, down = nn.Linear(16, 64), nn.Linear(64, 16)
x = mg.randn(1, 5, 16)  # 5 words
order = [3, 0, 4, 1, 2]
moved = down(up(x[:, order]).relu())
same = mg.allclose(moved, down(up(x).relu())[:, order], atol=1e-6)
print("words in another order, results in that order:", same)
as_one = x @ (down.weight @ up.weight).T + down.weight @ up.bias + down.bias
print("without the ReLU, one matrix does the same:   ", mg.allclose(down(up(x)), as_one, atol=1e-5))
wide = nn.Conv1d(16, 64, kernel_size=1)
wide.load_state_dict({"weight": up.weight[:, :, None], "bias": up.bias})
print("a convolution of width 1 is the same as W₁:   ", mg.allclose(wide(x.mT).mT, up(x), atol=1e-5))

# %% [markdown]
# So the ReLU is what makes it more than one matrix. The feed-forward network has two thirds of an
# encoder layer's weights.
#
# ## The norm
#
# *Layer norm* takes the numbers of one word, subtracts their mean and divides by their standard deviation
# s, the typical distance from the mean. Two trained numbers for each column then stretch and shift the
# result. It ignores the size of its input: ten times x gives the same output. So through a norm, the
# gradient of ten times x is a tenth.

# %%
wanted = mg.randn(16)
for factor in (1, 10):
    scaled = (factor * x[0, 0]).detach().requires_grad_()
    normed = F.layer_norm(scaled, (16,))
    (normed * wanted).sum().backward()
    before, after = (each.std(correction=0).item() for each in (scaled, normed))
    print(
        f"{factor:2} x: deviation {before:5.2f} -> {after:.2f}, gradient {root_mean_square(scaled.grad):.3f}"
    )

# %% [markdown]
# What the norm ignores, its gradient cannot ask for. The norm ignores a shift of all numbers, so the
# gradient has no part along a shift: minus its mean. It ignores the size, so there is no part along the
# normed row h: minus h times the mean of g h. What is left is divided by s:
# `(g - mean(g) - h mean(g h)) / s`.

# %%
s, h, g = scaled.std(correction=0), normed.detach(), wanted
by_hand = (g - g.mean() - h * (g * h).mean()) / s
print("by hand and by tape differ by", f"{abs(by_hand - scaled.grad).max().item():.0e}")
assert mg.allclose(by_hand, scaled.grad, atol=1e-4)

# %% [markdown]
# ## The plus
#
# Without it, a word's vector is replaced by what a sub-layer returns. With it, the sub-layer only *adds* to
# the vector, which has a free way through the stack: a *residual connection*. Going back, the slope of x +
# f(x) is 1 + the slope of f. The 1 is the point. A product of 24 numbers near 0.5 vanishes; the gradient
# that came along the 1s is still there.
#
# ## Five stacks of twelve layers
#
# | name | around each sub-layer f |
# |---|---|
# | bare | `f(x)` |
# | norm only | `norm(f(x))` |
# | add only | `x + f(x)` |
# | post-norm | `norm(x + f(x))`, the paper |
# | pre-norm | `x + f(norm(x))`, most models of today |
#
# All are new, with random weights. A gradient of size 1 arrives at the top, and we measure what is left of
# it at each layer below.

# %%
guess = predict("in which stack does the least of the gradient arrive at the bottom?", choices=WAYS)
gradients, alike = {}, {}
for way in WAYS:
    layers = states(way, 12)
    gradients[way] = [root_mean_square(each.grad) for each in layers]
    between = root_mean_square(layers[-1] - layers[-1].mean(1, keepdim=True))
    alike[way] = between / root_mean_square(layers[-1])
    print(f"{way:10} the gradient at the bottom {gradients[way][0]:8.2g}; words differ by {alike[way]:.0%}")
guess.compare(min(WAYS, key=lambda way: gradients[way][0]))
figure = plots.curves(
    {"A gradient of size 1 comes from the top (right)": gradients}, xlabel="after layer (0 is the input)",
    ylabel="size of the gradient", yscale="log",
)  # fmt: skip
show(figure, "10-gradients")
assert gradients["bare"][0] < 0.01 < 100 < gradients["add only"][0]
assert all(1 / 20 < gradients[way][0] < 20 for way in ("post-norm", "pre-norm"))

# %% [markdown]
# Read the picture from right to left. *Bare* falls on its way down: nothing that the first layers do can be
# learned. *Add only* explodes: each layer adds, and nothing holds the sum. With both, the gradient keeps
# its size. "Norm only" looks harmless here, but see its second number: attention averages words, and with
# no plus to keep each word's own vector, all words of a sentence become one and the same.
#
# ## Does it matter for learning?
#
# A task for two layers. Each of six tokens is a number that names a place. Follow it twice: what stands at
# the place that is named at the place that the token names? One attention layer can look once.

# %%
tokens, answer = two_looks.examples(np.random.default_rng(SEED), 1)
print("tokens", tokens[0], " answers", answer[0])
for way, depth in (("pre-norm", 1), ("pre-norm", 2), ("pre-norm", 6), ("bare", 6)):
    mg.manual_seed(SEED)
    _, right = two_looks.train(two_looks.Looker(way, depth), 3e-3, 200, SEED, 50)
    end = np.mean(right[-20:])
    print(f"{depth} layers, {way:8}: {end:.0%} right")
    assert (end > 0.85) == (way == "pre-norm" and depth > 1)

# %% [markdown]
# One layer cannot do it, two can, and six can as well, although they need not. Six bare layers do worse
# than a single layer with plus and norm. (Each part alone, with more seeds:
# `minitransformer claims residuals` and `minitransformer claims norms`. Probes show what each layer of a
# stack knows: `minitransformer claims probes`.)
#
# ## Post-norm or pre-norm?
#
# The paper's norm stands *on* the free way, and divides what comes along it at each layer. Pre-norm leaves
# the way free, and needs one more norm after the last layer, because the sum has grown. In a small
# translator with four layers on each side, pre-norm reaches a loss of 2.0 where post-norm reaches 3.5, each
# at its best rate, and both need the warm-up of lesson 12. In a task like the one above, with twelve
# layers, pre-norm does without it (`minitransformer claims warm-up`).
#
# ## Change one line
#
# Build the stacks with 24 layers, `states(way, 24)`. Which curves get worse?
#
# <details><summary>Answer</summary>
#
# Only those that miss a part: in our run *bare* falls to 6e-07, and *add only* grows to 1e+08. Post-norm
# and pre-norm stay within a factor of ten.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn layer_norm` and `minitransformer learn residual_norm`.
#
# ## Summary
#
# - The feed-forward network works on each word alone; without its ReLU it would be one matrix.
# - The plus keeps a free way for values and gradients, and each word's own vector.
# - The norm keeps sizes near 1. Deep stacks need both.
#
# Next, the whole model: `minitransformer lesson 11`
