"""Text to tokens. The cut at the model's window is made here, and reported, never silently by the library."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from citewire_embedder.providers.base import Prompts, Purpose, TokenisedText
from citewire_kit.errors import StartupError


class Tokeniser:
    """A model's tokeniser. Its methods are thread-safe, and let other threads run while they work."""

    def __init__(
        self, file: Path, *, max_tokens: int, lower_case: bool = False, prompts: Prompts | None = None
    ) -> None:
        """Reads the tokeniser.

        Args:
            file: A `tokenizer.json`. Its own truncation and padding are switched off.
            max_tokens: The model's window, special tokens included.
            lower_case: Lower-case texts first.
            prompts: Prompts to put before texts.

        Raises:
            StartupError: The file is damaged, or the window has no room for text.
        """
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as exc:  # the library raises bare Exception
            raise StartupError(f"{file} can't be read as a tokeniser: {exc}") from exc
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._max_tokens = max_tokens
        self._lower_case = lower_case
        self._prompts = prompts or Prompts()
        self._special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        longest = max(self.count([self._prompts.query, self._prompts.document]))
        self.extra_tokens = self._special + longest
        """Tokens added to each text: special ones, and the longer of the prompts."""
        if self.extra_tokens >= max_tokens:
            raise StartupError(
                f"a window of {max_tokens} tokens has no room for text beside the {self.extra_tokens} added tokens"
            )

    def tokenise(self, texts: Sequence[str], purpose: Purpose) -> list[TokenisedText]:
        """Turns texts into token ids, with special tokens and the purpose's prompt, cut to the window."""
        prompt = self._prompts.for_purpose(purpose)
        encodings = self._encode([prompt + text for text in texts] if prompt else texts)
        return [self._finish(encoding) for encoding in encodings]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Counts each text's tokens, without special tokens and prompts."""
        return [len(encoding) for encoding in self._encode(texts)]

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        if self._lower_case:
            texts = [text.lower() for text in texts]
        return self._tokenizer.encode_batch(list(texts), add_special_tokens=False)

    def _finish(self, encoding: Encoding) -> TokenisedText:
        total = len(encoding) + self._special
        if total > self._max_tokens:
            encoding.truncate(self._max_tokens - self._special)
        return TokenisedText(tuple(self._tokenizer.post_process(encoding).ids), total)
