"""Pictures show the numbers that they were given, with their labels, whatever the tokens are."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import minigrad as mg
import minitransformer
from minigrad.palette import NEGATIVE, POSITIVE, rgb
from minitransformer import GPT, GPTConfig, generate, plots, record_attention
from minitransformer.errors import UserError
from minitransformer.layers.positions import positional_encoding
from minitransformer.plots.style import ORANGE, font_of, label

ODD = [
    "😀",
    "שלום",
    " ",
    "\n",
    "",
    "$x^2$ & <b>",
    "\x1b[31m",
    "a" * 40,
    "\ud800",
    "中文",
    "\ufeff",
    "a\u200bb",
]
TOKENS = ["The", "cat", "sat"]


def attention(*shape, seed=0):
    e = np.exp(2 * np.random.default_rng(seed).normal(size=shape))
    return e / e.sum(-1, keepdims=True)


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda each: hasattr(each, "get_text"))]


def names(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


# ---------------------------------------------------------------- files and labels


def test_plots_are_saved_by_suffix_and_reproducible(tmp_path):
    for name in ("a.svg", "a.PNG"):
        paths = [tmp_path / f"{i}{name}" for i in (0, 1)]
        for path in paths:
            assert isinstance(plots.alignment(attention(2, 2), "ab", "cd", path=path), Figure)
        first, second = (path.read_bytes() for path in paths)
        assert first == second
    assert first.startswith(b"\x89PNG")
    assert ElementTree.parse(tmp_path / "0a.svg").getroot().tag.endswith("svg")
    with pytest.raises(UserError, match=r"a.jpg is not the name of a picture.\n.*\.svg, \.png, \.pdf"):
        plots.alignment(attention(2, 2), "ab", "cd", path="a.jpg")
    assert plots.alignment(attention(2, 2), "ab", "cd")._repr_png_().startswith(b"\x89PNG")  # in a notebook


@pytest.mark.slow
def test_unusual_tokens_are_drawn_without_a_warning(tmp_path):
    n = len(ODD)
    plots.attention_heads(attention(1, n, n), ODD, path=tmp_path / "heads.svg")
    plots.attention_arcs(attention(n, n), ODD, ODD, path=tmp_path / "arcs.png")
    plots.embeddings(attention(n, 4), ODD, ODD)  # draws the figure without writing it
    plots.embeddings(attention(n, 4), ODD, ODD, path=tmp_path / "embeddings.pdf")
    plots.alignment(attention(n, n), ODD, ODD, path=tmp_path / "alignment.pdf")
    plots.next_token_probabilities(attention(n), ODD, top=n, path=tmp_path / "probabilities.pdf")
    assert ElementTree.parse(tmp_path / "heads.svg") is not None


def test_labels_show_spaces_and_unprintable_characters():
    assert [label(token) for token in (" ", "\n", "", " the ", "New York", "a\nb")] == [
        "␣", "↵", "''", "the", "New York", "a↵b"
    ]  # fmt: skip
    assert label("\x1b[0m") == "U+001B[0m"
    assert label("\ud800") == "U+D800"
    assert [label(f"a{c}b") for c in "\ufeff\u200b\u202e\xad"] == [
        "aU+FEFFb",
        "aU+200Bb",
        "aU+202Eb",
        "aU+00ADb",
    ]
    assert label("می\u200cروم") == "می\u200cروم"
    assert label("x" * 40) == "x" * 13 + "…"
    assert label("$x$") in texts(plots.alignment([[1.0]], ["$x$"], ["b"]))  # not as mathematics
    assert all(font_of(c) for c in "éшλش␣↵⇥")


# ---------------------------------------------------------------- attention


def test_attention_heads_draws_a_heat_map_per_head():
    weights = attention(2, 6, 3, 3)
    figure = plots.attention_heads(mg.tensor(weights), TOKENS, row=1)
    panels = [panel for panel in figure.axes if panel.images and panel.get_visible()]
    for i, panel in enumerate(panels):
        assert np.array_equal(panel.images[0].get_array(), weights[1, i])
        assert panel.get_title() == f"head {i + 1}"
        assert panel.images[0].get_clim() == (0, weights[1].max())  # one scale for all
    assert len(panels) == 6
    assert names(panels[0].yaxis) == names(panels[4].xaxis) == TOKENS
    assert names(panels[1].yaxis) == names(panels[0].xaxis) == []


def test_attention_heads_draws_a_row_per_layer():
    maps = {f"decoder.layers.{i}.cross_attention": attention(1, 2, 3, 4, seed=i) for i in range(3)}
    figure = plots.attention_heads(maps, TOKENS, "abcd")
    rows = np.reshape([panel for panel in figure.axes if panel.images], (3, 2))
    for row, (i, weights) in zip(rows, enumerate(maps.values()), strict=True):
        assert row[0].get_ylabel() == f"layer {i + 1}"
        assert np.array_equal(row[1].images[0].get_array(), weights[0, 1])
    assert "(decoder cross-attention)" in figure.get_suptitle().replace("\n", " ")
    assert names(rows[2, 1].xaxis) == [*"abcd"]
    mixed = {"encoder.layers.0.self_attention": attention(1, 3, 3), "layers.1": attention(1, 3, 3)}
    assert {"encoder layer 1 self-attention", "layer 2"} <= {*texts(plots.attention_heads(mixed, TOKENS))}


def test_long_axes_label_only_some_tokens():
    figure = plots.attention_heads(attention(1, 200, 200), [str(i) for i in range(200)])
    shown = [int(name) for name in names(figure.axes[0].xaxis)]
    assert 5 < len(shown) < 100
    assert shown == [*figure.axes[0].get_xticks()]
    assert figure.get_size_inches()[0] <= plots.style.PAGE


def test_arcs_show_only_weights_above_the_threshold():
    weights = np.array([[0.95, 0.05, 0], [0.5, 0.5, 0], [0.2, 0.09, 0.71]])
    figure = plots.attention_arcs(weights, TOKENS)
    arrows = figure.axes[0].patches
    assert [round(arrow.get_linewidth(), 2) for arrow in arrows] == [1.3, 0.7]  # from cat and sat to The
    assert len(figure.axes[0].lines) == 3  # each word's weight for itself
    assert all(np.ptp([point[1] for point in arrow.get_path().vertices]) for arrow in arrows)
    crossed = plots.attention_arcs(np.stack([weights, weights]), TOKENS, TOKENS)
    assert len(crossed.axes[0].patches) == 2 * 5
    assert (
        len({to_hex(arrow.get_edgecolor()) for arrow in crossed.axes[0].patches}) == 2
    )  # a colour each head
    long = plots.attention_arcs(attention(100, 100), ["word"] * 100)
    assert long.get_size_inches()[0] == pytest.approx(plots.style.PAGE)


def test_alignment_shows_the_mean_over_heads_with_numbers():
    weights = attention(1, 2, 2, 3)
    figure = plots.alignment(weights, ["un", "chat"], ["a", "cat", "."])
    mean = weights[0].mean(0)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), mean)
    assert {f"{w:.2f}".removeprefix("0") for w in mean.flat if w >= 0.1} <= {*texts(figure)}
    assert names(figure.axes[0].yaxis) == ["un", "chat"]


def test_weights_that_do_not_match_the_tokens_are_rejected():
    with pytest.raises(UserError, match=r"shape \(2, 3, 3\) for 3 queries and 2 keys.\n.*\(heads, 3, 2\)"):
        plots.attention_heads(attention(2, 3, 3), TOKENS, TOKENS[:2])
    with pytest.raises(UserError, match="weights of 2 calls with the shapes"):
        plots.attention_heads([attention(1, 2, 3, 3), attention(2, 2, 1, 4)], [*TOKENS, "on"])
    with pytest.raises(UserError, match="no attention weights to draw"):
        plots.attention_heads({}, TOKENS)


def test_cached_generation_is_drawn_as_one_call():
    model = GPT(GPTConfig(11, n_positions=12, n_embd=8, n_layer=1, n_head=2)).eval()
    with record_attention(model) as calls:
        (written,) = generate(model, [[4, 5, 6]], 4)
    with record_attention(model) as whole:
        model([[4, 5, 6, *written[:-1]]])
    (path,) = calls
    assert len(calls[path]) == 4
    labels = [str(i) for i in range(6)]
    drawn = [plots.attention_heads(maps, labels).axes[0].images[0].get_array() for maps in (calls, whole)]
    np.testing.assert_allclose(*drawn, atol=1e-6)


# ---------------------------------------------------------------- positions, probabilities, embeddings


def test_positional_encoding_plot_shows_values_and_wavelengths():
    heat, _, lengths, *_ = plots.positional_encoding(20, 8).axes
    assert np.array_equal(heat.images[0].get_array(), positional_encoding(20, 8))
    x, y = lengths.lines[0].get_data()
    assert [*x] == [0, 2, 4, 6]
    np.testing.assert_allclose(y, 2 * np.pi * 10 ** np.arange(4))
    plots.positional_encoding(3, 1)


def test_bars_show_the_most_probable_and_chosen_tokens():
    p = np.array([[0.5, 0.3, 0.1, 0.06, 0.04], [0.1, 0.2, 0.3, 0.395, 0.005]])
    figure = plots.next_token_probabilities(p, "abcde", chosen=[0, 4], top=3)
    first, second = figure.axes
    assert [bar.get_width() for bar in first.patches] == [0.5, 0.3, 0.1]
    assert [bar.get_width() for bar in second.patches] == [0.395, 0.3, 0.005]
    assert names(second.yaxis) == [*"dce"]
    assert [to_hex(bar.get_facecolor()) == ORANGE.lower() for bar in second.patches] == [False, False, True]
    assert "0.5%" in texts(figure)
    assert len(plots.next_token_probabilities(p, {i: str(i) for i in range(5)}, [0]).axes) == 2  # ended
    with pytest.raises(UserError, match="4 chosen tokens for 2 steps"):
        plots.next_token_probabilities(p, "abcde", [0, 1, 2, 3])
    with pytest.raises(UserError, match=r"between 0 and 1, got 0\.05 to 5"):
        plots.next_token_probabilities(10 * p, "abcde")


def test_embeddings_are_projected_by_pca():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(2, 5))
    far = rng.normal(size=(6, 2)) * [5, 1]
    figure = plots.embeddings(far @ np.linalg.qr(plane.T)[0].T + 3, "abcdef", [0, 0, 1, 1, 1, 2])
    points = np.concatenate([np.asarray(each.get_offsets()) for each in figure.axes[0].collections])
    apart = lambda x: np.linalg.norm(x[:, None] - x, axis=-1)
    np.testing.assert_allclose(apart(points), apart(far), atol=1e-6)
    assert np.var(points[:, 0]) > np.var(points[:, 1])
    assert len(figure.axes[0].collections) == 3
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["0", "1", "2"]
    kinds = np.array(["a", "b", "a"])  # an array has no truth value
    drawn = texts(plots.embeddings(np.eye(3), kinds, kinds))
    assert drawn == texts(plots.embeddings(np.eye(3), kinds.tolist(), kinds.tolist()))
    crowded = plots.embeddings(np.zeros((9, 2)), ["same"] * 9)
    assert texts(crowded).count("same") == 1  # no label covers another
    with pytest.raises(UserError, match="2 labels for 3 vectors"):
        plots.embeddings(np.eye(3), ["a", "b"])


def test_training_curves_match_the_log(tmp_path):
    for name, loss in (("a", 2.0), ("b", 3.0)):
        (tmp_path / name).mkdir()
        lines = f'{{"step": 1, "loss": {loss}, "lr": 0.1}}\n{{"step": 2, "val_loss": {loss + 1}}}\n'
        (tmp_path / name / "log.jsonl").write_text(lines)
    figure = plots.training_curves(tmp_path / "a", tmp_path / "b")
    losses, rates = figure.axes
    assert [line.get_label() for line in losses.lines] == [
        "a: training", "a: validation", "b: training", "b: validation"
    ]  # fmt: skip
    assert [line.get_ydata()[0] for line in (*losses.lines, *rates.lines)] == [2, 3, 3, 4, 0.1, 0.1]
    with pytest.raises(UserError, match=r"c has no log.jsonl"):
        plots.training_curves(tmp_path / "c")


def test_curves_compare_losses_without_label_smoothing(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 2, "loss": 2.25, "nll_loss": 1.5, "lr": 0.1}\n')
    losses, rates = plots.training_curves(tmp_path).axes
    assert [*losses.lines[0].get_ydata()] == [1.5]
    assert [*rates.lines[0].get_ydata()] == [0.1]


# ---------------------------------------------------------------- titles and colours


@pytest.mark.slow
def test_every_plot_has_a_title_that_fits():
    weights = attention(2, 3, 3)
    pictures = [
        plots.attention_heads(weights, TOKENS), plots.attention_arcs(weights, TOKENS),
        plots.alignment(weights, TOKENS, TOKENS), plots.positional_encoding(20, 8),
        plots.next_token_probabilities(attention(5), "abcde"), plots.embeddings(np.eye(3)),
    ]  # fmt: skip
    for figure in pictures:
        figure.draw_without_rendering()
        title = figure._suptitle.get_window_extent()
        assert len(figure.get_suptitle().split()) > 3
        assert title.x0 >= 0
        assert title.x1 <= figure.bbox.width
        assert all(panel.get_tightbbox().y1 <= title.y0 + 1 for panel in figure.axes if panel.get_visible())


def test_plots_use_the_colours_of_the_pages():
    css = (Path(minitransformer.__file__).parent / "explain" / "assets" / "page.css").read_text()
    assert f"--positive: {POSITIVE}; --negative: {NEGATIVE};" in css
    colours = plots.positional_encoding(20, 8).axes[0].images[0].cmap
    assert [to_hex(colours(x)) for x in (0.0, 1.0)] == [NEGATIVE, POSITIVE]
    heads = plots.attention_heads(attention(2, 3, 3), TOKENS).axes[0].images[0].cmap
    assert [to_hex(heads(x)) for x in (0.0, 1.0)] == ["#ffffff", POSITIVE]
    red, green, blue = rgb(NEGATIVE)
    assert f"rgba({red}, {green}, {blue}, 0.45)" in mg.tensor([-1.0])._repr_html_()


# ---------------------------------------------------------------- scores of heads


def test_head_scores_draws_a_table_per_relation():
    from minitransformer import score_heads

    tokens = [*"abca."]
    maps = {f"layers.{i}.self_attention": attention(1, 2 + i // 10, 5, 5, seed=i) for i in range(12)}
    maps["layers.3.self_attention"] = np.tril(attention(1, 2, 5, 5))
    scores = score_heads(maps, [tokens])
    figure = plots.head_scores(scores.sorted_by("next token"))
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title().split("\n")[0] for panel in panels] == scores.relations
    table = panels[0].images[0].get_array()
    assert table.shape == (12, 3)
    np.testing.assert_array_equal(table[2], [*scores.of("previous token")[4:6], np.nan])
    np.testing.assert_array_equal(table[11], scores.of("previous token")[-3:])
    assert names(panels[0].yaxis) == [f"layer {i + 1}" for i in range(12)]
    assert names(panels[0].xaxis) == ["1", "2", "3"]
    assert panels[0].get_title().endswith(".20-.32 by chance")  # the mean of 1/2 to 1/5 is that of layer 3
    assert panels[1].get_title().endswith(".20 by chance")
    assert f"{table[2, 0]:.2f}"[1:] in texts(panels[0])
    alone = score_heads({"layers.3.self_attention": maps["layers.3.self_attention"]}, [tokens])
    figure = plots.head_scores(alone)
    assert figure.axes[1].get_title() == "next token\nno such keys"
    assert names(figure.axes[0].yaxis) == ["layer 4"]
    wide = score_heads({"layers.3.self_attention": attention(1, 16, 5, 5)}, [tokens])
    assert plots.head_scores(wide).axes[-1].get_ylabel() == "score"  # no room for numbers: a scale instead


# ---------------------------------------------------------------- bars, heat maps and curves of any numbers


def test_bars_draws_a_panel_per_entry_with_numbers():
    figure = plots.bars({"first": {"a": 0.5, "b": 2.25}, "second": {"c": -1}}, "title", "share")
    assert {"first", "second", "a", "b", "c", "0.5", "2.25", "-1", "title", "share"} <= {*texts(figure)}
    assert [[bar.get_width() for bar in panel.patches] for panel in figure.axes] == [[0.5, 2.25], [-1]]


def test_a_heat_map_shows_its_matrices_with_labels():
    figure = plots.heat_map({"one": np.eye(2), "two": -np.eye(2)}, "ab", "cd", ylabel="row")
    first, second = (panel.images[0] for panel in figure.axes)
    assert np.array_equal(first.get_array(), np.eye(2))
    assert first.get_clim() == second.get_clim() == (-1, 1)
    assert {"1.00", "-1.00", "a", "d", "row"} <= {*texts(figure)}


def test_curves_are_drawn_against_x_or_steps(tmp_path):
    figure = plots.curves(
        {"loss": {"a": [3, 1], "b": [2, 2]}, "rate": {"a": [1, 0]}}, path=tmp_path / "a.png"
    )
    assert [len(panel.lines) for panel in figure.axes] == [2, 1]
    assert figure.axes[0].lines[0].get_xdata().tolist() == [0, 1]
    figure = plots.curves({"error": {"a": mg.tensor([3.0, 1.0])}}, [1, 10], xscale="log")
    assert figure.axes[0].lines[0].get_xdata().tolist() == [1, 10]
    assert figure.axes[0].get_xscale() == "log"
