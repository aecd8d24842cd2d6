-- name: create_archive(name, job_name, stream, bucket, prefix, subjects, mode, durable, buffer_s, buffer_bytes, max_messages, max_bytes, max_age_s, zstd_level, compact_after_s, compact_below, keep_s, keep_bytes, copies, group_name, owners, tags, kinds, pool, retries, retry_delay_s, fail_window_s, warn_window_s, job_id, paused, created_at, former_filters, presets)
-- The archive: a new one, or one as its bucket says that it was. Without a job_id or a created_at it gets them now.
insert into nats3.archive
    (name, job_name, stream, bucket, prefix, subjects, mode, durable, buffer_s, buffer_bytes,
     max_messages, max_bytes, max_age_s, zstd_level,
     compact_after_s, compact_below, keep_s, keep_bytes, copies,
     group_name, owners, tags, kinds, pool, retries, retry_delay_s, fail_window_s, warn_window_s,
     job_id, paused, created_at, former_filters, presets)
values (:name, :job_name, :stream, :bucket, :prefix, :subjects::text[], :mode, :durable, :buffer_s, :buffer_bytes,
        :max_messages, :max_bytes, :max_age_s,
        :zstd_level, :compact_after_s, :compact_below, :keep_s, :keep_bytes, :copies::text[],
        :group_name, :owners::text[], :tags::text[], :kinds::text[], :pool, :retries, :retry_delay_s, :fail_window_s,
        :warn_window_s,
        coalesce(:job_id::uuid, gen_random_uuid()), :paused, coalesce(:created_at::timestamptz, now()),
        :former_filters::jsonb, :presets::jsonb)
returning *;

-- name: archives()
-- The archives that are not deleted, by name.
select * from nats3.archive where deleted_at is null order by name;

-- name: archives_of(archives)
-- Those of the archives that are not deleted.
select * from nats3.archive where id = any(:archives::bigint[]) and deleted_at is null;

-- name: archive(name)
-- The archive of this name that is not deleted.
select * from nats3.archive where name = :name and deleted_at is null;

-- name: archive_or_job(name)
-- The archive of this name that is not deleted, else the one whose job has the name.
select * from nats3.archive where (name = :name or job_name = :name) and deleted_at is null
order by name = :name desc limit 1;

-- name: job(job_id)
-- The archive of a job, also a deleted one.
select * from nats3.archive where job_id = :job_id;

-- name: deleted_archives(name)
-- The deleted archives of this name.
select * from nats3.archive where name = :name and deleted_at is not null order by id;

-- name: job_names(name)
-- The jobs that ever had an archive of this name, and whether that one is not deleted.
select coalesce(job_name, name) as job_name, deleted_at is null as live from nats3.archive where name = :name;

-- name: archive_names()
-- The names of the archives that are not deleted, and those of their jobs.
select name from nats3.archive where deleted_at is null
union select job_name from nats3.archive where deleted_at is null and job_name is not null
order by 1;

-- name: lock_archive(archive)
-- The archive's id unless it is deleted, locked until the transaction ends: commits and deletes follow one another.
select id from nats3.archive where id = :archive and deleted_at is null for no key update;

-- name: locked_archive(archive)
-- The archive unless it is deleted, locked until the transaction ends as by lock_archive.
select * from nats3.archive where id = :archive and deleted_at is null for no key update;

-- name: alone_with_filter(archive)
-- Waits until no process plans a capture by the archive's filter, or changes it, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('nats3.filter.' || :archive::bigint, 0)) is null;

-- name: share_filter(archive)
-- Waits until no process changes the archive's filter.
select pg_advisory_xact_lock_shared(hashtextextended('nats3.filter.' || :archive::bigint, 0)) is null;

-- name: archive_by_id(archive)
-- The archive unless it is deleted.
select * from nats3.archive where id = :archive and deleted_at is null;

-- name: change_archive(archive, subjects, former_filters, presets, max_messages, max_bytes, max_age_s, zstd_level, compact_after_s, compact_below, keep_s, keep_bytes, copies, group_name, owners, tags, kinds, pool, retries, retry_delay_s, fail_window_s, warn_window_s, paused)
-- The archive with these settings.
update nats3.archive
set subjects = :subjects::text[], former_filters = :former_filters::jsonb, presets = :presets::jsonb,
    max_messages = :max_messages, max_bytes = :max_bytes, max_age_s = :max_age_s, zstd_level = :zstd_level,
    compact_after_s = :compact_after_s, compact_below = :compact_below,
    keep_s = :keep_s, keep_bytes = :keep_bytes, copies = :copies::text[],
    group_name = :group_name, owners = :owners::text[], tags = :tags::text[], kinds = :kinds::text[], pool = :pool,
    retries = :retries, retry_delay_s = :retry_delay_s, fail_window_s = :fail_window_s, warn_window_s = :warn_window_s,
    paused = :paused
where id = :archive returning *;

-- name: pause_archive(archive, paused)
-- The archive, its sensors stopped or started.
update nats3.archive set paused = :paused where id = :archive and deleted_at is null returning *;

-- name: delete_archive(archive)
-- Marks the archive as deleted, which frees its name.
update nats3.archive set deleted_at = now() where id = :archive;

-- name: retire_archive(archive)
-- Retires all live chunks of the archive.
update nats3.chunk c set deleted_at = now(), retired_revision = a.revision + 1
from nats3.archive a where a.id = :archive and c.archive_id = a.id and c.deleted_at is null;

-- name: served_version(name)
-- The numbers of an archive that go up, and the time that changes, when what it answers may be another.
select id, revision, updated_at from nats3.archive where name = :name and deleted_at is null;

-- name: archive_versions()
-- The archives that are not deleted, by id, with numbers that go up when their seals, replays and exports change.
select a.id, a.name, a.stream, a.revision, coalesce(s.id, 0) as seals, coalesce(r.replays, 0) as replays,
       greatest((select max(change) from nats3.export where archive_id = a.id),
                (select max(change) from nats3.export_hour where archive_id = a.id), 0) as exports
from nats3.archive a
left join lateral (select id from nats3.seal where archive_id = a.id order by id desc limit 1) s on true
left join (
    select archive_id, count(*) + count(*) filter (where deleted_at is not null) as replays
    from nats3.replay where state = 'succeeded' group by archive_id
) r on r.archive_id = a.id
where a.deleted_at is null
order by a.id;

-- name: deleted_archive_names()
-- The names and streams of deleted archives.
select distinct name, stream from nats3.archive where deleted_at is not null;

-- name: archive_totals(archive)
-- The archives that are not deleted, by name, with the sums over what they cover; or one of them.
-- begins_ns: the first message that is captured or that the stream still has, or the archive's creation if it is earlier.
-- Times before 2020 do not count (see hours.FIRST_HOUR).
select a.*, coalesce(c.incarnations, 0) as incarnations, coalesce(c.chunks, 0) as chunks,
       coalesce(c.messages, 0) as messages, coalesce(c.payload_bytes, 0) as payload_bytes,
       coalesce(c.stored_bytes, 0) as stored_bytes, c.first_ns, c.last_ns,
       least((extract(epoch from a.created_at) * 1000000000)::bigint, c.stream_ns,
             case when c.first_ns >= 1577836800000000000 then c.first_ns else (
                 select min(h.first_ns) from nats3.hour h
                 where h.archive_id = a.id and h.first_ns >= 1577836800000000000) end) as begins_ns
from nats3.archive a
left join (
    select archive_id, count(*) as incarnations, sum(c.chunks)::bigint as chunks, sum(c.messages)::bigint as messages,
           sum(c.payload_bytes)::bigint as payload_bytes, sum(c.stored_bytes)::bigint as stored_bytes,
           min(c.first_ns) as first_ns, max(c.last_ns) as last_ns,
           min(i.first_ns) filter (where i.messages > 0 and i.first_ns >= 1577836800000000000) as stream_ns
    from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
    where :archive::bigint is null or archive_id = :archive::bigint
    group by archive_id
) c on c.archive_id = a.id
where a.deleted_at is null and (:archive::bigint is null or a.id = :archive::bigint)
order by a.name;
