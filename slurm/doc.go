// Package slurm speaks with Slurm's command line programs: it submits and finds
// jobs, says what became of them, cancels them, reads nodes and allocations, and
// builds the step that starts the agents.
//
// Two rules hold throughout. An answer is three-valued: a job is there, or the
// scheduler said that it is gone, or nobody knows; a query that failed or was
// silent never means "finished". And output is read by field, compared whole:
// ids, names and marks are never looked for inside other text.
package slurm
