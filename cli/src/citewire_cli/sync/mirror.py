"""Sources that aren't folders, as folders: each is mirrored into one of its own, which is then compared like any other.

What has been fetched stays there, so that the next run fetches only what changed, also after Ctrl-C.
"""

import fcntl
import hashlib
import re
from collections.abc import Container, Iterable
from pathlib import Path, PurePosixPath
from typing import IO, Final
from urllib.parse import urlsplit, urlunsplit

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.sync.folder import Folder, Listing

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s]*@")  # a password may contain an @


class Mirror(Folder):
    """A folder that is brought up to date before it is read."""

    def __init__(self, kind: str, address: str, cache: Path, *, inside: str = "", url_prefix: str = "") -> None:
        """Fetches nothing yet.

        Args:
            kind: what kind of source it is.
            address: tells the source from others; credentials in it don't count.
            cache: where mirrors are kept.
            inside: the folder of the source that is meant, relative to it.
            url_prefix: as of `Folder`.

        Raises:
            CliError: there is no place for a mirror, or another run is using it.
        """
        self._name = f"{kind}-{hashlib.sha256(without_credentials(address).encode()).hexdigest()[:16]}"
        self.home = cache / self._name
        """Where the mirror is kept, with what is known of it."""
        self.mirrored = self.home / "files"
        """The source's root."""
        try:
            (self.mirrored / inside).mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.home / "lock")
        except OSError as error:
            raise CliError("The source cannot be mirrored", f"{self.home}: {error.strerror}", ExitCode.USAGE) from error
        super().__init__(self.mirrored / inside, url_prefix=url_prefix)

    @property
    def default_name(self) -> str:
        """Identifies this source on every machine."""
        return self._name

    def close(self) -> None:
        """See `Folder.close`."""
        self._lock.close()

    def read(self) -> Listing:
        """Fetches what changed, and reads it.

        Raises:
            CliError: the source can't be listed to its end, or the disk is full: nothing is known of what the source
                holds, and nothing is done.
        """
        try:
            failures = self.refresh()
        except OSError as error:
            why = f"{self.home}: {error.strerror or error}. Another folder can be given by --cache."
            raise CliError("The source cannot be mirrored", why) from error
        listing = super().read()
        # What couldn't be fetched is as it was before; where that isn't known, its document stays.
        return Listing(listing.files, listing.left_out, (*listing.unseen, *failures), failures)

    def refresh(self) -> dict[str, CliError]:
        """Fetches what changed; returns what couldn't be fetched, by path.

        Raises:
            CliError: as `read`.
        """
        raise NotImplementedError

    def remove_others(self, names: Container[str]) -> None:
        """Removes what the source doesn't hold any more, folders that are empty then as well."""
        for path in sorted(self.mirrored.rglob("*"), reverse=True):  # what is in a folder before the folder
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif path.relative_to(self.mirrored).as_posix() not in names:
                path.unlink()


def without_credentials(text: str) -> str:
    """The text without what stands for a user and a password in addresses."""
    return _CREDENTIALS.sub("", text)


def split_fragment(address: str) -> tuple[str, str]:
    """An address without its fragment, and the fragment."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(fragment="")), parts.fragment


def folders_above(names: Iterable[str]) -> set[str]:
    """The folders that files of these names are in: a file can't be one of them too."""
    return {folder.as_posix() for name in names for folder in PurePosixPath(name).parents}


def _lock(path: Path) -> IO[bytes]:
    """Keeps other runs away from a mirror, until the file is closed."""
    file = path.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise CliError("Another run is syncing this source", "Wait until it has ended.", ExitCode.USAGE) from error
    return file
