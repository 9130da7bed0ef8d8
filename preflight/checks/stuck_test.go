package checks

import (
	"testing"

	"github.com/disagg/disagg/preflight/facts"
)

// TestGIDsNotRead: a rail whose GIDs were not read because a file of the kernel
// did not answer is unknown; one that has none although all was read is bad.
func TestGIDsNotRead(t *testing.T) {
	t.Parallel()
	const port0, port1 = sysIB + "/ionic_0/ports/1", sysIB + "/ionic_1/ports/1"
	f := &facts.Facts{
		Dirs: map[string]facts.Dir{
			sysIB:            {Entries: []string{"ionic_0", "ionic_1"}},
			port0 + "/gids":  {Entries: []string{"1"}},
			port1 + "/gids":  {Entries: []string{"1"}},
			sysIB + "/other": {},
		},
		Files: map[string]facts.File{
			sysIB + "/ionic_0/device/vendor": {Data: "0x1dd8"}, sysIB + "/ionic_1/device/vendor": {Data: "0x1dd8"},
			port0 + "/link_layer": {Data: "Ethernet"}, port1 + "/link_layer": {Data: "Ethernet"},
			port0 + "/state": {Data: "4: ACTIVE"}, port1 + "/state": {Data: "4: ACTIVE"},
			port0 + "/gids/1":            {Data: "0000:0000:0000:0000:0000:ffff:0a01:0006"},
			port0 + "/gid_attrs/types/1": {Data: "RoCE v2"},
		},
	}
	of := func() Verdict {
		for _, x := range judgeGID(NewView(f, &Expect{})) {
			if x.Object == "ionic_1" {
				return x.Verdict
			}
		}
		return Pass
	}
	if got := of(); got != Fail {
		t.Errorf("without a GID, everything read: %s, want fail", got)
	}
	f.Files[port1+"/gids/1"] = facts.File{Err: facts.ErrHung}
	if got := of(); got != Unknown {
		t.Errorf("its GID hung: %s, want unknown", got)
	}
	f.Files[port1+"/gids/1"] = f.Files[port0+"/gids/1"]
	if got := of(); got != Unknown {
		t.Errorf("nobody read of what type its GID is: %s, want unknown", got)
	}
	f.Files[port1+"/gid_attrs/types/1"] = facts.File{Data: "IB/RoCE v1"}
	if got := of(); got != Fail {
		t.Errorf("its GID is of the old type: %s, want fail", got)
	}
}
