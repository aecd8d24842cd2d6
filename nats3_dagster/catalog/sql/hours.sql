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
-- The last hour with chunks before these sequences, and the first one after them; null where there is none. Hours do not
-- ascend with sequences where a clock stepped, so each is a search of the nearest.
select (select h.hour from nats3.hour h
        where h.archive_id = :archive::bigint and h.incarnation_id = i.id and h.last_seq < :first::bigint
        order by nats3.distance(nats3.hour_number(h.hour)::bigint, 2147483647) limit 1) as before,
       (select h.hour from nats3.hour h
        where h.archive_id = :archive::bigint and h.incarnation_id = i.id and h.first_seq > :last::bigint
        order by nats3.distance(nats3.hour_number(h.hour)::bigint, -2147483648) limit 1) as after
from nats3.incarnation i where i.stream = :stream and i.created_ns = :created_ns;

-- name: seqs_beside(archive, stream, created_ns, first_hour, last_hour)
-- The highest sequence of the hours before these, and the lowest one of the hours after them; null where there is none.
-- An index counts distances as floats: from the end of the coverage they are exact, from the largest number they are not.
select (select h.last_seq from nats3.hour h
        where h.archive_id = :archive::bigint and h.incarnation_id = i.id
          and nats3.hour_number(h.hour)::bigint < nats3.hour_number(:first_hour)::bigint
        order by nats3.distance(h.last_seq, c.last_seq) limit 1) as before,
       (select h.first_seq from nats3.hour h
        where h.archive_id = :archive::bigint and h.incarnation_id = i.id
          and nats3.hour_number(h.hour)::bigint > nats3.hour_number(:last_hour)::bigint
        order by nats3.distance(h.first_seq, 0) limit 1) as after
from nats3.incarnation i join nats3.coverage c on c.archive_id = :archive and c.incarnation_id = i.id
where i.stream = :stream and i.created_ns = :created_ns;

-- name: hours_sealed(archive, first_hour, last_hour)
-- True if each hour from first to last is as it was sealed.
select exists (select from nats3.archive_hours
               where archive_id = :archive and sealed @> nats3.hour_range(:first_hour, :last_hour));

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

-- name: hour_contents(archive, hours, losses)
-- The content of each of the hours, by incarnation, whatever chunks its messages are cut into: sums of the messages, the
-- digest of their sequences where the catalog knows these, and the missing sequences by reason as JSON. Where a subject
-- filter left messages out between the hour's own, no chunk says which sequences are absent: seqs is null.
with own as (
    select hour, incarnation_id, sum(messages)::bigint as messages, sum(payload_bytes)::bigint as payload_bytes,
           max(largest_bytes) as largest_bytes, min(first_ns) as first_ns, max(last_ns) as last_ns,
           range_agg(seqs) as covers, bool_and(deleted is not null) as is_exact
    from nats3.chunk where archive_id = :archive and hour = any(:hours::text[]) and deleted_at is null
    group by hour, incarnation_id
),
absent as (
    select c.hour, c.incarnation_id, range_agg(d) as seqs
    from nats3.chunk c cross join unnest(c.deleted) d
    where c.archive_id = :archive and c.hour = any(:hours::text[]) and c.deleted_at is null
    group by c.hour, c.incarnation_id
),
lost as (
    select hour, incarnation_id, jsonb_object_agg(reason, sequences)::text as sequences
    from (
        select hour, incarnation_id, reason, sum(sequences)::bigint as sequences
        from (
            select hour, incarnation_id, absent_reason as reason, absent as sequences from nats3.chunk
            where archive_id = :archive and hour = any(:hours::text[]) and deleted_at is null
              and absent_reason = any(:losses::text[])
            union all
            select h.hour, g.incarnation_id, g.reason, nats3.size(g.seqs)
            from unnest(:hours::text[]) as h(hour)
            join nats3.gap g on g.first_hour <= h.hour and g.last_hour >= h.hour
            where g.archive_id = :archive
        ) each
        group by hour, incarnation_id, reason
    ) by_reason
    group by hour, incarnation_id
)
select hour, i.stream, i.created_ns, coalesce(own.messages, 0) as messages,
       coalesce(own.payload_bytes, 0) as payload_bytes, coalesce(own.largest_bytes, 0) as largest_bytes,
       coalesce(own.first_ns, 0) as first_ns, coalesce(own.last_ns, 0) as last_ns,
       case when own.is_exact and not exists (
           select from nats3.gap g
           where g.archive_id = :archive and g.incarnation_id = own.incarnation_id and g.reason = 'unselected'
             and g.seqs && range_merge(own.covers))
       then encode(sha256(convert_to((own.covers - coalesce(absent.seqs, '{}'))::text, 'UTF8')), 'hex') end as seqs,
       coalesce(lost.sequences, '{}') as lost
from own full join lost using (hour, incarnation_id) left join absent using (hour, incarnation_id)
join nats3.incarnation i on i.id = incarnation_id
order by hour, i.created_ns, i.stream;

-- name: hour_marks(archive, hour)
-- True if the hour is compacted; the names of the holds that cover it; and the objects that are missing in copies, null without
-- a copy.
select exists (select from nats3.archive_hours k
               where k.archive_id = a.id and k.compacted @> nats3.hour_number(:hour)) as compacted,
       array(select h.name from nats3.hold h
             where h.archive_id = a.id and h.released_at is null and h.hours @> nats3.hour_number(:hour)
             order by h.id) as holds,
       case when cardinality(a.copies) > 0 then (
           select count(*) from nats3.copy_task t where t.archive_id = a.id and t.hour = :hour and not t.removes)
       end as missing_in_copies
from nats3.archive a where a.id = :archive;
