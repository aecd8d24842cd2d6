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
