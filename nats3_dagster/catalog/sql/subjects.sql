-- name: chunk_at(archive, stream, created_ns, seq)
-- The first sequence of the live chunk that covers a sequence.
select c.first_seq
from (
    select lower(seqs) as first_seq, upper(seqs) as end_seq from nats3.chunk
    where archive_id = :archive and deleted_at is null and lower(seqs) <= :seq
      and incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
    order by lower(seqs) desc
    limit 1
) c
where c.end_seq > :seq;

-- name: last_seq_by(archive, stream, created_ns, at_ns)
-- The last sequence of the hours that have a message stored at a time or before it.
select max(h.last_seq) as seq from nats3.hour h
where h.archive_id = :archive and h.first_ns <= :at_ns
  and h.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns);

-- name: subjects_between(archive, stream, created_ns, low, high)
-- The distinct counted subjects whose keys are from `low` to before `high`, each with its newest chunk.
-- A step goes to the next key of the index, past all other chunks of the subject.
with recursive newest as (
    (
        select s.subject, s.first_seq, s.chunk_id, s.messages, nats3.subject_key(s.subject) as key
        from nats3.chunk_subject s
        where s.archive_id = :archive
          and s.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
          and nats3.subject_key(s.subject) >= :low::text and nats3.subject_key(s.subject) < :high::text
        order by nats3.subject_key(s.subject) desc, s.first_seq desc
        limit 1
    )
    union all
    select n.* from newest, lateral (
        select s.subject, s.first_seq, s.chunk_id, s.messages, nats3.subject_key(s.subject) as key
        from nats3.chunk_subject s
        where s.archive_id = :archive
          and s.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
          and nats3.subject_key(s.subject) >= :low::text and nats3.subject_key(s.subject) < newest.key
        order by nats3.subject_key(s.subject) desc, s.first_seq desc
        limit 1
    ) n
)
select subject, first_seq, chunk_id, messages from newest;

-- name: newest_counted(archive, stream, created_ns, subjects, upto, at_ns)
-- For each subject its newest live chunk that begins at `upto` of the subject or before, and, if a time is given, has a
-- message stored at that time or before.
select s.subject, n.first_seq, n.chunk_id, n.messages
from unnest(:subjects::text[], :upto::bigint[]) as s(subject, upto)
cross join lateral (
    select k.first_seq, k.chunk_id, k.messages from nats3.chunk_subject k join nats3.chunk c on c.id = k.chunk_id
    where k.archive_id = :archive
      and k.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
      and nats3.subject_key(k.subject) = nats3.subject_key(s.subject) and k.first_seq <= s.upto
      and (:at_ns::bigint is null or c.first_ns <= :at_ns::bigint)
    order by k.first_seq desc
    limit 1
) n;

-- name: next_counted(archive, stream, created_ns, subjects, since)
-- For each subject its first live chunk that begins at `since` or after it.
select s.subject, n.first_seq, n.chunk_id, n.messages
from unnest(:subjects::text[]) as s(subject)
cross join lateral (
    select k.first_seq, k.chunk_id, k.messages from nats3.chunk_subject k
    where k.archive_id = :archive
      and k.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
      and nats3.subject_key(k.subject) = nats3.subject_key(s.subject) and k.first_seq >= :since
    order by k.first_seq
    limit 1
) n;

-- name: newest_uncounted(archive, stream, created_ns, upto, at_ns, place, bits)
-- The newest live chunk without counts that begins at `upto` or before, may have the subject of these bits (any, if null),
-- and, if a time is given, has a message stored at that time or before.
select ''::text as subject, lower(c.seqs) as first_seq, c.id as chunk_id, null::bigint as messages
from nats3.chunk c left join nats3.chunk_bloom b on b.chunk_id = c.id
where c.archive_id = :archive and c.deleted_at is null and c.subjects is null
  and c.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
  and lower(c.seqs) <= :upto
  and (:at_ns::bigint is null or c.first_ns <= :at_ns::bigint)
  and (b.blocks is null or :place::bigint is null or nats3.may_have(b.blocks, :place::bigint, :bits::integer[]))
order by lower(c.seqs) desc
limit 1;

-- name: next_uncounted(archive, stream, created_ns, since, place, bits)
-- The first live chunk without counts that begins at `since` or after it and may have the subject of these bits (any, if
-- null).
select ''::text as subject, lower(c.seqs) as first_seq, c.id as chunk_id, null::bigint as messages
from nats3.chunk c left join nats3.chunk_bloom b on b.chunk_id = c.id
where c.archive_id = :archive and c.deleted_at is null and c.subjects is null
  and c.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
  and lower(c.seqs) >= :since
  and (b.blocks is null or :place::bigint is null or nats3.may_have(b.blocks, :place::bigint, :bits::integer[]))
order by lower(c.seqs)
limit 1;

-- name: without_subjects(chunks, places, bits)
-- Those of the chunks whose bloom filters have none of the subjects of these places and bits (each an array as text).
select b.chunk_id
from nats3.chunk_bloom b
where b.chunk_id = any(:chunks::bigint[])
  and not exists (
      select from unnest(:places::bigint[], :bits::text[]) as s(place, bits)
      where nats3.may_have(b.blocks, s.place, s.bits::integer[])
  );

-- name: near_chunks(archive, stream, created_ns, since, limit_to)
-- The first live chunks that begin at `since` or after it, each with its subjects; null where they are not counted.
select c.first_seq, c.chunk_id, (
    select array_agg(s.subject) from nats3.chunk_subject s where s.chunk_id = c.chunk_id
) as subjects
from (
    select lower(c.seqs) as first_seq, c.id as chunk_id from nats3.chunk c
    where c.archive_id = :archive and c.deleted_at is null and lower(c.seqs) >= :since
      and c.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
    order by lower(c.seqs)
    limit :limit_to
) c
order by c.first_seq;

-- name: near_chunks_back(archive, stream, created_ns, upto, at_ns, limit_to)
-- The newest live chunks that begin at `upto` or before and, if a time is given, have a message stored at that time or
-- before, each with its subjects; null where they are not counted.
select c.first_seq, c.chunk_id, (
    select array_agg(s.subject) from nats3.chunk_subject s where s.chunk_id = c.chunk_id
) as subjects
from (
    select lower(c.seqs) as first_seq, c.id as chunk_id from nats3.chunk c
    where c.archive_id = :archive and c.deleted_at is null and lower(c.seqs) <= :upto
      and (:at_ns::bigint is null or c.first_ns <= :at_ns::bigint)
      and c.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
    order by lower(c.seqs) desc
    limit :limit_to
) c
order by c.first_seq desc;

-- name: subject_index_of(chunk)
-- The subject index of a live chunk: its bloom filter; the number of counted subjects; and the number of these
-- a lookup finds at the place where the chunk is.
select b.blocks as bloom, c.subjects as counted, (
    select count(*) from nats3.chunk_subject s
    where s.chunk_id = c.id and s.archive_id = c.archive_id and s.incarnation_id = c.incarnation_id
      and s.first_seq = lower(c.seqs)
) as listed
from nats3.chunk c left join nats3.chunk_bloom b on b.chunk_id = c.id
where c.id = :chunk::bigint and c.deleted_at is null;

-- name: counts_from(archive, stream, created_ns, low, high, since)
-- The messages of each counted subject whose key is from `low` to before `high`, in the live chunks that begin at `since` or
-- after it.
select s.subject, sum(s.messages)::bigint as messages
from nats3.chunk_subject s
where s.archive_id = :archive
  and s.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
  and nats3.subject_key(s.subject) >= :low::text and nats3.subject_key(s.subject) < :high::text
  and s.first_seq >= :since
group by s.subject;

-- name: uncounted_from(archive, stream, created_ns, since)
-- The number of messages in the live chunks without counts that begin at `since` or after it.
select coalesce(sum(c.messages), 0)::bigint from nats3.chunk c
where c.archive_id = :archive and c.deleted_at is null and c.subjects is null and lower(c.seqs) >= :since
  and c.incarnation_id = (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns);
