-- The schema, its role, one row per paid call, and budgets. Money is whole nano-USD (10^-9 USD); prices are nano-USD per
-- million tokens. Times of budgets are UTC.

CREATE SCHEMA IF NOT EXISTS ledger;

-- citewire_ledger opens and settles calls (generator, embedder); citewire_chat, the gateway's, reads them and keeps
-- budgets. Roles belong to the whole server, and migrations of several databases may run at once: losing the race is
-- fine, and so is coming before the gateway's migrations.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['citewire_ledger', 'citewire_chat'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name) THEN
            BEGIN
                EXECUTE format(
                    'CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
        IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name AND (rolsuper OR rolbypassrls)) THEN
            RAISE EXCEPTION 'role % is a superuser or has BYPASSRLS: tenants would not be kept apart', name;
        END IF;
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA ledger TO citewire_ledger, citewire_chat;

CREATE TABLE ledger.calls (
    org_id              text COLLATE "C" NOT NULL,
    call_id             uuid NOT NULL,                    -- version 7, made by the process that calls
    user_id             text COLLATE "C" NOT NULL,
    key_id              text COLLATE "C" NOT NULL DEFAULT '',  -- the API key's id; empty without one
    profile             text NOT NULL DEFAULT '',         -- of the chat that the call is a part of; empty outside of one
    exchange_id         uuid,                             -- its row in chat.exchanges
    request_id          text NOT NULL DEFAULT '',
    process             text NOT NULL,                    -- which service makes the call
    purpose             text NOT NULL,                    -- question_embedding, ingest, generation, …
    provider            text NOT NULL,
    model               text NOT NULL,
    own                 boolean NOT NULL,                 -- whether the tenant's own key pays
    state               text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'cancelled', 'failed')),
    reason              text NOT NULL DEFAULT '',         -- why it was cancelled or failed; ORPHANED: its process died
    finish              text NOT NULL DEFAULT '',         -- why the provider ended
    -- While the call is open: our estimate of the input, and what has come so far.
    input_tokens        bigint NOT NULL CHECK (input_tokens >= 0),  -- those of the next two columns included
    cached_input_tokens bigint NOT NULL DEFAULT 0 CHECK (cached_input_tokens >= 0),
    cache_write_tokens  bigint NOT NULL DEFAULT 0 CHECK (cache_write_tokens >= 0),
    output_tokens       bigint NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
    estimated           boolean NOT NULL DEFAULT true,    -- whether the counts are ours, not the provider's
    -- The catalogue's prices when the call was opened; NULL: not known, and then the cost is 0.
    input_price         bigint,
    cached_input_price  bigint,
    cache_write_price   bigint,
    output_price        bigint,
    reserved_nano       bigint NOT NULL CHECK (reserved_nano >= 0),  -- held in the budgets while the call is open
    cost_nano           bigint NOT NULL DEFAULT 0 CHECK (cost_nano >= 0),
    started_at          timestamptz NOT NULL DEFAULT now(),
    ended_at            timestamptz,
    lease_until         timestamptz NOT NULL,             -- an open call whose lease has passed lost its process
    PRIMARY KEY (org_id, call_id),
    CHECK ((state = 'open') = (ended_at IS NULL)),
    CHECK (cached_input_tokens + cache_write_tokens <= input_tokens),
    CHECK (num_nulls(input_price, cached_input_price, cache_write_price, output_price) IN (0, 4))
);
CREATE INDEX calls_by_time ON ledger.calls (org_id, started_at);
CREATE INDEX calls_of_exchange ON ledger.calls (org_id, exchange_id) WHERE exchange_id IS NOT NULL;
CREATE INDEX calls_open ON ledger.calls (lease_until) WHERE state = 'open';

-- What an organisation, or one of its API keys, may spend in a day or a month. At any time
-- reserved_nano = sum of calls.reserved_nano of its open calls, and a call only opens while
-- spent_nano + reserved_nano <= limit_nano holds with it.
CREATE TABLE ledger.budgets (
    org_id        text COLLATE "C" NOT NULL,
    key_id        text COLLATE "C" NOT NULL DEFAULT '',   -- empty: the organisation's, which all its keys share
    scope         text NOT NULL GENERATED ALWAYS AS (CASE key_id WHEN '' THEN 'org' ELSE 'key' END) STORED,
    period        text NOT NULL CHECK (period IN ('day', 'month')),
    limit_nano    bigint NOT NULL CHECK (limit_nano >= 0),
    spent_nano    bigint NOT NULL DEFAULT 0,              -- in the period that period_start begins
    reserved_nano bigint NOT NULL DEFAULT 0,
    period_start  timestamptz NOT NULL,
    updated_by    text COLLATE "C" NOT NULL,
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, key_id, period)
) WITH (fillfactor = 50);                                 -- each call updates them twice: room for that in the page

ALTER TABLE ledger.calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.calls FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger.budgets ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.budgets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON ledger.calls
    USING (org_id = current_setting('citewire.org_id', true))
    WITH CHECK (org_id = current_setting('citewire.org_id', true));
CREATE POLICY tenant ON ledger.budgets
    USING (org_id = current_setting('citewire.org_id', true))
    WITH CHECK (org_id = current_setting('citewire.org_id', true));

-- Those of the functions below that work for all organisations run as this schema's owner, whom FORCE ROW LEVEL
-- SECURITY binds as well unless the owner is a superuser: these policies are for them.
CREATE POLICY owner_reads_all ON ledger.calls FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_settles_all ON ledger.calls FOR UPDATE TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY owner_reads_all ON ledger.budgets FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_charges_all ON ledger.budgets FOR UPDATE TO CURRENT_USER USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE ON ledger.calls TO citewire_ledger;
GRANT SELECT, UPDATE ON ledger.budgets TO citewire_ledger;
GRANT SELECT ON ledger.calls TO citewire_chat;
GRANT SELECT, DELETE ON ledger.budgets TO citewire_chat;

-- The first moment of the day or month, UTC, that `at` is in.
CREATE FUNCTION ledger.period_start(period text, at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE
AS $$ SELECT date_trunc(period, at, 'UTC') $$;

-- The first moment after it.
CREATE FUNCTION ledger.period_end(period text, at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE
AS $$
    SELECT (date_trunc(period, at AT TIME ZONE 'UTC') + ('1 ' || period)::interval) AT TIME ZONE 'UTC'
$$;

-- Budgets as they are now: a budget whose period is over has spent nothing, though its row still says what was.
CREATE VIEW ledger.budgets_now WITH (security_invoker) AS
    SELECT b.org_id, b.key_id, b.scope, b.period, b.limit_nano, n.spent_nano, b.reserved_nano,
           b.limit_nano - n.spent_nano - b.reserved_nano AS left_nano,
           ledger.period_start(b.period, now()) AS period_start,
           ledger.period_end(b.period, now()) AS resets_at,
           b.updated_by, b.updated_at
    FROM ledger.budgets b,
         LATERAL (SELECT CASE WHEN b.period_start = ledger.period_start(b.period, now()) THEN b.spent_nano ELSE 0 END
                  AS spent_nano) n;
GRANT SELECT ON ledger.budgets_now TO citewire_ledger, citewire_chat;

-- What tokens cost, rounded up; 0 where a price isn't known. citewire_ledger.model has the same for the metrics.
CREATE FUNCTION ledger.cost(
    input_tokens bigint, cached_input_tokens bigint, cache_write_tokens bigint, output_tokens bigint,
    input_price bigint, cached_input_price bigint, cache_write_price bigint, output_price bigint
) RETURNS bigint
LANGUAGE sql IMMUTABLE
AS $$
    SELECT coalesce(ceil((
        (input_tokens - cached_input_tokens - cache_write_tokens)::numeric * input_price
        + cached_input_tokens::numeric * cached_input_price
        + cache_write_tokens::numeric * cache_write_price
        + output_tokens::numeric * output_price
    ) / 1000000), 0)::bigint
$$;

-- The organisation of this transaction.
CREATE FUNCTION ledger.current_org() RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    org text := current_setting('citewire.org_id', true);
BEGIN
    IF coalesce(org, '') = '' THEN
        RAISE EXCEPTION 'no tenant is set';
    END IF;
    RETURN org;
END
$$;

-- Calls share this lock of their organisation; making or changing a budget takes it alone, so that it counts every call
-- either itself or not at all.
CREATE FUNCTION ledger.lock_key(org text) RETURNS bigint
LANGUAGE sql IMMUTABLE
AS $$ SELECT hashtextextended('citewire-ledger:' || org, 0) $$;

-- Moves money in the budgets that a call belongs to: `released` is no longer reserved, `cost` is spent.
-- Rows are locked in the order of their keys, here and in open_call, so that nobody waits in a circle.
CREATE FUNCTION ledger.charge(p_org text, p_key text, released bigint, cost bigint) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM 1 FROM ledger.budgets b WHERE b.org_id = p_org AND b.key_id IN ('', p_key)
        ORDER BY b.key_id, b.period FOR UPDATE;
    UPDATE ledger.budgets b
    SET reserved_nano = b.reserved_nano - released,
        spent_nano = greatest(
            cost + CASE WHEN b.period_start = ledger.period_start(b.period, now()) THEN b.spent_nano ELSE 0 END, 0),
        period_start = ledger.period_start(b.period, now())
    WHERE b.org_id = p_org AND b.key_id IN ('', p_key);
END
$$;

-- Opens a call and reserves what it may cost, or returns the budget that has too little left: of several, the one that
-- resets last.
CREATE FUNCTION ledger.open_call(
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
        PERFORM 1 FROM ledger.budgets b WHERE b.org_id = org AND b.key_id IN ('', p_key)
            ORDER BY b.key_id, b.period FOR UPDATE;
        IF FOUND THEN
            RETURN QUERY
                SELECT b.scope, b.limit_nano, b.left_nano, b.resets_at FROM ledger.budgets_now b
                WHERE b.org_id = org AND b.key_id IN ('', p_key) AND b.left_nano < p_reserved
                ORDER BY b.resets_at DESC, b.left_nano LIMIT 1;
            IF FOUND THEN
                RETURN;
            END IF;
            PERFORM ledger.charge(org, p_key, -p_reserved, 0);
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

-- Settles a call; false if there is nothing to settle. A call that was taken for lost, and wasn't, is set right.
-- Repeating it changes nothing.
CREATE FUNCTION ledger.settle_call(
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
        org, c.key_id, CASE c.state WHEN 'open' THEN c.reserved_nano ELSE 0 END, cost - c.cost_nano);
    RETURN true;
END
$$;

-- Prolongs the leases of open calls, of any organisation, and notes how many tokens have come: what a call is settled by
-- if its process dies.
CREATE FUNCTION ledger.beat(p_orgs text[], p_calls uuid[], p_output_tokens bigint[], p_lease interval) RETURNS bigint
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH beaten AS (
        UPDATE ledger.calls c SET lease_until = now() + p_lease, output_tokens = b.tokens
        FROM unnest(p_orgs, p_calls, p_output_tokens) AS b (org, call, tokens)
        WHERE c.org_id = b.org AND c.call_id = b.call AND c.state = 'open'
        RETURNING 1
    )
    SELECT count(*) FROM beaten
$$;

-- Settles calls whose process died, of all organisations, by estimate. Several processes may do this at once.
CREATE FUNCTION ledger.sweep(most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c ledger.calls;
    cost bigint;
    swept bigint := 0;
BEGIN
    FOR c IN
        WITH lost AS MATERIALIZED (
            SELECT * FROM ledger.calls k WHERE k.state = 'open' AND k.lease_until < now()
            ORDER BY k.lease_until LIMIT most FOR UPDATE SKIP LOCKED
        )
        SELECT * FROM lost ORDER BY org_id, key_id, call_id
    LOOP
        PERFORM pg_advisory_xact_lock_shared(ledger.lock_key(c.org_id));
        cost := ledger.cost(
            c.input_tokens, 0, 0, c.output_tokens,
            c.input_price, c.cached_input_price, c.cache_write_price, c.output_price);
        UPDATE ledger.calls k
        SET state = 'failed', reason = 'ORPHANED', estimated = true, cost_nano = cost, ended_at = now()
        WHERE k.org_id = c.org_id AND k.call_id = c.call_id;
        PERFORM ledger.charge(c.org_id, c.key_id, c.reserved_nano, cost);
        swept := swept + 1;
    END LOOP;
    RETURN swept;
END
$$;

-- Makes the current organisation's budget, or changes its limit. A new one starts with what the period has cost, and
-- with what its open calls may cost.
CREATE FUNCTION ledger.put_budget(p_key text, p_period text, p_limit_nano bigint, p_by text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org text := ledger.current_org();
    since timestamptz := ledger.period_start(p_period, now());
BEGIN
    PERFORM pg_advisory_xact_lock(ledger.lock_key(org));
    UPDATE ledger.budgets b SET limit_nano = p_limit_nano, updated_by = p_by, updated_at = now()
    WHERE b.org_id = org AND b.key_id = p_key AND b.period = p_period;
    IF NOT FOUND THEN
        -- A call that ended in this period began at most a day before it.
        INSERT INTO ledger.budgets (
            org_id, key_id, period, limit_nano, spent_nano, reserved_nano, period_start, updated_by)
        SELECT org, p_key, p_period, p_limit_nano,
               coalesce(sum(c.cost_nano) FILTER (WHERE c.ended_at >= since), 0),
               coalesce(sum(c.reserved_nano) FILTER (WHERE c.state = 'open'), 0), since, p_by
        FROM ledger.calls c
        WHERE c.org_id = org AND (p_key = '' OR c.key_id = p_key) AND c.started_at >= since - interval '1 day';
    END IF;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ledger FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    ledger.period_start(text, timestamptz), ledger.period_end(text, timestamptz)
    TO citewire_ledger, citewire_chat;
GRANT EXECUTE ON FUNCTION
    ledger.cost(bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint),
    ledger.current_org(), ledger.lock_key(text), ledger.charge(text, text, bigint, bigint),
    ledger.open_call(uuid, text, text, text, uuid, text, text, text, text, text, boolean, bigint,
                     bigint, bigint, bigint, bigint, bigint, interval),
    ledger.settle_call(uuid, text, text, text, bigint, bigint, bigint, bigint, boolean),
    ledger.beat(text[], uuid[], bigint[], interval), ledger.sweep(integer)
    TO citewire_ledger;
GRANT EXECUTE ON FUNCTION ledger.put_budget(text, text, bigint, text) TO citewire_chat;
