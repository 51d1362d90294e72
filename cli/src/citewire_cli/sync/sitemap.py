"""A web site as a source: the pages that its sitemap lists (sitemaps.org), those of its own host."""

import gzip
import hashlib
import io
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit
from xml.etree import ElementTree as ET  # expat bounds entities

import httpx

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_object, get_str, parse_object
from citewire_cli.sync.mirror import Mirror, folders_above
from citewire_client.connection import retry_after

MAX_SITEMAP: Final = 50 * 1024 * 1024
"""Bytes of a sitemap, as its protocol limits them."""
MAX_PAGES: Final = 1_000_000
_MAX_DEPTH: Final = 3
_MAX_PAGE: Final = 256 * 1024 * 1024
_PAGE_SECONDS: Final = 300.0
_REDIRECTS: Final = 5
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_BUSY: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_WAIT_SECONDS: Final = 600.0
"""Of one run, for a server that says that it is busy."""
_SAVE_SECONDS: Final = 5.0
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class _Page:
    """A page as it was fetched last."""

    url: str
    changed: str = ""
    """`lastmod` of the sitemap; "" if it doesn't say."""
    etag: str = ""
    last_modified: str = ""

    @classmethod
    def read(cls, known: JsonObject) -> "_Page":
        names = ("url", "changed", "etag", "last_modified")
        return cls(**{name: get_str(known, name) for name in names})


class Sitemap(Mirror):
    """See the module."""

    def __init__(self, source: str, cache: Path, *, page_seconds: float = _PAGE_SECONDS) -> None:
        """Fetches nothing yet; as `Mirror`.

        Args:
            source: the sitemap's address, or that of a sitemap index.
            cache: as of `Mirror`.
            page_seconds: how long a page may take.

        Raises:
            CliError: as `Mirror`, or the address isn't valid, or contains a password (usage).
        """
        try:
            self._host = _host_of(source)
        except ValueError as error:
            raise CliError("This is not a source URL", str(error), ExitCode.USAGE) from error
        if "@" in urlsplit(source).netloc:
            why = "Others could read it there, and pages that need them can't be fetched."
            raise CliError("A URL must not contain credentials", why, ExitCode.USAGE)
        super().__init__("sitemap", source, cache)
        self._source = source
        self._page_seconds = page_seconds
        self._index = self.home / "pages.json"
        self._pages: dict[str, _Page] = {}
        self._wait_seconds = _WAIT_SECONDS

    def address(self, name: str) -> str:
        """Where a page is on the web."""
        return self._pages[name].url if name in self._pages else ""

    def refresh(self) -> dict[str, CliError]:
        """See `Mirror.refresh`."""
        self._wait_seconds = _WAIT_SECONDS
        with httpx.Client(timeout=_TIMEOUT, headers={"User-Agent": "citewire-sync"}) as client:
            listed, failures = self._list(client)
            known = parse_object(self._index.read_bytes()) or {} if self._index.exists() else {}
            self._pages = {name: _Page.read(get_object(known, name)) for name in known if name in listed}
            self.remove_others(listed)
            saved = time.monotonic()
            try:
                for name, page in listed.items():
                    self.check_stopped()
                    try:
                        self._fetch(client, name, page)
                    except CliError as error:
                        failures[name] = error
                    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                        failures[name] = CliError("It cannot be fetched", str(error) or type(error).__name__)
                    if time.monotonic() - saved > _SAVE_SECONDS:
                        self._save()
                        saved = time.monotonic()
            finally:
                self._save()
        return failures

    def _save(self) -> None:
        body = json.dumps({name: asdict(page) for name, page in self._pages.items()})
        fresh = self._index.with_suffix(".new")
        fresh.write_text(body, encoding="utf-8")
        fresh.replace(self._index)

    def _list(self, client: httpx.Client) -> tuple[dict[str, _Page], dict[str, CliError]]:
        """All pages, by the path that they are known by, and addresses that aren't valid.

        Raises:
            CliError: a sitemap can't be read to its end, or has pages of other hosts alone.
        """
        pages: dict[str, _Page] = {}
        failures: dict[str, CliError] = {}
        todo, seen, foreign = [(self._source, 0)], {self._source}, ""
        while todo:
            address, depth = todo.pop()
            for kind, place, changed in self._entries(client, address):
                try:
                    name, host = path_of(place), _host_of(place)
                except ValueError as error:
                    failures[place] = CliError("Its address is not valid", str(error))
                    continue
                if host != self._host:
                    foreign = foreign or place
                    continue  # a sitemap speaks for its own host alone
                if kind == "url":
                    pages[name] = _Page(place, changed)
                elif depth < _MAX_DEPTH and place not in seen:
                    seen.add(place)
                    todo.append((place, depth + 1))
                if len(pages) > MAX_PAGES or len(seen) > MAX_PAGES or len(failures) > MAX_PAGES:
                    raise CliError("The sitemap has too many pages", f"More than {MAX_PAGES}.", ExitCode.USAGE)
        if foreign and not pages:
            why = f"Such as {foreign}. Give the sitemap's address on that host."
            raise CliError("The sitemap lists only pages of other hosts", why, ExitCode.USAGE)
        return _apart(pages), failures

    def _entries(self, client: httpx.Client, address: str) -> Iterator[tuple[str, str, str]]:
        """Kind (`url` or `sitemap`), address and `lastmod` of what a sitemap lists."""
        target = io.BytesIO()
        try:
            answer = self._download(client, address, target, {}, MAX_SITEMAP)
            body = target.getvalue()
            if body.startswith(b"\x1f\x8b"):
                with gzip.open(io.BytesIO(body)) as packed:
                    body = packed.read(MAX_SITEMAP + 1)
                if len(body) > MAX_SITEMAP:
                    raise CliError("The sitemap is too large", address)
            root = ET.fromstring(body)  # noqa: S314 # see the import
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            OSError,
            EOFError,
            zlib.error,
            ET.ParseError,
            ValueError,
            LookupError,
        ) as error:
            raise CliError("The sitemap cannot be read", f"{address}: {error}") from error
        if root.tag.rpartition("}")[2] not in ("urlset", "sitemapindex"):
            raise CliError("This is not a sitemap", address, ExitCode.USAGE)
        for entry in root:
            texts = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in entry}
            if texts.get("loc"):
                place = texts["loc"]
                with suppress(ValueError):  # the caller finds what is wrong with it
                    place = urljoin(str(answer.url), place)
                yield entry.tag.rpartition("}")[2], place, texts.get("lastmod", "")

    def _fetch(self, client: httpx.Client, name: str, page: _Page) -> None:
        """Fetches a page that may have changed.

        Raises:
            CliError: the server doesn't give it, or not within the limits.
            httpx.HTTPError, OSError: it can't be fetched, or stored.
        """
        file, known = self.mirrored / name, self._pages.get(name)
        if not PurePosixPath(name).name or ".." in PurePosixPath(name).parts or "\\" in name or "\0" in name:
            raise CliError("Its address can't be a path", page.url)
        if known is None or not file.exists():
            known = _Page(page.url)
        elif page.changed and page.changed == known.changed:
            return
        headers = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.home / "page.new"
        with fresh.open("wb") as target:
            sent = {header: value for header, value in headers.items() if value}
            answer = self._download(client, page.url, target, sent, _MAX_PAGE)
        if answer.status_code != HTTPStatus.NOT_MODIFIED:
            os.replace(fresh, file)  # noqa: PTH105 # says that it is one step
            etag, last_modified = (answer.headers.get(header, "") for header in ("etag", "last-modified"))
            known = _Page(page.url, page.changed, etag, last_modified)
        self._pages[name] = _Page(known.url, _settled(page.changed), known.etag, known.last_modified)

    def _download(
        self, client: httpx.Client, url: str, target: "io.BufferedIOBase", headers: dict[str, str], most: int
    ) -> httpx.Response:
        """Writes what an address answers, following redirects on its host; 304 writes nothing.

        Waits while the server says that it is busy, as long as it asks for, within the limit of a run.

        Raises:
            CliError: the answer is another, longer than `most` bytes, or not there in time.
            httpx.HTTPError: the server can't be reached, or breaks off.
        """
        pause = 1.0
        while True:
            until = time.monotonic() + self._page_seconds
            answer = self._follow(client, url, target, headers, most, until)
            if answer.status_code not in _BUSY:
                return answer
            asked = retry_after(answer.headers)
            seconds = pause if asked is None else max(asked, 1.0)
            if seconds > self._wait_seconds:
                raise CliError(f"The server answered HTTP {answer.status_code}", url)
            self._wait_seconds -= seconds
            self.wait(seconds)
            pause = min(pause * 2, 60.0)

    def _follow(
        self,
        client: httpx.Client,
        url: str,
        target: "io.BufferedIOBase",
        headers: dict[str, str],
        most: int,
        until: float,
    ) -> httpx.Response:
        here = url
        for _ in range(_REDIRECTS + 1):
            with client.stream("GET", here, headers=headers) as answer:
                if answer.next_request is not None:
                    here = str(answer.next_request.url)
                    if _host_of(here) != self._host:
                        raise CliError("It leads to another host", urlsplit(here).hostname or "")
                    continue
                if answer.status_code in _BUSY or (answer.status_code == HTTPStatus.NOT_MODIFIED and headers):
                    return answer
                if answer.status_code != HTTPStatus.OK:
                    raise CliError(f"The server answered HTTP {answer.status_code}", url)
                size = 0
                for part in answer.iter_bytes():
                    self.check_stopped()
                    size += len(part)
                    if size > most:
                        raise CliError(f"It has more than {most} bytes", url)
                    if time.monotonic() > until:
                        raise CliError("It takes too long", url)
                    target.write(part)
                return answer
        raise CliError("It redirects too often", url)


def path_of(url: str) -> str:
    """The path of a page's file: that of its address; a page whose name has no ending is HTML."""
    parts = urlsplit(url)
    path = PurePosixPath(unquote(parts.path).strip("/") or "index")
    if parts.path.endswith("/") and parts.path.strip("/"):
        path /= "index"
    ending = path.suffix or ".html"
    stem = path.name.removesuffix(path.suffix)
    if parts.query:
        stem += "-" + hashlib.sha256(parts.query.encode()).hexdigest()[:12]
    return path.with_name(stem + ending).as_posix()


def _host_of(url: str) -> tuple[str, int | None]:
    """The host and the port of an address, which have several spellings; None for the scheme's own port.

    Raises:
        ValueError: it isn't an address.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("it has no host")
    return parts.hostname, None if parts.port == _DEFAULT_PORTS.get(parts.scheme) else parts.port


def _settled(changed: str) -> str:
    """A page's `lastmod`; "" for a day that isn't over everywhere, on which the page may change again."""
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    return "" if len(changed) <= len(yesterday) and changed >= yesterday else changed


def _apart(pages: dict[str, _Page]) -> dict[str, _Page]:
    """The pages, those by another name below which there are others: a file can't be a folder too."""
    folders = folders_above(pages)
    return {f"{name}/index.html" if name in folders else name: page for name, page in pages.items()}
