-- Which labels may be proposed for a document: as everybody who sees it reads those that are chosen, only those of documents
-- that they all see.

-- The accesses of documents that at least those see who see this one: its own, its collection's, and everybody's. Runs as the
-- owner, as the worker doesn't read grants.
CREATE FUNCTION corpus.accesses_no_narrower(of_document bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ARRAY[0, d.access_id, d.collection_id] || ARRAY(
        SELECT c.collection_id FROM corpus.collections c
        WHERE c.org_id = d.org_id AND NOT EXISTS (
            SELECT FROM corpus.collection_grants g WHERE g.org_id = c.org_id AND g.collection_id = c.collection_id)
    )
    FROM corpus.documents d
    WHERE d.org_id = current_setting('citewire.org_id', true) AND d.document_id = of_document
$$;
REVOKE ALL ON FUNCTION corpus.accesses_no_narrower(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.accesses_no_narrower(bigint) TO citewire_worker;
