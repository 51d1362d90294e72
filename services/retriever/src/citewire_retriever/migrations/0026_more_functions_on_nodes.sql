-- More of 0025's: functions of before, in what one Postgres and a cluster of them both take.

-- The rows of what is inserted from a query are returned: Citus would COPY them otherwise, which row-level security forbids.
-- EXECUTE leaves them where they are.
CREATE OR REPLACE FUNCTION corpus.intern_access(of_org text, of_collection bigint, of_readers text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    sorted CONSTANT text[] := ARRAY(SELECT DISTINCT reader COLLATE "C" FROM unnest(of_readers) AS reader ORDER BY 1);
    wanted CONSTANT bytea := sha256(convert_to(array_to_string(sorted, E'\n'), 'UTF8'));
    known bigint;
BEGIN
    -- Everyone is who sees it without readers, too.
    IF cardinality(sorted) = 0 OR 'everyone' = ANY (sorted) THEN
        RETURN NULL;
    END IF;
    LOOP
        INSERT INTO corpus.accesses (org_id, collection_id, readers, digest)
        VALUES (of_org, of_collection, sorted, wanted)
        ON CONFLICT (org_id, collection_id, digest) DO NOTHING
        RETURNING access_id INTO known;
        IF known IS NOT NULL THEN
            EXECUTE 'INSERT INTO corpus.access_readers (org_id, subject, access_id)'
                    ' SELECT $1, reader, $2 FROM unnest($3) AS reader RETURNING 1' USING of_org, known, sorted;
            RETURN known;
        END IF;
        SELECT a.access_id INTO known FROM corpus.accesses a
        WHERE a.org_id = of_org AND a.collection_id IS NOT DISTINCT FROM of_collection AND a.digest = wanted
        FOR KEY SHARE;
        IF known IS NOT NULL THEN
            RETURN known;
        END IF;  -- else it was swept while this waited for it
    END LOOP;
END
$$;

-- What is locked is gathered row by row: an array of a locked sub-select has no node.
CREATE OR REPLACE FUNCTION corpus.sweep_accesses() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    held bigint;
    unused bigint[] := '{}';
    swept bigint;
BEGIN
    FOR held IN
        SELECT a.access_id FROM corpus.accesses a
        WHERE a.org_id = org
          AND NOT EXISTS (SELECT 1 FROM corpus.documents d WHERE d.org_id = org AND d.access_id = a.access_id)
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    LOOP
        unused := unused || held;
    END LOOP;
    -- By a statement of its own, which sees what was committed before the locks were had.
    DELETE FROM corpus.accesses a
    WHERE a.org_id = org AND a.access_id = ANY (unused)
      AND NOT EXISTS (SELECT 1 FROM corpus.documents d WHERE d.org_id = org AND d.access_id = a.access_id);
    GET DIAGNOSTICS swept = ROW_COUNT;
    DELETE FROM corpus.access_counts c
    WHERE c.org_id = org AND c.access_id = ANY (unused)
      AND NOT EXISTS (SELECT 1 FROM corpus.accesses a WHERE a.org_id = org AND a.access_id = c.access_id);
    RETURN swept;
END
$$;

-- What an access is to become is found before it is written: convert_to isn't immutable, and may not be asked of a column.
CREATE OR REPLACE FUNCTION corpus.forget_user(of_user text, successor text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    old CONSTANT text := 'user:' || of_user;
    new CONSTANT text := 'user:' || successor;
    known record;
    renamed text[];
    digested bytea;
BEGIN
    UPDATE corpus.ingest_jobs SET user_id = successor WHERE org_id = org AND user_id = of_user;
    DELETE FROM corpus.stored_bytes WHERE org_id = org AND user_id = of_user;  -- with the documents, they add up to 0
    UPDATE corpus.collection_grants SET subject = new WHERE org_id = org AND subject = old;
    FOR known IN
        SELECT x.access_id, x.readers
        FROM corpus.access_readers r
        JOIN corpus.accesses x ON x.org_id = r.org_id AND x.access_id = r.access_id
        WHERE r.org_id = org AND x.org_id = org AND r.subject = old
    LOOP
        renamed := ARRAY(SELECT reader COLLATE "C" FROM unnest(array_replace(known.readers, old, new)) AS reader ORDER BY 1);
        digested := sha256(convert_to(array_to_string(renamed, E'\n'), 'UTF8'));
        UPDATE corpus.accesses a SET readers = renamed, digest = digested
        WHERE a.org_id = org AND a.access_id = known.access_id;
    END LOOP;
    UPDATE corpus.access_readers SET subject = new WHERE org_id = org AND subject = old;
END
$$;
