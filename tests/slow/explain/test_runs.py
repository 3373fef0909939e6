"""What the command says of runs and answers that the page does not know."""

import shlex

from tests.tiny import TINY_BERT


def test_explain_suggests_graph_for_recurrent_translators(cli):
    flags = shlex.split("--hidden-size 16 --embedding-dim 16 --steps 1 --run-dir mine2")
    code, _, problem = cli("train", "seq2seq-gru", *flags)
    assert code == 0, problem
    code, _, problem = cli("explain", "mine2", "I love you")
    assert code == 2
    assert "does not support a model of type seq2seq" in problem
    assert "recurrent language models; `minitransformer graph mine2` draws this one" in problem


def test_explain_rejects_unknown_target_classes(cli):
    code, _, problem = cli("train", "bert-classify", *TINY_BERT, "--run-dir", "classes")
    assert code == 0, problem
    code, _, problem = cli("explain", "classes", "The dog sees the man.", "animal", "-o", "right.html")
    assert code == 0, problem
    code, _, problem = cli("explain", "classes", "The dog sees the man.", "zebra", "-o", "other.html")
    assert code == 2
    assert "'zebra' is not one of the classes" in problem
