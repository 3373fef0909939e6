"""Runs that train in a second: their flags and their data."""

import shlex
from pathlib import Path

TINY = shlex.split(  # with dropout, which makes training draw random numbers
    "--d-model 16 --num-heads 2 --d-ff 32 --num-encoder-layers 1 --num-decoder-layers 1 "
    "--dropout 0.1 --steps 4"
)
TINY_GPT = shlex.split("--n-embd 16 --n-head 2 --n-layer 1 --block-size 16 --n-positions 16 --steps 4")
TINY_BERT = shlex.split(
    "--hidden-size 16 --num-attention-heads 2 --num-hidden-layers 1 --intermediate-size 32 --steps 4"
)
TEXT = "ROMEO: But soft! What light through yonder window breaks?\nJULIET: Ay me!\n" * 20
# sixty pairs of the phrasebook, which takes a second to draw
PAIRS = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("pairs.tsv").read_text(encoding="utf-8").splitlines()
]
