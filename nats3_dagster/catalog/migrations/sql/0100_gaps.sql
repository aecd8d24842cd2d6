-- Gaps: the hours that their messages may belong to, and how they yield to real messages.

-- Sequences of each hour from first to last that were lost, or retired; a loss counts in each hour it may belong to.
create function nats3.losses(archive bigint, first text, last text) returns table (hour text, sequences bigint)
    language sql stable
    begin atomic
        select to_char(h at time zone 'UTC', 'YYYY-MM-DD-HH24:00') collate "C", sum(nats3.size(g.seqs))::bigint
        from nats3.gap g
        cross join lateral generate_series(nats3.hour_start(greatest(g.first_hour, first)),
                                           nats3.hour_start(least(g.last_hour, last)), interval '1 hour') as h
        where g.archive_id = archive and g.first_hour is not null
          and g.hours && nats3.hour_range(first, last)
        group by 1;
    end;

-- The hours from first to last that are as they were sealed, with the revision, the number of chunks and the messages that
-- they were sealed with. What changed since its newest seal is none of them.
create function nats3.valid_seals(archive bigint, first text, last text)
    returns table (hour text, revision bigint, chunks bigint, messages bigint)
    language sql stable
    begin atomic
        with sealed as (
            select distinct on (s.hour) s.hour, s.revision, s.chunks, s.losses from nats3.seal s
            where s.archive_id = archive and s.hour between coalesce(first, '') and coalesce(last, '9999')
            order by s.hour, s.number desc
        ),
        has as (
            select h.hour, max(h.revision) as revision, sum(h.chunks) as chunks, sum(h.messages) as messages
            from nats3.hour h
            where h.archive_id = archive and h.hour between coalesce(first, '') and coalesce(last, '9999')
            group by h.hour
        )
        select sealed.hour, sealed.revision, sealed.chunks::bigint, coalesce(has.messages, 0)::bigint
        from sealed left join has using (hour) left join nats3.losses(archive, first, last) lost using (hour)
        where (sealed.revision, sealed.chunks, sealed.losses)
              = (coalesce(has.revision, 0), coalesce(has.chunks, 0), coalesce(lost.sequences, 0));
    end;

-- The hours from first to last of which chunks were deleted after a replay or have expired, with those chunks and their messages, the chunks
-- that the hour has with them, and when the newest of these was committed. A chunk that was replaced before the
-- deletion is none of them, nor is one whose messages were captured again since: there is no gap of it.
create function nats3.retired_hours(archive bigint, first text, last text)
    returns table (hour text, chunks bigint, messages bigint, total bigint, newest timestamptz)
    language sql stable
    begin atomic
        with retired as (
            select g.first_hour as hour, sum(g.chunks)::bigint as chunks, sum(g.messages)::bigint as messages,
                   max(g.newest_at) as newest
            from nats3.gap g
            where g.archive_id = archive and nats3.is_removed(g.reason) and g.messages is not null
              and g.hours && nats3.hour_range(first, last)
            group by g.first_hour
        )
        select r.hour, r.chunks, r.messages, r.chunks + l.chunks, greatest(r.newest, l.newest)
        from retired r cross join lateral (
            select count(*) as chunks, max(coalesce(c.captured_at, c.committed_at)) as newest from nats3.chunk c
            where c.archive_id = archive and c.hour = r.hour and c.deleted_at is null
        ) l;
    end;

-- Says of which hours the messages of a gap may be. An hour that was sealed before the gap was recorded, and is still as
-- it was sealed, is none of them: everything that was stored before its end was accounted for then.
create function nats3.gap_placed() returns trigger language plpgsql as $$
declare
    former record;
    earlier record;
    later record;
    life nats3.incarnation;
    sealed text;
    spans record;
begin
    if new.reason in ('deleted', 'unselected') or new.first_hour is not null then
        return new;
    end if;
    select c.hour, c.first_ns, c.last_ns into former from nats3.chunk c
    where c.archive_id = new.archive_id and c.incarnation_id = new.incarnation_id and c.deleted_at is not null
      and c.seqs @> new.seqs
    order by c.id desc limit 1;
    if found then
        new.first_hour := former.hour;
        new.last_hour := former.hour;
        new.after_ns := former.first_ns;
        new.before_ns := former.last_ns;
        return new;
    end if;
    select c.hour, c.last_ns into earlier from nats3.chunk c
    where c.archive_id = new.archive_id and c.incarnation_id = new.incarnation_id and c.deleted_at is null
      and lower(c.seqs) < lower(new.seqs)
    order by lower(c.seqs) desc limit 1;
    select c.hour, c.first_ns into later from nats3.chunk c
    where c.archive_id = new.archive_id and c.incarnation_id = new.incarnation_id and c.deleted_at is null
      and lower(c.seqs) >= upper(new.seqs)
    order by lower(c.seqs) limit 1;
    select * into life from nats3.incarnation where id = new.incarnation_id;

    new.after_ns := coalesce(new.after_ns, earlier.last_ns, life.created_ns);
    -- As the stream was last observed: its head lies behind the gap, or its end does.
    new.before_ns := coalesce(new.before_ns, least(
        later.first_ns,
        case when life.messages > 0 and life.first_seq >= upper(new.seqs) then life.first_ns end,
        case when life.last_ns > 0 and life.last_seq >= upper(new.seqs) - 1 then life.last_ns end
    ), (extract(epoch from now()) * 1000000000)::bigint);
    new.before_ns := greatest(new.before_ns, new.after_ns);
    new.first_hour := coalesce(earlier.hour, nats3.hour_of(new.after_ns));
    new.last_hour := least(later.hour, nats3.hour_of(new.before_ns));

    select max(hour) into sealed from nats3.valid_seals(new.archive_id, new.first_hour, new.last_hour);
    if sealed < new.last_hour then
        new.first_hour := nats3.hour_of(3600000000000 + extract(epoch from nats3.hour_start(sealed))::bigint * 1000000000);
    end if;

    -- Clocks step: the hours of the neighbours may be in the other order, and further hours around them.
    select min(h.hour) as first, max(h.hour) as last into spans from nats3.hour h
    where h.archive_id = new.archive_id and h.incarnation_id = new.incarnation_id
      and int8range(h.first_seq, h.last_seq, '[]') && new.seqs;
    select least(new.first_hour, new.last_hour, spans.first), greatest(new.first_hour, new.last_hour, spans.last)
    into new.first_hour, new.last_hour;
    return new;
end
$$;
create trigger gap_placed before insert or update of first_hour on nats3.gap
    for each row execute function nats3.gap_placed();

-- Give the hours a new revision that account for these gaps: those that a gap may belong to; and for a gap that
-- belongs to none, because nothing is missing, the hours whose sequences it lies among or before.
create function nats3.touch_hours(archive bigint, incarnation bigint, gaps nats3.gap[]) returns void language sql as $$
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
    ),
    changed as (
        update nats3.hour h set revision = (select revision from nats3.archive where id = $1)
        -- An array, by which the index is used: a join would read all hours of the archive.
        where h.archive_id = archive and h.incarnation_id = incarnation and h.hour = any(array(select hour from touched))
        returning h.hour
    )
    select nats3.unseal(archive, range_agg(nats3.hour_range(hour, hour))) from changed having count(*) > 0
$$;

-- Take out of gaps what chunks hold that are being added: a real message is worth more than a reason why it is not there.
-- Not what was removed: it was taken out of the archive on purpose.
create function nats3.yield_gaps(archive bigint, incarnation bigint, ranges int8multirange)
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
          and g.seqs && ranges and not nats3.is_removed(g.reason)
        returning g
    )
    select array_agg(r.g), range_agg((r.g).seqs) into old, freed from removed r;
    if old is null then
        return;
    end if;
    update nats3.coverage set covered = covered - freed where archive_id = archive and incarnation_id = incarnation;
    update nats3.gap_sum s set sequences = s.sequences - o.sequences
    from (select reason, sum(nats3.size(seqs))::bigint as sequences from unnest(old) group by reason) o
    where s.archive_id = archive and s.incarnation_id = incarnation and s.reason = o.reason;
    perform nats3.unseal(archive, range_agg(hours)) from unnest(old) where first_hour is not null having count(*) > 0;
    insert into nats3.gap (archive_id, incarnation_id, seqs, reason, dagster_run_id, recorded_at, after_ns, before_ns,
                           first_hour, last_hour)
    select archive, incarnation, rest, o.reason, o.dagster_run_id, o.recorded_at, o.after_ns, o.before_ns, o.first_hour,
           o.last_hour
    from unnest(old) o cross join unnest(int8multirange(o.seqs) - ranges) rest;
    perform nats3.touch_hours(archive, incarnation, old);
end
$$;
