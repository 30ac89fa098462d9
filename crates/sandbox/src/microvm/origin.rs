//! Origin of a snapshot: the software and hardware that the snapshot was created with. A snapshot is restored only if
//! its origin is unchanged.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::accelerator::{self, Accelerator};
use super::builder::VmConfig;
use super::emulator;
use crate::rootfs;

/// Software and hardware properties that a snapshot was created with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SnapshotOrigin {
    pub(super) megabytes: u64,
    accelerator: Accelerator,
    /// Digest of the guest agent, its files, and the command lines of QEMU and the kernel.
    assize: String,
    /// Digest of the kernel, its modules and the root file system.
    image: String,
    qemu: String,
    processor: String,
}

/// One property of the origin of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub(super) enum OriginPart {
    #[strum(serialize = "version of assize")]
    Assize,
    #[strum(serialize = "kernel or root file system")]
    Image,
    #[strum(serialize = "QEMU")]
    Qemu,
    Processor,
    Accelerator,
}

impl SnapshotOrigin {
    /// Returns the origin of a snapshot that is created now from a microVM with the init process `first_process`.
    pub(super) fn new(make: &VmConfig, first_process: &[u8]) -> SnapshotOrigin {
        let mut hash = Sha256::new();
        for word in emulator::hardware_arguments(make.accelerator, make.megabytes) {
            hash.update(Sha256::digest(word));
        }
        for part in
            [emulator::KERNEL_COMMAND_LINE.as_bytes(), rootfs::digest().as_bytes(), first_process]
        {
            hash.update(Sha256::digest(part));
        }
        SnapshotOrigin {
            megabytes: make.megabytes,
            accelerator: make.accelerator,
            assize: rootfs::short(hash),
            image: make.parts.image.info.digest.clone(),
            qemu: make.parts.qemu.stamp.clone(),
            processor: accelerator::processor(),
        }
    }

    /// Returns the folder name of snapshots with this origin. Every origin has a different folder name.
    pub(super) fn name(&self) -> String {
        let mut hash = Sha256::new();
        for part in [&self.assize, &self.image, &self.qemu, &self.processor] {
            hash.update(Sha256::digest(part));
        }
        hash.update(self.accelerator.name());
        format!("{}-{}", rootfs::short(hash), self.megabytes)
    }

    /// Returns the properties in which another origin differs from this one; empty if both are the same.
    pub(super) fn differences(&self, other: &SnapshotOrigin) -> Vec<OriginPart> {
        let same = [
            (OriginPart::Assize, self.assize == other.assize),
            (OriginPart::Image, self.image == other.image),
            (OriginPart::Qemu, self.qemu == other.qemu),
            (OriginPart::Processor, self.processor == other.processor),
            (OriginPart::Accelerator, self.accelerator == other.accelerator),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect()
    }
}

#[cfg(test)]
impl SnapshotOrigin {
    pub(super) fn example() -> SnapshotOrigin {
        SnapshotOrigin {
            megabytes: 4,
            accelerator: Accelerator::Emulation,
            assize: "a".to_owned(),
            image: "b".to_owned(),
            qemu: "c".to_owned(),
            processor: "d".to_owned(),
        }
    }

    /// Returns the same origin, but with another value of one property.
    pub(super) fn with_other(mut self, part: OriginPart) -> SnapshotOrigin {
        match part {
            OriginPart::Assize => self.assize.push('!'),
            OriginPart::Image => self.image.push('!'),
            OriginPart::Qemu => self.qemu.push('!'),
            OriginPart::Processor => self.processor.push('!'),
            OriginPart::Accelerator => self.accelerator = Accelerator::Kvm,
        }
        self
    }
}
