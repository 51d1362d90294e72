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

-- Superseded versions lose their terms together with their vectors.
CREATE OR REPLACE FUNCTION corpus.drop_vectors(of_org text, of_document bigint, of_version integer) RETURNS bigint
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
