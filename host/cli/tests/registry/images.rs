//! `llsd image`, and `--image` of `llsd render`.

use llsd_testbed::Access;
use serde_json::Value;

use crate::{Setup, basic, json, printed, root, succeed, token};

#[tokio::test(flavor = "multi_thread")]
async fn a_labelled_image_is_rendered_from_every_kind_of_registry() {
    let config = "host/render/distributions/starter.yaml";
    for (tls, access) in [
        (false, Access::Anyone),
        (true, basic()),
        (true, token()),
        (false, token()),
    ] {
        let setup = Setup::start(tls, access).await;
        let build = setup.push_image("acme/stack:build").await;
        let labelled = setup.llsd(&[
            "image",
            "label",
            &build,
            "--config",
            config,
            "--schema",
            "llama-stack/0.7",
            "--tag",
            "1",
            "--output",
            "json",
        ]);
        let labelled = json(&labelled);
        let image = setup.reference("acme/stack:1");
        assert_eq!(labelled["reference"], image.as_str());

        let render = ["render", "-f", "samples/minimal.yaml", "--image"];
        let rendered = succeed(&setup.llsd(&[&render[..], &[&image]].concat()));
        assert!(
            rendered.contains("base_url: http://vllm:8000/v1"),
            "{rendered}"
        );
        let offline = [
            "render",
            "-f",
            "samples/minimal.yaml",
            "--base-config",
            config,
            // The label of the image states it.
            "--schema",
            "llama-stack/0.7",
        ];
        assert_eq!(rendered, succeed(&setup.llsd(&offline)));

        // The content of a digest cannot change, so that the cached copy needs no request.
        let pinned = setup.reference(&format!(
            "acme/stack@{}",
            labelled["digest"].as_str().unwrap()
        ));
        let before = setup.requests().await;
        let again = succeed(&setup.llsd(&[&render[..], &[&pinned]].concat()));
        assert_eq!((again, setup.requests().await), (rendered.clone(), before));

        let mirror = format!("quay.example/acme={}/acme", setup.registry.host());
        let mirrored = [
            &render[..],
            &["quay.example/acme/stack:1", "--mirror", &mirror],
        ];
        assert_eq!(succeed(&setup.llsd(&mirrored.concat())), rendered);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn image_inspect_shows_what_the_operator_reads() {
    let setup = Setup::start(false, Access::Anyone).await;
    let build = setup.push_image("acme/stack:build").await;
    let bare = setup.llsd(&["image", "inspect", &build, "--output", "json"]);
    assert_eq!(bare.status.code(), Some(1), "{}", printed(&bare));
    let bare: Value = serde_json::from_slice(&bare.stdout).unwrap();
    assert_eq!(bare["problem"]["reason"], "MissingConfigLabels");
    let rendered = setup.llsd(&["render", "-f", "samples/minimal.yaml", "--image", &build]);
    assert_eq!(rendered.status.code(), Some(1), "{}", printed(&rendered));
    assert!(printed(&rendered).contains("missing config labels"));

    let plugin = "quay.example/acme/adapter:1";
    succeed(&setup.llsd(&[
        "image",
        "label",
        &build,
        "--config",
        "host/render/distributions/starter.yaml",
        "--schema",
        "llama-stack/0.7",
        "--plugin",
        plugin,
        "--tag",
        "1",
    ]));
    let image = setup.reference("acme/stack:1");
    let shown = json(&setup.llsd(&["image", "inspect", &image, "--output", "json"]));
    assert_eq!(shown["config"]["schema"], "llama-stack/0.7");
    assert_eq!(shown["config"]["plugin"], plugin);
    let file = std::fs::metadata(root().join("host/render/distributions/starter.yaml")).unwrap();
    assert_eq!(shown["config"]["size"], file.len());
    let text = succeed(&setup.llsd(&["image", "inspect", &image]));
    assert!(text.contains("schema    llama-stack/0.7"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn escape_sequences_in_labels_are_printed_as_text() {
    let setup = Setup::start(false, Access::Anyone).await;
    let build = setup.push_image("acme/stack:build").await;
    let labels = [
        "io.llamastack.config.base64=YTogMQ==",
        "io.llamastack.config.schema=\u{1b}]0;owned\u{7}\u{1b}[2J",
        "io.llamastack.config.plugin=x\nplugin    quay.io/forged",
        "com.llamastack.distribution.version=\u{9b}31m",
    ];
    let image = setup.reference("acme/stack:hostile");
    let mut mutate = vec!["mutate", &build, "--tag", &image];
    mutate.extend(labels.iter().flat_map(|label| ["--label", label]));
    setup.crane(&mutate).await;
    for output in ["human", "json"] {
        let shown = setup.llsd_in_colour(&["image", "inspect", &image, "--output", output]);
        let text = succeed(&shown);
        let is_safe = |c: char| !c.is_control() || c == '\n';
        assert!(text.chars().all(is_safe), "{text:?}");
        assert!(text.contains(r"\u001b]0;owned\u0007"), "{text}");
        if output == "human" {
            assert_eq!(text.matches("\nplugin    ").count(), 1, "{text}");
        } else {
            let read: Value = serde_json::from_str(&text).unwrap();
            let schema = read["config"]["schema"].as_str().unwrap();
            assert_eq!(schema, "\u{1b}]0;owned\u{7}\u{1b}[2J");
        }
    }
}
