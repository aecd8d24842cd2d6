-- name: health()
-- The version of this Postgres, how durable its commits are, which standbys it has (not the subscribers of a logical replication
-- and backups; the states are null for a user without pg_read_all_stats), and whether it has the extension that the schema needs.
select current_setting('server_version') as server, current_setting('server_version_num')::int as number,
       current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
       current_setting('synchronous_standby_names') as synchronous_standby_names,
       array(select r.sync_state from pg_stat_replication r
              where r.sync_state is not null and r.state in ('catchup', 'streaming')
                and r.application_name not in ('pg_basebackup', 'pg_receivewal')
                and not exists (select from pg_replication_slots s
                                 where s.active_pid = r.pid and s.slot_type = 'logical')) as sync_states,
       pg_is_in_recovery() as standby, current_setting('transaction_read_only')::boolean as read_only,
       exists (select from pg_extension where extname = 'btree_gist') as gist_installed,
       exists (select from pg_available_extensions where name = 'btree_gist') as gist_available;
