-- Messages that a live replay left out, because their own time to live had ended.
alter table nats3.replay add column expired bigint not null default 0 check (expired >= 0);
alter table nats3.replay_chunk
    add column expired bigint not null default 0 check (expired >= 0),
    drop constraint if exists replay_chunk_accounts,
    -- A replay loses nothing: what was selected was published, or found in the target, or had ended by itself.
    add constraint replay_chunk_accounts check (published + found + expired = selected and selected <= planned);
