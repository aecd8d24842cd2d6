-- What Postgres guarantees, whoever writes: no sequence is in a chunk and in a gap, nothing is covered before the
-- archive's start, chunk and gap rows never change, and what is covered and all sums follow the rows.
-- Every change of an archive updates its row first, so that changes of one archive follow one another.

create function nats3.refuse() returns trigger language plpgsql as $$
begin
    raise exception using
        errcode = 'integrity_constraint_violation',
        message = format('%s of nats3.%s is refused: rows there are immutable', tg_op, tg_table_name),
        constraint = tg_name;
end
$$;

create trigger chunk_immutable before update of id, archive_id, incarnation_id, hour, seqs, messages, deleted, first_ns,
    last_ns, payload_bytes, largest_bytes, stored_bytes, sha256, bucket, key, subjects, dagster_run_id, committed_at,
    captured_at on nats3.chunk for each row execute function nats3.refuse();
create trigger chunk_minutes_immutable before update of minutes on nats3.chunk
    for each row execute function nats3.refuse();
create trigger chunk_absent_reason_immutable before update of absent_reason on nats3.chunk
    for each row execute function nats3.refuse();
create trigger chunk_retired_once before update of deleted_at, retired_revision on nats3.chunk for each row
    when (old.deleted_at is not null or new.deleted_at is null) execute function nats3.refuse();
create trigger chunk_live_kept before delete on nats3.chunk for each row
    when (old.deleted_at is null) execute function nats3.refuse();
-- Only triggers change gaps: nats3.yield_gaps does.
create trigger gap_immutable before update of archive_id, incarnation_id, reason, first_hour, last_hour or delete on nats3.gap
    for each row when (pg_trigger_depth() = 0 and not nats3.is_removed(old.reason)) execute function nats3.refuse();
create trigger seal_immutable before update of id, archive_id, hour, number, revision, chunks, losses, messages, gaps, content,
    bucket, key, sha256, stored_bytes, actor, dagster_run_id, sealed_at
    on nats3.seal for each row execute function nats3.refuse();
create function nats3.seal_kept() returns trigger language plpgsql as $$
begin
    if old.superseded_at is null and exists (select from nats3.archive where id = old.archive_id and deleted_at is null) then
        raise exception using
            errcode = 'integrity_constraint_violation', constraint = tg_name,
            message = 'delete of nats3.seal is refused: it is the newest one of its hour';
    end if;
    return old;
end
$$;
create trigger seal_kept before delete on nats3.seal for each row execute function nats3.seal_kept();

create function nats3.touch_archives(ids bigint[]) returns void language plpgsql as $$
declare
    gone text;
begin
    -- The lock comes before the check: a delete that came first is then seen.
    perform from nats3.archive where id = any(ids) order by id for no key update;
    update nats3.archive set revision = revision + 1 where id = any(ids);
    select name into gone from nats3.archive where id = any(ids) and deleted_at is not null limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'archive_live',
            message = format('archive %s is deleted', gone), detail = gone;
    end if;
end
$$;

-- Add ranges to what is covered, or refuse them: they must not be there yet, nor begin before the archive does. The
-- exclusion constraints hold this among chunks and among gaps; here it is held between the two.
create function nats3.cover(archive bigint, incarnation bigint, ranges int8multirange) returns void language plpgsql as $$
declare
    known nats3.coverage;
    clash text;
begin
    select * into known from nats3.coverage where archive_id = archive and incarnation_id = incarnation;
    if lower(ranges) < known.start_seq then
        raise exception using errcode = 'check_violation', constraint = 'covered_from_start',
            message = 'what is to be covered begins before the archive',
            detail = format('%s is before %s.', lower(ranges), known.start_seq);
    end if;
    if known.covered && ranges then
        select format('Chunk %s conflicts with gap %s.', c.seqs, g.seqs) into clash
        from nats3.gap g join nats3.chunk c using (archive_id, incarnation_id)
        where g.archive_id = archive and g.incarnation_id = incarnation and g.seqs && (known.covered * ranges)
          and c.archive_id = archive and c.incarnation_id = incarnation and c.seqs && g.seqs and c.deleted_at is null
        limit 1;
        raise exception using errcode = 'exclusion_violation', constraint = 'chunk_or_gap',
            message = 'a sequence cannot be in a chunk and in a gap', detail = clash;
    end if;
    update nats3.coverage set covered = covered + ranges where archive_id = archive and incarnation_id = incarnation;
end
$$;

create function nats3.chunk_added() returns trigger language plpgsql as $$
declare
    kept text;
begin
    perform nats3.touch_archives(array(select distinct archive_id from added));

    -- An object that is being deleted must not come back into the catalog. Commits hold the lock of the bucket shared,
    -- claims hold it alone (removals.sql), so that neither misses the other.
    perform pg_advisory_xact_lock_shared(hashtextextended('nats3.removal.' || b.bucket, 0))
    from (select distinct bucket from added order by 1) b;
    select r.key into kept
    from added a join nats3.removal r using (bucket, key) where r.removed_at is null limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'chunk_object_kept',
            message = format('the object %s is being deleted', kept), detail = kept;
    end if;

    perform nats3.yield_gaps(archive_id, incarnation_id, range_agg(seqs)) from added
    group by archive_id, incarnation_id;
    perform nats3.cover(archive_id, incarnation_id, range_agg(seqs)) from added group by archive_id, incarnation_id;

    insert into nats3.archive_hours as k (archive_id, hours)
    select a.archive_id, count(*) from (select distinct archive_id, hour from added) a
    where not exists (select from nats3.hour h where h.archive_id = a.archive_id and h.hour = a.hour)
    group by a.archive_id
    on conflict (archive_id) do update set hours = k.hours + excluded.hours;
    perform nats3.unseal(archive_id, range_agg(nats3.hour_range(hour, hour))) from added group by archive_id;

    insert into nats3.hour as h (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes,
                                 first_seq, last_seq, first_ns, last_ns, expired, superseded, ttl, superseded_or_ttl,
                                 damaged, undelivered, revision)
    select a.archive_id, a.incarnation_id, a.hour, count(*), sum(a.messages), sum(a.absent), sum(a.payload_bytes),
           sum(a.stored_bytes), min(lower(a.seqs)), max(upper(a.seqs)) - 1, min(a.first_ns), max(a.last_ns),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'expired'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'superseded'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'ttl'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'superseded_or_ttl'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'damaged'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'undelivered'), 0),
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
        damaged = h.damaged + excluded.damaged, undelivered = h.undelivered + excluded.undelivered,
        revision = excluded.revision;

    update nats3.coverage c set
        chunks = c.chunks + n.chunks, messages = c.messages + n.messages, absent = c.absent + n.absent,
        payload_bytes = c.payload_bytes + n.payload_bytes, stored_bytes = c.stored_bytes + n.stored_bytes,
        first_ns = least(c.first_ns, n.first_ns), last_ns = greatest(c.last_ns, n.last_ns),
        expired = c.expired + n.expired, superseded = c.superseded + n.superseded, ttl = c.ttl + n.ttl,
        superseded_or_ttl = c.superseded_or_ttl + n.superseded_or_ttl, damaged = c.damaged + n.damaged,
        undelivered = c.undelivered + n.undelivered
    from (
        select archive_id, incarnation_id, count(*) as chunks, sum(messages) as messages, sum(absent) as absent,
               sum(payload_bytes) as payload_bytes, sum(stored_bytes) as stored_bytes,
               min(first_ns) as first_ns, max(last_ns) as last_ns,
               coalesce(sum(absent) filter (where absent_reason = 'expired'), 0) as expired,
               coalesce(sum(absent) filter (where absent_reason = 'superseded'), 0) as superseded,
               coalesce(sum(absent) filter (where absent_reason = 'ttl'), 0) as ttl,
               coalesce(sum(absent) filter (where absent_reason = 'superseded_or_ttl'), 0) as superseded_or_ttl,
               coalesce(sum(absent) filter (where absent_reason = 'damaged'), 0) as damaged,
               coalesce(sum(absent) filter (where absent_reason = 'undelivered'), 0) as undelivered
        from added group by archive_id, incarnation_id
    ) n
    where c.archive_id = n.archive_id and c.incarnation_id = n.incarnation_id;
    return null;
end
$$;
create trigger chunk_added after insert on nats3.chunk
    referencing new table as added for each statement execute function nats3.chunk_added();

create function nats3.gap_added() returns trigger language plpgsql as $$
begin
    perform nats3.touch_archives(array(select distinct archive_id from added));
    perform nats3.cover(archive_id, incarnation_id, range_agg(seqs)) from added group by archive_id, incarnation_id;
    -- What was removed belonged to the hour that had it, which changes by itself.
    perform nats3.touch_hours(archive_id, incarnation_id, array_agg(g)) from nats3.gap g
    where id in (select id from added) and not nats3.is_removed(reason) group by archive_id, incarnation_id;
    perform nats3.unseal(archive_id, range_agg(hours)) from added where first_hour is not null group by archive_id;
    insert into nats3.gap_sum as s (archive_id, incarnation_id, reason, sequences)
    select archive_id, incarnation_id, reason, sum(nats3.size(seqs)) from added group by 1, 2, 3 order by 1, 2, 3
    on conflict (archive_id, incarnation_id, reason) do update set sequences = s.sequences + excluded.sequences;
    perform nats3.join_gaps(array(select id from added));
    return null;
end
$$;
create trigger gap_added after insert on nats3.gap
    referencing new table as added for each statement execute function nats3.gap_added();

create function nats3.chunk_retired() returns trigger language plpgsql as $$
begin
    perform nats3.touch_archives(array(select distinct archive_id from retired));

    -- Only live chunks are looked up by subject.
    delete from nats3.chunk_subject where chunk_id in (select id from retired);
    delete from nats3.chunk_bloom where chunk_id in (select id from retired);

    delete from nats3.hour h
    using (select distinct archive_id, incarnation_id, hour from retired) r
    where h.archive_id = r.archive_id and h.incarnation_id = r.incarnation_id and h.hour = r.hour;

    insert into nats3.hour (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes,
                            first_seq, last_seq, first_ns, last_ns, expired, superseded, ttl, superseded_or_ttl, damaged,
                            undelivered, revision)
    select c.archive_id, c.incarnation_id, c.hour, count(*), sum(c.messages), sum(c.absent), sum(c.payload_bytes),
           sum(c.stored_bytes), min(lower(c.seqs)), max(upper(c.seqs)) - 1, min(c.first_ns), max(c.last_ns),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'expired'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'superseded'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'ttl'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'superseded_or_ttl'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'damaged'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'undelivered'), 0),
           max(archive.revision)
    from (select distinct archive_id, incarnation_id, hour from retired) r
    join nats3.chunk c using (archive_id, incarnation_id, hour)
    join nats3.archive on archive.id = c.archive_id
    where c.deleted_at is null
    group by c.archive_id, c.incarnation_id, c.hour;

    perform nats3.unseal(archive_id, range_agg(nats3.hour_range(hour, hour))) from retired group by archive_id;
    update nats3.archive_hours k set hours = k.hours - n.hours
    from (
        select archive_id, count(*) as hours from (select distinct archive_id, hour from retired) r
        where not exists (select from nats3.hour h where h.archive_id = r.archive_id and h.hour = r.hour)
        group by archive_id
    ) n
    where k.archive_id = n.archive_id;

    update nats3.coverage c set
        covered = c.covered - n.ranges,
        chunks = c.chunks - n.chunks, messages = c.messages - n.messages, absent = c.absent - n.absent,
        payload_bytes = c.payload_bytes - n.payload_bytes, stored_bytes = c.stored_bytes - n.stored_bytes,
        expired = c.expired - n.expired, superseded = c.superseded - n.superseded, ttl = c.ttl - n.ttl,
        superseded_or_ttl = c.superseded_or_ttl - n.superseded_or_ttl, damaged = c.damaged - n.damaged,
        undelivered = c.undelivered - n.undelivered,
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
               coalesce(sum(absent) filter (where absent_reason = 'damaged'), 0) as damaged,
               coalesce(sum(absent) filter (where absent_reason = 'undelivered'), 0) as undelivered
        from retired group by archive_id, incarnation_id
    ) n
    where c.archive_id = n.archive_id and c.incarnation_id = n.incarnation_id;
    return null;
end
$$;
create trigger chunk_retired after update on nats3.chunk
    referencing new table as retired for each statement execute function nats3.chunk_retired();

-- The subjects of a chunk come in one statement. Rows that differ in what they say of the chunk are groups of their own,
-- and then none of these counts all of its messages.
create function nats3.subjects_added() returns trigger language plpgsql as $$
declare
    wrong record;
begin
    select a.chunk_id, c.messages, a.messages as counted into wrong
    from (
        select chunk_id, archive_id, incarnation_id, first_seq, sum(messages) as messages, count(*) as subjects
        from added group by chunk_id, archive_id, incarnation_id, first_seq
    ) a
    left join nats3.chunk c on c.id = a.chunk_id and c.deleted_at is null
    where (c.messages, c.subjects, c.archive_id, c.incarnation_id, lower(c.seqs)) is distinct from
          (a.messages, a.subjects, a.archive_id, a.incarnation_id, a.first_seq)
    limit 1;
    if found then
        raise exception using errcode = 'check_violation', constraint = 'chunk_subjects_account',
            message = format('the subjects of chunk %s count %s of its %s messages', wrong.chunk_id, wrong.counted,
                             coalesce(wrong.messages, 0));
    end if;
    return null;
end
$$;
create trigger subjects_added after insert on nats3.chunk_subject
    referencing new table as added for each statement execute function nats3.subjects_added();
