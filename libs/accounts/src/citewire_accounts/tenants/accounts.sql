-- Usage and budgets, from the schema `ledger` that the services write. Every query runs under its tenant.

-- name: usage_of_calls
-- One row per group, with columns named as in responses; columns that aren't grouped by are NULL. Tokens and cost of open
-- calls aren't known yet. Embedding tokens are those of questions and of ingest; tokens of reranking count only in
-- `input_tokens`.
SELECT CASE WHEN 'org' = ANY (%(by)s::text[]) THEN org_id END AS org,
       CASE WHEN 'user' = ANY (%(by)s::text[]) THEN user_id END AS "user",
       CASE WHEN 'day' = ANY (%(by)s::text[]) THEN (started_at AT TIME ZONE 'UTC')::date END AS day,
       CASE WHEN 'model' = ANY (%(by)s::text[]) THEN provider END AS provider,
       CASE WHEN 'model' = ANY (%(by)s::text[]) THEN model END AS model,
       CASE WHEN 'profile' = ANY (%(by)s::text[]) THEN profile END AS profile,
       CASE WHEN 'purpose' = ANY (%(by)s::text[]) THEN purpose END AS purpose,
       CASE WHEN 'key' = ANY (%(by)s::text[]) THEN key_id END AS key,
       count(*) AS calls,
       count(*) FILTER (WHERE state = 'open') AS open_calls,
       count(*) FILTER (WHERE state <> 'open' AND estimated) AS estimated_calls,
       count(*) FILTER (WHERE input_price IS NULL) AS unpriced_calls,
       coalesce(sum(input_tokens) FILTER (WHERE state <> 'open'), 0)::bigint AS input_tokens,
       coalesce(sum(cached_input_tokens) FILTER (WHERE state <> 'open'), 0)::bigint AS cached_input_tokens,
       coalesce(sum(cache_write_tokens) FILTER (WHERE state <> 'open'), 0)::bigint AS cache_write_tokens,
       coalesce(sum(output_tokens) FILTER (WHERE state <> 'open'), 0)::bigint AS output_tokens,
       coalesce(sum(input_tokens) FILTER (
           WHERE state <> 'open' AND purpose IN ('question_embedding', 'ingest')), 0)::bigint AS embedding_tokens,
       coalesce(sum(input_tokens) FILTER (
           WHERE state <> 'open' AND purpose NOT IN ('question_embedding', 'ingest', 'rerank')), 0)::bigint AS prompt_tokens,
       coalesce(sum(output_tokens) FILTER (
           WHERE state <> 'open' AND purpose NOT IN ('question_embedding', 'ingest', 'rerank')), 0)::bigint AS completion_tokens,
       coalesce(sum(cost_nano) FILTER (WHERE state <> 'open'), 0)::bigint AS cost_nano,
       coalesce(sum(cost_nano) FILTER (WHERE state <> 'open' AND own), 0)::bigint AS own_cost_nano
FROM ledger.calls
WHERE org_id = %(org)s AND started_at >= %(start)s AND started_at < %(end)s
  AND (%(only_user)s::text IS NULL OR user_id = %(only_user)s)
  AND (%(only_key)s::text IS NULL OR key_id = %(only_key)s)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
ORDER BY 3, 1, 2, 4, 5, 6, 7, 8
LIMIT %(most)s

-- name: usage_of_exchanges
-- The same for chats. A chat's cost is the sum of its calls; these are read for an hour longer, because a chat may make calls
-- after the end of the period in which it started.
WITH paid AS (
    SELECT exchange_id, sum(cost_nano) AS cost_nano, sum(cost_nano) FILTER (WHERE own) AS own_nano
    FROM ledger.calls
    WHERE org_id = %(org)s AND exchange_id IS NOT NULL AND state <> 'open'
      AND started_at >= %(start)s AND started_at < %(end)s::timestamptz + interval '1 hour'
    GROUP BY exchange_id
)
SELECT CASE WHEN 'org' = ANY (%(by)s::text[]) THEN org_id END AS org,
       CASE WHEN 'user' = ANY (%(by)s::text[]) THEN user_id END AS "user",
       CASE WHEN 'day' = ANY (%(by)s::text[]) THEN (started_at AT TIME ZONE 'UTC')::date END AS day,
       CASE WHEN 'model' = ANY (%(by)s::text[]) THEN coalesce(provider, '') END AS provider,
       CASE WHEN 'model' = ANY (%(by)s::text[]) THEN coalesce(model, '') END AS model,
       CASE WHEN 'profile' = ANY (%(by)s::text[]) THEN profile END AS profile,
       NULL AS purpose, NULL AS key,
       count(*) AS exchanges,
       count(*) FILTER (WHERE state = 'running') AS running_exchanges,
       count(*) FILTER (WHERE state IN ('cancelled', 'failed')) AS unfinished_exchanges,
       count(*) FILTER (WHERE estimated) AS estimated_exchanges,
       coalesce(sum(embedding_tokens), 0)::bigint AS embedding_tokens,
       coalesce(sum(prompt_tokens), 0)::bigint AS prompt_tokens,
       coalesce(sum(completion_tokens), 0)::bigint AS completion_tokens,
       coalesce(sum(cost_nano), 0)::bigint AS cost_nano,
       coalesce(sum(own_nano), 0)::bigint AS own_cost_nano
FROM chat.exchanges LEFT JOIN paid USING (exchange_id)
WHERE org_id = %(org)s AND started_at >= %(start)s AND started_at < %(end)s
  AND (%(only_user)s::text IS NULL OR user_id = %(only_user)s)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
ORDER BY 3, 1, 2, 4, 5, 6, 7, 8
LIMIT %(most)s

-- name: cost_of_exchange
-- What a chat has cost so far; NULL if a call's price isn't known.
SELECT count(*), CASE WHEN count(*) FILTER (WHERE input_price IS NULL) = 0 THEN coalesce(sum(cost_nano), 0)::bigint END
FROM ledger.calls
WHERE org_id = %(org)s AND exchange_id = %(exchange)s AND state <> 'open'

-- name: forget_users
SELECT ledger.forget_users(%(user)s, %(successor)s)

-- name: list_budgets
SELECT key_id, user_id, period, limit_nano, spent_nano, reserved_nano, left_nano, period_start, resets_at, updated_by,
       updated_at
FROM ledger.budgets_now
WHERE org_id = %(org)s
ORDER BY key_id, user_id, period

-- name: get_budget
SELECT key_id, user_id, period, limit_nano, spent_nano, reserved_nano, left_nano, period_start, resets_at, updated_by,
       updated_at
FROM ledger.budgets_now
WHERE org_id = %(org)s AND key_id = %(key_id)s AND user_id = %(user_id)s AND period = %(period)s

-- name: has_key
SELECT FROM chat.api_keys WHERE org_id = %(org)s AND key_id = %(key_id)s

-- name: has_user
SELECT FROM chat.users WHERE org_id = %(org)s AND user_id = %(user_id)s

-- name: put_budget
SELECT ledger.put_budget(%(key_id)s, %(user_id)s, %(period)s, %(limit_nano)s, %(user)s)

-- name: delete_budget
DELETE FROM ledger.budgets WHERE org_id = %(org)s AND key_id = %(key_id)s AND user_id = %(user_id)s AND period = %(period)s
