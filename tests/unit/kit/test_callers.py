"""Signed callers: the tokens that a service accepts, and those that it refuses."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from citewire_kit.callers import verifier as verifier_module
from citewire_kit.callers.__main__ import make_keys, rotate_key
from citewire_kit.callers.signer import Signer, SigningKey, sign, to_jwk
from citewire_kit.callers.token import CALLER_KEY, audience_of_method, from_claims, to_claims
from citewire_kit.callers.verifier import MAX_TOKEN_CHARS, Peer, Verifier
from citewire_kit.errors import CitewireError, Code, InvalidArgument, StartupError, Unauthenticated
from citewire_kit.tenant import LOCAL_TENANT, Tenant, use_tenant

SEARCH = "/citewire.retriever.v1.RetrieverService/Search"
DELETE = "/citewire.retriever.v1.CorpusService/DeleteDocument"
ANN = Tenant("acme", "ann@acme.example", "pro", ("editor",), "key_7", ("Vertrieb & Söhne", "管理"))
OURS, THEIRS = Peer("mine", frozenset({"gateway"})), Peer("theirs", frozenset({"embedder"}))


@dataclass(frozen=True)
class Keys:
    """A folder of keys as created by `python -m citewire_kit.callers make`."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "issuers.json"

    def change(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Replaces the file of issuers."""
        content = json.loads(self.file.read_bytes())
        change(content["issuers"])
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(content))
        new.replace(self.file)

    def key(self, name: str = "gateway") -> SigningKey:
        return SigningKey.from_pem((self.folder / f"{name}.pem").read_bytes())

    def signer(self, name: str = "gateway") -> Signer:
        return Signer(f"citewire-{name}", self.folder / f"{name}.pem")

    def verifier(self, service: str = "retriever", *, tls: bool = False) -> Verifier:
        return Verifier(service, self.file, tls=tls)

    def token(self, tenant: Tenant = ANN, name: str = "gateway", **claims: object) -> str:
        """A token as the gateway makes it, with some claims changed, or left out if None."""
        now = int(time.time())
        start = {"iss": f"citewire-{name}", "aud": "citewire-retriever", "iat": now, "exp": now + 25}
        every = {**start, **to_claims(tenant), **claims}
        return sign(self.key(name), {claim: value for claim, value in every.items() if value is not None})


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Keys of the gateway and of a worker."""
    make_keys(tmp_path / "keys", {"gateway": (), "worker": ()})
    return Keys(tmp_path / "keys")


def sign_call(signer: Signer, tenant: Tenant = ANN, path: str = SEARCH, certificate: bytes = b"") -> str:
    with use_tenant(tenant):
        return dict(signer.metadata(path, certificate))[CALLER_KEY]


@contextmanager
def expect_refusal(code: Code, words: str) -> Generator[None]:
    with pytest.raises(CitewireError, match=words) as raised:
        yield
    assert (raised.value.code, raised.value.reason) == (
        code,
        {Code.UNAUTHENTICATED: "CALLER_INVALID", Code.PERMISSION_DENIED: "CALLER_FORBIDDEN"}[code],
    )


async def test_the_signed_tenant_is_the_caller(keys: Keys) -> None:
    token = sign_call(keys.signer())
    assert await keys.verifier().verify(token, SEARCH, None) == ANN
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    assert header == {"typ": "cw-caller+jwt", "alg": "EdDSA", "kid": keys.key().key_id}
    assert claims["exp"] - claims["iat"] <= 30


@given(
    groups=st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=200), max_size=200),
    roles=st.lists(st.sampled_from(["reader", "owner", "x" * 128]), max_size=32),
)
def test_every_tenant_survives_its_claims(groups: list[str], roles: list[str]) -> None:
    tenant = Tenant("o", "u", "basic", tuple(roles), "k", tuple(groups))
    assert from_claims(json.loads(json.dumps(to_claims(tenant)))) == tenant


async def test_two_hundred_groups_with_long_names_fit_and_more_are_refused(keys: Keys) -> None:
    groups = tuple(chr(0x20000 + number) * 200 for number in range(200))  # four bytes each in UTF-8
    token = sign_call(keys.signer(), Tenant("acme", "ann", "pro", groups=groups))
    assert len(token) < MAX_TOKEN_CHARS
    assert (await keys.verifier().verify(token, SEARCH, None)).groups == groups
    with pytest.raises(InvalidArgument, match=r"cw-groups names 201 groups; at most 200"):
        sign_call(keys.signer(), Tenant("acme", "ann", "pro", groups=(*groups, "one more")))
    too_many = keys.token(groups=["g"] * 201)
    with expect_refusal(Code.UNAUTHENTICATED, "names 201 groups"):
        await keys.verifier().verify(too_many, SEARCH, None)


SECONDS = "iat", "exp"
"""Claims given in seconds from now, as a test may run long after its collection."""
WRONG: list[tuple[str, str, dict[str, object]]] = [
    ("expired", "has expired", {"iat": -100, "exp": -75}),
    ("in the future", "isn't valid yet", {"iat": 1000, "exp": 1025}),
    ("of another service", "for another service", {"aud": "citewire-embedder"}),
    ("of several services", "for several services", {"aud": ["citewire-retriever", "citewire-embedder"]}),
    ("of another issuer", "its issuer isn't the key's", {"iss": "citewire-worker"}),
    ("long-lived", "is valid for 3600 s", {"exp": 3600, "iat": 0}),
    ("older than it says", "is valid for", {"iat": -3000}),
    ("without end", "a claim is missing", {"exp": None}),
    ("without audience", "a claim is missing|another service", {"aud": None}),
    ("of nobody", "a claim is missing", {"sub": None}),
    ("without organisation", "cw-org", {"org": None}),
    ("with a number as organisation", "must be strings", {"org": 7}),
    ("of a plan that isn't there", "cw-plan", {"plan": "gold"}),
    ("with a quote in its user", "cw-user", {"sub": "a' OR 1=1"}),
    ("with a string as roles", "must be a list", {"roles": "owner"}),
    ("with a string as cnf", "cnf is malformed", {"cnf": "x"}),
    ("with infinite life", "a claim is missing|malformed", {"exp": float("inf")}),
]


@pytest.mark.parametrize(("words", "claims"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
async def test_a_signed_token_with_wrong_claims_is_refused(keys: Keys, words: str, claims: dict[str, object]) -> None:
    with expect_refusal(Code.UNAUTHENTICATED, words):
        now = int(time.time())
        timed = {name: now + given for name in SECONDS if isinstance(given := claims.get(name), int)}
        await keys.verifier().verify(keys.token(ANN, "gateway", **claims | timed), SEARCH, None)


async def test_forged_tokens_are_refused(keys: Keys) -> None:
    good = keys.token()
    head, body, signature = good.split(".")
    strange = SigningKey(Ed25519PrivateKey.generate(), keys.key().key_id)
    claims = jwt.decode(good, options={"verify_signature": False})
    public = keys.key().private.public_key().public_bytes_raw()
    forged = {
        "by another key": sign(strange, claims),
        "with another body": f"{head}.{base64.urlsafe_b64encode(b'{}').decode().rstrip('=')}.{signature}",
        "cut": good[:-10],
        "longer": good + "AAAA",
        "without signature": f"{head}.{body}.",
        "of no algorithm": jwt.encode(claims, "", algorithm="none", headers={"kid": keys.key().key_id}),
        "by the public key as a secret": jwt.encode(claims, public, "HS256", {"kid": keys.key().key_id}),
        "of an unknown key": sign(SigningKey(strange.private, "unknown"), claims),
        "without a key's id": jwt.encode(claims, keys.key().private, "EdDSA"),
        "of another type": jwt.encode(claims, keys.key().private, "EdDSA", {"kid": keys.key().key_id}),
        "empty": "",
        "dots": "..",
        "not ASCII": "é.ü.\ud800",
        "deep": base64.urlsafe_b64encode(b"[" * 3000).decode() + ".e30.e30",
        "long": "A" * (MAX_TOKEN_CHARS + 1),
        "of a long head": "A" * 100_000 + ".e30.e30",
    }
    verifier = keys.verifier()
    for name, token in forged.items():
        with pytest.raises(Unauthenticated) as raised:
            await verifier.verify(token, SEARCH, None)
        assert raised.value.reason == "CALLER_INVALID", name
    assert await verifier.verify(good, SEARCH, None) == ANN


async def test_a_verified_token_is_refused_once_it_has_expired(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, token = keys.verifier(), keys.token()
    assert await verifier.verify(token, SEARCH, None) == ANN
    later = time.time() + 31

    class Later:
        """A clock for the verifier and the library, 31 seconds ahead."""

        def time(self) -> float:
            return later

    monkeypatch.setattr(verifier_module, "time", Later())
    with monkeypatch.context() as patch:
        patch.setattr(jwt.api_jwt, "datetime", _clock(later))
        with expect_refusal(Code.UNAUTHENTICATED, "has expired"):
            await verifier.verify(token, SEARCH, None)


def _clock(now: float) -> type:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.fromtimestamp(now, tz)

    return Clock


async def test_issuers_are_limited_to_their_organisations_and_methods(keys: Keys) -> None:
    keys.change(
        lambda issuers: issuers["citewire-worker"].update(
            organisations=["acme"], methods=["citewire.retriever.v1.RetrieverService/*"]
        )
    )
    verifier = keys.verifier()
    assert await verifier.verify(keys.token(name="worker"), SEARCH, None) == ANN
    with expect_refusal(Code.PERMISSION_DENIED, "may not call this method"):
        await verifier.verify(keys.token(name="worker"), DELETE, None)
    with expect_refusal(Code.PERMISSION_DENIED, "may not sign for this organisation"):
        await verifier.verify(keys.token(Tenant("other", "u", "pro"), "worker"), SEARCH, None)
    assert await verifier.verify(keys.token(), DELETE, None) == ANN


async def test_with_certificates_a_token_is_valid_only_under_its_own(keys: Keys) -> None:
    verifier = keys.verifier(tls=True)
    bound = keys.token(cnf={"x5t#S256": "mine"})
    assert await verifier.verify(bound, SEARCH, OURS) == ANN
    with expect_refusal(Code.UNAUTHENTICATED, "bound to another certificate"):
        await verifier.verify(bound, SEARCH, THEIRS)
    with expect_refusal(Code.UNAUTHENTICATED, "needs the claim cnf"):
        await verifier.verify(keys.token(), SEARCH, OURS)
    with expect_refusal(Code.PERMISSION_DENIED, "the certificate isn't one"):
        await verifier.verify(keys.token(cnf={"x5t#S256": "theirs"}), SEARCH, THEIRS)
    with expect_refusal(Code.UNAUTHENTICATED, "bound to another"):
        await keys.verifier().verify(bound, SEARCH, None)
    keys.change(lambda issuers: issuers["citewire-worker"].update(certificates=[]))
    with pytest.raises(StartupError, match=r"citewire-worker\.certificates: is required with TLS"):
        keys.verifier(tls=True)


async def test_a_platforms_tokens_are_valid_for_listed_subjects_only(keys: Keys) -> None:
    private = rsa.generate_private_key(65537, 2048)
    jwk: dict[str, Any] = {**json.loads(RSAAlgorithm.to_jwk(private.public_key())), "kid": "cluster"}
    (keys.folder / "cluster.json").write_text(json.dumps({"keys": [jwk]}))
    subject = {"organisation": "acme", "user": "reports", "plan": "basic", "methods": [SEARCH[1:]]}
    entry = {
        "keys_file": "cluster.json",
        "methods": ["*"],
        "lifetime_seconds": 3600,
        "subjects": {"system:serviceaccount:reports:nightly": subject},
    }
    keys.change(lambda issuers: issuers.update({"https://cluster.example": entry}))
    verifier = keys.verifier()

    def projected_token(subject: str) -> str:
        now = int(time.time())
        claims = {"iss": "https://cluster.example", "aud": ["citewire-retriever"], "sub": subject}
        return jwt.encode({**claims, "iat": now - 10, "exp": now + 3500}, private, "RS256", {"kid": "cluster"})

    nightly = projected_token("system:serviceaccount:reports:nightly")
    assert await verifier.verify(nightly, SEARCH, None) == Tenant("acme", "reports", "basic")
    with expect_refusal(Code.PERMISSION_DENIED, "may not call this method"):
        await verifier.verify(nightly, DELETE, None)
    with expect_refusal(Code.PERMISSION_DENIED, "subject isn't one"):
        await verifier.verify(projected_token("system:serviceaccount:reports:default"), SEARCH, None)


async def test_keys_are_replaced_while_calls_go_on(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_kit.watched._LOOK_SECONDS", 0.0)
    signer, verifier, old = keys.signer(), keys.verifier(), keys.key()
    before = sign_call(signer)
    steps: list[str] = []

    def call(_seconds: float) -> None:
        """Makes a call during each wait of the rotation."""
        token = sign_call(signer)
        steps.append(jwt.get_unverified_header(token)["kid"])

    monkeypatch.setattr("citewire_kit.callers.__main__.time.sleep", call)
    rotate_key(keys.folder, "gateway", known_seconds=1, last_seconds=1)
    new = keys.key()
    assert steps == [old.key_id, new.key_id]
    assert new.key_id != old.key_id
    assert await verifier.verify(sign_call(signer), SEARCH, None) == ANN
    with expect_refusal(Code.UNAUTHENTICATED, "its key isn't one"):
        await verifier.verify(before, SEARCH, None)
    assert (keys.folder / "gateway.pem").stat().st_mode & 0o077 == 0
    assert not (keys.folder / "gateway.next.pem").exists()


async def test_a_file_that_breaks_at_run_time_changes_nothing(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_kit.watched._LOOK_SECONDS", 0.0)
    verifier = keys.verifier()
    keys.file.write_text("{")
    assert await verifier.verify(keys.token(), SEARCH, None) == ANN
    keys.file.unlink()
    assert await verifier.verify(keys.token(), SEARCH, None) == ANN


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("citewire-gateway.methods: ", {"methods": []}),
        ("citewire-gateway.methods", {"methods": ["Search"]}),
        ("organisations: must list those", {"organisations": []}),
        ("set exactly one of keys, keys_file and keys_url", {"keys": []}),
        ("set exactly one of keys, keys_file and keys_url", {"keys_file": "x"}),
        ("lifetime_seconds: at most 25 without subjects", {"lifetime_seconds": 600}),
        ("unknown: Extra inputs", {"unknown": 1}),
        ("a key can't be used", {"keys": [{"kty": "EC"}]}),
        ("must be a public one", {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "x"}]}),
        ("needs a kid", {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "A" * 43}]}),
    ],
)
def test_an_invalid_file_stops_the_start(keys: Keys, words: str, change: dict[str, object]) -> None:
    keys.change(lambda issuers: issuers["citewire-gateway"].update(change))
    with pytest.raises(StartupError, match=words):
        keys.verifier()


def test_private_keys_are_refused_where_public_ones_belong(keys: Keys) -> None:
    jwk = to_jwk(keys.key().private.public_key()) | {"d": "A" * 43}
    keys.change(lambda issuers: issuers["citewire-gateway"].update(keys=[jwk]))
    with pytest.raises(StartupError, match="contains a private key"):
        keys.verifier()


def test_a_key_that_cannot_sign_stops_the_start(keys: Keys, tmp_path: Path) -> None:
    for name, content in {"none": None, "text": b"key", "rsa": _rsa_pem()}.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(StartupError, match="CITEWIRE_CALLER_KEY"):
            Signer("x", path)


def _rsa_pem() -> bytes:
    return rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_without_a_key_calls_are_for_the_local_tenant_only(keys: Keys) -> None:
    signer = Signer("x", None)
    with use_tenant(LOCAL_TENANT):
        assert signer.metadata(SEARCH) == ()
    with use_tenant(ANN), pytest.raises(Unauthenticated, match="CITEWIRE_CALLER_KEY"):
        signer.metadata(SEARCH)
    assert keys.signer().metadata(SEARCH) == (), "there is no caller"
    with use_tenant(ANN):
        assert keys.signer().metadata("/grpc.health.v1.Health/Check") == ()


def test_a_token_is_reused_while_it_is_fresh(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    signer = keys.signer()
    first = sign_call(signer)
    assert sign_call(signer) == first
    assert sign_call(signer, path="/citewire.embedder.v1.EmbedderService/Embed") != first
    assert sign_call(signer, Tenant("acme", "bob", "pro")) != first
    now = time.time()
    monkeypatch.setattr("citewire_kit.callers.signer.time.time", lambda: now + 16)
    assert sign_call(signer) != first
    assert audience_of_method(SEARCH) == audience_of_method(DELETE) == "citewire-retriever"


def test_existing_keys_are_left_alone(keys: Keys) -> None:
    before = {path.name: path.read_bytes() for path in keys.folder.iterdir()}
    make_keys(keys.folder, {"gateway": (), "worker": ()})
    assert {path.name: path.read_bytes() for path in keys.folder.iterdir()} == before
