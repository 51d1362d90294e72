-- The schema and the two roles that read and write it. Neither owns anything, neither may step around row-level
-- security: the owner (who runs the migrations) is a third role that no service connects as.

CREATE SCHEMA IF NOT EXISTS corpus;

-- Not a trusted extension: where the owner is no superuser, an administrator creates it beforehand.
CREATE EXTENSION IF NOT EXISTS vector;

-- Roles belong to the whole server, and migrations of several databases may run at once: losing the race is fine.
DO $$
DECLARE
    application_role text;
BEGIN
    FOREACH application_role IN ARRAY ARRAY['citewire_corpus', 'citewire_worker'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = application_role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS',
                               application_role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
        IF EXISTS (SELECT FROM pg_catalog.pg_roles
                   WHERE rolname = application_role AND (rolsuper OR rolbypassrls)) THEN
            RAISE EXCEPTION 'role % is a superuser or has BYPASSRLS: tenants would not be kept apart', application_role;
        END IF;
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA corpus TO citewire_corpus, citewire_worker;

-- Makes a table a tenant's: security on, also for its owner, and one policy that compares org_id with the tenant that
-- kit has set for this transaction. Without a tenant the setting is NULL or empty, and nothing is seen or written.
CREATE FUNCTION corpus.protect(table_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('ALTER TABLE corpus.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('ALTER TABLE corpus.%I FORCE ROW LEVEL SECURITY', table_name);
    EXECUTE format($policy$
        CREATE POLICY tenant ON corpus.%I
            USING (org_id = current_setting('citewire.org_id', true))
            WITH CHECK (org_id = current_setting('citewire.org_id', true))
    $policy$, table_name);
END
$$;
REVOKE ALL ON FUNCTION corpus.protect(text) FROM PUBLIC;

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
    -- Which request made it. Whether a commit arrived can't be known when the database goes away under it: a caller that
    -- sends the request again must not make a second document.
    request_id    text COLLATE "C" CHECK (length(request_id) BETWEEN 1 AND 128),
    PRIMARY KEY (org_id, document_id, version),
    FOREIGN KEY (org_id, document_id) REFERENCES corpus.documents (org_id, document_id) ON DELETE CASCADE,
    CHECK ((status = 'failed') = (error_code IS NOT NULL))
);
CREATE UNIQUE INDEX versions_request ON corpus.versions (org_id, request_id) WHERE request_id IS NOT NULL;

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
    char_start   integer NOT NULL CHECK (char_start >= 0),     -- span in the stored text, in Unicode code points
    char_end     integer NOT NULL CHECK (char_end >= char_start),
    -- Whether the text is the stored text between char_start and char_end. A row of a Markdown table isn't: its text is
    -- `column: value` pairs. Only then is an offset in the chunk one in the document.
    verbatim     boolean NOT NULL DEFAULT true,
    -- Where it stands in the original: the set fields of a citewire.common.v1.Place under their names there.
    place        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(place) = 'object'),
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

-- Work for the ingest worker. The one table that citewire_worker reads across tenants: it says who and which version,
-- and holds no content. Everything after the claim happens under the tenant.

CREATE SEQUENCE corpus.job_ids AS bigint MAXVALUE 9007199254740991;

CREATE TABLE corpus.ingest_jobs (
    org_id        text COLLATE "C" NOT NULL,
    job_id        bigint NOT NULL DEFAULT nextval('corpus.job_ids'),
    document_id   bigint NOT NULL,
    version       integer NOT NULL,
    -- ingest: parse, chunk, embed, publish. sweep: delete a superseded version once next_run_at has come. embed: embed a
    -- live version's chunks in the further spaces too. backfill: embed what a live version lacks; the job is deleted when
    -- done, and kept for a while when given up.
    kind          text NOT NULL DEFAULT 'ingest' CHECK (kind IN ('ingest', 'sweep', 'embed', 'backfill')),
    -- queued -> running -> done | failed (for good). A failed attempt that may be tried again is queued anew.
    state         text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'failed')),
    attempts      integer NOT NULL DEFAULT 0,
    next_run_at   timestamptz NOT NULL DEFAULT now(),          -- not before
    worker        text,                                        -- who holds the lease
    lease_until   timestamptz,                                 -- a running job whose lease has passed may be claimed
    fence         bigint NOT NULL DEFAULT 0,                   -- grows with each claim; publishing checks it
    user_id       text NOT NULL,                               -- on whose behalf, for the embedder's tenant context
    plan          text NOT NULL DEFAULT 'free',
    trace_context jsonb NOT NULL DEFAULT '{}',                 -- traceparent, tracestate, request id of the upload
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, job_id),
    UNIQUE (org_id, document_id, version, kind),
    FOREIGN KEY (org_id, document_id, version) REFERENCES corpus.versions (org_id, document_id, version)
        ON DELETE CASCADE,
    CHECK ((state = 'running') = (lease_until IS NOT NULL))
);
-- For the claim, which looks over all tenants: it steps from one with queued jobs to the next, and takes its oldest.
CREATE INDEX ingest_jobs_queued ON corpus.ingest_jobs (kind, org_id, next_run_at, job_id) WHERE state = 'queued';
CREATE INDEX ingest_jobs_running ON corpus.ingest_jobs (lease_until) WHERE state = 'running';

SELECT corpus.protect('ingest_jobs');
CREATE POLICY worker_reads_all ON corpus.ingest_jobs FOR SELECT TO citewire_worker USING (true);
-- Claiming, extending a lease and ending a job; whose job it is can't be changed (no privilege on those columns).
CREATE POLICY worker_claims_all ON corpus.ingest_jobs FOR UPDATE TO citewire_worker USING (true) WITH CHECK (true);

GRANT USAGE ON SEQUENCE corpus.job_ids TO citewire_corpus, citewire_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.ingest_jobs TO citewire_corpus;
GRANT SELECT, INSERT, DELETE ON corpus.ingest_jobs TO citewire_worker;
GRANT UPDATE (state, attempts, next_run_at, worker, lease_until, fence, updated_at) ON corpus.ingest_jobs
    TO citewire_worker;

-- Wakes idle workers; which job it is, they ask.
CREATE FUNCTION corpus.notify_jobs() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('citewire_corpus_jobs', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER wake AFTER INSERT OR UPDATE ON corpus.ingest_jobs
    FOR EACH ROW WHEN (NEW.state = 'queued') EXECUTE FUNCTION corpus.notify_jobs();

-- Embedding spaces: a registry for all, a pointer per organisation, and a table of vectors for each.

-- Vectors are comparable only inside one space. No content, no tenant: every service sees which ones there are.
CREATE TABLE corpus.spaces (
    space_id   bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    model      text NOT NULL CHECK (length(model) BETWEEN 1 AND 200),
    revision   text NOT NULL CHECK (length(revision) BETWEEN 1 AND 100),
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4096),
    table_name text GENERATED ALWAYS AS ('vectors_' || space_id) STORED NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (model, revision, dimensions)
);
GRANT SELECT ON corpus.spaces TO citewire_corpus, citewire_worker;

-- Which space an organisation's searches use, and which one still serves.
CREATE TABLE corpus.org_spaces (
    org_id            text COLLATE "C" PRIMARY KEY CHECK (org_id <> ''),
    live_space_id     bigint NOT NULL REFERENCES corpus.spaces,
    previous_space_id bigint REFERENCES corpus.spaces,
    switched_at       timestamptz NOT NULL DEFAULT now()
);
SELECT corpus.protect('org_spaces');
GRANT SELECT ON corpus.org_spaces TO citewire_corpus;
-- The first publish of an organisation sets the pointer.
GRANT SELECT, INSERT ON corpus.org_spaces TO citewire_worker;

-- Makes a space's table: halfvec, hash-partitioned by organisation (measured best: a tenant's search walks a graph with
-- few foreign rows), a graph and a btree per partition, the tenant policy on the table and on each partition.
CREATE FUNCTION corpus.make_vector_table(table_name text, dimensions integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    -- Tenants share a partition's graph, and a search walks through rows of others that are nearer: with 100 tenants, the
    -- mean share of one's own rows in its graph is 16 % in 16 partitions, and 55 % in 64. 64 take 0.1 s to make.
    partitions CONSTANT integer := 64;
    partition_name text;
BEGIN
    EXECUTE format($table$
        CREATE TABLE corpus.%I (
            org_id      text COLLATE "C" NOT NULL,
            chunk_id    bigint NOT NULL,
            document_id bigint NOT NULL,
            version     integer NOT NULL,
            embedding   halfvec(%s) NOT NULL,
            PRIMARY KEY (org_id, chunk_id),
            FOREIGN KEY (org_id, chunk_id) REFERENCES corpus.chunks (org_id, chunk_id) ON DELETE CASCADE
        ) PARTITION BY HASH (org_id)
    $table$, table_name, dimensions);
    -- In the row as long as two rows fit a page: an exact scan then reads no TOAST.
    IF dimensions <= 1900 THEN
        EXECUTE format('ALTER TABLE corpus.%I ALTER COLUMN embedding SET STORAGE PLAIN', table_name);
    END IF;
    PERFORM corpus.protect(table_name);
    FOR remainder IN 0 .. partitions - 1 LOOP
        partition_name := table_name || '_p' || remainder;
        EXECUTE format('CREATE TABLE corpus.%I PARTITION OF corpus.%I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                       partition_name, table_name, partitions, remainder);
        PERFORM corpus.protect(partition_name);
    END LOOP;
    EXECUTE format('CREATE INDEX %I ON corpus.%I (org_id, document_id, version)',
                   table_name || '_by_document', table_name);
    -- HNSW takes a halfvec of at most 4000 dimensions; larger ones are scanned. A denser graph than the default (16, 64)
    -- takes 4 % more room and twice the time to build, and at the same search effort halves what is missed.
    IF dimensions <= 4000 THEN
        EXECUTE format('CREATE INDEX %I ON corpus.%I USING hnsw (embedding halfvec_cosine_ops)
                        WITH (m = 24, ef_construction = 100)', table_name || '_by_likeness', table_name);
    END IF;
    -- On the table only: nobody but the owner names a partition.
    EXECUTE format('GRANT SELECT ON corpus.%I TO citewire_corpus', table_name);
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON corpus.%I TO citewire_worker', table_name);
END
$$;
REVOKE ALL ON FUNCTION corpus.make_vector_table(text, integer) FROM PUBLIC;

-- Returns the space's id, after registering it and making its table if it is new. Runs as the owner, because the
-- services' roles may not create tables. Call it in a transaction of its own: a new table's foreign key locks chunks
-- against writers until commit.
CREATE FUNCTION corpus.ensure_space(wanted_model text, wanted_revision text, wanted_dimensions integer) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    known corpus.spaces;
BEGIN
    SELECT * INTO known FROM corpus.spaces
    WHERE (model, revision, dimensions) = (wanted_model, wanted_revision, wanted_dimensions);
    IF FOUND THEN
        RETURN known.space_id;
    END IF;
    -- Two first ingests at once: the second waits, then finds it.
    PERFORM pg_advisory_xact_lock(hashtextextended('citewire corpus.ensure_space', 0));
    INSERT INTO corpus.spaces (model, revision, dimensions)
    VALUES (wanted_model, wanted_revision, wanted_dimensions)
    ON CONFLICT DO NOTHING
    RETURNING * INTO known;
    IF FOUND THEN
        PERFORM corpus.make_vector_table(known.table_name, known.dimensions);
        RETURN known.space_id;
    END IF;
    SELECT * INTO STRICT known FROM corpus.spaces
    WHERE (model, revision, dimensions) = (wanted_model, wanted_revision, wanted_dimensions);
    RETURN known.space_id;
END
$$;
REVOKE ALL ON FUNCTION corpus.ensure_space(text, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.ensure_space(text, text, integer) TO citewire_worker;

-- Lexical search: a chunk's terms with BM25's weight for frequency and length, and in how many chunks each term occurs.

-- Terms are numbers (a hash of the stem); the question brings the weights of rarity, so the score is an inner product.
CREATE TABLE corpus.lexical (
    org_id      text COLLATE "C" NOT NULL,
    chunk_id    bigint NOT NULL,
    document_id bigint NOT NULL,
    version     integer NOT NULL,
    terms       sparsevec(1000000000) NOT NULL,
    PRIMARY KEY (org_id, chunk_id),
    FOREIGN KEY (org_id, chunk_id) REFERENCES corpus.chunks (org_id, chunk_id) ON DELETE CASCADE
);
CREATE INDEX lexical_by_document ON corpus.lexical (org_id, document_id, version);

-- Chunks of live versions that hold a term, by organisation and collection (0: none). Term 0 counts all chunks.
CREATE TABLE corpus.term_counts (
    org_id        text COLLATE "C" NOT NULL,
    term          integer NOT NULL,
    collection_id bigint NOT NULL,
    chunks        bigint NOT NULL,
    PRIMARY KEY (org_id, term, collection_id)
) WITH (fillfactor = 70);  -- counters are updated in place

SELECT corpus.protect(name) FROM unnest(ARRAY['lexical', 'term_counts']) AS name;
GRANT SELECT ON corpus.lexical TO citewire_corpus;
GRANT SELECT, INSERT, DELETE ON corpus.lexical TO citewire_worker;
GRANT SELECT, INSERT, UPDATE ON corpus.term_counts TO citewire_corpus, citewire_worker;

-- The terms of a version, one row per chunk and term, and a 0 per chunk.
CREATE FUNCTION corpus.terms_of(of_org text, of_document bigint, of_version integer) RETURNS SETOF integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, public, pg_temp
AS $$
    SELECT split_part(pair, ':', 1)::integer
    FROM corpus.lexical l
    CROSS JOIN LATERAL unnest(string_to_array(split_part(ltrim(l.terms::text, '{'), '}', 1), ',')) AS pair
    WHERE l.org_id = of_org AND l.document_id = of_document AND l.version = of_version AND pair <> ''
    UNION ALL
    SELECT 0
    FROM corpus.lexical l
    WHERE l.org_id = of_org AND l.document_id = of_document AND l.version = of_version
$$;
REVOKE ALL ON FUNCTION corpus.terms_of(text, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.terms_of(text, bigint, integer) TO citewire_corpus, citewire_worker;

-- Keeps the counts with every change of what is live: a publish, a deletion, a move between collections. All in the
-- transaction that makes the change, and under the lock of the document's row. Counters are taken in one order, so that
-- two writers of an organisation wait for each other and not in a circle.
CREATE FUNCTION corpus.count_terms() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    INSERT INTO corpus.term_counts AS counted (org_id, term, collection_id, chunks)
    SELECT OLD.org_id, changed.term, changed.collection_id, sum(changed.chunks)
    FROM (
        SELECT term, coalesce(OLD.collection_id, 0) AS collection_id, -1 AS chunks
        FROM corpus.terms_of(OLD.org_id, OLD.document_id, OLD.live_version) AS term
        UNION ALL
        SELECT term, coalesce(NEW.collection_id, 0), 1
        FROM corpus.terms_of(NEW.org_id, NEW.document_id, NEW.live_version) AS term
    ) changed
    GROUP BY changed.term, changed.collection_id
    HAVING sum(changed.chunks) <> 0
    ORDER BY changed.term, changed.collection_id
    ON CONFLICT (org_id, term, collection_id) DO UPDATE SET chunks = counted.chunks + excluded.chunks;
    RETURN coalesce(NEW, OLD);
END
$$;
-- Before the deletion: after it, the terms are gone with the chunks.
CREATE TRIGGER forget_terms BEFORE DELETE ON corpus.documents
    FOR EACH ROW WHEN (OLD.live_version IS NOT NULL) EXECUTE FUNCTION corpus.count_terms();
CREATE TRIGGER count_terms AFTER UPDATE OF live_version, collection_id ON corpus.documents
    FOR EACH ROW WHEN ((OLD.live_version, OLD.collection_id) IS DISTINCT FROM (NEW.live_version, NEW.collection_id))
    EXECUTE FUNCTION corpus.count_terms();

-- Removes a version's vectors (all versions' if it is NULL) from every space, and its terms, as the caller and under its
-- tenant; returns how many vectors. Superseded versions lose both at once, their chunks later.
CREATE FUNCTION corpus.drop_vectors(of_org text, of_document bigint, of_version integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    vectors text;
    removed bigint;
    total bigint := 0;
BEGIN
    FOR vectors IN SELECT table_name FROM corpus.spaces LOOP
        EXECUTE format('DELETE FROM corpus.%I WHERE org_id = $1 AND document_id = $2 AND version = coalesce($3, version)',
                       vectors)
        USING of_org, of_document, of_version;
        GET DIAGNOSTICS removed = ROW_COUNT;
        total := total + removed;
    END LOOP;
    DELETE FROM corpus.lexical l
    WHERE l.org_id = of_org AND l.document_id = of_document AND l.version = coalesce(of_version, l.version);
    RETURN total;
END
$$;
REVOKE ALL ON FUNCTION corpus.drop_vectors(text, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.drop_vectors(text, bigint, integer) TO citewire_worker;

-- Lexical search of large organisations looks only at chunks that hold a rare enough word of the question.

-- What the index is of: a number for each organisation and term, so that no tenant's list holds another's chunks.
CREATE FUNCTION corpus.term_keys(of_org text, terms sparsevec) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public, pg_temp
AS $$
    SELECT array_agg(hashtextextended(of_org, split_part(pair, ':', 1)::bigint))
    FROM unnest(string_to_array(split_part(ltrim(terms::text, '{'), '}', 1), ',')) AS pair
    WHERE pair <> ''
$$;
REVOKE ALL ON FUNCTION corpus.term_keys(text, sparsevec) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.term_keys(text, sparsevec) TO citewire_corpus, citewire_worker;

-- Entries are made at once, without a list of pending ones: a search would have to look through that.
CREATE INDEX lexical_by_term ON corpus.lexical USING gin (corpus.term_keys(org_id, terms)) WITH (fastupdate = off);

-- The tenant's chunks that hold at least one of these terms, with the score of the question, if that is at least so high.
-- Under row-level security no plan may use a GIN index, as its operators aren't leakproof. So this runs as the owner, and
-- compares org_id itself with the tenant that kit has set; without a tenant it finds nothing.
CREATE FUNCTION corpus.lexical_matches(of_terms integer[], question sparsevec, lowest float8)
RETURNS TABLE (chunk_id bigint, document_id bigint, version integer, score float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 200
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    keys CONSTANT bigint[] := (SELECT array_agg(hashtextextended(org, term)) FROM unnest(of_terms) AS term);
BEGIN
    RETURN QUERY
    SELECT found.chunk_id, found.document_id, found.version, found.score
    FROM (
        SELECT l.chunk_id, l.document_id, l.version, -(l.terms <#> question) AS score
        FROM corpus.lexical l
        WHERE l.org_id = org AND corpus.term_keys(l.org_id, l.terms) && keys
        OFFSET 0  -- the score is computed once
    ) found
    WHERE found.score >= lowest;
END
$$;
REVOKE ALL ON FUNCTION corpus.lexical_matches(integer[], sparsevec, float8) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.lexical_matches(integer[], sparsevec, float8) TO citewire_corpus;

-- The policy binds the owner too, and would keep its function from the index. No service connects as the owner.
CREATE POLICY owner_reads_all ON corpus.lexical FOR SELECT TO CURRENT_USER USING (true);

-- Further spaces: documents that are embedded once more, beside the organisation's live space, for systems that search
-- with a model of their own. The worker does it after a version went live, so that such a model's failure delays nobody
-- else.

-- Which spaces an organisation's searches may use beside the live one: those that hold at least one document whole.
CREATE TABLE corpus.further_spaces (
    org_id   text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    space_id bigint NOT NULL REFERENCES corpus.spaces,
    since    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, space_id)
);
SELECT corpus.protect('further_spaces');
GRANT SELECT ON corpus.further_spaces TO citewire_corpus;
GRANT SELECT, INSERT ON corpus.further_spaces TO citewire_worker;

-- Backfill: live versions that lack vectors in a space that they should have them in are found and embedded, in the
-- background. That heals what was imported or lost, and fills the space that an organisation is to be switched to.

-- The space that an organisation prepares. By name: a worker registers it once the embedder has shown that it serves it.
CREATE TABLE corpus.next_spaces (
    org_id     text COLLATE "C" PRIMARY KEY CHECK (org_id <> ''),
    model      text NOT NULL CHECK (length(model) BETWEEN 1 AND 200),
    revision   text NOT NULL CHECK (length(revision) BETWEEN 1 AND 100),
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4096),
    since      timestamptz NOT NULL DEFAULT now()
);
SELECT corpus.protect('next_spaces');
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.next_spaces TO citewire_corpus;
GRANT SELECT ON corpus.next_spaces TO citewire_worker;

-- Switching. Its first space an organisation still gets by its first document.
GRANT UPDATE (live_space_id, previous_space_id, switched_at) ON corpus.org_spaces TO citewire_corpus;

-- When an organisation's documents are next looked through for missing vectors: one worker takes an organisation that is
-- due, for all of them. As ingest_jobs, it is read across tenants and holds no content.
CREATE TABLE corpus.backfill_checks (
    org_id  text COLLATE "C" PRIMARY KEY CHECK (org_id <> ''),
    next_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX backfill_checks_due ON corpus.backfill_checks (next_at);

SELECT corpus.protect('backfill_checks');
CREATE POLICY worker_reads_all ON corpus.backfill_checks FOR SELECT TO citewire_worker USING (true);
CREATE POLICY worker_takes_all ON corpus.backfill_checks FOR UPDATE TO citewire_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON corpus.backfill_checks TO citewire_corpus, citewire_worker;
GRANT UPDATE (next_at) ON corpus.backfill_checks TO citewire_corpus, citewire_worker;

-- An organisation is looked through at once when it gets a space, is switched, or prepares one.
CREATE FUNCTION corpus.check_backfill() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO corpus.backfill_checks AS checks (org_id) VALUES (NEW.org_id)
    ON CONFLICT (org_id) DO UPDATE SET next_at = least(checks.next_at, now());
    PERFORM pg_notify('citewire_corpus_jobs', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER check_backfill AFTER INSERT OR UPDATE ON corpus.org_spaces
    FOR EACH ROW EXECUTE FUNCTION corpus.check_backfill();
CREATE TRIGGER check_backfill AFTER INSERT OR UPDATE ON corpus.next_spaces
    FOR EACH ROW EXECUTE FUNCTION corpus.check_backfill();

-- Thresholds that an organisation had measured for an embedding space: they count in place of those that come with the
-- server. A row takes the place of another as a whole; what it leaves NULL wasn't derived.
CREATE TABLE corpus.space_calibrations (
    org_id               text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    space_id             bigint NOT NULL REFERENCES corpus.spaces,
    relevance_threshold  double precision CHECK (relevance_threshold BETWEEN 0 AND 1),
    answerable_threshold double precision CHECK (answerable_threshold BETWEEN 0 AND 1),
    dense_weight         double precision CHECK (dense_weight BETWEEN 0 AND 1),
    measured_at          timestamptz NOT NULL DEFAULT now(),
    report               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(report) = 'object'),
    PRIMARY KEY (org_id, space_id)
);
SELECT corpus.protect('space_calibrations');
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.space_calibrations TO citewire_corpus;
