"""Do the layers give an ambiguous word the meaning that its sentence implies?

A table of word vectors has one row for "bank". In BERT and in a translator's encoder, that row is only the
input: each layer mixes in the context, even with untrained weights. So the question is whether the vectors of
one meaning are similar, even in sentences in which different words imply the meaning.
"""

from collections.abc import Mapping

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ...data.batching import IGNORE, collate
from ...data.phrasebook import Sentence, phrasebook
from ...models.bert import BERT, BERTConfig
from ...models.transformer import Transformer
from ...text.tokenizer import Tokenizer
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, minimize, size, train, translator

BEFORE = {
    "money": ["lend", "pay", "save", "owe", "spend", "borrow", "invest", "earn"],
    "river": ["swim", "fish", "row", "dive", "wade", "paddle", "sail", "float"],
}
AFTER = {
    "money": ["cash", "loans", "coins", "debts", "notes", "cheques", "vaults", "clerks"],
    "river": ["water", "mud", "reeds", "boats", "sand", "stones", "ducks", "weeds"],
}
MEANINGS = list(BEFORE)
WORDS = ["[PAD]", "[CLS]", "[MASK]", "they", "at", "the", "bank", "with", "its"]
WORDS += [word for lists in (BEFORE, AFTER) for words in lists.values() for word in words]
ID = {word: i for i, word in enumerate(WORDS)}
BANK = 5  # its position in a sentence


def sentence(before: str, after: str) -> str:
    return f"[CLS] they {before} at the bank with its {after}"


def encode(text: str) -> list[int]:
    return [ID[word] for word in text.split()]


def made_sentences(first: range, second: range) -> tuple[list[str], np.ndarray]:
    """Return sentences with the words `first` before "bank" and `second` after it, and their meanings."""
    found = [
        (sentence(BEFORE[meaning][i], AFTER[meaning][j]), number)
        for number, meaning in enumerate(MEANINGS)
        for i in first
        for j in second
    ]
    return [text for text, _ in found], np.array([number for _, number in found])


FIRST, LAST = range(4), range(4, 8)  # sentences of only the last words are not trained on


def bert() -> BERT:
    return BERT(
        BERTConfig(
            len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=16, hidden_dropout_prob=0.0, initializer_range=0.1,
        )
    )  # fmt: skip


def fill_in_words(model: BERT, rate: float, steps: int, seed: int) -> list[float]:
    """Train on masked words, without labels for meanings. Return the losses."""
    random = np.random.default_rng(seed)
    texts = [
        text for pair in ((FIRST, FIRST), (FIRST, LAST), (LAST, FIRST)) for text in made_sentences(*pair)[0]
    ]
    rows = np.array([encode(text) for text in texts])

    def loss() -> mg.Tensor:
        ids = rows[random.integers(len(rows), size=32)]
        here = np.arange(len(ids)), random.integers(1, ids.shape[1], len(ids))
        target = np.full_like(ids, IGNORE)
        target[here] = ids[here]
        ids[here] = ID["[MASK]"]
        return F.cross_entropy(model(ids).flatten(0, 1), target.flatten(), ignore_index=IGNORE)

    return minimize(loss, model, rate, steps)


@mg.no_grad()
def states_of_bank(model: BERT, texts: list[str]) -> list[np.ndarray]:
    """Return the vectors (N, D) of "bank" in the sentences: from the table, then after each layer."""
    ids = np.array([encode(text) for text in texts])
    x = model.embed(ids)
    found = [model.embedding(ids), *(x := layer(x) for layer in model.encoder.layers)]
    return [states.numpy()[:, BANK] for states in found]


def cosines(vectors: np.ndarray) -> np.ndarray:
    """The cosines between all pairs of vectors, after subtracting their mean."""
    vectors = vectors - vectors.mean(0)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def same_and_other(vectors: np.ndarray, meanings: np.ndarray) -> tuple[float, float]:
    """The mean cosine of two sentences with the same meaning, and that of two with different meanings."""
    c = cosines(vectors)
    same = meanings[:, None] == meanings
    return float(c[same & ~np.eye(len(c), dtype=bool)].mean()), float(c[~same].mean())


def nearest_error(
    known: np.ndarray, meanings: np.ndarray, vectors: np.ndarray, right: np.ndarray, use: np.ndarray
) -> float:
    """The fraction of vectors that are nearer to the mean of the known vectors of the other meaning.

    `use` (N, K) marks the known vectors that are used for each vector.
    """
    wrong = 0
    for vector, meaning, chosen in zip(vectors, right, use, strict=True):
        far = [np.linalg.norm(vector - known[chosen & (meanings == number)].mean(0)) for number in (0, 1)]
        wrong += far[1 - meaning] < far[meaning]
    return wrong / len(vectors)


def separation(
    known: np.ndarray, meanings: np.ndarray, vectors: np.ndarray, right: np.ndarray, use: np.ndarray
) -> dict[str, float]:
    same, other = same_and_other(vectors, right)
    error = nearest_error(known, meanings, vectors, right, use)
    return {"error": error, "same meaning": same, "other meaning": other}


def without_shared_clues(texts: list[str]) -> np.ndarray:
    """A mask (N, N) of pairs of sentences that share no words, except those that all sentences have."""
    clues = [set(text.split()) - set(sentence("", "").split()) for text in texts]
    return np.array([[not a & b for a in clues] for b in clues])


def in_made_sentences(trial: Trial) -> Mapping[str, float]:
    texts, meanings = made_sentences(LAST, LAST)
    use = without_shared_clues(texts)
    model = bert()

    def measure() -> dict[str, float]:
        vectors = states_of_bank(model, texts)[-1]
        return separation(vectors, meanings, vectors, meanings, use)

    before = measure()
    fill_in_words(model, trial.rate, trial.steps(1000), trial.seed)
    ids = np.array([encode(text) for text in texts])
    last = ids[:, -1].copy()
    ids[:, -1] = ID["[MASK]"]
    with mg.no_grad():
        loss = F.cross_entropy(model(ids)[:, -1], last).item()
    return {"loss": loss, **measure(), "error before training": before["error"], "parameters": size(model)}


@mg.no_grad()
def encoded(model: Transformer, pairs: list[Sentence], tokenizer: Tokenizer) -> np.ndarray:
    """The encoder's output (N, D) at the ambiguous word of each English sentence."""
    batch = collate([(tokenizer.encode(english), []) for english, _ in pairs], tokenizer)
    model.eval()
    states = model.encode(batch["source"]).numpy()
    model.train()
    return states[np.arange(len(pairs)), [pair.sense.place[0] for pair in pairs]]


def in_translation(trial: Trial) -> Mapping[str, float]:
    random = np.random.default_rng(trial.seed)
    pairs = phrasebook().train
    drawn = [pairs[i] for i in random.permutation(len(pairs))]
    is_about = lambda pair: pair.sense and pair.sense.word == "bank"
    about = [pair for pair in drawn if is_about(pair)]
    held_out, known = about[:100], about[100:]
    others = [pair for pair in drawn if not is_about(pair) and len(pair[0].split()) <= 8][:2000]
    tokenizer = Tokenizer.train_word([text for pair in (*about, *others) for text in pair])
    to_ids = lambda pairs: [
        (tokenizer.encode(english), tokenizer.encode(french)) for english, french in pairs
    ]
    data = Sentences(to_ids([*known, *others]), to_ids(held_out), [], tokenizer)
    model = translator(data)
    meanings, right = (
        np.array([MEANINGS.index(pair.sense.meaning) for pair in part]) for part in (known, held_out)
    )
    use = np.ones((len(held_out), len(known)), bool)
    measure = lambda: separation(
        encoded(model, known, tokenizer), meanings, encoded(model, held_out, tokenizer), right, use
    )
    before = measure()
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {
        "loss": held_out_loss(model, data),
        **measure(),
        "error before training": before["error"],
        "parameters": size(model),
    }


@claim(
    question="Do the layers give an ambiguous word the meaning that its sentence implies?",
    says={
        "The Transformer architecture, Self-Attention Mechanism": "Each token's embedding is updated to "
        "reflect its relationships with other tokens, helping the model understand word meanings in "
        "context (e.g., polysemy).",
        "The Transformer Blueprint, Deconstructing the Encoder": 'How does it figure out that "bank" means a '
        "river's edge in one sentence, and a financial institution in another? This, my friends, is where "
        "the Transformer's Encoder truly shines.",
    },
    setting='"bank" has one row in the table of word vectors. Its vector after the last layer is compared '
    "with the mean vectors of both meanings. Made sentences: a BERT of width 32 fills in masked words, "
    "1,000 steps; the means are of sentences in which other words tell the meaning. Translation: a "
    "translator is trained for 400 steps on the phrasebook, where French has two words, banque and rive. "
    "There, all 166 sentences about a river have a word that tells the meaning, and 118 of 203 about money. "
    "Training has to lower the error by 0.1. Also, the mean cosine of two vectors of the same meaning has "
    "to be 0.3 above that of different meanings; cosines lie between -1 and 1, and a smaller shift does not "
    'count. No control word is measured: the vectors of "the" may separate the two kinds of sentences as '
    "well.",
    measures={
        "loss": "held-out loss, nats per token (made sentences: of the last word, masked)",
        "error": "fraction of sentences whose vector is nearer to the mean of the other meaning",
        "error before training": "the same, with untrained weights",
        "same meaning": "the mean cosine of its vectors in two sentences with the same meaning, after "
        "subtracting their mean",
        "other meaning": "the same, of two sentences with different meanings",
        "parameters": "number of parameters",
    },
    arms=("trained",),
    cases=("made sentences", "translation"),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(
        Rule("trained: error", "trained: error before training", by=0.1),
        Rule("trained: other meaning", "trained: same meaning", by=0.3),
    ),
)
def contextual_meaning(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    return in_made_sentences(trial) if trial.case == "made sentences" else in_translation(trial)
