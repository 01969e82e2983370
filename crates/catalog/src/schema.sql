-- The whole catalogue. A change of anything here moves SCHEMA_VERSION in database.rs: there are no
-- migrations, because everything can be derived again.

-- Which file this is, and how often its index has changed.
CREATE TABLE state (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    instance TEXT NOT NULL,
    generation INTEGER NOT NULL
) STRICT;

-- One record for each session, as JSON, with the CRC-32 of all its fields.
CREATE TABLE checkpoints (
    session TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    revision TEXT,
    anchor INTEGER,
    rows TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- How far each session is indexed.
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    identity TEXT NOT NULL,
    revision TEXT,
    through INTEGER NOT NULL,
    anchor INTEGER NOT NULL
) STRICT;

-- What is known of each indexed event but its words. Ids rise with the order of indexing.
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    time INTEGER NOT NULL,
    standing INTEGER NOT NULL,
    length INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX documents_by_seq ON documents (session, seq);
CREATE UNIQUE INDEX titles ON documents (session) WHERE type = 'session/title';

-- The words, by document. They are split before they come here, by rules that leave the tokenizer
-- nothing to do. The session is a word as well, so that a search within a few sessions does not walk
-- through all others. Texts are not kept: the log has them. Beginnings of up to three letters have lists of
-- their own, because to gather them from all words that begin so takes tens of milliseconds.
CREATE VIRTUAL TABLE text USING fts5 (
    words, joined, session,
    content = '', contentless_delete = 1, prefix = '1 2 3',
    tokenize = 'unicode61 remove_diacritics 0'
);

-- More memory while many documents come at once: fewer pieces to merge.
INSERT INTO text (text, rank) VALUES ('hashsize', 4194304);
