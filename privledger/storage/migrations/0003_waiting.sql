-- A place in line belongs to the session that wrote it, and ends with it. Run once, in one
-- transaction; what 0002 says of settings holds here, too.

DO $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', (SELECT r.rolname FROM pg_catalog.pg_namespace n
        JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'privledger'));
END $$;

-- Who waits, gives up, or is granted what it waited for. Until then its place is a row of
-- `grants` with the status `waiting`, whose lease ends with the time until which it waits.
CREATE FUNCTION privledger.stand(t privledger.totals, kind text, body jsonb, trusted boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    g privledger.grants;
    waits pg_catalog.jsonb := body->'waits';
    ends pg_catalog.timestamptz;
BEGIN
    SELECT * INTO g FROM privledger.grants x WHERE x.ledger = t.ledger AND x.status = 'waiting'
        AND x.name = CASE kind WHEN 'granted' THEN body->>'grant' ELSE body->>'left_line' END;
    IF FOUND THEN
        IF NOT (trusted OR g.session = pg_backend_pid() OR privledger.abandoned(g)) THEN
            PERFORM privledger.deny('the place in line is another client''s');
        END IF;
        DELETE FROM privledger.grants x WHERE x.ledger = t.ledger AND x.name = g.name;
    END IF;
    IF waits IS NULL OR kind = 'granted' THEN
        RETURN;
    END IF;
    BEGIN
        ends := (waits->>'until')::timestamptz;
    EXCEPTION WHEN OTHERS THEN
        ends := NULL;
    END;
    IF NOT coalesce(ends <= clock_timestamp() + interval '2 hours'
            AND waits->>'grant' ~ '^[A-Za-z0-9_.-]{1,200}$', false) THEN
        IF NOT trusted THEN
            PERFORM privledger.deny('a place in line for more than two hours, or without a name');
        END IF;
        RETURN;  -- an old entry, which orders nobody
    END IF;
    INSERT INTO privledger.grants (ledger, name, units, delta_units, places, status, session,
                                   lease_ends)
        VALUES (t.ledger, waits->>'grant', 0, 0, '{}', 'waiting', pg_backend_pid(), ends)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND AND NOT trusted THEN
        PERFORM privledger.deny('a place of this name is there, or was granted already');
    END IF;
END $$;

REVOKE ALL ON FUNCTION privledger.stand FROM PUBLIC;

CREATE OR REPLACE FUNCTION privledger.fold(t privledger.totals, kind text, body jsonb,
    proof bytea, trusted boolean)
RETURNS privledger.totals LANGUAGE plpgsql AS $$
BEGIN
    IF NOT trusted AND NOT privledger.formed(kind, body) THEN
        PERFORM privledger.deny('an entry that a client may not write, or that lacks something');
    END IF;
    t.position := t.position + 1;
    IF kind IN ('granted', 'refused') THEN
        PERFORM privledger.stand(t, kind, body, trusted);
    END IF;
    IF kind IN ('granted', 'scope') THEN
        RETURN privledger.reserve(t, kind, body, proof, trusted);
    ELSIF kind IN ('released', 'settled', 'aborted', 'crashed', 'corrected') THEN
        RETURN privledger.settle(t, kind, body, proof, trusted);
    END IF;
    RETURN privledger.note(t, kind, body, trusted);
END $$;

-- Those of the grants that anybody may mark as crashed, and of the places that are over.
CREATE OR REPLACE FUNCTION privledger.markable(number bigint, names text[]) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT g.name FROM privledger.grants g WHERE g.ledger = $1 AND g.name = ANY ($2)
        AND g.status IN ('granted', 'waiting') AND privledger.abandoned(g)
$$;

INSERT INTO privledger.migrations (number) VALUES (3);
