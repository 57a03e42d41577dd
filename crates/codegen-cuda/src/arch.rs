//! The GPU architectures that code is generated for: the levels of the target `cuda`.

use std::fmt;
use std::str::FromStr;

use kiln_backend::Target;

use crate::error::CudaError;

/// The backend's name in targets.
const BACKEND: &str = "cuda";

/// An architecture, by NVIDIA's name for it.
///
/// Code for an architecture with a suffix runs only on exactly that compute capability; other code also runs on later
/// capabilities of the same major version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CudaArch {
    /// A100.
    Sm80,
    /// A10, RTX 30.
    Sm86,
    /// L4, L40, RTX 40.
    Sm89,
    /// H100, H200, with their warp-group matrix instructions.
    Sm90a,
    /// B200.
    Sm100,
    /// RTX 50.
    Sm120,
}

/// A row of the table.
struct ArchInfo {
    name: &'static str,
    /// The compute capability.
    capability: (u32, u32),
    /// Bytes of shared memory that a block can have.
    shared_bytes: u32,
}

impl CudaArch {
    /// Every architecture, oldest first.
    pub const ALL: [CudaArch; 6] = [
        CudaArch::Sm80,
        CudaArch::Sm86,
        CudaArch::Sm89,
        CudaArch::Sm90a,
        CudaArch::Sm100,
        CudaArch::Sm120,
    ];

    /// The table.
    const fn info(self) -> ArchInfo {
        let (name, capability, kilobytes) = match self {
            CudaArch::Sm80 => ("sm_80", (8, 0), 163),
            CudaArch::Sm86 => ("sm_86", (8, 6), 99),
            CudaArch::Sm89 => ("sm_89", (8, 9), 99),
            CudaArch::Sm90a => ("sm_90a", (9, 0), 227),
            CudaArch::Sm100 => ("sm_100", (10, 0), 227),
            CudaArch::Sm120 => ("sm_120", (12, 0), 99),
        };
        ArchInfo {
            name,
            capability,
            shared_bytes: kilobytes << 10,
        }
    }

    /// The name, as in targets and keys: `sm_90a`.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The compute capability: `(9, 0)`.
    pub const fn capability(self) -> (u32, u32) {
        self.info().capability
    }

    /// Bytes of shared memory that a block can have. Source: the table of compute capabilities in the CUDA C++ Programming
    /// Guide.
    pub const fn shared_bytes(self) -> u32 {
        self.info().shared_bytes
    }

    /// Whether groups of four warps multiply matrices in shared memory (`wgmma`). Source: the PTX ISA, which has it for
    /// `sm_90a` alone.
    pub(crate) const fn has_warp_groups(self) -> bool {
        matches!(self, CudaArch::Sm90a)
    }

    /// The newest architecture whose code a device of this compute capability runs, if there is one.
    pub fn of_device(major: u32, minor: u32) -> Option<Self> {
        let runs = |arch: &Self| {
            let (own, revision) = arch.capability();
            let is_exact = arch.name().ends_with('a');
            own == major && (revision == minor || (revision < minor && !is_exact))
        };
        Self::ALL.into_iter().rfind(runs)
    }

    /// The target.
    pub fn target(self) -> Target {
        Target {
            backend: BACKEND.to_owned(),
            level: self.name().to_owned(),
        }
    }

    /// The architecture of a target.
    ///
    /// # Errors
    /// If the target is another backend's, or its level is not an architecture.
    pub fn of_target(target: &Target) -> Result<Self, CudaError> {
        if target.backend != BACKEND {
            return Err(unknown(&target.to_string()));
        }
        target.level.parse()
    }
}

fn unknown(found: &str) -> CudaError {
    CudaError::Arch {
        found: found.escape_default().to_string(),
        known: CudaArch::ALL.map(CudaArch::name).join(", "),
    }
}

impl fmt::Display for CudaArch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for CudaArch {
    type Err = CudaError;

    fn from_str(name: &str) -> Result<Self, CudaError> {
        let mut all = Self::ALL.into_iter();
        all.find(|arch| arch.name() == name)
            .ok_or_else(|| unknown(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_round_trip_through_targets() {
        for arch in CudaArch::ALL {
            assert_eq!(CudaArch::of_target(&arch.target()), Ok(arch));
        }
        let error = "sm_70\n".parse::<CudaArch>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a GPU architecture among sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120, found `sm_70\\n`"
        );
        let cpu = Target {
            backend: "llvm".to_owned(),
            level: "sm_80".to_owned(),
        };
        assert_eq!(CudaArch::of_target(&cpu).unwrap_err().code(), "E0555");
    }

    #[test]
    fn devices_run_code_of_their_major_version() {
        let of = CudaArch::of_device;
        assert_eq!(of(9, 0), Some(CudaArch::Sm90a));
        assert_eq!(of(8, 7), Some(CudaArch::Sm86));
        assert_eq!(of(10, 3), Some(CudaArch::Sm100));
        assert_eq!(of(7, 5), None);
        assert_eq!(of(9, 1), None, "code with a suffix is for one capability");
    }
}
