-- Sums that triggers keep: what is asked of an archive must not read all that it has.

-- The sequences in gaps, by reason.
create table nats3.gap_sum (
    archive_id     bigint not null,
    incarnation_id bigint not null,
    reason         text collate "C" not null,
    sequences      bigint not null check (sequences >= 0),
    primary key (archive_id, incarnation_id, reason),
    foreign key (archive_id, incarnation_id) references nats3.coverage
);

-- The hours of an archive: how many have messages, and which ones are sealed.
create table nats3.archive_hours (
    archive_id    bigint primary key references nats3.archive,
    -- Hours with live chunks.
    hours         bigint not null default 0 check (hours >= 0),
    -- Hours that are as they were sealed, by number: one range, and one more for each hour between them that is not. An
    -- hour is taken out with each change, so that none in it has to be looked at again.
    sealed        int4multirange not null default '{}',
    -- Of the sealed hours, those that a compaction has left as they are: nothing in them is to be merged.
    compacted     int4multirange not null default '{}' check (compacted <@ sealed),
    -- Of the sealed hours, those with messages, and those without.
    sealed_filled bigint not null default 0 check (sealed_filled between 0 and hours),
    sealed_empty  bigint not null default 0 check (sealed_empty >= 0)
);

-- Other chunks are small now: all hours are to be looked at once more.
create function nats3.reopen_compacted() returns trigger language plpgsql as $$
begin
    update nats3.archive_hours set compacted = '{}' where archive_id = new.id;
    return null;
end
$$;
create trigger reopen_compacted after update of compact_below on nats3.archive for each row
    when (old.compact_below <> new.compact_below) execute function nats3.reopen_compacted();

-- Takes hours that have changed out of the sealed ones.
create function nats3.unseal(archive bigint, changed int4multirange) returns void language plpgsql as $$
declare
    gone int4multirange;
begin
    select sealed * changed into gone from nats3.archive_hours where archive_id = archive and sealed && changed;
    if not found then
        return;
    end if;
    update nats3.archive_hours h
    set sealed = h.sealed - gone, compacted = h.compacted - gone, sealed_filled = h.sealed_filled - n.filled, sealed_empty = h.sealed_empty - n.empty
    from (
        select count(*) filter (where chunks > 0) as filled, count(*) filter (where chunks = 0) as empty
        from (
            select distinct on (hour) hour, chunks from nats3.seal
            where archive_id = archive and hour between nats3.hour_at(lower(gone)) and nats3.hour_at(upper(gone) - 1)
              and nats3.hour_number(hour) <@ gone
            order by hour, number desc
        ) newest
    ) n
    where h.archive_id = archive;
end
$$;

-- Marks earlier seals of the hour as superseded, and adds the hour to the sealed ones if this one holds.
create function nats3.seal_holds() returns trigger language plpgsql as $$
declare
    own int4multirange := int4multirange(nats3.hour_range(new.hour, new.hour));
begin
    update nats3.seal set superseded_at = now()
    where archive_id = new.archive_id and hour = new.hour and number < new.number and superseded_at is null;
    perform from nats3.valid_seals(new.archive_id, new.hour, new.hour);
    if not found then
        return null;
    end if;
    perform nats3.unseal(new.archive_id, own);
    insert into nats3.archive_hours as h (archive_id, sealed, sealed_filled, sealed_empty)
    values (new.archive_id, own, 0, 0) on conflict (archive_id) do update set sealed = h.sealed + excluded.sealed;
    update nats3.archive_hours set sealed_filled = sealed_filled + (new.chunks > 0)::integer,
        sealed_empty = sealed_empty + (new.chunks = 0)::integer
    where archive_id = new.archive_id;
    return null;
end
$$;
create trigger seal_holds after insert on nats3.seal for each row execute function nats3.seal_holds();

-- Makes one gap of the first and last of these and their neighbours where they say the same. Those between were made at
-- once, and do not touch each other. What was removed is joined later (cleaning.sql).
create function nats3.join_gaps(ids bigint[]) returns void language plpgsql as $$
declare
    added nats3.gap;
    other nats3.gap;
begin
    for added in
        select g.* from nats3.gap g join (
            select (array_agg(id order by lower(seqs)))[1] as first, (array_agg(id order by lower(seqs) desc))[1] as last
            from nats3.gap where id = any(ids) and not nats3.is_removed(reason) group by archive_id, incarnation_id, reason
        ) edge on g.id in (edge.first, edge.last)
        order by lower(g.seqs)
    loop
        for other in
            (select * from nats3.gap g
             where g.archive_id = added.archive_id and g.incarnation_id = added.incarnation_id
               and lower(g.seqs) < lower(added.seqs)
             order by lower(g.seqs) desc limit 1)
            union all
            (select * from nats3.gap g
             where g.archive_id = added.archive_id and g.incarnation_id = added.incarnation_id
               and lower(g.seqs) = upper(added.seqs))
        loop
            if other.seqs -|- added.seqs
               and (other.reason, other.first_hour, other.last_hour, other.after_ns, other.before_ns) is not distinct from
                   (added.reason, added.first_hour, added.last_hour, added.after_ns, added.before_ns) then
                delete from nats3.gap where id = added.id;
                other.seqs := other.seqs + added.seqs;
                update nats3.gap set seqs = other.seqs where id = other.id;
                added := other;
            end if;
        end loop;
    end loop;
end
$$;

-- The hours from first to last that are as they were sealed and are not known to be compacted, that ended by a time, and
-- that have more than one chunk; none from which chunks were taken.
create function nats3.hours_to_compact(archive bigint, before timestamptz, first text, last text) returns setof text
    language sql stable
    begin atomic
        select n.hour from (
            select nats3.hour_at(g) as hour
            from nats3.archive_hours a
            cross join unnest((a.sealed - a.compacted) * int4multirange(
                nats3.hour_range(first, last) * int4range(null, floor(extract(epoch from before) / 3600)::integer))) r
            cross join generate_series(lower(r), upper(r) - 1) g
            where a.archive_id = archive
        ) n
        where (select sum(h.chunks) from nats3.hour h where h.archive_id = archive and h.hour = n.hour) > 1
          and not exists (
              select from nats3.gap g
              where g.archive_id = archive and g.reason = 'retired' and g.hours @> nats3.hour_number(n.hour));
    end;
