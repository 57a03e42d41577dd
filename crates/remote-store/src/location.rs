//! Opens the store at an address.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;
use url::Url;

use crate::error::RemoteError;

/// The kinds of addresses: scheme, feature that it needs (empty if none), an example.
const KINDS: [(&str, &str, &str); 10] = [
    ("file", "", "file:///mnt/shared/kiln"),
    ("s3", "aws", "s3://bucket/kiln"),
    ("s3a", "aws", "s3a://bucket/kiln"),
    ("gs", "gcp", "gs://bucket/kiln"),
    ("az", "azure", "az://container/kiln"),
    ("azure", "azure", "azure://container/kiln"),
    ("abfs", "azure", "abfs://container/kiln"),
    ("abfss", "azure", "abfss://container/kiln"),
    ("http", "http", "http://cache.local:8080/kiln"),
    ("https", "http", "https://cache.local/kiln"),
];

const EXAMPLE: &str = "s3://bucket/kiln, https://cache.local/kiln or file:///mnt/shared/kiln";

/// The store at an address, and the prefix of all names in it.
///
/// Settings have the names that the stores' own tools use: `aws_access_key_id`, `aws_endpoint`, `google_service_account`,
/// `azure_storage_account_name`, `allow_http`.
pub(crate) fn open(
    address: &str,
    settings: Vec<(String, String)>,
) -> Result<(Arc<dyn ObjectStore>, Path), RemoteError> {
    let url = Url::parse(address).map_err(|error| wrong(address, error.to_string(), EXAMPLE))?;
    let kind = KINDS.iter().find(|(scheme, ..)| *scheme == url.scheme());
    let Some((scheme, feature, example)) = kind else {
        let problem = format!("stores at `{}:` addresses are unknown", url.scheme());
        return Err(wrong(address, problem, EXAMPLE));
    };
    if !is_built_in(feature) {
        return Err(RemoteError::NotBuiltIn {
            scheme: (*scheme).to_owned(),
            feature,
            package: "kiln-remote-store",
        });
    }
    secure_transport();
    let setting = |name: &str| (name.to_owned(), "true".to_owned());
    // Objects are deleted one at a time, because not all servers that speak S3's protocol support deleting several. The
    // caller's settings come later, and take precedence.
    let single = feature == &"aws";
    let settings = single
        .then(|| setting("aws_disable_bulk_delete"))
        .into_iter()
        .chain(settings)
        .chain((*scheme == "http").then(|| setting("allow_http")));
    let opened = object_store::parse_url_opts(&url, settings);
    let (store, prefix) = opened.map_err(|error| wrong(address, error.to_string(), example))?;
    Ok((Arc::from(store), prefix))
}

fn is_built_in(feature: &str) -> bool {
    match feature {
        "aws" => cfg!(feature = "aws"),
        "gcp" => cfg!(feature = "gcp"),
        "azure" => cfg!(feature = "azure"),
        "http" => cfg!(feature = "http"),
        _ => true,
    }
}

/// Installs a TLS provider, unless the program already has one.
fn secure_transport() {
    #[cfg(feature = "http")]
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An address that cannot be used, shown without credentials or parameters.
fn wrong(address: &str, problem: String, example: &'static str) -> RemoteError {
    let address = match Url::parse(address) {
        Ok(mut url) => {
            let _ = url.set_password(None);
            let _ = url.set_username("");
            url.set_query(None);
            url.set_fragment(None);
            url.to_string()
        }
        Err(_) => address.chars().take(64).collect(),
    };
    RemoteError::Address {
        address,
        problem,
        example,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(address: &str) -> String {
        match open(address, Vec::new()) {
            Ok(_) => panic!("{address} opens"),
            Err(error) => format!("{} {error}", error.code()),
        }
    }

    #[test]
    fn addresses_that_are_none_are_refused_with_an_example() {
        for address in ["", "cache", "/mnt/shared", "ftp://host/x", "C:\\cache"] {
            let problem = problem(address);
            assert!(problem.starts_with("E0730 "), "{problem}");
            assert!(problem.contains("file:///mnt/shared/kiln"), "{problem}");
        }
    }

    #[test]
    fn errors_show_no_credentials() {
        let problem = problem("ftp://me:secret@host/x?token=secret");
        assert!(problem.contains("ftp://host/x"), "{problem}");
        assert!(!problem.contains("secret"), "{problem}");
    }

    #[test]
    fn a_folder_is_a_store_and_a_prefix() {
        let (_, prefix) = open("file:///mnt/shared/kiln", Vec::new()).unwrap();
        assert_eq!(prefix.to_string(), "mnt/shared/kiln");
    }
}
