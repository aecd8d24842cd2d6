-- A sensor asks every few seconds for the newest seal of each archive.
create index seal_newest on nats3.seal (archive_id, id);
