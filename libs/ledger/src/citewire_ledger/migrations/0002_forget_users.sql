-- What calls cost is kept when a user is erased, and when an organisation is: without the names of users.
CREATE FUNCTION ledger.forget_users(of_user text, successor text) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE ledger.calls SET user_id = successor
    WHERE org_id = current_setting('citewire.org_id', true) AND user_id = coalesce(nullif(of_user, ''), user_id);
    UPDATE ledger.budgets SET updated_by = successor
    WHERE org_id = current_setting('citewire.org_id', true) AND updated_by = coalesce(nullif(of_user, ''), updated_by);
$$;
REVOKE ALL ON FUNCTION ledger.forget_users(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.forget_users(text, text) TO citewire_chat;
