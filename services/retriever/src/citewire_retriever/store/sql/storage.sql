-- How many bytes of originals are stored. Migration 0009 says how they are counted.

-- name: take_turn
-- Makes an organisation's uploads take turns, so that each sees what the previous one has committed.
SELECT pg_advisory_xact_lock(hashtextextended('citewire corpus.stored_bytes ' || %(org_id)s, 0))

-- name: stored_of_user
-- What a user and the organisation have stored, and how many entries a summary would save.
SELECT coalesce(sum(bytes) FILTER (WHERE user_id = %(user_id)s), 0)::bigint, coalesce(sum(bytes), 0)::bigint,
       count(*) - count(DISTINCT user_id)
FROM corpus.stored_bytes
WHERE org_id = %(org_id)s

-- name: stored_of_owner
-- The same for a document's owner.
SELECT coalesce(sum(s.bytes) FILTER (WHERE s.user_id = d.owner), 0)::bigint, coalesce(sum(s.bytes), 0)::bigint,
       count(*) - count(DISTINCT s.user_id)
FROM corpus.documents d
JOIN corpus.stored_bytes s ON s.org_id = d.org_id
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s

-- name: take_entries
-- Takes the entries, to replace them by one per user. Only after `take_turn`; entries that others add meanwhile stay.
DELETE FROM corpus.stored_bytes WHERE org_id = %(org_id)s RETURNING user_id, bytes

-- name: put_sums
INSERT INTO corpus.stored_bytes (org_id, user_id, bytes)
SELECT %(org_id)s, entry.user_id, sum(entry.bytes)
FROM unnest(%(users)s::text[], %(bytes)s::bigint[]) AS entry (user_id, bytes)
GROUP BY entry.user_id HAVING sum(entry.bytes) <> 0
RETURNING 1  -- otherwise Citus uses COPY, which row-level security forbids
