package runtime

import (
	"strings"
	"testing"
)

// FuzzAnswers: whatever a container program says, what is taken from it belongs to
// the run that was asked for, and nothing of it can move a terminal's cursor.
func FuzzAnswers(f *testing.F) {
	f.Add("0123abc\tdisagg-r-w\tUp 2 seconds\tr\tw\t0\n", "r", "w")
	f.Add("0123abc\tx\tExited (137)\tother\tw\t1001\n", "r", "")
	f.Add(`{"Id":"sha256:1","RepoDigests":["b","a"],"Size":1,"Config":{"Env":["A=b","C"],"User":"0"}}`, "", "")
	f.Add("docker: Error response from daemon: \x1b[31mConflict\x1b[0m. The container name is already in use", "", "")
	f.Fuzz(func(t *testing.T, out, run, workload string) {
		found, err := parseList(out, run, workload)
		if err == nil {
			for _, x := range found {
				if x.Run == "" || run != "" && x.Run != run || workload != "" && x.Workload != workload {
					t.Errorf("container %+v was taken for one of run %q, workload %q", x, run, workload)
				}
				_ = x.String()
			}
		}
		if info, err := parseImage([]byte(out)); err == nil && info.ID == "" {
			t.Error("an image without id")
		}
		if err := classify("start container", "image", out); err == nil || strings.ContainsAny(err.Error(), "\x1b\x00") {
			t.Errorf("classified as %q", err)
		}
	})
}
