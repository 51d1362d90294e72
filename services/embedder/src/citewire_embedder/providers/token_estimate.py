"""How many tokens a remote model will make of a text: its tokeniser isn't here.

An estimate that errs upwards, so that what fits by it fits the model's window: a short word is a token, a long one
several; digits go by threes, punctuation one by one, and other scripts by their bytes.
"""

import re

_PARTS = re.compile(r"([A-Za-z]+)|([0-9]+)|([^\x00-\x7f]+)|([^\sA-Za-z0-9])")


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text."""
    tokens = 0
    for word, digits, other, _ in _PARTS.findall(text):
        if word:
            tokens += -(-len(word) // 6)
        elif digits:
            tokens += -(-len(digits) // 3)
        elif other:
            tokens += -(-len(other.encode("utf-8", "surrogatepass")) // 2)
        else:
            tokens += 1
    return tokens


def cut_to(text: str, tokens: int) -> str:
    """Returns the longest beginning of a text that has at most so many tokens by the estimate."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]
