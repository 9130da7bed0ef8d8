// Package models holds the data of disagg: the three files a user writes
// (recipe, site, catalog entry), the plan that is built from them, and the
// small value types they share.
//
// The package is a leaf: it imports nothing else of this module, starts no
// process, opens no connection and never asks for the time. Loading is strict
// and reports every mistake of a file at once, each with file:line:col.
package models

// APIVersion is the only schema version this build reads.
const APIVersion = "disagg/v1"

// Kinds of document. A file names its kind so that a site given where a recipe
// is expected is one clear error instead of forty unknown keys.
const (
	KindRecipe = "Recipe"
	KindSite   = "Site"
	KindModel  = "Model"
)

// Roles a worker can have. "aggregate" is a worker that does prefill and decode
// itself (single-node runs without disaggregation).
const (
	RolePrefill   = "prefill"
	RoleDecode    = "decode"
	RoleAggregate = "aggregate"
)

// Launchers: how agents are started on nodes.
const (
	LauncherSlurm = "slurm"
	LauncherSSH   = "ssh"
	LauncherLocal = "local"
)

// Scenarios: where the lengths of requests come from.
const (
	ScenarioFixed   = "fixed"   // the client's isl and osl
	ScenarioAgentic = "agentic" // a recorded trace
)
