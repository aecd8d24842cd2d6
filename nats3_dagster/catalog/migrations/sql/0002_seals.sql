-- How many messages of a chunk were stored in each minute of its hour; null in chunks that 0001 committed.
create function nats3.size(integer[]) returns bigint
    language sql immutable strict parallel safe
    return (select coalesce(sum(n), 0)::bigint from unnest($1) n);

alter table nats3.chunk add column minutes integer[];
alter table nats3.chunk add constraint chunk_minutes_account
    check (minutes is null or (cardinality(minutes) = 60 and nats3.size(minutes) = messages));
create trigger chunk_minutes_immutable before update of minutes on nats3.chunk
    for each row execute function nats3.refuse();

-- Hours before and after a sequence are looked up for each hole.
create index hour_seqs on nats3.hour (archive_id, incarnation_id, first_seq);

-- An hour that was sealed: its manifest is in the store. The highest number of an hour counts, and only while the hour is
-- as it was sealed: same revision and number of chunks (both 0 for an hour without messages).
create table nats3.seal (
    id             bigint generated always as identity primary key,
    archive_id     bigint not null references nats3.archive,
    hour           text collate "C" not null check (hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'),
    number         integer not null check (number > 0),
    revision       bigint not null,
    chunks         bigint not null check (chunks >= 0),
    messages       bigint not null check (messages >= 0),
    -- Sequences that the manifest lists as gaps.
    gaps           bigint not null check (gaps >= 0),
    bucket         text collate "C" not null,
    key            text collate "C" not null,
    sha256         text collate "C" not null check (sha256 ~ '^[0-9a-f]{64}$'),
    stored_bytes   bigint not null check (stored_bytes > 0),
    dagster_run_id text,
    sealed_at      timestamptz not null default now(),
    constraint seal_once unique (archive_id, hour, number)
);
create index seal_object on nats3.seal (bucket, key);
create trigger seal_immutable before update or delete on nats3.seal for each row execute function nats3.refuse();
