-- name: deliveries(archive)
-- Which deliveries of its durable the archive accounts for.
select created_ns, consumer_seq, accounted, most_deliveries as most, missed_seq, session
from nats3.durable where archive_id = :archive;

-- name: all_deliveries()
-- Which deliveries of their durables the archives that are not deleted account for.
select d.archive_id, d.created_ns, d.consumer_seq, d.accounted, d.most_deliveries as most, d.missed_seq,
    d.session
from nats3.durable d join nats3.archive a on a.id = d.archive_id where a.deleted_at is null;

-- name: record_deliveries(archive, created_ns, consumer_seq, accounted, most, missed_seq, session)
-- Records which deliveries of its durable the archive accounts for.
insert into nats3.durable (archive_id, created_ns, consumer_seq, accounted, most_deliveries, missed_seq, session)
values (:archive, :created_ns, :consumer_seq, :accounted, :most, :missed_seq, :session)
on conflict (archive_id) do update set
    created_ns = excluded.created_ns, consumer_seq = excluded.consumer_seq, accounted = excluded.accounted,
    most_deliveries = excluded.most_deliveries, missed_seq = excluded.missed_seq,
    session = excluded.session;
