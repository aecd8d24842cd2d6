-- name: unsealed_hours(archive, stream, created_ns, bound, first_hour, last_hour, limit_to)
-- The hours from first to last that touch no hole, and have no seal or changed since theirs.
-- A hole touches the hours of the chunks before and after it, those whose chunks lie around it, and all between. `bound`
-- is the last sequence that the archive must account for of the incarnation given.
with hole as (
    select c.incarnation_id, h as seqs
    from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
    cross join unnest(int8multirange(int8range(c.start_seq, 1 + greatest(c.last_seq, case
        when i.stream = :stream and i.created_ns = :created_ns then :bound::bigint end))) - c.covered) as h
    where c.archive_id = :archive
),
touched as (
    select earlier.hour as earlier, later.hour as later, spans.first, spans.last
    from hole
    left join lateral (
        select c.hour from nats3.chunk c
        where c.archive_id = :archive and c.incarnation_id = hole.incarnation_id and c.deleted_at is null
          and lower(c.seqs) < lower(hole.seqs) order by lower(c.seqs) desc limit 1
    ) earlier on true
    left join lateral (
        select c.hour from nats3.chunk c
        where c.archive_id = :archive and c.incarnation_id = hole.incarnation_id and c.deleted_at is null
          and lower(c.seqs) >= upper(hole.seqs) order by lower(c.seqs) limit 1
    ) later on true
    cross join lateral (
        select min(h.hour) as first, max(h.hour) as last from nats3.hour h
        where h.archive_id = :archive and h.incarnation_id = hole.incarnation_id
          and int8range(h.first_seq, h.last_seq, '[]') && hole.seqs
    ) spans
),
-- A range without a bound is open on that side. Where a clock stepped, the later hour may come first.
blocked as (
    select coalesce(range_agg(tstzrange(
        case when earlier is not null then nats3.hour_start(least(earlier, later, first)) end,
        case when later is not null then nats3.hour_start(greatest(earlier, later, last)) end, '[]')), '{}') as hours
    from touched
),
-- The hours that are not known to be as they were sealed. One that changed and is again as it was is among them.
wanted as (
    select to_timestamp(n * 3600::bigint) as begins, nats3.hour_at(n) as hour
    from unnest(int4multirange(nats3.hour_range(:first_hour, :last_hour))
                - coalesce((select sealed from nats3.archive_hours where archive_id = :archive), '{}')) r
    cross join generate_series(lower(r), upper(r) - 1) n
)
select hour from wanted where not begins <@ (select hours from blocked) order by hour limit :limit_to;

-- name: hour_to_seal(archive, hour)
-- The hour's revision, its number of chunks, both 0 without messages, its losses, and the number of its next seal.
select coalesce(max(h.revision), 0) as revision, coalesce(sum(h.chunks), 0)::bigint as chunks,
       coalesce((select sequences from nats3.losses(:archive, :hour, :hour)), 0)::bigint as losses,
       1 + coalesce((select max(number) from nats3.seal where archive_id = :archive and hour = :hour), 0) as number
from nats3.hour h where h.archive_id = :archive and h.hour = :hour;

-- name: windows_of_hour(archive, hour)
-- The sequences of each incarnation that the hour's chunks and losses span: from after the previous chunk to
-- the last of them.
with own as (
    select incarnation_id, min(first_seq) as first_seq, max(last_seq) as last_seq
    from (
        select incarnation_id, first_seq, last_seq from nats3.hour where archive_id = :archive and hour = :hour
        union all
        select incarnation_id, lower(seqs), upper(seqs) - 1 from nats3.gap
        where archive_id = :archive and first_hour is not null and hours @> nats3.hour_number(:hour)
    ) ranges
    group by incarnation_id
)
select i.stream, i.created_ns, own.last_seq, coalesce((
    select upper(p.seqs) from nats3.chunk p
    where p.archive_id = :archive and p.incarnation_id = own.incarnation_id and p.deleted_at is null
      and lower(p.seqs) < own.first_seq
    order by lower(p.seqs) desc limit 1), c.start_seq) as first_seq
from own
join nats3.coverage c on c.archive_id = :archive and c.incarnation_id = own.incarnation_id
join nats3.incarnation i on i.id = own.incarnation_id
order by i.created_ns;

-- name: gaps_of_hour(archive, stream, created_ns, hour, first_seq, last_seq)
-- The gaps from first to last that may belong to the hour, and those of no hour; in the order of the stream.
select g.seqs, g.reason, g.first_hour, g.last_hour, g.after_ns, g.before_ns
from nats3.gap g join nats3.incarnation i on i.id = g.incarnation_id
where g.archive_id = :archive::bigint and i.stream = :stream and i.created_ns = :created_ns
  and g.seqs && int8range(:first_seq, :last_seq, '[]')
  and (g.first_hour is null or (g.first_hour <= :hour and g.last_hour >= :hour))
order by lower(g.seqs);

-- name: other_hours(archive, stream, created_ns, hour, first_seq, last_seq)
-- The sequences from first to last that belong to other hours, by chunks or losses; in the order of the stream.
select o.seqs, o.hour
from (
    select c.incarnation_id, c.seqs, c.hour from nats3.chunk c
    where c.archive_id = :archive::bigint and c.seqs && int8range(:first_seq, :last_seq, '[]') and c.hour <> :hour
      and c.deleted_at is null
    union all
    select g.incarnation_id, g.seqs, g.first_hour from nats3.gap g
    where g.archive_id = :archive::bigint and g.seqs && int8range(:first_seq, :last_seq, '[]')
      and (g.first_hour > :hour or g.last_hour < :hour)
) o
join nats3.incarnation i on i.id = o.incarnation_id
where i.stream = :stream and i.created_ns = :created_ns
order by lower(o.seqs);

-- name: lock_removals_shared(bucket)
-- Makes claims of objects of the bucket wait until the transaction ends (see lock_removals).
select pg_advisory_xact_lock_shared(hashtextextended('nats3.removal.' || :bucket, 0));

-- name: object_reserved(bucket, key)
-- True if the object is being removed from the store.
select exists (select from nats3.removal where bucket = :bucket and key = :key and removed_at is null);

-- name: add_seal(archive, hour, number, revision, chunks, losses, messages, gaps, content, bucket, key, sha256, stored_bytes, dagster_run_id)
-- Adds the seal if the hour is as it was sealed; its id.
insert into nats3.seal (archive_id, hour, number, revision, chunks, losses, messages, gaps, content, bucket, key,
                        sha256, stored_bytes, dagster_run_id)
select :archive, :hour, :number, :revision, :chunks, :losses, :messages, :gaps, :content, :bucket, :key, :sha256,
       :stored_bytes, :dagster_run_id
from nats3.hour h where h.archive_id = :archive and h.hour = :hour
having (coalesce(max(h.revision), 0), coalesce(sum(h.chunks), 0),
        coalesce((select sequences from nats3.losses(:archive, :hour, :hour)), 0))
       = (:revision::bigint, :chunks::numeric, :losses::bigint)
returning id;

-- name: list_seals(archive, first_hour, last_hour, hours)
-- The newest seal of each hour from first to last, of `hours` if given, and whether the hour is still as it was sealed.
select distinct on (s.hour) s.id, s.hour, s.number, s.revision, s.chunks, s.losses, s.messages, s.gaps, s.content, s.bucket, s.key,
       s.sha256, s.stored_bytes, s.dagster_run_id, s.sealed_at,
       (s.revision, s.chunks, s.losses)
       = (coalesce(h.revision, 0), coalesce(h.chunks, 0), coalesce(l.sequences, 0)) as valid
from nats3.seal s
left join lateral (
    select max(revision) as revision, sum(chunks) as chunks from nats3.hour
    where archive_id = s.archive_id and hour = s.hour
) h on true
left join nats3.losses(:archive, :first_hour, :last_hour) l on l.hour = s.hour
where s.archive_id = :archive
  and (:first_hour::text is null or s.hour >= :first_hour) and (:last_hour::text is null or s.hour <= :last_hour)
  and (:hours::text[] is null or s.hour = any(:hours::text[]))
order by s.hour, s.number desc;

-- name: sealed_hours(archive)
-- The hours that are as they were sealed: each with the id of its newest seal, and whether it is without a message.
select s.hour, s.id, s.chunks = 0 as is_empty
from nats3.seal s join nats3.archive_hours k using (archive_id)
where s.archive_id = :archive and s.superseded_at is null and k.sealed @> nats3.hour_number(s.hour);

-- name: sealed_messages(archive)
-- How many messages the hours of an archive have, each as it was sealed last.
select coalesce(sum(messages), 0)::bigint from nats3.seal where archive_id = :archive and superseded_at is null;

-- name: sealed_keys(bucket, keys)
-- Those of the keys in this bucket that a seal has, of any archive.
select key from nats3.seal where bucket = :bucket and key = any(:keys::text[]);
