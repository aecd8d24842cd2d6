-- name: history(archive, since, limit_to)
-- The events, captures and seals of the archive since a time (null: ever), and its replays as they are now, the newest
-- first. No more than the limit is read of each kind.
select happened_at, what, hour, detail, error_kind, error, actor, dagster_run_id from (
    (select happened_at, what, null as hour, detail, null as error_kind, null as error, actor, dagster_run_id
     from nats3.event
     where archive_id = :archive and (:since::timestamptz is null or happened_at >= :since)
     order by happened_at desc, id desc limit :limit_to)
    union all
    (select finished_at, 'captured', hour, jsonb_build_object('messages', messages, 'bytes', payload_bytes), error_kind, error,
            null, dagster_run_id
     from nats3.capture
     where archive_id = :archive and (:since::timestamptz is null or finished_at >= :since)
     order by id desc limit :limit_to)
    union all
    (select sealed_at, 'sealed', hour, jsonb_build_object('messages', messages, 'chunks', chunks, 'number', number), null, null,
            null, dagster_run_id
     from nats3.seal
     where archive_id = :archive and (:since::timestamptz is null or sealed_at >= :since)
     order by id desc limit :limit_to)
    union all
    (select r.updated_at, 'replayed', null,
            jsonb_build_object('replay', r.id, 'state', s.state, 'attempts', r.attempt, 'published', r.published,
                               'selected', r.selected),
            case when s.state in ('failed', 'interrupted') then s.state end,
            case when s.state in ('failed', 'interrupted') then coalesce(r.error, 'its process or run is gone') end,
            null, r.dagster_run_id
     from nats3.replay r
     cross join lateral (
         select case when r.deleted_at is not null then 'deleted' when nats3.is_lost(r) then 'interrupted' else r.state end
     ) s(state)
     where r.archive_id = :archive and (:since::timestamptz is null or r.updated_at >= :since)
     order by r.updated_at desc limit :limit_to)
) o
order by happened_at desc
limit :limit_to;
