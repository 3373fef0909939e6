# %% [markdown]
# # 3. Tensors: what is shared forward is summed backward
#
# After this lesson you can say the shape of every array in a line of tensor code, say what flows back
# through it, and recognize the two shape mistakes that raise no error.
#
# One thought: *a number that is used n times gets n gradients, added up.* Broadcasting, indexing and
# the matrix product are three ways to use a number many times.

# %%
import warnings
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer.layers.positions import positional_encoding
from minitransformer.plots.style import colour_map


@dataclass
class Lesson(Settings):
    rows: int = 6
    """How many rows share one bias. Try 1 and 64."""
    guess: float | None = None
    """Your prediction: how many differences (64, 1) - (64,) has."""


settings = read_settings(Lesson)

# %% [markdown]
# ## Two sentences, one position table
#
# "Attention Is All You Need", section 3.5:
#
# > The positional encodings have the same dimension d_model as the embeddings, so that the two can be
# > summed.
#
# A *tensor* is an array with any number of axes. Its *shape* lists their lengths. "Transformer Network"
# embeds "I love you" and "you love I" in width 4: shape (2 sentences, 3 words, 4). The table of
# positions has shape (3, 4). Their sum is defined although the shapes differ: the table is used once
# for each sentence. That is *broadcasting*.

# %%
E = np.array([[0.2, 0.5, 0.1, 0.8], [0.9, 0.1, 0.7, 0.3], [0.3, 0.8, 0.2, 0.6]])  # (3 words, 4)
embedding = mg.tensor(E, requires_grad=True)  # I, love, you
positions = mg.tensor(positional_encoding(3, 4), dtype="float64", requires_grad=True)  # (3, 4)

ids = np.array([[0, 1, 2], [2, 1, 0]])  # (2 sentences, 3 words)
meaning = embedding[ids]  # (2, 3, 4): a lookup
x = meaning + positions  # (2, 3, 4) + (3, 4) -> (2, 3, 4)
print(x.detach().numpy().round(2))

check("the same word at another place has another vector", not np.allclose(x.numpy()[0, 0], x.numpy()[1, 2]))
check('"love" is at position 1 in both sentences', np.allclose(x.numpy()[0, 1], x.numpy()[1, 1]))

# %% [markdown]
# ## The rule
#
# Write the shapes under each other, *aligned on the right*. Missing axes on the left count as 1. Two
# lengths fit if they are equal or one of them is 1. An axis of length 1 is repeated.
#
# The last line below is how a causal mask is made: one comparison of a column with a row.

# %%
T = 4
for one, other in (((2, 3, 4), (3, 4)), ((2, 3, 4), (4,)), ((2, 3, 4), (2, 3, 1)), ((T, 1), (1, T))):
    result = (mg.zeros(one) + mg.zeros(other)).shape
    print(f"{one!s:>10} with {other!s:>10} -> {result}")

mask = mg.arange(T)[:, None] >= mg.arange(T)[None, :]  # (T, 1) >= (1, T) -> (T, T)
print(mask.numpy().astype(int))
check("word i sees the words up to i", np.array_equal(mask.numpy(), np.tril(np.ones((T, T), bool))))
try:
    mg.zeros(2, 3, 4) + mg.zeros(3)
except mg.ShapeError as error:
    print(error)

# %% [markdown]
# ## What flows back
#
# In $x_{sij} = m_{sij} + p_{ij}$, the number $p_{ij}$ occurs in each sentence $s$. The chain rule adds
# up the ways from $p_{ij}$ to the loss:
#
# $$\frac{\partial L}{\partial p_{ij}} = \sum_s \frac{\partial L}{\partial x_{sij}} \frac{\partial
# x_{sij}}{\partial p_{ij}} = \sum_s g_{sij}$$
#
# So the gradient $g$ is summed over exactly the axes along which $p$ was repeated. In general: sum over
# the axes that were missing, and over those of length 1, which are kept.


# %%
def sum_to(g, shape):
    """Sum g over the axes along which an array of this shape was repeated."""
    missing = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(missing)))
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    return g.sum(axis=ones, keepdims=True)


g = mg.randn(2, 3, 4, dtype="float64")
x.backward(g)
check(
    "the positions' gradient is the sum over sentences",
    np.allclose(positions.grad.numpy(), sum_to(g.numpy(), (3, 4))),
)

agree = []
for shape in ((4,), (1, 4), (3, 1), (2, 1, 1), (1, 3, 4), ()):
    small = mg.randn(*shape, dtype="float64").requires_grad_()
    (mg.zeros(2, 3, 4, dtype="float64") + small).backward(g)
    agree.append(np.allclose(small.grad.numpy(), sum_to(g.numpy(), shape)))
check("sum_to is right for six other shapes", all(agree))

# %% [markdown]
# A *product* broadcasts in the same way. First the product rule gives a gradient in the large shape.
# Then it is summed.

# %%
m = mg.randn(2, 3, 4, dtype="float64", requires_grad=True)
scale = mg.randn(3, 1, dtype="float64", requires_grad=True)  # one for each position
(m * scale).backward(g)
check("scale: sum of g times m", np.allclose(scale.grad.numpy(), sum_to(g.numpy() * m.numpy(), (3, 1))))
check("m: g times scale, nothing to sum", np.allclose(m.grad.numpy(), g.numpy() * scale.numpy()))

# %% [markdown]
# ## Indexing, too
#
# `embedding[ids]` uses the row of "love" twice, once in each sentence. It gets both gradients.
#
# What goes wrong: a student who writes the gradient with NumPy writes `d[ids] = g`. For an index that
# occurs twice, an assignment keeps only the last.

# %%
both = g.numpy()[0, 1] + g.numpy()[1, 1]  # (4,)
check('"love" gets the sum of both places', np.allclose(embedding.grad.numpy()[1], both))

assigned, added = np.zeros((3, 4)), np.zeros((3, 4))
assigned[ids] = g.numpy()
np.add.at(added, ids, g.numpy())
check("an assignment keeps one of the two", np.allclose(assigned[1], g.numpy()[1, 1]))
check("np.add.at adds them up, as the tape does", np.allclose(added, embedding.grad.numpy()))

# %% [markdown]
# ## The more sharing, the larger the gradient
#
# A bias of shape (4,) is shared by all rows. If the loss is a *sum* over rows, its gradient grows with
# their number. If it is a *mean*, each row's part is divided by the number, and the size stays. That is
# why trainers take the mean: one learning rate then fits batches of different sizes.


# %%
def bias_gradient(rows, mean):
    """The rows' gradients g (rows, 4), and the bias's (4,), for rows that want the bias to be 1."""
    bias = mg.zeros(4, requires_grad=True)
    y = mg.randn(rows, 4) * 0.5 + bias  # (rows, 4) + (4,) -> (rows, 4)
    y.retain_grad()
    losses = 0.5 * (y - 1) ** 2
    (losses.sum() / rows if mean else losses.sum()).backward()
    return y.grad.numpy(), bias.grad.numpy()


def picture_of_sharing(rows):
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    each, total, sizes = figure.subplots(1, 3, width_ratios=[1, 1, 1.4])
    g, summed = bias_gradient(rows, mean=False)
    each.imshow(g, cmap=colour_map("signed"), vmin=-3, vmax=3, aspect="auto")
    each.set(title=f"gradients of {rows} rows", xlabel="column", ylabel="row", xticks=range(4))
    if rows <= 12:  # there is space for the numbers
        for row, column in np.ndindex(g.shape):
            each.text(column, row, f"{g[row, column]:.1f}", ha="center", va="center", fontsize=9)
    bars = total.bar(range(4), summed, color="tab:blue")
    total.bar_label(bars, fmt="%.1f", label_type="center", color="white")
    total.axhline(0, color="black", lw=0.8)
    total.set(title="the bias: their sums", xlabel="column", xticks=range(4))
    counts = np.array([1, 2, 4, 8, 16, 32, 64, 128])
    for mean, colour in ((False, "tab:blue"), (True, "tab:green")):
        lengths = [np.linalg.norm(bias_gradient(n, mean)[1]) for n in counts]
        sizes.loglog(counts, lengths, "o-", color=colour, label="loss: mean" if mean else "loss: sum")
    sizes.set(
        title="Sum grows with sharing, mean does not", xlabel="rows that share", ylabel="size of gradient"
    )
    sizes.legend()
    show(figure, "03-sharing", settings)


control(picture_of_sharing, settings, rows=(1, 64))
ratio = np.linalg.norm(bias_gradient(128, False)[1]) / np.linalg.norm(bias_gradient(8, False)[1])
check("16 times the rows: about 16 times the gradient of the sum", 10 < ratio < 26)
ratio = np.linalg.norm(bias_gradient(128, True)[1]) / np.linalg.norm(bias_gradient(8, True)[1])
check("and about the same gradient of the mean", 0.6 < ratio < 1.6)

# %% [markdown]
# ## What goes wrong: shapes that fit by accident
#
# A network predicts one number for each of 64 examples: shape (64, 1). The targets have shape (64,).
# Somebody subtracts them.

# %%
guess = predict("how many numbers has (64, 1) - (64,)?", settings.guess)
inputs = mg.randn(64, 1)  # (64, 1)
targets = 2 * inputs[:, 0] + 1 + 0.3 * mg.randn(64)  # (64,): the line 2 x + 1, and noise
guess.compare((inputs - targets).numel())


def fit(shape, steps=300, rate=0.1):
    """Fit a line to targets of this shape; return its slope, its offset and the losses."""
    slope, offset = mg.zeros(1, requires_grad=True), mg.zeros(1, requires_grad=True)
    losses = []
    for _ in range(steps):
        predictions = inputs * slope + offset  # (64, 1)
        loss = ((predictions - targets.reshape(shape)) ** 2).mean()
        slope.grad = offset.grad = None
        loss.backward()
        with mg.no_grad():
            slope -= rate * slope.grad
            offset -= rate * offset.grad
        losses.append(loss.item())
    return slope.item(), offset.item(), losses


good_slope, good_offset, good_losses = fit((64, 1))
bad_slope, bad_offset, bad_losses = fit((64,))
print(f"(64, 1): {good_slope:.2f} x + {good_offset:.2f}.  (64,): {bad_slope:.2f} x + {bad_offset:.2f}")
check("with the right shape it finds the slope 2", abs(good_slope - 2) < 0.25)
check("with the wrong one it learns a slope of 0", abs(bad_slope) < 0.01)
check("and its loss falls all the same", bad_losses[-1] < bad_losses[0])

# %% [markdown]
# No error, and the loss falls. Why is the slope 0? The result has shape (64, 64): each prediction meets
# *every* target.
#
# $$L = \frac{1}{n^2} \sum_{ij} (p_i - t_j)^2, \qquad \frac{\partial L}{\partial p_i} = \frac{2}{n^2}
# \sum_j (p_i - t_j) = \frac{2}{n} (p_i - \mathrm{mean}(t))$$
#
# So every prediction is pulled to the mean of the targets. `F.mse_loss` warns.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    F.mse_loss(inputs, targets)
print("warning:", caught[0].message)
check("the loss function warns", "broadcasts" in str(caught[0].message))
check("the flat line is the mean of the targets", abs(bad_offset - targets.mean().item()) < 0.01)

figure = Figure(figsize=(9.5, 3.6), layout="constrained")
left, right = figure.subplots(1, 2)
left.scatter(inputs.numpy(), targets.numpy(), s=14, color="grey", label="examples")
ends = np.array([inputs.numpy().min(), inputs.numpy().max()])
left.plot(ends, good_slope * ends + good_offset, color="tab:green", label="targets (64, 1)")
left.plot(ends, bad_slope * ends + bad_offset, color="tab:red", label="targets (64,): only the mean")
left.set(title="Same data, same code, another shape", xlabel="input", ylabel="target")
left.legend()
right.plot(good_losses, color="tab:green", label="targets (64, 1)")
right.plot(bad_losses, color="tab:red", label="targets (64,)")
right.set(title="Both losses fall", xlabel="step", ylabel="loss", ylim=0)
right.legend()
show(figure, "03-accident", settings)

# %% [markdown]
# ## A matrix product is broadcasting, too
#
# $$y_{ij} = \sum_k x_{ik} W_{kj}$$
#
# Give $x$ the shape (n, d, 1) and $W$ the shape (1, d, m), multiply, and sum over the middle axis. Now
# the rule above says what flows back, without a new derivation. $x_{ik}$ was repeated along $j$, so sum
# over $j$: $\sum_j g_{ij} W_{kj}$, which is $g W^\top$. $W_{kj}$ was repeated along $i$: $\sum_i g_{ij}
# x_{ik}$, which is $x^\top g$. With softmax's gradient (lesson 5) they make attention's.

# %%
n, d, m = 5, 4, 3
x = mg.randn(n, d, dtype="float64", requires_grad=True)
W = mg.randn(d, m, dtype="float64", requires_grad=True)
products = x[:, :, None] * W[None, :, :]  # (n, d, 1) * (1, d, m) -> (n, d, m)
y = products.sum(1)  # (n, m)
check("it is x @ W", np.allclose(y.numpy(), x.numpy() @ W.numpy()))

g = mg.randn(n, m, dtype="float64")
y.backward(g)
check("x gets g Wᵀ", np.allclose(x.grad.numpy(), g.numpy() @ W.numpy().T))
check("W gets xᵀ g", np.allclose(W.grad.numpy(), x.numpy().T @ g.numpy()))
print(f"`@` never makes the array of {products.numel()} products, only the {y.numel()} results")

# %% [markdown]
# ## Views
#
# A tensor is memory and a way to walk through it: *strides* say how many numbers to skip for a step
# along each axis. Transposing, slicing and reshaping often change only the strides. The result is a
# *view* of the same memory. Multi-head attention splits a row of width $d$ into $h$ heads of width $d_k
# = d / h$:
#
# (T, d) → (T, h, d_k) → (h, T, d_k)

# %%
T, h, d_k = 4, 2, 3
x = (
    mg.arange(T, dtype="float64")[:, None].expand(T, h * d_k).clone().requires_grad_()
)  # row i is i, i, i, ...
heads = x.reshape(T, h, d_k).transpose(0, 1)  # (T, d) -> (T, h, d_k) -> (h, T, d_k)
print("x:", tuple(x.shape), x.stride(), " heads:", tuple(heads.shape), heads.stride())
check("the heads are x's memory", np.shares_memory(heads.numpy(), x.numpy()))
shared = mg.zeros(1, 4).expand(1000, 4)
check("so is broadcasting: 1,000 rows by a stride of 0", shared.stride() == (0, 1))

g = mg.randn(h, T, d_k, dtype="float64")
heads.backward(g)
back = g.numpy().transpose(1, 0, 2).reshape(T, h * d_k)  # the same steps, backward
check("what flows back goes the same way back", np.array_equal(x.grad.numpy(), back))

# %% [markdown]
# ## What goes wrong: the right shape, the wrong words
#
# `x.reshape(h, T, d_k)` has the right shape at once. But a reshape only cuts the memory into other
# rows: head 1 gets the first half of the *words*, each twice. Nothing raises an error.

# %%
wrong = x.reshape(h, T, d_k)  # (T, d) -> (h, T, d_k): no transpose
print("head 1 should see words 0 1 2 3; with the wrong reshape it sees", wrong[0, :, 0].int().tolist())
check("the shapes are equal", wrong.shape == heads.shape)
check("head 1 sees each word once", heads[0, :, 0].int().tolist() == [0, 1, 2, 3])
check("the wrong one sees two words twice", wrong[0, :, 0].int().tolist() == [0, 0, 1, 1])

figure = Figure(figsize=(9, 3.4), layout="constrained")
drawn = {
    "x: one row for each word": x,
    "reshape, transpose: right": heads,
    "reshape only: words mixed": wrong,
}
for axes, (title, tensor) in zip(figure.subplots(1, 3), drawn.items(), strict=True):
    rows = tensor.detach().numpy().reshape(-1, tensor.shape[-1])
    axes.imshow(rows, cmap="Set2", vmin=0, vmax=7, aspect="auto")
    for row, column in np.ndindex(rows.shape):
        axes.text(column, row, f"{rows[row, column]:.0f}", ha="center", va="center")
    names = (
        [f"word {i}" for i in range(T)]
        if tensor is x
        else [f"head {i // T + 1}, {i % T}" for i in range(T * h)]
    )
    axes.set_yticks(range(len(rows)), names)
    axes.set(title=title, xticks=[])
    if tensor is not x:
        axes.axhline(T - 0.5, color="black", lw=2)
show(figure, "03-heads", settings)

# %% [markdown]
# The code in "Explain step by step" does it right: `view`, then `transpose(1, 2)`; on the way back
# `transpose(1, 2)`, `contiguous()`, then `view`. The `contiguous()` copies, because the numbers of one
# word are no longer side by side, and no strides can say that.
#
# One danger remains. A change through a view changes the original, and backward may still need the old
# numbers. minigrad counts changes, and refuses.

# %%
try:
    heads.view(T, h * d_k)
except mg.ShapeError as error:
    print(error)
check("transposed back, a view is possible", heads.transpose(0, 1).view(T, h * d_k).shape == (T, h * d_k))

x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = (x * x).sum()
with mg.no_grad():
    x[:2].zero_()  # a view of x: x is changed
try:
    y.backward()
    refused = False
except mg.GraphError as error:
    refused = True
    print(error)
check("backward refuses numbers that were changed", refused and x.tolist() == [0.0, 0.0, 3.0])

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 3`: the sum over broadcast axes, from an empty function.
# 2. With pencil only: a loss uses `(q[:, None, :] - k[None, :, :])`, with q of shape (T, d) and k of
#    shape (S, d). What is the shape of the difference, and over which axis is the gradient of q summed?
#    Of k? Which sign has it? Then check with the tape.
#
# ## Read next
#
# - `minigrad/core/sums.py`, `unbroadcast`: your `sum_to`, as the library has it.
# - `minigrad/ops/shaping.py`, `permute_axes`: a view, and the way back.
# - `minigrad/ops/indexing.py`, `getitem`: a lookup, and the gradient that adds up.
# - Next lesson: `demos/lessons/04_one_training_step.py`
