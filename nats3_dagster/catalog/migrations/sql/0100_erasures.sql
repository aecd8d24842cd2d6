-- Erasures: who had messages removed from an archive for good, when and why. Not which: no subject, value or sequence is here.
create table nats3.erasure (
    id          bigint generated always as identity primary key,
    archive_id  bigint not null references nats3.archive,
    reason      text not null check (reason <> ''),
    -- The kinds of conditions that chose the messages.
    chosen_by   text[] not null check (chosen_by <@ '{subject,sequences,hours,times,header,where}'),
    -- The erased messages, and the chunks that had them.
    messages    bigint not null default 0,
    chunks      bigint not null default 0,
    actor       text not null default nats3.actor(),
    began_at    timestamptz not null default now(),
    -- When no object had them any more; null before.
    finished_at timestamptz
);
create index erasure_unfinished on nats3.erasure (archive_id) where finished_at is null;

-- Objects that have erased messages and are, or may be, still in the store: added by the transaction that takes the messages
-- out of the archive, so that a process which dies after it forgets none.
create table nats3.erased_object (
    bucket     text collate "C" not null,
    key        text collate "C" not null,
    erasure_id bigint not null references nats3.erasure,
    primary key (bucket, key)
);
create index erased_object_erasure on nats3.erased_object (erasure_id);

-- An erasure says for good who erased, when and why; it only counts up, and ends once.
create trigger erasure_immutable before update of id, archive_id, reason, chosen_by, actor, began_at on nats3.erasure
    for each row execute function nats3.refuse();
create trigger erasure_grows before update on nats3.erasure for each row
    when (old.finished_at <> coalesce(new.finished_at, 'infinity') or new.messages < old.messages or new.chunks < old.chunks)
    execute function nats3.refuse();
