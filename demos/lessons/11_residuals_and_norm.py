# %% [markdown]
# # 11. Add & norm
#
# After this lesson you can say what a residual connection and a layer norm do to the gradient of a deep
# stack, what goes wrong without each of them, and what more layers are good for.
#
# "Attention Is All You Need", section 3.1:
#
# > That is, the output of each sub-layer is LayerNorm(x + Sublayer(x)), where Sublayer(x) is the
# > function implemented by the sub-layer itself.
#
# That is post-norm. Most models of today are pre-norm: x + Sublayer(LayerNorm(x)). This lesson measures
# both, and each part alone.

# %%
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from minitransformer import attention_distance, probe_layers, record_attention
from minitransformer.claims import two_looks
from minitransformer.claims.experiments.gradient_flow import root_mean_square, states
from minitransformer.claims.sublayers import WAYS, Around
from minitransformer.layers import LayerConfig, Residual


@dataclass
class Lesson(Settings):
    depth: int = 12
    """The number of layers. Try 3, 6 and 24."""
    steps: int = 200
    """Training steps of each small model. Try 50."""
    guess: float | None = None
    """Your prediction: the part of the gradient that gets through 12 bare layers."""


settings = read_settings(Lesson)

# %% [markdown]
# ## Five ways to put a function into a stack
#
# A layer of the encoder has two sub-layers: attention and feed-forward. `Around` puts one of them, f,
# into the stack:
#
# | way | output |
# |---|---|
# | bare | `f(x)` |
# | norm only | `norm(f(x))` |
# | add only | `x + f(x)` |
# | post-norm | `norm(x + f(x))` |
# | pre-norm | `x + f(norm(x))` |
#
# The last two are the library's `Residual`; the first three leave something out.

# %%
D = 32
x = mg.randn(2, 5, D)
f = nn.Linear(D, D)
for way in ("post-norm", "pre-norm"):
    ours = Around(D, way)(x, f)
    library = Residual(LayerConfig(D, 4, 4 * D, norm_first=way == "pre-norm"))(x, f)
    check(f"{way} is the library's Residual", np.allclose(ours.numpy(), library.numpy(), atol=1e-6))

# %% [markdown]
# ## What the norm does
#
# Layer norm takes the vector of one token, subtracts its mean $\mu$ and divides by its standard
# deviation $\sigma$. Two forms are in print. "Transformer Network" divides by $\sqrt{\sigma^2 +
# \epsilon}$, "The Transformer architecture" by $\sigma + \epsilon$. They differ only for a vector that
# is almost constant. PyTorch and this library use the first.
#
# The size of x does not matter to it, which has a consequence for the gradient. For $c > 0$ and a small
# $\epsilon$,
#
# $$\mathrm{LN}(c\,x) = \mathrm{LN}(x) \quad\Rightarrow\quad c\,\mathrm{LN}'(c\,x) = \mathrm{LN}'(x)
# \quad\text{(the chain rule, on both sides)}$$
#
# so an input that is $c$ times as large gets a gradient that is $c$ times as small.

# %%
EPS = 1e-5


def under_the_root(v):
    return (v - v.mean()) / np.sqrt(v.var() + EPS)


def beside_the_root(v):
    return (v - v.mean()) / (v.std() + EPS)


token = np.random.default_rng(settings.seed).standard_normal(D)
differences = {}
for size in (1.0, 0.001):
    a, b = under_the_root(size * token), beside_the_root(size * token)
    differences[size] = abs(a - b).max()
    print(f"a vector of size {size:g}: deviation {a.std():.3f} and {b.std():.3f}")
check("on an ordinary vector, both forms give deviation 1", abs(a.std() - b.std()) > 0.3 > differences[1.0])

# %%
target = mg.randn(5, D)


def gradient_of(c):
    scaled = (c * x[0]).detach().requires_grad_()  # (T, D)
    (F.layer_norm(scaled, (D,)) * target).sum().backward()
    return float((scaled.grad**2).mean() ** 0.5)


ratio = gradient_of(1.0) / gradient_of(10.0)
print(f"an input 10 times as large: a gradient {ratio:.2f} times as small")
check("the gradient through a norm falls as the input grows", abs(ratio - 10) < 0.1)

# %% [markdown]
# ## What the residual does
#
# Let $J_i$ be the Jacobian of sub-layer $i$, the matrix of the derivatives of its outputs by its
# inputs. The chain rule multiplies the Jacobians of a stack; with $y = x + f(x)$, each gets the
# derivative of $x$ by itself, $I$, added:
#
# $$\text{bare:}\quad \frac{\partial y}{\partial x} = J_n \cdots J_2 J_1 \qquad
# \text{add:}\quad \frac{\partial y}{\partial x} = (I + J_n) \cdots (I + J_1) = I + \sum_i J_i + \dots$$
#
# If each $J_i$ shrinks a vector, the bare product shrinks exponentially. The other contains $I$. That is a
# help, not a guarantee: $J_i = -I$ would still give 0.

# %%
rng = np.random.default_rng(settings.seed)
bare, added = np.eye(D), np.eye(D)
for _ in range(24):  # 12 layers of two sub-layers; each halves a vector on average
    J = 0.5 * rng.standard_normal((D, D)) / np.sqrt(D)
    bare = J @ bare
    added = (np.eye(D) + J) @ added
print(f"the product of 24: {np.linalg.norm(bare):.1e}; with I added to each: {np.linalg.norm(added):.1e}")
check("without I, the product vanishes", np.linalg.norm(bare) < 1e-5)
check("with I, it does not vanish, it grows", np.linalg.norm(added) > 10)

# %% [markdown]
# So with random $J_i$ a residual alone keeps the gradient from vanishing, and invites an exploding one.
#
# ## Twelve real layers
#
# Now the encoder's own layers, as they are initialized. A random gradient of size 1 arrives at the
# output. We follow it down, and the values up. (`states` is of an experiment that you can run with other
# seeds, `minitransformer claims gradient-flow`.)


# %%
def measure(way, depth):
    """Sizes of the gradients and of the values after 0 to `depth` layers, and how much tokens differ."""
    found = states(way, depth)  # each (B, T, D)
    gradients = [root_mean_square(x.grad) for x in found]
    values = [root_mean_square(x) for x in found]
    between = [root_mean_square(x - x.mean(1, keepdim=True)) for x in found]  # tokens of a text
    return gradients, values, [part / whole for part, whole in zip(between, values, strict=True)]


# %%
guess = predict(
    "12 bare layers, a gradient of size 1 at the output. What size has it at the input?",
    settings.guess,
)
found = {way: measure(way, 12) for way in WAYS}
guess.compare(found["bare"][0][0])
for way, (gradients, values, _) in found.items():
    print(f"{way:10} gradient at the input {gradients[0]:8.2g}   values at the output {values[-1]:8.2g}")

check("bare: the gradient vanishes, by more than 99%", found["bare"][0][0] < 0.01)
check("add only: the gradient explodes, more than a hundredfold", found["add only"][0][0] > 100)
for way in ("post-norm", "pre-norm"):
    check(f"{way}: the gradient keeps its size, within a factor of 20", 1 / 20 < found[way][0][0] < 20)

# %% [markdown]
# "Transformer Network" says that residuals prevent vanishing gradients. They do. Alone, they make the
# gradient explode. "The Transformer architecture" says that the norm avoids that, and it does.
#
# ## What the gradient does not show
#
# "Norm only" has a decent gradient, too. Its fault is another. Attention averages tokens. Without the
# residual, each layer replaces a token by an average, and after a few layers all tokens of a text are
# the same vector. The third panel shows it. (The picture draws new weights: how far "add only" explodes
# differs a lot between draws.)


# %%
def picture(depth):
    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = figure.subplots(1, 3)
    for way in WAYS:
        for panel, sizes in zip(panels, measure(way, depth), strict=True):
            panel.plot(range(depth + 1), sizes, label=way, lw=2, ls="-" if "-norm" in way else "--")
    titles = (
        "Gradient: bare vanishes,\nadd only explodes",
        "Values: with a norm they stay bounded,\nor grow slowly",
        "Difference between tokens:\nwithout the residual, all become alike",
    )
    for panel, title in zip(panels, titles, strict=True):
        panel.set(title=title, xlabel="after layer (0 = the input)", yscale="log")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("root mean square")
    panels[2].set_ylim(1e-8, 3)
    panels[0].legend()
    show(figure, "11-depth", settings)


control(picture, settings, depth=(1, 24))
check("norm only: after 12 layers all tokens of a text are alike", found["norm only"][2][-1] < 0.001)
check(
    "pre-norm keeps tokens apart better than post-norm", found["pre-norm"][2][-1] > found["post-norm"][2][-1]
)

# %% [markdown]
# ## One layer against six
#
# What is depth for? A task that needs two looks. Each token is a number that names a position, so
# $x[x[i]]$ is what stands at the position that token i names. One layer of attention can fetch that. We
# ask for one look more, $x[x[x[i]]]$. It starts from what the first look found, so one layer must fail,
# and two may do.


# %%
x, answer = two_looks.examples(np.random.default_rng(settings.seed), 1)
once = x[0][x[0]]
print(f"x          {x[0]}\nx[x[i]]    {once}\nx[x[x[i]]] {answer[0]}")
check("the second look starts from what the first found", (answer[0] == x[0][once]).all())


# %%
def train(way, depth, steps=settings.steps, warmup=50):
    """A trained model, and the part of right answers in each step, which are all on new data."""
    model = two_looks.Looker(way, depth)  # embeddings, `depth` encoder layers, a last norm, an output layer
    _, right = two_looks.train(model, 3e-3, steps, settings.seed, warmup)  # Adam: lesson 14
    return model, right


# %% [markdown]
# Five models: one, two and six pre-norm layers, and six layers with a part left out. A guess would be
# right for one token in six.

# %%
MODELS = (("pre-norm", 1), ("pre-norm", 2), ("pre-norm", 6), ("bare", 6), ("add only", 6))
trained = {model: train(*model) for model in MODELS}
curves = {model: right for model, (_, right) in trained.items()}
scores = {model: float(np.mean(right[-20:])) for model, right in curves.items()}
for (way, depth), score in scores.items():
    print(f"{depth} layers, {way}: {score:.0%} right at the end")

figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
for (way, depth), right in curves.items():
    smooth = np.convolve(right, np.ones(10) / 10, "valid")
    axes.plot(smooth, "-" if way == "pre-norm" else "--", label=f"{depth} x {way}", lw=2)
axes.axhline(1 / two_looks.T, color="grey", ls=":", label="guessing")
axes.set(
    title="Two looks need two layers, with residual and norm", xlabel="step", ylabel="right", ylim=(0, 1.03)
)
axes.legend()
show(figure, "11-training", settings)

# %%
if settings.steps >= 200:
    one, two, six = (scores["pre-norm", depth] for depth in (1, 2, 6))
    check("one layer cannot look twice: it stays below 80%", one < 0.8)
    check("two layers can, and so can six: above 90%", min(two, six) > 0.9)
    check("without residual and norm, six layers do worse than one", scores["bare", 6] < one)
    check(
        "with the residual alone, too: the gradient that explodes teaches nothing",
        scores["add only", 6] < one,
    )

# %% [markdown]
# "Transformers - Attention Is All You Need" says that residuals make "deep networks (6+ layers)
# trainable". Here that holds with the norm, and fails without it. Six layers are not better than two,
# because the task needs two. They cost three times as much.
#
# ## What each layer knows
#
# "Transformer Network" says that early layers learn local patterns, middle layers phrases, late ones
# the whole sentence. We ask our six layers. A *probe* is a linear model that reads something from the
# states of one layer. The *logit lens* applies the output layer to them, as if it came next. The
# *attention distance* is how far a layer looks. (To guess $x[i]$ is right for 54% of the answers.)

# %%
six_layers = trained["pre-norm", 6][0].eval()
x, answer = two_looks.examples(np.random.default_rng(settings.seed + 1), 400)
first_look = np.take_along_axis(x, x, axis=1)  # x[x[i]], which the answer needs
with mg.no_grad(), record_attention(six_layers) as maps:
    after = {"embedding": six_layers.embed(x)}
    for i, layer in enumerate(six_layers.layers, 1):
        after[f"layer {i}"] = layer(list(after.values())[-1])
    lens = [(six_layers.output(each).numpy().argmax(-1) == answer).mean() for each in after.values()]
distances = [attention_distance(weights).mean() for weights in maps.values()]
probes = {
    name: probe_layers(after, labels).accuracy
    for name, labels in (("the first look", first_look), ("the answer", answer))
}
for i, name in enumerate(after):
    told = ", ".join(f"{what} {accuracy[i]:.0%}" for what, accuracy in probes.items())
    looks = f", looks {distances[i - 1]:.1f} tokens far" if i else ""
    print(f"{name:10} a probe reads: {told}; the lens {lens[i]:.0%}{looks}")

figure = Figure(figsize=(7, 3.8), layout="constrained")
axes = figure.subplots()
for name, accuracy in probes.items():
    axes.plot(accuracy, "o-", label=f"probe for {name}")
axes.plot(lens, "s--", label="logit lens")
axes.axhline(1 / two_looks.T, color="grey", ls=":", label="guessing")
axes.set(title="The first look is known before the answer", ylabel="right", ylim=(0, 1.03))
axes.set_xticks(range(len(after)), list(after))
axes.legend()
show(figure, "11-layers", settings)

if settings.steps >= 200:
    check("before the last look, a probe knows little more than x[i] tells", probes["the answer"][1] < 0.7)
    check("from the last state it can, by probe and lens", min(probes["the answer"][-1], lens[-1]) > 0.9)
    check("the first look is known earlier", probes["the first look"][1] > probes["the answer"][1] + 0.1)
    check("later layers do not look further: within one token", max(distances) - min(distances) < 1)

# %% [markdown]
# So layers do build on each other here. But "local, then phrases, then global" is a story about
# language, and no law: here each layer looks as far as the others. `minitransformer claims probes` asks the
# layers of a translator.
#
# ## Why pre-norm today
#
# The paper's post-norm divides the *sum* by its size, and with it the path that the gradient takes
# through $x$. In pre-norm, nothing stands on that path: its part stays whole, and the $J$ add to it.
# The price is that values grow with the depth, so a last norm follows the stack.

# %%
post, pre = found["post-norm"], found["pre-norm"]
print(f"values after 12 layers: post-norm {post[1][-1]:.2f}, pre-norm {pre[1][-1]:.2f}")
check("post-norm: values have size 1 after each layer", np.allclose(post[1][1:], 1, atol=0.01))
check("pre-norm: values grow with depth, but slowly", 1.5 < pre[1][-1] < 12)
check("pre-norm: every layer passes the gradient on undiminished", min(pre[0]) > 0.8)

# %% [markdown]
# The norm divides, the random weights in $J$ multiply, and the gradient's *size* survives (above: about 1).
# But the part of it that comes through $I$ alone, as the loss sent it, is divided at each norm. We measure
# that part.


# %%
def unchanged_part(way, depth=12):
    """How much of the gradient at the output is in the one at the input: 1 if all of it."""
    found = states(way, depth)
    g = found[-1].grad
    return float((found[0].grad * g).sum() / (g * g).sum())


parts = {way: unchanged_part(way) for way in ("post-norm", "pre-norm")}
print("of the output's gradient, the input gets unchanged:", {way: f"{p:.2f}" for way, p in parts.items()})
check("pre-norm passes it on, post-norm hardly", parts["pre-norm"] > 0.5 > 4 * abs(parts["post-norm"]))

# %% [markdown]
# What is the harm? In post-norm nearly all of the gradient has passed the weights of all layers above. The
# first step changes all of them, each by Adam's full rate, and then this gradient has changed, too: it was
# a direction for weights that are gone. So post-norm asks for a warm-up (small steps first), the more so the
# deeper it is, and at twelve layers even that is not enough here; pre-norm trains with little or none.
# Twelve layers, without:

# %%
cold = {way: np.mean(train(way, 12, warmup=1)[1][-20:]) for way in ("post-norm", "pre-norm")}
print("12 layers without warm-up, right at the end:", {way: f"{right:.0%}" for way, right in cold.items()})
if settings.steps >= 200:
    check("without warm-up pre-norm learns, post-norm hardly", cold["pre-norm"] > 0.8 > cold["post-norm"])

# %% [markdown]
# Both have the same learning rate here. `minitransformer claims warm-up` finds the best of each first;
# `residuals` and `norms` compare translators.
#
# ## Exercises
#
# 1. `minitransformer learn 17`: a pre-norm and a post-norm sub-layer, and what the gradient of the
#    residual is.
# 2. Train the twelve post-norm layers with `warmup=50`, then with 200 and more steps. When do they learn?
#    Print `unchanged_part` after the training, too.
#
# ## Read next
#
# - `minitransformer/layers/encoder_decoder.py`, `Residual`: both norms, in two lines.
# - `minitransformer/claims/sublayers.py`, `Around`: the five ways; `two_looks.py`: the task and its model.
# - `minitransformer/layers/encoder_decoder.py`, `EncoderLayer`: a layer is two of them.
# - `minigrad/ops/normalization.py`, `layer_norm`: the norm, and its gradient.
# - Next lesson: `demos/lessons/12_encoder_decoder.py`
