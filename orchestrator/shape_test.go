package orchestrator

import (
	"strings"
	"testing"
)

// TestEnginesOfOtherSizes: what results are labelled with is what the servers say.
func TestEnginesOfOtherSizes(t *testing.T) {
	for _, c := range []struct {
		name, says     string
		code           ExitCode
		cause          string
		warn, unproven string
	}{
		{name: "another tp", says: `{"tp_size":4,"dp_size":1,"disaggregation_mode":"decode"}`, code: ExitLaunch,
			cause: "worker decode-0.0 on gpu-02 is not the planned one: it says tp_size 4, planned is 8"},
		{name: "not disaggregated", says: `{"tp_size":8,"dp_size":8,"disaggregation_mode":"null"}`, code: ExitLaunch,
			cause: `worker decode-0.0 on gpu-02 is not the planned one: it says dp_size 8, planned is 1, disaggregation_mode "null", planned is "decode"`},
		{name: "another ep", says: `{"tp_size":8,"ep_size":8,"disaggregation_mode":"decode"}`,
			warn: "worker decode-0.0 on gpu-02 says ep_size 8, planned is 1; the result is labelled with the plan's"},
		{name: "says nothing", says: "", unproven: "the sizes of workers: decode-0 (GET http://10.0.0.2:8000/get_server_info: HTTP 404"},
		{name: "says something else", says: "[]", unproven: "the sizes of workers: decode-0 (json: cannot unmarshal array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				s.engines["decode-0"].says = c.says
				res := s.start()
				if res.ExitCode != int(c.code) || c.cause != "" && (res.Cause == nil || res.Cause.What != c.cause) {
					t.Errorf("exit code %d, cause %+v", res.ExitCode, res.Cause)
				}
				if all := strings.Join(res.Warnings, "\n"); !strings.Contains(all, c.warn) {
					t.Errorf("warnings %q", all)
				}
				if all := strings.Join(res.Unproven, "\n"); !strings.Contains(all, c.unproven) || c.unproven == "" && strings.Contains(all, "sizes") {
					t.Errorf("unproven %q", all)
				}
			})
		})
	}
}
