-- Parts: the functions, triggers, constraints, indexes and relations of the schema. pg_dump -n leaves the extension out, and what needs
-- it is then not restored: nothing would keep chunks from overlapping. A migration that adds or drops one makes expected_parts anew.
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

-- Those that the migration made.
do $$
begin
    execute format(
        'create function nats3.expected_parts() returns text[] language sql immutable return %L::text[]',
        (select array_agg(distinct part order by part) from nats3.present_part));
end
$$;
