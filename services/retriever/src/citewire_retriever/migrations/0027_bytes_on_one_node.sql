-- Where tables are spread over nodes (Citus), what was inserted from a query over another table was asked of all shards on all
-- nodes: an upload failed while any node was away. By two statements it stays where the row is.
CREATE OR REPLACE FUNCTION corpus.count_version_bytes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    version CONSTANT corpus.versions := coalesce(NEW, OLD);
    whose text;
BEGIN
    IF version.size_bytes <> 0 THEN
        SELECT d.owner INTO whose FROM corpus.documents d
        WHERE d.org_id = version.org_id AND d.document_id = version.document_id;
        -- None: the document is being deleted too, and has counted all of its versions.
        IF FOUND THEN
            INSERT INTO corpus.stored_bytes (org_id, user_id, bytes)
            VALUES (version.org_id, whose, CASE WHEN TG_OP = 'INSERT' THEN version.size_bytes ELSE -version.size_bytes END);
        END IF;
    END IF;
    RETURN NULL;
END
$$;
