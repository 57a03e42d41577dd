//! A folder whose calls fail on request.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kiln_kernel_cache::{FileInfo, Folder, FolderFile, Fs, SystemFs};

/// Which calls fail, and with which error.
#[derive(Debug)]
pub(crate) struct Plan {
    calls: AtomicUsize,
    /// The index of the first call that fails.
    first: usize,
    /// How many calls fail.
    count: usize,
    /// The system's error number; `None` if the process is killed at that call.
    errno: Option<i32>,
    /// Runs once, after a file has been created or opened for locking: what another process does at that moment.
    meanwhile: Mutex<Option<Meanwhile>>,
}

struct Meanwhile(Box<dyn FnOnce(&str) + Send>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Meanwhile")
    }
}

#[derive(Debug)]
pub(crate) struct FaultyFs {
    inner: SystemFs,
    plan: Arc<Plan>,
}

struct FaultyFolder {
    inner: Box<dyn Folder>,
    plan: Arc<Plan>,
}

struct FaultyFile {
    inner: Box<dyn FolderFile>,
    plan: Arc<Plan>,
}

impl Plan {
    /// This many calls fail, starting at this one.
    pub(crate) fn new(first: usize, count: usize, errno: i32) -> Arc<Self> {
        Self::with(first, count, Some(errno))
    }

    /// The process is killed at this call, in the middle of a write.
    pub(crate) fn killing(call: usize) -> Arc<Self> {
        Self::with(call, 1, None)
    }

    fn with(first: usize, count: usize, errno: Option<i32>) -> Arc<Self> {
        let calls = AtomicUsize::new(0);
        Arc::new(Self {
            calls,
            first,
            count,
            errno,
            meanwhile: Mutex::new(None),
        })
    }

    /// No failures; `meanwhile` runs when the first file has been created or opened for locking, with its name.
    pub(crate) fn meanwhile(meanwhile: impl FnOnce(&str) + Send + 'static) -> Arc<Self> {
        let plan = Self::new(usize::MAX, 0, 0);
        let meanwhile = Meanwhile(Box::new(meanwhile));
        *plan.meanwhile.lock().expect("it is whole") = Some(meanwhile);
        plan
    }

    fn opened(&self, name: &str) {
        let meanwhile = self.meanwhile.lock().expect("it is whole").take();
        if let Some(Meanwhile(meanwhile)) = meanwhile {
            meanwhile(name);
        }
    }

    /// The number of calls.
    pub(crate) fn n_calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn step(&self) -> io::Result<()> {
        self.step_after(|| Ok(()))
    }

    /// A call that takes effect partially before it fails.
    fn step_after(&self, part: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if call < self.first || call - self.first >= self.count {
            return Ok(());
        }
        part()?;
        let Some(errno) = self.errno else {
            // SAFETY: a signal to this process, which ends it at once.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            unreachable!("it was killed");
        };
        Err(io::Error::from_raw_os_error(errno))
    }
}

impl FaultyFs {
    pub(crate) fn new(path: &Path, plan: &Arc<Plan>) -> Self {
        Self {
            inner: SystemFs::new(path),
            plan: Arc::clone(plan),
        }
    }
}

impl FaultyFolder {
    fn file(&self, inner: Box<dyn FolderFile>) -> Box<dyn FolderFile> {
        let plan = Arc::clone(&self.plan);
        Box::new(FaultyFile { inner, plan })
    }
}

impl Fs for FaultyFs {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn user(&self) -> u32 {
        self.inner.user()
    }

    fn make(&self) -> io::Result<()> {
        self.plan.step()?;
        self.inner.make()
    }

    fn open(&self) -> io::Result<Box<dyn Folder>> {
        self.plan.step()?;
        let (inner, plan) = (self.inner.open()?, Arc::clone(&self.plan));
        Ok(Box::new(FaultyFolder { inner, plan }))
    }

    fn info(&self) -> io::Result<FileInfo> {
        self.plan.step()?;
        self.inner.info()
    }
}

impl Folder for FaultyFolder {
    fn info(&self) -> io::Result<FileInfo> {
        self.plan.step()?;
        self.inner.info()
    }

    fn info_of(&self, name: &str) -> io::Result<FileInfo> {
        self.plan.step()?;
        self.inner.info_of(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        self.plan.step()?;
        Ok(self.file(self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        self.plan.step()?;
        let file = self.inner.create(name)?;
        self.plan.opened(name);
        Ok(self.file(file))
    }

    fn open_or_create(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        self.plan.step()?;
        let file = self.inner.open_or_create(name)?;
        self.plan.opened(name);
        Ok(self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.plan.step()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.plan.step()?;
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.plan.step()?;
        self.inner.list()
    }

    fn sync(&self) -> io::Result<()> {
        self.plan.step()?;
        self.inner.sync()
    }
}

impl FolderFile for FaultyFile {
    fn info(&self) -> io::Result<FileInfo> {
        self.plan.step()?;
        self.inner.info()
    }

    fn read(&mut self, n_bytes: usize) -> io::Result<Vec<u8>> {
        self.plan.step()?;
        self.inner.read(n_bytes)
    }

    fn read_into(&mut self, target: &mut [u8]) -> io::Result<()> {
        self.plan.step()?;
        self.inner.read_into(target)
    }

    /// A write that fails after writing a part.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let part = bytes.get(..bytes.len() / 2).unwrap_or_default();
        let inner = &mut self.inner;
        self.plan.step_after(|| inner.write(part))?;
        inner.write(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.plan.step()?;
        self.inner.sync()
    }

    fn touch(&self) -> io::Result<()> {
        self.plan.step()?;
        self.inner.touch()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.plan.step()?;
        self.inner.try_lock()
    }
}
