-- Documents, their versions, the original bytes, the text found in them, and the chunks.
-- org_id leads every key: vectors are partitioned by it today, everything can be distributed by it tomorrow.

-- Ids go out as JSON numbers: none may pass 2^53 - 1.
CREATE SEQUENCE corpus.collection_ids AS bigint MAXVALUE 9007199254740991;
CREATE SEQUENCE corpus.document_ids AS bigint MAXVALUE 9007199254740991;
CREATE SEQUENCE corpus.chunk_ids AS bigint MAXVALUE 9007199254740991;

CREATE TABLE corpus.collections (
    org_id        text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    collection_id bigint NOT NULL DEFAULT nextval('corpus.collection_ids'),
    name          text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, collection_id),
    UNIQUE (org_id, name)
);

-- One row per document. live_version is what searches join on: publishing a version is one update of this row.
CREATE TABLE corpus.documents (
    org_id         text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    document_id    bigint NOT NULL DEFAULT nextval('corpus.document_ids'),
    collection_id  bigint,
    owner          text COLLATE "C" NOT NULL,                  -- the user who saved it
    type           text NOT NULL CHECK (type IN ('file', 'article', 'repository', 'capture')),
    title          text NOT NULL,                              -- given, else found in the text, else the file name
    title_given    boolean NOT NULL,                           -- false: ingest may put the title that it finds
    file_name      text NOT NULL DEFAULT '',
    url            text NOT NULL DEFAULT '',
    tags           text[] NOT NULL DEFAULT '{}',
    metadata       jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    latest_version integer NOT NULL DEFAULT 1 CHECK (latest_version >= 1),
    live_version   integer CHECK (live_version <= latest_version),  -- NULL: nothing published yet
    live_chunks    integer NOT NULL DEFAULT 0,                 -- chunks of the live version
    live_tokens    bigint NOT NULL DEFAULT 0,                  -- tokens of the live version's chunks
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, document_id),
    FOREIGN KEY (org_id, collection_id) REFERENCES corpus.collections (org_id, collection_id)
);
-- Lists and "most recent first".
CREATE INDEX documents_by_age ON corpus.documents (org_id, created_at DESC, document_id DESC);
CREATE INDEX documents_by_collection ON corpus.documents (org_id, collection_id) WHERE collection_id IS NOT NULL;

-- pending -> processing -> ready | failed; a retry goes from failed back to pending.
CREATE TABLE corpus.versions (
    org_id        text COLLATE "C" NOT NULL,
    document_id   bigint NOT NULL,
    version       integer NOT NULL CHECK (version >= 1),
    status        text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'ready', 'failed')),
    file_name     text NOT NULL DEFAULT '',
    media_type    text NOT NULL DEFAULT '',                    -- as the client says; ingest puts what it finds
    size_bytes    bigint NOT NULL,
    sha256        bytea NOT NULL CHECK (length(sha256) = 32),
    -- Progress, for those who watch.
    stage         text CHECK (stage IN ('parse', 'chunk', 'embed', 'publish')),   -- NULL: not claimed, or ended
    done          integer NOT NULL DEFAULT 0,
    total         integer NOT NULL DEFAULT 0,                  -- 0: unknown
    attempt       integer NOT NULL DEFAULT 0,                  -- from 1 once claimed
    -- Why it failed: a code in upper case and a sentence for the person who uploaded it.
    error_code    text,
    error_message text,
    -- What ingest found.
    pages         integer,                                     -- NULL: the format has none
    chunks        integer NOT NULL DEFAULT 0,
    tokens        bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT now(),
    started_at    timestamptz,                                 -- first claimed
    finished_at   timestamptz,                                 -- ready or failed
    superseded_at timestamptz,                                 -- a newer version went live: kept for a while
    PRIMARY KEY (org_id, document_id, version),
    FOREIGN KEY (org_id, document_id) REFERENCES corpus.documents (org_id, document_id) ON DELETE CASCADE,
    CHECK ((status = 'failed') = (error_code IS NOT NULL))
);

-- The bytes as they came, in parts of 1 MiB (the last one is shorter), numbered from 0.
CREATE TABLE corpus.originals (
    org_id      text COLLATE "C" NOT NULL,
    document_id bigint NOT NULL,
    version     integer NOT NULL,
    part        integer NOT NULL CHECK (part >= 0),
    bytes       bytea NOT NULL CHECK (length(bytes) BETWEEN 1 AND 1048576),
    PRIMARY KEY (org_id, document_id, version, part),
    FOREIGN KEY (org_id, document_id, version) REFERENCES corpus.versions (org_id, document_id, version)
        ON DELETE CASCADE
);
ALTER TABLE corpus.originals ALTER COLUMN bytes SET STORAGE EXTERNAL;  -- mostly compressed formats: don't try again

-- The text that ingest found, in parts, so that no value grows with the file; chunks' spans count from its start.
CREATE TABLE corpus.texts (
    org_id      text COLLATE "C" NOT NULL,
    document_id bigint NOT NULL,
    version     integer NOT NULL,
    part        integer NOT NULL CHECK (part >= 0),
    char_start  integer NOT NULL CHECK (char_start >= 0),      -- where the part starts, in Unicode code points
    body        text NOT NULL,
    PRIMARY KEY (org_id, document_id, version, part),
    FOREIGN KEY (org_id, document_id, version) REFERENCES corpus.versions (org_id, document_id, version)
        ON DELETE CASCADE
);

CREATE TABLE corpus.chunks (
    org_id       text COLLATE "C" NOT NULL,
    chunk_id     bigint NOT NULL DEFAULT nextval('corpus.chunk_ids'),
    document_id  bigint NOT NULL,
    version      integer NOT NULL,
    chunk_index  integer NOT NULL CHECK (chunk_index >= 0),    -- order in the version
    text         text NOT NULL,
    token_count  integer NOT NULL CHECK (token_count >= 0),    -- as the embedding model counts
    content_hash bytea NOT NULL CHECK (length(content_hash) = 32),  -- SHA-256 of the text
    section      text NOT NULL DEFAULT '',                     -- heading path joined by ' > '
    page_number  integer,                                      -- from 1
    row_number   integer,                                      -- line of the sheet, header = 1
    start_line   integer,                                      -- from 1; first line of the definition
    end_line     integer,
    char_start   integer NOT NULL CHECK (char_start >= 0),     -- span in the stored text, in Unicode code points
    char_end     integer NOT NULL CHECK (char_end >= char_start),
    PRIMARY KEY (org_id, chunk_id),
    UNIQUE (org_id, document_id, version, chunk_index),
    FOREIGN KEY (org_id, document_id, version) REFERENCES corpus.versions (org_id, document_id, version)
        ON DELETE CASCADE
);

SELECT corpus.protect(name)
FROM unnest(ARRAY['collections', 'documents', 'versions', 'originals', 'texts', 'chunks']) AS name;

GRANT USAGE ON SEQUENCE corpus.collection_ids, corpus.document_ids, corpus.chunk_ids
    TO citewire_corpus, citewire_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.collections, corpus.documents, corpus.versions TO citewire_corpus;
GRANT SELECT, INSERT, DELETE ON corpus.originals TO citewire_corpus;
GRANT SELECT ON corpus.texts, corpus.chunks TO citewire_corpus;
GRANT SELECT ON corpus.collections, corpus.originals TO citewire_worker;
GRANT SELECT, UPDATE ON corpus.documents TO citewire_worker;
-- The sweeper deletes superseded versions, whose bytes, text and chunks go with them.
GRANT SELECT, UPDATE, DELETE ON corpus.versions TO citewire_worker;
GRANT SELECT, INSERT, DELETE ON corpus.texts TO citewire_worker;
GRANT SELECT, INSERT, DELETE ON corpus.chunks TO citewire_worker;

-- Tells watchers. The payload names the document and nothing of its content: "ORG DOCUMENT_ID".
CREATE FUNCTION corpus.notify_progress() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed record;
BEGIN
    changed := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    PERFORM pg_notify('citewire_corpus_progress', changed.org_id || ' ' || changed.document_id);
    RETURN NULL;
END
$$;
CREATE TRIGGER progress AFTER INSERT OR UPDATE ON corpus.versions
    FOR EACH ROW EXECUTE FUNCTION corpus.notify_progress();
CREATE TRIGGER progress AFTER UPDATE OR DELETE ON corpus.documents
    FOR EACH ROW EXECUTE FUNCTION corpus.notify_progress();
