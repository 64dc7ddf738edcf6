//! The source of a task that was opened from its cache: a name and no splits.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

use crate::source::{
    DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, SourceError, SourceFile, SourceRange,
};

/// A source that is not there.
#[derive(Debug)]
pub(super) struct AbsentSource {
    pub(super) name: String,
}

impl AbsentSource {
    fn refuse<T>(&self) -> Result<T, SourceError> {
        let problem =
            format!("the source `{}` is not at hand: the task was opened from its cache", self.name);
        Err(SourceError::Definition { problem })
    }
}

impl DataSource for AbsentSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::empty())
    }

    fn splits(&self) -> Vec<String> {
        Vec::new()
    }

    fn files(&self, _split: &str) -> Result<Vec<SourceFile>, SourceError> {
        self.refuse()
    }

    fn ranges(&self, _file: &SourceFile, _index: u32) -> Result<FileRanges, SourceError> {
        self.refuse()
    }

    fn read(
        &self,
        _file: &SourceFile,
        _index: u32,
        _range: Option<SourceRange>,
        _skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        self.refuse()
    }

    fn parse(&self, _file: &SourceFile, _chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        self.refuse()
    }

    fn count_records(&self, _file: &SourceFile, _index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        self.refuse()
    }

    fn line_of(&self, _file: &SourceFile, _range: SourceRange, _ordinal: u64) -> Result<u64, SourceError> {
        self.refuse()
    }
}
