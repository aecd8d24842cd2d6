-- name: lock_bucket(bucket)
-- Waits until no other process removes objects of the bucket; only this connection may then, until it ends.
select pg_advisory_lock(hashtextextended('nats3.removing.' || :bucket, 0));

-- name: lock_removals(bucket)
-- Lets claims and commits of a bucket wait for one another: a claim holds this lock alone, a commit shares it.
select pg_advisory_xact_lock(hashtextextended('nats3.removal.' || :bucket, 0));

-- name: reserve_removals(bucket, keys)
-- Claims the objects that neither a live chunk nor the newest seal of an hour has, nor consumers are kept in, and that no hold
-- keeps; their keys.
insert into nats3.removal (bucket, key)
select :bucket, key from unnest(:keys::text[]) as o(key)
where not exists (select from nats3.chunk c where c.bucket = :bucket and c.key = o.key and c.deleted_at is null)
  and not exists (
      select from nats3.chunk c
      where c.bucket = :bucket and c.key = o.key and c.deleted_at is not null
        and nats3.is_held(c.archive_id, c.hour, c.seqs))
  and not exists (
      select from nats3.seal s join nats3.archive a on a.id = s.archive_id
      where s.bucket = :bucket and s.key = o.key and a.deleted_at is null
        and s.number = (select max(number) from nats3.seal where archive_id = s.archive_id and hour = s.hour))
  and not exists (
      select from nats3.kept_consumers k join nats3.archive a on a.id = k.archive_id
      where k.bucket = :bucket and k.key = o.key and a.deleted_at is null and k.superseded_at is null)
on conflict (bucket, key) do update set claimed_at = now(), removed_at = null
returning key;

-- name: known_objects(bucket, keys, with_deleted)
-- Those of the keys that a chunk has or had, or that a process removes. What was removed since its chunk was retired, and
-- is there again, was put by a capture that did not commit. Unless with_deleted, chunks that were live until their archive
-- was deleted do not count.
select key from unnest(:keys::text[]) as o(key)
where exists (
      select from nats3.chunk c join nats3.archive a on a.id = c.archive_id
      where c.bucket = :bucket and c.key = o.key
        and (:with_deleted or a.deleted_at is null or c.deleted_at < a.deleted_at)
        and not exists (
            select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at))
   or exists (select from nats3.removal r where r.bucket = :bucket and r.key = o.key and r.removed_at is null);

-- name: release_removals(bucket, keys)
-- Gives up the claims of objects that were not deleted.
delete from nats3.removal where bucket = :bucket and key = any(:keys::text[]) and removed_at is null;

-- name: add_refused_removals(bucket, keys)
-- Notes that the store did not let these objects go.
insert into nats3.refused_removal (bucket, key) select :bucket, key from unnest(:keys::text[]) as o(key)
on conflict (bucket, key) do update set refused_at = now();

-- name: forget_refused_removals(bucket, keys)
-- These objects have gone.
delete from nats3.refused_removal where bucket = :bucket and key = any(:keys::text[]);

-- name: finish_removals(bucket, keys)
-- Marks claimed objects as removed from the store.
update nats3.removal set removed_at = clock_timestamp()
where bucket = :bucket and key = any(:keys::text[]) and removed_at is null;

-- name: archives_named(name)
-- The ids of all archives that have or had this name.
select id from nats3.archive where name = :name order by id;

-- name: dead_manifests(archive, after, limit_to)
-- Manifests of seals that no longer count, and that are not removed yet, page by page.
-- A seal no longer counts when its archive is deleted, or when the hour has a later one.
select s.id, s.bucket, s.key from nats3.seal s join nats3.archive a on a.id = s.archive_id
where s.archive_id = :archive and s.id > :after
  and (a.deleted_at is not null or exists (
      select from nats3.seal n where n.archive_id = s.archive_id and n.hour = s.hour and n.number > s.number))
  and not exists (select from nats3.removal r where r.bucket = s.bucket and r.key = s.key and r.removed_at >= s.sealed_at)
order by s.id
limit :limit_to;

-- name: dead_consumers(archive, after, limit_to)
-- Consumers that are not kept any longer, and whose objects are not removed yet, page by page.
select k.id, k.bucket, k.key from nats3.kept_consumers k join nats3.archive a on a.id = k.archive_id
where k.archive_id = :archive and k.id > :after and (a.deleted_at is not null or k.superseded_at is not null)
  and not exists (select from nats3.removal r where r.bucket = k.bucket and r.key = k.key and r.removed_at >= k.kept_at)
order by k.id
limit :limit_to;

-- name: removable(archive, after, limit_to)
-- Objects of retired chunks that no live chunk has, and that are not removed yet, page by page.
select c.id, c.bucket, c.key from nats3.chunk c
where c.archive_id = :archive and c.deleted_at is not null and c.id > :after
  and not exists (
      select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at)
  and not exists (select from nats3.chunk l where l.bucket = c.bucket and l.key = c.key and l.deleted_at is null)
order by c.id
limit :limit_to;

-- name: sweepable(grace_s, bucket, limit_to)
-- Objects that have not been needed for these seconds and that are not removed yet, of all buckets or one, the oldest
-- first, and last those that the store refused to remove. They are those of chunks that were retired by themselves,
-- manifests of seals after which the hour was sealed again, and consumers in whose place later ones are. An archive that was deleted keeps what it had then. A chunk
-- that was merged keeps its object until its hour is sealed again, because until then the bucket's manifest names it; and
-- while a replay runs that still has to publish it, because its tasks know the object. What a hold keeps is none of them,
-- nor is an expired chunk of an hour whose manifest still names it: a catalog that is made again would miss its object.
select o.* from (
    select distinct on (c.bucket, c.key) c.bucket, c.key, c.stored_bytes as bytes, c.deleted_at as dead_at
    from nats3.chunk c join nats3.archive a on a.id = c.archive_id
    where c.deleted_at < now() - make_interval(secs => :grace_s) and (a.deleted_at is null or c.deleted_at < a.deleted_at)
      and (:bucket::text is null or c.bucket = :bucket)
      and not nats3.is_held(c.archive_id, c.hour, c.seqs)
      and not nats3.is_unsealed_expiry(c.archive_id, c.incarnation_id, c.hour, c.seqs)
      and not exists (
          select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at)
      and not exists (select from nats3.chunk l where l.bucket = c.bucket and l.key = c.key and l.deleted_at is null)
      and not exists (
          select from nats3.merged_chunk m
          where m.chunk_id = c.id and a.deleted_at is null
            and (not exists (
                    select from nats3.archive_hours h
                    where h.archive_id = c.archive_id and h.sealed @> nats3.hour_number(c.hour))
                 or exists (
                    select from nats3.replay_chunk p join nats3.replay r on r.id = p.replay_id
                    where p.chunk_id = c.id and p.state <> 'done' and r.state = 'running' and r.deleted_at is null)))
      and not exists (
          select from nats3.chunk k join nats3.archive of on of.id = k.archive_id
          where k.bucket = c.bucket and k.key = c.key and k.deleted_at is not null
            and (k.deleted_at >= now() - make_interval(secs => :grace_s) or k.deleted_at = of.deleted_at)
            -- A purge took what that archive had: the object is of a later one.
            and not exists (
                select from nats3.removal r
                where r.bucket = k.bucket and r.key = k.key and r.removed_at >= k.deleted_at))
    union all
    select s.bucket, s.key, s.stored_bytes, s.superseded_at
    from nats3.seal s
    where s.superseded_at < now() - make_interval(secs => :grace_s) and (:bucket::text is null or s.bucket = :bucket)
      and not exists (
          select from nats3.removal r where r.bucket = s.bucket and r.key = s.key and r.removed_at >= s.sealed_at)
    union all
    select k.bucket, k.key, k.stored_bytes, k.superseded_at
    from nats3.kept_consumers k
    where k.superseded_at < now() - make_interval(secs => :grace_s) and (:bucket::text is null or k.bucket = :bucket)
      and not exists (
          select from nats3.removal r where r.bucket = k.bucket and r.key = k.key and r.removed_at >= k.kept_at)
) o
left join nats3.refused_removal f using (bucket, key)
order by f.refused_at nulls first, o.dead_at, o.bucket, o.key
limit :limit_to;

-- name: unswept(archive)
-- The objects that an archive's retired chunks still have in the store: their number, their bytes, and when the last one was retired.
select count(*) as objects, coalesce(sum(c.stored_bytes), 0)::bigint as bytes, max(c.deleted_at) as newest
from nats3.chunk c
where c.archive_id = :archive and c.deleted_at is not null
  and not exists (
      select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at)
  and not exists (select from nats3.chunk l where l.bucket = c.bucket and l.key = c.key and l.deleted_at is null);
