-- name: observe_stream(stream, created_ns, config, first_seq, last_seq, first_ns, last_ns, messages, bytes)$
insert into nats3.incarnation as i
    (stream, created_ns, config, first_seq, last_seq, first_ns, last_ns, messages, bytes)
values (:stream, :created_ns, :config::jsonb, :first_seq, :last_seq, :first_ns, :last_ns, :messages, :bytes)
on conflict (stream, created_ns) do update set
    config = excluded.config, first_seq = excluded.first_seq, last_seq = excluded.last_seq,
    first_ns = excluded.first_ns, last_ns = excluded.last_ns, messages = excluded.messages, bytes = excluded.bytes,
    observed_at = now()
returning id;

-- name: has_coverage(archive)$
select exists (select from nats3.coverage where archive_id = :archive);

-- name: begin_coverage(archive, incarnation, created_ns, first_seq, born_at)!
-- The first incarnation begins where the stream does today: what expired before the archive existed was never asked for.
-- A later one, made while the archive existed, begins with its first message.
insert into nats3.coverage (archive_id, incarnation_id, start_seq)
select :archive, :incarnation, case when exists (
    select from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
    where c.archive_id = :archive and i.created_ns < :created_ns
) then :born_at::bigint else :first_seq::bigint end
on conflict (archive_id, incarnation_id) do nothing;

-- name: coverage_of(archive, stream, created_ns)^
select c.archive_id, c.incarnation_id, c.start_seq, c.frontier, c.last_seq, c.chunks, c.messages, c.absent, c.payload_bytes,
       c.stored_bytes, c.first_ns, c.last_ns, i.stream, i.created_ns
from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns;

-- name: coverages(archive)
select c.archive_id, c.incarnation_id, c.start_seq, c.frontier, c.last_seq, c.chunks, c.messages, c.absent, c.payload_bytes,
       c.stored_bytes, c.first_ns, c.last_ns, i.stream, i.created_ns
from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive
order by i.created_ns;

-- name: stream_state(stream, created_ns)^
select * from nats3.incarnation where stream = :stream and created_ns = :created_ns;

-- name: covered(archive, stream, created_ns, first, last)$
select (c.covered * int8multirange(int8range(:first, :last, '[]')))::text
from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns;

-- name: missing(archive, stream, created_ns, first, last)$
-- Before its start an archive misses nothing.
select (int8multirange(int8range(:first, :last, '[]')) * int8multirange(int8range(c.start_seq, null)) - c.covered)::text
from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns;
