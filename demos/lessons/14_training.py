# %% [markdown]
# # 14. Training
#
# After this lesson you can train a translator with the engine of lesson 3, tell from the first loss
# whether something is wrong, test a new model on one batch, and train a GPT on a text of your own from the
# command line.
#
# All parts are there: attention, masks, the loss, the shifted target. What is left is a loop of four
# lines: the loss of a batch, its gradients, an update, and again.

# %%
import io
import time
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from engine import Tensor
from lesson import Settings, check, check_time, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import (
    PairTask,
    Seq2Seq,
    Seq2SeqConfig,
    Tokenizer,
    Transformer,
    TransformerConfig,
    generate,
)
from minitransformer.cli import main
from minitransformer.data.phrasebook import phrasebook, word_forms


@dataclass
class Lesson(Settings):
    std: float = 0.1
    """Standard deviation of the small model's first weights. Try 0.001, 0.5 and 1."""
    guess: float | None = None
    """Your prediction: the small model's first loss if the standard deviation is 0.5."""
    text: Path | None = None
    """A text of yours for the GPT at the end, at least 50,000 characters."""


settings = read_settings(Lesson)

# %% [markdown]
# ## A language of 36 sentences
#
# "I love you" becomes "je t' aime": the object moves before the verb, the verb agrees with the subject,
# and "te" loses its e before a vowel. Each sentence and its translation are one sequence, and the model
# predicts the next word, as a GPT does. Only the words after "=" count in the loss.

# %%
SUBJECTS = {"I": "je", "we": "nous", "they": "ils"}
OBJECTS = {"you": ("te", "t'"), "him": ("le", "l'"), "them": ("les", "les")}  # before a consonant, a vowel
VERBS = {
    "love": ("aime", "aimons", "aiment"),
    "see": ("vois", "voyons", "voient"),
    "know": ("connais", "connaissons", "connaissent"),
    "hear": ("entends", "entendons", "entendent"),
}


def sentence(subject, verb, object):
    form = VERBS[verb][list(SUBJECTS).index(subject)]
    return [subject, verb, object, "=", SUBJECTS[subject], OBJECTS[object][form[0] in "ae"], form, "<END>"]


SENTENCES = [sentence(s, v, o) for s in SUBJECTS for v in VERBS for o in OBJECTS]
WORDS = sorted({word for words in SENTENCES for word in words})
V = len(WORDS)
IDS = np.array([[WORDS.index(word) for word in words] for words in SENTENCES])  # (36, 8)
print(" ".join(SENTENCES[0]), f"\n{len(SENTENCES)} sentences, {V} words")

# %% [markdown]
# ## One block
#
# The model is one attention layer and one feed-forward network, each with a residual connection, and
# the embedding matrix again as output layer. Every line is from an earlier lesson. "Attention Is All
# You Need", section 3.2.1, equation 1:
#
# > Attention(Q, K, V) = softmax(QKᵀ / √dₖ)V
#
# The mask is 0 where a word may look and $-\infty$ where it may not, as "Transformer Network" prints
# it. Nothing here says which library computes: the parameters `p` may be our engine's tensors, or
# minigrad's.

# %%
D, D_FF, T = 32, 64, IDS.shape[1] - 1
MASK = np.triu(np.full((T, T), -np.inf), 1)  # 0 and -inf


def softmax(x):
    e = (x - x.array.max(-1, keepdims=True)).exp()  # the largest becomes 0: no overflow
    return e / e.sum(-1, keepdims=True)


def forward(p, ids):
    """The logits (B, T, V), and what we want to look at."""
    t = ids.shape[1]
    x = p["E"][ids] + p["P"][:t]  # (B, T, D)
    q, k, v = x @ p["W_q"], x @ p["W_k"], x @ p["W_v"]
    weights = softmax(q @ k.permute((0, 2, 1)) / D**0.5 + MASK[:t, :t])  # (B, T, T)
    x = x + weights @ v @ p["W_o"]
    hidden = x @ p["W_1"] + p["b_1"]  # (B, T, D_FF)
    x = x + hidden.relu() @ p["W_2"] + p["b_2"]
    return x @ p["E"].permute((1, 0)), {"hidden": hidden, "attention": weights}


def loss_of(p, ids):
    """The mean of -log p over the words after "="."""
    logits, _ = forward(p, ids[:, :-1])
    logits, target = logits[:, 3:], ids[:, 4:]  # "=" is word 3: it predicts word 4
    z = logits - logits.array.max(-1, keepdims=True)
    log_p = z - z.exp().sum(-1, keepdims=True).log()
    rows, columns = np.indices(target.shape)
    return -log_p[rows, columns, target].mean()


def first_weights(std):
    draw = np.random.default_rng(settings.seed)
    square = dict.fromkeys(("W_q", "W_k", "W_v", "W_o"), (D, D))
    shapes = {"E": (V, D), "P": (T, D), **square, "W_1": (D, D_FF), "W_2": (D_FF, D)}
    matrices = {name: draw.normal(0, std, shape) for name, shape in shapes.items()}
    return {**matrices, "b_1": np.zeros(D_FF), "b_2": np.zeros(D)}


# %% [markdown]
# ## The first loss
#
# A model that knows nothing gives each of $V$ words the probability $1/V$. So its loss is
#
# $$-\log \frac{1}{V} = \log V.$$
#
# That is a test which costs one forward pass. "Explain step by step ... with test data" says of the
# embedding matrix: "Initially filled with random values." It does not say how large, and that decides.
# Logits $z$ around 0 with variance $s^2$ raise it: $e^z \approx 1 + z + z^2/2$, and the mean of that is $1 +
# s^2/2 \approx e^{s^2/2}$ (for normal $z$ exactly so). For many words
#
# $$\mathbb{E}[L] = \mathbb{E}\Big[\log \sum_k e^{z_k} - z_t\Big] \approx \log (V e^{s^2/2}) - 0 = \log V +
# \frac{s^2}{2}.$$

# %%
draw = np.random.default_rng(settings.seed)
for s in (0.1, 1.0, 2.0):
    z = s * draw.normal(size=(500, 1000))  # 500 positions, 1,000 words
    average = (np.log(np.exp(z).sum(-1)) - z[:, 0]).mean()
    print(f"logits of deviation {s}: loss {average:.2f}; log V + s²/2 = {np.log(1000) + s**2 / 2:.2f}")
    check("the first loss is near log V + s²/2", abs(average - np.log(1000) - s**2 / 2) < 0.3)

first = {std: loss_of({n: Tensor(a) for n, a in first_weights(std).items()}, IDS) for std in (0.1, 0.5)}
wide = forward({n: Tensor(a) for n, a in first_weights(0.5).items()}, IDS[:, :-1])[0].array[:, 3:].std()
guess = predict(
    f"with weights of deviation 0.1 the model starts at {first[0.1].array:.2f} (log {V} is {np.log(V):.2f}). "
    f"With 0.5, its logits have deviation {wide:.0f}. Where does it start?",
    settings.guess,
)
guess.compare(first[0.5].array)

# %% [markdown]
# For such a deviation the formula gives thousands: it needs a small $s$. A large one leaves only the
# largest logit of the sum, so the loss is about $2s$ for 32 words: the largest minus the right one.

# %%
check("small weights start at log V", abs(first[0.1].array - np.log(V)) < 0.15)
check(
    "weights five times as large start at a loss more than five times as high",
    first[0.5].array > 5 * np.log(V),
)

# %% [markdown]
# A loss far above log V is confidence without knowledge. A loss far *below* it is a leak: the answer is
# in the input.
#
# ## Trained by your engine
#
# The update is Adam. "Attention Is All You Need", section 5.3:
#
# > We used the Adam optimizer with β₁ = 0.9, β₂ = 0.98 and ε = 10⁻⁹.
#
# It keeps a running mean $m$ of the gradient $g$ and $v$ of its square. Both start at 0, so after $t$
# steps they lack a factor: for a constant $g$, $m = (1 - \beta_1^t)\,g$. Dividing by it gives
#
# $$\hat m = \frac{m}{1 - \beta_1^t}, \qquad \hat v = \frac{v}{1 - \beta_2^t}, \qquad
# w \leftarrow w - \text{lr}\,\frac{\hat m}{\sqrt{\hat v} + \epsilon}.$$


# %%
class Adam:
    def __init__(self, parameters, lr, betas=(0.9, 0.98), eps=1e-9):
        self.parameters = list(parameters)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.m = [np.zeros_like(w.array) for w in self.parameters]
        self.v = [np.zeros_like(w.array) for w in self.parameters]
        self.t = 0

    def zero_grad(self):
        for w in self.parameters:
            w.grad = None

    def step(self):
        self.t += 1
        beta1, beta2 = self.betas
        for w, m, v in zip(self.parameters, self.m, self.v, strict=True):
            m += (1 - beta1) * (w.grad - m)
            v += (1 - beta2) * (w.grad**2 - v)
            m_hat, v_hat = m / (1 - beta1**self.t), v / (1 - beta2**self.t)
            w.array -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


def train(leaf, make_optimizer, std=0.1, steps=200):
    """The trained parameters and the loss at each step."""
    p = {name: leaf(array) for name, array in first_weights(std).items()}
    optimizer = make_optimizer(p.values())
    losses = []
    for _ in range(steps):
        loss = loss_of(p, IDS)
        losses.append(float(loss.array))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return p, np.array(losses)


def by_engine(**options):
    return train(Tensor, lambda parameters: Adam(parameters, lr=0.01), **options)


def by_minigrad(**options):
    adam = lambda parameters: optim.Adam(list(parameters), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    return train(lambda array: mg.tensor(array, requires_grad=True), adam, **options)


p, losses = by_engine()
_, same = by_minigrad(steps=100)
for step in (0, 20, 50, 99):
    print(f"step {step:>3}: engine {losses[step]:.10f}, minigrad {same[step]:.10f}")
check(
    "a hundred steps of both give the same losses to 6 digits",
    np.allclose(losses[:100], same, rtol=1e-6),
)

# %% [markdown]
# A hundred lines of yours and minigrad train the same model, digit by digit. To translate, give the
# model what stands before the "=", and append its most probable word until `<END>`.


# %%
def translate_by_hand(p, words):
    ids = [WORDS.index(word) for word in words.split()] + [WORDS.index("=")]
    while len(ids) < 8 and WORDS[ids[-1]] != "<END>":
        logits, _ = forward(p, np.array([ids]))
        ids.append(int(logits.array[0, -1].argmax()))
    return " ".join(WORDS[i] for i in ids[4:-1])


for words in ("I love you", "we love you", "they see him", "I hear them"):
    print(f"{words} -> {translate_by_hand(p, words)}")
right = [translate_by_hand(p, " ".join(words[:3])) == " ".join(words[4:7]) for words in SENTENCES]
check("your engine's model translates all 36 sentences", all(right))

# %% [markdown]
# ## Too small, right, too large
#
# Before the first step, look at three things: the hidden numbers, the attention weights, and the gradients.
# Too small weights, and no gradient arrives. Too large, and each word looks at one other word only. The
# picture shows it, the numbers below say the same. The control changes its middle row.


# %%
def at_the_start(std):
    """Hidden numbers, attention weights, and gradients before the first step."""
    p = {name: Tensor(array) for name, array in first_weights(std).items()}
    _, inside = forward(p, IDS[:, :-1])
    loss_of(p, IDS).backward()
    weights = inside["attention"].array[:, 1:]  # the first word has no choice
    return inside["hidden"].array, weights, abs(p["W_q"].grad)


def picture(std):
    """Histograms for three sizes of first weights, and how the three are learned."""
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    rows = figure.subplots(3, 4)
    for panels, each in zip(rows, (0.001, std, 1.0), strict=True):
        hidden, weights, gradients = at_the_start(each)
        panels[0].hist(hidden.ravel(), bins=60)
        panels[1].hist(weights[:, MASK[1:] == 0].ravel(), bins=np.linspace(0, 1, 41), color="tab:orange")
        panels[2].hist(np.log10(gradients + 1e-22).ravel(), bins=np.linspace(-22, 4, 53), color="tab:green")
        panels[3].semilogy(by_engine(std=each, steps=100)[1], color="tab:red")
        panels[3].axhline(np.log(V), color="grey", ls="--")
        panels[3].set_ylim(1e-3, 5e4)
        panels[0].set_ylabel(f"weights of deviation {each:g}", fontsize=12)
    titles = ("hidden numbers", "attention weights", "gradients of $W_q$", "loss (dashed: log V)")
    labels = ("value (note the scale)", "value", "log₁₀ of the size", "step")
    for column, (title, label) in enumerate(zip(titles, labels, strict=True)):
        rows[0, column].set_title(title)
        rows[2, column].set_xlabel(label)
    figure.suptitle(
        "Top: too small, no gradient. Bottom: too large, attention is all or nothing.", fontsize=14
    )
    show(figure, "14-starts", settings)


control(picture, settings, std=(0.001, 1.0))
starts = {std: at_the_start(std) for std in (0.001, 0.1, 1.0)}
sure = {std: (weights.max(-1) > 0.99).mean() for std, (_, weights, _) in starts.items()}
size = {std: gradients.mean() for std, (_, _, gradients) in starts.items()}
print("words that look at one word only:", {std: f"{100 * share:.0f}%" for std, share in sure.items()})
print("mean size of the gradients of W_q:", {std: f"{mean:.0e}" for std, mean in size.items()})
check("with large weights most words look at one word only, without a reason", sure[1.0] > 0.5 > sure[0.1])
check("with tiny weights hardly any gradient reaches the queries", size[0.001] < 1e-6 * size[0.1])
late = {0.1: losses[99]} | {std: by_engine(std=std, steps=100)[1][-1] for std in (0.001, 1.0)}
print("loss after 100 steps:", {std: f"{loss:.3g}" for std, loss in late.items()})
check("both bad starts are far behind after 100 steps", min(late[0.001], late[1.0]) > 10 * late[0.1])
check("the large one is still above log V", late[1.0] > np.log(V))

# %% [markdown]
# The tiny start is learned all the same, only later: Adam divides by the size of the gradient. Gradient
# descent without that division would stand still. The large start has a loss above log V even after 100
# steps: it knows less than nothing.
#
# ## A real Transformer
#
# Now encoder and decoder, on a part of the built-in phrasebook: sentences of at most four words, made
# of its most frequent words. 150 pairs are held out.

# %%
book = phrasebook()
short = [tuple(pair) for pair in book.train + book.test if len(pair[0].split()) <= 4]


def frequent(texts, number):
    counts = Counter(word for text in texts for word in set(word_forms(text)))
    return {word for word, _ in counts.most_common(number)}


LOVE = ("I love you", "Je t'aime")
english = frequent([source for source, _ in short], 180) | set(word_forms(LOVE[0]))
french = frequent([target for _, target in short], 216) | set(word_forms(LOVE[1]))
pairs = [p for p in short if english.issuperset(word_forms(p[0])) and french.issuperset(word_forms(p[1]))]
order = np.random.default_rng(settings.seed).permutation(len(pairs))
shuffled = [LOVE, *(pairs[i] for i in order if pairs[i] != LOVE)]
training, held_out = shuffled[:-150], shuffled[-150:]
tokenizer = Tokenizer.train_word([text for pair in pairs for text in pair])
print(f"{len(training)} pairs to train on, {len(held_out)} held out, {tokenizer.vocab_size} tokens")


def transformer():
    mg.manual_seed(settings.seed)
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 256, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return Transformer(TransformerConfig(tokenizer.vocab_size, dropout=0.0, **sizes))


def loss_on(model, batch, source=None):
    logits = model(batch["source"] if source is None else source, batch["target_in"])  # (B, T, V)
    return F.cross_entropy(logits.flatten(0, 1), batch["target"].reshape(-1), ignore_index=-100)


# %% [markdown]
# Its first loss is *not* log V. The output layer is the embedding matrix, and layer norm gives the last
# state length $\sqrt d$, so the logits have a variance near 1: half a unit above log V by the formula.
# Besides, the residual connections carry the input word to the output, so the model begins by repeating
# it. In a Transformer with tied embeddings, this is normal.

# %%
task = PairTask(training, tokenizer, max_tokens=512, validation=held_out, seed=settings.seed)
batch = task.batch(0)
model = transformer()
logits = model(batch["source"], batch["target_in"])  # (B, T, V)
expected = np.log(tokenizer.vocab_size)
start = loss_on(model, batch).item()
repeats = (logits.numpy().argmax(-1) == batch["target_in"])[batch["target"] != -100].mean()
print(f"log V = {expected:.2f}; variance of the logits {logits.numpy().var():.2f}; first loss {start:.2f}")
print(f"its most probable next word is the last one again in {100 * repeats:.0f}% of the positions")
check("tied embeddings start above log V, by less than 2", 0 < start - expected < 2)
check("it begins by repeating the input more often than chance", repeats > 10 / tokenizer.vocab_size)

# %% [markdown]
# ## Overfit one batch, on purpose
#
# A model that cannot learn sixteen sentences by heart has a bug, and this shows it in two seconds. Here
# is such a bug: the decoder's cross-attention gets the same source for every sentence. Nothing fails.
# The loss falls, since French has its rules without English. But it cannot fall below the floor of a
# model that sees only the words so far. With $n(c)$ sentences that begin with $c$, the best guess for
# the next word $w$ is $n(cw) / n(c)$.

# %%
sixteen = PairTask(training[:16], tokenizer, validation=held_out).batch(0)


def learn_by_heart(blind, steps=120):
    model = transformer()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    source = np.full_like(sixteen["source"], tokenizer.end_id) if blind else sixteen["source"]
    losses, outside = [], []
    for step in range(steps):
        loss = loss_on(model, sixteen, source)
        losses.append(loss.item())
        if step % 10 == 9 and not blind:
            with mg.no_grad():
                outside.append(loss_on(model, batch).item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses, outside


guesses = [  # (the words so far, the next word) wherever a word is to be predicted
    (tuple(read[: t + 1]), written[t])
    for read, written in zip(sixteen["target_in"], sixteen["target"], strict=True)
    for t in range(len(read))
    if written[t] != -100
]
begun = Counter(so_far for so_far, _ in guesses)
continued = Counter(guesses)
floor = np.mean([np.log(begun[so_far] / continued[so_far, word]) for so_far, word in guesses])
losses, outside = learn_by_heart(blind=False)
blind, _ = learn_by_heart(blind=True)
print(f"after 120 steps: {losses[-1]:.4f}; with the bug {blind[-1]:.3f}, and the floor is {floor:.3f}")
print(f"on other sentences the loss went from {min(outside):.2f} up to {outside[-1]:.2f}")
check("a correct model learns one batch by heart", losses[-1] < 0.1 < floor)
check("the blind one stops above the floor", blind[-1] > floor)
check("by heart is not understood: on other sentences it gets worse", outside[-1] > min(outside))

# %%
figure = Figure(figsize=(8, 4), layout="constrained")
panel = figure.subplots()
panel.plot(losses, label="correct model, the sixteen sentences", lw=2)
panel.plot(blind, label="with the bug", color="tab:red")
panel.plot(range(9, 120, 10), outside, "o--", label="correct model, other sentences", color="tab:grey")
panel.axhline(floor, color="tab:red", ls=":", label="floor without a source")
panel.axhline(expected, color="black", ls=":", lw=1, label="log V")
panel.set(title="One batch: the correct model reaches 0, the bug stops at its floor", xlabel="step")
panel.set(ylabel="loss", ylim=(0, 8))
panel.legend(loc="center right")
show(figure, "14-one-batch", settings)

# %% [markdown]
# ## A translator in ten seconds
#
# The loop again, with three additions from the paper and since: the learning rate warms up and then
# falls, long gradients are clipped to norm 1, and every 40 steps we translate the held-out sentences.
#
# An RNN gets the same batches: encoder and decoder are GRUs, with a fixed context vector between them,
# and it has more parameters. "Transformer Network" says that for the same quality a Transformer trains
# two to three days, an RNN two to three weeks: a factor of seven. We count seconds of one processor, so
# parallel hardware plays no role here.


# %%
def fit(model, steps=240, lr=5e-3):
    """Train, and return the points (step, seconds, loss, share of held-out sentences translated exactly)."""
    task = PairTask(training, tokenizer, max_tokens=512, validation=held_out, seed=settings.seed)
    optimizer = optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98), eps=1e-9)
    points, seconds = [], 0.0
    for step in range(1, steps + 1):
        begun = time.process_time()
        optimizer.param_groups[0]["lr"] = lr * min(step / 30, 1) * (1 - step / (steps + 1))
        loss = loss_on(model, task.batch(step - 1))
        optimizer.zero_grad()
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds += time.process_time() - begun
        if step % 40 == 0:
            found = translate(model, [source for source, _ in held_out])
            exact = np.mean([text == target for text, (_, target) in zip(found, held_out, strict=True)])
            points.append((step, seconds, loss.item(), exact))
    return points


def translate(model, texts):
    ids = [[*tokenizer.encode(text), tokenizer.end_id] for text in texts]
    return [tokenizer.decode(found) for found in generate(model, ids, max_new_tokens=16)]


def gru():
    mg.manual_seed(settings.seed)
    config = Seq2SeqConfig(
        tokenizer.vocab_size, hidden_size=96, rnn_type="gru", attention="none", bidirectional=False
    )
    return Seq2Seq(config)


runs = {}
for name, model in {"GRU": gru(), "Transformer": transformer()}.items():
    runs[name] = np.array(fit(model))
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{name}: {size:,} parameters, {runs[name][-1, 1]:.1f} s, {100 * runs[name][-1, 3]:.0f}% exact")
for text, (source, target) in zip(translate(model, [s for s, _ in held_out[:5]]), held_out, strict=False):
    print(f"{source} -> {text}" + ("" if text == target else f"   ({target})"))
print("I love you ->", translate(model, ["I love you"])[0])
check("it translates I love you", translate(model, ["I love you"]) == ["Je t'aime"])
check("it translates at least 40% of what it has not seen exactly", runs["Transformer"][-1, 3] > 0.4)
level = runs["GRU"][-1, 3]
soon = next(seconds for _, seconds, _, exact in runs["Transformer"] if exact >= level)
factor = runs["GRU"][-1, 1] / soon
print(f"the GRU's last {100 * level:.0f}% take the Transformer {soon:.1f} s: {factor:.1f} times less")
check_time("it reaches the GRU's quality in less time", factor > 1)
exact = runs["Transformer"][:, 3]  # after 40, 80, ... 240 steps
check("the last 80 steps gain less than the 80 before", exact[5] - exact[3] < exact[3] - exact[1])

# %%
figure = Figure(figsize=(10, 3.8), layout="constrained")
left, right = figure.subplots(1, 2)
for (name, points), colour in zip(runs.items(), ("tab:orange", "tab:blue"), strict=True):
    left.plot(points[:, 1], points[:, 2], "o-", label=name, color=colour)
    right.plot(points[:, 1], 100 * points[:, 3], "o-", label=name, color=colour)
left.set(
    title="the training loss falls ...", xlabel="processor seconds", ylabel="loss of a batch", yscale="log"
)
right.set(title="... and unseen sentences come out right", xlabel="processor seconds", ylabel="% exact")
for panel in (left, right):
    panel.legend()
    panel.grid(alpha=0.3)
show(figure, "14-quality", settings)

# %% [markdown]
# At the end of the blue curves the loss on the training sentences keeps falling, while the share of right
# translations hardly moves: the model learns its sentences by heart. What helps is more data, not more
# steps. `demos/scaling.py` draws the loss against parameters and data.
#
# ## The same from the command line
#
# A recipe is this loop with checkpoints, a log, validation and a test set; each setting above is a flag.
# `minitransformer train phrasebook` takes a minute and a half, and translates nearly all of its test
# sentences. Here is a GPT on our short sentences, letter by letter; any other text will do (`--text`;
# `docs/how-to/gpt-on-your-text.md`). `main` is what the command `minitransformer` calls.

# %%
folder = settings.pictures / "14-runs"
folder.mkdir(parents=True, exist_ok=True)
if settings.text is None:
    text = "\n".join(source for source, _ in short)
else:
    text = settings.text.read_text(encoding="utf-8")
(folder / "mine.txt").write_text(text, encoding="utf-8")


def command(line):
    """Run a command line, and return what it printed."""
    print(f"$ minitransformer {line}")
    with redirect_stdout(io.StringIO()) as printed:
        status = main([word.replace("{folder}", str(folder)) for word in line.split(" ")])
    assert status == 0
    return printed.getvalue()


def share_of_words(sample):
    known = set(word_forms(text))
    return np.mean([word in known for word in word_forms(sample)])


command(
    "train shakespeare-char-cpu --data {folder}/mine.txt --run-dir {folder}/gpt --overwrite "
    f"--n-layer 1 --n-embd 64 --steps 200 --warmup-steps 20 --lr 1e-2 --seed {settings.seed}"
)
written = command("generate {folder}/gpt --prompt I --max-new-tokens 300 --seed 0")
print(written)
letters = np.random.default_rng(settings.seed).permutation(list(text[:20_000]))
by_chance, by_gpt = share_of_words("".join(letters)), share_of_words(written)
print(f"words that are words: {100 * by_gpt:.0f}%; with shuffled letters {100 * by_chance:.0f}%")
check("200 steps teach it more words than chance gives", by_gpt > 2 * by_chance)

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 22` (one step of Adam) and `minitransformer learn 23` (clipping by the
#    global norm): the two functions that every training here calls.
# 2. Hold out six of the 36 sentences in `train`, "I love you" among them, and translate them. With
#    which seeds does it know them? What would have to be in the data so that it always does?
#
# ## Read next
#
# - `minitransformer/training/trainer.py`, `Trainer`: the loop of the recipes.
# - `minitransformer/tasks/arrays.py`, `PairTask`: from pairs of texts to batches.
# - `minigrad/optim/optimizer.py`, `Adam`: yours, with parameter groups and a kernel.
# - `minitransformer/training/diagnostics.py`, `Diagnostics`: such numbers for each layer during a
#   training (`--diagnostics`).
# - Next lesson: `demos/lessons/15_decoding.py`
