-- How long the archive's buffer keeps a message, and how many bytes it has at most: a mirror of the stream, which the
-- archive makes and is read from. 0: none, and any number.
alter table nats3.archive
    add column buffer_s bigint not null default 0 check (buffer_s >= 0),
    add column buffer_bytes bigint not null default 0 check (buffer_bytes >= 0);
