-- name: unsealed_hours(archive, stream, created_ns, bound, first_hour, last_hour, limit_to)
-- The hours from first to last that touch no hole, and have no seal or changed since theirs.
-- A hole touches the last hour before it, the first one behind, and all between. `bound` is the last sequence that the
-- archive must account for of the incarnation given.
with hole as (
    select c.incarnation_id, h as seqs
    from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
    cross join unnest(int8multirange(int8range(c.start_seq, 1 + greatest(c.last_seq, case
        when i.stream = :stream and i.created_ns = :created_ns then :bound::bigint end))) - c.covered) as h
    where c.archive_id = :archive
),
touched as (
    select distinct
        (select h.hour from nats3.hour h where h.archive_id = :archive and h.incarnation_id = hole.incarnation_id
         and h.first_seq < lower(hole.seqs) order by h.first_seq desc limit 1) as first_hour,
        (select h.hour from nats3.hour h where h.archive_id = :archive and h.incarnation_id = hole.incarnation_id
         and h.first_seq >= upper(hole.seqs) order by h.first_seq limit 1) as last_hour
    from hole
),
-- A range without a bound is open on that side.
blocked as (
    select coalesce(range_agg(tstzrange(to_timestamp(first_hour, 'YYYY-MM-DD-HH24:00'),
                                        to_timestamp(last_hour, 'YYYY-MM-DD-HH24:00'), '[]')), '{}') as hours
    from touched
),
has as (
    select hour, max(revision) as revision, sum(chunks) as chunks
    from nats3.hour where archive_id = :archive and hour between :first_hour and :last_hour group by hour
),
sealed as (
    select distinct on (hour) hour, revision, chunks
    from nats3.seal where archive_id = :archive and hour between :first_hour and :last_hour
    order by hour, number desc
),
wanted as (
    select h as begins, to_char(h, 'YYYY-MM-DD-HH24:00') collate "C" as hour
    from generate_series(to_timestamp(:first_hour, 'YYYY-MM-DD-HH24:00'), to_timestamp(:last_hour, 'YYYY-MM-DD-HH24:00'),
                         interval '1 hour') as h
)
select wanted.hour
from wanted left join has using (hour) left join sealed using (hour)
where not wanted.begins <@ (select hours from blocked)
  and (coalesce(has.revision, 0), coalesce(has.chunks, 0)) is distinct from (sealed.revision, sealed.chunks)
order by wanted.hour
limit :limit_to;

-- name: hour_to_seal(archive, hour)
-- The hour's revision and number of chunks, both 0 without messages, and the number of its next seal.
select coalesce(max(h.revision), 0) as revision, coalesce(sum(h.chunks), 0)::bigint as chunks,
       1 + coalesce((select max(number) from nats3.seal where archive_id = :archive and hour = :hour), 0) as number
from nats3.hour h where h.archive_id = :archive and h.hour = :hour;

-- name: windows_of_hour(archive, hour)
-- The sequences that the hour accounts for: from behind the last one of the hours before to its own last one.
select i.stream, i.created_ns, h.last_seq, coalesce((
    select p.last_seq + 1 from nats3.hour p
    where p.archive_id = h.archive_id and p.incarnation_id = h.incarnation_id and p.first_seq < h.first_seq
    order by p.first_seq desc limit 1), c.start_seq) as first_seq
from nats3.hour h
join nats3.coverage c using (archive_id, incarnation_id)
join nats3.incarnation i on i.id = h.incarnation_id
where h.archive_id = :archive and h.hour = :hour
order by i.created_ns;

-- name: lock_removals_shared()
-- Makes claims of objects wait until the transaction ends (see lock_removals).
select pg_advisory_xact_lock_shared(hashtextextended('nats3.removal', 0));

-- name: object_claimed(bucket, key)
-- Whether the object is being removed from the store.
select exists (select from nats3.removal where bucket = :bucket and key = :key and removed_at is null);

-- name: add_seal(archive, hour, number, revision, chunks, messages, gaps, bucket, key, sha256, stored_bytes, dagster_run_id)
-- Adds the seal if the hour is as it was sealed; its id.
insert into nats3.seal (archive_id, hour, number, revision, chunks, messages, gaps, bucket, key, sha256, stored_bytes,
                        dagster_run_id)
select :archive, :hour, :number, :revision, :chunks, :messages, :gaps, :bucket, :key, :sha256, :stored_bytes,
       :dagster_run_id
from nats3.hour h where h.archive_id = :archive and h.hour = :hour
having (coalesce(max(h.revision), 0), coalesce(sum(h.chunks), 0)) = (:revision::bigint, :chunks::numeric)
returning id;

-- name: list_seals(archive, first_hour, last_hour)
-- The newest seal of each hour from first to last, and whether the hour is still as it was sealed.
select distinct on (s.hour) s.id, s.hour, s.number, s.revision, s.chunks, s.messages, s.gaps, s.bucket, s.key, s.sha256,
       s.stored_bytes, s.dagster_run_id, s.sealed_at,
       (s.revision, s.chunks) = (coalesce(h.revision, 0), coalesce(h.chunks, 0)) as valid
from nats3.seal s
left join lateral (
    select max(revision) as revision, sum(chunks) as chunks from nats3.hour
    where archive_id = s.archive_id and hour = s.hour
) h on true
where s.archive_id = :archive
  and (:first_hour::text is null or s.hour >= :first_hour) and (:last_hour::text is null or s.hour <= :last_hour)
order by s.hour, s.number desc;
