//! The protocols of cloud object stores: [`Protocol`].

use super::Server;

/// A protocol by which tests access a bucket named `fleet`.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "no test program uses all of them")]
pub(crate) enum Protocol {
    /// Amazon S3.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Google,
}

#[allow(dead_code, reason = "no test program uses all of it")]
impl Protocol {
    /// A server with the bucket: the tests' own, or a proxy in front of the address in [`Self::variable`].
    #[allow(clippy::print_stdout, reason = "a test says where the bucket is")]
    pub(crate) fn server(self) -> Server {
        let Some(variable) = self.variable() else {
            return Server::start();
        };
        match std::env::var(variable) {
            Ok(upstream) => Server::in_front_of(upstream.parse().unwrap(), self.host()),
            Err(_) => {
                println!("{variable} is not set: the bucket is in a server of the test's own");
                Server::start()
            }
        }
    }

    /// The environment variable with an emulator's address. No known emulator for Google evaluates write conditions.
    fn variable(self) -> Option<&'static str> {
        match self {
            Self::S3 => Some("KILN_S3"),
            Self::Azure => Some("KILN_AZURE"),
            Self::Google => None,
        }
    }

    /// The `Host` header that the emulator requires: Azure's contains the account.
    fn host(self) -> Option<&'static str> {
        match self {
            Self::Azure => Some("devstoreaccount1.blob.localhost"),
            Self::S3 | Self::Google => None,
        }
    }

    /// The address of a folder in the bucket.
    pub(crate) fn address(self, folder: &str) -> String {
        let scheme = match self {
            Self::S3 => "s3",
            Self::Azure => "az",
            Self::Google => "gs",
        };
        format!("{scheme}://fleet/{folder}")
    }

    /// The settings to access a server.
    pub(crate) fn settings(self, server: &Server) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", server.socket());
        let settings = match self {
            Self::S3 => vec![
                ("aws_endpoint", &*endpoint),
                ("aws_allow_http", "true"),
                ("aws_region", "us-east-1"),
                ("aws_access_key_id", "test"),
                ("aws_secret_access_key", "test"),
            ],
            // The account and key of every emulator, which are public.
            Self::Azure => vec![
                ("azure_storage_endpoint", &*endpoint),
                ("azure_allow_http", "true"),
                ("azure_storage_account_name", "devstoreaccount1"),
                (
                    "azure_storage_account_key",
                    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
                ),
            ],
            Self::Google => vec![
                ("google_base_url", &*endpoint),
                ("allow_http", "true"),
                ("google_bearer_token", "test"),
            ],
        };
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        settings.into_iter().map(owned).collect()
    }
}
