-- What exists. Sequences are JetStream stream sequences; a range covers its lower bound and stops before its upper.
-- Times ending in _ns are nanoseconds since 1970 in UTC. dagster_run_id is the run that made the row, where one did.

-- Who works with the catalog: a user and a host, as the process gives them (session.sql), else the role.
create function nats3.actor() returns text language sql stable
    return coalesce(nullif(current_setting('nats3.actor', true), ''), current_user::text);

create function nats3.size(int8range) returns bigint
    language sql immutable strict parallel safe
    return upper($1) - lower($1);

create function nats3.size(int8multirange) returns bigint
    language sql immutable strict parallel safe
    return (select coalesce(sum(upper(r) - lower(r)), 0)::bigint from unnest($1) r);

create function nats3.size(integer[]) returns bigint
    language sql immutable strict parallel safe
    return (select coalesce(sum(n), 0)::bigint from unnest($1) n);

create function nats3.hour_of(ns bigint) returns text
    language sql immutable strict parallel safe
    return to_char(to_timestamp(ns / 1000000000) at time zone 'UTC', 'YYYY-MM-DD-HH24:00') collate "C";

create function nats3.hour_start(hour text) returns timestamptz
    language sql immutable strict parallel safe
    return to_timestamp(hour || '+00', 'YYYY-MM-DD-HH24:MITZH');

-- The hours since 1970 at the begin of an hour, and the hour of such a number.
create function nats3.hour_number(hour text) returns integer
    language sql immutable strict parallel safe
    return (extract(epoch from nats3.hour_start(hour))::bigint / 3600)::integer;
create function nats3.hour_at(number integer) returns text
    language sql immutable strict parallel safe
    return nats3.hour_of(number * 3600000000000);

-- The hours from first to last as numbers: open where there is no bound, and empty where the last is before the first.
create function nats3.hour_range(first text, last text) returns int4range
    language sql immutable parallel safe
    return case when first > last then 'empty'::int4range
                else int4range(nats3.hour_number(first), nats3.hour_number(last), '[]') end;

-- One life of a stream, with the state last seen.
create table nats3.incarnation (
    id          bigint generated always as identity primary key,
    stream      text not null,
    created_ns  bigint not null,
    config      jsonb not null,
    -- The settings that remove messages and that were ever seen, as the configuration has them: what they removed may be
    -- noticed after they were changed.
    removing    jsonb not null default '{}',
    first_seq   bigint not null,
    last_seq    bigint not null,
    first_ns    bigint not null,
    last_ns     bigint not null,
    messages    bigint not null,
    bytes       bigint not null,
    observed_at timestamptz not null default now(),
    constraint incarnation_once unique (stream, created_ns)
);

create table nats3.archive (
    id           bigint generated always as identity primary key,
    name         text not null check (name ~ '^[A-Za-z0-9_]+$'),
    -- How the HTTP API knows it. job_name: the name as the client gave it; null: the archive's name.
    job_id       uuid not null default gen_random_uuid() unique,
    job_name     text check (job_name <> ''),
    stream       text not null,
    bucket       text not null,
    prefix       text not null,
    subjects     text[] not null,
    -- The subjects that it had before: of an incarnation by its created_ns, up to last_seq. Ascending; only appended to.
    former_filters jsonb not null default '[]',
    mode         text not null check (mode in ('stream', 'consumer')),
    durable      text,
    max_messages bigint not null check (max_messages > 0),
    max_bytes    bigint not null check (max_bytes > 0),
    max_age_s    bigint not null check (max_age_s > 0),
    zstd_level   smallint not null check (zstd_level between 1 and 22),
    -- Seconds after an hour's end from which on it is compacted; 0: only when somebody asks. Chunks with compact_below bytes
    -- of subjects, headers and payloads or more are left alone.
    compact_after_s bigint not null check (compact_after_s >= 0),
    compact_below bigint not null check (compact_below > 0),
    -- How long its messages are kept, and how many stored bytes; 0: for ever, and any number.
    keep_s       bigint not null default 0 check (keep_s >= 0),
    keep_bytes   bigint not null default 0 check (keep_bytes >= 0),
    -- Other buckets that have its objects under the same keys, each as s3://BUCKET.
    copies       text[] not null default '{}',
    -- What Dagster shows of its assets, and how it runs them. tags: each as KEY=VALUE. Windows of freshness in seconds;
    -- 0: as the check of its captures has it.
    group_name   text not null default '',
    owners       text[] not null default '{}',
    tags         text[] not null default '{}',
    kinds        text[] not null default '{}',
    pool         text not null default '',
    retries      int not null default 0 check (retries >= 0),
    retry_delay_s bigint not null default 0 check (retry_delay_s >= 0),
    fail_window_s bigint not null default 0 check (fail_window_s >= 0),
    warn_window_s bigint not null default 0 check (warn_window_s >= 0),
    -- Its replays by name: tables of a name and the settings that differ from their default.
    presets      jsonb not null default '[]',
    paused       boolean not null default false,
    -- Goes up by one with every commit or retirement. Each hour keeps the one with which it last changed.
    revision     bigint not null default 0,
    created_at   timestamptz not null default now(),
    -- When its settings last changed, or its pause; captures do not count.
    updated_at   timestamptz not null default now(),
    deleted_at   timestamptz
);
create unique index archive_name on nats3.archive (name) where deleted_at is null;
create unique index archive_job_name on nats3.archive (coalesce(job_name, name)) where deleted_at is null;
-- Two archives would take each other's messages.
create unique index archive_durable on nats3.archive (stream, durable) where deleted_at is null;

create function nats3.archive_updated() returns trigger language plpgsql as $$
begin
    new.updated_at := now();
    return new;
end
$$;
create trigger archive_updated before update on nats3.archive for each row
    when (to_jsonb(old) - '{revision, updated_at, deleted_at}'::text[]
          is distinct from to_jsonb(new) - '{revision, updated_at, deleted_at}'::text[])
    execute function nats3.archive_updated();

-- What an archive has of one incarnation. Kept by triggers (proofs.sql) but for start_seq and the witness.
create table nats3.coverage (
    archive_id     bigint not null references nats3.archive,
    incarnation_id bigint not null references nats3.incarnation,
    start_seq      bigint not null check (start_seq >= 1),
    -- The union of all live chunks and gaps: one range, and one more for each hole. It is kept, because a sensor asks
    -- for it every few seconds, and range_agg over a million chunks takes a second.
    covered        int8multirange not null default '{}' check (covered <@ int8range(start_seq, null)),
    -- Everything in [start_seq, frontier] is covered; start_seq - 1 when nothing is.
    frontier       bigint not null
        generated always as (lower(int8multirange(int8range(start_seq, null)) - covered) - 1) stored,
    -- The highest sequence covered, beyond a hole or not.
    last_seq       bigint not null generated always as (coalesce(upper(covered), start_seq) - 1) stored,
    chunks         bigint not null default 0,
    messages       bigint not null default 0,
    absent         bigint not null default 0,
    -- Of `absent`, what was lost, by reason.
    expired        bigint not null default 0,
    superseded     bigint not null default 0,
    ttl            bigint not null default 0,
    superseded_or_ttl bigint not null default 0,
    damaged        bigint not null default 0,
    undelivered    bigint not null default 0,
    payload_bytes  bigint not null default 0,
    stored_bytes   bigint not null default 0,
    first_ns       bigint,
    last_ns        bigint,
    -- The newest captured sequence of which the store time is known, with that time: a stream that has another message
    -- there now has forgotten its end and given the sequences out again.
    witness_seq    bigint,
    witness_ns     bigint,
    -- The `created` time of the stream that was restored from a backup and continues this incarnation, in nanoseconds.
    restored_ns    bigint,
    -- Set where the stream was removed, and may have had messages that no process saw: the last sequence it was seen
    -- with. A loss of unknown size.
    unknown_after  bigint,
    primary key (archive_id, incarnation_id),
    constraint coverage_witness check ((witness_seq is null) = (witness_ns is null))
);

-- The durable consumer of an archive of the mode `consumer`, and which of its deliveries are accounted for.
create table nats3.durable (
    archive_id     bigint primary key references nats3.archive,
    -- When the server made it: one that was made again under its name has another time.
    created_ns     bigint not null,
    -- Up to this sequence it may have missed messages: they were stored while there was no durable, or delivered by one
    -- that counted differently. 0 where it missed none.
    missed_seq     bigint not null default 0 check (missed_seq >= 0),
    -- The number of deliveries, by its own count, up to which all are accounted for, and those after it that are.
    consumer_seq   bigint not null check (consumer_seq >= 0),
    accounted      bigint not null default 0 check (accounted >= 0),
    -- The most deliveries that one of these messages took before it was committed.
    most_deliveries bigint not null default 1 check (most_deliveries >= 1),
    -- The subject of its last session, where its flow control acknowledges; otherwise empty. It counts from 1 on in each.
    session        text not null default ''
);

create table nats3.chunk (
    id             bigint generated always as identity primary key,
    archive_id     bigint not null,
    incarnation_id bigint not null,
    hour           text collate "C" not null check (hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'),
    seqs           int8range not null,
    messages       bigint not null check (messages > 0),
    absent         bigint not null generated always as (upper(seqs) - lower(seqs) - messages) stored,
    deleted        int8multirange,
    -- Why the sequences that the chunk covers and has no message of are absent; null where there are none.
    absent_reason  text,
    -- How many of its messages were stored in each minute of its hour; null where they were not counted.
    minutes        integer[],
    first_ns       bigint not null,
    last_ns        bigint not null,
    payload_bytes  bigint not null check (payload_bytes >= 0),
    largest_bytes  bigint not null check (largest_bytes >= 0),
    stored_bytes   bigint not null check (stored_bytes > 0),
    sha256         text collate "C" not null check (sha256 ~ '^[0-9a-f]{64}$'),
    bucket         text collate "C" not null,
    key            text collate "C" not null,
    -- How many subjects nats3.chunk_subject has for it; null where they were not counted.
    subjects       integer check (subjects > 0),
    dagster_run_id text,
    committed_at   timestamptz not null default now(),
    -- Of a chunk that a compaction wrote: when the newest of its messages came into the archive. Null for one of a capture.
    captured_at    timestamptz,
    deleted_at     timestamptz,
    -- The revision of the archive that was the first without it; null while it is live.
    retired_revision bigint,
    foreign key (archive_id, incarnation_id) references nats3.coverage,
    constraint chunk_retired_account check ((retired_revision is null) = (deleted_at is null)),
    constraint chunk_seqs_proper check (coalesce(lower(seqs) >= 1, false) and not upper_inf(seqs)),
    constraint chunk_accounts check (absent >= 0),
    constraint chunk_deleted_accounts check (deleted is null or (deleted <@ seqs and nats3.size(deleted) = absent)),
    constraint chunk_absent_reason check (
        (absent_reason is not null) = (absent > 0)
        and absent_reason in ('deleted', 'expired', 'superseded', 'ttl', 'superseded_or_ttl', 'damaged', 'undelivered',
                              'unselected', 'erased')
        -- Only a subject filter leaves open which sequences are absent.
        and (absent_reason = 'unselected' or deleted is not null)),
    constraint chunk_minutes_account check (
        minutes is null or (cardinality(minutes) = 60 and nats3.size(minutes) = messages)),
    constraint chunk_times_ordered check (first_ns <= last_ns),
    constraint chunk_no_overlap exclude using gist (archive_id with =, incarnation_id with =, seqs with &&)
        where (deleted_at is null)
);
create unique index chunk_key on nats3.chunk (bucket, key) where deleted_at is null;
create index chunk_hour on nats3.chunk (archive_id, hour) where deleted_at is null;
create index chunk_order on nats3.chunk (archive_id, incarnation_id, lower(seqs)) where deleted_at is null;
create index chunk_times on nats3.chunk using gist (archive_id, int8range(first_ns, last_ns, '[]'))
    where deleted_at is null;
-- For the first chunk that reaches a time: clocks step back, so the last times do not ascend with the sequences.
create index chunk_reach on nats3.chunk using gist (archive_id, incarnation_id, lower(seqs), last_ns)
    where deleted_at is null;
-- They are few, and every read of a selection says what of it was erased.
create index chunk_erased on nats3.chunk (archive_id) where deleted_at is null and absent_reason = 'erased';
create index chunk_dead on nats3.chunk (archive_id, id) where deleted_at is not null;
create index chunk_retired on nats3.chunk (archive_id, retired_revision) where deleted_at is not null;
create index chunk_old on nats3.chunk (deleted_at) where deleted_at is not null;
create index chunk_dead_hour on nats3.chunk (archive_id, hour) where deleted_at is not null;
create index chunk_dead_object on nats3.chunk (bucket, key) where deleted_at is not null;
-- What was once in a chunk is of that chunk's hour.
create index chunk_dead_seqs on nats3.chunk using gist (archive_id, incarnation_id, seqs) where deleted_at is not null;

-- Chunks that a compaction retired, each with the one that has its messages now: that of the newest compaction.
create table nats3.merged_chunk (
    chunk_id bigint primary key references nats3.chunk on delete cascade,
    into_id  bigint not null references nats3.chunk on delete cascade
);
create index merged_chunk_into on nats3.merged_chunk (into_id);

-- Whether the archive has the messages of a chunk: it is live, or it was merged into one that is.
create function nats3.has_messages(c nats3.chunk) returns boolean
    language sql stable
    return c.deleted_at is null or exists (
        select from nats3.merged_chunk m join nats3.chunk n on n.id = m.into_id
        where m.chunk_id = c.id and n.deleted_at is null);

-- How far two numbers are apart, by the operator by which a GiST index finds the nearest first. The extension is where
-- an administrator installed it.
do $$
begin
    execute format(
        'create function nats3.distance(a bigint, b bigint) returns bigint
             language sql immutable parallel safe return a operator(%s.<->) b',
        (select extnamespace::regnamespace from pg_extension where extname = 'btree_gist'));
end
$$;

-- Uncounted chunks in the order of the stream: each may have any subject that its filter takes.
create index chunk_uncounted on nats3.chunk (archive_id, incarnation_id, lower(seqs))
    where deleted_at is null and subjects is null;

-- The text that a subject is indexed by: itself, or its first characters and its hash, because an index entry has an end.
-- No two stored texts have the same one (a hash is longer than what it stands for), and they sort as the subjects do up to those characters.
-- Two functions: Postgres puts the first one's text in place of its call, as it would not with `convert_to` in it.
create function nats3.long_subject_key(subject text) returns text
    language sql immutable parallel safe
    return left(subject, 64) || ' ' || encode(sha256(convert_to(subject, 'UTF8')), 'hex');
create function nats3.subject_key(subject text) returns text
    language sql immutable parallel safe
    return (case when octet_length(subject) <= 256 then subject else nats3.long_subject_key(subject) end) collate "C";

-- The messages of each live chunk by subject. Archive, incarnation and first sequence are those of the chunk, so that one
-- index says which chunk of an archive is the next, or the newest, with a subject. Rows go when their chunk is retired.
-- No foreign key: it would look the chunk up once for each row, and the triggers (proofs.sql) hold all that it would.
create table nats3.chunk_subject (
    chunk_id       bigint not null,
    archive_id     bigint not null,
    incarnation_id bigint not null,
    first_seq      bigint not null,
    -- As catalog.subjects.to_stored has it: no two subjects that differ in a byte have the same text.
    subject        text collate "C" not null,
    messages       bigint not null check (messages > 0)
);
create index chunk_subject_chunk on nats3.chunk_subject (chunk_id);
-- Not unique: the trigger of the rows counts them.
create index chunk_subject_order on nats3.chunk_subject
    (archive_id, incarnation_id, nats3.subject_key(subject), first_seq);

-- The bloom filter of the subjects of a live chunk that has too many to count (docs/chunk-format.md). A lookup reads one block
-- of 32 bytes, not the filter: external storage is not compressed.
create table nats3.chunk_bloom (
    chunk_id bigint primary key references nats3.chunk on delete cascade,
    blocks   bytea not null check (length(blocks) > 0 and length(blocks) % 32 = 0)
);
alter table nats3.chunk_bloom alter column blocks set storage external;

-- Whether a subject may be in a filter: `place` is the upper half of its hash, `bits` are those that it has in its block.
create function nats3.may_have(blocks bytea, place bigint, bits integer[]) returns boolean
    language sql immutable parallel safe
    return (
        select bool_and(get_bit(block, bit) = 1)
        from substring(blocks from ((place * (octet_length(blocks) / 32)) >> 32)::integer * 32 + 1 for 32) as block,
             unnest(bits) as bit
    );

-- Whether a reason says that messages were captured, and taken out of the archive on purpose: after a replay, because the
-- archive does not keep them any longer, or because they had to be erased.
create function nats3.is_removed(reason text) returns boolean
    language sql immutable strict parallel safe
    return reason in ('retired', 'expired_by_policy', 'erased');

-- What no chunk holds, and why: one row for each contiguous range of one reason, and of the same hours and times. A gap has no messages, so it has no hour by itself: its
-- hours lie between those of its neighbours (gaps.sql).
create table nats3.gap (
    id             bigint generated always as identity primary key,
    archive_id     bigint not null,
    incarnation_id bigint not null,
    seqs           int8range not null,
    reason         text not null check (reason in (
        'deleted', 'expired', 'superseded', 'ttl', 'superseded_or_ttl', 'damaged', 'undelivered', 'unselected',
        'missing', 'retired', 'expired_by_policy', 'erased')),
    -- The messages of the gap were stored from after_ns to before_ns. Null where nothing is missing: what was deleted or
    -- not selected was somebody's will.
    after_ns       bigint,
    before_ns      bigint,
    -- The same as hours. They are one hour where it is known, as it is of a chunk that was retired.
    first_hour     text collate "C",
    last_hour      text collate "C",
    -- The same as numbers of hours.
    hours          int4range generated always as (nats3.hour_range(first_hour, last_hour)) stored,
    dagster_run_id text,
    recorded_at    timestamptz not null default now(),
    -- Of the chunks that were retired, null for any other reason: their messages, how many they are, when the newest one
    -- was committed, and the replay that published them before, if one did.
    messages       bigint,
    chunks         bigint,
    newest_at      timestamptz,
    replay_id      text collate "C",
    -- Whether it was joined with its neighbours (cleaning.sql).
    is_joined      boolean not null default false,
    foreign key (archive_id, incarnation_id) references nats3.coverage,
    constraint gap_seqs_proper check (coalesce(lower(seqs) >= 1, false) and not upper_inf(seqs)),
    constraint gap_hours_ordered check (
        (first_hour is null) = (last_hour is null) and (first_hour is null or first_hour <= last_hour)),
    constraint gap_no_overlap exclude using gist (archive_id with =, incarnation_id with =, seqs with &&)
);
create index gap_order on nats3.gap (archive_id, incarnation_id, lower(seqs));
create index gap_hours on nats3.gap using gist (archive_id, hours) where first_hour is not null;
create index gap_retired on nats3.gap (archive_id, incarnation_id, lower(seqs)) where nats3.is_removed(reason);
create index gap_unjoined on nats3.gap (recorded_at) where nats3.is_removed(reason) and not is_joined;

-- Live chunks summed by hour, kept by triggers: a listing of a year's hours must not read a million chunks.
create table nats3.hour (
    archive_id     bigint not null,
    incarnation_id bigint not null,
    hour           text collate "C" not null,
    chunks         bigint not null,
    messages       bigint not null,
    absent         bigint not null,
    -- Of `absent`, what was lost, by reason.
    expired        bigint not null default 0,
    superseded     bigint not null default 0,
    ttl            bigint not null default 0,
    superseded_or_ttl bigint not null default 0,
    damaged        bigint not null default 0,
    undelivered    bigint not null default 0,
    payload_bytes  bigint not null,
    stored_bytes   bigint not null,
    first_seq      bigint not null,
    last_seq       bigint not null,
    first_ns       bigint not null,
    last_ns        bigint not null,
    revision       bigint not null,
    primary key (archive_id, hour, incarnation_id),
    foreign key (archive_id, incarnation_id) references nats3.coverage
);
-- Hours before and after a sequence are looked up for each hole.
create index hour_seqs on nats3.hour (archive_id, incarnation_id, first_seq);
-- Hours interleave where a clock stepped: a sequence may lie between the chunks of several hours.
create index hour_span on nats3.hour using gist (archive_id, incarnation_id, int8range(first_seq, last_seq, '[]'));

-- An hour that was sealed: its manifest is in the store. The highest number of an hour counts, and only while the hour is
-- as it was sealed: same revision and number of chunks (both 0 for an hour without messages), and same losses.
create table nats3.seal (
    id             bigint generated always as identity primary key,
    archive_id     bigint not null references nats3.archive,
    hour           text collate "C" not null check (hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'),
    number         integer not null check (number > 0),
    revision       bigint not null,
    chunks         bigint not null check (chunks >= 0),
    -- Sequences that were lost, or retired, and may belong to the hour.
    losses         bigint not null check (losses >= 0),
    messages       bigint not null check (messages >= 0),
    -- Sequences that the manifest lists as gaps.
    gaps           bigint not null check (gaps >= 0),
    -- The version of what the hour holds: 16 hex digits that do not depend on how it is cut into chunks.
    content        text collate "C" not null check (content ~ '^[0-9a-f]{16}$'),
    bucket         text collate "C" not null,
    key            text collate "C" not null,
    sha256         text collate "C" not null check (sha256 ~ '^[0-9a-f]{64}$'),
    stored_bytes   bigint not null check (stored_bytes > 0),
    actor          text not null default nats3.actor(),
    dagster_run_id text,
    sealed_at      timestamptz not null default now(),
    -- When the hour was sealed again; null for its newest seal.
    superseded_at  timestamptz,
    constraint seal_once unique (archive_id, hour, number)
);
create index seal_object on nats3.seal (bucket, key);
create index seal_superseded on nats3.seal (superseded_at) where superseded_at is not null;
-- A sensor asks every few seconds for the newest seal of each archive.
create index seal_newest on nats3.seal (archive_id, id);

-- Numbers of changes of exports. Each is taken under the lock of the archive's row, so that within an archive they are
-- committed in their order, and who has seen one has seen all before it.
create sequence nats3.export_change;

-- What an archive exports, and how: a declaration. Deleting one keeps the files that were made by it.
create table nats3.export (
    id           bigint generated always as identity primary key,
    archive_id   bigint not null references nats3.archive,
    name         text collate "C" not null check (name ~ '^[A-Za-z0-9_]+$'),
    -- The fields of model.ExportSpec.
    spec         jsonb not null,
    -- The URL of the folder that all its files are in, with a slash at its end. No two live exports share one, and none
    -- lies in that of another.
    place        text collate "C" not null check (place like '%/'),
    -- Counts the specs that it has had, from 1.
    version      integer not null default 1 check (version > 0),
    change       bigint not null default nextval('nats3.export_change'),
    created_at   timestamptz not null default now(),
    updated_at   timestamptz not null default now(),
    deleted_at   timestamptz
);
create unique index export_name on nats3.export (archive_id, name) where deleted_at is null;
create unique index export_place on nats3.export (place) where deleted_at is null;
create index export_changes on nats3.export (archive_id, change);

-- An hour that was exported, or could not be. What it was made of is null until it was made once; the error is null
-- unless the newest attempt failed.
create table nats3.export_hour (
    export_id      bigint not null references nats3.export,
    archive_id     bigint not null references nats3.archive,
    hour           text collate "C" not null check (hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'),
    -- The hour's revision and number of chunks, and the version of the export's spec, that the files were made from.
    -- The revision is -1 while files by another version replace them.
    revision       bigint,
    chunks         bigint check (chunks >= 0),
    version        integer,
    files          bigint check (files >= 0),
    -- Messages in the files, those that the user's decoder dropped, those in dead letters, and the size of the files.
    messages       bigint check (messages >= 0),
    dropped        bigint check (dropped >= 0),
    undecoded      bigint check (undecoded >= 0),
    bytes          bigint check (bytes >= 0),
    -- The version of the files, 16 hex digits: it changes with their paths and bytes alone.
    content        text collate "C" check (content ~ '^[0-9a-f]{16}$'),
    -- The object that lists the files.
    manifest       text collate "C",
    made_at        timestamptz,
    -- The newest attempt's kind of error and what happened, and how many failed in a row.
    error_kind     text,
    error          text,
    failures       integer not null default 0 check (failures >= 0),
    failed_at      timestamptz,
    dagster_run_id text,
    change         bigint not null default nextval('nats3.export_change'),
    primary key (export_id, hour),
    constraint export_hour_made check (
        num_nulls(revision, chunks, version, files, messages, dropped, undecoded, bytes, content, manifest, made_at)
        in (0, 11)),
    constraint export_hour_failed check (
        (failures > 0) = (error is not null) and num_nulls(error_kind, error, failed_at) in (0, 3)),
    constraint export_hour_something check (made_at is not null or failures > 0)
);
create index export_hour_changes on nats3.export_hour (archive_id, change);

-- Objects that somebody is deleting, or has deleted, from the store.
create table nats3.removal (
    bucket     text collate "C" not null,
    key        text collate "C" not null,
    claimed_at timestamptz not null default now(),
    removed_at timestamptz,
    primary key (bucket, key)
);
-- Objects that the store did not let go, as it does under Object Lock: a sweep takes them last, or it would ask for the
-- same ones for ever.
create table nats3.refused_removal (
    bucket     text collate "C" not null,
    key        text collate "C" not null,
    refused_at timestamptz not null default now(),
    primary key (bucket, key)
);
create index removal_removed on nats3.removal (removed_at) where removed_at is not null;

create table nats3.replay (
    id             text collate "C" primary key check (id ~ '^[0-9a-f]{16}$'),
    archive_id     bigint not null references nats3.archive,
    spec           jsonb not null,
    state          text not null default 'planned'
        -- A replay that somebody paused is not one that was canceled with its process.
        check (state in ('planned', 'running', 'succeeded', 'failed', 'canceled', 'paused')),
    attempt        integer not null default 0,
    error          text,
    chunks         bigint not null,
    -- Sums over the chunks that are done.
    chunks_done    bigint not null default 0,
    selected       bigint not null default 0,
    published      bigint not null default 0,
    found          bigint not null default 0,
    duplicates     bigint not null default 0,
    -- Messages that a live replay left out, because their own time to live had ended.
    expired        bigint not null default 0 check (expired >= 0),
    -- What the tasks of the newest attempt have reported of chunks that are not done: messages that the targets
    -- acknowledged, and messages found there. At least these: reports come several times a second, and are kept every few
    -- seconds.
    progress_published bigint not null default 0 check (progress_published >= 0),
    progress_found bigint not null default 0 check (progress_found >= 0),
    -- Who planned it.
    actor          text not null default nats3.actor(),
    dagster_run_id text,
    created_at     timestamptz not null default now(),
    started_at     timestamptz,
    finished_at    timestamptz,
    deleted_at     timestamptz,
    -- By which a load job of the HTTP API is known, and what its client calls it.
    job_id         uuid not null default gen_random_uuid() constraint replay_job unique,
    job_name       text,
    -- How often a run or a process was started for it: only the newest one may begin an attempt.
    launch         integer not null default 0,
    -- When that was; null where a run of Dagster was started, which waits in its queue for as long as it must.
    launched_at    timestamptz default now(),
    -- Whether what was started last has begun. It has the lock of its launch from then on until it ends.
    launch_begun   boolean not null default false,
    -- When its chunks and attempts were forgotten, long after its end; and the hours that it had published whole.
    folded_at      timestamptz,
    whole_hours    text[] collate "C" not null default '{}',
    updated_at     timestamptz not null default now(),
    constraint replay_complete check (chunks_done <= chunks and (state <> 'succeeded' or chunks_done = chunks))
);
create index replay_archive on nats3.replay (archive_id, created_at);
create index replay_newest on nats3.replay (created_at);
create index replay_changed on nats3.replay (archive_id, updated_at);
create index replay_unfolded on nats3.replay (created_at) where folded_at is null;

create function nats3.replay_updated() returns trigger language plpgsql as $$
begin
    new.updated_at := clock_timestamp();
    return new;
end $$;
create trigger replay_updated before update on nats3.replay for each row execute function nats3.replay_updated();

-- Whether a connection has the advisory lock of this name. It is looked up and not tried: who has it for a moment makes a
-- process fail that begins.
create function nats3.is_locked(name text) returns boolean stable language sql as $$
    select exists (
        select from pg_locks l
        where l.locktype = 'advisory' and l.granted and l.objsubid = 1
          and l.database = (select oid from pg_database where datname = current_database())
          and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended(name, 0)
    )
$$;

-- Whether what runs the replay, or was started to run it, is gone: its process or its host was killed. A process has
-- 60 s to begin, which is to load Python and ask the catalog.
create function nats3.is_lost(r nats3.replay) returns boolean stable language sql as $$
    select case
        when r.state = 'running' then not nats3.is_locked('nats3.replay.' || r.id)
        when r.state = 'planned' and (r.launch_begun or r.launched_at < now() - interval '60 s')
            then not nats3.is_locked('nats3.launch.' || r.id || '.' || r.launch)
        else false
    end
$$;

create table nats3.replay_attempt (
    replay_id      text collate "C" not null references nats3.replay on delete cascade,
    attempt        integer not null,
    state          text not null default 'running'
        check (state in ('running', 'succeeded', 'failed', 'canceled', 'paused', 'lost')),
    error          text,
    dagster_run_id text,
    -- Messages of the replay that the targets had when the attempt began.
    began_with     bigint not null default 0,
    started_at     timestamptz not null default now(),
    finished_at    timestamptz,
    primary key (replay_id, attempt)
);

-- Where a replay publishes, and the target's last sequence before its first message: where a resumed one looks for
-- what it already published.
create table nats3.replay_target (
    replay_id  text collate "C" not null references nats3.replay on delete cascade,
    stream     text not null,
    created_ns bigint not null,
    since_seq  bigint not null,
    primary key (replay_id, stream, created_ns)
);

create table nats3.replay_chunk (
    replay_id      text collate "C" not null references nats3.replay on delete cascade,
    chunk_id       bigint not null references nats3.chunk,
    position       bigint not null,
    -- Messages of the chunk, and so an upper bound of what the replay selects of it.
    planned        bigint not null check (planned > 0),
    selected       bigint not null default 0,
    published      bigint not null default 0 check (published >= 0),
    found          bigint not null default 0 check (found >= 0),
    duplicates     bigint not null default 0,
    expired        bigint not null default 0 check (expired >= 0),
    -- The last archived sequence of those messages that the targets have, 0 for none: a target whose newest message of
    -- the replay lies before it has lost what it acknowledged.
    last_seq       bigint not null default 0 check (last_seq >= 0),
    state          text not null default 'pending' check (state in ('pending', 'done')),
    attempt        integer,
    dagster_run_id text,
    finished_at    timestamptz,
    primary key (replay_id, chunk_id),
    -- A replay loses nothing: what was selected was published, or found in the target, or had ended by itself.
    constraint replay_chunk_accounts check (published + found + expired = selected and selected <= planned),
    constraint replay_chunk_duplicates check (duplicates between 0 and published)
);
create index replay_chunk_order on nats3.replay_chunk (replay_id, position);
create index replay_chunk_pending on nats3.replay_chunk (replay_id, position) where state <> 'done';
create index replay_chunk_chunk on nats3.replay_chunk (chunk_id);
