"""Sealing: which ciphertexts open, and master keys that change while the process runs."""

import base64
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_kit.errors import FailedPrecondition, StartupError
from citewire_remote.sealing import KeyFile, Keyring, Owner, new_master_key

OWNER = Owner("acme", "ana", "chat", "openai")
# Not random: they are part of test ids, which must be the same in every process of a run.
OLD, NEW = (f"{name}:{base64.urlsafe_b64encode(name.encode() * 16).decode()}" for name in ("k1", "k2"))


def test_a_secret_is_restored_and_no_two_ciphertexts_are_alike() -> None:
    keyring = Keyring.parse(NEW)
    first, second = keyring.seal("sk-canary-ä".encode(), OWNER), keyring.seal("sk-canary-ä".encode(), OWNER)
    assert keyring.open(first, OWNER) == keyring.open(second, OWNER) == "sk-canary-ä".encode()
    assert first != second
    assert b"canary" not in first


@pytest.mark.parametrize(
    "other",
    [
        replace(OWNER, org_id="evil"),
        replace(OWNER, user_id=""),
        replace(OWNER, user_id="bob"),
        replace(OWNER, type="embedding"),
        replace(OWNER, provider="openai-compatible"),
        replace(OWNER, field="api_base"),
        # The same characters, divided differently.
        replace(OWNER, org_id="acmea", user_id="na"),
    ],
)
def test_a_ciphertext_moved_to_another_row_does_not_open(other: Owner) -> None:
    keyring = Keyring.parse(NEW)
    sealed = keyring.seal(b"sk-canary", OWNER)
    with pytest.raises(FailedPrecondition) as raised:
        keyring.open(sealed, other)
    assert raised.value.reason == "PROVIDER_SEAL"
    with pytest.raises(FailedPrecondition):
        Keyring.parse(f"{new_master_key('k3')},{NEW}").rewrap(sealed, other)


def test_a_sealed_key_and_a_sealed_provider_are_not_interchangeable() -> None:
    """The previous version expects the field `key`: during a rollout it refuses newly sealed providers."""
    keyring, before = Keyring.parse(NEW), replace(OWNER, field="key")
    for owner, other in ((OWNER, before), (before, OWNER)):
        with pytest.raises(FailedPrecondition, match="unknown version"):
            keyring.open(keyring.seal(b"secret", owner), other)


@given(at=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_a_changed_ciphertext_does_not_open(at: int, flip: int) -> None:
    keyring = Keyring.parse(OLD)
    sealed = bytearray(keyring.seal(b"secret", OWNER))
    sealed[at % len(sealed)] ^= flip
    with pytest.raises(FailedPrecondition):
        keyring.open(bytes(sealed), OWNER)


@given(st.binary(max_size=200))
def test_garbage_does_not_open(sealed: bytes) -> None:
    with pytest.raises(FailedPrecondition):
        Keyring.parse(OLD).open(sealed, OWNER)


def test_rotation_rewraps_under_the_newest_key_so_that_the_oldest_can_go() -> None:
    sealed = Keyring.parse(OLD).seal(b"secret", OWNER)
    both = Keyring.parse(f"{NEW},{OLD}")
    assert both.open(sealed, OWNER) == b"secret"
    with pytest.raises(FailedPrecondition, match="master key"):
        Keyring.parse(NEW).open(sealed, OWNER)
    rewrapped = both.rewrap(sealed, OWNER)
    assert rewrapped is not None
    assert both.rewrap(rewrapped, OWNER) is None
    assert Keyring.parse(NEW).open(rewrapped, OWNER) == b"secret"
    with pytest.raises(FailedPrecondition):
        Keyring.parse(OLD).open(rewrapped, OWNER)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no master key"),
        ("k1", "written id:base64url"),
        ("k 1:" + OLD.partition(":")[2], "written id:base64url"),
        ("k1:c2hvcnQ=", "32 bytes"),
        ("k1:*" + "A" * 42, "isn't base64url"),
        (f"{OLD},{OLD}", "given twice"),
    ],
)
def test_malformed_keys_are_refused_without_being_shown(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        Keyring.parse(text)
    assert OLD.partition(":")[2] not in str(raised.value)


def test_keys_may_lack_padding_and_be_on_separate_lines() -> None:
    raw = os.urandom(32)
    text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert Keyring.parse(f"k9:{text}\n{OLD}\n").ids == ("k9", "k1")


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(OLD)
    source = KeyFile(path)
    assert source.keyring().first == "k1"
    path.write_text(f"{NEW}\n{OLD}\n")
    assert source.keyring().ids == ("k2", "k1")
    path.write_text("nonsense")
    assert source.keyring().ids == ("k2", "k1")
    path.unlink()
    assert source.keyring().ids == ("k2", "k1")
    path.write_text(NEW)
    assert source.keyring().ids == ("k2",)


def test_a_process_does_not_start_with_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    with pytest.raises(StartupError, match="No such file"):
        KeyFile(path)
    path.write_text("k1:short")
    with pytest.raises(StartupError, match="master keys can't be read"):
        KeyFile(path)
