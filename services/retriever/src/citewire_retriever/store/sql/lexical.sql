-- Lexical search. Blanks as in search.sql; {counted} is the condition on corpus.term_counts t of the statistics' corpus.

-- name: weights
-- The question's terms with the weight of their rarity, as a vector; NULL if the corpus holds none of them.
WITH counts AS (
    SELECT t.term, sum(t.chunks)::float8 AS chunks
    FROM corpus.term_counts t
    WHERE t.org_id = %(org_id)s AND (t.term = 0 OR t.term = ANY(%(terms)s::integer[])) AND {counted}
    GROUP BY t.term
    HAVING sum(t.chunks) > 0
),
question AS MATERIALIZED (
    SELECT ('{{' || string_agg(asked.term || ':' || (
               asked.times * ln(1 + (whole.chunks - own.chunks + 0.5) / (own.chunks + 0.5))
           )::real, ',' ORDER BY asked.term) || '}}/1000000000')::sparsevec AS terms
    FROM unnest(%(terms)s::integer[], %(times)s::integer[]) AS asked (term, times)
    JOIN counts own USING (term)
    CROSS JOIN (SELECT chunks FROM counts WHERE term = 0) whole
),
matching AS MATERIALIZED (
    SELECT l.chunk_id, l.document_id, -(l.terms <#> question.terms) AS score
    FROM question
    JOIN corpus.lexical l ON l.org_id = %(org_id)s
    JOIN corpus.documents d
      ON d.org_id = %(org_id)s AND d.document_id = l.document_id AND d.live_version = l.version
    WHERE question.terms IS NOT NULL AND {scope}
)

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
SELECT {chunk_columns}, f.score, NULL::float8
FROM first f
JOIN corpus.chunks c ON c.org_id = %(org_id)s AND c.chunk_id = f.chunk_id
JOIN corpus.documents d ON d.org_id = %(org_id)s AND d.document_id = c.document_id
ORDER BY f.score DESC, c.chunk_id

-- name: scored_and_compared
-- With the distance from the question's vector, if the chunk has one.
SELECT {chunk_columns}, f.score, v.embedding <=> %(vector)s::halfvec
FROM first f
JOIN corpus.chunks c ON c.org_id = %(org_id)s AND c.chunk_id = f.chunk_id
JOIN corpus.documents d ON d.org_id = %(org_id)s AND d.document_id = c.document_id
LEFT JOIN {vectors} v ON v.org_id = %(org_id)s AND v.chunk_id = c.chunk_id
ORDER BY f.score DESC, c.chunk_id

-- name: all_counted
true

-- name: collection_counted
t.collection_id = (SELECT k.collection_id FROM corpus.collections k
                   WHERE k.org_id = %(org_id)s AND k.name = %(statistics_of)s)
