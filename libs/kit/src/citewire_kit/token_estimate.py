"""An estimate of token counts, for budgets and where a provider reports no usage.

Byte-pair vocabularies of current models hold about four ASCII characters to a token in English prose, about three in
code, one to one and a half characters in Cyrillic, Greek, Arabic or accented runs, and about one in Chinese, Japanese
and Korean. So: a token for four ASCII bytes and one for three other bytes of UTF-8. On prose it is within some 15 % of
the providers' own counts; on dense code and digits it is too low by up to a third.
"""

from typing import Final

ASCII_BYTES_PER_TOKEN: Final = 4
OTHER_BYTES_PER_TOKEN: Final = 3
MESSAGE_OVERHEAD: Final = 4
"""Tokens that a chat template adds around a message."""


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of `text`: 0 if it is empty, else at least 1."""
    if text.isascii():
        return -(-len(text) // ASCII_BYTES_PER_TOKEN)
    total = len(text.encode("utf-8", "surrogatepass"))
    ascii_bytes = len(text.encode("ascii", "ignore"))
    quarters = ascii_bytes * OTHER_BYTES_PER_TOKEN + (total - ascii_bytes) * ASCII_BYTES_PER_TOKEN
    return -(-quarters // (ASCII_BYTES_PER_TOKEN * OTHER_BYTES_PER_TOKEN))
