"""The five models of lesson 16: two layers each, 64 numbers for each token, no dropout."""

import numpy as np

from minitransformer import BERT, GPT, T5, BARTConfig, BERTConfig, GPTConfig, T5Config, ViT, ViTConfig


def bert(vocab_size, pad_id):
    return BERT(
        BERTConfig(
            vocab_size, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
            max_position_embeddings=32, initializer_range=0.1, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, pad_token_id=pad_id,
        )
    )  # fmt: skip


def gpt(vocab_size, end_id):
    return GPT(
        GPTConfig(
            vocab_size, n_positions=32, n_embd=64, n_layer=2, n_head=4, embd_pdrop=0.0, resid_pdrop=0.0,
            attn_pdrop=0.0, initializer_range=0.1, eos_token_id=end_id,
        )
    )  # fmt: skip


def t5(vocab_size, pad_id, start_id, end_id):
    return T5(
        T5Config(
            vocab_size, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, dropout_rate=0.0,
            feed_forward_proj="gated-gelu", tie_word_embeddings=False, pad_token_id=pad_id,
            eos_token_id=end_id, decoder_start_token_id=start_id,
        )
    )  # fmt: skip


def bart_config(vocab_size, pad_id, start_id, end_id):
    return BARTConfig(
        vocab_size, max_position_embeddings=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=256,
        decoder_ffn_dim=256, encoder_attention_heads=4, decoder_attention_heads=4, d_model=64, dropout=0.0,
        init_std=0.1, pad_token_id=pad_id, bos_token_id=start_id, eos_token_id=end_id,
        decoder_start_token_id=start_id,
    )  # fmt: skip


def vit():
    """For images of 8 x 8 pixels with one channel, in 10 classes."""
    return ViT(
        ViTConfig(
            hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=8,
            patch_size=2, num_channels=1, num_labels=10, initializer_range=0.1,
        )
    )  # fmt: skip


def drawn_digits(rng, n):
    """Images (n, 1, 8, 8) and labels: digits of 3 x 5 points at one of two heights, with noise."""
    points = "75557 26227 71747 71717 55711 74717 74757 71111 75757 75717"  # a row is an octal number
    rows = points.split()
    glyphs = np.array([[[int(c) >> k & 1 for k in (2, 1, 0)] for c in row] for row in rows])  # (10, 5, 3)
    labels = rng.integers(0, 10, n)
    images = rng.random((n, 1, 8, 8), np.float32) * 0.3
    for image, label in zip(images, labels, strict=True):
        down = rng.integers(1, 3)
        image[0, down : down + 5, 2:5] += 0.7 * glyphs[label]
    return images, labels
