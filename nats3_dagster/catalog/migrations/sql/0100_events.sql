-- Events: what was done to an archive that leaves no other row, and who did it. Captures, seals and replays have rows of
-- their own (history.sql).

create table nats3.event (
    id             bigint generated always as identity primary key,
    archive_id     bigint not null references nats3.archive,
    what           text not null check (what in (
        'created', 'rebuilt', 'changed', 'deleted', 'held', 'released', 'expired', 'removed', 'swept', 'repaired',
        'adopted', 'compacted', 'erased', 'erasure_refused', 'learned')),
    -- changed: the settings as [before, after] by column. held, released: the hold. expired: chunks, messages, bytes and
    -- the first and the last hour. removed, repaired, adopted, compacted: chunks, and what removed them. swept: objects. erased: messages, the number of
    -- the record, the reason, and the kinds of conditions. erasure_refused: the reason, the kinds of conditions, and the error with its kind.
    -- learned: an erasure whose record was found beside the chunks. Nothing of messages.
    detail         jsonb not null default '{}',
    actor          text not null default nats3.actor(),
    dagster_run_id text,
    happened_at    timestamptz not null default now()
);
create index event_order on nats3.event (archive_id, happened_at desc, id desc);
create index event_old on nats3.event (happened_at)
    where what in ('expired', 'removed', 'swept', 'repaired', 'adopted', 'compacted');

-- Forgets events of this many seconds ago, the oldest first, of what nats3 does by itself; what people did stays. The number of
-- them. A granted role may not delete events (grants.py): this runs as the schema's owner, and forgets none of the last day.
create function nats3.forget_events(keep_s bigint, most integer) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    forgotten bigint;
begin
    delete from nats3.event where id = any(array(
        select id from nats3.event
        where what in ('expired', 'removed', 'swept', 'repaired', 'adopted', 'compacted')
          and happened_at < now() - make_interval(secs => greatest(keep_s, 86400))
        order by happened_at limit most));
    get diagnostics forgotten = row_count;
    return forgotten;
end
$$;
revoke execute on function nats3.forget_events from public;

create function nats3.archive_noted() returns trigger language plpgsql as $$
begin
    insert into nats3.event (archive_id, what, detail)
    select new.id,
           case when tg_op = 'INSERT' then 'created' when old.deleted_at is null and new.deleted_at is not null then 'deleted'
                else 'changed' end,
           case when tg_op = 'INSERT' then '{}'::jsonb else (
               select coalesce(jsonb_object_agg(n.key, jsonb_build_array(o.value, n.value)), '{}')
               from jsonb_each(to_jsonb(new)) n join jsonb_each(to_jsonb(old)) o using (key)
               where n.value <> o.value and n.key not in ('revision', 'updated_at', 'deleted_at', 'former_filters')) end;
    return null;
end
$$;
create trigger archive_created after insert on nats3.archive for each row execute function nats3.archive_noted();
create trigger archive_changed after update on nats3.archive for each row
    when ((to_jsonb(old) - 'revision') is distinct from (to_jsonb(new) - 'revision'))
    execute function nats3.archive_noted();
