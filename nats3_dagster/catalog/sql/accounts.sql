-- name: account_rules()
-- The rules, the oldest first: of two that take one stream the older one has it.
select id, name, settings::text, created_at, updated_at from nats3.account_rule order by id;

-- name: create_account_rule(name, settings)
-- Adds a rule, which is none that ended then.
with again as (delete from nats3.ended_account_rule where name = :name)
insert into nats3.account_rule (name, settings) values (:name, :settings::jsonb)
returning id, name, settings::text, created_at, updated_at;

-- name: change_account_rule(rule, before, settings)
-- Gives a rule other settings, unless they changed since they were read.
update nats3.account_rule set settings = :settings::jsonb, updated_at = now()
where id = :rule and settings = :before::jsonb
returning id, name, settings::text, created_at, updated_at;

-- name: end_account_rule(rule)
-- Ends a rule, and keeps its name; the archives that it made stay.
with ended as (delete from nats3.account_rule where id = :rule returning name)
insert into nats3.ended_account_rule (name) select name from ended
on conflict (name) do update set ended_at = now();

-- name: ended_account_rules()
-- The names of rules that ended, and that no rule has again.
select name from nats3.ended_account_rule;

-- name: add_account_archive(archive, rule)
-- Records that the rule made the archive, or has it again.
insert into nats3.account_archive (archive_id, rule_id) values (:archive, :rule)
on conflict (archive_id) do update set rule_id = excluded.rule_id;

-- name: account_archives()
-- The archives that are not deleted, and those of rules that are, by name: the rule that made each, when its stream was found
-- to be deleted, and when the stream that it has was created, in nanoseconds.
select a.id as archive_id, a.name, a.stream, cardinality(a.subjects) = 0 as is_whole, m.rule_id, m.ended_at, a.deleted_at,
       (select max(greatest(i.created_ns, coalesce(c.restored_ns, 0)))
        from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id where c.archive_id = a.id) as created_ns
from nats3.archive a left join nats3.account_archive m on m.archive_id = a.id
where (a.deleted_at is null or m.rule_id is not null)
  -- One of a backup has not the stream that lives, unless it was resumed.
  and not (a.paused and exists (select from nats3.imported_archive b where b.archive_id = a.id))
order by a.name, a.id;

-- name: ended_at(archive)
-- When the stream of the archive was found to be deleted; no row, or null, while it is not known to be.
select ended_at from nats3.account_archive where archive_id = :archive and ended_at is not null;

-- name: end_account_archives(archives)
-- Records that the streams of these archives were deleted.
update nats3.account_archive set ended_at = now() where archive_id = any(:archives::bigint[]) and ended_at is null;

-- name: go_on_with_archives(archives)
-- Records that these archives have a stream again.
update nats3.account_archive set ended_at = null where archive_id = any(:archives::bigint[]) and ended_at is not null;

-- name: release_account_archives(archives)
-- Makes archives of a rule archives like any other.
update nats3.account_archive set rule_id = null where archive_id = any(:archives::bigint[]);
