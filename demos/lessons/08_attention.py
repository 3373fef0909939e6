# %% [markdown]
# # 8. One attention head
#
# After this lesson you can compute what an attention head returns, read a picture of its weights, hide
# the future with a mask, and find the errors in three printed examples.
#
# Each token sends out three vectors. Its *query* says what it looks for. Its *key* says what it offers.
# Its *value* is what it hands over. A token's *score* for another is its query times the other's key.
# Softmax turns a row of scores into weights, and the output is the weighted average of the values:
#
# $$\text{Attention}(Q, K, V) = \text{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right) V$$

# %%
import math
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import causal_mask
from minitransformer.explain.documents import examples
from minitransformer.layers.positions import positional_encoding
from minitransformer.plots.style import colour_map


@dataclass
class Lesson(Settings):
    sharpness: float = 1.0
    """The scores are multiplied by it. Try 0, 4 and 200."""
    guess: str | None = None
    """Your prediction: the word that "love" attends to most (I, love or you)."""


settings = read_settings(Lesson)

# %% [markdown]
# ## The paper's sentence, and the code
#
# "Attention Is All You Need", section 3.2.1:
#
# > We compute the dot products of the query with all keys, divide each by √dₖ, and apply a softmax
# > function to obtain the weights on the values.
#
# T tokens have T × T scores: row $i$ has the scores of query $i$. Softmax works along a row, so each
# row of weights sums to 1. Lesson 9 is about the division by $\sqrt{d_k}$.


# %%
def attention(q, k, v, mask=0.0):
    """The steps of one head: scores (T, T), weights (T, T), output (T, d_v)."""
    scores = q @ k.mT  # (T, d_k) @ (d_k, T) -> (T, T)
    scaled = scores / math.sqrt(q.shape[-1])
    weights = F.softmax(scaled + mask, -1)  # each row sums to 1
    return {"scores": scores, "weights": weights, "output": weights @ v}


q, k, v = mg.randn(3, 5, 4, dtype="float64")  # three arrays of 5 tokens, d_k = d_v = 4
by_hand = attention(q, k, v)
library = F.scaled_dot_product_attention(q, k, v)
check("four lines give what the library's attention gives", np.allclose(by_hand["output"], library))
check("each row of weights sums to 1", np.allclose(by_hand["weights"].sum(-1), 1))

# %% [markdown]
# ## "I love you"
#
# The document "Transformer Network" works through this sentence: three tokens, $d_k = 4$. It adds
# positions to the embeddings (lesson 7). Then three matrices make queries, keys and values:
#
# $$Q = XW_Q, \qquad K = XW_K, \qquad V = XW_V$$
#
# Its $W_Q$ changes nothing. Its $W_K$ swaps the numbers of each pair. Its $W_V$ averages each pair. The
# document concludes that all three words attend most to "love", and that "love" attends to itself with
# a weight of 60%.

# %%
given = {example["id"]: example for example in examples()}
example = given["i-love-you"]
numbers = {name: np.array(values) for name, values in example["inputs"].items() if name != "vocabulary"}
words = [example["inputs"]["vocabulary"][i] for i in numbers["tokens"]]

x = numbers["embedding"][numbers["tokens"]] + positional_encoding(3, 4, np.float64)  # (3, 4)
Q, K, V = (mg.tensor(x @ numbers[w], dtype="float64") for w in ("W_q", "W_k", "W_v"))

guess = predict('Which word does "love" attend to most?', settings.guess, choices=words)
ours = attention(Q, K, V)
guess.compare(words[ours["weights"][1].argmax().item()])
print(np.round(ours["weights"].numpy(), 2))
check('"love" attends most to "I", not to itself', ours["weights"][1].argmax().item() == 0)

# %% [markdown]
# It is close: 0.40 for "I", 0.39 for "love". The document prints 0.16 and 0.60. So its conclusion, that
# "love" reinforces itself, does not follow from its numbers.
#
# ## An error that one can see without computing
#
# Here $W_Q$ is the identity, and $W_K$ is a swap $P$ with $P^\top = P$. So
#
# $$QK^\top = X (XP)^\top = X P^\top X^\top = X P X^\top$$
#
# and the transpose of $XPX^\top$ is $XP^\top X^\top$, which is the same matrix again. The scores must
# be symmetric. The printed table has 4.15 in one corner and 3.21 in the other.

# %%
printed = np.array(example["printed"]["scores"])
scores = ours["scores"].numpy()
print("printed:", *printed.round(2), "computed:", *scores.round(2), sep="\n")
check("the scores are symmetric", np.allclose(scores, scores.T))
check("the printed scores are not", abs(printed - printed.T).max() > 0.9)
check("the printed first row is right, up to rounding", abs(printed - scores)[0].max() < 0.02)


# %%
def heat_map(panel, weights, labels, title):
    """Rows: queries. Columns: keys. The larger the weight, the stronger its colour."""
    panel.imshow(weights, cmap=colour_map("weights"), vmin=0, vmax=1)
    for (row, column), weight in np.ndenumerate(weights):
        panel.text(column, row, f"{weight:.2f}", ha="center", va="center")
    panel.set(title=title, xlabel="attended to (key)", ylabel="who attends (query)")
    panel.set_xticks(range(len(labels)), labels)
    panel.set_yticks(range(len(labels)), labels)


figure = Figure(figsize=(8, 3.8), layout="constrained")
figure.suptitle("Only the first row of the printed weights is right")
left, right = figure.subplots(1, 2)
heat_map(left, np.array(example["printed"]["weights"]), words, "printed in the document")
heat_map(right, ours["weights"].numpy(), words, "computed from its inputs")
show(figure, "08-i-love-you", settings)

# %% [markdown]
# ## Between an average and a lookup
#
# Multiply the scores by a number before the softmax. At 0 all weights are equal, and the head averages
# the values. At 200 each row has a single weight near 1, and the head copies one value, as a dictionary
# does. Attention is all that lies between. Training can choose, because longer queries and keys make
# larger scores.


# %%
def sharpened(sharpness):
    return attention(sharpness * Q, K, V)["weights"].numpy()


def averages_and_lookups(sharpness):
    """The weights at three degrees of sharpness."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, 3)
    for panel, factor in zip(panels, (0.0, sharpness, 200.0), strict=True):
        heat_map(panel, sharpened(factor), words, f"scores × {factor:g}")
    figure.suptitle("0: an average of all values. 200: a lookup of one value")
    show(figure, "08-sharpness", settings)


control(averages_and_lookups, settings, sharpness=(0.0, 200.0))
check("scores of 0 give equal weights", np.allclose(sharpened(0.0), 1 / 3))
check("scores times 200 give a lookup", (sharpened(200.0).max(-1) > 0.95).all())

# %% [markdown]
# ## Where three texts go wrong
#
# Three texts print an example to compute along with, and not all of their numbers come out
# (docs/documents.md has the full list). For each step, two errors tell where a slip was made. The first
# compares the printed numbers with those computed from the inputs. The second computes the step from the
# document's own printed step before it. A step whose second error is small was done right, from wrong
# numbers.


# %%
def errors(printed, q, k, v):
    """For each printed step: its error, and its error if the printed step before it were right."""
    right = attention(q, k, v)
    theirs = {name: mg.tensor(values, dtype="float64") for name, values in printed.items()}
    again = {
        "scores": right["scores"],
        "weights": F.softmax(theirs["scores"] / math.sqrt(q.shape[-1]), -1),
        "output": theirs["weights"] @ v,
    }
    largest = lambda a, b: abs(a - b).max().item()
    return {name: (largest(theirs[name], right[name]), largest(theirs[name], again[name])) for name in again}


titles = {
    "i-love-you": "Transformer Network",
    "three-tokens": "Transformers - Attention Is All You Need",
    "i-love-ai": "Explain step by step ... with test data",
}
inputs = {"i-love-you": (Q, K, V)}
for name in ("three-tokens", "i-love-ai"):
    inputs[name] = [mg.tensor(given[name]["inputs"][letter], dtype="float64") for letter in "qkv"]
slips = {name: errors(given[name]["printed"], *inputs[name]) for name in titles}
for name, title in titles.items():
    print(f"\n{title}")
    for step, (error, own) in slips[name].items():
        print(f"  {step:8} off by {error:.2f}; from its own step before: {own:.2f}")

# %% [markdown]
# In all three, the scores are where it begins. In "Transformers - Attention Is All You Need" the output
# is wrong a second time: it does not follow from the weights printed above it.
#
# Its score of token 3 for token 1 is printed as 1. By hand, $(1, 1, 0, 0) \cdot (1, 1, 0, 0) = 2$. So
# token 3 does not attend "equally to Tokens 1 and 3 (0.39 each)".

# %%
three = attention(*inputs["three-tokens"])
print("token 3 attends with", three["weights"][2].numpy().round(2), "- printed: 0.39, 0.22, 0.39")
print("the output of token 1 is", three["output"][0].numpy().round(2), "- printed: 5.38, 6.38, 7.38, 8.38")
check("token 3 attends most to token 1, with 0.51", abs(three["weights"][2, 0].item() - 0.51) < 0.005)
check("that output does not follow from its own weights", slips["three-tokens"]["output"][1] > 0.3)
check("in the other two it does", max(slips[n]["output"][1] for n in ("i-love-you", "i-love-ai")) < 0.03)

# %% [markdown]
# ## The longest key wins
#
# "Explain step by step ..." finds that every token of "I love AI" attends most to "AI", perhaps because
# it is the most informative. Look at the keys instead. Each number of the key of "AI" is larger than
# the same number of the other two. All numbers of the queries are positive. So the score of "AI" is the
# largest, whatever the query says.
#
# The same document projects one query, $q = x W_Q$. The last two of its four numbers are off.

# %%
_, keys, _ = inputs["i-love-ai"]
any_query = mg.rand(1000, 4, dtype="float64")  # positive, as all queries of the example are
check('the key of "AI" is the largest in every entry', (keys[2] > keys[:2]).all())
check('so "AI" wins for any positive query', ((any_query @ keys.mT).argmax(-1) == 2).all())

projection = given["query-projection"]
q0 = (np.array(projection["inputs"]["x"]) @ np.array(projection["inputs"]["W_q"]))[0]
print("q of the first token:", q0.round(2), "printed:", projection["printed"]["q0"])
off = abs(q0 - projection["printed"]["q0"])
check("two of its four numbers are right, two are not", off[:2].max() < 0.01 and off[2:].min() > 0.1)

# %% [markdown]
# ## Hiding the future
#
# A model that writes from left to right must not look at words that are not written yet. Section 3.2.3:
#
# > We implement this inside of scaled dot-product attention by masking out (setting to −∞) all values
# > in the input of the softmax which correspond to illegal connections.
#
# Two documents print it as a matrix of 0 and $-\infty$ that is added to the scores. It works because
# $e^{s + 0} = e^s$ and $e^{s - \infty} = 0$.

# %%
T = 4
additive = np.triu(np.full((T, T), -np.inf), 1)  # 0 on and below the diagonal, -inf above
print(additive)
scaled = mg.tensor(given["causal-mask"]["inputs"]["scores"], dtype="float64")
weights = F.softmax(scaled + additive, -1).numpy()
table = np.array(given["causal-mask"]["printed"]["weights"])
print(
    "weights:", *weights.round(2), "off in Transformer Network by:", *abs(weights - table).round(2), sep="\n"
)

q, k, v = mg.randn(3, T, 8, dtype="float64")
as_printed = attention(q, k, v, additive)["output"]
as_boolean = F.scaled_dot_product_attention(q, k, v, causal_mask(T))  # True = may attend
as_flag = F.scaled_dot_product_attention(q, k, v, is_causal=True)
check(
    "0 and -inf, True and False, and is_causal are the same attention",
    np.allclose(as_printed, as_boolean) and np.allclose(as_printed, as_flag),
)
row_errors = abs(weights - table).max(-1)
check(
    "rows 3 and 4 of the printed weights are off", (row_errors > 0.05).tolist() == [False, False, True, True]
)

# %% [markdown]
# ## What goes wrong: three masks that look right
#
# 1. *No mask.* Does the first output change if the last token changes?
# 2. *0 in place of* $-\infty$. A score of 0 is not a weight of 0, since $e^0 = 1$.
# 3. *Masked after the softmax.* The hidden weights are gone, but the rest of the row has a sum below 1.
#    And the future still leaks: each weight was divided by a sum that contains $e^s$ of the hidden
#    scores.

# %%
later = v.detach().clone()
later[-1] = 100.0  # another last token
leak = {
    name: abs(attention(q, k, v, mask)["output"][0] - attention(q, k, later, mask)["output"][0]).max().item()
    for name, mask in {"no mask": 0.0, "0 and -inf": additive}.items()
}
print("the first token's output changes by", {name: round(change, 2) for name, change in leak.items()})
check(
    "the future leaks without a mask, and not at all with it",
    leak["no mask"] > 0.1 and leak["0 and -inf"] == 0,
)

may_attend = causal_mask(T)
zeroed = F.softmax((q @ k.mT / math.sqrt(8)).masked_fill(~may_attend, 0.0), -1)
after = F.softmax(q @ k.mT / math.sqrt(8), -1).masked_fill(~may_attend, 0.0)
later_key = k.detach().clone()
later_key[-1] = -later_key[-1]  # another last token
after_other = F.softmax(q @ later_key.mT / math.sqrt(8), -1).masked_fill(~may_attend, 0.0)
print("future's share of row 1, zeros for -inf:", zeroed[0, 1:].sum().item())
print("sums of rows, masked after the softmax:", after.sum(-1).numpy().round(2))
print("the same with another last key:        ", after_other.sum(-1).numpy().round(2))
check("with zeros, the first token still sees the future", zeroed[0, 1:].sum().item() > 0.05)
check("masked afterwards, the first row does not sum to 1", after.sum(-1)[0].item() < 0.95)
check("and a future key changes the weights of the past", not np.allclose(after[:3], after_other[:3]))

# %% [markdown]
# ## A row with nothing to attend to
#
# A mask may hide *all* keys from a query, such as those of a sentence that is only padding. Then each
# exponential is 0, and the formula gives $0 / 0$: NaN, which spreads to everything that is computed
# from it. The average of no values can be defined as you like. This library returns zeros.

# %%
nothing = additive.copy()
nothing[0] = -np.inf
with np.errstate(invalid="ignore"):
    by_formula = attention(q, k, v, nothing)["output"].numpy()
in_library = F.scaled_dot_product_attention(q, k, v, np.isfinite(nothing)).numpy()
print("first output by the formula:", by_formula[0, :3], " in the library:", in_library[0, :3])
check("the formula gives NaN for a row that may attend to nothing", np.isnan(by_formula[0]).all())
check("the library gives zeros", (in_library[0] == 0).all() and np.allclose(in_library[1:], by_formula[1:]))

# %% [markdown]
# ## Why queries and keys differ
#
# "Explain step by step ..." says that one matrix for all three could not learn different relationships.
# Let $Q = K$. A square is never negative, so
#
# $$|q_i - q_j|^2 = q_i \cdot q_i + q_j \cdot q_j - 2\, q_i \cdot q_j \ge 0$$
#
# A pair's score is at most the mean of the two scores of these tokens for themselves. Let each token look
# for its left neighbour. On average it scores itself at least as high.

# %%
tokens = mg.randn(6, 8, dtype="float64")
target = mg.tensor(np.roll(np.arange(6), 1))  # each looks for its left neighbour, the first for the last
s = (tokens @ tokens.mT).numpy()  # Q = K
for_itself = s.diagonal()
for_target = s[range(6), target.numpy()]
print("scores for itself:    ", for_itself.round(1))
print("scores for the target:", for_target.round(1))
check("on average a token scores itself higher", for_itself.mean() > for_target.mean())

# %% [markdown]
# At best both scores are equal, each has half of the weight, and the loss is $\log 2$.


# %%
def learn(shared, steps=300):
    """Train W_Q and W_K, or one matrix for both, until each token finds its neighbour."""
    w_q = mg.randn(8, 8, dtype="float64").mul(0.3).detach().requires_grad_()
    w_k = w_q if shared else mg.randn(8, 8, dtype="float64").mul(0.3).detach().requires_grad_()
    optimizer = optim.Adam([w_q] if shared else [w_q, w_k], lr=0.03)
    losses = []
    for _ in range(steps):
        scaled = (tokens @ w_q) @ (tokens @ w_k).mT / math.sqrt(8)
        loss = F.cross_entropy(scaled, target)  # -log of the weight on the neighbour
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses, F.softmax(scaled.detach(), -1).numpy()


two, two_weights = learn(shared=False)
one, one_weights = learn(shared=True)
print(f"loss with two matrices {two[-1]:.3f}, with one {one[-1]:.3f}; log 2 is {math.log(2):.3f}")
check("two matrices learn it", two[-1] < 0.1)
check("one matrix never gets below log 2", min(one) >= math.log(2))
check("and it looks to both sides alike", np.allclose(one_weights, one_weights.T, atol=0.01))

# %%
figure = Figure(figsize=(8, 4.2), layout="constrained")
figure.suptitle("Each token should look at its left neighbour")
left, right = figure.subplots(1, 2)
heat_map(left, two_weights, range(1, 7), f"$W_Q$ and $W_K$: loss {two[-1]:.2f}")
heat_map(right, one_weights, range(1, 7), f"one matrix: loss {one[-1]:.2f}, both sides alike")
show(figure, "08-one-matrix", settings)

# %% [markdown]
# With one matrix $s_{ij} = s_{ji}$: the right neighbour scores like the left. With the token itself,
# three compete, and the loss stays far above $\log 2$. The claim holds here;
# `minitransformer claims three-matrices` asks a translator.
#
# ## Exercises
#
# 1. `minitransformer learn 14`: scaled dot-product attention, with its mask.
# 2. Some programs mask with $-10^9$ in place of $-\infty$, to avoid the NaN. What does a row that may
#    attend to nothing then return? Predict it, then call `attention` with `nothing`, changed so.
#
# ## Read next
#
# - `minigrad/ops/attention.py`, `scaled_dot_product_attention`: the definition, with the rows that see
#   nothing.
# - `minitransformer/layers/masks.py`, `causal_mask`: True = may attend, in one line.
# - `minitransformer/inspection/recording.py`, `record_attention`: the weights of any trained model.
# - Next lesson: `demos/lessons/09_why_scale.py`
