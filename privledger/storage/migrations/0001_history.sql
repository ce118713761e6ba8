-- Ledgers, their entries, and the vectors of records. Run once, in one transaction.

CREATE SCHEMA IF NOT EXISTS privledger;

CREATE TABLE privledger.migrations (
    number integer PRIMARY KEY,
    applied timestamptz NOT NULL DEFAULT now()
);

-- One row for each ledger. Whoever writes holds the lock on it.
CREATE TABLE privledger.ledgers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    format integer NOT NULL,
    position bigint NOT NULL,
    head text NOT NULL
);

CREATE TABLE privledger.entries (
    ledger bigint NOT NULL REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    position bigint NOT NULL CHECK (position >= 0),
    kind text NOT NULL,
    body text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (ledger, position)
);

-- A name is written as a JSON string, in ASCII.
CREATE TABLE privledger.vectors (
    ledger bigint NOT NULL REFERENCES privledger.ledgers ON UPDATE RESTRICT ON DELETE RESTRICT,
    name text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (ledger, name)
);

CREATE FUNCTION privledger.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'history is append-only' USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER entries_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON privledger.entries
    FOR EACH STATEMENT EXECUTE FUNCTION privledger.refuse();

CREATE FUNCTION privledger.follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.position = 0 AND NEW.previous = repeat('0', 64) THEN
        RETURN NEW;
    END IF;
    PERFORM 1 FROM privledger.entries
        WHERE ledger = NEW.ledger AND position = NEW.position - 1 AND hash = NEW.previous;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'an entry that does not follow the one before'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER entries_follow BEFORE INSERT ON privledger.entries
    FOR EACH ROW EXECUTE FUNCTION privledger.follow();

CREATE FUNCTION privledger.forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.name <> OLD.name OR NEW.position <= OLD.position THEN
        RAISE EXCEPTION 'the head of a history moves forward only'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER ledgers_forward BEFORE UPDATE ON privledger.ledgers
    FOR EACH ROW EXECUTE FUNCTION privledger.forward();

INSERT INTO privledger.migrations (number) VALUES (1);
