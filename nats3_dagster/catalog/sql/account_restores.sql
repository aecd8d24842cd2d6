-- name: account_streams(rule)
-- The streams that the rule gives no archive because all that they have is of other streams, by name.
select stream, created_ns, config, consumers, gone_at from nats3.account_stream where rule_id = :rule order by stream;

-- name: keep_account_stream(rule, stream, created_ns, config, consumers)
-- Keeps how such a stream is made again.
insert into nats3.account_stream (rule_id, stream, created_ns, config, consumers)
values (:rule, :stream, :created_ns, :config::jsonb, :consumers)
on conflict (rule_id, stream) do update
set config = excluded.config, consumers = excluded.consumers, gone_at = null,
    created_ns = least(account_stream.created_ns, excluded.created_ns);

-- name: mark_account_streams_gone(rule, streams)
-- Records that these streams were found to be deleted.
update nats3.account_stream set gone_at = now() where rule_id = :rule and stream = any(:streams::text[]) and gone_at is null;

-- name: drop_account_streams(rule, streams)
-- Forgets streams that have an archive now, or that the rule leaves out for another reason.
delete from nats3.account_stream where rule_id = :rule and stream = any(:streams::text[]);

-- name: archived_up_to(archive, stream, created_ns)
-- The time up to which all that the stream had is in the archive: of the last look at it, if nothing was missing then, else of the
-- last archived message; no row where nothing is archived.
select up_to from (
    select case when c.last_seq >= i.last_seq then i.observed_at else to_timestamp(c.last_ns / 1e9) end as up_to
    from nats3.coverage_view c join nats3.incarnation i on i.id = c.incarnation_id
    where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns
) found where up_to is not null;

-- name: add_restored_stream(rule, stream, created_ns, to_ns)
-- Records a stream that a restore of an account made, and forgets those of its name that are older than a year.
with old as (
    delete from nats3.restored_stream
    where rule_id = :rule and stream = :stream and restored_at < now() - interval '1 year'
)
insert into nats3.restored_stream (rule_id, stream, created_ns, to_ns)
values (:rule, :stream, :created_ns, :to_ns) on conflict do nothing;

-- name: restored_streams(rule)
-- The streams that restores of the account made.
select stream, created_ns, to_ns from nats3.restored_stream where rule_id = :rule;

-- name: add_drill(archive, error, messages, payload_bytes, seconds, live, rpo_s)
-- Keeps the result of a drill in place of the one before.
insert into nats3.drill (archive_id, error, messages, payload_bytes, seconds, live, rpo_s, proven_at)
values (:archive, :error, :messages, :payload_bytes, :seconds, :live, :rpo_s, case when :error::text is null then now() end)
on conflict (archive_id) do update
set drilled_at = now(), error = excluded.error, messages = excluded.messages, payload_bytes = excluded.payload_bytes,
    seconds = excluded.seconds, live = excluded.live, rpo_s = excluded.rpo_s,
    proven_at = coalesce(excluded.proven_at, drill.proven_at);

-- name: drills(archives)
-- The last drill of each of these archives that had one.
select archive_id, drilled_at, error, messages, payload_bytes, seconds, live, rpo_s, proven_at
from nats3.drill where archive_id = any(:archives::bigint[]);
