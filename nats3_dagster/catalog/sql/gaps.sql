-- name: add_gaps(archive, run_id, incarnations, reasons, ranges)
-- Adds a gap for each range of each multirange. What was erased has the reason `erased`, whatever else is said of it.
insert into nats3.gap (archive_id, incarnation_id, seqs, reason, dagster_run_id)
select :archive, g.incarnation_id, p.seqs, p.reason, :run_id
from unnest(:incarnations::bigint[], :reasons::text[], :ranges::text[]) as g(incarnation_id, reason, ranges)
cross join lateral (
    select g.ranges::int8multirange as seqs, coalesce((
        select range_agg(e.seqs) from nats3.erased_range e join nats3.incarnation i on i.created_ns = e.created_ns
        where i.id = g.incarnation_id and e.archive_id = :archive and e.seqs && range_merge(g.ranges::int8multirange)
    ), '{}') as erased
) a
cross join lateral (
    select unnest(a.seqs - a.erased) as seqs, g.reason
    union all
    select unnest(a.seqs * a.erased), 'erased'
) p;

-- name: list_gaps(archive, stream, created_ns, first_seq, last_seq)
-- The ranges of the gaps of the archive, or of one incarnation, that touch first to last: a row for each incarnation and
-- reason, the ranges ascending, adjacent ones joined, in the text of an int8multirange.
select i.stream, i.created_ns, g.reason, range_agg(g.seqs)::text as ranges
from nats3.gap g join nats3.incarnation i on i.id = g.incarnation_id
where g.archive_id = :archive::bigint
  and (:created_ns::bigint is null or (i.stream = :stream and i.created_ns = :created_ns))
  and (:first_seq::bigint is null or g.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]'))
group by i.stream, i.created_ns, g.reason
order by i.created_ns, min(lower(g.seqs));

-- name: gap_sums(archive)
-- The sequences in gaps of the archive, by incarnation and reason.
select i.stream, i.created_ns, s.reason, s.sequences
from nats3.gap_sum s join nats3.incarnation i on i.id = s.incarnation_id
where s.archive_id = :archive and s.sequences > 0
order by i.created_ns, s.reason;

-- name: losses_of_selection(archive, reasons, first_seq, last_seq, since, until)
-- The gaps of these reasons from first to last whose messages may have been stored in one of the times, each from its
-- `since` up to and without its `until`; as list_gaps answers.
select i.stream, i.created_ns, g.reason, '{' || string_agg(g.seqs::text, ',' order by lower(g.seqs)) || '}' as ranges
from nats3.gap g join nats3.incarnation i on i.id = g.incarnation_id
where g.archive_id = :archive::bigint and g.reason = any(:reasons) and g.first_hour is not null
  and g.hours && (
      select nats3.hour_range(nats3.hour_of(min(t.since)), nats3.hour_of(max(t.until) - 1))
      from unnest(:since::bigint[], :until::bigint[]) as t(since, until))
  and g.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]')
  and exists (
      select from unnest(:since::bigint[], :until::bigint[]) as t(since, until)
      where g.after_ns < t.until and g.before_ns >= t.since
        and g.first_hour <= nats3.hour_of(t.until - 1) and g.last_hour >= nats3.hour_of(t.since)
  )
group by i.stream, i.created_ns, g.reason
order by i.created_ns, min(lower(g.seqs));

-- name: removed_of_selection(archive, hours, first_seq, last_seq, since, until)
-- The messages that were taken out of the archive on purpose and that a selection may take: of each gap of
-- their chunks those of the chunks, and the erased ones of chunks that have others, summed by reason and by the replay
-- that published them; null where none did. They are exact unless the selection cuts one of these gaps or chunks.
select r.reason, r.replay_id, sum(r.messages)::bigint as messages, bool_and(r.is_exact) as is_exact
from (
select g.id, g.reason, g.replay_id, coalesce(g.messages, upper(g.seqs) - lower(g.seqs)) as messages,
       g.seqs <@ int8range(:first_seq::bigint, :last_seq::bigint, '[]') and t.whole as is_exact
from nats3.gap g
cross join lateral (
    select bool_or(s.since <= g.after_ns and g.before_ns < s.until) as whole
    from unnest(:since::bigint[], :until::bigint[]) as s(since, until)
    where s.since <= g.before_ns and g.after_ns < s.until
    having count(*) > 0
) t
where g.archive_id = :archive::bigint and nats3.is_removed(g.reason) and (g.messages is not null or g.reason = 'erased')
  and g.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]')
  and (:hours::text[] is null or g.first_hour = any(:hours::text[]))
union all
select null, c.absent_reason, null, c.absent,
       c.seqs <@ int8range(:first_seq::bigint, :last_seq::bigint, '[]') and t.whole
from nats3.chunk c
cross join lateral (
    select bool_or((s.since < 0 or nats3.hour_of(s.since - 1) < c.hour) and c.hour < nats3.hour_of(s.until)) as whole
    from unnest(:since::bigint[], :until::bigint[]) as s(since, until)
    where (s.since < 0 or nats3.hour_of(s.since) <= c.hour) and c.hour <= nats3.hour_of(s.until - 1)
    having count(*) > 0
) t
where c.archive_id = :archive::bigint and c.deleted_at is null and c.absent_reason = 'erased'
  and c.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]')
  and (:hours::text[] is null or c.hour = any(:hours::text[]))
) r
group by r.reason, r.replay_id
order by min(r.id);

-- name: erased_in_chunks(archive)
-- The erased messages of chunks that have others.
select coalesce(sum(absent), 0)::bigint as messages from nats3.chunk
where archive_id = :archive and deleted_at is null and absent_reason = 'erased';
