-- Replaces triggers if the database is on several nodes: triggers on shards can't reach the queue, which is on the coordinator.

-- name: tell
-- Notifies watchers. Shards can't do so, because a transaction that sends notifications can't be prepared.
SELECT pg_notify('citewire_corpus_progress', %(org_id)s::text || ' ' || told.document_id)
FROM unnest(%(document_ids)s::bigint[]) AS told (document_id)

-- name: check_backfill
WITH due AS (
    INSERT INTO corpus.backfill_checks AS checks (org_id) VALUES (%(org_id)s)
    ON CONFLICT (org_id) DO UPDATE SET next_at = least(checks.next_at, excluded.next_at)
    RETURNING 1
)
SELECT pg_notify('citewire_corpus_jobs', '') FROM due

-- name: wants_enrichment
SELECT d.live_version, d.owner FROM corpus.documents d
JOIN corpus.collections c ON c.org_id = d.org_id AND c.collection_id = d.collection_id
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s AND d.live_version IS NOT NULL AND c.enrich

-- name: queue_enrichment
INSERT INTO corpus.ingest_jobs (org_id, document_id, version, kind, user_id, plan, trace_context)
SELECT %(org_id)s, %(document_id)s, %(version)s, 'enrich', coalesce(upload.user_id, %(owner)s),
       coalesce(upload.plan, 'free'), coalesce(upload.trace_context, '{}')
FROM (SELECT) one
LEFT JOIN corpus.ingest_jobs upload
  ON upload.org_id = %(org_id)s AND upload.document_id = %(document_id)s AND upload.version = %(version)s
 AND upload.kind = 'ingest'
ON CONFLICT (org_id, document_id, version, kind) DO NOTHING

-- name: without_job
-- Versions that wait for an ingest, oldest first. A transaction commits on its node first: if the coordinator goes away before its
-- own commit, the version is there, but not its job.
SELECT v.document_id, v.version, d.owner, v.size_bytes
FROM corpus.versions v
JOIN corpus.documents d ON d.org_id = v.org_id AND d.document_id = v.document_id
WHERE v.org_id = %(org_id)s AND v.status IN ('pending', 'processing')
  AND (%(document_id)s::bigint IS NULL OR v.document_id = %(document_id)s)
  AND v.created_at <= now() - make_interval(secs => %(after)s)
ORDER BY v.created_at, v.document_id, v.version
LIMIT %(most)s

-- name: queue_missing
-- Those that have a job keep it.
INSERT INTO corpus.ingest_jobs (org_id, document_id, version, user_id, size_bytes, lane)
SELECT %(org_id)s, waiting.*, 'bulk'
FROM unnest(%(document_ids)s::bigint[], %(versions)s::integer[], %(owners)s::text[], %(sizes)s::bigint[]) AS waiting
ON CONFLICT (org_id, document_id, version, kind) DO NOTHING
