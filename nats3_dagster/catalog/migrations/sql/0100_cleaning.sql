-- How rows that have become old are kept in a smaller form, or forgotten (catalog/cleaning.py).

-- The hours that each of these replays published whole: every chunk that the archive had of them when the replay was
-- planned, and every message of each.
create function nats3.whole_hours(replays text[]) returns table (replay text, hour text)
    language sql stable
    begin atomic
        with done as (
            select r.id, r.archive_id, r.created_at, c.hour, count(*) as chunks
            from nats3.replay r
            join nats3.replay_chunk p on p.replay_id = r.id
            join nats3.chunk c on c.id = p.chunk_id
            where r.id = any(replays) and r.folded_at is null
            group by r.id, c.hour
            having bool_and(p.state = 'done' and p.selected = p.planned)
        )
        select d.id, d.hour
        from done d
        where d.chunks = (
            select count(*) from nats3.chunk c
            where c.archive_id = d.archive_id and c.hour = d.hour and c.deleted_at is null and c.committed_at <= d.created_at
        ) + (
            select count(*) from nats3.chunk c
            where c.archive_id = d.archive_id and c.hour = d.hour and c.deleted_at > d.created_at
              and c.committed_at <= d.created_at
        )
        union all
        select r.id, h.hour from nats3.replay r cross join unnest(r.whole_hours) as h(hour)
        where r.id = any(replays) and r.folded_at is not null;
    end;

-- Whether an object that was put at a time was removed from its store since, and this many seconds ago.
create function nats3.was_removed(bucket text, key text, put_at timestamptz, keep_s bigint) returns boolean
    language sql stable
    begin atomic
        select exists (
            select from nats3.removal r
            where r.bucket = was_removed.bucket and r.key = was_removed.key and r.removed_at >= put_at
              and r.removed_at < now() - make_interval(secs => keep_s)
        );
    end;

-- Joins the gaps of chunks that were removed before a time: one for those of an hour, a reason and a replay that are
-- adjacent, with the sums of their chunks. Looks at this many; the number that it looked at.
create function nats3.join_retired(before timestamptz, most integer) returns bigint language plpgsql as $$
declare
    looked bigint[];
    island record;
    own bigint[];
    sums record;
begin
    looked := array(
        select id from nats3.gap where nats3.is_removed(reason) and not is_joined and recorded_at < before
        order by recorded_at limit most);
    perform from nats3.archive where id in (select archive_id from nats3.gap where id = any(looked))
    order by id for no key update;
    for island in
        select o.archive_id, o.incarnation_id, o.reason, o.first_hour, o.replay_id, unnest(range_agg(g.seqs)) as seqs
        from (
            select distinct archive_id, incarnation_id, reason, first_hour, replay_id
            from nats3.gap where id = any(looked)
        ) o
        join nats3.gap g on g.archive_id = o.archive_id and g.incarnation_id = o.incarnation_id and g.reason = o.reason
            and g.hours && nats3.hour_range(o.first_hour, o.first_hour) and g.first_hour = o.first_hour
            and g.replay_id is not distinct from o.replay_id and g.recorded_at < before
            and nats3.is_removed(g.reason)
        group by 1, 2, 3, 4, 5
    loop
        select array_agg(id order by id), sum(messages) as messages, sum(chunks) as chunks, max(newest_at) as newest_at,
               min(after_ns) as after_ns, max(before_ns) as before_ns
        into sums from nats3.gap g
        where g.archive_id = island.archive_id and g.incarnation_id = island.incarnation_id and g.seqs <@ island.seqs
          and g.reason = island.reason;
        own := sums.array_agg;
        delete from nats3.gap where id = any(own[2:]);
        update nats3.gap
        set seqs = island.seqs, messages = sums.messages, chunks = sums.chunks, newest_at = sums.newest_at,
            after_ns = sums.after_ns, before_ns = sums.before_ns, is_joined = true
        where id = own[1];
    end loop;
    update nats3.gap set is_joined = true where id = any(looked) and not is_joined;
    return cardinality(looked);
end
$$;
