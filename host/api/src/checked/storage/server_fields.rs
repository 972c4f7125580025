//! Fields of a database server that are set without its type.

use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::rules::Rule;

/// Fields of a database server have no effect on sqlite. They are an error if the type is missing,
/// because the author probably meant the server.
pub(super) fn check_server_fields(
    has_type: bool,
    used: &[(&str, bool)],
    path: &FieldPath,
    (server, rule): (&str, &Rule),
    diagnostics: &mut Collector,
) {
    let mut used = used
        .iter()
        .filter(|(_, used)| *used)
        .map(|(field, _)| *field);
    if !has_type && used.next().is_some() {
        diagnostics.violation(rule, &path.field("type"));
        return;
    }
    for field in used {
        diagnostics.warning(
            &path.field(field),
            "has no effect: the type is sqlite",
            format!("remove it, or set type: {server}"),
        );
    }
}
