-- Whether this transaction may notify: not behind an enqueue with notify=False. A caller that says so means to PREPARE TRANSACTION, which a
-- single NOTIFY forbids, whatever it is for. It is a setting, which ends (and rolls back to savepoints) with the transaction.
CREATE FUNCTION asyncjobs.may_notify() RETURNS boolean LANGUAGE sql STABLE
RETURN pg_catalog.current_setting('asyncjobs_notify.is_off', true) IS DISTINCT FROM 'on';
