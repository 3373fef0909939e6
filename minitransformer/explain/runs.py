"""The walk-through page of a trained run on a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from minigrad import Tensor

from ..data.batching import IGNORE
from ..errors import UserError
from ..files import our_command
from ..layers.quantized import bytes_of, dequantize, is_quantized, stored_rows
from ..runs.run import Run
from ..tasks.inputs import check_length, inputs_of_run, marked_ids, warn_of_unknown, word_ids
from .page import Explanation, to_html
from .picture import static_picture
from .tokenizers import UnknownPart, tokenizer_data

MOST_BYTES = 150_000_000  # the most bytes of weights that a page holds: 187 MB as text
FAMILIES = (  # the model types that assets/model implements
    "transformer", "gpt2", "llama", "bert", "t5", "bart", "vit", "recurrent",
)  # fmt: skip
BERT_HEADS = ("masked_lm", "classification", "next_sentence", "token_classification", "similarity")
OTHERS = ["The weather is nice today.", "She plays the violin.", "He is driving a car."]
SCALE = 20.0  # the factor of cosines in the logits, as in tasks/similarity.py


def explain(run: Any, text: str | None = None, target: str | None = None) -> Explanation:
    """Return the walk-through page of a run on a text. It computes every number and gradient, stage by stage.

    `run` is a run folder or a loaded Run. `text` is a sentence or, for a language model, the start of a text;
    for a ViT, an image file or "test:3", image 3 of the test split. The loss is computed for `target`, by
    default the class of the image or the model's own output. Only encoder-decoders, classifiers and
    similarity models take a target.
    """
    run = Run(Path(run)) if isinstance(run, str | Path) else run
    check_supported(run)
    model = dequantize(run.model) if is_quantized(run.model) else run.model
    tokenizer = run.tokenizer
    inputs = inputs_of(run)
    if target is not None and not model.is_encoder_decoder and not has_classes(model):
        raise UserError(
            f"{run.folder} has a model of type {model.model_type}, which takes no target, got {target!r}.\n"
            "Leave it out; the loss is then that of the model's own output."
        )
    source: Any
    image = None
    limit = getattr(run.recipe.data, "max_length", None) or getattr(model, "max_length", None)
    if model.model_type == "vit":
        image, label = run.task.read(run, [text or "test:0"])
        is_known = label != IGNORE
        source = image.reshape(-1)
        text = f"an image of class {run.labels[label]}" if is_known else "an image"
        target = run.labels[label] if target is None and is_known else target
    else:
        text = run.task.as_read(run, default_text(run) if text is None else text)
        source = source_ids(run, text, inputs, limit)
        warn_of_unknown(run, [text] if target is None or has_classes(model) else [text, target])
    if target is not None and has_classes(model) and not is_similarity(model) and target not in run.labels:
        raise UserError(f"{target!r} is not one of the classes.\nPass one of {', '.join(run.labels)}.")
    title = f"{run.folder.name}: {text}" if text else run.folder.name
    labels = candidates_of(run, target) if is_similarity(model) else run.labels
    smoothing = 0.0 if run.record.imported else run.recipe.training.label_smoothing
    with compared_with(run, model, labels) if is_similarity(model) else nullcontext():
        picture = static_picture(model, tokenizer, source, labels, inputs.get("marks", ()), run.generation)
        page = to_html(
            model, tokenizer, text, title=title, run=run.folder.name, target=target, inputs=inputs,
            labels=labels, max_length=limit, picture=picture, image=image, matrices=stored_rows(run.model),
            generation=run.generation, smoothing=smoothing,
            examples=[] if image is not None else examples_of(run, text),
        )  # fmt: skip
    return Explanation(page, picture, title)


def is_similarity(model: Any) -> bool:
    """Whether the model's head computes a vector of the text rather than class scores."""
    return getattr(model.config, "head", None) == "similarity"


def candidates_of(run: Any, target: str | None) -> list[str]:
    """The sentences that a text is compared with: the target, some from the run's data, and OTHERS."""
    own = [texts[-1] for texts in getattr(run.record, "examples", [])]
    return list(dict.fromkeys([*([] if target is None else [target]), *own, *OTHERS]))


@contextmanager
def compared_with(run: Any, model: Any, texts: list[str]) -> Iterator[None]:
    """A context manager that gives the head of a similarity model the vectors of `texts` as `candidates`.

    They are unit vectors times 20, as in training, so that the products with a text's vector are logits.
    """
    head = model.head
    head.register_buffer("candidates", Tensor(SCALE * run.task.vectors(run, texts)))
    try:
        yield
    finally:
        del head.candidates


def has_classes(model: Any) -> bool:
    """Whether the model scores classes of the whole input, or candidates to compare it with."""
    head = getattr(model.config, "head", None)
    return model.model_type == "vit" or head in ("classification", "similarity")


def source_ids(run: Any, text: str, inputs: Mapping[str, Any], limit: int | None) -> list[int]:
    """Return the ids that the page starts with. Raise a UserError if there are none, or too many."""
    text = text.strip() if inputs["strip"] else text
    if inputs.get("reading") == "words":
        words = [i for word in text.split() for i in word_ids(run.tokenizer, word)]
    else:
        words = marked_ids(run.tokenizer, text, inputs["marks"])
    if not words:
        raise UserError(f"{run.folder} reads a text, got an empty one.\nPass at least one word.")
    ids = [*inputs["before"], *words, *inputs["after"]]
    if limit is not None:
        check_length(len(ids), limit, text)
    return ids


def check_supported(run: Any) -> None:
    """Raise a UserError if the page does not support the model or tokenizer, or the model is too large."""
    model = run.model
    head = getattr(model.config, "head", None)
    if model.model_type not in FAMILIES or (model.model_type == "bert" and head not in BERT_HEADS):
        kind = f"{model.model_type} with the head {head!r}" if head else model.model_type
        supported = f"{', '.join(FAMILIES[:-1])} and recurrent language models"
        if model.model_type == "bert":
            supported = f"the heads {', '.join(BERT_HEADS)}"
        raise UserError(
            f"the walk-through does not support a model of type {kind}.\n"
            f"It supports {supported}; `{our_command(['graph', run.folder])}` draws this one."
        )
    try:
        tokenizer_data(run.tokenizer)
    except UnknownPart as error:
        raise UserError(
            f"the walk-through does not split texts as the tokenizer of {run.folder} does: it has {error}.\n"
            f"Look inside it with record_attention, or draw it with `{our_command(['graph', run.folder])}`."
        ) from None
    size = bytes_of(model)
    if size > MOST_BYTES:
        fix = f"Draw it with `{our_command(['graph', run.folder])}`."
        if run.record.imported and not is_quantized(model):
            fix = "Import it again with --quantize, for a quarter of that, or use record_attention."
        raise UserError(
            f"the weights of {run.folder}, {size / 1e6:,.0f} MB, are too large for a page, which holds up to "
            f"{MOST_BYTES / 1e6:.0f} MB.\n{fix}"
        )


def default_text(run: Any) -> str:
    """Return a short text from the run's data, with a gap if the run fills gaps.

    Raise a UserError if there is none.
    """
    found = [texts for texts in inputs_of_run(run) if texts[-1].strip()]
    if not found:
        raise UserError(f"{run.folder} has no example text of its data.\nPass a text, in quotes.")
    return found[-1][0]


def examples_of(run: Any, text: str) -> list[str]:
    """Return the text and up to two texts from the run's data: the first of its evaluation, or short ones."""
    written = run.folder / "predictions.src"
    found = written.read_text(encoding="utf-8").splitlines()[:2] if written.is_file() else []
    found += [texts[0] for texts in inputs_of_run(run)]
    found = [run.task.as_read(run, each) for each in found if each.strip()]
    return list(dict.fromkeys([text, *found]))[:3]


def inputs_of(run: Any) -> dict[str, Any]:
    """Describe how the page reads a text, for its JavaScript.

    "before" and "after" are the ids around a text's tokens, "marks" the special tokens that it may contain.
    "strip" removes spaces at its ends. "reading" says whether the "text", each of its "words", or its
    "characters" with spaces between them are tokenized.
    """
    model = run.model
    tokenizer = run.tokenizer
    task = run.task
    if tokenizer is None:
        return {}
    if model.model_type == "bert":
        before = [tokenizer.special_id("[CLS]")]
        after = [tokenizer.special_id("[SEP]")]
    else:
        before = tokenizer.prefix
        after = [tokenizer.end_id] if model.is_encoder_decoder else []
        if hasattr(task, "source_ids"):  # a decoder-only model reads more between source and target
            after = task.source_ids(tokenizer, "")[len(before) :]
    strip = model.model_type == "bert" or bool(after)
    is_brackets = getattr(run.recipe.data, "dataset", "") == "brackets"
    reading = "words" if task.reads_words else "characters" if is_brackets else "text"
    return {
        "before": before, "after": after, "marks": list(task.marks), "strip": strip, "reading": reading,
    }  # fmt: skip
