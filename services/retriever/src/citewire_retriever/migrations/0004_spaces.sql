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
    partitions CONSTANT integer := 16;
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

-- Removes a version's vectors (all versions' if it is NULL) from every space, as the caller and under its tenant;
-- returns how many. Superseded versions lose their vectors at once, their chunks later.
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
    RETURN total;
END
$$;
REVOKE ALL ON FUNCTION corpus.drop_vectors(text, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.drop_vectors(text, bigint, integer) TO citewire_worker;
