"""Caches of other projects, kept by warmstart. Each module imports its host, so import the one that you need.

- `warmstart.hosts.jax`: JAX's persistent compilation cache.
- `warmstart.hosts.cuda_core`: a program cache for `cuda.core`.
"""
