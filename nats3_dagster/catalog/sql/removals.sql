-- name: lock_removals()^
select pg_advisory_xact_lock(hashtextextended('nats3.removal', 0));

-- name: claim_removals(bucket, keys)
insert into nats3.removal (bucket, key)
select :bucket, key from unnest(:keys::text[]) as o(key)
where not exists (select from nats3.chunk c where c.bucket = :bucket and c.key = o.key and c.deleted_at is null)
  and not exists (
      select from nats3.seal s join nats3.archive a on a.id = s.archive_id
      where s.bucket = :bucket and s.key = o.key and a.deleted_at is null
        and s.number = (select max(number) from nats3.seal where archive_id = s.archive_id and hour = s.hour))
on conflict (bucket, key) do update set claimed_at = now(), removed_at = null
returning key;

-- name: finish_removals(bucket, keys)!
update nats3.removal set removed_at = clock_timestamp()
where bucket = :bucket and key = any(:keys::text[]) and removed_at is null;

-- name: archives_named(name)
select id from nats3.archive where name = :name order by id;

-- name: dead_manifests(archive, after, limit_to)
-- Those of a deleted archive, and those that a later seal of the hour took the place of.
select s.id, s.bucket, s.key from nats3.seal s join nats3.archive a on a.id = s.archive_id
where s.archive_id = :archive and s.id > :after
  and (a.deleted_at is not null or exists (
      select from nats3.seal n where n.archive_id = s.archive_id and n.hour = s.hour and n.number > s.number))
  and not exists (select from nats3.removal r where r.bucket = s.bucket and r.key = s.key and r.removed_at >= s.sealed_at)
order by s.id
limit :limit_to;

-- name: removable(archive, after, limit_to)
select c.id, c.bucket, c.key from nats3.chunk c
where c.archive_id = :archive and c.deleted_at is not null and c.id > :after
  and not exists (
      select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at)
  and not exists (select from nats3.chunk l where l.bucket = c.bucket and l.key = c.key and l.deleted_at is null)
order by c.id
limit :limit_to;
