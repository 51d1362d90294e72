"""Typed documents over gRPC: their metadata is checked on every way in, and wrong fields are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from google.protobuf.struct_pb2 import Struct

from citewire_kit.errors import CitewireError
from citewire_kit.migrate import migrate, read_migrations
from citewire_kit.tenant import Tenant
from retriever_process import Caller, running_retriever

if TYPE_CHECKING:
    from databases import Database

MINE = Tenant("acme", "ada", "pro")


def struct(**fields: object) -> Struct:
    made = Struct()
    made.update(cast("Any", fields))
    return made


async def test_metadata_is_checked_by_type_on_every_way_in(database: Database) -> None:
    stars = {"stargazers_count": 12, "owner_login": "ada", "language": "Rust", "owner_avatar_url": None}
    async with running_retriever(database) as running:
        me = Caller(running, MINE)
        document = await me.put("Repo", type="repository", metadata=struct(**stars))
        assert dict(document.metadata) == stars
        wrong = struct(stargazers_count="many")
        changed = pb.UpdateDocumentRequest(document=pb.Document(document_id=document.document_id, metadata=wrong))
        changed.update_mask.paths.append("metadata")
        header = pb.UploadHeader(file_name="r.md", document_id=document.document_id, metadata=wrong)
        for call in (
            me.put("Repo", type="repository", metadata=wrong),
            me.put("Repo", type="repository", metadata=wrong, document_id=document.document_id),
            me.unary(running.corpus.UpdateDocument, changed),
            me.upload(header, b"# Words"),
        ):
            with pytest.raises(CitewireError) as refused:
                await call
            assert refused.value.reason == "INVALID_FIELD"
            assert [violation.field for violation in refused.value.violations] == ["metadata.stargazers_count"]
        # Nothing was stored. A document that isn't a repository may have any metadata.
        assert (await me.get(document.document_id)).version == 1
        assert (await me.put("Note", type="capture", metadata=wrong)).metadata["stargazers_count"] == "many"


@pytest.mark.one_postgres("it goes back to before a migration; no cluster is that old")
async def test_a_stored_address_that_is_a_script_is_cleared(database: Database) -> None:
    """The migration clears it in rows of an earlier version, for two organisations."""
    scripts = ("javascript:alert(1)", "JavaScript:https://a", "data:text/html,a")
    with psycopg.connect(database.dsn("postgres"), autocommit=True) as connection:
        [file] = [m.file for m in read_migrations("citewire_retriever") if m.file.endswith("_web_addresses.sql")]
        connection.execute("ALTER TABLE corpus.documents DROP CONSTRAINT documents_url_is_web")
        connection.execute("DELETE FROM corpus.schema_migrations WHERE file = %s", (file,))
        for org in ("acme", "other"):
            for url in (*scripts, "", "HTTPS://example.org/a"):
                connection.execute(
                    "INSERT INTO corpus.documents (org_id, owner, type, title, title_given, latest_version, url)"
                    " VALUES (%s, 'ada', 'article', 'T', true, 1, %s)",
                    (org, url),
                )
        assert await migrate(database.dsn("postgres"), schema="corpus", package="citewire_retriever") == [file]
        stored = connection.execute("SELECT url, count(*) FROM corpus.documents GROUP BY 1 ORDER BY 1").fetchall()
        assert stored == [("", 8), ("HTTPS://example.org/a", 2)]
        for url in scripts:
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("UPDATE corpus.documents SET url = %s", (url,))
        forced = connection.execute("SELECT relforcerowsecurity FROM pg_class WHERE oid = 'corpus.documents'::regclass")
        assert forced.fetchone() == (True,)
