//! Rules for `spec.storage.sql`.

use super::{rule, whole};
use crate::rules::{Rule, example};

pub(crate) const RULES: &[Rule] = &[
    SQL_NEEDS_TYPE,
    rule(
        "postgres-needs-address",
        whole(
            "!has(variables.sql.type) || variables.sql.type != 'postgres' || has(variables.sql.connectionString) || (has(variables.sql.host) && has(variables.sql.user))",
            "spec.storage.sql",
        ),
        (
            "type postgres requires connectionString, or host and user",
            "add connectionString: {name: <secret>, key: <key in it>}, or host and user",
        ),
        &[
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres}}}",
                "spec.storage.sql.connectionString",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, host: db}}}",
                "spec.storage.sql.user",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, user: u, database: d}}}",
                "spec.storage.sql.host",
            ),
        ],
    ),
    rule(
        "postgres-one-address",
        whole(
            "!has(variables.sql.type) || variables.sql.type != 'postgres' || !has(variables.sql.connectionString) || !['host', 'port', 'database', 'user', 'password'].exists(f, f in variables.sql)",
            "spec.storage.sql",
        ),
        (
            "has both connectionString and separate connection fields",
            "keep connectionString or the separate fields",
        ),
        &[example(
            "{distribution: {name: starter}, storage: {sql: {type: postgres, connectionString: {name: a, key: b}, host: db}}}",
            "spec.storage.sql.host",
        )],
    ),
    rule(
        "postgres-parts",
        whole(
            concat!(
                "['host', 'database', 'user'].all(f, !(f in variables.sql) || ",
                string!("variables.sql[f]"),
                " || ",
                reference!("variables.sql[f]"),
                ") && ",
                "(!has(variables.sql.port) || (type(variables.sql.port) == int && variables.sql.port >= 1 && variables.sql.port <= 65535) || ",
                "(type(variables.sql.port) == string && variables.sql.port.matches('^[1-9][0-9]{0,4}$')) || ",
                reference!("variables.sql.port"),
                ")"
            ),
            "spec.storage.sql",
        ),
        (
            "host, port, database and user must be strings or secret references",
            "write a string, or {name: <secret>, key: <key in it>}",
        ),
        &[
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, host: true, user: u}}}",
                "spec.storage.sql.host",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, host: h, user: {name: s}}}}",
                "spec.storage.sql.user.key",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, host: h, user: u, port: 0}}}",
                "spec.storage.sql.port",
            ),
        ],
    ),
];

pub(crate) const SQL_NEEDS_TYPE: Rule = rule(
    "sql-needs-type",
    whole(
        "has(variables.sql.type) || !['connectionString', 'host', 'port', 'database', 'user', 'password'].exists(f, f in variables.sql)",
        "spec.storage.sql.type",
    ),
    (
        "is missing, so it defaults to sqlite, which has no connection settings",
        "add type: postgres",
    ),
    &[
        example(
            "{distribution: {name: starter}, storage: {sql: {connectionString: {name: a, key: b}}}}",
            "spec.storage.sql.type",
        ),
        example(
            "{distribution: {name: starter}, storage: {sql: {host: db}}}",
            "spec.storage.sql.type",
        ),
    ],
);
