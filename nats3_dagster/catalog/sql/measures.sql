-- name: grown_totals()
-- The totals of all archives that there are or were, by name, what is counted, and label.
select a.name as archive, t.what, t.label, sum(t.value)::bigint as value
from nats3.total t join nats3.archive a on a.id = t.archive_id
where t.what <> 'attempts'
group by a.name, t.what, t.label;

-- name: attempt_counts()
-- How many attempts of replays there were, by the name of their archive and how they ended; deleted replays count.
select a.name as archive, 'attempts' as what, n.label, sum(n.value)::bigint as value
from (
    select r.archive_id, t.state as label, count(*) as value
    from nats3.replay_attempt t join nats3.replay r on r.id = t.replay_id group by 1, 2
    union all
    select archive_id, label, value from nats3.total where what = 'attempts'
) n
join nats3.archive a on a.id = n.archive_id
group by a.name, n.label;

-- name: replay_counts()
-- The number of replays of each archive that is not deleted, by state; `interrupted` are those whose
-- process or run is gone.
select a.name as archive, 'replays' as what, s.state as label, count(*) as value
from nats3.replay r
join nats3.archive a on a.id = r.archive_id
cross join lateral (select case when nats3.is_lost(r) then 'interrupted' else r.state end as state) s
where r.deleted_at is null and a.deleted_at is null
group by a.name, s.state;

-- name: hour_counts(closed)
-- The number of hours with messages of each archive that is not deleted: sealed, unsealed, and open after this hour.
select a.name as archive, 'hours' as what, n.label, n.value
from nats3.archive a join nats3.archive_hours k on k.archive_id = a.id
cross join lateral (
    select count(distinct h.hour) as hours from nats3.hour h
    where h.archive_id = a.id and h.hour > :closed and not nats3.hour_number(h.hour) <@ k.sealed
) o
cross join lateral (
    values ('sealed', k.sealed_filled), ('open', o.hours), ('unsealed', k.hours - k.sealed_filled - o.hours)
) n(label, value)
where a.deleted_at is null and n.value > 0;

-- name: missing_counts()
-- Sequences that each archive that is not deleted has lost for good, as it is now, by reason.
select a.name as archive, 'missing' as what, m.reason as label, sum(m.sequences)::bigint as value
from (
    select archive_id, reason, sequences from nats3.gap_sum
    where reason not in ('deleted', 'unselected') and not nats3.is_removed(reason)
    union all
    select c.archive_id, l.reason, l.sequences
    from nats3.coverage c cross join lateral (values
        ('expired', c.expired), ('superseded', c.superseded), ('ttl', c.ttl),
        ('superseded_or_ttl', c.superseded_or_ttl), ('damaged', c.damaged),
        ('undelivered', c.undelivered)
    ) as l(reason, sequences)
) m
join nats3.archive a on a.id = m.archive_id
where a.deleted_at is null and m.sequences > 0
group by a.name, m.reason;

-- name: kept_counts()
-- Sequences that were removed on purpose from each archive that is not deleted, by reason; its holds; the hours that its
-- `keep` has passed and that have chunks without a hold; what is missing in each copy: objects, and
-- seconds since the oldest; and objects that have erased messages and are still there.
select a.name as archive, n.what, n.label, n.value
from nats3.archive a cross join lateral (
    select 'removed' as what, s.reason as label, sum(s.sequences)::bigint as value
    from nats3.gap_sum s where s.archive_id = a.id and nats3.is_removed(s.reason) and s.reason <> 'erased' group by s.reason
    union all
    -- Most of them are absent inside of chunks.
    select 'removed', 'erased', sum(e.messages)::bigint from nats3.erasure e where e.archive_id = a.id
    union all
    select 'erased_objects', '', sum(greatest(o.left_over, 1))::bigint from nats3.open_erasure o join nats3.erasure e on e.id = o.erasure_id
    where e.archive_id = a.id
    union all
    select 'holds', '', count(*) from nats3.hold h where h.archive_id = a.id and h.released_at is null
    union all
    select 'overdue', '', count(distinct h.hour) from nats3.hour h
    where h.archive_id = a.id and a.keep_s > 0
      and h.hour < nats3.hour_of(((extract(epoch from now()) - a.keep_s) * 1000000000)::bigint)
      and exists (
          select from nats3.chunk c
          where c.archive_id = a.id and c.hour = h.hour and c.deleted_at is null
            and not nats3.is_held(c.archive_id, c.hour, c.seqs))
    union all
    select 'copy_missing', t.bucket, count(*) from nats3.copy_task t
    where t.archive_id = a.id and not t.removes group by t.bucket
    union all
    select 'copy_lag', t.bucket, ceil(extract(epoch from now() - min(t.since)))::bigint from nats3.copy_task t
    where t.archive_id = a.id and not t.removes group by t.bucket
) n
where a.deleted_at is null and n.value > 0;

-- name: newest_completed()
-- When the newest capture of each archive that completed ended, as seconds since 1970; archives without one are left out.
select a.name as archive, 'completed' as what, '' as label, extract(epoch from c.finished_at)::bigint as value
from nats3.archive a
cross join lateral (
    select finished_at from nats3.capture where archive_id = a.id and error_kind is null order by id desc limit 1
) c
where a.deleted_at is null;

-- name: add_captures(archive, started_at, captures, run_id)
-- Adds the captures of a JSON array, which have ended now.
insert into nats3.capture (archive_id, hour, started_at, messages, payload_bytes, error_kind, error, dagster_run_id)
select :archive, hour, :started_at, messages, payload_bytes, error_kind, error, :run_id
from json_to_recordset(:captures::json) as c(hour text, messages bigint, payload_bytes bigint, error_kind text, error text);

-- name: forget_captures(archive, keep)
-- Forgets all captures of the archive but the newest ones, and the newest that completed.
delete from nats3.capture c
where c.archive_id = :archive
  and c.id <= (select id from nats3.capture where archive_id = :archive order by id desc limit 1 offset :keep)
  and c.id is distinct from (
      select id from nats3.capture where archive_id = :archive and error_kind is null order by id desc limit 1);
