"""A folder as a source: its files as they are now, read only where they changed since the last look."""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.files import LeftOut, find_sources, fingerprint, inspect, sha256_of
from citewire_cli.sync.plan import SyncFile
from citewire_cli.sync.readers import Readers


@dataclass(frozen=True, slots=True)
class Listing:
    """The content of a folder."""

    files: dict[str, SyncFile]
    """By their path in the folder."""
    left_out: list[LeftOut]
    unseen: tuple[str, ...]
    """Paths of files and folders that couldn't be looked at."""
    failures: dict[str, CliError] = field(default_factory=dict[str, CliError])
    """Files that couldn't be fetched, by path."""

    def is_unseen(self, path: str) -> bool:
        """Whether nobody can tell now whether there is such a file."""
        return any(path == place or path.startswith(f"{place}/") for place in self.unseen)


@dataclass(frozen=True, slots=True)
class _Look:
    """The content found in a file when it had this size and these times."""

    state: tuple[int, ...]
    left_out: LeftOut | None
    sha256: str = ""


class Stopped(Exception):  # noqa: N818 # no error: what was to be done isn't wanted any more
    """The reading was stopped."""


class Folder:
    """See the module."""

    def __init__(self, root: Path, *, url_prefix: str = "", permissions: bool = False) -> None:
        """Reads nothing yet.

        Args:
            root: the folder.
            url_prefix: what stands before a file's path in its address; empty for files without one.
            permissions: whether a file's readers are those whom the file system names.

        Raises:
            CliError: it is no folder (usage).
        """
        if not root.is_dir():
            raise CliError("No such folder", str(root), ExitCode.USAGE)
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 # not resolved: the name is the one that is seen
        self._url_prefix = url_prefix
        self._permissions = permissions
        self.images = False
        """Whether images are documents."""
        self._looks: dict[Path, _Look] = {}
        self._stop = threading.Event()

    @property
    def default_name(self) -> str:
        """Identifies this folder of this machine without revealing its location."""
        return f"folder-{fingerprint(self.root)}"

    def close(self) -> None:
        """Ends the following; others may follow the same source."""

    def stop(self) -> None:
        """Makes a `read` in another thread raise `Stopped` soon; what it has fetched stays."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def check_stopped(self) -> None:
        """Raises `Stopped` if `stop` was called."""
        if self.stopped:
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Sleeps; raises `Stopped` as soon as `stop` is called."""
        self._stop.wait(seconds)
        self.check_stopped()

    def address(self, name: str) -> str:
        """Where people find a file; empty if nowhere."""
        return self._url_prefix + quote(name) if self._url_prefix else ""

    def read(self) -> Listing:
        """Looks at every file, and reads those that changed.

        Raises:
            CliError: the folder is gone, or its rules can't be read (usage).
            Stopped: `stop` was called.
        """
        before, self._looks = self._looks, {}

        def why_not_taken(file: Path) -> LeftOut | None:
            self.check_stopped()
            look = before.get(file)
            state = _state(file)
            if look is None or look.state != state:
                look = _look(file, state, images=self.images)
            self._looks[file] = look
            return look.left_out

        if not self.root.is_dir():
            raise CliError("The folder is gone", str(self.root), ExitCode.USAGE)
        sources, left_out = find_sources([self.root], self.root, why_not_taken)
        readers_of, files = Readers(self.root), dict[str, SyncFile]()
        for source in sources:
            try:
                readers = readers_of(source.path) if self._permissions else ()
            except OSError as error:
                left_out.append(LeftOut(source.path, f"it cannot be read: {error.strerror}", unseen=True))
                continue
            address = self.address(source.name)
            files[source.name] = SyncFile(source, self._looks[source.path].sha256, address, readers)
        unseen = [entry for entry in left_out if entry.unseen]
        if any(entry.path == self.root for entry in unseen):
            raise CliError("The folder cannot be read", f"{self.root}: {unseen[0].reason}", ExitCode.USAGE)
        return Listing(files, left_out, tuple(entry.path.relative_to(self.root).as_posix() for entry in unseen))


def _state(file: Path) -> tuple[int, ...]:
    try:
        status = file.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _look(file: Path, state: tuple[int, ...], *, images: bool) -> _Look:
    left_out = inspect(file, images=images)
    if left_out is not None:
        return _Look(state, left_out)
    try:
        return _Look(state, None, sha256_of(file))
    except OSError as error:
        return _Look((), LeftOut(file, f"it cannot be read: {error.strerror}", unseen=True))
