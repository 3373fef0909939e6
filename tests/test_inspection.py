"""Instruments: `check` finds planted defects, `card` estimates what a training takes, `show` and `sweep`
say what came of it."""

import pytest

from minigrad import optim
from minitransformer.attention import MultiHeadAttention
from minitransformer.cache import KeyValueCache
from minitransformer.inspection import checks
from minitransformer.layers import EncoderDecoder, FeedForward
from minitransformer.tasks import Translation
from minitransformer.tokenizers import Tokenizer

# --- check ---


def marks(out):
    """The mark of each check."""
    return {line[2:15].strip(): line[0] for line in out.splitlines()}


def test_a_sound_translation_model_passes_every_check(cli):
    code, out, err = cli("check", "mine")
    assert (code, err) == (0, "")
    names = ["causality", "padding", "cache", "accumulation", "gradient", "round trip", "resume"]
    assert marks(out) == dict.fromkeys(names, "✓")


def test_a_sound_language_model_passes_every_check(cli):
    code, out, _ = cli("check", "play")
    assert code == 0
    assert set(marks(out).values()) == {"✓"}


def look_at_the_future(plant):
    forward = MultiHeadAttention.forward
    plant(
        MultiHeadAttention, "forward", lambda self, q, m, mask, causal, c: forward(self, q, m, mask, False, c)
    )


def attend_to_padding(plant):
    mask = EncoderDecoder.padding_mask
    plant(EncoderDecoder, "padding_mask", lambda self, source: mask(self, source) | True)


def drop_a_cache_entry(plant):
    append = KeyValueCache.append

    def forgetful(self, kv, num_heads):
        found = append(self, kv, num_heads)
        if self.length > 8:
            self.buffer[:, 3] = 0
        return found

    plant(KeyValueCache, "append", forgetful)


def take_the_mean_of_each_micro_batch(plant):
    loss = Translation.loss
    plant(Translation, "loss", lambda self, model, batch, s: loss(self, model, batch, s) / batch.n_tokens)


def draw_the_same_dropout_for_each_micro_batch(plant):
    split = Translation.split
    plant(Translation, "split", lambda self, batch, n: ((0, rows) for _, rows in split(self, batch, n)))


def differentiate_wrongly(plant):
    forward = FeedForward.forward

    def wrong(self, x):
        out = forward(self, x)
        if out.requires_grad:
            out.register_hook(lambda g: g * 1.1)
        return out

    plant(FeedForward, "forward", wrong)


def lose_a_letter(plant):
    decode = Tokenizer.decode
    plant(Tokenizer, "decode", lambda self, ids: decode(self, ids).replace("a", ""))


def forget_the_place_in_the_data(plant):
    plant(Translation, "restore", lambda self, state: None)


def forget_the_moments(plant):
    plant(optim.AdamW, "load_state_dict", lambda self, state: None)


DEFECTS = {
    look_at_the_future: "causality",
    attend_to_padding: "padding",
    drop_a_cache_entry: "cache",
    take_the_mean_of_each_micro_batch: "accumulation",
    draw_the_same_dropout_for_each_micro_batch: "accumulation",
    differentiate_wrongly: "gradient",
    lose_a_letter: "round trip",
    forget_the_place_in_the_data: "resume",
    forget_the_moments: "resume",
}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_planted_defect_gives_a_cross_and_exit_code_1(cli, monkeypatch, defect):
    name = DEFECTS[defect]
    monkeypatch.setattr(checks, "CHECKS", {name: checks.CHECKS[name]})  # the others take their time
    defect(monkeypatch.setattr)
    code, out, _ = cli("check", "mine")
    assert (code, marks(out)) == (1, {name: "✗"})
