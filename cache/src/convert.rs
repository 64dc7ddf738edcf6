//! A finished cache, compressed or decompressed: the same batches in the other form, without task, sources or encoding.
//!
//! ```text
//! <cache>/  ->  .converting-<cache>/ written beside it, shard after shard  ->  the two change places  ->  the old one is deleted
//! ```
//!
//! The result is, to the byte, what a build in that form makes. A job that is stopped leaves the cache as it was.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::build::{BuildConfig, thread_pool};
use crate::columns::StoredColumns;
use crate::commit;
use crate::compression::Compression;
use crate::error::CacheError;
use crate::estimate::free_bytes;
use crate::layout::{
    MANIFEST, cache_fingerprint, converting_folder, is_cache_folder, lock_file, shard_file, shard_files,
};
use crate::lock::BuildLock;
use crate::manifest::{CacheManifest, ShardEntry, SplitManifest};
use crate::store::{Cache, CacheDir, folder_bytes, remove_folder};
use crate::table::Table;
use crate::verify::read_sums;
use crate::writer::{ShardWriter, sum};

/// What became of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Its folder.
    pub folder: PathBuf,
    /// How it was compressed before.
    pub before: Compression,
    /// How it is compressed now.
    pub now: Compression,
    /// Bytes of its files before.
    pub bytes_before: u64,
    /// Bytes of its files now.
    pub bytes_now: u64,
}

impl CacheDir {
    /// Brings a finished cache into another form. Every batch is checked while it is read. `progress` is told how many
    /// of all batches are done, from any thread.
    pub fn convert(
        &self,
        folder: &Path,
        compression: Compression,
        config: &BuildConfig,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Converted, CacheError> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let Some(fingerprint) = cache_fingerprint(name).filter(|_| is_cache_folder(name)) else {
            let problem = "its name is not that of a cache".to_owned();
            return Err(CacheError::NotACache { path: folder.to_owned(), problem });
        };
        let parent =
            folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let cache = Cache::open(folder)?;
        let bytes_before = folder_bytes(folder);
        let before = cache.manifest().compression;
        let unchanged = Converted {
            folder: folder.to_owned(),
            before,
            now: before,
            bytes_before,
            bytes_now: bytes_before,
        };
        if before == compression {
            return Ok(unchanged);
        }
        let _lock = BuildLock::acquire(&parent.join(lock_file(fingerprint)), None, config.take_over)?;
        check_space(parent, cache.manifest(), compression)?;
        let beside = parent.join(converting_folder(name));
        commit::remove(&beside)?;
        let job = Conversion { cache: &cache, beside: &beside, compression, config };
        if let Err(error) = job.run(progress) {
            // What is half written is of no use to anybody.
            let _ = commit::remove(&beside);
            return Err(error);
        }
        change_places(&beside, folder)?;
        commit::sync_folder(parent)?;
        remove_folder(&beside)?;
        Ok(Converted { now: compression, bytes_now: folder_bytes(folder), ..unchanged })
    }
}

/// Refuses to begin what the disk cannot hold.
fn check_space(folder: &Path, manifest: &CacheManifest, compression: Compression) -> Result<(), CacheError> {
    let splits = manifest.splits.values();
    let needed: u64 = match compression {
        // The heads of batches and the ends of lists come on top of the rows.
        Compression::None => splits.map(|split| split.statistics.bytes + split.statistics.bytes / 8).sum(),
        Compression::Zstd => splits.map(SplitManifest::file_bytes).sum(),
    };
    let free = free_bytes(folder)?;
    if needed <= free {
        return Ok(());
    }
    Err(CacheError::DiskTooSmall { path: folder.to_owned(), needed, free })
}

/// Lets two folders change places in one step, or in two where the system cannot.
fn change_places(new: &Path, old: &Path) -> Result<(), CacheError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let mut aside = new.as_os_str().to_owned();
    aside.push(".old");
    let aside = PathBuf::from(aside);
    fs::rename(old, &aside).map_err(CacheError::io("rename", old))?;
    fs::rename(new, old).map_err(CacheError::io("rename", new))?;
    fs::rename(&aside, new).map_err(CacheError::io("rename", &aside))
}

struct Conversion<'a> {
    cache: &'a Cache,
    beside: &'a Path,
    compression: Compression,
    config: &'a BuildConfig,
}

impl Conversion<'_> {
    fn run(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<(), CacheError> {
        self.copy_others()?;
        let pool = thread_pool(self.config, self.beside)?;
        let mut manifest = CacheManifest::clone(self.cache.manifest());
        let shards = manifest.splits.values().flat_map(|split| &split.shards);
        let (done, total) = (AtomicU64::new(0), shards.map(|shard| shard.batches).sum());
        for split in manifest.splits.values_mut() {
            let convert = |entry: &ShardEntry| {
                self.shard(entry, &|| progress(done.fetch_add(1, Ordering::Relaxed) + 1, total))
            };
            split.shards = pool.install(|| split.shards.par_iter().map(convert).collect::<Result<_, _>>())?;
            split.statistics.file_bytes = split.file_bytes();
        }
        manifest.compression = self.compression;
        manifest.format_version = manifest.needed_version();
        manifest.write(self.beside)?;
        commit::sync_folder(self.beside)
    }

    /// Copies what is the same in both forms.
    fn copy_others(&self) -> Result<(), CacheError> {
        let shards = self.cache.manifest().splits.values().flat_map(|split| &split.shards);
        let shards: BTreeSet<PathBuf> =
            shards.flat_map(|shard| shard_files(self.cache.folder(), &shard.name)).collect();
        let keep = |path: &Path| !shards.contains(path) && !path.ends_with(MANIFEST);
        copy_folder(self.cache.folder(), self.beside, &keep)
    }

    fn shard(&self, entry: &ShardEntry, done: &dyn Fn()) -> Result<ShardEntry, CacheError> {
        let folder = self.cache.folder();
        let path = shard_file(folder, &entry.name, "arrow");
        let sums = read_sums(folder, entry)?;
        let table = Table::open_summed(&path, &sums)?;
        let columns = StoredColumns::of_shard(table.schema(), &self.cache.manifest().features)
            .ok_or_else(|| CacheError::damaged(&path, "it has other columns than the manifest says"))?;
        let mut writer = ShardWriter::create(self.beside, &entry.name, &columns, self.compression)?;
        for (batch, known) in sums.batches.iter().enumerate() {
            if self.config.cancel.load(Ordering::Relaxed) {
                return Err(CacheError::Interrupted { done: "the cache as it was".to_owned() });
            }
            if sum(table.batch_bytes(batch)) != known.sum {
                return Err(CacheError::damaged(&path, format!("batch {batch}: its checksum is wrong")));
            }
            writer.write(&table.batch(batch)?)?;
            done();
        }
        let (converted, _) = writer.finish()?;
        if converted.examples != entry.examples || converted.lengths_bytes != entry.lengths_bytes {
            return Err(CacheError::damaged(&path, "it has another number of rows than the manifest says"));
        }
        Ok(converted)
    }
}

/// Copies a folder's files for which `keep` says so.
fn copy_folder(from: &Path, to: &Path, keep: &dyn Fn(&Path) -> bool) -> Result<(), CacheError> {
    commit::create_folder(to)?;
    for entry in fs::read_dir(from).map_err(CacheError::io("read", from))? {
        let path = entry.map_err(CacheError::io("read", from))?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            copy_folder(&path, &target, keep)?;
        } else if keep(&path) {
            let bytes = fs::read(&path).map_err(CacheError::io("read", &path))?;
            commit::write(&target, &bytes, commit::Durability::Disk)?;
        }
    }
    Ok(())
}
