# %% [markdown]
# # 15. Decoding, from probabilities to a text
#
# After this lesson you can say how a text comes out of a model that only gives probabilities of next
# words: greedily, by sampling, or with beams, and what each of them misses.
#
# "Attention Is All You Need", section 6.1:
#
# > We used beam search with a beam size of 4 and length penalty α = 0.6 [38].
#
# Nothing in the model says so. Decoding is chosen after training, and it can be chosen anew for each
# text.

# %%
import math
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import Transformer, TransformerConfig, generate
from minitransformer.data.batching import IGNORE, TokenBatches, collate
from minitransformer.data.phrasebook import phrasebook
from minitransformer.generation.scoring import keep_top_k, keep_top_p, length_penalty, scale_by_temperature
from minitransformer.text.tokenizer import Tokenizer


@dataclass
class Lesson(Settings):
    temperature: float = 1.0
    """Of the samples. Try 0.3 and 3."""
    beams: int = 4
    """Beams of the search. Try 2 and 16."""
    guess: float | None = None
    """Your prediction: the percentage of sentences for which beams find a likelier text than greedy."""


settings = read_settings(Lesson)

# %% [markdown]
# ## One step: ten scores, one word
#
# "Transformer Network" scores its ten words after `<START>`. The softmax makes probabilities of them:
# the document's table, right but for one digit (world has 0.043). Two rules choose a word. *Greedy*
# takes the likeliest. *Sampling* draws one, each with its probability. "The Transformer architecture"
# describes both in different sections, as if they were one. They are not.

# %%
WORDS = ["<START>", "I", "love", "you", "Je", "t'", "aime", "hello", "world", "<END>"]
SCORES = np.array([[-0.5, 0.3, 0.8, 0.2, 2.5, 1.1, 0.9, -0.2, 0.1, -0.8]])  # (rows, V)
PRINTED = np.array([0.024, 0.053, 0.088, 0.048, 0.479, 0.118, 0.097, 0.032, 0.044, 0.018])


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


p = softmax(SCORES)[0]
rng = np.random.default_rng(settings.seed)
drawn = np.bincount(rng.choice(10, 5000, p=p), minlength=10) / 5000
for word, computed, printed, share in zip(WORDS, p, PRINTED, drawn, strict=True):
    print(f"{word:8} computed {computed:.3f}  printed {printed:.3f}  drawn {share:.3f}")
check("the document's probabilities are right to 0.001", abs(p - PRINTED).max() < 0.001)
check("sampling draws each word as often as its probability says", abs(drawn - p).max() < 0.04)
check("greedy takes Je; sampling takes another word in half of the cases", p.argmax() == 4 and p[4] < 0.5)

# %% [markdown]
# ## Temperature, top k, top p
#
# A half of bad words is too many. Three options take from the tail and give to the head:
#
# - temperature $\tau$: $p_i \propto e^{s_i / \tau}$. As $\tau \to 0$ that becomes greedy, as $\tau \to
#   \infty$ all words alike.
# - top k: only the k likeliest.
# - top p: the fewest words that have p together, few where the model is sure, many where it is not.


# %%
def picture(temperature):
    changed = {
        "as they are": SCORES,
        f"temperature {temperature:g}": scale_by_temperature(SCORES, temperature),
        "temperature 0.5": scale_by_temperature(SCORES, 0.5),
        "top k = 3": keep_top_k(SCORES, 3),
        "top p = 0.7": keep_top_p(SCORES, 0.7),
    }
    if temperature in (0.5, 1.0):
        del changed[f"temperature {temperature:g}"]
    figure = Figure(figsize=(11, 2.8), layout="constrained")
    panels = figure.subplots(1, len(changed), sharey=True)
    for panel, (name, scores) in zip(panels, changed.items(), strict=True):
        panel.bar(WORDS, softmax(scores)[0], color=["C1" if word == "Je" else "C0" for word in WORDS])
        panel.set(title=name)
        panel.tick_params(axis="x", rotation=90)
    panels[0].set_ylabel("probability")
    show(figure, "15-one-step", settings)


control(picture, settings, temperature=(0.1, 5.0))
cold, hot = (softmax(scale_by_temperature(SCORES, t))[0].max() for t in (0.1, 100.0))
check("temperature 0.1 is nearly greedy; 100 nearly a choice among ten alike", cold > 0.99 and hot < 0.11)
check("top p = 0.7 keeps four words", np.isfinite(keep_top_p(SCORES, 0.7)).sum() == 4)

# %% [markdown]
# ## Greedy misses what beams find
#
# The likeliest *text* is another question than the likeliest next word. A tree of two words, by hand:
# "the" is likelier than "a", but what follows "the" is uncertain. Greedy goes left and ends at 0.6 ·
# 0.4 = 0.24. Two beams keep both prefixes for one more step, and find 0.4 · 0.9 = 0.36.

# %%
TREE = {  # the probabilities of the next word after each prefix
    (): {"the": 0.6, "a": 0.4},
    ("the",): {"cat": 0.4, "dog": 0.35, "mat": 0.25},
    ("a",): {"queen": 0.9, "cat": 0.1},
}


def beam_step(beams, k):
    """Extend each (text, log-probability) by each next word, and keep the k best."""
    longer = []
    for text, score in beams:
        longer += [((*text, word), score + math.log(p)) for word, p in TREE[text].items()]
    return sorted(longer, key=lambda beam: -beam[1])[:k]


best = {}
for k in (1, 2):
    beams = [((), 0.0)]
    for _ in range(2):
        beams = beam_step(beams, k)
        print(f"{k} beams:", [(" ".join(text), round(math.exp(score), 2)) for text, score in beams])
    best[k] = beams[0]
check("greedy (one beam) ends at 'the cat', 0.24", best[1][0] == ("the", "cat"))
check("two beams find 'a queen', 0.36", best[2][0] == ("a", "queen"))

# %%
figure = Figure(figsize=(7.5, 3.4), layout="constrained")
axes = figure.subplots()
leaves = [(text, word) for text in (("the",), ("a",)) for word in TREE[text]]
height = {(*text, word): -i for i, (text, word) in enumerate(leaves)}
height |= {("the",): -1, ("a",): -3.5, (): -2}
for text, following in TREE.items():
    for word, p in following.items():
        child = (*text, word)
        on_path = {n: child == best[n][0][: len(child)] for n in best}
        color = "C3" if on_path[1] else "C2" if on_path[2] else "lightgrey"
        axes.plot([len(text), len(child)], [height[text], height[child]], color=color, lw=1 + 8 * p, zorder=0)
        up = 0.35 if len(child) == 1 else 0  # above its lines
        axes.text(len(child) + 0.03 - up / 3, height[child] + up, f"{word} {p:g}", va="center", weight="bold")
axes.set(title="Red: greedy, 0.24. Green: what two beams find, 0.36", xlim=(-0.1, 2.5))
axes.axis("off")
show(figure, "15-tree", settings)

# %% [markdown]
# ## A translator of ten seconds
#
# Now real texts. The model is small and badly trained, on purpose: a perfect translator is so sure of
# each word that all ways of decoding agree.

# %%
book = phrasebook()
pairs, test = ([pair for pair in part if len(pair[0].split()) <= 5] for part in (book.train, book.test))
often = [("I love you", "Je t'aime")] * 20  # so that this one is right
tokenizer = Tokenizer.train_word([text for pair in pairs for text in pair])
ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in [*pairs, *often]]
lengths = np.array([(len(source) + 1, len(target) + 1) for source, target in ids])
batches = TokenBatches(lengths, max_tokens=400, seed=settings.seed)

STEPS = 340
model = Transformer(TransformerConfig(tokenizer.vocab_size, 64, 4, 256, 1, 1, dropout=0.0))
optimizer = optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
for step in range(STEPS):
    optimizer.param_groups[0]["lr"] = 4e-3 * min((step + 1) / 50, 1) * math.sqrt(1 - step / STEPS)
    batch = collate([ids[i] for i in batches.rows(step)], tokenizer)
    logits = model(batch["source"], batch["target_in"])  # (B, T, V)
    loss = F.cross_entropy(logits.flatten(0, 1), batch["target"].reshape(-1), ignore_index=IGNORE)
    optimizer.zero_grad()
    loss.backward()
    optim.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"{len(pairs):,} pairs, {tokenizer.vocab_size} words, loss {loss.item():.2f} after {STEPS} steps")

# %% [markdown]
# ## Each word with its probability
#
# "Transformer Network" translates "I love you" and prints the probability of each word. Its numbers are
# made up; ours are our model's. Their product is the probability of the whole text.
#
# The last word, `<END>`, is a word like any other: the model learns when to say it, and `generate`
# stops there. Section 6.1 has a second stop, "input length + 50" words. Ours is `max_new_tokens`.


# %%
def encode(source):
    return [*tokenizer.encode(source), tokenizer.end_id]


love = [encode("I love you")]
found = generate(model, love, max_new_tokens=12, return_dict=True)
names = [tokenizer.id_to_token[i] for i in (*found.ids[0], tokenizer.end_id)]
invented = {"Je": 0.479, "t'": 0.52, "aime": 0.61, "<END>": 0.73}
for word, logprob in zip(names, found.logprobs[0], strict=False):
    print(f"{word:8} ours {math.exp(logprob):.3f}   the document's {invented.get(word, math.nan):.3f}")
ours, theirs = math.exp(found.scores[0]), math.prod(invented.values())
print(f"the whole text: ours {ours:.3f}, the document's {theirs:.3f}")
check("greedy decoding writes Je t'aime", tokenizer.decode(found.ids[0]) == "Je t'aime")
check("the document's text has a probability of only 0.11, though each word is likely", 0.10 < theirs < 0.12)
check(
    "the score of a text is the sum of its words' log-probabilities",
    math.isclose(found.scores[0], sum(found.logprobs[0]), abs_tol=1e-5),
)

on_and_on = generate(model, love, max_new_tokens=12, eos_token_id=())[0]
print("without a stop:", " ".join(tokenizer.id_to_token[i] for i in on_and_on))
check(
    "it ended by <END>; without it, the model goes on to the limit",
    found.finish_reasons[0] == "eos" and len(on_and_on) == 12,
)

# %% [markdown]
# ## All ways, on sentences that it has not seen
#
# For each way of decoding: how probable the texts are under the model (the mean of their
# log-probabilities), and how many are the reference, word for word.

# %%
sources = [encode(source) for source, _ in test[:200]]
references = [tokenizer.decode(tokenizer.encode(target)) for _, target in test[:200]]


def decode(**options):
    """The texts, the log-probability of each, and how many words each has."""
    result = generate(model, sources, max_new_tokens=20, return_dict=True, **options)
    texts = [tokenizer.decode(ids) for ids in result.ids]
    return (
        texts,
        np.array([sum(logprobs) for logprobs in result.logprobs]),
        np.array(list(map(len, result.ids))),
    )


def exact(texts):
    return float(np.mean([text == reference for text, reference in zip(texts, references, strict=True)]))


guess = predict(
    "for what percentage of sentences do 4 beams find a likelier text than greedy?", settings.guess
)
ways = {
    "greedy": {},
    f"{settings.beams} beams": {"num_beams": settings.beams, "length_penalty": 0.0},
    "sampling": {"do_sample": True, "temperature": settings.temperature, "seed": settings.seed},
    "sampling, top p = 0.8": {"do_sample": True, "top_p": 0.8, "seed": settings.seed},
}
results = {name: decode(**options) for name, options in ways.items()}
for name, (texts, logprobs, _) in results.items():
    print(f"{name:22} log-probability {logprobs.mean():6.2f}   exact {exact(texts):.1%}")

# %%
(greedy, greedy_p, _), (beamed, beamed_p, _), (sampled, sampled_p, _), (_, nucleus_p, _) = results.values()
likelier = beamed_p > greedy_p + 1e-4
guess.compare(100 * likelier.mean())
print(f"beams find a less likely text for {np.sum(beamed_p < greedy_p - 1e-4)} of {len(greedy)}")
i = int(np.argmax(beamed_p - greedy_p))
for name, text, logprob in (("greedy", greedy[i], greedy_p[i]), ("beams", beamed[i], beamed_p[i])):
    print(f"  {test[i][0]}  {name}: {text}  ({math.exp(logprob):.3f})")

check("beams find a likelier text for more than 5% of the sentences", likelier.mean() > 0.05)
check("on average, too", beamed_p.mean() > greedy_p.mean())
if settings.temperature == 1:
    check(
        "samples are less likely than greedy texts, and fewer are right",
        sampled_p.mean() < greedy_p.mean() and exact(sampled) < exact(greedy),
    )
    check("top p repairs a part of that", nucleus_p.mean() > sampled_p.mean())

# %% [markdown]
# Beams find likelier texts. That a likelier text is a *better* one is the model's opinion: compare the
# gain in probability with the gain in exact translations. And the search promises nothing: all k
# prefixes that beat the greedy one may lead to worse ends.
#
# ## One source, many samples
#
# For a translation, variety is a fault. For a story it is the aim. Temperature trades one for the
# other.

# %%
temperatures = (0.2, 0.5, 1.0, 2.0)
different, right = [], []
for temperature in temperatures:
    options = {
        "do_sample": True,
        "temperature": temperature,
        "seed": settings.seed,
        "num_return_sequences": 100,
    }
    texts = [tokenizer.decode(ids) for ids in generate(model, love, max_new_tokens=12, **options)]
    different.append(len(set(texts)))
    right.append(sum(text == "Je t'aime" for text in texts))
    print(f"temperature {temperature}: {different[-1]} different, {right[-1]} times Je t'aime; {texts[:3]}")
check(
    "the higher the temperature, the more different texts",
    different == sorted(different) and different[0] < different[-1],
)

figure = Figure(figsize=(10, 3.6), layout="constrained")
left, middle = figure.subplots(1, 2)
left.hist([greedy_p, beamed_p, sampled_p], bins=np.linspace(-15, 0, 16), label=list(results)[:3])
left.set(
    title="Beams move texts to the right; samples fall far left",
    xlabel="log-probability of the text",
    ylabel="texts",
)
left.legend()
middle.plot(temperatures, different, "o-", label="different texts")
middle.plot(temperatures, right, "s-", label="Je t'aime")
middle.set(title="100 samples for 'I love you'", xlabel="temperature", ylabel="of 100")
middle.legend()
show(figure, "15-ways", settings)

# %% [markdown]
# ## The length penalty
#
# Each word multiplies by a number below 1, so of two texts the shorter has the better start. Beams rank
# finished texts by
#
# $$\frac{\log P(y)}{\mathrm{lp}(y)}, \qquad \mathrm{lp}(y) = |y|^{\alpha} \quad\text{or}\quad
# \left(\frac{5 + |y|}{6}\right)^{\alpha}$$
#
# $\alpha = 0$ ranks by probability; in the first form, $\alpha = 1$ ranks by the mean of the words. The
# second form is the paper's ([38], Wu et al. 2016). It is gentle: below, 0.6 does not turn the order.

# %%
candidates = {"short": (-1.0, 2), "long": (-1.5, 4)}  # log P(y) and |y|, <END> included
winners = {}
for alpha, form in ((0.0, "huggingface"), (1.0, "huggingface"), (0.6, "gnmt")):
    scores = {name: logp / length_penalty(n, alpha, form) for name, (logp, n) in candidates.items()}
    winners[alpha, form] = max(scores, key=scores.get)
    shown = ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
    print(f"{form:11} alpha {alpha}: {shown}, so {winners[alpha, form]}")
check("alpha decides who wins", list(winners.values()) == ["short", "long", "short"])

words = {}
for alpha in (0.0, 5.0):
    words[alpha] = decode(num_beams=4, length_penalty=alpha)[2].mean()
    print(f"alpha {alpha}: {words[alpha]:.2f} words on average")
check("a larger alpha makes longer translations", words[5.0] > words[0.0])

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 25`: one step of beam search. (Also `minitransformer learn 24`: top p's
#    filter.)
# 2. Give `TREE` a third first word, so that two beams miss the likeliest text and three find it. How
#    many beams are sure to find it, if there are 3 words to choose from in each of two steps?
#
# ## Read next
#
# - `minitransformer/generation/scoring.py`, `keep_top_p`: how scores are changed before a word is
#   chosen.
# - `minitransformer/generation/beams.py`, `beam_search`: `beam_step` for many sentences at once.
# - `minitransformer/generation/sampling.py`, `sample`: drawing a word with Gumbel noise.
# - Next lesson: `demos/lessons/16_from_rnn_to_transformer.py`
