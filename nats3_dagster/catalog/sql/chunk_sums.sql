-- name: sum_chunks(archive, incarnation, hours, first_ns, end_ns, first_seq, last_seq, losses)
-- The live chunks of one incarnation that meet all conditions given, added up by hour, and apart from them those that the
-- times or the sequences cut; in the order of the stream. `lossy`: the chunks with absent sequences for one of these reasons.
select c.hour, c.is_cut, count(*) as chunks, sum(c.messages)::bigint as messages,
       sum(c.absent)::bigint as absent,
       sum(c.payload_bytes)::bigint as payload_bytes, max(c.largest_bytes) as largest_bytes,
       count(*) filter (where c.subjects is null) as uncounted, min(lower(c.seqs)) as first_seq,
       max(upper(c.seqs)) - 1 as last_seq, min(c.first_ns) as first_ns, max(c.last_ns) as last_ns,
       coalesce(array_agg(c.id) filter (where c.absent_reason = any(:losses::text[])), '{}') as lossy
from (
    select n.*, not (n.seqs <@ int8range(:first_seq::bigint, :last_seq::bigint, '[]')
                     and n.first_ns >= coalesce(:first_ns::bigint, n.first_ns)
                     and n.last_ns < coalesce(:end_ns::bigint, n.last_ns + 1)) as is_cut
    from nats3.chosen(:archive, :incarnation, :hours, :first_ns, :end_ns, :first_seq, :last_seq) n
) c
group by c.hour, c.is_cut
order by first_seq;

-- name: chunk_ids(archive, incarnation, hours, first_ns, end_ns, first_seq, last_seq)
-- The ids of these chunks in the order of the stream.
select n.id from nats3.chosen(:archive, :incarnation, :hours, :first_ns, :end_ns, :first_seq, :last_seq) n
order by lower(n.seqs);

-- name: sum_subjects(archive, incarnation, hours, first_ns, end_ns, first_seq, last_seq)
-- The counted subjects of these chunks, each with the messages of all of them together.
select s.subject, sum(s.messages)::bigint as messages
from nats3.chosen(:archive, :incarnation, :hours, :first_ns, :end_ns, :first_seq, :last_seq) n
join nats3.chunk_subject s on s.chunk_id = n.id
group by s.subject;
