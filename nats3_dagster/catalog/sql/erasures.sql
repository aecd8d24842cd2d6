-- name: add_erasure(archive, record_id, number, previous, digest, reason, chosen_by, messages, decided_at)
-- The id of a new erasure, which is not finished; no row if the archive has this record already.
with added as (
    insert into nats3.erasure (archive_id, record_id, number, previous, digest, reason, chosen_by, messages, decided_at)
    values (:archive, :record_id, :number, :previous::text, :digest, :reason, :chosen_by::text[], :messages, :decided_at)
    on conflict (archive_id, digest) do nothing
    returning id
), opened as (
    insert into nats3.open_erasure (erasure_id) select id from added
)
select id from added;

-- name: add_erased_ranges(archive, erasure, created_ns, ranges)
-- Records the sequences of one incarnation that an erasure erases.
insert into nats3.erased_range (erasure_id, archive_id, created_ns, seqs)
select :erasure, :archive, :created_ns, r from unnest(:ranges::int8multirange) r;

-- name: erasures(archive)
-- The erasures of the archive in the order of their numbers, without the sequences.
select e.id, e.record_id, e.number, e.previous, e.digest, e.messages, e.decided_at, o.erasure_id is not null as is_open
from nats3.erasure e left join nats3.open_erasure o on o.erasure_id = e.id
where e.archive_id = :archive order by e.number, e.digest;

-- name: erased_ranges(archive, erasure, created_ns, first_seq, last_seq, is_open)
-- The erased sequences by incarnation, joined: of all erasures or one; of one incarnation; from first to last; of those that are not
-- finished.
select e.created_ns, range_agg(e.seqs)::text as ranges
from nats3.erased_range e
where e.archive_id = :archive
  and (:erasure::bigint is null or e.erasure_id = :erasure::bigint)
  and (:created_ns::bigint is null or e.created_ns = :created_ns::bigint)
  and (:first_seq::bigint is null or e.seqs && int8range(:first_seq::bigint, :last_seq::bigint, '[]'))
  and (not :is_open::boolean or exists (select from nats3.open_erasure o where o.erasure_id = e.erasure_id))
group by e.created_ns order by e.created_ns;

-- name: chunks_to_cut(archive)
-- The live chunks that may have messages of an erasure that is not finished, in the order of the stream.
select distinct c.id, i.created_ns, lower(c.seqs) as first
from nats3.open_erasure o join nats3.erased_range e on e.erasure_id = o.erasure_id
join nats3.incarnation i on i.created_ns = e.created_ns
join nats3.chunk c on c.archive_id = e.archive_id and c.incarnation_id = i.id and c.seqs && e.seqs and c.deleted_at is null
where e.archive_id = :archive and nats3.may_have_any(c.seqs, c.deleted, int8multirange(e.seqs))
order by 2, 3;

-- name: hours_with(archive, stream, created_ns, ranges)
-- The hour of each live chunk that has, or may have, a message of these sequences.
select c.hour from nats3.chunk c join nats3.incarnation i on i.id = c.incarnation_id
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns and c.deleted_at is null
  and c.seqs && range_merge(:ranges::int8multirange) and c.seqs && :ranges::int8multirange
  and nats3.may_have_any(c.seqs, c.deleted, :ranges::int8multirange);

-- name: hours_of_open_erasures(archive)
-- The hours whose sequences an erasure that is not finished touches, of chunks and of gaps, ascending.
select distinct h.hour from nats3.open_erasure o
join nats3.erased_range e on e.erasure_id = o.erasure_id
join nats3.incarnation i on i.created_ns = e.created_ns
cross join lateral (
    select c.hour from nats3.chunk c
    where c.archive_id = e.archive_id and c.incarnation_id = i.id and c.seqs && e.seqs and c.deleted_at is null
    union all
    select unnest(array[g.first_hour, g.last_hour]) from nats3.gap g
    where g.archive_id = e.archive_id and g.incarnation_id = i.id and g.seqs && e.seqs and g.reason = 'erased'
) h
where e.archive_id = :archive and h.hour is not null order by h.hour;

-- name: holds_on_erasure(archive, stream, created_ns, ranges)
-- The first live chunk with messages of these sequences that a hold covers, with the hold.
select c.seqs, c.hour, h.name from nats3.chunk c join nats3.incarnation i on i.id = c.incarnation_id
join nats3.hold h on h.archive_id = c.archive_id and h.released_at is null and h.hours @> nats3.hour_number(c.hour)
  and h.seqs && c.seqs
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns and c.deleted_at is null
  and c.seqs && range_merge(:ranges::int8multirange) and c.seqs && :ranges::int8multirange
  and nats3.may_have_any(c.seqs, c.deleted, :ranges::int8multirange)
order by lower(c.seqs), h.id limit 1;

-- name: replay_on_erasure(archive, stream, created_ns, ranges)
-- A replay that still has to publish a chunk with messages of these sequences, with the chunk.
select p.replay, c.id as chunk
from nats3.chunk c join nats3.incarnation i on i.id = c.incarnation_id
cross join lateral (select nats3.replay_of(c.id) as replay) p
where c.archive_id = :archive and i.stream = :stream and i.created_ns = :created_ns and c.deleted_at is null
  and c.seqs && range_merge(:ranges::int8multirange) and c.seqs && :ranges::int8multirange
  and nats3.may_have_any(c.seqs, c.deleted, :ranges::int8multirange) and p.replay is not null
limit 1;

-- name: replay_of_chunk(chunk)
-- A replay that still has to publish messages of the chunk.
select r from nats3.replay_of(:chunk::bigint) r where r is not null;

-- name: unfinished_erasures()
-- The archives that have an erasure which is not finished.
select distinct a.name from nats3.open_erasure o join nats3.erasure e on e.id = o.erasure_id join nats3.archive a on a.id = e.archive_id
where a.deleted_at is null order by a.name;

-- name: note_left_over(archive, objects)
-- Records how many objects the last search found and could not remove.
update nats3.open_erasure o set left_over = :objects from nats3.erasure e
where e.id = o.erasure_id and e.archive_id = :archive;

-- name: reopen_erasures(archive)
-- Lets all erasures of the archive count as not finished.
insert into nats3.open_erasure (erasure_id) select id from nats3.erasure where archive_id = :archive on conflict do nothing;

-- name: finish_erasures(archive, erasures)
-- Finishes these erasures of the archive; those that it finishes.
with finished as (
    delete from nats3.open_erasure o using nats3.erasure e
    where e.id = o.erasure_id and e.archive_id = :archive and e.id = any(:erasures::bigint[])
    returning e.id
)
select e.number, e.messages
from finished f join nats3.erasure e using (id) order by e.number;

-- name: former_copies(archive)
-- The copies that were taken out of the archive's settings.
select bucket from nats3.former_copy where archive_id = :archive order by bucket;

-- name: add_former_copies(archive, buckets)
-- Records former copies of an archive that is made again.
insert into nats3.former_copy (archive_id, bucket) select :archive, unnest(:buckets::text[]) on conflict do nothing;

-- name: forget_former_copy(archive, bucket)
-- Forgets a former copy: there is no such bucket any more.
delete from nats3.former_copy where archive_id = :archive and bucket = :bucket;

-- name: exports_with_hours(archive, hours)
-- The exports of the archive that have files of one of these hours.
select distinct x.name from nats3.export x join nats3.export_hour h on h.export_id = x.id
where h.archive_id = :archive and h.hour = any(:hours::text[]) and h.files > 0 and x.deleted_at is null order by x.name;

-- name: other_archives(archive, created_ns)
-- The other archives of the same stream that have chunks of one of these incarnations, or had them when they were deleted.
select a.name || case when a.deleted_at is null then '' else ' (deleted)' end from nats3.archive own
join nats3.archive a on a.stream = own.stream and a.id <> own.id and (a.bucket, a.prefix, a.name) <> (own.bucket, own.prefix, own.name)
where own.id = :archive and exists (
    select from nats3.chunk c join nats3.incarnation i on i.id = c.incarnation_id
    where c.archive_id = a.id and i.created_ns = any(:created_ns::bigint[])
      and not exists (select from nats3.removal r where r.bucket = c.bucket and r.key = c.key and r.removed_at >= c.deleted_at)
      and (c.deleted_at is null or c.deleted_at = a.deleted_at))
group by 1 order by 1;
