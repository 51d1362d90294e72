-- Storing new content (a version of a document, its bytes and its ingest job, in one transaction), and reading it.

-- name: forget_request
-- A request id may be used again after a day.
UPDATE corpus.versions SET request_id = NULL
WHERE org_id = %(org_id)s AND request_id = %(request_key)s AND created_at < now() - interval '1 day'

-- name: find_request
SELECT document_id FROM corpus.versions WHERE org_id = %(org_id)s AND request_id = %(request_key)s

-- name: insert_version
INSERT INTO corpus.versions (org_id, document_id, version, file_name, media_type, size_bytes, sha256, request_id)
VALUES (%(org_id)s, %(document_id)s, %(version)s, %(file_name)s, %(media_type)s, %(size_bytes)s, %(sha256)s,
        %(request_key)s)

-- name: insert_part
INSERT INTO corpus.originals (org_id, document_id, version, part, bytes)
VALUES (%(org_id)s, %(document_id)s, %(version)s, %(part)s, %(bytes)s)

-- name: queue_job
-- Queues a version's job; an earlier job of the version starts again from the beginning. The fence increases, so that a worker
-- that still holds an old lease can't publish.
-- The first few jobs that a user queues within some seconds are interactive, because somebody waits for them; the rest are bulk.
-- Returns whether the job is in bulk and enough jobs already wait to keep the workers busy.
INSERT INTO corpus.ingest_jobs (org_id, document_id, version, user_id, plan, trace_context, size_bytes, lane)
SELECT org_id, document_id, version, %(user_id)s, %(plan)s, %(trace_context)s::jsonb, size_bytes,
       CASE WHEN (SELECT count(*) FROM (
                      SELECT 1 FROM corpus.ingest_jobs recent
                      WHERE recent.org_id = %(org_id)s AND recent.user_id = %(user_id)s
                        AND recent.lane = 'interactive'
                        AND recent.created_at > now() - make_interval(secs => %(recent_seconds)s)
                      LIMIT %(recent_jobs)s) AS recent) < %(recent_jobs)s
            THEN 'interactive' ELSE 'bulk' END
FROM corpus.versions
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
ON CONFLICT (org_id, document_id, version, kind) DO UPDATE
SET state = 'queued', attempts = 0, next_run_at = now(), worker = NULL, lease_until = NULL,
    fence = corpus.ingest_jobs.fence + 1, user_id = excluded.user_id, plan = excluded.plan,
    trace_context = excluded.trace_context, size_bytes = excluded.size_bytes, lane = excluded.lane,
    created_at = now(), updated_at = now()
RETURNING lane = 'bulk' AND (
    SELECT count(*) = %(many_jobs)s
    FROM (SELECT 1 FROM corpus.ingest_jobs waiting
          WHERE waiting.org_id = %(org_id)s AND waiting.kind = 'ingest' AND waiting.state = 'queued'
          LIMIT %(many_jobs)s) AS waiting)

-- name: copy_version
-- Copies the latest version to a new one, for ingest under a new title. There is no RETURNING, because on shards that can't be
-- combined with a SELECT from a distributed table.
INSERT INTO corpus.versions (org_id, document_id, version, file_name, media_type, size_bytes, sha256)
SELECT org_id, document_id, %(version)s, file_name, media_type, size_bytes, sha256
FROM corpus.versions
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(from_version)s

-- name: copy_parts
INSERT INTO corpus.originals (org_id, document_id, version, part, bytes)
SELECT org_id, document_id, %(version)s, part, bytes
FROM corpus.originals
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(from_version)s

-- name: next_version
UPDATE corpus.documents SET latest_version = latest_version + 1
WHERE org_id = %(org_id)s AND document_id = %(document_id)s

-- name: find_original
-- The header of the given version, or else of the live one, or else of the latest. No row means that there is no such version
-- or document.
SELECT v.document_id, v.version, v.file_name, v.media_type, v.size_bytes, v.sha256
FROM corpus.documents d
JOIN corpus.versions v
  ON v.org_id = d.org_id AND v.document_id = d.document_id
 AND v.version = coalesce(%(version)s::integer, d.live_version, d.latest_version)
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s

-- name: find_text
-- The header of the stored text of a version, chosen as above, and whether the version is ready.
SELECT v.document_id, v.version, v.file_name,
       (SELECT coalesce(sum(octet_length(t.body)), 0)
        FROM corpus.texts t
        WHERE t.org_id = %(org_id)s AND t.document_id = v.document_id AND t.version = v.version)::bigint AS size_bytes,
       v.status = 'ready' AS ready
FROM corpus.documents d
JOIN corpus.versions v
  ON v.org_id = d.org_id AND v.document_id = d.document_id
 AND v.version = coalesce(%(version)s::integer, d.live_version, d.latest_version)
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s

-- name: read_text
SELECT body
FROM corpus.texts
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
  AND part >= %(first)s AND part < %(end)s
ORDER BY part

-- name: find_chunks
-- The chunks of a version that overlap a span, and the next chunk, for a span that is only a heading. At most 100 overlap, though
-- a span of 8,000 code points may contain more if the chunks are rows.
(SELECT char_start, char_end, place, places, verbatim
 FROM corpus.chunks
 WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
   AND char_start < %(char_end)s AND char_end > %(char_start)s
 ORDER BY chunk_index
 LIMIT 100)
UNION ALL
(SELECT char_start, char_end, place, places, verbatim
 FROM corpus.chunks
 WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s AND char_start >= %(char_end)s
 ORDER BY chunk_index
 LIMIT 1)

-- name: read_span
-- The parts of a version's text that contain a span, and where the first of them starts.
SELECT coalesce(min(char_start), 0), coalesce(string_agg(body, '' ORDER BY part), '')
FROM corpus.texts t
WHERE t.org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
  AND char_start < %(char_end)s
  AND part >= (SELECT max(s.part)
               FROM corpus.texts s
               WHERE s.org_id = %(org_id)s AND s.document_id = t.document_id AND s.version = t.version
                 AND s.char_start <= %(char_start)s)

-- name: read_parts
SELECT part, bytes
FROM corpus.originals
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
  AND part >= %(first)s AND part < %(end)s
ORDER BY part
