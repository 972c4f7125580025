//! Writes the server releases of `tests/oracle/releases.json` as Rust code: the constant `RELEASES`, and
//! the macro `test_each_release!` with a test for each of them.

use std::error::Error;
use std::path::Path;

use serde_json::Value;

const LIST: &str = "../oracle/releases.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={LIST}");
    let list: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(LIST)?)?;
    let (mut releases, mut tests) = (String::new(), String::new());
    for (index, release) in list.iter().enumerate() {
        let (name, schema) = (text(release, "name")?, text(release, "schema")?);
        releases += &format!("Release {{ name: {name:?}, schema: {schema:?} }},\n");
        let test = name.replace(['.', '-'], "_");
        tests += &format!(
            "#[test]\nfn release_{test}() {{ super::$check($crate::RELEASES[{index}]); }}\n"
        );
    }
    let newest = list
        .iter()
        .rposition(|release| text(release, "schema").is_ok_and(|id| id.starts_with("llama-stack/")))
        .ok_or("no release of llama-stack")?;
    let count = list.len();
    let code = format!(
        "/// Every release that the oracle installs.\n\
         pub const RELEASES: [Release; {count}] = [\n{releases}];\n\
         /// The newest release of llama-stack, which the built-in distribution names run.\n\
         pub const NEWEST_LLAMA_STACK: Release = RELEASES[{newest}];\n\
         /// Defines a test for each release, which calls the function with it. The tests are in a module\n\
         /// with the name of the function.\n\
         #[macro_export]\n\
         macro_rules! test_each_release {{\n($check:ident) => {{\nmod $check {{\n{tests}}}\n}};\n}}\n"
    );
    let folder = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&folder).join("releases.rs"), code)?;
    Ok(())
}

fn text<'a>(release: &'a Value, key: &str) -> Result<&'a str, String> {
    let value = release[key].as_str();
    value.ok_or_else(|| format!("{LIST}: {key} must be a string"))
}
