"""The files of a process's certificate, which their issuer replaces while the process runs."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_ATTEMPTS: Final = 3

Stamp = tuple[tuple[Path, int, int, int], ...]
"""Identifies the state of files: a different value means that a file was replaced."""


def stamp_of(paths: Iterable[Path]) -> Stamp:
    """Returns a value that changes when one of the files is replaced.

    Raises:
        OSError: A file can't be found.
    """
    states = [(path, path.stat()) for path in paths]
    return tuple((path, state.st_ino, state.st_mtime_ns, state.st_size) for path, state in states)


@dataclass(frozen=True, slots=True)
class TlsPair:
    """A certificate with its key, and the authority that both sides trust. All in PEM."""

    cert: bytes
    """The certificate's chain."""
    key: bytes = field(repr=False)
    """Its private key."""
    ca: bytes
    """Certificates of the authorities whose certificates are accepted."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of a process's certificate, its key and the authority's certificate."""

    cert: Path
    key: Path
    ca: Path

    def stamp(self) -> Stamp:
        """Returns a value that changes when a file is replaced.

        Raises:
            OSError: A file can't be found.
        """
        return stamp_of((self.cert, self.key, self.ca))

    def read(self) -> tuple[Stamp, TlsPair]:
        """Reads the files, all from the same renewal.

        Raises:
            OSError: A file can't be read, or they are replaced faster than they can be read.
        """
        for _ in range(_ATTEMPTS):
            before = self.stamp()
            pair = TlsPair(self.cert.read_bytes(), self.key.read_bytes(), self.ca.read_bytes())
            if self.stamp() == before:
                return before, pair
        raise OSError("the files keep changing")
