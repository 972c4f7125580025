//! Shorter function names.
//!
//! In: a core module. Out: the same module, whose function names say in a few words what the
//! mangled ones say in many: they are what a trap reports, and up to a fifth of a component.

use std::borrow::Cow;

use wasm_encoder::{Module, NameMap, NameSection, RawSection};
use wasmparser::{BinaryReaderError, KnownCustom, Name, Parser, Payload};

/// Rewrites the names of a module's functions and drops those of its locals and types.
pub(crate) fn shorten(module: &[u8]) -> Result<Vec<u8>, BinaryReaderError> {
    let mut out = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        if let Payload::CustomSection(section) = &payload
            && let KnownCustom::Name(names) = section.as_known()
        {
            let mut functions = NameMap::new();
            for part in names {
                let Name::Function(map) = part? else { continue };
                for naming in map {
                    let naming = naming?;
                    functions.append(naming.index, &short(naming.name));
                }
            }
            let mut section = NameSection::new();
            section.functions(&functions);
            out.section(&section);
        } else if let Some((id, range)) = payload.as_section() {
            let data = module.get(range).unwrap_or_default();
            out.section(&RawSection { id, data });
        }
    }
    Ok(out.finish())
}

/// The demangled name; inside angle brackets, paths are cut to their last word.
fn short(name: &str) -> Cow<'_, str> {
    let Ok(symbol) = rustc_demangle::try_demangle(name) else { return Cow::Borrowed(name) };
    let mut out = String::new();
    let mut path = String::new();
    let mut depth = 0_usize;
    for c in format!("{symbol:#}").chars().chain(['\0']) {
        if c.is_alphanumeric() || c == '_' || c == ':' {
            path.push(c);
            continue;
        }
        let word = if depth > 0 { path.rsplit("::").next().unwrap_or(&path) } else { &path };
        out.push_str(word);
        path.clear();
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c != '\0' {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_is_in_a_few_words() {
        for (mangled, name) in [
            ("_ZN13llsd_dialects8assemble8assemble17h72766dd10e507aaeE", "llsd_dialects::assemble::assemble"),
            (
                "_ZN98_$LT$$RF$mut$u20$serde_json..de..Deserializer$LT$R$GT$$u20$as$u20$serde_core..de..Deserializer$GT$15deserialize_any17h334e9c1fa5c76820E",
                "<&mut Deserializer<R> as Deserializer>::deserialize_any",
            ),
            ("cabi_realloc", "cabi_realloc"),
        ] {
            assert_eq!(short(mangled), name);
        }
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(shorten(b"no module").is_err());
    }
}
