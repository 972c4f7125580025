//! `llamastack:config-adapter@1.0.0`.

macro_rules! world {
    ($module:ident, $world:literal, $doc:literal) => {
        #[doc = $doc]
        #[allow(missing_docs, unreachable_pub, unsafe_code, reason = "generated from the WIT by wasmtime")]
        pub(crate) mod $module {
            wasmtime::component::bindgen!({
                path: "../../wit/v1.0.0",
                world: $world,
                // A guest is suspended from time to time, see `call.rs`.
                exports: { default: async },
            });

            use exports::llamastack::config_adapter::types as wire;
            use llsd_adapter_sdk::exchange::Text;
            use llsd_adapter_sdk::{Answer, Diagnostic, Outcome, Severity};

            impl From<&Text> for wire::Document {
                fn from(text: &Text) -> Self {
                    Self { shape: text.shape.clone(), json: text.json.clone() }
                }
            }

            impl From<wire::Document> for Text {
                fn from(wire::Document { shape, json }: wire::Document) -> Self {
                    Self { shape, json }
                }
            }

            impl From<wire::Diagnostic> for Diagnostic {
                fn from(wire::Diagnostic { severity, code, field, problem, fix }: wire::Diagnostic) -> Self {
                    let severity = match severity {
                        wire::Severity::Warning => Severity::Warning,
                        wire::Severity::Error => Severity::Error,
                    };
                    Self { field, severity, code, problem, fix }
                }
            }

            /// Converts an outcome into the SDK's type.
            pub(crate) fn from_wire(outcome: Result<wire::Outcome, Vec<wire::Diagnostic>>) -> Answer<Text> {
                let list = |all: Vec<wire::Diagnostic>| all.into_iter().map(Into::into).collect();
                match outcome {
                    Ok(wire::Outcome { output, warnings }) => {
                        Ok(Outcome { output: output.into(), warnings: list(warnings) })
                    }
                    Err(problems) => Err(list(problems)),
                }
            }
        }
    };
}

world!(
    schema_adapter,
    "schema-adapter",
    "The `schema-adapter` world."
);
world!(provider_pack, "provider-pack", "The `provider-pack` world.");
