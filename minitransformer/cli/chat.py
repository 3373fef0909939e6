"""`minitransformer chat RUN`: talk to a run trained on dialogues."""

from __future__ import annotations

from pathlib import Path

from ..data.rows import history
from ..errors import UserError
from ..files import one_line
from ..runs.run import Run
from ..tasks.inputs import warn_of_unknown
from .decoding import Decoding
from .lines import numbered_lines, warn_line
from .parsing import parse
from .wording import command, unsupported_error

Turns = list[tuple[str, str]]  # what the user said, and the reply


def run(argv: list[str]) -> None:
    def chat(
        run: Path,
        *,
        do_sample: bool = False,
        decoding: Decoding = Decoding(),  # noqa: B008 (frozen)
        checkpoint: str = "best",
        device: str = "cpu",
    ) -> None:
        """Talk to a run trained on dialogues: it replies to each line of standard input.

        Args:
            do_sample: Sample tokens instead of taking the most likely one.
        """
        options = decoding.options(do_sample)
        trained = Run(run, checkpoint, device)
        check_dialogues(trained)
        turns: Turns = []
        for inputs in numbered_lines("send", str.strip):
            for message in filter(None, inputs.values()):
                try:
                    if isinstance(message, UserError):
                        raise message
                    turns = latest_turns(trained, [*turns, (message, "")])
                except UserError as error:
                    warn_line(f"no reply: {str(error).splitlines()[0]}")
                    continue
                warn_of_unknown(trained, [message])
                [reply, *_] = trained.task.translate(trained, [history(turns)], **options)
                turns[-1] = message, reply
                print(one_line(reply), flush=True)

    parse(chat, argv, "minitransformer chat")


def check_dialogues(run: Run) -> None:
    """Raise a UserError unless the run was trained on dialogues, or on a file, which may have dialogues."""
    if not hasattr(run.task, "translate"):
        raise unsupported_error(run, "translate")
    if run.recipe.data.dataset not in ("dialogues", "file"):
        raise UserError(
            f"{run.folder} was trained on {run.recipe.data.dataset}, not on dialogues.\n"
            f"Train one with `minitransformer train dialogue`, or use "
            f"`{command(run.recipe, run.folder)}`."
        )


def latest_turns(run: Run, turns: Turns) -> Turns:
    """Return the last turns that fit into the model's input. Raise a UserError if even the last does not."""
    while len(turns) > 1:
        try:
            run.task.read(run, [history(turns)])
            return turns
        except UserError:
            turns = turns[1:]
    run.task.read(run, [history(turns)])
    return turns
