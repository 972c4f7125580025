//! Authentication and authorisation.

use super::*;

const FROM_0_3: [&str; 6] = [V0_3, V0_4, V0_5, V0_7, OGX_0_8, OGX_1_0];

fn with_access(schema: &str, access: Value) -> Report {
    assemble(request(schema, json!({"access": access})))
}

#[test]
fn the_section_is_the_same_from_0_3_on() {
    let access = json!({
        "method": "oauth2",
        "settings": {
            "issuer": "https://login", "audience": "acme",
            "jwks": {"uri": "https://login/keys", "keyRecheckPeriod": 60},
            "claimsMapping": {"userGroups": "teams"},
        },
        "references": {"jwks.token": "LLSD_ACCESS_JWKS_TOKEN"},
        "policy": [{"permit": {"actions": ["read"]}, "when": ["user is owner"]}],
    });
    for schema in FROM_0_3 {
        let mut request = request(schema, json!({"access": access}));
        request["base"]["server"]["auth"] = json!({"provider_config": {"type": "custom"}});
        let report = assemble(request);
        assert_eq!(
            report.config()["server"]["auth"],
            json!({
                "provider_config": {
                    "type": "oauth2_token", "issuer": "https://login", "audience": "acme",
                    "jwks": {
                        "uri": "https://login/keys", "key_recheck_period": 60,
                        "token": "${env.LLSD_ACCESS_JWKS_TOKEN}",
                    },
                    "claims_mapping": {"userGroups": "teams"},
                },
                "access_policy": [{"permit": {"actions": ["read"]}, "when": ["user is owner"]}],
            }),
            "{schema}"
        );
        assert_eq!(
            report.output["variables"],
            json!([{
                "env": "LLSD_ACCESS_JWKS_TOKEN", "reference": "LLSD_ACCESS_JWKS_TOKEN",
                "readAs": "convertedText",
            }])
        );
    }
}

#[test]
fn each_method_has_its_type() {
    let settings = |method: &str| match method {
        "custom" => json!({"endpoint": "http://auth"}),
        "github" => json!({"githubApiBaseUrl": "https://github.acme"}),
        _ => json!({"apiServerUrl": "https://api", "tlsCafile": "/ca"}),
    };
    for (method, expected) in [
        (
            "kubernetes",
            json!({"type": "kubernetes", "api_server_url": "https://api", "tls_cafile": "/ca"}),
        ),
        (
            "github",
            json!({"type": "github_token", "github_api_base_url": "https://github.acme"}),
        ),
        (
            "custom",
            json!({"type": "custom", "endpoint": "http://auth"}),
        ),
    ] {
        let access = json!({"method": method, "settings": settings(method), "references": {}});
        for schema in FROM_0_3 {
            let report = with_access(schema, access.clone());
            let auth = &report.config()["server"]["auth"];
            assert_eq!(auth["provider_config"], expected, "{schema}");
            assert_eq!(auth.get("access_policy"), None);
        }
    }
    let keys = json!({"method": "apiKeys", "references": {"[0]": "A", "[1]": "B"}});
    assert_eq!(
        with_access(OGX_1_0, keys).config()["server"]["auth"]["provider_config"],
        json!({"type": "local_api_key", "api_keys": ["${env.A}", "${env.B}"]})
    );
}

#[test]
fn what_a_release_does_not_have_is_refused_with_the_releases_that_have_it() {
    for schema in [V0_1_3, V0_2_13] {
        let report = with_access(schema, json!({"method": "kubernetes"}));
        assert_eq!(report.errors(), ["unsupported-option spec.access"]);
        assert!(report.diagnostics[0].fix.contains("llama-stack 0.3"));
    }
    let header = json!({"method": "upstreamHeader", "settings": {
        "principalHeader": "x-user", "attributeHeaders": {"teams": "x-teams"},
        "trustedProxyCidrs": ["10.0.0.0/8"],
    }});
    let routes = json!({"method": "kubernetes", "routePolicy": [
        {"permit": {"paths": ["/v1/health"]}}, {"permit": {"paths": ["regex:/v1/.*"]}},
    ]});
    let resources = json!({"method": "kubernetes", "policy": [
        {"forbid": {"actions": ["read"], "resource": "regex:model::.*"}},
    ]});
    let keys = json!({"method": "apiKeys", "references": {"[0]": "A"}});
    for (access, field, first, by) in [
        (&header, "upstreamHeader", OGX_0_8, "ogx 0.8.0"),
        (
            &header,
            "upstreamHeader.attributeHeaders",
            OGX_1_0,
            "ogx 1.0.0",
        ),
        (
            &header,
            "upstreamHeader.trustedProxyCidrs",
            OGX_1_0,
            "ogx 1.4.0",
        ),
        (&keys, "apiKeys", OGX_1_0, "ogx 1.4.0"),
        (&routes, "routePolicy", V0_5, "llama-stack 0.5.0"),
        (&routes, "routePolicy[0]", V0_5, "llama-stack 0.6.0"),
        (&resources, "policy[0]", V0_5, "llama-stack 0.6.0"),
    ] {
        let first = FROM_0_3.iter().position(|one| *one == first).unwrap();
        for (place, schema) in FROM_0_3.into_iter().enumerate() {
            let report = with_access(schema, access.clone());
            let code = format!("unsupported-option spec.access.{field}");
            let found = report
                .diagnostics
                .iter()
                .find(|one| format!("{} {}", one.code, one.field) == code);
            // The golden cases of 0.5 are of release 0.6.1.
            assert_eq!(found.is_some(), place < first, "{schema} {field}");
            assert!(found.is_none_or(|one| one.fix.contains(by)), "{found:?}");
        }
    }
    for (schema, release, access, field) in [
        (OGX_1_0, "1.3.0", keys, "apiKeys"),
        (V0_5, "0.5.4", routes, "routePolicy[0]"),
        (V0_5, "0.5.4", resources, "policy[0]"),
    ] {
        let old = json!({"serverVersion": release, "access": access});
        let report = assemble(request(schema, old));
        let expected = format!("unsupported-option spec.access.{field}");
        assert_eq!(report.errors(), [expected]);
    }
}
