-- What a statement has beside DuckDB's own functions. headers: as on the wire, `NATS/1.0\r\nName: value\r\n\r\n`.

-- A payload as text; NULL where it is not UTF-8.
CREATE MACRO as_text(data) AS TRY(decode(data));

-- A payload as JSON; NULL where it is not.
CREATE MACRO as_json(data) AS TRY_CAST(TRY(decode(data)) AS JSON);

-- The lines of a header block that are headers.
CREATE MACRO header_lines(headers) AS
    list_filter(string_split(coalesce(TRY(decode(headers)), ''), chr(13) || chr(10))[2:], lambda line: contains(line, ':'));

-- All values of a header, in order; empty where there are none. Names are case-sensitive, as in NATS.
CREATE MACRO header_values(headers, name) AS
    list_transform(
        list_filter(header_lines(headers), lambda line: starts_with(line, name || ':')),
        lambda line: trim(line[length(name) + 2:])
    );

-- The first value of a header; NULL where there is none.
CREATE MACRO header(headers, name) AS header_values(headers, name)[1];

-- All headers: a map of lists.
CREATE MACRO header_map(headers) AS
    map_from_entries(list_transform(
        list_distinct(list_transform(header_lines(headers), lambda line: split_part(line, ':', 1))),
        lambda name: {'key': name, 'value': header_values(headers, name)}
    ));
