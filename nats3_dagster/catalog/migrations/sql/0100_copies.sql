-- Objects that are missing in copies of archives, or are to be removed there: one row for each object that differs between the
-- first bucket and a copy. So what is missing costs what is missing, however many objects there are.
create table nats3.copy_task (
    -- The copy's bucket. The key is that of the first bucket.
    bucket       text collate "C" not null,
    key          text collate "C" not null,
    archive_id   bigint not null references nats3.archive,
    hour         text collate "C" not null,
    -- The first bucket.
    source       text collate "C" not null,
    sha256       text collate "C" not null,
    stored_bytes bigint not null,
    -- Whether the object is to be removed from the copy; else it is to be put there.
    removes      boolean not null default false,
    since        timestamptz not null default now(),
    primary key (bucket, key)
);
create index copy_task_hour on nats3.copy_task (archive_id, hour);
create index copy_task_oldest on nats3.copy_task (archive_id, since);

-- Each new chunk and each new manifest is to be put into the copies of its archive, in the transaction that adds it. A seal of an
-- archive that was made again from a bucket of another name has its manifest elsewhere, and the hour is sealed again.
create function nats3.copy_added() returns trigger language plpgsql as $$
begin
    insert into nats3.copy_task (bucket, key, archive_id, hour, source, sha256, stored_bytes)
    select place, n.key, n.archive_id, n.hour, n.bucket, n.sha256, n.stored_bytes
    from added n join nats3.archive a on a.id = n.archive_id cross join unnest(a.copies) place
    where n.bucket = a.bucket
    on conflict (bucket, key) do update
    set archive_id = excluded.archive_id, hour = excluded.hour, source = excluded.source, sha256 = excluded.sha256,
        stored_bytes = excluded.stored_bytes, removes = false;
    return null;
end
$$;
create trigger chunk_copied after insert on nats3.chunk referencing new table as added
    for each statement execute function nats3.copy_added();
create trigger seal_copied after insert on nats3.seal referencing new table as added
    for each statement execute function nats3.copy_added();

-- A new copy does not have the live chunks and the newest manifest of each hour. A copy that is taken out of the settings keeps what it
-- has: nothing more is done there.
create function nats3.copies_changed() returns trigger language plpgsql as $$
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
    ) o
    where place <> all (old.copies) and o.bucket = new.bucket
    on conflict (bucket, key) do update
    set archive_id = excluded.archive_id, hour = excluded.hour, source = excluded.source, sha256 = excluded.sha256,
        stored_bytes = excluded.stored_bytes, removes = false;
    return null;
end
$$;
create trigger copies_changed after update of copies on nats3.archive for each row
    when (old.copies is distinct from new.copies) execute function nats3.copies_changed();

-- What was removed from the first bucket is to be removed from the copies. A claim is given out only while no live chunk has
-- the object, and a chunk that has it again turns the row around.
create function nats3.copy_removed() returns trigger language plpgsql as $$
begin
    insert into nats3.copy_task (bucket, key, archive_id, hour, source, sha256, stored_bytes, removes)
    select distinct on (place) place, new.key, a.id, o.hour, new.bucket, o.sha256, o.stored_bytes, true
    from (
        select archive_id, hour, sha256, stored_bytes from nats3.chunk where bucket = new.bucket and key = new.key
        union all
        select archive_id, hour, sha256, stored_bytes from nats3.seal where bucket = new.bucket and key = new.key
    ) o
    join nats3.archive a on a.id = o.archive_id cross join unnest(a.copies) place
    order by place, a.id desc
    on conflict (bucket, key) do update set removes = true, since = excluded.since;
    return null;
end
$$;
create trigger copy_removed after update of removed_at on nats3.removal for each row
    when (old.removed_at is null and new.removed_at is not null) execute function nats3.copy_removed();
