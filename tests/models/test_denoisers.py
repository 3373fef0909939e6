"""T5 and BART: first tokens, initial weights, and errors of wrong settings."""

import numpy as np
import pytest

import minigrad as mg
from minitransformer import BART, T5, BARTConfig, T5Config
from minitransformer.errors import UserError
from minitransformer.models.presets import preset

V = 23
SOURCE = np.array([[5, 6, 7, 8, 9], [3, 4, 1, 0, 0]])
TARGET = np.array([[0, 6, 2, 9, 4], [0, 5, 5, 8, 3]])


def t5(**settings):
    sizes = {"d_model": 8, "d_kv": 3, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    return T5(T5Config(V, **sizes | {"relative_attention_max_distance": 20} | settings)).eval()


def bart(**settings):
    sizes = {"max_position_embeddings": 8, "pad_token_id": 0, "init_std": 0.3}
    layers = {"encoder_layers": 1, "encoder_ffn_dim": 16, "encoder_attention_heads": 2}
    layers |= {name.replace("encoder", "decoder"): value for name, value in layers.items()}
    return BART(BARTConfig(V, **{"d_model": 8} | sizes | layers | settings)).eval()


@pytest.mark.parametrize("make", [t5, bart, lambda: t5(feed_forward_proj="gated-gelu")])
def test_the_initial_loss_is_close_to_uniform(make):
    """The first loss is near that of a uniform distribution, log V."""
    mg.manual_seed(0)
    loss = mg.nn.functional.cross_entropy(make()(SOURCE, TARGET).flatten(0, 1), TARGET.ravel())
    assert loss.item() == pytest.approx(np.log(V), abs=1.5)


def test_t5_and_bart_use_their_decoder_start_tokens():
    assert t5().decoder_start_token_id == 0
    assert bart().decoder_start_token_id == 2
    assert t5(decoder_start_token_id=5).decoder_start_token_id == 5
    assert bart(decoder_start_token_id=5).decoder_start_token_id == 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: t5(feed_forward_proj="gated-gelo"), "unknown feed_forward_proj 'gated-gelo'.*gated-gelu"),
        (lambda: t5(relative_attention_max_distance=8), "maximum distance of 8 is too small for 32 buckets"),
        (lambda: t5(num_heads=0), "num_heads = 0"),
        (lambda: t5()(SOURCE, TARGET[:1]), "2 source sequences and 1 target"),
        (lambda: bart()(SOURCE, TARGET[:1]), "2 source sequences and 1 target"),
        (lambda: bart(d_model=9), "d_model=9 is not divisible by encoder_attention_heads=2"),
        (lambda: BARTConfig(activation_function="gelo"), "unknown activation_function 'gelo'.*gelu"),
        (lambda: bart()(np.ones((1, 9), int), TARGET[:1]), "9 tokens is longer than the 8 positions"),
        (lambda: bart()(SOURCE[:1], np.ones((1, 9), int)), "9 tokens is longer than the 8 positions"),
        (lambda: preset("t5-smal"), "no preset 't5-smal'.*t5-small"),
    ],
)
def test_invalid_settings_or_inputs_give_a_two_line_error(call, message):
    with pytest.raises((UserError, mg.ShapeError), match=message) as error:
        call()
    assert len(str(error.value).splitlines()) == 2
