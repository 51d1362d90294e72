-- name: open_call
-- Reserves the cost and opens the call in one statement; returns a row only if a budget has too little left.
SELECT scope, limit_nano, left_nano, resets_at
FROM ledger.open_call(
    p_call => %(call)s, p_user => %(user)s, p_key => %(key)s, p_profile => %(profile)s, p_exchange => %(exchange)s,
    p_request => %(request)s, p_process => %(process)s, p_purpose => %(purpose)s, p_provider => %(provider)s,
    p_model => %(model)s, p_own => %(own)s, p_input_tokens => %(input_tokens)s, p_input_price => %(input_price)s,
    p_cached_input_price => %(cached_input_price)s, p_cache_write_price => %(cache_write_price)s,
    p_output_price => %(output_price)s, p_reserved => %(reserved)s, p_lease => %(lease)s)

-- name: settle_call
-- False if there is no such row, or it has been settled already.
SELECT ledger.settle_call(
    p_call => %(call)s, p_state => %(state)s, p_reason => %(reason)s, p_finish => %(finish)s,
    p_input_tokens => %(input_tokens)s, p_cached_input_tokens => %(cached_input_tokens)s,
    p_cache_write_tokens => %(cache_write_tokens)s, p_output_tokens => %(output_tokens)s,
    p_estimated => %(estimated)s)

-- name: beat
-- Extends the leases of calls of any number of organisations: only ids and counts go in, only a count comes out.
SELECT ledger.beat(%(orgs)s::text[], %(calls)s::uuid[], %(tokens)s::bigint[], %(lease)s)

-- name: sweep
-- Settles lost calls with an estimate; returns how many.
SELECT ledger.sweep(%(most)s)
