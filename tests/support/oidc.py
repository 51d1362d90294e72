"""The certified `oidc-provider` from npm beside a gateway, and a browser's steps in a sign-in, without a browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from databases import HasDsn
from gateway_fake_servers import Fakes
from gateway_process import Gateway, running_gateway
from local_ports import free_port

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
VERSION = "9.13.3"
SCRIPT = ROOT / "tests" / "support" / "oidc_provider.mjs"
SECRETS = "a-session-secret-of-forty-characters-yes"
ISSUER: Json = {
    "client_id": "citewire",
    "client_secret": "a+secret/with: characters%",
    "request_scopes": "openid offline_access",
    "audience": "urn:citewire",
    "org_claim": "tenant",
    "orgs": ["acme", "umbrella"],
    "roles_claim": "citewire_roles",
    "roles": {"kb-admins": "admin", "kb-editors": "editor"},
}


@dataclass(frozen=True)
class OidcProvider:
    """A running provider."""

    issuer: str
    http: httpx.AsyncClient

    async def put_account(self, name: str, **claims: object) -> None:
        """Creates or changes an account."""
        (await self.http.post("/test/account", json={"id": name, **claims})).raise_for_status()

    async def counts(self) -> dict[str, int]:
        """Number of requests for each path."""
        return (await self.http.get("/test/counts")).json()

    async def service_token(self) -> str:
        """An access token of a service."""
        form = {"grant_type": "client_credentials", "scope": "api"}
        response = await self.http.post("/token", data=form, auth=("batch", "batch-secret"))
        return response.json()["access_token"]


def provider_home() -> Path:
    """A folder where `oidc-provider` is installed, kept between runs."""
    home = ROOT / ".citewire-bench" / f"oidc-provider-{VERSION}"
    if not (home / "done").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run([*command, f"oidc-provider@{VERSION}"], cwd=home, check=True, timeout=240)
        (home / "done").touch()
    return home


@asynccontextmanager
async def running_provider(gateway_url: str) -> AsyncGenerator[OidcProvider]:
    """Runs the provider until the block ends."""
    home = await asyncio.to_thread(provider_home)
    process = await asyncio.create_subprocess_exec(
        "node", str(SCRIPT), f"{gateway_url}/v1/auth/callback", f"{gateway_url}/",
        cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            issuer = json.loads(await process.stdout.readline())["issuer"]
        async with httpx.AsyncClient(base_url=issuer, trust_env=False, timeout=30) as http:
            yield OidcProvider(issuer, http)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def gateway_with_provider(
    database: HasDsn, fakes: Fakes, **issuer: object
) -> AsyncGenerator[tuple[Gateway, OidcProvider]]:
    """Runs a gateway and its identity provider."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with running_provider(url) as provider:
        settings = sign_in_settings(url, {"issuer": provider.issuer, **ISSUER, **issuer})
        async with running_gateway(database, fakes, port=port, **settings) as gateway:
            yield gateway, provider


def sign_in_settings(url: str, *issuers: Json) -> Json:
    """The settings of a gateway with sign-in."""
    return {"auth": "keys", "oidc_issuers": json.dumps(issuers), "public_url": url, "session_secrets": SECRETS}


@dataclass
class Browser:
    """A browser's steps in a sign-in: it follows redirects, keeps cookies by origin, and fills in a form."""

    http: httpx.AsyncClient
    cookies: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    trail: list[str] = field(default_factory=list[str])

    async def go(
        self, url: str, *, method: str = "GET", form: Json | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Makes a request with the cookies of its origin."""
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        jar = self.cookies.setdefault(origin, {})
        given = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items()), **(headers or {})}
        response = await self.http.request(method, url, data=form, headers=given, follow_redirects=False)
        for line in response.headers.get_list("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            if value and "max-age=0" not in line.lower() and "expires=Thu, 01 Jan 1970" not in line:
                jar[name] = value
            else:
                jar.pop(name, None)
        self.trail.append(url)
        return response

    async def follow(self, response: httpx.Response, *, until: str = "") -> httpx.Response:
        """Follows redirects to the end, or to the first URL that begins with `until`, which isn't requested."""
        while response.is_redirect:
            url = urljoin(str(response.url), response.headers["location"])
            if until and url.startswith(until):
                return response
            response = await self.go(url)
        return response

    async def sign_in_again(self, gateway_url: str) -> httpx.Response:
        """Signs in with a browser that the provider already knows; returns the last response."""
        return await self.follow(await self.go(f"{gateway_url}/v1/auth/login"))

    async def sign_in(self, gateway_url: str, account: str = "ada", *, until: str = "") -> httpx.Response:
        """Signs in and returns the last answer."""
        form = await self.follow(await self.go(f"{gateway_url}/v1/auth/login"))
        assert re.search("<form", form.text), form.text
        return await self.follow(await self.go(str(form.url), method="POST", form={"account": account}), until=until)

    def session(self, gateway_url: str) -> str:
        """The session's cookie."""
        return self.cookies[gateway_url]["__Host-citewire-session"]
