-- name: expired_chunks(archive, end_hour, keep_bytes, limit_to)
-- The chunks that the archive does not keep any longer, of a number of hours at most, the oldest first: of sealed hours
-- before end_hour; and of the oldest sealed hours while more than keep_bytes are stored (null: any number), holds not counted. Not
-- those that a hold covers, nor those that a running replay has yet to publish, also where a compaction merged them.
with excess as (
    select sum(v.stored_bytes) - :keep_bytes::bigint - (
        select coalesce(sum(c.stored_bytes), 0) from nats3.chunk c
        where c.archive_id = :archive and c.deleted_at is null and nats3.is_held(c.archive_id, c.hour, c.seqs)
          and exists (select from nats3.hold where archive_id = :archive and released_at is null)) as bytes
    from nats3.coverage v where v.archive_id = :archive
),
free as (
    select h.hour, o.ids, o.bytes, o.messages
    from (
        select h.hour from nats3.hour h join nats3.archive_hours k on k.archive_id = h.archive_id
        where h.archive_id = :archive and k.sealed @> nats3.hour_number(h.hour)
          and (h.hour < :end_hour or coalesce((select bytes from excess), 0) > 0)
        group by h.hour
    ) h
    cross join lateral (
        select array_agg(c.id order by c.incarnation_id, lower(c.seqs)) as ids, sum(c.stored_bytes)::bigint as bytes,
               sum(c.messages)::bigint as messages
        from nats3.chunk c
        where c.archive_id = :archive and c.hour = h.hour and c.deleted_at is null
          and not nats3.is_held(c.archive_id, c.hour, c.seqs)
          and nats3.replay_of(c.id) is null
    ) o
    where o.ids is not null
    order by h.hour
    limit :limit_to
)
select hour, ids, bytes, messages
from (select f.*, sum(bytes) over (order by hour) - bytes as before from free f) f
where hour < :end_hour or before < (select bytes from excess)
order by hour;

-- name: unkept(archive, end_hour)
-- The hours before end_hour that have chunks which no hold covers: their number and the oldest one; and how many of them
-- are not as they were sealed.
select count(*) as hours, min(hour) as oldest, count(*) filter (where not is_sealed) as unsealed
from (
    select h.hour, coalesce(bool_or(k.sealed @> nats3.hour_number(h.hour)), false) as is_sealed
    from nats3.hour h left join nats3.archive_hours k on k.archive_id = h.archive_id
    where h.archive_id = :archive and h.hour < :end_hour
      and exists (
          select from nats3.chunk c
          where c.archive_id = :archive and c.hour = h.hour and c.deleted_at is null
            and not nats3.is_held(c.archive_id, c.hour, c.seqs))
    group by h.hour
) o;

-- name: archives_to_expire()
-- The names of the archives that do not keep all, or have hours with expired messages that were not sealed since.
select a.name
from nats3.archive a
where a.deleted_at is null
  and (a.keep_s > 0 or a.keep_bytes > 0
       or exists (
           select from nats3.gap g left join nats3.archive_hours k on k.archive_id = g.archive_id
           where g.archive_id = a.id and nats3.is_removed(g.reason) and g.reason = 'expired_by_policy'
             and g.first_hour is not null and not coalesce(k.sealed @> nats3.hour_number(g.first_hour), false)))
order by a.name;

-- name: unsealed_expiries(archive, limit_to)
-- Hours that have expired messages and were not sealed since, the oldest first.
select distinct g.first_hour
from nats3.gap g left join nats3.archive_hours k on k.archive_id = g.archive_id
where g.archive_id = :archive and nats3.is_removed(g.reason) and g.reason = 'expired_by_policy' and g.first_hour is not null
  and not coalesce(k.sealed @> nats3.hour_number(g.first_hour), false)
order by 1 limit :limit_to;
