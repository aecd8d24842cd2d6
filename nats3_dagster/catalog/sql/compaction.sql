-- name: hours_to_compact(archive, before, first_hour, last_hour, limit_to)
-- The sealed hours from first to last that ended by a time and may have chunks to merge, ascending.
select hour from nats3.hours_to_compact(:archive, :before, :first_hour, :last_hour) hour order by hour limit :limit_to;

-- name: archives_to_compact()
-- The names of the archives whose policy has an hour due now.
select a.name from nats3.archive a
where a.deleted_at is null and not a.paused and a.compact_after_s > 0
  and exists (select from nats3.hours_to_compact(a.id, now() - make_interval(secs => a.compact_after_s), null, null))
order by a.name;

-- name: hour_to_compact(archive, hour)
-- The hour's revision and number of chunks, 0 without messages; whether it is as it was sealed; and whether chunks of it
-- were taken out of the archive.
select coalesce(max(h.revision), 0) as revision, coalesce(sum(h.chunks), 0)::bigint as chunks,
       exists (select from nats3.archive_hours a
               where a.archive_id = :archive::bigint and a.sealed @> nats3.hour_number(:hour)) as is_sealed,
       exists (select from nats3.gap g
               where g.archive_id = :archive::bigint and g.reason = 'retired' and g.hours @> nats3.hour_number(:hour))
           as has_retired
from nats3.hour h where h.archive_id = :archive::bigint and h.hour = :hour;

-- name: add_merged(chunks, buckets, keys)
-- Records for each retired chunk the live one that has its messages, by that one's object; and the same for what was merged
-- into it before.
with merged as (
    select o.chunk_id, c.id as into_id
    from unnest(:chunks::bigint[], :buckets::text[], :keys::text[]) as o(chunk_id, bucket, key)
    join nats3.chunk c on c.bucket = o.bucket and c.key = o.key and c.deleted_at is null
), former as (
    update nats3.merged_chunk m set into_id = n.into_id from merged n where m.into_id = n.chunk_id
)
insert into nats3.merged_chunk (chunk_id, into_id) select chunk_id, into_id from merged;

-- name: carry_exports(archive, hour, revision, chunks)
-- Lets the exports that were made of the hour as it was count as made of it as it is.
update nats3.export_hour e set revision = n.revision, chunks = n.chunks
from (
    select max(revision) as revision, sum(chunks)::bigint as chunks from nats3.hour
    where archive_id = :archive and hour = :hour
) n
where e.archive_id = :archive and e.hour = :hour and (e.revision, e.chunks) = (:revision::bigint, :chunks::bigint);

-- name: mark_compacted(archive, hour, revision)
-- Records that nothing in the hour is to be merged, if it is sealed and has not changed since this revision.
update nats3.archive_hours a set compacted = a.compacted + int4multirange(nats3.hour_range(:hour, :hour))
where a.archive_id = :archive and a.sealed @> nats3.hour_number(:hour)
  and :revision = coalesce((select max(revision) from nats3.hour where archive_id = :archive and hour = :hour), 0);
