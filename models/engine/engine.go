package engine

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// Engines.
const (
	SGLang = "sglang"
	VLLM   = "vllm"
	ATOM   = "atom"
)

// Names lists the engines.
func Names() []string { return []string{SGLang, VLLM, ATOM} }

// Input is all that composing depends on.
type Input struct {
	Recipe *models.Recipe
	Site   *models.Site
	Entry  *catalog.Entry
	// Layout is the workers in plan order, with IDs, roles, sizes, nodes,
	// ports and ranks, without argv and env.
	Layout []models.Worker
	// Launcher is models.LauncherSlurm, LauncherSSH or LauncherLocal. Locally
	// all plan nodes are one host, so ports must differ between all of them.
	Launcher string
	// ModelPath is where processes see the weights.
	ModelPath string
	// Where says where a key of the recipe or the site is set, for origins:
	// Where("recipe", "prefill.env.X") is "recipe:FILE:LINE". Nil: origins are
	// "recipe" and "site".
	Where func(document, key string) string
}

// Output is what an engine makes of an Input.
type Output struct {
	// Workers are the layout with argv, env, images and health paths.
	Workers []models.Worker
	// Services start before the workers and run beside them.
	Services []models.Process
	// Router is nil when the recipe asks for none.
	Router *models.Router
	// ModelName is what clients put in the "model" field of a request.
	ModelName string
	// ClientEnv is what the engine wants the client to know.
	ClientEnv []models.EnvVar
	// Origins says where every flag ("flag:decode:--max-running-requests") and
	// every variable ("env:decode:MORI_RDMA_TC") of each scope comes from.
	Origins []models.Origin
	// Warnings are sentences for the plan.
	Warnings []string
}

// Compose builds the processes of a run. The environment of each process is
// complete but for forwarded variables and for variables of the command line:
// adapter, catalog, site and recipe are merged, later ones win.
func Compose(in Input) (Output, []models.FieldError) {
	c := &composer{in: in}
	switch in.Recipe.Engine {
	case SGLang:
		c.sglang()
	case VLLM:
		c.vllm()
	case ATOM:
		c.atom()
	default:
		c.fail("engine", fmt.Sprintf("there is no engine %q; engines: %s", in.Recipe.Engine, strings.Join(Names(), ", ")), "")
	}
	c.restarts()
	return c.out, c.errs
}
