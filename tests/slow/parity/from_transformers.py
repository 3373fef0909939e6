"""Weights and gradients of Hugging Face's models under our names: one table for each family.

A row is a pattern of their names (a regular expression of the whole name) and our name. Rows with the same
name of ours are stacked along the first axis, in the rows' order: the projections of queries, keys and values
are one matrix here. Shapes may differ where the elements are the same: a convolution over patches is a matrix
here.
"""

import importlib
import re
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F


@dataclass(frozen=True)
class Row:
    theirs: str
    ours: str
    transposed: bool = False  # Conv1D of GPT-2 has (in, out)
    skip: int = 0  # first rows of their table that are never read, as in BART's positions


def qkv(theirs: str, ours: str, names: str, bias: bool = True, transposed: bool = False) -> list[Row]:
    """Rows of the projections `names` of one attention ("query key value"), stacked in ours.in_proj_*."""
    kinds = ["weight", "bias"] if bias else ["weight"]
    return [
        Row(rf"{theirs}\.{name}\.{kind}", f"{ours}.in_proj_{kind}", transposed)
        for kind in kinds
        for name in names.split()
    ]


_BERT = r"(?:bert\.)?encoder\.layer\.(\d+)"
_VIT = r"vit\.layers\.(\d+)"
_GPT2 = r"transformer\.h\.(\d+)"
_LLAMA = r"model\.layers\.(\d+)"
KIND = r"(weight|bias)"


def _t5() -> list[Row]:
    """The stacks differ in the number of sub-layers: a decoder has cross-attention between the two others."""
    rows = [Row(r"shared\.weight", "embedding.weight"), Row(r"lm_head\.weight", "output.weight")]
    for stack, names in (
        ("encoder", ["SelfAttention", "DenseReluDense"]),
        ("decoder", ["SelfAttention", "EncDecAttention", "DenseReluDense"]),
    ):
        ours = {"SelfAttention": "self_attention", "EncDecAttention": "cross_attention"}
        bias = rf"{stack}\.block\.0\.layer\.0\.SelfAttention\.relative_attention_bias\.weight"
        rows += [
            Row(bias, f"{stack}.positions.weight"),
            Row(rf"{stack}\.final_layer_norm\.weight", f"{stack}.norm.weight"),
        ]
        for i, name in enumerate(names):
            sublayer = rf"{stack}\.block\.(\d+)\.layer\.{i}"
            layer = rf"{stack}.layers.\1"
            rows.append(Row(rf"{sublayer}\.layer_norm\.weight", rf"{layer}.residual{i + 1}.norm.weight"))
            if name in ours:
                rows += qkv(rf"{sublayer}\.{name}", f"{layer}.{ours[name]}", "q k v", bias=False)
                rows.append(Row(rf"{sublayer}\.{name}\.o\.weight", f"{layer}.{ours[name]}.out_proj.weight"))
            else:
                for matrix, our_matrix in (("wi|wi_0", "linear1"), ("wi_1", "linear3"), ("wo", "linear2")):
                    theirs = rf"{sublayer}\.{name}\.(?:{matrix})\.weight"
                    rows.append(Row(theirs, f"{layer}.feed_forward.{our_matrix}.weight"))
    return rows


def _bart() -> list[Row]:
    rows = [Row(r"model\.shared\.weight", "embedding.weight")]
    for stack, attentions in (
        ("encoder", {"self_attn": "self_attention"}),
        ("decoder", {"self_attn": "self_attention", "encoder_attn": "cross_attention"}),
    ):
        theirs = rf"model\.{stack}\.layers\.(\d+)"
        ours = rf"{stack}.layers.\1"
        rows += [
            Row(rf"model\.{stack}\.embed_positions\.weight", f"{stack}_positions.weight", skip=2),
            Row(rf"model\.{stack}\.layernorm_embedding\.{KIND}", rf"{stack}_norm.\1"),
            Row(rf"{theirs}\.fc([12])\.{KIND}", rf"{ours}.feed_forward.linear\2.\3"),
            Row(rf"{theirs}\.final_layer_norm\.{KIND}", rf"{ours}.residual{len(attentions) + 1}.norm.\2"),
        ]
        for i, (name, our_name) in enumerate(attentions.items(), 1):
            rows += qkv(rf"{theirs}\.{name}", f"{ours}.{our_name}", "q_proj k_proj v_proj")
            rows.append(Row(rf"{theirs}\.{name}\.out_proj\.{KIND}", rf"{ours}.{our_name}.out_proj.\2"))
            rows.append(Row(rf"{theirs}\.{name}_layer_norm\.{KIND}", rf"{ours}.residual{i}.norm.\2"))
    return rows


TABLES = {
    "t5": _t5(),
    "bart": _bart(),
    "bert": [
        Row(r"(?:bert\.)?embeddings\.word_embeddings\.weight", "embedding.weight"),
        Row(r"(?:bert\.)?embeddings\.position_embeddings\.weight", "positions.weight"),
        Row(r"(?:bert\.)?embeddings\.token_type_embeddings\.weight", "token_types.weight"),
        Row(rf"(?:bert\.)?embeddings\.LayerNorm\.{KIND}", r"norm.\1"),
        *qkv(rf"{_BERT}\.attention\.self", r"encoder.layers.\1.self_attention", "query key value"),
        Row(rf"{_BERT}\.attention\.output\.dense\.{KIND}", r"encoder.layers.\1.self_attention.out_proj.\2"),
        Row(rf"{_BERT}\.attention\.output\.LayerNorm\.{KIND}", r"encoder.layers.\1.residual1.norm.\2"),
        Row(rf"{_BERT}\.intermediate\.dense\.{KIND}", r"encoder.layers.\1.feed_forward.linear1.\2"),
        Row(rf"{_BERT}\.output\.dense\.{KIND}", r"encoder.layers.\1.feed_forward.linear2.\2"),
        Row(rf"{_BERT}\.output\.LayerNorm\.{KIND}", r"encoder.layers.\1.residual2.norm.\2"),
        Row(rf"bert\.pooler\.dense\.{KIND}", r"head.pooler.\1"),
        Row(rf"cls\.predictions\.transform\.dense\.{KIND}", r"head.words.linear.\1"),
        Row(rf"cls\.predictions\.transform\.LayerNorm\.{KIND}", r"head.words.norm.\1"),
        Row(r"cls\.predictions\.(?:decoder\.)?bias", "head.words.bias"),
        Row(rf"cls\.seq_relationship\.{KIND}", r"head.next_sentence.\1"),
        Row(rf"(?:classifier|qa_outputs)\.{KIND}", r"head.classifier.\1"),
    ],
    "gpt2": [
        Row(r"transformer\.wte\.weight", "embedding.weight"),
        Row(r"transformer\.wpe\.weight", "positions.weight"),
        *(
            Row(rf"{_GPT2}\.{theirs}\.{kind}", rf"layers.layers.\1.{ours}{kind}", conv and kind == "weight")
            for theirs, ours, conv in [
                (r"ln_1", "residual1.norm.", False),
                (r"attn\.c_attn", "self_attention.in_proj_", True),
                (r"attn\.c_proj", "self_attention.out_proj.", True),
                (r"ln_2", "residual2.norm.", False),
                (r"mlp\.c_fc", "feed_forward.linear1.", True),
                (r"mlp\.c_proj", "feed_forward.linear2.", True),
            ]
            for kind in ("weight", "bias")
        ),
        Row(rf"transformer\.ln_f\.{KIND}", r"layers.norm.\1"),
    ],
    "llama": [
        Row(r"model\.embed_tokens\.weight", "embedding.weight"),
        *qkv(rf"{_LLAMA}\.self_attn", r"layers.layers.\1.self_attention", "q_proj k_proj v_proj", bias=False),
        *(
            Row(rf"{_LLAMA}\.{theirs}\.weight", rf"layers.layers.\1.{ours}.weight")
            for theirs, ours in [
                (r"self_attn\.o_proj", "self_attention.out_proj"),
                (r"mlp\.gate_proj", "feed_forward.linear1"),
                (r"mlp\.up_proj", "feed_forward.linear3"),
                (r"mlp\.down_proj", "feed_forward.linear2"),
                ("input_layernorm", "residual1.norm"),
                ("post_attention_layernorm", "residual2.norm"),
            ]
        ),
        Row(r"model\.norm\.weight", "layers.norm.weight"),
        Row(r"lm_head\.weight", "output.weight"),
    ],
    "vit": [
        Row(r"vit\.embeddings\.cls_token", "class_token"),
        Row(r"vit\.embeddings\.position_embeddings", "positions.weight"),
        Row(rf"vit\.embeddings\.patch_embeddings\.projection\.{KIND}", r"patches.projection.\1"),
        *qkv(rf"{_VIT}\.attention", r"encoder.layers.\1.self_attention", "q_proj k_proj v_proj"),
        Row(rf"{_VIT}\.attention\.o_proj\.{KIND}", r"encoder.layers.\1.self_attention.out_proj.\2"),
        Row(rf"{_VIT}\.layernorm_before\.{KIND}", r"encoder.layers.\1.residual1.norm.\2"),
        Row(rf"{_VIT}\.layernorm_after\.{KIND}", r"encoder.layers.\1.residual2.norm.\2"),
        Row(rf"{_VIT}\.mlp\.fc1\.{KIND}", r"encoder.layers.\1.feed_forward.linear1.\2"),
        Row(rf"{_VIT}\.mlp\.fc2\.{KIND}", r"encoder.layers.\1.feed_forward.linear2.\2"),
        Row(rf"vit\.layernorm\.{KIND}", r"encoder.norm.\1"),
        Row(rf"classifier\.{KIND}", r"head.\1"),
    ],
}  # fmt: skip


def transformers():
    """The package, imported when a test first asks for it, since that takes seconds; a skip without it."""
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        try:
            return importlib.import_module("transformers")
        except ImportError:
            pytest.skip('transformers is not installed: pip install -e ".[parity]"')


def places(theirs, family):
    """Of each of their parameters, in the table's order: it, our name, its first row in ours, the Row."""
    table = TABLES[family]
    found = []
    for name, p in theirs.named_parameters():
        matches = [(i, m) for i, row in enumerate(table) if (m := re.fullmatch(row.theirs, name))]
        assert len(matches) == 1, f"{len(matches)} rows of {family!r} match {name}: each name needs one"
        i, match = matches[0]
        found.append((i, p, match.expand(table[i].ours)))
    end = {}
    for i, p, ours in sorted(found, key=lambda place: place[0]):
        start = end.get(ours, 0)
        end[ours] = start + (p.shape[1] if table[i].transposed else p.shape[0]) - table[i].skip
        yield p, ours, start, table[i]


def copy_weights(ours, theirs, family):
    """Copy every parameter of ours into theirs."""
    import torch

    parameters = dict(ours.named_parameters())
    read = dict.fromkeys(n for n, _ in ours.named_parameters())
    with torch.no_grad():
        for p, name, start, row in places(theirs, family):
            read.pop(name, None)
            value = torch.tensor(parameters[name].numpy())
            target = (p.T if row.transposed else p)[row.skip :]
            whole = value.numel() == target.numel()
            target.copy_((value if whole else value[start : start + len(target)]).reshape(target.shape))
    assert not read, f"no row of {family!r} names our {', '.join(read)}"


def gradients(theirs, ours, family):
    """Their gradients under our names, in our shapes."""
    parts = {}
    for p, name, _, row in places(theirs, family):
        gradient = (p.grad.T if row.transposed else p.grad)[row.skip :]
        parts.setdefault(name, []).append(gradient.numpy())
    return {name: np.concatenate(parts[name]).reshape(tuple(p.shape)) for name, p in ours.named_parameters()}


def assert_same_gradients(theirs, ours, family, tolerance=1e-4):
    """Every gradient of ours is theirs, relative to its largest element where that is above 1."""
    for name, expected in gradients(theirs, ours, family).items():
        scale = max(1.0, np.abs(expected).max())
        actual = dict(ours.named_parameters())[name].grad.numpy()
        np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance, err_msg=name)


def assert_same_training(ours, theirs, family, source, target, real, labels):
    """Of an encoder-decoder: the logits of real target tokens, the loss, and every gradient."""
    import torch

    tensors = map(torch.tensor, (source, source != ours.config.pad_token_id, target, real, labels))
    names = "input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels"
    expected = theirs(**dict(zip(names, tensors, strict=True)))
    expected.loss.backward()

    logits = ours(source, target, target_mask=mg.tensor(real))
    loss = F.cross_entropy(logits.flatten(0, 1), labels.ravel(), ignore_index=-100)
    loss.backward()
    np.testing.assert_allclose(
        logits.numpy()[real], expected.logits.detach().numpy()[real], rtol=0, atol=1e-5
    )
    assert loss.item() == pytest.approx(expected.loss.item(), abs=1e-5)
    assert_same_gradients(theirs, ours, family)


def randomized(model, std=0.2):
    """The model with each parameter moved off its first value, so that biases and norms count too."""
    rng = np.random.default_rng(0)
    for p in model.parameters():
        p.array += std * rng.normal(size=p.shape).astype(p.array.dtype)
    return model
