-- Rules that give each stream of an account that they take an archive of its own, and the archives that they made.

create table nats3.account_rule (
    id         bigint generated always as identity primary key,
    name       text not null check (name ~ '^[A-Za-z0-9_]+$'),
    -- Its settings by their keys (model/account_rule.py).
    settings   jsonb not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
create unique index account_rule_name on nats3.account_rule (name);

-- The name of a rule that ended: a declaration as code does not make it again. A new rule of the name takes it out.
create table nats3.ended_account_rule (
    name     text primary key,
    ended_at timestamptz not null default now()
);

-- An archive that a rule made. A rule that ends leaves its archives, and they their end.
create table nats3.account_archive (
    archive_id bigint primary key references nats3.archive,
    rule_id    bigint references nats3.account_rule on delete set null,
    -- When its stream was found to be deleted; null while there is one.
    ended_at   timestamptz
);
create index account_archive_rule on nats3.account_archive (rule_id) where rule_id is not null;

-- A stream without an archive, because all that it has is of other streams: how it can be made again.
create table nats3.account_stream (
    rule_id    bigint not null references nats3.account_rule on delete cascade,
    stream     text collate "C" not null,
    -- When it was created, as the server told it first, in nanoseconds; its configuration and the number of its consumers now.
    created_ns bigint not null,
    config     jsonb not null,
    consumers  integer not null,
    -- When it was found to be deleted; null while there is one.
    gone_at    timestamptz,
    primary key (rule_id, stream)
);

-- A stream that a restore of an account has made: another run of it takes it for done, whatever its clients did since.
create table nats3.restored_stream (
    rule_id     bigint not null references nats3.account_rule on delete cascade,
    stream      text collate "C" not null,
    -- When the server made it, in nanoseconds.
    created_ns  bigint not null,
    -- The moment that it was restored as of, in nanoseconds; null for everything that was archived.
    to_ns       bigint,
    restored_at timestamptz not null default now(),
    primary key (rule_id, stream, created_ns)
);

-- The last drill of an archive: how long it took to restore messages of it, and whether they were as they should be.
create table nats3.drill (
    archive_id    bigint primary key references nats3.archive,
    drilled_at    timestamptz not null default now(),
    -- As JSON, with its next step; null where all was as it should be.
    error         text,
    -- What was restored: messages, bytes of their subjects, header blocks and payloads, and the seconds that this took.
    messages      bigint not null check (messages >= 0),
    payload_bytes bigint not null check (payload_bytes >= 0),
    seconds       double precision not null check (seconds >= 0),
    -- Messages that the live stream still had, and that were the same.
    live          bigint not null check (live >= 0),
    -- How old the newest archived message or the last look at the stream was, in seconds: what a loss of the stream would cost.
    rpo_s         double precision,
    -- When a drill last found all as it should be.
    proven_at     timestamptz
);
