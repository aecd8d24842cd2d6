-- name: tables_to_dump()
-- The tables of the catalog with the columns that are written, each after the tables that it refers to.
with recursive refers as (
    select distinct conrelid as oid, confrelid as target from pg_constraint
    where contype = 'f' and connamespace = 'nats3'::regnamespace and conrelid <> confrelid
),
depth as (
    select c.oid, 0 as level from pg_class c
    where c.relnamespace = 'nats3'::regnamespace and c.relkind = 'r' and c.relname <> 'alembic_version'
    union all
    select r.oid, d.level + 1 from depth d join refers r on r.target = d.oid
)
select c.relname::text as name, array_agg(a.attname::text order by a.attnum) as columns
from (select oid, max(level) as level from depth group by oid) d
join pg_class c on c.oid = d.oid
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
group by c.relname, d.level
order by d.level, c.relname;

-- name: sequences_to_dump()
-- The sequences of the catalog.
select c.relname::text from pg_class c where c.relnamespace = 'nats3'::regnamespace and c.relkind = 'S' order by 1;

-- name: sum_faults()
-- Sums and coverage that are not those of the rows that they sum; none in a catalog that is whole.
with live as (
    select archive_id, incarnation_id, count(*) as chunks, sum(messages) as messages, sum(absent) as absent,
           sum(payload_bytes) as payload_bytes, sum(stored_bytes) as stored_bytes, range_agg(seqs) as seqs
    from nats3.chunk where deleted_at is null group by archive_id, incarnation_id
),
absent as (
    select archive_id, incarnation_id, range_agg(seqs) as seqs from nats3.gap group by archive_id, incarnation_id
),
hours as (
    select archive_id, incarnation_id, hour, count(*) as chunks, sum(messages) as messages
    from nats3.chunk where deleted_at is null group by archive_id, incarnation_id, hour
),
subjects as (
    select chunk_id, count(*) as subjects, sum(messages) as messages from nats3.chunk_subject group by chunk_id
)
select format('coverage of archive %s', c.archive_id) from nats3.coverage c
left join live using (archive_id, incarnation_id) left join absent using (archive_id, incarnation_id)
where (c.chunks, c.messages, c.absent, c.payload_bytes, c.stored_bytes, c.covered) is distinct from
      (coalesce(live.chunks, 0), coalesce(live.messages, 0), coalesce(live.absent, 0), coalesce(live.payload_bytes, 0),
       coalesce(live.stored_bytes, 0),
       coalesce(live.seqs, '{}'::int8multirange) + coalesce(absent.seqs, '{}'::int8multirange))
union all
select format('hour %s of archive %s', coalesce(h.hour, n.hour), coalesce(h.archive_id, n.archive_id))
from nats3.hour h full join hours n using (archive_id, incarnation_id, hour)
where (h.chunks, h.messages) is distinct from (n.chunks, n.messages)
union all
select format('subjects of chunk %s', c.id) from nats3.chunk c left join subjects s on s.chunk_id = c.id
where c.deleted_at is null and c.subjects is not null and (c.subjects, c.messages) is distinct from (s.subjects, s.messages);
