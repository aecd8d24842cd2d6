-- name: add_event(archive, what, detail, run_id)
-- Keeps what was done to an archive.
insert into nats3.event (archive_id, what, detail, dagster_run_id) values (:archive, :what, :detail::jsonb, :run_id);
