-- Statistics of what a caller may see: words, labels, and how much there is, each counted by who may see it. Searches read
-- on meanwhile; writers wait.

LOCK TABLE corpus.documents IN SHARE ROW EXCLUSIVE MODE;

-- To scan what a caller may see.
CREATE INDEX documents_by_access ON corpus.documents (org_id, (coalesce(access_id, collection_id, 0)))
    WHERE live_version IS NOT NULL;
CREATE INDEX documents_by_owner ON corpus.documents (org_id, owner) WHERE live_version IS NOT NULL;

-- Live documents and their chunks, by access.
CREATE TABLE corpus.access_counts (
    org_id    text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    access_id bigint NOT NULL,
    documents bigint NOT NULL,
    chunks    bigint NOT NULL,
    PRIMARY KEY (org_id, access_id)
) WITH (fillfactor = 70);  -- counters are updated in place
SELECT corpus.protect('access_counts');
GRANT SELECT ON corpus.access_counts TO citewire_corpus;

-- Triggers that count write for whoever may see what.
CREATE FUNCTION corpus.count_accesses() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO corpus.access_counts AS counted (org_id, access_id, documents, chunks)
    SELECT changed.org_id, changed.access_id, sum(changed.documents), sum(changed.chunks)
    FROM (
        SELECT OLD.org_id, coalesce(OLD.access_id, OLD.collection_id, 0) AS access_id, -1 AS documents,
               -OLD.live_chunks AS chunks
        WHERE TG_OP <> 'INSERT' AND OLD.live_version IS NOT NULL
        UNION ALL
        SELECT NEW.org_id, coalesce(NEW.access_id, NEW.collection_id, 0), 1, NEW.live_chunks
        WHERE TG_OP <> 'DELETE' AND NEW.live_version IS NOT NULL
    ) changed
    GROUP BY changed.org_id, changed.access_id
    HAVING sum(changed.documents) <> 0 OR sum(changed.chunks) <> 0
    ORDER BY changed.access_id
    ON CONFLICT (org_id, access_id) DO UPDATE
    SET documents = counted.documents + excluded.documents, chunks = counted.chunks + excluded.chunks;
    RETURN coalesce(NEW, OLD);
END
$$;
-- Named so that they run before the counters of terms, which are taken before a deletion: one order for all writers.
CREATE TRIGGER count_accesses AFTER INSERT OR UPDATE OF live_version, live_chunks, collection_id, access_id
    ON corpus.documents FOR EACH ROW EXECUTE FUNCTION corpus.count_accesses();
CREATE TRIGGER forget_accesses BEFORE DELETE ON corpus.documents
    FOR EACH ROW WHEN (OLD.live_version IS NOT NULL) EXECUTE FUNCTION corpus.count_accesses();

-- collection_id is that of an access: a document's own, or else its collection's. It keeps its name for the previous
-- version of the code.
CREATE OR REPLACE FUNCTION corpus.count_terms() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    INSERT INTO corpus.term_counts AS counted (org_id, term, collection_id, chunks)
    SELECT OLD.org_id, changed.term, changed.access_id, sum(changed.chunks)
    FROM (
        SELECT term, coalesce(OLD.access_id, OLD.collection_id, 0) AS access_id, -1 AS chunks
        FROM corpus.terms_of(OLD.org_id, OLD.document_id, OLD.live_version) AS term
        UNION ALL
        SELECT term, coalesce(NEW.access_id, NEW.collection_id, 0), 1
        FROM corpus.terms_of(NEW.org_id, NEW.document_id, NEW.live_version) AS term
    ) changed
    GROUP BY changed.term, changed.access_id
    HAVING sum(changed.chunks) <> 0
    ORDER BY changed.term, changed.access_id
    ON CONFLICT (org_id, term, collection_id) DO UPDATE SET chunks = counted.chunks + excluded.chunks;
    RETURN coalesce(NEW, OLD);
END
$$;
DROP TRIGGER count_terms ON corpus.documents;
CREATE TRIGGER count_terms AFTER UPDATE OF live_version, collection_id, access_id ON corpus.documents
    FOR EACH ROW WHEN ((OLD.live_version, OLD.collection_id, OLD.access_id)
                       IS DISTINCT FROM (NEW.live_version, NEW.collection_id, NEW.access_id))
    EXECUTE FUNCTION corpus.count_terms();

-- What a collection's documents are counted by: its id and its accesses.
CREATE FUNCTION corpus.accesses_of(of_collection bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ARRAY(SELECT of_collection UNION ALL SELECT a.access_id FROM corpus.accesses a
                 WHERE a.org_id = current_setting('citewire.org_id', true) AND a.collection_id = of_collection)
$$;
REVOKE ALL ON FUNCTION corpus.accesses_of(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.accesses_of(bigint) TO citewire_corpus;

CREATE POLICY sees ON corpus.term_counts AS RESTRICTIVE FOR SELECT TO citewire_corpus
    USING (current_setting('citewire.visible', true) = 'all' OR corpus.sees_access(collection_id));
CREATE POLICY sees ON corpus.access_counts AS RESTRICTIVE FOR SELECT TO citewire_corpus
    USING (current_setting('citewire.visible', true) = 'all' OR corpus.sees_access(access_id));

-- Labels, counted anew by access.
ALTER TABLE corpus.document_values
    ADD COLUMN access_id bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT document_values_pkey,
    ADD PRIMARY KEY (org_id, owner, field, value, access_id);

CREATE OR REPLACE FUNCTION corpus.count_values() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    gone boolean := TG_OP <> 'INSERT' AND OLD.live_version IS NOT NULL;
    here boolean := TG_OP <> 'DELETE' AND NEW.live_version IS NOT NULL;
BEGIN
    INSERT INTO corpus.document_values AS counted (org_id, owner, field, value, access_id, documents)
    SELECT changed.org_id, changed.owner, changed.field, changed.value, changed.access_id, sum(changed.documents)
    FROM (
        SELECT OLD.org_id, OLD.owner, label.field, label.value,
               coalesce(OLD.access_id, OLD.collection_id, 0) AS access_id, -1 AS documents
        FROM corpus.labels_of(OLD.type, OLD.tags, OLD.metadata) AS label
        WHERE gone
        UNION ALL
        SELECT NEW.org_id, NEW.owner, label.field, label.value, coalesce(NEW.access_id, NEW.collection_id, 0), 1
        FROM corpus.labels_of(NEW.type, NEW.tags, NEW.metadata) AS label
        WHERE here
    ) changed
    GROUP BY changed.org_id, changed.owner, changed.field, changed.value, changed.access_id
    HAVING sum(changed.documents) <> 0
    ORDER BY changed.owner, changed.field, changed.value, changed.access_id
    ON CONFLICT (org_id, owner, field, value, access_id) DO UPDATE
    SET documents = counted.documents + excluded.documents;
    IF gone THEN
        DELETE FROM corpus.document_values counted
        USING corpus.labels_of(OLD.type, OLD.tags, OLD.metadata) AS label
        WHERE counted.org_id = OLD.org_id AND counted.owner = OLD.owner
          AND counted.access_id = coalesce(OLD.access_id, OLD.collection_id, 0)
          AND counted.field = label.field AND counted.value = label.value AND counted.documents <= 0;
    END IF;
    RETURN NULL;
END
$$;
DROP TRIGGER count_values_updated ON corpus.documents;
CREATE TRIGGER count_values_updated
    AFTER UPDATE OF live_version, owner, type, tags, metadata, collection_id, access_id ON corpus.documents
    FOR EACH ROW WHEN (
        (OLD.live_version IS NULL, OLD.owner, OLD.type, OLD.tags, OLD.metadata, OLD.collection_id, OLD.access_id)
        IS DISTINCT FROM
        (NEW.live_version IS NULL, NEW.owner, NEW.type, NEW.tags, NEW.metadata, NEW.collection_id, NEW.access_id)
    ) EXECUTE FUNCTION corpus.count_values();

CREATE POLICY sees ON corpus.document_values AS RESTRICTIVE FOR SELECT TO citewire_corpus USING (
    current_setting('citewire.visible', true) = 'all'
    OR corpus.sees_access(access_id)
    OR owner = current_setting('citewire.user_id', true)
);

-- What is there already, one organisation after the other: row-level security binds the owner as well, but for the terms,
-- which tell which organisations there are.
DO $$
DECLARE
    org text := (SELECT min(org_id) FROM corpus.lexical);
BEGIN
    WHILE org IS NOT NULL LOOP
        PERFORM set_config('citewire.org_id', org, true);
        DELETE FROM corpus.document_values WHERE org_id = org;
        INSERT INTO corpus.document_values (org_id, owner, field, value, access_id, documents)
        SELECT d.org_id, d.owner, label.field, label.value, coalesce(d.collection_id, 0), count(*)
        FROM corpus.documents d
        CROSS JOIN LATERAL corpus.labels_of(d.type, d.tags, d.metadata) AS label
        WHERE d.org_id = org AND d.live_version IS NOT NULL
        GROUP BY d.org_id, d.owner, label.field, label.value, coalesce(d.collection_id, 0);
        INSERT INTO corpus.access_counts (org_id, access_id, documents, chunks)
        SELECT d.org_id, coalesce(d.collection_id, 0), count(*), sum(d.live_chunks)
        FROM corpus.documents d
        WHERE d.org_id = org AND d.live_version IS NOT NULL
        GROUP BY d.org_id, coalesce(d.collection_id, 0);
        org := (SELECT min(org_id) FROM corpus.lexical WHERE org_id > org);
    END LOOP;
    PERFORM set_config('citewire.org_id', '', true);
END
$$;
