"""Text that is printed as its tokens are generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class TextStreamer:
    """Turns tokens into pieces of text, which together equal the text of all tokens decoded at once.

    A token may hold a part of a character, or the space before a word that a mark then takes away. So all
    tokens since some point are decoded each time, and an unfinished character (U+FFFD) is held back.
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
        """The text of the tokens after the context: the space between them may be part of a token."""
        return self.decode([*self.context, *self.ids]).removeprefix(self.before)

    def put(self, token: int) -> str:
        """Add a token, and return the text that has become certain."""
        self.ids.append(token)
        text = self._text()
        certain = text.rstrip("\ufffd ")
        if not certain.startswith(self.printed):
            return ""
        piece = certain[len(self.printed) :]
        self.printed = certain
        if len(self.ids) >= 128 and certain == text:  # decoding from here on gives the same text
            self._start(self.ids[-64:])
        return piece

    def end(self) -> str:
        """The rest of the text."""
        return self._text()[len(self.printed) :]
