-- Lexical search. Placeholders as in search.sql; {statistics} is the condition on corpus.term_counts t that selects the corpus
-- for the statistics.

-- name: weights
-- The question's terms, weighted by their rarity, as a vector; NULL if the corpus contains none of them.
WITH counts AS (
    SELECT t.term, sum(t.chunks)::float8 AS chunks
    FROM corpus.term_counts t
    WHERE t.org_id = %(org_id)s AND (t.term = 0 OR t.term = ANY(%(terms)s::integer[])) AND {statistics}
    GROUP BY t.term
    HAVING sum(t.chunks) > 0
),
weighed AS MATERIALIZED (
    SELECT asked.term, own.chunks,
           (asked.times * ln(1 + (whole.chunks - own.chunks + 0.5) / (own.chunks + 0.5)))::real AS weight
    FROM unnest(%(terms)s::integer[], %(times)s::integer[]) AS asked (term, times)
    JOIN counts own USING (term)
    CROSS JOIN (SELECT chunks FROM counts WHERE term = 0) whole
),
question AS MATERIALIZED (
    SELECT ('{{' || string_agg(term || ':' || weight, ',' ORDER BY term) || '}}/1000000000')::sparsevec AS terms
    FROM weighed
)

-- name: by_scan
-- Scores every chunk of the scope.
, matching AS MATERIALIZED (
    SELECT l.chunk_id, l.document_id, -(l.terms <#> question.terms) AS score
    FROM question
    JOIN corpus.lexical l ON l.org_id = %(org_id)s
    JOIN corpus.documents d
      ON d.org_id = %(org_id)s AND d.document_id = l.document_id AND d.live_version = l.version
    WHERE question.terms IS NOT NULL AND {scope}
)

-- name: by_terms
-- Scores only chunks that can be among the best, found by their terms; the result is the same as by_scan's. No term adds more
-- than its weight to a score. Chunks with the rarest terms are probed first and give a score that the best chunks reach at
-- least. The terms of least weight that together don't reach it needn't be looked up: a chunk that has no other terms isn't
-- among the best. The score is lowered a little to allow for rounding in single precision.
, ordered AS MATERIALIZED (
    SELECT term,
           sum(weight::float8) OVER (ORDER BY weight, term) AS bound,
           sum(chunks) OVER (ORDER BY weight DESC, term DESC) - chunks AS before
    FROM weighed
),
probed AS ({probed}),
reached AS MATERIALIZED (
    SELECT CASE WHEN count(*) = %(depth)s THEN min(score) * 0.9999 ELSE 0 END AS score FROM probed
),
matching AS MATERIALIZED (
    SELECT m.chunk_id, m.document_id, m.score
    FROM corpus.lexical_matches(
        (SELECT array_agg(term) FROM ordered WHERE bound >= (SELECT score FROM reached)),
        (SELECT terms FROM question),
        (SELECT score FROM reached)
    ) m
    -- LATERAL with a limit makes the plan look up each of these few documents instead of reading all of them into a hash table.
    CROSS JOIN LATERAL (
        SELECT FROM corpus.documents d
        WHERE d.org_id = %(org_id)s AND d.document_id = m.document_id AND d.live_version = m.version AND {scope}
        LIMIT 1
    ) live
)

-- name: probed_chunks
SELECT m.score
FROM (
    SELECT * FROM corpus.lexical_matches(
        (SELECT array_agg(term) FROM ordered WHERE before < %(probe)s), (SELECT terms FROM question), 0
    )
    ORDER BY score DESC
) m
CROSS JOIN LATERAL (
    SELECT FROM corpus.documents d
    WHERE d.org_id = %(org_id)s AND d.document_id = m.document_id AND d.live_version = m.version AND {scope}
    LIMIT 1
) live
ORDER BY m.score DESC
LIMIT %(depth)s

-- name: probed_documents
SELECT max(m.score) AS score
FROM corpus.lexical_matches(
    (SELECT array_agg(term) FROM ordered WHERE before < %(probe)s), (SELECT terms FROM question), 0
) m
CROSS JOIN LATERAL (
    SELECT FROM corpus.documents d
    WHERE d.org_id = %(org_id)s AND d.document_id = m.document_id AND d.live_version = m.version AND {scope}
    LIMIT 1
) live
GROUP BY m.document_id
ORDER BY 1 DESC
LIMIT %(depth)s

-- name: chunks_counted
-- About how many chunks the caller sees, and whether others are hidden.
SELECT coalesce(sum(chunks), 0)::bigint, current_setting('citewire.visible', true) IS DISTINCT FROM 'all'
FROM corpus.term_counts WHERE org_id = %(org_id)s AND term = 0

-- name: best_chunks
, first AS (
    SELECT chunk_id, score FROM matching WHERE score > 0 ORDER BY score DESC, chunk_id LIMIT %(depth)s
)

-- name: best_documents
-- The best chunk of each document.
, best AS (
    SELECT DISTINCT ON (document_id) chunk_id, score FROM matching WHERE score > 0
    ORDER BY document_id, score DESC, chunk_id
),
first AS (
    SELECT chunk_id, score FROM best ORDER BY score DESC, chunk_id LIMIT %(depth)s
)

-- name: scored
SELECT {columns}, n.score, NULL::float8
FROM first n
{sources}
ORDER BY n.score DESC, c.chunk_id

-- name: scored_and_compared
-- With the distance to the question's vector, if the chunk has a vector; and the score of a text that contains all of the
-- question's words many times, including words that the corpus doesn't contain.
SELECT {columns}, n.score, v.embedding <=> %(vector)s::halfvec, (
    SELECT sum(asked.times * ln(1 + (whole.chunks - coalesce(own.chunks, 0) + 0.5) / (coalesce(own.chunks, 0) + 0.5)))
    FROM unnest(%(terms)s::integer[], %(times)s::integer[]) AS asked (term, times)
    LEFT JOIN counts own USING (term)
    CROSS JOIN (SELECT chunks FROM counts WHERE term = 0) whole
)
FROM first n
{sources}
LEFT JOIN {vectors} v ON v.org_id = %(org_id)s AND v.chunk_id = c.chunk_id
ORDER BY n.score DESC, c.chunk_id

-- name: all_counted
true

-- name: collection_counted
t.collection_id = ANY (corpus.accesses_of(
    (SELECT k.collection_id FROM corpus.collections k WHERE k.org_id = %(org_id)s AND k.name = %(statistics_of)s)
))
