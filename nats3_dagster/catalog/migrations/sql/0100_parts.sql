-- Parts: the functions, triggers, constraints, indexes and relations of the schema. pg_dump -n leaves the extension out, and what needs
-- it is then not restored: nothing would keep chunks from overlapping. Those that are expected: expected_parts.sql.
create view nats3.present_part as
select format('function %s with %s parameters', p.proname, p.pronargs) as part
from pg_proc p
where p.pronamespace = 'nats3'::regnamespace and p.proname <> 'expected_parts'
  and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
union all
select format('trigger %s', t.tgname)
from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace = 'nats3'::regnamespace and not t.tgisinternal
union all
-- Not null is a constraint from Postgres 18 on.
select format('constraint %s', conname) from pg_constraint where connamespace = 'nats3'::regnamespace and contype <> 'n'
union all
select format('%s %s', case relkind when 'i' then 'index' when 'v' then 'view' when 'S' then 'sequence' else 'table' end, relname)
from pg_class where relnamespace = 'nats3'::regnamespace and relkind in ('r', 'v', 'i', 'S');
