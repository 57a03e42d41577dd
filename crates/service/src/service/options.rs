//! The limits of a service.

use crate::error::ServiceError;

/// The limits of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Threads that compile, each one kernel at a time: 1.
    pub compile_threads: usize,
    /// The maximum number of waiting compiles of all clients: 256.
    pub max_queued: usize,
    /// The maximum number of waiting compiles of one client: 64.
    pub max_queued_per_client: usize,
    /// The maximum number of kernels in memory; the least recently used are evicted first: 1,024.
    pub max_kernels: usize,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            compile_threads: 1,
            max_queued: 256,
            max_queued_per_client: 64,
            max_kernels: 1024,
        }
    }
}

impl ServiceOptions {
    /// # Errors
    /// E1433 for an invalid number.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        for (name, found, most) in [
            ("compile_threads", self.compile_threads, 256),
            ("max_queued", self.max_queued, usize::MAX),
            (
                "max_queued_per_client",
                self.max_queued_per_client,
                usize::MAX,
            ),
            ("max_kernels", self.max_kernels, usize::MAX),
        ] {
            if found == 0 || found > most {
                let expected = match most {
                    usize::MAX => "at least 1".to_owned(),
                    most => format!("1 to {most}"),
                };
                return Err(ServiceError::Setting {
                    name,
                    expected,
                    found: found.to_string(),
                });
            }
        }
        Ok(())
    }
}
