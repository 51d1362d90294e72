"""Counts the steps of a piece of work: the executed lines of our code, and the characters that its patterns scan.

Unlike time it is the same on every machine, so that a test can compare the steps of a text with those of a longer one.
Other work of the interpreter in one line (a slice, a join) counts as one step.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeGuard, cast

_PACKAGES = ("citewire_verify", "citewire_generator", "citewire_remote", "citewire_gateway", "citewire_http")
_FAILED = 64
"""Number of characters counted for a match that fails at its start."""


class StepCounter:
    """The steps so far."""

    def __init__(self) -> None:
        self.steps = 0


class _CountingPattern:
    """A pattern that counts the characters that it scans."""

    def __init__(self, pattern: re.Pattern[str], counter: StepCounter) -> None:
        self._pattern, self._counter = pattern, counter

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 # the pattern's own members
        return getattr(self._pattern, name)

    def _at_start(self, match: re.Match[str] | None, text: str, pos: int, endpos: int) -> re.Match[str] | None:
        reach = min(len(text), endpos) - pos
        self._counter.steps += match.end() - pos if match else min(reach, _FAILED)
        return match

    def match(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        return self._at_start(self._pattern.match(text, pos, endpos), text, pos, endpos)

    def fullmatch(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        return self._at_start(self._pattern.fullmatch(text, pos, endpos), text, pos, endpos)

    def search(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        match = self._pattern.search(text, pos, endpos)
        self._counter.steps += max((match.end() if match else min(len(text), endpos)) - pos, 0)
        return match

    def finditer(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[re.Match[str]]:
        at = pos
        for match in self._pattern.finditer(text, pos, endpos):
            self._counter.steps += match.end() - at
            at = match.end()
            yield match
        self._counter.steps += max(min(len(text), endpos) - at, 0)

    def findall(self, text: str) -> list[Any]:
        self._counter.steps += len(text)
        return self._pattern.findall(text)

    def split(self, text: str) -> list[Any]:
        self._counter.steps += len(text)
        return self._pattern.split(text)

    def sub(self, replacement: Any, text: str, count: int = 0) -> str:  # noqa: ANN401 # a text or a function
        self._counter.steps += len(text)
        return self._pattern.sub(replacement, text, count)


def _is_pattern(value: object) -> TypeGuard[re.Pattern[str]]:
    return isinstance(value, re.Pattern)


@contextmanager
def _counted_patterns(counter: StepCounter) -> Generator[None]:
    replaced: list[tuple[Any, str, re.Pattern[str]]] = []
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(_PACKAGES):
            members = cast("dict[str, object]", vars(module)).items()
            for name, pattern in [(name, value) for name, value in members if _is_pattern(value)]:
                replaced.append((module, name, pattern))
                setattr(module, name, _CountingPattern(pattern, counter))
    try:
        yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)


def count_steps(work: Callable[[], object]) -> int:
    """Runs some work and returns its steps."""
    counter = StepCounter()

    def on_line(_: FrameType, event: str, __: object) -> Any:  # noqa: ANN401 # the interpreter's own protocol
        if event == "line":
            counter.steps += 1
        return on_line

    def on_call(frame: FrameType, _: str, __: object) -> Any:  # noqa: ANN401 # the interpreter's own protocol
        return on_line if str(frame.f_globals.get("__name__", "")).startswith(_PACKAGES) else None

    before = sys.gettrace()
    with _counted_patterns(counter):
        sys.settrace(on_call)
        try:
            work()
        finally:
            sys.settrace(before)
    return counter.steps
