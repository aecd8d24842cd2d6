-- name: list_hours(archive, first_hour, last_hour, limit_to, skip)
-- The chosen hours that have live chunks, ascending, a row for each incarnation; limit and skip count hours.
with chosen as (
    select hour from nats3.hour
    where archive_id = :archive
      and (:first_hour::text is null or hour >= :first_hour) and (:last_hour::text is null or hour <= :last_hour)
    group by hour
    order by hour
    limit :limit_to offset :skip
)
select h.*, i.stream, i.created_ns
from chosen join nats3.hour h using (hour) join nats3.incarnation i on i.id = h.incarnation_id
where h.archive_id = :archive
order by h.hour, i.created_ns;

-- name: hour_revisions(archive)
-- The hours that have live chunks, ascending, and the archive's revision when each last changed.
select hour, max(revision) as revision from nats3.hour where archive_id = :archive group by hour order by hour;

-- name: hours_around(archive, stream, created_ns, first, last)
-- The last hour with chunks before these sequences, and the first one after them; null where there is none.
select (select max(h.hour) from nats3.hour h
        where h.archive_id = :archive and h.incarnation_id = i.id and h.last_seq < :first) as before,
       (select min(h.hour) from nats3.hour h
        where h.archive_id = :archive and h.incarnation_id = i.id and h.first_seq > :last) as after
from nats3.incarnation i where i.stream = :stream and i.created_ns = :created_ns;

-- name: seqs_beside(archive, stream, created_ns, first_hour, last_hour)
-- The highest sequence of the hours before these, and the lowest one of the hours after them; null where there is none.
select (select max(h.last_seq) from nats3.hour h
        where h.archive_id = :archive and h.incarnation_id = i.id and h.hour < :first_hour) as before,
       (select min(h.first_seq) from nats3.hour h
        where h.archive_id = :archive and h.incarnation_id = i.id and h.hour > :last_hour) as after
from nats3.incarnation i where i.stream = :stream and i.created_ns = :created_ns;

-- name: hour_counts_of(archive)
-- How many hours of the archive have live chunks; how many are as they were sealed, and how many of these are empty.
select hours, sealed_filled + sealed_empty as sealed, sealed_empty as empty
from nats3.archive_hours where archive_id = :archive;

-- name: revision(archive)
-- How often the archive's chunks and gaps have changed.
select revision from nats3.archive where id = :archive;

-- name: hour_spans(archive, stream, created_ns, seq)
-- The hour of the sequence, or the last one before it, and all later ones, in stream order.
select h.hour, h.first_seq, h.last_seq
from nats3.hour h join nats3.incarnation i on i.id = h.incarnation_id
where h.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns
  and h.first_seq >= coalesce((
    select max(b.first_seq) from nats3.hour b
    where b.archive_id = h.archive_id and b.incarnation_id = h.incarnation_id and b.first_seq <= :seq), 0)
order by h.first_seq;
