-- name: add_gaps(archive, run_id, incarnations, reasons, ranges)
-- Adds a gap for each range of each multirange.
insert into nats3.gap (archive_id, incarnation_id, seqs, reason, dagster_run_id)
select :archive, g.incarnation_id, r, g.reason, :run_id
from unnest(:incarnations::bigint[], :reasons::text[], :ranges::text[]) as g(incarnation_id, reason, ranges)
cross join unnest(g.ranges::int8multirange) as r;

-- name: list_gaps(archive, stream, created_ns, first_seq, last_seq)
-- The gaps of the archive, or of one incarnation, that touch first to last; in the order of the stream.
select i.stream, i.created_ns, g.reason, g.seqs
from nats3.gap g join nats3.incarnation i on i.id = g.incarnation_id
where g.archive_id = :archive::bigint
  and (:created_ns::bigint is null or (i.stream = :stream and i.created_ns = :created_ns))
  and (:first_seq::bigint is null or g.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]'))
order by i.created_ns, lower(g.seqs);

-- name: losses_of_selection(archive, reasons, first_seq, last_seq, since, until)
-- The gaps of these reasons from first to last whose messages may have been stored in one of the times, each from its
-- `since` up to and without its `until`; in the order of the stream.
select i.stream, i.created_ns, g.reason, g.seqs
from nats3.gap g join nats3.incarnation i on i.id = g.incarnation_id
where g.archive_id = :archive::bigint and g.reason = any(:reasons)
  and g.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]')
  and exists (
      select from unnest(:since::bigint[], :until::bigint[]) as t(since, until)
      where g.after_ns < t.until and g.before_ns >= t.since
        and g.first_hour <= nats3.hour_of(t.until - 1) and g.last_hour >= nats3.hour_of(t.since)
  )
order by i.created_ns, lower(g.seqs);

-- name: removed_of_selection(archive, hours, first_seq, last_seq, since, until)
-- The messages that were taken out of the archive on purpose and that a selection may take: of each gap of the reason
-- `retired` those of the chunk that it was made of, summed by the replay that published them; null where none did. They
-- are exact unless the selection, or what came back since, cuts one of these chunks.
select p.replay_id, sum(least(c.messages, upper(g.seqs) - lower(g.seqs)))::bigint as messages,
       bool_and(c.seqs = g.seqs and g.seqs <@ int8range(:first_seq::bigint, :last_seq::bigint, '[]') and t.whole) as is_exact
from nats3.gap g
cross join lateral (
    select k.* from nats3.chunk k
    where k.archive_id = g.archive_id and k.incarnation_id = g.incarnation_id and k.seqs @> g.seqs
      and k.deleted_at is not null
    order by k.retired_revision desc
    limit 1
) c
cross join lateral (
    select bool_or(s.since <= c.first_ns and c.last_ns < s.until) as whole
    from unnest(:since::bigint[], :until::bigint[]) as s(since, until)
    where s.since <= c.last_ns and c.first_ns < s.until
    having count(*) > 0
) t
left join lateral (
    select d.replay_id from nats3.replay_chunk d join nats3.replay r on r.id = d.replay_id
    where d.chunk_id = c.id and d.state = 'done' and (r.spec ->> 'delete_chunks')::boolean
    order by d.finished_at desc
    limit 1
) p on true
where g.archive_id = :archive::bigint and g.reason = 'retired'
  and g.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]')
  and (:hours::text[] is null or c.hour = any(:hours::text[]))
group by p.replay_id
order by min(g.id);
