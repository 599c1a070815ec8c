"""Consensus: a pure core after etcd/raft and the thesis, its journal, and both composed."""
