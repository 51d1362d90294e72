-- Lexical search. Blanks as in search.sql; {statistics} is the condition on corpus.term_counts t of the statistics' corpus.

-- name: weights
-- The question's terms with the weight of their rarity, as a vector; NULL if the corpus holds none of them.
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
-- Every chunk of the scope.
, matching AS MATERIALIZED (
    SELECT l.chunk_id, l.document_id, -(l.terms <#> question.terms) AS score
    FROM question
    JOIN corpus.lexical l ON l.org_id = %(org_id)s
    JOIN corpus.documents d
      ON d.org_id = %(org_id)s AND d.document_id = l.document_id AND d.live_version = l.version
    WHERE question.terms IS NOT NULL AND {scope}
)

-- name: by_terms
-- Only chunks that can be among the best, found by their terms; the result is that of by_scan. No term adds more than its
-- weight to a score. The chunks with the rarest terms, probed first, tell a score that the best reach. Terms that
-- don't add up to it, from the least weight on, needn't be looked for: a chunk without any other isn't among the best.
-- A little is taken off the score, for the rounding of single precision.
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
    -- LATERAL with a limit: a look-up for each of these few, where a plan would else read all documents for a hash table.
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
-- With the distance from the question's vector, if the chunk has one; and what a text that has all of the question's
-- words many times would score, words counted that the corpus doesn't have.
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
