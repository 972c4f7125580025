//! The files of the page, and the samples to start from. All of them are in the binary.

use serde::Serialize;

/// A file of the page.
pub(super) struct Asset {
    /// Its path below `/`.
    pub(super) path: &'static str,
    pub(super) media_type: &'static str,
    pub(super) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The files. The first one is the page itself.
pub(super) const ASSETS: [Asset; 9] = [
    asset("/", HTML, include_str!("assets/index.html")),
    asset("/page.css", CSS, include_str!("assets/page.css")),
    asset("/main.js", JAVASCRIPT, include_str!("assets/main.js")),
    asset("/editor.js", JAVASCRIPT, include_str!("assets/editor.js")),
    asset("/answer.js", JAVASCRIPT, include_str!("assets/answer.js")),
    asset("/panels.js", JAVASCRIPT, include_str!("assets/panels.js")),
    asset(
        "/releases.js",
        JAVASCRIPT,
        include_str!("assets/releases.js"),
    ),
    asset("/link.js", JAVASCRIPT, include_str!("assets/link.js")),
    asset("/icon.svg", SVG, include_str!("assets/icon.svg")),
];

const fn asset(path: &'static str, media_type: &'static str, text: &'static str) -> Asset {
    Asset {
        path,
        media_type,
        text,
    }
}

/// A sample.
#[derive(Serialize)]
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! samples {
    ($($name:literal),* $(,)?) => {
        /// The samples of this repository, the simplest first.
        pub(super) const SAMPLES: &[Sample] = &[
            $(Sample { name: $name, text: include_str!(concat!("../../../../samples/", $name, ".yaml")) }),*
        ];
    };
}

samples![
    "minimal",
    "default",
    "vllm",
    "ollama",
    "multi-provider",
    "tools",
    "mcp",
    "postgres",
    "postgres-state",
    "redis",
    "mongodb-state",
    "vector-stores",
    "evaluation",
    "secret-files",
    "tls",
    "access",
    "telemetry",
    "gateway",
    "gpu",
    "autoscaling",
    "trimmed",
    "config-patch",
    "external-provider",
    "override",
    "full",
    "v1alpha1/vllm",
    "v1alpha1/ollama",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_the_page_together_are_smaller_than_200_kb() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes < 200_000, "{bytes}");
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_has_no_inline_code() {
        for asset in &ASSETS {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            for forbidden in [
                "http://",
                "https://",
                "innerHTML",
                "eval(",
                " style=\"",
                "onclick=",
            ] {
                assert!(!text.contains(forbidden), "{}: {forbidden}", asset.path);
            }
        }
    }

    #[test]
    fn every_sample_of_the_repository_is_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");
        for below in ["", "v1alpha1/"] {
            for entry in std::fs::read_dir(format!("{folder}/{below}")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let Some(name) = name.strip_suffix(".yaml") else {
                    continue;
                };
                let name = format!("{below}{name}");
                assert!(SAMPLES.iter().any(|sample| sample.name == name), "{name}");
            }
        }
    }
}
