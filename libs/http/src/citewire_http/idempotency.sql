-- Idempotency keys with the stored responses. Every query runs under its tenant.

-- name: claim_key
-- Claims a new key, or one whose gateway was lost; no row if a request holds it or it has a response.
INSERT INTO chat.idempotency_keys (org_id, user_id, key, operation, request_hash, owner, lease_until)
VALUES (%(org)s, %(user)s, %(key)s, %(operation)s, %(hash)s, %(owner)s, now() + make_interval(secs => %(lease)s))
ON CONFLICT (org_id, user_id, key) DO UPDATE
    SET operation = excluded.operation, request_hash = excluded.request_hash, owner = excluded.owner, response = NULL,
        exchange_id = NULL, created_at = now(), lease_until = excluded.lease_until
    WHERE idempotency_keys.lease_until < now()
RETURNING 1

-- name: read_key
SELECT operation, request_hash, response, exchange_id
FROM chat.idempotency_keys
WHERE org_id = %(org)s AND user_id = %(user)s AND key = %(key)s

-- name: answer_key
UPDATE chat.idempotency_keys
SET response = %(response)s, exchange_id = %(exchange)s, lease_until = now() + make_interval(secs => %(lease)s)
WHERE org_id = %(org)s AND user_id = %(user)s AND key = %(key)s AND owner = %(owner)s

-- name: release_key
DELETE FROM chat.idempotency_keys
WHERE org_id = %(org)s AND user_id = %(user)s AND key = %(key)s AND owner = %(owner)s
  AND response IS NULL AND exchange_id IS NULL

-- name: forget_key
DELETE FROM chat.idempotency_keys
WHERE org_id = %(org)s AND user_id = %(user)s AND key = %(key)s
  AND (response IS NOT NULL OR exchange_id IS NOT NULL)
