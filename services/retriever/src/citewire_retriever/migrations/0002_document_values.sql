-- What a library's documents are labelled with: each value of type, entity_type, category and tags, by owner, with how many
-- live documents have it. A question's words are looked up here, not in the documents.

-- The first two characters of a value without accents, by which candidates are found: words are compared by their stems,
-- which leave the beginning alone.
CREATE FUNCTION corpus.initials(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$ SELECT left(regexp_replace(normalize(value, NFKD), U&'[\0300-\036F]', '', 'g'), 2) $$;
REVOKE ALL ON FUNCTION corpus.initials(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.initials(text) TO citewire_corpus, citewire_worker;

CREATE TABLE corpus.document_values (
    org_id    text COLLATE "C" NOT NULL,
    owner     text COLLATE "C" NOT NULL,
    field     text COLLATE "C" NOT NULL CHECK (field IN ('type', 'entity_type', 'category', 'tags')),
    value     text COLLATE "C" NOT NULL,
    documents bigint NOT NULL,
    initials  text COLLATE "C" GENERATED ALWAYS AS (corpus.initials(value)) STORED NOT NULL,
    PRIMARY KEY (org_id, owner, field, value)
) WITH (fillfactor = 70);  -- counters are updated in place
CREATE INDEX document_values_by_initials ON corpus.document_values (org_id, initials, owner);

SELECT corpus.protect('document_values');
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.document_values TO citewire_corpus, citewire_worker;

-- Collections are looked up where they are: there are few, and each has a row.
CREATE INDEX collections_by_initials ON corpus.collections (org_id, corpus.initials(name));

-- The values of one document, each once. Longer texts are no labels.
CREATE FUNCTION corpus.labels_of(of_type text, of_tags text[], of_metadata jsonb) RETURNS TABLE (field text, value text)
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'type', of_type WHERE of_type IS NOT NULL
    UNION
    SELECT 'tags', tag FROM unnest(of_tags) AS tag WHERE length(tag) BETWEEN 1 AND 128
    UNION
    SELECT key, of_metadata ->> key
    FROM unnest(ARRAY['entity_type', 'category']) AS key
    WHERE jsonb_typeof(of_metadata -> key) = 'string' AND length(of_metadata ->> key) BETWEEN 1 AND 128
$$;
REVOKE ALL ON FUNCTION corpus.labels_of(text, text[], jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.labels_of(text, text[], jsonb) TO citewire_corpus, citewire_worker;

-- Keeps the counts with every change of a live document or of what is live, in the same transaction. Counters are taken in
-- one order, so that two writers wait for each other and not in a circle.
CREATE FUNCTION corpus.count_values() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    gone boolean := TG_OP <> 'INSERT' AND OLD.live_version IS NOT NULL;
    here boolean := TG_OP <> 'DELETE' AND NEW.live_version IS NOT NULL;
BEGIN
    INSERT INTO corpus.document_values AS counted (org_id, owner, field, value, documents)
    SELECT changed.org_id, changed.owner, changed.field, changed.value, sum(changed.documents)
    FROM (
        SELECT OLD.org_id, OLD.owner, label.field, label.value, -1 AS documents
        FROM corpus.labels_of(OLD.type, OLD.tags, OLD.metadata) AS label
        WHERE gone
        UNION ALL
        SELECT NEW.org_id, NEW.owner, label.field, label.value, 1
        FROM corpus.labels_of(NEW.type, NEW.tags, NEW.metadata) AS label
        WHERE here
    ) changed
    GROUP BY changed.org_id, changed.owner, changed.field, changed.value
    HAVING sum(changed.documents) <> 0
    ORDER BY changed.owner, changed.field, changed.value
    ON CONFLICT (org_id, owner, field, value) DO UPDATE SET documents = counted.documents + excluded.documents;
    IF gone THEN
        DELETE FROM corpus.document_values counted
        USING corpus.labels_of(OLD.type, OLD.tags, OLD.metadata) AS label
        WHERE counted.org_id = OLD.org_id AND counted.owner = OLD.owner
          AND counted.field = label.field AND counted.value = label.value AND counted.documents <= 0;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_values_inserted AFTER INSERT ON corpus.documents
    FOR EACH ROW WHEN (NEW.live_version IS NOT NULL) EXECUTE FUNCTION corpus.count_values();
CREATE TRIGGER count_values_deleted AFTER DELETE ON corpus.documents
    FOR EACH ROW WHEN (OLD.live_version IS NOT NULL) EXECUTE FUNCTION corpus.count_values();
CREATE TRIGGER count_values_updated AFTER UPDATE OF live_version, owner, type, tags, metadata ON corpus.documents
    FOR EACH ROW WHEN (
        (OLD.live_version IS NULL, OLD.owner, OLD.type, OLD.tags, OLD.metadata)
        IS DISTINCT FROM (NEW.live_version IS NULL, NEW.owner, NEW.type, NEW.tags, NEW.metadata)
    ) EXECUTE FUNCTION corpus.count_values();

-- What is there already, one organisation after the other: row-level security binds the owner as well, but for the terms,
-- which tell which organisations there are. The triggers' creation holds writers off until this is committed.
DO $$
DECLARE
    org text := (SELECT min(org_id) FROM corpus.lexical);
BEGIN
    WHILE org IS NOT NULL LOOP
        PERFORM set_config('citewire.org_id', org, true);
        INSERT INTO corpus.document_values (org_id, owner, field, value, documents)
        SELECT d.org_id, d.owner, label.field, label.value, count(*)
        FROM corpus.documents d
        CROSS JOIN LATERAL corpus.labels_of(d.type, d.tags, d.metadata) AS label
        WHERE d.org_id = org AND d.live_version IS NOT NULL
        GROUP BY d.org_id, d.owner, label.field, label.value;
        org := (SELECT min(org_id) FROM corpus.lexical WHERE org_id > org);
    END LOOP;
    PERFORM set_config('citewire.org_id', '', true);
END
$$;
