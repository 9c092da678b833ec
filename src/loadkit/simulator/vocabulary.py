"""Tokens and their text: the bundled encoding with what streaming needs, the text that each single token adds."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from loadkit.encoding import bundled


class Vocabulary:
    """The bundled encoding. `eos`, `think_end`, `call_begin`, `call_end` are the ids of its control tokens."""

    def __init__(self) -> None:
        self._encoding = bundled()
        self._bytes = [self._encoding.decode_single_token_bytes(token) for token in range(self._encoding.n_vocab)]
        self._text = [_text_of(raw) for raw in self._bytes]
        self.eos = self.id_of("<|im_end|>")
        self.think_end = self.id_of("</think>")
        self.call_begin = self.id_of("<tool_call>")
        self.call_end = self.id_of("</tool_call>")

    def id_of(self, special: str) -> int:
        return self._encoding.encode_single_token(special)

    def encode(self, text: str) -> list[int]:
        """Tokens of ordinary text: names of control tokens in it are text."""
        return self._encoding.encode_ordinary(text)

    def encode_prompt(self, text: str) -> array[int]:
        """Tokens of a rendered prompt: names of control tokens become those tokens. Releases the GIL while it works."""
        return array("I", self._encoding.encode(text, allowed_special="all"))

    def decode(self, tokens: Iterable[int]) -> str:
        return self._encoding.decode(list(tokens))

    def name_of(self, token: int) -> str:
        """A token as /tokenize's token_strs shows it (bytes that are no text are shown in the byte-level alphabet)."""
        return "".join(BYTE_LETTERS[byte] for byte in self._bytes[token])

    def pieces(self, tokens: list[int]) -> list[str]:
        """The text that each token adds when streamed: "" while a character is incomplete."""
        texts, pieces, pending = self._text, [], b""
        for token in tokens:
            text = texts[token]
            if text is not None and not pending:
                pieces.append(text)
                continue
            pending += self._bytes[token]
            text = _text_of(pending)
            if text is None:
                pieces.append("")
            else:
                pieces.append(text)
                pending = b""
        return pieces


def _text_of(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _byte_letters() -> list[str]:
    """GPT-2's byte-level alphabet: printable bytes as themselves, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


BYTE_LETTERS = _byte_letters()
