"""The text of tokens, piece by piece, while they are generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class TextStreamer:
    """Decodes tokens one by one. The pieces of text together equal the text of all tokens.

    The text of a token may depend on others: it may be a part of a character, or a space that is dropped
    before a punctuation mark. So each call decodes all recent tokens, and holds back an incomplete character
    (U+FFFD) and spaces at the end.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], prompt: Sequence[int]) -> None:
        self.decode = decode
        self._start(prompt)

    def _start(self, context: Sequence[int]) -> None:
        self.context = list(context)
        self.ids = list[int]()
        self.printed = ""
        self.before = self.decode(self.context)

    def _text(self) -> str:
        """The text of the new tokens. They are decoded after the context, as a token may include a space."""
        return self.decode([*self.context, *self.ids]).removeprefix(self.before)

    def put(self, token: int) -> str:
        """Add a token, and return the text that later tokens can no longer change."""
        self.ids.append(token)
        text = self._text()
        certain = text.rstrip("\ufffd ")
        if not certain.startswith(self.printed):
            return ""
        piece = certain[len(self.printed) :]
        self.printed = certain
        if len(self.ids) >= 128 and certain == text:  # later text does not depend on the older tokens
            self._start(self.ids[-64:])
        return piece

    def end(self) -> str:
        """Return the text that `put` has held back."""
        return self._text()[len(self.printed) :]
