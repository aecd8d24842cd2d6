-- name: add_hold(archive, name, first_hour, last_hour, first_seq, last_seq, reason, actor)
-- The new hold on the hours and sequences, each from first to last, open where there is no bound. `actor`:
-- who placed it; null for whom the session is of.
insert into nats3.hold (archive_id, name, hours, seqs, reason, actor)
values (:archive, :name, nats3.hour_range(:first_hour::text, :last_hour::text),
        int8range(:first_seq::bigint, :last_seq::bigint, '[]'), :reason,
        coalesce(:actor::text, nats3.actor()))
returning name, reason, actor, created_at, nats3.hour_at(lower(hours)) as first_hour,
          nats3.hour_at(upper(hours) - 1) as last_hour, lower(seqs) as first_seq, upper(seqs) - 1 as last_seq;

-- name: holds(archive)
-- The holds of the archive that hold now, the oldest first.
select name, reason, actor, created_at, nats3.hour_at(lower(hours)) as first_hour, nats3.hour_at(upper(hours) - 1) as last_hour,
       lower(seqs) as first_seq, upper(seqs) - 1 as last_seq
from nats3.hold where archive_id = :archive and released_at is null order by id;

-- name: archives_with_hold(name)
-- The names of the archives that a hold of this name holds now.
select a.name from nats3.hold h join nats3.archive a on a.id = h.archive_id
where h.name = :name and h.released_at is null and a.deleted_at is null order by a.name;

-- name: holding(archive, hour, first_seq, last_seq)
-- The name of a hold that covers one of these sequences of the hour.
select name from nats3.hold
where archive_id = :archive and released_at is null and hours @> nats3.hour_number(:hour)
  and seqs && int8range(:first_seq, :last_seq, '[]')
order by id limit 1;

-- name: held_of(archive)
-- The number and the stored bytes of the live chunks that holds cover.
select count(*) as chunks, coalesce(sum(c.stored_bytes), 0)::bigint as bytes
from nats3.chunk c
where c.archive_id = :archive and c.deleted_at is null and nats3.is_held(c.archive_id, c.hour, c.seqs)
  and exists (select from nats3.hold where archive_id = :archive and released_at is null);

-- name: release_hold(archive, name, reason)
-- Ends a hold; its row stays for the history.
update nats3.hold set released_at = now(), released_by = nats3.actor(), release_reason = :reason
where archive_id = :archive and name = :name and released_at is null;

-- name: held_absences(archive)
-- The sequences that holds cover and that were taken out of the archive after the hold was placed: none, or the catalog
-- was changed by another hand.
select coalesce(sum(nats3.size(g.seqs * h.seqs)), 0)::bigint
from nats3.hold h join nats3.gap g on g.archive_id = h.archive_id and g.seqs && h.seqs and g.hours && h.hours
where h.archive_id = :archive and h.released_at is null and nats3.is_removed(g.reason) and g.recorded_at > h.created_at;
