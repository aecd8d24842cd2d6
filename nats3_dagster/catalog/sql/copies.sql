-- name: copy_tasks(archive, bucket, hour, limit_to)
-- The objects that are missing in a copy or are to be removed there, oldest first, removals last; of one hour the missing ones.
select bucket, key, archive_id as archive, hour, source, sha256, stored_bytes, removes
from nats3.copy_task
where archive_id = :archive and bucket = :bucket and (:hour::text is null or (hour = :hour::text and not removes))
order by removes, since, key
limit :limit_to;

-- name: copy_removals(archive, bucket, limit_to)
-- The objects that are to be removed from a copy.
select bucket, key, archive_id as archive, hour, source, sha256, stored_bytes, removes
from nats3.copy_task
where archive_id = :archive and bucket = :bucket and removes
order by since, key
limit :limit_to;

-- name: copy_waits(bucket, key)
-- True if the object has yet to be put into the copy, or removed there.
select exists (select from nats3.copy_task where bucket = :bucket and key = :key);

-- name: copying_due()
-- The archives whose copies miss something, or have to lose something.
select a.name from nats3.archive a
where a.deleted_at is null and cardinality(a.copies) > 0 and exists (
    select from nats3.copy_task t where t.archive_id = a.id)
order by a.name;

-- name: copy_lags(archive)
-- For each copy of the archive the missing objects, their bytes, since when the oldest is missing, and the removals to do.
select t.bucket, count(*) filter (where not t.removes) as objects,
       coalesce(sum(t.stored_bytes) filter (where not t.removes), 0)::bigint as bytes,
       min(t.since) filter (where not t.removes) as oldest, count(*) filter (where t.removes) as removals
from nats3.copy_task t where t.archive_id = :archive
group by t.bucket order by t.bucket;

-- name: copy_done(buckets, keys, removes)
-- Forgets what was done, unless the opposite is to be done by now.
delete from nats3.copy_task t using unnest(:buckets::text[], :keys::text[], :removes::boolean[]) as d(bucket, key, removes)
where t.bucket = d.bucket and t.key = d.key and t.removes = d.removes;
