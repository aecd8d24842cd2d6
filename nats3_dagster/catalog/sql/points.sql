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

-- name: first_chunk_at(archive, time_ns)
-- The first live chunk, in the order of the stream, that has a message of this store time or a later one.
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
where c.archive_id = :archive::bigint
order by i.created_ns
limit 1;
