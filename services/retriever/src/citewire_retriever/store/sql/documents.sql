-- Reading, listing, changing and deleting documents. Every statement names the tenant, in addition to row-level security.

-- name: select_document
-- A document with its latest version and that version's progress; columns are named like the messages' fields. The caller adds
-- conditions.
SELECT d.document_id, d.title, d.file_name, v.media_type, d.type,
       d.url, coalesce(c.name, '') AS collection,
       d.tags, d.metadata, d.owner, v.status, v.error_code, v.error_message, d.latest_version AS version,
       coalesce(d.live_version, 0) AS live_version, v.chunks, v.pages, v.size_bytes, v.tokens, d.created_at,
       d.updated_at, encode(v.sha256, 'hex') AS sha256, v.stage, v.done, v.total, v.attempt,
       {enrichment_state} AS enrichment_state, corpus.enriched_fields(d.enriched, d.tags, d.metadata) AS enriched_fields,
       d.enriched_by, d.enrichment_code, d.enrichment_message, corpus.readers_of(d.org_id, d.access_id) AS readers,
       d.valid_from, d.valid_until,
       CASE WHEN corpus.may_change(d.collection_id, d.owner) THEN 'write' ELSE 'read' END AS access
FROM corpus.documents d
JOIN corpus.versions v
  ON v.org_id = d.org_id AND v.document_id = d.document_id AND v.version = d.latest_version
LEFT JOIN corpus.collections c
  ON c.org_id = d.org_id AND c.collection_id = d.collection_id
{enrichment_jobs}
WHERE d.org_id = %(org_id)s

-- name: enrichment_jobs
LEFT JOIN corpus.ingest_jobs e
  ON e.org_id = d.org_id AND e.document_id = d.document_id AND e.version = d.live_version AND e.kind = 'enrich'

-- name: enrichment_states
-- For a database on several nodes, where shards can't reach the queue, which is on the coordinator.
SELECT document_id, version, state FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND document_id = ANY(%(document_ids)s::bigint[]) AND kind = 'enrich'

-- name: delete_jobs
-- For a database on several nodes, where the queue has no foreign key to versions.
SELECT corpus.delete_jobs(%(document_ids)s::bigint[])

-- name: one_document
AND d.document_id = %(document_id)s

-- name: page_of_documents
-- Newest first; the cursor is the previous page's last row. One row more than the page shows whether there is a next page.
AND {conditions}
ORDER BY d.created_at DESC, d.document_id DESC
LIMIT %(limit)s

-- name: may_change
SELECT corpus.may_change(collection_id, owner) FROM corpus.documents
WHERE org_id = %(org_id)s AND document_id = %(document_id)s

-- name: intern_access
-- The access that a document gets with new readers, another collection (NULL means none), or both; what isn't given stays the
-- same. A separate statement, because the policies of the statement that writes the access must see it.
SELECT corpus.intern_access(
    org_id, CASE WHEN %(set_collection)s THEN %(collection_id)s ELSE collection_id END,
    coalesce(%(readers)s::text[], corpus.readers_of(org_id, access_id))
)
FROM corpus.documents WHERE org_id = %(org_id)s AND document_id = %(document_id)s

-- name: intern_first_access
-- Selects from the organisation's node, so that the function runs there: if it wrote as the owner through the coordinator, the
-- caller couldn't write in the same transaction afterwards.
SELECT corpus.intern_access(%(org_id)s, %(collection_id)s, %(readers)s::text[])
FROM (SELECT count(*) FROM corpus.org_spaces o WHERE o.org_id = %(org_id)s) AS there

-- name: lock_document
-- Makes other writers of this document and its latest version wait until the commit, so that a worker that claims the version
-- sees the change. Doesn't block readers or foreign keys to either.
SELECT d.title, d.latest_version, v.status, d.live_version, v.size_bytes
FROM corpus.documents d
JOIN corpus.versions v
  ON v.org_id = d.org_id AND v.document_id = d.document_id AND v.version = d.latest_version
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s
FOR NO KEY UPDATE OF d, v

-- name: insert_document
INSERT INTO corpus.documents
    (org_id, owner, type, title, title_given, file_name, url, tags, metadata, collection_id, access_id,
     valid_from, valid_until)
VALUES
    (%(org_id)s, %(user_id)s, %(type)s, %(title)s, %(title_given)s, %(file_name)s, %(url)s, %(tags)s::text[],
     %(metadata)s::jsonb, %(collection_id)s, %(access_id)s, %(valid_from)s, %(valid_until)s)
RETURNING document_id, latest_version

-- name: add_version
-- Empty or NULL leaves a field unchanged. The row stays locked until the commit, so that versions are added one after another.
-- New metadata that don't mention enriched fields keep their values until the new version is enriched.
UPDATE corpus.documents
SET latest_version = latest_version + 1,
    title = coalesce(nullif(%(title)s, ''), title),
    title_given = title_given OR %(title)s <> '',
    file_name = coalesce(nullif(%(file_name)s, ''), file_name),
    type = coalesce(nullif(%(type)s, ''), type),
    url = coalesce(nullif(%(url)s, ''), url),
    tags = CASE WHEN cardinality(%(tags)s::text[]) = 0 THEN tags ELSE %(tags)s::text[] END,
    metadata = coalesce(corpus.members(metadata, corpus.enriched_fields(enriched, tags, metadata)) || %(metadata)s::jsonb,
                        metadata),
    enriched = enriched || corpus.settled(enriched, metadata, %(tags)s::text[], %(metadata)s::jsonb, false),
    collection_id = coalesce(%(collection_id)s, collection_id),
    access_id = %(access_id)s,
    valid_from = coalesce(%(valid_from)s, valid_from),
    valid_until = coalesce(%(valid_until)s, valid_until),
    updated_at = now()
WHERE org_id = %(org_id)s AND document_id = %(document_id)s
RETURNING document_id, latest_version

-- name: update_document
-- NULL leaves a field unchanged. Enrichment never overwrites a field that is set here. A title that was the file's name changes
-- with it.
UPDATE corpus.documents
SET title = coalesce(%(title)s, CASE WHEN NOT title_given AND title = file_name THEN %(file_name)s END, title),
    title_given = title_given OR %(title)s IS NOT NULL,
    file_name = coalesce(%(file_name)s, file_name),
    url = coalesce(%(url)s, url),
    tags = coalesce(%(tags)s::text[], tags),
    metadata = coalesce(%(metadata)s::jsonb, metadata),
    enriched = enriched || corpus.settled(enriched, metadata, %(tags)s::text[], %(metadata)s::jsonb, true),
    collection_id = CASE WHEN %(set_collection)s THEN %(collection_id)s ELSE collection_id END,
    access_id = %(access_id)s,
    valid_from = CASE WHEN %(set_valid_from)s THEN %(valid_from)s ELSE valid_from END,
    valid_until = CASE WHEN %(set_valid_until)s THEN %(valid_until)s ELSE valid_until END,
    updated_at = now()
WHERE org_id = %(org_id)s AND document_id = %(document_id)s
RETURNING title

-- name: rename_versions
UPDATE corpus.versions SET file_name = %(file_name)s
WHERE org_id = %(org_id)s AND document_id = %(document_id)s

-- name: delete_document
-- Deletes its versions, bytes, text, chunks, vectors and jobs too.
DELETE FROM corpus.documents WHERE org_id = %(org_id)s AND document_id = %(document_id)s

-- name: delete_documents_of_collection
DELETE FROM corpus.documents WHERE org_id = %(org_id)s AND collection_id = %(collection_id)s

-- name: forget_erased
DELETE FROM corpus.erased_documents WHERE org_id = %(org_id)s AND document_id = ANY(%(forget)s::bigint[])

-- name: sweep_accesses
SELECT corpus.sweep_accesses()

-- name: erased_documents
SELECT document_id, now() - erased_at FROM corpus.erased_documents
WHERE org_id = %(org_id)s AND document_id > %(after)s
ORDER BY document_id LIMIT %(limit)s

-- name: delete_owned
DELETE FROM corpus.documents d
WHERE d.org_id = %(org_id)s AND d.document_id IN (
    SELECT o.document_id FROM corpus.documents o
    WHERE o.org_id = %(org_id)s AND %(user_id)s::text IN ('', o.owner) LIMIT %(most)s)

-- name: delete_old
-- Looks for old documents first, because an index has their age, and no version is older than its document.
DELETE FROM corpus.documents d
WHERE d.org_id = %(org_id)s AND d.document_id IN (
    SELECT o.document_id FROM corpus.documents o
    JOIN corpus.versions v ON v.org_id = o.org_id AND v.document_id = o.document_id AND v.version = o.latest_version
    WHERE o.org_id = %(org_id)s AND o.created_at < now() - make_interval(days => %(days)s)
      AND v.created_at < now() - make_interval(days => %(days)s)
    ORDER BY o.created_at LIMIT %(most)s)

-- name: delete_expired
DELETE FROM corpus.documents d
WHERE d.org_id = %(org_id)s AND d.document_id IN (
    SELECT o.document_id FROM corpus.documents o
    WHERE o.org_id = %(org_id)s AND o.valid_until < now() - make_interval(days => %(days)s)
    ORDER BY o.valid_until LIMIT %(most)s)

-- name: give_documents
UPDATE corpus.documents d SET owner = %(successor)s
WHERE d.org_id = %(org_id)s AND d.document_id IN (
    SELECT o.document_id FROM corpus.documents o
    WHERE o.org_id = %(org_id)s AND o.owner = %(user_id)s LIMIT %(most)s)

-- name: forget_user
SELECT corpus.forget_user(%(user_id)s, %(name)s)

-- name: forget_organisation
SELECT corpus.forget_organisation()

-- name: retry_version
-- Makes a failed version pending again, as if it were new.
UPDATE corpus.versions
SET status = 'pending', error_code = NULL, error_message = NULL, stage = NULL, done = 0, total = 0, attempt = 0,
    started_at = NULL, finished_at = NULL
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s AND status = 'failed'

-- name: retry_enrichment
-- Queues the job again, as if it were new; the fence increases as always, although nobody holds a failed job.
UPDATE corpus.ingest_jobs job
SET state = 'queued', attempts = 0, next_run_at = now(), fence = job.fence + 1, created_at = now(), updated_at = now()
WHERE job.org_id = %(org_id)s AND job.document_id = %(document_id)s AND job.version = %(live_version)s
  AND job.kind = 'enrich' AND job.state = 'failed'

-- name: forget_enrichment_error
UPDATE corpus.documents SET enrichment_code = NULL, enrichment_message = NULL, updated_at = now()
WHERE org_id = %(org_id)s AND document_id = %(document_id)s

-- name: touch_document
UPDATE corpus.documents SET updated_at = now() WHERE org_id = %(org_id)s AND document_id = %(document_id)s
