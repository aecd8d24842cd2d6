-- A chunk as it is read: with its archive's name, its incarnation, and without what only some readers ask for.
create view nats3.chunk_view as
select c.id, c.archive_id, a.name as archive, c.incarnation_id, i.stream, i.created_ns, c.hour, c.seqs, c.messages,
       c.first_ns, c.last_ns, c.payload_bytes, c.largest_bytes, c.stored_bytes, c.sha256, c.bucket, c.key, c.minutes,
       c.dagster_run_id, c.committed_at, c.deleted_at, c.absent_reason, a.copies
from nats3.chunk c
join nats3.archive a on a.id = c.archive_id
join nats3.incarnation i on i.id = c.incarnation_id;

-- What an archive has of one incarnation, as it is read. `covered` is not here: it may have many ranges.
create view nats3.coverage_view as
select c.archive_id, c.incarnation_id, i.stream, i.created_ns, c.start_seq, c.frontier, c.last_seq, c.chunks, c.messages,
       c.absent, c.payload_bytes, c.stored_bytes, c.first_ns, c.last_ns, c.expired, c.superseded, c.ttl,
       c.superseded_or_ttl, c.damaged, c.undelivered, c.restored_ns, c.unknown_after
from nats3.coverage c
join nats3.incarnation i on i.id = c.incarnation_id;
