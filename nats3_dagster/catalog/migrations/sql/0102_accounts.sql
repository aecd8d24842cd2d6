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

-- An archive that a rule made. A rule that ends leaves its archives, and they their end.
create table nats3.account_archive (
    archive_id bigint primary key references nats3.archive,
    rule_id    bigint references nats3.account_rule on delete set null,
    -- When its stream was found to be deleted; null while there is one.
    ended_at   timestamptz
);
create index account_archive_rule on nats3.account_archive (rule_id) where rule_id is not null;
