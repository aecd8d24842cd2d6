-- Parts that the migration leaves are those that are expected from now on. Run at the end of each migration.
do $$
begin
    execute format(
        'create or replace function nats3.expected_parts() returns text[] language sql immutable return %L::text[]',
        (select array_agg(distinct part order by part) from nats3.present_part));
end
$$;
