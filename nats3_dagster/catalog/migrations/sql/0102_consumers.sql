-- The consumers of a stream as they were at a time: an object for each look at them that found a change. Of hours that are over
-- the last of each is kept.
create table nats3.kept_consumers (
    id             bigint generated always as identity primary key,
    archive_id     bigint not null references nats3.archive,
    incarnation_id bigint not null references nats3.incarnation,
    hour           text collate "C" not null check (hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'),
    -- When the stream was asked, and its last sequence then or a little later.
    observed_ns    bigint not null,
    last_seq       bigint not null check (last_seq >= 0),
    consumers      integer not null check (consumers >= 0),
    -- SHA-256 of the consumers alone, without the time.
    content        text collate "C" not null check (content ~ '^[0-9a-f]{64}$'),
    bucket         text collate "C" not null,
    key            text collate "C" not null,
    sha256         text collate "C" not null check (sha256 ~ '^[0-9a-f]{64}$'),
    stored_bytes   bigint not null check (stored_bytes > 0),
    kept_at        timestamptz not null default now(),
    -- When a later one took its place, or it was not kept any longer.
    superseded_at  timestamptz
);
create unique index kept_consumers_once on nats3.kept_consumers (archive_id, incarnation_id, observed_ns)
    where superseded_at is null;
create index kept_consumers_object on nats3.kept_consumers (bucket, key);
create index kept_consumers_superseded on nats3.kept_consumers (superseded_at) where superseded_at is not null;

create trigger kept_consumers_immutable before update of id, archive_id, incarnation_id, hour, observed_ns, last_seq, consumers,
    content, bucket, key, sha256, stored_bytes, kept_at on nats3.kept_consumers for each row execute function nats3.refuse();

-- Why the consumers of an archive's stream cannot be kept, or not exactly, since when; no row where they are.
create table nats3.consumers_problem (
    archive_id bigint primary key references nats3.archive,
    -- As JSON, with its next step.
    error      text not null,
    since      timestamptz not null default now()
);

-- As chunks and manifests are, they are copied and removed (0100_copies.sql).
create trigger kept_consumers_copied after insert on nats3.kept_consumers referencing new table as added
    for each statement execute function nats3.copy_added();

create or replace function nats3.copies_changed() returns trigger language plpgsql as $$
begin
    delete from nats3.copy_task t where t.archive_id = new.id and t.bucket <> all (
        select unnest(new.copies));
    insert into nats3.copy_task (bucket, key, archive_id, hour, source, sha256, stored_bytes)
    select place, o.key, new.id, o.hour, o.bucket, o.sha256, o.stored_bytes
    from unnest(new.copies) place cross join (
        select key, hour, bucket, sha256, stored_bytes from nats3.chunk where archive_id = new.id and deleted_at is null
        union all
        select key, hour, bucket, sha256, stored_bytes from nats3.seal
        where archive_id = new.id and superseded_at is null
        union all
        select key, hour, bucket, sha256, stored_bytes from nats3.kept_consumers
        where archive_id = new.id and superseded_at is null
    ) o
    where place <> all (old.copies) and o.bucket = new.bucket
    on conflict (bucket, key) do update
    set archive_id = excluded.archive_id, hour = excluded.hour, source = excluded.source, sha256 = excluded.sha256,
        stored_bytes = excluded.stored_bytes, removes = false;
    return null;
end
$$;

create or replace function nats3.copy_removed() returns trigger language plpgsql as $$
begin
    insert into nats3.copy_task (bucket, key, archive_id, hour, source, sha256, stored_bytes, removes)
    select distinct on (place) place, new.key, a.id, o.hour, new.bucket, o.sha256, o.stored_bytes, true
    from (
        select archive_id, hour, sha256, stored_bytes from nats3.chunk where bucket = new.bucket and key = new.key
        union all
        select archive_id, hour, sha256, stored_bytes from nats3.seal where bucket = new.bucket and key = new.key
        union all
        select archive_id, hour, sha256, stored_bytes from nats3.kept_consumers where bucket = new.bucket and key = new.key
    ) o
    join nats3.archive a on a.id = o.archive_id cross join unnest(a.copies) place
    order by place, a.id desc
    on conflict (bucket, key) do update set removes = true, since = excluded.since;
    return null;
end
$$;
