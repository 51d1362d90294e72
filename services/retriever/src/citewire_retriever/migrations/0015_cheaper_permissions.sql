-- What permissions cost a search: a scan asks an index for what its caller may see, and functions of policies are planned
-- once for a connection.

-- As the one of 0013, which no query of the retriever could use: below a policy the planner takes only conditions that it
-- knows not to leak, and it knows that of CASE and not of coalesce.
CREATE INDEX documents_by_seen ON corpus.documents (
    org_id,
    (CASE WHEN access_id IS NOT NULL THEN access_id WHEN collection_id IS NOT NULL THEN collection_id ELSE 0 END)
) WHERE live_version IS NOT NULL;
DROP INDEX corpus.documents_by_access;
ALTER INDEX corpus.documents_by_seen RENAME TO documents_by_access;

-- Transactions ask for plans that fit their values, and functions would have theirs made with each call.
ALTER FUNCTION corpus.sees_document(bigint) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION corpus.collection_access(bigint) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION corpus.nothing_hidden() SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION corpus.visible_accesses() SET plan_cache_mode = force_generic_plan;
