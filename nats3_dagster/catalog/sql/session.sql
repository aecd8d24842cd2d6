-- name: set_session()
-- Times are in UTC, and no statement waits for a lock for long.
set time zone 'UTC';
-- A commit that waits longer than this for another one of the same archive waits for a process that hangs.
set lock_timeout = '60s';

-- name: stay_connected()
-- Keeps the server from ending the session because it is idle, also in a transaction, or because a transaction takes long:
-- locks end with the session, and a rebuild reads a bucket in a transaction.
select set_config(name, '0', false) from pg_settings
where name in ('idle_session_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');

-- name: set_actor(actor)
-- Says who works with the catalog on this connection.
select set_config('nats3.actor', :actor, false);

-- name: set_patience(patience)
-- Says how long a migration on this connection waits for transactions and locks of others.
select set_config('nats3.patience', :patience, false);

-- name: search_schema()
-- Lets the connection find our tables by names without the schema.
set search_path to nats3;

-- name: server_process()
-- The process id of the server that runs this statement.
select pg_backend_pid();

-- name: share_schema()
-- Keeps migrations waiting until the transaction ends, and says which version it then works with. Two statements: the second one sees
-- what a migration committed while the first one waited for it.
select pg_advisory_xact_lock_shared(hashtextextended('nats3.schema', 0));
select version_num from nats3.alembic_version;

-- name: schema_version()
-- The newest migration that the database has.
select version_num from nats3.alembic_version;

-- name: schema_owner()
-- The role that owns our schema.
select pg_get_userbyid(nspowner)::text from pg_namespace where nspname = 'nats3';

-- name: is_proven()
-- True if the database keeps chunks from overlapping: a restore without the extension leaves that out.
select exists (
    select from pg_constraint where conname = 'chunk_no_overlap' and connamespace = to_regnamespace('nats3'));

-- name: missing_parts()
-- The parts of the schema that the migration made and that are not there.
select part from unnest(nats3.expected_parts()) part except select part from nats3.present_part order by 1;

-- name: has_tables()
-- True if the database has the tables of a catalog.
select to_regclass('nats3.archive') is not null;

-- name: now()
-- The server's clock.
select clock_timestamp();
