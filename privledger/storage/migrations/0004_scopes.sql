-- Corrections of filter scopes. Run once, in one transaction; what 0002 says of settings holds
-- here, too.

DO $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', (SELECT r.rolname FROM pg_catalog.pg_namespace n
        JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'privledger'));
END $$;

-- What ran under a scope cost more than its filter counted: charged under the scope's own caps and
-- window, past them if need be. A scope has no secret, so the owner of the tables says it.
CREATE FUNCTION privledger.amend(t privledger.totals, body jsonb, trusted boolean)
RETURNS privledger.totals LANGUAGE plpgsql AS $$
DECLARE
    opened pg_catalog.jsonb;
BEGIN
    IF NOT trusted THEN
        PERFORM privledger.deny('a scope is corrected by the owner of the tables');
    END IF;
    SELECT privledger.readable(e.body) INTO opened FROM privledger.entries e
        WHERE e.ledger = t.ledger AND e.kind = 'scope'
        AND privledger.readable(e.body)->>'scope' = $2->>'grant';
    IF NOT FOUND THEN
        PERFORM privledger.deny('a correction of what was never charged');
    END IF;
    RETURN privledger.charge(t, privledger.places(t.ledger, opened), opened->>'window',
                             ($2->>'units')::numeric, ($2->>'delta_units')::numeric, false);
END $$;

REVOKE ALL ON FUNCTION privledger.amend FROM PUBLIC;

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
    ELSIF kind = 'corrected' AND EXISTS (SELECT 1 FROM privledger.scopes s
            WHERE s.ledger = t.ledger AND s.name = body->>'grant') THEN
        RETURN privledger.amend(t, body, trusted);
    ELSIF kind IN ('released', 'settled', 'aborted', 'crashed', 'corrected') THEN
        RETURN privledger.settle(t, kind, body, proof, trusted);
    END IF;
    RETURN privledger.note(t, kind, body, trusted);
END $$;

INSERT INTO privledger.migrations (number) VALUES (4);
