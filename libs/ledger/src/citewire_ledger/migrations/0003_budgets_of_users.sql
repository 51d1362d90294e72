-- Budgets of users, beside those of organisations and API keys. A call belongs to its organisation's, its key's and its user's.
-- While gateways of the version before run, they take a user's budget for the organisation's: set none before they are gone.
ALTER TABLE ledger.budgets
    ADD COLUMN user_id text COLLATE "C" NOT NULL DEFAULT '',   -- empty: not a user's
    ADD CHECK (key_id = '' OR user_id = ''),
    DROP CONSTRAINT budgets_pkey,
    ADD PRIMARY KEY (org_id, key_id, user_id, period);

CREATE OR REPLACE VIEW ledger.budgets_now WITH (security_invoker) AS
    SELECT b.org_id, b.key_id, CASE WHEN b.key_id <> '' THEN 'key' WHEN b.user_id <> '' THEN 'user' ELSE 'org' END AS scope,
           b.period, b.limit_nano, n.spent_nano, b.reserved_nano,
           b.limit_nano - n.spent_nano - b.reserved_nano AS left_nano,
           ledger.period_start(b.period, now()) AS period_start,
           ledger.period_end(b.period, now()) AS resets_at,
           b.updated_by, b.updated_at, b.user_id
    FROM ledger.budgets b,
         LATERAL (SELECT CASE WHEN b.period_start = ledger.period_start(b.period, now()) THEN b.spent_nano ELSE 0 END
                  AS spent_nano) n;
ALTER TABLE ledger.budgets DROP COLUMN scope;             -- the view says it

-- Moves money in the budgets that a call belongs to: `released` is no longer reserved, `cost` is spent.
-- Rows are locked in the order of their keys, here and in open_call, so that nobody waits in a circle.
CREATE FUNCTION ledger.charge(p_org text, p_key text, p_user text, released bigint, cost bigint) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM 1 FROM ledger.budgets b WHERE b.org_id = p_org AND b.key_id IN ('', p_key) AND b.user_id IN ('', p_user)
        ORDER BY b.key_id, b.user_id, b.period FOR UPDATE;
    UPDATE ledger.budgets b
    SET reserved_nano = b.reserved_nano - released,
        spent_nano = greatest(
            cost + CASE WHEN b.period_start = ledger.period_start(b.period, now()) THEN b.spent_nano ELSE 0 END, 0),
        period_start = ledger.period_start(b.period, now())
    WHERE b.org_id = p_org AND b.key_id IN ('', p_key) AND b.user_id IN ('', p_user);
END
$$;

CREATE OR REPLACE FUNCTION ledger.open_call(
    p_call uuid, p_user text, p_key text, p_profile text, p_exchange uuid, p_request text, p_process text,
    p_purpose text, p_provider text, p_model text, p_own boolean, p_input_tokens bigint,
    p_input_price bigint, p_cached_input_price bigint, p_cache_write_price bigint, p_output_price bigint,
    p_reserved bigint, p_lease interval
) RETURNS TABLE (scope text, limit_nano bigint, left_nano bigint, resets_at timestamptz)
LANGUAGE plpgsql
AS $$
DECLARE
    org text := ledger.current_org();
BEGIN
    PERFORM pg_advisory_xact_lock_shared(ledger.lock_key(org));
    IF p_reserved > 0 THEN
        PERFORM 1 FROM ledger.budgets b
            WHERE b.org_id = org AND b.key_id IN ('', p_key) AND b.user_id IN ('', p_user)
            ORDER BY b.key_id, b.user_id, b.period FOR UPDATE;
        IF FOUND THEN
            RETURN QUERY
                SELECT b.scope, b.limit_nano, b.left_nano, b.resets_at FROM ledger.budgets_now b
                WHERE b.org_id = org AND b.key_id IN ('', p_key) AND b.user_id IN ('', p_user)
                  AND b.left_nano < p_reserved
                ORDER BY b.resets_at DESC, b.left_nano LIMIT 1;
            IF FOUND THEN
                RETURN;
            END IF;
            PERFORM ledger.charge(org, p_key, p_user, -p_reserved, 0);
        END IF;
    END IF;
    INSERT INTO ledger.calls (
        org_id, call_id, user_id, key_id, profile, exchange_id, request_id, process, purpose, provider, model, own,
        input_tokens, input_price, cached_input_price, cache_write_price, output_price, reserved_nano, lease_until)
    VALUES (
        org, p_call, p_user, p_key, p_profile, p_exchange, p_request, p_process, p_purpose, p_provider, p_model, p_own,
        p_input_tokens, p_input_price, p_cached_input_price, p_cache_write_price, p_output_price, p_reserved,
        now() + p_lease);
END
$$;

CREATE OR REPLACE FUNCTION ledger.settle_call(
    p_call uuid, p_state text, p_reason text, p_finish text, p_input_tokens bigint, p_cached_input_tokens bigint,
    p_cache_write_tokens bigint, p_output_tokens bigint, p_estimated boolean
) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    org text := ledger.current_org();
    c ledger.calls;
    cost bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(ledger.lock_key(org));
    SELECT * INTO c FROM ledger.calls k WHERE k.org_id = org AND k.call_id = p_call FOR UPDATE;
    IF NOT FOUND OR (c.state <> 'open' AND c.reason <> 'ORPHANED') THEN
        RETURN false;
    END IF;
    cost := ledger.cost(
        p_input_tokens, p_cached_input_tokens, p_cache_write_tokens, p_output_tokens,
        c.input_price, c.cached_input_price, c.cache_write_price, c.output_price);
    UPDATE ledger.calls k
    SET state = p_state, reason = p_reason, finish = p_finish, input_tokens = p_input_tokens,
        cached_input_tokens = p_cached_input_tokens, cache_write_tokens = p_cache_write_tokens,
        output_tokens = p_output_tokens, estimated = p_estimated, cost_nano = cost, ended_at = now()
    WHERE k.org_id = org AND k.call_id = p_call;
    PERFORM ledger.charge(
        org, c.key_id, c.user_id, CASE c.state WHEN 'open' THEN c.reserved_nano ELSE 0 END, cost - c.cost_nano);
    RETURN true;
END
$$;

-- All budgets of a batch are locked at once, in their order: calls of one user and of one key would else be charged crosswise.
CREATE OR REPLACE FUNCTION ledger.sweep(most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    lost ledger.calls[];
    c ledger.calls;
    cost bigint;
BEGIN
    SELECT coalesce(array_agg(l.c), '{}') INTO lost
    FROM (SELECT k AS c FROM ledger.calls k WHERE k.state = 'open' AND k.lease_until < now()
          ORDER BY k.lease_until LIMIT most FOR UPDATE SKIP LOCKED) l;
    PERFORM pg_advisory_xact_lock_shared(ledger.lock_key(o.org_id))
        FROM (SELECT DISTINCT k.org_id FROM unnest(lost) k ORDER BY k.org_id) o;
    PERFORM 1 FROM ledger.budgets b
        WHERE EXISTS (SELECT FROM unnest(lost) k WHERE k.org_id = b.org_id AND b.key_id IN ('', k.key_id)
                                                   AND b.user_id IN ('', k.user_id))
        ORDER BY b.org_id, b.key_id, b.user_id, b.period FOR UPDATE;
    FOREACH c IN ARRAY lost LOOP
        cost := ledger.cost(
            c.input_tokens, 0, 0, c.output_tokens,
            c.input_price, c.cached_input_price, c.cache_write_price, c.output_price);
        UPDATE ledger.calls k
        SET state = 'failed', reason = 'ORPHANED', estimated = true, cost_nano = cost, ended_at = now()
        WHERE k.org_id = c.org_id AND k.call_id = c.call_id;
        PERFORM ledger.charge(c.org_id, c.key_id, c.user_id, c.reserved_nano, cost);
    END LOOP;
    RETURN cardinality(lost);
END
$$;

-- Makes a budget of the current organisation's, or changes its limit. A new one starts with what the period has cost, and
-- with what its open calls may cost.
CREATE FUNCTION ledger.put_budget(p_key text, p_user text, p_period text, p_limit_nano bigint, p_by text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org text := ledger.current_org();
    since timestamptz := ledger.period_start(p_period, now());
BEGIN
    PERFORM pg_advisory_xact_lock(ledger.lock_key(org));
    UPDATE ledger.budgets b SET limit_nano = p_limit_nano, updated_by = p_by, updated_at = now()
    WHERE b.org_id = org AND b.key_id = p_key AND b.user_id = p_user AND b.period = p_period;
    IF NOT FOUND THEN
        -- A call that ended in this period began at most a day before it.
        INSERT INTO ledger.budgets (
            org_id, key_id, user_id, period, limit_nano, spent_nano, reserved_nano, period_start, updated_by)
        SELECT org, p_key, p_user, p_period, p_limit_nano,
               coalesce(sum(c.cost_nano) FILTER (WHERE c.ended_at >= since), 0),
               coalesce(sum(c.reserved_nano) FILTER (WHERE c.state = 'open'), 0), since, p_by
        FROM ledger.calls c
        WHERE c.org_id = org AND (p_key = '' OR c.key_id = p_key) AND (p_user = '' OR c.user_id = p_user)
          AND c.started_at >= since - interval '1 day';
    END IF;
END
$$;

-- For gateways of the version before.
CREATE OR REPLACE FUNCTION ledger.put_budget(p_key text, p_period text, p_limit_nano bigint, p_by text) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT ledger.put_budget(p_key, '', p_period, p_limit_nano, p_by) $$;

-- With a user's name its budgets go, too; what its calls cost stays. Who opens or settles a call waits meanwhile.
CREATE OR REPLACE FUNCTION ledger.forget_users(of_user text, successor text) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_advisory_xact_lock(ledger.lock_key(current_setting('citewire.org_id', true)));
    DELETE FROM ledger.budgets
    WHERE org_id = current_setting('citewire.org_id', true) AND user_id <> ''
      AND user_id = coalesce(nullif(of_user, ''), user_id);
    UPDATE ledger.calls SET user_id = successor
    WHERE org_id = current_setting('citewire.org_id', true) AND user_id = coalesce(nullif(of_user, ''), user_id);
    UPDATE ledger.budgets SET updated_by = successor
    WHERE org_id = current_setting('citewire.org_id', true) AND updated_by = coalesce(nullif(of_user, ''), updated_by);
$$;

REVOKE ALL ON FUNCTION ledger.charge(text, text, text, bigint, bigint),
    ledger.put_budget(text, text, text, bigint, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.charge(text, text, text, bigint, bigint) TO citewire_ledger;
GRANT EXECUTE ON FUNCTION ledger.put_budget(text, text, text, bigint, text) TO citewire_chat;
-- The charge without a user stays for calls of the version before that are under way while this runs.
