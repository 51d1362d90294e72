-- Enrichment: where a collection wants it, a worker fills what a live document lacks of summary, entity_type, category
-- (in its metadata) and tags. What a person set is never changed.

ALTER TABLE corpus.collections ADD COLUMN enrich boolean NOT NULL DEFAULT false;

ALTER TABLE corpus.documents
    -- By field: the value that enrichment wrote, or null where a person settled the field for ever.
    ADD COLUMN enriched jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(enriched) = 'object'),
    ADD COLUMN enriched_by text CHECK (enriched_by IN ('model', 'rules')),
    -- Why the last attempt failed: a code in upper case and a sentence for the person who saved the document.
    ADD COLUMN enrichment_code text,
    ADD COLUMN enrichment_message text;

-- enrich: describe a live version.
ALTER TABLE corpus.ingest_jobs
    DROP CONSTRAINT ingest_jobs_kind_check,
    ADD CONSTRAINT ingest_jobs_kind_check CHECK (kind IN ('ingest', 'sweep', 'embed', 'backfill', 'enrich'));

-- Fields with a value of enrichment's: nobody has changed it since, whichever version of the code they used.
CREATE FUNCTION corpus.enriched_fields(of_enriched jsonb, of_tags text[], of_metadata jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(key ORDER BY key), '{}')
    FROM jsonb_each(of_enriched)
    WHERE jsonb_typeof(value) <> 'null'
      AND value = CASE WHEN key = 'tags' THEN to_jsonb(of_tags) ELSE of_metadata -> key END
$$;

-- Fields that enrichment may write: those, and those that are empty and that nobody emptied.
CREATE FUNCTION corpus.open_fields(of_enriched jsonb, of_tags text[], of_metadata jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT corpus.enriched_fields(of_enriched, of_tags, of_metadata) || coalesce(array_agg(field ORDER BY field), '{}')
    FROM unnest(ARRAY['summary', 'entity_type', 'category', 'tags']) AS field
    WHERE NOT of_enriched ? field
      AND CASE WHEN field = 'tags' THEN cardinality(of_tags) = 0
               ELSE coalesce(of_metadata -> field IN ('null', '""'), true) END
$$;

-- What a person settles by tags and metadata that they give (NULL: not given), to be added to `enriched`. With `whole`
-- they say of each field what it is to be, also that it is to be empty; else only of those that have a value.
CREATE FUNCTION corpus.settled(
    of_enriched jsonb, of_metadata jsonb, new_tags text[], new_metadata jsonb, whole boolean
) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(jsonb_object_agg(field, NULL::text), '{}')
    FROM unnest(ARRAY['summary', 'entity_type', 'category', 'tags']) AS field
    WHERE CASE WHEN field = 'tags' THEN new_tags IS NOT NULL AND (whole OR cardinality(new_tags) > 0)
               ELSE new_metadata IS NOT NULL
                    AND (new_metadata ? field OR whole AND (of_metadata ? field OR of_enriched ? field)) END
$$;

-- Some members of an object.
CREATE FUNCTION corpus.members(object jsonb, names text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(object) WHERE key = ANY (names)
$$;

REVOKE ALL ON FUNCTION
    corpus.enriched_fields(jsonb, text[], jsonb), corpus.open_fields(jsonb, text[], jsonb),
    corpus.settled(jsonb, jsonb, text[], jsonb, boolean), corpus.members(jsonb, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    corpus.enriched_fields(jsonb, text[], jsonb), corpus.open_fields(jsonb, text[], jsonb),
    corpus.settled(jsonb, jsonb, text[], jsonb, boolean), corpus.members(jsonb, text[])
    TO citewire_corpus, citewire_worker;

-- A version that goes live in such a collection, or a live one that is moved there, is queued in the same transaction, on
-- behalf of whoever saved it. What this misses (a collection that is switched on meanwhile, above all), the backfill finds.
CREATE FUNCTION corpus.queue_enrichment() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO corpus.ingest_jobs (org_id, document_id, version, kind, user_id, plan, trace_context)
    SELECT NEW.org_id, NEW.document_id, NEW.live_version, 'enrich', coalesce(upload.user_id, NEW.owner),
           coalesce(upload.plan, 'free'), coalesce(upload.trace_context, '{}')
    FROM corpus.collections c
    LEFT JOIN corpus.ingest_jobs upload
      ON upload.org_id = NEW.org_id AND upload.document_id = NEW.document_id AND upload.version = NEW.live_version
     AND upload.kind = 'ingest'
    WHERE c.org_id = NEW.org_id AND c.collection_id = NEW.collection_id AND c.enrich
    ON CONFLICT (org_id, document_id, version, kind) DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER queue_enrichment AFTER UPDATE OF live_version, collection_id ON corpus.documents
    FOR EACH ROW WHEN (NEW.live_version IS NOT NULL AND NEW.collection_id IS NOT NULL
                       AND (OLD.live_version, OLD.collection_id) IS DISTINCT FROM (NEW.live_version, NEW.collection_id))
    EXECUTE FUNCTION corpus.queue_enrichment();

-- A collection that is switched on: its organisation is looked through at once.
CREATE TRIGGER check_backfill AFTER UPDATE OF enrich ON corpus.collections
    FOR EACH ROW WHEN (NEW.enrich AND NOT OLD.enrich) EXECUTE FUNCTION corpus.check_backfill();
