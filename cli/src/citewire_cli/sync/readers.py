"""Users and groups who can read a file, from the modes of the file and its parent folders."""

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_ADMINISTRATOR: Final = 0
"""The user whom no mode keeps out."""

_Place = tuple[os.stat_result, int]
"""The file or a folder, and the bit that others need there."""


class Readers:
    """Determines who can read the files below a folder; the machine's users and groups are queried once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._real_root = root.resolve()
        self._groups_of = cache(_groups_of)
        self._members = cache(_members)

    def __call__(self, file: Path) -> tuple[str, ...]:
        """Returns who can reach a file from the root and read it, each `user:NAME` or `group:NAME`; () for all.

        Raises:
            OSError: the file or a folder can't be looked at.
        """
        places = [(file.stat(), stat.S_IROTH), *((folder.stat(), stat.S_IXOTH) for folder in self._folders(file))]
        shut = [place for place in places if not _lets_everybody_in(*place)]
        if not shut:
            return ()
        owners = {status.st_uid for status, _ in places}
        groups = {status.st_gid for status, _ in shut}
        # Who is in the file's group and in another folder's can read it too, and no group says so.
        passing = {gid for gid in groups if all(_lets_group_in(gid, *place) for place in shut)}
        members = {uid for gid in groups for uid in self._members(gid) if not passing & self._groups_of(uid)}
        users = {uid for uid in owners | members if self._lets_in(uid, places)}
        names = {*(f"user:{_user_name(uid)}" for uid in users), *(f"group:{_group_name(gid)}" for gid in passing)}
        return tuple(sorted(names or {f"user:{_user_name(_ADMINISTRATOR)}"}))

    def _folders(self, file: Path) -> Iterator[Path]:
        """The folders above a file up to the root; of a link also those above its target, which may be anywhere."""
        yield from _up_to(self._root, file)
        target = file.resolve()
        if target != self._real_root / file.relative_to(self._root):
            yield from _up_to(self._real_root, target)

    def _lets_in(self, uid: int, places: Iterable[_Place]) -> bool:
        """Whether a user passes every place: by the owner's bits, the group's or others', of which one set counts."""
        if uid == _ADMINISTRATOR:
            return True
        groups = self._groups_of(uid)
        return all(
            _has(status, others << (6 if status.st_uid == uid else 3 if status.st_gid in groups else 0))
            for status, others in places
        )


def _up_to(root: Path, file: Path) -> Iterator[Path]:
    for folder in file.parents:
        yield folder
        if folder == root:
            return


def _lets_everybody_in(status: os.stat_result, others: int) -> bool:
    """A mode may let others in and not its group: that can't be said of everybody."""
    return _has(status, others) and _has(status, others << 3)


def _lets_group_in(gid: int, status: os.stat_result, others: int) -> bool:
    return status.st_gid == gid and _has(status, others << 3)


def _has(status: os.stat_result, bit: int) -> bool:
    return bool(status.st_mode & bit)


def _groups_of(uid: int) -> frozenset[int]:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return frozenset()
    return frozenset(os.getgrouplist(user.pw_name, user.pw_gid))


def _members(gid: int) -> frozenset[int]:
    """Users whom this machine lists in a group."""
    uids: set[int] = set()
    with suppress(KeyError):
        for name in grp.getgrgid(gid).gr_mem:
            with suppress(KeyError):
                uids.add(pwd.getpwnam(name).pw_uid)
    return frozenset(uids)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
