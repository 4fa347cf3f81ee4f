"""Acceptance of headnorm on a machine with a GPU: phases, each within its share of the time, and a report. docs/gpu-acceptance.md."""
