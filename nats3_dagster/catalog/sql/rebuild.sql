-- name: remember_stream(stream, created_ns, config, removing, start)
-- Records that there was a stream, and its configuration unless the stream was ever observed; the id of its incarnation.
insert into nats3.incarnation as i
    (stream, created_ns, config, removing, first_seq, last_seq, first_ns, last_ns, messages, bytes)
values (:stream, :created_ns, :config::jsonb, :removing::jsonb, :start, :start - 1, 0, 0, 0, 0)
on conflict (stream, created_ns) do update set
    config = case when i.last_ns = 0 then excluded.config else i.config end, removing = i.removing || excluded.removing
returning id;

-- name: begin_rebuilt(archive, incarnation, start)
-- Begins an incarnation of the archive with this sequence, or lets it begin earlier.
insert into nats3.coverage as c (archive_id, incarnation_id, start_seq) values (:archive, :incarnation, :start)
on conflict (archive_id, incarnation_id) do update set start_seq = least(c.start_seq, excluded.start_seq);

-- name: record_rebuilt(archive, stream, created_ns, restored_ns, unknown_after)
-- Records what the settings beside the chunks say of an incarnation.
update nats3.coverage c set restored_ns = :restored_ns::bigint, unknown_after = :unknown_after::bigint
from nats3.incarnation i
where i.id = c.incarnation_id and c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns;

-- name: add_placed_gaps(archive, gaps)
-- Adds the gaps of a JSON array with the hours and times that manifests have.
insert into nats3.gap (archive_id, incarnation_id, seqs, reason, first_hour, last_hour, after_ns, before_ns)
select :archive, g.incarnation_id, int8range(g.first_seq, g.last_seq, '[]'), g.reason, g.first_hour, g.last_hour, g.after_ns,
       g.before_ns
from json_to_recordset(:gaps::json) as g(
    incarnation_id bigint, first_seq bigint, last_seq bigint, reason text, first_hour text, last_hour text,
    after_ns bigint, before_ns bigint)
order by g.incarnation_id, g.first_seq;

-- name: add_rebuilt_seal(archive, hour, number, revision, chunks, losses, messages, gaps, content, bucket, key, sha256, stored_bytes)
-- Adds a seal that the bucket has a manifest of. Of the revision -1 it is not valid.
insert into nats3.seal (archive_id, hour, number, revision, chunks, losses, messages, gaps, content, bucket, key, sha256,
                        stored_bytes)
values (:archive, :hour, :number, :revision, :chunks, :losses, :messages, :gaps, :content, :bucket, :key, :sha256,
        :stored_bytes);
