"""The demos, at a reduced size: alignments, the road to attention, path lengths, BERT's states."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from minitransformer import BERT, BERTConfig, Tokenizer
from minitransformer.data.phrasebook import Phrasebook
from minitransformer.text.tokenizer_presets import BERT_TOKENS
from tests.tiny import PAIRS

DEMOS = Path(__file__).parents[3] / "demos"
DEMO = DEMOS / "alignment.py"


def test_the_attention_demo_draws_a_translator(here):
    pictures = ["-o", "drawn.png", "--heads", "heads.svg", "--arcs", "arcs.svg"]
    command = [sys.executable, str(DEMO), "mine", "i see a cat", *pictures]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("drawn.png").read_bytes().startswith(b"\x89PNG")
    assert all("</svg>" in Path(name).read_text() for name in ("heads.svg", "arcs.svg"))


@pytest.mark.parametrize("demo", ["alignment", "similar"])
def test_a_demo_without_its_run_says_how_to_train_one(demo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(DEMOS)
    monkeypatch.setattr(sys, "argv", [f"{demo}.py", "runs/none", "a cat"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(DEMOS / f"{demo}.py"), run_name="__main__")
    err = capsys.readouterr().err
    assert err.startswith("error: there is no run folder runs/none.\nTrain one with `minitransformer train")


@pytest.mark.parametrize("sentences", [1, 3])
def test_road_to_attention_demo_scores_models_by_length(sentences, tmp_path, capsys):
    demo = runpy.run_path(str(DEMOS / "road_to_attention.py"))
    demo["main"].__globals__["phrasebook"] = lambda: Phrasebook(PAIRS, PAIRS)
    models = ("GRU", "bidirectional GRU + additive attention")
    results = tmp_path / "rows.json"
    for name in models:  # one command each, one table
        demo["main"](
            sentences=sentences, models=(name,), parameters=60_000, minutes=0.001, pairs=40, test_pairs=20,
            ranges=3, results=results, output=tmp_path / "drawn.png",
        )  # fmt: skip
    rows = demo["read_rows"](results)
    assert tuple(rows) == models
    for row in rows.values():
        assert 50_000 < row.parameters <= 60_000
        assert row.steps > 0
        assert len(row.scores) == 4  # three ranges of lengths, and all
    assert capsys.readouterr().out.count("| bidirectional GRU + additive attention |") == 2
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_steps_grow_with_the_length_for_recurrent_networks_only(tmp_path, capsys):
    demo = runpy.run_path(str(DEMOS / "path_length.py"))
    networks = demo["NETWORKS"]
    count = {name: [demo["count_steps"](make(8), n, 8) for n in (2, 4, 8)] for name, make in networks.items()}
    assert count["simple RNN"] == [8, 16, 32]
    assert count["LSTM"][2] == 2 * count["LSTM"][1] == 4 * count["LSTM"][0]
    assert len(set(count["Transformer"])) == 1
    near, far = (demo["gradient_norm"](networks["simple RNN"](8).to("float64"), n, 8) for n in (2, 20))
    assert far < 1e-3 * near
    demo["main"](lengths=(2, 5), width=8, batch=2, repeats=1, seeds=1, output=tmp_path / "drawn.png")
    assert "| GRU | 18 | 45 |" in capsys.readouterr().out
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_a_sentence_is_nearest_to_itself():
    demo = runpy.run_path(str(DEMOS / "similar.py"))
    sentences = ["i see a cat", "you see a dog", "we read"]
    tokenizer = Tokenizer.train_word(sentences, added=BERT_TOKENS)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BERT(BERTConfig(tokenizer.vocab_size, pad_token_id=tokenizer.pad_id, **size))
    similar = demo["with_similarity"](model)
    assert similar.embedding.weight.numpy().tolist() == model.embedding.weight.numpy().tolist()
    (cosine, found), _ = demo["nearest"](similar, tokenizer, "you see a dog", sentences, count=2)
    assert found == "you see a dog"
    assert cosine == pytest.approx(1)


NO_FLAGS = {"saving", "gpt", "transformer"}  # a part of others; demos that one copies


@pytest.mark.parametrize("demo", sorted({path.stem for path in DEMOS.glob("*.py")} - NO_FLAGS))
def test_demos_print_only_help_with_the_help_flag(demo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(DEMOS)
    monkeypatch.setattr(sys, "argv", [f"{demo}.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(DEMOS / f"{demo}.py"), run_name="__main__")
    out, err = capsys.readouterr()
    assert f"usage: {demo}.py" in out.splitlines()[0]
    assert (err, list(tmp_path.iterdir())) == ("", [])


def test_the_scaling_demo_measures_loss_by_size_and_data(tmp_path, capsys):
    main = runpy.run_path(str(DEMOS / "scaling.py"))["main"]
    losses = main(widths=(2, 32), amounts=(50, 4000), steps=60, output=tmp_path / "drawn.png")
    (few_small, few_large), (many_small, many_large) = losses
    assert many_large < many_small  # parameters help where there is data
    assert many_large < few_large  # data helps where there are parameters
    assert few_small - many_small < few_large - many_large
    assert "parameters" in capsys.readouterr().out
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_the_bank_demo_compares_states_of_the_word(tmp_path, capsys):
    output = tmp_path / "drawn.png"
    same, other = runpy.run_path(str(DEMOS / "bank.py"))["main"](output=output)
    assert output.read_bytes().startswith(b"\x89PNG")
    assert -1 <= other < 0 < same <= 1
    assert "in two sentences, after subtracting their mean" in capsys.readouterr().out


def test_the_it_demo_finds_the_noun_of_the_pronoun(tmp_path, capsys):
    output = tmp_path / "drawn.png"
    right, found = runpy.run_path(str(DEMOS / "it.py"))["main"](output=output)
    assert right > 0.98
    noun, other = found["decoder.layers.0.cross_attention"].T
    assert (noun - other).max() > 0.1  # one head looks for it
    assert output.read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert "il or elle is right" in shown
    assert "encoder 2, head 4" in shown  # as in the picture
