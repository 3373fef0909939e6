"""BERT and ViT: what each head reads, what is refused, and what a patch is."""

import dataclasses

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import BERT, BERTConfig, ViT, ViTConfig
from minitransformer.errors import UserError
from minitransformer.models.bert import HEADS
from minitransformer.models.presets import preset

TINY = BERTConfig(
    vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
    max_position_embeddings=6, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    initializer_range=0.5,
)  # fmt: skip
TINY_VIT = ViTConfig(
    hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
    image_size=6, patch_size=3, num_channels=2, num_labels=3, initializer_range=0.5,
)  # fmt: skip
IDS = np.array([[1, 5, 6, 2, 7], [1, 3, 2, 0, 0]])
REAL = IDS != 0


def bert(head="masked_lm", **settings):
    return BERT(dataclasses.replace(TINY, head=head, **settings))


def vit(**settings):
    return ViT(dataclasses.replace(TINY_VIT, **settings))


def numbers(result):
    """Each array of a head's result: (B, ...)."""
    results = vars(result).values() if dataclasses.is_dataclass(result) else [result]
    return [r.numpy() for r in results]


OPTIONS = [
    {}, {"positions": "rotary"}, {"positions": "alibi"}, {"positions": "t5"}, {"positions": "sinusoidal"},
    {"positions": "none"}, {"norm": "rms_norm", "norm_first": True}, {"hidden_act": "swiglu"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_padding_is_ignored_but_not_order(options):
    model = bert(**options)
    alone = model(IDS[1:, :3]).numpy()[0]
    np.testing.assert_allclose(model(IDS).numpy()[1, :3], alone, rtol=1e-4, atol=1e-5)
    permuted = model(IDS[1:, [1, 2, 0]]).numpy()[0]
    is_order_invariant = np.allclose(permuted, alone[[1, 2, 0]], rtol=1e-3, atol=1e-4)
    assert is_order_invariant == (options.get("positions") == "none")


@pytest.mark.parametrize("head", HEADS)
def test_padding_does_not_change_the_output_of_any_head(head):
    model = bert(head)
    for padded, alone in zip(numbers(model(IDS)), numbers(model(IDS[1:, :3])), strict=True):
        padded = padded[1:, :3] if padded.ndim == 3 else padded[1:]
        np.testing.assert_allclose(padded, alone, rtol=1e-4, atol=1e-5)


def test_the_default_mask_hides_padding():
    model = bert()
    ids = IDS[1:]
    np.testing.assert_array_equal(model(ids).numpy(), model(ids, REAL[1:]).numpy())
    np.testing.assert_array_equal(model(ids).numpy(), model(ids, REAL[1:].astype(np.int64)).numpy())
    assert not np.allclose(model(ids).numpy(), model(ids, np.ones_like(REAL[1:])).numpy())
    without = bert(pad_token_id=None)
    without.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(without(ids).numpy(), model(ids, np.ones_like(REAL[1:])).numpy())


def test_every_bert_token_attends_in_both_directions():
    model = bert()
    ids = IDS[:1]
    before = model.states(ids).numpy()[0]
    for changed in range(5):
        other = ids.copy()
        other[0, changed] = 9
        assert (np.abs(model.states(other).numpy()[0] - before).max(-1) > 1e-4).all()


def test_token_types_are_0_unless_given():
    model = bert()
    types = np.zeros_like(IDS)
    np.testing.assert_array_equal(model(IDS).numpy(), model(IDS, token_type_ids=types).numpy())
    types[0, 3:] = 1
    assert not np.allclose(model(IDS).numpy()[0], model(IDS, token_type_ids=types).numpy()[0])


@pytest.mark.parametrize("head", HEADS)
def test_every_parameter_of_a_head_gets_a_gradient(head):
    model = bert(head)
    for result in vars(out).values() if dataclasses.is_dataclass(out := model(IDS)) else [out]:
        (result * mg.randn(result.shape)).sum().backward(retain_graph=True)
    assert all(p.grad is not None and p.grad.numpy().any() for p in model.parameters())


def test_masked_words_use_the_tied_embedding_and_a_bias():
    model = bert()
    assert [name for name, p in model.named_parameters() if 11 in p.shape] == [
        "embedding.weight",
        "head.words.bias",
    ]
    model.embedding.weight.array[:] = 0
    model.head.words.bias.array[:] = np.arange(11)
    np.testing.assert_array_equal(model(IDS).numpy()[1, 2], np.arange(11))


def test_similarity_vectors_are_normalized_means():
    model = bert("similarity")
    mean = model.states(IDS).numpy()[1, :3].mean(0)
    vector = model(IDS).numpy()[1]
    np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), rtol=1e-4)
    empty = model(np.zeros((1, 3), int))  # no real token
    empty.sum().backward()
    assert not empty.numpy().any()
    assert np.isfinite(model.embedding.weight.grad.numpy()).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bert("masked-lm"), r"unknown head 'masked-lm'. Did you mean masked_lm\?"),
        (lambda: bert()(np.ones((1, 7), int)), "a sequence of 7 tokens is longer than the 6 positions"),
        (lambda: bert()(IDS, token_type_ids=IDS[:, :3]), r"token_type_ids of shape \(2, 3\) for ids"),
        (lambda: bert()(IDS, token_type_ids=2 * REAL.astype(int)), "from 0 to 2, but type_vocab_size=2"),
        (lambda: bert()(IDS, REAL[0]), r"a padding mask of shape \(5,\) for 2 rows of 5 tokens"),
        (lambda: bert()(IDS, ~REAL), "a row of the padding mask has no real token"),
        (lambda: bert()(IDS, np.where(REAL, 0.0, -np.inf)), "a padding mask of dtype float64"),
        (lambda: bert(hidden_size=9), "hidden_size=9 is not divisible by num_attention_heads=2"),
        (lambda: bert(hidden_act="gelo"), r"unknown activation 'gelo'. Did you mean gelu"),
        (lambda: vit(positions="learnt"), r"unknown positions 'learnt'. Did you mean learned\?"),
        (lambda: vit(patch_size=4), "image_size=6 is not divisible by patch_size=4"),
        (lambda: vit()(np.zeros((1, 2, 8, 8))), r"shape \(1, 2, 8, 8\), expected \(batch, 2, 6, 6\)"),
        (lambda: vit()(np.zeros((1, 3, 6, 6))), r"shape \(1, 3, 6, 6\), expected \(batch, 2, 6, 6\)"),
        (lambda: vit()(np.zeros((2, 6, 6))), r"shape \(2, 6, 6\), expected \(batch, 2, 6, 6\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises((UserError, mg.MinigradError), match=message) as error:
        call()
    assert len(str(error.value).splitlines()) == 2


def test_patch_embedding_matches_a_strided_convolution():
    patches = vit().patches
    images = mg.randn(2, 2, 6, 6)
    kernel = patches.projection.weight.reshape(8, 2, 3, 3)
    convolved = F.conv2d(images, kernel, patches.projection.bias, stride=3)  # (B, D, 2, 2)
    np.testing.assert_allclose(patches(images).numpy(), convolved.flatten(2).mT.numpy(), rtol=1e-4, atol=1e-6)


def test_images_are_converted_to_the_model_dtype():
    model = vit()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 2, 6, 6)).astype(np.uint8)
    logits = model(pixels)
    assert logits.dtype == np.float32
    np.testing.assert_array_equal(logits.numpy(), model(pixels.astype(np.float64)).numpy())


def test_every_patch_and_its_position_affects_the_logits():
    model = vit()
    images = np.random.default_rng(0).normal(size=(1, 2, 6, 6))
    before = model(images).numpy()
    for row in (0, 3):
        for column in (0, 3):
            other = images.copy()
            other[:, :, row : row + 3, column : column + 3] = 0
            assert np.abs(model(other).numpy() - before).max() > 1e-3
    swapped = np.concatenate([images[:, :, 3:], images[:, :, :3]], axis=2)
    assert np.abs(model(swapped).numpy() - before).max() > 1e-3
    model.positions.weight.array[:] = 0  # it then sees a bag of patches
    np.testing.assert_allclose(model(swapped).numpy(), model(images).numpy(), rtol=1e-4, atol=1e-5)


def test_presets_have_the_sizes_of_their_papers():
    tiny = BERT(dataclasses.replace(preset("bert-tiny"), head="classification"))
    assert tiny.num_parameters() - tiny.head.classifier.num_parameters() == 4_385_920  # 4.4 million
    assert preset("bert-base") == BERTConfig()
    assert ViT(preset("vit-digits"))(np.zeros((1, 1, 8, 8))).shape == (1, 10)


def test_encoders_match_between_cpu_and_gpu(gpu):
    model = bert()
    types = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    there = bert().to("cuda")
    there.load_state_dict(model.state_dict())
    for mask in (None, REAL):
        expected = model(IDS, mask, types).numpy()
        np.testing.assert_allclose(there(IDS, mask, types).cpu().numpy(), expected, rtol=1e-4, atol=1e-5)
    images = np.random.default_rng(0).normal(size=(2, 2, 6, 6)).astype(np.float32)
    classifier = vit()
    expected = classifier(images).numpy()
    result = classifier.to("cuda")(images)
    np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-4, atol=1e-5)
