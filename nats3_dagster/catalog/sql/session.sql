-- name: set_session()#
set time zone 'UTC';
-- A commit that waits longer than this for another one of the same archive waits for a process that hangs.
set lock_timeout = '60s';

-- name: schema_version()$
select version_num from nats3.alembic_version;

-- name: now()$
select clock_timestamp();
