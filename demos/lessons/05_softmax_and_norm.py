# %% [markdown]
# # 5. Softmax, cross-entropy and layer norm
#
# After this lesson you can derive the gradients of the three functions that every Transformer applies
# to a row of numbers, tell a right one from a wrong one, and say which form of each is safe.
#
# One thought connects them: *what a function ignores, its gradient cannot ask for.* Softmax ignores a
# shift of its row. Layer norm ignores a shift and a change of scale. Look for it in each derivation.

# %%
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure
from matplotlib.patches import Circle

import minigrad as mg
from minigrad.nn import functional as F
from minigrad.ops import differentiable
from minitransformer.plots.style import colour_map


@dataclass
class Lesson(Settings):
    confidence: float = 10.0
    """The score of a wrong word, where all others score 0. Try 0, 5 and 30."""
    guess: float | None = None
    """Your prediction: the larger probability of scores 1,000,000 and 1,000,001."""


settings = read_settings(Lesson)

# %% [markdown]
# ## Scores to probabilities
#
# "Attention Is All You Need", section 3.4:
#
# > we also use the usual learned linear transformation and softmax function to convert the decoder
# > output to predicted next-token probabilities.
#
# $$y_i = \mathrm{softmax}(x)_i = \frac{e^{x_i}}{\sum_k e^{x_k}}$$
#
# The exponential makes every number positive. The division makes them sum to 1. The document
# "Transformer Network" works through ten scores, of which "Je" has the highest.

# %%
WORDS = ["<START>", "I", "love", "you", "Je", "t'", "aime", "hello", "world", "<END>"]
SCORES = np.array([-0.5, 0.3, 0.8, 0.2, 2.5, 1.1, 0.9, -0.2, 0.1, -0.8])
PRINTED = np.array([0.024, 0.053, 0.088, 0.048, 0.479, 0.118, 0.097, 0.032, 0.044, 0.018])
JE = WORDS.index("Je")


def simple_softmax(x):  # (..., V) -> (..., V)
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


y = simple_softmax(SCORES)  # (10,)
for word, score, ours, printed in zip(WORDS, SCORES, y, PRINTED, strict=True):
    print(f"{word:>8} {score:5.1f}   ours {ours:.4f}   the document {printed:.3f}")
check("the probabilities sum to 1", np.isclose(y.sum(), 1))
check("the document's table is right to 0.001", abs(y - PRINTED).max() < 0.001)

# %% [markdown]
# One entry of the table is rounded the wrong way: "world" is 0.04347, printed as 0.044.
#
# ## What softmax ignores
#
# Add the same number $c$ to every score. Each exponential gets the factor $e^c$, above and below the
# line, and it cancels: only *differences* of scores count.
#
# "The Transformer Blueprint" gives one contestant 1,000,000 points and another 1,000,001. Softmax, it
# says, pushes one probability "to almost 1 and the other to almost 0".

# %%
guess = predict(
    "scores 1,000,000 and 1,000,001. What is the larger probability?",
    settings.guess,
)
two = mg.tensor([1_000_000.0, 1_000_001.0], dtype="float64")
larger = two.softmax(-1)[1].item()
guess.compare(larger)
check("it is the same as for the scores 0 and 1", np.isclose(larger, simple_softmax(np.array([0.0, 1.0]))[1]))

three = simple_softmax(np.array([10.0, 11.0, 10.5]))
print(f"10, 11, 10.5: {three.round(2)}; 'Explain step by step' prints [0.01, 0.98, 0.01]")
check("large scores that are close together do not saturate softmax", three.max() < 0.51)

# %% [markdown]
# Both documents are right that softmax can saturate. It takes large *differences*, which lesson 9
# makes.
#
# ## What goes wrong: overflow
#
# $e^{1000}$ is too large for a computer. Since a shift changes nothing, subtract the largest score
# first: the largest exponential is then $e^0 = 1$.

# %%
with np.errstate(all="ignore"):
    print("simple:", simple_softmax(np.array([1000.0, 1001.0])))


def softmax(x):  # (..., V) -> (..., V)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


print("stable:", softmax(np.array([1000.0, 1001.0])))
with np.errstate(all="ignore"):
    check("the formula as written gives NaN", np.isnan(simple_softmax(np.array([1000.0, 1001.0]))).all())
check("the shifted one agrees with it where both work", np.allclose(softmax(SCORES), y))

# %% [markdown]
# ## The gradient of softmax
#
# Every $y_i$ depends on every $x_j$, through the sum. The quotient rule, with $[i = j]$ for 1 if $i =
# j$ and 0 otherwise:
#
# $$\frac{\partial y_i}{\partial x_j} = \frac{e^{x_i} [i = j]}{\sum_k e^{x_k}} - \frac{e^{x_i}
# e^{x_j}}{(\sum_k e^{x_k})^2} = y_i \, ([i = j] - y_j)$$
#
# Let $g_i$ be the gradient that arrives at $y_i$. The chain rule adds up the ways from $x_j$:
#
# $$\frac{\partial L}{\partial x_j} = \sum_i g_i \, y_i \, ([i = j] - y_j) = y_j \Big(g_j - \sum_i g_i
# y_i\Big)$$
#
# No matrix is needed: one sum for each row. (Sum the result over $j$: it is 0, because $\sum_j y_j =
# 1$.)


# %%
def softmax_gradient(g, y):  # (..., V), (..., V) -> (..., V)
    return y * (g - (g * y).sum(-1, keepdims=True))


x = mg.randn(4, 10, dtype="float64", requires_grad=True)  # 4 rows of 10 scores
g = mg.randn(4, 10, dtype="float64")
x.softmax(-1).backward(g)

by_hand = softmax_gradient(g.numpy(), softmax(x.numpy()))
check("by hand and by tape agree", np.allclose(by_hand, x.grad.numpy()))
check("the gradient of each row sums to 0", np.allclose(by_hand.sum(-1), 0))

# %% [markdown]
# It must sum to 0: the sum is the slope along a shift of the whole row, and softmax ignores a shift.
#
# ## A wrong one
#
# Students often write $g_j\, y_j$: the derivative of the numerator alone. Lesson 4's gradient check
# compares with measured slopes, and names the mistake.


# %%
@differentiable
def wrong_softmax(x, /):
    y = softmax(x)
    return y, (lambda g: g * y,)


report = mg.gradcheck(wrong_softmax, [x], raise_exception=False)
print("verdict:", report.verdict)
check("the check rejects it: a sum is missing", not report and "sum" in report.verdict)
check("the right one passes", mg.gradcheck(lambda x: x.softmax(-1), [x]))

# %% [markdown]
# ## Cross-entropy
#
# The loss is the surprise at the right word $t$:
#
# $$L = -\log y_t = \log \sum_k e^{x_k} - x_t$$
#
# Differentiate. The first term gives $e^{x_j} / \sum_k e^{x_k}$, which is softmax again:
#
# $$\frac{\partial L}{\partial x_j} = y_j - [j = t]$$
#
# What was said minus what was right, as in lesson 1. Each wrong word is pushed down by its probability.
# The right word is pushed up by what it lacks to 1.
#
# For several positions, "Transformers - Attention Is All You Need" sums their losses.
# `F.cross_entropy`, like most trainers, takes the mean: the same gradient, divided by their number.

# %%
scores = mg.tensor(SCORES[None], requires_grad=True)  # (1, 10): one position, ten words
loss = F.cross_entropy(scores, [JE])
loss.backward()
push = scores.grad.numpy()[0]

print(f"the loss of 'Je' is {loss.item():.4f} = -log {y[JE]:.3f}")
check("the gradient is y - onehot", np.allclose(push, y - np.eye(10)[JE]))
nothing = F.cross_entropy(mg.zeros(1, 10), [JE]).item()
check("equal scores for ten words have the loss log 10 = 2.303", np.isclose(nothing, np.log(10)))

positions = mg.tensor(np.stack([SCORES] * 3))  # (3, 10): three positions
total = F.cross_entropy(positions, [JE, 5, 6], reduction="sum").item()
mean = F.cross_entropy(positions, [JE, 5, 6]).item()
check("the sum over 3 positions is 3 times the mean", np.isclose(total, 3 * mean))


# %%
def picture_of_softmax():
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    bars, pushes, matrix = figure.subplots(1, 3, width_ratios=[1, 1, 1.1])
    bars.barh(WORDS, y, color=["tab:orange" if i == JE else "tab:blue" for i in range(10)])
    bars.set(title="probabilities $y$", xlabel="they sum to 1", xlim=(0, 0.58))
    for i, probability in enumerate(y):
        bars.text(probability + 0.01, i, f"{probability:.3f}", va="center", fontsize=8)
    pushes.barh(WORDS, -push, color=["tab:green" if each < 0 else "tab:red" for each in push])
    pushes.axvline(0, color="black", lw=0.8)
    pushes.set(title='minus the gradient, if "Je" is right', xlabel="down (red) and up (green) sum to 0")
    pushes.set(yticks=[])
    jacobian = np.diag(y) - np.outer(y, y)  # dy_i / dx_j
    shown = matrix.imshow(jacobian, cmap=colour_map("signed"), vmin=-0.25, vmax=0.25)
    matrix.set(title=r"$\partial y_i / \partial x_j$: each row sums to 0")
    matrix.set_xticks(range(10), WORDS, rotation=90)
    matrix.set_yticks(range(10), WORDS)
    figure.colorbar(shown, ax=matrix)
    for axes in (bars, pushes):
        axes.invert_yaxis()
    show(figure, "05-softmax", settings)


picture_of_softmax()

# %% [markdown]
# ## What goes wrong: another loss on softmax
#
# Why not the squared error, $\frac{1}{2} \sum_i (y_i - [i = t])^2$? Its $g$ is $y_i - [i = t]$, and
# then comes softmax's own gradient, with its factor $y_j$. Suppose a wrong word scores 10 and all
# others score 0. The right word has $y_t$ near 0. For the wrong word, $g_j - \sum_i g_i y_i$ is near 0.
# So almost nothing is left: the surer the error, the smaller the gradient.

# %%
RIGHT, WRONG = 0, 1


def pushed(loss_name, confidence, steps=60):
    """The size of the first gradient, and the right word's probability at each step (rate 1)."""
    x = np.zeros(10)  # (V,)
    x[WRONG] = confidence
    sizes, right = [], []
    for _ in range(steps):
        y = softmax(x)
        difference = y - np.eye(10)[RIGHT]
        gradient = difference if loss_name == "cross-entropy" else softmax_gradient(difference, y)
        sizes.append(np.linalg.norm(gradient))
        right.append(y[RIGHT])
        x = x - gradient
    return sizes[0], right


entropy_size, entropy_right = pushed("cross-entropy", 10.0)
squared_size, squared_right = pushed("squared error", 10.0)
print(f"first gradient: cross-entropy {entropy_size:.3f}, squared error {squared_size:.6f}")
check("cross-entropy corrects a sure error within 60 steps", entropy_right[-1] > 0.9)
check("the squared error has hardly begun", squared_right[-1] < 0.001)


# %%
def picture_of_losses(confidence):
    """The gradient against the confidence, and learning from the confidence chosen."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    sure = np.linspace(0, 30, 61)
    for name, colour in (("cross-entropy", "tab:green"), ("squared error", "tab:red")):
        left.semilogy(sure, [pushed(name, each, 1)[0] for each in sure], color=colour, label=name)
        size, curve = pushed(name, confidence)
        left.plot(confidence, size, "o", color=colour)
        right.plot(curve, color=colour, label=name)
    left.set(
        title="The surer the error, the less gradient (red)",
        xlabel="score of the wrong word",
        ylabel="size of gradient",
    )
    right.set(
        title=f"Learning from score {confidence:g}", xlabel="step", ylabel="probability of the right word"
    )
    right.set(ylim=(-0.02, 1))
    left.legend()
    right.legend()
    show(figure, "05-losses", settings)


control(picture_of_losses, settings, confidence=(0.0, 30.0))

# %% [markdown]
# In the formula $\log \sum_k e^{x_k} - x_t$ there is no logarithm of a number that has become 0. First
# softmax, then log has one. But $e^{1000}$ overflows here, too. Again, subtract the largest score, $m$:
#
# $$\log \sum_k e^{x_k} = m + \log \sum_k e^{x_k - m}$$
#
# The logarithm of softmax is $x$ minus that.

# %%
sure = mg.zeros(1, 10, dtype="float64")
sure[0, WRONG] = 800.0
with np.errstate(divide="ignore"):
    in_two_steps = -sure.softmax(-1).log()[0, RIGHT].item()
at_once = F.cross_entropy(sure, [RIGHT]).item()
print(f"softmax, then log: {in_two_steps}; cross_entropy: {at_once}")


def log_sum_exp(x):  # (..., V) -> (..., 1)
    m = x.max(-1, keepdims=True)
    return m + np.log(np.exp(x - m).sum(-1, keepdims=True))


check("log-softmax is x minus the stable form", np.allclose(SCORES - log_sum_exp(SCORES), np.log(y)))
check(
    "at scores of 1000 it is finite", np.isclose(log_sum_exp(np.array([1000.0, 1000.0]))[0], 1000 + np.log(2))
)
check("cross_entropy is finite where two steps are not", at_once == 800.0 and np.isinf(in_two_steps))

# %% [markdown]
# ## Layer norm
#
# Section 3.1 of the paper: "the output of each sub-layer is"
#
# > LayerNorm(x + Sublayer(x))
#
# A row of $n$ numbers gets mean 0 and variance 1, then a learned scale and shift:
#
# $$\mu = \frac{1}{n} \sum_i x_i, \quad \sigma^2 = \frac{1}{n} \sum_i (x_i - \mu)^2, \quad h_i = \frac{x_i
# - \mu}{\sqrt{\sigma^2 + \epsilon}}, \quad y_i = \gamma_i h_i + \beta_i$$
#
# So two of our documents write it. "The Transformer architecture" writes $(x - \mu) / (\sigma +
# \epsilon)$. Is that the same? (And $\sigma^2$ divides by $n$. Some libraries' `std` divides by $n - 1$
# unless told otherwise.)

# %%
EPS = 1e-5


def root_form(x):  # (..., n) -> (..., n); x may be an array or a tensor
    centred = x - x.mean(-1, keepdims=True)
    return centred / ((centred * centred).mean(-1, keepdims=True) + EPS) ** 0.5


def sum_form(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / ((centred * centred).mean(-1, keepdims=True) ** 0.5 + EPS)


row = np.array([0.2, 1.5, 0.1, 1.8])  # "I" of "Transformer Network", after adding its position
print("root form:", root_form(row).round(5))
print("sum form: ", sum_form(row).round(5))
h = root_form(row)
check("mean 0, variance 1", np.isclose(h.mean(), 0) and np.isclose(h.var(), 1, atol=1e-4))
check("dividing by n - 1 would give the variance 3/4", np.isclose((row / row.std(ddof=1)).var(), 0.75))
check("on this row the two forms differ by less than 0.0001", abs(h - sum_form(row)).max() < 1e-4)
check("F.layer_norm is the root form", np.allclose(F.layer_norm(mg.tensor(row), (4,)).numpy(), h))
check("shift and scale are ignored", np.allclose(root_form(5 * row + 3), h, atol=1e-4))

# %% [markdown]
# ## What goes wrong: a row of equal numbers
#
# The word `<END>` of the same document has the vector (0, 0, 0, 0). Then $\sigma = 0$. The values are
# the same in both forms, 0. But backward asks for the slope of the square root at 0, which is infinite.
# Under the root, $\epsilon$ keeps it finite.

# %%
END = mg.zeros(4, dtype="float64")
gradients = {}
for form in (root_form, sum_form):
    x = END.clone().requires_grad_()
    with np.errstate(all="ignore"):
        loss = (form(x) * mg.arange(4, dtype="float64")).sum()
        print(f"{form.__name__}: {mg.graph.why_nan(loss)}")
        loss.backward()
    gradients[form.__name__] = x.grad.numpy()
print(gradients)
check("the sum form has a NaN in its gradient", np.isnan(gradients["sum_form"]).any())
check("the root form has none", np.isfinite(gradients["root_form"]).all())

# %% [markdown]
# The report finds $0 \cdot \infty$, which is NaN. In it $y = 0.5$ is the exponent. The gradient that
# arrives is $g = 0$, because every numerator $x_i - \mu$ is 0. It meets the slope $0.5\, x^{-0.5}$ of
# the root, which is infinite at $x = \sigma^2 = 0$.
#
# One NaN in a gradient spreads to every parameter in a single step. The slope that remains in the root
# form is steep, $1/\sqrt{\epsilon} = 316$, but finite. The loss weights the row by 0, 1, 2, 3; without
# their mean, as the shift asks, these are -1.5, -0.5, 0.5, 1.5. Times 316: the printed ±474 and ±158.

# %%
weights = np.arange(4) - 1.5
check(
    "each gradient is a weight without the mean, times 316",
    np.allclose(gradients["root_form"], weights / EPS**0.5),
)

# %% [markdown]
# ## The gradient of layer norm
#
# Let $s = \sqrt{\sigma^2 + \epsilon}$. An $x_j$ acts on $h_i = (x_i - \mu) / s$ in three ways: itself,
# through $\mu$ and through $s$. Their rates:
#
# $$\frac{\partial \mu}{\partial x_j} = \frac{1}{n}, \qquad \frac{\partial s}{\partial x_j} = \frac{1}{2s}
# \cdot \frac{2 (x_j - \mu)}{n} = \frac{h_j}{n}$$
#
# (In $\sigma^2$, the way through $\mu$ cancels, as $\sum_i (x_i - \mu) = 0$.) By the quotient rule:
#
# $$\frac{\partial h_i}{\partial x_j} = \frac{1}{s} \Big([i = j] - \frac{1}{n} - \frac{h_i h_j}{n}\Big)$$
#
# With $u = g \gamma$, the sums over $i$ are means over the row:
#
# $$\frac{\partial L}{\partial x} = \frac{1}{s} \big(u - \mathrm{mean}(u) - h \, \mathrm{mean}(u h)\big)$$


# %%
def layer_norm_gradient(g, x, gamma):  # (..., n), (..., n), (n,) -> (..., n)
    s = np.sqrt(x.var(-1, keepdims=True) + EPS)
    h = (x - x.mean(-1, keepdims=True)) / s
    u = g * gamma
    return (u - u.mean(-1, keepdims=True) - h * (u * h).mean(-1, keepdims=True)) / s


x = mg.randn(4, 8, dtype="float64", requires_grad=True)  # 4 rows of 8 numbers
gamma = mg.randn(8, dtype="float64", requires_grad=True)
beta = mg.randn(8, dtype="float64", requires_grad=True)
g = mg.randn(4, 8, dtype="float64")
F.layer_norm(x, (8,), gamma, beta).backward(g)

dx = layer_norm_gradient(g.numpy(), x.numpy(), gamma.numpy())
h = root_form(x.numpy())
check("by hand and by tape agree", np.allclose(dx, x.grad.numpy()))
check("gamma's gradient is the sum of g h over rows", np.allclose((g.numpy() * h).sum(0), gamma.grad.numpy()))
check("beta's is the sum of g over rows", np.allclose(g.numpy().sum(0), beta.grad.numpy()))

# %% [markdown]
# Now the thought of this lesson. Layer norm ignores a shift, so the gradient has no part along (1, 1,
# ..., 1). It ignores scale, so the gradient has no part along $h$ (but for $\epsilon$). The factor $1/s$
# means that a row ten times as large gets a tenth of the gradient.

# %%
lengths = np.linalg.norm(dx, axis=-1) * np.linalg.norm(h, axis=-1)
print("part along (1, ..., 1):", dx.sum(-1).round(12))
print("cosine with h:         ", ((dx * h).sum(-1) / lengths).round(6))
tenth = layer_norm_gradient(g.numpy(), 10 * x.numpy(), gamma.numpy())
check("a row ten times as large gets a tenth of the gradient", np.allclose(10 * tenth, dx, atol=1e-3))
check("no gradient along a shift", np.allclose(dx.sum(-1), 0))
check("no gradient along the scale", (abs((dx * h).sum(-1)) / lengths < 0.001).all())


@differentiable
def wrong_norm(x, /):
    s = np.sqrt(x.var(-1, keepdims=True) + EPS)
    return (x - x.mean(-1, keepdims=True)) / s, (lambda g: g / s,)


report = mg.gradcheck(wrong_norm, [x], raise_exception=False)
print("verdict on g / s:", report.verdict)
check("mean and deviation are not constants", not report and "sums" in report.verdict)

# %% [markdown]
# A picture of it. Rows of three numbers, seen along the direction (1, 1, 1): a shift is invisible from
# there, and every normalized row lies on one circle. The arrows are minus the gradient of a loss that
# wants the first number large. None points inward or outward: the length of a row cannot be asked for.


# %%
def picture_of_norm():
    figure = Figure(figsize=(6.2, 6.2), layout="constrained")
    axes = figure.subplots()
    plane = np.array([[2, -1, -1], [0, 1, -1]]) / np.sqrt([[6], [2]])  # two directions across (1, 1, 1)
    rows = mg.randn(14, 3, dtype="float64").requires_grad_()
    (-F.layer_norm(rows, (3,))[:, 0].sum()).backward()
    x = rows.numpy() @ plane.T
    h = root_form(rows.numpy()) @ plane.T
    step = -rows.grad.numpy() @ plane.T
    step *= 0.5 / np.linalg.norm(step, axis=-1, keepdims=True)  # of equal lengths
    axes.plot(*np.stack([0 * x, x, h], 1).T, color="lightgrey", lw=1)  # from the centre
    axes.plot(0, 0, "k+", ms=12)
    axes.scatter(*x.T, color="tab:blue", label="rows $x$")
    axes.scatter(*h.T, color="tab:orange", label="normalized rows $h$")
    axes.quiver(*x.T, *step.T, angles="xy", scale_units="xy", scale=1, color="tab:green", width=0.005)
    axes.add_patch(Circle((0, 0), 3**0.5, fill=False, ls=":"))
    axes.set(
        title="Each arrow is at right angles to the line from the centre",
        aspect="equal",
        xlim=(-3.2, 3.2),
        ylim=(-3.2, 3.2),
    )
    axes.set(xlabel="first number above the others", ylabel="second number above the third")
    axes.legend(loc="upper left")
    show(figure, "05-norm", settings)


picture_of_norm()

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 6`, `minitransformer learn 7` and `minitransformer learn 8`: the gradients
#    of softmax, of cross-entropy, and of layer norm, from an empty function.
# 2. RMS norm divides by $\sqrt{\mathrm{mean}(x^2) + \epsilon}$ and subtracts no mean. What does it
#    ignore? Which of the three terms of the gradient goes? Derive it, then compare with `rms_norm` in
#    the file below.
#
# ## Read next
#
# - `minigrad/ops/activations.py`, `softmax`: the definition; its docstring is your derivation.
# - `minigrad/kernels/numpy/activations.py`, `softmax`: what runs, with the gradient in two lines.
# - `minigrad/ops/losses.py`, `cross_entropy`: written so that even a loss near 0 keeps its digits.
# - `minigrad/ops/normalization.py`, `layer_norm`: and `rms_norm` below it.
# - Next lesson: `demos/lessons/06_words_to_vectors.py`
