-- What the tasks of the newest attempt have reported of chunks that are not done: messages that the targets acknowledged,
-- and messages found there. At least these: reports come several times a second, and are kept every few seconds.
alter table nats3.replay
    add column progress_published bigint not null default 0 check (progress_published >= 0),
    add column progress_found bigint not null default 0 check (progress_found >= 0);
