-- Clients write through functions only, which check what they are given. Run once, in one
-- transaction. Nothing here depends on settings that a client may change: whatever is called from
-- outside fixes them, the types of variables are named with their schema (a session keeps what
-- it found first), and a backslash is always chr(92).

-- Everything in the schema belongs to one role, whoever runs this.
DO $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', (SELECT r.rolname FROM pg_catalog.pg_namespace n
        JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'privledger'));
END $$;

-- What the entries up to `position` add up to. `open_window` and the like are NULL until set.
CREATE TABLE privledger.totals (
    ledger bigint PRIMARY KEY REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    position bigint NOT NULL DEFAULT -1,
    format integer NOT NULL DEFAULT 0,
    asked text NOT NULL DEFAULT '',
    kind text,
    renyi numeric,
    cap_units numeric,
    delta_cap_units numeric,
    units numeric NOT NULL DEFAULT 0,
    delta_units numeric NOT NULL DEFAULT 0,
    open_window text
);

-- What a filter that may be fixed has room for: the ledger itself (place -1), and each cap.
CREATE TABLE privledger.limits (
    ledger bigint NOT NULL REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    kind text NOT NULL,
    renyi numeric NOT NULL,
    place integer NOT NULL,
    cap_units numeric NOT NULL,
    delta_cap_units numeric NOT NULL,
    PRIMARY KEY (ledger, kind, renyi, place)
);

CREATE TABLE privledger.caps (
    ledger bigint NOT NULL REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    place integer NOT NULL,
    data text,
    labels jsonb NOT NULL,
    on_window text,
    per_window boolean NOT NULL,
    PRIMARY KEY (ledger, place)
);

-- What each cap counts; by window for those that start afresh in each, else under ''.
CREATE TABLE privledger.spent (
    ledger bigint NOT NULL REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    place integer NOT NULL,
    on_window text NOT NULL,
    units numeric NOT NULL,
    delta_units numeric NOT NULL,
    PRIMARY KEY (ledger, place, on_window)
);

CREATE TABLE privledger.windows (
    ledger bigint NOT NULL REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    name text NOT NULL,
    PRIMARY KEY (ledger, name)
);

CREATE TABLE privledger.scopes (
    ledger bigint NOT NULL REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    name text NOT NULL,
    data text,
    PRIMARY KEY (ledger, name)
);

-- `secret` is the sha256 of what only the holder has; NULL for grants older than this file.
CREATE TABLE privledger.grants (
    ledger bigint NOT NULL REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    name text NOT NULL,
    units numeric NOT NULL,
    delta_units numeric NOT NULL,
    places integer[] NOT NULL,
    on_window text,
    scope text,
    status text NOT NULL DEFAULT 'granted',
    releases bigint NOT NULL DEFAULT 0,
    secret bytea,
    session integer,
    lease_ends timestamptz,
    vector text,
    vector_sha256 text,
    PRIMARY KEY (ledger, name)
);

CREATE UNIQUE INDEX grants_vector ON privledger.grants (ledger, vector) WHERE vector IS NOT NULL;

-- 0001 again: names are qualified, and `repair` may move a head back.

CREATE OR REPLACE FUNCTION privledger.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'history is append-only' USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE FUNCTION privledger.follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.position = 0 AND NEW.previous = pg_catalog.repeat('0', 64) THEN
        RETURN NEW;
    END IF;
    PERFORM 1 FROM privledger.entries e
        WHERE e.ledger = NEW.ledger AND e.position = NEW.position - 1 AND e.hash = NEW.previous;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'an entry that does not follow the one before'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION privledger.forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.name <> OLD.name OR (NEW.position <= OLD.position
            AND pg_catalog.current_setting('privledger.repair', true) IS DISTINCT FROM OLD.name) THEN
        RAISE EXCEPTION 'the head of a history moves forward only'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

-- Texts. The one text of a value has sorted keys, no spaces, and nothing but printable ASCII.

-- A float as Python writes it: the shortest digits that give it back.
CREATE FUNCTION privledger.shortest(value double precision) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    written pg_catalog.text := value::pg_catalog.text;
    parts pg_catalog.text[];
BEGIN
    IF length(written) > 20 AND written ~ 'e[+]1[6-9]$' THEN  -- here whole numbers are written in full
        FOR places IN REVERSE 18 .. 1 LOOP
            IF round(written::numeric, -places)::double precision = value THEN
                written := round(written::numeric, -places)::text;
                parts := regexp_match(written, '^(-?)([0-9])([0-9]*?)0*$');
                RETURN parts[1] || parts[2] || coalesce('.' || nullif(parts[3], ''), '')
                    || 'e+' || length(written) - length(parts[1]) - 1;
            END IF;
        END LOOP;
    END IF;
    IF written ~ 'e[+]15$' THEN  -- written in full one digit longer there than here
        parts := regexp_match(written, '^(-?)([0-9])[.]?([0-9]*)e');
        written := parts[1] || parts[2] || rpad(substr(parts[3], 1, 15), 15, '0')
            || '.' || coalesce(nullif(substr(parts[3], 16), ''), '0');
    ELSIF written ~ '^-?[0-9]+$' THEN
        written := written || '.0';
    END IF;
    RETURN written;
END $$;

-- The numbers of the characters of a key, for keys with escapes.
CREATE FUNCTION privledger.points(key text) RETURNS integer[] LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    found pg_catalog.int4[] := '{}';
    part pg_catalog.text;
    code pg_catalog.int4;
    high pg_catalog.int4;
BEGIN
    FOR part IN SELECT m[1] FROM regexp_matches(
            key, '(' || repeat(chr(92), 2) || '(?:u[0-9a-f]{4}|.)|.)', 'g') m LOOP
        IF length(part) = 6 THEN
            code := ('x0000' || substr(part, 3))::bit(32)::integer;
            high := found[cardinality(found)];
            IF code BETWEEN 56320 AND 57343 AND high BETWEEN 55296 AND 56319 THEN
                found[cardinality(found)] := 65536 + (high - 55296) * 1024 + code - 56320;
                CONTINUE;
            END IF;
        ELSIF length(part) = 2 THEN
            code := CASE substr(part, 2) WHEN 'n' THEN 10 WHEN 'r' THEN 13 WHEN 't' THEN 9
                WHEN 'b' THEN 8 WHEN 'f' THEN 12 ELSE ascii(substr(part, 2)) END;
        ELSE
            code := ascii(part);
        END IF;
        found := found || code;
    END LOOP;
    RETURN found;
END $$;

-- Whether `body` is the one text of its value, within the limits of docs/ledger-format.md. That
-- it is JSON at all is for `readable` to say.
CREATE FUNCTION privledger.canonical(body text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    escape CONSTANT pg_catalog.text := repeat(chr(92), 2);  -- one backslash, in a pattern
    escaped CONSTANT pg_catalog.bool := strpos(body, chr(92)) > 0;
    string pg_catalog.text := '"[^"]*"';
    bare pg_catalog.text;
    openers CONSTANT pg_catalog.int4 := length(body) - length(translate(body, '{[', ''));
    token pg_catalog.text;
    last_keys pg_catalog.text[] := '{}';
    depth pg_catalog.int4 := 0;
    round pg_catalog.int4 := 0;
BEGIN
    IF length(body) > 4194304 OR body COLLATE "C" ~ '[^ -~]'
            OR openers > 100000 THEN
        RETURN false;
    END IF;
    IF escaped THEN
        IF strpos(regexp_replace(replace(body, repeat(chr(92), 2), ''), escape || '(["nrtbf]|u('
                '000[0-7bef]|001[0-9a-f]|007f|00[89a-f][0-9a-f]|0[1-9a-f][0-9a-f]{2}'
                '|[1-9a-f][0-9a-f]{3}))', '', 'g'), chr(92)) > 0 THEN
            RETURN false;
        END IF;
        string := '"(?:[^"' || escape || ']|' || escape || '.)*"';
    END IF;
    bare := regexp_replace(body, string, '"', 'g');
    IF strpos(bare, ' ') > 0
            OR strpos(translate(bare, '012345678', '999999999'), repeat('9', 500)) > 0 THEN
        RETURN false;
    END IF;
    FOR token IN SELECT DISTINCT m[1] FROM regexp_matches(
            bare, '(-?[0-9]+[.eE][0-9.eE+-]*|-0(?![0-9.eE]))', 'g') m LOOP
        IF token ~ '^([1-9][0-9]{0,7}[.](0|[0-9]{0,5}[1-9])|0[.](0|[0-9]{0,3}[1-9]))$' THEN
            CONTINUE;
        ELSIF length(token) > 40 OR token = '-0'
                OR privledger.shortest(token::double precision) <> token THEN
            RETURN false;
        END IF;
    END LOOP;
    FOR token IN SELECT m[1] FROM regexp_matches(body, '(' || string || ':?|[{}])', 'g') m LOOP
        IF token = '{' THEN
            depth := depth + 1;
            last_keys[depth] := NULL;
        ELSIF token = '}' THEN
            depth := depth - 1;
        ELSIF right(token, 1) = ':' THEN
            token := substr(token, 2, length(token) - 3);
            IF last_keys[depth] IS NOT NULL AND NOT (CASE
                    WHEN escaped AND strpos(last_keys[depth] || token, chr(92)) > 0
                    THEN privledger.points(last_keys[depth]) < privledger.points(token)
                    ELSE last_keys[depth] COLLATE "C" < token END) THEN
                RETURN false;
            END IF;
            last_keys[depth] := token;
        END IF;
    END LOOP;
    WHILE openers > 260 AND bare ~ '[][{}]' LOOP  -- the innermost brackets go in each round
        round := round + 1;
        IF round > 260 THEN
            RETURN false;
        END IF;
        bare := regexp_replace(bare, '[[{][^][{}]*[]}]', '', 'g');
    END LOOP;
    RETURN true;
END $$;

-- A body to look things up in. Escapes that jsonb cannot hold (a lone surrogate, a zero) stay
-- what they are, marked by a character that no canonical text has.
CREATE FUNCTION privledger.readable(body text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF strpos(body, chr(92)) = 0 THEN
        RETURN body::jsonb;
    END IF;
    RETURN replace(replace(body, repeat(chr(92), 2), chr(127) || 'b'),
                   chr(92) || 'u', chr(127) || 'u')::jsonb;
END $$;

-- Whether a body has what everybody who reads the history relies on.
CREATE FUNCTION privledger.formed(kind text, body jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    whole CONSTANT pg_catalog.text := '^[0-9]+$';
    units pg_catalog.bool := (jsonb_typeof(body->'units') = 'number' AND body->>'units' ~ whole
        AND jsonb_typeof(body->'delta_units') = 'number' AND body->>'delta_units' ~ whole);
    priced pg_catalog.bool := (units AND jsonb_typeof(body->'time') = 'string'
        AND jsonb_typeof(body->'plan'->'node') = 'string'
        AND jsonb_typeof(body->'delta') = 'number'
        AND (body->>'delta')::numeric >= 0 AND (body->>'delta')::numeric < 1
        AND coalesce(jsonb_typeof(body->'window'), 'string') = 'string');
    of_grant pg_catalog.bool := (jsonb_typeof(body->'grant') = 'string'
        AND body->>'grant' ~ '^[A-Za-z0-9_.-]{1,200}$');
BEGIN
    RETURN jsonb_typeof(body) = 'object' AND coalesce(CASE kind
        WHEN 'granted' THEN of_grant AND priced
            AND jsonb_typeof(body->'learner') = 'string'
            AND jsonb_typeof(body->'data') = 'string' AND length(body->>'data') <= 10000
            AND jsonb_typeof(body->'holder'->'host') = 'string'
            AND jsonb_typeof(body->'holder'->'pid') = 'number'
            AND body->'holder'->>'pid' ~ '^[0-9]{1,10}$'
            AND jsonb_typeof(body->'holder'->'started') = 'string'
            AND coalesce(jsonb_typeof(body->'isolation'), 'string') = 'string'
            AND coalesce(jsonb_typeof(body->'labels'), 'object') = 'object'
            AND NOT jsonb_path_exists(coalesce(body->'labels', '{}'),
                                      '$.* ? (@.type() != "string")')
            AND (coalesce(jsonb_typeof(body->'lease'), 'null') = 'null' OR (
                jsonb_typeof(body->'lease') = 'number' AND (body->>'lease')::numeric > 0))
            AND (coalesce(jsonb_typeof(body->'claimed'), 'null') = 'null' OR (
                jsonb_typeof(body->'claimed') = 'number' AND (body->>'claimed')::numeric >= 0))
            AND (coalesce(jsonb_typeof(body->'scope'), 'null') = 'null' OR (
                jsonb_typeof(body->'scope') = 'string' AND body->>'units' = '0'
                AND body->>'delta_units' = '0' AND jsonb_typeof(body->'worst') = 'number'
                AND (body->>'worst')::numeric >= 0))
        WHEN 'scope' THEN priced AND NOT body ? 'grant'
            AND jsonb_typeof(body->'scope') = 'string'
            AND length(body->>'scope') BETWEEN 1 AND 10000
        WHEN 'released' THEN of_grant AND jsonb_typeof(body->'first') = 'number'
            AND jsonb_typeof(body->'items') = 'array' AND jsonb_typeof(body->'nodes') = 'array'
            AND jsonb_typeof(body->'questions') = 'array'
            AND coalesce(jsonb_typeof(body->'noise'), 'string') = 'string'
            AND replace(body->>'items', ' ', '') ~
                '^[[](|([[][0-9]{1,10},[0-9]{1,10},[0-9]{1,10}[]],?)+)[]]$'
            AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(body->'items') i
                WHERE (i->>0)::bigint >= jsonb_array_length(body->'nodes')
                    OR (i->>1)::bigint >= jsonb_array_length(body->'questions'))
            AND NOT jsonb_path_exists(body->'questions', '$[*] ? (@.type() != "string")')
            AND NOT jsonb_path_exists(body->'nodes', '$[*] ? (@.type() != "object")')
        WHEN 'settled' THEN of_grant AND jsonb_typeof(body->'touched') = 'boolean'
            AND body->>'releases' ~ '^[0-9]{1,15}$' AND (NOT body ? 'vector' OR (
                jsonb_typeof(body->'vector'->'name') = 'string'
                AND jsonb_typeof(body->'vector'->'sha256') = 'string'
                AND body->'vector'->>'sha256' ~ '^[0-9a-f]{64}$'
                AND jsonb_typeof(body->'cap') = 'number' AND (body->>'cap')::numeric > 0))
        WHEN 'aborted' THEN of_grant AND jsonb_typeof(body->'touched') = 'boolean'
            AND body->>'releases' ~ '^[0-9]{1,15}$' AND NOT body ? 'vector'
        WHEN 'crashed' THEN of_grant AND jsonb_typeof(body->'time') = 'string'
        WHEN 'corrected' THEN of_grant AND units AND jsonb_typeof(body->'why') = 'string'
            AND jsonb_typeof(body->'plan') IN ('object', 'null')
        WHEN 'protected' THEN jsonb_typeof(body->'data') = 'string'
            AND length(body->>'data') <= 10000 AND jsonb_typeof(body->'schema') = 'string'
            AND coalesce(jsonb_typeof(body->'fingerprint'), 'string') = 'string'
            AND (coalesce(jsonb_typeof(body->'rows'), 'null') = 'null' OR (
                jsonb_typeof(body->'rows') = 'number' AND body->>'rows' ~ '^[0-9]{1,18}$'))
        WHEN 'refused' THEN jsonb_typeof(body->'learner') = 'string'
        WHEN 'filter' THEN jsonb_typeof(body->'kind') = 'string'
            AND jsonb_typeof(body->'order') = 'number' AND jsonb_typeof(body->'theorem') = 'string'
            AND body->>'cap_units' ~ whole AND body->>'delta_cap_units' ~ whole
    END, false);
END $$;

-- Totals. Each function takes what is known so far and gives what is known afterwards.

CREATE FUNCTION privledger.deny(why text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', why USING ERRCODE = 'PL002';
END $$;

-- The caps that a charge falls under. A scope, which any request may draw on, falls under all
-- of its window.
CREATE FUNCTION privledger.places(number bigint, body jsonb) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT array_agg(c.place ORDER BY c.place) FROM privledger.caps c
        WHERE c.ledger = number AND (c.on_window IS NULL OR c.on_window = body->>'window')
            AND (NOT body ? 'grant' OR ((c.data IS NULL OR c.data = body->>'data')
                 AND coalesce(nullif(body->'labels', 'null'), '{}') @> c.labels))), '{}');
END $$;

CREATE FUNCTION privledger.charge(t privledger.totals, under integer[], during text,
    more numeric, more_delta numeric, bounded boolean)
RETURNS privledger.totals LANGUAGE plpgsql AS $$
DECLARE
    c record;
    now_spent privledger.spent;
BEGIN
    t.units := t.units + more;
    t.delta_units := t.delta_units + more_delta;
    IF bounded AND NOT coalesce(t.units <= t.cap_units
                                AND t.delta_units <= t.delta_cap_units, false) THEN
        PERFORM privledger.deny('a charge past the cap of the ledger');
    END IF;
    IF cardinality(under) = 0 THEN
        RETURN t;
    END IF;
    FOR c IN SELECT caps.place, caps.per_window, l.cap_units, l.delta_cap_units
            FROM privledger.caps LEFT JOIN privledger.limits l ON l.ledger = caps.ledger
                AND l.place = caps.place AND l.kind = t.kind AND l.renyi = t.renyi
            WHERE caps.ledger = t.ledger AND caps.place = ANY (under) LOOP
        IF bounded AND c.per_window AND during IS NULL THEN
            PERFORM privledger.deny('a charge before a window is open');
        END IF;
        INSERT INTO privledger.spent AS s (ledger, place, on_window, units, delta_units)
            VALUES (t.ledger, c.place, CASE WHEN c.per_window THEN coalesce(during, '') ELSE '' END,
                    more, more_delta)
            ON CONFLICT (ledger, place, on_window) DO UPDATE
            SET units = s.units + more, delta_units = s.delta_units + more_delta
            RETURNING * INTO now_spent;
        IF bounded AND NOT coalesce(now_spent.units <= c.cap_units
                                    AND now_spent.delta_units <= c.delta_cap_units, false) THEN
            PERFORM privledger.deny('a charge past a cap');
        END IF;
    END LOOP;
    RETURN t;
END $$;

-- A reservation: a grant, or a filter scope that is paid for once.
CREATE FUNCTION privledger.reserve(t privledger.totals, kind text, body jsonb, proof bytea,
    trusted boolean)
RETURNS privledger.totals LANGUAGE plpgsql AS $$
DECLARE
    asks pg_catalog.numeric := (body->>'units')::pg_catalog.numeric;
    asks_delta pg_catalog.numeric := (body->>'delta_units')::pg_catalog.numeric;
    under pg_catalog.int4[] := privledger.places(t.ledger, body);
    drawn pg_catalog.text := body->>'scope';
    seconds pg_catalog.float8 := least((body->>'lease')::numeric, 1000000000);
BEGIN
    IF t.kind IS NULL OR NOT coalesce(asks >= 0 AND asks_delta >= 0, false)
            OR body->>'window' IS DISTINCT FROM t.open_window THEN
        PERFORM privledger.deny('a charge that is less than nothing, before a filter was fixed, '
                                'or for another window than the open one');
    END IF;
    IF kind = 'scope' THEN
        INSERT INTO privledger.scopes (ledger, name) VALUES (t.ledger, drawn)
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            PERFORM privledger.deny('a scope that was paid for already');
        END IF;
    ELSE
        IF drawn IS NOT NULL THEN
            UPDATE privledger.scopes s SET data = body->>'data' WHERE s.ledger = t.ledger
                AND s.name = drawn AND (s.data IS NULL OR s.data = body->>'data');
            IF NOT FOUND AND NOT trusted THEN
                PERFORM privledger.deny('a scope that nobody paid for, or of another table');
            END IF;
        END IF;
        IF NOT trusted AND octet_length(proof) IS DISTINCT FROM 32 THEN
            PERFORM privledger.deny('a grant without the digest of its secret');
        END IF;
        INSERT INTO privledger.grants (ledger, name, units, delta_units, places, on_window, scope,
                                       secret, session, lease_ends)
            VALUES (t.ledger, body->>'grant', asks, asks_delta, under, body->>'window', drawn,
                    proof, CASE WHEN proof IS NOT NULL THEN pg_backend_pid() END,
                    clock_timestamp() + make_interval(secs => seconds))
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            PERFORM privledger.deny('a grant of this name was given already');
        END IF;
    END IF;
    RETURN privledger.charge(t, under, body->>'window', asks, asks_delta,
                             NOT trusted AND (kind = 'scope' OR drawn IS NULL));
END $$;

-- Whether anybody may note that the holder is gone: its lease is over by the server's clock, or
-- the connection that reserved has ended. The charge stays, and the holder may still settle.
CREATE FUNCTION privledger.abandoned(g privledger.grants) RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce(($1).lease_ends < clock_timestamp(), false) OR ($1).session IS NULL
        OR NOT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.pid = ($1).session)
$$;

-- What becomes of a grant. Only who has its secret may say it.
CREATE FUNCTION privledger.settle(t privledger.totals, kind text, body jsonb, proof bytea,
    trusted boolean)
RETURNS privledger.totals LANGUAGE plpgsql AS $$
DECLARE
    g privledger.grants;
    holds pg_catalog.bool;
    vector_name pg_catalog.text := body->'vector'->>'name';
BEGIN
    SELECT * INTO g FROM privledger.grants x WHERE x.ledger = t.ledger
        AND x.name = body->>'grant';
    IF NOT FOUND THEN
        PERFORM privledger.deny('there is no such grant');
    END IF;
    holds := trusted OR coalesce(sha256(proof) = g.secret, false);
    IF NOT (holds OR (kind = 'crashed' AND privledger.abandoned(g))) THEN
        PERFORM privledger.deny('the grant is another client''s: its secret was not given');
    END IF;
    IF kind = 'corrected' THEN
        IF g.scope IS NOT NULL THEN
            PERFORM privledger.deny('a correction of what was never charged');
        END IF;
        RETURN privledger.charge(t, g.places, g.on_window, (body->>'units')::numeric,
                                 (body->>'delta_units')::numeric, false);
    END IF;
    IF g.status NOT IN ('granted', 'crashed') OR (kind = 'crashed' AND g.status = 'crashed'
                                                  AND NOT trusted) THEN
        PERFORM privledger.deny('the grant is over');
    END IF;
    IF kind = 'released' THEN
        UPDATE privledger.grants x SET releases = x.releases + jsonb_array_length(body->'items')
            WHERE x.ledger = t.ledger AND x.name = g.name;
        RETURN t;
    END IF;
    IF NOT trusted AND kind IN ('settled', 'aborted')
            AND (body->>'releases')::numeric <> g.releases THEN
        PERFORM privledger.deny('another number of releases than were written down');
    END IF;
    IF NOT trusted AND NOT starts_with(vector_name, 'spend:' || g.name || ':') THEN
        PERFORM privledger.deny('a vector under another grant''s name');
    END IF;
    UPDATE privledger.grants x SET status = kind, vector = vector_name,
            vector_sha256 = body->'vector'->>'sha256'
        WHERE x.ledger = t.ledger AND x.name = g.name;
    IF kind = 'aborted' AND NOT (body->>'touched')::boolean AND g.releases = 0 THEN
        RETURN privledger.charge(t, g.places, g.on_window, -g.units, -g.delta_units, false);
    END IF;
    RETURN t;
END $$;

-- Everything else. A client may protect a table, note a refusal, and fix the filter that the
-- budget allows; the ledger's owner creates it, and opens windows.
CREATE FUNCTION privledger.note(t privledger.totals, kind text, body jsonb, trusted boolean)
RETURNS privledger.totals LANGUAGE plpgsql AS $$
BEGIN
    IF kind = 'filter' THEN
        IF t.kind IS NOT NULL THEN
            PERFORM privledger.deny('the filter was fixed already');
        END IF;
        t.kind := body->>'kind';
        t.renyi := (body->>'order')::numeric;
        t.cap_units := (body->>'cap_units')::numeric;
        t.delta_cap_units := (body->>'delta_cap_units')::numeric;
        IF NOT trusted AND (t.asked NOT IN ('auto', t.kind) OR NOT EXISTS (
                SELECT 1 FROM privledger.limits l WHERE l.ledger = t.ledger AND l.place = -1
                    AND l.kind = t.kind AND l.renyi = t.renyi AND l.cap_units = t.cap_units
                    AND l.delta_cap_units = t.delta_cap_units)) THEN
            PERFORM privledger.deny('a filter that the budget does not allow');
        END IF;
    ELSIF kind IN ('created', 'window') AND NOT trusted THEN
        PERFORM privledger.deny('only the owner of the ledger may write this entry');
    ELSIF kind = 'created' THEN
        t.format := (body->>'format')::integer;
        t.asked := body->>'filter';
        INSERT INTO privledger.caps (ledger, place, data, labels, on_window, per_window)
            SELECT t.ledger, c.place - 1, c.body->>'data', coalesce(c.body->'labels', '{}'),
                   c.body->>'window', coalesce((c.body->>'per_window')::boolean, false)
            FROM jsonb_array_elements(coalesce(body->'caps', '[]')) WITH ORDINALITY c(body, place);
    ELSIF kind = 'window' THEN
        INSERT INTO privledger.windows (ledger, name) VALUES (t.ledger, body->>'window');
        t.open_window := body->>'window';
    ELSIF kind NOT IN ('protected', 'refused') AND NOT trusted THEN
        PERFORM privledger.deny('an entry of an unknown kind');
    END IF;
    RETURN t;
END $$;

CREATE FUNCTION privledger.fold(t privledger.totals, kind text, body jsonb, proof bytea,
    trusted boolean)
RETURNS privledger.totals LANGUAGE plpgsql AS $$
BEGIN
    IF NOT trusted AND NOT privledger.formed(kind, body) THEN
        PERFORM privledger.deny('an entry that a client may not write, or that lacks something');
    END IF;
    t.position := t.position + 1;
    IF kind IN ('granted', 'scope') THEN
        RETURN privledger.reserve(t, kind, body, proof, trusted);
    ELSIF kind IN ('released', 'settled', 'aborted', 'crashed', 'corrected') THEN
        RETURN privledger.settle(t, kind, body, proof, trusted);
    END IF;
    RETURN privledger.note(t, kind, body, trusted);
END $$;

CREATE FUNCTION privledger.chained(previous text, place bigint, kind text, body text)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to($1 || '[' || $2 || ',"' || $3 || '",' || $4 || ']', 'UTF8')),
                  'hex')
$$;

-- Check, fold and insert a batch, and move the head. Works for whoever may write the tables.
CREATE FUNCTION privledger.write(number bigint, after bigint, tip text, kinds text[],
    bodies text[], hashes text[], proofs bytea[], trusted boolean)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    t privledger.totals;
    hash text := tip;
BEGIN
    PERFORM 1 FROM privledger.ledgers l WHERE l.id = number AND l.position = after
        AND l.head = tip FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the head was moved' USING ERRCODE = 'PL001';
    END IF;
    SELECT * INTO t FROM privledger.totals x WHERE x.ledger = number;
    IF t.position IS DISTINCT FROM after THEN
        RAISE EXCEPTION 'the totals are not those of the history' USING ERRCODE = 'PL003';
    END IF;
    FOR i IN 1 .. cardinality(kinds) LOOP
        IF kinds[i] !~ '^[a-z]{1,20}$' OR NOT (trusted OR (
                privledger.canonical(bodies[i]) AND (length(bodies[i]) <= 1048576
                    OR kinds[i] NOT IN ('granted', 'scope', 'corrected')))) THEN
            PERFORM privledger.deny('a text that is not canonical, too long or too deep');
        END IF;
        -- 1e+22 is a float, although the number that is left of it here has no point.
        IF NOT trusted AND bodies[i] ~ '"([a-z_]*units|rows)":[0-9.]+e' THEN
            PERFORM privledger.deny('what must be a whole number is a float');
        END IF;
        t := privledger.fold(t, kinds[i], privledger.readable(bodies[i]), proofs[i], trusted);
        IF privledger.chained(hash, t.position, kinds[i], bodies[i])
                IS DISTINCT FROM hashes[i] THEN
            PERFORM privledger.deny('an entry that does not follow the one before');
        END IF;
        INSERT INTO privledger.entries (ledger, position, kind, body, previous, hash)
            VALUES (number, t.position, kinds[i], bodies[i], hash, hashes[i]);
        hash := hashes[i];
    END LOOP;
    UPDATE privledger.totals x SET position = t.position, format = t.format, asked = t.asked,
            kind = t.kind, renyi = t.renyi, cap_units = t.cap_units,
            delta_cap_units = t.delta_cap_units, units = t.units, delta_units = t.delta_units,
            open_window = t.open_window
        WHERE x.ledger = number;
    UPDATE privledger.ledgers l SET position = t.position, head = hash WHERE l.id = number;
END $$;

-- For clients: these four, and SELECT.

-- Take the lock of a ledger, and see where its history ends. Nobody changes the tables
-- themselves until the transaction is over.
CREATE FUNCTION privledger.lock(ledger text) RETURNS TABLE (
    id bigint, format integer, "position" bigint, head text, last_position bigint,
    last_hash text, folded bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l privledger.ledgers;
BEGIN
    LOCK TABLE privledger.ledgers, privledger.entries, privledger.vectors, privledger.totals,
        privledger.limits, privledger.caps, privledger.spent, privledger.windows,
        privledger.scopes, privledger.grants IN ROW EXCLUSIVE MODE;
    SELECT * INTO l FROM privledger.ledgers x WHERE x.name = $1 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT l.id, l.format, l.position, l.head, e.position, e.hash, t.position
        FROM (SELECT 1) one
        LEFT JOIN LATERAL (SELECT x.position, x.hash FROM privledger.entries x
            WHERE x.ledger = l.id ORDER BY x.position DESC LIMIT 1) e ON true
        LEFT JOIN privledger.totals t ON t.ledger = l.id;
END $$;

CREATE FUNCTION privledger.append(number bigint, after bigint, tip text, kinds text[],
    bodies text[], hashes text[], proofs bytea[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM privledger.write($1, $2, $3, $4, $5, $6, $7, false);
END $$;

-- Keep the vectors that settlements named, by their digests. A name is a JSON string.
CREATE FUNCTION privledger.keep(number bigint, names text[], contents bytea[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR i IN 1 .. cardinality(names) LOOP
        PERFORM 1 FROM privledger.grants g WHERE g.ledger = number
            AND g.vector = privledger.readable(names[i]) #>> '{}'
            AND g.vector_sha256 = encode(sha256(contents[i]), 'hex');
        IF NOT FOUND OR NOT privledger.canonical(names[i]) THEN
            PERFORM privledger.deny('a vector that no settlement names');
        END IF;
        INSERT INTO privledger.vectors (ledger, name, data)
            VALUES (number, names[i], contents[i]);
    END LOOP;
END $$;

-- Those of the grants that anybody may mark as crashed.
CREATE FUNCTION privledger.markable(number bigint, names text[]) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT g.name FROM privledger.grants g WHERE g.ledger = $1 AND g.name = ANY ($2)
        AND g.status = 'granted' AND privledger.abandoned(g)
$$;

-- For the owner of the tables: they run with the rights of whoever calls them.

-- A new ledger without entries; NULL if the name is taken.
CREATE FUNCTION privledger.begin(name text, format integer) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint;
BEGIN
    INSERT INTO privledger.ledgers AS l (name, format, position, head)
        VALUES ($1, $2, -1, repeat('0', 64)) ON CONFLICT DO NOTHING RETURNING l.id INTO number;
    IF number IS NOT NULL THEN
        INSERT INTO privledger.totals (ledger) VALUES (number);
    END IF;
    RETURN number;
END $$;

-- What each filter has room for: rows of kind, order, place, units, delta units.
CREATE FUNCTION privledger.allow(number bigint, rooms jsonb) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO privledger.limits (ledger, kind, renyi, place, cap_units, delta_cap_units)
        SELECT $1, r->>0, (r->>1)::numeric, (r->>2)::integer, (r->>3)::numeric, (r->>4)::numeric
        FROM jsonb_array_elements($2) r
        ON CONFLICT (ledger, kind, renyi, place) DO UPDATE
        SET cap_units = excluded.cap_units, delta_cap_units = excluded.delta_cap_units
$$;

-- Put the head of a ledger where its entries end, and add everything up again. Entries stay what
-- they are; one that was edited is refused. Holders keep their secrets. Gives the last position.
CREATE FUNCTION privledger.repair(ledger text) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint;
    t privledger.totals;
    e record;
    hash text := repeat('0', 64);
    kept privledger.grants[];
BEGIN
    SELECT l.id INTO number FROM privledger.ledgers l WHERE l.name = $1 FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM privledger.deny('there is no such ledger');
    END IF;
    SELECT array_agg(g) INTO kept FROM privledger.grants g WHERE g.ledger = number;
    DELETE FROM privledger.grants g WHERE g.ledger = number;
    DELETE FROM privledger.scopes s WHERE s.ledger = number;
    DELETE FROM privledger.windows w WHERE w.ledger = number;
    DELETE FROM privledger.spent s WHERE s.ledger = number;
    DELETE FROM privledger.caps c WHERE c.ledger = number;
    DELETE FROM privledger.totals x WHERE x.ledger = number;
    INSERT INTO privledger.totals (ledger) VALUES (number) RETURNING * INTO t;
    FOR e IN SELECT * FROM privledger.entries x WHERE x.ledger = number ORDER BY x.position LOOP
        IF e.position <> t.position + 1 OR e.previous <> hash OR e.hash <>
                privledger.chained(hash, e.position, e.kind, e.body) THEN
            PERFORM privledger.deny(format('entry %s was edited', e.position));
        END IF;
        t := privledger.fold(t, e.kind, privledger.readable(e.body), NULL, true);
        hash := e.hash;
    END LOOP;
    UPDATE privledger.grants g SET secret = k.secret, session = k.session,
            lease_ends = k.lease_ends
        FROM unnest(kept) k WHERE g.ledger = number AND g.name = k.name;
    UPDATE privledger.totals x SET position = t.position, format = t.format, asked = t.asked,
            kind = t.kind, renyi = t.renyi, cap_units = t.cap_units,
            delta_cap_units = t.delta_cap_units, units = t.units, delta_units = t.delta_units,
            open_window = t.open_window
        WHERE x.ledger = number;
    PERFORM set_config('privledger.repair', $1, true);
    UPDATE privledger.ledgers l SET position = t.position, head = hash WHERE l.id = number;
    PERFORM set_config('privledger.repair', '', true);
    RETURN t.position;
END $$;

-- Rights: nobody but the owner may write tables. Who could, may call what clients call.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA privledger FROM PUBLIC;
DO $$
DECLARE
    who record;
BEGIN
    FOR who IN SELECT CASE WHEN r.rolname IS NULL THEN 'PUBLIC' ELSE format('%I', r.rolname) END
                AS name, bool_or(c.relname = 'entries' AND a.privilege_type = 'INSERT') AS writes
            FROM pg_catalog.pg_class c CROSS JOIN LATERAL (
                SELECT x.grantee, x.privilege_type FROM pg_catalog.aclexplode(c.relacl) x
                UNION SELECT x.grantee, x.privilege_type FROM pg_catalog.pg_attribute b,
                    pg_catalog.aclexplode(b.attacl) x WHERE b.attrelid = c.oid) a
            LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
            WHERE c.relnamespace = 'privledger'::regnamespace AND a.grantee <> c.relowner
            GROUP BY 1 LOOP
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER '
                       'ON ALL TABLES IN SCHEMA privledger FROM %s', who.name);
        IF who.writes THEN
            EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA privledger TO %s', who.name);
            EXECUTE format('GRANT EXECUTE ON FUNCTION privledger.lock, privledger.append, '
                           'privledger.keep, privledger.markable TO %s', who.name);
        END IF;
    END LOOP;
END $$;

-- Histories that are here already. One that cannot be added up is left to `repair`.
DO $$
DECLARE
    l record;
BEGIN
    FOR l IN SELECT name FROM privledger.ledgers LOOP
        BEGIN
            PERFORM privledger.repair(l.name);
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'privledger: ledger % is not whole', l.name;
        END;
    END LOOP;
END $$;

INSERT INTO privledger.migrations (number) VALUES (2);
