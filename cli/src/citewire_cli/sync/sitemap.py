"""A web site as a source: the pages that its sitemap lists (sitemaps.org), those of its own host."""

import gzip
import hashlib
import io
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit
from xml.etree import ElementTree as ET  # expat bounds entities

import httpx

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_object, get_str, parse_object
from citewire_cli.sync.mirror import Mirror

MAX_SITEMAP: Final = 50 * 1024 * 1024
"""Bytes of a sitemap, as its protocol limits them."""
MAX_PAGES: Final = 1_000_000
_MAX_DEPTH: Final = 3
_MAX_PAGE: Final = 256 * 1024 * 1024
_PAGE_SECONDS: Final = 300.0
_REDIRECTS: Final = 5
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)


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
        """
        super().__init__("sitemap", source, cache)
        self._source = source
        self._page_seconds = page_seconds
        self._index = self.home / "pages.json"
        self._pages: dict[str, _Page] = {}

    def address(self, name: str) -> str:
        """Where a page is on the web."""
        return self._pages[name].url if name in self._pages else ""

    def refresh(self) -> dict[str, CliError]:
        """See `Mirror.refresh`."""
        failures: dict[str, CliError] = {}
        with httpx.Client(timeout=_TIMEOUT, headers={"User-Agent": "citewire-sync"}) as client:
            listed = self._list(client)
            known = parse_object(self._index.read_bytes()) or {} if self._index.exists() else {}
            self._pages = {name: _Page.read(get_object(known, name)) for name in known if name in listed}
            try:
                for name, page in listed.items():
                    try:
                        self._fetch(client, name, page)
                    except CliError as error:
                        failures[name] = error
                    except (httpx.HTTPError, OSError) as error:
                        failures[name] = CliError("It cannot be fetched", str(error) or type(error).__name__)
            finally:
                self._save()
        for file in [path for path in self.mirrored.rglob("*") if path.is_file()]:
            if file.relative_to(self.mirrored).as_posix() not in listed:
                file.unlink()
        return failures

    def _save(self) -> None:
        body = json.dumps({name: asdict(page) for name, page in self._pages.items()})
        fresh = self._index.with_suffix(".new")
        fresh.write_text(body, encoding="utf-8")
        fresh.replace(self._index)

    def _list(self, client: httpx.Client) -> dict[str, _Page]:
        """All pages, by the path that they are known by.

        Raises:
            CliError: a sitemap can't be read to its end.
        """
        pages: dict[str, _Page] = {}
        todo, seen = [(self._source, 0)], {self._source}
        host = urlsplit(self._source).netloc
        while todo:
            address, depth = todo.pop()
            for kind, place, changed in self._entries(client, address):
                if urlsplit(place).netloc != host:
                    continue  # a sitemap speaks for its own host alone
                if kind == "url":
                    pages[path_of(place)] = _Page(place, changed)
                elif depth < _MAX_DEPTH and place not in seen:
                    seen.add(place)
                    todo.append((place, depth + 1))
                if len(pages) > MAX_PAGES or len(seen) > MAX_PAGES:
                    raise CliError("The sitemap has too many pages", f"More than {MAX_PAGES}.", ExitCode.USAGE)
        return pages

    def _entries(self, client: httpx.Client, address: str) -> Iterator[tuple[str, str, str]]:
        """Kind (`url` or `sitemap`), address and `lastmod` of what a sitemap lists."""
        target = io.BytesIO()
        try:
            answer = _download(client, address, target, {}, MAX_SITEMAP, time.monotonic() + self._page_seconds)
            body = target.getvalue()
            if body.startswith(b"\x1f\x8b"):
                with gzip.open(io.BytesIO(body)) as packed:
                    body = packed.read(MAX_SITEMAP + 1)
                if len(body) > MAX_SITEMAP:
                    raise CliError("The sitemap is too large", address)
            root = ET.fromstring(body)  # noqa: S314 # see the import
        except (httpx.HTTPError, OSError, EOFError, ET.ParseError) as error:
            raise CliError("The sitemap cannot be read", f"{address}: {error}") from error
        if root.tag.rpartition("}")[2] not in ("urlset", "sitemapindex"):
            raise CliError("This is not a sitemap", address, ExitCode.USAGE)
        for entry in root:
            texts = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in entry}
            if texts.get("loc"):
                yield entry.tag.rpartition("}")[2], urljoin(str(answer.url), texts["loc"]), texts.get("lastmod", "")

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
            answer = _download(client, page.url, target, sent, _MAX_PAGE, time.monotonic() + self._page_seconds)
        if answer.status_code != HTTPStatus.NOT_MODIFIED:
            os.replace(fresh, file)  # noqa: PTH105 # says that it is one step
            etag, last_modified = (answer.headers.get(header, "") for header in ("etag", "last-modified"))
            known = _Page(page.url, page.changed, etag, last_modified)
        self._pages[name] = _Page(known.url, page.changed, known.etag, known.last_modified)


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


def _download(
    client: httpx.Client, url: str, target: "io.BufferedIOBase", headers: dict[str, str], most: int, until: float
) -> httpx.Response:
    """Writes what an address answers, following redirects on its host; 304 writes nothing.

    Raises:
        CliError: the answer is another, longer than `most` bytes, or not there in time.
        httpx.HTTPError: the server can't be reached, or breaks off.
    """
    host, here = urlsplit(url).netloc, url
    for _ in range(_REDIRECTS + 1):
        with client.stream("GET", here, headers=headers) as answer:
            if answer.next_request is not None:
                here = str(answer.next_request.url)
                if urlsplit(here).netloc != host:
                    raise CliError("It leads to another host", urlsplit(here).netloc)
                continue
            if answer.status_code == HTTPStatus.NOT_MODIFIED and headers:
                return answer
            if answer.status_code != HTTPStatus.OK:
                raise CliError(f"The server answered HTTP {answer.status_code}", url)
            size = 0
            for part in answer.iter_bytes():
                size += len(part)
                if size > most:
                    raise CliError(f"It has more than {most} bytes", url)
                if time.monotonic() > until:
                    raise CliError("It takes too long", url)
                target.write(part)
            return answer
    raise CliError("It redirects too often", url)
