-- name: create_replay(replay, archive, spec, chunks, run_id, job, job_name)
-- Records a replay.
insert into nats3.replay (id, archive_id, spec, chunks, dagster_run_id, job_id, job_name)
values (:replay, :archive, :spec::jsonb, :chunks, :run_id, coalesce(:job::uuid, gen_random_uuid()), :job_name);

-- name: plan_chunks(replay, archive, chunks, after)
-- Records chunks of the replay in the order given, after those places of its plan; those that are no longer live are left out, unless a compaction keeps
-- their messages in another one.
insert into nats3.replay_chunk (replay_id, chunk_id, position, planned)
select :replay, c.id, :after + p.position, c.messages
from unnest(:chunks::bigint[]) with ordinality as p(chunk_id, position)
join nats3.chunk c on c.id = p.chunk_id and c.archive_id = :archive and nats3.has_messages(c)
order by p.position;

-- name: count_plan()
-- Lets Postgres know how many rows a large plan has: until it does by itself, after a minute or more, it would read all of the
-- plan for each page of it.
analyze nats3.replay_chunk;

-- name: extend_replay(replay, chunks)
-- Adds chunks after those that the replay has, in the order given; those that are no longer live are left out, unless a
-- compaction keeps their messages in another one.
insert into nats3.replay_chunk (replay_id, chunk_id, position, planned)
select r.id, c.id, r.chunks + p.position, c.messages
from unnest(:chunks::bigint[]) with ordinality as p(chunk_id, position)
join nats3.replay r on r.id = :replay
join nats3.chunk c on c.id = p.chunk_id and c.archive_id = r.archive_id and nats3.has_messages(c)
order by p.position;

-- name: count_chunks(replay, chunks)
-- Adds this number of chunks to the replay's total.
update nats3.replay set chunks = chunks + :chunks where id = :replay;

-- name: replay_end(replay)
-- The end of the last chunk that the replay has, done or not; no row where it has none.
select c.stream, c.created_ns, c.seqs
from nats3.replay_chunk p join nats3.chunk_view c on c.id = p.chunk_id
where p.replay_id = :replay
order by p.position desc
limit 1;

-- name: chunks_after(replay)
-- The number of live chunks of the archive with sequences after the last chunk of the replay: within its times and sequences, of
-- any subject.
select count(*) from nats3.replay r
left join lateral (
    select c.created_ns, upper(c.seqs) as seq
    from nats3.replay_chunk p join nats3.chunk_view c on c.id = p.chunk_id
    where p.replay_id = r.id order by p.position desc limit 1
) e on true
join nats3.chunk n on n.archive_id = r.archive_id and n.deleted_at is null
join nats3.incarnation i on i.id = n.incarnation_id
where r.id = :replay and (e.seq is null or (i.created_ns, upper(n.seqs)) > (e.created_ns, e.seq))
  and n.last_ns >= coalesce((r.spec #>> '{selection,from_ns}')::bigint, n.last_ns)
  and n.first_ns < coalesce((r.spec #>> '{selection,to_ns}')::bigint, 9223372036854775807)
  and (r.spec #> '{selection,sequences}' = 'null'
       or n.seqs && int8range((r.spec #>> '{selection,sequences,0}')::bigint,
                              (r.spec #>> '{selection,sequences,1}')::bigint, '[]'));

-- name: replay_archive(replay)
-- The id of the replay's archive.
select archive_id from nats3.replay where id = :replay and deleted_at is null;

-- name: add_targets(replay, streams, created, since)
-- Records the streams that take what the replay publishes.
insert into nats3.replay_target (replay_id, stream, created_ns, since_seq)
select :replay, t.* from unnest(:streams::text[], :created::bigint[], :since::bigint[]) as t;

-- name: replays(replay, job, name, archive, bucket, states, limit_to)
-- One replay, those of a job's name, of an archive, of a bucket or in one of these states, or all, newest first; with the
-- runs that drove them, their targets, and whether what should run one is gone.
select r.id, r.spec, r.state, r.attempt, r.error, r.chunks, r.chunks_done, r.selected, r.published, r.found, r.duplicates,
       r.expired, r.progress_published, r.progress_found, r.created_at, r.started_at, r.finished_at,
       r.updated_at, r.job_id, r.job_name, r.launch, a.stream, a.bucket, a.prefix, a.durable,
       nats3.is_lost(r) as lost,
       array(select t.dagster_run_id from nats3.replay_attempt t
             where t.replay_id = r.id and t.dagster_run_id is not null order by t.attempt) as run_ids,
       (select coalesce(json_agg(t order by t.stream, t.created_ns), '[]') from nats3.replay_target t
        where t.replay_id = r.id) as targets
from nats3.replay r join nats3.archive a on a.id = r.archive_id
where r.deleted_at is null and (:replay::text is null or r.id = :replay)
  and (:job::uuid is null or r.job_id = :job)
  and (:name::text is null or r.job_name = :name)
  and (:archive::bigint is null or r.archive_id = :archive)
  and (:bucket::text is null or a.bucket = :bucket)
  and (:states::text[] is null or r.state = any(:states))
order by r.created_at desc
limit :limit_to;

-- name: replay_deleted(replay)
-- True if the replay was deleted; no row if there never was one.
select deleted_at is not null from nats3.replay where id = :replay;

-- name: replay_progress(replay)
-- Messages of the chunks that the replay has not done, at most; of its newest attempt, how many the targets had before
-- it, and how many seconds it has run.
select (select coalesce(sum(c.planned), 0) from nats3.replay_chunk c
        where c.replay_id = r.id and c.state <> 'done')::bigint as pending,
       coalesce(t.began_with, 0) as began_with,
       coalesce(extract(epoch from coalesce(t.finished_at, now()) - t.started_at), 0)::float8 as seconds
from nats3.replay r left join nats3.replay_attempt t on t.replay_id = r.id and t.attempt = r.attempt
where r.id = :replay;

-- name: reserve_launch(replay, launch, attempt, queued)
-- Counts another start of a run or process for the replay, unless another process did so, or began an attempt, since; its
-- number.
update nats3.replay set launch = launch + 1, launch_begun = false, launched_at = case when not :queued then now() end,
    state = case state when 'succeeded' then state else 'planned' end,
    error = null, finished_at = case state when 'succeeded' then finished_at end
where id = :replay and launch = :launch and attempt = :attempt and deleted_at is null
returning launch;

-- name: begin_launch(replay, launch)
-- Marks the start under this number as begun; no row if another one was started since.
update nats3.replay set launch_begun = true where id = :replay and launch = :launch and deleted_at is null
returning launch;

-- name: fail_launch(replay, launch, error)
-- Records that a start did not begin an attempt, and why.
update nats3.replay set state = 'failed', error = :error, finished_at = now()
where id = :replay and launch = :launch and state = 'planned';

-- name: revoke_launch(replay)
-- Revokes the start of the replay that has not begun.
update nats3.replay set launch = launch + 1 where id = :replay;

-- name: change_pace(replay, pace)
-- The pace of the replay's later attempts.
update nats3.replay set spec = jsonb_set(spec, '{pace}', :pace::jsonb) where id = :replay and deleted_at is null;

-- name: raise_attempt(replay, attempt)
-- Makes this the replay's newest attempt unless a later one is known.
update nats3.replay set attempt = greatest(attempt, :attempt) where id = :replay and deleted_at is null;

-- name: lock_replay(replay)
-- How far the replay is, locked until the transaction ends.
select state, attempt, launch from nats3.replay where id = :replay and deleted_at is null for no key update;

-- name: begin_attempt(replay)
-- Begins another attempt of the replay; its number.
update nats3.replay set state = 'running', attempt = attempt + 1, error = null, finished_at = null,
    progress_published = 0, progress_found = 0, started_at = coalesce(started_at, now())
where id = :replay
returning attempt;

-- name: lose_attempts(replay)
-- Marks attempts that never ended as lost: they were killed.
update nats3.replay_attempt set state = 'lost', finished_at = now() where replay_id = :replay and state = 'running';

-- name: add_attempt(replay, attempt, run_id)
-- Records the attempt that began.
insert into nats3.replay_attempt (replay_id, attempt, dagster_run_id, began_with)
select id, :attempt, :run_id, published + found from nats3.replay where id = :replay;

-- name: end_attempt(replay, attempt, state, error)
-- Ends the attempt, unless it is lost.
update nats3.replay_attempt set state = :state, error = :error, finished_at = now()
where replay_id = :replay and attempt = :attempt and state = 'running';

-- name: record_progress(replay, attempt, published, found)
-- Replaces what is known of the chunks that are not done, while the attempt runs.
update nats3.replay set progress_published = :published, progress_found = :found
where id = :replay and attempt = :attempt and state = 'running';

-- name: end_replay(replay, attempt, state, error)
-- Ends the replay, unless a later attempt has begun or it has succeeded.
update nats3.replay set state = :state, error = :error, finished_at = now()
where id = :replay and attempt = :attempt and state <> 'succeeded';

-- name: delete_replay(replay)
-- Takes the replay out of all lists.
update nats3.replay set deleted_at = now() where id = :replay and deleted_at is null;

-- name: record_results(replay, attempt, run_id, results)
-- Marks chunks as done with their counts, and moves these from the replay's progress to its sums; how many chunks were
-- not done before.
-- A chunk that is done stays as it is: its counts are those of the attempt that finished it.
with recorded as (
    update nats3.replay_chunk c set state = 'done', selected = r.selected, published = r.published, found = r.found,
        duplicates = r.duplicates, expired = r.expired, last_seq = r.last_seq,
        attempt = :attempt, dagster_run_id = :run_id, finished_at = now()
    from json_to_recordset(:results::json) as r(
        chunk_id bigint, selected bigint, published bigint, found bigint, duplicates bigint,
        expired bigint, last_seq bigint)
    where c.replay_id = :replay and c.chunk_id = r.chunk_id and c.state <> 'done'
    returning c.*
), sums as (
    select count(*) as done, coalesce(sum(selected), 0)::bigint as selected,
           coalesce(sum(published), 0)::bigint as published, coalesce(sum(found), 0)::bigint as found,
           coalesce(sum(duplicates), 0)::bigint as duplicates, coalesce(sum(expired), 0)::bigint as expired
    from recorded
)
update nats3.replay p set chunks_done = p.chunks_done + s.done, selected = p.selected + s.selected,
    published = p.published + s.published, found = p.found + s.found, duplicates = p.duplicates + s.duplicates,
    expired = p.expired + s.expired,
    progress_published = greatest(0, p.progress_published - s.published),
    progress_found = greatest(0, p.progress_found - s.found)
from sums s
where p.id = :replay
returning s.done;

-- name: pending_places(replay, after, places)
-- The chunks that the replay has not done, in the order of its plan: from the first one after a place on, those within a
-- number of places; all if null.
with begin as materialized (
    select position from nats3.replay_chunk
    where replay_id = :replay and state <> 'done' and position > :after
    order by position
    limit 1
)
select chunk_id, position from nats3.replay_chunk
where replay_id = :replay and state <> 'done' and position >= (select position from begin)
  and position < coalesce((select position from begin) + :places::bigint, 9223372036854775807)
order by position;

-- name: planned_chunks(chunks, minutes)
-- These chunks, retired ones too, with their messages by minute where asked for. A statement of its own, because Postgres
-- then knows how many they are.
select c.id, c.archive_id, c.archive, c.incarnation_id, c.stream, c.created_ns, c.hour, c.seqs, c.messages, c.first_ns,
       c.last_ns, c.payload_bytes, c.largest_bytes, c.stored_bytes, c.sha256, c.bucket, c.key,
       case when :minutes::boolean then c.minutes end as minutes, c.dagster_run_id, c.committed_at, c.deleted_at,
       c.absent_reason, c.copies
from nats3.chunk_view c where c.id = any(:chunks::bigint[]);

-- name: has_pending_after(replay, place)
-- True if the replay has a chunk that is not done after this place in its plan.
select exists (select from nats3.replay_chunk where replay_id = :replay and state <> 'done' and position > :place);

-- name: merged_into(chunks)
-- For each of these chunks that a compaction retired: its id, and the live chunk that has its messages.
select m.chunk_id as part_id, n.*
from nats3.merged_chunk m join nats3.chunk_view n on n.id = m.into_id and n.deleted_at is null
where m.chunk_id = any(:chunks::bigint[]);

-- name: retired_pending(replay)
-- The first chunk that the replay has not done and whose messages the archive does not have any more, and how many there
-- are; no row without one.
select c.key, count(*) over () as chunks
from nats3.replay_chunk p join nats3.chunk c on c.id = p.chunk_id
where p.replay_id = :replay and p.state <> 'done' and not nats3.has_messages(c)
order by p.position
limit 1;

-- name: whole_chunks(replay, chunks)
-- The live chunks that the replay published whole, by hour, or those of them; and those that a compaction made of nothing
-- but such chunks, of this round and of earlier ones.
with whole as (
    select chunk_id from nats3.replay_chunk
    where replay_id = :replay and state = 'done' and published + found = planned
), live as (
    select c.id, c.hour
    from whole w join nats3.chunk c on c.id = w.chunk_id
    where c.deleted_at is null and (:chunks::bigint[] is null or c.id = any(:chunks::bigint[]))
    union
    select n.id, n.hour
    from whole w
    join nats3.merged_chunk m on m.chunk_id = w.chunk_id
    join nats3.chunk c on c.id = m.chunk_id
    join nats3.chunk n on n.id = m.into_id and n.deleted_at is null
    group by n.id
    having range_agg(c.seqs) @> n.seqs
)
select hour, array_agg(id order by id) as chunks from live group by hour order by hour;

-- name: done_chunks(replay, chunks)
-- The chunks that the replay has done, or those of them, in the order of its plan; those of an incarnation that follow each
-- other in the plan are one row: their places in the plan, from which to which sequence they go, how many messages the
-- targets took, and the last sequence of those.
with done as (
    select c.incarnation_id, c.seqs, p.position, p.published + p.found as messages, p.last_seq,
           p.position - row_number() over (partition by c.incarnation_id order by p.position) as run
    from nats3.replay_chunk p join nats3.chunk c on c.id = p.chunk_id
    where p.replay_id = :replay and p.state = 'done'
      and (:chunks::bigint[] is null or p.chunk_id = any(:chunks::bigint[]))
)
select i.stream, i.created_ns, int8range(min(d.position), max(d.position), '[]') as positions,
       int8range(min(lower(d.seqs)), max(upper(d.seqs))) as seqs, sum(d.messages)::bigint as messages,
       max(d.last_seq) as last_seq
from done d join nats3.incarnation i on i.id = d.incarnation_id
group by d.incarnation_id, d.run, i.stream, i.created_ns
order by min(d.position);

-- name: replay_hours(replay)
-- The results of a replay by hour: messages, and the runs of Dagster that recorded them.
select c.hour, count(*) as chunks, sum(p.selected)::bigint as selected, sum(p.published)::bigint as published,
       sum(p.found)::bigint as found, sum(p.duplicates)::bigint as duplicates, sum(p.expired)::bigint as expired,
       array_remove(array_agg(distinct p.dagster_run_id), null) as runs
from nats3.replay_chunk p join nats3.chunk c on c.id = p.chunk_id
where p.replay_id = :replay
group by c.hour
order by c.hour;

-- name: last_results(replay, each)
-- The results of the last chunks of each hour, this many, in the order of the plan.
with placed as (
    select p.position, c.hour, row_number() over (partition by c.hour order by p.position desc) as place
    from nats3.replay_chunk p join nats3.chunk c on c.id = p.chunk_id
    where p.replay_id = :replay
)
select p.*, l.hour from placed l join nats3.replay_chunk p on p.replay_id = :replay and p.position = l.position
where l.place <= :each
order by p.position;

-- name: whole_hours(replays)
-- The hours that each of these replays published whole.
select replay, hour from nats3.whole_hours(:replays::text[]) order by replay, hour;

-- name: published_by(chunk)
-- The result of a chunk in each replay, newest replay first.
select p.*, c.hour
from nats3.replay_chunk p join nats3.replay r on r.id = p.replay_id join nats3.chunk c on c.id = p.chunk_id
where p.chunk_id = :chunk and r.deleted_at is null
order by r.created_at desc;

-- name: try_lock(replay)
-- True if this connection now holds the replay, until it ends.
select pg_try_advisory_lock(hashtextextended('nats3.replay.' || :replay, 0));

-- name: lock_launch(replay, launch)
-- From now on, until it ends, this connection shows that what was started under this number lives (is_lost).
select pg_advisory_lock_shared(hashtextextended('nats3.launch.' || :replay || '.' || :launch, 0));

-- name: listen_for_pause()
-- From now on this connection hears of replays that are to pause.
listen nats3_pause;

-- name: ask_pause(replay)
-- Asks the process that waits for new chunks of the replay to pause it.
select pg_notify('nats3_pause', :replay);

-- name: merged_parts(chunk, after)
-- The chunks that a compaction merged into this one and that begin after a sequence, in the order of the stream.
select c.* from nats3.merged_chunk m join nats3.chunk_view c on c.id = m.chunk_id
where m.into_id = :chunk and lower(c.seqs) > :after
  -- A chunk that was merged twice stands by its parts.
  and not exists (
      select from nats3.merged_chunk o join nats3.chunk k on k.id = o.chunk_id
      where o.into_id = m.into_id and o.chunk_id <> m.chunk_id and k.seqs <@ c.seqs)
order by lower(c.seqs);
