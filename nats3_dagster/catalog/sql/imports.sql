-- name: add_import(archive, digest, first_seq, last_seq, messages)
-- Records the backup that an archive is of.
insert into nats3.imported_archive (archive_id, digest, first_seq, last_seq, messages)
values (:archive, :digest, :first_seq, :last_seq, :messages);

-- name: import_of(archive)
-- The backup that an archive is of; no row for an archive of a stream.
select * from nats3.imported_archive where archive_id = :archive;

-- name: paused_imports()
-- The backups of archives that are paused: their streams do not change.
select m.* from nats3.imported_archive m join nats3.archive a on a.id = m.archive_id
where a.paused and a.deleted_at is null;

-- name: finish_import(archive)
-- Records that all of the backup is archived.
update nats3.imported_archive set finished_at = now() where archive_id = :archive and finished_at is null;
