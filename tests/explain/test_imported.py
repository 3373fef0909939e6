"""The page of an imported model of each family: its tokenizer, its settings, and its logits."""

import json

import numpy as np
import pytest
import tokenizers as hf
from tokenizers import pre_tokenizers

from minitransformer import (
    BERT,
    GPT,
    BERTConfig,
    GPTConfig,
    Llama,
    LlamaConfig,
    Transformer,
    TransformerConfig,
    save_pretrained,
)
from minitransformer.errors import UserError
from minitransformer.explain import explain, tokenizers
from minitransformer.explain.tokenizers import UnknownPart, tokenizer_data
from minitransformer.runs.imported import import_run
from minitransformer.runs.run import Run
from minitransformer.text.pretrained_tokenizer import PretrainedTokenizer
from minitransformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from tests.explain.test_page import exposed, scaled
from tests.pretrained.test_imported_runs import (
    TEXTS,
    bart_folder,
    bert_folder,
    byte_level,
    t5_folder,
    word_piece,
    write_tokenizer,
)
from tests.pretrained.test_tokenizer_files import sentencepiece

END = "<|endoftext|>"


def gpt2(folder):
    backend = byte_level()
    sizes = {
        "vocab_size": backend.get_vocab_size(),
        "n_positions": 48,
        "n_embd": 8,
        "n_layer": 2,
        "n_head": 2,
    }
    save_pretrained(scaled(GPT(GPTConfig(**sizes, eos_token_id=backend.token_to_id(END)))), folder)
    write_tokenizer(backend, folder, eos_token=END)


def llama(folder):
    backend = byte_level()
    config = LlamaConfig(
        vocab_size=backend.get_vocab_size(), hidden_size=8, intermediate_size=12, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, rope_type="llama3", rope_factor=8.0,
        original_max_position_embeddings=16, eos_token_id=backend.token_to_id(END),
    )  # fmt: skip
    save_pretrained(scaled(Llama(config)), folder)
    write_tokenizer(backend, folder, eos_token=END)


def distilbert(folder):
    backend = word_piece()
    config = BERTConfig(
        vocab_size=backend.get_vocab_size(), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=12, type_vocab_size=0, pooler_hidden_act="relu", head="classification",
    )  # fmt: skip
    save_pretrained(scaled(BERT(config)), folder)
    write_tokenizer(backend, folder, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def marian(folder):
    trainer = pytest.importorskip("sentencepiece").SentencePieceTrainer
    vocab = ["</s>", "<unk>", "▁the", "▁cat", "▁", "a", "e", "t", "s", "n", "m", "<pad>"]
    config = TransformerConfig(
        vocab_size=len(vocab), d_model=8, num_heads=2, d_ff=12, num_encoder_layers=1, num_decoder_layers=1,
        positions="sinusoidal_halves", activation="silu", output_bias=True, pad_token_id=len(vocab) - 1,
        eos_token_id=0, bos_token_id=len(vocab) - 1,
    )  # fmt: skip
    save_pretrained(scaled(Transformer(config)), folder)
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(vocab)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "fr"}))
    for name in ("source.spm", "target.spm"):
        with (folder / name).open("wb") as file:
            texts = iter(TEXTS * 4)
            options = {"vocab_size": 40, "hard_vocab_limit": False, "minloglevel": 2}
            trainer.train(sentence_iterator=texts, model_writer=file, **options)


FAMILIES = {
    "gpt2": gpt2, "llama": llama, "bert": bert_folder, "distilbert": distilbert, "t5": t5_folder,
    "bart": bart_folder, "marian": marian,
}  # fmt: skip
RECORD = """() => {
  const { source, target, arrays: { logits } } = page.record;
  return [page.problem, source, target, Array.from(logits.data)];
}"""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.slow
def test_the_page_of_an_imported_model_computes_its_logits(family, tmp_path, open_page):
    FAMILIES[family](tmp_path / family)
    import_run(tmp_path / family, tmp_path / "run")
    run = Run(tmp_path / "run")
    page = open_page(exposed(explain(run, "the cat sat").page), bypass_csp=True)
    for text in ("the cat sat", "a man's mat 🙂"):
        page.page.fill("#sentence", text)
        problem, source, target, logits = page.page.evaluate(RECORD)
        assert problem == ""
        ids = run.tokenizer.encode_with_special_tokens(text)
        assert source[: len(ids)] == ids
        own = run.model([source], [target]) if target else run.model([source])
        np.testing.assert_allclose(logits, own.numpy().ravel(), rtol=0, atol=1e-5 * np.abs(logits).max())


OTHER_REGEXES = (  # not JavaScript's, or not the same there
    r"a\b",
    r"\p{Han}+",
    r"\p{^L}",
    r"[a[bc]]",
    r"(?i:\p{L}+)",
    r"(?i:[a-z]+)",
    r"(?i:\s+x)",
    r"[\s-x]",
    r"a++",
    "a{",
)


@pytest.mark.parametrize("regex", OTHER_REGEXES)
def test_patterns_that_javascript_reads_differently_are_refused(regex):
    backend = byte_level()
    backend.pre_tokenizer = pre_tokenizers.Split(hf.Regex(r"a"), "isolated")
    content = json.loads(backend.to_str())
    content["pre_tokenizer"]["pattern"]["Regex"] = regex
    with pytest.raises(UnknownPart, match="the regular expression"):
        list(tokenizers._steps("pre_tokenizer", content["pre_tokenizer"]))


SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
REFUSED = {
    "the normalizer Nmt": {"normalizer": {"type": "Nmt"}},
    "the pre_tokenizer UnicodeScripts": {"pre_tokenizer": {"type": "UnicodeScripts"}},
    "the pre_tokenizer Split with the behavior MergedWithNext": {
        "pre_tokenizer": SPLIT | {"pattern": {"String": "a"}, "behavior": "MergedWithNext"}
    },
    r"the regular expression 'a\\b'": {"pre_tokenizer": SPLIT | {"pattern": {"Regex": r"a\b"}}},
    "the decoder CTC": {
        "decoder": {"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": True}
    },
    "no decoder": {"decoder": None},
    "BPE with dropout": {"model": {"dropout": 0.1}},
    "the model WordLevel": {"model": {"type": "WordLevel", "unk_token": "a"}},
    "added tokens that are not special, such as '<|endoftext|>'": {"added_tokens": {"special": False}},
}


@pytest.mark.parametrize("part", REFUSED)
def test_an_unsupported_tokenizer_part_is_named(part):
    content = json.loads(byte_level().to_str())
    (name, change), *_ = REFUSED[part].items()
    if name == "model":
        content[name] |= change
    elif name == "added_tokens":
        content[name][0] |= change
    else:
        content[name] = change
    tokenizer = PretrainedTokenizer(hf.Tokenizer.from_str(json.dumps(content)), {})
    with pytest.raises(UnknownPart) as raised:
        tokenizer_data(tokenizer)
    assert str(raised.value) == part


def test_nonspecial_added_sentencepieces_are_rejected(tmp_path):
    content = sentencepiece(tmp_path).read_bytes()
    tokenizer = SentencePieceTokenizer(content, {}, added=["<|m|>"], marks=["<|m|>"])
    with pytest.raises(UnknownPart, match=r"added tokens that are not special, such as '<\|m\|>'"):
        tokenizer_data(tokenizer)


@pytest.mark.slow
def test_explain_names_an_unsupported_tokenizer_part(tmp_path):
    gpt2(tmp_path / "gpt2")
    path = tmp_path / "gpt2" / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"normalizer": {"type": "Nmt"}}))
    import_run(tmp_path / "gpt2", tmp_path / "run")
    with pytest.raises(UserError, match=r"does not split texts .* it has the normalizer Nmt.\nLook inside"):
        explain(tmp_path / "run", "the cat")
