-- The sequences beside an hour, and the hours beside a sequence: neither ascends with the other where a clock stepped.
create index hour_order on nats3.hour using gist
    (archive_id, incarnation_id, (nats3.hour_number(hour)::bigint), first_seq, last_seq);

-- A replay that runs, or is about to, and still has to publish messages of the chunk, or of those that were merged into it.
create function nats3.replay_of(chunk bigint) returns text stable language sql as $$
    select r.id from nats3.replay_chunk p join nats3.replay r on r.id = p.replay_id
    where p.chunk_id in (select chunk union all select m.chunk_id from nats3.merged_chunk m where m.into_id = chunk)
      and p.state = 'pending' and r.state in ('planned', 'running') and r.deleted_at is null and not nats3.is_lost(r)
    limit 1
$$;
