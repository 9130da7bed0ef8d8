package models

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// checkEnv checks the variables of one EnvMap beyond their names: that the long
// form has a value, that no value has a NUL, and the few whose reader fails
// long after the launch. The rest is the business of package env.
func checkEnv(doc *yamlx.Document, path string, vars EnvMap) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		at := yamlx.Key(path, name)
		value := vars[name].Value
		valueAt := at
		if long := yamlx.Key(at, "value"); doc.Positions.Has(long) {
			valueAt = long
		} else if doc.Positions.Has(yamlx.Key(at, "custom")) {
			doc.Fail(at, at+" has no value", `add "value: …" beside custom`)
			continue
		}
		if doc.Failed(valueAt) {
			continue
		}
		if i := slices.Index([]byte(value), 0); i >= 0 {
			doc.Fail(valueAt, valueAt+" has a NUL character, which no variable can carry", "")
			continue
		}
		switch name {
		case "GLOO_SOCKET_IFNAME":
			if err := checkInterface(value); err != nil {
				doc.Fail(valueAt, fmt.Sprintf("%s: %s", valueAt, err),
					"Gloo needs the name of one interface: no list, no prefix, no ^ exclusion; leave it out to use the site's network.interface")
			}
		case "MORI_IO_QP_MAX_SEND_WR":
			if n, err := strconv.ParseUint(value, 10, 32); err != nil || n == 0 {
				doc.Fail(valueAt, fmt.Sprintf("%s must be a whole number above zero, not %q", valueAt, value), "")
			}
		}
	}
}
