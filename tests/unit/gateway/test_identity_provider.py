"""Providers that lie, stall or change their keys, and forged tokens."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from citewire_accounts.people import provider as provider_module
from citewire_accounts.people.claims import read_person
from citewire_accounts.people.issuers import Issuer, check_issuers, read_issuers
from citewire_accounts.people.provider import Provider, RejectedGrantError, open_http
from citewire_accounts.people.sealer import Sealer
from citewire_accounts.people.sessions import SessionStore
from citewire_accounts.people.sign_in import CALLBACK, Departure, SignIn
from citewire_kit.errors import Unauthenticated, Unavailable
from citewire_kit.tenant import is_token
from waiting import BUSY_SECONDS

Json = dict[str, Any]
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, key_id: str) -> Json:
    if isinstance(key, rsa.RSAPrivateKey):
        public = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        public = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**public, "kid": key_id, "use": "sig"}


@dataclass
class Liar:
    """A provider whose answers a test sets."""

    issuer: str = ""
    discovery: Json = field(default_factory=dict[str, Any])
    keys: list[Json] = field(default_factory=lambda: [jwk_of(RSA_KEY, "k1")])
    answers: dict[str, Callable[[web.Request], Any]] = field(default_factory=dict[str, Callable[[web.Request], Any]])
    asked: list[str] = field(default_factory=list[str])

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in self.answers:
            return await self.answers[request.path](request)
        if request.path == "/jwks":
            return web.json_response({"keys": self.keys})
        return web.json_response(self.document() | self.discovery)

    def document(self) -> Json:
        endpoints = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "jwks_uri": "/jwks"}
        return {"issuer": self.issuer, **{name: self.issuer + path for name, path in endpoints.items()}}

    def token(self, key: Any = RSA_KEY, algorithm: str = "RS256", key_id: str = "k1", **claims: Any) -> str:  # noqa: ANN401 # keys and claims of any kind
        now = int(time.time())
        held = {"iss": self.issuer, "aud": "api", "sub": "ada", "iat": now, "exp": now + 60, **claims}
        held = {name: value for name, value in held.items() if value is not None}
        return jwt.encode(held, key, algorithm=algorithm, headers={"kid": key_id})


@asynccontextmanager
async def running_liar() -> AsyncGenerator[Liar]:
    liar, application = Liar(), web.Application()
    application.router.add_route("*", "/{path:.*}", liar.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    liar.issuer = f"http://{host}:{port}"
    yield liar
    await runner.cleanup()


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    async with running_liar() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with open_http() as client:
        yield client


@pytest.fixture
def provider(liar: Liar, http: httpx.AsyncClient) -> Provider:
    return Provider(Issuer(issuer=liar.issuer, client_id="citewire", audience="api", org="acme"), http)


async def refusal(provider: Provider, token: str) -> str:
    with pytest.raises(Unauthenticated) as caught:
        await provider.verify(token, "api")
    assert caught.value.reason == "TOKEN_INVALID"
    return caught.value.message


def unsigned(token: str) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none","kid":"k1"}').rstrip(b"=").decode()
    return f"{header}.{token.split('.')[1]}."


async def test_a_valid_token_is_accepted(liar: Liar, provider: Provider) -> None:
    assert (await provider.verify(liar.token(), "api"))["sub"] == "ada"
    assert (await provider.verify(liar.token(nonce="n"), "api", nonce="n"))["nonce"] == "n"
    assert (await provider.verify(liar.token(exp=int(time.time()) - 20), "api"))["sub"] == "ada", "clocks may differ"


@pytest.mark.parametrize("claims", [{}, {"azp": "importer"}, {"client_id": "importer"}])
async def test_an_access_token_of_another_client_for_several_audiences_is_accepted(
    liar: Liar, provider: Provider, claims: Json
) -> None:
    """Keycloak, Okta and Entra issue such tokens for a service's own client: only the audience counts."""
    audiences = ["account", "api"] + ["citewire"] * ("azp" in claims)
    assert (await provider.verify(liar.token(aud=audiences, **claims), "api"))["sub"] == "ada"
    with pytest.raises(Unauthenticated, match="not for the audience"):
        await provider.verify(liar.token(aud=["account"], **claims), "api")


async def test_an_id_token_for_several_audiences_must_be_ours_and_is_no_access_token(
    liar: Liar, provider: Provider
) -> None:
    audiences = ["citewire", "api"]
    for own in (liar.token(aud=audiences), liar.token(aud=audiences, azp="citewire")):
        assert (await provider.verify(own, "citewire", id_token=True))["sub"] == "ada"
        assert "is an ID token" in await refusal(provider, own)
    with pytest.raises(Unauthenticated, match="another client"):
        await provider.verify(liar.token(aud=audiences, azp="other"), "citewire", id_token=True)


async def test_a_service_account_of_kubernetes_is_a_user(liar: Liar, http: httpx.AsyncClient) -> None:
    """An API server's documents and tokens, as Kubernetes describes them: there are no endpoints for signing in."""
    liar.discovery = {
        "jwks_uri": f"{liar.issuer}/openid/v1/jwks",
        "authorization_endpoint": "urn:kubernetes:programmatic_authorization",
        "token_endpoint": None,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    keys = [{name: value for name, value in jwk_of(RSA_KEY, "k1").items() if name != "key_ops"} | {"alg": "RS256"}]

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"keys": keys})

    liar.answers["/openid/v1/jwks"] = answer
    (issuer,) = read_issuers(
        json.dumps(
            [{"name": "cluster", "issuer": liar.issuer, "audience": "citewire", "org": "acme", "groups_claim": ""}]
        )
    )
    provider, now = Provider(issuer, http), int(time.time())
    account = {"name": "importer", "uid": "5c0e9c6e-7b5f-4a4f-8f4d-2f3f0d1f7c11"}
    pod = {"name": "importer-7d4b9", "uid": "0f8a3c1e-6a66-4f0c-9d8e-9b1a5d2c7e42"}
    claims: dict[str, Any] = {
        "aud": ["citewire"],
        "sub": "system:serviceaccount:data:importer",
        "iat": now,
        "nbf": now,
        "exp": now + 3607,
        "jti": "1f1b3c1c-8f6e-4f2b-a7e1-0e2f4e8b5a90",
        "kubernetes.io": {"namespace": "data", "serviceaccount": account, "pod": pod},
    }
    person = read_person(issuer, await provider.verify(liar.token(**claims), issuer.audience))
    assert (person.org_id, person.user_id, person.groups, person.roles) == (
        "acme",
        "system:serviceaccount:data:importer",
        (),
        None,
    )
    wrongs: tuple[dict[str, Any], ...] = (
        {"aud": ["https://kubernetes.default.svc"]},
        {"exp": now - 3600},
        {"iss": "https://elsewhere"},
    )
    for wrong in wrongs:
        with pytest.raises(Unauthenticated):
            await provider.verify(liar.token(**claims | wrong), issuer.audience)
    # Users can't sign in there, which a provider of users must support.
    people = Provider(Issuer(issuer=liar.issuer, client_id="citewire", org="acme"), http)
    with pytest.raises(Unavailable):
        await people.metadata()


async def test_invalid_tokens_are_refused(liar: Liar, provider: Provider) -> None:
    now = int(time.time())
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    good = liar.token()
    forged = good.split(".")
    forged[0] = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"k1"}').rstrip(b"=").decode()
    public = json.dumps(jwk_of(RSA_KEY, "k1")).encode()  # the public key, used as a shared secret
    mac = hmac.digest(public, ".".join(forged[:2]).encode(), "sha256")
    signed_by_public_key = ".".join([*forged[:2], base64.urlsafe_b64encode(mac).rstrip(b"=").decode()])
    for token, message in (
        (unsigned(good), "a different algorithm"),
        (signed_by_public_key, "a different algorithm"),
        (liar.token(other), "no valid signature"),
        (good[:-8] + "AAAAAAAA", "no valid signature"),
        (liar.token(aud="elsewhere"), "not for the audience"),
        (liar.token(aud=None), "lacks the claim aud"),
        (liar.token(iss="https://elsewhere.example"), "not from the issuer"),
        (liar.token(exp=now - 3600), "expired"),
        (liar.token(exp=None), "lacks the claim exp"),
        (liar.token(sub=None), "lacks the claim sub"),
        (liar.token(iat=now + 3600), "issued in the future"),
        (liar.token(nbf=now + 3600), "issued in the future"),
        (liar.token(key_id="k2"), "its issuer doesn't have"),
        (liar.token(EC_KEY, "ES256"), "a different algorithm"),
        (liar.token(x="y" * 20_000), "longer than"),
        ("a.b.c", "no JWT"),
    ):
        assert message in await refusal(provider, token), message
    with pytest.raises(Unauthenticated, match="nonce"):
        await provider.verify(liar.token(nonce="other"), "api", nonce="n")


async def test_unknown_keys_do_not_hammer_the_provider(
    liar: Liar, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await provider.verify(liar.token(), "api")
    tokens = [liar.token(key_id=f"made-up-{number}") for number in range(200)]
    await asyncio.gather(*(refusal(provider, token) for token in tokens))
    assert liar.asked.count("/jwks") == 1, "the keys were requested a moment ago"
    monkeypatch.setattr(provider_module, "_AGAIN_SECONDS", 0.0)
    liar.keys = [jwk_of(EC_KEY, "k2")]
    assert (await provider.verify(liar.token(EC_KEY, "ES256", "k2"), "api"))["sub"] == "ada", "the keys were rotated"
    assert "doesn't have" in await refusal(provider, liar.token())


async def test_keys_that_are_not_for_signatures_verify_none(liar: Liar, provider: Provider) -> None:
    secret = base64.urlsafe_b64encode(b"s" * 32).decode()
    liar.keys = [
        {"kty": "oct", "k": secret, "kid": "shared", "alg": "HS256"},
        {**jwk_of(RSA_KEY, "encrypts"), "use": "enc"},
        {"kty": "RSA", "kid": "broken"},
        "nonsense",  # type: ignore[list-item] # what a liar sends
    ]
    assert "doesn't have" in await refusal(provider, liar.token(b"s" * 32, "HS256", "shared"))
    assert "doesn't have" in await refusal(provider, liar.token(key_id="encrypts"))


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://elsewhere.example"},
        {"jwks_uri": "http://192.0.2.1/jwks"},
        {"token_endpoint": "ftp://127.0.0.1/token"},
        {"authorization_endpoint": 7},
        {"jwks_uri": None},
    ],
)
async def test_a_discovery_document_that_leads_elsewhere_is_not_used(
    liar: Liar, provider: Provider, discovery: Json
) -> None:
    liar.discovery = discovery
    with pytest.raises(Unavailable):
        await provider.metadata()
    for _ in range(50):  # and it isn't requested again and again
        with pytest.raises(Unavailable):
            await provider.metadata()
    assert len(liar.asked) == 1


async def test_a_huge_or_endless_answer_is_abandoned(
    liar: Liar, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while sent < 64 * 1024 * 1024:
            await response.write(b'{"a":"' + b"x" * 65_536)
            sent += 65_536
        return response

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.05)

    path = "/.well-known/openid-configuration"
    liar.answers[path] = endless
    with pytest.raises(Unavailable):
        await provider.metadata()
    assert sent < 16 * 1024 * 1024
    liar.answers[path] = drip
    monkeypatch.setattr(provider_module, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(provider_module, "_SECONDS", 0.3)
    started = time.monotonic()
    with pytest.raises(Unavailable):
        await provider.metadata()
    assert time.monotonic() - started < BUSY_SECONDS


async def test_deep_json_and_redirects_are_refused(
    liar: Liar, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_module, "_AGAIN_SECONDS", 0.0)

    async def deep(_request: web.Request) -> web.Response:
        return web.Response(text="[" * 100_000, content_type="application/json")

    async def redirect(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:9/"})

    for answer in (deep, redirect):
        liar.answers["/.well-known/openid-configuration"] = answer
        with pytest.raises(Unavailable):
            await provider.metadata()


async def test_a_refusal_of_the_provider_differs_from_a_failure(liar: Liar, provider: Provider) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return web.json_response({"error": "invalid_grant"}, status=400)

    async def broken(_request: web.Request) -> web.Response:
        return web.Response(status=500, text="<html>stack trace</html>")

    liar.answers["/token"] = refuse
    with pytest.raises(RejectedGrantError):
        await provider.refresh("r")
    liar.answers["/token"] = broken
    with pytest.raises(Unavailable) as caught:
        await provider.refresh("r")
    assert "stack trace" not in caught.value.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"issuer": "http://id.example.org"}, "https"),
        ({"issuer": "https://id.example.org?x=1"}, "https"),
        ({"org": ""}, "org or org_claim"),
        ({"org_claim": "tenant"}, "org or org_claim"),
        ({"org": "", "org_claim": "tenant"}, "orgs must list"),
        ({"org": "a b"}, "organisation must be"),
        ({"client_id": ""}, "client_id"),
        ({"client_id": "api", "audience": "api"}, "ID token"),
        ({"request_scopes": "email"}, "openid"),
        ({"name": "A B"}, "1-32"),
        ({"roles": {"x": "root"}}, "roles"),
        ({"rolls": {}}, "rolls"),
    ],
)
def test_inconsistent_settings_are_refused(fields: Json, message: str) -> None:
    right = {"issuer": "https://id.example.org", "client_id": "citewire", "org": "acme"}
    Issuer.model_validate(right)
    with pytest.raises(ValueError, match=message):
        Issuer.model_validate(right | fields)


@pytest.mark.parametrize("text", ["{", "{}", '"x"', '[{"issuer": 1, "client_secret": "hush-hush"}]', "[" * 100_000])
def test_a_wrong_list_of_issuers_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_issuers(text)
    assert "hush" not in str(caught.value)


def test_two_issuers_never_name_the_same_user() -> None:
    def issuer(name: str, **fields: Any) -> Issuer:  # noqa: ANN401 # fields of any kind
        return Issuer(name=name, issuer=f"https://{name}.example.org", client_id="citewire", **fields)

    first = issuer("one", org="acme")
    check_issuers((first, issuer("two", org="other")))
    check_issuers((first, issuer("two", org="acme", user_prefix="two.")))
    for other in (issuer("two", org="acme"), issuer("two", org_claim="t", orgs=("x", "acme")), issuer("one", org="x")):
        with pytest.raises(ValueError, match=r"one"):
            check_issuers((first, other))


def test_subjects_of_any_characters_are_distinct_users() -> None:
    issuer = Issuer(issuer="https://id.example", audience="api", org="acme")
    subjects = ["auth0|123", "auth0|124", "ada lovelace", "李", "a\x00b", "\ud800", "\udc00", "’ OR 1=1", "x" * 5000]
    users = [read_person(issuer, {"sub": subject}).user_id for subject in subjects]
    assert len({*users}) == len(subjects)
    assert all(is_token(user) for user in users)


def sign_in_at(providers: dict[str, Liar], http: httpx.AsyncClient) -> SignIn:
    issuers = {
        name: Issuer(name=name, issuer=liar.issuer, client_id="citewire", org="acme")
        for name, liar in providers.items()
    }
    return SignIn(
        {name: Provider(issuer, http) for name, issuer in issuers.items()},
        cast("SessionStore", None),  # it is never reached
        Sealer(("s" * 32,)),
        public_url="https://citewire.example",
        lifetime=timedelta(hours=1),
    )


def sent_with(departure: Departure) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(departure.url).query).items()}


async def test_a_providers_code_is_never_handed_to_another(http: httpx.AsyncClient) -> None:
    """The mix-up attack (RFC 9700 4.4.1): a sign-in at `evil` is redirected to `honest` with evil's state."""
    async with running_liar() as evil, running_liar() as honest:
        sign_in = sign_in_at({"evil": evil, "honest": honest}, http)
        departure = await sign_in.begin("evil", "/")
        sent = sent_with(departure)
        assert sent["redirect_uri"] == "https://citewire.example/v1/auth/callback/evil"
        assert sent_with(await sign_in.begin("honest", "/"))["redirect_uri"].endswith("/callback/honest")
        answer = {"state": sent["state"], "code": "honest's code"}
        for came_back_to, more in (
            (f"{CALLBACK}/honest", {}),
            (CALLBACK, {}),
            (f"{CALLBACK}/evil", {"iss": honest.issuer}),
        ):
            with pytest.raises(Unauthenticated) as caught:
                await sign_in.finish(departure.pending, came_back_to, {**answer, **more}, "")
            assert (caught.value.reason, "a different identity provider" in caught.value.message) == (
                "SIGN_IN_FAILED",
                True,
            )
            assert "/token" not in evil.asked, came_back_to
        with pytest.raises(Unauthenticated):
            await sign_in.finish(departure.pending, f"{CALLBACK}/evil", {**answer, "code": "its own"}, "")
        assert "/token" in evil.asked, "an answer at evil's own address goes to evil"


async def test_a_provider_that_names_itself_or_is_the_only_one_has_the_common_address(
    liar: Liar, http: httpx.AsyncClient
) -> None:
    common = f"https://citewire.example{CALLBACK}"
    assert sent_with(await sign_in_at({"default": liar}, http).begin(None, "/"))["redirect_uri"] == common
    async with running_liar() as other:
        other.discovery["authorization_response_iss_parameter_supported"] = True
        sign_in = sign_in_at({"default": liar, "other": other}, http)
        departure = await sign_in.begin("other", "/")
        assert sent_with(departure)["redirect_uri"] == common
        with pytest.raises(Unauthenticated, match="a different identity provider"):
            await sign_in.finish(departure.pending, CALLBACK, {"state": sent_with(departure)["state"], "code": "x"}, "")
