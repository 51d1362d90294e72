"""An issuer of bearer tokens with claims chosen by a test, with discovery and keys like those of identity providers."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

AUDIENCE = "api"


@dataclass(frozen=True)
class TokenIssuer:
    """A running issuer."""

    url: str
    key: ec.EllipticCurvePrivateKey

    def token(self, **claims: Any) -> str:  # noqa: ANN401 # claims of any kind
        """A token with these claims, valid for an hour."""
        now = int(time.time())
        held = {"iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + 3600, **claims}
        return jwt.encode(held, self.key, algorithm="ES256", headers={"kid": "only"})


@asynccontextmanager
async def running_token_issuer() -> AsyncGenerator[TokenIssuer]:
    """Runs an issuer until the block ends."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "only", "use": "sig", "alg": "ES256"}

    async def discovery(request: web.Request) -> web.Response:
        url = str(request.url.origin())
        endpoints = {"authorization_endpoint": f"{url}/auth", "token_endpoint": f"{url}/token"}
        return web.json_response({"issuer": url, "jwks_uri": f"{url}/jwks", **endpoints})

    async def keys(_: web.Request) -> web.Response:
        return web.json_response({"keys": [public]})

    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", discovery)
    application.router.add_get("/jwks", keys)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield TokenIssuer(f"http://127.0.0.1:{runner.addresses[0][1]}", key)
    finally:
        await runner.cleanup()
