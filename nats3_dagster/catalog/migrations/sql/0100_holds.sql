-- Holds: what must not leave an archive, whatever removes it.

create table nats3.hold (
    id          bigint generated always as identity primary key,
    archive_id  bigint not null references nats3.archive,
    name        text collate "C" not null check (name ~ '^[A-Za-z0-9_.-]{1,200}$'),
    -- The hours, by number, and the sequences, of every incarnation: both are held together; open where there is no bound.
    hours       int4range not null default int4range(null, null) check (not isempty(hours)),
    seqs        int8range not null default int8range(null, null) check (not isempty(seqs)),
    reason      text not null check (reason <> ''),
    actor       text not null default nats3.actor(),
    created_at  timestamptz not null default now(),
    -- When it was deleted, by whom and why; null while it holds.
    released_at timestamptz,
    released_by text,
    release_reason text check (release_reason <> ''),
    constraint hold_released
        check ((released_at is null) = (released_by is null) and (released_at is null) = (release_reason is null))
);
create unique index hold_name on nats3.hold (archive_id, name) where released_at is null;
create index hold_old on nats3.hold (released_at) where released_at is not null;

-- Whether a hold covers one of the sequences of a chunk of this hour.
create function nats3.is_held(archive bigint, of_hour text, range int8range) returns boolean stable language sql
    return exists (
        select from nats3.hold h
        where h.archive_id = archive and h.released_at is null and h.hours @> nats3.hour_number(of_hour) and h.seqs && range);

-- Whether a chunk has expired, and its hour was not sealed since.
create function nats3.is_unsealed_expiry(archive bigint, incarnation bigint, of_hour text, range int8range) returns boolean
    stable language sql
    return exists (
        select from nats3.gap g
        where g.archive_id = archive and g.incarnation_id = incarnation and g.seqs && range
          and g.reason = 'expired_by_policy')
    and exists (select from nats3.archive a where a.id = archive and a.deleted_at is null)
    and not exists (
        select from nats3.archive_hours k where k.archive_id = archive and k.sealed @> nats3.hour_number(of_hour));

-- A hold waits for what changes the archive, and for claims of objects: what was claimed before is gone, what comes later
-- sees the hold.
create function nats3.hold_placed() returns trigger language plpgsql as $$
begin
    perform from nats3.archive where id = new.archive_id and deleted_at is null for no key update;
    if not found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'archive_live',
            message = 'the archive is deleted';
    end if;
    -- What an erasure has decided to take out is not held any more.
    perform from nats3.open_erasure o join nats3.erased_range e on e.erasure_id = o.erasure_id
    join nats3.incarnation i on i.created_ns = e.created_ns
    join nats3.chunk c on c.archive_id = e.archive_id and c.incarnation_id = i.id and c.seqs && e.seqs and c.deleted_at is null
    where e.archive_id = new.archive_id and new.seqs && c.seqs and new.hours @> nats3.hour_number(c.hour)
      and nats3.may_have_any(c.seqs, c.deleted, int8multirange(e.seqs))
    limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'being_erased',
            message = 'messages are being erased';
    end if;
    -- Not the begin of the transaction: what was removed while it waited came before.
    new.created_at := clock_timestamp();
    perform pg_advisory_xact_lock_shared(hashtextextended('nats3.removal.' || b.bucket, 0))
    from (select distinct bucket from nats3.chunk where archive_id = new.archive_id and deleted_at is not null
          union select bucket from nats3.archive where id = new.archive_id order by 1) b;
    insert into nats3.event (archive_id, what, detail, actor)
    values (new.archive_id, 'held', jsonb_build_object('name', new.name, 'reason', new.reason), new.actor);
    return new;
end
$$;
create trigger hold_placed before insert on nats3.hold for each row execute function nats3.hold_placed();

create function nats3.hold_released() returns trigger language plpgsql as $$
begin
    insert into nats3.event (archive_id, what, detail, actor)
    values (new.archive_id, 'released',
            jsonb_build_object('name', new.name, 'reason', new.release_reason, 'held_for', new.reason), new.released_by);
    return null;
end
$$;
create trigger hold_released after update on nats3.hold for each row
    when (old.released_at is null and new.released_at is not null) execute function nats3.hold_released();
create trigger hold_immutable before update of id, archive_id, name, hours, seqs, reason, actor, created_at on nats3.hold
    for each row execute function nats3.refuse();

create trigger hold_kept before delete on nats3.hold for each row
    when (old.released_at is null) execute function nats3.refuse();

-- Refuses, at the end of a transaction, that held messages left the archive: a chunk may be replaced by chunks with all of
-- its messages, as a repair and a compaction do.
create function nats3.chunk_held() returns trigger language plpgsql as $$
declare
    live record;
begin
    select coalesce(range_agg(c.seqs), '{}') as seqs, coalesce(sum(c.messages), 0) as messages into live
    from nats3.chunk c
    where c.archive_id = new.archive_id and c.incarnation_id = new.incarnation_id and c.deleted_at is null
      and c.seqs && new.seqs;
    if live.seqs @> new.seqs and live.messages >= new.messages then
        return null;
    end if;
    raise exception using errcode = 'integrity_constraint_violation', constraint = 'held',
        message = format('sequences %s of the hour %s are held', new.seqs, new.hour),
        hint = (select a.name from nats3.archive a where a.id = new.archive_id),
        detail = (
            select h.name from nats3.hold h
            where h.archive_id = new.archive_id and h.released_at is null and h.hours @> nats3.hour_number(new.hour)
              and h.seqs && new.seqs
            order by h.id limit 1);
end
$$;
create constraint trigger chunk_held after update on nats3.chunk deferrable initially deferred for each row
    when (old.deleted_at is null and new.deleted_at is not null and nats3.is_held(new.archive_id, new.hour, new.seqs))
    execute function nats3.chunk_held();

create function nats3.archive_held() returns trigger language plpgsql as $$
declare
    holding text;
begin
    select name into holding from nats3.hold where archive_id = new.id and released_at is null order by id limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'held',
            message = format('the archive %s has the hold %s', new.name, holding), detail = holding, hint = new.name;
    end if;
    return new;
end
$$;
create trigger archive_held before update of deleted_at on nats3.archive for each row
    when (old.deleted_at is null and new.deleted_at is not null) execute function nats3.archive_held();
