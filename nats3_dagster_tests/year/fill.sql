-- name: indexes()
-- The indexes that are made again when the tables are full.
select c.relname as name, pg_get_indexdef(indexrelid) as definition
from pg_index join pg_class c on c.oid = indexrelid
where indrelid = any(array['nats3.chunk', 'nats3.chunk_subject', 'nats3.hour', 'nats3.seal']::regclass[])
  and not exists (select from pg_constraint where conindid = indexrelid and contype in ('p', 'u'));

-- name: fill_chunks(archive, incarnation, last_hour, chunks, each_hour, seqs, subjects, bucket)
-- Chunks as captures of a stream of `seqs` messages at a time would write them, `each_hour` of them up to an hour.
insert into nats3.chunk (archive_id, incarnation_id, hour, seqs, messages, first_ns, last_ns, payload_bytes, largest_bytes,
                         stored_bytes, sha256, bucket, key, subjects, minutes, dagster_run_id)
select :archive, :incarnation, h.hour, int8range(k.first_seq, k.first_seq + :seqs), :seqs, k.first_ns,
       k.first_ns + k.step - 1, :seqs * 256, 300, :seqs * 90, encode(sha256(int8send(i)), 'hex'), :bucket::text,
       format('archive=%s/date=%s/hour=%s/20200101T000000000000000Z-%s-%s-%s.parquet', a.name, left(h.hour, 10),
              substr(h.hour, 12, 2), lpad(k.first_seq::text, 20, '0'), lpad((k.first_seq + :seqs - 1)::text, 20, '0'),
              left(encode(sha256(int8send(i)), 'hex'), 12)),
       :subjects::integer, k.minutes, gen_random_uuid()::text
from nats3.archive a
cross join generate_series(0::bigint, :chunks - 1) i
cross join lateral (
    select i * :seqs + 1 as first_seq, 3600000000000 / :each_hour as step, i % :each_hour as place,
           nats3.hour_number(:last_hour) - (:chunks - 1) / :each_hour + i / :each_hour as number
) n
cross join lateral (
    select nats3.hour_at(n.number::integer) as hour
) h
cross join lateral (
    select n.first_seq, n.step, n.number * 3600000000000 + n.place * n.step as first_ns,
           array_fill(0, array[59]) || :seqs::integer as minutes
) k
where a.id = :archive;

-- name: fill_subjects(archive)
-- One subject for each chunk of the archive.
insert into nats3.chunk_subject (chunk_id, archive_id, incarnation_id, first_seq, subject, messages)
select id, archive_id, incarnation_id, lower(seqs), 'year.one.' || id % 7, messages from nats3.chunk
where archive_id = :archive and subjects = 1;

-- name: fill_blooms(archive, blocks)
-- This bloom filter for each chunk of the archive.
insert into nats3.chunk_bloom (chunk_id, blocks) select id, :blocks::bytea from nats3.chunk where archive_id = :archive;

-- name: fill_gap(archive, incarnation, first_seq, last_seq)
-- What empty captures leave: the gap of the first one, which each later one makes longer.
insert into nats3.gap (archive_id, incarnation_id, seqs, reason)
values (:archive, :incarnation, int8range(:first_seq, :last_seq, '[]'), 'unselected');

-- name: fill_archives(archives, archive)
-- More archives like one, each with an incarnation of its own coverage.
with made as (
    insert into nats3.archive (name, stream, bucket, prefix, subjects, mode, max_messages, max_bytes, max_age_s, zstd_level,
                              compact_after_s, compact_below)
    select a.name || '_' || n, stream, bucket, prefix, subjects, mode, max_messages, max_bytes, max_age_s, zstd_level, compact_after_s,
           compact_below
    from nats3.archive a cross join generate_series(1, :archives - 1) n where a.id = :archive
    returning id
)
insert into nats3.coverage (archive_id, incarnation_id, start_seq)
select made.id, c.incarnation_id, 1 from made cross join nats3.coverage c where c.archive_id = :archive;

-- name: fill_hours(stream, last_hour, hours, seqs)
-- The sums of hours with one chunk each, for every archive of the stream: without the chunks.
insert into nats3.hour (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes, first_seq,
                        last_seq, first_ns, last_ns, revision)
select c.archive_id, c.incarnation_id, nats3.hour_at(n), 1, :seqs, 0, :seqs * 256, :seqs * 90, k.first_seq,
       k.first_seq + :seqs - 1, n * 3600000000000, n * 3600000000000 + 3599999999999, 1
from nats3.coverage c join nats3.archive a on a.id = c.archive_id
cross join generate_series(nats3.hour_number(:last_hour) - :hours + 1, nats3.hour_number(:last_hour)) n
cross join lateral (
    select (n - nats3.hour_number(:last_hour) + :hours - 1)::bigint * :seqs + 1 as first_seq
) k
where a.stream = :stream;

-- name: sum_hours(archives)
-- The sums of the chunks of these archives by hour.
insert into nats3.hour (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes, first_seq,
                        last_seq, first_ns, last_ns, revision)
select archive_id, incarnation_id, hour, count(*), sum(messages), sum(absent), sum(payload_bytes), sum(stored_bytes),
       min(lower(seqs)), max(upper(seqs)) - 1, min(first_ns), max(last_ns), 1
from nats3.chunk where archive_id = any(:archives::bigint[]) and deleted_at is null group by 1, 2, 3;

-- name: seal_hours(last_hour, before)
-- A seal of each hour with messages, and of each hour without any from `before` on, of every archive.
insert into nats3.seal (archive_id, hour, number, revision, chunks, losses, messages, gaps, content, bucket, key, sha256,
                        stored_bytes)
select a.id, h.hour, 1, h.revision, h.chunks, 0, h.messages, 0, repeat('0', 16), a.bucket,
       format('archive=%s/date=%s/hour=%s/manifest-0001-%s.json.zst', a.name, left(h.hour, 10), substr(h.hour, 12, 2),
              left(encode(sha256(h.hour::bytea), 'hex'), 12)),
       encode(sha256(h.hour::bytea), 'hex'), 900
from nats3.archive a cross join lateral (
    select hour, max(revision) as revision, sum(chunks) as chunks, sum(messages) as messages
    from nats3.hour where archive_id = a.id and hour <= :last_hour group by hour
    union all
    select nats3.hour_at(n), 0, 0, 0
    from generate_series(nats3.hour_number(:before), nats3.hour_number(:last_hour)) n
    where a.subjects <> '{}' and not exists (select from nats3.hour h where h.archive_id = a.id and h.hour = nats3.hour_at(n))
) h;

-- name: sum_coverage()
-- What each archive covers, by its hours and gaps: they tile it.
update nats3.coverage c
set covered = n.covered, chunks = n.chunks, messages = n.messages, absent = n.absent, payload_bytes = n.payload_bytes,
    stored_bytes = n.stored_bytes, first_ns = n.first_ns, last_ns = n.last_ns
from (
    select r.archive_id, r.incarnation_id, range_agg(r.seqs) as covered, coalesce(sum(chunks), 0) as chunks,
           coalesce(sum(messages), 0) as messages, coalesce(sum(absent), 0) as absent,
           coalesce(sum(payload_bytes), 0) as payload_bytes, coalesce(sum(stored_bytes), 0) as stored_bytes,
           min(first_ns) as first_ns, max(last_ns) as last_ns
    from (
        select archive_id, incarnation_id, int8range(first_seq, last_seq, '[]') as seqs, chunks, messages, absent,
               payload_bytes, stored_bytes, first_ns, last_ns from nats3.hour
        union all
        select archive_id, incarnation_id, seqs, null, null, null, null, null, null, null from nats3.gap
    ) r
    group by 1, 2
) n
where c.archive_id = n.archive_id and c.incarnation_id = n.incarnation_id;

-- name: sum_archive_hours()
-- The hours of each archive, and those that are sealed.
insert into nats3.archive_hours (archive_id, hours, sealed, sealed_filled, sealed_empty)
select a.id, coalesce(h.hours, 0), coalesce(s.sealed, '{}'), coalesce(s.filled, 0), coalesce(s.empty, 0)
from nats3.archive a
left join (select archive_id, count(distinct hour) as hours from nats3.hour group by 1) h on h.archive_id = a.id
left join (
    select archive_id, range_agg(nats3.hour_range(hour, hour)) as sealed, count(*) filter (where chunks > 0) as filled,
           count(*) filter (where chunks = 0) as empty
    from nats3.seal group by 1
) s on s.archive_id = a.id;

-- name: sum_gaps()
-- The sequences in gaps.
insert into nats3.gap_sum (archive_id, incarnation_id, reason, sequences)
select archive_id, incarnation_id, reason, sum(nats3.size(seqs)) from nats3.gap group by 1, 2, 3;

-- name: count_changes()
-- The revision of each archive after one change.
update nats3.archive set revision = 1;

-- name: kept_sums()
-- Everything that triggers keep, as one text: by triggers or by these statements it must be the same.
select json_build_object(
    'coverage', (select json_agg(to_jsonb(c) - 'witness_seq' - 'witness_ns' order by archive_id) from nats3.coverage c),
    'hours', (select json_agg(to_jsonb(h) - 'revision' order by archive_id, hour) from nats3.hour h),
    'archive_hours', (select json_agg(h order by archive_id) from nats3.archive_hours h),
    'gaps', (select json_agg(to_jsonb(g) - 'id' - 'recorded_at' order by archive_id, seqs) from nats3.gap g),
    'gap_sums', (select json_agg(s order by archive_id, reason) from nats3.gap_sum s)
)::text;
