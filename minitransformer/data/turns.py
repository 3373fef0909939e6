"""Dialogues: the turns before a reply as one text, and the dialogues of JSON files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import counted
from .columns import normal_name
from .tables import DataError, Examples, Table, cell_text, without_line_ends

TURNS = ("messages", "utterances", "conversations", "turns", "dialog", "dialogue")

BOT = ("assistant", "bot", "gpt", "model", "agent", "system_reply", "chatbot", "wizard")
USER = ("user", "human", "customer", "apprentice", "client", "prompter")
SPEAKER = ("role", "from", "speaker", "name")
SAID = ("content", "value", "text", "utterance", "message")


def history(turns: Sequence[tuple[str, str]]) -> str:
    """The turns of a dialogue, (user, bot), as a source; the last one has no reply yet."""
    return " ".join(f"user: {said} bot: {reply}" if reply else f"user: {said}" for said, reply in turns)


def turns_column(table: Table, chosen: Sequence[str]) -> int | None:
    """The column with lists of turns, if the table has one."""
    if len(chosen) > 1:
        return None
    for i, name in enumerate(table.names or ()):
        is_list = any(isinstance(cells[i], list) for _, cells in table.rows)
        if is_list and (name in chosen if chosen else normal_name(name) in TURNS):
            return i
    return None


def dialogue_pairs(table: Table, column: int) -> Examples:
    """Each reply as a target, with all turns before it as its source."""
    pairs = Examples()
    name = (table.names or [])[column]
    system = without = unanswered = 0
    for where, cells in table.rows:
        turns = _system_as_bot([_turn(where, turn) for turn in _turns_in(where, name, cells[column])])
        system += sum(speaker == "system" for speaker, _ in turns)
        said = _join_turns(_who(where, [turn for turn in turns if turn[0] != "system"]))
        if said and said[0][0] == "bot":
            raise DataError(
                f"{where}: the dialogue starts with a reply: {said[0][1][:60]!r}.\n"
                f"Start it with what the user says."
            )
        exchanges = [(said[i][1], said[i + 1][1]) for i in range(0, len(said) - 1, 2)]
        without += not exchanges
        unanswered += bool(exchanges) and len(said) % 2
        for n, (user, reply) in enumerate(exchanges):
            pairs.append((history([*exchanges[:n], (user, "")]), reply))
    pairs.notes = [
        f"{table.file}: {table.kind}: each reply in {name}, with the turns before it",
        f"warning: {table.file}: replies of one dialogue can be in several splits; --validation-data and "
        f"--test-data keep them apart",
    ]
    if system:
        verb = "is" if system == 1 else "are"
        pairs.notes.append(f"warning: {table.file}: {counted(system, 'system message')} {verb} not read")
    if without:
        rows = f"{counted(without, 'object')} without a reply in {name}"
        pairs.notes.append(f"warning: {table.file}: {rows} {'is' if without == 1 else 'are'} left out")
    if unanswered:
        last = f"{counted(unanswered, 'last turn')} without a reply"
        pairs.notes.append(f"warning: {table.file}: {last} {'is' if unanswered == 1 else 'are'} left out")
    if not pairs:
        raise DataError(f"{table.file} has no replies.\nWrite at least two turns in {name}.")
    return pairs


def _system_as_bot(turns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The turns with "bot" for "system", if the system replies to the user and is not the first message."""
    speakers = {speaker for speaker, _ in turns}
    if "system" not in speakers or len(speakers) != 2 or turns[0][0] == "system":
        return turns
    return [("bot" if speaker == "system" else speaker, said) for speaker, said in turns]


def _turns_in(where: str, name: str, cell: Any) -> list[Any]:
    """The turns of a cell, none if it is empty."""
    if isinstance(cell, list):
        return cell
    if cell == "":
        return []
    raise DataError(
        f"{where}: expected a list of turns in {name}, found {cell!r:.60}.\n"
        f'Write [{{"role": "user", "content": "..."}}, ...], or remove the object.'
    )


def _turn(where: str, turn: Any) -> tuple[str, str]:
    """The speaker ("" if unknown) and the text of a turn."""
    if isinstance(turn, str):
        return "", without_line_ends(turn).strip()
    fields = {key.lower(): value for key, value in turn.items()} if isinstance(turn, dict) else {}
    speaker = next((str(fields[key]) for key in SPEAKER if key in fields), "")
    said = next((cell_text(fields[key]) for key in SAID if isinstance(fields.get(key), str)), None)
    if said is None or not said.strip():
        raise DataError(
            f"{where}: a turn without text: {turn!r:.60}.\n"
            f'Write turns as texts, or as {{"role": "user", "content": "..."}}.'
        )
    return speaker.lower(), without_line_ends(said).strip()


def _who(where: str, turns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The turns by "user" and "bot"; the first speaker without a role gets the free role."""
    speakers = list(dict.fromkeys(speaker for speaker, _ in turns if speaker))
    if len(speakers) > 2:
        raise DataError(
            f"{where}: expected 2 speakers, found {len(speakers)}: {', '.join(speakers)[:60]}.\n"
            f"Write dialogues of two, or source<TAB>target on each line."
        )
    roles = {speaker: "bot" if speaker in BOT else "user" for speaker in speakers if speaker in BOT + USER}
    for speaker in speakers:
        if speaker not in roles:
            roles[speaker] = "bot" if "user" in roles.values() else "user"
    by_place = ("user", "bot")
    return [(roles[speaker] if speaker else by_place[i % 2], text) for i, (speaker, text) in enumerate(turns)]


def _join_turns(turns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The turns, with consecutive turns of one speaker joined."""
    joined: list[tuple[str, str]] = []
    for speaker, text in turns:
        if joined and joined[-1][0] == speaker:
            joined[-1] = (speaker, f"{joined[-1][1]} {text}")
        else:
            joined.append((speaker, text))
    return joined
