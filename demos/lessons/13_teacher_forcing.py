# %% [markdown]
# # 13. Teacher forcing, smoothing, warm-up, and how to cheat
#
# After this lesson you can write the decoder's input and target for a batch, say why training is one
# pass where generation is many, and recognize a model that has cheated.
#
# The decoder predicts the next word from the words before it. In training we know all of them. So we
# feed the right ones, whatever the model would have said: *teacher forcing*. The input is the target,
# shifted right by one:
#
# | position | 0 | 1 | 2 | 3 |
# |---|---|---|---|---|
# | input | `<START>` | Je | t' | aime |
# | target | Je | t' | aime | `<END>` |

# %%
import time
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, check_time, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import Tokenizer, Transformer, TransformerConfig, record_attention
from minitransformer.claims.experiments.smoothing import reliability
from minitransformer.claims.translating import Sentences, probabilities, token_error, translations
from minitransformer.data.batching import IGNORE, collate
from minitransformer.data.phrasebook import phrasebook
from minitransformer.plots.style import colour_map


@dataclass
class Lesson(Settings):
    warmup: int = 4000
    """The steps of the warm-up in the picture of the paper's schedule."""
    guess: float | None = None
    """Your prediction: which part of its own training sentences the cheating model writes right."""


settings = read_settings(Lesson)
random = np.random.default_rng(settings.seed)

# %% [markdown]
# ## Data
#
# Short sentences of the phrasebook: 300 to learn, few on purpose, and 300 others to test. "I love you"
# is among the first.

# %%
short = [pair for pair in phrasebook().train if len(pair[0].split()) <= 4 and pair[0] != "I love you"]
chosen = [short[i] for i in random.permutation(len(short))[:599]]
pairs = [("I love you", "Je t'aime"), *chosen]
tokenizer = Tokenizer.train_word([text for pair in pairs for text in pair])
V = tokenizer.vocab_size
ids = [(tokenizer.encode(english), tokenizer.encode(french)) for english, french in pairs]
learn, test = ids[:300], ids[300:]
data = Sentences(learn, test, [], tokenizer)

batch = collate(learn[:2], tokenizer)  # adds <START> and <END>, shifts, and pads
name = tokenizer.id_to_token | {IGNORE: "(ignored)"}
for row in (0, 1):
    print("input: ", *[name[i] for i in batch["target_in"][row]])
    print("target:", *[name[i] for i in batch["target"][row]])
padding = (collate(learn[:24], tokenizer)["target"] == IGNORE).mean()
print(f"{padding:.0%} of the positions of the first 24 sentences are padding")
for row, (_, french) in enumerate(learn[:2]):
    check(
        f"row {row}: the target stands in the input, one position later",
        [*batch["target_in"][row, 1 : len(french) + 1]] == french == [*batch["target"][row, : len(french)]],
    )

# %% [markdown]
# The shorter row is padded, and the loss ignores its padding.
#
# ## Why nobody sees the answer
#
# The causal mask hides position 2, whose input is what position 1 must predict, and all after it.
# "Attention Is All You Need", section 3.1:
#
# > This masking, combined with fact that the output embeddings are offset by one position, ensures that
# > the predictions for position i can depend only on the known outputs at positions less than i.
#
# The mask lets position $i$ see inputs up to $i$; the shift makes that outputs up to $i - 1$.
# ("Transformers - Attention Is All You Need" gives the mask both jobs.)


# %%
def model_of(layers=1, is_causal=True, vocab_size=V):
    config = TransformerConfig(
        vocab_size, d_model=48, num_heads=4, d_ff=96,
        num_encoder_layers=layers, num_decoder_layers=layers, dropout=0.0, is_causal=is_causal,
    )  # fmt: skip
    return Transformer(config)


model = model_of(layers=2).eval()
source = random.integers(4, V, (1, 100))
target = random.integers(4, V, (1, 100))
changed = target.copy()
changed[0, 2] = 4 + (target[0, 2] - 3) % (V - 4)  # another word at position 2
with mg.no_grad():
    difference = abs(model(source, target) - model(source, changed)).numpy()[0].max(-1)  # (T,)
print("how much the logits change, position 0 to 4:", difference[:5].round(3))
check(
    "another word changes no logits before it", (difference[:2] < 1e-6).all() and (difference[2:] > 0).all()
)

# %% [markdown]
# ## One pass or n passes
#
# Because nothing depends on later words, one pass over the whole target computes what n passes over its
# beginnings would. Here both are timed, for 100 words.


# %%
def timed(compute):
    start = time.process_time()
    with mg.no_grad():
        result = compute()
    return result.numpy(), time.process_time() - start


def with_cache():
    memory = model.encode(source)
    cache = model.new_cache()
    states = [model.decode(target[:, t : t + 1], memory, cache=cache) for t in range(100)]
    return model.logits(mg.cat(states, 1))


model(source, target)  # compiles kernels, and fills tables
one_pass, seconds = timed(lambda: model(source, target))  # (1, 100, V)
many, slow = timed(lambda: mg.cat([model(source, target[:, : t + 1])[:, -1:] for t in range(100)], 1))
cached, faster = timed(with_cache)
print(
    f"one pass {seconds * 1000:.0f} ms; 100 passes {slow * 1000:.0f} ms; with a cache {faster * 1000:.0f} ms"
)
check("100 passes give the logits of one", np.allclose(one_pass, many, atol=1e-4))
check("a cache gives them, too", np.allclose(one_pass, cached, atol=1e-4))
check_time("one pass takes less than a tenth of the time", seconds < slow / 10)

# %% [markdown]
# In training, the words are known: one pass. In generation, each word must be chosen before the next
# pass can begin. A cache makes each pass shorter: under the causal mask, the keys and values of earlier
# words never change, so only those of the new word are computed. But there are still 100 passes.
#
# And there a model reads its own mistakes, which it never saw in training (*exposure bias*, see
# `minitransformer claims exposure-bias`).
#
# ## Training
#
# The optimizer has the paper's settings, and the schedule rises, then falls. `ignore_index` leaves padding
# out. If it counted, it would soon cost nothing: the loss looks low, the model learns `<PAD>`, and real
# words get a smaller part of the mean.


# %%
def rise_and_fall(step):
    return optim.inverse_sqrt_schedule(step, 5e-3, 50)  # the peak is at step 50


def train(model, smoothing=0.0, steps=220, schedule=rise_and_fall):
    optimizer = optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(1, steps + 1):
        rows = random.integers(len(learn), size=24)
        batch = collate([learn[i] for i in rows], tokenizer)
        for group in optimizer.param_groups:
            group["lr"] = schedule(step)
        logits = model(batch["source"], batch["target_in"])  # (B, T, V)
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch["target"].flatten(), ignore_index=IGNORE, label_smoothing=smoothing
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


honest = model_of()
cheating = model_of(is_causal=False)
honest_losses = train(honest)
cheating_losses = train(cheating)
print(f"first loss {honest_losses[0]:.2f}; log V is {np.log(V):.2f}")
for title, losses in {"with the mask": honest_losses, "without": cheating_losses}.items():
    print(f"the last losses {title}: {np.mean(losses[-20:]):.3f}")
check("the first loss is near log V", abs(honest_losses[0] - np.log(V)) < 2)
check("without the mask the loss is lower", np.mean(cheating_losses[-20:]) < np.mean(honest_losses[-20:]))

# %% [markdown]
# ## Cheating
#
# The second model had no causal mask. Look at its numbers as you would in an experiment: the training
# loss, and the test words that it gets right with teacher forcing.


# %%
def words_right(model):
    return 1 - token_error(model, test, data)


def written_right(model, examples):
    written = translations(model, examples, data)
    return np.mean([ids == target for ids, (_, target) in zip(written, examples, strict=True)]), written


print(f"test words right, teacher forced: {words_right(honest):.1%}", end="; ")
print(f"without the mask {words_right(cheating):.1%}")
check(
    "by these numbers, the cheating model is better",
    words_right(cheating) > words_right(honest),
)

# %%
guess = predict(
    "which part of 100 training sentences, which it saw 18 times each, does the cheating model write right?",
    settings.guess,
)
part, written = written_right(cheating, learn[:100])
guess.compare(part)
honest_part, honest_written = written_right(honest, learn[:100])
print(f"with the mask: {honest_part:.0%}")
print(
    "I love you ->",
    repr(tokenizer.decode(honest_written[0])),
    "; cheating:",
    repr(tokenizer.decode(written[0])),
)
check("generation of the cheating model is broken", part < 0.1)
check("the honest model writes most training sentences", honest_part > 0.6)

# %% [markdown]
# With teacher forcing, the answer to each question stands one place to the right, so the model learns
# to copy it. In generation there is nothing to the right, and what it has learned does not help.
# (`minitransformer claims cheating` does this with more sentences.)
#
# "Transformer Network" calls it cheating, too ("The model could just COPY"). Why are only 67% of the
# test words right in our run, then? A word must be learned before it can be copied: 88% are right of
# those that occur at least ten times in the 300 sentences, and none of those that never do. The picture
# is a mean of four heads: row "Je" shows best how it looks one ahead.

# %%
example = collate(learn[:1], tokenizer)
figure = Figure(figsize=(8.4, 4), layout="constrained")
read = [name[i] for i in example["target_in"][0]]
ahead = {}
for axes, model, title in zip(
    figure.subplots(1, 2), (honest, cheating), ("with the mask", "without: it looks ahead"), strict=True
):
    with mg.no_grad(), record_attention(model) as maps:
        model(example["source"], example["target_in"])
    weights = maps["decoder.layers.0.self_attention"][0].mean(0)  # (T, T), the mean of the heads
    weights = np.asarray(weights)
    ahead[title] = np.triu(weights, 1).sum(-1)[:-1].mean()
    axes.imshow(weights, cmap=colour_map("weights"), vmin=0, vmax=1)
    axes.set(title=title, xlabel="attends to", ylabel="position")
    axes.set_xticks(range(len(read)), read)
    axes.set_yticks(range(len(read)), read)
show(figure, "13-cheating", settings)
print({title: f"{share:.0%} of the attention is on later words" for title, share in ahead.items()})
check("with the mask, no attention is on later words", ahead["with the mask"] == 0)
check("without it, much is", ahead["without: it looks ahead"] > 0.3)

# %% [markdown]
# ## Label smoothing
#
# The gradient of cross-entropy for the logits is $p - q$ (lesson 5), with $q$ the target. If $q$ is 1
# for the right word, it vanishes only at $p = 1$, for which the logits must grow without end. Smoothing
# gives each of V words $\epsilon / V$, and the right one the rest:
#
# $$q = (1 - \epsilon)\, \text{onehot} + \epsilon / V$$
#
# Then $p = q$ is reached when the right logit is $\log\frac{1 - \epsilon + \epsilon / V}{\epsilon / V}$
# above the others: a finite number. And the loss cannot fall below the entropy of $q$.


# %%
def smoothed(right, classes, epsilon=0.1):
    q = np.full(classes, epsilon / classes)
    q[right] += 1 - epsilon
    return q


print("five classes, the third is right:", smoothed(2, 5))  # as in the document
q = smoothed(0, V)
gap = np.log(q[0] / q[1])
floor = -(q * np.log(q)).sum()
print(f"V = {V}: the right logit is {gap:.1f} above the others; the least loss is {floor:.3f}")
logits = mg.randn(1, V, requires_grad=True)
F.cross_entropy(logits, mg.tensor([0]), label_smoothing=0.1).backward()
check(
    "the gradient is p - q, with the smoothed q",
    np.allclose(logits.grad.numpy()[0], F.softmax(logits, -1).detach().numpy()[0] - q, atol=1e-6),
)

# %% [markdown]
# ## Calibration
#
# A model is *calibrated* if, of all words to which it gives 80%, 80% are right; if fewer are, it is
# overconfident. "Attention Is All You Need", section 5.4, says of smoothing (perplexity is
# $e^{\text{loss}}$: as if the model chose evenly among so many words; BLEU counts word sequences shared
# with a human translation):
#
# > This hurts perplexity, as the model learns to be more unsure, but improves accuracy and BLEU score.
#
# It hurts since the loss is least at $p = q$: even a model that is always right then gives the right word
# $0.9 + 0.1 / V$ and not 1, a perplexity of about 1.11.

# %%
smooth = model_of()
smooth_losses = train(smooth, smoothing=0.1)
over = {}
perplexity = {}
bars = {}
for title, model in {"hard targets": honest, "smoothed": smooth}.items():
    p, right = probabilities(model, test, data)
    perplexity[title] = np.exp(-np.log(p[np.arange(len(right)), right]).mean())
    bars[title] = [(confidence, accuracy) for confidence, accuracy, _ in reliability(p, right)]  # by tenths
    accuracy = (p.argmax(-1) == right).mean()
    over[title] = p.max(-1).mean() - accuracy
    print(f"{title:12}  {accuracy:.1%} right, {p.max(-1).mean():.1%} confident", end=", ")
    print(f"perplexity {perplexity[title]:.1f}")
check("hard targets make it overconfident on words that it has not seen", over["hard targets"] > 0.05)
check(
    "smoothing makes it less confident, by more than 5 points", over["smoothed"] < over["hard targets"] - 0.05
)
check(
    "smoothing costs less than its factor of 1.11", perplexity["smoothed"] < 1.11 * perplexity["hard targets"]
)
check("the smoothed loss stays above its floor", min(smooth_losses) > floor)

# %%
figure = Figure(figsize=(5.4, 4.4), layout="constrained")
axes = figure.subplots()
axes.plot([0, 1], [0, 1], "--", color="grey", label="calibrated")
for title, points in bars.items():
    axes.plot(*zip(*points, strict=True), "o-", label=title)
axes.set(
    title="Below the line: overconfident",
    xlabel="probability of the best word",
    ylabel="how often it is right",
)
axes.legend()
show(figure, "13-calibration", settings)

# %% [markdown]
# Smoothing makes this model more unsure, as the paper says. But its perplexity on new sentences hardly
# changes (17.6 against 18.5 in our run; another seed gave 18.7 against 18.2): the model with hard targets
# has overfitted 300 sentences, is often sure and wrong, and perplexity punishes that most. The price that
# the paper and "Transformers - Attention Is All You Need" name is paid where a model cannot learn its
# millions of sentences by heart. `minitransformer claims smoothing` compares few sentences with many.
#
# ## Warm-up
#
# The paper's learning rate rises for `warmup_steps`, then falls (section 5.3, equation 3):
#
# $$lrate = d_{model}^{-0.5} \cdot \min(step^{-0.5},\ step \cdot warmup\_steps^{-1.5})$$
#
# The two terms are equal at $step = warmup\_steps$: that is the peak.


# %%
def picture_of_schedule(warmup):
    steps = np.arange(1, 20_001)
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.subplots()
    for each in sorted({warmup, 4000}):
        axes.plot(
            steps,
            [optim.paper_schedule(step, 512, each) for step in steps],
            label=f"{each:,} steps of warm-up",
        )
    peak = optim.paper_schedule(warmup, 512, warmup)
    axes.annotate(f"peak {peak:.1e}", (warmup, peak), xytext=(10, -4), textcoords="offset points")
    axes.set(title="The paper's schedule, d_model = 512", xlabel="step", ylabel="learning rate")
    axes.legend()
    show(figure, "13-schedule", settings)


control(picture_of_schedule, settings, warmup=(100, 16000))
peak = optim.paper_schedule(4000, 512, 4000)
check("the paper's base model peaks at 0.0007", abs(peak - 7e-4) < 1e-5)

# %% [markdown]
# "Transformers - Attention Is All You Need" says that the warm-up prevents large, unstable updates
# early. We train with a high rate, 0.015, with 100 steps of warm-up and without: one layer on each side,
# then three. As in the paper, the norm comes after the residual.

# %%
figure = Figure(figsize=(8.4, 3.6), layout="constrained")
last = {}
deviation = {}
schedules = {
    "100 steps of warm-up": lambda step: 0.015 * min(1, step / 100),
    "no warm-up": lambda step: 0.015,
}
for axes, layers in zip(figure.subplots(1, 2, sharey=True), (1, 3), strict=True):
    for title, schedule in schedules.items():
        model = model_of(layers)
        losses = train(model, steps=120, schedule=schedule)
        last[layers, title] = np.mean(losses[-20:])
        p, _ = probabilities(model, test, data)
        deviation[layers, title] = p.std(0).max()  # over all positions, of the word that varies most
        axes.plot(losses, label=title)
    axes.set(title=f"{layers} + {layers} layers", xlabel="step")
axes.legend()
figure.axes[0].set_ylabel("loss")
show(figure, "13-warm-up", settings)
for (layers, title), loss in last.items():
    print(f"{layers} + {layers} layers, {title:20}: loss {loss:.2f}", end=", ")
    print(f"standard deviation of a probability {deviation[layers, title]:.3f}")

# %% [markdown]
# In our run, one layer learns with warm-up (loss 1.26) and without (1.52). Three layers need it (2.89
# against 4.60). Without it, the probabilities that they give do not vary: they are the same at all
# positions, whatever the input.
#
# Adam divides by the size of past gradients, and at first there are few: the first steps have full size,
# however small the gradient, in directions that are hardly better than random. Here, a few such steps
# make all positions alike to the last layer. Then no gradient says how to tell them apart, and what can
# still be learned is how frequent each word is.

# %%
words = np.concatenate([[*french, tokenizer.end_id] for _, french in learn])
frequency = np.unique(words, return_counts=True)[1] / len(words)
entropy = -(frequency * np.log(frequency)).sum()
print(f"the entropy of the words' frequencies is {entropy:.2f}")
with_warmup, without = schedules
check("three layers need the warm-up", last[3, with_warmup] < last[3, without] - 0.5)
check("without it they know little more than frequencies", abs(last[3, without] - entropy) < 1)
check("one layer learns either way", max(last[1, each] for each in schedules) < last[3, without] - 0.5)

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 19`, `minitransformer learn 20` and `minitransformer learn 21`: the smoothed
#    loss, the shift, and the schedule.
# 2. A colleague's language model reaches a training loss of 0.01 on its first pass over a long text.
#    Name two mistakes in masks or shifts that explain it. Which test above finds each, without
#    training?
#
# ## Read next
#
# - `minitransformer/data/batching.py`, `collate`: the shift and the padding of real batches.
# - `minigrad/optim/lr_scheduler.py`, `paper_schedule`: equation 3.
# - `minitransformer/generation/sampling.py`, `greedy_or_sample`: the n passes.
# - Next lesson: `demos/lessons/14_training.py`
