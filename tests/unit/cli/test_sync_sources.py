"""`citewire sync` of Git repositories and web sites, with third-party servers."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from citewire_cli.errors import CliError
from citewire_cli.sync import sitemap
from citewire_cli.sync.git import GitRepository
from citewire_cli.sync.sitemap import Sitemap, path_of
from cli_types import Run
from fake_gateway import FakeGateway
from fake_library import FakeLibrary


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    servers: list[ThreadingHTTPServer] = []

    def start(handler: Any) -> str:  # noqa: ANN401 # a class or a factory
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def commit(repository: Path, **files: str | None) -> None:
    """Writes files (None deletes a file; `__` in a name stands for a slash) and commits them."""
    for name, content in files.items():
        path = repository / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.unlink() if content is None else path.write_text(content)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "change")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "origin"
    made.mkdir()
    git(made, "init", "--quiet")
    return made


def test_a_repository_is_synchronised(run: Run, gateway: FakeGateway, repository: Path, tmp_path: Path) -> None:
    library = FakeLibrary(gateway)
    commit(repository, a="one", docs__b="two", docs__c="three")
    (repository / "docs/passwd.md").symlink_to("/etc/passwd")
    commit(repository)
    git(repository, "branch", "feature/x")
    cache = str(tmp_path / "cache")
    source = f"git+file://{repository}"
    follow = partial(run, "sync", "-c", "notes", "--cache", cache)
    assert "3 new" in follow(f"{source}@feature/x#docs", "--dry-run").stdout
    assert library.names() == []
    result = follow(f"{source}#docs", "--url-prefix", "https://git.test/blob/main/docs/")
    assert (result.exit_code, library.names()) == (0, ["b.md", "c.md", "passwd.md"])
    by_name = {document.file_name: document for document in library.documents.values()}
    assert by_name["passwd.md"].content == b"/etc/passwd"  # the link's text, not its target
    assert by_name["b.md"].form["url"] == "https://git.test/blob/main/docs/b.md"
    first = by_name["c.md"].id
    commit(repository, docs__b="two anew", docs__c=None, docs__deep__d="three", docs__passwd=None)
    # As left behind by a killed run.
    lock = next((tmp_path / "cache").glob("git-*/files/.git")) / "index.lock"
    lock.touch()
    result = follow(f"{source}#docs", "--url-prefix", "https://git.test/blob/main/docs/")
    assert "1 changed, 1 moved, 1 deleted" in result.stdout
    assert library.names() == ["b.md", "deep/d.md"]
    assert library.documents[first].file_name == "deep/d.md"


def test_a_repository_that_cannot_be_fetched_deletes_nothing(
    run: Run, gateway: FakeGateway, repository: Path, tmp_path: Path
) -> None:
    library = FakeLibrary(gateway)
    commit(repository, a="one", docs__b="two")
    follow = partial(run, "sync", "-c", "notes", "--cache", str(tmp_path / "cache"))
    source = f"git+file://{repository}"
    assert follow(source).exit_code == 0
    assert follow(f"{source}@main#none").exit_code == 2
    assert follow(f"{source}@gone").exit_code == 1
    repository.rename(tmp_path / "away")
    assert follow(source).exit_code == 1
    assert library.names() == ["a.md", "docs/b.md"]


@pytest.mark.parametrize(
    "source",
    ["git+file:///@main", "git+file:///x@--upload-pack=touch", "git+https://h/r#../x", "git+ext::sh", "ftp://h/x"],
)
def test_an_invalid_source_is_refused(run: Run, source: str, tmp_path: Path) -> None:
    assert run("sync", source, "-c", "notes", "--cache", str(tmp_path)).exit_code == 2


def test_no_password_is_shown(tmp_path: Path, serve: Callable[[Any], str]) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401)

        def log_message(self, format: str, *args: object) -> None:
            pass

    address = serve(Refusing).replace("http://", "git+http://ada:geheim@")
    with closing(GitRepository(f"{address}/x.git", tmp_path)) as source, pytest.raises(CliError) as caught:
        source.read()
    assert "geheim" not in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"geheim" in path.read_bytes()]


class Site:
    """A folder with a sitemap, served by Python's own server, which supports conditional requests."""

    def __init__(self, folder: Path, serve: Callable[[Any], str]) -> None:
        folder.mkdir()
        self.folder = folder
        self.requests: list[tuple[str, int]] = []
        site = self

        class Handler(SimpleHTTPRequestHandler):
            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                site.requests.append((self.path, int(code)))

        self.address = serve(partial(Handler, directory=str(folder)))
        self.sitemap = f"{self.address}/sitemap.xml"

    def put(self, **pages: str) -> None:
        for name, content in pages.items():
            (self.folder / f"{name}.html").write_text(content)

    def list(self, *places: str, changed: str = "") -> None:
        lastmod = f"<lastmod>{changed}</lastmod>" if changed else ""
        entries = "".join(f"<url><loc>{self.address}/{place}</loc>{lastmod}</url>" for place in places)
        start = '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        (self.folder / "sitemap.xml").write_text(f"{start}{entries}<url><loc>http://other.test/x</loc></url></urlset>")


@pytest.fixture
def site(tmp_path: Path, serve: Callable[[Any], str]) -> Site:
    return Site(tmp_path / "site", serve)


def test_a_site_is_synchronised(run: Run, gateway: FakeGateway, site: Site, tmp_path: Path) -> None:
    library = FakeLibrary(gateway)
    site.put(a="<p>one", b="<p>two", c="<p>three")
    site.list("a.html", "b.html", "c.html")
    follow = partial(run, "sync", site.sitemap, "-c", "notes", "--cache", str(tmp_path / "cache"))
    assert follow().exit_code == 0
    assert {document.file_name: document.form["url"] for document in library.documents.values()} == {
        f"{name}.html": f"{site.address}/{name}.html" for name in "abc"
    }
    time.sleep(1.1)  # the server's times are in seconds
    site.put(b="<p>two anew")
    site.list("a.html", "b.html")
    site.requests.clear()
    result = follow()
    assert "1 changed, 1 deleted, 1 unchanged" in result.stdout
    assert library.names() == ["a.html", "b.html"]
    assert sorted(site.requests) == [("/a.html", 304), ("/b.html", 200), ("/sitemap.xml", 200)]


def test_a_page_with_an_unchanged_date_is_not_requested(site: Site, tmp_path: Path) -> None:
    site.put(a="<p>one")
    site.list("a.html", changed="2026-01-01")
    for _ in range(2):
        with closing(Sitemap(site.sitemap, tmp_path / "cache")) as source:
            assert list(source.read().files) == ["a.html"]
    assert [path for path, _ in site.requests] == ["/sitemap.xml", "/a.html", "/sitemap.xml"]


def test_pages_that_cannot_be_fetched_are_reported_and_stay(
    run: Run, gateway: FakeGateway, site: Site, tmp_path: Path
) -> None:
    """Also if the mirror was lost, so that the page's content is unknown."""
    library = FakeLibrary(gateway)
    site.put(a="<p>one", b="<p>two")
    site.list("a.html", "b.html")
    assert run("sync", site.sitemap, "-c", "notes", "--cache", str(tmp_path / "cache")).exit_code == 0
    (site.folder / "b.html").unlink()
    for cache in ("cache", "other"):
        result = run("sync", site.sitemap, "-c", "notes", "--cache", str(tmp_path / cache))
        assert (result.exit_code, library.names()) == (1, ["a.html", "b.html"])
        assert "b.html" in result.stderr
        assert "404" in result.stderr


@pytest.mark.parametrize("fault", ["cut", "no xml", "gone", "html"])
def test_a_sitemap_that_cannot_be_read_changes_nothing(
    run: Run, gateway: FakeGateway, site: Site, tmp_path: Path, fault: str
) -> None:
    library = FakeLibrary(gateway)
    site.put(a="<p>one", b="<p>two")
    site.list("a.html", "b.html")
    follow = partial(run, "sync", site.sitemap, "-c", "notes", "--cache", str(tmp_path / "cache"))
    assert follow().exit_code == 0
    file = site.folder / "sitemap.xml"
    whole = file.read_text()
    file.write_text({"cut": whole[: len(whole) // 2], "no xml": "x", "html": "<html/>"}.get(fault, whole))
    if fault == "gone":
        file.unlink()
    result = follow()
    assert result.exit_code in (1, 2)
    assert library.names() == ["a.html", "b.html"]
    file.write_text(whole)
    assert "2 unchanged" in follow().stdout


class Lying(BaseHTTPRequestHandler):
    """A sitemap of pages, none of which can be fetched."""

    pages = ("endless", "slow", "short", "away", "round", "500")

    def do_GET(self) -> None:
        if self.path == "/sitemap.xml":
            host = self.headers["Host"]
            body = "".join(f"<url><loc>http://{host}/{page}</loc></url>" for page in self.pages)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"<urlset>{body}</urlset>".encode())
            return
        answers: dict[str, tuple[int, dict[str, str]]] = {
            "/short": (200, {"Content-Length": "100"}),
            "/away": (302, {"Location": "http://other.test/"}),
            "/round": (302, {"Location": "/round"}),
            "/500": (500, {}),
        }
        status, headers = answers.get(self.path, (200, {}))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            if self.path == "/short":
                self.wfile.write(b"too little")
            while self.path in ("/endless", "/slow"):
                self.wfile.write(b"x" * (65_536 if self.path == "/endless" else 1))
                time.sleep(0.01 if self.path == "/slow" else 0)
        except OSError:
            pass

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_hostile_server_costs_no_document_and_little_memory(
    serve: Callable[[Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sitemap, "_MAX_PAGE", 1024 * 1024)
    with closing(Sitemap(f"{serve(Lying)}/sitemap.xml", tmp_path, page_seconds=1)) as source:
        listing = source.read()
    assert listing.files == {}
    assert sorted(listing.failures) == [
        "500.html",
        "away.html",
        "endless.html",
        "round.html",
        "short.html",
        "slow.html",
    ]
    assert all(listing.is_unseen(name) for name in listing.failures)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://h/", "index.html"),
        ("https://h/docs/", "docs/index.html"),
        ("https://h/docs", "docs.html"),
        ("https://h/a%20b/%C3%A4.pdf", "a b/ä.pdf"),
        ("https://h/x.php?a=1", "x-ac50e5ae48ad.php"),
        ("https://h/x.php?a=2", "x-5f22b2ba4f78.php"),
    ],
)
def test_each_page_has_a_separate_path(url: str, path: str) -> None:
    assert path_of(url).rpartition("-")[0] == path.rpartition("-")[0]
    assert ("?" in url) or path_of(url) == path


def test_a_path_stays_in_its_folder(serve: Callable[[Any], str], tmp_path: Path) -> None:
    class Climbing(Lying):
        def do_GET(self) -> None:
            host = self.headers["Host"]
            self.send_response(200)
            self.end_headers()
            places = ("%2e%2e/%2e%2e/escaped", "a%5C..%5Cb", "a%00b", "%2fetc%2fx")
            body = "".join(f"<url><loc>http://{host}/{place}</loc></url>" for place in places)
            self.wfile.write(f"<urlset>{body}</urlset>".encode() if self.path == "/sitemap.xml" else b"<p>x")

    cache = tmp_path / "a/cache"
    with closing(Sitemap(f"{serve(Climbing)}/sitemap.xml", cache)) as source:
        listing = source.read()
    assert len(listing.failures) == 3
    assert {path for path in tmp_path.rglob("*") if path.is_file() and cache not in path.parents} == set()
    assert list(listing.files) == ["etc/x.html"]
