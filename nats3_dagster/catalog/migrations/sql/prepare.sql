-- Run before Alembic looks at anything: its version table lives in our schema, and two migrators must not race.
select pg_advisory_xact_lock(hashtextextended('nats3.migrate', 0));
-- Transactions of programs end first (share_schema in session.sql), and none begins. A migration that waits keeps all of them waiting, so it
-- does not wait for long, nor for a lock on a table.
select set_config('lock_timeout', current_setting('nats3.patience'), true);
select pg_advisory_xact_lock(hashtextextended('nats3.schema', 0));

do $$
begin
    -- CREATE SCHEMA IF NOT EXISTS asks for the privilege even where the schema exists.
    if to_regnamespace('nats3') is null then
        create schema nats3;
    end if;
end
$$;

-- In our own schema: a role that may create in this database need not be able to create in public.
create extension if not exists btree_gist schema nats3;
