// Package rundir is the directory of one run: where its plan, job script,
// binary, environment, logs, results and records live.
//
// A run directory is made whole before anything is submitted, is named so that
// no two runs share one, belongs to one user (mode 0700), and carries a marker,
// written last, that names the run and the hash of its plan. Whoever opens it
// later can tell a whole directory of this run from half of one, from another
// user's, and from one whose plan was changed after it was submitted.
//
//	.disagg             marker: run id, owner, hashes; present = whole
//	plan.json           what is to run
//	job.slurm           the batch script
//	bin/disagg          the binary that runs it, by hash
//	env/secrets         secret values, mode 0600; gone once a controller has them
//	env/receipts.jsonl  what each process was to have in its environment, and had
//	claim.json          which controller took the run
//	events.jsonl        what happened
//	preflight.json      what the checks found
//	logs/               one file for each process
//	results/            one directory for each client point
//	result.json         how it ended
//	result.interim.json how it was ending; stays only if its controller was killed then
//	.reserve            room for the result where the disk is full
package rundir
