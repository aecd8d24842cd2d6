-- name: lock_removals()^
select pg_advisory_xact_lock(hashtextextended('nats3.removal', 0));

-- name: claim_removals(bucket, keys)
insert into nats3.removal (bucket, key)
select :bucket, key from unnest(:keys::text[]) as o(key)
where not exists (select from nats3.chunk c where c.bucket = :bucket and c.key = o.key and c.deleted_at is null)
on conflict (bucket, key) do update set claimed_at = now(), removed_at = null
returning key;

-- name: finish_removals(bucket, keys)!
update nats3.removal set removed_at = clock_timestamp()
where bucket = :bucket and key = any(:keys::text[]) and removed_at is null;

-- name: archives_named(name)
select id from nats3.archive where name = :name order by id;

-- name: removable(archive, after, limit_to)
select c.id, c.bucket, c.key from nats3.chunk c
where c.archive_id = :archive and c.deleted_at is not null and c.id > :after
  and not exists (
      select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at)
  and not exists (select from nats3.chunk l where l.bucket = c.bucket and l.key = c.key and l.deleted_at is null)
order by c.id
limit :limit_to;
