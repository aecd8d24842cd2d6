-- name: health()
-- What this Postgres is, how durable its commits are, and whether it has the extension that the schema needs.
select current_setting('server_version') as server, current_setting('server_version_num')::int as number,
       current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
       pg_is_in_recovery() as standby,
       exists (select from pg_extension where extname = 'btree_gist') as gist_installed,
       exists (select from pg_available_extensions where name = 'btree_gist') as gist_available;
