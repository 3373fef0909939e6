# %% [markdown]
# # 2. An engine in a hundred lines
#
# After this lesson you can write an automatic differentiation engine, say which three mistakes break
# one silently, and read the five central files of `minigrad/core`.
#
# In lesson 1 the tape did what you did with a pencil. Here you build the tape. It needs two ideas:
#
# 1. Each operation leaves behind, for each of its inputs, a function from the gradient of the result to
#    the gradient of that input.
# 2. The walk back calls these functions, from the last operation to the first, and adds up what
#    arrives.
#
# We begin with single numbers.

# %%
import ast
import inspect
import weakref
from dataclasses import dataclass
from itertools import count

import engine
import numpy as np
from engine import Tensor
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad.core import backward


@dataclass
class Lesson(Settings):
    hidden: int = 2
    """Neurons in the hidden layer of the XOR network. Try 3, 4, 8 and 16."""
    guess: float | None = None
    """Your prediction: the percentage of random starts that learn XOR with two hidden neurons."""


settings = read_settings(Lesson)
rng = np.random.default_rng(settings.seed)

# %% [markdown]
# ## A number that remembers
#
# A product $z = x y$ changes by $y$ when $x$ changes by 1, and by $x$ when $y$ does. So if $g$ is the
# gradient of $z$, the chain rule gives
#
# $$\frac{\partial L}{\partial x} = \frac{\partial L}{\partial z}\,\frac{\partial z}{\partial x} = g\,y,
# \qquad \frac{\partial L}{\partial y} = g\,x.$$
#
# For a sum both derivatives are 1, so both inputs get $g$ itself. Value and gradient functions stand
# side by side, because they are one piece of knowledge.

# %%
made = count()


class Number:
    def __init__(self, value, edges=(), gradients=()):
        self.value = value
        self.edges = edges  # the numbers that it was computed from
        self.gradients = gradients  # for each of them: my gradient -> its gradient
        self.number = next(made)


def add(x, y):
    return Number(x.value + y.value, (x, y), (lambda g: g, lambda g: g))


def multiply(x, y):
    return Number(x.value * y.value, (x, y), (lambda g: g * y.value, lambda g: g * x.value))


x = Number(3.0)
a = multiply(x, x)  # 9
b = multiply(a, x)  # 27
loss = add(b, a)  # x³ + x² = 36
print(loss.value, [edge.value for edge in loss.edges], [f(1.0) for f in loss.gradients])

# %% [markdown]
# The numbers point back to what made them: that is the whole recording. Here is the expression as a
# picture, drawn from minigrad's tape of the same computation. Two boxes show a gradient as a sum: the
# engine to come must find these sums.

# %%
leaf = mg.tensor(3.0, dtype="float64", requires_grad=True)
square = leaf * leaf
graph = mg.graph.trace(square * leaf + square, {"x": leaf}, title="x³ + x²: x is used three times, x² twice")
show(graph, "02-graph", settings)

# %% [markdown]
# ## The walk back
#
# Both $x$ and $a = x^2$ are used more than once. If $x$ goes into $u_1, \dots, u_n$, a change of $x$
# changes the loss through each of them, and to first order the changes add up:
#
# $$\frac{\partial L}{\partial x} = \sum_{i} \frac{\partial L}{\partial u_i}\,
# \frac{\partial u_i}{\partial x}.$$
#
# So an engine must **add**, and it must **wait**: it may use the gradient of $a$ only when all that was
# computed from $a$ has sent its part. A number is always made after those it was computed from. From
# the last made to the first is therefore an order in which nothing comes too early.

# %%


def behind(end):
    """All numbers that `end` was computed from, and itself, in the order in which they were made."""
    stack = [end]
    seen = {end}
    while stack:
        new = set(stack.pop().edges) - seen
        stack.extend(new)
        seen |= new
    return sorted(seen, key=lambda each: each.number)


def walk_back(end):
    grads = dict.fromkeys(behind(end), 0.0)
    grads[end] = 1.0
    for each in reversed(behind(end)):
        for edge, gradient in zip(each.edges, each.gradients, strict=True):
            grads[edge] += gradient(grads[each])
    return grads


right = 3 * 3.0**2 + 2 * 3.0  # by the rules of school: 3x² + 2x = 33
print(f"the engine says {walk_back(loss)[x]}, calculus says {right}")
check("the engine of numbers differentiates x³ + x²", walk_back(loss)[x] == right)

# %% [markdown]
# ## Two wrong engines
#
# The first overwrites where it should add. The second does not wait: as soon as a part of a gradient
# arrives, it carries it on. Both give the right answer for an expression in which each number is used
# once. Nothing fails and nothing warns. A network with such an engine learns, only badly.


# %%
def overwriting(end):
    grads = {end: 1.0}
    for each in reversed(behind(end)):
        for edge, gradient in zip(each.edges, each.gradients, strict=True):
            grads[edge] = gradient(grads[each])  # = where += is right
    return grads


def impatient(end):
    grads = dict.fromkeys(behind(end), 0.0)
    grads[end] = 1.0

    def push(each):
        for edge, gradient in zip(each.edges, each.gradients, strict=True):
            grads[edge] += gradient(grads[each])
            push(edge)  # the gradient of `edge` may not be complete

    push(end)
    return grads


engines = {"right": walk_back, "overwriting": overwriting, "impatient": impatient}
once = add(multiply(w := Number(2.0), Number(5.0)), Number(1.0))  # 2 * 5 + 1: each number is used once
print("d(5w + 1)/dw:", {name: walk(once)[w] for name, walk in engines.items()})
print("d(x³ + x²)/dx:", found := {name: walk(loss)[x] for name, walk in engines.items()})
check("with each number used once, all three agree", {walk(once)[w] for walk in engines.values()} == {5.0})
check("x³ + x² tells them apart: 33, 9 and 51", list(found.values()) == [33.0, 9.0, 51.0])

# %% [markdown]
# Follow the 51: $a$ first gets 3 from the product, and sends $3 \cdot 6 = 18$ on to $x$. Then it gets 1
# from the sum, has $4$, and sends $4 \cdot 6 = 24$. The first 3 was sent twice.
#
# The impatient engine has another weakness: it calls itself once for each operation of a chain. Python
# stops that after about a thousand calls. A stack in a list has no such limit.

# %%
chain = Number(1.0)
for _ in range(20_000):
    chain = multiply(chain, Number(1.0))
try:
    impatient(chain)
    outcome = "finished"
except RecursionError:
    outcome = "RecursionError"
print("a chain of 20,000 products, by recursion:", outcome)
check("by a loop, every number in the chain gets its gradient", set(walk_back(chain).values()) == {1.0})

# %% [markdown]
# ## From numbers to arrays
#
# `demos/lessons/engine.py` is the same engine for arrays: a class, a walk back, and a rule for each
# operation. A rule takes arrays. It returns the value and a gradient function for each input.


# %%
def code_lines(module):
    """The lines of a module without comments, docstrings and empty lines."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
    return [line for line in ast.unparse(tree).splitlines() if line]


for operation in (engine.multiply, engine.exp, engine.matmul, engine.getitem):
    print(inspect.getsource(operation.rule))
print(f"engine.py has {len(code_lines(engine))} lines of code")
check("the engine has a hundred lines", len(code_lines(engine)) <= 100)

# %% [markdown]
# One thing is new: **broadcasting**. In $y_{ij} = x_{ij} + b_j$, each $b_j$ is used in every row $i$. A
# number that is used several times gets the sum, so
#
# $$\frac{\partial L}{\partial b_j} = \sum_i \frac{\partial L}{\partial y_{ij}}.$$
#
# The rule of `add` does not know that. It hands on $g$, and the engine sums over the repeated axes: in
# one place, for all operations.

# %%
print(inspect.getsource(engine.unbroadcast))

x = Tensor(rng.normal(size=(4, 3)))
b = Tensor(np.zeros(3))
(x + b).sum().backward()
by_rule = engine.add.rule(x.array, b.array)[1][1](np.ones((4, 3)))
print(f"the rule of add sends shape {by_rule.shape}; b gets {b.grad}")
check("a bias that is added to four rows gets a gradient of 4, in its own shape", (b.grad == [4, 4, 4]).all())

# %% [markdown]
# ## A third wrong engine
#
# The gradient function of `add` returns `g` itself, not a copy. So $x$ and $y$ in $x + y$ may share one
# array. An engine that adds in place, to save memory, then changes both.


# %%
def careless(end):
    totals = {end: np.ones(end.array.shape)}
    for tensor in reversed(engine.behind(end)):
        g = totals[tensor]
        for edge, gradient in zip(tensor.edges, tensor.gradients, strict=True):
            part = gradient(g)
            if edge in totals:
                totals[edge] += part  # in place: totals[edge] may be another tensor's, too
            else:
                totals[edge] = part
    return totals


x = Tensor(np.ones((2, 2)))
y = Tensor(np.ones((2, 2)))
result = x * 3 + (x + y)  # of its sum, the gradient of x is 4 and that of y is 1
wrong = careless(result)
result.backward()
print(f"the gradient of y: right {y.grad[0, 0]}, careless {wrong[y][0, 0]}")
check("adding in place gives y some of the gradient of x", (y.grad == 1).all() and (wrong[y] == 4).all())

# %% [markdown]
# minigrad adds in place only into arrays that it has allocated itself. It calls them `owned`; we meet
# them below.
#
# ## Is it right?
#
# For each operation we compare three gradients: the engine's, finite differences, and minigrad's. The
# names are the same in both libraries, so one function serves both.

# %%
CASES = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**3,
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: x.log(),
    "relu": lambda x, y: (x - 1).relu(),
    "matmul": lambda x, y: x @ y,
    "sum": lambda x, y: x.sum(0),
    "mean": lambda x, y: x.mean(-1, keepdims=True),
    "reshape": lambda x, y: x.reshape((9,)),
    "permute": lambda x, y: x.permute((1, 0)),
    "getitem": lambda x, y: x[[0, 2, 0]],  # row 0 twice
}


def gradients(library, f, *arrays):
    """The gradients of a randomly weighted sum of f's result, computed by the engine or minigrad."""
    leaves = [library(array) for array in arrays]
    result = f(*leaves)
    (result * WEIGHTS[: result.array.size].reshape(result.array.shape)).sum().backward()
    return [
        np.zeros_like(array) if leaf.grad is None else np.array(leaf.grad)
        for leaf, array in zip(leaves, arrays, strict=True)
    ]


def measured(f, *arrays, step=1e-6):
    """The same by central differences: change one number, look at the result."""
    found = [np.zeros_like(array) for array in arrays]
    for array, gradient in zip(arrays, found, strict=True):
        for i in np.ndindex(array.shape):
            changed = []
            for sign in (1, -1):
                array[i] += sign * step
                value = f(*map(Tensor, arrays)).array
                changed.append((value * WEIGHTS[: value.size].reshape(value.shape)).sum())
                array[i] -= sign * step
            gradient[i] = (changed[0] - changed[1]) / (2 * step)
    return found


def minigrad_leaf(array):
    return mg.tensor(array, requires_grad=True)


WEIGHTS = rng.normal(size=9)
x, y = rng.uniform(0.5, 2, size=(2, 3, 3))
x[abs(x - 1) < 0.01] += 0.1  # not at the kink of relu
to_measured, to_minigrad = {}, {}
for name, f in CASES.items():
    ours = gradients(Tensor, f, x, y)
    pairs = zip(ours, measured(f, x, y), gradients(minigrad_leaf, f, x, y), strict=True)
    errors = [(abs(mine - slope).max(), abs(mine - theirs).max()) for mine, slope, theirs in pairs]
    to_measured[name], to_minigrad[name] = np.max(errors, axis=0)
    print(
        f"{name:<10} from finite differences {to_measured[name]:.0e}, from minigrad {to_minigrad[name]:.0e}"
    )
operations = {name for name, each in vars(engine).items() if hasattr(each, "rule")} | {"mean"}
check("every operation of the engine was tried", operations == set(CASES))
check("all gradients agree with finite differences to 6 digits", max(to_measured.values()) < 1e-6)
check("all gradients agree with minigrad's to rounding", max(to_minigrad.values()) < 1e-12)

# %% [markdown]
# ## minigrad/core, beside it
#
# | engine.py | minigrad/core | what it adds |
# |---|---|---|
# | a rule | a rule (`arithmetic.py`, and `minigrad/ops`) | one body for NumPy, CuPy, second derivatives |
# | `differentiable`, `call` | `op.py`: `make_callable` | dtypes, kernels, error messages |
# | `Tensor.edges`, `.gradients` | `backward.py`: `Node` | a node of its own, without the value |
# | `behind` | `backward.py`: `walk_back` | finds the next node with a heap, as it goes |
# | `Tensor.backward` | `backward.py`: `backward`, `walk_back` | frees what it has used |
# | `totals[edge] + part` | `backward.py`: `GradientSums.add` | adds in place where it may |
# | `unbroadcast` | `sums.py`: `unbroadcast` | sums that lose fewer digits |
#
# Two of them, from the files themselves: a rule, and the sum of gradients.

# %%
print(inspect.getsource(engine.multiply.rule))
print(inspect.getsource(mg.multiply.op.rule))
print(inspect.getsource(backward.GradientSums.add))

# %% [markdown]
# `edge in self.owned` is the answer to the careless engine: in place only if the array is the engine's.
#
# Memory is the price of the walk back: what it needs must be kept. Our tensors keep every intermediate
# result. That is why minigrad has a node beside the tensor: a node holds
# only its gradient functions, and these hold only the arrays that they need. `exp` needs its result,
# but not its input.


# %%
def lives(library):
    """Whether the intermediate result x + 1 of exp(x + 1) is still in memory before backward."""
    x = library(np.ones(1000))
    between = x + 1
    result = between.exp().sum()
    reference = weakref.ref(between)
    del between
    return result is not None and reference() is not None


print(f"x + 1 is kept: by the engine {lives(Tensor)}, by minigrad {lives(minigrad_leaf)}")
check("minigrad frees a result that no gradient needs", lives(Tensor) and not lives(minigrad_leaf))

# %% [markdown]
# ## A word's vector is an index
#
# "Explain step by step ... with test data" looks up the vector of a word in a matrix, and says that
# backpropagation updates that matrix. In the engine this is `getitem`. It equals a product with a
# one-hot matrix, in value and gradient. A word that occurs twice gets both gradients, and a word that
# does not occur gets none.

# %%
ids = [1, 2, 1]  # the first word again at the end
table = Tensor(rng.normal(size=(4, 2)))
one_hot_table = Tensor(table.array)
upstream = rng.normal(size=(3, 2))
one_hot = np.eye(4)[ids]  # (3, 4)
(table[ids] * upstream).sum().backward()
((Tensor(one_hot) @ one_hot_table) * upstream).sum().backward()
print(table.grad)
check("lookup and one-hot product have the same gradient", np.allclose(table.grad, one_hot_table.grad))
check("a word that occurs twice gets the sum", np.allclose(table.grad[1], upstream[0] + upstream[2]))
check("a word that does not occur gets none", not table.grad[[0, 3]].any())

# %% [markdown]
# ## Two neurons learn XOR
#
# One neuron could not. "Attention Is All You Need", section 3.3, on its feed-forward network:
#
# > This consists of two linear transformations with a ReLU activation in between.
#
# Without the ReLU the two would be a single one: $W_2 (W_1 x + b_1) + b_2 = (W_2 W_1) x + (W_2 b_1 +
# b_2)$. With it, two neurons are enough. With $h_1 = \max(0, x_1 + x_2)$ and $h_2 = \max(0, x_1 + x_2 -
# 1)$, XOR is $h_1 - 2 h_2$: 0, 1, 1, and $2 - 2 = 0$. Do they find it by gradient descent? We train 100
# networks from random starts, all in one array.

# %%
INPUTS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])  # (4, 2)
XOR = np.array([[0.0], [1.0], [1.0], [0.0]])  # (4, 1)
STARTS = 100


def ffn(x, w1, b1, w2, b2):
    return (x @ w1 + b1).relu() @ w2 + b2


def train(hidden, steps=600, rate=0.1):
    """The parameters and losses of 100 networks, each from its own random start."""
    draw = np.random.default_rng(settings.seed)
    w1 = Tensor(draw.normal(0, 0.5, size=(STARTS, 2, hidden)))
    b1 = Tensor(np.zeros((STARTS, 1, hidden)))
    w2 = Tensor(draw.normal(0, 0.5, size=(STARTS, hidden, 1)))
    b2 = Tensor(np.zeros((STARTS, 1, 1)))
    parameters = [w1, b1, w2, b2]
    losses = []
    for _ in range(steps):
        y = ffn(Tensor(INPUTS), *parameters)  # (STARTS, 4, 1)
        loss = ((y - XOR) ** 2).mean((1, 2))  # (STARTS,)
        losses.append(loss.array)
        for each in parameters:
            each.grad = None
        loss.sum().backward()
        for each in parameters:
            each.array -= rate * each.grad
    return [each.array for each in parameters], np.array(losses)


by_hand = ffn(Tensor(INPUTS), np.ones((2, 2)), np.array([0.0, -1.0]), np.array([[1.0], [-2.0]]), 0.0)
check("two neurons can compute XOR exactly", np.array_equal(by_hand.array, XOR))

guess = predict("of 100 random starts with two hidden neurons, what percentage learns XOR?", settings.guess)
learned = {hidden: (train(hidden)[1][-1] < 0.01).mean() * 100 for hidden in (2, 3, 4, 8, 16)}
guess.compare(learned[2])
print({hidden: f"{share:.0f}%" for hidden, share in learned.items()})
check("two neurons learn it from some starts, but not from most", 0 < learned[2] < 50)
check("sixteen learn it from nearly all", learned[16] > 90)

# %% [markdown]
# The control below changes the number of hidden neurons. In the right panel, the dashed lines are where
# a hidden neuron begins to be active: the network is a plane that is folded along these lines.
#
# Two neurons may share one line: one is active on each side of it, as in $|x_1 - x_2| = \max(0, x_1 -
# x_2) + \max(0, x_2 - x_1)$, which is XOR, too.


# %%
def picture(hidden):
    """How 100 starts end, how their losses fall, and the function that the best network computes."""
    (w1, b1, w2, b2), losses = train(hidden)
    best = losses[-1].argmin()
    figure = Figure(figsize=(12, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    left.bar(range(len(learned)), learned.values(), color="tab:blue")
    left.set_xticks(range(len(learned)), learned)
    left.set(title="More neurons: more starts succeed", xlabel="hidden neurons", ylabel="% of 100 starts")
    middle.plot(losses, color="tab:grey", lw=0.5)
    middle.plot(losses[:, best], color="tab:red", lw=2, label="the best")
    middle.set(title=f"{hidden} neurons: many losses stop early", xlabel="step", ylabel="mean squared error")
    middle.set(ylim=(0, 0.5))
    middle.legend()
    axis = np.linspace(-0.5, 1.5, 60)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    surface = ffn(Tensor(points), w1[best], b1[best], w2[best], b2[best]).array.reshape(60, 60)
    colours = right.contourf(
        axis, axis, surface, levels=np.linspace(-0.5, 1.5, 21), cmap="coolwarm", extend="both"
    )
    for i in range(hidden):
        right.contour(
            axis,
            axis,
            (points @ w1[best][:, i] + b1[best][0, i]).reshape(60, 60),
            [0],
            linestyles="--",
            colors="black",
        )
    right.scatter(
        *INPUTS.T, c=XOR[:, 0], cmap="coolwarm", vmin=-0.5, vmax=1.5, s=150, edgecolor="black", zorder=3
    )
    right.set(title="The best: points match the colour", xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    figure.colorbar(colours, ax=right, label="output of the network")
    show(figure, "02-xor", settings)


control(picture, settings, hidden=(2, 16))

# %% [markdown]
# Why do most starts with two neurons fail? The losses stop at a few levels:
#
# - 1/4: all four answers are 0.5, each with the error $0.5^2$.
# - 1/6: one point is right, the others get their mean, such as 2/3 for 0, 1, 1: $(4/9 + 1/9 + 1/9) /
#   4$.
# - 1/8: two points are right, a 0 and a 1 both get 0.5: $(1/4 + 1/4) / 4$.
#
# A neuron that is active for no input gets no gradient: it is lesson 1's dead neuron, and the other
# neuron alone cannot do it. With sixteen there are nearly always two useful ones. A network larger than
# the task needs is easier to train.

# %%
(w1, b1, _, _), losses = train(2)
active = (INPUTS @ w1 + b1 > 0).sum(axis=1)  # (STARTS, hidden): at how many of the four inputs
failed = losses[-1] >= 0.01
some_dead = (active == 0).any(axis=1)
print(f"{failed.sum()} networks failed; in {(failed & some_dead).sum()} of them a neuron is dead")
check("every network with a dead neuron has failed", failed[some_dead].all())
check("that explains most failures", (failed & some_dead).sum() > failed.sum() / 2)

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 2`: the walk back, with its order and its sums left out. Its values have no
#    `number`: visit the inputs of each before itself (depth first). Both orders are right.
# 2. Add `sigmoid` to `engine.py` as a rule of your own, with its gradient from lesson 1, and a case to
#    `CASES`. Then use it in `ffn` instead of `relu`. First predict: does it die, too?
#
# ## Read next
#
# - `minigrad/core/op.py`, `differentiable`: what it adds to ours.
# - `minigrad/core/op.py`, `make_callable`: from a call to a node.
# - `minigrad/core/backward.py`, `Node`: what a recorded operation holds.
# - `minigrad/core/backward.py`, `walk_back`: now you know each line.
# - Next lesson: `demos/lessons/03_tensors.py`
