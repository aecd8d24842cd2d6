-- name: sequence_in(archive, seq)
-- The record of each incarnation of the archive about one sequence, oldest first: the live chunk that covers it, with the absent
-- sequences around it and why; or the gap that it lies in and why; or the hole that no capture has filled yet.
select i.stream, i.created_ns, c.start_seq, c.last_seq, k.id as chunk_id,
       (select a from unnest(k.deleted) a where a @> :seq::bigint) as absent, k.absent_reason,
       g.seqs as gap, g.reason,
       case when k.id is null and g.id is null and :seq::bigint between c.start_seq and c.last_seq then (
           select h from unnest(int8multirange(int8range(c.start_seq, c.last_seq, '[]')) - c.covered) h
           where h @> :seq::bigint
       ) end as hole
from nats3.coverage c
join nats3.incarnation i on i.id = c.incarnation_id
left join nats3.chunk k on k.archive_id = c.archive_id and k.incarnation_id = c.incarnation_id
    and k.seqs @> :seq::bigint and k.deleted_at is null
left join nats3.gap g on g.archive_id = c.archive_id and g.incarnation_id = c.incarnation_id and g.seqs @> :seq::bigint
where c.archive_id = :archive::bigint
order by i.created_ns;

-- name: last_chunk_to(archive, stream, created_ns, seq)
-- The last live chunk of an incarnation that begins at this sequence or before it.
select k.*
from nats3.incarnation i
cross join lateral (
    select n.id from nats3.chunk n
    where n.archive_id = :archive::bigint and n.incarnation_id = i.id and n.deleted_at is null
      and lower(n.seqs) <= :seq::bigint
    order by lower(n.seqs) desc limit 1
) last
join nats3.chunk_view k on k.id = last.id
where i.stream = :stream and i.created_ns = :created_ns;

-- name: first_chunk_at(archive, time_ns, created_ns)
-- The first live chunk, in the order of the stream, that has a message of this store time or a later one; of the incarnation
-- that was created at a time, or of any.
select k.*
from nats3.coverage c
join nats3.incarnation i on i.id = c.incarnation_id
cross join lateral (
    -- A search of the nearest: it passes over whole pages of chunks that end before the time.
    select n.id from nats3.chunk n
    where n.archive_id = c.archive_id and n.incarnation_id = c.incarnation_id and n.deleted_at is null
      and n.last_ns >= :time_ns::bigint
    order by nats3.distance(lower(n.seqs), 0)
    limit 1
) first
join nats3.chunk_view k on k.id = first.id
where c.archive_id = :archive::bigint and (:created_ns::bigint is null or i.created_ns = :created_ns::bigint)
order by i.created_ns
limit 1;

-- name: messages_from(archive, stream, created_ns, seq)
-- The number of messages in the live chunks of an incarnation that begin at a sequence or later: of whole hours by their
-- sums, and of the hours that the sequence lies in chunk by chunk.
with life as (select id from nats3.incarnation where stream = :stream and created_ns = :created_ns)
select coalesce(sum(n.messages), 0)::bigint
from (
    select h.messages from nats3.hour h
    where h.archive_id = :archive::bigint and h.incarnation_id = (select id from life) and h.first_seq >= :seq::bigint
    union all
    select c.messages
    from nats3.hour h
    join nats3.chunk c on c.archive_id = h.archive_id and c.incarnation_id = h.incarnation_id and c.hour = h.hour
        and c.deleted_at is null and lower(c.seqs) >= :seq::bigint
    where h.archive_id = :archive::bigint and h.incarnation_id = (select id from life)
      and h.first_seq < :seq::bigint and h.last_seq >= :seq::bigint
) n;
