package e2e

import (
	"os"
	"testing"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
)

// sudoer is a user of the lab who may use docker only through sudo.
var sudoer = lab.User{Name: "sam", UID: 20003, Sudo: true}

// suite is the lab that the tests of this package share.
var suite = world.Suite{Lazy: lab.Lazy{Nodes: 4, Options: []lab.Option{lab.WithImages(), lab.WithUser(sudoer)}}}

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

func newWorld(t *testing.T) *world.World {
	t.Helper()
	return suite.New(t)
}
