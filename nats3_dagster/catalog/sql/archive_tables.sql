-- name: archive_tables(archive)
-- The tables of archives, by the archive's name, or that of one archive: the last write to each, the number of live
-- chunks that it misses, and the number of its chunks that are no longer live.
select t.*, a.name as archive, a.job_id, a.deleted_at is not null as archive_deleted, a.revision as archive_revision,
       greatest(coalesce(n.lacking, 0), coalesce(t.seen_lacking, 0)) as lacking,
       case when t.seen_surplus is not null then t.seen_surplus when t.chunks is null or t.revision = a.revision then 0 else
           greatest(t.chunks - ((select coalesce(sum(chunks), 0)::bigint from nats3.coverage
                                 where archive_id = a.id) - n.lacking), 0) end as surplus
from nats3.archive_table t
join nats3.archive a on a.id = t.archive_id
left join lateral (
    select count(*) as lacking from nats3.chunk
    where archive_id = a.id and deleted_at is null and id > coalesce(t.last_chunk, 0)
) n on t.revision is distinct from a.revision
where :archive::bigint is null or t.archive_id = :archive::bigint
order by a.name, t.archive_id;

-- name: archives_with_table(name)
-- The archives of this name that have a table, the one that is not deleted first, then the newest.
select t.archive_id from nats3.archive_table t join nats3.archive a on a.id = t.archive_id
where a.name = :name order by a.deleted_at is not null, a.id desc;

-- name: add_archive_table(archive, catalog, identifier)
-- Notes that the archive has a table.
insert into nats3.archive_table (archive_id, catalog, identifier) values (:archive, :catalog, :identifier);

-- name: forget_table_of_deleted(catalog, identifier)
-- Forgets this table if it is of a deleted archive.
delete from nats3.archive_table t using nats3.archive a
where a.id = t.archive_id and a.deleted_at is not null and t.catalog = :catalog and t.identifier = :identifier;

-- name: forget_archive_table(archive)
-- Forgets the table of the archive.
delete from nats3.archive_table where archive_id = :archive;

-- name: note_table_begun(archive, snapshot)
-- Notes a snapshot before its commit; the newest 64 are kept.
update nats3.archive_table
set begun = (begun || :snapshot::bigint)[greatest(cardinality(begun) - 62, 1):]
where archive_id = :archive;

-- name: note_table_seen(archive, changed, lacking, surplus)
-- Notes what another program did to the table, as the Iceberg catalog says, null where it did nothing; and what a table that
-- was written with a newer copy of this database misses and has besides, null for any other one.
update nats3.archive_table
set changed = :changed, seen_at = now(), seen_lacking = :lacking, seen_surplus = :surplus
where archive_id = :archive;

-- name: note_table_synced(archive, revision, chunks, last_chunk, snapshot, location, former)
-- Notes what the table was made equal to, unless another process has noted something newer: a newer revision, or another
-- snapshot than the one that this process began with.
update nats3.archive_table
set revision = :revision, chunks = :chunks, last_chunk = :last_chunk, snapshot_id = :snapshot, location = :location,
    synced_at = now(), error = null, failed_at = null, changed = null, seen_at = now(), seen_lacking = null, seen_surplus = null
where archive_id = :archive
  and (coalesce(revision, 0) < :revision
       or (revision = :revision and snapshot_id is not distinct from :former::bigint)
       or (revision = :revision and snapshot_id is not distinct from :snapshot::bigint));

-- name: note_table_failed(archive, error)
-- Notes why the table could not be made equal to its archive.
update nats3.archive_table set error = :error, failed_at = now() where archive_id = :archive;

-- name: table_state(archive, last_chunk, revision)
-- The archive's revision, its number of live chunks, those of them with an id above `last_chunk`, and those up to it that
-- were retired after `revision`, by hour: all as of one moment, since it is one statement.
select a.revision, (select coalesce(sum(chunks), 0)::bigint from nats3.coverage where archive_id = a.id) as chunks,
       n.ids, n.hours, o.ids as retired_ids, o.hours as retired_hours
from nats3.archive a
cross join lateral (
    select coalesce(array_agg(id order by hour, id), '{}') as ids,
           coalesce(array_agg(hour order by hour, id), '{}') as hours
    from nats3.chunk where archive_id = a.id and deleted_at is null and id > :last_chunk::bigint
) n
cross join lateral (
    select coalesce(array_agg(id order by hour, id), '{}') as ids,
           coalesce(array_agg(hour order by hour, id), '{}') as hours
    from nats3.chunk
    where archive_id = a.id and deleted_at is not null and retired_revision > :revision::bigint
      and id <= :last_chunk::bigint
) o
where a.id = :archive;

-- name: table_files(chunks)
-- A table's entries for each of these chunks: its object, and the smallest and largest value of columns. The sequences are
-- null where only the object itself has them.
select c.id, c.bucket, c.key, c.hour, i.stream, i.created_ns, c.messages, c.stored_bytes, c.first_ns, c.last_ns,
       lower(k.seqs) as first_seq, upper(k.seqs) - 1 as last_seq
from unnest(:chunks::bigint[]) with ordinality as o(id, place)
join nats3.chunk c on c.id = o.id
join nats3.incarnation i on i.id = c.incarnation_id
cross join lateral (
    select case when c.absent = 0 then c.seqs
                when c.deleted is not null then range_merge(int8multirange(c.seqs) - c.deleted) end as seqs
) k
order by o.place;
