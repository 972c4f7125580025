//! The provider catalogue: the keys that each provider type reads in a release.
//!
//! In: the text of a slice (columns and marks are explained in `catalog/extract.py`). Out: one line
//! of it; its columns are parsed on demand.

pub(crate) mod slice;

use slice::Slice;

use crate::layout::{Dialect, Kind};
use crate::{apis, names};
use llsd_adapter_sdk::Release;

/// The catalogue of a dialect, for one release or for all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Catalog {
    /// The slices to search, oldest first. The last one takes precedence.
    slices: &'static [Slice],
}

impl Catalog {
    /// The slice of a known release. If the release is unknown, all slices of the dialect, so that a
    /// provider of any of its releases is found.
    pub(crate) fn of(dialect: &'static Dialect, release: Option<Release>) -> Self {
        let all = dialect.slices;
        let Some(release) = release else {
            return Self { slices: all };
        };
        let newest = all.iter().rposition(|slice| slice.from <= release);
        let chosen = newest.unwrap_or(0);
        Self {
            slices: all.get(chosen..=chosen).unwrap_or_default(),
        }
    }

    /// One provider type of an API.
    pub(crate) fn find(&self, api: &str, provider_type: &str) -> Option<Provider> {
        self.newest_first()
            .find_map(|slice| slice.find(api, provider_type))
    }

    /// Whether all slices have this type.
    pub(crate) fn is_everywhere(&self, api: &str, provider_type: &str) -> bool {
        self.newest_first()
            .all(|slice| slice.find(api, provider_type).is_some())
    }

    /// The provider types of an API, in order of their type.
    pub(crate) fn types(&self, api: &str) -> Vec<Provider> {
        let mut all: Vec<Provider> = Vec::new();
        for provider in self.newest_first().flat_map(|slice| slice.types(api)) {
            if let Err(place) =
                all.binary_search_by_key(&provider.provider_type, |known| known.provider_type)
            {
                all.insert(place, provider);
            }
        }
        all
    }

    /// Finds an API by its name in any spelling, or by its name in other releases.
    pub(crate) fn api(&self, name: &str) -> Option<&'static str> {
        let exact = |name: &str| {
            self.newest_first()
                .flat_map(Slice::apis)
                .find(|api| apis::same(api, name))
        };
        exact(name).or_else(|| exact(apis::other_name(name)?))
    }

    /// Every API that has providers, sorted.
    pub(crate) fn apis(&self) -> Vec<&'static str> {
        let mut all: Vec<&'static str> = Vec::new();
        for api in self.newest_first().flat_map(Slice::apis) {
            names::insert_sorted(&mut all, api);
        }
        all
    }

    /// The `fix` text for an unknown provider name.
    pub(crate) fn choose(&self, api: &str, name: &str) -> String {
        let types = self.types(api);
        names::choose(name, types.iter().map(|provider| provider.name()))
    }

    fn newest_first(&self) -> impl Iterator<Item = &'static Slice> {
        self.slices.iter().rev()
    }
}

/// One line of the catalogue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Provider {
    /// `remote::vllm`.
    pub(crate) provider_type: &'static str,
    endpoint: &'static str,
    /// The key that holds the credential.
    pub(crate) credential: Option<&'static str>,
    needs: &'static str,
    /// The tool group that it registers.
    pub(crate) toolgroup: Option<&'static str>,
    fields: &'static str,
}

/// The key of a provider's endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The key.
    pub(crate) key: &'static str,
    /// The format of its value.
    pub(crate) kind: EndpointKind,
    /// What the path of the URL must be.
    pub(crate) path: EndpointPath,
}

/// The format of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    /// A URL with a scheme, which the server validates.
    Http,
    /// An address that the server does not validate.
    Url,
    /// A host name alone.
    Host,
    /// A connection string of a database driver.
    Dsn,
}

/// What the path of an endpoint must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndpointPath {
    /// `/v1`, which the provider does not append.
    V1,
    /// Without `/v1`, which the provider appends.
    Bare,
    /// Unknown.
    Any,
}

/// One key of a provider's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// The key.
    pub(crate) name: &'static str,
    /// Whether it is required.
    pub(crate) is_required: bool,
    /// Whether it may be null although it is required.
    pub(crate) is_nullable: bool,
    /// Whether it is deprecated.
    pub(crate) is_deprecated: bool,
    /// The default value that the adapter generates.
    pub(crate) filling: Filling,
}

/// A default value that the adapter generates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// None: only the user sets it.
    Nothing,
    /// A store.
    Store(Kind),
    /// An object of stores, `name:kind` joined by `+`.
    Stores(&'static str),
    /// A file on the volume.
    File,
    /// A folder on the volume.
    Folder,
}

/// How a provider treats unknown keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Ignores them silently.
    Dropped,
    /// Keeps them.
    Kept,
    /// Refuses to start.
    Refused,
}

impl Provider {
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ').skip(1);
        let mut next = || words.next();
        let some = |word: &'static str| (word != "-").then_some(word);
        Some(Self {
            provider_type: next()?,
            endpoint: next()?,
            credential: some(next()?),
            needs: next()?,
            toolgroup: some(next()?),
            fields: next()?,
        })
    }

    /// The short name: the type without `remote::` or `inline::`.
    pub(crate) fn name(&self) -> &'static str {
        self.provider_type
            .split_once("::")
            .map_or(self.provider_type, |(_, name)| name)
    }

    /// The endpoint's key, if there is one.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        let mut words = self.endpoint.split(':');
        let key = words.next().filter(|key| *key != "-")?;
        let kind = match words.next()? {
            "http" => EndpointKind::Http,
            "host" => EndpointKind::Host,
            "dsn" => EndpointKind::Dsn,
            _ => EndpointKind::Url,
        };
        let path = match words.next() {
            Some("/v1") => EndpointPath::V1,
            Some("bare") => EndpointPath::Bare,
            _ => EndpointPath::Any,
        };
        Some(Endpoint { key, kind, path })
    }

    /// The APIs that it requires.
    pub(crate) fn needs(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.needs.split(',').filter(|api| *api != "-")
    }

    /// The keys of its configuration.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> + use<> {
        self.fields
            .split(',')
            .filter(|word| !matches!(*word, "-" | "*" | "#"))
            .map(field)
    }

    /// One key of its configuration.
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields().find(|field| field.name == name)
    }

    /// How it treats unknown keys.
    pub(crate) fn unknown(&self) -> Unknown {
        match self.fields.rsplit(',').next() {
            Some("*") => Unknown::Kept,
            Some("#") => Unknown::Refused,
            _ => Unknown::Dropped,
        }
    }
}

fn field(word: &'static str) -> Field {
    let (head, filling) = word.split_once('=').unwrap_or((word, ""));
    let name = head.trim_end_matches(['!', '?', '~']);
    Field {
        name,
        is_required: head.contains(['!', '?']),
        is_nullable: head.contains('?'),
        is_deprecated: head.contains('~'),
        filling: match filling {
            "" => Filling::Nothing,
            "kv" => Filling::Store(Kind::Kv),
            "sql" => Filling::Store(Kind::Sql),
            "file" => Filling::File,
            "dir" => Filling::Folder,
            stores => Filling::Stores(stores),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::*;

    #[test]
    fn every_line_of_every_slice_is_found_and_parses() {
        for dialect in ALL {
            for slice in dialect.slices {
                let lines: Vec<_> = slice.rows().collect();
                assert!(lines.len() > 40, "{}", dialect.id);
                for line in lines {
                    let mut words = line.split(' ');
                    let (api, kind) = (words.next().unwrap(), words.next().unwrap());
                    let found = slice
                        .find(api, kind)
                        .unwrap_or_else(|| panic!("{}: {line}", dialect.id));
                    assert_eq!(found.provider_type, kind);
                    assert_eq!(line.split(' ').count(), 7, "{line}");
                    for field in found.fields() {
                        assert!(!field.name.is_empty(), "{line}");
                    }
                }
                assert!(slice.find("inference", "remote::nothing").is_none());
                assert!(slice.find("", "").is_none());
                assert!(slice.find("zzz", "zzz").is_none());
            }
        }
    }

    #[test]
    fn keys_of_a_provider_differ_by_release() {
        let endpoint = |dialect, kind| {
            Catalog::of(dialect, None)
                .find("inference", kind)
                .unwrap()
                .endpoint()
                .unwrap()
        };
        assert_eq!(endpoint(&LLAMA_STACK_0_3, "remote::vllm").key, "url");
        assert_eq!(endpoint(&LLAMA_STACK_0_4, "remote::vllm").key, "base_url");
        assert_eq!(
            endpoint(&LLAMA_STACK_0_3, "remote::ollama").path,
            EndpointPath::Bare
        );
        assert_eq!(
            endpoint(&LLAMA_STACK_0_4, "remote::ollama").path,
            EndpointPath::V1
        );
        let bedrock = |release| {
            Catalog::of(&OGX_1_0, release)
                .find("inference", "remote::bedrock")
                .unwrap()
                .credential
        };
        assert_eq!(bedrock(Some(Release::first(1, 0, 3))), Some("api_key"));
        assert_eq!(bedrock(None), Some("aws_bedrock_bearer_token"));
    }

    #[test]
    fn a_type_of_some_releases_only_is_known_as_such_while_the_release_is_unknown() {
        let unknown = Catalog::of(&LLAMA_STACK_0_5, None);
        assert!(
            unknown
                .find("inference", "remote::llama-cpp-server")
                .is_some()
        );
        assert!(!unknown.is_everywhere("inference", "remote::llama-cpp-server"));
        assert!(
            Catalog::of(&LLAMA_STACK_0_5, Some(Release::first(0, 5, 2)))
                .find("inference", "remote::llama-cpp-server")
                .is_none()
        );
        let old = Catalog::of(&LLAMA_STACK_0_2_13, None);
        assert!(
            old.find("inference", "inline::vllm").is_some(),
            "only the older slice has it"
        );
    }

    #[test]
    fn an_api_is_found_by_any_spelling_and_by_its_other_name() {
        let catalog = Catalog::of(&LLAMA_STACK_0_7, None);
        assert_eq!(catalog.api("vectorIo"), Some("vector_io"));
        assert_eq!(catalog.api("agents"), Some("responses"));
        assert_eq!(catalog.api("postTraining"), None);
        assert_eq!(
            Catalog::of(&LLAMA_STACK_0_5, None).api("responses"),
            Some("agents")
        );
    }

    #[test]
    fn marks_of_a_field_are_read() {
        assert_eq!(
            field("persistence!=agent_state:kv+responses:sql"),
            Field {
                name: "persistence",
                is_required: true,
                is_nullable: false,
                is_deprecated: false,
                filling: Filling::Stores("agent_state:kv+responses:sql"),
            }
        );
        let token = field("token?");
        assert!(token.is_required && token.is_nullable);
        assert!(field("tls_verify~").is_deprecated);
    }
}
