-- name: history(archives, since, limit_to)
-- The events, captures and seals of archives since a time (null: ever), and their replays as they are now, the newest
-- first. No more than the limit is read of each kind.
select happened_at, what, hour, detail, error_kind, error, actor, dagster_run_id from (
    (select happened_at, what, null as hour, detail - 'error_kind' - 'error' as detail, detail ->> 'error_kind' as error_kind,
            detail ->> 'error' as error, actor, dagster_run_id
     from nats3.event
     where archive_id = any(:archives::bigint[]) and (:since::timestamptz is null or happened_at >= :since)
     order by happened_at desc, id desc limit :limit_to)
    union all
    (select finished_at, case when error_kind is null then 'captured' else 'capture_failed' end, hour, jsonb_build_object('messages', messages, 'bytes', payload_bytes), error_kind, error,
            actor, dagster_run_id
     from nats3.capture
     where archive_id = any(:archives::bigint[]) and (:since::timestamptz is null or finished_at >= :since)
     order by id desc limit :limit_to)
    union all
    (select sealed_at, 'sealed', hour, jsonb_build_object('messages', messages, 'chunks', chunks, 'number', number), null, null,
            actor, dagster_run_id
     from nats3.seal
     where archive_id = any(:archives::bigint[]) and (:since::timestamptz is null or sealed_at >= :since)
     order by id desc limit :limit_to)
    union all
    (select r.updated_at, case when s.state in ('failed', 'interrupted') then 'replay_failed' else 'replayed' end, null,
            jsonb_build_object('replay', r.id, 'state', s.state, 'attempts', r.attempt, 'published', r.published,
                               'selected', r.selected),
            case when s.state in ('failed', 'interrupted') then s.state end,
            case when s.state in ('failed', 'interrupted') then coalesce(r.error, 'its process or run is gone') end,
            r.actor, r.dagster_run_id
     from nats3.replay r
     cross join lateral (
         select case when r.deleted_at is not null then 'deleted' when nats3.is_lost(r) then 'interrupted' else r.state end
     ) s(state)
     where r.archive_id = any(:archives::bigint[]) and (:since::timestamptz is null or r.updated_at >= :since)
     order by r.updated_at desc limit :limit_to)
) o
order by happened_at desc
limit :limit_to;
