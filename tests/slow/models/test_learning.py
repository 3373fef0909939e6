"""Models trained for long enough to have learned."""

from minitransformer.data.prefixes import PREFIXES
from minitransformer.data.splits import Sources
from minitransformer.tasks import task_class


def test_denoising_vocabulary_covers_prefix_tasks():
    """So that `train t5-prefixes --init-from runs/t5-denoise` starts with a vector for each."""
    denoising = task_class("denoising")
    prefixed = task_class("text-to-text")
    texts = denoising.splits(denoising.Data(), Sources())
    tokenizer = denoising.train_tokenizer(denoising.Data(), 0, texts)
    few = prefixed.splits(prefixed.Data(examples=100), Sources())["train"]
    assert len(few) == 100
    assert {source.partition(":")[0] for source, _ in few} == set(PREFIXES)
    assert not {word for pair in few for side in pair for word in tokenizer.unknown_words(side)}
