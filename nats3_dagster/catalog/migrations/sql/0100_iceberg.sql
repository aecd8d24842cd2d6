-- Archives as Iceberg tables.

-- Which archives have a table, and what was last written to it. The table itself is in an Iceberg catalog, which may be
-- this database or somebody else's.
create table nats3.archive_table (
    archive_id  bigint primary key references nats3.archive,
    -- A catalog by its name in pyiceberg's configuration, or by its address.
    catalog     text not null check (catalog <> ''),
    -- Namespace and name, joined by dots.
    identifier  text not null check (identifier <> ''),
    created_at  timestamptz not null default now(),
    -- What the table was last made equal to: the archive at this revision, with so many live chunks, of which last_chunk
    -- has the highest id. Null before that.
    revision    bigint,
    chunks      bigint,
    last_chunk  bigint,
    snapshot_id bigint,
    -- Where its metadata is, a URL; null where that has a login.
    location    text,
    synced_at   timestamptz,
    -- Ids of the newest snapshots that a process began to commit, noted before each commit. A snapshot of the table that
    -- is not among them was made by another program, or by nats3 with a newer copy of this database.
    begun       bigint[] not null default '{}',
    -- What another program did to the table since, as of seen_at, when the Iceberg catalog was last asked.
    changed     text,
    seen_at     timestamptz,
    -- Where the table's snapshot was made by nats3 with a newer copy of this database: what it lacked then, and had besides,
    -- file by file. Null else.
    seen_lacking bigint,
    seen_surplus bigint,
    -- Why it was not possible since; null where nothing failed.
    error       text,
    failed_at   timestamptz,
    constraint archive_table_once unique (catalog, identifier),
    constraint archive_table_synced check (
        (revision is null) = (synced_at is null) and (chunks is null) = (synced_at is null)
        and (last_chunk is null) = (synced_at is null)),
    constraint archive_table_failed check ((error is null) = (failed_at is null))
);

-- The two tables of an Iceberg catalog in SQL, as pyiceberg and Iceberg's JDBC catalog know them. They are made here
-- because the role that runs captures may not create tables. Only Iceberg's own clients read and write them.
create table nats3.iceberg_tables (
    catalog_name               varchar(255) not null,
    table_namespace            varchar(255) not null,
    table_name                 varchar(255) not null,
    metadata_location          varchar(1000),
    previous_metadata_location varchar(1000),
    iceberg_type               varchar(5),
    primary key (catalog_name, table_namespace, table_name)
);
create table nats3.iceberg_namespace_properties (
    catalog_name   varchar(255) not null,
    namespace      varchar(255) not null,
    property_key   varchar(255) not null,
    property_value varchar(1000) not null,
    primary key (catalog_name, namespace, property_key)
);
