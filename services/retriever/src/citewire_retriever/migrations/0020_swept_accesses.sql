-- An access that no document has any more goes. Each lengthened the lists of who is among its readers.

-- Also for the foreign key: without it, an access that goes, as with its collection, is looked for in all documents.
CREATE INDEX documents_by_own_access ON corpus.documents (org_id, access_id) WHERE access_id IS NOT NULL;

-- As in 0012, but that an access which is there already is held until commit, and so isn't swept before its document has it.
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
            INSERT INTO corpus.access_readers (org_id, subject, access_id)
            SELECT of_org, reader, known FROM unnest(sorted) AS reader;
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

-- Deletes accesses of the organisation that no document has, at most a thousand; returns how many. What a transaction
-- holds stays.
CREATE FUNCTION corpus.sweep_accesses() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    unused bigint[];
    swept bigint;
BEGIN
    unused := ARRAY(
        SELECT a.access_id FROM corpus.accesses a
        WHERE a.org_id = org
          AND NOT EXISTS (SELECT FROM corpus.documents d WHERE d.org_id = org AND d.access_id = a.access_id)
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    );
    -- By a statement of its own, which sees what was committed before the locks were had.
    DELETE FROM corpus.accesses a
    WHERE a.org_id = org AND a.access_id = ANY (unused)
      AND NOT EXISTS (SELECT FROM corpus.documents d WHERE d.org_id = org AND d.access_id = a.access_id);
    GET DIAGNOSTICS swept = ROW_COUNT;
    DELETE FROM corpus.access_counts c
    WHERE c.org_id = org AND c.access_id = ANY (unused)
      AND NOT EXISTS (SELECT FROM corpus.accesses a WHERE a.org_id = org AND a.access_id = c.access_id);
    RETURN swept;
END
$$;
REVOKE ALL ON FUNCTION corpus.sweep_accesses() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.sweep_accesses() TO citewire_corpus;
