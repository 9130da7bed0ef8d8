package models

import "time"

// The defaults of recipe and site keys that do not depend on anything else.
// They are put in after a file has been read; a key that the file's Positions
// do not have, but whose value is not zero, has its default. Keys whose default
// depends on the model, the engine or the other file stay at zero until
// planning.

// Default values that other packages name.
const (
	PreflightEnforce  = "enforce"
	DefaultRouterPort = 30000
	// DefaultTimeLimit is what the longest sweeps of this kind take.
	DefaultTimeLimit = Duration(8 * time.Hour)
)

// Defaults returns a recipe and a site that have every section and in it nothing
// but defaults, for documentation.
func Defaults() (*Recipe, *Site) {
	r := &Recipe{Prefill: &Role{}, Decode: &Role{}, Aggregate: &Role{}, Speculative: &Speculative{},
		KVOffload: &KVOffload{Mooncake: &MooncakeSpec{}}, Router: &RouterSpec{}, Client: &ClientSpec{}, Evals: &EvalSpec{}}
	r.applyDefaults()
	s := &Site{}
	s.applyDefaults()
	return r, s
}

func (r *Recipe) applyDefaults() {
	put(&r.Scenario, ScenarioFixed)
	put(&r.Preflight.Mode, PreflightEnforce)
	for _, role := range []*Role{r.Prefill, r.Decode, r.Aggregate} {
		if role != nil {
			put(&role.PP, 1)
			put(&role.EP, 1)
		}
	}
	if o := r.KVOffload; o != nil {
		put(&o.Tier, "L2")
	}
	if r.Router != nil {
		put(&r.Router.Port, DefaultRouterPort)
	}
	if r.Client != nil {
		put(&r.Client.PromptsPerConcurrency, 10)
	}
}

func (s *Site) applyDefaults() {
	putBool(&s.SharedFS, true)
	put(&s.Deaf, "fail")

	put(&s.Slurm.TimeLimit, DefaultTimeLimit)
	put(&s.Slurm.GPURequest, "gres")
	put(&s.Slurm.Memory, "0")
	putBool(&s.Slurm.Exclusive, true)

	// sshd lets ten unauthenticated connections stand (MaxStartups) before it
	// drops some at random.
	put(&s.SSH.MaxHandshakes, 8)

	put(&s.Container.Runtime, "docker")
	put(&s.Container.Sudo, "auto")
	put(&s.Container.IPC, "host")
	put(&s.Container.Pull, "missing")
	putBool(&s.Container.Privileged, false)
}

func put[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func putBool(v **Bool, def Bool) {
	if *v == nil {
		*v = &def
	}
}
