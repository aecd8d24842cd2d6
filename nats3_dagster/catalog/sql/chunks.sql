-- name: add_chunks(archive, run_id, chunks, merged)
-- Adds the chunks of a JSON array, all in one statement, so that the triggers sum them once. `merged`: the chunks whose
-- messages a compaction wrote into these; null for a capture.
insert into nats3.chunk (archive_id, incarnation_id, hour, seqs, messages, deleted, first_ns, last_ns, payload_bytes,
                         largest_bytes, stored_bytes, sha256, bucket, key, subjects, minutes, absent_reason,
                         dagster_run_id, captured_at)
select :archive, incarnation_id, hour, int8range(first_seq, last_seq, '[]'), messages, deleted::int8multirange, first_ns,
       last_ns, payload_bytes, largest_bytes, stored_bytes, sha256, bucket, key, subjects, minutes, absent_reason,
       :run_id,
       (select max(coalesce(m.captured_at, m.committed_at)) from nats3.chunk m where m.id = any(:merged::bigint[]))
from json_to_recordset(:chunks::json) as c(
    incarnation_id bigint, hour text, first_seq bigint, last_seq bigint, messages bigint, deleted text, first_ns bigint,
    last_ns bigint, payload_bytes bigint, largest_bytes bigint, stored_bytes bigint, sha256 text, bucket text, key text,
    subjects integer, minutes integer[], absent_reason text)
order by incarnation_id, first_seq
returning id, bucket, key;

-- name: copy_subjects()
-- Takes the messages of each chunk by subject: all of a chunk at once.
copy nats3.chunk_subject (chunk_id, archive_id, incarnation_id, first_seq, subject, messages) from stdin (format binary);

-- name: copy_blooms()
-- Takes the bloom filters of the subjects of chunks.
copy nats3.chunk_bloom (chunk_id, blocks) from stdin (format binary);

-- name: removed_since(buckets, keys, since)
-- The key of one of these objects that was removed from the store since a time.
select r.key from unnest(:buckets::text[], :keys::text[]) as o(bucket, key)
join nats3.removal r using (bucket, key) where r.removed_at >= :since limit 1;

-- name: sequences_of_time(archive, incarnation, first_ns, end_ns)
-- Between which sequences the live chunks of one incarnation lie that have a message of the time: exactly for up to 10,000 chunks; of
-- more, where they begin. `first` is null where there is none.
with near as materialized (
    select lower(n.seqs) as first, upper(n.seqs) - 1 as last from nats3.chunk n
    where n.archive_id = :archive::bigint and n.incarnation_id = :incarnation::bigint and n.deleted_at is null
      and int8range(n.first_ns, n.last_ns, '[]') && int8range(:first_ns::bigint, :end_ns::bigint)
    limit 10001
)
select case when n.chunks <= 10000 then n.first
            else coalesce((
                select lower(r.seqs) from nats3.chunk r
                where r.archive_id = :archive::bigint and r.incarnation_id = :incarnation::bigint and r.deleted_at is null
                  and r.last_ns >= :first_ns::bigint
                order by nats3.distance(lower(r.seqs), 0) limit 1), 1) end as first,
       case when n.chunks <= 10000 then n.last end as last
from (select count(*) as chunks, min(first) as first, max(last) as last from near) n;

-- name: list_chunks(archive, incarnation, hours, timed, first_ns, end_ns, first_seq, last_seq, after, limit_to, minutes)
-- The live chunks of one incarnation that meet all conditions given, by sequence: a page of those with a sequence after
-- `after`, which one that was written since may have in its middle; with their messages by minute where asked for. Small numbers come as smallint: a GiST index takes only its own type.
select c.id, c.archive_id, c.archive, c.incarnation_id, c.stream, c.created_ns, c.hour, c.seqs, c.messages, c.first_ns,
       c.last_ns, c.payload_bytes, c.largest_bytes, c.stored_bytes, c.sha256, c.bucket, c.key,
       case when :minutes::boolean then c.minutes end as minutes, c.dagster_run_id, c.committed_at, c.deleted_at,
       c.absent_reason, c.copies
from nats3.chunk_view c
where c.archive_id = :archive::bigint and c.incarnation_id = :incarnation::bigint and c.deleted_at is null
  and (:hours::text[] is null or c.hour = any(:hours::text[]))
  and (not :timed::boolean or int8range(c.first_ns, c.last_ns, '[]') && int8range(:first_ns::bigint, :end_ns::bigint))
  and (:first_seq::bigint is null or c.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]'))
  and (:after::bigint is null or lower(c.seqs) >= coalesce((
      select lower(p.seqs) from nats3.chunk p
      where p.archive_id = :archive::bigint and p.incarnation_id = :incarnation::bigint and p.deleted_at is null
        and p.seqs @> (:after::bigint + 1)), :after::bigint + 1))
order by lower(c.seqs)
limit :limit_to;

-- name: chunk(chunk)
-- A live chunk by its id.
select * from nats3.chunk_view where id = :chunk and deleted_at is null;

-- name: chunk_id(bucket, key)
-- The id of the live chunk that has this object.
select id from nats3.chunk where bucket = :bucket and key = :key and deleted_at is null;

-- name: stored_sizes(buckets, keys)
-- The bytes of the objects with these keys, as the chunks have them that are or were in one of the buckets. Live chunks
-- and retired ones have an index each.
select c.key, c.stored_bytes from nats3.chunk c
where c.bucket = any(:buckets::text[]) and c.key = any(:keys::text[]) and c.deleted_at is null
union
select c.key, c.stored_bytes from nats3.chunk c
where c.bucket = any(:buckets::text[]) and c.key = any(:keys::text[]) and c.deleted_at is not null;

-- name: deleted_of(chunks)
-- The absent sequences of each of these chunks.
select id, deleted::text as deleted from nats3.chunk where id = any(:chunks::bigint[]);

-- name: subjects_of(chunks)
-- The messages of each of these chunks by subject.
select s.chunk_id, array_agg(s.subject) as subjects, array_agg(s.messages) as messages
from nats3.chunk_subject s where s.chunk_id = any(:chunks::bigint[])
group by s.chunk_id;

-- name: retire_chunks(archive, chunks)
-- Retires those of the chunks that are live; their ids.
update nats3.chunk c set deleted_at = now(), retired_revision = a.revision + 1
from nats3.archive a
where a.id = :archive and c.archive_id = a.id and c.id = any(:chunks::bigint[]) and c.deleted_at is null
returning c.id;

-- name: add_removed_gaps(chunks, reason, run_id, replay)
-- Makes the sequences of these chunks gaps of this reason; `replay`: the one that published their messages.
insert into nats3.gap (archive_id, incarnation_id, seqs, reason, dagster_run_id, messages, chunks, newest_at, replay_id)
select archive_id, incarnation_id, seqs, :reason, :run_id, messages, 1, coalesce(captured_at, committed_at), :replay
from nats3.chunk where id = any(:chunks::bigint[]);
