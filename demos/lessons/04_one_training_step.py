# %% [markdown]
# # 4. One training step, and a tutor that checks it
#
# After this lesson you can do a whole training step of a linear layer with a pencil, check any gradient
# without knowing its formula, and choose the step of that check.
#
# A Transformer consists mostly of linear layers. "Attention Is All You Need", section 3.2.2, lists
# their weights for head $i$, each of shape (512, 64) in the base model:
#
# > W_i^Q ∈ ℝ^(d_model × d_k), W_i^K ∈ ℝ^(d_model × d_k), W_i^V ∈ ℝ^(d_model × d_v)
#
# "Explain step by step ... with test data" computes one, $Q = X W_q$.

# %%
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import minigrad as mg
from minigrad.nn import functional as F
from minigrad.ops import differentiable


@dataclass
class Lesson(Settings):
    rate: float = 0.1
    """The learning rate. Try 0.13, 0.25 and 0.3."""
    guess: float | None = None
    """Your prediction: the loss after one step."""
    best_step: str | None = None
    """Your prediction: which step measures a slope best: 1e-1, 1e-5 or 1e-12."""


settings = read_settings(Lesson)

# %%
X = np.array([[1.34, 0.64, 0.81, 1.20], [1.81, 0.28, 0.22, 1.10], [0.70, 1.70, 0.70, 1.87]])  # (3, 4)
W_q = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.3], [0.2, 0.3, 0.1, 0.5], [0.4, 0.2, 0.5, 0.1]])

Q = X @ W_q  # (3, 4) @ (4, 4) -> (3, 4)
print("query of 'I':", Q[0].round(3), " the document: [1.1, 0.82, 1.1, 0.89]")
check("its first two numbers are right", np.allclose(Q[0, :2], [1.10, 0.82], atol=0.006))
check("its last two should be 1.211 and 1.253", np.allclose(Q[0, 2:], [1.211, 1.253]))
check("W need not be square: 4 to 2 works", (X @ W_q[:, :2]).shape == (3, 2))

# %% [markdown]
# The document computes the first two numbers in full, and they are right. The two behind "same for ..."
# are not. It also says that for width 4, W *must* be 4×4. Only its first number of rows is fixed: the
# paper's are (512, 64).
#
# ## Forward, by hand
#
# minigrad, like PyTorch, stores the weight as (out, in), and adds a bias:
#
# $$y_{ij} = \sum_k x_{ik} W_{jk} + b_j, \qquad y = x W^\top + b, \qquad L = \frac{1}{2} \sum_{ij}
# (y_{ij} - t_{ij})^2$$
#
# Two words of three numbers each, two outputs. Do it on paper first.

# %%
x = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])  # (2 words, 3 in)
W = np.array([[0.5, -0.5, 1.0], [1.0, 0.0, 0.5]])  # (2 out, 3 in)
b = np.array([0.5, -1.0])  # (2 out,)
t = np.array([[1.0, 0.0], [0.0, -1.0]])  # (2 words, 2 out): the targets


def loss_of(W, b):
    y = x @ W.T + b  # (2, 3) @ (3, 2) + (2,) -> (2, 2)
    return 0.5 * ((y - t) ** 2).sum()


y = x @ W.T + b
print("y =", y.tolist(), " loss =", loss_of(W, b))
check("y[0, 0] is 0.5·1 - 0.5·2 + 1·0 + 0.5", y[0, 0] == 0.5 * 1 - 0.5 * 2 + 1 * 0 + 0.5 == 0)
check("the loss is (1 + 0 + 1 + 0.25) / 2", loss_of(W, b) == 1.125)

# %% [markdown]
# ## Backward, by hand
#
# First the loss: $g_{ij} = \partial L / \partial y_{ij} = y_{ij} - t_{ij}$. Then ask of each number:
# *in which $y_{ij}$ does it occur, and with what factor?*
#
# | number | occurs in | with factor | so its gradient is | as matrices |
# |---|---|---|---|---|
# | $W_{jk}$ | column $j$, every word $i$ | $x_{ik}$ | $\sum_i g_{ij} x_{ik}$ | $g^\top x$ |
# | $b_j$ | column $j$, every word $i$ | 1 | $\sum_i g_{ij}$ | sum of rows |
# | $x_{ik}$ | row $i$, every output $j$ | $W_{jk}$ | $\sum_j g_{ij} W_{jk}$ | $g W$ |
#
# Each sum runs over the places where the number is used. If you forget the order of the factors, write
# down the shapes: only one order fits.

# %%
g = y - t  # (2, 2)
dW = g.T @ x  # (2 out, 2 words) @ (2 words, 3 in) -> (2, 3)
db = g.sum(0)  # (2 words, 2 out) -> (2,)
dx = g @ W  # (2 words, 2 out) @ (2 out, 3 in) -> (2, 3)
print("g  =", g.tolist())
print("dW =", dW.tolist(), "\ndb =", db.tolist(), "\ndx =", dx.tolist())
check("dW[0, 1] adds up both words: (-1)·2 + (-1)·1", dW[0, 1] == g[0, 0] * x[0, 1] + g[1, 0] * x[1, 1] == -3)

leaves = {"x": x, "W": W, "b": b}
leaves = {name: mg.tensor(value, requires_grad=True) for name, value in leaves.items()}
loss = 0.5 * ((F.linear(leaves["x"], leaves["W"], leaves["b"]) - mg.tensor(t)) ** 2).sum()
loss.backward()
for name, by_hand in (("W", dW), ("b", db), ("x", dx)):
    check(f"the tape's gradient of {name} is yours", np.array_equal(leaves[name].grad.numpy(), by_hand))


# %%
def draw_matrix(axes, name, values, gradients, left, top, marked=()):
    """Values in black, with their gradients below them in red; marked cells are shaded."""
    axes.text(left, top + 0.15, name, fontsize=11, weight="bold")
    values, gradients = np.atleast_2d(values), np.atleast_2d(gradients)
    for row, column in np.ndindex(values.shape):
        shade = "moccasin" if (row, column) in marked else "white"
        corner = (left + column, top - row - 1)
        axes.add_patch(Rectangle(corner, 1, 1, facecolor=shade, edgecolor="grey"))
        middle = corner[0] + 0.5
        axes.text(middle, corner[1] + 0.67, f"{values[row, column]:g}", ha="center", va="center")
        small = {"ha": "center", "va": "center", "fontsize": 9, "color": "tab:red"}
        axes.text(middle, corner[1] + 0.27, f"{gradients[row, column]:g}", **small)


def picture_of_step():
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    draw_matrix(axes, "x", x, dx, 0, 5.6, marked=[(0, 1), (1, 1)])
    draw_matrix(axes, "W", W, dW, 0, 2.6, marked=[(0, 1)])
    draw_matrix(axes, "b", b, db, 4, 1.6)
    draw_matrix(axes, "y = x Wᵀ + b", y, g, 7.2, 4.1, marked=[(0, 0), (1, 0)])
    draw_matrix(axes, "loss", loss.item(), 1, 10.4, 3.6)
    for start, end in (
        ((3.2, 4.6), (7, 3.7)),
        ((3.2, 2.2), (7, 3.1)),
        ((6.2, 1.3), (7, 2.5)),
        ((9.3, 3.1), (10.3, 3.1)),
    ):
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "grey"})
    title = "Gradients in red. Shaded: W[0, 1] gets x · g from each word, 2 · (-1) + 1 · (-1) = -3"
    axes.set_title(title, fontsize=11)
    axes.set(xlim=(-0.2, 11.6), ylim=(0.3, 6.2), aspect="equal")
    axes.axis("off")
    show(figure, "04-linear", settings)


picture_of_step()

# %% [markdown]
# ## The step
#
# Subtract the rate times the gradient from each parameter, $W$ and $b$. ($x$ is data here. In a deeper
# network, $dx$ goes on to the layer before.)
#
# How much should the loss fall? A slope says: by the rate times the squared length of the gradient.
# That length squared is 15.75. With a rate of 0.1, the loss would go from 1.125 to -0.45. But this loss
# is never negative.
#
# (To walk back through the picture above number by number, call `mg.graph.trace(loss,
# leaves).save("step.html")` before `backward()`.)

# %%
slope = (dW**2).sum() + (db**2).sum()  # 15.75
guess = predict(
    f"the loss is 1.125, and its slope along the step is -{slope}. "
    f"After one step with rate {settings.rate:g}, what is the loss?",
    settings.guess,
)
after = loss_of(W - settings.rate * dW, b - settings.rate * db)
guess.compare(after)
bend = 0.5 * ((x @ dW.T + db) ** 2).sum()  # 60.75
check(
    "exactly: 1.125 - 15.75 rate + 60.75 rate²",
    np.isclose(after, 1.125 - 15.75 * settings.rate + bend * settings.rate**2),
)

# %% [markdown]
# The slope is right at the start of the step only. The term in rate² is how fast it changes on the way:
# the step moves $y$ by $\Delta y = -\text{rate} \cdot (x\,dW^\top + db)$, and $\frac{1}{2} \sum \Delta
# y^2$ is the square's part. The loss falls for rates up to 15.75 / 60.75 = 0.26. Beyond, the step goes
# uphill. That is what goes wrong with a large learning rate.
#
# With one number it is simplest. For $L = a (w - m)^2$, a step multiplies the distance to $m$ by $1 - 2a
# \cdot \text{rate}$: it converges below $1/a$, and arrives at once at $1/(2a)$.


# %%
def train(rate, steps=20):
    """The loss before each step, and after the last."""
    weight, bias = W.copy(), b.copy()
    losses = [loss_of(weight, bias)]
    for _ in range(steps):
        g = x @ weight.T + bias - t
        weight -= rate * g.T @ x
        bias -= rate * g.sum(0)
        losses.append(loss_of(weight, bias))
    return losses


def picture_of_rate(rate):
    figure = Figure(figsize=(9.5, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    rates = np.linspace(0, 0.32, 65)
    left.plot(rates, [train(each, 1)[1] for each in rates], color="tab:blue", label="loss after one step")
    left.plot(rates, 1.125 - slope * rates, "--", color="grey", label="what the slope promises")
    left.plot(rate, train(rate, 1)[1], "o", color="tab:orange", ms=9, label=f"rate {rate:g}")
    left.axhline(1.125, color="black", lw=0.8, ls=":")
    left.text(0.005, 1.18, "before the step", fontsize=8)
    left.set(
        title="The slope holds only at the start", xlabel="learning rate", ylabel="loss", ylim=(-0.6, 2.5)
    )
    left.legend(loc="upper left", bbox_to_anchor=(0.08, 0.98), fontsize=8)
    for each in sorted({0.02, rate, 0.3}):
        right.semilogy(train(each), label=f"rate {each:g}", lw=3 if each == rate else 1.2)
    right.set(title="Too large a rate climbs", xlabel="step", ylabel="loss", xticks=range(0, 21, 5))
    right.legend()
    show(figure, "04-rate", settings)


control(picture_of_rate, settings, rate=(0.01, 0.32))
check("with rate 0.1, twenty steps make the loss 100 times smaller", train(0.1)[-1] < 1.125 / 100)
check("with rate 0.3, the loss grows", train(0.3)[-1] > 1.125)
check("one step goes downhill at 0.25, uphill at 0.27", train(0.25, 1)[1] < 1.125 < train(0.27, 1)[1])

# %% [markdown]
# ## The gradient check
#
# How would you know that $g^\top x$ is right, without a tape to compare with? Measure. Move one number
# a little up and a little down, and divide:
#
# $$\frac{\partial L}{\partial w} \approx \frac{L(w + h) - L(w - h)}{2h}$$
#
# It is slow: two losses for each number, where backward needs one pass for all. So it is a tutor, not a
# way to train.


# %%
def slopes(f, w, h=1e-6, sides=2):
    """The slope of f at each number of the array w, measured on both sides or on one."""
    measured = np.zeros_like(w)
    for index in np.ndindex(w.shape):
        up, down = w.copy(), w.copy()
        up[index] += h
        down[index] -= h * (sides == 2)
        measured[index] = (f(up) - f(down)) / (sides * h)
    return measured


print("measured dW:", slopes(lambda W: loss_of(W, b), W).round(6).tolist())
check("measured dW is by hand's", np.allclose(slopes(lambda W: loss_of(W, b), W), dW, atol=1e-8))
check("measured db is by hand's", np.allclose(slopes(lambda b: loss_of(W, b), b), db, atol=1e-8))

# %% [markdown]
# `mg.gradcheck` does this for any function. If a gradient is wrong, it also tries what typical mistakes
# would make of the measured numbers, and gives a verdict.
#
# A *rule* in minigrad returns the value and, for each input, a function from $g$ to that input's
# gradient. Here is the linear layer's, and five wrong ones. Before you look at the verdicts: what is
# wrong with each?


# %%
def layer_with(of_x, of_W, of_b):
    @differentiable
    def layer(x, W, b, /):
        return x @ W.T + b, (lambda g: of_x(g, W), lambda g: of_W(g, x), of_b)

    return layer


def of_x(g, W):
    return g @ W


def of_W(g, x):
    return g.T @ x


def of_b(g):
    return g.sum(0)


WRONG = {
    "x: g @ W.T": layer_with(lambda g, W: g @ W.T, of_W, of_b),
    "W: x.T @ g": layer_with(of_x, lambda g, x: x.T @ g, of_b),
    "W: -g.T @ x": layer_with(of_x, lambda g, x: -g.T @ x, of_b),
    "b: g.mean(0)": layer_with(of_x, of_W, lambda g: g.mean(0)),
    "b: g[0]": layer_with(of_x, of_W, lambda g: g[0]),
}


def random_arguments():
    shapes = (5, 4), (4, 4), (4,)  # x, W, b
    return [mg.randn(*shape, dtype="float64", requires_grad=True) for shape in shapes]


print("right:", mg.gradcheck(layer_with(of_x, of_W, of_b), random_arguments()))
reports = {
    what: mg.gradcheck(rule, random_arguments(), raise_exception=False) for what, rule in WRONG.items()
}
for what, report in reports.items():
    print(f"{what:>13}: {report.verdict}")
check("every wrong rule is caught", not any(reports.values()))

# %% [markdown]
# The first verdict says "not transposed", though the rule has a `.T`. The layer multiplies by $W^\top$:
# $y = x W^\top$. What flows back must be multiplied by the transpose of *that*, and $(W^\top)^\top =
# W$: $g W$. The rule `g @ W.T` multiplies by the layer's own factor once more.
#
# A square $W$ was chosen on purpose. With $W$ of shape (2, 3), the first two mistakes would fail by
# their shapes at once, the cheapest check of all.
#
# ## What goes wrong: a check that cannot see
#
# "Transformer Network" chooses simple weights for its example: $W_q$ is the identity, $W_k$ swaps
# numbers, $W_v$ averages them. Check the first wrong rule, `g @ W.T`, at those.

# %%
DOCUMENT = {
    "W_q": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    "W_k": [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]],
    "W_v": [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]],
}
for name, numbers in DOCUMENT.items():
    weight = mg.tensor(numbers, dtype="float64", requires_grad=True)
    words, _, bias = random_arguments()
    report = mg.gradcheck(WRONG["x: g @ W.T"], [words, weight, bias], raise_exception=False)
    print(f"{name}: {'passes' if report else 'fails'}")
    check(f"the wrong rule passes at {name}, which is its own transpose", report)

# %% [markdown]
# All three are symmetric, so $gW$ and $gW^\top$ are equal. A check proves nothing at special numbers:
# zeros, ones, equal or symmetric ones. Draw them at random.
#
# ## How large a step?
#
# Taylor's formula at $w + h$ and $w - h$:
#
# $$f(w \pm h) = f \pm h f' + \frac{h^2}{2} f'' \pm \frac{h^3}{6} f''' + \dots$$
#
# Subtract the two and divide by $2h$: the even terms cancel, and the error is $h^2 f''' / 6$. With one
# side only, $h f'' / 2$ remains. This *truncation* wants a small step.
#
# The computer rounds $f$ to 16 digits, an error of about $10^{-16} |f|$. It is divided by $h$. This
# *rounding* wants a large step.
#
# Which of three steps is best? The loss below contains tanh, since it needs an $f'''$ that is not 0.

# %%
choice = predict("which step gives the smallest error?", settings.best_step, ["1e-1", "1e-5", "1e-12"])

words = mg.randn(6, 5, dtype="float64").numpy()  # (6 words, 5 in)
weight = mg.randn(4, 5, dtype="float64").numpy() / 2  # (4 out, 5 in)


def bent_loss(weight):
    return 0.5 * (np.tanh(words.astype(weight.dtype) @ weight.T) ** 2).sum()


bent = np.tanh(words @ weight.T)  # (6, 4)
exact = (bent * (1 - bent**2)).T @ words  # g.T @ x, with g by the chain rule
forgot = bent.T @ words  # the slope of tanh left out


def error(h, sides=2, gradient=exact, dtype="float64"):
    return abs(slopes(bent_loss, weight.astype(dtype), h, sides) - gradient).max()


errors = {each: error(float(each)) for each in ("1e-1", "1e-5", "1e-12")}
print({step: f"{size:.1e}" for step, size in errors.items()})
choice.compare(min(errors, key=errors.get))

# %% [markdown]
# Now all steps from 0.1 to $10^{-13}$, in one picture. Read each curve from left to right: the step
# becomes smaller, and the error falls (truncation) until it rises (rounding). Four questions:
#
# 1. What does the second side bring?
# 2. How much do 7 digits (float32) spoil, in place of 16?
# 3. Does a *wrong* gradient look different from a badly chosen step? Here its formula forgot tanh.
# 4. Which slopes do the two errors have? The dashed line is like $h^2$, the dotted one like $1/h$.

# %%
steps = 10.0 ** -np.arange(1, 13.5, 0.5)
curves = {
    "both sides": [error(h) for h in steps],
    "one side": [error(h, sides=1) for h in steps],
    "both sides, in float32": [error(h, dtype="float32") for h in steps],
    "a wrong gradient, both sides": [error(h, gradient=forgot) for h in steps],
}


def picture_of_steps():
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for (name, curve), style in zip(curves.items(), ("o-", "s-", "^-", "x-"), strict=True):
        axes.loglog(steps, np.maximum(curve, 1e-13), style, ms=4, label=name)
    axes.loglog(steps, curves["both sides"][0] * (steps / steps[0]) ** 2, "k--", lw=1, label="like $h^2$")
    axes.loglog(steps, 1e-16 * bent_loss(weight) / steps, "k:", lw=1, label="like $1 / h$")
    axes.set(xlim=(0.2, 5e-14), ylim=(1e-13, 30), xlabel="step $h$ (smaller to the right)")
    axes.set(ylabel="largest error of a slope")
    axes.set(title="Too large a step truncates, too small a step rounds; a wrong gradient stays wrong")
    axes.legend(fontsize=8, loc="lower right")
    show(figure, "04-steps", settings)


picture_of_steps()
least = {name: min(curve) for name, curve in curves.items()}
print({name: f"{size:.1e}" for name, size in least.items()})
check("a step 10 times smaller: 100 times less error on both sides", 50 < error(1e-2) / error(1e-3) < 200)
check("and 10 times less on one side", 5 < error(1e-2, 1) / error(1e-3, 1) < 20)
check("float32 never gets below 1e-6: check in float64", least["both sides, in float32"] > 1e-6)
check("both sides reach 1e-8", least["both sides"] < 1e-8)
check("no step helps a wrong gradient", least["a wrong gradient, both sides"] > 0.01)

# %% [markdown]
# The best step makes the *sum* of both errors smallest, $h^2 |f'''| / 6 + 10^{-16} |f| / h$. Its
# derivative with respect to $h$ is 0 where
#
# $$\frac{h |f'''|}{3} = \frac{10^{-16} |f|}{h^2}, \qquad h = \sqrt[3]{3 \cdot 10^{-16} |f| / |f'''|}$$
#
# This is about $10^{-5}$ for numbers of size 1. `mg.gradcheck_sweep` draws such a curve for any
# function, and reads it.
#
# The squared loss of our linear layer has no third derivative. Then there is no truncation at all.
#
# At a corner the formula fails. For ReLU at $x = 10^{-6}$ with $h = 10^{-5}$ it gives 0.55, not 1: the step
# straddles the corner, and the code is right.


# %%
def squared(W, b):
    return 0.5 * ((F.linear(mg.tensor(x), W, b) - mg.tensor(t)) ** 2).sum()


smooth = mg.gradcheck_sweep(
    lambda w: 0.5 * ((mg.tensor(words) @ w.T).tanh() ** 2).sum(), mg.tensor(weight, requires_grad=True)
)
quadratic = mg.gradcheck_sweep(squared, [leaves["W"], leaves["b"]])
wrong = mg.gradcheck_sweep(WRONG["b: g[0]"], random_arguments())
for sweep in (smooth, quadratic, wrong):
    print(f"{sweep.kind:>6}: {sweep.reading}")
corner = slopes(lambda x: np.maximum(x, 0).sum(), np.array([1e-6]), 1e-5)[0]
check("beside its corner, ReLU's measured slope is 0.55", np.isclose(corner, 0.55))
check("it tells the three apart", [smooth.kind, quadratic.kind, wrong.kind] == ["right", "exact", "wrong"])

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 4`, the gradients of a linear layer, and `minitransformer learn 5`, the
#    gradient check itself.
# 2. ReLU has a corner at 0. What does the measured slope say there with both sides, and with one? Then
#    run `mg.gradcheck(mg.relu, mg.tensor([0.0], dtype="float64", requires_grad=True)).kinks`. Which
#    gradients should a check accept at a corner?
#
# ## Read next
#
# - `minigrad/ops/linalg.py`, `linear`: the layer, with your three gradients in its docstring.
# - `minigrad/checks/finite_differences.py`, `FiniteDifferences`: your `slopes`, and what it does
#   beside a corner.
# - `minigrad/checks/structure.py`, `verdict_of`: how a verdict is found from numbers alone.
# - Next lesson: `demos/lessons/05_softmax_and_norm.py`
