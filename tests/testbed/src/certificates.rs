//! A certificate authority for one test run, and the certificates that it signs.

use std::path::Path;

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

/// A certificate authority, with its certificate and key in PEM.
#[derive(Debug)]
pub struct CertificateAuthority {
    certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its private key, both in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate, without the issuer's certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

impl CertificateAuthority {
    /// Creates an authority with a new key.
    pub fn generate() -> Result<Self> {
        let key = KeyPair::generate()?;
        let certificate = Self::params().self_signed(&key)?.pem();
        Self::from_parts(certificate, key)
    }

    /// Reads an authority that [`CertificateAuthority::save`] wrote.
    pub fn load(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let file = folder.join(name);
            std::fs::read_to_string(&file)
                .with_context(|| format!("failed to read {}", file.display()))
        };
        Self::from_parts(read("ca.crt")?, KeyPair::from_pem(&read("ca.key")?)?)
    }

    /// Writes `ca.crt` and `ca.key` into a folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::write(folder.join("ca.crt"), &self.certificate)?;
        std::fs::write(folder.join("ca.key"), &self.key)?;
        Ok(())
    }

    /// The certificate that clients must trust, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for a server with these DNS names and addresses.
    pub fn server(&self, names: &[&str]) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = distinguished_name("server", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A client certificate for a Kubernetes user in a group.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    fn from_parts(certificate: String, key: KeyPair) -> Result<Self> {
        let pem = key.serialize_pem();
        Ok(Self {
            certificate,
            key: pem,
            issuer: Issuer::new(Self::params(), key),
        })
    }

    fn params() -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name("llsd testbed authority", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    }
}

fn distinguished_name(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}
