--
-- PostgreSQL database dump
--

\restrict ibyTXi7klh7b3sOhUeGfesBarOTPdJQXx8KY65qKjY4uMD1Wg4d4gheSrjb8oLx

-- Dumped from database version 18.6
-- Dumped by pg_dump version 18.6

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: nats3; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA nats3;


--
-- Name: btree_gist; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS btree_gist WITH SCHEMA nats3;


--
-- Name: EXTENSION btree_gist; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON EXTENSION btree_gist IS 'support for indexing common datatypes in GiST';


--
-- Name: actor(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.actor() RETURNS text
    LANGUAGE sql STABLE
    RETURN COALESCE(NULLIF(current_setting('nats3.actor'::text, true), ''::text), (CURRENT_USER)::text);


--
-- Name: archive_held(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.archive_held() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    holding text;
begin
    select name into holding from nats3.hold where archive_id = new.id and released_at is null order by id limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'held',
            message = format('the archive %s has the hold %s', new.name, holding), detail = holding, hint = new.name;
    end if;
    return new;
end
$$;


--
-- Name: archive_noted(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.archive_noted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.event (archive_id, what, detail)
    select new.id,
           case when tg_op = 'INSERT' then 'created' when old.deleted_at is null and new.deleted_at is not null then 'deleted'
                else 'changed' end,
           case when tg_op = 'INSERT' then '{}'::jsonb else (
               select coalesce(jsonb_object_agg(n.key, jsonb_build_array(o.value, n.value)), '{}')
               from jsonb_each(to_jsonb(new)) n join jsonb_each(to_jsonb(old)) o using (key)
               where n.value <> o.value and n.key not in ('revision', 'updated_at', 'deleted_at', 'former_filters')) end;
    return null;
end
$$;


--
-- Name: archive_updated(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.archive_updated() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    new.updated_at := now();
    return new;
end
$$;


--
-- Name: capture_counted(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.capture_counted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select archive_id, case when error_kind is null then 'captures' else 'failures' end, coalesce(error_kind, ''), count(*)
    from added group by 1, 2, 3 order by 1, 2, 3
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;


--
-- Name: size(integer[]); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.size(integer[]) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT COALESCE(sum(n.n), (0)::bigint) AS "coalesce" FROM unnest($1) n(n));


--
-- Name: size(int8multirange); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.size(int8multirange) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT (COALESCE(sum((upper(r.r) - lower(r.r))), (0)::numeric))::bigint AS "coalesce" FROM unnest($1) r(r));


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: chunk; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.chunk (
    id bigint NOT NULL,
    archive_id bigint NOT NULL,
    incarnation_id bigint NOT NULL,
    hour text NOT NULL COLLATE pg_catalog."C",
    seqs int8range NOT NULL,
    messages bigint NOT NULL,
    absent bigint GENERATED ALWAYS AS (((upper(seqs) - lower(seqs)) - messages)) STORED NOT NULL,
    deleted int8multirange,
    absent_reason text,
    minutes integer[],
    first_ns bigint NOT NULL,
    last_ns bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    largest_bytes bigint NOT NULL,
    stored_bytes bigint NOT NULL,
    sha256 text NOT NULL COLLATE pg_catalog."C",
    bucket text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    subjects integer,
    dagster_run_id text,
    committed_at timestamp with time zone DEFAULT now() NOT NULL,
    captured_at timestamp with time zone,
    deleted_at timestamp with time zone,
    retired_revision bigint,
    CONSTRAINT chunk_absent_reason CHECK ((((absent_reason IS NOT NULL) = (absent > 0)) AND (absent_reason = ANY (ARRAY['deleted'::text, 'expired'::text, 'superseded'::text, 'ttl'::text, 'superseded_or_ttl'::text, 'damaged'::text, 'undelivered'::text, 'unselected'::text, 'erased'::text])) AND ((absent_reason = 'unselected'::text) OR (deleted IS NOT NULL)))),
    CONSTRAINT chunk_accounts CHECK ((absent >= 0)),
    CONSTRAINT chunk_deleted_accounts CHECK (((deleted IS NULL) OR ((deleted <@ seqs) AND (nats3.size(deleted) = absent)))),
    CONSTRAINT chunk_hour_check CHECK ((hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'::text)),
    CONSTRAINT chunk_largest_bytes_check CHECK ((largest_bytes >= 0)),
    CONSTRAINT chunk_messages_check CHECK ((messages > 0)),
    CONSTRAINT chunk_minutes_account CHECK (((minutes IS NULL) OR ((cardinality(minutes) = 60) AND (nats3.size(minutes) = messages)))),
    CONSTRAINT chunk_payload_bytes_check CHECK ((payload_bytes >= 0)),
    CONSTRAINT chunk_retired_account CHECK (((retired_revision IS NULL) = (deleted_at IS NULL))),
    CONSTRAINT chunk_seqs_proper CHECK ((COALESCE((lower(seqs) >= 1), false) AND (NOT upper_inf(seqs)))),
    CONSTRAINT chunk_sha256_check CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT chunk_stored_bytes_check CHECK ((stored_bytes > 0)),
    CONSTRAINT chunk_subjects_check CHECK ((subjects > 0)),
    CONSTRAINT chunk_times_ordered CHECK ((first_ns <= last_ns))
);


--
-- Name: chosen(bigint, bigint, text[], bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.chosen(archive bigint, incarnation bigint, of_hours text[], from_ns bigint, end_ns bigint, from_seq bigint, to_seq bigint) RETURNS SETOF nats3.chunk
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT n.id,
     n.archive_id,
     n.incarnation_id,
     n.hour,
     n.seqs,
     n.messages,
     n.absent,
     n.deleted,
     n.absent_reason,
     n.minutes,
     n.first_ns,
     n.last_ns,
     n.payload_bytes,
     n.largest_bytes,
     n.stored_bytes,
     n.sha256,
     n.bucket,
     n.key,
     n.subjects,
     n.dagster_run_id,
     n.committed_at,
     n.captured_at,
     n.deleted_at,
     n.retired_revision
    FROM nats3.chunk n
   WHERE ((n.archive_id = chosen.archive) AND (n.incarnation_id = chosen.incarnation) AND (n.deleted_at IS NULL) AND ((chosen.of_hours IS NULL) OR (n.hour = ANY (chosen.of_hours))) AND ((chosen.from_ns IS NULL) OR (int8range(n.first_ns, n.last_ns, '[]'::text) && int8range(chosen.from_ns, chosen.end_ns))) AND ((chosen.from_seq IS NULL) OR (n.seqs && int8range(chosen.from_seq, chosen.to_seq, '[]'::text))));
END;


--
-- Name: chunk_added(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.chunk_added() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    kept text;
begin
    perform nats3.touch_archives(array(select distinct archive_id from added));

    -- An object that is being deleted must not come back into the catalog. Commits hold the lock of the bucket shared,
    -- claims hold it alone (removals.sql), so that neither misses the other.
    perform pg_advisory_xact_lock_shared(hashtextextended('nats3.removal.' || b.bucket, 0))
    from (select distinct bucket from added order by 1) b;
    select r.key into kept
    from added a join nats3.removal r using (bucket, key) where r.removed_at is null limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'chunk_object_kept',
            message = format('the object %s is being deleted', kept), detail = kept;
    end if;

    perform nats3.yield_gaps(archive_id, incarnation_id, range_agg(seqs)) from added
    group by archive_id, incarnation_id;
    perform nats3.cover(archive_id, incarnation_id, range_agg(seqs)) from added group by archive_id, incarnation_id;

    insert into nats3.archive_hours as k (archive_id, hours)
    select a.archive_id, count(*) from (select distinct archive_id, hour from added) a
    where not exists (select from nats3.hour h where h.archive_id = a.archive_id and h.hour = a.hour)
    group by a.archive_id
    on conflict (archive_id) do update set hours = k.hours + excluded.hours;
    perform nats3.unseal(archive_id, range_agg(nats3.hour_range(hour, hour))) from added group by archive_id;

    insert into nats3.hour as h (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes,
                                 first_seq, last_seq, first_ns, last_ns, expired, superseded, ttl, superseded_or_ttl,
                                 damaged, undelivered, revision)
    select a.archive_id, a.incarnation_id, a.hour, count(*), sum(a.messages), sum(a.absent), sum(a.payload_bytes),
           sum(a.stored_bytes), min(lower(a.seqs)), max(upper(a.seqs)) - 1, min(a.first_ns), max(a.last_ns),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'expired'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'superseded'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'ttl'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'superseded_or_ttl'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'damaged'), 0),
           coalesce(sum(a.absent) filter (where a.absent_reason = 'undelivered'), 0),
           max(archive.revision)
    from added a join nats3.archive on archive.id = a.archive_id
    group by a.archive_id, a.incarnation_id, a.hour
    on conflict (archive_id, hour, incarnation_id) do update set
        chunks = h.chunks + excluded.chunks, messages = h.messages + excluded.messages,
        absent = h.absent + excluded.absent, payload_bytes = h.payload_bytes + excluded.payload_bytes,
        stored_bytes = h.stored_bytes + excluded.stored_bytes,
        first_seq = least(h.first_seq, excluded.first_seq), last_seq = greatest(h.last_seq, excluded.last_seq),
        first_ns = least(h.first_ns, excluded.first_ns), last_ns = greatest(h.last_ns, excluded.last_ns),
        expired = h.expired + excluded.expired, superseded = h.superseded + excluded.superseded,
        ttl = h.ttl + excluded.ttl, superseded_or_ttl = h.superseded_or_ttl + excluded.superseded_or_ttl,
        damaged = h.damaged + excluded.damaged, undelivered = h.undelivered + excluded.undelivered,
        revision = excluded.revision;

    update nats3.coverage c set
        chunks = c.chunks + n.chunks, messages = c.messages + n.messages, absent = c.absent + n.absent,
        payload_bytes = c.payload_bytes + n.payload_bytes, stored_bytes = c.stored_bytes + n.stored_bytes,
        first_ns = least(c.first_ns, n.first_ns), last_ns = greatest(c.last_ns, n.last_ns),
        expired = c.expired + n.expired, superseded = c.superseded + n.superseded, ttl = c.ttl + n.ttl,
        superseded_or_ttl = c.superseded_or_ttl + n.superseded_or_ttl, damaged = c.damaged + n.damaged,
        undelivered = c.undelivered + n.undelivered
    from (
        select archive_id, incarnation_id, count(*) as chunks, sum(messages) as messages, sum(absent) as absent,
               sum(payload_bytes) as payload_bytes, sum(stored_bytes) as stored_bytes,
               min(first_ns) as first_ns, max(last_ns) as last_ns,
               coalesce(sum(absent) filter (where absent_reason = 'expired'), 0) as expired,
               coalesce(sum(absent) filter (where absent_reason = 'superseded'), 0) as superseded,
               coalesce(sum(absent) filter (where absent_reason = 'ttl'), 0) as ttl,
               coalesce(sum(absent) filter (where absent_reason = 'superseded_or_ttl'), 0) as superseded_or_ttl,
               coalesce(sum(absent) filter (where absent_reason = 'damaged'), 0) as damaged,
               coalesce(sum(absent) filter (where absent_reason = 'undelivered'), 0) as undelivered
        from added group by archive_id, incarnation_id
    ) n
    where c.archive_id = n.archive_id and c.incarnation_id = n.incarnation_id;
    return null;
end
$$;


--
-- Name: chunk_counted(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.chunk_counted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select a.archive_id, v.what, v.label, sum(v.value)
    from added a cross join lateral (values
        ('captured_messages', '', a.messages), ('captured_bytes', '', a.payload_bytes),
        ('stored_bytes', '', a.stored_bytes), ('chunks', nats3.size_class(a.stored_bytes), 1),
        ('lost', a.absent_reason, case when a.absent_reason not in ('deleted', 'unselected', 'erased') then a.absent end)
    ) as v(what, label, value)
    -- A compaction puts objects, and captures nothing.
    where v.value > 0 and (a.captured_at is null or v.what in ('stored_bytes', 'chunks'))
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;


--
-- Name: chunk_held(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.chunk_held() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    live record;
begin
    select coalesce(range_agg(c.seqs), '{}') as seqs, coalesce(sum(c.messages), 0) as messages into live
    from nats3.chunk c
    where c.archive_id = new.archive_id and c.incarnation_id = new.incarnation_id and c.deleted_at is null
      and c.seqs && new.seqs;
    if live.seqs @> new.seqs and live.messages >= new.messages then
        return null;
    end if;
    raise exception using errcode = 'integrity_constraint_violation', constraint = 'held',
        message = format('sequences %s of the hour %s are held', new.seqs, new.hour),
        hint = (select a.name from nats3.archive a where a.id = new.archive_id),
        detail = (
            select h.name from nats3.hold h
            where h.archive_id = new.archive_id and h.released_at is null and h.hours @> nats3.hour_number(new.hour)
              and h.seqs && new.seqs
            order by h.id limit 1);
end
$$;


--
-- Name: chunk_not_erased(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.chunk_not_erased() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    found record;
begin
    select a.seqs, e.seqs * a.seqs as erased into found
    from added a join nats3.incarnation i on i.id = a.incarnation_id
    join nats3.erased_range e on e.archive_id = a.archive_id and e.created_ns = i.created_ns and e.seqs && a.seqs
    where nats3.may_have_any(a.seqs, a.deleted, int8multirange(e.seqs))
    limit 1;
    if found is not null then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'not_erased',
            message = 'the chunk has erased sequences', detail = format('%s %s', found.seqs, found.erased);
    end if;
    return null;
end
$$;


--
-- Name: chunk_retired(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.chunk_retired() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    perform nats3.touch_archives(array(select distinct archive_id from retired));

    -- Only live chunks are looked up by subject.
    delete from nats3.chunk_subject where chunk_id in (select id from retired);
    delete from nats3.chunk_bloom where chunk_id in (select id from retired);

    delete from nats3.hour h
    using (select distinct archive_id, incarnation_id, hour from retired) r
    where h.archive_id = r.archive_id and h.incarnation_id = r.incarnation_id and h.hour = r.hour;

    insert into nats3.hour (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes,
                            first_seq, last_seq, first_ns, last_ns, expired, superseded, ttl, superseded_or_ttl, damaged,
                            undelivered, revision)
    select c.archive_id, c.incarnation_id, c.hour, count(*), sum(c.messages), sum(c.absent), sum(c.payload_bytes),
           sum(c.stored_bytes), min(lower(c.seqs)), max(upper(c.seqs)) - 1, min(c.first_ns), max(c.last_ns),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'expired'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'superseded'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'ttl'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'superseded_or_ttl'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'damaged'), 0),
           coalesce(sum(c.absent) filter (where c.absent_reason = 'undelivered'), 0),
           max(archive.revision)
    from (select distinct archive_id, incarnation_id, hour from retired) r
    join nats3.chunk c using (archive_id, incarnation_id, hour)
    join nats3.archive on archive.id = c.archive_id
    where c.deleted_at is null
    group by c.archive_id, c.incarnation_id, c.hour;

    perform nats3.unseal(archive_id, range_agg(nats3.hour_range(hour, hour))) from retired group by archive_id;
    update nats3.archive_hours k set hours = k.hours - n.hours
    from (
        select archive_id, count(*) as hours from (select distinct archive_id, hour from retired) r
        where not exists (select from nats3.hour h where h.archive_id = r.archive_id and h.hour = r.hour)
        group by archive_id
    ) n
    where k.archive_id = n.archive_id;

    update nats3.coverage c set
        covered = c.covered - n.ranges,
        chunks = c.chunks - n.chunks, messages = c.messages - n.messages, absent = c.absent - n.absent,
        payload_bytes = c.payload_bytes - n.payload_bytes, stored_bytes = c.stored_bytes - n.stored_bytes,
        expired = c.expired - n.expired, superseded = c.superseded - n.superseded, ttl = c.ttl - n.ttl,
        superseded_or_ttl = c.superseded_or_ttl - n.superseded_or_ttl, damaged = c.damaged - n.damaged,
        undelivered = c.undelivered - n.undelivered,
        -- Only what was at an end moves it: else the hours of years would be read for nothing.
        first_ns = case when n.first_ns > c.first_ns then c.first_ns else (
            select min(h.first_ns) from nats3.hour h
            where h.archive_id = c.archive_id and h.incarnation_id = c.incarnation_id) end,
        last_ns = case when n.last_ns < c.last_ns then c.last_ns else (
            select max(h.last_ns) from nats3.hour h
            where h.archive_id = c.archive_id and h.incarnation_id = c.incarnation_id) end
    from (
        select archive_id, incarnation_id, range_agg(seqs) as ranges, count(*) as chunks, sum(messages) as messages,
               sum(absent) as absent, sum(payload_bytes) as payload_bytes, sum(stored_bytes) as stored_bytes,
               min(first_ns) as first_ns, max(last_ns) as last_ns,
               coalesce(sum(absent) filter (where absent_reason = 'expired'), 0) as expired,
               coalesce(sum(absent) filter (where absent_reason = 'superseded'), 0) as superseded,
               coalesce(sum(absent) filter (where absent_reason = 'ttl'), 0) as ttl,
               coalesce(sum(absent) filter (where absent_reason = 'superseded_or_ttl'), 0) as superseded_or_ttl,
               coalesce(sum(absent) filter (where absent_reason = 'damaged'), 0) as damaged,
               coalesce(sum(absent) filter (where absent_reason = 'undelivered'), 0) as undelivered
        from retired group by archive_id, incarnation_id
    ) n
    where c.archive_id = n.archive_id and c.incarnation_id = n.incarnation_id;
    return null;
end
$$;


--
-- Name: copies_changed(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.copies_changed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    delete from nats3.copy_task t where t.archive_id = new.id and t.bucket <> all (
        select unnest(new.copies));
    insert into nats3.copy_task (bucket, key, archive_id, hour, source, sha256, stored_bytes)
    select place, o.key, new.id, o.hour, o.bucket, o.sha256, o.stored_bytes
    from unnest(new.copies) place cross join (
        select key, hour, bucket, sha256, stored_bytes from nats3.chunk where archive_id = new.id and deleted_at is null
        union all
        select key, hour, bucket, sha256, stored_bytes from nats3.seal
        where archive_id = new.id and superseded_at is null
    ) o
    where place <> all (old.copies) and o.bucket = new.bucket
    on conflict (bucket, key) do update
    set archive_id = excluded.archive_id, hour = excluded.hour, source = excluded.source, sha256 = excluded.sha256,
        stored_bytes = excluded.stored_bytes, removes = false;
    return null;
end
$$;


--
-- Name: copies_left(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.copies_left() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    delete from nats3.former_copy f where f.archive_id = new.id and f.bucket = any(new.copies);
    insert into nats3.former_copy (archive_id, bucket)
    select new.id, place from unnest(old.copies) place where place <> all (new.copies) and place <> new.bucket
    on conflict do nothing;
    return null;
end
$$;


--
-- Name: copy_added(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.copy_added() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.copy_task (bucket, key, archive_id, hour, source, sha256, stored_bytes)
    select place, n.key, n.archive_id, n.hour, n.bucket, n.sha256, n.stored_bytes
    from added n join nats3.archive a on a.id = n.archive_id cross join unnest(a.copies) place
    where n.bucket = a.bucket
    on conflict (bucket, key) do update
    set archive_id = excluded.archive_id, hour = excluded.hour, source = excluded.source, sha256 = excluded.sha256,
        stored_bytes = excluded.stored_bytes, removes = false;
    return null;
end
$$;


--
-- Name: copy_removed(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.copy_removed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.copy_task (bucket, key, archive_id, hour, source, sha256, stored_bytes, removes)
    select distinct on (place) place, new.key, a.id, o.hour, new.bucket, o.sha256, o.stored_bytes, true
    from (
        select archive_id, hour, sha256, stored_bytes from nats3.chunk where bucket = new.bucket and key = new.key
        union all
        select archive_id, hour, sha256, stored_bytes from nats3.seal where bucket = new.bucket and key = new.key
    ) o
    join nats3.archive a on a.id = o.archive_id cross join unnest(a.copies) place
    order by place, a.id desc
    on conflict (bucket, key) do update set removes = true, since = excluded.since;
    return null;
end
$$;


--
-- Name: cover(bigint, bigint, int8multirange); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.cover(archive bigint, incarnation bigint, ranges int8multirange) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    known nats3.coverage;
    clash text;
begin
    select * into known from nats3.coverage where archive_id = archive and incarnation_id = incarnation;
    if lower(ranges) < known.start_seq then
        raise exception using errcode = 'check_violation', constraint = 'covered_from_start',
            message = 'what is to be covered begins before the archive',
            detail = format('%s is before %s.', lower(ranges), known.start_seq);
    end if;
    if known.covered && ranges then
        select format('Chunk %s conflicts with gap %s.', c.seqs, g.seqs) into clash
        from nats3.gap g join nats3.chunk c using (archive_id, incarnation_id)
        where g.archive_id = archive and g.incarnation_id = incarnation and g.seqs && (known.covered * ranges)
          and c.archive_id = archive and c.incarnation_id = incarnation and c.seqs && g.seqs and c.deleted_at is null
        limit 1;
        raise exception using errcode = 'exclusion_violation', constraint = 'chunk_or_gap',
            message = 'a sequence cannot be in a chunk and in a gap', detail = clash;
    end if;
    update nats3.coverage set covered = covered + ranges where archive_id = archive and incarnation_id = incarnation;
end
$$;


--
-- Name: distance(bigint, bigint); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.distance(a bigint, b bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (a OPERATOR(nats3.<->) b);


--
-- Name: expected_parts(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.expected_parts() RETURNS text[]
    LANGUAGE sql IMMUTABLE
    RETURN '{"constraint alembic_version_pkc","constraint archive_compact_after_s_check","constraint archive_compact_below_check","constraint archive_fail_window_s_check","constraint archive_hours_archive_id_fkey","constraint archive_hours_check","constraint archive_hours_check1","constraint archive_hours_hours_check","constraint archive_hours_pkey","constraint archive_hours_sealed_empty_check","constraint archive_job_id_key","constraint archive_job_name_check","constraint archive_keep_bytes_check","constraint archive_keep_s_check","constraint archive_max_age_s_check","constraint archive_max_bytes_check","constraint archive_max_messages_check","constraint archive_mode_check","constraint archive_name_check","constraint archive_pkey","constraint archive_retries_check","constraint archive_retry_delay_s_check","constraint archive_table_archive_id_fkey","constraint archive_table_catalog_check","constraint archive_table_failed","constraint archive_table_identifier_check","constraint archive_table_once","constraint archive_table_pkey","constraint archive_table_synced","constraint archive_warn_window_s_check","constraint archive_zstd_level_check","constraint capture_archive_id_fkey","constraint capture_error","constraint capture_hour_check","constraint capture_messages_check","constraint capture_payload_bytes_check","constraint capture_pkey","constraint chunk_absent_reason","constraint chunk_accounts","constraint chunk_archive_id_incarnation_id_fkey","constraint chunk_bloom_blocks_check","constraint chunk_bloom_chunk_id_fkey","constraint chunk_bloom_pkey","constraint chunk_deleted_accounts","constraint chunk_held","constraint chunk_hour_check","constraint chunk_largest_bytes_check","constraint chunk_messages_check","constraint chunk_minutes_account","constraint chunk_no_overlap","constraint chunk_payload_bytes_check","constraint chunk_pkey","constraint chunk_retired_account","constraint chunk_seqs_proper","constraint chunk_sha256_check","constraint chunk_stored_bytes_check","constraint chunk_subject_messages_check","constraint chunk_subjects_check","constraint chunk_times_ordered","constraint copy_task_archive_id_fkey","constraint copy_task_pkey","constraint coverage_archive_id_fkey","constraint coverage_check","constraint coverage_incarnation_id_fkey","constraint coverage_pkey","constraint coverage_start_seq_check","constraint coverage_witness","constraint durable_accounted_check","constraint durable_archive_id_fkey","constraint durable_consumer_seq_check","constraint durable_missed_seq_check","constraint durable_most_deliveries_check","constraint durable_pkey","constraint erased_range_erasure_id_fkey","constraint erased_range_seqs_check","constraint erasure_archive_id_fkey","constraint erasure_chosen_by_check","constraint erasure_digest_check","constraint erasure_messages_check","constraint erasure_number_check","constraint erasure_once","constraint erasure_pkey","constraint erasure_previous_check","constraint erasure_reason_check","constraint event_archive_id_fkey","constraint event_pkey","constraint event_what_check","constraint export_archive_id_fkey","constraint export_hour_archive_id_fkey","constraint export_hour_bytes_check","constraint export_hour_chunks_check","constraint export_hour_content_check","constraint export_hour_dropped_check","constraint export_hour_export_id_fkey","constraint export_hour_failed","constraint export_hour_failures_check","constraint export_hour_files_check","constraint export_hour_hour_check","constraint export_hour_made","constraint export_hour_messages_check","constraint export_hour_pkey","constraint export_hour_something","constraint export_hour_undecoded_check","constraint export_name_check","constraint export_pkey","constraint export_place_check","constraint export_version_check","constraint former_copy_archive_id_fkey","constraint former_copy_pkey","constraint gap_archive_id_incarnation_id_fkey","constraint gap_hours_ordered","constraint gap_no_overlap","constraint gap_pkey","constraint gap_reason_check","constraint gap_seqs_proper","constraint gap_sum_archive_id_incarnation_id_fkey","constraint gap_sum_pkey","constraint gap_sum_sequences_check","constraint hold_archive_id_fkey","constraint hold_hours_check","constraint hold_name_check","constraint hold_pkey","constraint hold_reason_check","constraint hold_release_reason_check","constraint hold_released","constraint hold_seqs_check","constraint hour_archive_id_incarnation_id_fkey","constraint hour_pkey","constraint iceberg_namespace_properties_pkey","constraint iceberg_tables_pkey","constraint incarnation_once","constraint incarnation_pkey","constraint merged_chunk_chunk_id_fkey","constraint merged_chunk_into_id_fkey","constraint merged_chunk_pkey","constraint open_erasure_erasure_id_fkey","constraint open_erasure_left_over_check","constraint open_erasure_pkey","constraint refused_removal_pkey","constraint removal_pkey","constraint replay_archive_id_fkey","constraint replay_attempt_pkey","constraint replay_attempt_replay_id_fkey","constraint replay_attempt_state_check","constraint replay_chunk_accounts","constraint replay_chunk_chunk_id_fkey","constraint replay_chunk_duplicates","constraint replay_chunk_expired_check","constraint replay_chunk_found_check","constraint replay_chunk_last_seq_check","constraint replay_chunk_pkey","constraint replay_chunk_planned_check","constraint replay_chunk_published_check","constraint replay_chunk_replay_id_fkey","constraint replay_chunk_state_check","constraint replay_complete","constraint replay_expired_check","constraint replay_id_check","constraint replay_job","constraint replay_pkey","constraint replay_progress_found_check","constraint replay_progress_published_check","constraint replay_state_check","constraint replay_target_pkey","constraint replay_target_replay_id_fkey","constraint seal_archive_id_fkey","constraint seal_chunks_check","constraint seal_content_check","constraint seal_gaps_check","constraint seal_hour_check","constraint seal_losses_check","constraint seal_messages_check","constraint seal_number_check","constraint seal_once","constraint seal_pkey","constraint seal_sha256_check","constraint seal_stored_bytes_check","constraint total_archive_id_fkey","constraint total_pkey","constraint total_value_check","constraint total_what_check","function actor with 0 parameters","function archive_held with 0 parameters","function archive_noted with 0 parameters","function archive_updated with 0 parameters","function capture_counted with 0 parameters","function chosen with 7 parameters","function chunk_added with 0 parameters","function chunk_counted with 0 parameters","function chunk_held with 0 parameters","function chunk_not_erased with 0 parameters","function chunk_retired with 0 parameters","function copies_changed with 0 parameters","function copies_left with 0 parameters","function copy_added with 0 parameters","function copy_removed with 0 parameters","function cover with 3 parameters","function distance with 2 parameters","function forget_events with 2 parameters","function gap_added with 0 parameters","function gap_counted with 0 parameters","function gap_placed with 0 parameters","function has_messages with 1 parameters","function hold_placed with 0 parameters","function hold_released with 0 parameters","function hour_at with 1 parameters","function hour_number with 1 parameters","function hour_of with 1 parameters","function hour_range with 2 parameters","function hour_start with 1 parameters","function hours_to_compact with 4 parameters","function is_held with 3 parameters","function is_locked with 1 parameters","function is_lost with 1 parameters","function is_removed with 1 parameters","function is_unsealed_expiry with 4 parameters","function join_gaps with 1 parameters","function join_retired with 2 parameters","function long_subject_key with 1 parameters","function losses with 3 parameters","function may_have with 3 parameters","function may_have_any with 3 parameters","function refuse with 0 parameters","function reopen_compacted with 0 parameters","function replay_chunk_counted with 0 parameters","function replay_counted with 0 parameters","function replay_updated with 0 parameters","function retired_hours with 3 parameters","function seal_counted with 0 parameters","function seal_holds with 0 parameters","function seal_kept with 0 parameters","function size with 1 parameters","function size_class with 1 parameters","function subject_key with 1 parameters","function subjects_added with 0 parameters","function total_refuse with 0 parameters","function touch_archives with 1 parameters","function touch_hours with 3 parameters","function unseal with 2 parameters","function valid_seals with 3 parameters","function was_removed with 4 parameters","function whole_hours with 1 parameters","function yield_gaps with 3 parameters","index alembic_version_pkc","index archive_durable","index archive_hours_pkey","index archive_job_id_key","index archive_job_name","index archive_name","index archive_pkey","index archive_table_once","index archive_table_pkey","index capture_completed","index capture_order","index capture_pkey","index chunk_bloom_pkey","index chunk_dead","index chunk_dead_hour","index chunk_dead_object","index chunk_dead_seqs","index chunk_erased","index chunk_hour","index chunk_key","index chunk_no_overlap","index chunk_old","index chunk_order","index chunk_pkey","index chunk_reach","index chunk_retired","index chunk_subject_chunk","index chunk_subject_order","index chunk_times","index chunk_uncounted","index copy_task_hour","index copy_task_oldest","index copy_task_pkey","index coverage_pkey","index durable_pkey","index erased_range_erasure","index erased_range_seqs","index erasure_once","index erasure_pkey","index event_old","index event_order","index event_pkey","index export_changes","index export_hour_changes","index export_hour_pkey","index export_name","index export_pkey","index export_place","index former_copy_pkey","index gap_hours","index gap_no_overlap","index gap_order","index gap_pkey","index gap_retired","index gap_sum_pkey","index gap_unjoined","index hold_name","index hold_old","index hold_pkey","index hour_pkey","index hour_seqs","index hour_span","index iceberg_namespace_properties_pkey","index iceberg_tables_pkey","index incarnation_once","index incarnation_pkey","index merged_chunk_into","index merged_chunk_pkey","index open_erasure_pkey","index refused_removal_pkey","index removal_pkey","index removal_removed","index replay_archive","index replay_attempt_pkey","index replay_changed","index replay_chunk_chunk","index replay_chunk_order","index replay_chunk_pending","index replay_chunk_pkey","index replay_job","index replay_newest","index replay_pkey","index replay_target_pkey","index replay_unfolded","index seal_newest","index seal_object","index seal_once","index seal_pkey","index seal_superseded","index total_pkey","sequence archive_id_seq","sequence capture_id_seq","sequence chunk_id_seq","sequence erasure_id_seq","sequence event_id_seq","sequence export_change","sequence export_id_seq","sequence gap_id_seq","sequence hold_id_seq","sequence incarnation_id_seq","sequence seal_id_seq","table alembic_version","table archive","table archive_hours","table archive_table","table capture","table chunk","table chunk_bloom","table chunk_subject","table copy_task","table coverage","table durable","table erased_range","table erasure","table event","table export","table export_hour","table former_copy","table gap","table gap_sum","table hold","table hour","table iceberg_namespace_properties","table iceberg_tables","table incarnation","table merged_chunk","table open_erasure","table refused_removal","table removal","table replay","table replay_attempt","table replay_chunk","table replay_target","table seal","table total","trigger archive_changed","trigger archive_created","trigger archive_held","trigger archive_updated","trigger capture_counted","trigger chunk_absent_reason_immutable","trigger chunk_added","trigger chunk_copied","trigger chunk_counted","trigger chunk_held","trigger chunk_immutable","trigger chunk_live_kept","trigger chunk_minutes_immutable","trigger chunk_not_erased","trigger chunk_retired","trigger chunk_retired_once","trigger copies_changed","trigger copies_left","trigger copy_removed","trigger erasure_immutable","trigger gap_added","trigger gap_counted","trigger gap_immutable","trigger gap_placed","trigger hold_immutable","trigger hold_kept","trigger hold_placed","trigger hold_released","trigger reopen_compacted","trigger replay_chunk_counted","trigger replay_counted","trigger replay_updated","trigger seal_copied","trigger seal_counted","trigger seal_holds","trigger seal_immutable","trigger seal_kept","trigger subjects_added","trigger total_grows","trigger total_kept","view chunk_view","view coverage_view","view present_part"}'::text[];


--
-- Name: forget_events(bigint, integer); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.forget_events(keep_s bigint, most integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    forgotten bigint;
begin
    delete from nats3.event where id = any(array(
        select id from nats3.event
        where what in ('expired', 'removed', 'swept', 'repaired', 'adopted', 'compacted')
          and happened_at < now() - make_interval(secs => greatest(keep_s, 86400))
        order by happened_at limit most));
    get diagnostics forgotten = row_count;
    return forgotten;
end
$$;


--
-- Name: gap_added(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.gap_added() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    perform nats3.touch_archives(array(select distinct archive_id from added));
    perform nats3.cover(archive_id, incarnation_id, range_agg(seqs)) from added group by archive_id, incarnation_id;
    -- What was removed belonged to the hour that had it, which changes by itself.
    perform nats3.touch_hours(archive_id, incarnation_id, array_agg(g)) from nats3.gap g
    where id in (select id from added) and not nats3.is_removed(reason) group by archive_id, incarnation_id;
    perform nats3.unseal(archive_id, range_agg(hours)) from added where first_hour is not null group by archive_id;
    insert into nats3.gap_sum as s (archive_id, incarnation_id, reason, sequences)
    select archive_id, incarnation_id, reason, sum(nats3.size(seqs)) from added group by 1, 2, 3 order by 1, 2, 3
    on conflict (archive_id, incarnation_id, reason) do update set sequences = s.sequences + excluded.sequences;
    perform nats3.join_gaps(array(select id from added));
    return null;
end
$$;


--
-- Name: gap_counted(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.gap_counted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select archive_id, 'lost', reason, sum(nats3.size(seqs))
    from added where reason not in ('deleted', 'unselected') and not nats3.is_removed(reason)
    group by 1, 3 order by 1, 3
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;


--
-- Name: gap_placed(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.gap_placed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    former record;
    earlier record;
    later record;
    life nats3.incarnation;
    sealed text;
    spans record;
begin
    if new.reason in ('deleted', 'unselected') or new.first_hour is not null then
        return new;
    end if;
    select c.hour, c.first_ns, c.last_ns into former from nats3.chunk c
    where c.archive_id = new.archive_id and c.incarnation_id = new.incarnation_id and c.deleted_at is not null
      and c.seqs @> new.seqs
    order by c.id desc limit 1;
    if found then
        new.first_hour := former.hour;
        new.last_hour := former.hour;
        new.after_ns := former.first_ns;
        new.before_ns := former.last_ns;
        return new;
    end if;
    select c.hour, c.last_ns into earlier from nats3.chunk c
    where c.archive_id = new.archive_id and c.incarnation_id = new.incarnation_id and c.deleted_at is null
      and lower(c.seqs) < lower(new.seqs)
    order by lower(c.seqs) desc limit 1;
    select c.hour, c.first_ns into later from nats3.chunk c
    where c.archive_id = new.archive_id and c.incarnation_id = new.incarnation_id and c.deleted_at is null
      and lower(c.seqs) >= upper(new.seqs)
    order by lower(c.seqs) limit 1;
    select * into life from nats3.incarnation where id = new.incarnation_id;

    new.after_ns := coalesce(new.after_ns, earlier.last_ns, life.created_ns);
    -- As the stream was last observed: its head lies behind the gap, or its end does.
    new.before_ns := coalesce(new.before_ns, least(
        later.first_ns,
        case when life.messages > 0 and life.first_seq >= upper(new.seqs) then life.first_ns end,
        case when life.last_ns > 0 and life.last_seq >= upper(new.seqs) - 1 then life.last_ns end
    ), (extract(epoch from now()) * 1000000000)::bigint);
    new.before_ns := greatest(new.before_ns, new.after_ns);
    new.first_hour := coalesce(earlier.hour, nats3.hour_of(new.after_ns));
    new.last_hour := least(later.hour, nats3.hour_of(new.before_ns));

    select max(hour) into sealed from nats3.valid_seals(new.archive_id, new.first_hour, new.last_hour);
    if sealed < new.last_hour then
        new.first_hour := nats3.hour_of(3600000000000 + extract(epoch from nats3.hour_start(sealed))::bigint * 1000000000);
    end if;

    -- Clocks step: the hours of the neighbours may be in the other order, and further hours around them.
    select min(h.hour) as first, max(h.hour) as last into spans from nats3.hour h
    where h.archive_id = new.archive_id and h.incarnation_id = new.incarnation_id
      and int8range(h.first_seq, h.last_seq, '[]') && new.seqs;
    select least(new.first_hour, new.last_hour, spans.first), greatest(new.first_hour, new.last_hour, spans.last)
    into new.first_hour, new.last_hour;
    return new;
end
$$;


--
-- Name: merged_chunk; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.merged_chunk (
    chunk_id bigint NOT NULL,
    into_id bigint NOT NULL
);


--
-- Name: has_messages(nats3.chunk); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.has_messages(c nats3.chunk) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN (((c).deleted_at IS NULL) OR (EXISTS (SELECT FROM (nats3.merged_chunk m JOIN nats3.chunk n ON ((n.id = m.into_id))) WHERE ((m.chunk_id = (has_messages.c).id) AND (n.deleted_at IS NULL)))));


--
-- Name: hold_placed(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.hold_placed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    perform from nats3.archive where id = new.archive_id and deleted_at is null for no key update;
    if not found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'archive_live',
            message = 'the archive is deleted';
    end if;
    -- What an erasure has decided to take out is not held any more.
    perform from nats3.open_erasure o join nats3.erased_range e on e.erasure_id = o.erasure_id
    join nats3.incarnation i on i.created_ns = e.created_ns
    join nats3.chunk c on c.archive_id = e.archive_id and c.incarnation_id = i.id and c.seqs && e.seqs and c.deleted_at is null
    where e.archive_id = new.archive_id and new.seqs && c.seqs and new.hours @> nats3.hour_number(c.hour)
      and nats3.may_have_any(c.seqs, c.deleted, int8multirange(e.seqs))
    limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'being_erased',
            message = 'messages are being erased';
    end if;
    -- Not the begin of the transaction: what was removed while it waited came before.
    new.created_at := clock_timestamp();
    perform pg_advisory_xact_lock_shared(hashtextextended('nats3.removal.' || b.bucket, 0))
    from (select distinct bucket from nats3.chunk where archive_id = new.archive_id and deleted_at is not null
          union select bucket from nats3.archive where id = new.archive_id order by 1) b;
    insert into nats3.event (archive_id, what, detail, actor)
    values (new.archive_id, 'held', jsonb_build_object('name', new.name, 'reason', new.reason), new.actor);
    return new;
end
$$;


--
-- Name: hold_released(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.hold_released() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.event (archive_id, what, detail, actor)
    values (new.archive_id, 'released',
            jsonb_build_object('name', new.name, 'reason', new.release_reason, 'held_for', new.reason), new.released_by);
    return null;
end
$$;


--
-- Name: hour_of(bigint); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.hour_of(ns bigint) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (to_char((to_timestamp(((ns / 1000000000))::double precision) AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD-HH24:00'::text) COLLATE "C");


--
-- Name: hour_at(integer); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.hour_at(number integer) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN nats3.hour_of((number * '3600000000000'::bigint));


--
-- Name: hour_start(text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.hour_start(hour text) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN to_timestamp((hour || '+00'::text), 'YYYY-MM-DD-HH24:MITZH'::text);


--
-- Name: hour_number(text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.hour_number(hour text) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (((EXTRACT(epoch FROM nats3.hour_start(hour)))::bigint / 3600))::integer;


--
-- Name: hour_range(text, text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.hour_range(first text, last text) RETURNS int4range
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (first > last) THEN 'empty'::int4range ELSE int4range(nats3.hour_number(first), nats3.hour_number(last), '[]'::text) END;


--
-- Name: archive_hours; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.archive_hours (
    archive_id bigint NOT NULL,
    hours bigint DEFAULT 0 NOT NULL,
    sealed int4multirange DEFAULT '{}'::int4multirange NOT NULL,
    compacted int4multirange DEFAULT '{}'::int4multirange NOT NULL,
    sealed_filled bigint DEFAULT 0 NOT NULL,
    sealed_empty bigint DEFAULT 0 NOT NULL,
    CONSTRAINT archive_hours_check CHECK ((compacted <@ sealed)),
    CONSTRAINT archive_hours_check1 CHECK (((sealed_filled >= 0) AND (sealed_filled <= hours))),
    CONSTRAINT archive_hours_hours_check CHECK ((hours >= 0)),
    CONSTRAINT archive_hours_sealed_empty_check CHECK ((sealed_empty >= 0))
);


--
-- Name: gap; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.gap (
    id bigint NOT NULL,
    archive_id bigint NOT NULL,
    incarnation_id bigint NOT NULL,
    seqs int8range NOT NULL,
    reason text NOT NULL,
    after_ns bigint,
    before_ns bigint,
    first_hour text COLLATE pg_catalog."C",
    last_hour text COLLATE pg_catalog."C",
    hours int4range GENERATED ALWAYS AS (nats3.hour_range(first_hour, last_hour)) STORED,
    dagster_run_id text,
    recorded_at timestamp with time zone DEFAULT now() NOT NULL,
    messages bigint,
    chunks bigint,
    newest_at timestamp with time zone,
    replay_id text COLLATE pg_catalog."C",
    is_joined boolean DEFAULT false NOT NULL,
    CONSTRAINT gap_hours_ordered CHECK ((((first_hour IS NULL) = (last_hour IS NULL)) AND ((first_hour IS NULL) OR (first_hour <= last_hour)))),
    CONSTRAINT gap_reason_check CHECK ((reason = ANY (ARRAY['deleted'::text, 'expired'::text, 'superseded'::text, 'ttl'::text, 'superseded_or_ttl'::text, 'damaged'::text, 'undelivered'::text, 'unselected'::text, 'missing'::text, 'retired'::text, 'expired_by_policy'::text, 'erased'::text]))),
    CONSTRAINT gap_seqs_proper CHECK ((COALESCE((lower(seqs) >= 1), false) AND (NOT upper_inf(seqs))))
);


--
-- Name: hour; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.hour (
    archive_id bigint NOT NULL,
    incarnation_id bigint NOT NULL,
    hour text NOT NULL COLLATE pg_catalog."C",
    chunks bigint NOT NULL,
    messages bigint NOT NULL,
    absent bigint NOT NULL,
    expired bigint DEFAULT 0 NOT NULL,
    superseded bigint DEFAULT 0 NOT NULL,
    ttl bigint DEFAULT 0 NOT NULL,
    superseded_or_ttl bigint DEFAULT 0 NOT NULL,
    damaged bigint DEFAULT 0 NOT NULL,
    undelivered bigint DEFAULT 0 NOT NULL,
    payload_bytes bigint NOT NULL,
    stored_bytes bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    first_ns bigint NOT NULL,
    last_ns bigint NOT NULL,
    revision bigint NOT NULL
);


--
-- Name: hours_to_compact(bigint, timestamp with time zone, text, text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.hours_to_compact(archive bigint, before timestamp with time zone, first text, last text) RETURNS SETOF text
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT n.hour
    FROM ( SELECT nats3.hour_at(g.g) AS hour
            FROM ((nats3.archive_hours a
              CROSS JOIN LATERAL unnest(((a.sealed - a.compacted) * int4multirange((nats3.hour_range(hours_to_compact.first, hours_to_compact.last) * int4range(NULL::integer, (floor((EXTRACT(epoch FROM hours_to_compact.before) / (3600)::numeric)))::integer))))) r(r))
              CROSS JOIN LATERAL generate_series(lower(r.r), (upper(r.r) - 1)) g(g))
           WHERE (a.archive_id = hours_to_compact.archive)) n
   WHERE ((( SELECT sum(h.chunks) AS sum
            FROM nats3.hour h
           WHERE ((h.archive_id = hours_to_compact.archive) AND (h.hour = n.hour))) > (1)::numeric) AND (NOT (EXISTS ( SELECT
            FROM nats3.gap g
           WHERE ((g.archive_id = hours_to_compact.archive) AND (g.reason = 'retired'::text) AND (g.hours @> nats3.hour_number(n.hour)))))));
END;


--
-- Name: hold; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.hold (
    id bigint NOT NULL,
    archive_id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    hours int4range DEFAULT int4range(NULL::integer, NULL::integer) NOT NULL,
    seqs int8range DEFAULT int8range(NULL::bigint, NULL::bigint) NOT NULL,
    reason text NOT NULL,
    actor text DEFAULT nats3.actor() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    released_at timestamp with time zone,
    released_by text,
    release_reason text,
    CONSTRAINT hold_hours_check CHECK ((NOT isempty(hours))),
    CONSTRAINT hold_name_check CHECK ((name ~ '^[A-Za-z0-9_.-]{1,200}$'::text)),
    CONSTRAINT hold_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT hold_release_reason_check CHECK ((release_reason <> ''::text)),
    CONSTRAINT hold_released CHECK ((((released_at IS NULL) = (released_by IS NULL)) AND ((released_at IS NULL) = (release_reason IS NULL)))),
    CONSTRAINT hold_seqs_check CHECK ((NOT isempty(seqs)))
);


--
-- Name: is_held(bigint, text, int8range); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.is_held(archive bigint, of_hour text, range int8range) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN (EXISTS (SELECT FROM nats3.hold h WHERE ((h.archive_id = is_held.archive) AND (h.released_at IS NULL) AND (h.hours @> nats3.hour_number(is_held.of_hour)) AND (h.seqs && is_held.range))));


--
-- Name: is_locked(text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.is_locked(name text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select exists (
        select from pg_locks l
        where l.locktype = 'advisory' and l.granted and l.objsubid = 1
          and l.database = (select oid from pg_database where datname = current_database())
          and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended(name, 0)
    )
$$;


--
-- Name: replay; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.replay (
    id text NOT NULL COLLATE pg_catalog."C",
    archive_id bigint NOT NULL,
    spec jsonb NOT NULL,
    state text DEFAULT 'planned'::text NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    error text,
    chunks bigint NOT NULL,
    chunks_done bigint DEFAULT 0 NOT NULL,
    selected bigint DEFAULT 0 NOT NULL,
    published bigint DEFAULT 0 NOT NULL,
    found bigint DEFAULT 0 NOT NULL,
    duplicates bigint DEFAULT 0 NOT NULL,
    expired bigint DEFAULT 0 NOT NULL,
    progress_published bigint DEFAULT 0 NOT NULL,
    progress_found bigint DEFAULT 0 NOT NULL,
    actor text DEFAULT nats3.actor() NOT NULL,
    dagster_run_id text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    deleted_at timestamp with time zone,
    job_id uuid DEFAULT gen_random_uuid() NOT NULL,
    job_name text,
    launch integer DEFAULT 0 NOT NULL,
    launched_at timestamp with time zone DEFAULT now(),
    launch_begun boolean DEFAULT false NOT NULL,
    folded_at timestamp with time zone,
    whole_hours text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT replay_complete CHECK (((chunks_done <= chunks) AND ((state <> 'succeeded'::text) OR (chunks_done = chunks)))),
    CONSTRAINT replay_expired_check CHECK ((expired >= 0)),
    CONSTRAINT replay_id_check CHECK ((id ~ '^[0-9a-f]{16}$'::text)),
    CONSTRAINT replay_progress_found_check CHECK ((progress_found >= 0)),
    CONSTRAINT replay_progress_published_check CHECK ((progress_published >= 0)),
    CONSTRAINT replay_state_check CHECK ((state = ANY (ARRAY['planned'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'canceled'::text, 'paused'::text])))
);


--
-- Name: is_lost(nats3.replay); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.is_lost(r nats3.replay) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select case
        when r.state = 'running' then not nats3.is_locked('nats3.replay.' || r.id)
        when r.state = 'planned' and (r.launch_begun or r.launched_at < now() - interval '60 s')
            then not nats3.is_locked('nats3.launch.' || r.id || '.' || r.launch)
        else false
    end
$$;


--
-- Name: is_removed(text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.is_removed(reason text) RETURNS boolean
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (reason = ANY (ARRAY['retired'::text, 'expired_by_policy'::text, 'erased'::text]));


--
-- Name: archive; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.archive (
    id bigint NOT NULL,
    name text NOT NULL,
    job_id uuid DEFAULT gen_random_uuid() NOT NULL,
    job_name text,
    stream text NOT NULL,
    bucket text NOT NULL,
    prefix text NOT NULL,
    subjects text[] NOT NULL,
    former_filters jsonb DEFAULT '[]'::jsonb NOT NULL,
    mode text NOT NULL,
    durable text,
    max_messages bigint NOT NULL,
    max_bytes bigint NOT NULL,
    max_age_s bigint NOT NULL,
    zstd_level smallint NOT NULL,
    compact_after_s bigint NOT NULL,
    compact_below bigint NOT NULL,
    keep_s bigint DEFAULT 0 NOT NULL,
    keep_bytes bigint DEFAULT 0 NOT NULL,
    copies text[] DEFAULT '{}'::text[] NOT NULL,
    group_name text DEFAULT ''::text NOT NULL,
    owners text[] DEFAULT '{}'::text[] NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    kinds text[] DEFAULT '{}'::text[] NOT NULL,
    pool text DEFAULT ''::text NOT NULL,
    retries integer DEFAULT 0 NOT NULL,
    retry_delay_s bigint DEFAULT 0 NOT NULL,
    fail_window_s bigint DEFAULT 0 NOT NULL,
    warn_window_s bigint DEFAULT 0 NOT NULL,
    presets jsonb DEFAULT '[]'::jsonb NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT archive_compact_after_s_check CHECK ((compact_after_s >= 0)),
    CONSTRAINT archive_compact_below_check CHECK ((compact_below > 0)),
    CONSTRAINT archive_fail_window_s_check CHECK ((fail_window_s >= 0)),
    CONSTRAINT archive_job_name_check CHECK ((job_name <> ''::text)),
    CONSTRAINT archive_keep_bytes_check CHECK ((keep_bytes >= 0)),
    CONSTRAINT archive_keep_s_check CHECK ((keep_s >= 0)),
    CONSTRAINT archive_max_age_s_check CHECK ((max_age_s > 0)),
    CONSTRAINT archive_max_bytes_check CHECK ((max_bytes > 0)),
    CONSTRAINT archive_max_messages_check CHECK ((max_messages > 0)),
    CONSTRAINT archive_mode_check CHECK ((mode = ANY (ARRAY['stream'::text, 'consumer'::text]))),
    CONSTRAINT archive_name_check CHECK ((name ~ '^[A-Za-z0-9_]+$'::text)),
    CONSTRAINT archive_retries_check CHECK ((retries >= 0)),
    CONSTRAINT archive_retry_delay_s_check CHECK ((retry_delay_s >= 0)),
    CONSTRAINT archive_warn_window_s_check CHECK ((warn_window_s >= 0)),
    CONSTRAINT archive_zstd_level_check CHECK (((zstd_level >= 1) AND (zstd_level <= 22)))
);


--
-- Name: is_unsealed_expiry(bigint, bigint, text, int8range); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.is_unsealed_expiry(archive bigint, incarnation bigint, of_hour text, range int8range) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN ((EXISTS (SELECT FROM nats3.gap g WHERE ((g.archive_id = is_unsealed_expiry.archive) AND (g.incarnation_id = is_unsealed_expiry.incarnation) AND (g.seqs && is_unsealed_expiry.range) AND (g.reason = 'expired_by_policy'::text)))) AND (EXISTS (SELECT FROM nats3.archive a WHERE ((a.id = is_unsealed_expiry.archive) AND (a.deleted_at IS NULL)))) AND (NOT (EXISTS (SELECT FROM nats3.archive_hours k WHERE ((k.archive_id = is_unsealed_expiry.archive) AND (k.sealed @> nats3.hour_number(is_unsealed_expiry.of_hour)))))));


--
-- Name: join_gaps(bigint[]); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.join_gaps(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    added nats3.gap;
    other nats3.gap;
begin
    for added in
        select g.* from nats3.gap g join (
            select (array_agg(id order by lower(seqs)))[1] as first, (array_agg(id order by lower(seqs) desc))[1] as last
            from nats3.gap where id = any(ids) and not nats3.is_removed(reason) group by archive_id, incarnation_id, reason
        ) edge on g.id in (edge.first, edge.last)
        order by lower(g.seqs)
    loop
        for other in
            (select * from nats3.gap g
             where g.archive_id = added.archive_id and g.incarnation_id = added.incarnation_id
               and lower(g.seqs) < lower(added.seqs)
             order by lower(g.seqs) desc limit 1)
            union all
            (select * from nats3.gap g
             where g.archive_id = added.archive_id and g.incarnation_id = added.incarnation_id
               and lower(g.seqs) = upper(added.seqs))
        loop
            if other.seqs -|- added.seqs
               and (other.reason, other.first_hour, other.last_hour, other.after_ns, other.before_ns) is not distinct from
                   (added.reason, added.first_hour, added.last_hour, added.after_ns, added.before_ns) then
                delete from nats3.gap where id = added.id;
                other.seqs := other.seqs + added.seqs;
                update nats3.gap set seqs = other.seqs where id = other.id;
                added := other;
            end if;
        end loop;
    end loop;
end
$$;


--
-- Name: join_retired(timestamp with time zone, integer); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.join_retired(before timestamp with time zone, most integer) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
declare
    looked bigint[];
    island record;
    own bigint[];
    sums record;
begin
    looked := array(
        select id from nats3.gap where nats3.is_removed(reason) and not is_joined and recorded_at < before
        order by recorded_at limit most);
    perform from nats3.archive where id in (select archive_id from nats3.gap where id = any(looked))
    order by id for no key update;
    for island in
        select o.archive_id, o.incarnation_id, o.reason, o.first_hour, o.replay_id, unnest(range_agg(g.seqs)) as seqs
        from (
            select distinct archive_id, incarnation_id, reason, first_hour, replay_id
            from nats3.gap where id = any(looked)
        ) o
        join nats3.gap g on g.archive_id = o.archive_id and g.incarnation_id = o.incarnation_id and g.reason = o.reason
            and g.hours && nats3.hour_range(o.first_hour, o.first_hour) and g.first_hour = o.first_hour
            and g.replay_id is not distinct from o.replay_id and g.recorded_at < before
            and nats3.is_removed(g.reason)
        group by 1, 2, 3, 4, 5
    loop
        select array_agg(id order by id), sum(messages) as messages, sum(chunks) as chunks, max(newest_at) as newest_at,
               min(after_ns) as after_ns, max(before_ns) as before_ns
        into sums from nats3.gap g
        where g.archive_id = island.archive_id and g.incarnation_id = island.incarnation_id and g.seqs <@ island.seqs
          and g.reason = island.reason;
        own := sums.array_agg;
        delete from nats3.gap where id = any(own[2:]);
        update nats3.gap
        set seqs = island.seqs, messages = sums.messages, chunks = sums.chunks, newest_at = sums.newest_at,
            after_ns = sums.after_ns, before_ns = sums.before_ns, is_joined = true
        where id = own[1];
    end loop;
    update nats3.gap set is_joined = true where id = any(looked) and not is_joined;
    return cardinality(looked);
end
$$;


--
-- Name: long_subject_key(text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.long_subject_key(subject text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (("left"(subject, 64) || ' '::text) || encode(sha256(convert_to(subject, 'UTF8'::name)), 'hex'::text));


--
-- Name: size(int8range); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.size(int8range) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (upper($1) - lower($1));


--
-- Name: losses(bigint, text, text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.losses(archive bigint, first text, last text) RETURNS TABLE(hour text, sequences bigint)
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT (to_char((h.h AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD-HH24:00'::text) COLLATE "C") AS to_char,
     (sum(nats3.size(g.seqs)))::bigint AS sum
    FROM (nats3.gap g
      CROSS JOIN LATERAL generate_series(nats3.hour_start(GREATEST(g.first_hour, losses.first)), nats3.hour_start(LEAST(g.last_hour, losses.last)), '01:00:00'::interval) h(h))
   WHERE ((g.archive_id = losses.archive) AND (g.first_hour IS NOT NULL) AND (g.hours && nats3.hour_range(losses.first, losses.last)))
   GROUP BY (to_char((h.h AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD-HH24:00'::text) COLLATE "C");
END;


--
-- Name: may_have(bytea, bigint, integer[]); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.may_have(blocks bytea, place bigint, bits integer[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT bool_and((get_bit(block.block, ("bit"."bit")::bigint) = 1)) AS bool_and FROM SUBSTRING(may_have.blocks FROM (((((may_have.place * (octet_length(may_have.blocks) / 32)) >> 32))::integer * 32) + 1) FOR 32) block(block), unnest(may_have.bits) "bit"("bit"));


--
-- Name: may_have_any(int8range, int8multirange, int8multirange); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.may_have_any(seqs int8range, deleted int8multirange, of_these int8multirange) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (NOT COALESCE(((of_these * int8multirange(seqs)) <@ deleted), false));


--
-- Name: refuse(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    raise exception using
        errcode = 'integrity_constraint_violation',
        message = format('%s of nats3.%s is refused: rows there are immutable', tg_op, tg_table_name),
        constraint = tg_name;
end
$$;


--
-- Name: reopen_compacted(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.reopen_compacted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    update nats3.archive_hours set compacted = '{}' where archive_id = new.id;
    return null;
end
$$;


--
-- Name: replay_chunk_counted(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.replay_chunk_counted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select r.archive_id, v.what, '', sum(v.value)
    from done d join pending p using (replay_id, chunk_id)
    join nats3.replay r on r.id = d.replay_id
    join nats3.chunk c on c.id = d.chunk_id
    cross join lateral (values
        ('fetched_objects', 1), ('fetched_bytes', c.stored_bytes),
        ('published_bytes', c.payload_bytes * (d.published + d.found) / c.messages)
    ) as v(what, value)
    where d.state = 'done' and p.state <> 'done' and v.value > 0
    group by 1, 2 order by 1, 2
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;


--
-- Name: replay_counted(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.replay_counted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    values (new.archive_id, 'published_messages', '',
            new.published + new.progress_published - old.published - old.progress_published)
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;


--
-- Name: replay_updated(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.replay_updated() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    new.updated_at := clock_timestamp();
    return new;
end $$;


--
-- Name: retired_hours(bigint, text, text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.retired_hours(archive bigint, first text, last text) RETURNS TABLE(hour text, chunks bigint, messages bigint, total bigint, newest timestamp with time zone)
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 WITH retired AS (
          SELECT g.first_hour AS hour,
             (sum(g.chunks))::bigint AS chunks,
             (sum(g.messages))::bigint AS messages,
             max(g.newest_at) AS newest
            FROM nats3.gap g
           WHERE ((g.archive_id = retired_hours.archive) AND nats3.is_removed(g.reason) AND (g.messages IS NOT NULL) AND (g.hours && nats3.hour_range(retired_hours.first, retired_hours.last)))
           GROUP BY g.first_hour
         )
  SELECT r.hour,
     r.chunks,
     r.messages,
     (r.chunks + l.chunks),
     GREATEST(r.newest, l.newest) AS "greatest"
    FROM (retired r
      CROSS JOIN LATERAL ( SELECT count(*) AS chunks,
             max(COALESCE(c.captured_at, c.committed_at)) AS newest
            FROM nats3.chunk c
           WHERE ((c.archive_id = retired_hours.archive) AND (c.hour = r.hour) AND (c.deleted_at IS NULL))) l);
END;


--
-- Name: seal_counted(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.seal_counted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    insert into nats3.total as t (archive_id, what, label, value)
    select a.archive_id, v.what, '', sum(v.value)
    from added a cross join lateral (values ('seal_bytes', a.stored_bytes), ('seals', 1)) as v(what, value)
    group by 1, 2 order by 1, 2
    on conflict (archive_id, what, label) do update set value = t.value + excluded.value;
    return null;
end
$$;


--
-- Name: seal_holds(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.seal_holds() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    own int4multirange := int4multirange(nats3.hour_range(new.hour, new.hour));
begin
    update nats3.seal set superseded_at = now()
    where archive_id = new.archive_id and hour = new.hour and number < new.number and superseded_at is null;
    perform from nats3.valid_seals(new.archive_id, new.hour, new.hour);
    if not found then
        return null;
    end if;
    perform nats3.unseal(new.archive_id, own);
    insert into nats3.archive_hours as h (archive_id, sealed, sealed_filled, sealed_empty)
    values (new.archive_id, own, 0, 0) on conflict (archive_id) do update set sealed = h.sealed + excluded.sealed;
    update nats3.archive_hours set sealed_filled = sealed_filled + (new.chunks > 0)::integer,
        sealed_empty = sealed_empty + (new.chunks = 0)::integer
    where archive_id = new.archive_id;
    return null;
end
$$;


--
-- Name: seal_kept(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.seal_kept() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    if old.superseded_at is null and exists (select from nats3.archive where id = old.archive_id and deleted_at is null) then
        raise exception using
            errcode = 'integrity_constraint_violation', constraint = tg_name,
            message = 'delete of nats3.seal is refused: it is the newest one of its hour';
    end if;
    return old;
end
$$;


--
-- Name: size_class(bigint); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.size_class(bytes bigint) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN COALESCE((ARRAY['65536'::text, '262144'::text, '1048576'::text, '4194304'::text, '16777216'::text, '67108864'::text, '268435456'::text, '1073741824'::text])[(1 + width_bucket((bytes - 1), (ARRAY[65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456, 1073741824])::bigint[]))], '+Inf'::text);


--
-- Name: subject_key(text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.subject_key(subject text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (CASE WHEN (octet_length(subject) <= 256) THEN subject ELSE nats3.long_subject_key(subject) END COLLATE "C");


--
-- Name: subjects_added(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.subjects_added() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    wrong record;
begin
    select a.chunk_id, c.messages, a.messages as counted into wrong
    from (
        select chunk_id, archive_id, incarnation_id, first_seq, sum(messages) as messages, count(*) as subjects
        from added group by chunk_id, archive_id, incarnation_id, first_seq
    ) a
    left join nats3.chunk c on c.id = a.chunk_id and c.deleted_at is null
    where (c.messages, c.subjects, c.archive_id, c.incarnation_id, lower(c.seqs)) is distinct from
          (a.messages, a.subjects, a.archive_id, a.incarnation_id, a.first_seq)
    limit 1;
    if found then
        raise exception using errcode = 'check_violation', constraint = 'chunk_subjects_account',
            message = format('the subjects of chunk %s count %s of its %s messages', wrong.chunk_id, wrong.counted,
                             coalesce(wrong.messages, 0));
    end if;
    return null;
end
$$;


--
-- Name: total_refuse(); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.total_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    raise exception using
        errcode = 'integrity_constraint_violation', constraint = tg_name,
        message = format('%s of nats3.total is refused: totals only grow', tg_op);
end
$$;


--
-- Name: touch_archives(bigint[]); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.touch_archives(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    gone text;
begin
    -- The lock comes before the check: a delete that came first is then seen.
    perform from nats3.archive where id = any(ids) order by id for no key update;
    update nats3.archive set revision = revision + 1 where id = any(ids);
    select name into gone from nats3.archive where id = any(ids) and deleted_at is not null limit 1;
    if found then
        raise exception using errcode = 'integrity_constraint_violation', constraint = 'archive_live',
            message = format('archive %s is deleted', gone), detail = gone;
    end if;
end
$$;


--
-- Name: touch_hours(bigint, bigint, nats3.gap[]); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.touch_hours(archive bigint, incarnation bigint, gaps nats3.gap[]) RETURNS void
    LANGUAGE sql
    AS $_$
    with beside as (
        select range_agg(seqs) as seqs from unnest(gaps) where first_hour is null having count(*) > 0
    ),
    near as (
        select hour, int8range(least(coalesce(lag(last_seq) over seqs + 1, 0), first_seq), last_seq + 1) as accounts
        from nats3.hour
        where archive_id = archive and incarnation_id = incarnation and exists (select from beside)
          and first_seq >= coalesce((
              select max(first_seq) from nats3.hour
              where archive_id = archive and incarnation_id = incarnation
                and first_seq < (select lower(seqs) from beside)), 0)
          and first_seq <= coalesce((
              select min(first_seq) from nats3.hour
              where archive_id = archive and incarnation_id = incarnation
                and first_seq >= (select upper(seqs) from beside)), 9223372036854775807)
        window seqs as (order by first_seq)
    ),
    touched as (
        select near.hour from near join beside on beside.seqs && near.accounts
        union
        select h.hour from unnest(gaps) g join nats3.hour h on h.hour between g.first_hour and g.last_hour
        where h.archive_id = archive and h.incarnation_id = incarnation
    ),
    changed as (
        update nats3.hour h set revision = (select revision from nats3.archive where id = $1)
        -- An array, by which the index is used: a join would read all hours of the archive.
        where h.archive_id = archive and h.incarnation_id = incarnation and h.hour = any(array(select hour from touched))
        returning h.hour
    )
    select nats3.unseal(archive, range_agg(nats3.hour_range(hour, hour))) from changed having count(*) > 0
$_$;


--
-- Name: unseal(bigint, int4multirange); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.unseal(archive bigint, changed int4multirange) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    gone int4multirange;
begin
    select sealed * changed into gone from nats3.archive_hours where archive_id = archive and sealed && changed;
    if not found then
        return;
    end if;
    update nats3.archive_hours h
    set sealed = h.sealed - gone, compacted = h.compacted - gone, sealed_filled = h.sealed_filled - n.filled, sealed_empty = h.sealed_empty - n.empty
    from (
        select count(*) filter (where chunks > 0) as filled, count(*) filter (where chunks = 0) as empty
        from (
            select distinct on (hour) hour, chunks from nats3.seal
            where archive_id = archive and hour between nats3.hour_at(lower(gone)) and nats3.hour_at(upper(gone) - 1)
              and nats3.hour_number(hour) <@ gone
            order by hour, number desc
        ) newest
    ) n
    where h.archive_id = archive;
end
$$;


--
-- Name: seal; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.seal (
    id bigint NOT NULL,
    archive_id bigint NOT NULL,
    hour text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    revision bigint NOT NULL,
    chunks bigint NOT NULL,
    losses bigint NOT NULL,
    messages bigint NOT NULL,
    gaps bigint NOT NULL,
    content text NOT NULL COLLATE pg_catalog."C",
    bucket text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    sha256 text NOT NULL COLLATE pg_catalog."C",
    stored_bytes bigint NOT NULL,
    actor text DEFAULT nats3.actor() NOT NULL,
    dagster_run_id text,
    sealed_at timestamp with time zone DEFAULT now() NOT NULL,
    superseded_at timestamp with time zone,
    CONSTRAINT seal_chunks_check CHECK ((chunks >= 0)),
    CONSTRAINT seal_content_check CHECK ((content ~ '^[0-9a-f]{16}$'::text)),
    CONSTRAINT seal_gaps_check CHECK ((gaps >= 0)),
    CONSTRAINT seal_hour_check CHECK ((hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'::text)),
    CONSTRAINT seal_losses_check CHECK ((losses >= 0)),
    CONSTRAINT seal_messages_check CHECK ((messages >= 0)),
    CONSTRAINT seal_number_check CHECK ((number > 0)),
    CONSTRAINT seal_sha256_check CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT seal_stored_bytes_check CHECK ((stored_bytes > 0))
);


--
-- Name: valid_seals(bigint, text, text); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.valid_seals(archive bigint, first text, last text) RETURNS TABLE(hour text, revision bigint, chunks bigint, messages bigint)
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 WITH sealed AS (
          SELECT DISTINCT ON (s.hour) s.hour,
             s.revision,
             s.chunks,
             s.losses
            FROM nats3.seal s
           WHERE ((s.archive_id = valid_seals.archive) AND ((s.hour >= COALESCE(valid_seals.first, ''::text)) AND (s.hour <= COALESCE(valid_seals.last, '9999'::text))))
           ORDER BY s.hour, s.number DESC
         ), has AS (
          SELECT h.hour,
             max(h.revision) AS revision,
             sum(h.chunks) AS chunks,
             sum(h.messages) AS messages
            FROM nats3.hour h
           WHERE ((h.archive_id = valid_seals.archive) AND ((h.hour >= COALESCE(valid_seals.first, ''::text)) AND (h.hour <= COALESCE(valid_seals.last, '9999'::text))))
           GROUP BY h.hour
         )
  SELECT sealed.hour,
     sealed.revision,
     sealed.chunks,
     (COALESCE(has.messages, (0)::numeric))::bigint AS "coalesce"
    FROM ((sealed
      LEFT JOIN has USING (hour))
      LEFT JOIN nats3.losses(valid_seals.archive, valid_seals.first, valid_seals.last) lost(hour, sequences) USING (hour))
   WHERE ((sealed.revision = COALESCE(has.revision, (0)::bigint)) AND ((sealed.chunks)::numeric = COALESCE(has.chunks, (0)::numeric)) AND (sealed.losses = COALESCE(lost.sequences, (0)::bigint)));
END;


--
-- Name: removal; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.removal (
    bucket text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    claimed_at timestamp with time zone DEFAULT now() NOT NULL,
    removed_at timestamp with time zone
);


--
-- Name: was_removed(text, text, timestamp with time zone, bigint); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.was_removed(bucket text, key text, put_at timestamp with time zone, keep_s bigint) RETURNS boolean
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT (EXISTS ( SELECT
            FROM nats3.removal r
           WHERE ((r.bucket = was_removed.bucket) AND (r.key = was_removed.key) AND (r.removed_at >= was_removed.put_at) AND (r.removed_at < (now() - make_interval(secs => (was_removed.keep_s)::double precision)))))) AS "exists";
END;


--
-- Name: yield_gaps(bigint, bigint, int8multirange); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.yield_gaps(archive bigint, incarnation bigint, ranges int8multirange) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    old nats3.gap[];
    freed int8multirange;
begin
    perform from nats3.coverage where archive_id = archive and incarnation_id = incarnation and covered && ranges;
    if not found then
        return;
    end if;
    with removed as (
        delete from nats3.gap g
        where g.archive_id = archive and g.incarnation_id = incarnation and g.seqs && range_merge(ranges)
          and g.seqs && ranges and not nats3.is_removed(g.reason)
        returning g
    )
    select array_agg(r.g), range_agg((r.g).seqs) into old, freed from removed r;
    if old is null then
        return;
    end if;
    update nats3.coverage set covered = covered - freed where archive_id = archive and incarnation_id = incarnation;
    update nats3.gap_sum s set sequences = s.sequences - o.sequences
    from (select reason, sum(nats3.size(seqs))::bigint as sequences from unnest(old) group by reason) o
    where s.archive_id = archive and s.incarnation_id = incarnation and s.reason = o.reason;
    perform nats3.unseal(archive, range_agg(hours)) from unnest(old) where first_hour is not null having count(*) > 0;
    insert into nats3.gap (archive_id, incarnation_id, seqs, reason, dagster_run_id, recorded_at, after_ns, before_ns,
                           first_hour, last_hour)
    select archive, incarnation, rest, o.reason, o.dagster_run_id, o.recorded_at, o.after_ns, o.before_ns, o.first_hour,
           o.last_hour
    from unnest(old) o cross join unnest(int8multirange(o.seqs) - ranges) rest;
    perform nats3.touch_hours(archive, incarnation, old);
end
$$;


--
-- Name: alembic_version; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.alembic_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: archive_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.archive ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.archive_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: archive_table; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.archive_table (
    archive_id bigint NOT NULL,
    catalog text NOT NULL,
    identifier text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    revision bigint,
    chunks bigint,
    last_chunk bigint,
    snapshot_id bigint,
    location text,
    synced_at timestamp with time zone,
    begun bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    changed text,
    seen_at timestamp with time zone,
    seen_lacking bigint,
    seen_surplus bigint,
    error text,
    failed_at timestamp with time zone,
    CONSTRAINT archive_table_catalog_check CHECK ((catalog <> ''::text)),
    CONSTRAINT archive_table_failed CHECK (((error IS NULL) = (failed_at IS NULL))),
    CONSTRAINT archive_table_identifier_check CHECK ((identifier <> ''::text)),
    CONSTRAINT archive_table_synced CHECK ((((revision IS NULL) = (synced_at IS NULL)) AND ((chunks IS NULL) = (synced_at IS NULL)) AND ((last_chunk IS NULL) = (synced_at IS NULL))))
);


--
-- Name: capture; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.capture (
    id bigint NOT NULL,
    archive_id bigint NOT NULL,
    hour text NOT NULL COLLATE pg_catalog."C",
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone DEFAULT now() NOT NULL,
    messages bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    error_kind text,
    error text,
    actor text DEFAULT nats3.actor() NOT NULL,
    dagster_run_id text,
    CONSTRAINT capture_error CHECK (((error_kind IS NULL) = (error IS NULL))),
    CONSTRAINT capture_hour_check CHECK ((hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'::text)),
    CONSTRAINT capture_messages_check CHECK ((messages >= 0)),
    CONSTRAINT capture_payload_bytes_check CHECK ((payload_bytes >= 0))
);


--
-- Name: capture_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.capture ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.capture_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: chunk_bloom; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.chunk_bloom (
    chunk_id bigint NOT NULL,
    blocks bytea NOT NULL,
    CONSTRAINT chunk_bloom_blocks_check CHECK (((length(blocks) > 0) AND ((length(blocks) % 32) = 0)))
);
ALTER TABLE ONLY nats3.chunk_bloom ALTER COLUMN blocks SET STORAGE EXTERNAL;


--
-- Name: chunk_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.chunk ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.chunk_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: chunk_subject; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.chunk_subject (
    chunk_id bigint NOT NULL,
    archive_id bigint NOT NULL,
    incarnation_id bigint NOT NULL,
    first_seq bigint NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    messages bigint NOT NULL,
    CONSTRAINT chunk_subject_messages_check CHECK ((messages > 0))
);


--
-- Name: incarnation; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.incarnation (
    id bigint NOT NULL,
    stream text NOT NULL,
    created_ns bigint NOT NULL,
    config jsonb NOT NULL,
    removing jsonb DEFAULT '{}'::jsonb NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    first_ns bigint NOT NULL,
    last_ns bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL,
    observed_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: chunk_view; Type: VIEW; Schema: nats3; Owner: -
--

CREATE VIEW nats3.chunk_view AS
 SELECT c.id,
    c.archive_id,
    a.name AS archive,
    c.incarnation_id,
    i.stream,
    i.created_ns,
    c.hour,
    c.seqs,
    c.messages,
    c.first_ns,
    c.last_ns,
    c.payload_bytes,
    c.largest_bytes,
    c.stored_bytes,
    c.sha256,
    c.bucket,
    c.key,
    c.minutes,
    c.dagster_run_id,
    c.committed_at,
    c.deleted_at,
    c.absent_reason,
    a.copies
   FROM ((nats3.chunk c
     JOIN nats3.archive a ON ((a.id = c.archive_id)))
     JOIN nats3.incarnation i ON ((i.id = c.incarnation_id)));


--
-- Name: copy_task; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.copy_task (
    bucket text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    archive_id bigint NOT NULL,
    hour text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    sha256 text NOT NULL COLLATE pg_catalog."C",
    stored_bytes bigint NOT NULL,
    removes boolean DEFAULT false NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: coverage; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.coverage (
    archive_id bigint NOT NULL,
    incarnation_id bigint NOT NULL,
    start_seq bigint NOT NULL,
    covered int8multirange DEFAULT '{}'::int8multirange NOT NULL,
    frontier bigint GENERATED ALWAYS AS ((lower((int8multirange(int8range(start_seq, NULL::bigint)) - covered)) - 1)) STORED NOT NULL,
    last_seq bigint GENERATED ALWAYS AS ((COALESCE(upper(covered), start_seq) - 1)) STORED NOT NULL,
    chunks bigint DEFAULT 0 NOT NULL,
    messages bigint DEFAULT 0 NOT NULL,
    absent bigint DEFAULT 0 NOT NULL,
    expired bigint DEFAULT 0 NOT NULL,
    superseded bigint DEFAULT 0 NOT NULL,
    ttl bigint DEFAULT 0 NOT NULL,
    superseded_or_ttl bigint DEFAULT 0 NOT NULL,
    damaged bigint DEFAULT 0 NOT NULL,
    undelivered bigint DEFAULT 0 NOT NULL,
    payload_bytes bigint DEFAULT 0 NOT NULL,
    stored_bytes bigint DEFAULT 0 NOT NULL,
    first_ns bigint,
    last_ns bigint,
    witness_seq bigint,
    witness_ns bigint,
    restored_ns bigint,
    unknown_after bigint,
    CONSTRAINT coverage_check CHECK ((covered <@ int8range(start_seq, NULL::bigint))),
    CONSTRAINT coverage_start_seq_check CHECK ((start_seq >= 1)),
    CONSTRAINT coverage_witness CHECK (((witness_seq IS NULL) = (witness_ns IS NULL)))
);


--
-- Name: coverage_view; Type: VIEW; Schema: nats3; Owner: -
--

CREATE VIEW nats3.coverage_view AS
 SELECT c.archive_id,
    c.incarnation_id,
    i.stream,
    i.created_ns,
    c.start_seq,
    c.frontier,
    c.last_seq,
    c.chunks,
    c.messages,
    c.absent,
    c.payload_bytes,
    c.stored_bytes,
    c.first_ns,
    c.last_ns,
    c.expired,
    c.superseded,
    c.ttl,
    c.superseded_or_ttl,
    c.damaged,
    c.undelivered,
    c.restored_ns,
    c.unknown_after
   FROM (nats3.coverage c
     JOIN nats3.incarnation i ON ((i.id = c.incarnation_id)));


--
-- Name: durable; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.durable (
    archive_id bigint NOT NULL,
    created_ns bigint NOT NULL,
    missed_seq bigint DEFAULT 0 NOT NULL,
    consumer_seq bigint NOT NULL,
    accounted bigint DEFAULT 0 NOT NULL,
    most_deliveries bigint DEFAULT 1 NOT NULL,
    CONSTRAINT durable_accounted_check CHECK ((accounted >= 0)),
    CONSTRAINT durable_consumer_seq_check CHECK ((consumer_seq >= 0)),
    CONSTRAINT durable_missed_seq_check CHECK ((missed_seq >= 0)),
    CONSTRAINT durable_most_deliveries_check CHECK ((most_deliveries >= 1))
);


--
-- Name: erased_range; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.erased_range (
    erasure_id bigint NOT NULL,
    archive_id bigint NOT NULL,
    created_ns bigint NOT NULL,
    seqs int8range NOT NULL,
    CONSTRAINT erased_range_seqs_check CHECK (((lower(seqs) >= 1) AND (NOT upper_inf(seqs))))
);


--
-- Name: erasure; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.erasure (
    id bigint NOT NULL,
    archive_id bigint NOT NULL,
    record_id uuid NOT NULL,
    number integer NOT NULL,
    previous text COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL,
    chosen_by text[] NOT NULL,
    messages bigint NOT NULL,
    actor text DEFAULT nats3.actor() NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    CONSTRAINT erasure_chosen_by_check CHECK ((chosen_by <@ '{subject,sequences,hours,times,header,where}'::text[])),
    CONSTRAINT erasure_digest_check CHECK ((digest ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT erasure_messages_check CHECK ((messages > 0)),
    CONSTRAINT erasure_number_check CHECK ((number >= 1)),
    CONSTRAINT erasure_previous_check CHECK ((previous ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT erasure_reason_check CHECK ((reason <> ''::text))
);


--
-- Name: erasure_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.erasure ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.erasure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: event; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.event (
    id bigint NOT NULL,
    archive_id bigint NOT NULL,
    what text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    actor text DEFAULT nats3.actor() NOT NULL,
    dagster_run_id text,
    happened_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT event_what_check CHECK ((what = ANY (ARRAY['created'::text, 'rebuilt'::text, 'changed'::text, 'deleted'::text, 'held'::text, 'released'::text, 'expired'::text, 'removed'::text, 'swept'::text, 'repaired'::text, 'adopted'::text, 'compacted'::text, 'erased'::text, 'erasure_refused'::text, 'learned'::text])))
);


--
-- Name: event_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.event ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: export_change; Type: SEQUENCE; Schema: nats3; Owner: -
--

CREATE SEQUENCE nats3.export_change
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: export; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.export (
    id bigint NOT NULL,
    archive_id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    spec jsonb NOT NULL,
    place text NOT NULL COLLATE pg_catalog."C",
    version integer DEFAULT 1 NOT NULL,
    change bigint DEFAULT nextval('nats3.export_change'::regclass) NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT export_name_check CHECK ((name ~ '^[A-Za-z0-9_]+$'::text)),
    CONSTRAINT export_place_check CHECK ((place ~~ '%/'::text)),
    CONSTRAINT export_version_check CHECK ((version > 0))
);


--
-- Name: export_hour; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.export_hour (
    export_id bigint NOT NULL,
    archive_id bigint NOT NULL,
    hour text NOT NULL COLLATE pg_catalog."C",
    revision bigint,
    chunks bigint,
    version integer,
    files bigint,
    messages bigint,
    dropped bigint,
    undecoded bigint,
    bytes bigint,
    content text COLLATE pg_catalog."C",
    manifest text COLLATE pg_catalog."C",
    made_at timestamp with time zone,
    error_kind text,
    error text,
    failures integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    dagster_run_id text,
    change bigint DEFAULT nextval('nats3.export_change'::regclass) NOT NULL,
    CONSTRAINT export_hour_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT export_hour_chunks_check CHECK ((chunks >= 0)),
    CONSTRAINT export_hour_content_check CHECK ((content ~ '^[0-9a-f]{16}$'::text)),
    CONSTRAINT export_hour_dropped_check CHECK ((dropped >= 0)),
    CONSTRAINT export_hour_failed CHECK ((((failures > 0) = (error IS NOT NULL)) AND (num_nulls(error_kind, error, failed_at) = ANY (ARRAY[0, 3])))),
    CONSTRAINT export_hour_failures_check CHECK ((failures >= 0)),
    CONSTRAINT export_hour_files_check CHECK ((files >= 0)),
    CONSTRAINT export_hour_hour_check CHECK ((hour ~ '^\d{4}-\d\d-\d\d-\d\d:00$'::text)),
    CONSTRAINT export_hour_made CHECK ((num_nulls(revision, chunks, version, files, messages, dropped, undecoded, bytes, content, manifest, made_at) = ANY (ARRAY[0, 11]))),
    CONSTRAINT export_hour_messages_check CHECK ((messages >= 0)),
    CONSTRAINT export_hour_something CHECK (((made_at IS NOT NULL) OR (failures > 0))),
    CONSTRAINT export_hour_undecoded_check CHECK ((undecoded >= 0))
);


--
-- Name: export_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.export ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.export_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: former_copy; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.former_copy (
    archive_id bigint NOT NULL,
    bucket text NOT NULL COLLATE pg_catalog."C",
    left_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: gap_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.gap ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.gap_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: gap_sum; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.gap_sum (
    archive_id bigint NOT NULL,
    incarnation_id bigint NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    sequences bigint NOT NULL,
    CONSTRAINT gap_sum_sequences_check CHECK ((sequences >= 0))
);


--
-- Name: hold_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.hold ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.hold_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: iceberg_namespace_properties; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.iceberg_namespace_properties (
    catalog_name character varying(255) NOT NULL,
    namespace character varying(255) NOT NULL,
    property_key character varying(255) NOT NULL,
    property_value character varying(1000) NOT NULL
);


--
-- Name: iceberg_tables; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.iceberg_tables (
    catalog_name character varying(255) NOT NULL,
    table_namespace character varying(255) NOT NULL,
    table_name character varying(255) NOT NULL,
    metadata_location character varying(1000),
    previous_metadata_location character varying(1000),
    iceberg_type character varying(5)
);


--
-- Name: incarnation_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.incarnation ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.incarnation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: open_erasure; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.open_erasure (
    erasure_id bigint NOT NULL,
    left_over bigint,
    CONSTRAINT open_erasure_left_over_check CHECK ((left_over >= 0))
);


--
-- Name: present_part; Type: VIEW; Schema: nats3; Owner: -
--

CREATE VIEW nats3.present_part AS
 SELECT format('function %s with %s parameters'::text, p.proname, p.pronargs) AS part
   FROM pg_proc p
  WHERE ((p.pronamespace = ('nats3'::regnamespace)::oid) AND (p.proname <> 'expected_parts'::name) AND (NOT (EXISTS ( SELECT
           FROM pg_depend d
          WHERE ((d.classid = ('pg_proc'::regclass)::oid) AND (d.objid = p.oid) AND (d.deptype = 'e'::"char"))))))
UNION ALL
 SELECT format('trigger %s'::text, t.tgname) AS part
   FROM (pg_trigger t
     JOIN pg_class c ON ((c.oid = t.tgrelid)))
  WHERE ((c.relnamespace = ('nats3'::regnamespace)::oid) AND (NOT t.tgisinternal))
UNION ALL
 SELECT format('constraint %s'::text, pg_constraint.conname) AS part
   FROM pg_constraint
  WHERE ((pg_constraint.connamespace = ('nats3'::regnamespace)::oid) AND (pg_constraint.contype <> 'n'::"char"))
UNION ALL
 SELECT format('%s %s'::text,
        CASE pg_class.relkind
            WHEN 'i'::"char" THEN 'index'::text
            WHEN 'v'::"char" THEN 'view'::text
            WHEN 'S'::"char" THEN 'sequence'::text
            ELSE 'table'::text
        END, pg_class.relname) AS part
   FROM pg_class
  WHERE ((pg_class.relnamespace = ('nats3'::regnamespace)::oid) AND (pg_class.relkind = ANY (ARRAY['r'::"char", 'v'::"char", 'i'::"char", 'S'::"char"])));


--
-- Name: refused_removal; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.refused_removal (
    bucket text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    refused_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: replay_attempt; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.replay_attempt (
    replay_id text NOT NULL COLLATE pg_catalog."C",
    attempt integer NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    error text,
    dagster_run_id text,
    began_with bigint DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT replay_attempt_state_check CHECK ((state = ANY (ARRAY['running'::text, 'succeeded'::text, 'failed'::text, 'canceled'::text, 'paused'::text, 'lost'::text])))
);


--
-- Name: replay_chunk; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.replay_chunk (
    replay_id text NOT NULL COLLATE pg_catalog."C",
    chunk_id bigint NOT NULL,
    "position" bigint NOT NULL,
    planned bigint NOT NULL,
    selected bigint DEFAULT 0 NOT NULL,
    published bigint DEFAULT 0 NOT NULL,
    found bigint DEFAULT 0 NOT NULL,
    duplicates bigint DEFAULT 0 NOT NULL,
    expired bigint DEFAULT 0 NOT NULL,
    last_seq bigint DEFAULT 0 NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    attempt integer,
    dagster_run_id text,
    finished_at timestamp with time zone,
    CONSTRAINT replay_chunk_accounts CHECK (((((published + found) + expired) = selected) AND (selected <= planned))),
    CONSTRAINT replay_chunk_duplicates CHECK (((duplicates >= 0) AND (duplicates <= published))),
    CONSTRAINT replay_chunk_expired_check CHECK ((expired >= 0)),
    CONSTRAINT replay_chunk_found_check CHECK ((found >= 0)),
    CONSTRAINT replay_chunk_last_seq_check CHECK ((last_seq >= 0)),
    CONSTRAINT replay_chunk_planned_check CHECK ((planned > 0)),
    CONSTRAINT replay_chunk_published_check CHECK ((published >= 0)),
    CONSTRAINT replay_chunk_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'done'::text])))
);


--
-- Name: replay_target; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.replay_target (
    replay_id text NOT NULL COLLATE pg_catalog."C",
    stream text NOT NULL,
    created_ns bigint NOT NULL,
    since_seq bigint NOT NULL
);


--
-- Name: seal_id_seq; Type: SEQUENCE; Schema: nats3; Owner: -
--

ALTER TABLE nats3.seal ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME nats3.seal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: total; Type: TABLE; Schema: nats3; Owner: -
--

CREATE TABLE nats3.total (
    archive_id bigint NOT NULL,
    what text NOT NULL COLLATE pg_catalog."C",
    label text NOT NULL COLLATE pg_catalog."C",
    value bigint NOT NULL,
    CONSTRAINT total_value_check CHECK ((value >= 0)),
    CONSTRAINT total_what_check CHECK ((what = ANY (ARRAY['captured_messages'::text, 'captured_bytes'::text, 'stored_bytes'::text, 'chunks'::text, 'lost'::text, 'seals'::text, 'seal_bytes'::text, 'captures'::text, 'failures'::text, 'published_messages'::text, 'published_bytes'::text, 'fetched_objects'::text, 'fetched_bytes'::text, 'attempts'::text])))
);


--
-- Name: alembic_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: asset_check_executions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.asset_check_executions (
    id bigint NOT NULL,
    asset_key text,
    check_name text,
    partition text,
    run_id character varying(255),
    execution_status character varying(255),
    evaluation_event text,
    evaluation_event_timestamp timestamp without time zone,
    evaluation_event_storage_id bigint,
    materialization_event_storage_id bigint,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: asset_check_executions_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.asset_check_executions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: asset_check_executions_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.asset_check_executions_id_seq OWNED BY public.asset_check_executions.id;


--
-- Name: asset_daemon_asset_evaluations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.asset_daemon_asset_evaluations (
    id bigint NOT NULL,
    evaluation_id bigint,
    asset_key text,
    asset_evaluation_body text,
    num_requested integer,
    num_skipped integer,
    num_discarded integer,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: asset_daemon_asset_evaluations_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.asset_daemon_asset_evaluations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: asset_daemon_asset_evaluations_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.asset_daemon_asset_evaluations_id_seq OWNED BY public.asset_daemon_asset_evaluations.id;


--
-- Name: asset_event_tags; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.asset_event_tags (
    id bigint NOT NULL,
    event_id bigint,
    asset_key text NOT NULL,
    key text NOT NULL,
    value text,
    event_timestamp timestamp without time zone
);


--
-- Name: asset_event_tags_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.asset_event_tags_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: asset_event_tags_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.asset_event_tags_id_seq OWNED BY public.asset_event_tags.id;


--
-- Name: asset_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.asset_keys (
    id bigint NOT NULL,
    asset_key character varying(512),
    last_materialization text,
    last_run_id character varying(255),
    asset_details text,
    wipe_timestamp timestamp without time zone,
    last_materialization_timestamp timestamp without time zone,
    tags text,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    cached_status_data text
);


--
-- Name: asset_keys_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.asset_keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: asset_keys_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.asset_keys_id_seq OWNED BY public.asset_keys.id;


--
-- Name: backfill_tags; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.backfill_tags (
    id bigint NOT NULL,
    backfill_id character varying(255),
    key text,
    value text
);


--
-- Name: backfill_tags_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.backfill_tags_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: backfill_tags_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.backfill_tags_id_seq OWNED BY public.backfill_tags.id;


--
-- Name: bulk_actions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.bulk_actions (
    id bigint NOT NULL,
    key character varying(32) NOT NULL,
    status character varying(255) NOT NULL,
    "timestamp" timestamp without time zone NOT NULL,
    body text,
    action_type character varying(32),
    selector_id text,
    job_name text
);


--
-- Name: bulk_actions_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.bulk_actions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: bulk_actions_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.bulk_actions_id_seq OWNED BY public.bulk_actions.id;


--
-- Name: concurrency_limits; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.concurrency_limits (
    id bigint NOT NULL,
    concurrency_key character varying(512) NOT NULL,
    "limit" integer NOT NULL,
    using_default_limit boolean DEFAULT false NOT NULL,
    update_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: concurrency_limits_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.concurrency_limits_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: concurrency_limits_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.concurrency_limits_id_seq OWNED BY public.concurrency_limits.id;


--
-- Name: concurrency_slots; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.concurrency_slots (
    id bigint NOT NULL,
    concurrency_key text NOT NULL,
    run_id text,
    step_key text,
    deleted boolean NOT NULL,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: concurrency_slots_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.concurrency_slots_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: concurrency_slots_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.concurrency_slots_id_seq OWNED BY public.concurrency_slots.id;


--
-- Name: daemon_heartbeats; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.daemon_heartbeats (
    id bigint NOT NULL,
    daemon_type character varying(255) NOT NULL,
    daemon_id character varying(255),
    "timestamp" timestamp without time zone NOT NULL,
    body text
);


--
-- Name: daemon_heartbeats_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.daemon_heartbeats_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: daemon_heartbeats_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.daemon_heartbeats_id_seq OWNED BY public.daemon_heartbeats.id;


--
-- Name: dynamic_partitions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.dynamic_partitions (
    id bigint NOT NULL,
    partitions_def_name text NOT NULL,
    partition text NOT NULL,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: dynamic_partitions_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.dynamic_partitions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: dynamic_partitions_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.dynamic_partitions_id_seq OWNED BY public.dynamic_partitions.id;


--
-- Name: event_logs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_logs (
    id bigint NOT NULL,
    run_id character varying(255),
    event text NOT NULL,
    dagster_event_type text,
    "timestamp" timestamp without time zone,
    step_key text,
    asset_key text,
    partition text
);


--
-- Name: event_logs_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.event_logs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: event_logs_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.event_logs_id_seq OWNED BY public.event_logs.id;


--
-- Name: instance_info; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.instance_info (
    id bigint NOT NULL,
    run_storage_id text
);


--
-- Name: instance_info_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.instance_info_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: instance_info_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.instance_info_id_seq OWNED BY public.instance_info.id;


--
-- Name: instigators; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.instigators (
    id bigint NOT NULL,
    selector_id character varying(255),
    repository_selector_id character varying(255),
    status character varying(63),
    instigator_type character varying(63),
    instigator_body text,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    update_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: instigators_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.instigators_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: instigators_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.instigators_id_seq OWNED BY public.instigators.id;


--
-- Name: job_ticks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.job_ticks (
    id bigint NOT NULL,
    job_origin_id character varying(255),
    selector_id character varying(255),
    status character varying(63),
    type character varying(63),
    "timestamp" timestamp without time zone,
    tick_body text,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    update_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: job_ticks_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.job_ticks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: job_ticks_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.job_ticks_id_seq OWNED BY public.job_ticks.id;


--
-- Name: jobs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.jobs (
    id bigint NOT NULL,
    job_origin_id character varying(255),
    selector_id character varying(255),
    repository_origin_id character varying(255),
    status character varying(63),
    job_type character varying(63),
    job_body text,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    update_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: jobs_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: jobs_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.jobs_id_seq OWNED BY public.jobs.id;


--
-- Name: kvs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.kvs (
    id bigint NOT NULL,
    key text NOT NULL,
    value text
);


--
-- Name: kvs_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.kvs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: kvs_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.kvs_id_seq OWNED BY public.kvs.id;


--
-- Name: pending_steps; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pending_steps (
    id bigint NOT NULL,
    concurrency_key text NOT NULL,
    run_id text,
    step_key text,
    priority integer,
    assigned_timestamp timestamp without time zone,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP
);


--
-- Name: pending_steps_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.pending_steps_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: pending_steps_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.pending_steps_id_seq OWNED BY public.pending_steps.id;


--
-- Name: run_tags; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.run_tags (
    id bigint NOT NULL,
    run_id character varying(255),
    key text,
    value text
);


--
-- Name: run_tags_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.run_tags_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: run_tags_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.run_tags_id_seq OWNED BY public.run_tags.id;


--
-- Name: runs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.runs (
    id bigint NOT NULL,
    run_id character varying(255),
    snapshot_id character varying(255),
    pipeline_name text,
    mode text,
    status character varying(63),
    run_body text,
    partition text,
    partition_set text,
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    update_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    start_time double precision,
    end_time double precision,
    backfill_id character varying(255)
);


--
-- Name: runs_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.runs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: runs_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.runs_id_seq OWNED BY public.runs.id;


--
-- Name: secondary_indexes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.secondary_indexes (
    id bigint NOT NULL,
    name character varying(512),
    create_timestamp timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    migration_completed timestamp without time zone
);


--
-- Name: secondary_indexes_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.secondary_indexes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: secondary_indexes_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.secondary_indexes_id_seq OWNED BY public.secondary_indexes.id;


--
-- Name: snapshots; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.snapshots (
    id bigint NOT NULL,
    snapshot_id character varying(255) NOT NULL,
    snapshot_body bytea NOT NULL,
    snapshot_type character varying(63) NOT NULL
);


--
-- Name: snapshots_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.snapshots_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: snapshots_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.snapshots_id_seq OWNED BY public.snapshots.id;


--
-- Name: asset_check_executions id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_check_executions ALTER COLUMN id SET DEFAULT nextval('public.asset_check_executions_id_seq'::regclass);


--
-- Name: asset_daemon_asset_evaluations id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_daemon_asset_evaluations ALTER COLUMN id SET DEFAULT nextval('public.asset_daemon_asset_evaluations_id_seq'::regclass);


--
-- Name: asset_event_tags id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_event_tags ALTER COLUMN id SET DEFAULT nextval('public.asset_event_tags_id_seq'::regclass);


--
-- Name: asset_keys id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_keys ALTER COLUMN id SET DEFAULT nextval('public.asset_keys_id_seq'::regclass);


--
-- Name: backfill_tags id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.backfill_tags ALTER COLUMN id SET DEFAULT nextval('public.backfill_tags_id_seq'::regclass);


--
-- Name: bulk_actions id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.bulk_actions ALTER COLUMN id SET DEFAULT nextval('public.bulk_actions_id_seq'::regclass);


--
-- Name: concurrency_limits id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.concurrency_limits ALTER COLUMN id SET DEFAULT nextval('public.concurrency_limits_id_seq'::regclass);


--
-- Name: concurrency_slots id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.concurrency_slots ALTER COLUMN id SET DEFAULT nextval('public.concurrency_slots_id_seq'::regclass);


--
-- Name: daemon_heartbeats id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.daemon_heartbeats ALTER COLUMN id SET DEFAULT nextval('public.daemon_heartbeats_id_seq'::regclass);


--
-- Name: dynamic_partitions id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.dynamic_partitions ALTER COLUMN id SET DEFAULT nextval('public.dynamic_partitions_id_seq'::regclass);


--
-- Name: event_logs id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_logs ALTER COLUMN id SET DEFAULT nextval('public.event_logs_id_seq'::regclass);


--
-- Name: instance_info id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.instance_info ALTER COLUMN id SET DEFAULT nextval('public.instance_info_id_seq'::regclass);


--
-- Name: instigators id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.instigators ALTER COLUMN id SET DEFAULT nextval('public.instigators_id_seq'::regclass);


--
-- Name: job_ticks id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_ticks ALTER COLUMN id SET DEFAULT nextval('public.job_ticks_id_seq'::regclass);


--
-- Name: jobs id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.jobs ALTER COLUMN id SET DEFAULT nextval('public.jobs_id_seq'::regclass);


--
-- Name: kvs id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.kvs ALTER COLUMN id SET DEFAULT nextval('public.kvs_id_seq'::regclass);


--
-- Name: pending_steps id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pending_steps ALTER COLUMN id SET DEFAULT nextval('public.pending_steps_id_seq'::regclass);


--
-- Name: run_tags id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.run_tags ALTER COLUMN id SET DEFAULT nextval('public.run_tags_id_seq'::regclass);


--
-- Name: runs id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs ALTER COLUMN id SET DEFAULT nextval('public.runs_id_seq'::regclass);


--
-- Name: secondary_indexes id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.secondary_indexes ALTER COLUMN id SET DEFAULT nextval('public.secondary_indexes_id_seq'::regclass);


--
-- Name: snapshots id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.snapshots ALTER COLUMN id SET DEFAULT nextval('public.snapshots_id_seq'::regclass);


--
-- Data for Name: alembic_version; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.alembic_version (version_num) FROM stdin;
0100
\.


--
-- Data for Name: archive; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.archive (id, name, job_id, job_name, stream, bucket, prefix, subjects, former_filters, mode, durable, max_messages, max_bytes, max_age_s, zstd_level, compact_after_s, compact_below, keep_s, keep_bytes, copies, group_name, owners, tags, kinds, pool, retries, retry_delay_s, fail_window_s, warn_window_s, presets, paused, revision, created_at, updated_at, deleted_at) FROM stdin;
1	events	fc539b09-1e5a-49d9-be79-3e67e2621587	\N	EVENTS	archive		{}	[]	stream	\N	1000000	67108864	60	3	604800	33554432	0	0	{}		{}	{team=core}	{}		0	0	0	0	[]	f	6	2026-11-29 02:45:55.545207+00	2026-11-29 02:45:55.545207+00	\N
\.


--
-- Data for Name: archive_hours; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.archive_hours (archive_id, hours, sealed, compacted, sealed_filled, sealed_empty) FROM stdin;
1	5	{[498861,498862),[498863,498866)}	{}	3	1
\.


--
-- Data for Name: archive_table; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.archive_table (archive_id, catalog, identifier, created_at, revision, chunks, last_chunk, snapshot_id, location, synced_at, begun, changed, seen_at, seen_lacking, seen_surplus, error, failed_at) FROM stdin;
\.


--
-- Data for Name: capture; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.capture (id, archive_id, hour, started_at, finished_at, messages, payload_bytes, error_kind, error, actor, dagster_run_id) FROM stdin;
1	1	2026-11-28-21:00	2026-11-29 02:47:23.089618+00	2026-11-29 02:47:56.627475+00	29	1026	\N	\N	operator@archive-1	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5
2	1	2026-11-28-22:00	2026-11-29 02:47:23.089618+00	2026-11-29 02:47:56.627475+00	29	1026	\N	\N	operator@archive-1	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5
3	1	2026-11-28-23:00	2026-11-29 02:47:23.089618+00	2026-11-29 02:47:56.627475+00	29	1026	\N	\N	operator@archive-1	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5
4	1	2026-11-29-00:00	2026-11-29 02:48:53.509813+00	2026-11-29 02:49:30.651068+00	29	1026	\N	\N	operator@archive-1	\N
5	1	2026-11-29-02:00	2026-11-29 02:53:51.481348+00	2026-11-29 02:54:18.122255+00	20	270	\N	\N	operator@archive-1	\N
\.


--
-- Data for Name: chunk; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.chunk (id, archive_id, incarnation_id, hour, seqs, messages, deleted, absent_reason, minutes, first_ns, last_ns, payload_bytes, largest_bytes, stored_bytes, sha256, bucket, key, subjects, dagster_run_id, committed_at, captured_at, deleted_at, retired_revision) FROM stdin;
2	1	1	2026-11-28-22:00	[31,61)	29	{[60,61)}	deleted	{29,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}	1795903200000000000	1795903228000000196	1026	43	2723	8067b3f00b9b1bf7581716213d109a6cccdf8f947e9427bce5f807b96cb61493	archive	archive=events/date=2026-11-28/hour=22/20261129T024549332857702Z-00000000000000000031-00000000000000000060-8067b3f00b9b.parquet	3	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	2026-11-29 02:47:56.448456+00	\N	\N	\N
3	1	1	2026-11-28-23:00	[61,91)	29	{[90,91)}	deleted	{29,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}	1795906800000000000	1795906828000000196	1026	43	2723	255b5032404cb464a2dcec1aad98eec446021005768041bff5736d2c98dc0f22	archive	archive=events/date=2026-11-28/hour=23/20261129T024549332857702Z-00000000000000000061-00000000000000000090-255b5032404c.parquet	3	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	2026-11-29 02:47:56.448456+00	\N	\N	\N
4	1	1	2026-11-29-00:00	[91,120)	29	{}	\N	{29,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}	1795910400000000000	1795910428000000196	1026	43	2721	35da3b844725fd650d9daa23fef5853bf2d2d62cda03e34b36a5cbb0ba55f277	archive	archive=events/date=2026-11-29/hour=00/20261129T024549332857702Z-00000000000000000091-00000000000000000119-35da3b844725.parquet	3	\N	2026-11-29 02:49:30.511749+00	\N	\N	\N
1	1	1	2026-11-28-21:00	[1,31)	29	{[30,31)}	deleted	{29,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}	1795899600000000000	1795899628000000196	1026	43	2718	5c7042abccd75956a25ca045e5b35187846d1d08508b16c764c451aaf82465e1	archive	archive=events/date=2026-11-28/hour=21/20261129T024549332857702Z-00000000000000000001-00000000000000000030-5c7042abccd7.parquet	3	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	2026-11-29 02:47:56.448456+00	\N	2026-11-29 02:53:08.081435+00	3
5	1	1	2026-11-28-21:00	[1,30)	27	{[21,23)}	erased	{27,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}	1795899600000000000	1795899628000000196	955	43	2746	ea675fe1038d7d81fc75ebb501846345123cefc8a3ba287dca6a151f485bfe4b	archive	archive=events/date=2026-11-28/hour=21/20261129T024549332857702Z-00000000000000000001-00000000000000000029-ea675fe1038d.parquet	3	\N	2026-11-29 02:53:08.081435+00	2026-11-29 02:47:56.448456+00	\N	\N
6	1	1	2026-11-29-02:00	[120,140)	20	{}	\N	{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,20,0,0,0,0,0,0}	1795920800663277778	1795920800663432008	270	7	2651	587d45959ce4ba6f887e08fbe46677b178122b058322747c1fcd37deefb09bc0	archive	archive=events/date=2026-11-29/hour=02/20261129T024549332857702Z-00000000000000000120-00000000000000000139-587d45959ce4.parquet	1	\N	2026-11-29 02:54:17.921241+00	\N	\N	\N
\.


--
-- Data for Name: chunk_bloom; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.chunk_bloom (chunk_id, blocks) FROM stdin;
\.


--
-- Data for Name: chunk_subject; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.chunk_subject (chunk_id, archive_id, incarnation_id, first_seq, subject, messages) FROM stdin;
2	1	1	31	ev.0	10
2	1	1	31	ev.1	10
2	1	1	31	ev.2	9
3	1	1	61	ev.0	10
3	1	1	61	ev.1	10
3	1	1	61	ev.2	9
4	1	1	91	ev.0	10
4	1	1	91	ev.1	10
4	1	1	91	ev.2	9
5	1	1	1	ev.0	9
5	1	1	1	ev.1	10
5	1	1	1	ev.2	8
6	1	1	120	ev.late	20
\.


--
-- Data for Name: copy_task; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.copy_task (bucket, key, archive_id, hour, source, sha256, stored_bytes, removes, since) FROM stdin;
\.


--
-- Data for Name: coverage; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.coverage (archive_id, incarnation_id, start_seq, covered, chunks, messages, absent, expired, superseded, ttl, superseded_or_ttl, damaged, undelivered, payload_bytes, stored_bytes, first_ns, last_ns, witness_seq, witness_ns, restored_ns, unknown_after) FROM stdin;
1	1	1	{[1,140)}	5	134	4	0	0	0	0	0	0	4303	13564	1795899600000000000	1795920800663432008	139	1795920800663432008	\N	\N
\.


--
-- Data for Name: durable; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.durable (archive_id, created_ns, missed_seq, consumer_seq, accounted, most_deliveries) FROM stdin;
\.


--
-- Data for Name: erased_range; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.erased_range (erasure_id, archive_id, created_ns, seqs) FROM stdin;
1	1	1795920349332857702	[21,23)
\.


--
-- Data for Name: erasure; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.erasure (id, archive_id, record_id, number, previous, digest, reason, chosen_by, messages, actor, decided_at) FROM stdin;
1	1	7f50a449-98cc-4d2d-b5b7-1f8902e9835f	1	\N	33e05506cc9ff7514c3fd3d06e52d32fda20bac2995fa8554842f3b3cfa120ba	request 7	{sequences}	2	operator@archive-1	2026-11-29 02:53:06.580258+00
\.


--
-- Data for Name: event; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.event (id, archive_id, what, detail, actor, dagster_run_id, happened_at) FROM stdin;
1	1	created	{}	operator@archive-1	\N	2026-11-29 02:45:55.545207+00
2	1	swept	{"objects": 1}	operator@archive-1	\N	2026-11-29 02:53:08.765007+00
3	1	erased	{"by": ["sequences"], "number": 1, "reason": "request 7", "messages": 2}	operator@archive-1	\N	2026-11-29 02:53:08.849935+00
4	1	held	{"name": "case-17", "reason": "case 17"}	operator@archive-1	\N	2026-11-29 02:53:19.111004+00
\.


--
-- Data for Name: export; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.export (id, archive_id, name, spec, place, version, change, created_at, updated_at, deleted_at) FROM stdin;
\.


--
-- Data for Name: export_hour; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.export_hour (export_id, archive_id, hour, revision, chunks, version, files, messages, dropped, undecoded, bytes, content, manifest, made_at, error_kind, error, failures, failed_at, dagster_run_id, change) FROM stdin;
\.


--
-- Data for Name: former_copy; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.former_copy (archive_id, bucket, left_at) FROM stdin;
\.


--
-- Data for Name: gap; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.gap (id, archive_id, incarnation_id, seqs, reason, after_ns, before_ns, first_hour, last_hour, dagster_run_id, recorded_at, messages, chunks, newest_at, replay_id, is_joined) FROM stdin;
1	1	1	[30,31)	deleted	\N	\N	\N	\N	\N	2026-11-29 02:53:08.081435+00	\N	\N	\N	\N	f
\.


--
-- Data for Name: gap_sum; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.gap_sum (archive_id, incarnation_id, reason, sequences) FROM stdin;
1	1	deleted	1
\.


--
-- Data for Name: hold; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.hold (id, archive_id, name, hours, seqs, reason, actor, created_at, released_at, released_by, release_reason) FROM stdin;
1	1	case-17	[498861,498862)	(,)	case 17	operator@archive-1	2026-11-29 02:53:19.144873+00	\N	\N	\N
\.


--
-- Data for Name: hour; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.hour (archive_id, incarnation_id, hour, chunks, messages, absent, expired, superseded, ttl, superseded_or_ttl, damaged, undelivered, payload_bytes, stored_bytes, first_seq, last_seq, first_ns, last_ns, revision) FROM stdin;
1	1	2026-11-28-23:00	1	29	1	0	0	0	0	0	0	1026	2723	61	90	1795906800000000000	1795906828000000196	1
1	1	2026-11-29-00:00	1	29	0	0	0	0	0	0	0	1026	2721	91	119	1795910400000000000	1795910428000000196	2
1	1	2026-11-28-21:00	1	27	2	0	0	0	0	0	0	955	2746	1	29	1795899600000000000	1795899628000000196	4
1	1	2026-11-28-22:00	1	29	1	0	0	0	0	0	0	1026	2723	31	60	1795903200000000000	1795903228000000196	5
1	1	2026-11-29-02:00	1	20	0	0	0	0	0	0	0	270	2651	120	139	1795920800663277778	1795920800663432008	6
\.


--
-- Data for Name: iceberg_namespace_properties; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.iceberg_namespace_properties (catalog_name, namespace, property_key, property_value) FROM stdin;
\.


--
-- Data for Name: iceberg_tables; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location, iceberg_type) FROM stdin;
\.


--
-- Data for Name: incarnation; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.incarnation (id, stream, created_ns, config, removing, first_seq, last_seq, first_ns, last_ns, messages, bytes, observed_at) FROM stdin;
1	EVENTS	1795920349332857702	{"name": "EVENTS", "sealed": false, "discard": "old", "max_age": 0, "storage": "file", "max_msgs": -1, "metadata": {"_nats.ver": "2.15.1", "_nats.level": "5"}, "subjects": ["ev.>"], "max_bytes": -1, "retention": "limits", "deny_purge": false, "compression": "none", "deny_delete": false, "allow_direct": false, "max_msg_size": -1, "num_replicas": 1, "allow_msg_ttl": false, "max_consumers": -1, "mirror_direct": false, "consumer_limits": {}, "duplicate_window": 120000000000, "allow_rollup_hdrs": false, "max_msgs_per_subject": -1}	{}	1	139	1795899600000000000	1795920800663432008	136	8694	2026-11-29 02:53:51.614467+00
\.


--
-- Data for Name: merged_chunk; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.merged_chunk (chunk_id, into_id) FROM stdin;
\.


--
-- Data for Name: open_erasure; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.open_erasure (erasure_id, left_over) FROM stdin;
\.


--
-- Data for Name: refused_removal; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.refused_removal (bucket, key, refused_at) FROM stdin;
\.


--
-- Data for Name: removal; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.removal (bucket, key, claimed_at, removed_at) FROM stdin;
archive	archive=events/date=2026-11-28/hour=21/20261129T024549332857702Z-00000000000000000001-00000000000000000030-5c7042abccd7.parquet	2026-11-29 02:53:08.728782+00	2026-11-29 02:53:08.771611+00
\.


--
-- Data for Name: replay; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.replay (id, archive_id, spec, state, attempt, error, chunks, chunks_done, selected, published, found, duplicates, expired, progress_published, progress_found, actor, dagster_run_id, created_at, started_at, finished_at, deleted_at, job_id, job_name, launch, launched_at, launch_begun, folded_at, whole_hours, updated_at) FROM stdin;
7f4a8a818dd96e24	1	{"live": false, "pace": {"rate": null, "speed": null, "byte_rate": null}, "marks": true, "order": "stream", "archive": "events", "over_gaps": false, "selection": {"hours": [], "to_ns": null, "from_ns": null, "subjects": ["ev.>"], "sequences": null}, "like_source": false, "create_stream": "BACK", "delete_chunks": false, "write_subject": "back.>", "into_own_stream": false, "poll_interval_s": null, "delete_unexported": false}	succeeded	1	\N	4	4	116	116	0	0	0	0	0	operator@archive-1	\N	2026-11-29 02:50:03.165962+00	2026-11-29 02:50:34.877776+00	2026-11-29 02:51:11.400004+00	\N	ff4391bc-985e-4dfb-b576-430647f47839	\N	1	2026-11-29 02:50:03.556714+00	t	\N	{}	2026-11-29 02:51:11.414774+00
cf56936f6e76c4dc	1	{"live": false, "pace": {"rate": 4.0, "speed": null, "byte_rate": null}, "marks": true, "order": "stream", "archive": "events", "over_gaps": false, "selection": {"hours": ["2026-11-28-21:00", "2026-11-28-22:00"], "to_ns": null, "from_ns": null, "subjects": ["ev.>"], "sequences": null}, "like_source": false, "create_stream": "PART", "delete_chunks": false, "write_subject": "part.>", "into_own_stream": false, "poll_interval_s": null, "delete_unexported": false}	planned	0	\N	2	0	0	0	0	0	0	0	0	operator@archive-1	\N	2026-11-29 02:51:23.975494+00	\N	\N	\N	abd6980f-0dcc-488f-a370-1fae7a84019f	\N	1	2026-11-29 02:51:24.277069+00	t	\N	{}	2026-11-29 02:51:24.393876+00
ed5e8f16414d2ca5	1	{"live": false, "pace": {"rate": 4.0, "speed": null, "byte_rate": null}, "marks": true, "order": "stream", "archive": "events", "over_gaps": false, "selection": {"hours": ["2026-11-28-23:00", "2026-11-29-00:00"], "to_ns": null, "from_ns": null, "subjects": ["ev.>"], "sequences": null}, "like_source": false, "create_stream": "HALF", "delete_chunks": false, "write_subject": "half.>", "into_own_stream": false, "poll_interval_s": null, "delete_unexported": false}	canceled	1	\N	2	0	0	0	0	0	0	16	0	operator@archive-1	\N	2026-11-29 02:51:51.09351+00	2026-11-29 02:52:13.523142+00	2026-11-29 02:52:40.9852+00	\N	d3cebd13-dc5e-4235-95dd-36ad48a086a3	\N	1	2026-11-29 02:51:51.448643+00	t	\N	{}	2026-11-29 02:52:40.993534+00
\.


--
-- Data for Name: replay_attempt; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.replay_attempt (replay_id, attempt, state, error, dagster_run_id, began_with, started_at, finished_at) FROM stdin;
7f4a8a818dd96e24	1	succeeded	\N	\N	0	2026-11-29 02:50:34.877776+00	2026-11-29 02:51:11.400004+00
ed5e8f16414d2ca5	1	canceled	\N	\N	0	2026-11-29 02:52:13.523142+00	2026-11-29 02:52:40.9852+00
\.


--
-- Data for Name: replay_chunk; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.replay_chunk (replay_id, chunk_id, "position", planned, selected, published, found, duplicates, expired, last_seq, state, attempt, dagster_run_id, finished_at) FROM stdin;
7f4a8a818dd96e24	1	1	29	29	29	0	0	0	29	done	1	\N	2026-11-29 02:51:11.353234+00
7f4a8a818dd96e24	2	2	29	29	29	0	0	0	59	done	1	\N	2026-11-29 02:51:11.353234+00
7f4a8a818dd96e24	3	3	29	29	29	0	0	0	89	done	1	\N	2026-11-29 02:51:11.353234+00
7f4a8a818dd96e24	4	4	29	29	29	0	0	0	119	done	1	\N	2026-11-29 02:51:11.353234+00
cf56936f6e76c4dc	1	1	29	0	0	0	0	0	0	pending	\N	\N	\N
cf56936f6e76c4dc	2	2	29	0	0	0	0	0	0	pending	\N	\N	\N
ed5e8f16414d2ca5	3	1	29	0	0	0	0	0	0	pending	\N	\N	\N
ed5e8f16414d2ca5	4	2	29	0	0	0	0	0	0	pending	\N	\N	\N
\.


--
-- Data for Name: replay_target; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.replay_target (replay_id, stream, created_ns, since_seq) FROM stdin;
7f4a8a818dd96e24	BACK	1795920603155510865	1
cf56936f6e76c4dc	PART	1795920683971631575	1
ed5e8f16414d2ca5	HALF	1795920711088558641	1
\.


--
-- Data for Name: seal; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.seal (id, archive_id, hour, number, revision, chunks, losses, messages, gaps, content, bucket, key, sha256, stored_bytes, actor, dagster_run_id, sealed_at, superseded_at) FROM stdin;
2	1	2026-11-28-22:00	1	1	1	0	29	0	970100393742101f	archive	archive=events/date=2026-11-28/hour=22/manifest-0001-4259569019b5.json.zst	4259569019b55cf2740edcc4851f693d7790b44303959df3b5948da0be3a0f27	378	operator@archive-1	\N	2026-11-29 02:49:45.157176+00	\N
3	1	2026-11-28-23:00	1	1	1	0	29	0	26a654a655b50ab3	archive	archive=events/date=2026-11-28/hour=23/manifest-0001-17234e5b7819.json.zst	17234e5b781955cb93e4bd5ecfee298cf09c0def7ba86f2f8afd5b465ff625ce	378	operator@archive-1	\N	2026-11-29 02:49:45.368739+00	\N
4	1	2026-11-29-00:00	1	2	1	0	29	0	6eb1f1b5a763f0ed	archive	archive=events/date=2026-11-29/hour=00/manifest-0001-e710a0fdb898.json.zst	e710a0fdb8987d7675064a8f0d5d1878a03a22359c781821b619c60857e7db63	377	operator@archive-1	\N	2026-11-29 02:49:45.505355+00	\N
5	1	2026-11-29-01:00	1	0	0	0	0	0	4f53cda18c2baa0c	archive	archive=events/date=2026-11-29/hour=01/manifest-0001-96f2600e794b.json.zst	96f2600e794b06bb8b5a200c2de51c178f75d08f44a5026405cf49a83882cef9	126	operator@archive-1	\N	2026-11-29 02:49:45.605751+00	\N
6	1	2026-11-28-21:00	2	4	1	0	27	0	ee2c01af2a4f6c85	archive	archive=events/date=2026-11-28/hour=21/manifest-0002-d37e67bd3a2c.json.zst	d37e67bd3a2ce7655385bb65625eeec9da32023a5d7e0e5805112af705881cce	377	operator@archive-1	\N	2026-11-29 02:53:08.495952+00	\N
1	1	2026-11-28-21:00	1	1	1	0	29	0	3fc39d398aa15b17	archive	archive=events/date=2026-11-28/hour=21/manifest-0001-5ab3c642794d.json.zst	5ab3c642794d95101d9b516d31aa8db0cea9e4b04bd8c4a2881ed6626048ef0c	378	operator@archive-1	\N	2026-11-29 02:49:44.987685+00	2026-11-29 02:53:08.495952+00
\.


--
-- Data for Name: total; Type: TABLE DATA; Schema: nats3; Owner: -
--

COPY nats3.total (archive_id, what, label, value) FROM stdin;
1	fetched_bytes		10885
1	fetched_objects		4
1	published_bytes		4104
1	published_messages		132
1	seal_bytes		2014
1	seals		6
1	captured_bytes		4374
1	captured_messages		136
1	chunks	65536	6
1	stored_bytes		16282
1	captures		5
\.


--
-- Data for Name: alembic_version; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.alembic_version (version_num) FROM stdin;
29b539ebc72a
\.


--
-- Data for Name: asset_check_executions; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.asset_check_executions (id, asset_key, check_name, partition, run_id, execution_status, evaluation_event, evaluation_event_timestamp, evaluation_event_storage_id, materialization_event_storage_id, create_timestamp) FROM stdin;
1	["events", "chunks"]	no_gaps	\N	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	SUCCEEDED	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "AssetCheckEvaluation", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "blocking": true, "check_name": "no_gaps", "description": "Every sequence is accounted for", "metadata": {"first_holes": {"__class__": "TextMetadataEntryData", "text": "none"}, "holes": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_damaged": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_expired": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_expired_by_policy": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_in_holes": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_missing": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_retired": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_superseded": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_superseded_or_ttl": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_ttl": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_undelivered": {"__class__": "IntMetadataEntryData", "value": 0}, "unknown_ends": {"__class__": "IntMetadataEntryData", "value": 0}}, "partition": null, "severity": {"__enum__": "AssetCheckSeverity.WARN"}, "success": true, "target_materialization_data": null}, "event_type_value": "ASSET_CHECK_EVALUATION", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Asset check 'no_gaps' on 'events/chunks' passed. Description: 'Every sequence is accounted for'", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920477.8776438, "user_message": "Asset check 'no_gaps' on 'events/chunks' passed. Description: 'Every sequence is accounted for'"}	2026-11-29 02:47:57.877644	19	\N	2026-11-29 02:47:57.950493
2	["events", "chunks"]	capture_keeps_up	\N	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	FAILED	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "AssetCheckEvaluation", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "blocking": false, "check_name": "capture_keeps_up", "description": "No limit of the stream deletes messages. It waits for 2.8 hours, and a capture is due after 60 s", "metadata": {"fails_after_s": {"__class__": "IntMetadataEntryData", "value": 90960}, "limit": {"__class__": "TextMetadataEntryData", "text": "none"}, "sequences_gone": {"__class__": "IntMetadataEntryData", "value": 0}, "used": {"__class__": "FloatMetadataEntryData", "value": 0.0}, "waits_hours": {"__class__": "FloatMetadataEntryData", "value": 2.8}, "warns_after_s": {"__class__": "IntMetadataEntryData", "value": 4560}}, "partition": null, "severity": {"__enum__": "AssetCheckSeverity.WARN"}, "success": false, "target_materialization_data": null}, "event_type_value": "ASSET_CHECK_EVALUATION", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Asset check 'capture_keeps_up' on 'events/chunks' did not pass. Description: 'No limit of the stream deletes messages. It waits for 2.8 hours, and a capture is due after 60 s'", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920477.9582448, "user_message": "Asset check 'capture_keeps_up' on 'events/chunks' did not pass. Description: 'No limit of the stream deletes messages. It waits for 2.8 hours, and a capture is due after 60 s'"}	2026-11-29 02:47:57.958245	20	\N	2026-11-29 02:47:58.027416
\.


--
-- Data for Name: asset_daemon_asset_evaluations; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.asset_daemon_asset_evaluations (id, evaluation_id, asset_key, asset_evaluation_body, num_requested, num_skipped, num_discarded, create_timestamp) FROM stdin;
\.


--
-- Data for Name: asset_event_tags; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.asset_event_tags (id, event_id, asset_key, key, value, event_timestamp) FROM stdin;
1	16	["events", "chunks"]	dagster/data_version	3fc39d398aa15b17	2026-11-29 02:47:57.233119
2	17	["events", "chunks"]	dagster/data_version	970100393742101f	2026-11-29 02:47:57.292208
3	18	["events", "chunks"]	dagster/data_version	26a654a655b50ab3	2026-11-29 02:47:57.364813
4	26	["events", "chunks"]	dagster/data_version	ee2c01af2a4f6c85	2026-11-29 02:54:42.297668
5	27	["events", "chunks"]	dagster/data_version	970100393742101f	2026-11-29 02:54:42.445338
6	28	["events", "chunks"]	dagster/data_version	6eb1f1b5a763f0ed	2026-11-29 02:54:42.547148
7	29	["events", "chunks"]	dagster/data_version	4f53cda18c2baa0c	2026-11-29 02:54:42.630556
8	30	["events", "chunks"]	dagster/data_version	0a6ac2383c961b59	2026-11-29 02:54:42.716578
9	31	["events", "sealed"]	dagster/data_version	ee2c01af2a4f6c85	2026-11-29 02:54:42.80156
10	32	["events", "sealed"]	dagster/data_version	26a654a655b50ab3	2026-11-29 02:54:42.856293
11	33	["events", "sealed"]	dagster/data_version	6eb1f1b5a763f0ed	2026-11-29 02:54:42.93142
12	34	["events", "sealed"]	dagster/data_version	4f53cda18c2baa0c	2026-11-29 02:54:42.991779
13	35	["events", "replay"]	dagster/data_version	41161e7f3c5303b5	2026-11-29 02:54:43.07958
14	36	["events", "replay"]	dagster/data_version	41161e7f3c5303b5	2026-11-29 02:54:43.159239
15	37	["events", "replay"]	dagster/data_version	41161e7f3c5303b5	2026-11-29 02:54:43.264293
16	38	["events", "replay"]	dagster/data_version	41161e7f3c5303b5	2026-11-29 02:54:43.374951
\.


--
-- Data for Name: asset_keys; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.asset_keys (id, asset_key, last_materialization, last_run_id, asset_details, wipe_timestamp, last_materialization_timestamp, tags, create_timestamp, cached_status_data) FROM stdin;
4	["jetstream", "EVENTS"]	\N	\N	\N	\N	2026-11-29 02:47:57.18717	\N	2026-11-29 02:47:57.215313	\N
1	["events", "chunks"]	{"__class__": "EventLogRecord", "event_log_entry": {"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 134}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 20}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 20}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 270}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2651}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.1}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-29-02:00"}, "label": "in_the_shell"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "![messages per minute](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0ODAiIGhlaWdodD0iODAiIGZvbnQtc2l6ZT0iMTIiIGZpbGw9IiM0NmUiPjxwYXRoIGQ9Ik0wIDY0VjY0aDQyNFYwaDhWNjRoNDhWNjR6Ii8+PHRleHQgeT0iNzciPjAyOjAwPC90ZXh0Pjx0ZXh0IHg9IjQ4MCIgeT0iNzciIHRleHQtYW5jaG9yPSJlbmQiPm1vc3QgMjAgYSBtaW51dGU8L3RleHQ+PC9zdmc+)"}, "label": "plot"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 120}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 139}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795920800.6632779}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795920800.6634321}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-29/hour%3D02/"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "captured_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 6, "messages": 20, "payload_bytes": 270, "sequences": "120-139", "stored_bytes": 2651}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "sequences", "type": "string"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "messages", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "payload_bytes", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "stored_bytes", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}], "partition": "2026-11-29-02:00", "tags": {"dagster/data_version": "0a6ac2383c961b59", "nats3/archive_id": "1", "nats3/from_catalog": "True", "nats3/revision": "6"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.7165785, "user_message": ""}, "storage_id": 30}		\N	\N	2026-11-29 02:54:42.716578	\N	2026-11-29 02:46:28.49963	\N
13	["events", "sealed"]	{"__class__": "EventLogRecord", "event_log_entry": {"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "sealed"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableColumnLineageMetadataValue", "column_lineage": {"__class__": "TableColumnLineage", "deps_by_column": {"data": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "data"}], "headers": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "headers"}], "seq": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "seq"}], "subject": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject"}], "subject_bytes": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject_bytes"}], "time": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time"}], "time_ns": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time_ns"}]}}}, "label": "dagster/column_lineage"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 114}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "missing_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "sequences_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "seal"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-29/hour%3D01/manifest-0001-96f2600e794b.json.zst"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "96f2600e794b06bb8b5a200c2de51c178f75d08f44a5026405cf49a83882cef9"}, "label": "sha256"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 126}, "label": "stored_bytes"}], "partition": "2026-11-29-01:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "4f53cda18c2baa0c", "dagster/input_data_version/events/chunks": "4f53cda18c2baa0c", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/archive_id": "1", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.9917786, "user_message": ""}, "storage_id": 34}		\N	\N	2026-11-29 02:54:42.991779	\N	2026-11-29 02:54:42.833844	\N
17	["events", "replay"]	{"__class__": "EventLogRecord", "event_log_entry": {"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "replay"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "7f4a8a818dd96e24"}, "label": "replay"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "BACK"}, "label": "targets"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "ev.> to back.>"}, "label": "subjects"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "published"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "found_in_target"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "duplicates_refused"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "expired"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "published_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 4, "duplicates": 0, "found": 0, "published": 29, "selected": 29}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "selected", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "published", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "found", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "duplicates", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 load get 7f4a8a818dd96e24"}, "label": "in_the_shell"}], "partition": "2026-11-29-00:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "41161e7f3c5303b5", "dagster/input_data_version/events/chunks": "UNKNOWN", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920883.3749511, "user_message": ""}, "storage_id": 38}		\N	\N	2026-11-29 02:54:43.374951	\N	2026-11-29 02:54:43.133818	\N
\.


--
-- Data for Name: backfill_tags; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.backfill_tags (id, backfill_id, key, value) FROM stdin;
\.


--
-- Data for Name: bulk_actions; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.bulk_actions (id, key, status, "timestamp", body, action_type, selector_id, job_name) FROM stdin;
\.


--
-- Data for Name: concurrency_limits; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.concurrency_limits (id, concurrency_key, "limit", using_default_limit, update_timestamp, create_timestamp) FROM stdin;
\.


--
-- Data for Name: concurrency_slots; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.concurrency_slots (id, concurrency_key, run_id, step_key, deleted, create_timestamp) FROM stdin;
\.


--
-- Data for Name: daemon_heartbeats; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.daemon_heartbeats (id, daemon_type, daemon_id, "timestamp", body) FROM stdin;
\.


--
-- Data for Name: dynamic_partitions; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.dynamic_partitions (id, partitions_def_name, partition, create_timestamp) FROM stdin;
\.


--
-- Data for Name: event_logs; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.event_logs (id, run_id, event, dagster_event_type, "timestamp", step_key, asset_key, partition) FROM stdin;
1	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "AssetMaterializationPlannedData", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "partition": "2026-11-28-21:00", "partitions_subset": null}, "event_type_value": "ASSET_MATERIALIZATION_PLANNED", "logging_tags": {}, "message": "events_capture intends to materialize asset [\\"events\\", \\"chunks\\"]", "pid": null, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": null, "step_key": "events__chunks", "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920388.418043, "user_message": ""}	ASSET_MATERIALIZATION_PLANNED	2026-11-29 02:46:28.418043	events__chunks	["events", "chunks"]	2026-11-28-21:00
2	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "AssetMaterializationPlannedData", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "partition": "2026-11-28-22:00", "partitions_subset": null}, "event_type_value": "ASSET_MATERIALIZATION_PLANNED", "logging_tags": {}, "message": "events_capture intends to materialize asset [\\"events\\", \\"chunks\\"]", "pid": null, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": null, "step_key": "events__chunks", "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920388.517976, "user_message": ""}	ASSET_MATERIALIZATION_PLANNED	2026-11-29 02:46:28.517976	events__chunks	["events", "chunks"]	2026-11-28-22:00
3	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "AssetMaterializationPlannedData", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "partition": "2026-11-28-23:00", "partitions_subset": null}, "event_type_value": "ASSET_MATERIALIZATION_PLANNED", "logging_tags": {}, "message": "events_capture intends to materialize asset [\\"events\\", \\"chunks\\"]", "pid": null, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": null, "step_key": "events__chunks", "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920388.5527136, "user_message": ""}	ASSET_MATERIALIZATION_PLANNED	2026-11-29 02:46:28.552714	events__chunks	["events", "chunks"]	2026-11-28-23:00
4	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": null, "event_type_value": "PIPELINE_START", "logging_tags": {}, "message": "Started execution of run for \\"events_capture\\".", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": null, "timestamp": 1795920388.6037033, "user_message": "Started execution of run for \\"events_capture\\"."}	PIPELINE_START	2026-11-29 02:46:28.603703	\N	\N	\N
5	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "EngineEventData", "error": null, "marker_end": null, "marker_start": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "13979"}, "label": "pid"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "['events__chunks']"}, "label": "step_keys"}]}, "event_type_value": "ENGINE_EVENT", "logging_tags": {}, "message": "Executing steps in process (pid: 13979)", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": null, "timestamp": 1795920388.6920083, "user_message": "Executing steps in process (pid: 13979)"}	ENGINE_EVENT	2026-11-29 02:46:28.692008	\N	\N	\N
6	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "EngineEventData", "error": null, "marker_end": null, "marker_start": "resources", "metadata_entries": []}, "event_type_value": "RESOURCE_INIT_STARTED", "logging_tags": {}, "message": "Starting initialization of resources [io_manager, nats3_io_manager, nats3_s3, nats3_settings, nats3_spark].", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920388.7067862, "user_message": "Starting initialization of resources [io_manager, nats3_io_manager, nats3_s3, nats3_settings, nats3_spark]."}	RESOURCE_INIT_STARTED	2026-11-29 02:46:28.706786	events__chunks	\N	\N
7	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "EngineEventData", "error": null, "marker_end": "resources", "marker_start": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "dagster._core.storage.fs_io_manager", "name": "PickledObjectFilesystemIOManager"}, "label": "io_manager"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "0.2ms"}, "label": "io_manager:init_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "nats3_dagster.defs.store_resource", "name": "StoreResource"}, "label": "nats3_s3"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "5.76s"}, "label": "nats3_s3:init_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "nats3_dagster.settings.settings", "name": "Settings"}, "label": "nats3_settings"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "10ms"}, "label": "nats3_settings:init_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "dagster_pyspark.resources", "name": "LazyPySparkResource"}, "label": "nats3_spark"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "5.62s"}, "label": "nats3_spark:init_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "nats3_dagster.defs.frames", "name": "_StoreIOManager"}, "label": "nats3_io_manager"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "2.77ms"}, "label": "nats3_io_manager:init_time"}]}, "event_type_value": "RESOURCE_INIT_SUCCESS", "logging_tags": {}, "message": "Finished initialization of resources [io_manager, nats3_io_manager, nats3_s3, nats3_settings, nats3_spark].", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920400.1454008, "user_message": "Finished initialization of resources [io_manager, nats3_io_manager, nats3_s3, nats3_settings, nats3_spark]."}	RESOURCE_INIT_SUCCESS	2026-11-29 02:46:40.145401	events__chunks	\N	\N
8	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "ComputeLogsCaptureData", "external_stderr_url": null, "external_stdout_url": null, "external_url": null, "log_key": "gofutnwy", "shell_cmd": null, "step_keys": ["events__chunks"]}, "event_type_value": "LOGS_CAPTURED", "logging_tags": {}, "message": "Capturing logs for process (pid: 13979).", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": null, "timestamp": 1795920400.292203, "user_message": "Capturing logs for process (pid: 13979)."}	LOGS_CAPTURED	2026-11-29 02:46:40.292203	\N	\N	\N
9	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": null, "event_type_value": "STEP_START", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Started execution of step \\"events__chunks\\".", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920400.3555415, "user_message": "Started execution of step \\"events__chunks\\"."}	STEP_START	2026-11-29 02:46:40.355541	events__chunks	\N	\N
10	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": null, "error_info": null, "level": 20, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920441.1663125, "user_message": "Spark is ready after 36.10 s"}	\N	2026-11-29 02:47:21.166312	events__chunks	\N	\N
12	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": null, "error_info": null, "level": 20, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920465.503469, "user_message": "events 2026-11-28-21:00 to 2026-11-28-23:00 (3 hours): 0 of 90 messages; Spark starts its workers, for 20 s"}	\N	2026-11-29 02:47:45.503469	events__chunks	\N	\N
14	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": null, "error_info": null, "level": 20, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920476.6654966, "user_message": "events 2026-11-28-21:00 to 2026-11-28-23:00 (3 hours): 87 messages in 3 chunks, 3,078 bytes stored in 8,164, 33.6 s (3 messages/s)"}	\N	2026-11-29 02:47:56.665497	events__chunks	\N	\N
20	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "AssetCheckEvaluation", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "blocking": false, "check_name": "capture_keeps_up", "description": "No limit of the stream deletes messages. It waits for 2.8 hours, and a capture is due after 60 s", "metadata": {"fails_after_s": {"__class__": "IntMetadataEntryData", "value": 90960}, "limit": {"__class__": "TextMetadataEntryData", "text": "none"}, "sequences_gone": {"__class__": "IntMetadataEntryData", "value": 0}, "used": {"__class__": "FloatMetadataEntryData", "value": 0.0}, "waits_hours": {"__class__": "FloatMetadataEntryData", "value": 2.8}, "warns_after_s": {"__class__": "IntMetadataEntryData", "value": 4560}}, "partition": null, "severity": {"__enum__": "AssetCheckSeverity.WARN"}, "success": false, "target_materialization_data": null}, "event_type_value": "ASSET_CHECK_EVALUATION", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Asset check 'capture_keeps_up' on 'events/chunks' did not pass. Description: 'No limit of the stream deletes messages. It waits for 2.8 hours, and a capture is due after 60 s'", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920477.9582448, "user_message": "Asset check 'capture_keeps_up' on 'events/chunks' did not pass. Description: 'No limit of the stream deletes messages. It waits for 2.8 hours, and a capture is due after 60 s'"}	ASSET_CHECK_EVALUATION	2026-11-29 02:47:57.958245	events__chunks	\N	\N
22	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "EngineEventData", "error": null, "marker_end": null, "marker_start": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "13979"}, "label": "pid"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "['events__chunks']"}, "label": "step_keys"}]}, "event_type_value": "ENGINE_EVENT", "logging_tags": {}, "message": "Finished steps in process (pid: 13979) in 1m31s", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": null, "timestamp": 1795920480.5190477, "user_message": "Finished steps in process (pid: 13979) in 1m31s"}	ENGINE_EVENT	2026-11-29 02:48:00.519048	\N	\N	\N
25	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "EngineEventData", "error": null, "marker_end": "resources", "marker_start": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "dagster._core.storage.fs_io_manager", "name": "PickledObjectFilesystemIOManager"}, "label": "io_manager"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "0.23ms"}, "label": "io_manager:init_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "nats3_dagster.defs.store_resource", "name": "StoreResource"}, "label": "nats3_s3"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "26ms"}, "label": "nats3_s3:init_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "nats3_dagster.settings.settings", "name": "Settings"}, "label": "nats3_settings"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "19ms"}, "label": "nats3_settings:init_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "dagster_pyspark.resources", "name": "LazyPySparkResource"}, "label": "nats3_spark"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "11ms"}, "label": "nats3_spark:init_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "PythonArtifactMetadataEntryData", "module": "nats3_dagster.defs.frames", "name": "_StoreIOManager"}, "label": "nats3_io_manager"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "0.13ms"}, "label": "nats3_io_manager:init_time"}]}, "event_type_value": "RESOURCE_INIT_SUCCESS", "logging_tags": {}, "message": "Finished initialization of resources [io_manager, nats3_io_manager, nats3_s3, nats3_settings, nats3_spark].", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920480.766862, "user_message": "Finished initialization of resources [io_manager, nats3_io_manager, nats3_s3, nats3_settings, nats3_spark]."}	RESOURCE_INIT_SUCCESS	2026-11-29 02:48:00.766862	events__chunks	\N	\N
11	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": null, "error_info": null, "level": 20, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920455.4093974, "user_message": "events 2026-11-28-21:00 to 2026-11-28-23:00 (3 hours): 0 of 90 messages; Spark starts its workers, for 10 s"}	\N	2026-11-29 02:47:35.409397	events__chunks	\N	\N
13	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": null, "error_info": null, "level": 20, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920475.5727944, "user_message": "events 2026-11-28-21:00 to 2026-11-28-23:00 (3 hours): 0 of 90 messages; Spark starts its workers, for 30 s"}	\N	2026-11-29 02:47:55.572794	events__chunks	\N	\N
15	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "AssetObservationData", "asset_observation": {"__class__": "AssetObservation", "asset_key": {"__class__": "AssetKey", "path": ["jetstream", "EVENTS"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 116}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 7824}, "label": "bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 119}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795899600.0}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795910428.0000002}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795920349.3328576}, "label": "created"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "events_behind"}], "partition": null, "tags": {}}}, "event_type_value": "ASSET_OBSERVATION", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": null, "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920477.1871696, "user_message": "DagsterEventType.ASSET_OBSERVATION for step events__chunks"}	ASSET_OBSERVATION	2026-11-29 02:47:57.18717	events__chunks	["jetstream", "EVENTS"]	\N
16	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 87}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1026}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2718}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.38}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-28-21:00"}, "label": "in_the_shell"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "![messages per minute](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0ODAiIGhlaWdodD0iODAiIGZvbnQtc2l6ZT0iMTIiIGZpbGw9IiM0NmUiPjxwYXRoIGQ9Ik0wIDY0VjBoOFY2NGg0NzJWNjR6Ii8+PHRleHQgeT0iNzciPjIxOjAwPC90ZXh0Pjx0ZXh0IHg9IjQ4MCIgeT0iNzciIHRleHQtYW5jaG9yPSJlbmQiPm1vc3QgMjkgYSBtaW51dGU8L3RleHQ+PC9zdmc+)"}, "label": "plot"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 30}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795899600.0}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795899628.0000002}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-28/hour%3D21/"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "[021c5ef1](/runs/021c5ef1-b6d6-48bf-b494-1b019fb1ecc5)"}, "label": "captured_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 1, "messages": 29, "payload_bytes": 1026, "sequences": "1-30", "stored_bytes": 2718}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "sequences", "type": "string"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "messages", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "payload_bytes", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "stored_bytes", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages_added"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks_added"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "sequences_lost"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 11.19}, "label": "seconds"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 2.6}, "label": "messages_per_s"}], "partition": "2026-11-28-21:00", "tags": {"dagster/data_version": "3fc39d398aa15b17", "nats3/archive_id": "1", "nats3/revision": "1"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Materialized value events chunks.", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920477.2331195, "user_message": "Materialized value events chunks."}	ASSET_MATERIALIZATION	2026-11-29 02:47:57.233119	events__chunks	["events", "chunks"]	2026-11-28-21:00
17	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 87}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1026}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2723}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.38}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-28-22:00"}, "label": "in_the_shell"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "![messages per minute](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0ODAiIGhlaWdodD0iODAiIGZvbnQtc2l6ZT0iMTIiIGZpbGw9IiM0NmUiPjxwYXRoIGQ9Ik0wIDY0VjBoOFY2NGg0NzJWNjR6Ii8+PHRleHQgeT0iNzciPjIyOjAwPC90ZXh0Pjx0ZXh0IHg9IjQ4MCIgeT0iNzciIHRleHQtYW5jaG9yPSJlbmQiPm1vc3QgMjkgYSBtaW51dGU8L3RleHQ+PC9zdmc+)"}, "label": "plot"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 31}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 60}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795903200.0}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795903228.0000002}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-28/hour%3D22/"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "[021c5ef1](/runs/021c5ef1-b6d6-48bf-b494-1b019fb1ecc5)"}, "label": "captured_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 2, "messages": 29, "payload_bytes": 1026, "sequences": "31-60", "stored_bytes": 2723}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "sequences", "type": "string"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "messages", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "payload_bytes", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "stored_bytes", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages_added"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks_added"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "sequences_lost"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 11.19}, "label": "seconds"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 2.6}, "label": "messages_per_s"}], "partition": "2026-11-28-22:00", "tags": {"dagster/data_version": "970100393742101f", "nats3/archive_id": "1", "nats3/revision": "1"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Materialized value events chunks.", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920477.292208, "user_message": "Materialized value events chunks."}	ASSET_MATERIALIZATION	2026-11-29 02:47:57.292208	events__chunks	["events", "chunks"]	2026-11-28-22:00
18	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 87}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1026}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2723}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.38}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-28-23:00"}, "label": "in_the_shell"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "![messages per minute](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0ODAiIGhlaWdodD0iODAiIGZvbnQtc2l6ZT0iMTIiIGZpbGw9IiM0NmUiPjxwYXRoIGQ9Ik0wIDY0VjBoOFY2NGg0NzJWNjR6Ii8+PHRleHQgeT0iNzciPjIzOjAwPC90ZXh0Pjx0ZXh0IHg9IjQ4MCIgeT0iNzciIHRleHQtYW5jaG9yPSJlbmQiPm1vc3QgMjkgYSBtaW51dGU8L3RleHQ+PC9zdmc+)"}, "label": "plot"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 61}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 90}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795906800.0}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795906828.0000002}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-28/hour%3D23/"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "[021c5ef1](/runs/021c5ef1-b6d6-48bf-b494-1b019fb1ecc5)"}, "label": "captured_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 3, "messages": 29, "payload_bytes": 1026, "sequences": "61-90", "stored_bytes": 2723}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "sequences", "type": "string"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "messages", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "payload_bytes", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "stored_bytes", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages_added"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks_added"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "sequences_lost"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 11.19}, "label": "seconds"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 2.6}, "label": "messages_per_s"}], "partition": "2026-11-28-23:00", "tags": {"dagster/data_version": "26a654a655b50ab3", "nats3/archive_id": "1", "nats3/revision": "1"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Materialized value events chunks.", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920477.3648126, "user_message": "Materialized value events chunks."}	ASSET_MATERIALIZATION	2026-11-29 02:47:57.364813	events__chunks	["events", "chunks"]	2026-11-28-23:00
19	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "AssetCheckEvaluation", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "blocking": true, "check_name": "no_gaps", "description": "Every sequence is accounted for", "metadata": {"first_holes": {"__class__": "TextMetadataEntryData", "text": "none"}, "holes": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_damaged": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_expired": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_expired_by_policy": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_in_holes": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_missing": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_retired": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_superseded": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_superseded_or_ttl": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_ttl": {"__class__": "IntMetadataEntryData", "value": 0}, "sequences_undelivered": {"__class__": "IntMetadataEntryData", "value": 0}, "unknown_ends": {"__class__": "IntMetadataEntryData", "value": 0}}, "partition": null, "severity": {"__enum__": "AssetCheckSeverity.WARN"}, "success": true, "target_materialization_data": null}, "event_type_value": "ASSET_CHECK_EVALUATION", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Asset check 'no_gaps' on 'events/chunks' passed. Description: 'Every sequence is accounted for'", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920477.8776438, "user_message": "Asset check 'no_gaps' on 'events/chunks' passed. Description: 'Every sequence is accounted for'"}	ASSET_CHECK_EVALUATION	2026-11-29 02:47:57.877644	events__chunks	\N	\N
21	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepSuccessData", "duration_ms": 77647.56217600006}, "event_type_value": "STEP_SUCCESS", "logging_tags": {"job_name": "events_capture", "op_name": "events__chunks", "resource_fn_name": "None", "resource_name": "None", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks"}, "message": "Finished execution of step \\"events__chunks\\" in 1m17s.", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920478.045655, "user_message": "Finished execution of step \\"events__chunks\\" in 1m17s."}	STEP_SUCCESS	2026-11-29 02:47:58.045655	events__chunks	\N	\N
23	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": null, "event_type_value": "PIPELINE_SUCCESS", "logging_tags": {}, "message": "Finished execution of run for \\"events_capture\\".", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": null, "timestamp": 1795920480.5486426, "user_message": "Finished execution of run for \\"events_capture\\"."}	PIPELINE_SUCCESS	2026-11-29 02:48:00.548643	\N	\N	\N
24	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "EngineEventData", "error": null, "marker_end": null, "marker_start": "resources", "metadata_entries": []}, "event_type_value": "RESOURCE_INIT_STARTED", "logging_tags": {}, "message": "Starting initialization of resources [io_manager, nats3_io_manager, nats3_s3, nats3_settings, nats3_spark].", "pid": 13979, "pipeline_name": "events_capture", "solid_handle": null, "step_handle": {"__class__": "StepHandle", "key": "events__chunks", "solid_handle": {"__class__": "SolidHandle", "name": "events__chunks", "parent": null}}, "step_key": "events__chunks", "step_kind_value": null}, "error_info": null, "level": 10, "message": "", "pipeline_name": "events_capture", "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "step_key": "events__chunks", "timestamp": 1795920480.6646023, "user_message": "Starting initialization of resources [io_manager, nats3_io_manager, nats3_s3, nats3_settings, nats3_spark]."}	RESOURCE_INIT_STARTED	2026-11-29 02:48:00.664602	events__chunks	\N	\N
26		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 134}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 27}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 27}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 955}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2746}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.35}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-28-21:00"}, "label": "in_the_shell"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2}, "label": "sequences_erased"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "case-17"}, "label": "holds"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "![messages per minute](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0ODAiIGhlaWdodD0iODAiIGZvbnQtc2l6ZT0iMTIiIGZpbGw9IiM0NmUiPjxwYXRoIGQ9Ik0wIDY0VjBoOFY2NGg0NzJWNjR6Ii8+PHRleHQgeT0iNzciPjIxOjAwPC90ZXh0Pjx0ZXh0IHg9IjQ4MCIgeT0iNzciIHRleHQtYW5jaG9yPSJlbmQiPm1vc3QgMjcgYSBtaW51dGU8L3RleHQ+PC9zdmc+)"}, "label": "plot"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795899600.0}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795899628.0000002}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-28/hour%3D21/"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "captured_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 5, "messages": 27, "payload_bytes": 955, "sequences": "1-29", "stored_bytes": 2746}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "sequences", "type": "string"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "messages", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "payload_bytes", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "stored_bytes", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}], "partition": "2026-11-28-21:00", "tags": {"dagster/data_version": "ee2c01af2a4f6c85", "nats3/archive_id": "1", "nats3/from_catalog": "True", "nats3/revision": "4"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.2976675, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.297668	\N	["events", "chunks"]	2026-11-28-21:00
27		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 134}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1026}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2723}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.38}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-28-22:00"}, "label": "in_the_shell"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "sequences_deleted"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "![messages per minute](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0ODAiIGhlaWdodD0iODAiIGZvbnQtc2l6ZT0iMTIiIGZpbGw9IiM0NmUiPjxwYXRoIGQ9Ik0wIDY0VjBoOFY2NGg0NzJWNjR6Ii8+PHRleHQgeT0iNzciPjIyOjAwPC90ZXh0Pjx0ZXh0IHg9IjQ4MCIgeT0iNzciIHRleHQtYW5jaG9yPSJlbmQiPm1vc3QgMjkgYSBtaW51dGU8L3RleHQ+PC9zdmc+)"}, "label": "plot"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 31}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 60}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795903200.0}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795903228.0000002}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-28/hour%3D22/"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "[021c5ef1](/runs/021c5ef1-b6d6-48bf-b494-1b019fb1ecc5)"}, "label": "captured_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 2, "messages": 29, "payload_bytes": 1026, "sequences": "31-60", "stored_bytes": 2723}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "sequences", "type": "string"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "messages", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "payload_bytes", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "stored_bytes", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}], "partition": "2026-11-28-22:00", "tags": {"dagster/data_version": "970100393742101f", "nats3/archive_id": "1", "nats3/from_catalog": "True", "nats3/revision": "5"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.4453378, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.445338	\N	["events", "chunks"]	2026-11-28-22:00
28		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 134}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1026}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2721}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.38}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-29-00:00"}, "label": "in_the_shell"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "![messages per minute](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0ODAiIGhlaWdodD0iODAiIGZvbnQtc2l6ZT0iMTIiIGZpbGw9IiM0NmUiPjxwYXRoIGQ9Ik0wIDY0VjBoOFY2NGg0NzJWNjR6Ii8+PHRleHQgeT0iNzciPjAwOjAwPC90ZXh0Pjx0ZXh0IHg9IjQ4MCIgeT0iNzciIHRleHQtYW5jaG9yPSJlbmQiPm1vc3QgMjkgYSBtaW51dGU8L3RleHQ+PC9zdmc+)"}, "label": "plot"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 91}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 119}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795910400.0}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795910428.0000002}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-29/hour%3D00/"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "captured_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 4, "messages": 29, "payload_bytes": 1026, "sequences": "91-119", "stored_bytes": 2721}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "sequences", "type": "string"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "messages", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "payload_bytes", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "stored_bytes", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}], "partition": "2026-11-29-00:00", "tags": {"dagster/data_version": "6eb1f1b5a763f0ed", "nats3/archive_id": "1", "nats3/from_catalog": "True", "nats3/revision": "2"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.5471482, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.547148	\N	["events", "chunks"]	2026-11-29-00:00
29		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 134}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.0}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-29-01:00"}, "label": "in_the_shell"}], "partition": "2026-11-29-01:00", "tags": {"dagster/data_version": "4f53cda18c2baa0c", "nats3/archive_id": "1", "nats3/from_catalog": "True", "nats3/revision": "0"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.6305559, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.630556	\N	["events", "chunks"]	2026-11-29-01:00
30		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 134}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 20}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 20}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 270}, "label": "payload_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2651}, "label": "stored_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": 0.1}, "label": "ratio"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 chunk list events --hour 2026-11-29-02:00"}, "label": "in_the_shell"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "![messages per minute](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0ODAiIGhlaWdodD0iODAiIGZvbnQtc2l6ZT0iMTIiIGZpbGw9IiM0NmUiPjxwYXRoIGQ9Ik0wIDY0VjY0aDQyNFYwaDhWNjRoNDhWNjR6Ii8+PHRleHQgeT0iNzciPjAyOjAwPC90ZXh0Pjx0ZXh0IHg9IjQ4MCIgeT0iNzciIHRleHQtYW5jaG9yPSJlbmQiPm1vc3QgMjAgYSBtaW51dGU8L3RleHQ+PC9zdmc+)"}, "label": "plot"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 120}, "label": "first_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 139}, "label": "last_sequence"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795920800.6632779}, "label": "first_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 1795920800.6634321}, "label": "last_time"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-29/hour%3D02/"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "captured_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 6, "messages": 20, "payload_bytes": 270, "sequences": "120-139", "stored_bytes": 2651}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "sequences", "type": "string"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "messages", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "payload_bytes", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "stored_bytes", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}], "partition": "2026-11-29-02:00", "tags": {"dagster/data_version": "0a6ac2383c961b59", "nats3/archive_id": "1", "nats3/from_catalog": "True", "nats3/revision": "6"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.7165785, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.716578	\N	["events", "chunks"]	2026-11-29-02:00
31		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "sealed"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableColumnLineageMetadataValue", "column_lineage": {"__class__": "TableColumnLineage", "deps_by_column": {"data": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "data"}], "headers": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "headers"}], "seq": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "seq"}], "subject": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject"}], "subject_bytes": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject_bytes"}], "time": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time"}], "time_ns": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time_ns"}]}}}, "label": "dagster/column_lineage"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 114}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 27}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 27}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "missing_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "sequences_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 2}, "label": "seal"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-28/hour%3D21/manifest-0002-d37e67bd3a2c.json.zst"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "d37e67bd3a2ce7655385bb65625eeec9da32023a5d7e0e5805112af705881cce"}, "label": "sha256"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 377}, "label": "stored_bytes"}], "partition": "2026-11-28-21:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "ee2c01af2a4f6c85", "dagster/input_data_version/events/chunks": "ee2c01af2a4f6c85", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/archive_id": "1", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.8015602, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.80156	\N	["events", "sealed"]	2026-11-28-21:00
32		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "sealed"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableColumnLineageMetadataValue", "column_lineage": {"__class__": "TableColumnLineage", "deps_by_column": {"data": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "data"}], "headers": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "headers"}], "seq": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "seq"}], "subject": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject"}], "subject_bytes": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject_bytes"}], "time": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time"}], "time_ns": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time_ns"}]}}}, "label": "dagster/column_lineage"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 114}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "missing_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "sequences_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "seal"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-28/hour%3D23/manifest-0001-17234e5b7819.json.zst"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "17234e5b781955cb93e4bd5ecfee298cf09c0def7ba86f2f8afd5b465ff625ce"}, "label": "sha256"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 378}, "label": "stored_bytes"}], "partition": "2026-11-28-23:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "26a654a655b50ab3", "dagster/input_data_version/events/chunks": "26a654a655b50ab3", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/archive_id": "1", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.856293, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.856293	\N	["events", "sealed"]	2026-11-28-23:00
33		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "sealed"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableColumnLineageMetadataValue", "column_lineage": {"__class__": "TableColumnLineage", "deps_by_column": {"data": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "data"}], "headers": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "headers"}], "seq": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "seq"}], "subject": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject"}], "subject_bytes": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject_bytes"}], "time": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time"}], "time_ns": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time_ns"}]}}}, "label": "dagster/column_lineage"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 114}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "missing_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "sequences_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "seal"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-29/hour%3D00/manifest-0001-e710a0fdb898.json.zst"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "e710a0fdb8987d7675064a8f0d5d1878a03a22359c781821b619c60857e7db63"}, "label": "sha256"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 377}, "label": "stored_bytes"}], "partition": "2026-11-29-00:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "6eb1f1b5a763f0ed", "dagster/input_data_version/events/chunks": "6eb1f1b5a763f0ed", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/archive_id": "1", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.9314198, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.93142	\N	["events", "sealed"]	2026-11-29-00:00
34		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "sealed"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableColumnLineageMetadataValue", "column_lineage": {"__class__": "TableColumnLineage", "deps_by_column": {"data": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "data"}], "headers": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "headers"}], "seq": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "seq"}], "subject": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject"}], "subject_bytes": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "subject_bytes"}], "time": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time"}], "time_ns": [{"__class__": "TableColumnDep", "asset_key": {"__class__": "AssetKey", "path": ["events", "chunks"]}, "column_name": "time_ns"}]}}}, "label": "dagster/column_lineage"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 114}, "label": "dagster/row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "missing_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "sequences_in_gaps"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "seal"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "file:///var/lib/nats3/store/archive/archive%3Devents/date%3D2026-11-29/hour%3D01/manifest-0001-96f2600e794b.json.zst"}, "label": "dagster/uri"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "96f2600e794b06bb8b5a200c2de51c178f75d08f44a5026405cf49a83882cef9"}, "label": "sha256"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 126}, "label": "stored_bytes"}], "partition": "2026-11-29-01:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "4f53cda18c2baa0c", "dagster/input_data_version/events/chunks": "4f53cda18c2baa0c", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/archive_id": "1", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920882.9917786, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:42.991779	\N	["events", "sealed"]	2026-11-29-01:00
35		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "replay"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "7f4a8a818dd96e24"}, "label": "replay"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "BACK"}, "label": "targets"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "ev.> to back.>"}, "label": "subjects"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "published"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "found_in_target"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "duplicates_refused"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "expired"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "published_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 1, "duplicates": 0, "found": 0, "published": 29, "selected": 29}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "selected", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "published", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "found", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "duplicates", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 load get 7f4a8a818dd96e24"}, "label": "in_the_shell"}], "partition": "2026-11-28-21:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "41161e7f3c5303b5", "dagster/input_data_version/events/chunks": "UNKNOWN", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920883.0795798, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:43.07958	\N	["events", "replay"]	2026-11-28-21:00
36		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "replay"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "7f4a8a818dd96e24"}, "label": "replay"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "BACK"}, "label": "targets"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "ev.> to back.>"}, "label": "subjects"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "published"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "found_in_target"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "duplicates_refused"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "expired"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "published_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 2, "duplicates": 0, "found": 0, "published": 29, "selected": 29}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "selected", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "published", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "found", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "duplicates", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 load get 7f4a8a818dd96e24"}, "label": "in_the_shell"}], "partition": "2026-11-28-22:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "41161e7f3c5303b5", "dagster/input_data_version/events/chunks": "UNKNOWN", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920883.159239, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:43.159239	\N	["events", "replay"]	2026-11-28-22:00
37		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "replay"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "7f4a8a818dd96e24"}, "label": "replay"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "BACK"}, "label": "targets"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "ev.> to back.>"}, "label": "subjects"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "published"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "found_in_target"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "duplicates_refused"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "expired"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "published_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 3, "duplicates": 0, "found": 0, "published": 29, "selected": 29}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "selected", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "published", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "found", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "duplicates", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 load get 7f4a8a818dd96e24"}, "label": "in_the_shell"}], "partition": "2026-11-28-23:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "41161e7f3c5303b5", "dagster/input_data_version/events/chunks": "UNKNOWN", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920883.2642927, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:43.264293	\N	["events", "replay"]	2026-11-28-23:00
38		{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["events", "replay"]}, "description": null, "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "7f4a8a818dd96e24"}, "label": "replay"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "BACK"}, "label": "targets"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "ev.> to back.>"}, "label": "subjects"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "chunks"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "messages"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "published"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "found_in_target"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "duplicates_refused"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, "label": "expired"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 29}, "label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "no run of Dagster"}, "label": "published_by"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"chunk": 4, "duplicates": 0, "found": 0, "published": 29, "selected": 29}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "chunk", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "selected", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "published", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "found", "type": "integer"}, {"__class__": "TableColumn", "constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, "description": null, "name": "duplicates", "type": "integer"}], "constraints": {"__class__": "TableConstraints", "other": []}}}, "label": "chunk_table"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "nats3 load get 7f4a8a818dd96e24"}, "label": "in_the_shell"}], "partition": "2026-11-29-00:00", "tags": {"dagster/code_version": "-", "dagster/data_version": "41161e7f3c5303b5", "dagster/input_data_version/events/chunks": "UNKNOWN", "dagster/input_event_pointer/events/chunks": "NULL", "nats3/from_catalog": "True"}}}, "event_type_value": "ASSET_MATERIALIZATION", "logging_tags": {}, "message": null, "pid": null, "pipeline_name": "", "solid_handle": null, "step_handle": null, "step_key": null, "step_kind_value": null}, "error_info": null, "level": 20, "message": "", "pipeline_name": "", "run_id": "", "step_key": null, "timestamp": 1795920883.3749511, "user_message": ""}	ASSET_MATERIALIZATION	2026-11-29 02:54:43.374951	\N	["events", "replay"]	2026-11-29-00:00
\.


--
-- Data for Name: instance_info; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.instance_info (id, run_storage_id) FROM stdin;
\.


--
-- Data for Name: instigators; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.instigators (id, selector_id, repository_selector_id, status, instigator_type, instigator_body, create_timestamp, update_timestamp) FROM stdin;
\.


--
-- Data for Name: job_ticks; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.job_ticks (id, job_origin_id, selector_id, status, type, "timestamp", tick_body, create_timestamp, update_timestamp) FROM stdin;
\.


--
-- Data for Name: jobs; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.jobs (id, job_origin_id, selector_id, repository_origin_id, status, job_type, job_body, create_timestamp, update_timestamp) FROM stdin;
\.


--
-- Data for Name: kvs; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.kvs (id, key, value) FROM stdin;
\.


--
-- Data for Name: pending_steps; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.pending_steps (id, concurrency_key, run_id, step_key, priority, assigned_timestamp, create_timestamp) FROM stdin;
\.


--
-- Data for Name: run_tags; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.run_tags (id, run_id, key, value) FROM stdin;
1	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	.dagster/pool/jetstream	true
2	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	nats3/archive	events
3	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	dagster/asset_partition_range_start	2026-11-28-21:00
4	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	dagster/asset_partition_range_end	2026-11-28-23:00
5	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	.dagster/repository	__repository__@nats3
\.


--
-- Data for Name: runs; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.runs (id, run_id, snapshot_id, pipeline_name, mode, status, run_body, partition, partition_set, create_timestamp, update_timestamp, start_time, end_time, backfill_id) FROM stdin;
1	021c5ef1-b6d6-48bf-b494-1b019fb1ecc5	a014bd0de8cc10acc5dac10b884c1cd7535ec91b	events_capture	\N	SUCCESS	{"__class__": "PipelineRun", "asset_check_selection": null, "asset_selection": null, "execution_plan_snapshot_id": "326c7020ac632a0f416c273531499cf64da0673b", "external_pipeline_origin": null, "has_repository_load_data": false, "mode": null, "parent_run_id": null, "partitions_subset": {"__class__": "TimeWindowPartitionsSubset", "included_time_windows": [{"__class__": "TimeWindow", "end": {"__class__": "TimestampWithTimezone", "timestamp": 1795910400.0, "timezone": "UTC"}, "start": {"__class__": "TimestampWithTimezone", "timestamp": 1795899600.0, "timezone": "UTC"}}], "num_partitions": 3, "partitions_def": {"__class__": "TimeWindowPartitionsDefinition", "cron_schedule": "0 * * * *", "end": null, "end_offset": 1, "exclusions": null, "fmt": "%Y-%m-%d-%H:00", "start": {"__class__": "TimestampWithTimezone", "timestamp": 1795899600.0, "timezone": "UTC"}, "timezone": "UTC"}}, "pipeline_code_origin": {"__class__": "PipelinePythonOrigin", "pipeline_name": "events_capture", "repository_origin": {"__class__": "RepositoryPythonOrigin", "code_pointer": {"__class__": "ModuleCodePointer", "fn_name": "defs", "module": "nats3_dagster.definitions", "working_directory": "/var/lib/nats3"}, "container_context": null, "container_image": null, "entry_point": ["dagster"], "executable_path": "/opt/nats3/bin/python"}}, "pipeline_name": "events_capture", "pipeline_snapshot_id": "a014bd0de8cc10acc5dac10b884c1cd7535ec91b", "root_run_id": null, "run_config": {}, "run_id": "021c5ef1-b6d6-48bf-b494-1b019fb1ecc5", "run_op_concurrency": {"__class__": "RunOpConcurrency", "all_pools": {"__set__": ["jetstream"]}, "has_unconstrained_root_nodes": false, "root_key_counts": {"jetstream": 1}}, "solid_selection": null, "solids_to_execute": null, "status": {"__enum__": "PipelineRunStatus.SUCCESS"}, "step_keys_to_execute": ["events__chunks"], "tags": {".dagster/repository": "__repository__@nats3", "dagster/asset_partition_range_end": "2026-11-28-23:00", "dagster/asset_partition_range_start": "2026-11-28-21:00", "nats3/archive": "events"}}	\N	\N	2026-11-29 02:46:28.318326	2026-11-29 02:48:00.548643	1795920388.603703	1795920480.548643	\N
\.


--
-- Data for Name: secondary_indexes; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.secondary_indexes (id, name, create_timestamp, migration_completed) FROM stdin;
1	run_partitions	2026-11-29 02:46:22.661161	2026-11-29 02:46:22.622566
2	run_repo_label_tags	2026-11-29 02:46:22.818705	2026-11-29 02:46:22.778042
3	bulk_action_types	2026-11-29 02:46:22.938486	2026-11-29 02:46:22.90434
4	run_backfill_id	2026-11-29 02:46:23.113409	2026-11-29 02:46:23.075568
5	backfill_job_name_and_tags	2026-11-29 02:46:23.251506	2026-11-29 02:46:23.221866
6	backfill_end_timestamp	2026-11-29 02:46:23.374369	2026-11-29 02:46:23.35183
7	run_start_end_overwritten	2026-11-29 02:46:23.594177	2026-11-29 02:46:23.55765
8	asset_key_table	2026-11-29 02:46:24.249844	2026-11-29 02:46:24.20639
9	asset_key_index_columns	2026-11-29 02:46:24.381158	2026-11-29 02:46:24.349566
10	schedule_jobs_selector_id	2026-11-29 02:46:24.935717	2026-11-29 02:46:24.897618
11	schedule_ticks_selector_id	2026-11-29 02:46:25.256547	2026-11-29 02:46:25.222141
\.


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.snapshots (id, snapshot_id, snapshot_body, snapshot_type) FROM stdin;
1	a014bd0de8cc10acc5dac10b884c1cd7535ec91b	\\x789ced5d5b77db3612fe2b3c7ad9cb495c8277a64f4ee2b4de3ab64fe4b6674f93c382c0d0e286225592b257edf17fdf0148ea4aca906cc9f2c60f49240ad76fbe19cc0c40e4af5e10b084164510f4de68bdcb7804499c423fa5a3629095bd575a8f6569145f07051bc0900645f3cb1bedafc5baef64b9be2c365f9f2649d0b4211e07e124f80a13d9c0713ae96ae86a3292c3104d7028581e8fca384bb1403a4e127c08e97818dcd0640cc5ec611443c2e7be5fc7379006291d82685974870fabdea7dfe294d783904d2e8de127fcf9e8f8fcdfbd3b2c5b309ad03ca8abd47d94582a18d19c0ec5bc9ace45f1b759966c3ebf5e6fbbd9c9de66d39b7e55985fffddf1d9f1a79629b6d5eacb12b2dedb8b8b33596b3d06fd6c9c3310bded51daf5b33934e686b1112ec1cfe7a717e79b10e0b729fa7d488095597e64d82ed1891f116a1b3af16c9313a29b06b16cca4cb04d4b77dc08bff6be887e3e2419edd4b1c7a74ed5dd0cadd9f71d92e7c3d9c5f1d53dec394df78882e86c8641f36d87089c9edf37fff32c051a267074206ad4351e45a0ce2fce4f8edf9e9d6cae4b737d4905a950fc39c5d9c9b1bc9e2a5a0836b789179a3e780eb54c66470600a3916d7a8c440e735d4242db7f320c1f61e8fb375fca435b918eb425b339725da7a60ba6a7bbdc74991f393e638ee1fb2eb3a81d5994b80ed8cc3c08f16c3bf69dcb676aa0371fdb8a80d0d0cda6487dd7f743df259c189481ab53837b9e6e32cfc33f8e691197ebae611f8478b61bf9ce8553af1c9b8f6c4534fd328fd3ebd91c41b75cc3643ef77d216b1a1ac4d01dcbb443c3302c9745a8a69ee11c866ddb7af03b175035b20519290fae9251538d8451481c9702f575d7d329755cdff6f193ce5c12728f3936703d34762490df5a1bfd207e9eb51ad1715206a33cbb89390864ca7c0c73bfc8d6035a04ff29b23428ca5cb4f4d75de790e222c8e18f719ccbc6229a14a2b5c689e271211c04de6bb06f9831a02338e2d4f4a9096083135aa1ce4dc3b6c30822df76d029f6751a713460ba2fe479787383f451a6f6e51e1dda985caa0a737276f2eeeaa2cd51bd3794dd3c8e3924c637825c478bba27055ad41c9bb1e266851195815196b432a8fb94f413bb02072869d146bbf25ba16d86aec923d3324c8f709deb36bac8a6433c9333df67a1efa0ff656c6dd7763aaf51ccbe26f0ff3833d9d8f2c4847fa6ac9a8fee563e866a3e718cfba29a2faab91bd594790765dd7cf47cc963e8e61327385e74f3453777a39b55ce4959391f3d59f618caf9c4099417e57c51cedd28e7a611e7a327e31e433b23230287479c393a25bee5522ff2c065683e5caa1323b45cddb143f60de5165eb4f3b9cdac553bc5511365d554d6827da8a694884e4283f906a2e7bbdce0dc60d4b07dc27c467d937b34a4cc3401fe4ff4b2f7dbfb93cb4f27ef8eaf4ede7fe9adc87b39293ca4f957c88332c3216645a761de653efb739399fe2c2470d792deeefd3a807200b996038e070a8de6a0d595b42cd7d2ac3cd2de4eb4ba9f576de58eeec7a2aeb582c1c619edbdab76ef3d94900fe314e77c3b80542b4a18e1c73849b41021f82fb0718958c529429350514b2b330d318d736d3cc296810e11be11a41c52862028c025fa08a67526f531b976abc83090252c62a866218da86e51d327446721da02071c5d078bfb1e37efb7339ba9b4aa91b9fa74faee2ae8ff787cb9d1e98e2543e311d3b61cc70c7d6e855e14469cb0d003d3f65c07e76bf836fe6d460765685454f473eff4fcc3c5e75e8b665e0d404bb2eb6bc8ff56209f72280659a2a26c582948e006922730399f7b9c5e237df3ce2989516a59a44db2715ecf4f614ef2df2d5ddbcd18b45f5e47e099b6c99dd0b60cca5844b91f020b794821f48dc8b17c08439f3e3b5ee3d233a5a1587c1a9ebfc24f424ad5b32957da56264196ba0f8d654986c4c07fd3224b409d37eb2ca732251419a62acbbd328c78a111511a1188b8addba66b456e64d811ae0f04b8ed87dc0ec1b3c94131ec711df1654e84b48080c779bb3d993b50a826776584f72a7733345c10496fe2d8e808709f5a21c3d5dcf33dcb32c54ace2c8e3c3d28b92b5a16cab351f9b9916c9bedf831bb155e18a3a3729cc391769ca233cbe394e693e6a19602f0021ddc542e4771f9406be270c7717c8779868986c436ac48776d02a6013424dcd70d3724c4a2ae22ab94e5b757565956645097988e6beb2e704ed05c3ac877d3370c83592646a1a6e393f0f9b16adba33feb28a16c19d428a10cfe7e29a19a9539244aec368745cbc1837c556548f72a689b53e2fbc83fa41f7131aa44eaf190804e8c08878844b70c41f08312b4e28a5269717796e4ed384ecad718e3477102c5049dd6a1767aa10d694ad10fc5e88c965a51a28b5a6834e57592e406bf55d3d1c6054a5f93c94dfca0b0d2c4595037de910b55b505fb3e2f894bef382fc48a4a7336880506b4d0226415c8a723c48716afb4cb0c1988ff1ee739aed559aef5917a5f5f69117ec4a1425954a85659104d64550630548a14cbc20ceec3cfb54cb05c5f9ca9b3596858b6ee589c3ba609067143b4d0964f0911abf5bef1ab63a2d7f4b6c0b8bf6f7e82427aa46f34c46194c5a94cc25d8b3c93a01a4314202d634441c08b2055444424f36c28bfdfd03c1689ba1a51f1e8f8d7bed67fff53812d517ea49dc82c568672bb86aa4081682a835d98cf0de45f07801ee0f9f1555f30b128af1bcd9de227129c6f640933f8a7fc0931c34fb12422cae226ceb37408421c224f2a80382ab361a28e1a94251a83d5a4e88163d71074342984ca2249cfe89f93cb8954e0195ba9564051089a86134d96fc4efefdbaeeb138124617c143fffb5fbf7cc4f2f938fd5e6029595a735936aae18c5260686221bf41737b3b88d9a0964dfff2f8d34fc1a7938f17572732b7a4925fad0520da7e28fa4a0bbaf2d2b9d7055d3962796e0bba14770b737fc8c43a429372908daf07b5aecbfcfc2dae511c1210997ca1eb43cad1025c53d4765cb919c8b238d47216527e4476e3fa32b5ba40f3244672d62d4a12df0a2b9366d35a5c6e9b246870be977552b895fc8f8b66b5e495d98e71f98be21cfb1b56dd6031055ecbc07899d15daf66aa515799247ba5aeb27e1e1275779bd56a0f44953698378374af8266c4e548343df23cf03de600773d23c4b17093d891cf22ee850ee5cf3de8f8dcec90d6df16b76d5b43926a282291354007bada95949bb2cd8ee46d5c0ed07ec97555c17654f5e2ae6325910833881f310f2561223d98c1a8ed18b6ed98be1bb98683568110d8bf3fb20844b5335068308ca7c6b3d8148bba917624c0f36deedb000ed7218a30f2f22ce63a9165518386aeeef991ce2c7fc7a117720415bac486d9609c7e6d88b3c0a9a53ce93d344268ca78089ad446b1e95dc8602c435e4d633205ecb07c07830c623984b9dcd5d10f2262afdab45c448f4534b42dd706cfb243c2768ddb2c345cc5eceeaedaa05a0c21ab9f66bf14e6ca93da975f792e5ccceeb4c2920e0fa87011f2da85aed4391e8e121061c6e61a3d6da85d1eca4ea9dafaa16ca9f7bc7e289e8e786eeb8728b365cabafe29684ea704f2b8493166489515aea8bd78b119d67b6580f2ebb73b62801274ca83dc2b74ca2bdd2129cfcebd6c7100a1e34081ea0900357d52867fafa45076040f89148aaec15a27bc65fdaef2a6a0d124a93d70b93c8b647f828e549e098bfad0532aaa07f2d448a52cbefd924ad5377c86a45aeb926fb9842ffafeedc4513e41a0481c5511ed8b38d58eeade2e819bdd0db3b8a5ab3add2daf8213309dff70cf6d702b27979eec9a9fe5816c84ce235dd9b3c18d8a22de6b363402d9bcdc421851066b6e347d5f5510a33f6f8a2fdf6cbad0a8dafda673cdae15128f8b514227cbb797a2c508c536759cce6c93c28da673bd2e5c699a6494e3f8ebeb5d1ff22eca9062fb314de23f97dbab27b4349116317fe9be35755bd49a9becd6c0b6f6a6d465dce614bc1dba47b9dd4f19cb66ec5d60765c24ba2d9ad37be7d6c0b9fef2d087e0f980ebf894019d8ebe0bd1d62b49b7c5b3be2a6e0d9aebae217d08965bdf9da78c643df22e1ccf3391e56a59d9b7c5b269703d9e73a594303dbfb8fab15999db40ad07a38cca5cff5dc874b93cdb02335b3bd7e0728f9bf310aa3de42240655c67e36f85b5f20044fe0ba7cdc426edba857ffa4a56bf293dbfee175912f3204e6f32265f04ab5a6a892ffaa2e0e9b45c23b4381d8dcb400ea6a3e2a92831378a858ad37783a1ac137b27bf9c9c5ff56b01f309168859c0b244e03d17554c1381d9b8140d4d7bff224383b9ba433a1a2d0424d59431040aba4393aacc9ad00529d49331f697bb5577fd5d7d5c7bd09c2bab37d87faf26f73b86dc65d66c9f6b55eb32e4becee968d036b47a335e941177dad3eb0591377a9b719095bb44f1110bbc8768adc255fb486b9b399345e61aaac2c5403addb2569733fff29acef26b3a5b0f6e39bb27693fbdb8b2aa2fca353b2a6b25da1c817a32993eed51f65521ece0f06ccb31d9d55dc35d0ae2c9ce72acc2bbfb03b79d476bbf59cc0fec90eeca71dc6f5630bb3ed8db7184f79bc5fb591c066e3bf62b97f83ccbcae6ff20daee30c382a7b0ea5fe22c82c6bdadbaffaeb6d2b3f255beb3f1a3e33416d8166ba210193dbc9f155dfc4f9986a3ac884b7469a79ef9cc9d5f70d8d706274fe8903ef3b73b57873b7f52783578d12e69fec7182d7a1510bd121a22629daab43058f254d6df7fbe7af78f23ed871c209507838442b00c35005d5a191b21c083ac00794a687af2ed556dfcc40f4214206f2719d01b90d81c691fa771b470b2685af55da328ae3c41f58b0b6d1817d20b9bae57358dbfd7860b0dc4657d6c9a7209bfcc691ccd07b7ddc4ab83db5948359f425fcdd2b49ab6ce18b84d51e762d03af25d37bc0b59e49ef1d529ec2eb35bc7d173e4bbf70897083de4e04755fa7b36b52a22a9ea06d3d064ba3332ff6eceea1b27f3b6f0cb6a107ebfd1bafb1faf1437c4	PIPELINE
2	326c7020ac632a0f416c273531499cf64da0673b	\\x789cb5544d6f133110fd2bd59e51d58846146e110a220afd10091ca82acbb5a78dc9ae6dec71615be5bf33e3f56ed3b4cd01899b351f6fdecc9bf1432584aa658c42541f0eaae91f50098db317b5b40b2b7d5c39acde1c5432a0b9910aa3f010a289089ae231242027e42c1784950d308cb1c207a72046ce35d6a091b5585bf7db8a881239e8e169e5393b87f28b1c44b9ba254ca34423bd37f63672e286ec5e06b03880d954d76c0d70675c8a220086564844683c0e4901a46e854be85367240a37c1dd838d8099c6e515c75177be84893b6ed7d93838bdf1501b0b2296f108c3a3a8e4d1e8f85a1f6938516a7424951a6b498feb9393633552faddf8ed18d4fbd1357735a41674ca1ff575d7d046814e7443e5e62e2bb8a36669506a95ec3a56572536937a7845c10505b0829d02a5e3bdd1338eea53b4bca5124160eb813971f499c31589c0ee5ee99f801169ae8d987e9f9e2d17b93b97827a41e24fc1358bec9b441af8406c581bb6b8a0215011310c639f50ae365aaca4d5f50bf516ecfddc39b72857c3fa94c5d93054f2a58fa27b075a64e7819719ec48c10e6375290e3635a536b19f93e3f0e3f9e9c5b7e5b4e21a0da0d412a530b4971d34773cece35e75ce73d83e7926b6ddee33404c759e32dd225d2d1a882f0c6980be788ce2836789a84b50eb825f6eac73404f2d3378d67e1678a0bfa490c3d3c972fa7536f932fb3159cececff2403aac0e7e8757469843dba985abad3b60537f098c62a2c8408f1f526f119eff2da6b0fd5d91b77c2b64bb91752cc600bf920939b2b7d291a65ad3ef43b3a62fccdc43effce7f57bbe403bcbc83be19dab9f9c57b553ae7c3acfc1f2d9bc4a899c8f8c5edde8ffd3175950961f7c73b5f90bde4537f7	EXECUTION_PLAN
\.


--
-- Name: archive_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.archive_id_seq', 1, true);


--
-- Name: capture_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.capture_id_seq', 5, true);


--
-- Name: chunk_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.chunk_id_seq', 6, true);


--
-- Name: erasure_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.erasure_id_seq', 1, true);


--
-- Name: event_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.event_id_seq', 4, true);


--
-- Name: export_change; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.export_change', 1, false);


--
-- Name: export_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.export_id_seq', 1, false);


--
-- Name: gap_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.gap_id_seq', 1, true);


--
-- Name: hold_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.hold_id_seq', 1, true);


--
-- Name: incarnation_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.incarnation_id_seq', 8, true);


--
-- Name: seal_id_seq; Type: SEQUENCE SET; Schema: nats3; Owner: -
--

SELECT pg_catalog.setval('nats3.seal_id_seq', 6, true);


--
-- Name: asset_check_executions_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.asset_check_executions_id_seq', 2, true);


--
-- Name: asset_daemon_asset_evaluations_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.asset_daemon_asset_evaluations_id_seq', 1, false);


--
-- Name: asset_event_tags_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.asset_event_tags_id_seq', 16, true);


--
-- Name: asset_keys_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.asset_keys_id_seq', 20, true);


--
-- Name: backfill_tags_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.backfill_tags_id_seq', 1, false);


--
-- Name: bulk_actions_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.bulk_actions_id_seq', 1, false);


--
-- Name: concurrency_limits_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.concurrency_limits_id_seq', 1, false);


--
-- Name: concurrency_slots_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.concurrency_slots_id_seq', 1, false);


--
-- Name: daemon_heartbeats_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.daemon_heartbeats_id_seq', 1, false);


--
-- Name: dynamic_partitions_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.dynamic_partitions_id_seq', 1, false);


--
-- Name: event_logs_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.event_logs_id_seq', 38, true);


--
-- Name: instance_info_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.instance_info_id_seq', 1, false);


--
-- Name: instigators_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.instigators_id_seq', 1, false);


--
-- Name: job_ticks_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.job_ticks_id_seq', 1, false);


--
-- Name: jobs_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.jobs_id_seq', 1, false);


--
-- Name: kvs_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.kvs_id_seq', 1, false);


--
-- Name: pending_steps_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.pending_steps_id_seq', 1, false);


--
-- Name: run_tags_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.run_tags_id_seq', 5, true);


--
-- Name: runs_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.runs_id_seq', 1, true);


--
-- Name: secondary_indexes_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.secondary_indexes_id_seq', 11, true);


--
-- Name: snapshots_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.snapshots_id_seq', 2, true);


--
-- Name: replay replay_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay
    ADD CONSTRAINT replay_pkey PRIMARY KEY (id);


--
-- Name: whole_hours(text[]); Type: FUNCTION; Schema: nats3; Owner: -
--

CREATE FUNCTION nats3.whole_hours(replays text[]) RETURNS TABLE(replay text, hour text)
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 WITH done AS (
          SELECT r.id,
             r.archive_id,
             r.created_at,
             c.hour,
             count(*) AS chunks
            FROM ((nats3.replay r
              JOIN nats3.replay_chunk p ON ((p.replay_id = r.id)))
              JOIN nats3.chunk c ON ((c.id = p.chunk_id)))
           WHERE ((r.id = ANY (whole_hours.replays)) AND (r.folded_at IS NULL))
           GROUP BY r.id, c.hour
          HAVING bool_and(((p.state = 'done'::text) AND (p.selected = p.planned)))
         )
  SELECT d.id,
     d.hour
    FROM done d
   WHERE (d.chunks = (( SELECT count(*) AS count
            FROM nats3.chunk c
           WHERE ((c.archive_id = d.archive_id) AND (c.hour = d.hour) AND (c.deleted_at IS NULL) AND (c.committed_at <= d.created_at))) + ( SELECT count(*) AS count
            FROM nats3.chunk c
           WHERE ((c.archive_id = d.archive_id) AND (c.hour = d.hour) AND (c.deleted_at > d.created_at) AND (c.committed_at <= d.created_at)))))
 UNION ALL
  SELECT r.id,
     h.hour
    FROM (nats3.replay r
      CROSS JOIN LATERAL unnest(r.whole_hours) h(hour))
   WHERE ((r.id = ANY (whole_hours.replays)) AND (r.folded_at IS NOT NULL));
END;


--
-- Name: alembic_version alembic_version_pkc; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);


--
-- Name: archive_hours archive_hours_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.archive_hours
    ADD CONSTRAINT archive_hours_pkey PRIMARY KEY (archive_id);


--
-- Name: archive archive_job_id_key; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.archive
    ADD CONSTRAINT archive_job_id_key UNIQUE (job_id);


--
-- Name: archive archive_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.archive
    ADD CONSTRAINT archive_pkey PRIMARY KEY (id);


--
-- Name: archive_table archive_table_once; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.archive_table
    ADD CONSTRAINT archive_table_once UNIQUE (catalog, identifier);


--
-- Name: archive_table archive_table_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.archive_table
    ADD CONSTRAINT archive_table_pkey PRIMARY KEY (archive_id);


--
-- Name: capture capture_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.capture
    ADD CONSTRAINT capture_pkey PRIMARY KEY (id);


--
-- Name: chunk_bloom chunk_bloom_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.chunk_bloom
    ADD CONSTRAINT chunk_bloom_pkey PRIMARY KEY (chunk_id);


--
-- Name: chunk chunk_no_overlap; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.chunk
    ADD CONSTRAINT chunk_no_overlap EXCLUDE USING gist (archive_id WITH =, incarnation_id WITH =, seqs WITH &&) WHERE ((deleted_at IS NULL));


--
-- Name: chunk chunk_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.chunk
    ADD CONSTRAINT chunk_pkey PRIMARY KEY (id);


--
-- Name: copy_task copy_task_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.copy_task
    ADD CONSTRAINT copy_task_pkey PRIMARY KEY (bucket, key);


--
-- Name: coverage coverage_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.coverage
    ADD CONSTRAINT coverage_pkey PRIMARY KEY (archive_id, incarnation_id);


--
-- Name: durable durable_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.durable
    ADD CONSTRAINT durable_pkey PRIMARY KEY (archive_id);


--
-- Name: erasure erasure_once; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.erasure
    ADD CONSTRAINT erasure_once UNIQUE (archive_id, digest);


--
-- Name: erasure erasure_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.erasure
    ADD CONSTRAINT erasure_pkey PRIMARY KEY (id);


--
-- Name: event event_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (id);


--
-- Name: export_hour export_hour_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.export_hour
    ADD CONSTRAINT export_hour_pkey PRIMARY KEY (export_id, hour);


--
-- Name: export export_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.export
    ADD CONSTRAINT export_pkey PRIMARY KEY (id);


--
-- Name: former_copy former_copy_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.former_copy
    ADD CONSTRAINT former_copy_pkey PRIMARY KEY (archive_id, bucket);


--
-- Name: gap gap_no_overlap; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.gap
    ADD CONSTRAINT gap_no_overlap EXCLUDE USING gist (archive_id WITH =, incarnation_id WITH =, seqs WITH &&);


--
-- Name: gap gap_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.gap
    ADD CONSTRAINT gap_pkey PRIMARY KEY (id);


--
-- Name: gap_sum gap_sum_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.gap_sum
    ADD CONSTRAINT gap_sum_pkey PRIMARY KEY (archive_id, incarnation_id, reason);


--
-- Name: hold hold_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.hold
    ADD CONSTRAINT hold_pkey PRIMARY KEY (id);


--
-- Name: hour hour_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.hour
    ADD CONSTRAINT hour_pkey PRIMARY KEY (archive_id, hour, incarnation_id);


--
-- Name: iceberg_namespace_properties iceberg_namespace_properties_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.iceberg_namespace_properties
    ADD CONSTRAINT iceberg_namespace_properties_pkey PRIMARY KEY (catalog_name, namespace, property_key);


--
-- Name: iceberg_tables iceberg_tables_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.iceberg_tables
    ADD CONSTRAINT iceberg_tables_pkey PRIMARY KEY (catalog_name, table_namespace, table_name);


--
-- Name: incarnation incarnation_once; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.incarnation
    ADD CONSTRAINT incarnation_once UNIQUE (stream, created_ns);


--
-- Name: incarnation incarnation_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.incarnation
    ADD CONSTRAINT incarnation_pkey PRIMARY KEY (id);


--
-- Name: merged_chunk merged_chunk_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.merged_chunk
    ADD CONSTRAINT merged_chunk_pkey PRIMARY KEY (chunk_id);


--
-- Name: open_erasure open_erasure_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.open_erasure
    ADD CONSTRAINT open_erasure_pkey PRIMARY KEY (erasure_id);


--
-- Name: refused_removal refused_removal_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.refused_removal
    ADD CONSTRAINT refused_removal_pkey PRIMARY KEY (bucket, key);


--
-- Name: removal removal_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.removal
    ADD CONSTRAINT removal_pkey PRIMARY KEY (bucket, key);


--
-- Name: replay_attempt replay_attempt_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay_attempt
    ADD CONSTRAINT replay_attempt_pkey PRIMARY KEY (replay_id, attempt);


--
-- Name: replay_chunk replay_chunk_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay_chunk
    ADD CONSTRAINT replay_chunk_pkey PRIMARY KEY (replay_id, chunk_id);


--
-- Name: replay replay_job; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay
    ADD CONSTRAINT replay_job UNIQUE (job_id);


--
-- Name: replay_target replay_target_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay_target
    ADD CONSTRAINT replay_target_pkey PRIMARY KEY (replay_id, stream, created_ns);


--
-- Name: seal seal_once; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.seal
    ADD CONSTRAINT seal_once UNIQUE (archive_id, hour, number);


--
-- Name: seal seal_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.seal
    ADD CONSTRAINT seal_pkey PRIMARY KEY (id);


--
-- Name: total total_pkey; Type: CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.total
    ADD CONSTRAINT total_pkey PRIMARY KEY (archive_id, what, label);


--
-- Name: alembic_version alembic_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);


--
-- Name: asset_check_executions asset_check_executions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_check_executions
    ADD CONSTRAINT asset_check_executions_pkey PRIMARY KEY (id);


--
-- Name: asset_daemon_asset_evaluations asset_daemon_asset_evaluations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_daemon_asset_evaluations
    ADD CONSTRAINT asset_daemon_asset_evaluations_pkey PRIMARY KEY (id);


--
-- Name: asset_event_tags asset_event_tags_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_event_tags
    ADD CONSTRAINT asset_event_tags_pkey PRIMARY KEY (id);


--
-- Name: asset_keys asset_keys_asset_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_keys
    ADD CONSTRAINT asset_keys_asset_key_key UNIQUE (asset_key);


--
-- Name: asset_keys asset_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.asset_keys
    ADD CONSTRAINT asset_keys_pkey PRIMARY KEY (id);


--
-- Name: backfill_tags backfill_tags_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.backfill_tags
    ADD CONSTRAINT backfill_tags_pkey PRIMARY KEY (id);


--
-- Name: bulk_actions bulk_actions_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.bulk_actions
    ADD CONSTRAINT bulk_actions_key_key UNIQUE (key);


--
-- Name: bulk_actions bulk_actions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.bulk_actions
    ADD CONSTRAINT bulk_actions_pkey PRIMARY KEY (id);


--
-- Name: concurrency_limits concurrency_limits_concurrency_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.concurrency_limits
    ADD CONSTRAINT concurrency_limits_concurrency_key_key UNIQUE (concurrency_key);


--
-- Name: concurrency_limits concurrency_limits_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.concurrency_limits
    ADD CONSTRAINT concurrency_limits_pkey PRIMARY KEY (id);


--
-- Name: concurrency_slots concurrency_slots_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.concurrency_slots
    ADD CONSTRAINT concurrency_slots_pkey PRIMARY KEY (id);


--
-- Name: daemon_heartbeats daemon_heartbeats_daemon_type_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.daemon_heartbeats
    ADD CONSTRAINT daemon_heartbeats_daemon_type_key UNIQUE (daemon_type);


--
-- Name: daemon_heartbeats daemon_heartbeats_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.daemon_heartbeats
    ADD CONSTRAINT daemon_heartbeats_pkey PRIMARY KEY (id);


--
-- Name: dynamic_partitions dynamic_partitions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.dynamic_partitions
    ADD CONSTRAINT dynamic_partitions_pkey PRIMARY KEY (id);


--
-- Name: event_logs event_logs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_logs
    ADD CONSTRAINT event_logs_pkey PRIMARY KEY (id);


--
-- Name: instance_info instance_info_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.instance_info
    ADD CONSTRAINT instance_info_pkey PRIMARY KEY (id);


--
-- Name: instigators instigators_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.instigators
    ADD CONSTRAINT instigators_pkey PRIMARY KEY (id);


--
-- Name: instigators instigators_selector_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.instigators
    ADD CONSTRAINT instigators_selector_id_key UNIQUE (selector_id);


--
-- Name: job_ticks job_ticks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_ticks
    ADD CONSTRAINT job_ticks_pkey PRIMARY KEY (id);


--
-- Name: jobs jobs_job_origin_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_job_origin_id_key UNIQUE (job_origin_id);


--
-- Name: jobs jobs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);


--
-- Name: kvs kvs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.kvs
    ADD CONSTRAINT kvs_pkey PRIMARY KEY (id);


--
-- Name: pending_steps pending_steps_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pending_steps
    ADD CONSTRAINT pending_steps_pkey PRIMARY KEY (id);


--
-- Name: run_tags run_tags_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.run_tags
    ADD CONSTRAINT run_tags_pkey PRIMARY KEY (id);


--
-- Name: runs runs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);


--
-- Name: runs runs_run_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_run_id_key UNIQUE (run_id);


--
-- Name: secondary_indexes secondary_indexes_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.secondary_indexes
    ADD CONSTRAINT secondary_indexes_name_key UNIQUE (name);


--
-- Name: secondary_indexes secondary_indexes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.secondary_indexes
    ADD CONSTRAINT secondary_indexes_pkey PRIMARY KEY (id);


--
-- Name: snapshots snapshots_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (id);


--
-- Name: snapshots snapshots_snapshot_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_snapshot_id_key UNIQUE (snapshot_id);


--
-- Name: archive_durable; Type: INDEX; Schema: nats3; Owner: -
--

CREATE UNIQUE INDEX archive_durable ON nats3.archive USING btree (stream, durable) WHERE (deleted_at IS NULL);


--
-- Name: archive_job_name; Type: INDEX; Schema: nats3; Owner: -
--

CREATE UNIQUE INDEX archive_job_name ON nats3.archive USING btree (COALESCE(job_name, name)) WHERE (deleted_at IS NULL);


--
-- Name: archive_name; Type: INDEX; Schema: nats3; Owner: -
--

CREATE UNIQUE INDEX archive_name ON nats3.archive USING btree (name) WHERE (deleted_at IS NULL);


--
-- Name: capture_completed; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX capture_completed ON nats3.capture USING btree (archive_id, id) WHERE (error_kind IS NULL);


--
-- Name: capture_order; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX capture_order ON nats3.capture USING btree (archive_id, id);


--
-- Name: chunk_dead; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_dead ON nats3.chunk USING btree (archive_id, id) WHERE (deleted_at IS NOT NULL);


--
-- Name: chunk_dead_hour; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_dead_hour ON nats3.chunk USING btree (archive_id, hour) WHERE (deleted_at IS NOT NULL);


--
-- Name: chunk_dead_object; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_dead_object ON nats3.chunk USING btree (bucket, key) WHERE (deleted_at IS NOT NULL);


--
-- Name: chunk_dead_seqs; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_dead_seqs ON nats3.chunk USING gist (archive_id, incarnation_id, seqs) WHERE (deleted_at IS NOT NULL);


--
-- Name: chunk_erased; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_erased ON nats3.chunk USING btree (archive_id) WHERE ((deleted_at IS NULL) AND (absent_reason = 'erased'::text));


--
-- Name: chunk_hour; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_hour ON nats3.chunk USING btree (archive_id, hour) WHERE (deleted_at IS NULL);


--
-- Name: chunk_key; Type: INDEX; Schema: nats3; Owner: -
--

CREATE UNIQUE INDEX chunk_key ON nats3.chunk USING btree (bucket, key) WHERE (deleted_at IS NULL);


--
-- Name: chunk_old; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_old ON nats3.chunk USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);


--
-- Name: chunk_order; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_order ON nats3.chunk USING btree (archive_id, incarnation_id, lower(seqs)) WHERE (deleted_at IS NULL);


--
-- Name: chunk_reach; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_reach ON nats3.chunk USING gist (archive_id, incarnation_id, lower(seqs), last_ns) WHERE (deleted_at IS NULL);


--
-- Name: chunk_retired; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_retired ON nats3.chunk USING btree (archive_id, retired_revision) WHERE (deleted_at IS NOT NULL);


--
-- Name: chunk_subject_chunk; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_subject_chunk ON nats3.chunk_subject USING btree (chunk_id);


--
-- Name: chunk_subject_order; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_subject_order ON nats3.chunk_subject USING btree (archive_id, incarnation_id, nats3.subject_key(subject), first_seq);


--
-- Name: chunk_times; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_times ON nats3.chunk USING gist (archive_id, int8range(first_ns, last_ns, '[]'::text)) WHERE (deleted_at IS NULL);


--
-- Name: chunk_uncounted; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX chunk_uncounted ON nats3.chunk USING btree (archive_id, incarnation_id, lower(seqs)) WHERE ((deleted_at IS NULL) AND (subjects IS NULL));


--
-- Name: copy_task_hour; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX copy_task_hour ON nats3.copy_task USING btree (archive_id, hour);


--
-- Name: copy_task_oldest; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX copy_task_oldest ON nats3.copy_task USING btree (archive_id, since);


--
-- Name: erased_range_erasure; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX erased_range_erasure ON nats3.erased_range USING btree (erasure_id);


--
-- Name: erased_range_seqs; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX erased_range_seqs ON nats3.erased_range USING gist (archive_id, created_ns, seqs);


--
-- Name: event_old; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX event_old ON nats3.event USING btree (happened_at) WHERE (what = ANY (ARRAY['expired'::text, 'removed'::text, 'swept'::text, 'repaired'::text, 'adopted'::text, 'compacted'::text]));


--
-- Name: event_order; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX event_order ON nats3.event USING btree (archive_id, happened_at DESC, id DESC);


--
-- Name: export_changes; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX export_changes ON nats3.export USING btree (archive_id, change);


--
-- Name: export_hour_changes; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX export_hour_changes ON nats3.export_hour USING btree (archive_id, change);


--
-- Name: export_name; Type: INDEX; Schema: nats3; Owner: -
--

CREATE UNIQUE INDEX export_name ON nats3.export USING btree (archive_id, name) WHERE (deleted_at IS NULL);


--
-- Name: export_place; Type: INDEX; Schema: nats3; Owner: -
--

CREATE UNIQUE INDEX export_place ON nats3.export USING btree (place) WHERE (deleted_at IS NULL);


--
-- Name: gap_hours; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX gap_hours ON nats3.gap USING gist (archive_id, hours) WHERE (first_hour IS NOT NULL);


--
-- Name: gap_order; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX gap_order ON nats3.gap USING btree (archive_id, incarnation_id, lower(seqs));


--
-- Name: gap_retired; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX gap_retired ON nats3.gap USING btree (archive_id, incarnation_id, lower(seqs)) WHERE nats3.is_removed(reason);


--
-- Name: gap_unjoined; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX gap_unjoined ON nats3.gap USING btree (recorded_at) WHERE (nats3.is_removed(reason) AND (NOT is_joined));


--
-- Name: hold_name; Type: INDEX; Schema: nats3; Owner: -
--

CREATE UNIQUE INDEX hold_name ON nats3.hold USING btree (archive_id, name) WHERE (released_at IS NULL);


--
-- Name: hold_old; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX hold_old ON nats3.hold USING btree (released_at) WHERE (released_at IS NOT NULL);


--
-- Name: hour_seqs; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX hour_seqs ON nats3.hour USING btree (archive_id, incarnation_id, first_seq);


--
-- Name: hour_span; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX hour_span ON nats3.hour USING gist (archive_id, incarnation_id, int8range(first_seq, last_seq, '[]'::text));


--
-- Name: merged_chunk_into; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX merged_chunk_into ON nats3.merged_chunk USING btree (into_id);


--
-- Name: removal_removed; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX removal_removed ON nats3.removal USING btree (removed_at) WHERE (removed_at IS NOT NULL);


--
-- Name: replay_archive; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX replay_archive ON nats3.replay USING btree (archive_id, created_at);


--
-- Name: replay_changed; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX replay_changed ON nats3.replay USING btree (archive_id, updated_at);


--
-- Name: replay_chunk_chunk; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX replay_chunk_chunk ON nats3.replay_chunk USING btree (chunk_id);


--
-- Name: replay_chunk_order; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX replay_chunk_order ON nats3.replay_chunk USING btree (replay_id, "position");


--
-- Name: replay_chunk_pending; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX replay_chunk_pending ON nats3.replay_chunk USING btree (replay_id, "position") WHERE (state <> 'done'::text);


--
-- Name: replay_newest; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX replay_newest ON nats3.replay USING btree (created_at);


--
-- Name: replay_unfolded; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX replay_unfolded ON nats3.replay USING btree (created_at) WHERE (folded_at IS NULL);


--
-- Name: seal_newest; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX seal_newest ON nats3.seal USING btree (archive_id, id);


--
-- Name: seal_object; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX seal_object ON nats3.seal USING btree (bucket, key);


--
-- Name: seal_superseded; Type: INDEX; Schema: nats3; Owner: -
--

CREATE INDEX seal_superseded ON nats3.seal USING btree (superseded_at) WHERE (superseded_at IS NOT NULL);


--
-- Name: idx_asset_check_executions; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_asset_check_executions ON public.asset_check_executions USING btree (asset_key, check_name, materialization_event_storage_id, partition);


--
-- Name: idx_asset_check_executions_unique; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX idx_asset_check_executions_unique ON public.asset_check_executions USING btree (asset_key, check_name, run_id, partition);


--
-- Name: idx_asset_daemon_asset_evaluations_asset_key_evaluation_id; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX idx_asset_daemon_asset_evaluations_asset_key_evaluation_id ON public.asset_daemon_asset_evaluations USING btree (asset_key, evaluation_id);


--
-- Name: idx_asset_event_tags; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_asset_event_tags ON public.asset_event_tags USING btree (asset_key, key, value);


--
-- Name: idx_asset_event_tags_event_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_asset_event_tags_event_id ON public.asset_event_tags USING btree (event_id);


--
-- Name: idx_backfill_tags_backfill_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_backfill_tags_backfill_id ON public.backfill_tags USING btree (backfill_id, id);


--
-- Name: idx_bulk_actions; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_bulk_actions ON public.bulk_actions USING btree (key);


--
-- Name: idx_bulk_actions_action_type; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_bulk_actions_action_type ON public.bulk_actions USING btree (action_type);


--
-- Name: idx_bulk_actions_selector_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_bulk_actions_selector_id ON public.bulk_actions USING btree (selector_id);


--
-- Name: idx_bulk_actions_status; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_bulk_actions_status ON public.bulk_actions USING btree (status);


--
-- Name: idx_dynamic_partitions; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX idx_dynamic_partitions ON public.dynamic_partitions USING btree (partitions_def_name, partition);


--
-- Name: idx_event_type; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_event_type ON public.event_logs USING btree (dagster_event_type, id);


--
-- Name: idx_events_by_asset; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_events_by_asset ON public.event_logs USING btree (asset_key, dagster_event_type, id) WHERE (asset_key IS NOT NULL);


--
-- Name: idx_events_by_asset_partition; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_events_by_asset_partition ON public.event_logs USING btree (asset_key, dagster_event_type, partition, id) WHERE ((asset_key IS NOT NULL) AND (partition IS NOT NULL));


--
-- Name: idx_events_by_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_events_by_run_id ON public.event_logs USING btree (run_id, id);


--
-- Name: idx_job_tick_status; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_job_tick_status ON public.job_ticks USING btree (job_origin_id, status);


--
-- Name: idx_job_tick_timestamp; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_job_tick_timestamp ON public.job_ticks USING btree (job_origin_id, "timestamp");


--
-- Name: idx_kvs_keys_unique; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX idx_kvs_keys_unique ON public.kvs USING btree (key);


--
-- Name: idx_pending_steps; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX idx_pending_steps ON public.pending_steps USING btree (concurrency_key, run_id, step_key);


--
-- Name: idx_run_partitions; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_run_partitions ON public.runs USING btree (partition_set, partition);


--
-- Name: idx_run_range; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_run_range ON public.runs USING btree (status, update_timestamp, create_timestamp);


--
-- Name: idx_run_status; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_run_status ON public.runs USING btree (status);


--
-- Name: idx_run_tags; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_run_tags ON public.run_tags USING btree (key, value);


--
-- Name: idx_run_tags_run_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_run_tags_run_idx ON public.run_tags USING btree (run_id, id);


--
-- Name: idx_runs_by_backfill_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_runs_by_backfill_id ON public.runs USING btree (backfill_id, id);


--
-- Name: idx_runs_by_job; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_runs_by_job ON public.runs USING btree (pipeline_name, id);


--
-- Name: idx_step_key; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_step_key ON public.event_logs USING btree (step_key);


--
-- Name: idx_tick_selector_timestamp; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_tick_selector_timestamp ON public.job_ticks USING btree (selector_id, "timestamp");


--
-- Name: ix_asset_daemon_asset_evaluations_evaluation_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_asset_daemon_asset_evaluations_evaluation_id ON public.asset_daemon_asset_evaluations USING btree (evaluation_id);


--
-- Name: ix_instigators_instigator_type; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_instigators_instigator_type ON public.instigators USING btree (instigator_type);


--
-- Name: ix_job_ticks_job_origin_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_job_ticks_job_origin_id ON public.job_ticks USING btree (job_origin_id);


--
-- Name: ix_jobs_job_type; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_jobs_job_type ON public.jobs USING btree (job_type);


--
-- Name: archive archive_changed; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER archive_changed AFTER UPDATE ON nats3.archive FOR EACH ROW WHEN (((to_jsonb(old.*) - 'revision'::text) IS DISTINCT FROM (to_jsonb(new.*) - 'revision'::text))) EXECUTE FUNCTION nats3.archive_noted();


--
-- Name: archive archive_created; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER archive_created AFTER INSERT ON nats3.archive FOR EACH ROW EXECUTE FUNCTION nats3.archive_noted();


--
-- Name: archive archive_held; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER archive_held BEFORE UPDATE OF deleted_at ON nats3.archive FOR EACH ROW WHEN (((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL))) EXECUTE FUNCTION nats3.archive_held();


--
-- Name: archive archive_updated; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER archive_updated BEFORE UPDATE ON nats3.archive FOR EACH ROW WHEN (((to_jsonb(old.*) - '{revision,updated_at,deleted_at}'::text[]) IS DISTINCT FROM (to_jsonb(new.*) - '{revision,updated_at,deleted_at}'::text[]))) EXECUTE FUNCTION nats3.archive_updated();


--
-- Name: capture capture_counted; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER capture_counted AFTER INSERT ON nats3.capture REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.capture_counted();


--
-- Name: chunk chunk_absent_reason_immutable; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_absent_reason_immutable BEFORE UPDATE OF absent_reason ON nats3.chunk FOR EACH ROW EXECUTE FUNCTION nats3.refuse();


--
-- Name: chunk chunk_added; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_added AFTER INSERT ON nats3.chunk REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.chunk_added();


--
-- Name: chunk chunk_copied; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_copied AFTER INSERT ON nats3.chunk REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.copy_added();


--
-- Name: chunk chunk_counted; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_counted AFTER INSERT ON nats3.chunk REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.chunk_counted();


--
-- Name: chunk chunk_held; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE CONSTRAINT TRIGGER chunk_held AFTER UPDATE ON nats3.chunk DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL) AND nats3.is_held(new.archive_id, new.hour, new.seqs))) EXECUTE FUNCTION nats3.chunk_held();


--
-- Name: chunk chunk_immutable; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_immutable BEFORE UPDATE OF id, archive_id, incarnation_id, hour, seqs, messages, deleted, first_ns, last_ns, payload_bytes, largest_bytes, stored_bytes, sha256, bucket, key, subjects, dagster_run_id, committed_at, captured_at ON nats3.chunk FOR EACH ROW EXECUTE FUNCTION nats3.refuse();


--
-- Name: chunk chunk_live_kept; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_live_kept BEFORE DELETE ON nats3.chunk FOR EACH ROW WHEN ((old.deleted_at IS NULL)) EXECUTE FUNCTION nats3.refuse();


--
-- Name: chunk chunk_minutes_immutable; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_minutes_immutable BEFORE UPDATE OF minutes ON nats3.chunk FOR EACH ROW EXECUTE FUNCTION nats3.refuse();


--
-- Name: chunk chunk_not_erased; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_not_erased AFTER INSERT ON nats3.chunk REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.chunk_not_erased();


--
-- Name: chunk chunk_retired; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_retired AFTER UPDATE ON nats3.chunk REFERENCING NEW TABLE AS retired FOR EACH STATEMENT EXECUTE FUNCTION nats3.chunk_retired();


--
-- Name: chunk chunk_retired_once; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER chunk_retired_once BEFORE UPDATE OF deleted_at, retired_revision ON nats3.chunk FOR EACH ROW WHEN (((old.deleted_at IS NOT NULL) OR (new.deleted_at IS NULL))) EXECUTE FUNCTION nats3.refuse();


--
-- Name: archive copies_changed; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER copies_changed AFTER UPDATE OF copies ON nats3.archive FOR EACH ROW WHEN ((old.copies IS DISTINCT FROM new.copies)) EXECUTE FUNCTION nats3.copies_changed();


--
-- Name: archive copies_left; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER copies_left AFTER UPDATE OF copies ON nats3.archive FOR EACH ROW WHEN ((old.copies IS DISTINCT FROM new.copies)) EXECUTE FUNCTION nats3.copies_left();


--
-- Name: removal copy_removed; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER copy_removed AFTER UPDATE OF removed_at ON nats3.removal FOR EACH ROW WHEN (((old.removed_at IS NULL) AND (new.removed_at IS NOT NULL))) EXECUTE FUNCTION nats3.copy_removed();


--
-- Name: erasure erasure_immutable; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER erasure_immutable BEFORE UPDATE ON nats3.erasure FOR EACH ROW EXECUTE FUNCTION nats3.refuse();


--
-- Name: gap gap_added; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER gap_added AFTER INSERT ON nats3.gap REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.gap_added();


--
-- Name: gap gap_counted; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER gap_counted AFTER INSERT ON nats3.gap REFERENCING NEW TABLE AS added FOR EACH STATEMENT WHEN ((pg_trigger_depth() = 0)) EXECUTE FUNCTION nats3.gap_counted();


--
-- Name: gap gap_immutable; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER gap_immutable BEFORE DELETE OR UPDATE OF archive_id, incarnation_id, reason, first_hour, last_hour ON nats3.gap FOR EACH ROW WHEN (((pg_trigger_depth() = 0) AND (NOT nats3.is_removed(old.reason)))) EXECUTE FUNCTION nats3.refuse();


--
-- Name: gap gap_placed; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER gap_placed BEFORE INSERT OR UPDATE OF first_hour ON nats3.gap FOR EACH ROW EXECUTE FUNCTION nats3.gap_placed();


--
-- Name: hold hold_immutable; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER hold_immutable BEFORE UPDATE OF id, archive_id, name, hours, seqs, reason, actor, created_at ON nats3.hold FOR EACH ROW EXECUTE FUNCTION nats3.refuse();


--
-- Name: hold hold_kept; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER hold_kept BEFORE DELETE ON nats3.hold FOR EACH ROW WHEN ((old.released_at IS NULL)) EXECUTE FUNCTION nats3.refuse();


--
-- Name: hold hold_placed; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER hold_placed BEFORE INSERT ON nats3.hold FOR EACH ROW EXECUTE FUNCTION nats3.hold_placed();


--
-- Name: hold hold_released; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER hold_released AFTER UPDATE ON nats3.hold FOR EACH ROW WHEN (((old.released_at IS NULL) AND (new.released_at IS NOT NULL))) EXECUTE FUNCTION nats3.hold_released();


--
-- Name: archive reopen_compacted; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER reopen_compacted AFTER UPDATE OF compact_below ON nats3.archive FOR EACH ROW WHEN ((old.compact_below <> new.compact_below)) EXECUTE FUNCTION nats3.reopen_compacted();


--
-- Name: replay_chunk replay_chunk_counted; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER replay_chunk_counted AFTER UPDATE ON nats3.replay_chunk REFERENCING OLD TABLE AS pending NEW TABLE AS done FOR EACH STATEMENT EXECUTE FUNCTION nats3.replay_chunk_counted();


--
-- Name: replay replay_counted; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER replay_counted AFTER UPDATE OF published, progress_published ON nats3.replay FOR EACH ROW WHEN (((new.published + new.progress_published) > (old.published + old.progress_published))) EXECUTE FUNCTION nats3.replay_counted();


--
-- Name: replay replay_updated; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER replay_updated BEFORE UPDATE ON nats3.replay FOR EACH ROW EXECUTE FUNCTION nats3.replay_updated();


--
-- Name: seal seal_copied; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER seal_copied AFTER INSERT ON nats3.seal REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.copy_added();


--
-- Name: seal seal_counted; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER seal_counted AFTER INSERT ON nats3.seal REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.seal_counted();


--
-- Name: seal seal_holds; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER seal_holds AFTER INSERT ON nats3.seal FOR EACH ROW EXECUTE FUNCTION nats3.seal_holds();


--
-- Name: seal seal_immutable; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER seal_immutable BEFORE UPDATE OF id, archive_id, hour, number, revision, chunks, losses, messages, gaps, content, bucket, key, sha256, stored_bytes, actor, dagster_run_id, sealed_at ON nats3.seal FOR EACH ROW EXECUTE FUNCTION nats3.refuse();


--
-- Name: seal seal_kept; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER seal_kept BEFORE DELETE ON nats3.seal FOR EACH ROW EXECUTE FUNCTION nats3.seal_kept();


--
-- Name: chunk_subject subjects_added; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER subjects_added AFTER INSERT ON nats3.chunk_subject REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nats3.subjects_added();


--
-- Name: total total_grows; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER total_grows BEFORE UPDATE ON nats3.total FOR EACH ROW WHEN (((new.value < old.value) OR ((new.archive_id <> old.archive_id) OR (new.what <> old.what) OR (new.label <> old.label)))) EXECUTE FUNCTION nats3.total_refuse();


--
-- Name: total total_kept; Type: TRIGGER; Schema: nats3; Owner: -
--

CREATE TRIGGER total_kept BEFORE DELETE ON nats3.total FOR EACH ROW EXECUTE FUNCTION nats3.total_refuse();


--
-- Name: archive_hours archive_hours_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.archive_hours
    ADD CONSTRAINT archive_hours_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: archive_table archive_table_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.archive_table
    ADD CONSTRAINT archive_table_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: capture capture_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.capture
    ADD CONSTRAINT capture_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: chunk chunk_archive_id_incarnation_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.chunk
    ADD CONSTRAINT chunk_archive_id_incarnation_id_fkey FOREIGN KEY (archive_id, incarnation_id) REFERENCES nats3.coverage(archive_id, incarnation_id);


--
-- Name: chunk_bloom chunk_bloom_chunk_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.chunk_bloom
    ADD CONSTRAINT chunk_bloom_chunk_id_fkey FOREIGN KEY (chunk_id) REFERENCES nats3.chunk(id) ON DELETE CASCADE;


--
-- Name: copy_task copy_task_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.copy_task
    ADD CONSTRAINT copy_task_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: coverage coverage_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.coverage
    ADD CONSTRAINT coverage_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: coverage coverage_incarnation_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.coverage
    ADD CONSTRAINT coverage_incarnation_id_fkey FOREIGN KEY (incarnation_id) REFERENCES nats3.incarnation(id);


--
-- Name: durable durable_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.durable
    ADD CONSTRAINT durable_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: erased_range erased_range_erasure_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.erased_range
    ADD CONSTRAINT erased_range_erasure_id_fkey FOREIGN KEY (erasure_id) REFERENCES nats3.erasure(id);


--
-- Name: erasure erasure_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.erasure
    ADD CONSTRAINT erasure_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: event event_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.event
    ADD CONSTRAINT event_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: export export_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.export
    ADD CONSTRAINT export_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: export_hour export_hour_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.export_hour
    ADD CONSTRAINT export_hour_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: export_hour export_hour_export_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.export_hour
    ADD CONSTRAINT export_hour_export_id_fkey FOREIGN KEY (export_id) REFERENCES nats3.export(id);


--
-- Name: former_copy former_copy_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.former_copy
    ADD CONSTRAINT former_copy_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: gap gap_archive_id_incarnation_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.gap
    ADD CONSTRAINT gap_archive_id_incarnation_id_fkey FOREIGN KEY (archive_id, incarnation_id) REFERENCES nats3.coverage(archive_id, incarnation_id);


--
-- Name: gap_sum gap_sum_archive_id_incarnation_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.gap_sum
    ADD CONSTRAINT gap_sum_archive_id_incarnation_id_fkey FOREIGN KEY (archive_id, incarnation_id) REFERENCES nats3.coverage(archive_id, incarnation_id);


--
-- Name: hold hold_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.hold
    ADD CONSTRAINT hold_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: hour hour_archive_id_incarnation_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.hour
    ADD CONSTRAINT hour_archive_id_incarnation_id_fkey FOREIGN KEY (archive_id, incarnation_id) REFERENCES nats3.coverage(archive_id, incarnation_id);


--
-- Name: merged_chunk merged_chunk_chunk_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.merged_chunk
    ADD CONSTRAINT merged_chunk_chunk_id_fkey FOREIGN KEY (chunk_id) REFERENCES nats3.chunk(id) ON DELETE CASCADE;


--
-- Name: merged_chunk merged_chunk_into_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.merged_chunk
    ADD CONSTRAINT merged_chunk_into_id_fkey FOREIGN KEY (into_id) REFERENCES nats3.chunk(id) ON DELETE CASCADE;


--
-- Name: open_erasure open_erasure_erasure_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.open_erasure
    ADD CONSTRAINT open_erasure_erasure_id_fkey FOREIGN KEY (erasure_id) REFERENCES nats3.erasure(id);


--
-- Name: replay replay_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay
    ADD CONSTRAINT replay_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: replay_attempt replay_attempt_replay_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay_attempt
    ADD CONSTRAINT replay_attempt_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES nats3.replay(id) ON DELETE CASCADE;


--
-- Name: replay_chunk replay_chunk_chunk_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay_chunk
    ADD CONSTRAINT replay_chunk_chunk_id_fkey FOREIGN KEY (chunk_id) REFERENCES nats3.chunk(id);


--
-- Name: replay_chunk replay_chunk_replay_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay_chunk
    ADD CONSTRAINT replay_chunk_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES nats3.replay(id) ON DELETE CASCADE;


--
-- Name: replay_target replay_target_replay_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.replay_target
    ADD CONSTRAINT replay_target_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES nats3.replay(id) ON DELETE CASCADE;


--
-- Name: seal seal_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.seal
    ADD CONSTRAINT seal_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: total total_archive_id_fkey; Type: FK CONSTRAINT; Schema: nats3; Owner: -
--

ALTER TABLE ONLY nats3.total
    ADD CONSTRAINT total_archive_id_fkey FOREIGN KEY (archive_id) REFERENCES nats3.archive(id);


--
-- Name: runs fk_runs_snapshot_id_snapshots_snapshot_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT fk_runs_snapshot_id_snapshots_snapshot_id FOREIGN KEY (snapshot_id) REFERENCES public.snapshots(snapshot_id);


--
-- Name: run_tags run_tags_run_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.run_tags
    ADD CONSTRAINT run_tags_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(run_id) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--

\unrestrict ibyTXi7klh7b3sOhUeGfesBarOTPdJQXx8KY65qKjY4uMD1Wg4d4gheSrjb8oLx

