-- The enrichment's queries. Locks are taken in the order document, version, job, as everywhere.

-- name: document_to_enrich
-- No row means that the version isn't live any more, or that its collection isn't enriched.
SELECT d.type, d.title, d.url, d.owner, corpus.open_fields(d.enriched, d.tags, d.metadata),
       octet_length(d.metadata::text), coalesce(left(t.body, %(chars)s), '')
FROM corpus.documents d
JOIN corpus.collections c ON c.org_id = d.org_id AND c.collection_id = d.collection_id AND c.enrich
LEFT JOIN corpus.texts t
  ON t.org_id = d.org_id AND t.document_id = d.document_id AND t.version = d.live_version AND t.part = 0
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s AND d.live_version = %(version)s

-- name: known_labels
-- Labels of the owner's documents, most frequent first; only of documents that everyone who sees this one sees too.
SELECT field, value
FROM (SELECT field, value, row_number() OVER (PARTITION BY field ORDER BY sum(documents) DESC, value) AS place
      FROM corpus.document_values
      WHERE org_id = %(org_id)s AND owner = %(owner)s AND field IN ('entity_type', 'category', 'tags')
        AND access_id = ANY ((SELECT corpus.accesses_no_narrower(%(document_id)s))::bigint[])
      GROUP BY field, value
      HAVING sum(documents) > 0) ranked
WHERE place <= %(most)s
ORDER BY field, place

-- name: has_chat_providers
-- Asks the catalogue, which answers even if the gateway's schema is missing or older.
SELECT count(*) = 1
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'chat' AND c.relname = 'chat_providers'

-- name: chat_providers
-- The user's chat providers, or else the organisation's. The first one is called first; the others are its fallbacks.
SELECT p.provider, p.model, p.user_id, p.sealed_api_base, p.sealed_key
FROM chat.chat_providers p
WHERE p.org_id = %(org_id)s
  AND p.user_id = (SELECT max(user_id) FROM chat.chat_providers
                   WHERE org_id = %(org_id)s AND user_id IN ('', %(user_id)s) AND position = 0)
ORDER BY p.position

-- name: chunks_with_terms
-- In how many of the organisation's chunks each term occurs; term 0 counts all chunks.
SELECT term, sum(chunks)::bigint FROM corpus.term_counts
WHERE org_id = %(org_id)s AND term = ANY (%(terms)s::integer[])
GROUP BY term

-- name: hold_document
SELECT 1 FROM corpus.documents
WHERE org_id = %(org_id)s AND document_id = %(document_id)s
FOR NO KEY UPDATE

-- name: hold_version
SELECT 1 FROM corpus.versions
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
FOR NO KEY UPDATE

-- name: hold_job
-- No row means that the job isn't this worker's any more.
SELECT 1 FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND job_id = %(job_id)s AND fence = %(fence)s AND state = 'running'
FOR NO KEY UPDATE

-- name: store_values
-- Stores only those requested fields that may still be written: a person may have changed a field meanwhile, or another version
-- may be live.
WITH writable AS (
    SELECT ARRAY(SELECT unnest(corpus.open_fields(o.enriched, o.tags, o.metadata))
                 INTERSECT SELECT unnest(%(asked)s::text[])) AS fields
    FROM corpus.documents o
    WHERE o.org_id = %(org_id)s AND o.document_id = %(document_id)s
)
UPDATE corpus.documents d
SET tags = CASE WHEN 'tags' = ANY (w.fields)
                THEN ARRAY(SELECT jsonb_array_elements_text(%(values)s::jsonb -> 'tags')) ELSE d.tags END,
    metadata = (d.metadata - array_remove(w.fields, 'tags')) || corpus.members(%(values)s::jsonb - 'tags', w.fields),
    enriched = (d.enriched - w.fields) || corpus.members(%(values)s::jsonb, w.fields),
    enriched_by = %(source)s, enrichment_code = NULL, enrichment_message = NULL, updated_at = now()
FROM writable w
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s AND d.live_version = %(version)s

-- name: note_error
UPDATE corpus.documents
SET enrichment_code = %(code)s, enrichment_message = %(message)s, updated_at = now()
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND live_version = %(version)s

-- name: end_job
UPDATE corpus.ingest_jobs SET state = %(state)s, worker = NULL, lease_until = NULL, updated_at = now()
WHERE org_id = %(org_id)s AND job_id = %(job_id)s

-- name: requeue_job
UPDATE corpus.ingest_jobs
SET state = 'queued', worker = NULL, lease_until = NULL, updated_at = now(),
    attempts = attempts - CASE WHEN %(uncount)s THEN 1 ELSE 0 END,
    next_run_at = now() + make_interval(secs => %(delay_seconds)s)
WHERE org_id = %(org_id)s AND job_id = %(job_id)s

-- name: forget_job
DELETE FROM corpus.ingest_jobs WHERE org_id = %(org_id)s AND job_id = %(job_id)s
