-- Erasures: who had messages removed from an archive for good, when and why. No subject, value or header is here. The same is
-- written beside the chunks, but for who and why (docs/chunk-format.md): that record has this number, and this SHA-256.
create table nats3.erasure (
    id         bigint generated always as identity primary key,
    archive_id bigint not null references nats3.archive,
    record_id  uuid not null,
    number     integer not null check (number >= 1),
    -- The SHA-256 of the record before it, and its own.
    previous   text collate "C" check (previous ~ '^[0-9a-f]{64}$'),
    digest     text collate "C" not null check (digest ~ '^[0-9a-f]{64}$'),
    reason     text not null check (reason <> ''),
    -- The kinds of conditions that chose the messages; none of one that the catalog learned from the bucket.
    chosen_by  text[] not null check (chosen_by <@ '{subject,sequences,hours,times,header,where}'),
    messages   bigint not null check (messages > 0),
    actor      text not null default nats3.actor(),
    decided_at timestamptz not null,
    constraint erasure_once unique (archive_id, digest)
);

-- The erased sequences, of an incarnation by its created_ns: the catalog may be older than the incarnation.
create table nats3.erased_range (
    erasure_id bigint not null references nats3.erasure,
    archive_id bigint not null,
    created_ns bigint not null,
    seqs       int8range not null check (lower(seqs) >= 1 and not upper_inf(seqs))
);
-- An erasure says for good who erased, when, which and why.
create trigger erasure_immutable before update on nats3.erasure for each row execute function nats3.refuse();
create index erased_range_seqs on nats3.erased_range using gist (archive_id, created_ns, seqs);
create index erased_range_erasure on nats3.erased_range (erasure_id);

-- The erasures that are not finished: a message of them may be in an object. Its row goes once a search has found none.
create table nats3.open_erasure (
    erasure_id bigint primary key references nats3.erasure,
    -- The objects that the last search found and could not remove; null before the first one.
    left_over  bigint check (left_over >= 0)
);

-- A copy that was taken out of an archive's settings: it keeps what it has. Erasures look there as well, until a person says that it
-- is no more.
create table nats3.former_copy (
    archive_id bigint not null references nats3.archive,
    bucket     text collate "C" not null,
    left_at    timestamptz not null default now(),
    primary key (archive_id, bucket)
);
create function nats3.copies_left() returns trigger language plpgsql as $$
begin
    delete from nats3.former_copy f where f.archive_id = new.id and f.bucket = any(new.copies);
    insert into nats3.former_copy (archive_id, bucket)
    select new.id, place from unnest(old.copies) place where place <> all (new.copies) and place <> new.bucket
    on conflict do nothing;
    return null;
end
$$;
create trigger copies_left after update of copies on nats3.archive for each row
    when (old.copies is distinct from new.copies) execute function nats3.copies_left();

-- Whether a chunk has, or may have, a message of some sequences: not if it lists all of them as absent. Where a filter leaves open which
-- are absent, it may.
create function nats3.may_have_any(seqs int8range, deleted int8multirange, of_these int8multirange) returns boolean
    language sql immutable parallel safe
    return not coalesce(of_these * int8multirange(seqs) <@ deleted, false);

-- No chunk comes into an archive with a message that was erased, whoever writes it: an erased sequence is absent in it, and listed
-- as absent.
create function nats3.chunk_not_erased() returns trigger language plpgsql as $$
declare
    found record;
begin
    select a.seqs, e.seqs * a.seqs as erased into found
    from added a join nats3.incarnation i on i.id = a.incarnation_id
    join nats3.erased_range e on e.archive_id = a.archive_id and e.created_ns = i.created_ns and e.seqs && a.seqs
    where nats3.may_have_any(a.seqs, a.deleted, int8multirange(e.seqs))
    limit 1;
    if found is not null then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'not_erased',
            message = 'the chunk has erased sequences', detail = format('%s %s', found.seqs, found.erased);
    end if;
    return null;
end
$$;
create trigger chunk_not_erased after insert on nats3.chunk referencing new table as added
    for each statement execute function nats3.chunk_not_erased();
