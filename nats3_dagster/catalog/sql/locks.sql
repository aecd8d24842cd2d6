-- name: try_taking(archive)
-- True if only this connection now takes messages for the archive, until it ends.
select pg_try_advisory_lock(hashtextextended('nats3.taking.' || :archive::bigint, 0));

-- name: try_creating(name)
-- True if only this connection now creates an archive of this name, until it ends.
select pg_try_advisory_lock(hashtextextended('nats3.creating.' || :name, 0));

-- name: try_exporting(archive, name, hour)
-- True if only this connection now writes the files of an hour of an archive's export, until it ends.
select pg_try_advisory_lock(
    hashtextextended('nats3.exporting.' || :archive::bigint || '.' || :name || '.' || :hour, 0)
);

-- name: try_copying(bucket)
-- True if only this connection now puts objects into the copy, or removes them there, until it ends.
select pg_try_advisory_lock(hashtextextended('nats3.copying.' || :bucket, 0));

-- name: try_rewriting(archive)
-- True if this connection now writes the archive's messages into other objects, until it ends, and no erasure runs.
select pg_try_advisory_lock_shared(hashtextextended('nats3.rewriting.' || :archive::bigint, 0));

-- name: try_erasing(archive)
-- True if only this connection now erases messages of the archive, until it ends, and nothing writes them into other objects.
select pg_try_advisory_lock(hashtextextended('nats3.rewriting.' || :archive::bigint, 0));

-- name: unlock_all()
-- Releases the locks of this connection.
select pg_advisory_unlock_all();

-- name: lock_run(run)
-- From now on, until it ends, this connection shows that the process of a run of Dagster lives.
select pg_advisory_lock_shared(hashtextextended('nats3.run.' || :run, 0));

-- name: is_run_locked(run)
-- True if a connection shows that the process of this run of Dagster lives.
select nats3.is_locked('nats3.run.' || :run);

-- name: database_identity()
-- Which database this is, among all of all servers. A standby that takes over has the same answer.
select s.system_identifier || '.' || d.oid from pg_control_system() s, pg_database d where d.datname = current_database();

-- name: try_restoring(name)
-- True if only this connection now restores a stream of this name, until it ends.
select pg_try_advisory_lock(hashtextextended('nats3.restoring.' || :name, 0));
