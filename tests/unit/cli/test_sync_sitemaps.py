"""`citewire sync` of web sites as they are: busy, badly written, on several hosts, restructured, and slow."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from citewire_cli.api import Api
from citewire_cli.errors import CliError
from citewire_cli.ingest import Target
from citewire_cli.settings import load_client_settings
from citewire_cli.sync import sitemap
from citewire_cli.sync.engine import Sync
from citewire_cli.sync.library import SyncedDocuments
from citewire_cli.sync.sitemap import Sitemap
from cli_types import Run
from fake_gateway import FakeGateway
from fake_library import FakeLibrary

Answer = tuple[int, dict[str, str], bytes]


class Web:
    """A server of pages, which may answer otherwise, and its requests."""

    def __init__(self) -> None:
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.requests.append(self.path)
                status, headers, body = web.answer(self.path)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.requests: list[str] = []
        self.pages: dict[str, bytes] = {}
        self.answers: dict[str, list[Answer]] = {}
        """Answers before the page, by path."""
        self.before: Callable[[str], object] = str
        """Called before an answer."""
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.sitemap = f"http://{self.host}/sitemap.xml"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str) -> Answer:
        self.before(path)
        if self.answers.get(path):
            return self.answers[path].pop(0)
        return (200, {}, self.pages[path]) if path in self.pages else (404, {}, b"")

    def list(self, *places: str) -> None:
        entries = "".join(f"<url><loc>{place}</loc></url>" for place in places)
        self.pages["/sitemap.xml"] = f"<urlset>{entries}</urlset>".encode()

    def put(self, *paths: str) -> None:
        """Serves and lists these pages and no others."""
        self.pages = {path: f"<p>{path}".encode() for path in paths}
        self.list(*(f"http://{self.host}{path}" for path in paths))


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    yield made
    made.server.shutdown()
    made.server.server_close()


def read(web: Web, cache: Path) -> tuple[list[str], dict[str, CliError]]:
    with closing(Sitemap(web.sitemap, cache)) as source:
        listing = source.read()
    return sorted(listing.files), listing.failures


def test_addresses_that_are_none_are_failures(web: Web, tmp_path: Path) -> None:
    web.put("/a")
    odd = ("http://[x/b", f"http://{web.host}/.", f"http://{web.host}/c&#10;d", f"http://{web.host}/{'e' * 70_000}")
    web.list(f"http://{web.host}/a", *odd)
    names, failures = read(web, tmp_path)
    assert (names, len(failures)) == (["a.html"], len(odd))


def test_a_dry_run_shows_what_cannot_be_fetched(run: Run, gateway: FakeGateway, web: Web, tmp_path: Path) -> None:
    FakeLibrary(gateway)
    web.put("/a", "/b")
    del web.pages["/b"]
    command = ("sync", web.sitemap, "-c", "site", "--cache", str(tmp_path), "--dry-run")
    result = run(*command)
    assert (result.exit_code, result.stdout) == (1, "+ a.html\n1 new, 0 unchanged, 1 failed. Nothing was done.\n")
    assert "fetch   b.html  The server answered HTTP 404" in result.stderr
    assert [failure["path"] for failure in json.loads(run(*command, "--json").stdout)["failures"]] == ["b.html"]


def test_a_busy_server_is_waited_for(web: Web, tmp_path: Path) -> None:
    web.put("/a", "/b")
    web.answers["/a"] = [(429, {"Retry-After": "0"}, b""), (503, {"Retry-After": "1"}, b"")]
    web.answers["/sitemap.xml"] = [(503, {"Retry-After": "0"}, b"")]
    assert read(web, tmp_path) == (["a.html", "b.html"], {})


def test_a_server_is_not_waited_for_without_end(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap, "_WAIT_SECONDS", 1.5)
    web.put("/a", "/b", "/c")
    for page in ("/a", "/b"):
        web.answers[page] = [(503, {"Retry-After": "0"}, b"")] * 9
    names, failures = read(web, tmp_path)
    assert (names, sorted(failures)) == (["c.html"], ["a.html", "b.html"])
    assert [web.requests.count(page) for page in ("/a", "/b")] == [2, 1]


def test_a_file_becomes_a_folder_and_a_folder_a_file(web: Web, tmp_path: Path) -> None:
    for pages, names in (
        (("/v1.0", "/v2.0/x"), ["v1.0", "v2.0/x.html"]),
        (("/v1.0/x", "/v2.0"), ["v1.0/x.html", "v2.0"]),
        (("/v1.0", "/v1.0/x"), ["v1.0/index.html", "v1.0/x.html"]),
    ):
        web.put(*pages)
        assert read(web, tmp_path) == (names, {})


def test_pages_of_other_hosts_alone_are_an_error(web: Web, tmp_path: Path) -> None:
    """Otherwise every document would be deleted once a site has moved to another name."""
    web.list("https://www.other.test/a", "https://www.other.test/b")
    with pytest.raises(CliError, match=r"only pages of other hosts: .*www\.other\.test"):
        read(web, tmp_path)


@pytest.mark.parametrize(
    ("source", "page"),
    [
        ("https://WWW.Example.org/sitemap.xml", "https://www.example.org/a"),
        ("https://www.example.org/sitemap.xml", "https://www.example.org:443/a"),
        ("http://www.example.org/sitemap.xml", "https://www.example.org/a"),
    ],
)
def test_a_host_has_several_spellings(source: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [("url", page, ""), ("url", "https://example.org/b", "")]

    def entries(*_: object) -> Iterator[tuple[str, str, str]]:
        return iter(listed)

    def fetch(site: Sitemap, _: object, name: str, page: object) -> None:
        (site.mirrored / name).write_text(str(page))

    monkeypatch.setattr(Sitemap, "_entries", entries)
    monkeypatch.setattr(Sitemap, "_fetch", fetch)
    with closing(Sitemap(source, tmp_path)) as site:
        assert list(site.read().files) == ["a.html"]


def test_a_password_in_the_address_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="must not contain credentials") as caught:
        Sitemap("https://ada:geheim@example.org/sitemap.xml", tmp_path)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(b"<urlset>" + b" " * 99_999)[:12] + b"\xff" * 60,
        b'<?xml version="1.0" encoding="no-such"?><urlset/>',
        b'<?xml version="1.0" encoding="utf-7"?><urlset/>',
    ],
    ids=["gzip", "unknown encoding", "unsupported encoding"],
)
def test_a_damaged_sitemap_is_an_error(web: Web, tmp_path: Path, body: bytes) -> None:
    web.pages["/sitemap.xml"] = body
    with pytest.raises(CliError, match="The sitemap cannot be read"):
        read(web, tmp_path)


def test_what_a_killed_run_fetched_is_known(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After SIGKILL nothing more is written."""
    monkeypatch.setattr(sitemap, "_SAVE_SECONDS", 0.0)
    web.put("/a", "/b")
    saved: list[bytes] = []

    def before(path: str) -> None:
        index = next(tmp_path.glob("sitemap-*/pages.json"), None)
        if path == "/b":
            saved.append(b"" if index is None else index.read_bytes())

    web.before = before
    read(web, tmp_path)
    assert b"a.html" in saved[0]


@pytest.mark.parametrize(
    ("age", "requests"), [(timedelta(), 2), (timedelta(days=1), 2), (timedelta(days=2), 1)], ids=str
)
def test_a_page_may_change_twice_a_day(web: Web, tmp_path: Path, age: timedelta, requests: int) -> None:
    """Most sitemaps give the day of the last change, and no time."""
    web.put("/a")
    day = (datetime.now(UTC) - age).date().isoformat()
    web.pages["/sitemap.xml"] = web.pages["/sitemap.xml"].replace(b"</loc>", f"</loc><lastmod>{day}</lastmod>".encode())
    for _ in range(2):
        assert read(web, tmp_path) == (["a.html"], {})
    assert web.requests.count("/a") == requests


async def test_an_interrupted_run_stops_fetching(web: Web, tmp_path: Path) -> None:
    began, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def before(path: str) -> None:
        if path == "/1":
            loop.call_soon_threadsafe(began.set)
            go_on.wait(60)

    web.put(*(f"/{number}" for number in range(50)))
    web.before = before
    async with Api(load_client_settings({"CITEWIRE_URL": "http://127.0.0.1:9"})) as api:
        with closing(Sitemap(web.sitemap, tmp_path)) as source:
            documents = SyncedDocuments(api, "x", "notes")
            sync = Sync(api, source, documents, Target("notes"), allow_deletions=False)
            plan = asyncio.create_task(sync.plan())
            await began.wait()
            plan.cancel()
            loop.call_later(0.2, go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await plan
            assert (source.home / "pages.json").exists()  # what there is is known to the next run
    assert web.requests == ["/sitemap.xml", "/0", "/1"]
