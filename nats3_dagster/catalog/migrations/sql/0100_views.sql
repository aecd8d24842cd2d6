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

-- The live chunks of one incarnation in these hours, with a message of `[from_ns, end_ns)`, and with a sequence from
-- from_seq to to_seq; null for no bound. Postgres plans it as a part of the query that it stands in.
create function nats3.chosen(archive bigint, incarnation bigint, of_hours text[], from_ns bigint, end_ns bigint,
                             from_seq bigint, to_seq bigint) returns setof nats3.chunk
    language sql stable
    begin atomic
        select n.* from nats3.chunk n
        where n.archive_id = archive and n.incarnation_id = incarnation and n.deleted_at is null
          and (of_hours is null or n.hour = any(of_hours))
          and (from_ns is null or int8range(n.first_ns, n.last_ns, '[]') && int8range(from_ns, end_ns))
          and (from_seq is null or n.seqs && int8range(from_seq, to_seq, '[]'));
    end;
