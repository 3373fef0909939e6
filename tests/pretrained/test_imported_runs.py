"""`minitransformer import`: a pretrained model becomes a run that the other verbs read."""

import io
import json
import shlex

import numpy as np
import pytest
import tokenizers as hf
from safetensors.numpy import load_file, save_file
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from minitransformer import (
    BART,
    BERT,
    GPT,
    T5,
    BARTConfig,
    BERTConfig,
    GPTConfig,
    T5Config,
    generate,
    save_pretrained,
)
from minitransformer.cli import main
from minitransformer.data.batching import collate
from minitransformer.files import printable
from minitransformer.pretrained import load_pretrained, load_tokenizer
from minitransformer.runs.run import Run

TEXTS = ["the cat sat on the mat", "a man eats food", "someone is having a meal", "you don't say"]


def byte_level():
    """GPT-2's kind of tokenizer, trained on TEXTS."""
    backend = hf.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(TEXTS, trainer)
    backend.add_special_tokens(["<|endoftext|>"])
    return backend


def word_piece():
    """BERT's kind of tokenizer, trained on TEXTS."""
    backend = hf.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=80, special_tokens=special, show_progress=False)
    backend.train_from_iterator(TEXTS, trainer)
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return backend


def unigram():
    """T5's or BART's kind of special tokens, around pieces that are trained on TEXTS (Kudo 2018)."""
    backend = hf.Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>", "<s>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(TEXTS, trainer)
    return backend


def write_tokenizer(backend, folder, **tokens):
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))


@pytest.fixture
def gpt2(tmp_path):
    """A folder with a small GPT-2 and its tokenizer."""
    backend = byte_level()
    size = backend.get_vocab_size()
    config = GPTConfig(vocab_size=size, n_positions=16, n_embd=8, n_layer=1, n_head=2, eos_token_id=size - 1)
    save_pretrained(GPT(config), tmp_path / "gpt2")
    write_tokenizer(backend, tmp_path / "gpt2", eos_token="<|endoftext|>")
    return tmp_path / "gpt2"


def test_verbs_suggest_importing_a_model_folder(gpt2, capsys):
    assert main(["generate", str(gpt2), "--prompt", "the"]) == 2
    assert f"minitransformer import {gpt2} --run-dir runs/gpt2" in capsys.readouterr().err


def test_import_names_the_nonfinite_weight(gpt2, capsys):
    name = "transformer.h.0.attn.c_attn.weight"
    weights = load_file(gpt2 / "model.safetensors")
    weights[name][3, 5] = np.nan
    save_file(weights, gpt2 / "model.safetensors")
    assert main(["import", str(gpt2), "--run-dir", str(gpt2.parent / "run")]) == 2
    error = capsys.readouterr().err
    assert f"{gpt2 / 'model.safetensors'}: {name} contains infinity or NaN.\nThe file is damaged, or" in error
    assert not (gpt2.parent / "run").exists()


def bert_folder(folder, positions=16, **options):
    backend = word_piece()
    config = BERTConfig(
        vocab_size=96, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=positions, **options,
    )  # fmt: skip
    save_pretrained(BERT(config), folder)
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    write_tokenizer(backend, folder, **{f"{role}_token": token for role, token in names.items()})
    return folder


UNIGRAM_TOKENS = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "bos_token": "<s>"}


def t5_folder(folder):
    backend = unigram()
    backend.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2}
    save_pretrained(T5(T5Config(vocab_size=backend.get_vocab_size(), **sizes)), folder)
    write_tokenizer(backend, folder, **UNIGRAM_TOKENS)
    return folder


def bart_folder(folder, **settings):
    backend = unigram()
    backend.add_special_tokens(["<mask>"])
    backend.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 3), ("</s>", 1)])
    sides = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in
             {"layers": 1, "attention_heads": 2, "ffn_dim": 12}.items()}  # fmt: skip
    config = BARTConfig(
        vocab_size=backend.get_vocab_size(), d_model=8, max_position_embeddings=24, **sides,
        pad_token_id=0, bos_token_id=3, eos_token_id=1, **settings,
    )  # fmt: skip
    save_pretrained(BART(config), folder)
    write_tokenizer(backend, folder, **UNIGRAM_TOKENS, mask_token="<mask>")
    options = {"forced_bos_token_id": 3, "bad_words_ids": [[0]], "num_beams": 4, "length_penalty": 2.0}
    (folder / "generation_config.json").write_text(json.dumps(options))
    return folder


def imported(folder, tmp_path):
    assert main(["import", str(folder), "--run-dir", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def change(path, **settings):
    """Change settings of a JSON file, which need not exist."""
    content = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content | settings))


MODULES = [{"path": "", "type": "models.Transformer"}, {"path": "2_Pooling", "type": "models.Pooling"}]


@pytest.mark.parametrize(
    ("model", "file", "settings", "message"),
    [
        ({"head": "classification", "num_labels": 2}, "config.json",
         {"architectures": ["BertForMultipleChoice"]}, "the head of BertForMultipleChoice is not supported"),
        ({"head": "classification", "num_labels": 1}, "config.json", {"problem_type": None},
         "runs choose one of several classes"),
        ({"head": "classification", "num_labels": 3}, "config.json",
         {"problem_type": "multi_label_classification"}, "runs choose one of several classes"),
        ({"head": "similarity"}, "2_Pooling/config.json", {"pooling_mode_cls_token": True},
         "has the pooling cls_token"),
        ({"head": "similarity"}, "sentence_bert_config.json", {"do_lower_case": True},
         "do_lower_case = True, which is not"),
        ({"head": "similarity"}, "config_sentence_transformers.json", {"default_prompt_name": "query"},
         "prompt_name = 'query'"),
        ({"head": "similarity"}, "tokenizer.json", None, "has no tokenizer"),
    ],
)  # fmt: skip
def test_import_rejects_models_that_are_not_supported(model, file, settings, message, tmp_path, capsys):
    folder = bert_folder(tmp_path / "bert", **model)
    if model["head"] == "similarity":
        (folder / "modules.json").write_text(json.dumps(MODULES))
    if settings is None:
        (folder / file).unlink()
    else:
        change(folder / file, **settings)
    assert main(["import", str(folder), "--run-dir", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def fine_tuned(recipe, run, folder, *flags):
    """The exit code of a training on twenty pairs, from the weights of a run."""
    pairs = folder.parent / "pairs.tsv"
    pairs.write_text("".join(f"the cat {a}\ta man {a}\n" for a in "abcdefghijklmnopqrst"))
    argv = ["train", recipe, "--data", pairs, "--init-from", run, "--run-dir", folder, "--steps", 1, *flags]
    return main(list(map(str, argv)))


def test_an_imported_gpt2_matches_load_pretrained(gpt2, tmp_path):
    run = Run(imported(gpt2, tmp_path))
    ids = [run.tokenizer.encode("the cat")]
    np.testing.assert_array_equal(run.model(ids).numpy(), load_pretrained(gpt2)(ids).numpy())
    assert run.recipe.task == "language-modelling"
    assert run.recipe.data.block_size == 16
    assert run.tokenizer.decode(ids[0]) == "the cat"
    assert run.model.config == load_pretrained(gpt2).config


def test_generate_evaluate_and_show_accept_imported_runs(gpt2, tmp_path, capsys):
    run = imported(gpt2, tmp_path)
    assert main(["generate", str(run), "--prompt", "the cat", "--max-new-tokens", "3", "--greedy"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("the cat")
    (tmp_path / "text.txt").write_text("\n".join(TEXTS * 20))
    assert main(["evaluate", str(run), "--data", str(tmp_path / "text.txt"), "--json"]) == 0
    captured = capsys.readouterr()
    assert not captured.err
    assert json.loads(captured.out)["perplexity"] == pytest.approx(301, rel=0.1)  # untrained: about uniform
    assert main(["evaluate", str(run)]) == 2
    assert "imported run, which has no data set.\nPass your own data with --data" in capsys.readouterr().err
    assert main(["show", str(run)]) == 0
    assert "imported from" in capsys.readouterr().out


@pytest.mark.parametrize("around", ["$A", "<|endoftext|> $A"])
@pytest.mark.parametrize(
    "prompt", [None, "", "<|endoftext|>", "<|endoftext|>the cat", "the <|endoftext|> cat"]
)
@pytest.mark.slow
def test_special_tokens_in_a_prompt_are_encoded_as_tokens(prompt, around, gpt2, tmp_path, capsys):
    backend = byte_level()
    end = backend.token_to_id("<|endoftext|>")
    backend.post_processor = processors.TemplateProcessing(around, None, [("<|endoftext|>", end)])
    write_tokenizer(backend, gpt2, bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    run = Run(imported(gpt2, tmp_path))
    ids = backend.encode(prompt or "<|endoftext|>", add_special_tokens=False).ids
    if around != "$A" and ids[0] != end:
        ids = [end, *ids]
    assert run.task.prompt_ids(run, prompt or "") == ids
    capsys.readouterr()
    flags = ["--greedy", "--max-new-tokens", "4", *([] if prompt is None else ["--prompt", prompt])]
    assert main(["generate", str(tmp_path / "run"), *flags]) == 0
    written = backend.decode(ids + generate(run.model, [ids], 4)[0])
    assert capsys.readouterr().out.replace("<|endoftext|>", "").rstrip("\n") == written.rstrip("\n")


def test_models_without_a_start_token_require_a_prompt(gpt2, tmp_path, capsys):
    change(gpt2 / "config.json", bos_token_id=None)
    folder = tmp_path / "run"
    assert main(["import", str(gpt2), "--run-dir", str(folder)]) == 0
    assert capsys.readouterr().out.endswith(f"use it with: minitransformer generate {folder} --prompt a\n")
    assert main(["generate", str(folder), "--prompt", "a", "--max-new-tokens", "2"]) == 0
    assert main(["generate", str(folder)]) == 2
    assert "has no default prompt.\nPass one with --prompt TEXT" in capsys.readouterr().err


def test_flags_override_options_of_the_imported_model(gpt2, tmp_path, capsys):
    model = load_pretrained(gpt2)
    for p in model.parameters():
        p.array *= 8  # no longer uniform
    folder = tmp_path / "moved"
    content = {"repetition_penalty": 5.0, "no_repeat_ngram_size": 1, "sequence_bias": [[[1], 2.0]]}
    save_pretrained(model, folder, load_tokenizer(gpt2), generation=content)
    run = Run(imported(folder, tmp_path))
    err = capsys.readouterr().err
    path = folder / "generation_config.json"
    assert err == f"warning: {path}: not applied: sequence_bias = [[[1], 2.0]]\n"
    ids = run.task.prompt_ids(run, "the cat")
    texts = []
    options = shlex.split("--prompt 'the cat' --greedy --max-new-tokens 9")
    for chosen in ({}, {"repetition_penalty": 1.0}, {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0}):
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in chosen.items()]
        assert main(["generate", str(tmp_path / "run"), *options, *flags]) == 0
        all_options = {"repetition_penalty": 5.0, "no_repeat_ngram_size": 1, **chosen}
        texts.append(run.tokenizer.decode(ids + generate(model, [ids], 9, **all_options)[0]))
        assert capsys.readouterr().out == f"{printable(texts[-1])}\n"
    assert len(set(texts)) > 1


def test_imported_classifiers_use_labels_from_the_config(tmp_path, capsys):
    folder = bert_folder(tmp_path / "bert", head="classification", num_labels=3)
    change(folder / "config.json", id2label={"0": "bad", "1": "good", "2": "so-so"})
    run = imported(folder, tmp_path)
    capsys.readouterr()
    assert main(["predict", str(run), "a man eats food"]) == 0
    printed = capsys.readouterr().out
    assert all(label in printed for label in ("bad", "good", "so-so"))


def test_an_imported_masked_lm_fills_in_words(tmp_path, capsys):
    run = imported(bert_folder(tmp_path / "bert", head="masked_lm"), tmp_path)
    capsys.readouterr()
    assert main(["predict", str(run), "the cat [MASK] on the mat"]) == 0
    assert capsys.readouterr().out
    assert main(["predict", str(run), "the 🙂 [MASK]"]) == 0
    assert capsys.readouterr().err == "warning: not in the vocabulary, read as [UNK]: 🙂\n"


def test_embed_returns_unit_vectors(tmp_path, capsys, monkeypatch):
    run = imported(bert_folder(tmp_path / "bert", head="similarity"), tmp_path)
    capsys.readouterr()
    assert main(["embed", str(run), "the cat", "the mat", "--json"]) == 0
    vectors = np.array([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert vectors.shape == (2, 8)
    np.testing.assert_allclose((vectors**2).sum(1), 1, rtol=1e-5)
    assert main(["embed", str(run), "the cat", "the mat", "-o", str(tmp_path / "v.npy")]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), vectors, rtol=1e-6)
    assert main(["embed", str(run), "the cat", "-o", str(tmp_path / "v.npy")]) == 2
    assert "already exists" in capsys.readouterr().err


def embed_lines(run, lines, monkeypatch):
    """Run `embed` on lines of standard input, and return its exit code."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))
    return main(["embed", str(run)])


def test_embed_reports_unreadable_lines_by_number(tmp_path, capsys, monkeypatch):
    run = imported(bert_folder(tmp_path / "bert", head="similarity"), tmp_path)
    blank = [b""] * 600  # more than a block
    assert embed_lines(run, [*blank, b"cat " * 20, b"cat"], monkeypatch) == 0
    assert "warning: line 601 has 22 tokens: only the first 16 are read" in capsys.readouterr().err
    assert embed_lines(run, [*blank, b"the \xff"], monkeypatch) == 2
    assert "line 601 cannot be read: it is not UTF-8 (byte 4)" in capsys.readouterr().err


@pytest.mark.slow
def test_imported_t5_appends_the_end_token_and_starts_with_pad(tmp_path, capsys):
    folder = t5_folder(tmp_path / "t5")
    run = Run(imported(folder, tmp_path))
    assert (run.tokenizer.start_id, run.tokenizer.end_id, run.tokenizer.prefix) == (0, 1, [])
    source = run.tokenizer.encode_with_special_tokens("the cat sat")
    assert source == [*run.tokenizer.encode("the cat sat"), 1]
    expected = run.tokenizer.decode(generate(run.model, [source], 20)[0][:20])
    assert run.task.translate(run, ["the cat sat"])[0].startswith(expected)
    assert main(["translate", str(tmp_path / "run"), "the cat sat"]) == 0


def test_a_bart_gets_its_special_and_forced_tokens(tmp_path, capsys):
    run = Run(imported(bart_folder(tmp_path / "bart"), tmp_path))
    assert capsys.readouterr().out.strip().endswith("--num-beams 4 --length-penalty 2.0")
    assert run.tokenizer.prefix == [3]
    assert run.generation == {"forced_bos_token_id": 3, "suppress_tokens": [0]}
    batch = collate([(run.tokenizer.encode("the cat"), run.tokenizer.encode("a man"))], run.tokenizer)
    assert batch["source"][0].tolist() == run.tokenizer.encode_with_special_tokens("the cat")
    assert batch["target_in"][0, :2].tolist() == [1, 3]
    assert batch["target"][0].tolist() == run.tokenizer.encode_with_special_tokens("a man")
    source = run.tokenizer.encode_with_special_tokens("the cat")
    expected = generate(run.model, [source], 23, **run.generation)[0]
    assert expected[0] == 3
    assert run.task.translate(run, ["the cat"]) == [run.tokenizer.decode(expected)]


def test_an_existing_run_is_kept(gpt2, tmp_path, capsys):
    run = imported(gpt2, tmp_path)
    assert main(["import", str(gpt2), "--run-dir", str(run)]) == 2
    assert "already contains a run" in capsys.readouterr().err
    assert main(["import", str(gpt2), "--run-dir", str(run), "--overwrite"]) == 0


def test_an_exported_run_can_be_imported_again(tmp_path, capsys):
    folder = bert_folder(tmp_path / "bert", head="classification", num_labels=2)
    run = imported(folder, tmp_path)
    assert main(["export", str(run), str(tmp_path / "back")]) == 0
    assert "config.json, model.safetensors, tokenizer.json" in capsys.readouterr().out
    assert main(["import", str(tmp_path / "back"), "--run-dir", str(tmp_path / "again")]) == 0
    first, second = Run(run), Run(tmp_path / "again")
    np.testing.assert_array_equal(second.model([[2, 5, 3]]).numpy(), first.model([[2, 5, 3]]).numpy())
    assert second.labels == first.labels == ["LABEL_0", "LABEL_1"]
    assert second.tokenizer.to_bytes() == first.tokenizer.to_bytes()
    assert main(["export", str(run), str(tmp_path / "back")]) == 2
    assert "already exists" in capsys.readouterr().err


def test_bert_pretraining_heads_are_imported_as_masked_lm(tmp_path, capsys):
    folder = bert_folder(tmp_path / "bert", head="pretraining")
    run = Run(imported(folder, tmp_path))
    assert run.model.config.head == "masked_lm"
    assert "not used" in (err := capsys.readouterr().err)
    assert "seq_relationship" in err
    both = {name: tensor.numpy() for name, tensor in load_pretrained(folder).state_dict().items()}
    for name, tensor in run.model.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), both[name], err_msg=name)


@pytest.mark.parametrize("folder_of", [t5_folder, bart_folder])
@pytest.mark.slow
def test_a_translator_is_fine_tuned_on_pairs(folder_of, tmp_path, capsys):
    run = imported(folder_of(tmp_path / "hub"), tmp_path)
    kind = Run(run).model.model_type
    assert fine_tuned("phrasebook", run, tmp_path / "tuned") == 2
    assert f"expected transformer.\nAdd --model-type {kind}" in capsys.readouterr().err
    assert fine_tuned("phrasebook", run, tmp_path / "tuned", "--model-type", kind) == 0
    assert f"model_type {kind} and its settings" in (err := capsys.readouterr().err)
    assert "new:" not in err  # all weights are those of the run
    assert main(["export", str(tmp_path / "tuned"), str(tmp_path / "back")]) == 0


@pytest.mark.parametrize("folder_of", [t5_folder, bart_folder])
@pytest.mark.slow
def test_an_exported_translator_decodes_as_before(folder_of, tmp_path):
    run = imported(folder_of(tmp_path / "hub"), tmp_path)
    assert main(["export", str(run), str(tmp_path / "back")]) == 0
    assert main(["import", str(tmp_path / "back"), "--run-dir", str(tmp_path / "again")]) == 0
    first, second = Run(run), Run(tmp_path / "again")
    assert second.model.config == first.model.config
    assert getattr(first.model.config, "bos_token_id", 3) == 3  # the hub folder's
    assert second.record.imported["suggested"] == first.record.imported["suggested"]
    assert second.generation == first.generation
    translate = lambda run: run.task.translate(run, ["the cat sat"], num_beams=2)
    assert translate(second) == translate(first)


@pytest.mark.parametrize("flags", [[], ["--lora-rank", "2"]])
@pytest.mark.slow
def test_a_fine_tuned_translator_keeps_decoding_options(flags, tmp_path, capsys):
    run = imported(bart_folder(tmp_path / "hub"), tmp_path)
    for source, target in ((run, "tuned"), (tmp_path / "tuned", "again")):
        assert fine_tuned("phrasebook", source, tmp_path / target, "--model-type=bart", *flags) == 0
        assert capsys.readouterr().err.strip().endswith("--num-beams 4 --length-penalty 2.0")
    again = Run(tmp_path / "again")
    assert again.generation == Run(run).generation == {"forced_bos_token_id": 3, "suppress_tokens": [0]}
    source = again.tokenizer.encode_with_special_tokens("the cat")
    expected = generate(again.model, [source], 23, **again.generation)[0]
    assert expected[0] == 3
    assert again.task.translate(again, ["the cat"]) == [again.tokenizer.decode(expected)]
    assert main(["export", str(tmp_path / "again"), str(tmp_path / "back")]) == 0
    written = json.loads((tmp_path / "back" / "generation_config.json").read_text())
    assert written["forced_bos_token_id"] == 3
    assert (written["num_beams"], written["length_penalty"]) == (4, 2.0)


@pytest.mark.slow
def test_validation_uses_the_imported_models_options(tmp_path, capsys):
    folder = bart_folder(tmp_path / "hub")
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    suppressed = [[i] for i in range(size) if i != 10]  # the piece "on"
    (folder / "generation_config.json").write_text(json.dumps({"bad_words_ids": suppressed}))
    run = imported(folder, tmp_path)
    assert fine_tuned("phrasebook", run, tmp_path / "tuned", "--model-type=bart", "--samples=1") == 0
    assert f" -> {'on' * 23}  (expected: a man" in capsys.readouterr().err


def test_fine_tuning_uses_the_sizes_of_the_imported_model(tmp_path, capsys):
    run = imported(bert_folder(tmp_path / "bert", 32, head="similarity"), tmp_path)
    assert fine_tuned("bert-similar", run, tmp_path / "tuned") == 0
    tuned = Run(tmp_path / "tuned", "last")
    assert (tuned.model.config.hidden_size, tuned.model.config.num_hidden_layers) == (8, 1)
    assert tuned.tokenizer.roles == Run(run).tokenizer.roles
    assert "are from" in capsys.readouterr().err


@pytest.mark.slow
def test_errors_for_long_texts_name_the_max_length_option(tmp_path, capsys):
    folder = bert_folder(tmp_path / "bert", 48, head="classification", num_labels=2)
    run = imported(folder, tmp_path)
    rows = [f"the cat {'x ' * (40 if n == 19 else 1)}{n}\t{'ab'[n % 2]}\n" for n in range(20)]
    (tmp_path / "texts.tsv").write_text("".join(rows))
    train = ["train", "bert-classify", "--data", str(tmp_path / "texts.tsv"), "--examples=0", "--steps=1"]
    train += ["--init-from", str(run), "--run-dir", str(tmp_path / "tuned")]
    assert main(train) == 0
    assert "1 too long (more than 32 tokens, --max-length)" in capsys.readouterr().err
    long = "cat " * 40
    assert main(["predict", str(tmp_path / "tuned"), long]) == 2
    assert "\nShorten it, or train with --max-length 42 or more." in capsys.readouterr().err
    assert main([*train, "--overwrite", "--max-length", "48"]) == 0
    assert "too long" not in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "tuned"), long]) == 0
    assert main(["predict", str(tmp_path / "tuned"), "cat " * 60]) == 2
    assert "\nShorten it.\n" in capsys.readouterr().err


def test_a_quantized_import_is_used_but_not_trained(gpt2, tmp_path, capsys):
    target = tmp_path / "small"
    assert main(["import", str(gpt2), "--run-dir", str(target), "--quantize"]) == 0
    run = Run(target)
    full = load_pretrained(gpt2)
    ids = [run.tokenizer.encode("the cat sat")]
    np.testing.assert_allclose(run.model(ids).numpy(), full(ids).numpy(), atol=0.02)
    assert main(["generate", str(target), "--prompt", "the", "--max-new-tokens", "3", "--greedy"]) == 0
    capsys.readouterr()
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS * 20))
    train = ["train", "shakespeare-char-cpu", "--data", str(text), "--init-from", str(target)]
    assert main([*train, "--run-dir", str(tmp_path / "tuned")]) == 2
    assert "8-bit weights, which cannot be trained" in capsys.readouterr().err
    assert main(["export", str(target), str(tmp_path / "back")]) == 2
    assert "8-bit weights cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("around", ["$A", "<|endoftext|> $A", "<|endoftext|> $A <|endoftext|>"])
@pytest.mark.slow
def test_evaluate_with_stride_scores_each_token_once(around, gpt2, tmp_path, capsys):
    backend = byte_level()
    end = backend.token_to_id("<|endoftext|>")
    backend.post_processor = processors.TemplateProcessing(around, None, [("<|endoftext|>", end)])
    backend.save(str(gpt2 / "tokenizer.json"))
    run = imported(gpt2, tmp_path)
    text = "\n".join(TEXTS * 6)
    (tmp_path / "text.txt").write_text(text)
    capsys.readouterr()
    data = ["--data", str(tmp_path / "text.txt"), "--json"]
    assert main(["evaluate", str(run), *data, "--stride", "5"]) == 0
    scores = json.loads(capsys.readouterr().out)

    loaded = Run(run)
    ids = np.array(backend.encode(text).ids)  # with the special tokens, as transformers reads a text
    losses = []
    for position in range(1, len(ids)):  # the window that scores this token first
        start = 0 if position < 16 else -(-(position - 15) // 5) * 5
        logits = loaded.model(ids[None, start:position]).numpy()[0, -1].astype(float)
        losses.append(np.log(np.exp(logits).sum()) - logits[ids[position]])
    assert scores["n"] == len(losses)
    assert scores["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert main(["evaluate", str(run), *data, "--stride", "16"]) == 2
    assert "stride = 16 is out of range" in capsys.readouterr().err


def test_explain_compares_a_sentence_with_others(tmp_path, capsys):
    run = imported(bert_folder(tmp_path / "bert", head="similarity"), tmp_path)
    page = tmp_path / "page.html"
    assert main(["explain", str(run), "a man eats food", "someone is having a meal", "-o", str(page)]) == 0
    text = page.read_text()
    assert '"head.candidates"' in text
    assert "someone is having a meal" in text
    assert "candidates" not in dict(Run(run).model.head.named_buffers())


def test_explain_suggests_quantizing_models_that_are_too_large(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("minitransformer.explain.runs.MOST_BYTES", 4_000)
    run = imported(bert_folder(tmp_path / "bert", head="similarity"), tmp_path)
    assert main(["explain", str(run), "a man", "-o", str(tmp_path / "page.html")]) == 2
    err = capsys.readouterr().err
    assert "too large for a page, which holds up to 0 MB.\nImport it again with --quantize" in err
