-- name: old_replays(keep_s, limit_to)
-- Replays that succeeded or were deleted this many seconds ago, and whose chunks are still listed; the oldest first.
select id from nats3.replay
where folded_at is null and (deleted_at < now() - make_interval(secs => :keep_s)
                             or (state = 'succeeded' and finished_at < now() - make_interval(secs => :keep_s)))
order by created_at
limit :limit_to;

-- name: record_whole_hours(replay)
-- Records the hours that a replay published whole, and marks it as folded; no row if another process did it.
update nats3.replay r
set folded_at = now(), whole_hours = array(select hour from nats3.whole_hours(array[r.id]) order by hour)
where r.id = :replay and r.folded_at is null
returning r.id;

-- name: count_attempts(replay)
-- Adds the replay's attempts to the totals of its archive.
insert into nats3.total as t (archive_id, what, label, value)
select r.archive_id, 'attempts', a.state, count(*)
from nats3.replay_attempt a join nats3.replay r on r.id = a.replay_id
where a.replay_id = :replay group by 1, 3 order by 1, 3
on conflict (archive_id, what, label) do update set value = t.value + excluded.value;

-- name: forget_attempts(replay)
-- Forgets the replay's attempts.
delete from nats3.replay_attempt where replay_id = :replay;

-- name: forget_replay_chunks(replay)
-- Forgets the chunks of the replay.
delete from nats3.replay_chunk where replay_id = :replay;

-- name: join_retired(keep_s, limit_to)
-- Joins the gaps that chunks left which were retired this many seconds ago: one for adjacent ones of an hour and a replay.
-- The number of gaps that were looked at.
select nats3.join_retired(now() - make_interval(secs => :keep_s), :limit_to);

-- name: forget_chunks(keep_s, limit_to)
-- Forgets chunks that were retired this many seconds ago and that nothing needs: the store does not have the object for
-- them, their sequences are in other chunks and gaps, no replay lists them, and every table knows that they went. Those
-- that were merged stay while a replay follows the archive: it may have to go on after one of them.
delete from nats3.chunk where id = any(array(
    select c.id
    from nats3.chunk c
    join nats3.archive a on a.id = c.archive_id
    join nats3.coverage v on v.archive_id = c.archive_id and v.incarnation_id = c.incarnation_id
    where c.deleted_at < now() - make_interval(secs => :keep_s)
      and (exists (
              select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at)
           or exists (select from nats3.chunk l where l.bucket = c.bucket and l.key = c.key and l.deleted_at is null))
      and (a.deleted_at is not null or c.seqs <@ v.covered)
      and not exists (select from nats3.replay_chunk p where p.chunk_id = c.id)
      and not exists (
          select from nats3.merged_chunk m join nats3.replay r on r.archive_id = c.archive_id
          where m.chunk_id = c.id and r.deleted_at is null and r.state <> 'succeeded'
            and jsonb_typeof(r.spec -> 'poll_interval_s') = 'number')
      and not exists (
          select from nats3.archive_table t where t.archive_id = c.archive_id and t.revision < c.retired_revision)
    order by c.deleted_at
    limit :limit_to
));

-- name: forget_seals(keep_s, limit_to)
-- Forgets seals that do not count any more, once their manifests have been gone this many seconds.
delete from nats3.seal where id = any(array(
    select s.id from nats3.seal s
    where s.superseded_at < now() - make_interval(secs => :keep_s) and nats3.was_removed(s.bucket, s.key, s.sealed_at, :keep_s)
    union all
    select s.id from nats3.archive a join nats3.seal s on s.archive_id = a.id
    where a.deleted_at < now() - make_interval(secs => :keep_s) and nats3.was_removed(s.bucket, s.key, s.sealed_at, :keep_s)
    limit :limit_to
));

-- name: forget_consumers(keep_s, limit_to)
-- Forgets consumers that are not kept any longer, once their objects have been gone this many seconds.
delete from nats3.kept_consumers where id = any(array(
    select k.id from nats3.kept_consumers k
    where k.superseded_at < now() - make_interval(secs => :keep_s) and nats3.was_removed(k.bucket, k.key, k.kept_at, :keep_s)
    union all
    select k.id from nats3.archive a join nats3.kept_consumers k on k.archive_id = a.id
    where a.deleted_at < now() - make_interval(secs => :keep_s) and nats3.was_removed(k.bucket, k.key, k.kept_at, :keep_s)
    limit :limit_to
));

-- name: forget_problems_of_deleted(keep_s, limit_to)
-- Forgets why consumers of archives were not kept that were deleted this many seconds ago.
delete from nats3.consumers_problem where archive_id = any(array(
    select p.archive_id from nats3.archive a join nats3.consumers_problem p on p.archive_id = a.id
    where a.deleted_at < now() - make_interval(secs => :keep_s)
    limit :limit_to
));

-- name: forget_removals(keep_s, limit_to)
-- Forgets removals that were finished this many seconds ago, and whose objects no row names any more.
delete from nats3.removal d using (
    select r.bucket, r.key from nats3.removal r
    where r.removed_at < now() - make_interval(secs => :keep_s)
      and not exists (select from nats3.chunk c where c.bucket = r.bucket and c.key = r.key and c.deleted_at is not null)
      and not exists (select from nats3.seal s where s.bucket = r.bucket and s.key = r.key)
      and not exists (select from nats3.kept_consumers k where k.bucket = r.bucket and k.key = r.key)
    order by r.removed_at
    limit :limit_to
) o
where d.bucket = o.bucket and d.key = o.key and d.removed_at < now() - make_interval(secs => :keep_s);

-- name: forget_captures_of_deleted(keep_s, limit_to)
-- Forgets captures of archives that were deleted this many seconds ago.
delete from nats3.capture where id = any(array(
    select c.id from nats3.archive a join nats3.capture c on c.archive_id = a.id
    where a.deleted_at < now() - make_interval(secs => :keep_s)
    limit :limit_to
));

-- name: forget_export_hours(keep_s, limit_to)
-- Forgets hours of exports that were deleted this many seconds ago.
delete from nats3.export_hour h using (
    select e.id, o.hour from nats3.export e join nats3.export_hour o on o.export_id = e.id
    where e.deleted_at < now() - make_interval(secs => :keep_s)
    limit :limit_to
) g
where h.export_id = g.id and h.hour = g.hour;
