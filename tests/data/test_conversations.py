"""Generated stories and dialogues: their summaries and replies follow from what was said; and `chat`."""

import io
import re
from types import SimpleNamespace

import pytest

from minitransformer.cli.chat import check_dialogues
from minitransformer.data.conversations import UNKNOWN, dialogues, history, summaries
from minitransformer.errors import UserError
from minitransformer.tasks import Translation

FEW = 300


@pytest.mark.slow
def test_a_summary_is_about_the_most_frequent_person():
    people = "Paul|Thomas|Marie|Alice|(?:The|My) \\w+"
    for story, summary in summaries(FEW)["test"][:100]:
        told: dict[str, list[str]] = {}
        name = ""
        for sentence in re.findall(r"[^.]+(?=\.)", story):
            found, rest = re.match(rf" ?(He|She|{people}) (.*)", sentence).groups()
            name = name if found in ("He", "She") else found
            told.setdefault(name, []).append(rest)
        most = max(told, key=lambda person: len(told[person]))
        assert [len(sentences) for sentences in told.values()].count(len(told[most])) == 1
        assert summary.startswith(f"{most} ")
        clauses = re.fullmatch(r"(.*), (.*) and (.*)\.", summary.removeprefix(f"{most} ")).groups()
        for clause, sentence in zip(clauses, told[most], strict=True):
            remaining = iter(re.sub(r"\ban\b", "a", sentence).split())
            assert all(word in remaining for word in re.sub(r"\ban\b", "a", clause).split())  # in this order


def test_replies_are_consistent_with_earlier_turns():
    view = {"I": "you", "you": "I/me", "me": "you", "my": "your", "your": "my", "am": "are"}
    kinds = dict.fromkeys(["name", "view", "told", "unknown"], 0)
    for source, reply in dialogues(FEW)["test"]:
        said = [turn.partition(" bot: ")[0] for turn in source.removeprefix("user: ").split(" user: ")]
        *before, last = said
        name = re.match(r"I am (\w+)\.", said[0])
        if last == "Who am I?":
            kinds["name"] += 1
            assert reply == (f"You are {name[1]}." if name and before else UNKNOWN)
        elif last.startswith("I ") and before:
            kinds["view"] += 1
            seen = [view.get(word, word) for word in last.rstrip(".").split()]
            for word, expected in zip(reply.rstrip(".").lower().split(), seen, strict=True):
                assert word in expected.lower().split("/")
        elif last.endswith("?") and reply != UNKNOWN:
            kinds["told"] += 1
            answer = {view.get(word, word) for word in reply.rstrip(".").lower().split()}
            assert any(answer <= set(re.findall(r"\w+", text.lower())) for text in before)
        elif last.endswith("?"):
            kinds["unknown"] += 1
            words = set(re.findall(r"\w+", last.lower())) - {"who", "what", "did", "do", "does"}
            statements = [text for text in before if not text.endswith("?")]
            assert not any(words <= set(re.findall(r"\w+", text.lower())) for text in statements)
    assert min(kinds.values()) > 10


# --- chat ---


@pytest.fixture
def heard(monkeypatch):
    """The sources that the model is given; its replies are "So 1.", "So 2.", ..."""
    sources = []

    def translate(run, texts, **_):
        sources.extend(texts)
        return [f"So {len(sources)}." for _ in texts]

    monkeypatch.setattr(Translation, "translate", translate)
    return sources


def say(monkeypatch, *lines):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))


def test_the_oldest_turns_are_dropped_if_history_is_too_long(cli, heard, monkeypatch):
    say(monkeypatch, "I love you " * 5, "", "We sing we sing", "love " * 40, "We sing")
    code, out, err = cli("chat", "mine")
    assert (code, out) == (0, "So 1.\nSo 2.\nSo 3.\n")
    assert "warning: no reply: the input has" in err
    assert heard[0] == f"user: {'I love you ' * 5}".strip()
    assert heard[-1] == "user: We sing we sing bot: So 2. user: We sing"


def test_chat_rejects_runs_not_trained_on_dialogues(cli):
    code, _, err = cli("chat", "play")
    assert (code, "is a language model, which cannot translate" in err) == (2, True)
    data = SimpleNamespace(dataset="phrasebook")
    recipe = SimpleNamespace(task="translation", data=data)
    run = SimpleNamespace(folder="runs/x", recipe=recipe, task=Translation)
    with pytest.raises(
        UserError, match=r"runs/x was trained on phrasebook, not on dialogues\.\nTrain one with"
    ):
        check_dialogues(run)


def test_history_ends_with_the_last_user_turn():
    assert history([("Hello.", "Yes?"), ("Who am I?", "")]) == "user: Hello. bot: Yes? user: Who am I?"
