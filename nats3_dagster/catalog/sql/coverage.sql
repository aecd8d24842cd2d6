-- name: observe_stream(stream, created_ns, config, removing, first_seq, last_seq, first_ns, last_ns, messages, bytes)
-- Records the state of a stream as it was seen now; the id of its incarnation.
insert into nats3.incarnation as i
    (stream, created_ns, config, removing, first_seq, last_seq, first_ns, last_ns, messages, bytes)
values (:stream, :created_ns, :config::jsonb, :removing::jsonb, :first_seq, :last_seq, :first_ns, :last_ns, :messages,
        :bytes)
on conflict (stream, created_ns) do update set
    config = excluded.config, removing = i.removing || excluded.removing, first_seq = excluded.first_seq, last_seq = excluded.last_seq,
    first_ns = excluded.first_ns, last_ns = excluded.last_ns, messages = excluded.messages, bytes = excluded.bytes,
    observed_at = now()
returning id;

-- name: observe_streams(streams, created, configs, removing, firsts, lasts, first_times, last_times, messages, bytes)
-- Records the states of many streams whose incarnations are known, as they were seen now. One that is as it was is not
-- written again.
update nats3.incarnation as i set
    config = s.config, removing = i.removing || s.removing, first_seq = s.first_seq, last_seq = s.last_seq,
    first_ns = s.first_ns, last_ns = s.last_ns, messages = s.messages, bytes = s.bytes, observed_at = now()
from (
    select stream, created_ns, config::jsonb as config, removing::jsonb as removing, first_seq, last_seq, first_ns,
           last_ns, messages, bytes
    from unnest(:streams::text[], :created::bigint[], :configs::text[], :removing::text[], :firsts::bigint[],
                :lasts::bigint[], :first_times::bigint[], :last_times::bigint[], :messages::bigint[], :bytes::bigint[])
        as u (stream, created_ns, config, removing, first_seq, last_seq, first_ns, last_ns, messages, bytes)
) s
where i.stream = s.stream and i.created_ns = s.created_ns
  and (i.first_seq, i.last_seq, i.messages, i.bytes, i.config) is distinct from
      (s.first_seq, s.last_seq, s.messages, s.bytes, s.config);

-- name: has_coverage(archive)
-- True if the archive has begun an incarnation.
select exists (select from nats3.coverage where archive_id = :archive);

-- name: begin_coverage(archive, incarnation, created_ns, first_seq, born_at)
-- Begins an incarnation, unless the archive has begun it already.
-- The first one begins where the stream does today: what expired before the archive existed was never asked for. A later
-- one, made while the archive existed, begins with its first message.
insert into nats3.coverage (archive_id, incarnation_id, start_seq)
select :archive, :incarnation, case when exists (
    select from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
    where c.archive_id = :archive and i.created_ns < :created_ns
) then :born_at::bigint else :first_seq::bigint end
on conflict (archive_id, incarnation_id) do nothing;

-- name: continue_restored(archive, stream, created_ns, restored_ns, last_seq, messages)
-- Lets a stream that was restored from a backup continue an incarnation, unless the archive has changed; the
-- incarnation's id.
update nats3.coverage c set restored_ns = :restored_ns
from nats3.incarnation i
where i.id = c.incarnation_id and c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns
  and c.last_seq = :last_seq and c.messages = :messages
returning c.incarnation_id;

-- name: extend_back(archive, stream, created_ns, start)
-- Lets the archive begin an incarnation with an earlier sequence.
update nats3.coverage c set start_seq = :start
from nats3.incarnation i
where i.id = c.incarnation_id and c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns
  and c.start_seq > :start;

-- name: record_unknown_end(archive, stream, created_ns, last)
-- Records the last sequence that the removed stream was seen with.
update nats3.coverage c set unknown_after = :last
from nats3.incarnation i
where i.id = c.incarnation_id and c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns;

-- name: coverage_of(archive, stream, created_ns)
-- The archive's contents of one incarnation.
select * from nats3.coverage_view
where archive_id = :archive and stream = :stream and created_ns = :created_ns;

-- name: coverages(archive)
-- The archive's contents of each incarnation, oldest first.
select * from nats3.coverage_view where archive_id = :archive order by created_ns;

-- name: coverages_now(archives, streams, created, lasts)
-- The contents of each of these archives by incarnation, oldest first; its witness, and what of an incarnation given is
-- missing up to the sequence given, as the two statements below answer.
select v.*, c.witness_seq, c.witness_ns,
       case when v.stream = q.stream and q.created_ns in (v.created_ns, v.restored_ns) then
           (int8multirange(int8range(0, q.last_seq, '[]')) * int8multirange(int8range(c.start_seq, null)) - c.covered)::text
       end as missing
from unnest(:archives::bigint[], :streams::text[], :created::bigint[], :lasts::bigint[])
    as q(archive_id, stream, created_ns, last_seq)
join nats3.coverage_view v on v.archive_id = q.archive_id
join nats3.coverage c on c.archive_id = v.archive_id and c.incarnation_id = v.incarnation_id
order by v.archive_id, v.created_ns;

-- name: witness(archive, stream, created_ns)
-- The newest captured sequence whose store time is known, and that time.
select c.witness_seq as seq, c.witness_ns as time_ns
from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns and c.witness_seq is not null;

-- name: record_witness(archive, stream, created_ns, seq, time_ns)
-- Records the store time of a captured sequence, unless that of a newer one is known.
update nats3.coverage c set witness_seq = :seq, witness_ns = :time_ns
from nats3.incarnation i
where i.id = c.incarnation_id and c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns
  and coalesce(c.witness_seq, 0) < :seq;

-- name: stream_state(stream, created_ns)
-- The state of a stream when it was last observed.
select * from nats3.incarnation where stream = :stream and created_ns = :created_ns;

-- name: covered(archive, stream, created_ns, first, last)
-- The sequences from first to last that are in a chunk or a gap.
select (c.covered * int8multirange(int8range(:first, :last, '[]')))::text
from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns;

-- name: missing(archive, stream, created_ns, first, last)
-- The sequences from first to last that are in no chunk and no gap; before its start an archive misses nothing.
select (int8multirange(int8range(:first, :last, '[]')) * int8multirange(int8range(c.start_seq, null)) - c.covered)::text
from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns;
