# %% [markdown]
# # 18. What makes it fast
#
# After this lesson you can say what an operation must cost before you run it, measure it so that the
# number can be trusted, and find out where the time of a training step goes.
#
# One thought: *count two things, the arithmetic and the bytes that must move.* Arithmetic on numbers
# that are already in the processor is nearly free. Fetching them from memory is not.

# %%
import time
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from lesson import Settings, check, check_time, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.core.observers import Observer, observe
from minigrad.nn import functional as F
from minitransformer import GPT, GPTConfig


@dataclass
class Lesson(Settings):
    width: int = 64
    """The width of attention in the picture of lengths. Try 16 and 256."""
    guess: float | None = None
    """Your prediction: how many times longer additive scores take than dot products."""


settings = read_settings(Lesson)

# %% [markdown]
# ## How to measure
#
# Other programs interrupt yours, and the processor changes its speed. So:
#
# - measure processor time, which stands still while another program runs;
# - repeat a short call until it has taken long enough for the clock;
# - let the candidates take turns, so that a slow moment meets all of them;
# - report the median of several rounds: one bad round does not change it.
#
# The first call is not counted. It may compile a kernel or fetch memory from the system. On a GPU a call
# returns before the work is done: synchronize (`mg.cuda.synchronize()`) before each look at the clock.


# %%
def race(rounds=5, at_least=0.01, **candidates):
    """The median seconds of a call, for each function."""
    seconds = {name: [] for name in candidates}
    for function in candidates.values():
        function()
    for _ in range(rounds):
        for name, function in candidates.items():
            start = time.process_time()
            calls = 0
            while time.process_time() < start + at_least:
                function()
                calls += 1
            seconds[name].append((time.process_time() - start) / calls)
    return {name: float(np.median(each)) for name, each in seconds.items()}


# %% [markdown]
# ## Arithmetic and bytes
#
# Two matrices of $n \times n$ numbers of 4 bytes. A sum and a product move the same bytes: two matrices
# in, one out.
#
# | | arithmetic | bytes | arithmetic for each byte |
# |---|---|---|---|
# | $A + B$ | $n^2$ | $12 n^2$ | $1/12$ |
# | $A B$ | $2 n^3$: each of $n^2$ results takes $n$ products and $n$ sums | $12 n^2$ | $n/6$ |
#
# For $n = 512$ the product does 1,024 times as much arithmetic. If arithmetic were what costs, it would
# take 1,024 times as long.

# %%
sizes = [4, 16, 64, 128, 256, 512, 1024]
measured = {}
for n in sizes:
    a = mg.randn(n, n)
    b = mg.randn(n, n)
    measured[n] = race(add=lambda: a + b, matmul=lambda: a @ b)  # noqa: B023 - called at once

ratio = measured[512]["matmul"] / measured[512]["add"]
micro = {name: 1e6 * seconds for name, seconds in measured[512].items()}
print(f"n = 512: the sum {micro['add']:.0f} µs, the product {micro['matmul']:.0f} µs")
print(f"1,024 times the arithmetic takes {ratio:.0f} times as long")
check_time("the product takes far less than 1,024 times as long", ratio < 512)


# %%
def picture_of_two_costs():
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, count in (("add", lambda n: n**2), ("matmul", lambda n: 2 * n**3)):
        taken = np.array([measured[n][name] for n in sizes])
        left.loglog(sizes, taken * 1e6, "o-", label=name)
        right.loglog(sizes, [count(n) / 1e9 for n in sizes] / taken, "o-", label=name)
    left.set(title="Small: the call costs, whatever the size", xlabel="n", ylabel="microseconds for a call")
    right.set(title="Large: a product keeps the processor busy", xlabel="n")
    right.set(ylabel="billion operations for each second")
    for axes in (left, right):
        axes.set_xticks(sizes, map(str, sizes))
        axes.legend()
    show(figure, "18-two-costs", settings)


picture_of_two_costs()
rate = {name: count / measured[1024][name] for name, count in (("add", 1024**2), ("matmul", 2 * 1024**3))}
check_time(
    "a large product does over 5 times more arithmetic for each second", rate["matmul"] > 5 * rate["add"]
)

# %% [markdown]
# There are three regimes. Small arrays: Python's own work for a call, some microseconds, whatever the
# size. Large sums: the memory. Large products: arithmetic, since each number that was fetched is used
# $n$ times.
#
# ## Why the paper takes the dot product
#
# "Attention Is All You Need", section 3.2.1, compares two ways to score a query against a key, additive
# attention and the dot product:
#
# > While the two are similar in theoretical complexity, dot-product attention is much faster and more
# > space-efficient in practice, since it can be implemented using highly optimized matrix
# > multiplication code.
#
# $$s^{\mathrm{add}}_{ij} = v \cdot \tanh(q_i + k_j), \qquad s^{\mathrm{dot}}_{ij} = q_i \cdot k_j$$
#
# For each pair, $4d$ operations against $2d$ (a tanh counted as one). But $\tanh(q_i + k_j)$ is an
# array of $T^2 d$ numbers.


# %%
def additive_scores(q, k, v):  # (T, d), (T, d), (d,) -> (T, T)
    return (q[:, None] + k).tanh() @ v  # (T, T, d) on the way


def dot_scores(q, k):  # (T, d), (T, d) -> (T, T)
    return q @ k.mT


q, k = mg.randn(2, 128, 64)
v = mg.randn(64)
guess = predict("T = 128, d = 64. How many times longer do the additive scores take?", settings.guess)
scores = race(additive=lambda: additive_scores(q, k, v), dot=lambda: dot_scores(q, k))
slower = scores["additive"] / scores["dot"]
guess.compare(slower)
check_time("twice the arithmetic takes over 6 times as long", slower > 6)

# %% [markdown]
# ## A fused op and its definition
#
# In minigrad, softmax is defined by other operations: `exp(x - max)`, then divided by its sum. Each
# writes an array that the next one reads. Such arrays are called *temporaries*. A *kernel* computes the
# same in fewer passes, and keeps less for backward.
#
# `mg.fused(False)` runs the definitions. `mg.kernels.use` chooses the kernels: `"numpy"`, or `"jit"`,
# loops that numba compiles (if it is installed).

# %%
x = mg.randn(512, 256, requires_grad=True)
with mg.fused(False):
    by_definition = mg.graph.memory(x.softmax(-1).sum())
by_kernel = mg.graph.memory(x.softmax(-1).sum())
for name, kept in (("definition", by_definition), ("kernel", by_kernel)):
    operations = [v.name for v in kept.graph.vertices if v.kind == "op"][:-1]  # the last is our sum
    print(f"{name:11} {kept.retained:9,} bytes kept for backward by {', '.join(operations)}")
check(
    "the kernel is one operation, and keeps the result alone",
    operations == ["softmax"] and by_kernel.retained == x.numel() * 4,
)
check("the definition keeps more", by_definition.retained >= 2 * by_kernel.retained)

# %% [markdown]
# A faster op that computes something else is worth nothing. So first the values and gradients, then the
# time. (GELU is a smooth ReLU: $x$ times the chance that a normal number is below $x$.)

# %%
gamma = mg.ones(256, requires_grad=True)
words = np.random.default_rng(settings.seed).integers(0, 256, 512)
heads = mg.randn(4, 4, 128, 32, requires_grad=True)  # (B, H, T, d_k)
OPS = {
    "softmax": (lambda: x.softmax(-1), x),
    "layer norm": (lambda: F.layer_norm(x, (256,), gamma), x),
    "GELU": (lambda: F.gelu(x, approximate="tanh"), x),
    "cross-entropy": (lambda: F.cross_entropy(x, words), x),
    "attention": (lambda: F.scaled_dot_product_attention(heads, heads, heads, is_causal=True), heads),
}
KERNELS = ["numpy", "jit"] if find_spec("numba") else ["numpy"]
WAYS = ["definition", *KERNELS]


def run_on(way, function):
    """What `function()` returns if ops run their definitions, or these kernels."""
    if way == "definition":
        with mg.fused(False):
            return function()
    with mg.kernels.use(way):
        return function()


def forward_backward(name):
    """The value of an op, and the gradient of its input."""
    function, leaf = OPS[name]
    y = function()
    upstream = mg.arange(y.numel(), dtype="float32").reshape(y.shape) / y.numel()
    return y, *mg.autograd.grad(y, [leaf], upstream)


for name in OPS:
    expected = run_on("definition", lambda: forward_backward(name))  # noqa: B023
    for way in KERNELS:
        found = run_on(way, lambda: forward_backward(name))  # noqa: B023
        same = all(np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(found, expected, strict=True))
        check(f"{name}: {way} kernel and definition have the same value and gradient", same)

# %%
milliseconds = {}
for name in OPS:
    candidates = {way: lambda way=way: run_on(way, lambda: forward_backward(name)) for way in WAYS}  # noqa: B023
    milliseconds[name] = {way: 1000 * seconds for way, seconds in race(**candidates).items()}
    print(f"{name:14}", *(f"{way} {ms:6.2f} ms  " for way, ms in milliseconds[name].items()))

total = {way: sum(milliseconds[name][way] for name in OPS) for way in WAYS}
check_time(
    "on the best kernels, the five together take less time", min(total.values()) < 0.9 * total["definition"]
)


# %%
def picture_of_kernels():
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(WAYS)
    for i, way in enumerate(WAYS):
        taken = [milliseconds[name][way] for name in OPS]
        bars = axes.barh(np.arange(len(OPS)) + (i - 1) * height, taken, height, label=way)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.set(title="The same value and gradient, in three ways", xlabel="milliseconds, forward and backward")
    axes.set_yticks(range(len(OPS)), OPS)
    axes.invert_yaxis()
    axes.legend()
    show(figure, "18-kernels", settings)


picture_of_kernels()

# %% [markdown]
# A kernel is not faster by its name. In our run the NumPy kernel of GELU is slower than the definition.
# It works block by block; numba's loop makes one pass.
#
# ## Attention: memory that grows as the square, or not
#
# The definition keeps two arrays of $T^2$ numbers for each head: the exponentials, and the weights that
# they become. For $T = 1024$ that is twice 4.2 MB. "Explain step by step ..." names this cost.
#
# The kernel takes a block of queries at a time, whose scores stay in the processor's cache. For
# backward it keeps a number for each row, the $\log \sum$ of its softmax, and computes the weights
# again: $w_{ij} = e^{s_{ij} - \ell_i}$.
#


# %%
def attend(length, width):
    """Causal attention of one sentence with one head, and its gradient."""
    q = mg.randn(1, length, width, requires_grad=True)
    return lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)


def bytes_kept(way, length, width=64):
    return run_on(way, lambda: mg.graph.memory(attend(length, width)().sum()).retained)


for length in (128, 256, 512, 1024):
    print(f"T = {length:4}", *(f"{way} {bytes_kept(way, length):>10,} bytes  " for way in WAYS))
growth = {way: bytes_kept(way, 1024) / bytes_kept(way, 512) for way in WAYS}
check("twice the length: the definition keeps 4 times as much", 3.5 < growth["definition"] < 4.1)
check("twice the length: the kernels keep twice as much", all(growth[way] < 2.1 for way in KERNELS))


# %%
def picture_of_lengths(width):
    """Bytes and time of attention by length, and the time of a feed-forward network of this width."""
    lengths = [64, 128, 256, 512, 1024]
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for way in ("definition", KERNELS[-1]):
        left.loglog(lengths, [bytes_kept(way, n, width) / 1e6 for n in lengths], "o-", label=way)
        seconds = [race(3, f=lambda n=n: run_on(way, attend(n, width)))["f"] for n in lengths]  # noqa: B023
        right.loglog(lengths, [1000 * each for each in seconds], "o-", label=f"attention, {way}")
    w1, w2 = mg.randn(4 * width, width), mg.randn(width, 4 * width)
    forward = lambda x: F.linear(F.linear(x, w1).relu(), w2)
    seconds = [race(3, f=lambda n=n: forward(mg.randn(n, width)))["f"] for n in lengths]
    right.loglog(lengths, [1000 * each for each in seconds], "k--", label="feed-forward")
    left.set(title="Beside q, k, v the kernel keeps T numbers", ylabel="megabytes kept for backward")
    right.set(title="Time still grows faster than the length", ylabel="milliseconds, forward")
    for axes in (left, right):
        axes.set_xticks(lengths, map(str, lengths))
        axes.set(xlabel=f"length T, at d = {width}")
        axes.legend()
    show(figure, "18-lengths", settings)


control(picture_of_lengths, settings, width=(8, 256))
# %% [markdown]
# "Transformers - Attention Is All You Need" calls the trade favorable for "typical NLP sequence lengths
# ($T < 1000$)". It depends on $d$. The feed-forward network has $16 T d^2$ operations (a multiplication
# and an addition are two). Attention has $4 T^2 d$, and causal attention half of them: $2 T^2 d$, as
# many where $T = 8d$. (The same formula in lesson 16 counts multiply-adds, without a mask.) In the
# picture, attention passes it earlier: it has a softmax, too.

# %%
longer = race(short=attend(512, 64), long=attend(2048, 64))
print(f"four times the length takes {longer['long'] / longer['short']:.1f} times as long")
check_time("the kernel saves memory, not the T² of arithmetic", longer["long"] > 5 * longer["short"])

# %% [markdown]
# "Transformer Network" compares 1,000 sequential steps of an RNN with "1 parallel step". A step is not
# a time: that one grows with $T^2$.
#
# ## Where a training step's time goes
#
# minigrad lets an observer see each result, and each gradient on its way back. Ours looks at the clock:
# what has passed since the last look belongs to this operation.


# %%
class Stopwatch(Observer):
    def __init__(self):
        self.seconds = Counter()
        self.last = time.process_time()

    def look(self, name):
        now = time.process_time()
        self.seconds[name] += now - self.last
        self.last = now

    def on_result(self, op, arrays, settings, value, gradients):
        self.look(op.name)

    def on_pull(self, node, g, contributions):
        self.look(node.op.name)


config = GPTConfig(
    1000, n_positions=128, n_embd=128, n_layer=2, n_head=4, embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0
)
text = np.random.default_rng(settings.seed).integers(0, 1000, (8, 129))  # B = 8, T = 128


def make_step():
    """A function that trains a new GPT for a step."""
    mg.manual_seed(settings.seed)
    model = GPT(config)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids):  # (B, T + 1)
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 1000), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def profile(way, steps=5):
    """The median seconds that each operation takes in a step."""
    step = make_step()
    tables = []
    for _ in range(steps + 1):  # the first is not counted
        watch = Stopwatch()
        with observe(watch):
            run_on(way, lambda: step(text))
        watch.look("optimizer")
        tables.append(watch.seconds)
    return Counter({name: float(np.median([table[name] for table in tables[1:]])) for name in tables[1]})


profiles = {way: profile(way) for way in WAYS}
for way, table in profiles.items():
    top = ", ".join(f"{name} {1000 * s:.1f}" for name, s in table.most_common(6))
    print(f"{way}: {1000 * table.total():.0f} ms, of which {top}")


# %% [markdown]
# Group the operations. `linear` and `matmul` are matrix products. With kernels, attention is one
# operation. Without, its products are among the `matmul`, its softmax among the rest.

# %%
GROUPS = {
    "linear": "matrix products",
    "matmul": "matrix products",
    "multi_head_attention": "attention's kernel",
    "optimizer": "optimizer",
}
REST = "all else: norms, GELU, loss, ..."
grouped = {way: Counter() for way in WAYS}
for way, table in profiles.items():
    for name, seconds in table.items():
        grouped[way][GROUPS.get(name, REST)] += 1000 * seconds


def picture_of_step():
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots()
    left = np.zeros(len(WAYS))
    for group in dict.fromkeys([*GROUPS.values(), REST]):
        taken = np.array([grouped[way][group] for way in WAYS])
        bars = axes.barh(WAYS, taken, left=left, label=group)
        axes.bar_label(bars, [f"{each:.0f}" if each > 3 else "" for each in taken], label_type="center")
        left += taken
    axes.set(title="Kernels remove what is not a matrix product", xlabel="milliseconds of a training step")
    axes.invert_yaxis()
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    show(figure, "18-step", settings)


picture_of_step()
best = min(KERNELS, key=lambda way: profiles[way].total())
gain = profiles["definition"].total() / profiles[best].total()
share = {way: grouped[way]["matrix products"] / grouped[way].total() for way in WAYS}
print(f"{best}: a step is {gain:.1f} times faster; products are {share[best]:.0%} of it")
check_time("a step with kernels takes less time", gain > 1.1)

# %% [markdown]
# ## What is left to gain
#
# Let a part take the share $p$ of the time, and make it $s$ times faster. The new time is $(1 - p) + p
# / s$ of the old. So the whole becomes faster by
#
# $$\frac{1}{(1 - p) + p / s} \le \frac{1}{1 - p}$$
#
# This is Amdahl's law. The bound is reached if the part takes no time at all.
#
# So look for the largest share first. The optimizer made twice as fast is a gain that nobody sees.


# %%
def amdahl(p, s):
    return 1 / ((1 - p) + p / s)


optimizer_share = grouped[best]["optimizer"] / grouped[best].total()
print(f"optimizer twice as fast: the step is {amdahl(optimizer_share, 2):.3f} times faster")
print(f"products twice as fast:  the step is {amdahl(share[best], 2):.3f} times faster")
print(f"all but the products free: at most {amdahl(1 - share[best], 1e9):.2f} times faster")
check_time("faster products are worth more than a faster optimizer", share[best] > optimizer_share)

# %% [markdown]
# ## What goes wrong: three slow ways to do the right thing
#
# - *A loop.* Each call has a price of its own. 512 calls pay it 512 times.
# - *A product with zeros.* "Explain step by step ..." shows that an embedding is a one-hot vector times
#   the matrix, and says: "direct indexing is much faster". The product fetches the whole matrix.
# - *Reading across memory.* A transpose costs nothing: it is a view. Copying it is slow, since
#   neighbours in a column are far apart in memory, and the processor fetches 64 bytes at a time.

# %%
table = mg.randn(4000, 128)  # (V, d)
ids = np.random.default_rng(settings.seed).integers(0, 4000, 128)
one_hot = mg.tensor(np.eye(4000, dtype="float32")[ids])  # (T, V)
square = mg.randn(2048, 2048)
with mg.no_grad():
    rows = list(x)
    found = race(
        at_once=lambda: x.softmax(-1),
        loop=lambda: [row.softmax(-1) for row in rows],
        lookup=lambda: F.embedding(ids, table),
        product=lambda: one_hot @ table,
        copy=lambda: square.clone(),
        transposed=lambda: square.mT.contiguous(),
    )
for slow, fast in (("loop", "at_once"), ("product", "lookup"), ("transposed", "copy")):
    ratio = found[slow] / found[fast]
    print(
        f"{slow:10} {1000 * found[slow]:7.3f} ms   {fast:8} {1000 * found[fast]:6.3f} ms   {ratio:5.1f} to 1"
    )
check_time("a loop over rows takes longer than all rows at once", found["loop"] > 4 * found["at_once"])
check(
    "indexing equals the product with one-hot vectors", np.allclose(F.embedding(ids, table), one_hot @ table)
)
check_time("and takes far less time", found["product"] > 5 * found["lookup"])
check_time("a transposed copy takes longer than a copy", found["transposed"] > 2 * found["copy"])

# %% [markdown]
# ## A captured step
#
# Even a training step is a loop: some hundred calls from Python. On a GPU each takes a few microseconds
# to launch, longer than a small kernel runs. `mg.capture` records the step once as a CUDA graph, and
# replays all of it with one call.
#
# `docs/results.md` measures it on an H200. Its smallest model takes 4.4 ms for a step as written, and
# 0.19 ms captured. For GPT-2, with its large products, it is 64 and 45 ms: the same law, with another
# $p$.
#
# On a CPU the step simply runs. The numbers are the same, bit for bit.

# %%
as_written, captured = make_step(), mg.capture(make_step())
losses = [(as_written(text).item(), captured(text).item()) for _ in range(4)]
print("as written, captured:", np.round(losses, 4).tolist())
check("a captured step computes the same losses, bit for bit", all(a == b for a, b in losses))

# %% [markdown]
# ## Exercises
#
# 1. Write a softmax kernel of your own: a function that returns the value and the gradient, under
#    `@kernel(mg.softmax, "numpy")` (from `minigrad.core.kernels`). Check it with `mg.gradcheck`, then
#    race it against ours, on kernels "numpy".
# 2. For the layer norm of a (512, 256) array of 4-byte numbers, count the bytes that its definition
#    reads and writes, operation by operation, and the least that any program must. Compare the ratio
#    with your measured one.
#
# ## Read next
#
# - `minigrad/kernels/numpy/attention.py`, `attend`: attention a block of queries at a time.
# - `minigrad/core/kernels.py`, `kernel`: how a kernel registers on an op.
# - `minigrad/capture/__init__.py`, `capture`: what a recorded step may contain.
# - `docs/speed.md`: threads, GPUs, and how to measure.
