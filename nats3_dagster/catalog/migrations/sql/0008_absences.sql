-- Every absent sequence has a true reason, real messages take the place of gaps, and hours follow the gaps beside them.
alter table nats3.gap drop constraint gap_reason_check, add constraint gap_reason_check check (reason in (
    'deleted', 'expired', 'superseded', 'ttl', 'superseded_or_ttl', 'damaged', 'unselected', 'missing', 'retired'));

-- The settings of the stream that remove messages and that were ever seen, as its configuration has them: what they
-- removed may be noticed after they were changed.
alter table nats3.incarnation add column removing jsonb not null default '{}';

-- Why the sequences that the chunk covers and has no message of are absent; null where there are none.
alter table nats3.chunk add column absent_reason text;
alter table nats3.chunk disable trigger chunk_retired;
update nats3.chunk set absent_reason = case when deleted is null then 'unselected' else 'deleted' end where absent > 0;
alter table nats3.chunk enable trigger chunk_retired;
alter table nats3.chunk add constraint chunk_absent_reason check (
    (absent_reason is not null) = (absent > 0)
    and absent_reason in ('deleted', 'expired', 'superseded', 'ttl', 'superseded_or_ttl', 'damaged', 'unselected')
    -- Only a subject filter leaves open which sequences are absent.
    and (absent_reason = 'unselected' or deleted is not null));
create trigger chunk_absent_reason_immutable before update of absent_reason on nats3.chunk
    for each row execute function nats3.refuse();

-- Of `absent`, what was lost, by reason.
alter table nats3.hour
    add column expired bigint not null default 0, add column superseded bigint not null default 0,
    add column ttl bigint not null default 0, add column superseded_or_ttl bigint not null default 0,
    add column damaged bigint not null default 0;
alter table nats3.coverage
    add column expired bigint not null default 0, add column superseded bigint not null default 0,
    add column ttl bigint not null default 0, add column superseded_or_ttl bigint not null default 0,
    add column damaged bigint not null default 0;

create or replace view nats3.chunk_view as
select c.id, c.archive_id, a.name as archive, c.incarnation_id, i.stream, i.created_ns, c.hour, c.seqs, c.messages,
       c.first_ns, c.last_ns, c.payload_bytes, c.largest_bytes, c.stored_bytes, c.sha256, c.bucket, c.key, c.minutes,
       c.dagster_run_id, c.committed_at, c.deleted_at, c.absent_reason
from nats3.chunk c
join nats3.archive a on a.id = c.archive_id
join nats3.incarnation i on i.id = c.incarnation_id;

create or replace view nats3.coverage_view as
select c.archive_id, c.incarnation_id, i.stream, i.created_ns, c.start_seq, c.frontier, c.last_seq, c.chunks, c.messages,
       c.absent, c.payload_bytes, c.stored_bytes, c.first_ns, c.last_ns, c.expired, c.superseded, c.ttl,
       c.superseded_or_ttl, c.damaged
from nats3.coverage c
join nats3.incarnation i on i.id = c.incarnation_id;

-- Only triggers change gaps: nats3.yield_gaps does.
drop trigger gap_immutable on nats3.gap;
create trigger gap_immutable before update or delete on nats3.gap for each row
    when (pg_trigger_depth() = 0) execute function nats3.refuse();

-- Give the hours a new revision that account for these gaps: those that a gap may belong to (0007); and for a gap that
-- belongs to none, because nothing is missing, the hours whose sequences it lies among or before.
create or replace function nats3.touch_hours(archive bigint, incarnation bigint, gaps nats3.gap[]) returns void language sql as $$
    with beside as (
        select range_agg(seqs) as seqs from unnest(gaps) where first_hour is null having count(*) > 0
    ),
    near as (
        select hour, int8range(least(coalesce(lag(last_seq) over seqs + 1, 0), first_seq), last_seq + 1) as accounts
        from nats3.hour
        where archive_id = archive and incarnation_id = incarnation and exists (select from beside)
          and first_seq >= coalesce((
              select max(first_seq) from nats3.hour
              where archive_id = archive and incarnation_id = incarnation
                and first_seq < (select lower(seqs) from beside)), 0)
          and first_seq <= coalesce((
              select min(first_seq) from nats3.hour
              where archive_id = archive and incarnation_id = incarnation
                and first_seq >= (select upper(seqs) from beside)), 9223372036854775807)
        window seqs as (order by first_seq)
    ),
    touched as (
        select near.hour from near join beside on beside.seqs && near.accounts
        union
        select h.hour from unnest(gaps) g join nats3.hour h on h.hour between g.first_hour and g.last_hour
        where h.archive_id = archive and h.incarnation_id = incarnation
    )
    update nats3.hour h set revision = (select revision from nats3.archive where id = $1)
    -- An array, by which the index is used: a join would read all hours of the archive.
    where h.archive_id = archive and h.incarnation_id = incarnation and h.hour = any(array(select hour from touched))
$$;

-- Take out of gaps what chunks hold that are being added: a real message is worth more than a reason why it is not there.
-- Not what was retired: somebody took that out of the archive.
create or replace function nats3.yield_gaps(archive bigint, incarnation bigint, ranges int8multirange)
returns void language plpgsql as $$
declare
    old nats3.gap[];
    freed int8multirange;
begin
    perform from nats3.coverage where archive_id = archive and incarnation_id = incarnation and covered && ranges;
    if not found then
        return;
    end if;
    with removed as (
        delete from nats3.gap g
        where g.archive_id = archive and g.incarnation_id = incarnation and g.seqs && range_merge(ranges)
          and g.seqs && ranges and g.reason <> 'retired'
        returning g
    )
    select array_agg(r.g), range_agg((r.g).seqs) into old, freed from removed r;
    if old is null then
        return;
    end if;
    update nats3.coverage set covered = covered - freed where archive_id = archive and incarnation_id = incarnation;
    insert into nats3.gap (archive_id, incarnation_id, seqs, reason, dagster_run_id, recorded_at, after_ns, before_ns,
                           first_hour, last_hour)
    select archive, incarnation, rest, o.reason, o.dagster_run_id, o.recorded_at, o.after_ns, o.before_ns, o.first_hour,
           o.last_hour
    from unnest(old) o cross join unnest(int8multirange(o.seqs) - ranges) rest;
    perform nats3.touch_hours(archive, incarnation, old);
end
$$;

create or replace function nats3.gap_added() returns trigger language plpgsql as $$
begin
    perform nats3.touch_archives(array(select distinct archive_id from added));
    perform nats3.cover(archive_id, incarnation_id, range_agg(seqs)) from added group by archive_id, incarnation_id;
    -- What was retired belonged to the hour that had it, which changes by itself.
    perform nats3.touch_hours(archive_id, incarnation_id, array_agg(g)) from nats3.gap g
    where id in (select id from added) and reason <> 'retired' group by archive_id, incarnation_id;
    return null;
end
$$;

create or replace function nats3.chunk_added() returns trigger language plpgsql as $$
declare
    kept text;
begin
    perform nats3.touch_archives(array(select distinct archive_id from added));

    -- An object that is being deleted must not come back into the catalog. Commits hold this lock shared, claims hold it
    -- alone (removals.sql), so that neither misses the other.
    perform pg_advisory_xact_lock_shared(hashtextextended('nats3.removal', 0));
    select r.key into kept
    from added a join nats3.removal r using (bucket, key) where r.removed_at is null limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'chunk_object_kept',
            message = format('the object %s is being deleted', kept), detail = kept;
    end if;

    perform nats3.yield_gaps(archive_id, incarnation_id, range_agg(seqs)) from added
    group by archive_id, incarnation_id;
    perform nats3.cover(archive_id, incarnation_id, range_agg(seqs)) from added group by archive_id, incarnation_id;

    insert into nats3.hour as h (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes,
                                 first_seq, last_seq, first_ns, last_ns, expired, superseded, ttl, superseded_or_ttl,
                                 damaged, revision)
    select a.archive_id, a.incarnation_id, a.hour, count(*), sum(a.messages), sum(a.absent), sum(a.payload_bytes),
           sum(a.stored_bytes), min(lower(a.seqs)), max(upper(a.seqs)) - 1, min(a.first_ns), max(a.last_ns),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'expired'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'superseded'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'ttl'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'superseded_or_ttl'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'damaged'), 0),
           max(archive.revision)
    from added a join nats3.archive on archive.id = a.archive_id
    group by a.archive_id, a.incarnation_id, a.hour
    on conflict (archive_id, hour, incarnation_id) do update set
        chunks = h.chunks + excluded.chunks, messages = h.messages + excluded.messages,
        absent = h.absent + excluded.absent, payload_bytes = h.payload_bytes + excluded.payload_bytes,
        stored_bytes = h.stored_bytes + excluded.stored_bytes,
        first_seq = least(h.first_seq, excluded.first_seq), last_seq = greatest(h.last_seq, excluded.last_seq),
        first_ns = least(h.first_ns, excluded.first_ns), last_ns = greatest(h.last_ns, excluded.last_ns),
        expired = h.expired + excluded.expired, superseded = h.superseded + excluded.superseded,
        ttl = h.ttl + excluded.ttl, superseded_or_ttl = h.superseded_or_ttl + excluded.superseded_or_ttl,
        damaged = h.damaged + excluded.damaged, revision = excluded.revision;

    update nats3.coverage c set
        chunks = c.chunks + n.chunks, messages = c.messages + n.messages, absent = c.absent + n.absent,
        payload_bytes = c.payload_bytes + n.payload_bytes, stored_bytes = c.stored_bytes + n.stored_bytes,
        first_ns = least(c.first_ns, n.first_ns), last_ns = greatest(c.last_ns, n.last_ns),
        expired = c.expired + n.expired, superseded = c.superseded + n.superseded, ttl = c.ttl + n.ttl,
        superseded_or_ttl = c.superseded_or_ttl + n.superseded_or_ttl, damaged = c.damaged + n.damaged
    from (
        select archive_id, incarnation_id, count(*) as chunks, sum(messages) as messages, sum(absent) as absent,
               sum(payload_bytes) as payload_bytes, sum(stored_bytes) as stored_bytes,
               min(first_ns) as first_ns, max(last_ns) as last_ns,
               coalesce(sum(absent) filter (where absent_reason = 'expired'), 0) as expired,
               coalesce(sum(absent) filter (where absent_reason = 'superseded'), 0) as superseded,
               coalesce(sum(absent) filter (where absent_reason = 'ttl'), 0) as ttl,
               coalesce(sum(absent) filter (where absent_reason = 'superseded_or_ttl'), 0) as superseded_or_ttl,
               coalesce(sum(absent) filter (where absent_reason = 'damaged'), 0) as damaged
        from added group by archive_id, incarnation_id
    ) n
    where c.archive_id = n.archive_id and c.incarnation_id = n.incarnation_id;
    return null;
end
$$;

create or replace function nats3.chunk_retired() returns trigger language plpgsql as $$
begin
    perform nats3.touch_archives(array(select distinct archive_id from retired));

    delete from nats3.hour h
    using (select distinct archive_id, incarnation_id, hour from retired) r
    where h.archive_id = r.archive_id and h.incarnation_id = r.incarnation_id and h.hour = r.hour;

    insert into nats3.hour (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes,
                            first_seq, last_seq, first_ns, last_ns, expired, superseded, ttl, superseded_or_ttl, damaged,
                            revision)
    select c.archive_id, c.incarnation_id, c.hour, count(*), sum(c.messages), sum(c.absent), sum(c.payload_bytes),
           sum(c.stored_bytes), min(lower(c.seqs)), max(upper(c.seqs)) - 1, min(c.first_ns), max(c.last_ns),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'expired'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'superseded'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'ttl'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'superseded_or_ttl'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'damaged'), 0),
           max(archive.revision)
    from (select distinct archive_id, incarnation_id, hour from retired) r
    join nats3.chunk c using (archive_id, incarnation_id, hour)
    join nats3.archive on archive.id = c.archive_id
    where c.deleted_at is null
    group by c.archive_id, c.incarnation_id, c.hour;

    update nats3.coverage c set
        covered = c.covered - n.ranges,
        chunks = c.chunks - n.chunks, messages = c.messages - n.messages, absent = c.absent - n.absent,
        payload_bytes = c.payload_bytes - n.payload_bytes, stored_bytes = c.stored_bytes - n.stored_bytes,
        expired = c.expired - n.expired, superseded = c.superseded - n.superseded, ttl = c.ttl - n.ttl,
        superseded_or_ttl = c.superseded_or_ttl - n.superseded_or_ttl, damaged = c.damaged - n.damaged,
        -- Only what was at an end moves it: else the hours of years would be read for nothing.
        first_ns = case when n.first_ns > c.first_ns then c.first_ns else (
            select min(h.first_ns) from nats3.hour h
            where h.archive_id = c.archive_id and h.incarnation_id = c.incarnation_id) end,
        last_ns = case when n.last_ns < c.last_ns then c.last_ns else (
            select max(h.last_ns) from nats3.hour h
            where h.archive_id = c.archive_id and h.incarnation_id = c.incarnation_id) end
    from (
        select archive_id, incarnation_id, range_agg(seqs) as ranges, count(*) as chunks, sum(messages) as messages,
               sum(absent) as absent, sum(payload_bytes) as payload_bytes, sum(stored_bytes) as stored_bytes,
               min(first_ns) as first_ns, max(last_ns) as last_ns,
               coalesce(sum(absent) filter (where absent_reason = 'expired'), 0) as expired,
               coalesce(sum(absent) filter (where absent_reason = 'superseded'), 0) as superseded,
               coalesce(sum(absent) filter (where absent_reason = 'ttl'), 0) as ttl,
               coalesce(sum(absent) filter (where absent_reason = 'superseded_or_ttl'), 0) as superseded_or_ttl,
               coalesce(sum(absent) filter (where absent_reason = 'damaged'), 0) as damaged
        from retired group by archive_id, incarnation_id
    ) n
    where c.archive_id = n.archive_id and c.incarnation_id = n.incarnation_id;
    return null;
end
$$;
