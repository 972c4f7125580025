//! The component's exports, which `cargo xtask generate` writes from the WIT; [`export!`](crate::export)
//! implements them.
//!
//! A component serves one world, so a plugin enables one of the features `schema-adapter` and
//! `provider-pack`. Only a WebAssembly build has them: natively the same adapter is a plain Rust type, and
//! [`exchange`](crate::exchange) is its boundary.

macro_rules! conversions {
    () => {
        use crate::diagnostic::{Answer, Diagnostic, Outcome, Severity};
        use crate::exchange::Text;
        use exports::llamastack::config_adapter::types as wire;

        impl From<Text> for wire::Document {
            fn from(Text { shape, json }: Text) -> Self {
                Self { shape, json }
            }
        }

        impl From<wire::Document> for Text {
            fn from(wire::Document { shape, json }: wire::Document) -> Self {
                Self { shape, json }
            }
        }

        impl From<Diagnostic> for wire::Diagnostic {
            fn from(
                Diagnostic {
                    field,
                    severity,
                    code,
                    problem,
                    fix,
                }: Diagnostic,
            ) -> Self {
                let severity = match severity {
                    Severity::Warning => wire::Severity::Warning,
                    Severity::Error => wire::Severity::Error,
                };
                Self {
                    severity,
                    code,
                    field,
                    problem,
                    fix,
                }
            }
        }

        /// Converts an answer to the types of the contract.
        pub fn to_wire(answer: Answer<Text>) -> Result<wire::Outcome, Vec<wire::Diagnostic>> {
            let list = |all: Vec<Diagnostic>| all.into_iter().map(Into::into).collect();
            match answer {
                Ok(Outcome { output, warnings }) => Ok(wire::Outcome {
                    output: output.into(),
                    warnings: list(warnings),
                }),
                Err(problems) => Err(list(problems)),
            }
        }
    };
}

/// The `schema-adapter` world.
#[cfg(feature = "schema-adapter")]
pub mod schema_adapter {
    include!("bindings/schema_adapter.rs");
    conversions!();
}

/// The `provider-pack` world.
#[cfg(feature = "provider-pack")]
pub mod provider_pack {
    include!("bindings/provider_pack.rs");
    conversions!();
}
