"""Raft: a core without I/O after etcd/raft and Ongaro's thesis, its journal, and both together."""
