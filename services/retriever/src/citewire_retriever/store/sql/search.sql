-- Search. {vectors} is the space's table, {scope} the conditions on documents d, {chunk_columns} the query of that name;
-- {columns} and {sources} are those of whole chunks, or of their keys alone. Columns of whole chunks have the names of the
-- fields of Chunk that they become.
-- Vectors are joined with the document's live version, so that unpublished and superseded versions are never found.

-- name: chunk_columns
c.chunk_id, c.document_id, c.version, c.chunk_index, c.text, c.token_count, c.content_hash, c.section, c.place,
c.char_start, c.char_end, d.title, d.file_name, d.url, d.type, d.created_at,
c.version IS NOT DISTINCT FROM d.live_version AS live, d.metadata, c.verbatim, d.tags, c.places

-- name: chunk_sources
JOIN corpus.chunks c ON c.org_id = %(org_id)s AND c.chunk_id = n.chunk_id
JOIN corpus.documents d ON d.org_id = %(org_id)s AND d.document_id = c.document_id

-- name: key_columns
c.chunk_id, c.document_id, c.content_hash,
CASE WHEN regexp_count(left(c.text, 400), E'[0123456789.,:;()$\t]') > 0.1 * length(left(c.text, 400)) THEN 0
     ELSE length(c.text)::real / greatest(c.token_count, 1) END

-- name: key_sources
JOIN corpus.chunks c ON c.org_id = %(org_id)s AND c.chunk_id = n.chunk_id

-- name: nearest_chunks
WITH nearest AS MATERIALIZED (
    SELECT v.chunk_id, v.embedding <=> %(vector)s::halfvec AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
    ORDER BY {order}
    LIMIT %(top_k)s
)
SELECT {columns}, n.distance
FROM nearest n
{sources}
ORDER BY n.distance, c.chunk_id

-- name: nearest_documents
-- The best chunk of each document.
WITH nearest AS MATERIALIZED (
    SELECT v.chunk_id, v.document_id, v.embedding <=> %(vector)s::halfvec AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
),
best AS (
    SELECT DISTINCT ON (document_id) chunk_id, distance FROM nearest ORDER BY document_id, distance, chunk_id
),
first AS (
    SELECT chunk_id, distance FROM best ORDER BY distance, chunk_id LIMIT %(top_k)s
)
SELECT {columns}, n.distance
FROM first n
{sources}
ORDER BY n.distance, c.chunk_id

-- name: walk
-- A short walk through the graph. `there` says that its result can't be trusted: because the walk came to an end, because the
-- best results are hardly nearer than the last (so there may be others as near that the walk didn't reach), or because it was
-- still finding nearer chunks. `again` then walks again; otherwise its limit is 0, and it doesn't start. The limit is evaluated
-- before that walk starts, so the walk uses the number of candidates that `doubt` sets.
WITH walked AS MATERIALIZED (
    SELECT near.chunk_id, near.document_id, near.distance, row_number() OVER () AS rank
    FROM (
        SELECT v.chunk_id, v.document_id, v.embedding <=> %(vector)s::halfvec AS distance
        FROM {vectors} v
        JOIN corpus.documents d
          ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
        WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
        ORDER BY v.embedding <=> %(vector)s::halfvec
        LIMIT %(first)s
    ) near
),
doubt AS MATERIALIZED (
    SELECT CASE
        WHEN seen.given < %(first)s
          OR seen.last - best.last < %(margin)s * seen.last
          OR best.rank * 4 > %(first)s
        THEN set_config('hnsw.ef_search', %(ef_search)s, true) IS NOT NULL
        ELSE false
    END AS there
    FROM (SELECT count(*) AS given, max(distance) AS last FROM walked) seen
    CROSS JOIN (
        SELECT max(distance) AS last, max(rank) AS rank
        FROM (SELECT distance, rank FROM walked ORDER BY distance LIMIT %(watched)s) nearest
    ) best
),
again AS MATERIALIZED (
    SELECT v.chunk_id, v.document_id, v.embedding <=> %(vector)s::halfvec AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
    ORDER BY {order}
    LIMIT CASE WHEN (SELECT there FROM doubt) THEN %(again)s::bigint ELSE 0 END
),
candidates AS (
    SELECT chunk_id, document_id, distance FROM walked
    UNION
    SELECT chunk_id, document_id, distance FROM again
),
looked AS (
    -- How many results the second walk returned; NULL without one.
    SELECT CASE WHEN there THEN (SELECT count(*) FROM again) END AS found_again FROM doubt
)

-- name: walked_chunks
-- Follows `walk`; the last column is `found_again`. A relaxed scan returns rows slightly out of order, so they are sorted by
-- distance here.
, nearest AS MATERIALIZED (
    SELECT chunk_id, distance FROM candidates ORDER BY distance, chunk_id LIMIT %(top_k)s
)
SELECT {columns}, n.distance, (SELECT found_again FROM looked)
FROM nearest n
{sources}
ORDER BY n.distance, c.chunk_id

-- name: walked_documents
, best AS (
    SELECT DISTINCT ON (document_id) chunk_id, distance FROM candidates ORDER BY document_id, distance, chunk_id
),
nearest AS MATERIALIZED (
    SELECT chunk_id, distance FROM best ORDER BY distance, chunk_id LIMIT %(top_k)s
)
SELECT {columns}, n.distance, (SELECT found_again FROM looked)
FROM nearest n
{sources}
ORDER BY n.distance, c.chunk_id

-- name: by_index
-- An order that the graph supports.
v.embedding <=> %(vector)s::halfvec

-- name: by_scan
-- An order that no index supports, so that every row of the scope is compared.
(v.embedding <=> %(vector)s::halfvec) + 0, v.chunk_id

-- name: recent_documents
-- The first chunk of each of the most recent documents, with its distance if it has a vector.
SELECT {chunk_columns}, v.embedding <=> %(vector)s::halfvec
FROM (
    SELECT d.*
    FROM corpus.documents d
    WHERE d.org_id = %(org_id)s AND d.live_version IS NOT NULL AND {scope}
    ORDER BY d.created_at DESC, d.document_id DESC
    LIMIT %(recent)s
) d
JOIN corpus.chunks c
  ON c.org_id = %(org_id)s AND c.document_id = d.document_id AND c.version = d.live_version AND c.chunk_index = 0
LEFT JOIN {vectors} v ON v.org_id = %(org_id)s AND v.chunk_id = c.chunk_id
ORDER BY d.created_at DESC, d.document_id DESC

-- name: served_spaces
-- The organisation's live space, then the previous one if there is one, and the further ones; whether the caller sees all
-- documents, and the stored calibrations of the spaces.
SELECT s.space_id, s.model, s.revision, s.dimensions,
       current_setting('citewire.visible', true) = 'all', k.measured_at, k.relevance_threshold, k.answerable_threshold, k.dense_weight,
       k.off_topic_threshold
FROM corpus.org_spaces o
JOIN corpus.spaces s ON s.space_id IN (o.live_space_id, o.previous_space_id)
    OR s.space_id IN (SELECT f.space_id FROM corpus.further_spaces f WHERE f.org_id = %(org_id)s)
LEFT JOIN corpus.space_calibrations k ON k.org_id = %(org_id)s AND k.space_id = s.space_id
WHERE o.org_id = %(org_id)s
ORDER BY s.space_id = o.live_space_id DESC

-- name: prepare_search
-- The served spaces as above; it also makes the settings for the rest of the transaction: the walk through the graph continues
-- until enough rows pass the filters, in relaxed order, and nothing is compiled. Sorting is disabled only for the graph, because
-- the planner can't know that the scope is large enough for it. The graph's plan doesn't depend on the organisation, so it is
-- made once per connection. Nor does the plan of a small organisation's scan, as long as tables aren't read whole: whether they
-- are would depend on how much others have in the same partition.
WITH settings AS MATERIALIZED (
    SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),
           set_config('hnsw.ef_search', %(ef_search)s, true),
           set_config('hnsw.max_scan_tuples', %(max_scan_tuples)s, true),
           set_config('enable_sort', %(enable_sort)s, true),
           set_config('enable_seqscan', %(enable_seqscan)s, true),
           set_config('plan_cache_mode', %(plans)s, true),
           set_config('jit', 'off', true)
)
SELECT s.space_id, s.model, s.revision, s.dimensions,
       current_setting('citewire.visible', true) = 'all', k.measured_at, k.relevance_threshold, k.answerable_threshold, k.dense_weight,
       k.off_topic_threshold
FROM settings
CROSS JOIN corpus.org_spaces o
JOIN corpus.spaces s ON s.space_id IN (o.live_space_id, o.previous_space_id)
    OR s.space_id IN (SELECT f.space_id FROM corpus.further_spaces f WHERE f.org_id = %(org_id)s)
LEFT JOIN corpus.space_calibrations k ON k.org_id = %(org_id)s AND k.space_id = s.space_id
WHERE o.org_id = %(org_id)s
ORDER BY s.space_id = o.live_space_id DESC

-- name: unknown_in_scope
-- Those of the ids that aren't documents of the tenant (or of the user, if only the user's own are in scope); and 0, which is no
-- document's id, if the named collection doesn't exist.
SELECT ids.id
FROM unnest(%(document_ids)s::bigint[]) AS ids (id)
WHERE NOT EXISTS (
    SELECT FROM corpus.documents d
    WHERE d.org_id = %(org_id)s AND d.document_id = ids.id AND (NOT %(own)s OR d.owner = %(user_id)s)
)
UNION ALL
SELECT 0::bigint
WHERE %(collection)s <> '' AND NOT EXISTS (
    SELECT FROM corpus.collections k WHERE k.org_id = %(org_id)s AND k.name = %(collection)s
)
ORDER BY 1
LIMIT 100

-- name: visible_size
-- Live documents and chunks that the caller may see, without the caller's own among documents that are otherwise hidden; about
-- how many rows share the tenant's partition; whether anything is hidden.
SELECT coalesce(sum(n.documents), 0)::bigint, coalesce(sum(n.chunks), 0)::bigint,
       coalesce((SELECT p.reltuples FROM pg_catalog.pg_class p
                 WHERE p.oid = (SELECT v.tableoid FROM {vectors} v WHERE v.org_id = %(org_id)s LIMIT 1)), 0),
       current_setting('citewire.visible', true) IS DISTINCT FROM 'all'
FROM corpus.access_counts n
WHERE n.org_id = %(org_id)s

-- name: visible
-- Repeats the policy on documents as the expression of an index, for callers who see little of a library.
(CASE WHEN d.access_id IS NOT NULL THEN d.access_id WHEN d.collection_id IS NOT NULL THEN d.collection_id ELSE 0 END
     = ANY (ARRAY(SELECT corpus.visible_accesses()))
 OR d.owner = current_setting('citewire.user_id', true))

-- name: scope_size
-- Documents and chunks in the scope; counting stops at a limit, because beyond it the exact number doesn't matter.
SELECT count(*), coalesce(sum(documents.live_chunks), 0)
FROM (
    SELECT d.live_chunks
    FROM corpus.documents d
    WHERE d.org_id = %(org_id)s AND d.live_version IS NOT NULL AND {scope}
    LIMIT %(limit)s
) documents

-- name: get_chunks
-- Includes chunks of superseded versions while these are stored.
SELECT {chunk_columns}
FROM corpus.chunks c
JOIN corpus.documents d ON d.org_id = c.org_id AND d.document_id = c.document_id
JOIN corpus.versions v ON v.org_id = c.org_id AND v.document_id = c.document_id AND v.version = c.version
WHERE c.org_id = %(org_id)s AND c.chunk_id = ANY(%(chunk_ids)s::bigint[]) AND v.status = 'ready'

-- name: existing_documents
SELECT d.document_id FROM corpus.documents d
WHERE d.org_id = %(org_id)s AND d.document_id = ANY(%(document_ids)s::bigint[])

-- name: get_vectors
SELECT v.chunk_id, v.embedding::vector::real[]
FROM {vectors} v
JOIN corpus.documents d ON d.org_id = v.org_id AND d.document_id = v.document_id
WHERE v.org_id = %(org_id)s AND v.chunk_id = ANY(%(chunk_ids)s::bigint[])

-- name: scope_counts
-- The counts of a scope, for plans and long context. Items are included most recent first, up to the first one that would exceed
-- the budget. If that is the very first item, its beginning is included if a chunk of it fits.
SELECT count(*) FILTER (WHERE s.live_version IS NOT NULL),
       count(*) FILTER (WHERE s.live_version IS NOT NULL AND s.running <= %(budget)s::bigint),
       count(*) FILTER (WHERE s.live_version IS NOT NULL AND {lacks_vectors}),
       count(*) FILTER (WHERE s.live_version IS NULL),
       coalesce(sum(s.live_chunks) FILTER (WHERE s.live_version IS NOT NULL), 0),
       count(*) FILTER (WHERE s.live_version IS NOT NULL AND s.rank = 1 AND s.running > %(budget)s::bigint AND EXISTS (
           SELECT FROM corpus.chunks c
           WHERE c.org_id = %(org_id)s AND c.document_id = s.document_id AND c.version = s.live_version
             AND c.chunk_index = 0 AND c.token_count <= %(budget)s::bigint
       )) > 0
       {kept_items}
FROM (
    SELECT d.document_id, d.live_version, d.live_chunks,
           sum(d.live_tokens) FILTER (WHERE d.live_version IS NOT NULL) OVER recent_first AS running,
           count(*) FILTER (WHERE d.live_version IS NOT NULL) OVER recent_first AS rank
    FROM corpus.documents d
    WHERE d.org_id = %(org_id)s AND {scope}
    WINDOW recent_first AS (ORDER BY d.created_at DESC, d.document_id DESC ROWS UNBOUNDED PRECEDING)
) s

-- name: kept_items
-- For long context: the included items and their versions.
, array_agg(s.document_id ORDER BY s.rank)
      FILTER (WHERE s.live_version IS NOT NULL AND (s.running <= %(budget)s::bigint OR s.rank = 1)),
  array_agg(s.live_version ORDER BY s.rank)
      FILTER (WHERE s.live_version IS NOT NULL AND (s.running <= %(budget)s::bigint OR s.rank = 1))

-- name: item_chunks
-- All chunks of some items, in the items' order. A version that was superseded meanwhile is still read in full.
SELECT {chunk_columns}
FROM unnest(%(document_ids)s::bigint[], %(versions)s::integer[]) WITH ORDINALITY AS item (document_id, version, rank)
JOIN corpus.documents d ON d.org_id = %(org_id)s AND d.document_id = item.document_id
JOIN corpus.chunks c ON c.org_id = %(org_id)s AND c.document_id = item.document_id AND c.version = item.version
ORDER BY item.rank, c.chunk_index

-- name: lacks_vectors
NOT EXISTS (
    SELECT FROM {vectors} v
    WHERE v.org_id = %(org_id)s AND v.document_id = s.document_id AND v.version = s.live_version
)

-- name: matching_values
-- Labels of live documents and names of collections that have one of these initials; of labels, the most common. Reads the
-- table of values instead of the documents.
(SELECT v.field, v.value
 FROM corpus.document_values v
 WHERE v.org_id = %(org_id)s AND v.initials = ANY(%(initials)s::text[]) AND (NOT %(own)s OR v.owner = %(user_id)s)
 GROUP BY v.field, v.value
 ORDER BY sum(v.documents) DESC, v.field, v.value
 LIMIT %(limit)s)
UNION ALL
(SELECT 'collection', k.name
 FROM corpus.collections k
 WHERE k.org_id = %(org_id)s AND corpus.initials(k.name) = ANY(%(initials)s::text[])
   AND (NOT %(own)s OR EXISTS (
       SELECT FROM corpus.documents d
       WHERE d.org_id = %(org_id)s AND d.collection_id = k.collection_id AND d.owner = %(user_id)s
   ))
 ORDER BY k.name
 LIMIT %(limit)s)

-- name: ping
-- Fails if the database can't be reached or the schema doesn't exist.
SELECT FROM corpus.spaces LIMIT 1
