-- Lexical search of large organisations looks only at chunks that hold a rare enough word of the question.

-- What the index is of: a number for each organisation and term, so that no tenant's list holds another's chunks.
CREATE FUNCTION corpus.term_keys(of_org text, terms sparsevec) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public, pg_temp
AS $$
    SELECT array_agg(hashtextextended(of_org, split_part(pair, ':', 1)::bigint))
    FROM unnest(string_to_array(split_part(ltrim(terms::text, '{'), '}', 1), ',')) AS pair
    WHERE pair <> ''
$$;
REVOKE ALL ON FUNCTION corpus.term_keys(text, sparsevec) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.term_keys(text, sparsevec) TO citewire_corpus, citewire_worker;

-- The tenant's chunks that hold at least one of these terms, with the score of the question, if that is at least so high.
-- Under row-level security no plan may use a GIN index, as its operators aren't leakproof. So this runs as the owner, and
-- compares org_id itself with the tenant that kit has set; without a tenant it finds nothing.
CREATE FUNCTION corpus.lexical_matches(of_terms integer[], question sparsevec, lowest float8)
RETURNS TABLE (chunk_id bigint, document_id bigint, version integer, score float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 200
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    keys CONSTANT bigint[] := (SELECT array_agg(hashtextextended(org, term)) FROM unnest(of_terms) AS term);
BEGIN
    RETURN QUERY
    SELECT found.chunk_id, found.document_id, found.version, found.score
    FROM (
        SELECT l.chunk_id, l.document_id, l.version, -(l.terms <#> question) AS score
        FROM corpus.lexical l
        WHERE l.org_id = org AND corpus.term_keys(l.org_id, l.terms) && keys
        OFFSET 0  -- the score is computed once
    ) found
    WHERE found.score >= lowest;
END
$$;
REVOKE ALL ON FUNCTION corpus.lexical_matches(integer[], sparsevec, float8) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.lexical_matches(integer[], sparsevec, float8) TO citewire_corpus;

-- The policy binds the owner too, and would keep its function from the index. No service connects as the owner.
DO $$
BEGIN
    EXECUTE format('CREATE POLICY owner_reads_all ON corpus.lexical FOR SELECT TO %I USING (true)', current_user);
END
$$;
