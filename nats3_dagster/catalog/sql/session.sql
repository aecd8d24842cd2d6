-- name: set_session()
-- Times are in UTC, and no statement waits for a lock for long.
set time zone 'UTC';
-- A commit that waits longer than this for another one of the same archive waits for a process that hangs.
set lock_timeout = '60s';

-- name: set_actor(actor)
-- Says who works with the catalog on this connection.
select set_config('nats3.actor', :actor, false);

-- name: search_schema()
-- Lets the connection find our tables by names without the schema.
set search_path to nats3;

-- name: server_process()
-- The process id of the server that runs this statement.
select pg_backend_pid();

-- name: schema_version()
-- The newest migration that the database has.
select version_num from nats3.alembic_version;

-- name: has_tables()
-- True if the database has the tables of a catalog.
select to_regclass('nats3.archive') is not null;

-- name: now()
-- The server's clock.
select clock_timestamp();
