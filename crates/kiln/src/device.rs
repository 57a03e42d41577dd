//! Devices, which execute models, and their registry, by key.
//!
//! A [`Device`] is the interpreter, or a [`DeviceEntry`]: how to get a compiler and an executor, and what fusion may do
//! there. The CPU is an entry like any other. The executors themselves are in the backend crates.

#[cfg(feature = "native")]
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod entry;
mod key;
mod registry;

pub use entry::{DeviceEntry, DeviceProblem, DeviceSetup, StoredBy};

use crate::error::{Error, Failure};
use kiln_fusion::FusionOptions;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What executes a model: the reference interpreter, or a device that runs compiled code.
///
/// A device has a key, such as `cpu`, and may have levels to compile for, which follow a colon: `cpu:avx2+fma`. The default
/// of a release build is the CPU, if this build has a compiler; a debug build interprets, so that a program under
/// development starts at once and every op can be followed.
///
/// ```
/// use kiln::Device;
///
/// assert_eq!("interpreter".parse::<Device>()?, Device::interpreter());
/// assert!(Device::all().contains(&Device::default()));
/// let error = "abacus".parse::<Device>().unwrap_err();
/// assert!(error.to_string().starts_with("unknown device `abacus`, expected one of: interpreter"));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    kind: Kind,
    /// The part of its key after the colon.
    level: Option<String>,
}

#[derive(Clone)]
enum Kind {
    Interpreter,
    /// The CPU, even in builds that cannot compile for it: bundles run on it.
    #[cfg_attr(
        not(feature = "native"),
        allow(dead_code, reason = "this build has only the interpreter")
    )]
    Cpu,
    Other(Arc<dyn DeviceEntry>),
}

const INTERPRETER: &str = "interpreter";
const CPU: &str = "cpu";
const CUDA: &str = "cuda";

/// The keys that no other device may have.
const OWN_KEYS: [&str; 3] = [INTERPRETER, CPU, CUDA];

impl Device {
    /// The reference interpreter: one op after another, on one thread. Slow; it defines the meaning of every op.
    pub const fn interpreter() -> Self {
        Self {
            kind: Kind::Interpreter,
            level: None,
        }
    }

    /// This machine's CPU: native code, compiled by LLVM when a call first needs it. Available in builds with the feature
    /// `llvm`.
    pub const fn cpu() -> Self {
        Self {
            kind: Kind::Cpu,
            level: None,
        }
    }

    /// The NVIDIA GPU with this number: code is compiled by NVRTC when a call first needs it. Its key is `cuda`, or
    /// `cuda:1` for the second; levels follow a colon: `cuda:sm_90a`. Available in builds with the feature `cuda`; on a
    /// machine without the driver or NVRTC, models on it cannot be loaded, and the error names every place that was
    /// searched.
    ///
    /// ```
    /// use kiln::Device;
    ///
    /// let gpu = Device::cuda(0);
    /// assert_eq!(gpu.to_string(), "cuda");
    /// match "cuda".parse::<Device>() {
    ///     Ok(found) => assert_eq!(found, gpu),
    ///     Err(error) => assert_eq!(error.code(), "E0998"),
    /// }
    /// ```
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: u32) -> Self {
        Self::of_entry(cuda::entry(ordinal))
    }

    /// The devices that this build has or that were [registered](Self::register): the interpreter, the CPU, the GPUs of this
    /// machine, then the others in order of registration.
    pub fn all() -> Vec<Self> {
        let own = [Self::interpreter(), Self::cpu()];
        #[cfg(feature = "cuda")]
        let gpus = cuda::found().into_iter().map(|gpu| Self::of_entry(gpu));
        #[cfg(not(feature = "cuda"))]
        let gpus = std::iter::empty();
        let others = registry::all().into_iter().map(Self::of_entry);
        let all = own.into_iter().chain(gpus).chain(others);
        all.filter(Self::is_available).collect()
    }

    /// Adds a device for the rest of the process. From then on its key is accepted by
    /// [`Options::device`](crate::Options::device) and by anything that parses keys, such as a command line.
    ///
    /// # Errors
    /// `E0974` when the key is taken, or contains anything but lower-case letters, digits and `-`.
    pub fn register(entry: impl DeviceEntry + 'static) -> Result<Self, Error> {
        let entry: Arc<dyn DeviceEntry> = Arc::new(entry);
        registry::add(Arc::clone(&entry), &OWN_KEYS)?;
        Ok(Self::of_entry(entry))
    }

    fn of_entry(entry: Arc<dyn DeviceEntry>) -> Self {
        Self {
            kind: Kind::Other(entry),
            level: None,
        }
    }

    /// Its key, without a level.
    pub fn key(&self) -> &str {
        match &self.kind {
            Kind::Interpreter => INTERPRETER,
            Kind::Cpu => CPU,
            Kind::Other(entry) => entry.key(),
        }
    }

    /// The level that it compiles for, if its key states one.
    pub fn level(&self) -> Option<&str> {
        self.level.as_deref()
    }

    /// The levels that it can compile for here, lowest first; these are the values of
    /// [`Options::target`](crate::Options::target), the highest being the default.
    pub fn levels(&self) -> Vec<String> {
        self.entry().map_or_else(Vec::new, |entry| entry.levels())
    }

    /// The same device at a level.
    ///
    /// # Errors
    /// `E0980` if it does not have that level here.
    pub fn at_level(&self, level: &str) -> Result<Self, Error> {
        let levels = self.levels();
        if !levels.iter().any(|known| known == level) {
            return Err(self.unknown_level(level, &levels));
        }
        Ok(Self {
            kind: self.kind.clone(),
            level: Some(level.to_owned()),
        })
    }

    pub(crate) fn unknown_level(&self, level: &str, levels: &[String]) -> Error {
        let expected = match levels {
            [] => "none: this device has no levels here".to_owned(),
            levels => levels.join(", "),
        };
        Failure::UnknownTarget {
            name: level.escape_debug().to_string(),
            device: self.key().to_owned(),
            expected,
        }
        .into()
    }

    /// Whether this build supports it.
    pub fn is_available(&self) -> bool {
        match self.kind {
            Kind::Interpreter | Kind::Other(_) => true,
            Kind::Cpu => cfg!(feature = "native"),
        }
    }

    /// Whether this build can compile for it, not only run compiled code.
    #[cfg(feature = "native")]
    pub(crate) fn has_compiler(&self) -> bool {
        match self.kind {
            Kind::Interpreter => false,
            Kind::Cpu => cfg!(feature = "llvm"),
            Kind::Other(_) => true,
        }
    }

    /// Whether it interprets.
    pub fn interprets(&self) -> bool {
        matches!(self.kind, Kind::Interpreter)
    }

    /// The limits of fusion for it, and the cost rates that fusion uses.
    pub(crate) fn fusion(&self) -> FusionOptions {
        self.entry()
            .map_or_else(FusionOptions::new, |entry| entry.fusion())
    }

    /// The GPU with this number, if it can be used.
    #[cfg(feature = "cuda")]
    fn of_gpu(ordinal: u32, level: Option<&str>) -> Result<Self, Error> {
        let entry = cuda::entry(ordinal);
        let checked = entry.check();
        let device = Self::of_entry(entry);
        if let Err(problem) = checked {
            let device = device.to_string();
            return Err(Failure::Device { device, problem }.into());
        }
        match level {
            Some(level) => device.at_level(level),
            None => Ok(device),
        }
    }

    /// Its entry; `None` for the interpreter.
    pub(crate) fn entry(&self) -> Option<Arc<dyn DeviceEntry>> {
        match &self.kind {
            Kind::Interpreter => None,
            #[cfg(feature = "native")]
            Kind::Cpu => Some(Arc::new(cpu::Cpu)),
            #[cfg(not(feature = "native"))]
            Kind::Cpu => None,
            Kind::Other(entry) => Some(Arc::clone(entry)),
        }
    }

    /// The error for a device that this build lacks.
    pub(crate) fn unknown(name: &str) -> Error {
        let available: Vec<_> = Self::all().iter().map(ToString::to_string).collect();
        Failure::UnknownName {
            what: "device",
            name: name.escape_debug().to_string(),
            expected: available.join(", "),
        }
        .into()
    }
}

impl Default for Device {
    fn default() -> Self {
        if cfg!(all(feature = "llvm", not(debug_assertions))) {
            Self::cpu()
        } else {
            Self::interpreter()
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.kind, &other.kind) {
            (Kind::Other(one), Kind::Other(another)) => Arc::ptr_eq(one, another),
            _ => self.key() == other.key(),
        };
        is_same && self.level == other.level
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())?;
        match &self.level {
            Some(level) => write!(f, ":{level}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        #[cfg(feature = "cuda")]
        if let Some((ordinal, level)) = cuda::parse(text) {
            return Self::of_gpu(ordinal, level);
        }
        let (key, level) = match text.split_once(':') {
            Some((key, level)) => (key, Some(level)),
            None => (text, None),
        };
        // GPUs are not queried here, because that takes long.
        let own = [Self::interpreter(), Self::cpu()];
        let others = registry::all().into_iter().map(Self::of_entry);
        let mut all = own.into_iter().chain(others).filter(Self::is_available);
        let found = all.find(|device| device.key() == key);
        let device = found.ok_or_else(|| Self::unknown(text))?;
        match level {
            Some(level) => device.at_level(level),
            None => Ok(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_is_an_error_that_lists_those_that_exist() {
        for text in ["abacus", "", "CPU", "abacus:fast"] {
            let error = text.parse::<Device>().unwrap_err();
            assert_eq!(error.code(), "E0974");
            let message = error.to_string();
            let expected = format!("unknown device `{text}`, expected one of: interpreter");
            assert!(message.starts_with(&expected), "{message}");
        }
    }

    #[test]
    fn every_device_of_this_build_is_found_by_its_key() {
        for device in Device::all() {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
            for level in device.levels() {
                let text = format!("{device}:{level}");
                let found: Device = text.parse().unwrap();
                assert_eq!((found.to_string(), found.level()), (text, Some(&*level)));
                assert_ne!(found, device);
            }
        }
        assert_eq!(Device::cpu().is_available(), cfg!(feature = "native"));
    }

    #[test]
    fn an_unknown_level_is_an_error_that_lists_those_of_the_device() {
        let error = "interpreter:fast".parse::<Device>().unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (
                "E0980",
                "cannot compile for `fast` on device interpreter, expected one of its levels: none: this device has \
                 no levels here"
            )
        );
    }

    #[test]
    #[cfg(feature = "cuda")]
    fn a_gpu_that_is_missing_is_a_typed_error_and_the_cpu_works() {
        // No machine has that many.
        let missing = Device::cuda(4096);
        assert_eq!(missing.to_string(), "cuda:4096");
        assert!(missing.levels().is_empty());
        let parsed = "cuda:4096:sm_90a".parse::<Device>().unwrap_err();
        let text = "graph @id(%x: f32[N]) -> f32[N] { return %x }";
        let options = crate::Options::new().device(missing);
        let loaded = options.load(crate::Source::text(text)).unwrap_err();
        for error in [parsed, loaded] {
            assert_eq!(
                (error.code(), error.kind()),
                ("E0998", crate::ErrorKind::Environment)
            );
            let message = error.to_string();
            let is_named = message.contains("libcuda.so.1") || message.contains("CUDA device 4096");
            assert!(
                message.starts_with("device cuda:4096 cannot be used") && is_named,
                "{message}"
            );
        }
        assert!(Device::cpu().is_available());
        assert!(
            !Device::all()
                .iter()
                .any(|device| device.key() == "cuda:4096")
        );
    }

    #[test]
    #[cfg(feature = "cuda")]
    fn keys_of_gpus_have_a_number_and_a_level() {
        let parse = cuda::parse;
        assert_eq!(parse("cuda"), Some((0, None)));
        assert_eq!(parse("cuda:1"), Some((1, None)));
        assert_eq!(parse("cuda:sm_90a"), Some((0, Some("sm_90a"))));
        assert_eq!(parse("cuda:2:sm_80"), Some((2, Some("sm_80"))));
        assert_eq!(
            (parse("cuda:a:b"), parse("cpu"), parse("cudas")),
            (None, None, None)
        );
        assert_eq!(Device::cuda(1), Device::cuda(1));
        assert_ne!(Device::cuda(1), Device::cuda(0));
    }
}
