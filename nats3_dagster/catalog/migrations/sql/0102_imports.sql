-- Archives of backups. While such an archive is paused, its stream is the backup, which does not change.
create table nats3.imported_archive (
    archive_id  bigint primary key references nats3.archive,
    -- SHA-256 of the backup's files: an import that was cut goes on with the same backup only.
    digest      text not null check (digest ~ '^[0-9a-f]{64}$'),
    -- As the backup describes its stream.
    first_seq   bigint not null,
    last_seq    bigint not null,
    messages    bigint not null,
    -- When all of it was archived; null before.
    finished_at timestamptz
);
