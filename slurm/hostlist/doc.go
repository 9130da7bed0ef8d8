// Package hostlist reads and writes Slurm's host list expressions, such as
// "gpu-[01-03,07],login1". It is pure, needs no Slurm, and keeps the order it
// is given: a list names ranks as much as hosts.
package hostlist
