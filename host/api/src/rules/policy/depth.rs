//! The limit of nesting, as CEL.
//!
//! CEL has no recursion and no loop other than over a list, so the expression has one `all` for each
//! level. Each ranges over the values of a list or an object; an object is turned into the list of its values
//! first, because the macros range over its keys. The API server also limits the cost of an
//! expression, and denies a resource with so many values that this expression exceeds it.

/// The values of a list or an object; none for other types.
macro_rules! values {
    ($x:literal) => {
        concat!(
            "(type(",
            $x,
            ") == map ? ",
            $x,
            ".map(k, ",
            $x,
            "[k]) : type(",
            $x,
            ") == list ? ",
            $x,
            " : [])"
        )
    };
}

/// Every value of `$x`, and of what is in it, has at most as many levels as names follow.
macro_rules! at_most {
    ($x:literal) => {
        concat!(values!($x), ".all(v, type(v) != map && type(v) != list)")
    };
    ($x:literal, $next:literal $(, $rest:literal)*) => {
        concat!(values!($x), ".all(", $next, ", ", at_most!($next $(, $rest)*), ")")
    };
}

/// True if `spec` has at most [`SPEC_DEPTH`](crate::limits::SPEC_DEPTH) levels: one name for each.
pub(super) const DEPTH: &str = at_most!(
    "dyn(object.spec)",
    "l2",
    "l3",
    "l4",
    "l5",
    "l6",
    "l7",
    "l8",
    "l9",
    "l10",
    "l11",
    "l12",
    "l13",
    "l14",
    "l15",
    "l16",
    "l17",
    "l18",
    "l19",
    "l20",
    "l21",
    "l22",
    "l23",
    "l24",
    "l25",
    "l26",
    "l27",
    "l28",
    "l29",
    "l30",
    "l31",
    "l32"
);
