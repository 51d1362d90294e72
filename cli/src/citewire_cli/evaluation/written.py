"""Files that a run leaves behind: checked before it starts, written whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path


def check_writable(path: Path) -> None:
    """Finds out whether a file may be written, so that nobody learns it after an hour of measuring.

    Raises:
        OSError: It may not.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {path.parent}", str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "may not be written", str(path))


def write_whole(path: Path, text: str) -> None:
    """Writes beside the file and then takes its place; what was there stays if that fails.

    Raises:
        OSError: It cannot be written.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # a pipe or a device has no place to take
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        beside.chmod(path.stat().st_mode if path.exists() else 0o644)
        beside.replace(path.resolve())
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
