"""`citewire sync` of Git repositories that are used in ways one doesn't think of first."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from citewire_cli.errors import CliError
from citewire_cli.sync.folder import Stopped
from citewire_cli.sync.git import GitRepository
from citewire_cli.sync.mirror import without_credentials


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def make_repository(folder: Path, **files: str) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet")
    return commit(folder, **files)


def commit(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name}.md").write_text(content)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "change")
    return folder


def files_of(repository: Path, cache: Path) -> list[str]:
    with closing(GitRepository(f"git+file://{repository}", cache)) as source:
        return sorted(source.read().files)


def is_running(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_sync_in_a_hook_leaves_the_repository_of_the_hook_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = make_repository(tmp_path / "origin", a="one")
    mine = make_repository(tmp_path / "mine", mine="my own")
    (mine / "draft.md").write_text("not committed")
    before = (mine / ".git/HEAD").read_text()
    for name, path in {"GIT_DIR": ".git", "GIT_WORK_TREE": "", "GIT_INDEX_FILE": ".git/index"}.items():
        monkeypatch.setenv(name, str(mine / path))
    assert files_of(origin, tmp_path / "cache") == ["a.md"]
    assert (sorted(path.name for path in mine.glob("*.md")), (mine / ".git/HEAD").read_text()) == (
        ["draft.md", "mine.md"],
        before,
    )


@pytest.mark.parametrize("lock", ["index.lock", "shallow.lock", "HEAD.lock"])
def test_locks_of_a_killed_run_are_removed(tmp_path: Path, lock: str) -> None:
    origin = make_repository(tmp_path / "origin", a="one")
    assert files_of(origin, tmp_path / "cache") == ["a.md"]
    commit(origin, b="two")
    (next((tmp_path / "cache").glob("git-*/files/.git")) / lock).touch()
    assert files_of(origin, tmp_path / "cache") == ["a.md", "b.md"]


def test_a_failure_names_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'git@host: Permission denied (publickey).' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(ssh))
    monkeypatch.delenv("GIT_SSH_COMMAND", raising=False)
    with closing(GitRepository("git+ssh://git@host.test/x.git", tmp_path)) as source:
        with pytest.raises(CliError, match=r"Permission denied .* Could not read from remote repository") as caught:
            source.read()
    assert "repository exists" not in str(caught.value)


@pytest.mark.parametrize("password", ["geheim", "ge@heim", "ge:he@im@"])
def test_no_part_of_a_password_is_shown(password: str) -> None:
    log = f"fatal: unable to access 'https://ada:{password}@host.test/a@b': refused by https://host.test/c@d"
    assert without_credentials(log) == (
        "fatal: unable to access 'https://host.test/a@b': refused by https://host.test/c@d"
    )


def test_pointers_of_lfs_are_no_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Git LFS is installed, whose filter can't fetch anything for a mirror, and fails."""
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    origin = make_repository(tmp_path / "origin", a="one", big=pointer)
    (origin / ".gitattributes").write_text("big.md filter=lfs diff=lfs merge=lfs -text\n")
    commit(origin)
    (tmp_path / "config").write_text('[filter "lfs"]\nsmudge = false\nprocess = false\nrequired = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    with closing(GitRepository(f"git+file://{origin}", tmp_path / "cache")) as source:
        listing = source.read()
    assert list(listing.files) == ["a.md"]
    assert "it is a pointer of Git LFS, and its content isn't here" in [entry.reason for entry in listing.left_out]
    assert listing.is_unseen("big.md")  # a document from a run that had the content stays


def test_a_fetch_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh, started = tmp_path / "ssh", tmp_path / "started"
    ssh.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 600\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(ssh))
    monkeypatch.delenv("GIT_SSH_COMMAND", raising=False)
    with closing(GitRepository("git+ssh://git@host.test/x.git", tmp_path)) as source:
        with ThreadPoolExecutor() as pool:
            reading = pool.submit(source.read)
            while not started.exists() or not started.read_text():
                assert not reading.done(), reading.result()
            source.stop()
            with pytest.raises(Stopped):
                reading.result(60)
    while is_running(int(started.read_text())):
        time.sleep(0.05)  # ends by the signal, or the test by its timeout
