//! One device, shared by all its executors: the driver, the error latch, transfers, and streams for executions.
//!
//! Invariant: once a call has failed with a sticky error, every later operation fails with [`DeviceError::Lost`];
//! releasing resources still works and never panics.

use super::counters::Counters;
use super::error::DeviceError;
use super::lane::Lane;
use super::transfer::Transfers;
use crate::driver::{Driver, DriverError};
use kiln_fork_lock::ForkLock;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The maximum number of idle streams that are kept.
const KEPT_LANES: usize = 16;

/// A device and the state that its executors share.
pub(crate) struct Context {
    driver: Box<dyn Driver>,
    /// The architecture for which its code is compiled: `sm_90a`.
    arch: String,
    name: String,
    is_lost: AtomicBool,
    reason: ForkLock<Option<String>>,
    pub(crate) transfers: Transfers,
    lanes: ForkLock<Vec<Lane>>,
    pub(crate) counters: Counters,
}

impl Context {
    /// A device.
    pub(crate) fn new(driver: Box<dyn Driver>, arch: String) -> Result<Self, DriverError> {
        let name = format!("cuda:{}", driver.device().ordinal);
        let transfers = Transfers::new(&*driver)?;
        Ok(Self {
            driver,
            arch,
            name,
            is_lost: AtomicBool::new(false),
            reason: ForkLock::default(),
            transfers,
            lanes: ForkLock::default(),
            counters: Counters::default(),
        })
    }

    /// The driver.
    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// The architecture for which its code is compiled.
    pub(crate) fn arch(&self) -> &str {
        &self.arch
    }

    /// Its name: `cuda:0`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the device works.
    pub(crate) fn is_healthy(&self) -> bool {
        !self.is_lost.load(Ordering::Acquire)
    }

    /// An error if the device is lost.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        match self.is_healthy() {
            true => Ok(()),
            false => Err(self.lost()),
        }
    }

    fn lost(&self) -> DeviceError {
        let reason = self.reason.lock().clone();
        DeviceError::Lost {
            device: self.name.clone(),
            reason: reason.unwrap_or_else(|| "an earlier error".to_owned()),
        }
    }

    /// Declares the device lost.
    pub(crate) fn lose(&self, error: DriverError) -> DeviceError {
        let mut reason = self.reason.lock();
        reason.get_or_insert_with(|| error.to_string());
        drop(reason);
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            tracing::error!(device = self.name, error = %error, "cuda.lost");
        }
        self.lost()
    }

    /// The error for a failed call, after which the device may be lost.
    pub(crate) fn failed(&self, error: DriverError) -> DeviceError {
        if error.is_sticky() {
            return self.lose(error);
        }
        if !self.is_healthy() {
            return self.lost();
        }
        DeviceError::Call {
            device: self.name.clone(),
            cause: error,
        }
    }

    /// The error for an allocation that failed.
    pub(crate) fn no_memory(&self, error: DriverError, bytes: usize) -> DeviceError {
        if !error.is_out_of_memory() {
            return self.failed(error);
        }
        let (free, total) = match self.driver.memory_info() {
            Ok(found) => found,
            Err(error) => return self.failed(error),
        };
        DeviceError::Memory {
            device: self.name.clone(),
            bytes,
            free,
            total,
        }
    }

    /// The result of a call.
    pub(crate) fn done<T>(&self, result: Result<T, DriverError>) -> Result<T, DeviceError> {
        result.map_err(|error| self.failed(error))
    }

    /// An idle stream, with the memory that an execution needs.
    pub(crate) fn take_lane(&self) -> Result<Lane, DeviceError> {
        self.check()?;
        if let Some(lane) = self.lanes.lock().pop() {
            return Ok(lane);
        }
        Lane::new(&*self.driver).map_err(|error| self.no_memory(error, Lane::BYTES))
    }

    /// Returns a stream whose work is done.
    pub(crate) fn give_lane(&self, lane: Lane) {
        let mut lanes = self.lanes.lock();
        if lanes.len() < KEPT_LANES && self.is_healthy() {
            lanes.push(lane);
        } else {
            drop(lanes);
            lane.end(&*self.driver);
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        for lane in std::mem::take(&mut *self.lanes.lock()) {
            lane.end(&*self.driver);
        }
        self.transfers.end(&*self.driver);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Context")
            .field("device", &self.name)
            .field("arch", &self.arch)
            .field("is_healthy", &self.is_healthy())
            .finish_non_exhaustive()
    }
}
