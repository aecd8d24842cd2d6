-- name: newest_consumers(archive, stream, created_ns, to_ns, last_seq)
-- The consumers of an incarnation that were kept last: observed up to a time, and while the stream had no later message than this
-- one, where these are given.
select k.hour, k.observed_ns, k.last_seq, k.consumers, k.content, k.bucket, k.key, k.sha256, k.stored_bytes
from nats3.kept_consumers k join nats3.incarnation i on i.id = k.incarnation_id
where k.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns and k.superseded_at is null
  and (:to_ns::bigint is null or k.observed_ns <= :to_ns::bigint)
  and (:last_seq::bigint is null or k.last_seq <= :last_seq::bigint)
order by k.observed_ns desc limit 1;

-- name: list_consumers(archive)
-- All that is kept of the consumers of an archive's stream, the oldest first.
select k.hour, k.observed_ns, k.last_seq, k.consumers, k.content, k.bucket, k.key, k.sha256, k.stored_bytes
from nats3.kept_consumers k where k.archive_id = :archive and k.superseded_at is null
order by k.observed_ns;

-- name: supersede_consumers(archive, stream, created_ns, hour)
-- Lets go, of each hour before this one, what was kept before the last of the hour.
update nats3.kept_consumers k set superseded_at = now()
from nats3.incarnation i
where i.id = k.incarnation_id and k.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns
  and k.hour < :hour and k.superseded_at is null
  and exists (
      select from nats3.kept_consumers n
      where n.archive_id = k.archive_id and n.incarnation_id = k.incarnation_id and n.hour = k.hour
        and n.observed_ns > k.observed_ns and n.superseded_at is null);

-- name: add_consumers(archive, stream, created_ns, hour, observed_ns, last_seq, consumers, content, bucket, key, sha256, stored_bytes)
-- Keeps the consumers of an incarnation that the archive has, unless this observation is kept already; the row's id.
insert into nats3.kept_consumers (archive_id, incarnation_id, hour, observed_ns, last_seq, consumers, content, bucket, key, sha256,
                                  stored_bytes)
select :archive, i.id, :hour, :observed_ns, :last_seq, :consumers, :content, :bucket, :key, :sha256, :stored_bytes
from nats3.incarnation i join nats3.coverage c on c.incarnation_id = i.id and c.archive_id = :archive
where i.stream = :stream and i.created_ns = :created_ns
on conflict (archive_id, incarnation_id, observed_ns) where superseded_at is null do nothing
returning id;

-- name: expire_consumers(archive)
-- Lets go what no restore of a kept message needs: of each incarnation what is older than the last that was kept before the
-- oldest hour with a chunk. While a hold is in force nothing goes. The number of rows.
with oldest as (select coalesce(min(hour), '9') as hour from nats3.hour where archive_id = :archive),
gone as (
    update nats3.kept_consumers k set superseded_at = now()
    where k.archive_id = :archive and k.superseded_at is null
      and not exists (select from nats3.hold where archive_id = :archive and released_at is null)
      and exists (
          select from nats3.kept_consumers n
          where n.archive_id = k.archive_id and n.incarnation_id = k.incarnation_id and n.superseded_at is null
            and n.observed_ns > k.observed_ns and n.hour < (select hour from oldest))
    returning k.id
)
select count(*) from gone;

-- name: known_consumers(bucket, keys)
-- Those of the keys in this bucket that consumers are or were kept under, of any archive.
select key from nats3.kept_consumers where bucket = :bucket and key = any(:keys::text[]);

-- name: record_consumers_problem(archive, error)
-- Records why the consumers are not kept, or not exactly.
insert into nats3.consumers_problem (archive_id, error) values (:archive, :error)
on conflict (archive_id) do update set error = excluded.error;

-- name: forget_consumers_problem(archive)
-- The consumers are kept.
delete from nats3.consumers_problem where archive_id = :archive;

-- name: consumers_problems()
-- Why consumers are not kept, or not exactly, by archive.
select p.archive_id, p.error, p.since from nats3.consumers_problem p join nats3.archive a on a.id = p.archive_id
where a.deleted_at is null;
