-- Erasing a user or an organisation. Documents go first, in batches, by the queries of the service.

-- What else names a user who has no documents any more.
CREATE FUNCTION corpus.forget_user(of_user text, successor text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
BEGIN
    UPDATE corpus.ingest_jobs SET user_id = successor WHERE org_id = org AND user_id = of_user;
    DELETE FROM corpus.stored_bytes WHERE org_id = org AND user_id = of_user;  -- with the documents, they add up to 0
END
$$;
REVOKE ALL ON FUNCTION corpus.forget_user(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.forget_user(text, text) TO citewire_corpus;

-- Deletes every row of the caller's organisation, in each table of the schema that has organisations: those that later
-- versions add are found in the catalogue.
CREATE FUNCTION corpus.forget_organisation() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    relation text;
BEGIN
    IF coalesce(org, '') = '' THEN
        RAISE EXCEPTION 'no organisation is set';
    END IF;
    FOR relation IN
        SELECT c.relname FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'corpus'
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
        ORDER BY c.relname <> 'documents', c.relname  -- what a document's deletion notes goes after it
    LOOP
        EXECUTE format('DELETE FROM corpus.%I WHERE org_id = $1', relation) USING org;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION corpus.forget_organisation() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.forget_organisation() TO citewire_corpus;
