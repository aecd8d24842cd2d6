-- name: create_archive(name, stream, bucket, prefix, subjects, mode, durable, max_messages, max_bytes, max_age_s, zstd_level)^
insert into nats3.archive
    (name, stream, bucket, prefix, subjects, mode, durable, max_messages, max_bytes, max_age_s, zstd_level)
values (:name, :stream, :bucket, :prefix, :subjects::text[], :mode, :durable, :max_messages, :max_bytes, :max_age_s,
        :zstd_level)
returning *;

-- name: archives()
select * from nats3.archive where deleted_at is null order by name;

-- name: archive(name)^
select * from nats3.archive where name = :name and deleted_at is null;

-- name: archive_names()
select name from nats3.archive where deleted_at is null order by name;

-- name: lock_archive(archive)$
select id from nats3.archive where id = :archive and deleted_at is null for no key update;

-- name: change_archive(name, bucket, prefix, max_messages, max_bytes, max_age_s, zstd_level)^
update nats3.archive set bucket = :bucket, prefix = :prefix, max_messages = :max_messages, max_bytes = :max_bytes,
    max_age_s = :max_age_s, zstd_level = :zstd_level
where name = :name and deleted_at is null
returning *;

-- name: pause_archive(name, paused)^
update nats3.archive set paused = :paused where name = :name and deleted_at is null returning *;

-- name: delete_archive(archive)!
update nats3.archive set deleted_at = now() where id = :archive;

-- name: retire_archive(archive)!
update nats3.chunk set deleted_at = now() where archive_id = :archive and deleted_at is null;

-- name: archive_totals()
-- begins_ns: the first message that is captured or that the stream still has; the archive's own birth where that is earlier.
select a.*, coalesce(c.incarnations, 0) as incarnations, coalesce(c.chunks, 0) as chunks,
       coalesce(c.messages, 0) as messages, coalesce(c.payload_bytes, 0) as payload_bytes,
       coalesce(c.stored_bytes, 0) as stored_bytes, c.first_ns, c.last_ns,
       least((extract(epoch from a.created_at) * 1000000000)::bigint, c.first_ns, c.stream_ns) as begins_ns
from nats3.archive a
left join (
    select archive_id, count(*) as incarnations, sum(c.chunks)::bigint as chunks, sum(c.messages)::bigint as messages,
           sum(c.payload_bytes)::bigint as payload_bytes, sum(c.stored_bytes)::bigint as stored_bytes,
           min(c.first_ns) as first_ns, max(c.last_ns) as last_ns,
           min(i.first_ns) filter (where i.messages > 0) as stream_ns
    from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
    group by archive_id
) c on c.archive_id = a.id
where a.deleted_at is null
order by a.name;
