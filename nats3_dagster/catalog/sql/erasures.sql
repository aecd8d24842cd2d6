-- name: add_erasure(archive, reason, chosen_by)
-- The id of a new erasure.
insert into nats3.erasure (archive_id, reason, chosen_by) values (:archive, :reason, :chosen_by::text[]) returning id;

-- name: replay_of_chunk(chunk)
-- A replay that runs, or is about to, and still has to publish messages of the chunk.
select r.id::text from nats3.replay_chunk p join nats3.replay r on r.id = p.replay_id
where p.chunk_id in (select :chunk::bigint union all select m.chunk_id from nats3.merged_chunk m where m.into_id = :chunk::bigint)
  and p.state = 'pending' and r.state in ('planned', 'running') and r.deleted_at is null and not nats3.is_lost(r)
limit 1;

-- name: add_erased_objects(erasure, archive, stream, created_ns, ranges)
-- Keeps the objects that have messages of these sequences and that no live chunk has: of chunks that gave way now or earlier,
-- unless they were removed since.
insert into nats3.erased_object (bucket, key, erasure_id)
select distinct c.bucket, c.key, :erasure::bigint
from nats3.chunk c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns and c.deleted_at is not null
  and :ranges::int8multirange && c.seqs
  and not exists (select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at)
  and not exists (select from nats3.chunk l where l.bucket = c.bucket and l.key = c.key and l.deleted_at is null)
on conflict (bucket, key) do nothing;

-- name: add_erased_object(erasure, bucket, key)
-- Keeps an object that no chunk has and that is to be removed.
insert into nats3.erased_object (bucket, key, erasure_id) values (:bucket, :key, :erasure) on conflict (bucket, key) do nothing;

-- name: count_erased(erasure, messages)
-- Adds the messages of one more chunk.
update nats3.erasure set messages = messages + :messages::bigint, chunks = chunks + 1 where id = :erasure;

-- name: erased_objects(archive)
-- The objects that are to be removed for erasures of the archive.
select o.bucket, o.key from nats3.erased_object o join nats3.erasure e on e.id = o.erasure_id
where e.archive_id = :archive order by o.bucket, o.key;

-- name: unfinished_erasures()
-- The archives that have an erasure which is not finished.
select distinct a.name from nats3.erasure e join nats3.archive a on a.id = e.archive_id
where e.finished_at is null and a.deleted_at is null order by a.name;

-- name: forget_erased_objects(buckets, keys)
-- These objects are gone.
delete from nats3.erased_object o using unnest(:buckets::text[], :keys::text[]) as g(bucket, key)
where o.bucket = g.bucket and o.key = g.key;

-- name: finish_erasures(archive)
-- Finishes the erasures of the archive that have no object left; those that it finishes.
update nats3.erasure e set finished_at = now()
where e.archive_id = :archive and e.finished_at is null
  and not exists (select from nats3.erased_object o where o.erasure_id = e.id)
returning e.id, e.reason, e.chosen_by, e.messages, e.chunks;

-- name: exports_with_hours(archive, hours)
-- The exports of the archive that have files of one of these hours.
select distinct x.name from nats3.export x join nats3.export_hour h on h.export_id = x.id
where h.archive_id = :archive and h.hour = any(:hours::text[]) and h.files > 0 and x.deleted_at is null order by x.name;
