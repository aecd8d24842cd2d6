-- name: lock_export_places()
-- Lets this transaction alone give exports their places, until it ends.
select pg_advisory_xact_lock(hashtextextended('nats3.export_places', 0));

-- name: export_at(place, archive, name)
-- Another export than that of the archive and name which has this place, or one that contains it or lies in it.
select a.name as archive, e.name, e.place from nats3.export e join nats3.archive a on a.id = e.archive_id
where e.deleted_at is null and (starts_with(e.place, :place) or starts_with(:place, e.place))
  and (e.archive_id, e.name) <> (:archive::bigint, :name::text)
order by e.id limit 1;

-- name: create_export(archive, name, spec, place)
-- The new export.
insert into nats3.export (archive_id, name, spec, place) values (:archive, :name, :spec::jsonb, :place)
returning id, archive_id, name, spec, version, created_at, updated_at;

-- name: exports(archive)
-- The exports of an archive that are not deleted, by name; without an archive those of all.
select id, archive_id, name, spec, version, created_at, updated_at from nats3.export
where deleted_at is null and (:archive::bigint is null or archive_id = :archive)
order by archive_id, name;

-- name: export(archive, name)
-- The export of this name that is not deleted.
select id, archive_id, name, spec, version, created_at, updated_at from nats3.export
where archive_id = :archive and name = :name and deleted_at is null;

-- name: export_version(export)
-- The version of the export's spec, unless it is deleted.
select version from nats3.export where id = :export and deleted_at is null;

-- name: change_export(export, seen, spec, place)
-- The export with another spec, unless it is deleted or has another version than the one seen.
update nats3.export
set spec = :spec::jsonb, place = :place, version = version + 1, updated_at = now(), change = nextval('nats3.export_change')
where id = :export and version = :seen and deleted_at is null
returning id, archive_id, name, spec, version, created_at, updated_at;

-- name: delete_export(export)
-- Marks the export as deleted, which frees its name.
update nats3.export set deleted_at = now(), change = nextval('nats3.export_change')
where id = :export and deleted_at is null;

-- name: delete_exports(archive)
-- Marks all exports of an archive as deleted.
update nats3.export set deleted_at = now(), change = nextval('nats3.export_change')
where archive_id = :archive and deleted_at is null;

-- name: deleted_export_names()
-- The names of deleted exports, with those of their archives.
select distinct a.name as archive, e.name from nats3.export e join nats3.archive a on a.id = e.archive_id
where e.deleted_at is not null;

-- name: deleted_export_names_of(archive)
-- The names of the deleted exports of an archive.
select distinct name from nats3.export where archive_id = :archive and deleted_at is not null;

-- name: export_hours(export, archive, first_hour, last_hour)
-- The hours from first to last that are sealed, were exported, or had chunks that were deleted after a replay, ascending:
-- what the hour is now, and its export. sealed_*: null where the hour has no seal, or changed since. holds_retired:
-- whether the files were made of the hour with its deleted chunks, and nothing came into it since.
with made as (
    select * from nats3.export_hour
    where export_id = :export and (:first_hour::text is null or hour >= :first_hour)
      and (:last_hour::text is null or hour <= :last_hour)
)
select hour, valid.revision as sealed_revision, valid.chunks as sealed_chunks, valid.messages as sealed_messages,
       made.revision, made.chunks, made.version, made.files, made.messages, made.dropped, made.undecoded, made.bytes,
       made.content, made.manifest,
       made.made_at, made.error_kind, made.error, coalesce(made.failures, 0) as failures, made.failed_at,
       made.dagster_run_id, coalesce(made.change, 0) as change,
       coalesce(retired.messages, 0) as retired_messages,
       coalesce(made.revision >= 0 and made.chunks = retired.total and made.made_at > retired.newest, false)
           as holds_retired
from nats3.valid_seals(:archive, :first_hour, :last_hour) valid full join made using (hour)
     full join nats3.retired_hours(:archive, :first_hour, :last_hour) retired using (hour)
order by hour;

-- name: retired_messages(archive, hour)
-- The messages of an hour's chunks that were deleted after a replay; 0 where there are none.
select coalesce(sum(messages), 0)::bigint from nats3.retired_hours(:archive, :hour, :hour);

-- name: exported_hours(export)
-- The hours that were exported, with the number of the change that each came with.
select hour, change from nats3.export_hour where export_id = :export and made_at is not null;

-- name: export_totals(archive)
-- The totals of the exports that are not deleted, by export; without an archive those of all.
select h.export_id, count(*) filter (where h.made_at is not null) as hours,
       count(*) filter (where h.failures > 0) as failed, coalesce(sum(h.files), 0)::bigint as files,
       coalesce(sum(h.messages), 0)::bigint as messages, coalesce(sum(h.undecoded), 0)::bigint as undecoded,
       coalesce(sum(h.bytes), 0)::bigint as bytes, max(h.hour) filter (where h.made_at is not null) as last_hour
from nats3.export_hour h join nats3.export e on e.id = h.export_id
where e.deleted_at is null and (:archive::bigint is null or h.archive_id = :archive)
group by h.export_id;

-- name: export_lags()
-- The hours of each export of an archive that is not deleted that are due, without and with a failure (see
-- nats3.valid_seals for which are sealed; one with chunks deleted after a replay is never due), how many are
-- without the messages of such chunks, its newest failure since its last success, and its undecoded messages.
with declared as (
    select e.id, e.archive_id, a.name as archive, e.name as export
    from nats3.export e join nats3.archive a on a.id = e.archive_id
    where e.deleted_at is null and a.deleted_at is null
),
retired as (
    select o.archive_id, r.hour, r.total, r.newest
    from (select distinct archive_id from declared) o cross join lateral nats3.retired_hours(o.archive_id, null, null) r
),
valid as (
    select o.archive_id, s.hour, s.revision, s.chunks
    from (select distinct archive_id from declared) o cross join lateral nats3.valid_seals(o.archive_id, null, null) s
    where not exists (select 1 from retired r where r.archive_id = o.archive_id and r.hour = s.hour)
)
select d.archive, d.export, coalesce(w.due, 0) as due, coalesce(w.failed, 0) as failed,
       coalesce(x.retired, 0) as retired, f.error, f.failed_at,
       coalesce(u.undecoded, 0)::bigint as undecoded
from declared d
left join lateral (
    select count(*) filter (where coalesce(m.failures, 0) = 0) as due, count(*) filter (where m.failures > 0) as failed
    from valid v left join nats3.export_hour m on m.export_id = d.id and m.hour = v.hour
    where v.archive_id = d.archive_id and (m.revision, m.chunks) is distinct from (v.revision, v.chunks)
) w on true
left join lateral (
    select count(*) as retired
    from retired r left join nats3.export_hour m on m.export_id = d.id and m.hour = r.hour
    where r.archive_id = d.archive_id
      and not coalesce(m.revision >= 0 and m.chunks = r.total and m.made_at > r.newest, false)
) x on true
left join lateral (
    select error, failed_at from nats3.export_hour where export_id = d.id and failures > 0 order by failed_at desc limit 1
) f on true
left join lateral (select sum(undecoded) as undecoded from nats3.export_hour where export_id = d.id) u on true
order by d.archive, d.export;

-- name: add_export_hour(export, archive, hour, revision, chunks, version, files, messages, dropped, undecoded, bytes, content, manifest, run_id)
-- Adds what an hour's export was made of, or replaces what was made of it before.
insert into nats3.export_hour (export_id, archive_id, hour, revision, chunks, version, files, messages, dropped, undecoded,
                               bytes, content, manifest, made_at, dagster_run_id)
values (:export, :archive, :hour, :revision, :chunks, :version, :files, :messages, :dropped, :undecoded, :bytes, :content,
        :manifest, now(), :run_id)
on conflict (export_id, hour) do update set
    revision = excluded.revision, chunks = excluded.chunks, version = excluded.version, files = excluded.files,
    messages = excluded.messages, dropped = excluded.dropped, undecoded = excluded.undecoded, bytes = excluded.bytes,
    content = excluded.content, manifest = excluded.manifest, made_at = excluded.made_at, error_kind = null, error = null, failures = 0,
    failed_at = null, dagster_run_id = excluded.dagster_run_id, change = nextval('nats3.export_change');

-- name: reopen_export_hour(export, hour)
-- Lets the hour be due, whatever it is like: no hour has the revision -1.
update nats3.export_hour set revision = -1 where export_id = :export and hour = :hour and made_at is not null;

-- name: add_export_failure(export, archive, hour, error_kind, error, run_id)
-- Notes that an hour could not be exported; what was made of it before stays.
insert into nats3.export_hour as h (export_id, archive_id, hour, error_kind, error, failures, failed_at, dagster_run_id)
values (:export, :archive, :hour, :error_kind, :error, 1, now(), :run_id)
on conflict (export_id, hour) do update set
    error_kind = excluded.error_kind, error = excluded.error, failures = h.failures + 1,
    failed_at = excluded.failed_at, dagster_run_id = excluded.dagster_run_id;
