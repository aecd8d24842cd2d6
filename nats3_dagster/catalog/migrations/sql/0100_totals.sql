-- Totals: what a monitoring system counts by. They only grow, whatever is retired, replaced, deleted or swept later.
-- Each is kept in the transaction that it counts, so a process that starts, and several at once, tell the same numbers.

-- Captures that have ended, however they ended; those that could not be written here, because Postgres was down, are not.
create table nats3.capture (
    id             bigint generated always as identity primary key,
    archive_id     bigint not null references nats3.archive,
    hour           text collate "C" not null check (hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'),
    started_at     timestamptz not null,
    finished_at    timestamptz not null default now(),
    -- What it added to the archive; 0 for one that failed, which may have added something too.
    messages       bigint not null check (messages >= 0),
    payload_bytes  bigint not null check (payload_bytes >= 0),
    -- The kind of the error and what happened; both null for one that completed.
    error_kind     text,
    error          text,
    actor          text not null default nats3.actor(),
    dagster_run_id text,
    constraint capture_error check ((error_kind is null) = (error is null))
);
create index capture_order on nats3.capture (archive_id, id);
-- The newest one that completed is kept however many failed since.
create index capture_completed on nats3.capture (archive_id, id) where error_kind is null;

create table nats3.total (
    archive_id bigint not null references nats3.archive,
    -- captured_*: of the chunks that captures committed, each time that one was. stored_bytes: of their objects. chunks: by
    -- size, see nats3.size_class. lost: sequences by reason, each time that a chunk or a gap recorded them. seals and
    -- seal_bytes: manifests. captures: that completed; failures: by kind. published_messages: of replays, as they are
    -- reported. published_bytes, fetched_*: of the chunks that replays have done. attempts: of replays that were folded,
    -- by how they ended.
    what       text collate "C" not null check (what in (
        'captured_messages', 'captured_bytes', 'stored_bytes', 'chunks', 'lost', 'seals', 'seal_bytes', 'captures',
        'failures', 'published_messages', 'published_bytes', 'fetched_objects', 'fetched_bytes', 'attempts')),
    label      text collate "C" not null,
    value      bigint not null check (value >= 0),
    primary key (archive_id, what, label)
);

create function nats3.total_refuse() returns trigger language plpgsql as $$
begin
    raise exception using
        errcode = 'integrity_constraint_violation', constraint = tg_name,
        message = format('%s of nats3.total is refused: totals only grow', tg_op);
end
$$;
create trigger total_grows before update on nats3.total for each row
    when (new.value < old.value or (new.archive_id, new.what, new.label) <> (old.archive_id, old.what, old.label))
    execute function nats3.total_refuse();
create trigger total_kept before delete on nats3.total for each row execute function nats3.total_refuse();

-- The smallest of these powers of four, from 64 KiB to 1 GiB, that an object of this size fits in; +Inf above.
create function nats3.size_class(bytes bigint) returns text
    language sql immutable strict parallel safe
    return coalesce((array['65536', '262144', '1048576', '4194304', '16777216', '67108864', '268435456', '1073741824'])[
        1 + width_bucket(bytes - 1, array[65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456, 1073741824])
    ], '+Inf');

-- Rows are added in the order of the key, so that no two transactions wait for each other.
create function nats3.chunk_counted() returns trigger language plpgsql as $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select a.archive_id, v.what, v.label, sum(v.value)
    from added a cross join lateral (values
        ('captured_messages', '', a.messages), ('captured_bytes', '', a.payload_bytes),
        ('stored_bytes', '', a.stored_bytes), ('chunks', nats3.size_class(a.stored_bytes), 1),
        ('lost', a.absent_reason, case when a.absent_reason not in ('deleted', 'unselected', 'erased') then a.absent end)
    ) as v(what, label, value)
    -- A compaction puts objects, and captures nothing.
    where v.value > 0 and (a.captured_at is null or v.what in ('stored_bytes', 'chunks'))
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;
create trigger chunk_counted after insert on nats3.chunk
    referencing new table as added for each statement execute function nats3.chunk_counted();

create function nats3.gap_counted() returns trigger language plpgsql as $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select archive_id, 'lost', reason, sum(nats3.size(seqs))
    from added where reason not in ('deleted', 'unselected') and not nats3.is_removed(reason)
    group by 1, 3 order by 1, 3
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;
-- Not what is left of a gap that yielded to a chunk: it was counted before.
create trigger gap_counted after insert on nats3.gap
    referencing new table as added for each statement when (pg_trigger_depth() = 0) execute function nats3.gap_counted();

create function nats3.seal_counted() returns trigger language plpgsql as $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select a.archive_id, v.what, '', sum(v.value)
    from added a cross join lateral (values ('seal_bytes', a.stored_bytes), ('seals', 1)) as v(what, value)
    group by 1, 2 order by 1, 2
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;
create trigger seal_counted after insert on nats3.seal
    referencing new table as added for each statement execute function nats3.seal_counted();

create function nats3.capture_counted() returns trigger language plpgsql as $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select archive_id, case when error_kind is null then 'captures' else 'failures' end, coalesce(error_kind, ''), count(*)
    from added group by 1, 2, 3 order by 1, 2, 3
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;
create trigger capture_counted after insert on nats3.capture
    referencing new table as added for each statement execute function nats3.capture_counted();

-- A new attempt begins its progress at 0, and finds what the one before it published: only what is more is counted.
create function nats3.replay_counted() returns trigger language plpgsql as $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    values (new.archive_id, 'published_messages', '',
            new.published + new.progress_published - old.published - old.progress_published)
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;
create trigger replay_counted after update of published, progress_published on nats3.replay for each row
    when (new.published + new.progress_published > old.published + old.progress_published)
    execute function nats3.replay_counted();

-- The catalog does not know the size of single messages: of a part of a chunk, the chunk's mean counts.
create function nats3.replay_chunk_counted() returns trigger language plpgsql as $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select r.archive_id, v.what, '', sum(v.value)
    from done d join pending p using (replay_id, chunk_id)
    join nats3.replay r on r.id = d.replay_id
    join nats3.chunk c on c.id = d.chunk_id
    cross join lateral (values
        ('fetched_objects', 1), ('fetched_bytes', c.stored_bytes),
        ('published_bytes', c.payload_bytes * (d.published + d.found) / c.messages)
    ) as v(what, value)
    where d.state = 'done' and p.state <> 'done' and v.value > 0
    group by 1, 2 order by 1, 2
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;
create trigger replay_chunk_counted after update on nats3.replay_chunk
    referencing old table as pending new table as done for each statement execute function nats3.replay_chunk_counted();
