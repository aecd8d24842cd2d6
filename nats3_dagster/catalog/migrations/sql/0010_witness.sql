-- The newest captured sequence of which the store time is known, with that time: a stream that has another message there
-- now has forgotten its end and given the sequences out again.
alter table nats3.coverage
    add column witness_seq bigint,
    add column witness_ns  bigint,
    add constraint coverage_witness check ((witness_seq is null) = (witness_ns is null));
