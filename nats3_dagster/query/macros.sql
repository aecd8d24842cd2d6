-- What a statement has beside DuckDB's own functions. headers: as on the wire, `NATS/1.0\r\nName: value\r\n\r\n`.

-- A payload as text; NULL where it is not UTF-8.
CREATE MACRO as_text(data) AS TRY(decode(data));

-- A payload as JSON; NULL where it is not.
CREATE MACRO as_json(data) AS TRY_CAST(TRY(decode(data)) AS JSON);

-- A header block as text, with U+FFFD for what is not UTF-8, as Python's "replace" has it; empty for none. The text of a
-- BLOB has \xNN for each byte that is not printable ASCII, and for quotes and backslashes: it is cut into ASCII,
-- characters of several bytes, beginnings of such, and bad bytes.
CREATE MACRO header_text(headers) AS coalesce(
    TRY(decode(headers)),
    array_to_string(list_transform(
        regexp_extract_all(
            CAST(headers AS VARCHAR),
            '(?:[^\\]|\\x[0-7][0-9A-F])+'
            || '|\\x(?:C[2-9A-F]|D[0-9A-F])(?:\\x[89AB][0-9A-F])?'
            || '|\\xE0(?:\\x[AB][0-9A-F](?:\\x[89AB][0-9A-F])?)?|\\xED(?:\\x[89][0-9A-F](?:\\x[89AB][0-9A-F])?)?'
            || '|\\xE[1-9A-CEF](?:\\x[89AB][0-9A-F]){0,2}|\\xF0(?:\\x[9AB][0-9A-F](?:\\x[89AB][0-9A-F]){0,2})?'
            || '|\\xF[1-3](?:\\x[89AB][0-9A-F]){0,3}|\\xF4(?:\\x8[0-9A-F](?:\\x[89AB][0-9A-F]){0,2})?'
            || '|\\x[0-9A-F]{2}'
        ),
        lambda part: coalesce(TRY(decode(CAST(part AS BLOB))), chr(65533))
    ), ''),
    ''
);

-- The lines of a header block that are headers.
CREATE MACRO header_lines(headers) AS list_filter(
    string_split(header_text(headers), chr(13) || chr(10))[2:], lambda line: strpos(line, ':') > 1
);

-- All values of a header, in order; empty where there are none. Names are case-sensitive, as in NATS.
CREATE MACRO header_values(headers, name) AS
    list_transform(
        list_filter(header_lines(headers), lambda line: starts_with(line, name || ':')),
        lambda line: trim(line[length(name) + 2:], ' ' || chr(9))
    );

-- The first value of a header; NULL where there is none.
CREATE MACRO header(headers, name) AS header_values(headers, name)[1];

-- All headers: a map of lists.
CREATE MACRO header_map(headers) AS
    map_from_entries(list_transform(
        list_distinct(list_transform(header_lines(headers), lambda line: split_part(line, ':', 1))),
        lambda name: {'key': name, 'value': header_values(headers, name)}
    ));

-- True if a header has this value, byte for byte. name and value are BLOBs: their texts, and that of the block, escape
-- what is not printable ASCII in the same way, so that bytes are compared.
CREATE MACRO has_header(headers, name, value) AS
    len(list_filter(
        string_split(CAST(headers AS VARCHAR), '\x0D\x0A')[2:],
        lambda line: starts_with(line, CAST(name AS VARCHAR) || ':')
            AND regexp_replace(line[length(CAST(name AS VARCHAR)) + 2:], '^(?: |\\x09)+|(?: |\\x09)+$', '', 'g')
                = CAST(value AS VARCHAR)
    )) > 0;
