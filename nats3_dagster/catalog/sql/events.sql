-- name: add_event(archive, what, detail, run_id)
-- Records what was done to an archive.
insert into nats3.event (archive_id, what, detail, dagster_run_id) values (:archive, :what, :detail::jsonb, :run_id);

-- name: add_swept_events(bucket, keys)
-- Records, for each archive that had them, that these objects were removed.
insert into nats3.event (archive_id, what, detail)
select archive_id, 'swept', jsonb_build_object('objects', count(*))
from (
    select distinct archive_id, key from nats3.chunk
    where bucket = :bucket and key = any(:keys::text[]) and deleted_at is not null
) o
group by archive_id;

-- name: forget_events(keep_s, limit_to)
-- Forgets events of this many seconds ago, the oldest first, of what nats3 does by itself; the number of them.
select nats3.forget_events(:keep_s, :limit_to);

-- name: forget_holds(keep_s, limit_to)
-- Forgets holds that were deleted this many seconds ago.
delete from nats3.hold where id = any(array(
    select id from nats3.hold where released_at < now() - make_interval(secs => :keep_s) order by released_at limit :limit_to
));
