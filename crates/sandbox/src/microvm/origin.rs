//! What a snapshot was made with: it can be restored only with the same.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::accelerator::{self, Accelerator};
use super::emulator;
use super::workshop::Make;
use crate::rootfs;

/// What a snapshot was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    pub(super) megabytes: u64,
    accelerator: Accelerator,
    /// Digest of the guest agent, its files, and the command lines of QEMU and the kernel.
    assize: String,
    /// Digest of the kernel, its modules and the root file system.
    image: String,
    qemu: String,
    processor: String,
}

/// One of the things that a snapshot depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Part {
    #[strum(serialize = "version of assize")]
    Assize,
    #[strum(serialize = "kernel or root file system")]
    Image,
    #[strum(serialize = "QEMU")]
    Qemu,
    Processor,
    Accelerator,
}

impl Origin {
    /// Of a snapshot that is made now, with this first process.
    pub(super) fn new(make: &Make, first_process: &[u8]) -> Origin {
        let mut hash = Sha256::new();
        for word in emulator::shape(make.accelerator, make.megabytes) {
            hash.update(Sha256::digest(word));
        }
        for part in [emulator::KERNEL_WORDS.as_bytes(), rootfs::digest().as_bytes(), first_process]
        {
            hash.update(Sha256::digest(part));
        }
        Origin {
            megabytes: make.megabytes,
            accelerator: make.accelerator,
            assize: rootfs::short(hash),
            image: make.parts.image.info.digest.clone(),
            qemu: make.parts.qemu.stamp.clone(),
            processor: accelerator::processor(),
        }
    }

    /// Name of the snapshot, which no snapshot of another origin has.
    pub(super) fn name(&self) -> String {
        let mut hash = Sha256::new();
        for part in [&self.assize, &self.image, &self.qemu, &self.processor] {
            hash.update(Sha256::digest(part));
        }
        hash.update(self.accelerator.name());
        format!("{}-{}", rootfs::short(hash), self.megabytes)
    }

    /// Everything in which another origin differs; none where both are the same.
    pub(super) fn differences(&self, other: &Origin) -> Vec<Part> {
        let same = [
            (Part::Assize, self.assize == other.assize),
            (Part::Image, self.image == other.image),
            (Part::Qemu, self.qemu == other.qemu),
            (Part::Processor, self.processor == other.processor),
            (Part::Accelerator, self.accelerator == other.accelerator),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect()
    }
}

#[cfg(test)]
impl Origin {
    pub(super) fn example() -> Origin {
        Origin {
            megabytes: 4,
            accelerator: Accelerator::Emulation,
            assize: "a".to_owned(),
            image: "b".to_owned(),
            qemu: "c".to_owned(),
            processor: "d".to_owned(),
        }
    }

    /// The same but for one part.
    pub(super) fn with_other(mut self, part: Part) -> Origin {
        match part {
            Part::Assize => self.assize.push('!'),
            Part::Image => self.image.push('!'),
            Part::Qemu => self.qemu.push('!'),
            Part::Processor => self.processor.push('!'),
            Part::Accelerator => self.accelerator = Accelerator::Kvm,
        }
        self
    }
}
