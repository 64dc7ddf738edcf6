//! The offline cache of seqio.
