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
